"""Logistic regression."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pdl.tensor import Tensor
from pdl_rec.models.fields import ClickModel, FirstOrder, Schema


class LR(ClickModel):
    """logit = b + sum_i w_i x_i over all fields: a number for each name, a factor for each number.

    fields   the schema of the rows; ClickThrough fills it in
    sparse   gradients of the table as rows
    """

    def __init__(self, *, fields: Mapping[str, Any] | None = None, sparse: bool = False) -> None:
        self.schema = Schema.of(fields, "LR")
        self.linear = FirstOrder(self.schema, sparse=sparse)

    def forward(self, *inputs: Tensor) -> Tensor:
        """Logits [N]."""
        return self.linear(*self.read(*inputs))


TASK = "click-through"
VARIANTS = {"lr": {"_target_": "pdl_rec.LR"}}
