"""How right corrections are: by sentence as the tool of SIGHAN's bake-offs counts them, and by character."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from pdl.dtype import Array
from pdl.train.metrics import Metric

What: TypeAlias = Literal["precision", "recall", "f1"]


class CorrectionCounts(Metric):
    """What is counted of sentences and of characters, of places of mistakes (detection) and of what stands there
    (correction).

    Sentences (Yu et al., CLP 2014; Tseng et al., SIGHAN 2015): a sentence with mistakes is a hit where all and only
    its mistakes are found (and are corrected rightly), else missed; one without is a false alarm where anything is
    changed. Precision is hits / (hits + false alarms), recall hits / (hits + missed).
    """

    def __init__(self) -> None:
        self.sentences = {"detection": np.zeros(3, np.int64), "correction": np.zeros(3, np.int64)}
        """Hits, false alarms and missed sentences."""
        self.characters = {"detection": np.zeros(3, np.int64), "correction": np.zeros(3, np.int64)}
        """Hits, other changes, and mistakes without a hit."""
        self.right = self.count = 0

    def update(self, tokens: Array, found: Array, right: Array) -> None:
        """int [N, T] each: as it was written, as it is corrected, and as it should be, -1 behind the last one."""
        real = right >= 0
        wrong, changed = (tokens != right) & real, (tokens != found) & real
        same = ((found == right) | ~real).all(axis=1)
        self.right, self.count = self.right + int(same.sum()), self.count + len(same)
        faulty, alarms = wrong.any(axis=1), changed.any(axis=1)
        places = (wrong == changed).all(axis=1)
        for name, good in (("detection", places), ("correction", same)):
            hits = int((faulty & good).sum())
            self.sentences[name] += (hits, int((alarms & ~faulty).sum()), int(faulty.sum()) - hits)
        for name, good in (("detection", wrong & changed), ("correction", wrong & (found == right))):
            hits = int(good.sum())
            self.characters[name] += (hits, int(changed.sum()) - hits, int(wrong.sum()) - hits)

    def compute(self) -> Any:
        """Hits, false alarms and missed by "sentences" and "characters", and by "detection" and "correction"."""
        return {"sentences": self.sentences, "characters": self.characters}


class CorrectionScore(Metric):
    """Precision, recall or F1 of what a `CorrectionCounts` has counted."""

    def __init__(
        self, counted: CorrectionCounts, of: Literal["sentences", "characters"], name: str, what: What
    ) -> None:
        self.counted, self.of, self.name, self.what = counted, of, name, what

    def update(self, *batch: Any) -> None:
        """The counts see the batch themselves."""

    def compute(self) -> float:
        hits, other, missed = getattr(self.counted, self.of)[self.name]
        below = {"precision": hits + other, "recall": hits + missed, "f1": hits + (other + missed) / 2}[self.what]
        return float(hits / below) if below else float("nan")


class SentenceAccuracy(Metric):
    """The share of sentences that are right after correction."""

    def __init__(self, counted: CorrectionCounts) -> None:
        self.counted = counted

    def update(self, *batch: Any) -> None:
        """The counts see the batch themselves."""

    def compute(self) -> float:
        return self.counted.right / self.counted.count if self.counted.count else float("nan")


class WrongCorrection(NamedTuple):
    """A sentence that is not right after correction: -log p of what is right, its number, and int [T] each."""

    loss: float
    sentence: int
    tokens: Array
    found: Array
    right: Array


class WorstCorrections(Metric):
    """The `keep` sentences that are not right after correction whose right form was the least probable."""

    def __init__(self, keep: int) -> None:
        self.keep = keep
        self.held: list[WrongCorrection] = []

    def update(self, tokens: Array, found: Array, right: Array, losses: Array, index: Array) -> None:
        real = right >= 0
        for row in np.flatnonzero(((found != right) & real).any(axis=1)):
            parts = (each[row][real[row]] for each in (tokens, found, right))
            self.held.append(WrongCorrection(float(losses[row]), int(index[row]), *parts))
        self.held = sorted(self.held, key=lambda each: (-each.loss, each.sentence))[: self.keep]

    def compute(self) -> Any:
        return self.held


def correction_metrics() -> dict[str, Metric]:
    """Of sentences detection and correction F1, precision and recall, and accuracy; of characters both F1."""
    counted = CorrectionCounts()
    made: dict[str, Metric] = {"counts": counted, "accuracy": SentenceAccuracy(counted)}
    kinds: tuple[What, ...] = ("f1", "precision", "recall")
    for name in ("detection", "correction"):
        made |= {f"{name}_{what}": CorrectionScore(counted, "sentences", name, what) for what in kinds}
        made[f"character_{name}_f1"] = CorrectionScore(counted, "characters", name, "f1")
    return made
