"""Scores of tags, against sets of spans that are counted one sentence at a time."""

from __future__ import annotations

import numpy as np
import pytest

from pdl_nlp.schemes import Tags
from pdl_nlp.tagging.metrics import WorstSentences, tag_metrics
from tests.nlp.test_schemes import read

NAMES = ["O", *(f"{letter}-{kind}" for kind in ("LOC", "ORG", "PER") for letter in "BIES")]


def drawn(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tags, and what is found in their place: most of it the same. -1 behind the last one."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 12, 40)
    tags = np.where(rng.random((40, 12)) < 0.4, 0, rng.integers(0, len(NAMES), (40, 12)))
    found = np.where(rng.random((40, 12)) < 0.8, tags, rng.integers(0, len(NAMES), (40, 12)))
    inside = np.arange(12) < lengths[:, None]
    return np.where(inside, tags, -1), np.where(inside, found, -1), lengths


def f1(present: set, found: set) -> float:
    return 2 * len(present & found) / (len(present) + len(found))


@pytest.mark.parametrize("seed", range(5))
def test_spans_are_counted_as_conlleval_counts_them(seed: int) -> None:
    tags, found, lengths = drawn(seed)
    metrics = tag_metrics(Tags(NAMES, "BIOES"), segment=True, entities=["LOC", "PER"])
    for part in (slice(0, 25), slice(25, 40)):  # two batches
        for metric in metrics.values():
            metric.update(found[part], tags[part])
    sets = []
    for rows in (tags, found):
        spans = [read([NAMES[tag] for tag in row[:n]]) for row, n in zip(rows, lengths, strict=True)]
        sets.append({(i, *span) for i, each in enumerate(spans) for span in each})
    present, answered = sets
    hits = len(present & answered)
    made = {name: metric.compute() for name, metric in metrics.items()}
    assert made["f1"] == pytest.approx(f1(present, answered))
    assert made["precision"] == pytest.approx(hits / len(answered))
    assert made["recall"] == pytest.approx(hits / len(present))
    assert made["segmentation_f1"] == pytest.approx(f1(*({each[:3] for each in spans} for spans in sets)))
    assert made["entities_f1"] == pytest.approx(f1(*({each for each in spans if each[3] != "ORG"} for spans in sets)))
    assert made["spans"][1].tolist() == [
        len({each for each in spans if each[3] == "ORG"}) for spans in (present, answered, present & answered)
    ]
    real = tags >= 0
    assert made["accuracy"] == pytest.approx((tags == found)[real].mean())
    assert made["confusions"].sum() == real.sum()
    assert np.trace(made["confusions"]) == (tags == found)[real].sum()


def test_the_worst_sentences_are_wrong_ones() -> None:
    tags = np.array([[1, 2, -1], [0, 0, 0], [1, -1, -1], [2, 2, 2]])
    found = np.array([[1, 0, -1], [0, 0, 0], [1, -1, -1], [0, 2, 2]])
    worst = WorstSentences(1)
    worst.update(found, tags, np.array([1.0, 9.0, 9.0, 0.5]), np.array([5, 6, 7, 8]))
    assert [(each.loss, each.sentence, each.found.tolist()) for each in worst.compute()] == [(1.0, 5, [1, 0])]


def test_nothing_to_find_has_no_score() -> None:
    metrics = tag_metrics(Tags(["O", "B-LOC"]))
    for metric in metrics.values():
        metric.update(np.array([[0, 0]]), np.array([[0, 0]]))
    assert np.isnan(metrics["f1"].compute())
    assert metrics["accuracy"].compute() == 1
    assert "f1" not in tag_metrics(Tags(["NOUN", "VERB"]))
