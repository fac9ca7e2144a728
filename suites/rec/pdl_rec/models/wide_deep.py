"""Wide & Deep (Cheng et al., arXiv 1606.07792)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pdl.hints import Range
from pdl.tensor import Tensor
from pdl_rec.models.fields import ClickModel, FieldVectors, FirstOrder, Schema, beside, mlp


class WideDeep(ClickModel):
    """logit = the linear model of the fields (crosses of fields among them) + a perceptron over the names' vectors and
    the numbers as they are.

    fields   the schema of the rows; ClickThrough fills it in
    wide     fields of the linear part; by default all
    deep     fields of the perceptron; by default all
    dim      length of the vectors;  std: deviation of their initial values
    hidden   units of the perceptron's layers;  dropout: after each of them
    sparse   gradients of the tables as rows
    """

    def __init__(
        self,
        *,
        fields: Mapping[str, Any] | None = None,
        wide: Sequence[str] | None = None,
        deep: Sequence[str] | None = None,
        dim: Annotated[int, Range(1)] = 16,
        hidden: Sequence[int] = (256, 128),
        dropout: Annotated[float, Range(0, below=1)] = 0.0,
        std: Annotated[float, Range(0)] = 0.01,
        sparse: bool = False,
    ) -> None:
        self.schema = Schema.of(fields, "WideDeep")
        self.wide, self.deep = self.schema.part(wide), self.schema.part(deep)
        self.linear = FirstOrder(self.wide.schema, sparse=sparse)
        self.vectors = FieldVectors(self.deep.schema.names(), dim, std=std, sparse=sparse)
        inputs = len(self.deep.schema.ids) * dim + len(self.deep.schema.numbers)
        self.mlp = mlp(inputs, hidden, dropout=dropout)

    def forward(self, *inputs: Tensor) -> Tensor:
        """Logits [N]."""
        row = self.read(*inputs)
        ids, numbers = self.deep.of(*row)
        deep = self.mlp(beside(None if ids is None else self.vectors(ids), numbers))
        return self.linear(*self.wide.of(*row)) + deep.squeeze(1)


TASK = "click-through"
VARIANTS = {"widedeep": {"_target_": "pdl_rec.WideDeep"}}
