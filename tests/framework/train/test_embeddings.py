"""What is measured of embeddings: trials of two, and nearest neighbours."""

from __future__ import annotations

import numpy as np
import pytest

from pdl.train.embeddings import AcceptRate, Trials, drawn_pairs, listed_pairs

RNG = np.random.default_rng(0)
LABELS = RNG.integers(0, 6, 60)


def test_all_pairs_or_as_many_as_asked_for() -> None:
    every = drawn_pairs(LABELS, 10_000, 0)
    assert len(every) == 60 * 59 // 2
    some = drawn_pairs(LABELS, 200, 0)
    assert len(some) == len({tuple(pair) for pair in some.tolist()}) == 200
    assert (some[:, 0] < some[:, 1]).all()
    assert (LABELS[some[:, 0]] == LABELS[some[:, 1]]).sum() == 100
    np.testing.assert_array_equal(some, drawn_pairs(LABELS, 200, 0))
    assert (some != drawn_pairs(LABELS, 200, 1)).any()
    few = drawn_pairs(np.arange(30) // 2, 300, 0)  # 15 pairs of one class, all of them
    assert (few[:, 0] // 2 == few[:, 1] // 2).sum() == 15


def test_a_list_names_recordings_by_the_ends_of_their_paths() -> None:
    names = ["/data/a/1.png", "/data/a/2.png", "/data/b/1.png"]
    found = listed_pairs([(True, "a/1.png", "a/2.png"), (False, "a/2.png", "b/1.png")], names)
    assert found is not None
    assert found[0].tolist() == [[0, 1], [1, 2]]
    assert found[1].tolist() == [1, 0]
    assert listed_pairs([(True, "a/1.png", "c/1.png")], names) is None
    assert listed_pairs([(True, "a/1.png", "a/2.png")], [*names, names[0]]) is None  # in two pieces


def test_nearest_neighbours_by_their_formulas() -> None:
    embeddings, labels = RNG.standard_normal((40, 5)), np.concatenate([np.arange(39) % 6, [6]])  # class 6 has one
    embeddings = (embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)).astype(np.float32)
    trials = Trials()
    for rows in np.array_split(RNG.permutation(40), 3):
        trials.update(embeddings[rows], labels[rows], rows, [str(row) for row in rows])
    found = trials.neighbours
    cosines = embeddings @ embeddings.T
    np.fill_diagonal(cosines, -np.inf)
    order = np.argsort(-cosines, axis=1)
    np.testing.assert_array_equal(found.nearest, order[:, : found.nearest.shape[1]])
    hits, precisions = {1: [], 5: []}, []
    for i in range(39):
        right = labels[order[i]] == labels[i]
        for k, values in hits.items():
            values.append(right[:k].any())
        r = (labels == labels[i]).sum() - 1
        precisions.append(sum(right[:k].mean() for k in range(1, r + 1) if right[k - 1]) / r)
    for k, values in hits.items():
        assert found.recall(k) == pytest.approx(np.mean(values))
    assert found.mean_average_precision() == pytest.approx(np.mean(precisions))


def test_share_of_accepted_trials_at_a_share_of_false_ones() -> None:
    scores, same = np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.4]), np.array([1, 0, 1, 1, 0, 0])
    for far, rate in ((0.0, 1 / 3), (0.3, 1 / 3), (0.34, 1.0)):
        metric = AcceptRate(far)
        metric.update(scores, same)
        assert metric.compute() == pytest.approx(rate)
