"""Stage 5: the mean of the checkpoints with the least loss on the held-back images."""

import argparse
import json

import torch

from trainer.common import evaluate, load, make_model, work_folder


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", type=work_folder, required=True)
    parser.add_argument("--num", type=int, required=True)
    args = parser.parse_args()
    notes = [json.loads(path.read_text()) for path in args.work.glob("[0-9]*.json")]
    best = sorted(notes, key=lambda note: note["cv_loss"])[:args.num]
    states = [torch.load(args.work / f"{note['epoch']}.pt", weights_only=True) for note in best]
    mean = {name: sum(state[name] for state in states) / len(states) for name in states[0]}
    torch.save(mean, args.work / "average.pt")
    model = make_model(args.work)
    model.load_state_dict(mean)
    cv_loss, accuracy = evaluate(model, *load(args.work, "dev"))
    print(f"averaged epochs {sorted(note['epoch'] for note in best)}: cv_loss {cv_loss:.4f} accuracy {accuracy:.4f}")


if __name__ == "__main__":
    main()
