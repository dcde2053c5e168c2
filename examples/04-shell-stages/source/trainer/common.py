"""The network and the data of the recipe, shared by its stages."""

import pathlib

import numpy
import torch
from torch import nn


class Digits(nn.Module):
    """A perceptron that brings its own normalisation, so that the exported model takes raw pixels."""

    def __init__(self, mean, deviation, classes):
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean))
        self.register_buffer("deviation", torch.tensor(deviation))
        self.body = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Dropout(0.2), nn.Linear(256, 256), nn.ReLU(),
                                  nn.Linear(256, classes))

    def forward(self, pixels):
        return self.body((pixels - self.mean) / self.deviation)


def make_model(work):
    mean, deviation = map(float, (work / "global_cmvn").read_text().split())
    return Digits(mean, deviation, len((work / "classes").read_text().split()))


def load(work, part):
    """Pixels and classes of train.csv or dev.csv."""
    rows = numpy.loadtxt(work / f"{part}.csv", delimiter=",", dtype="float32")
    return torch.from_numpy(rows[:, 1:].copy()), torch.from_numpy(rows[:, 0].astype("int64"))


def evaluate(model, pixels, digits):
    """Mean loss and accuracy."""
    model.eval()
    with torch.no_grad():
        scores = model(pixels)
    return nn.functional.cross_entropy(scores, digits).item(), (scores.argmax(1) == digits).float().mean().item()


def work_folder(text):
    return pathlib.Path(text)
