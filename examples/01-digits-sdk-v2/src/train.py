# SPDX-License-Identifier: Apache-2.0
"""Training program: reads its channels, prints its metrics, leaves a model. Knows nothing of where it runs."""
import argparse
import os
import pathlib

import numpy as np
import torch
from model import DigitNet
from torch.nn import functional


def load(folder):
    (path,) = sorted(pathlib.Path(folder).glob("*.npz"))
    with np.load(path) as arrays:
        images = torch.from_numpy(arrays["images"]).float().div(16).unsqueeze(1)
        return images, torch.from_numpy(arrays["labels"]).long()


def parse_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--learning-rate", type=float, default=0.002)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--train", default=os.environ.get("SM_CHANNEL_TRAIN"))
    parser.add_argument("--test", default=os.environ.get("SM_CHANNEL_TEST"))
    parser.add_argument("--model-dir", default=os.environ.get("SM_MODEL_DIR"))
    return parser.parse_args()


def accuracy(model, images, labels):
    model.eval()
    with torch.no_grad():
        return (model(images).argmax(1) == labels).float().mean().item()


def main():
    args = parse_arguments()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)  # too small a network to gain from more
    images, labels = load(args.train)
    test_images, test_labels = load(args.test)
    print(f"{len(images)} training and {len(test_images)} test images, torch {torch.__version__}")

    model = DigitNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.learning_rate)
    for epoch in range(1, args.epochs + 1):
        model.train()
        total = 0.0
        for batch in torch.randperm(len(images)).split(args.batch_size):
            loss = functional.cross_entropy(model(images[batch]), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(batch)
        print(
            f"epoch {epoch}: train_loss={total / len(images):.4f} "
            f"test_accuracy={accuracy(model, test_images, test_labels):.4f}",
            flush=True,
        )
    torch.save(model.state_dict(), os.path.join(args.model_dir, "digits.pt"))


if __name__ == "__main__":
    main()
