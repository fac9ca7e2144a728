"""DeepFM (Guo et al., arXiv 1703.04247)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import pdl
from pdl.hints import Range
from pdl.tensor import Tensor
from pdl_rec.models.fields import ClickModel, FieldVectors, FirstOrder, Schema, mlp


class DeepFM(ClickModel):
    """logit = a factorisation machine + a perceptron over the same vectors of the fields.

    fields   the schema of the rows; ClickThrough fills it in
    dim      length of the vectors;  std: deviation of their initial values
    hidden   units of the perceptron's layers;  dropout: after each of them;  norm: batch norm before each ReLU
    sparse   gradients of the tables as rows
    """

    def __init__(
        self,
        *,
        fields: Mapping[str, Any] | None = None,
        dim: Annotated[int, Range(1)] = 16,
        hidden: Sequence[int] = (400, 400, 400),
        dropout: Annotated[float, Range(0, below=1)] = 0.0,
        norm: bool = False,
        std: Annotated[float, Range(0)] = 0.01,
        sparse: bool = False,
    ) -> None:
        self.schema = Schema.of(fields, "DeepFM")
        self.linear = FirstOrder(self.schema, sparse=sparse)
        self.vectors = FieldVectors(self.schema, dim, std=std, sparse=sparse)
        self.mlp = mlp(self.schema.count * dim, hidden, dropout=dropout, norm=norm)

    def forward(self, *inputs: Tensor) -> Tensor:
        """Logits [N]."""
        row = self.read(*inputs)
        vectors = self.vectors(*row)
        return self.linear(*row) + pdl.pair_products(vectors) + self.mlp(vectors.flatten(start=1)).squeeze(1)


TASK = "click-through"
VARIANTS = {"deepfm": {"_target_": "pdl_rec.DeepFM"}}
