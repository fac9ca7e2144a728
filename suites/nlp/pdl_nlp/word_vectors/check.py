"""Look texts over before vectors of words are learned of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pdl.data.checks import Progress
from pdl.data.faults import DataFault, Fault
from pdl.train import Recipe
from pdl_nlp.fitting import KINDS, Kind, counted
from pdl_nlp.word_vectors.loader import texts_of

if TYPE_CHECKING:
    from pdl_nlp.word_vectors.task import WordVectors

FEW = 10_000  # tokens
SHARE = 0.2  # of tokens that may be too rare


def check(task: WordVectors, recipe: Recipe, progress: Progress | None = None) -> list[Fault]:
    """Faults of the texts: files that cannot be read, too few words, many that are too rare."""
    faults: list[Fault] = []
    for split, part in recipe.data.splits.items():
        try:
            texts = list(texts_of(part.build()))
        except DataFault as error:
            faults.append(error.fault)
            continue
        kind: Kind = task.kind if task.kind in KINDS else "words"
        counts = counted(texts, kind, lower=task.lower)
        if progress is not None:
            progress(split, len(texts), len(texts))
        if split == "train":
            faults += _of_training(counts, task)
    return faults


def _of_training(counts: Mapping[str, int], task: WordVectors) -> list[Fault]:
    total, rare = sum(counts.values()), sum(count for count in counts.values() if count < task.min_count)
    common: dict[str, Any] = {"split": "train", "severity": "warning"}
    if total < FEW:
        detail = f"{total:,} words; what vectors of words say of so few is little"
        return [Fault(None, None, detail, "give more texts", **common)]
    if rare > SHARE * total:
        detail = f"{rare / total:.0%} of the words occur less often than {task.min_count} times and are left out"
        return [Fault(None, None, detail, "lower task.min_count", **common)]
    return []
