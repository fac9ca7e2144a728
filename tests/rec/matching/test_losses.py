"""Losses of matching against their definitions, written out query by query."""

from __future__ import annotations

import math
from typing import Any, get_args

import numpy as np
import pytest

import pdl
from pdl_rec.matching.losses import Kind, all_items, matching_loss, warp_weights
from pdl_rec.models.matching import Compared

RNG = np.random.default_rng(0)
FITTING, OTHERS = RNG.normal(size=6).astype(np.float32), RNG.normal(size=(6, 4)).astype(np.float32)
KNOWN = RNG.random((6, 4)) < 0.3
ITEMS, MARGIN = 9, 0.5
LOG_DRAWS = RNG.normal(size=4).astype(np.float32)


def log_sigmoid(x: float) -> float:
    return -math.log1p(math.exp(-x))


def by_hand(kind: str, n: int, known: np.ndarray) -> list[float]:
    """The terms of query n: one for each other that counts."""
    s, others = float(FITTING[n]), [float(o) for o in OTHERS[n]]
    open_ = [j for j in range(4) if not known[n, j]]
    if kind == "bpr":
        return [-log_sigmoid(s - others[j]) for j in open_]
    if kind == "hinge":
        return [max(0.0, MARGIN - s + others[j]) for j in open_]
    if kind == "softmax":
        return [-s + math.log(math.exp(s) + sum(math.exp(others[j] - LOG_DRAWS[j]) for j in open_))]
    for j in open_:  # warp
        if MARGIN - s + others[j] > 0:
            rank = (ITEMS - 1) // (j + 1)
            return [sum(1 / r for r in range(1, rank + 1)) * (MARGIN - s + others[j])]
    return [0.0]


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("kind", get_args(Kind))
def test_a_loss_is_its_formula(kind: Any, masked: bool) -> None:
    known = KNOWN if masked else np.zeros_like(KNOWN)
    compared = Compared(pdl.as_tensor(FITTING), pdl.as_tensor(OTHERS))
    options: dict[str, Any] = {"margin": MARGIN, "num_items": ITEMS}
    if kind == "softmax":
        options["log_draws"] = pdl.as_tensor(LOG_DRAWS)
    got = matching_loss(kind, compared, known=pdl.as_tensor(KNOWN) if masked else None, **options).item()
    if kind == "bce":
        ones = [-log_sigmoid(float(s)) for s in FITTING]
        zeros = [-log_sigmoid(-float(o)) for o, k in zip(OTHERS.ravel(), known.ravel(), strict=True) if not k]
        assert got == pytest.approx((np.mean(ones) + 4 * np.mean(zeros)) / 5, rel=1e-5)
    else:
        assert got == pytest.approx(np.mean([term for n in range(6) for term in by_hand(kind, n, known)]), rel=1e-5)


def test_softmax_over_all_items_leaves_out_no_item_and_what_else_is_known() -> None:
    scores = RNG.normal(size=(3, 5)).astype(np.float32)
    items = np.array([1, 4, 2])
    known = np.zeros((3, 5), bool)
    known[0, 3] = known[1, 4] = True  # of the second the very item that is looked for: it stays
    got = all_items(pdl.as_tensor(scores), pdl.as_tensor(items), pdl.as_tensor(known)).item()
    left = [[1, 2, 4], [1, 2, 3, 4], [1, 2, 3, 4]]
    terms = [
        -scores[n, items[n]] + math.log(sum(math.exp(scores[n, c]) for c in columns)) for n, columns in enumerate(left)
    ]
    assert got == pytest.approx(np.mean(terms), rel=1e-5)


def test_the_fewer_draws_it_took_the_heavier_warp_weighs() -> None:
    weights = warp_weights(8, 8)
    assert weights[0] == pytest.approx(sum(1 / r for r in range(1, 8)))
    assert (np.diff(weights) <= 0).all()
    assert weights[-1] == 0  # 8 draws to find one of 7: its rank counts as 0
