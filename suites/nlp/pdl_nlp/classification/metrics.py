"""How right the answers are where texts have several labels."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from pdl.dtype import Array
from pdl.train.metrics import AUC, Metric


class _PerLabel(Metric):
    """Counts of each label from logits float [N, C], found where they are above 0, and targets [N, C] of 0 and 1."""

    def __init__(self) -> None:
        self.hits: Any = 0
        self.found: Any = 0
        self.present: Any = 0
        self.exact = self.seen = 0

    def update(self, scores: Array, targets: Array) -> None:
        found, present = scores > 0, targets > 0
        self.hits = self.hits + (found & present).sum(axis=0)
        self.found, self.present = self.found + found.sum(axis=0), self.present + present.sum(axis=0)
        self.exact, self.seen = self.exact + int((found == present).all(axis=1).sum()), self.seen + len(scores)


class MicroF1(_PerLabel):
    """2 hits / (found + present), of all labels together."""

    def compute(self) -> float:
        below = float(np.sum(self.found) + np.sum(self.present))
        return 2 * float(np.sum(self.hits)) / below if below else float("nan")


class MacroF1(_PerLabel):
    """The mean of 2 hits / (found + present) over the labels that are found or present."""

    def compute(self) -> float:
        below = np.asarray(self.found + self.present, np.float64).reshape(-1)
        there = below > 0
        shares = 2 * np.asarray(self.hits).reshape(-1)[there] / below[there]
        return float(shares.mean()) if there.any() else float("nan")


class ExactMatch(_PerLabel):
    """The share of texts all of whose labels are found, and no others."""

    def compute(self) -> float:
        return self.exact / self.seen if self.seen else float("nan")


class LabelCounts(_PerLabel):
    """int64 [C, 3]: how often each label is present, found, and both."""

    def compute(self) -> Array:
        return np.stack([np.atleast_1d(each) for each in (self.present, self.found, self.hits)], axis=-1)


class WrongSets(Metric):
    """The `keep` texts with the highest loss of those with a label too many or too few: (loss, index), worst first."""

    def __init__(self, keep: int) -> None:
        self.keep = keep
        self.held: list[tuple[float, int]] = []

    def update(self, scores: Array, targets: Array, index: Array) -> None:
        """scores float [N, C] (logits), targets [N, C] of 0 and 1, index int [N]."""
        loss = np.logaddexp(0, np.where(targets > 0, -scores, scores).astype(np.float64)).sum(axis=1)
        wrong = ((scores > 0) != (targets > 0)).any(axis=1)
        self.held += [(float(loss[row]), int(index[row])) for row in np.flatnonzero(wrong)]
        self.held = sorted(self.held, key=lambda each: (-each[0], each[1]))[: self.keep]

    def compute(self) -> Any:
        return self.held


class Inside(Metric):
    """The share of samples of the real classes with the right answer: scores [N, C + 1], targets int [N], of which C is
    outside of all classes."""

    def __init__(self) -> None:
        self.hits = self.seen = 0

    def update(self, scores: Array, targets: Array) -> None:
        found, outside = scores.argmax(axis=1), scores.shape[1] - 1
        hits, seen = self.counts(found, targets, outside)
        self.hits, self.seen = self.hits + int(hits.sum()), self.seen + int(seen.sum())

    @staticmethod
    def counts(found: Array, targets: Array, outside: int) -> tuple[Array, Array]:
        """What counts as right, and what counts: bool [N] each."""
        return (found == targets) & (targets != outside), targets != outside

    def compute(self) -> float:
        return self.hits / self.seen if self.seen else float("nan")


class OutsideRecall(Inside):
    """The share of samples outside of all classes that are found to be."""

    @staticmethod
    def counts(found: Array, targets: Array, outside: int) -> tuple[Array, Array]:
        return (found == outside) & (targets == outside), targets == outside


class OutsidePrecision(Inside):
    """The share of samples found to be outside that are."""

    @staticmethod
    def counts(found: Array, targets: Array, outside: int) -> tuple[Array, Array]:
        return (found == outside) & (targets == outside), found == outside


class BestClass(Metric):
    """float64 [N, 3]: log p of the best class of each sample, whether that is right, and whether the sample is outside;
    what `pdl_nlp.classification.outside.threshold` reads."""

    of_probabilities = True

    def __init__(self) -> None:
        self.held: list[Array] = []

    def update(self, scores: Array, targets: Array) -> None:
        inside = scores[:, :-1]
        right = inside.argmax(axis=1) == targets
        self.held.append(np.stack([inside.max(axis=1), right, targets == inside.shape[1]], axis=1).astype(np.float64))

    def compute(self) -> Array:
        return np.concatenate(self.held) if self.held else np.zeros((0, 3))


class NeutralF1(Metric):
    """F1 of all classes but the neutral one, as of labels that texts may lack: "macro", the mean of 2 hits / (found +
    present) over these classes (0 of one that is neither found nor present), or "micro", of their sums."""

    def __init__(self, neutral: int, average: Literal["macro", "micro"]) -> None:
        self.neutral, self.average = neutral, average
        self.counts: Any = 0

    def update(self, scores: Array, targets: Array) -> None:
        """scores float [N, C], targets int [N]."""
        count, found = scores.shape[1], scores.argmax(axis=1)
        each = (found[found == targets], found, targets)
        self.counts = self.counts + np.stack([np.bincount(part, minlength=count) for part in each])

    def compute(self) -> float:
        if np.ndim(self.counts) == 0:
            return float("nan")
        hits, found, present = np.delete(self.counts, self.neutral, axis=1).astype(np.float64)
        if self.average == "micro":
            hits, found, present = (part.sum(keepdims=True) for part in (hits, found, present))
        return float(np.mean(2 * hits / np.maximum(found + present, 1)))


def neutral_metrics(neutral: int) -> dict[str, Metric]:
    """What is measured beside the accuracy where one class, such as "no emotion", counts as none."""
    return {"macro_f1": NeutralF1(neutral, "macro"), "micro_f1": NeutralF1(neutral, "micro")}


def outside_metrics() -> dict[str, Metric]:
    """What is measured beside the accuracy of all where some samples are outside of all classes."""
    return {"inside": Inside(), "outside_recall": OutsideRecall(), "outside_precision": OutsidePrecision(),
            "best_class": BestClass()}  # fmt: skip


def label_metrics() -> dict[str, Metric]:
    """What is measured where texts have several labels: micro and macro F1 at a probability of 0.5, the share of texts
    with exactly their labels, the mean area under the labels' ROC curves, and the counts of each label."""
    return {"f1": MicroF1(), "macro_f1": MacroF1(), "exact": ExactMatch(), "auc": AUC(), "labels": LabelCounts()}
