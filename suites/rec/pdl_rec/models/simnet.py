"""Queries and documents seen in several views."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import pdl
from pdl.errors import ConfigError
from pdl.hints import Range
from pdl.nn import GRU, Conv1d, Embedding, Linear, Module, ModuleDict
from pdl.tensor import Tensor
from pdl_rec.models.matching import Fields, FieldTowers, unit

Encoder = Literal["bow", "cnn", "gru"]


class SimNet(FieldTowers):
    """Multi-view SimNet, as PaddleRec's `multiview-simnet`: each view of a query (words of one field) and of a document
    (title, ...) has an encoder of its own; the views side by side go through one layer a side; the score is the cosine.
    Trained with a hinge loss: max(0, margin - cos(query, document) + cos(query, other document)).

    user_fields, item_fields  the views: name -> (rows, width), filled in by the task
    history   one view more: the items that the user had before, in order
    encoder   of the words of a view. "bow": softsign of their sum; "cnn": tanh of a convolution over `window` words,
              its maximum over places; "gru": the last state
    """

    def __init__(
        self,
        num_items: Annotated[int, Range(1)] | None = None,
        *,
        user_fields: Fields | None = None,
        item_fields: Fields | None = None,
        history: bool = False,
        encoder: Encoder = "bow",
        word_dim: Annotated[int, Range(1)] = 64,
        hidden: Annotated[int, Range(1)] = 64,
        window: Annotated[int, Range(1)] = 3,
        dim: Annotated[int, Range(1)] = 64,
    ) -> None:
        super().__init__(num_items, user_fields, item_fields, history)
        of_users = self.of_users()
        if not of_users or not self.item_fields:
            raise ConfigError("model: SimNet needs views on both sides; name them in task.user_fields and item_fields")
        form: dict[str, Any] = {"encoder": encoder, "word_dim": word_dim, "hidden": hidden, "window": window}
        self.user_tower, self.item_tower = (_Side(fields, dim=dim, **form) for fields in (of_users, self.item_fields))


class _Side(Module):
    """The views of one side: {field: int64 [..., L]} -> [..., dim], of length 1."""

    def __init__(self, fields: Fields, *, dim: int, hidden: int, **form: Any) -> None:
        self.names = tuple(fields)
        self.views = ModuleDict({name: _View(fields[name][0], hidden=hidden, **form) for name in fields})
        self.layer = Linear(hidden * len(self.names), dim)

    def forward(self, values: Mapping[str, Tensor]) -> Tensor:
        views = []
        for name in self.names:
            words = values[name]
            flat = pdl.reshape(words, (-1, words.shape[-1]))
            views.append(pdl.reshape(self.views[name](flat), (*words.shape[:-1], -1)))
        return unit(self.layer(pdl.concat(views, axis=-1)))


class _View(Module):
    """One encoder: words int64 [N, L], zeros behind the last -> [N, hidden]."""

    def __init__(self, rows: int, *, encoder: Encoder, word_dim: int, hidden: int, window: int) -> None:
        self.encoder = encoder
        self.words = Embedding(rows, hidden if encoder == "bow" else word_dim, padding_idx=0)
        self.words.weight.data *= 0.1
        self.conv = Conv1d(word_dim, hidden, window, padding=window // 2) if encoder == "cnn" else None
        self.gru = GRU(word_dim, hidden) if encoder == "gru" else None

    def forward(self, words: Tensor) -> Tensor:
        if self.conv is not None:
            return pdl.max(pdl.tanh(self.conv(self.words(words))), axis=1)
        if self.gru is not None:
            lengths = pdl.not_equal(words, 0).sum(axis=1)
            return self.gru(self.words(words), lengths=lengths)[1][0]
        total = self.words(words).sum(axis=1)
        return total / (1.0 + pdl.abs(total))


TASK = "matching"
VARIANTS = {
    "simnet_bow": {"_target_": "pdl_rec.SimNet", "encoder": "bow"},
    "simnet_cnn": {"_target_": "pdl_rec.SimNet", "encoder": "cnn"},
    "simnet_gru": {"_target_": "pdl_rec.SimNet", "encoder": "gru"},
}
