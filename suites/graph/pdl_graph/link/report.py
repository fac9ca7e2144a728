"""What the report says of links: where the scores of edges and of other pairs lie, and precision against recall."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from pdl.report import Section, line_chart, table
from pdl.train.loop import Evaluation
from pdl_graph.link.loader import split_of

Array = np.ndarray
BINS, POINTS = 40, 200


def sections(evaluation: Evaluation, dataset: Any) -> list[Section]:
    """Of one evaluation; `dataset` tells the pairs."""
    scores, labels = evaluation.observers["auc"].scores.arrays()
    if not len(scores):
        return []
    split, _ = split_of(dataset)
    ones, zeros = int((labels == 1).sum()), int((labels != 1).sum())
    told = (
        f"{ones:,} edges and {zeros:,} pairs without one, drawn by seed {split.seed}; messages use "
        "edges of training only. MRR and hits@k rank each edge among all those pairs."
    )
    numbers = table([(name, f"{value:.4f}") for name, value in evaluation.metrics.items()])
    return [
        Section(f"Links ({evaluation.split})", f"{numbers}<p>{escape(told)}</p>"),
        Section("Scores", line_chart(histogram(scores, labels), x_label="probability of an edge")),
        Section("Precision", line_chart({"precision": precision_recall(scores, labels)}, x_label="recall")),
    ]


def histogram(logits: Array, labels: Array) -> dict[str, list[tuple[float, float]]]:
    """Shares of the edges and of the other pairs in bins of the probability, as points (middle, share)."""
    chance = 1 / (1 + np.exp(-np.clip(logits.astype(np.float64), -50, 50)))
    found = {}
    for name, mask in (("edges", labels == 1), ("no edge", labels != 1)):
        counts, borders = np.histogram(chance[mask], BINS, (0.0, 1.0))
        middle = (borders[1:] + borders[:-1]) / 2
        found[name] = list(zip(middle.tolist(), (counts / max(1, mask.sum())).tolist(), strict=True))
    return found


def precision_recall(scores: Array, labels: Array) -> list[tuple[float, float]]:
    """Points (recall, precision) at ever lower thresholds, thinned out."""
    order = np.argsort(-scores, kind="stable")
    hits = np.cumsum(labels[order] == 1)
    if not len(hits) or not hits[-1]:
        return []
    some = np.unique(np.linspace(0, len(hits) - 1, POINTS).astype(np.int64))
    return list(zip((hits[some] / hits[-1]).tolist(), (hits[some] / (some + 1)).tolist(), strict=True))


__all__ = ["histogram", "precision_recall", "sections"]
