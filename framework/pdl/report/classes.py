"""Sections on classes: precision and recall of each, the confusion matrix, the most frequent confusions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pdl.report.page import Section, heat_table, table

MATRIX_CLASSES = 40  # with more, the matrix is no longer read; the most frequent confusions are listed instead
PAIRS, SHOWN = 25, 12  # confusions that are listed, and rows that a table shows at once


def class_sections(counts: np.ndarray, classes: Sequence[str], split: str) -> list[Section]:
    """Of counts [C, C] (row: the true class, column: the predicted one): a table of the classes, the matrix, the most
    frequent confusions."""
    made = [Section(f"Classes ({split})", class_table(counts, classes), narrow=True)]
    if len(classes) <= MATRIX_CLASSES:
        made.append(Section("Confusion matrix", heat_table(counts, classes), narrow=True))
    return [*made, Section("Most frequent confusions", pair_table(counts, classes), narrow=True)]


def class_table(counts: np.ndarray, classes: Sequence[str]) -> str:
    """Recall (accuracy within the class), precision and size of every class, weakest first."""
    hits, present, predicted = np.diag(counts), counts.sum(axis=1), counts.sum(axis=0)
    recall, precision = hits / np.maximum(present, 1), hits / np.maximum(predicted, 1)
    rows = [
        (classes[i], float(recall[i]), float(precision[i]), int(present[i])) for i in np.argsort(recall, kind="stable")
    ]
    return table(rows, head=("class", "accuracy", "precision", "samples"), fold=SHOWN)


def pair_table(counts: np.ndarray, classes: Sequence[str]) -> str:
    """True class, predicted class, how often; most frequent first."""
    off = counts - np.diag(np.diag(counts))
    order = np.argsort(-off, axis=None, kind="stable")[:PAIRS]
    pairs = [divmod(int(flat), len(classes)) for flat in order if off.flat[flat]]
    return (
        table(
            [(classes[i], classes[j], int(off[i, j])) for i, j in pairs],
            head=("true", "predicted", "samples"),
            fold=SHOWN,
        )
        if pairs
        else "<p>none</p>"
    )
