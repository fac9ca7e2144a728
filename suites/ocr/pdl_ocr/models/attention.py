"""Decoders that write a text by attention to an image: a layer of theirs, and `Guide`, by which nets with CTC learn."""

from __future__ import annotations

from copy import copy

import numpy as np

import pdl
from pdl import nn
from pdl.dtype import Array
from pdl.errors import ConfigError
from pdl_ocr.models.recogniser import Recogniser, UntilEndDecoding

HEAD = 32  # channels of a head
SMOOTHING = 0.1  # of labels


class DecoderLayer(nn.Module):
    """A Transformer's decoder layer that norms first (Vaswani et al., arXiv 1706.03762; Wang et al., arXiv 1906.01787):
    attention to what was written, attention to the image, two linear layers."""

    def __init__(self, dim: int, heads: int, *, hidden: int, dropout: float) -> None:
        self.rate = dropout
        self.self_attn = nn.MultiHeadAttention(dim, heads, dropout=dropout)
        self.cross_attn = nn.MultiHeadAttention(dim, heads, dropout=dropout)
        self.linear1, self.linear2 = nn.Linear(dim, hidden), nn.Linear(hidden, dim)
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(dim), nn.LayerNorm(dim), nn.LayerNorm(dim)

    def forward(
        self, x: pdl.Tensor, memory: pdl.Tensor, *, written: pdl.Tensor | None = None, mask: pdl.Tensor | None = None
    ) -> pdl.Tensor:
        """x [N, L, dim] and the image's memory [N, S, dim] -> [N, L, dim]. What was written is `written` [N, M, dim],
        normed already, or x itself; mask as in `nn.MultiHeadAttention`."""
        rate = self.rate if self.training else 0.0
        y = self.norm1(x)
        own = self.self_attn(y, y if written is None else written, mask=mask)
        y, x = self.norm2.add(own, x, dropout_p=rate)
        y, x = self.norm3.add(self.cross_attn(y, memory), x, dropout_p=rate)
        y = self.linear2(pdl.activated_dropout(self.linear1(y), "gelu", p=rate))
        return x + pdl.dropout(y, p=rate)


class Guide(nn.Module):
    """The second head of guided training (GTC: Hu et al., arXiv 2002.01276), as PP-OCRv4 has it beside CTC: NRTR's
    Transformer decoder (Sheng et al., arXiv 1806.00926) learns to write the text from left to right, and by that the
    features learn where characters are. Sinusoids tell positions, of columns and of characters.

    Features [N, T, channels] of columns are read; tokens are classes, 0 the start and the end. The loss is
    cross-entropy with labels smoothed by 0.1.
    """

    def __init__(self, channels: int, dim: int, *, num_classes: int, layers: int = 2, dropout: float = 0.1) -> None:
        if dim % HEAD:
            raise ConfigError(f"guide={dim} must be a multiple of {HEAD}, the channels of a head")
        self.dim = dim
        self.enter, self.tokens = nn.Linear(channels, dim), nn.Embedding(num_classes, dim)
        nn.init.normal_(self.tokens.weight, std=dim**-0.5)
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.ModuleList(
            DecoderLayer(dim, dim // HEAD, hidden=4 * dim, dropout=dropout) for _ in range(layers)
        )
        self.norm = nn.LayerNorm(dim)
        self.classifier = nn.Linear(dim, num_classes)

    def forward(self, features: pdl.Tensor, tokens: pdl.Tensor) -> pdl.Tensor:
        """features [N, T, channels], tokens int64 [N, L], the first the start -> logits [N, L, num_classes] of what
        follows each token."""
        length, steps = tokens.shape[1], features.shape[1]
        memory = self.enter(features) + sinusoids(steps, self.dim)
        y = self.dropout(self.tokens(tokens) * self.dim**0.5 + sinusoids(length, self.dim))
        earlier = pdl.as_tensor(np.tri(length, dtype=bool))
        for layer in self.layers:
            y = layer(y, memory, mask=earlier)
        return self.classifier(self.norm(y))  # type: ignore[no-any-return]

    def loss(self, features: pdl.Tensor, labels: pdl.Tensor, lengths: pdl.Tensor) -> pdl.Tensor:
        """Labels and lengths as in `Decoding.loss`; all earlier characters are given."""
        targets = UntilEndDecoding().targets(labels, lengths, labels.shape[1] + 1)
        logits = self(features, behind_start(labels))
        return pdl.cross_entropy(logits, targets, ignore_index=-1, label_smoothing=SMOOTHING)


class Guided(Recogniser):
    """A net with CTC whose features may learn from a `guide` as well, which is for training alone (GTC). A subclass has
    `columns`, images [N, H, W, C] to features [N, T, channels], and `logits`, from these to [N, T, num_classes]."""

    guide: Guide | None

    def columns(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C] -> features [N, T, channels]."""
        raise NotImplementedError(f"{type(self).__name__} must define columns")

    def logits(self, y: pdl.Tensor) -> pdl.Tensor:
        """Features [N, T, channels] -> logits [N, T, num_classes]."""
        raise NotImplementedError(f"{type(self).__name__} must define logits")

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C] -> logits [N, W / stride, num_classes]."""
        return self.logits(self.columns(x))

    def loss(self, x: pdl.Tensor, labels: pdl.Tensor, lengths: pdl.Tensor) -> dict[str, pdl.Tensor]:
        """CTC, and with a guide its cross-entropy, both with weight 1, as in PP-OCRv4."""
        if self.guide is None:
            return super().loss(x, labels, lengths)
        y = self.columns(x)
        made = self.decoding.loss(self.logits(y), labels, lengths)
        return {self.decoding.step: made, "guide": self.guide.loss(y, labels, lengths)}

    def deployed(self) -> nn.Module:
        """The net without its guide."""
        made = super().deployed()
        if self.guide is not None:
            made = copy(made)
            made.guide = None  # type: ignore[attr-defined]
        return made


def behind_start(labels: pdl.Tensor) -> pdl.Tensor:
    """int64 [N, U + 1]: the start, 0, and the characters int64 [N, U]; 0 for each -1 behind their end."""
    return pdl.pad(pdl.maximum(labels, 0), ((0, 0), (1, 0)))


def sinusoids(positions: int, dim: int) -> pdl.Tensor:
    """float32 [positions, dim]: sin(p / 10000^(2 i / dim)) and cos, side by side (Vaswani et al., section 3.5)."""
    angles: Array = np.arange(positions)[:, None] / 10000.0 ** (np.arange(0, dim, 2) / dim)
    return pdl.as_tensor(np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32))
