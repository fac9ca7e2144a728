"""Deep interest network (Zhou et al., arXiv 1706.06978)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import pdl
from pdl.errors import ConfigError
from pdl.hints import Range
from pdl.nn import BatchNorm1d, Linear, Module, Parameter, Sequential
from pdl.tensor import Tensor
from pdl_rec.models.fields import ClickModel, FieldVectors, Schema, mean_of


class Dice(Module):
    """p x + (1 - p) a x, p = sigmoid(batch norm of x without scale and shift), a learned per channel, 0 at first.
    [..., C]."""

    def __init__(self, channels: int) -> None:
        self.norm = BatchNorm1d(channels, affine=False)
        self.slope = Parameter(pdl.zeros((channels,)))

    def forward(self, x: Tensor) -> Tensor:
        flat = x.reshape(-1, x.shape[-1]) if x.ndim > 2 else x
        p = pdl.sigmoid(self.norm(flat))
        y = flat * (p + (1 - p) * self.slope)
        return y.reshape(x.shape) if x.ndim > 2 else y


class Interest(Module):
    """The history as the candidate sees it: sum_t a(v_t, q) v_t over its names, a a small perceptron over
    [q, v, q - v, q * v] whose weights are not normalised. target [N, 1, dim], history [N, T, dim] -> [N, 1, dim]."""

    def __init__(self, dim: int, hidden: Sequence[int]) -> None:
        self.score = _dice_mlp(4 * dim, hidden)

    def forward(self, target: Tensor, history: Tensor, there: Tensor) -> Tensor:
        same = target.broadcast_to(history.shape)
        weights = self.score(pdl.concat([same, history, same - history, same * history], axis=2))
        return (weights * there.expand_dims(axis=2) * history).sum(axis=1, keepdims=True)


class DIN(ClickModel):
    """A perceptron with Dice over all fields' vectors, each history weighted by what the candidate has to do with it.

    fields     the schema of the rows; ClickThrough fills it in
    attend     {sequence: the field of one name that it is weighted by}; by default every sequence whose table is that
               of such a field (`like` in the recipe). Other sequences count by their mean
    attention  units of the perceptron that weighs
    dim        length of the vectors;  std: deviation of their initial values
    hidden     units of the perceptron's layers
    sparse     gradients of the table as rows
    """

    def __init__(
        self,
        *,
        fields: Mapping[str, Any] | None = None,
        attend: Mapping[str, str] | None = None,
        attention: Sequence[int] = (80, 40),
        dim: Annotated[int, Range(1)] = 16,
        hidden: Sequence[int] = (200, 80),
        std: Annotated[float, Range(0)] = 0.01,
        sparse: bool = False,
    ) -> None:
        self.schema = Schema.of(fields, "DIN")
        self.attend = _pairs(self.schema) if attend is None else dict(attend)
        if not self.attend:
            raise ConfigError(
                "DIN: no sequence shares its table with a field of one name; say so with like in task.fields"
            )
        for pair in self.attend.items():
            for name in pair:
                self.schema.place(name)
        self.vectors = FieldVectors(self.schema, dim, std=std, sparse=sparse)
        self.interest = Interest(dim, attention)
        self.mlp = _dice_mlp(self.schema.count * dim, hidden)

    def forward(self, *inputs: Tensor) -> Tensor:
        """Logits [N]."""
        ids, numbers = self.read(*inputs)
        assert ids is not None
        rows, parts = self.vectors.rows(ids), []
        for name, (_, length) in self.schema.ids.items():
            place = self.schema.place(name)
            if name in self.attend:
                target = rows[:, self.schema.place(self.attend[name])]
                parts.append(self.interest(target, rows[:, place], (ids[:, place] > 0).astype(rows.dtype)))
            else:
                parts.append(mean_of(rows[:, place], ids[:, place]) if length else rows[:, place])
        if numbers is not None:
            parts.append(self.vectors.of_numbers(numbers))
        return self.mlp(pdl.concat(parts, axis=1).flatten(start=1)).squeeze(1)


def _pairs(schema: Schema) -> dict[str, str]:
    """Each sequence with the field of one name of the same table."""
    single = {table: name for name, (table, length) in schema.ids.items() if not length}
    return {name: single[table] for name, (table, length) in schema.ids.items() if length and table in single}


def _dice_mlp(inputs: int, hidden: Sequence[int]) -> Sequential:
    layers: list[Module] = []
    for units in hidden:
        layers += [Linear(inputs, units), Dice(units)]
        inputs = units
    return Sequential(*layers, Linear(inputs, 1))


TASK = "click-through"
VARIANTS = {"din": {"_target_": "pdl_rec.DIN"}}
