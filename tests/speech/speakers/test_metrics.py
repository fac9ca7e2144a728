"""What is measured of trials of speakers."""

from __future__ import annotations

import numpy as np

from pdl.ranking import auc, equal_error_rate
from pdl.train.embeddings import Trials
from pdl_speech.speakers.metrics import speaker_metrics

RNG = np.random.default_rng(0)
LABELS = RNG.integers(0, 6, 60)


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
