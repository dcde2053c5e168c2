# SPDX-License-Identifier: Apache-2.0
"""Trains a digit classifier with DistributedDataParallel. Knows only what torchrun promises: the env:// variables.

Every epoch ends with a checkpoint (written beside, then renamed); a start with a checkpoint goes on from it."""

import os
import pathlib
import time

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn

EPOCHS = int(os.environ.get("EPOCHS", "40"))
folder = pathlib.Path(os.environ.get("TRAINYARD_CHECKPOINT_DIR", "checkpoints"))


def save(state):
    temporary = folder / ".last.pt"
    torch.save(state, temporary)
    temporary.rename(folder / "last.pt")


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    pixels, digits = (torch.from_numpy(part) for part in load_digits(return_X_y=True))
    pixels = pixels.float() / 16
    order = torch.randperm(len(digits))
    train, test = order[:1437], order[1437:]

    network = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    model = nn.parallel.DistributedDataParallel(network)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    epoch = 0
    if (folder / "last.pt").exists():
        state = torch.load(folder / "last.pt")
        network.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        epoch = state["epoch"]
    if rank == 0:
        print(f"world of {world}: from epoch {epoch}", flush=True)

    while epoch < EPOCHS:
        shuffled = train[torch.randperm(len(train), generator=torch.Generator().manual_seed(epoch))]
        for batch in shuffled[rank::world].split(64 // world):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(pixels[batch]), digits[batch]).backward()
            optimizer.step()
        epoch += 1
        time.sleep(float(os.environ.get("EPOCH_SECONDS", "0.05")))  # a real epoch takes longer
        if rank == 0:
            save({"model": network.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch})

    if rank == 0:
        accuracy = (network(pixels[test]).argmax(1) == digits[test]).float().mean().item()
        print(f"epochs {epoch}, test accuracy {accuracy:.3f}", flush=True)
    dist.destroy_process_group()


main()
