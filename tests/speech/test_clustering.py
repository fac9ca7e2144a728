"""Clusters against SciPy's, against plain definitions, and of points whose groups are known."""

from __future__ import annotations

import numpy as np
import pytest

from pdl_speech.clustering import agglomerated


def vectors(sizes: tuple[int, ...], noise: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Directions around a few of them, in a random order, and their groups by first members."""
    rng = np.random.default_rng(seed)
    group = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    x = np.linalg.qr(rng.standard_normal((40, 40)))[0][group] + noise * rng.standard_normal((len(group), 40))
    _, first, inverse = np.unique(group, return_index=True, return_inverse=True)
    return x / np.linalg.norm(x, axis=1, keepdims=True), np.argsort(np.argsort(first))[inverse]


def plain(s: np.ndarray, least: float, count: int | None) -> list[set[int]]:
    """Average linkage as it is defined."""
    groups = [{i} for i in range(len(s))]
    while len(groups) > 1:
        pairs = [
            (s[np.ix_(list(a), list(b))].mean(), i, j) for j, b in enumerate(groups) for i, a in enumerate(groups[:j])
        ]
        best, i, j = max(pairs)
        if len(groups) <= count if count is not None else best < least:
            break
        groups[i] |= groups.pop(j)
    return sorted(groups, key=min)


def sets(labels: np.ndarray) -> list[set[int]]:
    return [set(np.flatnonzero(labels == k).tolist()) for k in range(labels.max() + 1)]


def test_average_linkage_is_what_it_is_defined_as() -> None:
    rng = np.random.default_rng(0)
    for n in (1, 2, 7, 25):
        x = rng.standard_normal((n, 3))
        s = x @ x.T
        for least, count in ((-1.0, None), (0.3, None), (2.0, None), (0.0, 4), (0.0, 1)):
            assert sets(agglomerated(s, least=least, count=count)) == plain(s, least, count)


def test_average_linkage_is_that_of_scipy() -> None:
    hierarchy = pytest.importorskip("scipy.cluster.hierarchy")
    distance = pytest.importorskip("scipy.spatial.distance")
    x = np.random.default_rng(1).standard_normal((300, 4))
    links = hierarchy.linkage(distance.pdist(x, "cosine"), "average")
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    for least in (0.0, 0.4, 0.8):
        theirs = hierarchy.fcluster(links, 1 - least, "distance")
        ours = agglomerated(unit @ unit.T, least=least)
        assert len({*zip(ours.tolist(), theirs.tolist(), strict=True)}) == ours.max() + 1 == theirs.max()


@pytest.mark.parametrize("sizes", [(40,), (20, 30), (15, 9, 30), (12, 12, 12, 12, 12)])
def test_the_number_of_groups_is_found(sizes: tuple[int, ...]) -> None:
    x, group = vectors(sizes, 0.08)
    assert (agglomerated(x @ x.T, least=0.5) == group).all()
    assert (agglomerated(x @ x.T, least=0.1, most=0.9) == group).all()
    assert agglomerated(x @ x.T, least=-2.0, most=-1.0).max() == 0  # all are as near as that
    assert agglomerated(x @ x.T, count=3).max() == 2


def test_the_number_that_stays_for_longest_is_taken() -> None:
    """Three pairs, of which two are near each other: three groups from 0.5 to 0.9, two from 0.2 to 0.5."""
    s = np.full((6, 6), 0.2)
    s[:4, :4] = 0.5
    for i in (0, 2, 4):
        s[i : i + 2, i : i + 2] = 0.9
    for least, most, wanted in (
        (0.0, 1.0, 3),
        (0.0, 0.6, 2),
        (0.25, 0.6, 2),
        (0.3, 0.8, 3),
        (0.85, 1.0, 6),
        (0.0, 0.1, 1),
    ):
        assert agglomerated(s, least=least, most=most).max() + 1 == wanted
    assert agglomerated(s, least=0.25, most=0.6, count=5).max() + 1 == 5


def test_few_points() -> None:
    for n in (0, 1, 2, 3):
        x = np.eye(3)[:n]
        assert len(agglomerated(x @ x.T)) == len(agglomerated(x @ x.T, least=0.5, most=0.8)) == n
    assert agglomerated(np.ones((2, 2)), count=5).tolist() == [0, 1]
