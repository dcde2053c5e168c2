"""Trains a small convolutional network on 8x8 handwritten digits. Knows SageMaker only by its environment variables."""

import argparse
import os
import pathlib

import numpy
import torch
from torch import nn


class Digits(nn.Module):
    """Two convolutions and two linear layers: about 35,000 parameters."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(),
            nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        )
        self.classify = nn.Sequential(nn.Flatten(), nn.Dropout(0.2), nn.Linear(512, 64), nn.ReLU(), nn.Linear(64, 10))

    def forward(self, pixels):
        return self.classify(self.features(pixels.view(-1, 1, 8, 8) / 16.0))


def load(folder):
    """Every CSV file of a channel: the digit, then its 64 pixels."""
    files = sorted(pathlib.Path(folder).glob("*.csv"))
    if not files:
        raise SystemExit(f"no *.csv in {folder}")
    rows = numpy.concatenate([numpy.loadtxt(file, delimiter=",", dtype="float32", ndmin=2) for file in files])
    return torch.from_numpy(rows[:, 1:].copy()), torch.from_numpy(rows[:, 0].astype("int64"))


def accuracy(model, pixels, digits):
    model.eval()
    with torch.no_grad():
        return (model(pixels).argmax(1) == digits).float().mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--learning-rate", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--train", default=os.environ.get("SM_CHANNEL_TRAIN"))
    parser.add_argument("--test", default=os.environ.get("SM_CHANNEL_TEST"))
    parser.add_argument("--model-dir", default=os.environ.get("SM_MODEL_DIR"))
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    torch.set_num_threads(1)  # the network is too small to gain from more
    pixels, digits = load(args.train)
    test_pixels, test_digits = load(args.test)
    print(f"{len(digits)} training images, {len(test_digits)} test images", flush=True)

    model = Digits()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.learning_rate)
    for epoch in range(1, args.epochs + 1):
        model.train()
        total = 0.0
        for batch in torch.randperm(len(digits)).split(args.batch_size):
            loss = nn.functional.cross_entropy(model(pixels[batch]), digits[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(batch)
        print(f"epoch={epoch} loss={total / len(digits):.4f} accuracy={accuracy(model, test_pixels, test_digits):.4f}",
              flush=True)

    model.eval()
    target = pathlib.Path(args.model_dir) / "model.pt"
    torch.jit.script(model).save(str(target))
    print(f"saved {target}", flush=True)


if __name__ == "__main__":
    main()
