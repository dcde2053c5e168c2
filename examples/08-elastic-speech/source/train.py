# SPDX-License-Identifier: Apache-2.0
"""Trains a CTC speech model on any number of nodes that come and go.

    python train.py --data DIR model=conv train.epochs=3           # alone
    torchrun --nproc-per-node 2 train.py --data DIR                # or with torchrun, or as a SageMaker job

One object holds the state. Every step is one global batch, the same samples whatever the number of ranks."""

import json
import os
import pathlib
import sys

import torch
import torch.distributed as dist
from torch import nn

import config
import digits
import model as models
from trainyard import Sampler, State, progress, rank, world_size


def learning_rate(step, settings, total):
    """Warm-up, then linear to zero: a function of the step alone, so nothing of it needs to be kept."""
    return settings.learning_rate * min((step + 1) / settings.warmup, 1 - step / total)


def accuracy(model, samples):
    """Share of recordings whose letters are all right."""
    right = 0
    with torch.no_grad():
        for first in range(0, len(samples), 125):
            part = samples[first:first + 125]
            inputs, lengths, _, _ = digits.collate(part)
            words = models.greedy(*model(inputs, lengths))
            right += sum(word == digits.WORDS[digit] for word, (_, digit) in zip(words, part))
    return right / len(samples)


def train(state, recordings, steps, settings, model):
    """One epoch, or what is left of it. `model` is the network or DistributedDataParallel around it."""
    sampler = state.sampler
    for indices in sampler:
        samples = [(digits.masked(recordings[index][0], (settings.seed, sampler.epoch, index), *settings.mask), recordings[index][1])
                   for index in indices]
        inputs, lengths, targets, target_lengths = digits.collate(samples)
        log_probabilities, lengths = model(inputs, lengths)
        losses = nn.functional.ctc_loss(log_probabilities.transpose(0, 1), targets, lengths, target_lengths, reduction="none",
                                        zero_infinity=True)
        loss = (losses / target_lengths).mean() * sampler.weight  # ranks with more samples count for more
        state.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), settings.clip)
        for group in state.optimizer.param_groups:
            group["lr"] = learning_rate(state.steps, settings, steps)
        state.optimizer.step()
        state.steps += 1
        progress(state.steps, steps, f"epoch {sampler.epoch + 1}")
        if state.steps % 10 == 0 and rank() == 0:
            print(f"step={state.steps} of {steps} ranks={world_size()} loss={loss.item():.4f}", flush=True)
        state.checkpoint(state.steps)


def main():
    words = sys.argv[1:]
    folder = os.environ.get("SM_CHANNEL_TRAINING", ".")
    if words[:1] == ["--data"]:
        folder, words = words[1], words[2:]
    settings = config.load(words)
    torch.set_num_threads(1)
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
    torch.set_default_dtype(getattr(torch, settings.train.precision))
    training, test = digits.load(folder)

    torch.manual_seed(settings.train.seed)
    network = models.make(settings.model)
    optimizer = torch.optim.AdamW(network.parameters(), weight_decay=1e-3)
    sampler = Sampler(len(training), seed=settings.train.seed, batch_size=settings.train.batch_size)
    total = len(sampler) * settings.train.epochs
    state = State(model=network, optimizer=optimizer, sampler=sampler, steps=0, every=settings.train.checkpoint_every)
    resumed = state.resume()
    if rank() == 0:
        print(f"{len(training)} training and {len(test)} test recordings, {sum(p.numel() for p in network.parameters()):,} parameters; "
              f"{world_size()} ranks " + (f"go on at step {state.steps}" if resumed else "start"), flush=True)

    model = nn.parallel.DistributedDataParallel(network) if dist.is_initialized() else network
    while sampler.epoch < settings.train.epochs:
        train(state, training, total, settings.train, model)
        if rank() == 0:
            print(f"epoch={sampler.epoch} accuracy={accuracy(network, test):.4f}", flush=True)

    state.save(state.steps)
    if rank() == 0:
        target = pathlib.Path(os.environ.get("SM_MODEL_DIR", "."))
        torch.save(network.state_dict(), target / "model.pt")
        result = {"accuracy": accuracy(network, test), "steps": state.steps, "samples": sampler.epoch * len(training)}
        (target / "result.json").write_text(json.dumps(result))
        print(f"done: {json.dumps(result)}", flush=True)
    state.wait()
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()


main()
