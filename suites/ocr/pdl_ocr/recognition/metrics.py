"""How right the texts are that were read."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pdl.train.metrics import Metric
from pdl.train.texts import CharacterError, ExactTexts, Pairs, Read, alignment, edit_distance


def alphanumeric(text: str) -> str:
    """Letters with their marks and digits alone, case ignored: what ICDAR's word recognition is mostly compared by."""
    return "".join(c for c in text.casefold() if c.isalnum() or unicodedata.category(c)[0] == "M")


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


def recognition_metrics() -> dict[str, Metric]:
    """accuracy (exact), alphanumeric (letters and digits alone, case ignored), 1-NED, CER; and all pairs for the
    report."""
    return {
        "accuracy": ExactTexts(),
        "alphanumeric": ExactTexts(alphanumeric),
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
