"""Multi-gate mixture of experts (Ma et al., KDD 2018)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import pdl
from pdl.hints import Inherited, Range
from pdl.nn import Linear, ModuleList
from pdl.tensor import Tensor
from pdl_rec.models.fields import RowModel, mlp


def mixture(outputs: Sequence[Tensor], gate: Tensor) -> Tensor:
    """sum_e softmax(gate)_e output_e: experts' outputs [N, C] each, gate [N, experts] -> [N, C]."""
    weights = pdl.softmax(gate, axis=1)
    return (pdl.stack(list(outputs), axis=1) * weights.expand_dims(axis=2)).sum(axis=1)


class MMoE(RowModel):
    """Several labels: experts read the row, each label has a gate that mixes them, and a tower.

    labels   how many; ClickThrough fills it in
    experts  how many;  expert: units of their layers
    tower    units of each label's layers, before its logit
    dropout  after each layer
    fields, dim, std and sparse are those of `RowModel`.
    """

    def __init__(
        self,
        *,
        labels: Annotated[int, Range(1)] = 2,
        experts: Annotated[int, Range(1)] = 8,
        expert: Sequence[int] = (64,),
        tower: Sequence[int] = (32,),
        dropout: Annotated[float, Range(0, below=1)] = 0.0,
        **options: Inherited,
    ) -> None:
        super().__init__(**options)
        self.experts = ModuleList([mlp(self.width, expert, None, dropout=dropout) for _ in range(experts)])
        self.gates = ModuleList([Linear(self.width, experts, bias=False) for _ in range(labels)])
        self.towers = ModuleList([mlp(expert[-1], tower, dropout=dropout) for _ in range(labels)])

    def forward(self, *inputs: Tensor) -> Tensor:
        """Logits [N, labels]."""
        row = self.row(*inputs)
        outputs = [expert(row) for expert in self.experts]
        logits = [tower(mixture(outputs, gate(row))) for gate, tower in zip(self.gates, self.towers, strict=True)]
        return pdl.concat(logits, axis=1)


TASK = "click-through"
VARIANTS = {"mmoe": {"_target_": "pdl_rec.MMoE"}}
