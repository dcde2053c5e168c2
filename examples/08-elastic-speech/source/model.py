# SPDX-License-Identifier: Apache-2.0
"""Small acoustic models with a CTC head. Neither has batch normalisation or dropout: what a recording contributes must not
depend on its neighbours in the batch, nor on which rank computes it, or a change of the number of nodes would change the
training. For the same reason padding never leaks."""

import torch
from torch import nn

from digits import BANDS, LETTERS


def mask(values, lengths):
    """Zero beyond each length; (batch, channels, time)."""
    return values * (torch.arange(values.shape[2])[None, :] < lengths[:, None])[:, None, :]


class FrontEnd(nn.Module):
    """Halves the frame rate: (batch, time, bands) to (batch, channels, time / 2)."""

    def __init__(self, channels):
        super().__init__()
        self.convolution = nn.Conv1d(BANDS, channels, 5, stride=2, padding=2)

    def forward(self, inputs, lengths):
        lengths = (lengths + 1) // 2
        return mask(torch.relu(self.convolution(inputs.transpose(1, 2))), lengths), lengths


class Gru(nn.Module):
    """A convolution and bidirectional recurrent layers, DeepSpeech in small."""

    def __init__(self, channels, hidden, layers):
        super().__init__()
        self.front = FrontEnd(channels)
        self.recurrent = nn.GRU(channels, hidden, layers, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * hidden, len(LETTERS))

    def forward(self, inputs, lengths):
        values, lengths = self.front(inputs, lengths)
        packed = nn.utils.rnn.pack_padded_sequence(values.transpose(1, 2), lengths, batch_first=True, enforce_sorted=False)
        values, _ = nn.utils.rnn.pad_packed_sequence(self.recurrent(packed)[0], batch_first=True)
        return self.head(values).log_softmax(2), lengths


class Conv(nn.Module):
    """Residual convolutions only."""

    def __init__(self, channels, kernel, layers):
        super().__init__()
        self.front = FrontEnd(channels)
        self.layers = nn.ModuleList(nn.Conv1d(channels, channels, kernel, padding=kernel // 2, groups=4) for _ in range(layers))
        self.mixes = nn.ModuleList(nn.Linear(channels, channels) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(channels) for _ in range(layers))
        self.head = nn.Linear(channels, len(LETTERS))

    def forward(self, inputs, lengths):
        values, lengths = self.front(inputs, lengths)
        for layer, mix, norm in zip(self.layers, self.mixes, self.norms):
            values = mask(values + mix(torch.relu(norm(layer(values).transpose(1, 2)))).transpose(1, 2), lengths)
        return self.head(values.transpose(1, 2)).log_softmax(2), lengths


def make(config):
    settings = dict(vars(config))
    return {"gru": Gru, "conv": Conv}[settings.pop("name")](**settings)


def greedy(log_probabilities, lengths):
    """The most likely letter of each frame, repeats and blanks removed."""
    words = []
    for row, length in zip(log_probabilities.argmax(2).tolist(), lengths.tolist()):
        path = row[:length]
        words.append("".join(LETTERS[at] for at, before in zip(path, [0] + path) if at != before and at != 0))
    return words
