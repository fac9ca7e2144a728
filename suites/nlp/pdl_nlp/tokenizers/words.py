"""Words as tokens: what stands between white space, or what letters and signs make."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from pdl.errors import UsageError
from pdl_nlp.tokenizers.base import Encodings, Tokenizer, joined

SPLITS = {"space": re.compile(r"\S+"), "signs": re.compile(r"\w+|[^\w\s]")}
"""What is a word: all between white space; or letters, digits and _ in a row, and every other sign alone."""


class Words(Tokenizer):
    """Words are tokens; those that the vocabulary lacks are the unknown one.

    lower   texts are lowered first (`str.lower`); tokens are taken as they are
    split   one of `SPLITS`: "space" (segmented text, word/word) or "signs"
    """

    kind = "words"

    def __init__(self, tokens: Iterable[str], *, lower: bool = False, split: str = "signs", **common: Any) -> None:
        super().__init__(tokens, **common)
        if split not in SPLITS:
            raise UsageError(f"words: split={split!r:.60} must be one of {', '.join(SPLITS)}")
        self.lower, self.split = bool(lower), split
        self._unknown = self._needed("unknown", "a word without one")
        self._find = {token: number for number, token in enumerate(self.tokens)}

    def encode_many(self, texts: Sequence[str]) -> Encodings:
        return joined([self._encoded(text) for text in texts])

    def _encoded(self, text: str) -> tuple[list[int], list[tuple[int, int]], range]:
        spans = [match.span() for match in SPLITS[self.split].finditer(text)]
        found = (text[begin:end] for begin, end in spans)
        ids = [self._find.get(word.lower() if self.lower else word, self._unknown) for word in found]
        return ids, spans, range(len(spans))

    def joined(self, tokens: Sequence[str]) -> str:
        return " ".join(tokens)

    def settings(self) -> dict[str, Any]:
        return {"lower": self.lower, "split": self.split, **super().settings()}
