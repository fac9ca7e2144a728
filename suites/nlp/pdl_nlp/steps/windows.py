"""The input step for questions about paragraphs: long ones are read in windows that overlap."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from pdl.dtype import Array
from pdl.errors import DataError, UsageError
from pdl.runtime.steps import Sample
from pdl.runtime.steps.arguments import check, count, one_of
from pdl_nlp.steps.tokens import MAX_LENGTH, TokensInput
from pdl_nlp.tokenizers.base import FIRST, SECOND, Encoding, Tokenizer

GIVES = ("tokens", "segments", "question")


class Window(NamedTuple):
    """A question and a piece of a paragraph as numbers.

    tokens    int64 [T]; the first one stands for "no answer": [CLS], or the unknown token before the paragraph
    segments  int64 [T]; of nets that read both as one text: 0 of the question, 1 of the paragraph
    question  int64 [Q], cut
    offsets   int32 [T, 2]: where tokens of the paragraph are in it, in code points; (0, 0) of others
    """

    tokens: Array
    segments: Array
    question: Array
    offsets: Array


class Reading(NamedTuple):
    """How a net reads: one window a row.

    max_length       tokens of a window
    overlap          tokens of a paragraph that neighbouring windows share
    question_length  tokens of a question that count, from its beginning
    together         whether question and paragraph are one text with special tokens, as encoders read them
    """

    max_length: int
    overlap: int
    question_length: int
    together: bool

    def windows(self, tokenizer: Tokenizer, question: Array, paragraph: Encoding) -> list[Window]:
        """The windows of a paragraph, for the tokens int [Q] of a question. Every token of the paragraph is in one; of
        neighbours that share tokens at least one has much to the left of each, and one much to its right."""
        if not len(question):
            raise DataError("the question has no tokens: give one with at least one word")
        if not len(paragraph.ids):
            raise DataError("the paragraph has no tokens: give a text with at least one word")
        question = question[: self.question_length].astype(np.int64)
        template = tokenizer.pair if self.together else (("", 1), (SECOND, 1))
        room = self.max_length - len(template) + (2 - len(question) if self.together else 1)
        if room <= self.overlap:
            needed = f"of which {self.max_length - room} are taken and {self.overlap} overlap"
            raise UsageError(f"max_length={self.max_length}: no room for the paragraph, {needed}; raise it")
        return [
            self._window(tokenizer, template, question, Encoding(*(each[begin : begin + room] for each in paragraph)))
            for begin in begins(len(paragraph.ids), room, self.overlap)
        ]

    @staticmethod
    def _window(tokenizer: Tokenizer, template: Sequence[tuple[str, int]], question: Array, part: Encoding) -> Window:
        none = np.zeros((1, 2), np.int32)
        parts = []
        for token, segment in template:
            if token == SECOND:
                ids, offsets = part.ids, part.offsets
            elif token == FIRST:
                ids, offsets = question, np.repeat(none, len(question), axis=0)
            else:
                ids, offsets = np.array([tokenizer.number(token) if token else tokenizer.unknown]), none
            parts.append((ids.astype(np.int64), np.full(len(ids), segment, np.int64), offsets))
        ids, segments, offsets = (np.concatenate(each) for each in zip(*parts, strict=True))
        return Window(ids, segments, question, offsets)


def begins(count: int, room: int, overlap: int) -> range:
    """Where windows of `room` tokens begin that share `overlap` with their neighbours, and hold all of `count`."""
    return range(0, max(count - overlap, 1), room - overlap)


class Read(NamedTuple):
    """What `WindowsInput` keeps of an item in `sample.memo`: question and paragraph, and the windows."""

    question: str
    paragraph: str
    windows: list[Window]


class WindowsInput(TokensInput):
    """A question and a paragraph -> the windows of the paragraph, int64 [W, T] of tokens or segments, or [W, Q] of the
    question, once for each window; see `Window` and `Reading`.

    T and Q are as of the step `tokens`. `sample.memo[vocabulary]` keeps
    the `Read`, for the step behind the net.

    vocabulary, tokenizer, part, pair, parts   as those of the step `tokens`; part is the question, pair the paragraph
    max_length, overlap, question_length, together   those of `Reading`
    gives  "tokens", "segments" or "question"
    """

    name = "windows"

    def __init__(
        self,
        vocabulary: str,
        tokenizer: Mapping[str, Any],
        max_length: int = MAX_LENGTH,
        overlap: int = 0,
        question_length: int = 64,
        together: bool = False,
        part: str = "question",
        pair: str = "paragraph",
        parts: Sequence[str] = (),
        gives: str = "tokens",
    ) -> None:
        super().__init__(vocabulary, tokenizer, max_length, part, pair, parts)
        check(isinstance(together, bool), f"together={together!r:.60} must be true or false")
        check(
            isinstance(overlap, int) and 0 <= overlap < max_length,
            f"overlap={overlap!r:.60} must be in [0, max_length)",
        )
        self.gives, self.question_length = one_of("gives", gives, GIVES), count("question_length", question_length)
        self.reading = Reading(self.max_length, overlap, self.question_length, together)
        if self.takes == "pair":
            self.metavar, self.about = "'QUESTION<TAB>PARAGRAPH'", "a question and a paragraph with a tab between them"

    def parse(self, item: Any, sample: Sample) -> Array:
        made = sample.memo.get(self.vocabulary)
        if made is None:
            made = sample.memo[self.vocabulary] = self._read(item, sample)
        found = [getattr(window, self.gives) for window in made.windows]
        longest = max(map(len, found))
        # questions may be longer than windows of nets that read them apart
        length = next((n for n in self.lengths if n >= longest), longest)
        return np.stack([self._padded(numbers, length) for numbers in found])

    def group(self, array: Array) -> Hashable:
        return len(array), super().group(array[0])

    def collate(self, arrays: Sequence[Array]) -> Array:
        longest = max(array.shape[1] for array in arrays)
        return np.stack([np.stack([self._padded(row, longest) for row in array]) for array in arrays])

    def _read(self, item: Any, sample: Sample) -> Read:
        question, paragraph = self._texts(item)
        made = self.tokenizer.encode_many([question, paragraph])
        asked = made.text(0)
        unknown = np.flatnonzero(asked.ids == self.tokenizer.unknown)
        sample.note_unknown([question[begin:end] for begin, end in asked.offsets[unknown].tolist()])
        return Read(question, paragraph, self.reading.windows(self.tokenizer, asked.ids, made.text(1)))

    def random(self, shape: tuple[int, ...], rng: np.random.Generator, sizes: Mapping[str, int]) -> Array:
        if self.gives == "segments":
            return np.zeros(shape, np.int64)
        return rng.integers(1, max(2, len(self.tokenizer.tokens)), shape)
