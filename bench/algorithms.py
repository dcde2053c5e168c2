#!/usr/bin/env python3
"""The built-in programs side by side with bench/reference, in alternation; see algorithms.sh.

Every figure: the median of ROUNDS (5) runs each, ours and the peer's in turn, 2 threads (THREADS), the same LibTorch. Start and
memory are taken from outside, by the same clock for both: spawn to the line of the first update, peak of the process."""

import json
import os
import pathlib
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from report import row, rows

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAMS = pathlib.Path(sys.argv[1]).resolve()
WANTED = sys.argv[2:]
BUILD = pathlib.Path(os.environ.get("ALGORITHMS_BUILD", ROOT / "build/algorithms"))
DATA = pathlib.Path(os.environ.get("TRAINYARD_DATA", ROOT / "../shared/data"))
ROUNDS = int(os.environ.get("ROUNDS", "5"))
THREADS = os.environ.get("THREADS", "2")
REFERENCE = ROOT / "bench/reference"
TRAIN_PYTHON, HF_PYTHON = ROOT / ".venv/train/bin/python", ROOT / ".venv/hf/bin/python"
WORK = pathlib.Path(tempfile.mkdtemp(prefix="trainyard-bench-"))

# 4 layers of width 256, 4,096 tokens a batch: what trains on two processors in minutes.
ERNIE_OURS = ["--in_tokens", "true", "--batch_size", "4096", "--num_hidden_layers", "4", "--hidden_size", "256", "--num_attention_heads", "4",
              "--intermediate_size", "1024", "--learning_rate", "1e-3", "--warmup_steps", "40", "--export_int8", "false"]  # fmt: skip
ERNIE_PEER = ["--data", DATA / "ernie", "--batch-tokens", "4096", "--layers", "4", "--hidden", "256", "--heads", "4", "--lr", "1e-3",
              "--warmup", "40", "--valid-batches", "0"]  # fmt: skip
TEXT_OURS = ["--num_hidden_layers", "4", "--hidden_size", "256", "--num_attention_heads", "4", "--intermediate_size", "1024",
             "--batch_size", "32", "--max_length", "128", "--learning_rate", "5e-4",
             "--validation_split", "0", "--export_int8", "false"]  # fmt: skip
TEXT_PEER = ["--layers", "4", "--hidden", "256", "--heads", "4", "--batch-size", "32", "--max-length", "128", "--lr", "5e-4", "--no-test"]


class Run:
    """A program from spawn to exit: its lines with the seconds they came at, and its peak memory."""

    def __init__(self, command, until=None, **environment):
        variables = os.environ | {"OMP_NUM_THREADS": THREADS} | environment
        start = time.monotonic()
        with open(WORK / "stderr", "w+") as errors:
            process = subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, stderr=errors, text=True, env=variables)
            self.lines = []
            try:
                for line in process.stdout:
                    self.lines.append((time.monotonic() - start, line.rstrip("\n")))
                    if until and re.search(until, line):
                        process.kill()
                        break
            except BaseException:
                process.kill()
                raise
            process.stdout.close()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            self.peak_mib = usage.ru_maxrss / 1024
            if process.returncode != 0 and not until:
                errors.seek(0)
                raise RuntimeError(f"{command[0]} {command[1]}: exit code {process.returncode}\n{errors.read()[-2000:]}")

    def first(self, pattern):
        """Seconds until a line with this pattern."""
        for seconds, line in self.lines:
            if re.search(pattern, line):
                return seconds
        raise RuntimeError(f"no line matches {pattern!r}:\n" + "\n".join(line for _, line in self.lines[-20:]))

    def numbers(self, pattern):
        return [float(m.group(1)) for _, line in self.lines if (m := re.search(pattern, line))]

    def summary(self):
        return json.loads(next(line for _, line in reversed(self.lines) if line.startswith("summary "))[8:])


def masked_lm(*options, steps, until=None):
    """Fewer steps than the schedule's, so that rates are the same as the peer's."""
    shutil.rmtree(WORK / "model", ignore_errors=True)
    return Run([PROGRAMS / "masked-lm", "--train", DATA / "ernie", "--model", WORK / "model", *ERNIE_OURS, "--num_train_steps", steps, *options], until)


def ernie_peer(*options, steps, until=None):
    return Run([TRAIN_PYTHON, REFERENCE / "ernie.py", *ERNIE_PEER, "--steps", steps, *options], until)


def text_sets():
    """train.tsv, dev.tsv, vocab.txt of each set, prepared once per run; a folder with train.tsv alone as the channel."""
    folder = WORK / "text"
    if not folder.exists():
        subprocess.run([HF_PYTHON, REFERENCE / "prepare_text.py", DATA / "text", folder], check=True, stdout=subprocess.DEVNULL)
        for name in folder.iterdir():
            (name / "train").mkdir()
            for file in ("train.tsv", "vocab.txt"):
                shutil.copy(name / file, name / "train")
    return folder


def classification(name, *options, until=None):
    shutil.rmtree(WORK / "model", ignore_errors=True)
    return Run([PROGRAMS / "text-classification", "--train", text_sets() / name / "train", "--model", WORK / "model", *TEXT_OURS, *options], until)


def classification_peer(name, *options, until=None):
    return Run([HF_PYTHON, REFERENCE / "classification.py", text_sets() / name, *TEXT_PEER, *options], until)


def alternate(ours, peer, rounds=ROUNDS):
    """Medians and the median of the rounds' ratios, which the machine's moods touch less."""
    pairs = [(ours(), peer()) for _ in range(rounds)]
    return statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs), statistics.median(a / b for a, b in pairs)


def curves():
    """The same weights, batches and rates: losses of 200 updates without dropout."""
    updates = int(os.environ.get("CURVE_UPDATES", "200"))
    dump = WORK / "dump.pt"
    small = ["--num_hidden_layers", "2", "--hidden_size", "128", "--num_attention_heads", "2", "--intermediate_size", "512", "--batch_size", "2048"]
    masked_lm(*small, "--dropout", "0", "--dump", dump, "--dump_updates", updates, steps=updates + 1)
    theirs = [line.split() for _, line in Run([TRAIN_PYTHON, REFERENCE / "ernie.py", "--replay", dump, "--heads", "2"]).lines]
    import torch

    ours = [sum(float(part) for part in losses) for losses in torch.load(dump, weights_only=True)["losses"]]
    apart = [abs(a / float(b[1]) - 1) for a, b in zip(ours, theirs, strict=True)]
    row(f"losses of {len(apart)} updates, same weights and batches, no dropout", f"last {ours[-1]:.5f}", f"PyTorch {float(theirs[-1][1]):.5f}",
        f"at most {max(apart):.2e} apart", "0.5 %")  # fmt: skip


def ernie():
    def ours():
        run = masked_lm("--skip_steps", "10", steps=31)
        return statistics.mean(run.numbers(r"(\d+) tokens/s without padding")[1:])

    def peer():
        return ernie_peer("--uncounted", "10", steps=30).summary()["real_tokens_per_s"]

    a, b, ratio = alternate(ours, peer)
    row("ERNIE 4 × 256, real tokens per second from .gz", f"{a:,.0f}", f"PyTorch {b:,.0f}", f"{ratio:.2f} ×", "≥ 1.5 ×")


def samples_per_second(name, updates, options, peer_options):
    def ours():
        run = classification(name, "--max_steps", updates, "--skip_steps", updates // 3, *options)
        return statistics.mean(run.numbers(r"([\d.]+) samples/s")[1:])

    def peer():
        return classification_peer(name, "--updates", updates, "--uncounted", updates // 3, *peer_options).summary()["samples_per_s"]

    return alternate(ours, peer)


def fixed():
    a, b, ratio = samples_per_second("movie_reviews", 45, ["--padding", "max_length"], ["--padding", "max_length"])
    row("classification 4 × 256, samples per second at fixed 128", f"{a:.0f}", f"Hugging Face {b:.0f}", f"{ratio:.2f} ×", "≥ 1.2 ×")


def short():
    a, b, ratio = samples_per_second("sentence_polarity", 120, ["--buckets", "16,24,32,48,64"], ["--padding", "max_length"])
    row("the same, short sentences and buckets", f"{a:.0f}", f"Hugging Face, padded to 128 {b:.0f}", f"{ratio:.2f} ×", "≥ 2.5 ×")
    if os.environ.get("MORE"):
        a, b, ratio = samples_per_second("sentence_polarity", 120, ["--buckets", "16,24,32,48,64"], ["--padding", "longest"])
        row("the same, peer padded to the batch's longest", f"{a:.0f}", f"{b:.0f}", f"{ratio:.2f} ×")


def start():
    """Spawn to the first update's line; peak memory of 30 updates."""
    line = r"step: 1,"
    a, b, ratio = alternate(lambda: masked_lm("--skip_steps", "1", steps=400, until=line).first(line),
                            lambda: ernie_peer("--skip-steps", "1", steps=400, until=line).first(line))  # fmt: skip
    row("ERNIE: process start → first update", f"{a:.2f} s", f"PyTorch {b:.2f} s", f"{ratio:.2f} ×", "≤ 0.3 ×")
    a, b, ratio = alternate(lambda: masked_lm(steps=31).peak_mib, lambda: ernie_peer(steps=30).peak_mib, min(ROUNDS, 3))
    row("ERNIE: peak memory", f"{a:.0f} MiB", f"PyTorch {b:.0f} MiB", f"{ratio:.2f} ×", "≤ 0.8 ×")
    name, first = "sentence_polarity", r"step: 1,|first update"
    a, b, ratio = alternate(lambda: classification(name, "--skip_steps", "1", until=first).first(first),
                            lambda: classification_peer(name, until=first).first(first))  # fmt: skip
    row("classification: process start → first update", f"{a:.2f} s", f"Hugging Face {b:.2f} s", f"{ratio:.2f} ×", "≤ 0.3 ×")
    a, b, ratio = alternate(lambda: classification("movie_reviews", "--max_steps", 30, "--padding", "max_length").peak_mib,
                            lambda: classification_peer("movie_reviews", "--updates", 30).peak_mib, min(ROUNDS, 3))  # fmt: skip
    row("classification: peak memory, fixed 128", f"{a:.0f} MiB", f"Hugging Face {b:.0f} MiB", f"{ratio:.2f} ×", "≤ 0.8 ×")


def tokenizer():
    for name, language in (("chnsenticorp", "Chinese"), ("movie_reviews", "English")):
        folder = text_sets() / name
        arguments = [folder / "train.tsv", folder / "vocab.txt", "3"]

        def speed(*command):
            run = Run([*command, *arguments])
            result = json.loads(run.lines[-1][1])
            return result["mb_per_s"]

        a, b, ratio = alternate(lambda: speed(BUILD / "text/wordpiece_bench"), lambda: speed(HF_PYTHON, REFERENCE / "tokenizer.py"))
        row(f"tokenizer, {language}, one thread", f"{a:.1f} MB/s", f"tokenizers (Rust) {b:.1f} MB/s", f"{ratio:.2f} ×", "≥ 1 ×")


def checkpoint():
    """The pause of training; the same 8 million parameters with AdamW's moments."""
    folder = WORK / "states"

    def ours():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        run = Run([BUILD / "common/training/state_pause", folder, "8", "300", "20", "5"])
        (wait,), (begin,) = run.numbers(r"longest wait ([\d.]+) ms"), run.numbers(r"after_update ([\d.]+) ms")
        return max(wait + begin, 0.01)

    a, b, ratio = alternate(ours, lambda: ernie_peer("--save", WORK / "peer.pt", steps=2).summary()["save_pause_ms"])
    row("checkpoint of 8 M parameters and moments: longest pause", f"{a:.1f} ms", f"torch.save {b:.0f} ms", f"{1 / ratio:.0f} ×", "≤ 10 ms")


def overlap():
    """Two processes of one thread; sums of gradients during the backward pass, and after it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    common = os.environ | {"OMP_NUM_THREADS": "1", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    command = [str(BUILD / "common/training/training_bench"), "overlap"]
    ranks = [subprocess.Popen(command, env=common | {"RANK": str(r), "LOCAL_RANK": str(r)}, stdout=subprocess.PIPE, text=True) for r in range(2)]
    try:
        text = " ".join(rank.communicate(timeout=600)[0].strip() for rank in ranks)
    finally:
        for rank in ranks:
            rank.kill()
    row("all-reduce of two processes, overlapped and not", text, goal="reported")


RECIPES = {"chnsenticorp": (128, 32, 3), "sentence_polarity": (128, 32, 3), "movie_reviews": (256, 16, 8)}  # longest, batch, epochs


def quality():
    """Recipes of reference/README.md, once each with SEED; minutes. Only when named."""
    seed = os.environ.get("SEED", "1")
    run = masked_lm("--valid", DATA / "ernie", "--validation_steps", "400", "--validation_batches", "0", "--random_seed", seed,
                    "--warmup_steps", "100", "--dropout", "0", steps=400)  # fmt: skip
    ours = run.numbers(r"\[validation_set\].*global ppl: ([\d.]+)")[-1]
    theirs = ernie_peer("--valid-batches", "-1", "--seed", seed, "--warmup", "100", "--dropout", "0", steps=400).summary()["valid_ppl"]
    row("ERNIE 4 × 256, validation perplexity after 400 updates", f"{ours:.0f}", f"PyTorch {theirs:.0f}", f"{ours / theirs:.3f} ×", "≤ 663")
    for name, (longest, batch, epochs) in RECIPES.items():
        sets = text_sets() / name
        for part in ("dev", "test"):
            (sets / part).mkdir(exist_ok=True)
            shutil.copy(sets / f"{part}.tsv", sets / part)
        run = classification(name, "--valid", sets / "dev", "--test", sets / "test", "--num_hidden_layers", 2, "--hidden_size", 128, "--num_attention_heads", 2,
                             "--intermediate_size", 512, "--max_length", longest, "--batch_size", batch, "--num_train_epochs", epochs,
                             "--max_grad_norm", 0, "--seed", seed)  # fmt: skip
        dev, test = run.numbers(r"'accuracy': ([\d.]+)")[-1], run.numbers(r"test: accuracy ([\d.]+)")[-1]
        peer = Run([HF_PYTHON, REFERENCE / "classification.py", sets, "--padding", "longest", "--max-length", longest, "--batch-size", batch,
                    "--epochs", epochs, "--seed", seed]).summary()  # fmt: skip
        count = sum(1 for part in ("dev", "test") for _ in open(sets / f"{part}.tsv", encoding="utf-8")) - 2
        error = (peer["test"] * (1 - peer["test"]) / (count / 2)) ** 0.5
        row(f"{name} from scratch, 2 × 128, dev and test accuracy", f"{dev:.1%}, {test:.1%}", f"Hugging Face {peer['dev']:.1%}, {peer['test']:.1%}",
            f"standard error of test {error:.1%}", "not more than one below")  # fmt: skip


FIGURES = [curves, ernie, fixed, short, start, tokenizer, checkpoint, overlap]


def main():
    named = {figure.__name__: figure for figure in [*FIGURES, quality]}
    unknown = set(WANTED) - set(named)
    if unknown:
        sys.exit(f"algorithms.py: no figure {', '.join(sorted(unknown))}; there are {', '.join(named)}")
    if not (DATA / "ernie").is_dir():
        sys.exit(f"algorithms.py: {DATA} is not there; set TRAINYARD_DATA")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # and no program is left behind
    failed = []
    try:
        for figure in [named[name] for name in WANTED] or FIGURES:
            try:
                figure()
            except (RuntimeError, OSError, subprocess.SubprocessError) as error:
                failed.append(figure.__name__)
                print(f"{figure.__name__}: {error}", file=sys.stderr)
    finally:
        shutil.rmtree(WORK, ignore_errors=True)
    print("\n| what | Trainyard | peer | ratio | asked |\n|---|---|---|---|---|")
    for line in rows:
        print("| " + " | ".join(line) + " |")
    print(f"\n{THREADS} threads, {ROUNDS} rounds in alternation, load average at the end {os.getloadavg()[0]:.1f}")
    if failed:
        sys.exit("not measured: " + ", ".join(failed))


if __name__ == "__main__":
    main()
