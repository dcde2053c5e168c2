# SPDX-License-Identifier: Apache-2.0
"""Fine-tunes a classifier of film reviews on every worker torchrun starts. Knows SageMaker by its variables alone."""

import argparse
import os
import pathlib
import random
import zipfile

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler
from tqdm import tqdm

import bert


class Reviews(Dataset):
    def __init__(self, samples, tokenizer, max_length):
        self.samples = [(tokenizer(text, max_length), label) for text, label in samples]

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        return (index, *self.samples[index])


def collate(samples):
    numbers, texts, labels = zip(*samples)
    ids = torch.nn.utils.rnn.pad_sequence([torch.tensor(text) for text in texts], batch_first=True)
    return torch.tensor(numbers), ids, torch.tensor(labels)


def load(folder, limit):
    """(text, 0 or 1) of rt-polarity.neg and .pos, in an order that is the same everywhere."""
    with zipfile.ZipFile(next(pathlib.Path(folder).glob("*.zip"))) as archive:
        samples = [(line, label) for label, name in enumerate(("neg", "pos"))
                   for line in archive.read(f"sentence_polarity/rt-polarity.{name}").decode("latin-1").splitlines()]
    random.Random(1).shuffle(samples)
    return samples[:limit]


def evaluate(model, loader, count):
    """Every rank predicts its share; rank 0 gathers them. The sampler repeats some to give all ranks as many: counted once."""
    model.eval()
    numbers, right = [], []
    with torch.no_grad():
        for batch, ids, labels in loader:
            numbers.append(batch)
            right.append(model(ids)[1].argmax(1) == labels)
    numbers, right = torch.cat(numbers), torch.cat(right)
    gathered = [[torch.empty_like(part) for _ in range(dist.get_world_size())] if dist.get_rank() == 0 else None
                for part in (numbers, right)]
    dist.gather(numbers, gathered[0])
    dist.gather(right, gathered[1])
    if dist.get_rank() != 0:
        return None
    answers = torch.full((count,), -1, dtype=torch.long)
    answers[torch.cat(gathered[0])] = torch.cat(gathered[1]).long()
    assert bool((answers >= 0).all()), "every sample was predicted by somebody"
    return answers.double().mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--per_device_train_batch_size", type=int, default=16)
    parser.add_argument("--learning_rate", type=float, default=1e-3)
    parser.add_argument("--max_length", type=int, default=48)
    parser.add_argument("--limit", type=int, default=None)
    parser.add_argument("--seed", type=int, default=100)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    samples = load(os.environ["SM_CHANNEL_TRAIN"], args.limit)
    cut = len(samples) * 3 // 4
    tokenizer = bert.Tokenizer.train([text for text, _ in samples[:cut]], 8000)
    train, test = (Reviews(part, tokenizer, args.max_length) for part in (samples[:cut], samples[cut:]))
    if rank == 0:
        print(f"{len(train)} training and {len(test)} test reviews, {len(tokenizer.vocabulary)} word pieces, {world} workers on "
              f"{os.environ.get('SM_HOSTS', 'this machine')}", flush=True)

    sampler = DistributedSampler(train, seed=args.seed)
    loader = DataLoader(train, args.per_device_train_batch_size, sampler=sampler, collate_fn=collate)
    test_loader = DataLoader(test, 64, sampler=DistributedSampler(test, shuffle=False), collate_fn=collate)
    model = DistributedDataParallel(bert.BertForSequenceClassification(len(tokenizer.vocabulary)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate)
    for epoch in range(args.epochs):
        model.train()
        sampler.set_epoch(epoch)
        for _, ids, labels in tqdm(loader, disable=rank != 0, mininterval=2, desc=f"epoch {epoch}"):
            optimizer.zero_grad()
            loss, _ = model(ids, labels)
            loss.backward()
            optimizer.step()
        print(f"Epoch {epoch}, rank {rank}, Loss {loss.item():0.4f}", flush=True)
        accuracy = evaluate(model, test_loader, len(test))
        if rank == 0:
            print(f"epoch {epoch} : Validation Accuracy -: {{'accuracy': {accuracy:.4f}}}", flush=True)

    if rank == 0:
        target = pathlib.Path(os.environ["SM_MODEL_DIR"])
        torch.save(model.module.state_dict(), target / "checkpoint.pt")
        (target / "vocab.txt").write_text("\n".join(tokenizer.vocabulary) + "\n")
    dist.barrier()
    dist.destroy_process_group()


main()
