"""AUC, AUC within groups, log loss and accuracy against their definitions."""

from __future__ import annotations

import numpy as np
import pytest

from pdl_rec.click_through.metrics import AUC, GAUC, BinaryAccuracy, LogLoss, MeanAUC


def by_pairs(scores: np.ndarray, labels: np.ndarray) -> float:
    pairs = [(a > b) + 0.5 * (a == b) for a in scores[labels > 0] for b in scores[labels == 0]]
    return float(np.mean(pairs))


def test_accumulators_over_batches() -> None:
    rng = np.random.default_rng(0)
    logits, labels, groups = rng.normal(size=(50, 2)), (rng.random((50, 2)) < 0.4).astype(float), rng.integers(0, 4, 50)
    kinds = {"auc": AUC(1), "gauc": GAUC(1), "logloss": LogLoss(1), "accuracy": BinaryAccuracy(1), "mean": MeanAUC(2)}
    for part in np.array_split(np.arange(50), 3):
        for metric in kinds.values():
            metric.update(logits[part], labels[part], groups[part])
    x, y, p = logits[:, 1], labels[:, 1], 1 / (1 + np.exp(-logits[:, 1]))
    expected = {
        "auc": by_pairs(x, y),
        "gauc": np.average([by_pairs(x[groups == k], y[groups == k]) for k in range(4)], weights=np.bincount(groups)),
        "logloss": -np.mean(y * np.log(p) + (1 - y) * np.log(1 - p)),
        "accuracy": np.mean((p > 0.5) == (y > 0)),
        "mean": (by_pairs(x, y) + by_pairs(logits[:, 0], labels[:, 0])) / 2,
    }
    assert {name: metric.compute() for name, metric in kinds.items()} == pytest.approx(expected)
