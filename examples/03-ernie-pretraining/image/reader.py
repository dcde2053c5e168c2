# SPDX-License-Identifier: Apache-2.0
"""Reads pre-training samples and masks them.

A channel holds gz files and, as in the original data set, a file list with lines
`path<TAB>share of files masked by word`; only the base name of a path counts, because the files lie
in the channel. A sample is one line of five fields split by `;`: token ids, segment ids, position
ids, word borders (-1 special, 0 first token of a word, 1 continuation), next-sentence label.
"""
import gzip
import pathlib

import numpy as np
import torch

CLS, SEP, MASK = 1, 2, 3
IGNORED = -100


def file_list(channel, list_name):
    folder = pathlib.Path(channel)
    listed = folder / list_name
    if not listed.exists():
        return [(path, 1.1) for path in sorted(folder.rglob("*.gz"))]
    entries = []
    for line in listed.read_text().splitlines():
        path, share = line.split("\t")
        entries.append((folder / pathlib.PurePosixPath(path).name, float(share)))
    return entries


def read_samples(path, max_length):
    """Samples longer than max_length are left out, as the original does."""
    with gzip.open(path, "rt") as lines:
        for line in lines:
            fields = line.rstrip("\n").split(";")
            columns = [np.array(field.split(), dtype=np.int64) for field in fields[:4]]
            if len(columns[0]) <= max_length:
                yield (*columns, int(fields[4]))


def pick_actions(borders, by_word, random):
    """For each token: 0 leave alone, 1 mask, 2 random token, 3 predict but keep."""
    draw = random.random(len(borders))
    if by_word:
        # The first token of a word decides for the whole word.
        word = np.cumsum(borders != 1) - 1
        decides = draw[np.flatnonzero(borders != 1)][word]
    else:
        decides = draw
    chosen = (decides <= 0.15) & (borders != -1)
    kind = random.random(len(borders))
    return np.where(chosen, np.where(kind < 0.8, 1, np.where(kind < 0.9, 2, 3)), 0)


def collate(samples, by_word, vocabulary, random):
    length = max(len(sample[0]) for sample in samples)
    shape = (len(samples), length)
    tokens, segments, positions = (np.zeros(shape, dtype=np.int64) for _ in range(3))
    present = np.zeros(shape, dtype=bool)
    labels = np.full(shape, IGNORED, dtype=np.int64)
    for row, (ids, segment, position, borders, _) in enumerate(samples):
        action = pick_actions(borders, by_word, random)
        labels[row, : len(ids)][action > 0] = ids[action > 0]
        noise = random.integers(1, vocabulary, len(ids))
        tokens[row, : len(ids)] = np.where(action == 1, MASK, np.where(action == 2, noise, ids))
        segments[row, : len(ids)] = segment
        positions[row, : len(ids)] = position
        present[row, : len(ids)] = True
    next_sentence = np.array([sample[4] for sample in samples], dtype=np.int64)
    return tuple(map(torch.from_numpy, (tokens, segments, positions, present, labels, next_sentence)))


def batches(samples, batch_size, in_tokens):
    """Lists of samples; with in_tokens a batch holds at most batch_size padded tokens."""
    batch, longest = [], 0
    for sample in samples:
        longest = max(longest, len(sample[0]))
        full = (len(batch) + 1) * longest > batch_size if in_tokens else len(batch) >= batch_size
        if batch and full:
            yield batch
            batch, longest = [], len(sample[0])
        batch.append(sample)
    if batch:
        yield batch
