"""The input step of models that write texts: what a text begins with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.errors import DataError
from pdl_nlp.steps.tokens import Tokenized, TokensInput


class PromptInput(TokensInput):
    """The beginning of a text -> the numbers of its tokens int64 [T], filled with -1, as `TokensInput` has them. Of one
    that is longer than `max_length` the beginning is left out."""

    name = "prompt"
    needs_padding = False
    padding = -1

    def _tokenized(self, item: Any) -> Tokenized:
        given = self._texts(item)
        found, segments = self.tokenizer.encode(*given)
        if not len(found.ids):
            raise DataError("an empty prompt: give the beginning of a text, at least one token")
        last = slice(max(0, len(found.ids) - self.max_length), None)
        return Tokenized(given, type(found)(*(each[last] for each in found)), segments[last], None)

    def conversation(self, turns: Sequence[str]) -> tuple[Any, tuple[str, ...]]:
        """Turns in lines, as many whole ones of the last as fit; an answer is the next line."""
        said = [" ".join(turn.split()) for turn in turns]
        while len(said) > 1 and len(self.tokenizer.encode(_lines(said))[0].ids) > self.max_length:
            said = said[1:]
        return _lines(said), ("\n",)

    def random(self, shape: tuple[int, ...], rng: np.random.Generator, sizes: Mapping[str, int]) -> Array:
        return rng.integers(0, len(self.tokenizer.tokens), shape)


def _lines(turns: Sequence[str]) -> str:
    return "".join(f"{turn}\n" for turn in turns)
