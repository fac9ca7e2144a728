"""Factorisation machines (Rendle, ICDM 2010)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import pdl
from pdl.hints import Range
from pdl.tensor import Tensor
from pdl_rec.models.fields import ClickModel, FieldVectors, FirstOrder, Schema


class FM(ClickModel):
    """logit = b + sum_i w_i x_i + sum_{i<j} <v_i, v_j> x_i x_j.

    fields   the schema of the rows; ClickThrough fills it in
    dim      length of the vectors v
    std      deviation of their initial values
    sparse   gradients of the tables as rows
    """

    def __init__(
        self,
        *,
        fields: Mapping[str, Any] | None = None,
        dim: Annotated[int, Range(1)] = 16,
        std: Annotated[float, Range(0)] = 0.01,
        sparse: bool = False,
    ) -> None:
        self.schema = Schema.of(fields, type(self).__name__)
        self.linear = FirstOrder(self.schema, sparse=sparse)
        self.vectors = FieldVectors(self.schema, dim, std=std, sparse=sparse)

    def forward(self, *inputs: Tensor) -> Tensor:
        """Logits [N]."""
        row = self.read(*inputs)
        return self.linear(*row) + pdl.pair_products(self.vectors(*row))


TASK = "click-through"
VARIANTS = {"fm": {"_target_": "pdl_rec.FM"}}
