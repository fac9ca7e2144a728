"""How right the texts are that were heard."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from pdl.train.metrics import Metric
from pdl.train.texts import CharacterError, ExactTexts, Pairs, Read, alignment

Kind = Literal["substitutions", "deletions", "insertions"]


class Edits(NamedTuple):
    """What makes the words that were heard of those that were said, along one shortest edit path."""

    substitutions: int
    deletions: int
    insertions: int
    words: int
    """That were said."""

    @property
    def rate(self) -> float:
        """WER: edits by words."""
        return sum(self[:3]) / self.words if self.words else float("nan")


@lru_cache(1 << 16)
def edits(text: str, found: str) -> Edits:
    """The edits of the words of a text; words are what white space parts."""
    said, heard = text.split(), found.split()
    pairs = [pair for pair in alignment(said, heard) if pair[0] != pair[1]]
    deleted, inserted = (sum(not pair[side] for pair in pairs) for side in (1, 0))
    return Edits(len(pairs) - deleted - inserted, deleted, inserted, len(said))


def summed(pairs: Iterable[Read]) -> Edits:
    """The edits of many texts."""
    rows = [edits(each.text, each.found) for each in pairs]
    return Edits(*(sum(row[k] for row in rows) for k in range(4)))


class WordError(Metric):
    """WER: edits of words by the number of words that were said, or edits of one kind alone."""

    def __init__(self, kind: Kind | None = None) -> None:
        self.kinds: Sequence[str] = Edits._fields[:3] if kind is None else (kind,)
        self.edits = self.words = 0

    def update(self, found: Sequence[str], texts: Sequence[str], index: Any) -> None:
        for a, b in zip(found, texts, strict=True):
            row = edits(b, a)
            self.edits += sum(getattr(row, kind) for kind in self.kinds)
            self.words += row.words

    def compute(self) -> float:
        return self.edits / self.words if self.words else float("nan")


def recognition_metrics() -> dict[str, Metric]:
    """WER and its three parts, CER, the share of texts heard exactly; and all pairs for the report."""
    kinds: tuple[Kind, ...] = ("substitutions", "deletions", "insertions")
    return {
        "wer": WordError(),
        **{kind: WordError(kind) for kind in kinds},
        "cer": CharacterError(),
        "accuracy": ExactTexts(),
        "heard": Pairs(),
    }


def confused(pairs: Iterable[Read]) -> list[tuple[str, str, int]]:
    """(said, heard, times) of words that are heard as others, left out ("" heard) or made up ("" said), the most
    frequent first."""
    counts = Counter(
        pair for each in pairs for pair in alignment(each.text.split(), each.found.split()) if pair[0] != pair[1]
    )
    return [
        (said, heard, times) for (said, heard), times in sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    ]


def marked(read: Read) -> str:
    """What was heard, with what was said in its place: "turn [left -> lift] [now -> ] [ -> please]"."""
    words = alignment(read.text.split(), read.found.split())
    return " ".join(said if said == heard else f"[{said} -> {heard}]" for said, heard in words)
