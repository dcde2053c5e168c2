# SPDX-License-Identifier: Apache-2.0
"""The Free Spoken Digit Dataset: recordings as log-mel features, digits as letter sequences."""

import io
import math
import pathlib
import random
import tarfile
import wave

import torch

WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
LETTERS = "_" + "".join(sorted(set("".join(WORDS))))  # 0 is CTC's blank
RATE, WINDOW, HOP, BANDS = 8000, 256, 80, 40


def mel_filters():
    """(BANDS, WINDOW / 2 + 1) triangles, evenly spaced on the mel scale from 60 Hz to half the rate."""
    def mel(hertz):
        return 1127 * math.log(1 + hertz / 700)

    edges = [700 * (math.exp(value / 1127) - 1) for value in torch.linspace(mel(60), mel(RATE / 2), BANDS + 2).tolist()]
    bins = torch.linspace(0, RATE / 2, WINDOW // 2 + 1)
    rows = [torch.minimum((bins - low) / (middle - low), (high - bins) / (high - middle)).clamp(min=0)
            for low, middle, high in zip(edges, edges[1:], edges[2:])]
    return torch.stack(rows)


def features(samples, filters, window):
    """(frames, BANDS), mean 0 and variance 1 per band."""
    if len(samples) < WINDOW:
        samples = torch.nn.functional.pad(samples, (0, WINDOW - len(samples)))
    power = torch.stft(samples, WINDOW, HOP, window=window, return_complex=True).abs().pow(2)
    energies = (filters @ power + 1e-6).log().T
    return (energies - energies.mean(0)) / (energies.std(0) + 1e-3)


def load(folder):
    """(training, test), each a list of (features, digit). Recordings 0 to 4 of each speaker and digit are the test split."""
    filters, window = mel_filters(), torch.hann_window(WINDOW)
    train, test = [], []
    with tarfile.open(next(pathlib.Path(folder).glob("*.tar.gz"))) as archive:
        files = {pathlib.PurePath(member.name).name: archive.extractfile(member).read()
                 for member in archive if member.name.endswith(".wav")}
    for name, content in sorted(files.items()):
        digit, _, index = pathlib.PurePath(name).stem.split("_")
        with wave.open(io.BytesIO(content)) as sound:
            assert (sound.getframerate(), sound.getsampwidth(), sound.getnchannels()) == (RATE, 2, 1), name
            samples = torch.frombuffer(bytearray(sound.readframes(sound.getnframes())), dtype=torch.int16).to(torch.get_default_dtype()) / 32768
        (test if int(index) < 5 else train).append((features(samples, filters, window), int(digit)))
    return train, test


def masked(features, key, bands, share):
    """Without a band of up to `bands` and a stretch of up to `share` of the time, as in SpecAugment. What is left out depends
    on `key` alone (seed, epoch, recording), not on the rank that asks."""
    dice = random.Random(str(key))
    width, length = dice.randint(0, bands), int(dice.uniform(0, share) * len(features))
    band, start = dice.randint(0, BANDS - width), dice.randint(0, len(features) - length)
    features = features.clone()
    features[:, band:band + width] = 0  # the mean
    features[start:start + length] = 0
    return features


def collate(samples):
    """Padded features, their lengths, all letters in a row, their numbers."""
    inputs = torch.nn.utils.rnn.pad_sequence([each for each, _ in samples], batch_first=True)
    lengths = torch.tensor([len(each) for each, _ in samples])
    words = [WORDS[digit] for _, digit in samples]
    targets = torch.tensor([LETTERS.index(letter) for word in words for letter in word])
    return inputs, lengths, targets, torch.tensor([len(word) for word in words])
