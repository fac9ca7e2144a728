"""Trials: which pairs are compared, and what is measured of them."""

from __future__ import annotations

import numpy as np

from pdl.ranking import auc, equal_error_rate
from pdl_speech.speakers.metrics import Trials, drawn_pairs, listed_pairs, speaker_metrics

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
    few = drawn_pairs(np.arange(30) // 2, 300, 0)  # 15 pairs of one speaker, all of them
    assert (few[:, 0] // 2 == few[:, 1] // 2).sum() == 15


def test_a_list_names_recordings_by_the_ends_of_their_paths() -> None:
    names = ["/data/a/1.wav", "/data/a/2.wav", "/data/b/1.wav"]
    found = listed_pairs([(True, "a/1.wav", "a/2.wav"), (False, "a/2.wav", "b/1.wav")], names)
    assert found is not None
    assert found[0].tolist() == [[0, 1], [1, 2]]
    assert found[1].tolist() == [1, 0]
    assert listed_pairs([(True, "a/1.wav", "c/1.wav")], names) is None
    assert listed_pairs([(True, "a/1.wav", "a/2.wav")], [*names, names[0]]) is None  # in two pieces


def test_what_is_measured_does_not_depend_on_batches() -> None:
    embeddings = RNG.standard_normal((60, 8)) + 2 * np.eye(8)[LABELS]
    embeddings = (embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)).astype(np.float32)
    i, j = np.triu_indices(60, 1)
    scores, same = (embeddings[i] * embeddings[j]).sum(axis=1), LABELS[i] == LABELS[j]
    for order in (np.arange(60), RNG.permutation(60)):
        metrics = speaker_metrics(Trials())
        for rows in np.array_split(order, 4):
            metrics["trials"].update(embeddings[rows], LABELS[rows], rows, [str(row) for row in rows])
        found = {name: metric.compute() for name, metric in metrics.items()}
        np.testing.assert_allclose(found["trials"].scores, scores, atol=1e-6)
        assert found["eer"] == equal_error_rate(found["trials"].scores, same)[0]
        assert abs(found["auc"] - auc(found["trials"].scores, same)) < 1e-9
        expected = ((1 - scores)[same].mean() + np.maximum(scores, 0)[~same].mean()) / 2
        assert abs(found["loss"] - expected) < 1e-6
        threshold = found["trials"].threshold()
        assert abs((scores[same] < threshold).mean() - (scores[~same] >= threshold).mean()) < 0.02
