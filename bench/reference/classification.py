#!/usr/bin/env python3
"""BERT sequence classification with Hugging Face, the loop as the article writes it: everything tokenised first, padded
to max_length, a DataLoader, torch's AdamW with its default weight decay on every parameter, no clipping.

The figures and the quality of trainyard/text-classification are measured against this program. From scratch, because no
pre-trained weights are at hand. Example (after prepare_text.py):
  classification.py OUT/chnsenticorp --layers 2 --hidden 128 --heads 2 --epochs 3
  classification.py OUT/sentence_polarity --model FOLDER      # any folder from_pretrained() reads
"""

import argparse
import csv
import pathlib
import sys
import time

import torch
from torch.utils.data import DataLoader
from transformers import AutoModelForSequenceClassification, BertConfig, BertForSequenceClassification, BertTokenizer

from measure import seconds_since_start, summary


def read_rows(path):
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[1:]
    return [text for _, text in rows], [int(label) for label, _ in rows]


def make_loader(path, tokenizer, o, train):
    texts, labels = read_rows(path)
    texts, labels = (texts[: o.limit], labels[: o.limit]) if o.limit else (texts, labels)
    padding = "max_length" if o.padding == "max_length" else False
    encoded = tokenizer(texts, padding=padding, truncation=True, max_length=o.max_length)
    rows = [{name: values[i] for name, values in encoded.items()} | {"labels": labels[i]} for i in range(len(labels))]

    def collate(batch):
        if o.padding == "longest":
            return dict(tokenizer.pad(batch, return_tensors="pt"))
        return {name: torch.tensor([row[name] for row in batch]) for name in batch[0]}

    order = torch.Generator().manual_seed(o.seed)
    return DataLoader(rows, batch_size=o.batch_size, shuffle=train, collate_fn=collate, generator=order)


@torch.no_grad()
def accuracy(model, loader):
    model.eval()
    right = count = 0
    for batch in loader:
        labels = batch.pop("labels")
        right += (model(**batch).logits.argmax(-1) == labels).sum().item()
        count += len(labels)
    model.train()
    return right / count


def rate_at(update, updates, o):
    """Constant as in the article, or warm-up and then linear to 0."""
    if o.schedule == "constant":
        return o.lr
    warmup = max(1, round(o.warmup_ratio * updates))
    return o.lr * min((update + 1) / warmup, (updates - update) / max(1, updates - warmup))


def make_model(o, tokenizer):
    if o.model:
        return AutoModelForSequenceClassification.from_pretrained(o.model)
    config = BertConfig(vocab_size=len(tokenizer), hidden_size=o.hidden, num_hidden_layers=o.layers, num_attention_heads=o.heads,
                        intermediate_size=4 * o.hidden, hidden_dropout_prob=o.dropout, attention_probs_dropout_prob=o.dropout)  # fmt: skip
    return BertForSequenceClassification(config)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=pathlib.Path, help="folder with train.tsv, dev.tsv, test.tsv and vocab.txt")
    parser.add_argument("--model", help="folder of a pre-trained model; its vocab.txt is used")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--heads", type=int, default=2)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--max-length", type=int, default=128)
    parser.add_argument("--padding", default="max_length", choices=("max_length", "longest"))
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--lr", type=float, default=5e-4)
    parser.add_argument("--schedule", default="linear", choices=("linear", "constant"))
    parser.add_argument("--warmup-ratio", type=float, default=0.1)
    parser.add_argument("--weight-decay", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=int, default=0, help="only so many rows of each file; for figures")
    parser.add_argument("--updates", type=int, default=0, help="stop after so many; 0: all epochs")
    parser.add_argument("--no-test", action="store_true", help="train only")
    parser.add_argument("--uncounted", type=int, default=1, help="updates before samples_per_s is measured")
    parser.add_argument("--save", help="write a checkpoint at the end and tell how long it takes")
    o = parser.parse_args()

    torch.manual_seed(o.seed)
    tokenizer = BertTokenizer.from_pretrained(o.model) if o.model else BertTokenizer(vocab=str(o.data / "vocab.txt"))
    model = make_model(o, tokenizer)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=o.lr, weight_decay=o.weight_decay)
    loader = make_loader(o.data / "train.tsv", tokenizer, o, train=True)
    tests = {} if o.no_test else {name: make_loader(o.data / f"{name}.tsv", tokenizer, o, train=False) for name in ("dev", "test")}
    updates = o.updates or o.epochs * len(loader)
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters, {updates} updates, {torch.get_num_threads()} threads", flush=True)

    done = samples = 0
    trained, first, result = 0.0, None, {}
    for epoch in range(sys.maxsize):
        start = time.monotonic()
        for batch in loader:
            if done == updates:
                break
            for group in optimizer.param_groups:
                group["lr"] = rate_at(done, updates, o)
            loss = model(**batch).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            done += 1
            if first is None:
                first = seconds_since_start()
                print(f"first update, Loss {loss.item():0.4f}", flush=True)
            if done <= o.uncounted:
                start = time.monotonic()
            else:
                samples += len(batch["labels"])
        trained += time.monotonic() - start
        print(f"Epoch {epoch}, rank 0, Loss {loss.item():0.4f}", flush=True)
        if tests:
            result[f"dev_{epoch + 1}"] = round(accuracy(model, tests["dev"]), 5)
            print(f"epoch {epoch} : Validation Accuracy -: {result[f'dev_{epoch + 1}']}", flush=True)
        if done == updates:
            break
    if tests:
        result["dev"] = result[f"dev_{epoch + 1}"]
        result["test"] = round(accuracy(model, tests["test"]), 5)
    if o.save:
        begin = time.monotonic()
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": done}, o.save)
        result["save_pause_ms"] = round((time.monotonic() - begin) * 1000, 2)
    summary(first_update_s=round(first, 3), updates=done, samples_per_s=round(samples / trained, 2), last_loss=loss.item(), **result)


if __name__ == "__main__":
    main()
