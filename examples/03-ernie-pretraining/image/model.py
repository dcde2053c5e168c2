"""ERNIE 1.0's shape in small: post-norm encoder, masked-word head, next-sentence head."""

import torch
from torch import nn
from torch.nn import functional


class Layer(nn.Module):
    def __init__(self, config):
        super().__init__()
        size, self.heads = config["hidden_size"], config["num_attention_heads"]
        self.attention_dropout = config["attention_probs_dropout_prob"]
        self.qkv, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.inner, self.outer = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)
        self.norm1, self.norm2 = nn.LayerNorm(size), nn.LayerNorm(size)
        self.dropout = nn.Dropout(config["hidden_dropout_prob"])

    def forward(self, x, bias):
        batch, length, size = x.shape
        query, key, value = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(
            query, key, value, attn_mask=bias, dropout_p=self.attention_dropout if self.training else 0.0)
        mixed = self.out(mixed.transpose(1, 2).reshape(batch, length, size))
        x = self.norm1(x + self.dropout(mixed))
        return self.norm2(x + self.dropout(self.outer(functional.relu(self.inner(x)))))


class Ernie(nn.Module):
    def __init__(self, config, weight_sharing=True):
        super().__init__()
        size = config["hidden_size"]
        self.tokens = nn.Embedding(config["vocab_size"], size)
        self.positions = nn.Embedding(config["max_position_embeddings"], size)
        self.sentences = nn.Embedding(config["type_vocab_size"], size)
        self.norm, self.dropout = nn.LayerNorm(size), nn.Dropout(config["hidden_dropout_prob"])
        self.layers = nn.ModuleList(Layer(config) for _ in range(config["num_hidden_layers"]))
        self.pool, self.next = nn.Linear(size, size), nn.Linear(size, 2)
        self.transform, self.transform_norm = nn.Linear(size, size), nn.LayerNorm(size)
        self.decode = nn.Linear(size, config["vocab_size"])
        self.initializer_range = config["initializer_range"]
        self.apply(self.initialise)
        if weight_sharing:
            self.decode.weight = self.tokens.weight

    def initialise(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.trunc_normal_(module.weight, std=self.initializer_range)
        if isinstance(module, nn.Linear):
            nn.init.zeros_(module.bias)

    def forward(self, batch):
        """The mean loss of both tasks, and the number of right next-sentence answers."""
        x = self.tokens(batch.tokens) + self.positions(batch.positions) + self.sentences(batch.sentences)
        x = self.dropout(self.norm(x))
        bias = ((batch.valid.unsqueeze(1) - 1) * 10000).unsqueeze(1)
        for layer in self.layers:
            x = layer(x, bias)
        hidden = x.reshape(-1, x.shape[-1])[batch.where]
        hidden = self.transform_norm(functional.relu(self.transform(hidden)))
        words = functional.cross_entropy(self.decode(hidden), batch.answers)
        follows = self.next(torch.tanh(self.pool(x[:, 0])))
        right = (follows.argmax(1) == batch.follows).float().mean()
        return words, functional.cross_entropy(follows, batch.follows), right
