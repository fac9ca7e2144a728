"""What the report says of a classifier: accuracy by class, confusions, worst mistakes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pdl.data import Dataset
from pdl.report import Section, figure_grid, heat_table, table
from pdl.train.loop import Evaluation
from pdl_cv.classification.metric import Mistake

MATRIX_CLASSES = 40  # with more, the matrix is no longer read; the most frequent confusions are listed instead
PAIRS = 25


def sections(evaluation: Evaluation, dataset: Any, classes: Sequence[str]) -> list[Section]:
    """The sections on one evaluation; `dataset` gives the pictures of the mistakes."""
    counts = evaluation.details["confusion"]
    made = [Section(f"Classes ({evaluation.split})", class_table(counts, classes))]
    if len(classes) <= MATRIX_CLASSES:
        made.append(Section("Confusion matrix", heat_table(counts, classes)))
    made.append(Section("Most frequent confusions", pair_table(counts, classes)))
    mistakes: list[Mistake] = evaluation.details["mistakes"]
    if mistakes and isinstance(dataset, Dataset):
        made.append(Section("Worst mistakes", figure_grid(_figure(each, dataset, classes) for each in mistakes)))
    return made


def class_table(counts: np.ndarray, classes: Sequence[str]) -> str:
    """Recall (accuracy within the class), precision and size of every class, weakest first."""
    hits, present, predicted = np.diag(counts), counts.sum(axis=1), counts.sum(axis=0)
    recall, precision = hits / np.maximum(present, 1), hits / np.maximum(predicted, 1)
    rows = [
        (classes[i], float(recall[i]), float(precision[i]), int(present[i])) for i in np.argsort(recall, kind="stable")
    ]
    return table(rows, head=("class", "accuracy", "precision", "samples"))


def pair_table(counts: np.ndarray, classes: Sequence[str]) -> str:
    """True class, predicted class, how often; most frequent first."""
    off = counts - np.diag(np.diag(counts))
    order = np.argsort(-off, axis=None, kind="stable")[:PAIRS]
    pairs = [divmod(int(flat), len(classes)) for flat in order if off.flat[flat]]
    return (
        table([(classes[i], classes[j], int(off[i, j])) for i, j in pairs], head=("true", "predicted", "samples"))
        if pairs
        else "<p>none</p>"
    )


def _figure(mistake: Mistake, dataset: Dataset, classes: Sequence[str]) -> tuple[np.ndarray, str]:
    caption = (
        f"{classes[mistake.label]} taken for {classes[mistake.predicted]} ({mistake.p:.0%}), sample {mistake.index}"
    )
    return small(dataset[mistake.index]["image"]), caption


def small(image: np.ndarray, most: int = 160) -> np.ndarray:
    """The image at no more than about `most` pixels a side, by leaving out rows and columns."""
    stride = max(1, -(-max(image.shape[:2]) // most))
    return np.ascontiguousarray(image[::stride, ::stride])
