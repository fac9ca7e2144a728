"""Texts in a normal form of Unicode (UAX #15), and where in the original text each code point of it is from, as HF
`tokenizers` counts."""

from __future__ import annotations

from itertools import groupby
from typing import Literal, TypeAlias, get_args
from unicodedata import combining, is_normalized, normalize

import numpy as np

from pdl.dtype import Array

Form: TypeAlias = Literal["NFC", "NFD", "NFKC", "NFKD"]
FORMS = get_args(Form)


def normalised(text: str, form: Form) -> tuple[str, Array | None]:
    """The text in a form, and int32 [n, 2]: where each of its code points begins and ends in the given one; None where
    nothing changes. What is put together out of several is where the first of them is; what a code point is taken apart
    into is all where that is."""
    if is_normalized(form, text):
        return text, None
    found = _decomposed(text, "NFKD" if "K" in form else "NFD")
    if form.endswith("C"):
        found = _composed(found)
    places, at = list[int](), 0
    for _, change in found:
        if change > 0:
            places.append(max(at - 1, 0))
        else:
            places.append(at)
            at += 1 - change
    begins = np.array(places, np.int32)
    return "".join(letter for letter, _ in found), np.stack([begins, begins + 1], axis=1)


def _decomposed(text: str, form: Form) -> list[tuple[str, int]]:
    """Code points in canonical order, with 0 for each that stands for one of the text, and 1 for each that is more."""
    found = [(part, int(number > 0)) for letter in text for number, part in enumerate(normalize(form, letter))]
    ordered = list[tuple[str, int]]()
    for marks, group in groupby(found, key=lambda each: combining(each[0]) > 0):
        together = list(group)
        ordered += sorted(together, key=lambda each: combining(each[0])) if marks else together
    return ordered


def _composed(found: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Pairs put together where Unicode has a code point for them, with less by one for each that is gone."""
    made = list[tuple[str, int]]()
    starter, last = -1, 0  # where in `made`, and the class of what stands behind it
    for letter, change in found:
        kind = combining(letter)
        if starter >= 0 and (last < kind or (last == 0 and starter == len(made) - 1)):
            before, count = made[starter]
            both = normalize("NFC", before + letter)
            if len(both) == 1:
                made[starter] = both, count + change - 1
                continue
        if kind == 0:
            starter = len(made)
        last = kind
        made.append((letter, change))
    return made
