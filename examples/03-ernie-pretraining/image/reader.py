"""Reads ERNIE's pre-training files: a file list in the channel, gzip files of `tokens;sentences;positions;words;next`.

A batch is filled until its padded size would exceed `batch_size` tokens (in_tokens), then words are masked.
"""

import dataclasses
import gzip
import pathlib
import random

import torch

PAD, CLS, SEP, MASK = 0, 1, 2, 3


@dataclasses.dataclass
class Batch:
    tokens: torch.Tensor     # [sentences, length], masked
    sentences: torch.Tensor  # [sentences, length], 0 or 1
    positions: torch.Tensor  # [sentences, length]
    valid: torch.Tensor      # [sentences, length], 1.0 where there is a token
    where: torch.Tensor      # flat indices of the tokens to predict
    answers: torch.Tensor    # what they were
    follows: torch.Tensor    # [sentences], label of the next-sentence task
    file: str
    progress: str
    mask_type: str


class Reader:
    """Endless batches of one channel; every epoch in another order, the same for the same seed."""

    def __init__(self, channel, list_name, batch_size, in_tokens, max_seq_len, vocab_size, seed=1):
        self.batch_size, self.in_tokens, self.max_seq_len = batch_size, in_tokens, max_seq_len
        self.vocab_size = vocab_size
        self.random = random.Random(seed)
        self.files = []
        for line in (pathlib.Path(channel) / list_name).read_text().splitlines():
            if line.strip():
                path, probability = line.split("\t")
                # The list was written for another machine; its files lie beside it in the channel.
                self.files.append((pathlib.Path(channel) / pathlib.PurePosixPath(path).name, float(probability)))
        if not self.files:
            raise SystemExit(f"{list_name} of {channel} names no file")
        self.epoch = 0

    def __iter__(self):
        while True:
            self.epoch += 1
            files = list(self.files)
            self.random.shuffle(files)
            for number, (file, by_word) in enumerate(files, 1):
                mask_type = "mask_word" if self.random.random() < by_word else "mask_char"
                for samples in self.groups(self.shuffled(self.lines(file))):
                    yield self.collate(samples, mask_type, file.name, f"{number}/{len(files)}")

    def lines(self, file):
        with gzip.open(file, "rt", encoding="ascii") as stream:
            for number, line in enumerate(stream, 1):
                fields = line.rstrip("\n").split(";")
                if len(fields) != 5:
                    raise SystemExit(f"{file}:{number}: {len(fields)} fields, expected 5")
                tokens, sentences, positions, words = ([int(x) for x in field.split()] for field in fields[:4])
                if len(tokens) <= self.max_seq_len:
                    yield tokens, sentences, positions, words, int(fields[4])

    def shuffled(self, samples, size=1000):
        buffer = []
        for sample in samples:
            buffer.append(sample)
            if len(buffer) == size:
                self.random.shuffle(buffer)
                yield from buffer
                buffer = []
        self.random.shuffle(buffer)
        yield from buffer

    def groups(self, samples):
        group, longest = [], 0
        for sample in samples:
            grown = max(longest, len(sample[0]))
            full = (len(group) + 1) * grown > self.batch_size if self.in_tokens else len(group) == self.batch_size
            if group and full:
                yield group
                group, grown = [], len(sample[0])
            group.append(sample)
            longest = grown
        if group:
            yield group

    def collate(self, samples, mask_type, file, progress):
        length = max(len(sample[0]) for sample in samples)
        rows, where, answers = [], [], []
        for index, (tokens, sentences, positions, words, _) in enumerate(samples):
            masked, chosen = self.mask(tokens, words if mask_type == "mask_word" else None)
            where += [index * length + place for place in chosen]
            answers += [tokens[place] for place in chosen]
            padding = [0] * (length - len(tokens))
            rows.append([part + padding for part in (masked, sentences, positions, [1] * len(tokens))])
        if not where:  # a batch always predicts something
            where, answers = [0], [samples[0][0][0]]
        tokens, sentences, positions, valid = torch.tensor(rows).unbind(1)
        return Batch(tokens, sentences, positions, valid.float(), torch.tensor(where), torch.tensor(answers),
                     torch.tensor([sample[4] for sample in samples]), file, progress, mask_type)

    def mask(self, tokens, words):
        """15 % of the words (or tokens): 80 % of these become [MASK], 10 % random, 10 % stay. Returns the places, too."""
        out, chosen, inside = list(tokens), [], False
        for place, token in enumerate(tokens):
            if token in (CLS, SEP):
                inside = False
                continue
            if words is None or words[place] != 1:  # a word begins here; its draw counts for all its tokens
                inside = self.random.random() <= 0.15
            if inside:
                chosen.append(place)
                draw = self.random.random()
                if draw > 0.2:
                    out[place] = MASK
                elif draw > 0.1:
                    out[place] = self.random.randrange(1, self.vocab_size)
        return out, chosen
