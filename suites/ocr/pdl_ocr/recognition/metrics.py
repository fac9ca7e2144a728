"""How right the texts are that were read."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pdl.train.metrics import Metric


def edit_distance(a: Sequence[Any], b: Sequence[Any]) -> int:
    """The fewest insertions, deletions and replacements that make `b` of `a` (Levenshtein 1966)."""
    if a == b:
        return 0
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (x != y))
    return row[-1]


def alphanumeric(text: str) -> str:
    """Letters and digits alone, case ignored: what ICDAR's word recognition is mostly compared by."""
    return "".join(c for c in text.casefold() if c.isalnum())


class WordAccuracy(Metric):
    """The share of texts that are read exactly, after `rule` on both."""

    def __init__(self, rule: Callable[[str], str] = str) -> None:
        self.rule, self.right, self.count = rule, 0, 0

    def update(self, found: Sequence[str], texts: Sequence[str], index: Any) -> None:
        self.right += sum(self.rule(a) == self.rule(b) for a, b in zip(found, texts, strict=True))
        self.count += len(texts)

    def compute(self) -> float:
        return self.right / self.count if self.count else float("nan")


class EditSimilarity(Metric):
    """The mean of 1 - edit distance / length of the longer of both: ICDAR 2019's 1-NED."""

    def __init__(self) -> None:
        self.total, self.count = 0.0, 0

    def update(self, found: Sequence[str], texts: Sequence[str], index: Any) -> None:
        for a, b in zip(found, texts, strict=True):
            self.total += 1 - edit_distance(a, b) / max(len(a), len(b), 1)
        self.count += len(texts)

    def compute(self) -> float:
        return self.total / self.count if self.count else float("nan")


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
    """A line of the data by its number, its text, and what was read."""

    line: int
    text: str
    found: str


class Pairs(Metric):
    """All texts with what was read: [Read, ...]."""

    def __init__(self) -> None:
        self.pairs: list[Read] = []

    def update(self, found: Sequence[str], texts: Sequence[str], index: Any) -> None:
        self.pairs += [Read(int(i), b, a) for a, b, i in zip(found, texts, index, strict=True)]

    def compute(self) -> Any:
        return self.pairs


def recognition_metrics() -> dict[str, Metric]:
    """accuracy (exact), alphanumeric (letters and digits alone, case ignored), 1-NED, CER; and all pairs for the
    report."""
    return {
        "accuracy": WordAccuracy(),
        "alphanumeric": WordAccuracy(alphanumeric),
        "similarity": EditSimilarity(),
        "cer": CharacterError(),
        "read": Pairs(),
    }


def by_length(pairs: Sequence[Read]) -> list[tuple[int, int, float, float]]:
    """(length, texts, share read exactly, 1-NED) of texts by their length."""
    found = []
    for length in sorted({len(each.text) for each in pairs}):
        own = [each for each in pairs if len(each.text) == length]
        near = [1 - edit_distance(each.found, each.text) / max(len(each.found), length, 1) for each in own]
        found.append((length, len(own), float(np.mean([e.found == e.text for e in own])), float(np.mean(near))))
    return found


def alignment(text: str, found: str) -> list[tuple[str, str]]:
    """The characters of both texts side by side along one shortest edit path; "" where one has none."""
    n, m = len(text), len(found)
    cost = np.zeros((n + 1, m + 1), np.int64)
    cost[:, 0], cost[0] = np.arange(n + 1), np.arange(m + 1)
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            both = cost[i - 1, j - 1] + (text[i - 1] != found[j - 1])
            cost[i, j] = min(both, cost[i - 1, j] + 1, cost[i, j - 1] + 1)
    made, i, j = list[tuple[str, str]](), n, m
    while i or j:
        if i and j and cost[i, j] == cost[i - 1, j - 1] + (text[i - 1] != found[j - 1]):
            i, j = i - 1, j - 1
            made.append((text[i], found[j]))
        elif i and cost[i, j] == cost[i - 1, j] + 1:
            i -= 1
            made.append((text[i], ""))
        else:
            j -= 1
            made.append(("", found[j]))
    return made[::-1]


class Character(NamedTuple):
    """A character: how often it occurs, how often it is read right, and what it is taken for instead, most often
    first."""

    character: str
    times: int
    right: int
    taken_for: list[tuple[str, int]]


def by_character(pairs: Sequence[Read]) -> list[Character]:
    """All characters of the texts, those with the most mistakes first."""
    seen, right, wrong = Counter[str](), Counter[str](), Counter[tuple[str, str]]()
    for each in pairs:
        if each.found == each.text:
            seen.update(each.text)
            right.update(each.text)
            continue
        for a, b in alignment(each.text, each.found):
            if a:
                seen[a] += 1
                right[a] += a == b
                wrong[a, b] += a != b
    made = []
    for character, count in seen.items():
        others = [(b, n) for (a, b), n in wrong.most_common() if a == character and n]
        made.append(Character(character, count, right[character], others))
    return sorted(made, key=lambda each: (each.right - each.times, each.character))


def named(character: str) -> str:
    """A character as people can tell it: with its name where it cannot be seen."""
    if not character:
        return "nothing"
    if character.isspace() or unicodedata.combining(character):
        return unicodedata.name(character, f"U+{ord(character):04X}").lower()
    return character
