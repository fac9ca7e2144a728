"""AUC, AUC within groups, log loss and accuracy against their definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdl_rec.ctr.metrics import AUC, GAUC, BinaryAccuracy, LogLoss, MeanAUC, auc, grouped_auc

ROWS = st.lists(st.tuples(st.integers(-3, 3), st.booleans(), st.integers(0, 3)), min_size=1, max_size=40)


def by_pairs(scores: np.ndarray, labels: np.ndarray) -> float:
    pairs = [(a > b) + 0.5 * (a == b) for a in scores[labels > 0] for b in scores[labels == 0]]
    return float(np.mean(pairs)) if pairs else math.nan


@given(ROWS)
def test_auc_is_the_share_of_ordered_pairs(rows: list[tuple[int, bool, int]]) -> None:
    scores, labels, groups = (np.array(column, np.float32) for column in zip(*rows, strict=True))
    np.testing.assert_allclose(auc(scores, labels), by_pairs(scores, labels), rtol=1e-12)
    each = [(by_pairs(scores[groups == g], labels[groups == g]), int((groups == g).sum())) for g in np.unique(groups)]
    known = [(value, n) for value, n in each if not math.isnan(value)]
    expected = sum(v * n for v, n in known) / sum(n for _, n in known) if known else math.nan
    np.testing.assert_allclose(grouped_auc(scores, labels, groups), expected, rtol=1e-12)


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
        "gauc": grouped_auc(x, y, groups),
        "logloss": -np.mean(y * np.log(p) + (1 - y) * np.log(1 - p)),
        "accuracy": np.mean((p > 0.5) == (y > 0)),
        "mean": (by_pairs(x, y) + by_pairs(logits[:, 0], labels[:, 0])) / 2,
    }
    assert {name: metric.compute() for name, metric in kinds.items()} == pytest.approx(expected)


def test_one_kind_of_label_has_no_auc() -> None:
    assert math.isnan(auc(np.array([1.0, 2.0]), np.array([1.0, 1.0])))
