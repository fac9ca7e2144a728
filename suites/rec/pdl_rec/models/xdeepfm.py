"""xDeepFM (Lian et al., arXiv 1803.05170)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import pdl
from pdl.errors import ConfigError
from pdl.hints import Inherited, Range
from pdl.nn import Linear, Module, ModuleList
from pdl.tensor import Tensor
from pdl_rec.models.fields import mlp
from pdl_rec.models.fm import FM


class CIN(Module):
    """Compressed interaction network: X^k_h = sum_ij W^{k,h}_ij (X^{k-1}_i * X^0_j), X^0 the fields' vectors.

    [N, fields, dim] -> [N, sum of what is kept]: every layer's maps summed over dim. With `halves`, half of a layer's
    maps go on to the next layer and the other half to the output, as the authors' program has it; else all do both.
    """

    def __init__(self, fields: int, maps: Sequence[int], *, halves: bool = True) -> None:
        if halves and any(count % 2 for count in maps[:-1]):
            raise ConfigError(f"CIN: maps={list(maps)} must be even but for the last, to be halved")
        self.halves, self.layers, self.width = halves, ModuleList([]), 0
        before = fields
        for number, count in enumerate(maps):
            self.layers.append(Linear(before * fields, count, bias=False))
            goes_on = halves and number < len(maps) - 1
            self.width += count // 2 if goes_on else count
            before = count // 2 if halves else count

    def forward(self, vectors: Tensor) -> Tensor:
        n, fields, dim = vectors.shape
        maps, sums = vectors, []
        for number, layer in enumerate(self.layers):
            assert isinstance(layer, Linear)
            pairs = (maps.expand_dims(axis=2) * vectors.expand_dims(axis=1)).reshape(n, maps.shape[1] * fields, dim)
            made = pdl.matmul(layer.weight.T, pairs)  # [N, count, dim]
            half = made.shape[1] // 2
            goes_on = self.halves and number < len(self.layers) - 1
            maps, kept = (made[:, :half], made[:, half:]) if goes_on else (made, made)
            sums.append(kept.sum(axis=2))
        return pdl.concat(sums, axis=1)


class XDeepFM(FM):
    """logit = linear model + compressed interaction network + perceptron, the latter two over the fields' vectors.

    maps     feature maps of each CIN layer;  halves: see `CIN`
    hidden   units of the perceptron's layers;  dropout: after each of them
    fields, dim, std and sparse are those of `FM`.
    """

    def __init__(
        self,
        *,
        maps: Sequence[int] = (128, 128),
        halves: bool = True,
        hidden: Sequence[int] = (256, 128),
        dropout: Annotated[float, Range(0, below=1)] = 0.0,
        **options: Inherited,
    ) -> None:
        super().__init__(**options)
        self.cin = CIN(self.schema.count, maps, halves=halves)
        self.out = Linear(self.cin.width, 1, bias=False)
        self.mlp = mlp(self.schema.count * self.vectors.dim, hidden, dropout=dropout)

    def forward(self, *inputs: Tensor) -> Tensor:
        """Logits [N]."""
        row = self.read(*inputs)
        vectors = self.vectors(*row)
        deep = self.out(self.cin(vectors)) + self.mlp(vectors.flatten(start=1))
        return self.linear(*row) + deep.squeeze(1)


TASK = "click-through"
VARIANTS = {"xdeepfm": {"_target_": "pdl_rec.XDeepFM"}}
