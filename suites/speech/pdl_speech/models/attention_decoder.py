"""A Transformer decoder that judges texts beside connectionist temporal classification: Watanabe et al., Hybrid
CTC/attention architecture for end-to-end speech recognition, IEEE JSTSP 11(8), 2017; Zhang et al., arXiv 2012.05481."""

from __future__ import annotations

import pdl
from pdl import nn
from pdl.nn.decoder import attend_to_memory, positions
from pdl_speech.models.speech_net import Real
from pdl_speech.models.waves import waves

BOUND = 0  # the class in front of a text, and behind it: CTC's blank, which no text has
SMOOTHING = 0.1  # of labels (Zhang et al.)


class DecoderLayer(nn.Module):
    """Attention to what is written so far, attention to what is heard, two linear layers; norms first (Xiong et al.,
    arXiv 2002.04745)."""

    def __init__(self, dim: int, heads: int, dropout: float) -> None:
        self.heads = heads
        self.attention = nn.MultiHeadAttention(dim, heads, dropout=dropout)
        self.query, self.key, self.value, self.heard = (nn.Linear(dim, dim) for _ in range(4))
        self.first, self.last = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(3))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: pdl.Tensor, memory: pdl.Tensor, there: pdl.Tensor | None) -> pdl.Tensor:
        """x [R, L, dim], memory [N, S, dim], of which `there` bool [N, S] is real -> [R, L, dim]."""
        x = x + self.dropout(self.attention(self.norms[0](x), is_causal=True))
        q, k, v = self.query(self.norms[1](x)), self.key(memory), self.value(memory)
        x = x + self.dropout(self.heard(attend_to_memory(q, k, v, heads=self.heads, mask=there)))
        return x + self.dropout(self.last(self.dropout(pdl.relu(self.first(self.norms[2](x))))))


class AttentionDecoder(nn.Module):
    """What follows each beginning of texts, given what an encoder heard; all characters before are given. Sinusoids
    tell where a character stands. Classes are those of the encoder's classifier; class 0 is both in front of a text and
    behind it."""

    def __init__(self, num_classes: int, dim: int, heads: int, layers: int, dropout: float) -> None:
        self.dim = dim
        self.tokens = nn.Embedding(num_classes, dim)
        nn.init.normal_(self.tokens.weight, std=dim**-0.5)
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.ModuleList(DecoderLayer(dim, heads, dropout) for _ in range(layers))
        self.norm, self.classifier = nn.LayerNorm(dim), nn.Linear(dim, num_classes)

    def forward(self, memory: pdl.Tensor, texts: pdl.Tensor, real: Real | None = None) -> pdl.Tensor:
        """What was heard [N, S, dim], of which these steps are real, and texts int64 [N, B, L], each behind a `BOUND`
        -> logits [N, B, L, num_classes] of what follows each character."""
        n, b, length = texts.shape
        rows = pdl.reshape(texts, (-1, length))
        places = pdl.astype(positions(rows[:1], pdl.zeros((1,), dtype=pdl.int64)), pdl.float32)
        x = self.dropout(self.tokens(rows) * self.dim**0.5 + waves(pdl.reshape(places, (-1, 1)), self.dim))
        there = None if real is None else real.there(memory)
        for layer in self.layers:
            x = layer(x, memory, there)
        y = self.classifier(self.norm(x))
        return pdl.reshape(y, (n, b, length, y.shape[-1]))

    def loss(self, memory: pdl.Tensor, labels: pdl.Tensor, lengths: pdl.Tensor, real: Real) -> pdl.Tensor:
        """The mean over the texts of -ln p(text | heard), smoothed: labels int64 [N, U], -1 behind their lengths int64
        [N]."""
        n = labels.shape[0]
        bound = pdl.full((n, 1), BOUND, dtype=pdl.int64)
        texts = pdl.concat([bound, pdl.maximum(labels, 0)], axis=1)
        ends = pdl.equal(pdl.arange(labels.shape[1] + 1), pdl.expand_dims(lengths, axis=1))
        wanted = pdl.where(ends, BOUND, pdl.concat([labels, pdl.full((n, 1), -1, dtype=pdl.int64)], axis=1))
        logits = self(memory, pdl.expand_dims(texts, axis=1), real)[:, 0]
        total = pdl.cross_entropy(logits, wanted, ignore_index=-1, label_smoothing=SMOOTHING, reduction="sum")
        return total / n
