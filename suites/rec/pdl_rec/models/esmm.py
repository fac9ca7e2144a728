"""The entire space multi-task model (Ma et al., arXiv 1804.07931)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import pdl
from pdl.hints import Inherited, Range
from pdl.tensor import Tensor
from pdl_rec.models.fields import RowModel, mlp


def both(a: Tensor, b: Tensor) -> Tensor:
    """The logit of sigmoid(a) sigmoid(b): -log(e^-a + e^-b + e^-(a + b))."""
    return -pdl.logsumexp(pdl.stack([-a, -b, -(a + b)], axis=-1), axis=-1)


class ESMM(RowModel):
    """Click and conversion after a click, learned on all impressions: two perceptrons over shared vectors give p(click)
    and p(conversion | click); their product is p(click and conversion).

    The labels are, in this order, click, and click and conversion. `conversion` gives the logit of the factor itself.

    hidden   units of both perceptrons' layers;  dropout: after each of them
    fields, dim, std and sparse are those of `RowModel`.
    """

    def __init__(
        self,
        *,
        dim: Annotated[int, Range(1)] = 18,
        hidden: Sequence[int] = (360, 200, 80),
        dropout: Annotated[float, Range(0, below=1)] = 0.0,
        **options: Inherited,
    ) -> None:
        super().__init__(dim=dim, **options)
        self.click = mlp(self.width, hidden, dropout=dropout)
        self.convert = mlp(self.width, hidden, dropout=dropout)

    def forward(self, *inputs: Tensor) -> Tensor:
        """Logits [N, 2] of click, and of click and conversion."""
        row = self.row(*inputs)
        click = self.click(row).squeeze(1)
        return pdl.stack([click, both(click, self.convert(row).squeeze(1))], axis=1)

    def conversion(self, *inputs: Tensor) -> Tensor:
        """Logits [N] of a conversion after a click."""
        return self.convert(self.row(*inputs)).squeeze(1)


TASK = "click-through"
VARIANTS = {"esmm": {"_target_": "pdl_rec.ESMM"}}
