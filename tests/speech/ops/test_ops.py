"""Alignment: every check of `pdl.testing`, and the best of all paths."""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest

from pdl.errors import DtypeError, ShapeError
from pdl.testing import OpCheck, draws, forward, op_checks, op_faults
from pdl_speech.ops import monotonic_alignment

f, i = draws(11)


def best(scores: Any, frames: Any, characters: Any) -> Any:
    """By every path there is."""
    made = np.zeros((len(scores), scores.shape[2]), np.int64)
    for n, (t, u) in enumerate(zip(frames, characters, strict=True)):
        if u < 1 or t < u:
            continue
        cuts = [np.array([0, *inner, t]) for inner in combinations(range(1, t), u - 1)]
        sums = [sum(scores[n, a:b, c].sum() for c, (a, b) in enumerate(pairwise(cut))) for cut in cuts]
        made[n, :u] = np.diff(cuts[int(np.argmax(sums))])
    return made


CASES = [
    forward(monotonic_alignment, [f(3, 7, 4), np.array([7, 5, 3]), np.array([4, 2, 3])], best),
    forward(monotonic_alignment, [f(4, 5, 3), np.array([2, 0, 5, 1]), np.array([3, 1, 0, 1])], best),
    forward(monotonic_alignment, [f(2, 1, 1), np.array([1, 1]), np.array([1, 1])], best),
]


@pytest.mark.parametrize("check", op_checks(CASES), ids=str)
def test_op(check: OpCheck) -> None:
    check()


def test_every_op_has_a_case_and_is_found_by_bundles() -> None:
    assert op_faults("pdl_speech", CASES) == []


@pytest.mark.parametrize("seed", range(20))
def test_it_is_the_best_of_all_paths(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, t, u = (int(x) for x in rng.integers(1, (4, 10, 6)))
    scores, frames, characters = rng.normal(size=(n, t, u)), rng.integers(0, t + 1, n), rng.integers(0, u + 1, n)
    made = monotonic_alignment(scores, frames, characters).numpy()
    np.testing.assert_array_equal(made, best(scores, frames, characters))


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"scores \(2, 3\) must be \[N, T, U\]"):
        monotonic_alignment(np.zeros((2, 3)), np.ones(2, int), np.ones(2, int))
    with pytest.raises(ShapeError, match=r"frames"):
        monotonic_alignment(np.zeros((2, 3, 1)), np.ones(3, int), np.ones(2, int))
    with pytest.raises(DtypeError, match=r"characters is float64; expected an integer dtype"):
        monotonic_alignment(np.zeros((2, 3, 1)), np.ones(2, int), np.ones(2))
