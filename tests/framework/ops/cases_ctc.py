"""CTC loss, against a sum over all alignments."""

from __future__ import annotations

from itertools import groupby, product

import numpy as np

from pdl import Tensor
from pdl.ops.ctc import ctc_loss

from .case import Case, Draws

f = Draws(8).f


def log_softmax(x):
    e = x - x.max(-1, keepdims=True)
    return e - np.log(np.exp(e).sum(-1, keepdims=True))


def ctc_ref(log_p, targets, steps, labels, blank=0, reduction="mean", zero_infinity=False):
    losses = []
    for n in range(len(log_p)):
        wanted, chance = list(targets[n, : labels[n]]), 0.0
        for path in product(range(log_p.shape[2]), repeat=int(steps[n])):
            if [k for k, _ in groupby(path) if k != blank] == wanted:
                chance += np.exp(sum(log_p[n, t, k] for t, k in enumerate(path)))
        losses.append(-np.log(chance) if chance else 0.0 if zero_infinity else np.inf)
    loss = np.array(losses)
    if reduction == "mean":
        return (loss / np.maximum(labels, 1)).mean()
    return loss.sum() if reduction == "sum" else loss


def last_sample_cannot(log_p, targets, steps, labels):
    """The sum of the losses that are finite, so that gradients of impossible targets are seen too."""
    return ctc_loss(log_p, targets, steps, labels, reduction="sum", zero_infinity=True)


def as_in_training(logits):
    """From logits, as a net gives them."""
    from pdl.ops.elementwise import exp, log
    from pdl.ops.reduce import sum as total

    log_p = logits - log(total(exp(logits), axis=-1, keepdims=True))
    return ctc_loss(log_p, Tensor(TARGETS), Tensor(STEPS), Tensor(LABELS), reduction="sum")


# repeated labels; one label; an empty target; a full target; a short input
TARGETS = np.array([[1, 1, 2], [2, 0, 0], [0, 0, 0], [1, 2, 1], [2, 1, 0]])
STEPS, LABELS = np.array([5, 4, 3, 5, 2]), np.array([3, 1, 0, 3, 2])
LOG_P = log_softmax(f(5, 5, 3, low=-2, high=2))
LAST_BLANK = np.array([[0, 0, 1], [1, 0, 1]], np.int32)
CANNOT = (np.array([[1, 1], [1, 2], [1, 2]]), np.array([2, 1, 0]), np.array([2, 2, 1]))

CASES = [
    *[
        Case(ctc_loss, [LOG_P, TARGETS, STEPS, LABELS], ctc_ref, {"reduction": r}, second=r == "none")
        for r in ("none", "sum", "mean")
    ],
    Case(ctc_loss, [log_softmax(f(2, 4, 3)), LAST_BLANK, np.array([4, 3]), np.array([3, 2])], ctc_ref, {"blank": 2}),
    Case(ctc_loss, [log_softmax(f(3, 2, 3)), *CANNOT], ctc_ref, {"reduction": "none"}, grad=()),
    Case(
        last_sample_cannot,
        [log_softmax(f(3, 2, 3)), *CANNOT],
        lambda *a: ctc_ref(*a, reduction="sum", zero_infinity=True),
    ),
    Case(
        as_in_training,
        [f(5, 5, 3)],
        lambda x: ctc_ref(log_softmax(x), TARGETS, STEPS, LABELS, reduction="sum"),
        float32=1e-4,
    ),
]
