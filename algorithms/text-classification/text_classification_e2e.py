# SPDX-License-Identifier: Apache-2.0
"""The program as a whole, on made-up texts: kills, ranks, bad input, the model's folder and a start from it.

    text_classification_e2e.py BINARY CASE
"""

import array
import hashlib
import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile

BINARY, CASE = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
ROOT = pathlib.Path(__file__).resolve().parents[2]
WORDS = [f"w{i:02d}" for i in range(60)]
TINY = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "max_length": 32, "batch_size": 8,
        "epochs": 2, "learning_rate": 2e-3, "skip_steps": 1}


def texts(count, seed=3):
    """Good texts have more of the first words, bad ones of the last."""
    numbers = random.Random(seed)
    for _ in range(count):
        label = numbers.randrange(2)
        text = [WORDS[min(59, int(60 * numbers.random() ** (0.5 if label else 2)))] for _ in range(numbers.randrange(3, 20))]
        yield " ".join(text), label


def channel(folder, count=120, seed=3, names=("neg", "pos")):
    folder.mkdir(parents=True)
    rows = [f"{names[label]}\t{text}\n" for text, label in texts(count, seed)]
    (folder / "part.tsv").write_text("label\ttext\n" + "".join(rows))
    (folder / "vocab.txt").write_text("".join(t + "\n" for t in ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]))
    return folder


def command(data, model, checkpoints=None, channels=(), **changes):
    values = {**TINY, **changes}
    line = [str(BINARY), "--train", str(data), "--model", str(model), "--output", str(model) + ".output"]
    for name, folder in channels:
        line += ["--channel", f"{name}={folder}"]
    line += ["--checkpoints", str(checkpoints)] if checkpoints else []
    return line + [f"--{name}={value}" for name, value in values.items() if value is not None]


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
    data = (model / "model.safetensors").read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    return {name: array.array("f", data[8 + size + entry["data_offsets"][0]:8 + size + entry["data_offsets"][1]])
            for name, entry in header.items() if name != "__metadata__"}


def killed(folder):
    """Killed at random points, and once told to stop: ends with the same bytes as undisturbed."""
    data = channel(folder / "data")
    options = {"save_steps": 2, "export_int8": "false", "accumulate": 2, "epochs": 4, "eval_steps": 3}
    run(command(data, folder / "a", folder / "ca", **options))
    numbers, kills, told = random.Random(os.urandom(4)), 0, 0
    for attempt in range(60):
        process = subprocess.Popen(command(data, folder / "b", folder / "cb", **options), env=environment(),
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        steps = numbers.randrange(3, 8) if attempt < 5 else 1_000_000
        for line in process.stdout:
            steps -= line.startswith("step: ")
            if steps == 0:
                process.send_signal(signal.SIGTERM if attempt == 2 else signal.SIGKILL)
        process.stdout.read()
        code = process.wait()
        kills += code == -signal.SIGKILL
        told += code == 143
        if code == 0:
            break
        assert code in (-signal.SIGKILL, 143), code
    print(f"{kills} kills, {told} stops on request")
    assert code == 0 and kills >= 2 and told == 1, "the training was disturbed and ended"
    assert digest(folder / "a") == digest(folder / "b"), "the same bytes"
    assert not list((folder / "cb").glob(".*")), "nothing half-written stays"
    said = run(command(data, folder / "c", folder / "cb", **{**options, "seed": 2}), expect=1)
    assert "other training samples" in said, said


def ranks(folder):
    """Two ranks are one with two micro-batches; every sample is validated once."""
    data, valid = channel(folder / "data"), channel(folder / "valid", 51, seed=4)
    options = {"export_int8": "false", "class_weights": "balanced", "batch_size": 7}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    two = [subprocess.Popen(command(data, folder / "two", channels=[("valid", valid)], **options), text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            env=environment(RANK=str(rank), WORLD_SIZE="2", LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE="2",
                                            MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port)))
           for rank in range(2)]
    said = [process.communicate(timeout=300)[0] for process in two]
    assert [process.returncode for process in two] == [0, 0], "\n".join(said)
    assert "51 samples" in said[0] and "Validation" not in said[1], "rank 0 alone speaks\n" + said[0]
    alone = run(command(data, folder / "one", channels=[("valid", valid)], accumulate=2, **options))
    lines = [[line for line in text.splitlines() if "'accuracy'" in line] for text in (said[0], alone)]
    assert lines[0] == lines[1] and len(lines[0]) == 2, lines
    one, other = weights(folder / "one"), weights(folder / "two")
    worst = max(abs(a - b) for name in one for a, b in zip(one[name], other[name]))
    print(f"largest difference of any weight: {worst:.3g}")
    assert worst < 1e-5


def bad(folder):
    """What cannot be used is refused with its name, or skipped and counted."""
    data = channel(folder / "data")

    def refused(*words, data=data, channels=(), **changes):
        said = run(command(data, folder / "m", channels=channels, **changes), expect=1)
        failure = (folder / "m.output" / "failure").read_text()
        for word in words:
            assert word in said and word in failure, f"{word!r} is not in {said}"

    refused("hiden_size", "hidden_size", hiden_size=3)
    refused("learning_rate", "epochs", learning_rate="fast", epochs="many")
    refused("max_length 600", "512 positions", max_length=600)
    refused("class_weights", class_weights="1,2,3")
    refused("not finite", "learning_rate", learning_rate=1e38, max_grad_norm=0, max_bad_steps=3)
    refused("nothing is downloaded", model_name_or_path="bert-base-uncased")
    (folder / "empty").mkdir()
    refused("holds no data", "empty", data=folder / "empty")
    refused("channel \"model\"", channels=[("model", folder / "gone")])

    broken = channel(folder / "broken")
    with open(broken / "part.tsv", "a") as out:
        out.write("pos\tone\ttoo many\nmaybe\tsome text\npos\t" + "x" * (1 << 21) + "\n")
    said = run(command(broken, folder / "m1", labels="neg,pos", max_steps=1, export_int8="false"))
    for line in (122, 123, 124):
        assert f"part.tsv:{line}" in said, said
    assert "skipped 3 of 123 records" in said, said

    with tarfile.open(folder / "cut.tar.gz", "w:gz") as archive:
        archive.add(broken / "part.tsv", "config.json")
    (folder / "cut").mkdir()
    packed = (folder / "cut.tar.gz").read_bytes()
    (folder / "cut/model.tar.gz").write_bytes(packed[:len(packed) // 2])
    refused("no whole .tar.gz", channels=[("model", folder / "cut")])

    run(command(data, folder / "m3", folder / "c", max_steps=3, export_int8="false"))
    said = run(command(data, folder / "m4", folder / "c", hidden_size=16, export_int8="false"), expect=1)
    assert "shape" in said or "[" in said, said
    refused("hidden_size", "16", channels=[("model", folder / "m3")], hidden_size=16, num_hidden_layers=None)


def model(folder):
    """The folder loads in Python, and as model.tar.gz it is a start."""
    data, test = channel(folder / "data", 400), channel(folder / "test", 100, seed=9)
    said = run(command(data, folder / "m", channels=[("test", test)], epochs=4) + ["--config", "model=tiny"])
    assert {"checkpoint.pt", "config.json", "config.yaml", "model.safetensors", "model.ts", "model_int8.ts",
            "tokenizer_config.json", "vocab.txt"} == {path.name for path in (folder / "m").iterdir()}
    accuracy = [float(line.split("'accuracy': ")[1].rstrip("}")) for line in said.splitlines() if "'accuracy'" in line]
    assert len(accuracy) == 4 and accuracy[-1] > 0.8, said
    metrics = json.loads((folder / "m.output/data/metrics.json").read_text())
    assert metrics["test"]["samples"] == 100 and sum(map(sum, metrics["test"]["confusion_matrix"])) == 100
    assert "Epoch 3, rank 0, Loss" in said and "samples/s" in said, said

    (folder / "channel").mkdir()
    with tarfile.open(folder / "channel/model.tar.gz", "w:gz") as archive:
        for path in (folder / "m").iterdir():
            archive.add(path, path.name)
    sizes = {"hidden_size": None, "num_hidden_layers": None, "num_attention_heads": None}
    again = run(command(data, folder / "m2", channels=[("model", folder / "channel")], max_steps=1, **sizes))
    first = float(again.split("step: 1, ")[1].split("loss: ")[1].split(",")[0])
    assert "starts from" in again and first < 0.5, again
    described = json.loads(run([str(BINARY), "--describe"]))
    assert any(row["name"] == "num_train_epochs" for row in described)

    python = ROOT / ".venv/hf/bin/python"
    if not python.exists():
        print("not compared with transformers: .venv/hf is missing")
        return
    check = """
import sys, torch
from transformers import AutoTokenizer, BertForSequenceClassification
folder, rows = sys.argv[1], [line.split("\\t")[1] for line in open(sys.argv[2]).read().splitlines()[1:]]
model, told = BertForSequenceClassification.from_pretrained(folder, output_loading_info=True)
assert not told["missing_keys"] and not told["unexpected_keys"], told
assert model.config.id2label == {0: "neg", 1: "pos"}, model.config.id2label
model.eval()
tokenizer = AutoTokenizer.from_pretrained(folder)
batch = tokenizer(rows, padding=True, truncation=True, max_length=32, return_tensors="pt")
script, small = torch.jit.load(folder + "/model.ts"), torch.jit.load(folder + "/model_int8.ts")
with torch.no_grad():
    theirs = model(**batch).logits
    ours = script(batch["input_ids"], batch["token_type_ids"], batch["attention_mask"])
    rough = small(batch["input_ids"], batch["token_type_ids"], batch["attention_mask"])
assert (theirs - ours).abs().max() < 1e-4, (theirs - ours).abs().max()
assert (theirs.argmax(1) == rough.argmax(1)).float().mean() > 0.9
state = torch.load(folder + "/checkpoint.pt", weights_only=True)
assert all(torch.equal(state[name], value) for name, value in model.state_dict().items() if "position_ids" not in name)
print("accuracy", (theirs.argmax(1) == torch.tensor([int(line.startswith("pos")) for line in open(sys.argv[2]).read().splitlines()[1:]])).float().mean().item())
"""
    out = run([str(python), "-c", check, str(folder / "m"), str(test / "part.tsv")], HF_HUB_OFFLINE="1")
    theirs = float(out.split("accuracy ")[1].split()[0])
    assert abs(theirs - metrics["test"]["accuracy"]) < 1e-6, (theirs, metrics["test"]["accuracy"])
    print(f"transformers agrees: accuracy {theirs}")


with tempfile.TemporaryDirectory() as work:
    {"killed": killed, "ranks": ranks, "bad": bad, "model": model}[CASE](pathlib.Path(work))
