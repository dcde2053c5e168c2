# SPDX-License-Identifier: Apache-2.0
"""The program as a whole, on made-up files: kills, ranks, bad input, the model's folder.

    masked_lm_e2e.py BINARY CASE
"""

import gzip
import hashlib
import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import tempfile

BINARY, CASE = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
ROOT = pathlib.Path(__file__).resolve().parents[2]
VOCABULARY = 200
TINY = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64,
        "vocab_size": VOCABULARY, "max_position_embeddings": 64, "max_seq_len": 64, "batch_size": 400,
        "learning_rate": 1e-3, "warmup_steps": 2, "num_train_steps": 30, "skip_steps": 1,
        "validation_steps": 20, "validation_batches": 2}


def sample(numbers, left, right, label):
    """[CLS] left [SEP] right [SEP]; neighbouring tokens are alike, so that there is something to learn."""
    start = numbers.randrange(10, VOCABULARY - 60)
    words = [start + numbers.randrange(4) * (1 + i // 4) % 40 for i in range(left + right)]
    tokens = [1, *words[:left], 2, *words[left:], 2]
    types = [0] * (left + 2) + [1] * (right + 1)
    marks = [-1, *[int(i % 3 == 1) for i in range(left)], -1, *[int(i % 2) for i in range(right)], -1]
    fields = [tokens, types, range(len(tokens)), marks]
    return ";".join(" ".join(map(str, field)) for field in fields) + f";{label}\n"


def channel(folder, files=1, samples=160):
    numbers = random.Random(5)
    folder.mkdir(parents=True)
    for number in range(files):
        with gzip.open(folder / f"part{number}.gz", "wt") as out:
            for i in range(samples):
                out.write(sample(numbers, numbers.randrange(2, 25), numbers.randrange(2, 25), i % 2))
    listing = "".join(f"./data/part{number}.gz\t0.7\n" for number in range(files))
    for name in ("train_filelist", "valid_filelist"):
        (folder / name).write_text(listing)
    words = ["[PAD]", "[CLS]", "[SEP]", "[MASK]", "[UNK]", *[f"w{i}" for i in range(5, VOCABULARY)]]
    (folder / "vocab.txt").write_text("".join(f"{word}\t{i}\n" for i, word in enumerate(words)))
    return folder


def command(data, model, checkpoints=None, valid=True, **changes):
    values = {**TINY, **changes}
    line = [str(BINARY), "--train", str(data), "--model", str(model), "--output", str(model) + ".output"]
    line += ["--valid", str(data)] if valid else []
    line += ["--checkpoints", str(checkpoints)] if checkpoints else []
    return line + [f"--{name}={value}" for name, value in values.items()]


def environment(**changes):
    kept = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    return {**kept, "OMP_NUM_THREADS": "1", "TRAINYARD_OPT_ML": "/nonexistent", **changes}


def run(line, expect=0, **changes):
    done = subprocess.run(line, env=environment(**changes), capture_output=True, text=True, timeout=300)
    assert done.returncode == expect, f"exit {done.returncode}, expected {expect}:\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def digest(model):
    return hashlib.sha256((model / "model.safetensors").read_bytes()).hexdigest()


def weights(model):
    """Of model.safetensors: name -> list of numbers."""
    import array
    data = (model / "model.safetensors").read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    return {name: array.array("f", data[8 + size + entry["data_offsets"][0]:8 + size + entry["data_offsets"][1]])
            for name, entry in header.items() if name != "__metadata__"}


def killed(folder):
    """Killed at random points, and once told to stop: ends with the same bytes as undisturbed."""
    data = channel(folder / "data", files=3, samples=60)
    options = {"save_steps": 2, "export_int8": "false", "accumulate": 2, "round_mib": 1}
    run(command(data, folder / "a", folder / "ca", **options))
    numbers, kills, told = random.Random(os.urandom(4)), 0, 0
    for attempt in range(60):
        process = subprocess.Popen(command(data, folder / "b", folder / "cb", **options), env=environment(),
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        lines = numbers.randrange(62, 84) if attempt < 9 else 1_000_000  # some steps each
        for _ in range(lines):
            if not process.stdout.readline():
                break
        else:
            process.send_signal(signal.SIGTERM if attempt == 1 else signal.SIGKILL)
        process.stdout.read()
        code = process.wait()
        kills += code == -signal.SIGKILL
        told += code == 143
        if code == 0:
            break
        assert code in (-signal.SIGKILL, 143), code
    print(f"{kills} kills, {told} stops on request")
    assert code == 0 and kills >= 3 and told == 1, "the training was disturbed and ended"
    assert digest(folder / "a") == digest(folder / "b"), "the same bytes"
    assert not list((folder / "cb").glob(".*")), "nothing half-written stays"


def ranks(folder):
    """Two ranks that share a file are one rank with two micro-batches; with two files each reads its own."""
    for files in (1, 2):
        data = channel(folder / f"data{files}", files=files, samples=120)
        options = {"num_train_steps": 12, "dropout": 0.1, "export_int8": "false"}
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        two = [subprocess.Popen(command(data, folder / f"two{files}", **options), text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                env=environment(RANK=str(rank), WORLD_SIZE="2", LOCAL_RANK=str(rank),
                                                LOCAL_WORLD_SIZE="2", MASTER_ADDR="127.0.0.1",
                                                MASTER_PORT=str(port)))
               for rank in range(2)]
        said = [process.communicate(timeout=300)[0] for process in two]
        assert [process.returncode for process in two] == [0, 0], "\n".join(said)
        assert "step: 12, loss" in said[0] and "loss" not in said[1], "rank 0 alone logs"
        if files == 1:
            run(command(data, folder / "one", accumulate=2, **options))
            one, other = weights(folder / "one"), weights(folder / "two1")
            worst = max(abs(a - b) for name in one for a, b in zip(one[name], other[name]))
            print(f"largest difference of any weight: {worst:.3g}")
            assert worst < 1e-5


def bad(folder):
    """What cannot be used is refused with its name, or skipped and counted."""
    data = channel(folder / "data", samples=60)

    def refused(*words, data=data, expect=1, **changes):
        said = run(command(data, folder / "m", **changes), expect=expect)
        failure = (folder / "m.output" / "failure").read_text()
        for word in words:
            assert word in said and word in failure, f"{word!r} is not in {said}"

    refused("hiden_size", "hidden_size", hiden_size=3)
    refused("learning_rate", "num_train_steps", learning_rate="fast", num_train_steps="many")
    refused("not finite", "learning_rate", learning_rate=1e38, warmup_steps=0, clip_norm=0, max_bad_steps=3)
    refused("vocab.txt has ids up to 199", vocab_size=100)
    refused("max_seq_len 64", max_position_embeddings=32)

    empty = folder / "empty"
    empty.mkdir()
    refused("train_filelist", "empty", data=empty)
    (empty / "train_filelist").write_text("gone.gz\t1.1\n")
    refused("train_filelist:1", "gone.gz", data=empty, valid=False)

    broken = channel(folder / "broken", samples=60)
    packed = (broken / "part0.gz").read_bytes()
    text = gzip.decompress(packed).decode()
    (broken / "part0.gz").write_bytes(gzip.compress((text + "1 2;0 0;0;-1 -1;0\n1 999 2;0 0 0;0 1 2;-1 0 -1;1\n"
                                                     "1 2;0 0;0 1;-1 -1;3\n").encode()))
    said = run(command(broken, folder / "m1", num_train_steps=1, export_int8="false"))
    assert "part0.gz:61" in said and "part0.gz:62" in said and "part0.gz:63" in said, said
    assert "skipped 3 of 63 lines" in said, said
    (broken / "part0.gz").write_bytes(packed[:len(packed) // 2])
    said = run(command(broken, folder / "m2", num_train_steps=1, export_int8="false"))
    assert "part0.gz" in said and "truncated" in said, said
    (broken / "part0.gz").write_bytes(b"1 2;0 0;0 1;-1 -1;0\n")
    refused("part0.gz", "not a gzip file", data=broken)

    run(command(data, folder / "m3", folder / "c", num_train_steps=3, save_steps=2, export_int8="false"))
    said = run(command(data, folder / "m4", folder / "c", hidden_size=16), expect=1)
    assert "shape" in said or "[" in said, said
    wrong = run(command(data, folder / "m5", hidden_size=16, init_checkpoint=folder / "m3/ernie.pt"), expect=1)
    assert "ernie.pt" in wrong and "[" in wrong, wrong


def model(folder):
    """The model's folder loads in Python, and a further training starts from it."""
    data = channel(folder / "data", samples=120)
    said = run(command(data, folder / "m", checkpoints=folder / "states", save_steps=10) +
               ["--config", "schedule=short", "--num_train_steps=20"])
    assert {"config.json", "config.yaml", "ernie.pt", "model.safetensors", "model.ts", "model_int8.ts",
            "vocab.txt"} == {path.name for path in (folder / "m").iterdir()}
    assert "[validation_set] epoch: " in said and "current learning_rate:" in said, said
    losses = [float(line.split("loss: ")[1].split(",")[0]) for line in said.splitlines()
              if line.startswith("epoch: ") and " loss: " in line]
    assert len(losses) == 20 and losses[-1] < losses[0], losses
    again = run(command(data, folder / "m2", num_train_steps=1, init_checkpoint=folder / "m"))
    assert "starts from" in again
    first = float(again.split("step: 1, loss: ")[1].split(",")[0])
    assert first < losses[0] - 0.02, (first, losses)

    written = json.loads('{"checkpoints": "%s", "save_steps": "5"}' % (folder / "w"))
    root = folder / "ml"
    (root / "input/config").mkdir(parents=True)
    (root / "input/config/hyperparameters.json").write_text(
        json.dumps({name: json.dumps(str(value)) for name, value in {**TINY, **written, "num_train_steps": 10}.items()}))
    (root / "input/config/inputdataconfig.json").write_text('{"train": {}, "valid": {}}')
    (root / "input/data").mkdir()
    for name in ("train", "valid"):
        (root / "input/data" / name).symlink_to(data)
    (root / "model").mkdir()
    run([str(BINARY)], TRAINYARD_OPT_ML=str(root))
    assert (root / "model/model.ts").exists() and (folder / "w/step_5/ernie.pt").exists()
    assert (folder / "w/step_10/ernie.pt").exists()

    python = ROOT / ".venv/hf/bin/python"
    if not python.exists():
        print("not compared with transformers: .venv/hf is missing")
        return
    check = """
import sys, torch
from transformers import BertForPreTraining, BertTokenizerFast
folder = sys.argv[1]
state = torch.load(folder + "/ernie.pt", weights_only=True)
model, told = BertForPreTraining.from_pretrained(folder, output_loading_info=True)
assert not told["missing_keys"] and not told["unexpected_keys"], told
model.eval()
script, small = torch.jit.load(folder + "/model.ts"), torch.jit.load(folder + "/model_int8.ts")
ids = torch.randint(5, 200, (3, 20)); types = (torch.arange(20) > 9).long().expand(3, 20)
mask = torch.ones(3, 20, dtype=torch.long); mask[1, 12:] = 0
with torch.no_grad():
    theirs = model(ids, token_type_ids=types, attention_mask=mask)
    words, follows = script(ids, types, mask)
    rough, _ = small(ids, types, mask)
real = mask.bool()
worst = max((theirs.prediction_logits - words)[real].abs().max(), (theirs.seq_relationship_logits - follows).abs().max())
assert worst < 1e-4, worst
assert (rough - words)[real].abs().max() < 1, "int8"
name = "bert.encoder.layer.1.attention.self.key.weight"
assert torch.equal(state["model"][name], model.state_dict()[name])
assert len(BertTokenizerFast.from_pretrained(folder)) == 200
print(f"transformers agrees within {worst:.2g}")
"""
    print(run([str(python), "-c", check, str(folder / "m")], HF_HUB_OFFLINE="1").strip())


with tempfile.TemporaryDirectory() as work:
    {"killed": killed, "ranks": ranks, "bad": bad, "model": model}[CASE](pathlib.Path(work))
