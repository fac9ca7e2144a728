"""Linear-chain CRFs, against sums over all sequences of tags."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np

from pdl import Tensor
from pdl.ops.crf import crf_decode, crf_loss, crf_marginals
from pdl.ops.elementwise import exp

from .case import Case, draws, forward

f, i = draws(seed=31)


def paths(emissions, steps, transitions, starts, ends):
    """All sequences of tags with their scores."""
    found = {}
    for path in product(range(emissions.shape[1]), repeat=int(steps)):
        score = starts[path[0]] + ends[path[-1]] + sum(emissions[t, k] for t, k in enumerate(path))
        found[path] = score + sum(transitions[a, b] for a, b in pairwise(path))
    return found


def log_z(scores):
    values = np.array(list(scores.values()))
    high = values.max()
    return high + np.log(np.exp(values - high).sum()) if np.isfinite(high) else -np.inf


def loss_ref(emissions, tags, lengths, transitions, starts, ends, reduction="mean"):
    losses = []
    for each, path, steps in zip(emissions, tags, lengths, strict=True):
        scores = paths(each, steps, transitions, starts, ends) if steps else {(): 0.0}
        own = scores[tuple(path[:steps].tolist())]
        losses.append(log_z(scores) - own if np.isfinite(own) else np.inf)
    losses = np.array(losses)
    return losses if reduction == "none" else losses.mean() if reduction == "mean" else losses.sum()


def marginals_ref(emissions, lengths, transitions, starts, ends):
    found = np.zeros_like(emissions)
    for n, steps in enumerate(lengths):
        scores = paths(emissions[n], steps, transitions, starts, ends) if steps else {}
        for path, score in scores.items():
            for t, k in enumerate(path):
                found[n, t, k] += np.exp(score - log_z(scores))
    return found


def decode_ref(emissions, lengths, transitions, starts, ends):
    found = np.full(emissions.shape[:2], -1)
    for n, steps in enumerate(lengths):
        if steps:
            scores = paths(emissions[n], steps, transitions, starts, ends)
            found[n, :steps] = max(scores, key=scores.__getitem__)
    return found


def chances(emissions, transitions, starts, ends):
    """The probability of each sequence of tags, which may be 0."""
    return exp(-crf_loss(emissions, Tensor(ALLOWED), Tensor(LENGTHS[:3]), transitions, starts, ends, reduction="none"))


def chances_ref(emissions, *scores):
    return np.exp(-loss_ref(emissions, ALLOWED, LENGTHS[:3], *scores, reduction="none"))


# whole, short, a single step, none
LENGTHS, TAGS = np.array([4, 3, 1, 0]), i(4, 4, high=3)
SCORES = (f(3, 3), f(3), f(3))
FORBIDDEN = (
    np.where(np.eye(3, k=1) > 0, -np.inf, f(3, 3)),
    np.array([0.3, -np.inf, 0.1]),
    np.array([0.2, 0.1, -np.inf]),
)
ALLOWED = np.array([[0, 2, 1, 0], [2, 1, 1, 9], [2, -1, -1, -1]])  # the last of them ends in what must not end
FAR = (40 * f(3, 3), 20 * f(3), 20 * f(3))

CASES = [
    *[
        Case(crf_loss, [f(4, 4, 3), TAGS, LENGTHS, *SCORES], loss_ref, {"reduction": r}, second=r == "none")
        for r in ("none", "sum", "mean")
    ],
    Case(crf_loss, [f(2, 3, 1), i(2, 3, high=1), np.array([3, 2], np.int32), f(1, 1), f(1), f(1)], loss_ref),
    Case(crf_loss, [100 * f(3, 4, 3), TAGS[:3], LENGTHS[:3], *FAR], loss_ref, {"reduction": "none"}, bf16=None,
         why="scores of hundreds have no digits behind the point in bfloat16", atol=1e-8, second=False),
    Case(chances, [f(3, 4, 3), *FORBIDDEN], chances_ref, grad=(0,), second=False),
    forward(crf_marginals, [f(4, 4, 3), LENGTHS, *SCORES], marginals_ref),
    forward(crf_marginals, [f(3, 4, 3), LENGTHS[:3], *FORBIDDEN], marginals_ref),
    forward(crf_decode, [f(4, 4, 3), LENGTHS, *SCORES], decode_ref),
    forward(crf_decode, [f(3, 4, 3), LENGTHS[:3], *FORBIDDEN], decode_ref),
    forward(crf_decode, [f(5, 2, 18), np.array([2, 2, 1, 0, 2]), f(18, 18), f(18), f(18)], decode_ref),
]  # fmt: skip
