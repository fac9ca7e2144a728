"""Neural collaborative filtering."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Literal

import pdl
from pdl.hints import Range
from pdl.nn import Dropout, Embedding, Linear, Module, ModuleList, init
from pdl.tensor import Tensor
from pdl_rec.models.matching import MatchingModel, Query, inferred


class NCF(MatchingModel):
    """GMF, MLP and their fusion NeuMF: He et al., "Neural collaborative filtering", arXiv 1708.05031, section 3.

        GMF    h . (p_u * q_i)
        MLP    h . relu(W_L ... relu(W_1 [p'_u; q'_i] + b_1) ... + b_L)
        NeuMF  h . [p_u * q_i ; the last layer of the MLP], with tables of their own for both parts

    Trained with log loss on sampled negatives (`pdl_rec.Matching`, loss: bce); the score is the logit.

    dim      numbers in a vector of GMF
    layers   widths of the MLP's layers; its vectors are half as wide as the first
    dropout  before each layer of the MLP
    variant  gmf, mlp or neumf
    """

    def __init__(
        self,
        num_users: Annotated[int, Range(1)] | None = None,
        num_items: Annotated[int, Range(1)] | None = None,
        *,
        variant: Literal["gmf", "mlp", "neumf"] = "neumf",
        dim: Annotated[int, Range(1)] = 64,
        layers: Sequence[int] = (128, 64),
        dropout: Annotated[float, Range(0, below=1)] = 0.0,
        std: Annotated[float, Range(above=0)] = 0.01,
    ) -> None:
        num_users, num_items = inferred("NCF", num_users=num_users), inferred("NCF", num_items=num_items)
        self.num_users, self.num_items = num_users, num_items
        self.product = _Product(num_users, num_items, dim, std) if variant != "mlp" else None
        self.perceptron = _Perceptron(num_users, num_items, layers, dropout, std) if variant != "gmf" else None
        widths = (dim if variant != "mlp" else 0) + (layers[-1] if variant != "gmf" else 0)
        self.out = Linear(widths, 1, bias=False)

    def score(self, query: Query, items: Tensor) -> Tensor:
        parts = [part(query["user"], items) for part in (self.product, self.perceptron) if part is not None]
        return pdl.squeeze(self.out(parts[0] if len(parts) == 1 else pdl.concat(parts, axis=-1)), axis=-1)

    def forward(self, query: Query) -> Tensor:
        every = pdl.arange(self.num_items + 1, dtype=pdl.int64)
        return self.score(query, pdl.expand_dims(every, axis=0))


class _Product(Module):
    """p_u * q_i: users [N], items [N, K] or [1, K] -> [N, K, dim]."""

    def __init__(self, num_users: int, num_items: int, dim: int, std: float) -> None:
        self.users, self.items = _table(num_users, dim, std), _table(num_items, dim, std)

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        return pdl.expand_dims(self.users(users), axis=1) * self.items(items)


class _Perceptron(Module):
    """The layers over [p_u; q_i]: users [N], items [N, K] or [1, K] -> [N, K, layers[-1]].

    W_1 [p; q] is computed as W_p p + W_q q, once for each user and item and not once for each pair.
    """

    def __init__(self, num_users: int, num_items: int, layers: Sequence[int], dropout: float, std: float) -> None:
        dim = max(layers[0] // 2, 1)
        self.users, self.items = _table(num_users, dim, std), _table(num_items, dim, std)
        self.drop = Dropout(dropout)
        self.of_users, self.of_items = Linear(dim, layers[0], bias=False), Linear(dim, layers[0])
        above = [Linear(a, b) for a, b in pairwise(layers)]
        for layer in (self.of_users, self.of_items, *above):
            init.xavier_normal_(layer.weight)
        self.layers = ModuleList(above)

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        of_users = pdl.expand_dims(self.of_users(self.drop(self.users(users))), axis=1)
        x = pdl.relu(of_users + self.of_items(self.drop(self.items(items))))
        for layer in self.layers:
            x = pdl.relu(layer(self.drop(x)))
        return x


def _table(names: int, dim: int, std: float) -> Embedding:
    table = Embedding(names + 1, dim)
    init.normal_(table.weight, std=std)
    return table


TASK = "matching"
VARIANTS = {
    "gmf": {"_target_": "pdl_rec.NCF", "variant": "gmf"},
    "mlp": {"_target_": "pdl_rec.NCF", "variant": "mlp"},
    "neumf": {"_target_": "pdl_rec.NCF", "variant": "neumf"},
}
