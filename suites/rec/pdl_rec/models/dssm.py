"""Two towers over words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Annotated

import pdl
from pdl.errors import ConfigError
from pdl.hints import Range
from pdl.nn import Linear, Module, ModuleList, init
from pdl.tensor import Tensor
from pdl_rec.models.matching import Bags, Fields, FieldTowers, unit


class DSSM(FieldTowers):
    """Huang et al., "Learning deep structured semantic models for web search using clickthrough data", CIKM 2013: bags
    of words (or of their letter trigrams: `trigrams` of the task) of a query and of a document go through towers of
    tanh layers; the score is gamma cos(query, document), trained by softmax over sampled documents.

    user_fields, item_fields  name -> (rows, width), filled in by the task
    history   also a bag of the items that the user had before (numbers of items, not words)
    identity  also a word of each item's own
    dim       width of the last layer;  layers: of those before it
    gamma     the smoothing factor of the softmax (equation 5)
    """

    def __init__(
        self,
        num_items: Annotated[int, Range(1)] | None = None,
        *,
        user_fields: Fields | None = None,
        item_fields: Fields | None = None,
        history: bool = False,
        identity: bool = False,
        word_dim: Annotated[int, Range(1)] = 32,
        layers: Sequence[int] = (128,),
        dim: Annotated[int, Range(1)] = 64,
        gamma: Annotated[float, Range(above=0)] = 10.0,
    ) -> None:
        super().__init__(num_items, user_fields, item_fields, history)
        self.identity, self.scale = identity, gamma
        of_users = self.of_users()
        of_items = {**self.item_fields, **({"item": (self.num_items + 1, 1)} if identity else {})}
        if not of_users or not of_items:
            raise ConfigError(
                "model: DSSM needs something to read on both sides; name fields in task.user_fields and "
                "task.item_fields, or set history and identity"
            )
        self.user_tower = _Tower(of_users, word_dim, layers, dim)
        self.item_tower = _Tower(of_items, word_dim, layers, dim)

    def item_vectors(self, items: Tensor | None = None) -> Tensor:
        values = self.fields(items)
        if self.identity:
            numbers = pdl.arange(self.num_items + 1, dtype=pdl.int64) if items is None else items
            values["item"] = pdl.expand_dims(numbers, axis=-1)
        made: Tensor = self.item_tower(values)
        return made


class _Tower(Module):
    """Bags of words, then layers of tanh; vectors of length 1: {field: int64 [..., L]} -> [..., dim]."""

    def __init__(self, fields: Fields, word_dim: int, layers: Sequence[int], dim: int) -> None:
        self.bags = Bags(fields, word_dim)
        widths = [self.bags.width, *layers, dim]
        made = [Linear(a, b) for a, b in pairwise(widths)]
        for layer in made:
            init.xavier_uniform_(layer.weight)  # section 3.4
        self.layers = ModuleList(made)

    def forward(self, values: Mapping[str, Tensor]) -> Tensor:
        x = self.bags(values)
        for layer in self.layers:
            x = pdl.tanh(layer(x))
        return unit(x)


TASK = "matching"
VARIANTS = {"dssm": {"_target_": "pdl_rec.DSSM"}}
