"""The last layer and its loss in one: few and many classes, full blocks and rests, rows in groups."""

from __future__ import annotations

import numpy as np

from pdl.ops.classifier import linear_cross_entropy

from .case import Case, Draws, draws

draw = Draws(4)
f, i = draw.f, draw.i


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


def without_the_first(x, w, b, labels, transposed, first, ignore_index=-100):
    return by_rows(x, w[first:], b[first:], labels - first, transposed, ignore_index=ignore_index - first)


def of_drawn_classes(x, w, b, labels, transposed, ids):
    """Class by class: which of them a row's softmax is over."""
    scores, rows = x @ w.T + b, []
    for score, label in zip(scores, labels, strict=True):
        if label != -100:
            among = [k for k in range(len(ids)) if k == label or (ids[k] >= 0 and ids[k] != ids[label])]
            rows.append(np.log(np.exp(score[among]).sum()) - score[label])
    return np.mean(rows)


def with_ids(x, w, b, labels, ids, **options):
    return linear_cross_entropy(x, w, b, labels, ids=ids, **options)


g, n = draws(1)
ROWS = {"transposed": True}
DRAWN = np.array([4, 9, 4, -1, 0, 9, 4, -1, 3])
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
    Case(linear_cross_entropy, [g(2, 3, 4), g(5, 4), g(5), LABELS], by_rows, ROWS),
    Case(linear_cross_entropy, [g(4, 3), g(7, 3), None, n(4, high=7)], by_rows, ROWS | {"reduction": "sum"}),
    Case(linear_cross_entropy, [g(4, 3), g(7, 3), g(7), n(4, high=7)], by_rows, ROWS | {"reduction": "none"}),
    Case(linear_cross_entropy, [g(2, 3, 4), g(5, 4), g(5), LABELS], by_rows, ROWS | {"label_smoothing": 0.2}),
    Case(
        linear_cross_entropy, [g(2, 2), g(150, 2), g(150), n(2, high=150)], by_rows,
        ROWS | {"label_smoothing": 0.1, "ignore_index": 7}, second=False,
    ),
    Case(
        linear_cross_entropy, [g(2, 4), g(5, 4), g(5), n(2, low=1, high=5)], without_the_first, ROWS | {"first": 1}
    ),
    Case(
        linear_cross_entropy, [g(3, 4), g(40, 4), g(40), np.array([3, 0, 39])], without_the_first,
        ROWS | {"first": 3, "ignore_index": 0}, second=False,
    ),
    Case(
        with_ids, [g(5, 3), g(9, 3), g(9), np.array([0, 2, 1, 8, -100]), DRAWN],
        lambda x, w, b, labels, ids, transposed: of_drawn_classes(x, w, b, labels, transposed, ids), ROWS,
    ),
]  # fmt: skip
