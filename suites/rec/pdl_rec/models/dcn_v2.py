"""DCN-v2, the improved deep & cross network (Wang et al., arXiv 2008.13535)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import pdl
from pdl.hints import Range
from pdl.nn import Linear, Module, ModuleList
from pdl.tensor import Tensor
from pdl_rec.models.fields import ClickModel, FieldVectors, Schema, beside, mlp


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


class DCNv2(ClickModel):
    """Cross layers and a perceptron over the names' vectors and the numbers as they are.

    fields     the schema of the rows; ClickThrough fills it in
    crosses    cross layers;  rank: of their matrices, by default full
    structure  "stacked": the perceptron reads what the cross layers give; "parallel": both read the row
    dim        length of the vectors;  std: deviation of their initial values
    hidden     units of the perceptron's layers;  dropout: after each of them
    sparse     gradients of the table as rows
    """

    def __init__(
        self,
        *,
        fields: Mapping[str, Any] | None = None,
        crosses: Annotated[int, Range(1)] = 2,
        rank: Annotated[int, Range(1)] | None = None,
        structure: Literal["stacked", "parallel"] = "stacked",
        dim: Annotated[int, Range(1)] = 16,
        hidden: Sequence[int] = (400, 400),
        dropout: Annotated[float, Range(0, below=1)] = 0.0,
        std: Annotated[float, Range(0)] = 0.01,
        sparse: bool = False,
    ) -> None:
        self.schema = Schema.of(fields, "DCNv2")
        self.vectors = FieldVectors(self.schema.names(), dim, std=std, sparse=sparse)
        width = len(self.schema.ids) * dim + len(self.schema.numbers)
        self.cross, self.structure = Cross(width, crosses, rank), structure
        self.mlp = mlp(width, hidden, None, dropout=dropout)
        last = hidden[-1] if hidden else width
        self.head = Linear(last + (width if structure == "parallel" else 0), 1)

    def forward(self, *inputs: Tensor) -> Tensor:
        """Logits [N]."""
        ids, numbers = self.read(*inputs)
        row = beside(None if ids is None else self.vectors(ids), numbers)
        crossed = self.cross(row)
        if self.structure == "stacked":
            return self.head(self.mlp(crossed)).squeeze(1)
        return self.head(pdl.concat([crossed, self.mlp(row)], axis=1)).squeeze(1)


TASK = "click-through"
VARIANTS = {"dcnv2": {"_target_": "pdl_rec.DCNv2"}}
