"""Stage 4: trains, leaves one checkpoint per epoch with its loss on the held-back images."""

import argparse
import json

import torch
from torch import nn

from trainer.common import evaluate, load, make_model, work_folder


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", type=work_folder, required=True)
    parser.add_argument("--epochs", type=int, required=True)
    args = parser.parse_args()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    pixels, digits = load(args.work, "train")
    held_back = load(args.work, "dev")
    model = make_model(args.work)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(args.epochs):
        model.train()
        for batch in torch.randperm(len(digits)).split(32):
            loss = nn.functional.cross_entropy(model(pixels[batch]), digits[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        cv_loss, accuracy = evaluate(model, *held_back)
        torch.save(model.state_dict(), args.work / f"{epoch}.pt")
        (args.work / f"{epoch}.json").write_text(json.dumps({"epoch": epoch, "cv_loss": cv_loss}))
        print(f"Epoch {epoch} CV info cv_loss {cv_loss:.4f} accuracy {accuracy:.4f}", flush=True)


if __name__ == "__main__":
    main()
