"""The input step for texts: words in, their numbers out."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.errors import DataError
from pdl.runtime import tables
from pdl.runtime.fields import part_of
from pdl.runtime.steps import Input, InputStep, NamesOf, Sample
from pdl.runtime.steps.arguments import count, text, texts
from pdl.runtime.steps.rows import ABOUT_ROW, ROW
from pdl.suites import suggest
from pdl_rec.steps.sessions import filled

MAX_BUCKETS = 1 << 31


class WordsInput(NamesOf, InputStep):
    """A text -> the numbers of its words int64 [length], zeros behind the last; or of their letter trigrams.

    A text that is itself a name of the vocabulary counts as one word; others are taken apart at white space, and lists
    of words are taken as they are. Words that the vocabulary lacks are dropped and listed in the answer as "unknown";
    the first `length` others count. With `trigrams`, the number of their buckets, every word can be read
    (`trigrams`).

    part, parts   the text is this part of an item, whose parts have these names: see `pdl.runtime.fields.part_of`. Of
                  an item that is nothing but a text something must be known
    """

    name = "words"

    def __init__(
        self, vocabulary: str, length: int, part: str, parts: Sequence[str] = (), trigrams: int | None = None
    ) -> None:
        self.vocabulary, self.length = text("vocabulary", vocabulary), count("length", length)
        self.part, self.parts = text("part", part), texts("parts", parts) or [part]
        self.trigrams = None if trigrams is None else count("trigrams", trigrams, 2, MAX_BUCKETS)
        self.takes, self.metavar, self.about = "text", "WORDS", "a text: words between spaces"
        if len(self.parts) > 1:
            self.takes, self.metavar, self.about = "row", ROW, ABOUT_ROW

    def parse(self, item: Any, sample: Sample) -> Array:
        words = self._split(part_of(item, self.part, self.parts))
        if self.trigrams is not None:
            known = spelled(np.arange(1, len(words) + 1)[None], trigrams(words, self.trigrams))[0]
            known = known[known > 0]
        else:
            numbers = self.names.encode(words)
            known = numbers[numbers > 0]
            unknown = [word for word, number in zip(words, numbers, strict=True) if not number]
            sample.note_unknown(unknown)
        if not len(known) and len(self.parts) == 1:
            raise DataError(self._nothing(words))
        return filled(known[: self.length], self.length)

    def _split(self, given: Any) -> list[str]:
        if isinstance(given, Sequence) and not isinstance(given, str):
            return [str(word) for word in given]
        return [str(given)] if str(given) in self.names else str(given).split()

    def _nothing(self, words: list[str]) -> str:
        if not words:
            return "a text without words: give at least one"
        which = f"no word of {' '.join(words)[:60]!r}"
        return f"{which} is among the {len(self.names):,} that the model knows{suggest(words[-1], self.names)}"

    def file(self, path: str | Path) -> Iterator[Input]:
        """Rows of a table with columns of these names; of texts alone also the lines of any other file."""
        found = tables.rows(path) if len(self.parts) > 1 else tables.text_lines(path, self.part)
        return (Input(name, item) for name, item in found)

    def random(self, shape: tuple[int, ...], rng: np.random.Generator, sizes: Mapping[str, int]) -> Array:
        return rng.integers(1, self.trigrams or max(2, len(self.names) + 1), shape)


def trigrams(names: Sequence[str], buckets: int) -> Array:
    """Numbers of the letter trigrams of each name, int64 [names + 1, L]; row 0 and what is behind the last are zeros.

    "web" is read as "#web#" and gives #we, web, eb# (Huang et al., CIKM 2013, section 3.2); a trigram has the number
    1 + crc32(its UTF-8 bytes) modulo (buckets - 1), so names that training never had are read, too.
    """
    found = [sorted({1 + zlib.crc32(part.encode()) % (buckets - 1) for part in _parts(name)}) for name in names]
    table = np.zeros((len(names) + 1, max(map(len, found), default=1)), np.int64)
    for row, numbers in enumerate(found, 1):
        table[row, : len(numbers)] = numbers
    return table


def _parts(name: str) -> list[str]:
    whole = f"#{name.lower()}#"
    return [whole[i : i + 3] for i in range(max(len(whole) - 2, 1))]


def spelled(words: Array, table: Array) -> Array:
    """Words int64 [N, L] to their trigrams int64 [N, L'], each word's behind the one before, zeros behind the last."""
    wide = table[words].reshape(len(words), -1)
    order = np.argsort(wide == 0, axis=1, kind="stable")
    packed = np.take_along_axis(wide, order, axis=1)
    width = int((packed > 0).sum(axis=1).max(initial=1))
    return packed[:, : max(width, 1)]
