"""A perceptron beside a linear model, for rows of names and numbers with several outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import pdl
from pdl.errors import ConfigError
from pdl.hints import Range
from pdl.nn import Parameter
from pdl.tensor import Tensor
from pdl_rec.models.fields import ClickModel, FieldVectors, Schema, beside, mlp


class TableNet(ClickModel):
    """outputs [N, K] = b + sum_i x_i w_i + a perceptron over the vectors of names and the numbers as they are: Wide &
    Deep (Cheng et al., arXiv 1606.07792) with K outputs.

    fields   the schema of the rows, and
    outputs  how many numbers it gives for a row; RowPrediction fills them in
    dim      length of the vectors;  std: deviation of their initial values
    hidden   units of the perceptron's layers;  dropout: after each of them
    """

    def __init__(
        self,
        *,
        fields: Mapping[str, Any] | None = None,
        outputs: Annotated[int, Range(1)] | None = None,
        dim: Annotated[int, Range(1)] = 8,
        hidden: Sequence[int] = (128, 64),
        dropout: Annotated[float, Range(0, below=1)] = 0.2,
        std: Annotated[float, Range(0)] = 0.1,
    ) -> None:
        if outputs is None:
            raise ConfigError("TableNet: outputs is missing; RowPrediction fills it in from the data")
        self.schema = Schema.of(fields, "TableNet")
        self.linear = FieldVectors(self.schema, outputs, std=0.0)
        self.bias = Parameter(pdl.zeros((outputs,)))
        self.vectors = FieldVectors(self.schema.names(), dim, std=std) if self.schema.ids else None
        self.mlp = mlp(len(self.schema.ids) * dim + len(self.schema.numbers), hidden, outputs, dropout=dropout)

    def forward(self, *inputs: Tensor) -> Tensor:
        """[N, K]."""
        ids, numbers = self.read(*inputs)
        deep = self.mlp(beside(None if self.vectors is None else self.vectors(ids), numbers))
        return self.linear(ids, numbers).sum(axis=1) + self.bias + deep


TASK = "rows"
VARIANTS = {"tablenet": {"_target_": "pdl_rec.TableNet"}}
