"""PARSeq: Bautista and Atienza, Scene text recognition with permuted autoregressive sequence models, ECCV 2022 (arXiv
2207.06966)."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import numpy as np

import pdl
from pdl import nn
from pdl.errors import ConfigError
from pdl.hints import Range
from pdl_ocr.models.attention import DecoderLayer, behind_start
from pdl_ocr.models.recogniser import Recogniser, UntilEndDecoding

Width = Annotated[int, Range(1)]
HEIGHT, PATCH = 32, (4, 8)


class PARSeq(Recogniser):
    """Images of lines [N, 32, image_width, in_channels] -> logits [N, max_length + 1, num_classes] of the characters
    one behind the other; class 0 is the end, and as a token the start.

    A vision transformer (Dosovitskiy et al., arXiv 2010.11929, without a class token) over patches of 4 x 8 pixels, and
    a decoder of one layer, whose queries are positions: each attends to the characters that it may see, and to the
    image. It learns to write a text in several orders, so that it can write without knowing any characters, or knowing
    all others. Answers are written in two ways, both of fixed size, so that a bundle has no loop:

    - all characters at once, knowing none (the paper's PARSeq_N), the default here;
    - from left to right, each knowing those in front of it (PARSeq_A, the paper's default), with `autoregressive`: the
      decoder runs max_length + 1 times, the image's keys and values each time among it;

    and then `refinements` times again, each character knowing all others as they were written before (one in the
    paper, for both).

    dim, layers, heads  of the encoder; the decoder has twice as many heads
    max_length    characters of a text, at most
    permutations  orders in which a text is learned in each step (K of the paper): from left to right, from right to
                  left, and pairs of a random order and its reverse; 1 is the first of these alone
    image_width   the width that all images have: positions are learned
    dropout       of the decoder; the encoder has none
    pretrained    a run, a file or a name of the hub
    """

    head: ClassVar[tuple[str, ...]] = ("classifier", "tokens")
    decoding = UntilEndDecoding()
    stride = PATCH[1]
    lettered: ClassVar[dict[str, int]] = {**Recogniser.lettered, "tokens.weight": 0}

    def __init__(
        self,
        *,
        dim: Width = 192,
        layers: Width = 12,
        heads: Width = 3,
        max_length: Annotated[int, Range(1, 256)] = 25,
        permutations: Annotated[int, Range(1, 64)] = 6,
        refinements: Annotated[int, Range(0, 8)] = 1,
        autoregressive: bool = False,
        image_width: Annotated[int, Range(PATCH[1])] = 128,
        dropout: Annotated[float, Range(0, below=1)] = 0.1,
        in_channels: Width = 3,
        num_classes: Annotated[int, Range(2)] = 37,
        pretrained: str | None = None,
    ) -> None:
        if image_width % PATCH[1]:
            raise ConfigError(f"PARSeq: image_width={image_width} must be a multiple of {PATCH[1]}")
        if permutations > 1 and permutations % 2:
            raise ConfigError(f"PARSeq: permutations={permutations} must be 1 or even: an order and its reverse")
        if dim % (2 * heads):
            raise ConfigError(f"PARSeq: dim={dim} must be a multiple of {2 * heads}, twice heads={heads}")
        self.dim, self.max_length, self.width = dim, max_length, image_width
        self.permutations, self.refinements, self.autoregressive = permutations, refinements, autoregressive
        self.patches = nn.Conv2d(in_channels, dim, PATCH, stride=PATCH)
        self.places = nn.Parameter(pdl.zeros((1, HEIGHT // PATCH[0] * (image_width // PATCH[1]), dim)))
        self.encoder = nn.TransformerEncoder(
            dim, heads, layers, dim_feedforward=4 * dim, dropout=0.0, activation="gelu", norm_first=True
        )
        self.tokens = nn.Embedding(num_classes, dim)
        self.positions = nn.Parameter(pdl.zeros((1, max_length + 1, dim)))
        self.written_norm = nn.LayerNorm(dim)
        self.decoder = DecoderLayer(dim, 2 * heads, hidden=4 * dim, dropout=dropout)
        self.norm, self.dropout = nn.LayerNorm(dim), nn.Dropout(dropout)
        self.classifier = nn.Linear(dim, num_classes)
        for each in (self.places, self.positions, self.tokens.weight, self.classifier.weight):
            nn.init.trunc_normal_(each, std=0.02)
        if pretrained is not None:
            from pdl.hub import load_pretrained

            load_pretrained(self, pretrained)

    def steps(self, width: int) -> int:
        return self.max_length + 1

    def too_long(self) -> tuple[str, str]:
        return f"have more than the {self.max_length} characters that the net writes", "set model.max_length"

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, 32, image_width, C] -> logits [N, max_length + 1, num_classes]."""
        memory = self.encode(x)
        if self.autoregressive:
            logits = self._from_left_to_right(memory)
        else:
            logits = self.decode(self.positions, self._start(memory), memory)
        others = pdl.as_tensor(~np.eye(self.max_length + 1, k=1, dtype=bool))  # token i + 1 is what query i writes
        for _ in range(self.refinements):
            tokens = pdl.pad(pdl.argmax(logits, axis=2)[:, :-1], ((0, 0), (1, 0)))
            ends = pdl.cumsum(pdl.astype(pdl.equal(tokens[:, 1:], 0), pdl.int64), axis=1)
            real = pdl.pad(pdl.equal(ends, 0), ((0, 0), (1, 0)), value=1)
            mask = pdl.logical_and(others, pdl.expand_dims(real, axis=(1, 2)))
            logits = self.decode(self.positions, self._written(tokens), memory, mask)
        return logits

    def encode(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, 32, image_width, C] -> what of it is attended to, [N, patches, dim]."""
        self.check(x)
        y = self.patches(x)
        return self.encoder(y.reshape(y.shape[0], -1, self.dim) + self.places)  # type: ignore[no-any-return]

    def decode(
        self, queries: pdl.Tensor, written: pdl.Tensor, memory: pdl.Tensor, mask: pdl.Tensor | None = None
    ) -> pdl.Tensor:
        """Logits [N, L, num_classes] of queries [1, L, dim], which see of what was `written` [N, M, dim] what the mask
        says, bool [..., L, M]."""
        y = self.decoder(self.dropout(_each(queries, memory)), memory, written=self.written_norm(written), mask=mask)
        return self.classifier(self.norm(y))  # type: ignore[no-any-return]

    def _start(self, memory: pdl.Tensor) -> pdl.Tensor:
        return _each(pdl.expand_dims(self.tokens.weight[:1] * self.dim**0.5, axis=0), memory)

    def _written(self, tokens: pdl.Tensor) -> pdl.Tensor:
        """Tokens int64 [N, M], the first the start, at positions 0, 1, ...; the start has no position."""
        count = tokens.shape[1] - 1
        places = pdl.pad(self.positions[:, :count], ((0, 0), (1, 0), (0, 0)))
        return self.dropout(self.tokens(tokens) * self.dim**0.5 + places)  # type: ignore[no-any-return]

    def _from_left_to_right(self, memory: pdl.Tensor) -> pdl.Tensor:
        found: list[pdl.Tensor] = []
        written = self._start(memory)
        for i in range(self.max_length + 1):
            place = self.positions[:, i : i + 1]
            found.append(self.decode(place, written, memory))
            written = pdl.concat([written, self.tokens(pdl.argmax(found[-1], axis=2)) * self.dim**0.5 + place], axis=1)
        return pdl.concat(found, axis=1)

    def loss(self, x: pdl.Tensor, labels: pdl.Tensor, lengths: pdl.Tensor) -> dict[str, pdl.Tensor]:
        """The mean cross-entropy of all orders, whose queries go through the decoder side by side. The end counts in
        the first two, as in the paper's code: it is written last, or first."""
        labels = labels[:, : self.max_length]
        steps, orders = labels.shape[1] + 1, self.permutations
        written = self._written(behind_start(labels))
        real = pdl.pad(labels >= 0, ((0, 0), (1, 0)), value=1)
        mask = pdl.logical_and(visible(self._keys(steps)).reshape(orders * steps, steps), real[:, None, None])
        queries = pdl.concat([self.positions[:, :steps]] * orders, axis=1)
        targets = self.decoding.targets(labels, lengths, steps)
        inner = pdl.where(targets == 0, pdl.full((1, 1), -1, dtype=pdl.int64), targets)
        wanted = pdl.concat([targets if order < 2 else inner for order in range(orders)], axis=1)
        logits = self.decode(queries, written, self.encode(x), mask)
        return {"permutations": pdl.cross_entropy(logits, wanted, ignore_index=-1)}

    def _keys(self, steps: int) -> pdl.Tensor:
        """float32 [permutations, steps]: positions are written in ascending order of these; new ones at each call."""
        forward = pdl.arange(steps, dtype=pdl.float32)[None]
        if self.permutations == 1:
            return forward
        keys = pdl.concat([forward, pdl.noise((self.permutations // 2 - 1, steps))], axis=0)
        return pdl.stack([keys, -keys], axis=1).reshape(self.permutations, steps)


def _each(x: pdl.Tensor, memory: pdl.Tensor) -> pdl.Tensor:
    """x [1, L, dim] for each image of memory [N, S, dim]: [N, L, dim]."""
    return pdl.pad(memory[:, :0], ((0, 0), (0, x.shape[1]), (0, 0))) + x


def visible(keys: pdl.Tensor) -> pdl.Tensor:
    """bool [K, L, L]: which tokens each position sees, where positions are written in ascending order of keys [K, L].
    Token 0 is the start, which all see; token i is the character at position i - 1."""
    earlier = pdl.expand_dims(keys[:, :-1], axis=1) < pdl.expand_dims(keys, axis=2)
    return pdl.pad(earlier, ((0, 0), (0, 0), (1, 0)), value=1)


TASK = "text_recognition"
VARIANTS: dict[str, dict[str, Any]] = {
    "parseq_tiny": {"_target_": "pdl_ocr.PARSeq"},
    "parseq_small": {"_target_": "pdl_ocr.PARSeq", "dim": 384, "heads": 6},
}
