# SPDX-License-Identifier: Apache-2.0
"""Masked-language-model pre-training with the options and the log lines of the original recipe.

Reads the channels `train` and `valid` and leaves checkpoints and the final weights in SM_MODEL_DIR.
"""
import argparse
import itertools
import json
import math
import os
import pathlib
import time

import numpy as np
import reader
import torch
from network import Ernie


def boolean(text):
    """The original's spelling: true, t and 1 in any case are true."""
    return text.lower() in ("true", "t", "1")


def parse_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--use_cuda", type=boolean, default=False)
    parser.add_argument("--is_distributed", type=boolean, default=False)
    parser.add_argument("--use_fast_executor", type=boolean, default=False)
    parser.add_argument("--weight_sharing", type=boolean, default=True)
    parser.add_argument("--in_tokens", type=boolean, default=True)
    parser.add_argument("--batch_size", type=int, default=8192)
    parser.add_argument("--vocab_path", default="./config/vocab.txt")
    parser.add_argument("--num_train_steps", type=int, default=1000000)
    parser.add_argument("--checkpoints", default="checkpoints")
    parser.add_argument("--save_steps", type=int, default=10000)
    parser.add_argument("--ernie_config_path", default="./config/ernie_config.json")
    parser.add_argument("--learning_rate", type=float, default=1e-4)
    parser.add_argument("--use_fp16", type=boolean, default=False)
    parser.add_argument("--weight_decay", type=float, default=0.01)
    parser.add_argument("--max_seq_len", type=int, default=512)
    parser.add_argument("--skip_steps", type=int, default=10)
    parser.add_argument("--validation_steps", type=int, default=100)
    parser.add_argument("--warmup_steps", type=int, default=None)
    return parser.parse_args()


def parameter_groups(model, weight_decay):
    """No decay for biases and layer norms."""
    decayed = [p for p in model.parameters() if p.dim() > 1]
    plain = [p for p in model.parameters() if p.dim() <= 1]
    return [{"params": decayed, "weight_decay": weight_decay}, {"params": plain, "weight_decay": 0}]


def rate_at(step, args):
    warmup = args.warmup_steps or max(1, args.num_train_steps // 10)
    if step < warmup:
        return args.learning_rate * (step + 1) / warmup
    return args.learning_rate * max(0.0, 1 - step / args.num_train_steps)


def train_stream(args, vocabulary, random):
    """Endless batches with where they come from: (epoch, file number, files, name, mode, tensors)."""
    files = reader.file_list(os.environ["SM_CHANNEL_TRAIN"], "train_filelist")
    if not files:
        raise SystemExit("the channel train holds neither train_filelist nor any .gz file")
    for epoch in itertools.count():
        random.shuffle(files)
        for number, (path, word_share) in enumerate(files, 1):
            by_word = random.random() < word_share
            samples = list(reader.read_samples(path, args.max_seq_len))
            random.shuffle(samples)
            for batch in reader.batches(samples, args.batch_size, args.in_tokens):
                tensors = reader.collate(batch, by_word, vocabulary, random)
                mode = "mask_word" if by_word else "mask_char"
                yield epoch, number, len(files), path.name, mode, tensors


def load_validation(args, vocabulary, limit):
    """The same batches, masked the same way, at every validation."""
    random = np.random.default_rng(7)
    files = reader.file_list(os.environ["SM_CHANNEL_VALID"], "valid_filelist")
    samples = (s for path, _ in files for s in reader.read_samples(path, args.max_seq_len))
    chosen = itertools.islice(reader.batches(samples, args.batch_size, args.in_tokens), limit)
    return [reader.collate(batch, True, vocabulary, random) for batch in chosen]


def validate(model, validation, epoch, step):
    model.eval()
    started, losses, right, count = time.monotonic(), [], 0, 0
    with torch.no_grad():
        for tensors in validation:
            language_loss, sentence_loss, correct = model(*tensors)
            losses.append((language_loss.item(), sentence_loss.item()))
            right += correct.sum().item()
            count += len(correct)
    model.train()
    language = float(np.mean([loss for loss, _ in losses]))
    total = language + float(np.mean([loss for _, loss in losses]))
    averaged = float(np.mean([math.exp(loss) for loss, _ in losses]))
    speed = len(losses) / max(time.monotonic() - started, 1e-9)
    print(
        f"[validation_set] epoch: {epoch}, step: {step}, loss: {total:f}, "
        f"global ppl: {math.exp(language):f}, batch-averged ppl: {averaged:f}, "
        f"next_sent_acc: {right / count:f}, speed: {speed:f} steps/s",
        flush=True,
    )
    return total


class Progress:
    """Sums since the last log line."""

    def __init__(self):
        self.reset()

    def reset(self):
        self.started, self.losses, self.language, self.right = time.monotonic(), [], [], []

    def add(self, language_loss, sentence_loss, correct):
        self.losses.append(language_loss.item() + sentence_loss.item())
        self.language.append(language_loss.item())
        self.right.append(correct.float().mean().item())

    def report(self, rate, epoch, number, files, step, name, mode):
        speed = len(self.losses) / max(time.monotonic() - self.started, 1e-9)
        print(f"current learning_rate:{rate:f}")
        print(
            f"epoch: {epoch}, progress: {number}/{files}, step: {step}, "
            f"loss: {np.mean(self.losses):f}, ppl: {math.exp(np.mean(self.language)):f}, "
            f"next_sent_acc: {np.mean(self.right):f}, speed: {speed:f} steps/s, "
            f"file: {name}, mask_type: {mode}",
            flush=True,
        )
        self.reset()


def save(model, folder, name):
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(model.state_dict(), folder / name)


def main():
    args = parse_arguments()
    for name, value in sorted(vars(args).items()):
        print(f"{name}: {value}")
    if args.use_cuda and not torch.cuda.is_available():
        print("use_cuda is set, but this machine shows no CUDA device: training on the CPU")
    config = json.loads(pathlib.Path(args.ernie_config_path).read_text())
    model_dir = pathlib.Path(os.environ["SM_MODEL_DIR"])
    checkpoints = model_dir / pathlib.PurePosixPath(args.checkpoints).name

    torch.manual_seed(1)
    random = np.random.default_rng(1)
    model = Ernie(config, args.weight_sharing)
    print(f"{sum(p.numel() for p in model.parameters())} parameters, torch {torch.__version__}")
    optimizer = torch.optim.AdamW(parameter_groups(model, args.weight_decay), eps=1e-8)
    validation = load_validation(args, config["vocab_size"], limit=4)

    progress = Progress()
    stream = train_stream(args, config["vocab_size"], random)
    for step, (epoch, number, files, name, mode, tensors) in enumerate(stream, 1):
        rate = rate_at(step - 1, args)
        for group in optimizer.param_groups:
            group["lr"] = rate
        language_loss, sentence_loss, correct = model(*tensors)
        optimizer.zero_grad()
        (language_loss + sentence_loss).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        progress.add(language_loss.detach(), sentence_loss.detach(), correct)
        if step % args.skip_steps == 0:
            progress.report(rate, epoch, number, files, step, name, mode)
        if step % args.save_steps == 0:
            save(model, checkpoints, f"step_{step}.pt")
        if step % args.validation_steps == 0:
            validate(model, validation, epoch, step)
        if step >= args.num_train_steps:
            break
    save(model, model_dir, "ernie.pt")
    (model_dir / "ernie_config.json").write_text(json.dumps(config, indent=2))


if __name__ == "__main__":
    main()
