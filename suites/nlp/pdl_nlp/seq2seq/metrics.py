"""How probable the right texts are, and how like them what is written is."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from pdl.dtype import Array
from pdl.train.metrics import Metric
from pdl_nlp.written import Tokens, bleu, chrf, rouge

What: TypeAlias = Literal["bleu", "chrf", "rougeL"]


class Written(NamedTuple):
    """What was written for a text.

    row      the number of the sample
    text     what was read
    target   what was to be written
    written  what was
    """

    row: int
    text: str
    target: str
    written: str


class Perplexity(Metric):
    """exp of the mean over tokens of -log p(token)."""

    def __init__(self) -> None:
        self.total, self.count = 0.0, 0

    def update(self, loss: float, count: int, *written: Any) -> None:
        """The mean over the `count` tokens of a batch; none are counted where the loss is not known."""
        self.total, self.count = self.total + loss * count, self.count + count

    def compute(self) -> Any:
        """None where no loss was known, as of a bundle."""
        return math.exp(min(self.total / self.count, 700.0)) if self.count else None


class Writings(Metric):
    """What was written for each text, in the order of the data."""

    def __init__(self) -> None:
        self.held: list[Written] = []

    def update(
        self, loss: float, count: int, written: Sequence[str], texts: Array, targets: Array, rows: Array
    ) -> None:
        each = zip(rows.tolist(), texts.tolist(), targets.tolist(), written, strict=True)
        self.held += [Written(*one) for one in each]

    def compute(self) -> Any:
        return sorted(self.held)


class TextScore(Metric):
    """What `Writings` has found against the one reference of each text: BLEU, chrF2 (0 to 100) or the F1 of ROUGE-L (0
    to 1)."""

    def __init__(self, found: Writings, what: What, tokens: Tokens) -> None:
        self.found, self.what, self.tokens = found, what, tokens

    def update(self, *batch: Any) -> None:
        """`Writings` sees the batch itself."""

    def compute(self) -> float:
        if not self.found.held:
            return float("nan")
        written, targets = ([getattr(each, side) for each in self.found.held] for side in ("written", "target"))
        return SCORES[self.what](written, targets, self.tokens)


SCORES: dict[What, Callable[[Sequence[str], Sequence[str], Tokens], float]] = {
    "bleu": lambda written, targets, tokens: bleu(written, targets, tokens=tokens).score,
    "chrf": lambda written, targets, _: chrf(written, targets),
    "rougeL": lambda written, targets, _: rouge(written, targets)["rougeL"],
}


def scored(written: Sequence[str], targets: Sequence[str], tokens: Tokens) -> dict[What, float]:
    """BLEU of these tokens, chrF2 and ROUGE-L of texts with one reference each."""
    return {what: score(written, targets, tokens) for what, score in SCORES.items()}


def seq2seq_metrics(tokens: Tokens) -> dict[str, Metric]:
    """Perplexity; BLEU, chrF2 and ROUGE-L of what is written."""
    found = Writings()
    made: dict[str, Metric] = {"written": found, "perplexity": Perplexity()}
    return made | {what: TextScore(found, what, tokens) for what in SCORES}
