"""DeepFM (Guo et al., arXiv 1703.04247)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import pdl
from pdl.hints import Inherited, Range
from pdl.tensor import Tensor
from pdl_rec.models.fields import mlp
from pdl_rec.models.fm import FM


class DeepFM(FM):
    """logit = a factorisation machine + a perceptron over the same vectors of the fields.

    hidden   units of the perceptron's layers;  dropout: after each of them;  norm: batch norm before each ReLU
    fields, dim, std and sparse are those of `FM`.
    """

    def __init__(
        self,
        *,
        hidden: Sequence[int] = (400, 400, 400),
        dropout: Annotated[float, Range(0, below=1)] = 0.0,
        norm: bool = False,
        **options: Inherited,
    ) -> None:
        super().__init__(**options)
        self.mlp = mlp(self.schema.count * self.vectors.dim, hidden, dropout=dropout, norm=norm)

    def forward(self, *inputs: Tensor) -> Tensor:
        """Logits [N]."""
        row = self.read(*inputs)
        vectors = self.vectors(*row)
        return self.linear(*row) + pdl.pair_products(vectors) + self.mlp(vectors.flatten(start=1)).squeeze(1)


TASK = "click-through"
VARIANTS = {"deepfm": {"_target_": "pdl_rec.DeepFM"}}
