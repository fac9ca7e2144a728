"""Multi-gate mixture of experts (Ma et al., KDD 2018)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import pdl
from pdl.hints import Range
from pdl.nn import Linear, ModuleList
from pdl.tensor import Tensor
from pdl_rec.models.fields import ClickModel, FieldVectors, Schema, beside, mlp


def mixture(outputs: Sequence[Tensor], gate: Tensor) -> Tensor:
    """sum_e softmax(gate)_e output_e: experts' outputs [N, C] each, gate [N, experts] -> [N, C]."""
    weights = pdl.softmax(gate, axis=1)
    return (pdl.stack(list(outputs), axis=1) * weights.expand_dims(axis=2)).sum(axis=1)


class MMoE(ClickModel):
    """Several labels: experts read the row, each label has a gate that mixes them, and a tower.

    fields   the schema of the rows;  labels: how many; ClickThrough fills both in
    experts  how many;  expert: units of their layers
    tower    units of each label's layers, before its logit
    dim      length of the vectors;  std: deviation of their initial values
    dropout  after each layer
    sparse   gradients of the table as rows
    """

    def __init__(
        self,
        *,
        fields: Mapping[str, Any] | None = None,
        labels: Annotated[int, Range(1)] = 2,
        experts: Annotated[int, Range(1)] = 8,
        expert: Sequence[int] = (64,),
        tower: Sequence[int] = (32,),
        dim: Annotated[int, Range(1)] = 16,
        dropout: Annotated[float, Range(0, below=1)] = 0.0,
        std: Annotated[float, Range(0)] = 0.01,
        sparse: bool = False,
    ) -> None:
        self.schema = Schema.of(fields, "MMoE")
        self.vectors = FieldVectors(self.schema.names(), dim, std=std, sparse=sparse)
        width = len(self.schema.ids) * dim + len(self.schema.numbers)
        self.experts = ModuleList([mlp(width, expert, None, dropout=dropout) for _ in range(experts)])
        self.gates = ModuleList([Linear(width, experts, bias=False) for _ in range(labels)])
        self.towers = ModuleList([mlp(expert[-1], tower, dropout=dropout) for _ in range(labels)])

    def forward(self, *inputs: Tensor) -> Tensor:
        """Logits [N, labels]."""
        ids, numbers = self.read(*inputs)
        row = beside(None if ids is None else self.vectors(ids), numbers)
        outputs = [expert(row) for expert in self.experts]
        logits = [tower(mixture(outputs, gate(row))) for gate, tower in zip(self.gates, self.towers, strict=True)]
        return pdl.concat(logits, axis=1)


TASK = "click-through"
VARIANTS = {"mmoe": {"_target_": "pdl_rec.MMoE"}}
