#!/usr/bin/env python3
"""ERNIE 1.0 pre-training as one writes it in PyTorch: padded batches, nn.Linear, F.dropout, torch.optim.AdamW.

The figures and the quality of trainyard/masked-lm are measured against this program. Example:
  ernie.py --data ../shared/data/ernie --layers 4 --hidden 256 --heads 4 --batch-tokens 4096 --steps 400
  ernie.py --replay dump.pt --heads 4           # the weights and batches of a C++ run, for comparing losses
"""

import argparse
import math
import time

import torch
import torch.nn.functional as F
from torch import nn

from ernie_data import VOCABULARY, batches
from measure import seconds_since_start, summary


class Attention(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.heads, self.dropout = o.heads, o.dropout
        self.self = nn.ModuleDict({name: nn.Linear(o.hidden, o.hidden) for name in ("query", "key", "value")})
        self.output = nn.ModuleDict({"dense": nn.Linear(o.hidden, o.hidden), "LayerNorm": nn.LayerNorm(o.hidden)})

    def forward(self, x, bias):
        samples, length, hidden = x.shape
        q, k, v = (self.self[name](x).view(samples, length, self.heads, -1).transpose(1, 2) for name in ("query", "key", "value"))
        scores = (q * q.shape[-1] ** -0.5) @ k.transpose(2, 3) + bias
        weights = F.dropout(scores.softmax(-1), self.dropout, self.training)
        context = (weights @ v).transpose(1, 2).reshape(samples, length, hidden)
        out = F.dropout(self.output["dense"](context), self.dropout, self.training)
        return self.output["LayerNorm"](x + out)


class Layer(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.dropout, self.act = o.dropout, getattr(F, o.activation)
        self.attention = Attention(o)
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(o.hidden, 4 * o.hidden)})
        self.output = nn.ModuleDict({"dense": nn.Linear(4 * o.hidden, o.hidden), "LayerNorm": nn.LayerNorm(o.hidden)})

    def forward(self, x, bias):
        x = self.attention(x, bias)
        out = self.output["dense"](self.act(self.intermediate["dense"](x)))
        return self.output["LayerNorm"](x + F.dropout(out, self.dropout, self.training))


class Ernie(nn.Module):
    """Post-norm encoder with a masked-word and a next-sentence head; parameters are named as in Hugging Face's BertForPreTraining."""

    def __init__(self, o):
        super().__init__()
        self.dropout, self.act = o.dropout, getattr(F, o.activation)
        embeddings = {
            "word_embeddings": nn.Embedding(o.vocabulary, o.hidden),
            "position_embeddings": nn.Embedding(o.max_position, o.hidden),
            "token_type_embeddings": nn.Embedding(2, o.hidden),
            "LayerNorm": nn.LayerNorm(o.hidden),
        }
        self.bert = nn.ModuleDict({
            "embeddings": nn.ModuleDict(embeddings),
            "encoder": nn.ModuleDict({"layer": nn.ModuleList(Layer(o) for _ in range(o.layers))}),
            "pooler": nn.ModuleDict({"dense": nn.Linear(o.hidden, o.hidden)}),
        })  # fmt: skip
        transform = nn.ModuleDict({"dense": nn.Linear(o.hidden, o.hidden), "LayerNorm": nn.LayerNorm(o.hidden)})
        self.cls = nn.ModuleDict({"predictions": nn.ModuleDict({"transform": transform}), "seq_relationship": nn.Linear(o.hidden, 2)})
        self.cls["predictions"].register_parameter("bias", nn.Parameter(torch.zeros(o.vocabulary)))
        for name, value in self.named_parameters():
            if value.dim() > 1:
                nn.init.trunc_normal_(value, std=0.02, a=-0.04, b=0.04)
            elif not name.endswith("LayerNorm.weight"):
                nn.init.zeros_(value)

    def forward(self, batch):
        """Logits of the selected places and of the sentence pairs."""
        parts = self.bert["embeddings"]
        x = parts["word_embeddings"](batch["tokens"]) + parts["position_embeddings"](batch["positions"])
        x = parts["LayerNorm"](x + parts["token_type_embeddings"](batch["types"]))
        x = F.dropout(x, self.dropout, self.training)
        real = (torch.arange(x.shape[1]) < batch["lengths"][:, None]).to(x.dtype)
        bias = ((real[:, :, None] @ real[:, None, :]) - 1)[:, None] * 10000
        for layer in self.bert["encoder"]["layer"]:
            x = layer(x, bias)
        pooled = torch.tanh(self.bert["pooler"]["dense"](x[:, 0]))
        head = self.cls["predictions"]["transform"]
        chosen = x.reshape(-1, x.shape[-1])[batch["selected"]]
        chosen = head["LayerNorm"](self.act(head["dense"](chosen)))
        words = chosen @ parts["word_embeddings"].weight.T + self.cls["predictions"].bias
        return words, self.cls["seq_relationship"](pooled)


def make_optimizer(model, o):
    decay, rest = [], []
    for name, value in model.named_parameters():
        (rest if name.endswith("bias") or "LayerNorm" in name else decay).append(value)
    groups = [{"params": decay, "weight_decay": o.weight_decay}, {"params": rest, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=o.lr, betas=(0.9, 0.999), eps=1e-8, fused=o.fused or None)


def rate_at(update, o):
    """Warm-up, then linear decay measured from 0, as the original does."""
    step = update + 1 if o.from_one else update
    if step < o.warmup:
        return o.lr * step / o.warmup
    return o.lr * max(0.0, 1 - step / (o.decay_steps or o.steps))


def as_tensors(batch):
    return {name: torch.as_tensor(value) for name, value in batch.items()}


def do_update(model, optimizer, batch, rate, o):
    for group in optimizer.param_groups:
        group["lr"] = rate
    words, pairs = model(batch)
    word_loss, pair_loss = F.cross_entropy(words, batch["labels"]), F.cross_entropy(pairs, batch["nsp"])
    loss = word_loss + pair_loss
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), o.clip)
    optimizer.step()
    return loss.item(), word_loss.item(), (pairs.argmax(1) == batch["nsp"]).float().mean().item()


@torch.no_grad()
def validate(model, o):
    model.eval()
    word_loss = pair_hits = words_seen = pairs_seen = 0
    for number, batch in enumerate(batches(f"{o.data}/valid_filelist", o.batch_tokens, o.max_seq_len, seed=1, train=False)):
        if number == o.valid_batches:
            break
        batch = as_tensors(batch)
        words, pairs = model(batch)
        word_loss += F.cross_entropy(words, batch["labels"], reduction="sum").item()
        words_seen += len(batch["labels"])
        pair_hits += (pairs.argmax(1) == batch["nsp"]).sum().item()
        pairs_seen += len(batch["nsp"])
    model.train()
    return word_loss / words_seen, pair_hits / pairs_seen


def train(o):
    torch.manual_seed(o.seed)
    model = Ernie(o)
    optimizer = make_optimizer(model, o)
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters, {torch.get_num_threads()} threads", flush=True)
    tokens = padded = 0
    losses, first, start, since = [], None, None, time.monotonic()
    for update, batch in enumerate(batches(f"{o.data}/train_filelist", o.batch_tokens, o.max_seq_len, o.seed)):
        if update == o.steps:
            break
        loss, word_loss, hits = do_update(model, optimizer, as_tensors(batch), rate_at(update, o), o)
        losses.append(loss)
        if first is None:
            first = seconds_since_start()
        if update < o.uncounted:
            start = time.monotonic()
        else:
            tokens += int(batch["lengths"].sum())
            padded += batch["tokens"].size
        if (update + 1) % o.skip_steps == 0:
            speed, since = o.skip_steps / (time.monotonic() - since), time.monotonic()
            print(f"step: {update + 1}, loss: {loss:f}, ppl: {math.exp(word_loss):f}, next_sent_acc: {hits:f}, speed: {speed:f} steps/s", flush=True)
    seconds = time.monotonic() - start
    result = dict(first_update_s=round(first, 3), updates=len(losses), first_loss=losses[0], last_loss=losses[-1],
                  real_tokens_per_s=round(tokens / seconds, 1), real_share=round(tokens / max(1, padded), 4))  # fmt: skip
    if o.valid_batches:
        word_loss, hits = validate(model, o)
        print(f"[validation_set] step: {len(losses)}, loss: {word_loss:f}, global ppl: {math.exp(word_loss):f}, next_sent_acc: {hits:f}", flush=True)
        result.update(valid_loss=word_loss, valid_ppl=math.exp(word_loss), valid_nsp=hits)
    if o.save:
        begin = time.monotonic()
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": o.steps}, o.save)
        result["save_pause_ms"] = round((time.monotonic() - begin) * 1000, 2)
    summary(**result)


def padded_batch(packed):
    """From tokens one after the other (as the C++ program has them) to [samples, longest]."""
    lengths = packed["lengths"].long()
    longest, starts = int(lengths.max()), torch.cumsum(lengths, 0) - lengths
    real = torch.arange(longest) < lengths[:, None]
    place = torch.zeros(real.shape, dtype=torch.long)
    place[real] = torch.arange(int(lengths.sum()))
    batch = {name: torch.where(real, packed[name].long()[place], 0) for name in ("tokens", "types", "positions")}
    selected = packed["selected"].long()
    row = torch.searchsorted(starts, selected, right=True) - 1
    batch["selected"] = row * longest + selected - starts[row]
    return batch | {"lengths": lengths, "labels": packed["labels"].long(), "nsp": packed["nsp"].long()}


def replay(o):
    """Losses of the updates another program did, from its weights and batches; one line each: number and loss."""
    dump = torch.load(o.replay, weights_only=True)
    weights = dump["weights"]
    o.vocabulary, o.hidden = weights["bert.embeddings.word_embeddings.weight"].shape
    o.max_position = len(weights["bert.embeddings.position_embeddings.weight"])
    o.layers = 1 + max(int(name.split(".")[3]) for name in weights if name.startswith("bert.encoder.layer."))
    o.dropout = 0.0
    model = Ernie(o)
    tied = {name for name in weights if name.startswith("cls.predictions.decoder.")}
    model.load_state_dict({name: value for name, value in weights.items() if name not in tied})
    optimizer = make_optimizer(model, o)
    for number, (packed, rate) in enumerate(zip(dump["batches"], dump["rates"], strict=True)):
        loss, word_loss, _ = do_update(model, optimizer, padded_batch(packed), float(rate), o)
        print(f"{number} {loss:.9g} {word_loss:.9g}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder with train_filelist and valid_filelist")
    parser.add_argument("--replay", help="file written by masked-lm's dump")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--activation", default="relu", choices=("relu", "gelu"))
    parser.add_argument("--vocabulary", type=int, default=VOCABULARY)
    parser.add_argument("--max-position", type=int, default=513)
    parser.add_argument("--max-seq-len", type=int, default=512)
    parser.add_argument("--batch-tokens", type=int, default=8192)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--skip-steps", type=int, default=10)
    parser.add_argument("--lr", type=float, default=1e-4)
    parser.add_argument("--warmup", type=int, default=5000)
    parser.add_argument("--decay-steps", type=int, default=0, help="where the rate reaches 0; default: --steps")
    parser.add_argument("--from-one", action="store_true", help="the first update's rate is that of step 1, not 0")
    parser.add_argument("--weight-decay", type=float, default=0.01)
    parser.add_argument("--clip", type=float, default=1.0)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--fused", action="store_true", help="AdamW(fused=True)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--valid-batches", type=int, default=-1, help="0: no validation; -1: all")
    parser.add_argument("--uncounted", type=int, default=1, help="updates before real_tokens_per_s is measured")
    parser.add_argument("--save", help="write a checkpoint at the end and tell how long it takes")
    o = parser.parse_args()
    if not o.replay and not o.data:
        parser.error("--data or --replay is needed")
    replay(o) if o.replay else train(o)


if __name__ == "__main__":
    main()
