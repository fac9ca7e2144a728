"""Progressive layered extraction (Tang et al., RecSys 2020)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import pdl
from pdl.hints import Inherited, Range
from pdl.nn import Linear, Module, ModuleList
from pdl.tensor import Tensor
from pdl_rec.models.fields import RowModel, mlp
from pdl_rec.models.mmoe import mixture


class Extraction(Module):
    """One level of customised gate control: each label's gate mixes its own experts and the shared ones; the shared
    gate, where the level is not the last, all experts. One input [N, C] a label and one shared -> as many outputs."""

    def __init__(
        self, width: int, labels: int, own: int, shared: int, expert: Sequence[int], *, dropout: float, last: bool
    ) -> None:
        self.own: Any = ModuleList([_experts(width, own, expert, dropout) for _ in range(labels)])
        self.shared = _experts(width, shared, expert, dropout)
        self.gates = ModuleList([Linear(width, own + shared, bias=False) for _ in range(labels)])
        self.shared_gate = None if last else Linear(width, labels * own + shared, bias=False)

    def forward(self, rows: Sequence[Tensor]) -> list[Tensor]:
        *mine, common = rows
        shared = [expert(common) for expert in self.shared]
        own = [[expert(row) for expert in experts] for row, experts in zip(mine, self.own, strict=True)]
        made = [
            mixture([*outputs, *shared], gate(row)) for row, outputs, gate in zip(mine, own, self.gates, strict=True)
        ]
        if self.shared_gate is not None:
            made.append(mixture([*(each for outputs in own for each in outputs), *shared], self.shared_gate(common)))
        return made


class PLE(RowModel):
    """Several labels: levels of experts, some shared and some of one label, then a tower a label.

    labels   how many; ClickThrough fills it in
    levels   of extraction
    own      experts of each label in a level;  shared: experts of all;  expert: units of their layers
    tower    units of each label's layers, before its logit
    dropout  after each layer
    fields, dim, std and sparse are those of `RowModel`.
    """

    def __init__(
        self,
        *,
        labels: Annotated[int, Range(1)] = 2,
        levels: Annotated[int, Range(1)] = 2,
        own: Annotated[int, Range(1)] = 2,
        shared: Annotated[int, Range(1)] = 2,
        expert: Sequence[int] = (64,),
        tower: Sequence[int] = (32,),
        dropout: Annotated[float, Range(0, below=1)] = 0.0,
        **options: Inherited,
    ) -> None:
        super().__init__(**options)
        width = self.width
        self.levels = ModuleList([])
        for level in range(levels):
            last = level == levels - 1
            self.levels.append(Extraction(width, labels, own, shared, expert, dropout=dropout, last=last))
            width = expert[-1]
        self.towers = ModuleList([mlp(width, tower, dropout=dropout) for _ in range(labels)])

    def forward(self, *inputs: Tensor) -> Tensor:
        """Logits [N, labels]."""
        rows = [self.row(*inputs)] * (len(self.towers) + 1)
        for level in self.levels:
            rows = level(rows)
        return pdl.concat([tower(each) for tower, each in zip(self.towers, rows, strict=True)], axis=1)


def _experts(width: int, count: int, hidden: Sequence[int], dropout: float) -> ModuleList:
    return ModuleList([mlp(width, hidden, None, dropout=dropout) for _ in range(count)])


TASK = "click-through"
VARIANTS = {"ple": {"_target_": "pdl_rec.PLE"}}
