"""How right tags are: by token, and by the spans that they mark."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Literal, NamedTuple

import numpy as np

from pdl.dtype import Array
from pdl.train.metrics import Metric
from pdl_nlp.schemes import Tags


class TagAccuracy(Metric):
    """The share of tokens with the right tag."""

    def __init__(self) -> None:
        self.right = self.count = 0

    def update(self, found: Array, tags: Array) -> None:
        """Both int [N, T], tags -1 behind the last one."""
        real = tags >= 0
        self.right += int((found[real] == tags[real]).sum())
        self.count += int(real.sum())

    def compute(self) -> float:
        return self.right / self.count if self.count else float("nan")


class SpanCounts(Metric):
    """int64 [kinds + 1, 3]: how many spans of each kind there are, are found, and both, with the same begin, end and
    kind, as conlleval and seqeval count; in the last row those of all kinds, kinds left aside."""

    def __init__(self, tags: Tags) -> None:
        self.tags, self.counts = tags, np.zeros((len(tags.kinds) + 1, 3), np.int64)

    def update(self, found: Array, tags: Array) -> None:
        """Both int [N, T], tags -1 behind the last one."""
        edge = np.full((len(tags), 1), -1)
        made = [np.concatenate([np.where(tags < 0, -1, each), edge], axis=1).ravel() for each in (tags, found)]
        (present, kinds), (answered, of) = (self._keys(self.tags.spans(each)) for each in made)
        count = len(self.tags.kinds)
        both = np.intersect1d(present * count + kinds, answered * count + of, assume_unique=True)
        for column, each in enumerate((kinds, of, both % count if count else both)):
            self.counts[:-1, column] += np.bincount(each, minlength=count)[:count]
        self.counts[-1] += (len(present), len(answered), len(np.intersect1d(present, answered, assume_unique=True)))

    @staticmethod
    def _keys(spans: Array) -> tuple[Array, Array]:
        """A number of each span's position, and its kind."""
        return (spans[:, 0] << 31) + (spans[:, 1] - spans[:, 0]), spans[:, 2]

    def compute(self) -> Array:
        return self.counts


class SpanScore(Metric):
    """Precision, recall or F1 = 2 hits / (present + found) of what a `SpanCounts` has counted: of all spans with their
    kinds, of some kinds, or of positions alone."""

    def __init__(
        self, counted: SpanCounts, what: Literal["precision", "recall", "f1"], kinds: Collection[str] | None = None,
        *, positions: bool = False,
    ) -> None:  # fmt: skip
        self.counted, self.what, self.kinds, self.positions = counted, what, kinds, positions

    def update(self, found: Array, tags: Array) -> None:
        """The counts see the batch themselves."""

    def compute(self) -> float:
        counts = self.counted.counts
        kept = [self.kinds is None or kind in self.kinds for kind in self.counted.tags.kinds]
        present, found, hits = counts[-1] if self.positions else counts[:-1][np.array(kept, bool)].sum(axis=0)
        below = {"precision": found, "recall": present, "f1": (present + found) / 2}[self.what]
        return float(hits / below) if below else float("nan")


class Confusions(Metric):
    """int64 [K, K]: how many tokens with the tag of a row were given that of a column."""

    def __init__(self, count: int) -> None:
        self.table = np.zeros((count, count), np.int64)

    def update(self, found: Array, tags: Array) -> None:
        real = tags >= 0
        np.add.at(self.table, (tags[real], found[real]), 1)

    def compute(self) -> Array:
        return self.table


class WrongSentence(NamedTuple):
    """A sentence with a wrong tag: -log p of its tags, its number, and the tags found int [T]."""

    loss: float
    sentence: int
    found: Array


class WorstSentences(Metric):
    """The `keep` sentences with a wrong tag whose tags were the least probable."""

    def __init__(self, keep: int) -> None:
        self.keep = keep
        self.held: list[WrongSentence] = []

    def update(self, found: Array, tags: Array, losses: Array, index: Array) -> None:
        real = tags >= 0
        for row in np.flatnonzero(((found != tags) & real).any(axis=1)):
            self.held.append(WrongSentence(float(losses[row]), int(index[row]), found[row][real[row]]))
        self.held = sorted(self.held, key=lambda each: (-each.loss, each.sentence))[: self.keep]

    def compute(self) -> Any:
        return self.held


def tag_metrics(tags: Tags, *, segment: bool = False, entities: Collection[str] = ()) -> dict[str, Metric]:
    """What is measured of tags: accuracy; of spans F1, precision and recall, where words are to be found those of their
    positions alone, and F1 of the kinds that are `entities`; counts of each kind and confusions of tags."""
    made: dict[str, Metric] = {"accuracy": TagAccuracy(), "confusions": Confusions(len(tags.names))}
    if tags.scheme == "none":
        return made
    counted = SpanCounts(tags)
    made["spans"] = counted
    for what in ("f1", "precision", "recall"):
        made[what] = SpanScore(counted, what)
    if segment:
        made["segmentation_f1"] = SpanScore(counted, "f1", positions=True)
    if entities:
        made["entities_f1"] = SpanScore(counted, "f1", frozenset(entities))
    return made
