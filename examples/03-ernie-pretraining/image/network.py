# SPDX-License-Identifier: Apache-2.0
"""A BERT-like encoder (post-norm) with the masked-token and next-sentence heads."""
import torch
from torch import nn
from torch.nn import functional

from reader import IGNORED


class Ernie(nn.Module):
    def __init__(self, config, weight_sharing):
        super().__init__()
        hidden = config["hidden_size"]
        self.word = nn.Embedding(config["vocab_size"], hidden)
        self.position = nn.Embedding(config["max_position_embeddings"], hidden)
        self.segment = nn.Embedding(config["type_vocab_size"], hidden)
        self.norm = nn.LayerNorm(hidden)
        self.dropout = nn.Dropout(config["hidden_dropout_prob"])
        layer = nn.TransformerEncoderLayer(
            hidden,
            config["num_attention_heads"],
            4 * hidden,
            config["hidden_dropout_prob"],
            config["hidden_act"],
            batch_first=True,
        )
        self.encoder = nn.TransformerEncoder(
            layer, config["num_hidden_layers"], enable_nested_tensor=False
        )
        self.pooler = nn.Linear(hidden, hidden)
        self.next_sentence = nn.Linear(hidden, 2)
        self.transform = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.LayerNorm(hidden))
        self.output = nn.Linear(hidden, config["vocab_size"])
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.trunc_normal_(parameter, std=config["initializer_range"])
        if weight_sharing:
            self.output.weight = self.word.weight

    def forward(self, tokens, segments, positions, present, labels, next_sentence):
        """Losses of both tasks and whether each next-sentence answer was right."""
        states = self.word(tokens) + self.position(positions) + self.segment(segments)
        states = self.encoder(self.dropout(self.norm(states)), src_key_padding_mask=~present)
        # Only masked positions go through the big output layer.
        asked = labels != IGNORED
        logits = self.output(self.transform(states[asked]))
        language_loss = functional.cross_entropy(logits, labels[asked])
        answer = self.next_sentence(torch.tanh(self.pooler(states[:, 0])))
        sentence_loss = functional.cross_entropy(answer, next_sentence)
        return language_loss, sentence_loss, answer.argmax(1) == next_sentence
