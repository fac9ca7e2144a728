"""The input step for the letters of words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.runtime.steps import Resources, Sample
from pdl.runtime.steps.arguments import count, text
from pdl.vocabulary import Vocabulary
from pdl_nlp.steps.tokens import MAX_LENGTH, TokensInput

WIDEST = 64


class Letters:
    """The letters of words as numbers: the vocabulary's from 2 on, 1 of others, 0 behind the last one. Words with more
    than `width` are their first (width + 1) // 2 letters and their last width // 2. With `lower` they are
    lowered first.
    """

    def __init__(self, vocabulary: Vocabulary, width: int, *, lower: bool = False) -> None:
        self.vocabulary, self.width, self.lower = vocabulary, width, lower

    @cached_property
    def _find(self) -> dict[str, int]:
        return {letter: number for number, letter in enumerate(self.vocabulary.names)}

    def encode(self, words: Sequence[str]) -> Array:
        """int64 [T, width]."""
        made, width, find = np.zeros((len(words), self.width), np.int64), self.width, self._find
        for row, given in zip(made, words, strict=True):
            word = given.lower() if self.lower else given
            kept = word if len(word) <= width else word[: (width + 1) // 2] + word[len(word) - width // 2 :]
            row[: len(kept)] = [find.get(letter, 1) for letter in kept]
        return made


class LettersInput(TokensInput):
    """A text -> the letters int64 [T, width] of its words, T as of the step `tokens` with the same arguments; see
    `Letters`.

    letters  the name of their vocabulary, whose first two are the padding and the unknown one
    width    letters of a word
    lower    whether words are lowered first
    """

    name, padding = "letters", 0
    together = TokensInput.together * WIDEST

    def __init__(
        self,
        vocabulary: str,
        tokenizer: Mapping[str, Any],
        letters: str,
        width: int,
        max_length: int = MAX_LENGTH,
        part: str = "text",
        parts: Sequence[str] = (),
        lower: bool = False,
    ) -> None:
        super().__init__(vocabulary, tokenizer, max_length, part, None, parts)
        self.lower = lower
        self.letters, self.width = text("letters", letters), count("width", width, most=WIDEST)

    def bind(self, resources: Resources) -> None:
        super().bind(resources)
        resources.check_vocabulary(self.letters, self.name)
        self.read = Letters(resources.vocabularies[self.letters], self.width, lower=self.lower)

    def parse(self, item: Any, sample: Sample) -> Array:
        ids = super().parse(item, sample)
        made = sample.memo[self.vocabulary]
        found = np.zeros((len(ids), self.width), np.int64)
        begins_ends = made.encoding.offsets.tolist()
        found[: len(begins_ends)] = self.read.encode([made.texts[0][begin:end] for begin, end in begins_ends])
        return found

    def random(self, shape: tuple[int, ...], rng: np.random.Generator, sizes: Mapping[str, int]) -> Array:
        return rng.integers(0, max(2, len(self.read.vocabulary.names)), shape)
