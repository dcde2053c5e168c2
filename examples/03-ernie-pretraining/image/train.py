"""Pre-trains a small ERNIE. Takes the original's hyperparameters, prints the original's log lines.

The channels come from SM_CHANNEL_TRAIN and SM_CHANNEL_VALID; checkpoints and the model go below --checkpoints.
"""

import argparse
import itertools
import json
import math
import os
import pathlib
import time

import torch

from model import Ernie
from reader import Reader

VALIDATION_BATCHES = 4


def boolean(text):
    """'true' of a request arrives as True: the toolkit decodes JSON and prints Python."""
    if text.lower() not in ("true", "false", "1", "0"):
        raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")
    return text.lower() in ("true", "1")


def parse_arguments():
    parser = argparse.ArgumentParser()
    for name in ("use_cuda", "is_distributed", "use_fast_executor", "use_fp16"):
        parser.add_argument(f"--{name}", type=boolean, default=False)
    for name in ("weight_sharing", "in_tokens"):
        parser.add_argument(f"--{name}", type=boolean, default=True)
    parser.add_argument("--batch_size", type=int, default=8192)
    parser.add_argument("--max_seq_len", type=int, default=512)
    parser.add_argument("--num_train_steps", type=int, default=1000000)
    parser.add_argument("--save_steps", type=int, default=10000)
    parser.add_argument("--validation_steps", type=int, default=100)
    parser.add_argument("--skip_steps", type=int, default=10)
    parser.add_argument("--learning_rate", type=float, default=1e-4)
    parser.add_argument("--weight_decay", type=float, default=0.01)
    parser.add_argument("--vocab_path", default="")
    parser.add_argument("--ernie_config_path", default="config/ernie_config.json")
    parser.add_argument("--checkpoints", default=os.environ.get("SM_MODEL_DIR", "checkpoints"))
    return parser.parse_args()


def learning_rate(args, step):
    """Linear warm-up over a tenth of the steps, at most 5,000, then linear decay to nothing."""
    warm_up = min(5000, max(1, args.num_train_steps // 10))
    if step < warm_up:
        return args.learning_rate * (step + 1) / warm_up
    return args.learning_rate * (1 - step / args.num_train_steps)


def make_optimizer(model, args):
    """Adam with decoupled weight decay for all but biases and layer norms."""
    plain = [p for name, p in model.named_parameters() if p.ndim < 2 or "norm" in name]
    decayed = [p for name, p in model.named_parameters() if not (p.ndim < 2 or "norm" in name)]
    return torch.optim.AdamW([{"params": decayed, "weight_decay": args.weight_decay},
                              {"params": plain, "weight_decay": 0.0}], lr=args.learning_rate)


class Meter:
    """Means of the last batches, forgotten at every report."""

    def __init__(self):
        self.reset()

    def reset(self):
        self.rows, self.started = [], time.monotonic()

    def add(self, words, follows, right):
        self.rows.append((words.item(), follows.item(), right.item()))

    def report(self):
        words, follows, right = (sum(column) / len(self.rows) for column in zip(*self.rows))
        speed = len(self.rows) / max(time.monotonic() - self.started, 1e-9)
        return f"loss: {words + follows:f}", words, right, speed


def validate(model, batches, epoch, step):
    meter = Meter()
    model.eval()
    with torch.no_grad():
        for batch in batches:
            meter.add(*model(batch))
    model.train()
    loss, words, right, speed = meter.report()
    each = sum(math.exp(row[0]) for row in meter.rows) / len(meter.rows)
    print(f"[validation_set] epoch: {epoch}, step: {step}, {loss}, global ppl: {math.exp(words):f}, "
          f"batch-averged ppl: {each:f}, next_sent_acc: {right:f}, speed: {speed:f} steps/s", flush=True)


def save(model, config, folder):
    folder.mkdir(parents=True, exist_ok=True)
    torch.save({"config": config, "model": model.state_dict()}, folder / "ernie.pt")
    print(f"saved {folder / 'ernie.pt'}", flush=True)


def check_machine(args):
    if args.use_cuda and not torch.cuda.is_available():
        print("use_cuda: this machine has no CUDA device, training on its processor", flush=True)
    if args.is_distributed:
        raise SystemExit("is_distributed: this trainer runs on one host")
    if args.use_fp16:
        raise SystemExit("use_fp16: needs a CUDA device")


def check_vocabulary(path, config):
    if path:
        entries = sum(1 for line in open(path, encoding="utf-8") if line.strip())
        if entries > config["vocab_size"]:
            raise SystemExit(f"{path} has {entries} entries, the configuration has room for {config['vocab_size']}")
        print(f"vocabulary: {entries} entries", flush=True)


def main():
    args = parse_arguments()
    print("-----------  Configuration Arguments -----------")
    for name, value in sorted(vars(args).items()):
        print(f"{name}: {value}")
    print("------------------------------------------------", flush=True)
    check_machine(args)
    config = json.loads(pathlib.Path(args.ernie_config_path).read_text())
    check_vocabulary(args.vocab_path, config)
    common = (args.batch_size, args.in_tokens, args.max_seq_len, config["vocab_size"])
    train = Reader(os.environ["SM_CHANNEL_TRAIN"], "train_filelist", *common)
    valid = Reader(os.environ["SM_CHANNEL_VALID"], "valid_filelist", *common, seed=2)
    valid = list(itertools.islice(valid, VALIDATION_BATCHES))  # the same words asked every time

    torch.manual_seed(1)
    model = Ernie(config, args.weight_sharing)
    optimizer = make_optimizer(model, args)
    target, meter = pathlib.Path(args.checkpoints), Meter()
    for step, batch in enumerate(itertools.islice(train, args.num_train_steps), 1):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(args, step - 1)
        words, follows, right = model(batch)
        optimizer.zero_grad()
        (words + follows).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        meter.add(words.detach(), follows.detach(), right)
        if step % args.skip_steps == 0:
            loss, ppl, right, speed = meter.report()
            print(f"current learning_rate:{optimizer.param_groups[0]['lr']:f}")
            print(f"epoch: {train.epoch}, progress: {batch.progress}, step: {step}, {loss}, ppl: {math.exp(ppl):f}, "
                  f"next_sent_acc: {right:f}, speed: {speed:f} steps/s, file: {batch.file}, "
                  f"mask_type: {batch.mask_type}", flush=True)
            meter.reset()
        if step % args.save_steps == 0:
            save(model, config, target / f"step_{step}")
        if step % args.validation_steps == 0:
            validate(model, valid, train.epoch, step)
    save(model, config, target)


if __name__ == "__main__":
    main()
