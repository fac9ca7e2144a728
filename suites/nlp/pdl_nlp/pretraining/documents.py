"""Texts as documents: their tokens, and the sentences or turns that these are part of."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl_nlp.pretraining.loader import BLOCK, Packing
from pdl_nlp.pretraining.units import PHRASE, WORD, samples_of

_END = re.compile(r"\n+|[。！？；…]+[”’」』）》]*|[.!?]+[\"'”’)\]]*(?=\s)")  # noqa: RUF001


@dataclass(frozen=True)
class Document:
    """A text as tokens.

    ids     int32 [T]
    marks   uint8 [T]: where words and phrases begin, and what is part of an entity
    bounds  int64 [S + 1]: where its sentences (of a dialogue its turns) begin, and T
    cased   int8 [T]: whether the word of a token begins with a capital; -1 where it has no case
    roles   int64 [S]: of a dialogue who says each turn; None of other texts
    """

    ids: Array
    marks: Array
    bounds: Array
    cased: Array
    roles: Array | None = None

    def __len__(self) -> int:
        """Sentences."""
        return len(self.bounds) - 1

    def piece(self, begin: int, end: int, most: int | None = None) -> tuple[Array, Array]:
        """Tokens and marks of sentences `begin` to `end` - 1, at most so many; the first one begins a unit."""
        rows = slice(self.bounds[begin], self.bounds[end])
        marks = self.marks[rows][:most].copy()
        marks[:1] |= WORD | PHRASE
        return self.ids[rows][:most], marks


def sentences(text: str) -> list[int]:
    """Where the sentences of a text begin, in code points: behind the signs that end Chinese ones and line ends, and
    behind . ! ? before white space; quotes and brackets that close are part of the sentence."""
    return [0, *(match.end() for match in _END.finditer(text))]


def documents(dataset: Any, packing: Packing) -> Iterator[Document]:
    """The texts of a data set or stream, in order; those without tokens are left out."""
    samples = samples_of(dataset)
    while block := list(islice(samples, BLOCK)):
        texts, made, marks = packing.encoded(block, dataset.classes)
        given = block if len(block) == len(texts) else [{}] * len(texts)
        for number, (text, sample) in enumerate(zip(texts, given, strict=True)):
            rows = slice(made.starts[number], made.starts[number + 1])
            begins = made.offsets[rows, 0]
            if not len(begins):
                continue
            turns = sample.get("begins")
            at = np.searchsorted(begins, sentences(text) if turns is None else turns)
            bounds = np.append(at, len(begins))
            kept = np.flatnonzero(np.diff(bounds) > 0)
            roles = None if turns is None else np.asarray(sample["roles"], np.int64)[kept]
            bounds = np.append(bounds[kept], len(begins))
            yield Document(made.ids[rows], marks[rows], bounds, _cased(text, begins, made.words[rows]), roles)


def _cased(text: str, begins: Array, words: Array) -> Array:
    """int8 [T]: of each token 1 where its word begins with a capital, 0 where it could and does not, else -1."""
    first = np.array([-1 if (c := text[at]).lower() == c.upper() else int(c.isupper()) for at in begins], np.int8)
    new = np.ones(len(words), bool)
    new[1:] = words[1:] != words[:-1]
    found: Array = first[np.maximum.accumulate(np.where(new, np.arange(len(words)), 0))]
    return found
