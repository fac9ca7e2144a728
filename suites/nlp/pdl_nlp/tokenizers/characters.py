"""Characters as tokens: of Chinese, of spelling, and the baseline of every other kind."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl_nlp.tokenizers.base import Encodings, Tokenizer

CODE_POINTS = 0x110000
SPACE = tuple(c for c in range(0x3001) if chr(c).isspace())


class Characters(Tokenizer):
    """Every code point is a token, and a word; white space (`str.isspace`) is none, unless `spaces` keeps it.

    lower     letters are lowered where that leaves one code point
    spaces    white space counts, too
    """

    kind = "characters"

    def __init__(self, tokens: Iterable[str], *, lower: bool = False, spaces: bool = False, **common: Any) -> None:
        super().__init__(tokens, **common)
        self.lower, self.spaces = bool(lower), bool(spaces)
        self._unknown = self._needed("unknown", "a character without one")

    @cached_property
    def _numbers(self) -> Array:
        """int32 [0x110000]: the number of every code point; -1 of one that is no token."""
        table = np.full(CODE_POINTS, self._unknown, np.int32)
        for number, token in enumerate(self.tokens):
            if len(token) == 1:
                table[ord(token)] = number
        if self.lower:
            upper = np.array([c for c in range(0x1F000) if chr(c).isupper() and len(chr(c).lower()) == 1])
            table[upper] = table[[ord(chr(c).lower()) for c in upper]]
        if not self.spaces:
            table[list(SPACE)] = -1
        return table

    def encode_many(self, texts: Sequence[str]) -> Encodings:
        lengths = np.array([len(text) for text in texts], np.int64)
        points = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), np.uint32)
        numbers = self._numbers[points]
        begins = np.repeat(np.cumsum(lengths) - lengths, lengths)
        places = (np.arange(len(points)) - begins).astype(np.int32)
        starts = np.zeros(len(texts) + 1, np.int64)
        np.cumsum(lengths, out=starts[1:])
        kept = numbers >= 0
        if not kept.all():
            starts = np.concatenate([[0], np.cumsum(kept)])[starts]
            numbers, places = numbers[kept], places[kept]
        words = (np.arange(len(numbers)) - np.repeat(starts[:-1], np.diff(starts))).astype(np.int32)
        return Encodings(numbers, np.stack([places, places + 1], axis=1), words, starts)

    def joined(self, tokens: Sequence[str]) -> str:
        return "".join(tokens)

    def settings(self) -> dict[str, Any]:
        return {"lower": self.lower, "spaces": self.spaces, **super().settings()}
