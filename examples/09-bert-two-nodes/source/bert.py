# SPDX-License-Identifier: Apache-2.0
"""BERT for sequence classification, made here in small: word pieces learned from the data, post-norm encoder, pooled [CLS]."""

import collections
import re

import torch
from torch import nn

PAD, UNK, CLS, SEP = range(4)
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]


class Tokenizer:
    """Whole words where they are frequent, else the longest pieces that are known, as WordPiece does."""

    def __init__(self, vocabulary):
        self.vocabulary = vocabulary
        self.ids = {piece: number for number, piece in enumerate(vocabulary)}

    @classmethod
    def train(cls, texts, size):
        counts = collections.Counter(word for text in texts for word in cls.words(text))
        letters = sorted({letter for word in counts for letter in word})
        pieces = SPECIAL + letters + ["##" + letter for letter in letters]
        endings = collections.Counter()
        for word, count in counts.items():
            for length in (2, 3, 4):
                if len(word) > length + 2:
                    endings["##" + word[-length:]] += count
        pieces += [piece for piece, _ in endings.most_common(size // 10)]
        known = set(pieces)
        return cls(pieces + [word for word, _ in counts.most_common(size) if word not in known][:max(0, size - len(pieces))])

    @staticmethod
    def words(text):
        return re.findall(r"[a-z0-9]+|[^\sa-z0-9]", text.lower())

    def pieces(self, word):
        first, found = 0, []
        while first < len(word):
            for last in range(len(word), first, -1):
                piece = ("##" if first else "") + word[first:last]
                if piece in self.ids:
                    break
            else:
                return [UNK]
            found.append(self.ids[piece])
            first = last
        return found

    def __call__(self, text, max_length):
        ids = [piece for word in self.words(text) for piece in self.pieces(word)]
        return [CLS, *ids[:max_length - 2], SEP]


class Layer(nn.Module):
    def __init__(self, hidden, heads, dropout):
        super().__init__()
        self.heads = heads
        self.attention = nn.Linear(hidden, 3 * hidden)
        self.merge = nn.Linear(hidden, hidden)
        self.feed = nn.Sequential(nn.Linear(hidden, 4 * hidden), nn.GELU(), nn.Linear(4 * hidden, hidden))
        self.norms = nn.ModuleList(nn.LayerNorm(hidden, eps=1e-12) for _ in range(2))
        self.dropout = nn.Dropout(dropout)

    def forward(self, values, mask):
        batch, length, hidden = values.shape
        parts = self.attention(values).view(batch, length, 3, self.heads, hidden // self.heads).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(*parts, attn_mask=mask)
        values = self.norms[0](values + self.dropout(self.merge(mixed.transpose(1, 2).reshape(batch, length, hidden))))
        return self.norms[1](values + self.dropout(self.feed(values)))


class BertForSequenceClassification(nn.Module):
    def __init__(self, vocabulary, hidden=96, layers=2, heads=4, positions=512, labels=2, dropout=0.1):
        super().__init__()
        self.words, self.positions = nn.Embedding(vocabulary, hidden, PAD), nn.Embedding(positions, hidden)
        self.norm, self.dropout = nn.LayerNorm(hidden, eps=1e-12), nn.Dropout(dropout)
        self.layers = nn.ModuleList(Layer(hidden, heads, dropout) for _ in range(layers))
        self.pooler, self.classifier = nn.Linear(hidden, hidden), nn.Linear(hidden, labels)
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)

    def forward(self, input_ids, labels=None):
        mask = (input_ids != PAD)[:, None, None, :]
        values = self.words(input_ids) + self.positions(torch.arange(input_ids.shape[1]))
        values = self.dropout(self.norm(values))
        for layer in self.layers:
            values = layer(values, mask)
        logits = self.classifier(self.dropout(torch.tanh(self.pooler(values[:, 0]))))
        return (None if labels is None else nn.functional.cross_entropy(logits, labels)), logits
