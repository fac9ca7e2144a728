"""How right texts are that nets wrote of images and sounds: edit distances, alignments, and metrics of both."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pdl.dtype import Array
from pdl.train.metrics import Metric


def edit_distance(a: Sequence[Hashable], b: Sequence[Hashable]) -> int:
    """The fewest insertions, deletions and replacements of characters, or words, that make `b` of `a` (Levenshtein
    1966)."""
    return 0 if a == b else int(_costs(a, b)[-1, -1])


def _costs(a: Sequence[Hashable], b: Sequence[Hashable]) -> Array:
    """int64 [len(a) + 1, len(b) + 1]: the edit distances of all beginnings."""
    numbers: dict[Hashable, int] = {}
    ours, theirs = (np.array([numbers.setdefault(x, len(numbers)) for x in each], np.int64) for each in (a, b))
    along = np.arange(len(b) + 1)
    cost = np.empty((len(a) + 1, len(b) + 1), np.int64)
    cost[0] = along
    for i, x in enumerate(ours, 1):
        cost[i, 0] = i
        np.minimum(cost[i - 1, 1:] + 1, cost[i - 1, :-1] + (theirs != x), out=cost[i, 1:])
        cost[i] = np.minimum.accumulate(cost[i] - along) + along  # insertions: one more for each place to the right
    return cost


def alignment(a: Sequence[Any], b: Sequence[Any]) -> list[tuple[Any, Any]]:
    """The characters, or words, of both side by side along one shortest edit path; "" where one has none. Of several
    such paths it is that of rapidfuzz, and so of jiwer: equal beginnings and ends stay, and from behind deletions come
    first."""
    head = _common(a, b)
    tail = _common(a[head:][::-1], b[head:][::-1])
    ours, theirs = (each[head : len(each) - tail] for each in (a, b))
    cost, made = _costs(ours, theirs), list[tuple[Any, Any]]()
    i, j = len(ours), len(theirs)
    while i or j:
        if i and cost[i, j] == cost[i - 1, j] + 1:
            i -= 1
            made.append((ours[i], ""))
        elif j and (not i or cost[i, j - 1] < cost[i - 1, j - 1]):
            j -= 1
            made.append(("", theirs[j]))
        else:
            i, j = i - 1, j - 1
            made.append((ours[i], theirs[j]))
    ends = [list(zip(each, each, strict=True)) for each in (a[:head], a[len(a) - tail :])]
    return [*ends[0], *made[::-1], *ends[1]]


def _common(a: Sequence[Any], b: Sequence[Any]) -> int:
    """How many at the beginning of both are equal."""
    return next((k for k, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


class ExactTexts(Metric):
    """The share of texts that are written exactly, after `rule` on both."""

    def __init__(self, rule: Callable[[str], str] = str) -> None:
        self.rule, self.right, self.count = rule, 0, 0

    def update(self, found: Sequence[str], texts: Sequence[str], index: Any) -> None:
        self.right += sum(self.rule(a) == self.rule(b) for a, b in zip(found, texts, strict=True))
        self.count += len(texts)

    def compute(self) -> float:
        return self.right / self.count if self.count else float("nan")


class CharacterError(Metric):
    """CER: the sum of edit distances by the number of characters that there are."""

    def __init__(self) -> None:
        self.edits = self.count = 0

    def update(self, found: Sequence[str], texts: Sequence[str], index: Any) -> None:
        self.edits += sum(edit_distance(a, b) for a, b in zip(found, texts, strict=True))
        self.count += sum(map(len, texts))

    def compute(self) -> float:
        return self.edits / self.count if self.count else float("nan")


class Read(NamedTuple):
    """A sample of the data by its number, its text, and what was found to be its text."""

    line: int
    text: str
    found: str


class Pairs(Metric):
    """All texts with what was found: [Read, ...]."""

    def __init__(self) -> None:
        self.pairs: list[Read] = []

    def update(self, found: Sequence[str], texts: Sequence[str], index: Any) -> None:
        self.pairs += [Read(int(i), b, a) for a, b, i in zip(found, texts, index, strict=True)]

    def compute(self) -> Any:
        return self.pairs


__all__ = ["CharacterError", "ExactTexts", "Pairs", "Read", "alignment", "edit_distance"]
