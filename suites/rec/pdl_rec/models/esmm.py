"""The entire space multi-task model (Ma et al., arXiv 1804.07931)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import pdl
from pdl.hints import Range
from pdl.tensor import Tensor
from pdl_rec.models.fields import ClickModel, FieldVectors, Schema, beside, mlp


def both(a: Tensor, b: Tensor) -> Tensor:
    """The logit of sigmoid(a) sigmoid(b): -log(e^-a + e^-b + e^-(a + b))."""
    return -pdl.logsumexp(pdl.stack([-a, -b, -(a + b)], axis=-1), axis=-1)


class ESMM(ClickModel):
    """Click and conversion after a click, learned on all impressions: two perceptrons over shared vectors give p(click)
    and p(conversion | click); their product is p(click and conversion).

    The labels are, in this order, click, and click and conversion. `conversion` gives the logit of the factor itself.

    fields   the schema of the rows; ClickThrough fills it in
    dim      length of the vectors;  std: deviation of their initial values
    hidden   units of both perceptrons' layers;  dropout: after each of them
    sparse   gradients of the table as rows
    """

    def __init__(
        self,
        *,
        fields: Mapping[str, Any] | None = None,
        dim: Annotated[int, Range(1)] = 18,
        hidden: Sequence[int] = (360, 200, 80),
        dropout: Annotated[float, Range(0, below=1)] = 0.0,
        std: Annotated[float, Range(0)] = 0.01,
        sparse: bool = False,
    ) -> None:
        self.schema = Schema.of(fields, "ESMM")
        self.vectors = FieldVectors(self.schema.names(), dim, std=std, sparse=sparse)
        width = len(self.schema.ids) * dim + len(self.schema.numbers)
        self.click = mlp(width, hidden, dropout=dropout)
        self.convert = mlp(width, hidden, dropout=dropout)

    def forward(self, *inputs: Tensor) -> Tensor:
        """Logits [N, 2] of click, and of click and conversion."""
        row = self.row(*inputs)
        click = self.click(row).squeeze(1)
        return pdl.stack([click, both(click, self.convert(row).squeeze(1))], axis=1)

    def conversion(self, *inputs: Tensor) -> Tensor:
        """Logits [N] of a conversion after a click."""
        return self.convert(self.row(*inputs)).squeeze(1)

    def row(self, *inputs: Tensor) -> Tensor:
        """The vectors and numbers of each row, side by side [N, C]."""
        ids, numbers = self.read(*inputs)
        return beside(None if ids is None else self.vectors(ids), numbers)


TASK = "click-through"
VARIANTS = {"esmm": {"_target_": "pdl_rec.ESMM"}}
