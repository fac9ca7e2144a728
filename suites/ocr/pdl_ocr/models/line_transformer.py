"""Fields of a page out of its text and its layout, without its pixels."""

from __future__ import annotations

from typing import Annotated, ClassVar

import pdl
from pdl import nn
from pdl.errors import ShapeError
from pdl.hints import Range

Width = Annotated[int, Range(1)]
RELATIONS = 8  # numbers that say where one box lies from another
PLACES = 12  # numbers that say where a box lies
NONE = -1e4


class Characters(nn.Module):
    """A convolution over neighbouring characters, [N, P, C, channels] -> [N, P, C, dim]."""

    def __init__(self, channels: int, dim: int) -> None:
        self.conv, self.norm = nn.Conv2d(channels, dim, (1, 5), padding=(0, 2)), nn.LayerNorm(dim)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        return pdl.gelu(self.norm(self.conv(x)))


class LineTransformer(nn.Module):
    """Characters int [N, P, C] of P pieces of lines, 0 where there is none, and their boxes [N, P, 4] (left, top, right
    and bottom: across in widths of the page, down in heights of lines) -> logits [N, P C + 1, 3 F] for F fields: of a
    value's begin, its end, and of being inside; the last row is "not there".

    Characters are read by convolutions (X. Zhang et al., arXiv 1509.01626), so that no word is unknown. A piece is the
    maximum over its characters, beside where it lies; pieces see each other by attention with biases that a small net
    makes of how one lies from the other, as LayoutLMv2 learns them for buckets of distances (Y. Xu et al., arXiv
    2012.14740). What a piece learned of its page joins its characters again, which are then scored.

    vocab_size   characters known, 0 included; the task's
    fields       what is looked for; the task's
    embedding    of a character
    dim, heads   of the attention, `layers` of it
    """

    head: ClassVar[str] = "classifier"

    def __init__(
        self,
        *,
        vocab_size: Width = 100,
        fields: Width = 4,
        embedding: Width = 48,
        dim: Width = 64,
        layers: Width = 2,
        heads: Width = 4,
        dropout: Annotated[float, Range(0, below=1)] = 0.2,
        pretrained: str | None = None,
    ) -> None:
        self.vocab_size, self.fields = vocab_size, fields
        self.letters = nn.Embedding(vocab_size, embedding)
        self.read, self.read_on, self.decide = (Characters(channels, dim) for channels in (embedding, dim, dim))
        self.said, self.place = nn.Linear(dim, dim), nn.Linear(PLACES, dim)
        self.relation = nn.Sequential(nn.Linear(RELATIONS, 32), nn.GELU(), nn.Linear(32, heads))
        self.encoder = nn.TransformerEncoder(
            dim, heads, layers, dim_feedforward=2 * dim, dropout=dropout, activation="gelu", norm_first=True
        )
        self.context = nn.Linear(dim, dim)
        self.dropout = nn.Dropout(dropout)
        self.classifier, self.absent = nn.Linear(dim, 3 * fields), nn.Linear(dim, 3 * fields)
        if pretrained is not None:
            from pdl.hub import load_pretrained

            load_pretrained(self, pretrained)

    def forward(self, characters: pdl.Tensor, boxes: pdl.Tensor) -> pdl.Tensor:
        """characters int [N, P, C], boxes [N, P, 4] -> logits [N, P C + 1, 3 F]."""
        if characters.ndim != 3 or boxes.ndim != 3 or boxes.shape[2] != 4:
            raise ShapeError(
                f"LineTransformer: characters {characters.shape} and boxes {boxes.shape}, expected [N, P, C], [N, P, 4]"
            )
        there = pdl.astype(characters > 0, boxes.dtype)
        real = there.max(axis=2)
        x = self.read(self.dropout(self.letters(characters)))
        x = (x + self.read_on(x)) * pdl.expand_dims(there, axis=3)
        pieces = self.said(x.max(axis=2)) + self.place(places(boxes))
        bias = pdl.permute_dims(self.relation(relations(boxes)), (0, 3, 1, 2))
        hidden = NONE * (1.0 - pdl.expand_dims(pdl.expand_dims(real, axis=1), axis=1))
        pieces = self.encoder(pieces, mask=bias + hidden)
        y = self.decide(x + pdl.expand_dims(self.context(pieces), axis=2))
        scores = pdl.flatten(self.classifier(self.dropout(y)), 1, 2)
        page = (pieces * pdl.expand_dims(real, axis=2)).sum(axis=1) / (pdl.expand_dims(real.sum(axis=1), axis=1) + 1e-6)
        return pdl.concat([scores, pdl.expand_dims(self.absent(page), axis=1)], axis=1)


def places(boxes: pdl.Tensor) -> pdl.Tensor:
    """boxes [..., 4] -> [..., `PLACES`]: where they lie on the page, at several scales."""
    left, top, right, bottom = (boxes[..., i : i + 1] for i in range(4))
    top, bottom = top / 40.0, bottom / 40.0
    turns = [pdl.sin(6.28 * x) for x in (left, right, top)] + [pdl.cos(6.28 * x) for x in (left, right, top)]
    return pdl.concat([left, top, right, bottom, right - left, *turns, pdl.exp(-4.0 * top)], axis=-1)


def relations(boxes: pdl.Tensor) -> pdl.Tensor:
    """boxes [N, P, 4] -> [N, P, P, `RELATIONS`]: how box j lies from box i: rows between them, whether they share one,
    and how far left and right ends are apart."""
    left, top, right, bottom = (boxes[..., i] for i in range(4))
    rows = apart((top + bottom) / 2.0)
    lefts = apart(left)
    return pdl.stack(
        [
            *(pdl.tanh(rows / scale) for scale in (1.0, 4.0, 16.0)),
            pdl.exp(-rows * rows),
            *(pdl.tanh(lefts * scale) for scale in (4.0, 16.0)),
            pdl.tanh(apart(right) * 4.0),
            pdl.tanh((pdl.expand_dims(left, axis=1) - pdl.expand_dims(right, axis=2)) * 4.0),
        ],
        axis=-1,
    )


def apart(x: pdl.Tensor) -> pdl.Tensor:
    """x [N, P] -> x_j - x_i, [N, P, P]."""
    return pdl.expand_dims(x, axis=1) - pdl.expand_dims(x, axis=2)


TASK = "information_extraction"
VARIANTS = {"line_transformer": {"_target_": "pdl_ocr.LineTransformer"}}
