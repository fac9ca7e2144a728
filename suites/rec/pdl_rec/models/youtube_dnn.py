"""A deep net over histories that recalls candidates from all items."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, ClassVar

import pdl
from pdl.hints import Range
from pdl.nn import Dropout, Embedding, Linear, ModuleList, init
from pdl.tensor import Tensor
from pdl_rec.models.matching import Bags, Fields, Query, TwoTower, inferred, mean_rows


class YouTubeDNN(TwoTower):
    """Candidate generation of Covington et al., "Deep neural networks for YouTube recommendations", RecSys 2016,
    section 3: the mean of the vectors of a user's items, and what is known of the user, go through layers of ReLU; the
    result's product with an item's vector is its score. Trained by softmax over (sampled) items.

    dim          numbers in a vector
    layers       widths of the tower's hidden layers; a linear one to `dim` follows
    user_fields  name -> (rows, width), filled in by the task; each gives `field_dim` numbers
    example_age  read the age of each training example (days before the newest; 0 when used), as section 3.3 does
    tied         the same vectors for items in histories and as candidates
    dropout      before each layer of the tower
    """

    reads: ClassVar[tuple[str, ...]] = ("history",)

    def __init__(
        self,
        num_items: Annotated[int, Range(1)] | None = None,
        *,
        dim: Annotated[int, Range(1)] = 64,
        layers: Sequence[int] = (128,),
        user_fields: Fields | None = None,
        field_dim: Annotated[int, Range(1)] = 8,
        example_age: bool = False,
        tied: bool = False,
        dropout: Annotated[float, Range(0, below=1)] = 0.0,
        std: Annotated[float, Range(above=0)] = 0.05,
    ) -> None:
        num_items = inferred("YouTubeDNN", num_items=num_items)
        self.num_items, self.user_fields = num_items, dict(user_fields or {})
        self.items = Embedding(num_items + 1, dim)
        self.history = self.items if tied else Embedding(num_items + 1, dim)
        for table in (self.items, self.history):
            init.normal_(table.weight, std=std)
        self.bags = Bags(self.user_fields, field_dim) if self.user_fields else None
        self.example_age = example_age
        widths = [dim + (self.bags.width if self.bags is not None else 0) + example_age, *layers]
        self.drop = Dropout(dropout)
        self.layers = ModuleList([Linear(a, b) for a, b in pairwise(widths)])
        self.last = Linear(widths[-1], dim)

    @property
    def inputs(self) -> tuple[str, ...]:
        return (*super().inputs, *(("example_age",) if self.example_age else ()))

    def user_vectors(self, query: Query) -> Tensor:
        parts = [mean_rows(self.history, query["history"])]
        if self.bags is not None:
            parts.append(self.bags(query))
        if self.example_age:
            parts.append(query["example_age"])
        x = pdl.concat(parts, axis=-1) if len(parts) > 1 else parts[0]
        for layer in self.layers:
            x = pdl.relu(layer(self.drop(x)))
        made: Tensor = self.last(self.drop(x))
        return made

    def item_vectors(self, items: Tensor | None = None) -> Tensor:
        return self.items.weight if items is None else self.items(items)


TASK = "matching"
VARIANTS = {"youtube_dnn": {"_target_": "pdl_rec.YouTubeDNN"}}
