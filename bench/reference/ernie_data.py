"""ERNIE 1.0's reader: gz lines of five fields, a shuffle buffer, batches by padded tokens, masking by word or character."""

import gzip
import pathlib

import numpy as np

PAD, CLS, SEP, MASK = 0, 1, 2, 3
VOCABULARY = 18000


def read_filelist(path):
    """[(file, probability that the whole file is masked by words)]; files lie beside the list."""
    folder = pathlib.Path(path).parent
    for line in open(path, encoding="utf-8"):
        if line.strip():
            name, probability = line.split("\t")
            here = folder / name
            yield (here if here.exists() else folder / pathlib.Path(name).name), float(probability)


def read_samples(path, max_seq_len):
    with gzip.open(path, "rt") as file:
        for line in file:
            fields = line.rstrip("\n").split(";")
            tokens, types, positions, words = (np.array(field.split(), dtype=np.int64) for field in fields[:4])
            if len(tokens) <= max_seq_len:
                yield tokens, types, positions, words, int(fields[4])


def shuffled(samples, random, size=1000):
    buffer = []
    for sample in samples:
        buffer.append(sample)
        if len(buffer) == size:
            random.shuffle(buffer)
            yield from buffer
            buffer = []
    random.shuffle(buffer)
    yield from buffer


def batches_by_tokens(samples, batch_size):
    """The original's in_tokens: as many samples as fit when all are padded to the longest."""
    batch, longest = [], 0
    for sample in samples:
        longest = max(longest, len(sample[0]))
        if batch and (len(batch) + 1) * longest > batch_size:
            yield batch
            batch, longest = [], len(sample[0])
        batch.append(sample)
    if batch:
        yield batch


def mask_characters(tokens, random):
    """Positions to predict; changes `tokens`."""
    selected = []
    for place, draw in enumerate(random.random_sample(len(tokens))):
        if tokens[place] in (CLS, SEP) or draw > 0.15:
            continue
        selected.append(place)
        if draw > 0.03:
            tokens[place] = MASK
        elif draw > 0.015:
            tokens[place] = random.randint(1, VOCABULARY)
    return selected


def mask_words(tokens, words, random):
    """A word is chosen by the number drawn for its first token; the number also says what becomes of that token. Every
    further token of the word has a number of its own: 80 % [MASK], 10 % a random token, 10 % as it is."""
    draws = random.random_sample(len(tokens))
    selected, chosen = [], False
    for place, kind in enumerate(words):
        if kind == -1:
            chosen = False
            continue
        if kind == 0:
            chosen = draws[place] <= 0.15
        if not chosen:
            continue
        base = 0.15 if kind == 0 else 1.0
        selected.append(place)
        if draws[place] > 0.2 * base:
            tokens[place] = MASK
        elif draws[place] > 0.1 * base:
            tokens[place] = random.randint(1, VOCABULARY)
    return selected


def make_batch(samples, by_words, random):
    """Padded arrays [samples, longest]; `selected` counts in the flattened batch."""
    longest = max(len(sample[0]) for sample in samples)
    tokens, types, positions = (np.full((len(samples), longest), PAD, dtype=np.int64) for _ in range(3))
    lengths = np.array([len(sample[0]) for sample in samples])
    selected, labels = [], []
    for row, (ids, segments, places, words, _) in enumerate(samples):
        masked = ids.copy()
        chosen = mask_words(masked, words, random) if by_words else mask_characters(masked, random)
        selected += [row * longest + place for place in chosen]
        labels += [ids[place] for place in chosen]
        tokens[row, : len(ids)] = masked
        types[row, : len(ids)] = segments
        positions[row, : len(ids)] = places
    nsp = np.array([sample[4] for sample in samples])
    return dict(tokens=tokens, types=types, positions=positions, lengths=lengths, selected=np.array(selected, dtype=np.int64),
                labels=np.array(labels, dtype=np.int64), nsp=nsp)  # fmt: skip


def batches(filelist, batch_size, max_seq_len, seed, train=True):
    """Endless for training (files reshuffled each epoch); one pass in order for validation."""
    random = np.random.RandomState(seed)
    files = list(read_filelist(filelist))
    while True:
        if train:
            random.shuffle(files)
        for path, probability in files:
            by_words = random.random_sample() < probability
            samples = read_samples(path, max_seq_len)
            if train:
                samples = shuffled(samples, random)
            for batch in batches_by_tokens(samples, batch_size):
                yield make_batch(batch, by_words, random)
        if not train:
            return
