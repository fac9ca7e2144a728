"""DCN-v2, the improved deep & cross network (Wang et al., arXiv 2008.13535)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import pdl
from pdl.hints import Inherited, Range
from pdl.nn import Linear, Module, ModuleList
from pdl.tensor import Tensor
from pdl_rec.models.fields import RowModel, mlp


class Cross(Module):
    """x_{l+1} = x_0 * (W x_l + b) + x_l, `layers` times; with `rank`, W = U V^T of that rank. [N, C] -> [N, C]."""

    def __init__(self, width: int, layers: int, rank: int | None = None) -> None:
        self.down = ModuleList([Linear(width, rank, bias=False) for _ in range(layers)] if rank else [])
        self.full = ModuleList([Linear(rank or width, width) for _ in range(layers)])

    def forward(self, x: Tensor) -> Tensor:
        first = x
        for number, layer in enumerate(self.full):
            x = first * layer(self.down[number](x) if len(self.down) else x) + x
        return x


class DCNv2(RowModel):
    """Cross layers and a perceptron over the names' vectors and the numbers as they are.

    crosses    cross layers;  rank: of their matrices, by default full
    structure  "stacked": the perceptron reads what the cross layers give; "parallel": both read the row
    hidden     units of the perceptron's layers;  dropout: after each of them
    fields, dim, std and sparse are those of `RowModel`.
    """

    def __init__(
        self,
        *,
        crosses: Annotated[int, Range(1)] = 2,
        rank: Annotated[int, Range(1)] | None = None,
        structure: Literal["stacked", "parallel"] = "stacked",
        hidden: Sequence[int] = (400, 400),
        dropout: Annotated[float, Range(0, below=1)] = 0.0,
        **options: Inherited,
    ) -> None:
        super().__init__(**options)
        self.cross, self.structure = Cross(self.width, crosses, rank), structure
        self.mlp = mlp(self.width, hidden, None, dropout=dropout)
        last = hidden[-1] if hidden else self.width
        self.head = Linear(last + (self.width if structure == "parallel" else 0), 1)

    def forward(self, *inputs: Tensor) -> Tensor:
        """Logits [N]."""
        row = self.row(*inputs)
        crossed = self.cross(row)
        if self.structure == "stacked":
            return self.head(self.mlp(crossed)).squeeze(1)
        return self.head(pdl.concat([crossed, self.mlp(row)], axis=1)).squeeze(1)


TASK = "click-through"
VARIANTS = {"dcnv2": {"_target_": "pdl_rec.DCNv2"}}
