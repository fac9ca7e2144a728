"""Tags for texts."""

from __future__ import annotations

from typing import Annotated, ClassVar

import pdl
from pdl.errors import ConfigError
from pdl.hints import Range
from pdl.nn import Conv1d, Dropout, Embedding, Linear, init
from pdl.tensor import Tensor
from pdl_rec.models.matching import Fields, Query, TwoTower, inferred


class TagSpace(TwoTower):
    """Weston, Chopra, Adams: "#TagSpace: semantic embeddings from hashtags", EMNLP 2014: a convolution over the words
    of a text, tanh, its maximum over places, tanh, a layer; the product with a tag's vector is the tag's score. Here
    the items are tags, and a query is one text. Trained with the WARP loss (`pdl_rec.Matching`, loss: warp).

    user_fields  one field of words: name -> (rows, width), filled in by the task
    hidden       filters of the convolution, each over `window` words
    dim          numbers in a vector
    dropout      of words' vectors, in training
    """

    reads: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        num_items: Annotated[int, Range(1)] | None = None,
        *,
        user_fields: Fields | None = None,
        word_dim: Annotated[int, Range(1)] = 64,
        hidden: Annotated[int, Range(1)] = 128,
        window: Annotated[int, Range(1)] = 3,
        dim: Annotated[int, Range(1)] = 64,
        dropout: Annotated[float, Range(0, below=1)] = 0.0,
    ) -> None:
        num_items = inferred("TagSpace", num_items=num_items)
        self.num_items, self.user_fields = num_items, dict(user_fields or {})
        if len(self.user_fields) != 1:
            names = ", ".join(self.user_fields) or "none"
            raise ConfigError(f"model: TagSpace reads one field of words; task.user_fields names {names}")
        (self.field,) = self.user_fields
        self.words = Embedding(self.user_fields[self.field][0], word_dim, padding_idx=0)
        self.words.weight.data *= 0.1
        self.conv = Conv1d(word_dim, hidden, window, padding=window // 2)
        self.drop = Dropout(dropout)
        self.layer = Linear(hidden, dim)
        self.tags = Embedding(num_items + 1, dim)
        init.normal_(self.tags.weight, std=0.1)

    def user_vectors(self, query: Query) -> Tensor:
        found = pdl.tanh(self.conv(self.drop(self.words(query[self.field]))))
        made: Tensor = self.layer(pdl.tanh(pdl.max(found, axis=1)))
        return made

    def item_vectors(self, items: Tensor | None = None) -> Tensor:
        return self.tags.weight if items is None else self.tags(items)


TASK = "matching"
VARIANTS = {"tagspace": {"_target_": "pdl_rec.TagSpace"}}
