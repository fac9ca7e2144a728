"""How well the next token is predicted."""

from __future__ import annotations

import math

from pdl.dtype import Array
from pdl.train.metrics import Metric

MOST = 700.0  # nats: exp of more is no float


class _PerUnit(Metric):
    """A function of the mean of -log p(token) over tokens, or over the characters that these stand for."""

    by_character = False

    def __init__(self) -> None:
        self.total = self.tokens = self.characters = 0.0

    def update(self, losses: Array, counts: Array, characters: Array) -> None:
        """losses float [N]: sums of -log p over the targets of windows; counts [N] of these; characters [N]: for how
        many characters they stand."""
        self.total += float(losses.sum())
        self.tokens += float(counts.sum())
        self.characters += float(characters.sum())

    @property
    def mean(self) -> float:
        """In nats."""
        count = self.characters if self.by_character else self.tokens
        return self.total / count if count else float("nan")

    def compute(self) -> float:
        return math.exp(min(self.mean, MOST)) if self.mean == self.mean else float("nan")


class Perplexity(_PerUnit):
    """exp of the mean over tokens of -log p(token)."""


class CharacterPerplexity(_PerUnit):
    """exp of the sum of -log p(token) divided by the number of characters: the same for every tokenizer."""

    by_character = True


class BitsPerCharacter(_PerUnit):
    """The sum of -log2 p(token) divided by the number of characters."""

    by_character = True

    def compute(self) -> float:
        return self.mean / math.log(2)
