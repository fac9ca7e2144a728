"""The last layer and its loss in one: few and many classes, full blocks and rests, rows in groups."""

from __future__ import annotations

import numpy as np

from pdl.ops.classifier import linear_cross_entropy

from .case import Case, f, i


def reference(x, w, b, labels, label_smoothing=0.0, ignore_index=-100, reduction="mean"):
    scores = x @ w + (0 if b is None else b)
    lse = np.log(np.exp(scores).sum(-1))
    counted = labels != ignore_index
    own = np.take_along_axis(scores, np.where(counted, labels, 0)[..., None], -1)[..., 0]
    spread = label_smoothing / w.shape[1] * (lse[..., None] - scores).sum(-1)
    loss = np.where(counted, (1 - label_smoothing) * (lse - own) + spread, 0)
    return loss if reduction == "none" else loss.sum() / (counted.sum() if reduction == "mean" else 1)


def by_rows(x, w, b, labels, transposed, **options):
    return reference(x, w.T, b, labels, **options)


ROWS = {"transposed": True}
LABELS = np.array([[0, 2, 1], [4, -100, 3]])
CASES = [
    Case(linear_cross_entropy, [f(2, 3, 4), f(4, 5), f(5), LABELS], reference),
    Case(linear_cross_entropy, [f(4, 3), f(3, 7), None, i(4, high=7)], reference, {"reduction": "sum"}),
    Case(linear_cross_entropy, [f(4, 3), f(3, 7), f(7), i(4, high=7)], reference, {"reduction": "none"}),
    Case(linear_cross_entropy, [f(2, 3, 4), f(4, 5), f(5), LABELS], reference, {"label_smoothing": 0.2}),
    Case(linear_cross_entropy, [f(5, 3), f(3, 70), None, i(5, high=70)], reference, second=False),
    Case(
        linear_cross_entropy, [f(2, 2), f(2, 150), f(150), i(2, high=150)], reference,
        {"label_smoothing": 0.1, "ignore_index": 7}, second=False,
    ),
    Case(linear_cross_entropy, [f(2, 3, 4), f(5, 4), f(5), LABELS], by_rows, ROWS),
    Case(linear_cross_entropy, [f(4, 3), f(7, 3), None, i(4, high=7)], by_rows, ROWS | {"reduction": "sum"}),
    Case(linear_cross_entropy, [f(4, 3), f(7, 3), f(7), i(4, high=7)], by_rows, ROWS | {"reduction": "none"}),
    Case(linear_cross_entropy, [f(2, 3, 4), f(5, 4), f(5), LABELS], by_rows, ROWS | {"label_smoothing": 0.2}),
    Case(
        linear_cross_entropy, [f(2, 2), f(150, 2), f(150), i(2, high=150)], by_rows,
        ROWS | {"label_smoothing": 0.1, "ignore_index": 7}, second=False,
    ),
]  # fmt: skip
