"""Counts of corrections by hand, from the definitions of SIGHAN's bake-offs."""

from __future__ import annotations

import numpy as np
import pytest

from pdl_nlp.correction.baselines import _corrected, _dictionary
from pdl_nlp.correction.loader import confusions_of, with_noise
from pdl_nlp.correction.metrics import correction_metrics

#: as written, as corrected, as right
SENTENCES = [
    ("abx", "abc", "abc"),  # found and right
    ("abx", "abd", "abc"),  # the place is right, the character is not
    ("abx", "abx", "abc"),  # missed
    ("axx", "abx", "abc"),  # one of two
    ("abx", "dbc", "abc"),  # right, and one too many: no false alarm, for the sentence has a mistake
    ("abc", "abc", "abc"),  # nothing to do
    ("abc", "abd", "abc"),  # a false alarm
]


def numbers(texts: list[str]) -> np.ndarray:
    return np.array([[*map(ord, text), *[-1] * (5 - len(text))] for text in texts])


def test_by_hand() -> None:
    metrics = correction_metrics()
    given, found, right = (numbers([each[of] for each in SENTENCES]) for of in range(3))
    given[given < 0], found[found < 0] = 0, 7  # what stands behind a text does not count
    for part in (slice(0, 3), slice(3, 7)):
        for metric in metrics.values():
            metric.update(given[part], found[part], right[part])
    result = {name: metric.compute() for name, metric in metrics.items() if name != "counts"}
    # detection: hits 1 and 2 of the 5 with mistakes, one false alarm
    assert result["detection_precision"] == pytest.approx(2 / 3)
    assert result["detection_recall"] == pytest.approx(2 / 5)
    assert result["detection_f1"] == pytest.approx(2 * 2 / (2 * 2 + 1 + 3))
    assert result["correction_precision"] == pytest.approx(1 / 2)
    assert result["correction_recall"] == pytest.approx(1 / 5)
    assert result["accuracy"] == pytest.approx(2 / 7)
    # characters: 6 mistakes, 6 changes, 4 of them at mistakes, 3 of these right
    assert result["character_detection_f1"] == pytest.approx(2 * 4 / (6 + 6))
    assert result["character_correction_f1"] == pytest.approx(2 * 3 / (6 + 6))


def test_the_dictionary_knows_mistakes_beside_a_neighbour() -> None:
    pairs = [("qxb", "qab"), ("qxb", "qab"), ("rxc", "rxc"), ("bx", "by")]
    known = _dictionary(pairs)
    assert _corrected("qxb", known) == "qab"
    assert _corrected("rxc", known) == "rxc"  # right there
    assert _corrected("bx", known) == "bx"  # seen once


def test_made_up_mistakes_are_those_of_the_texts() -> None:
    pairs = [("xb", "ab"), ("zb", "ab"), ("xb", "ab"), ("ab", "ab")]
    letters, p = confusions_of(pairs)["a"]
    assert dict(zip(letters, p, strict=True)) == pytest.approx({"x": 2 / 3, "z": 1 / 3})
    made = with_noise(pairs, 2, 1.0, seed=0)
    assert made[:8] == [*pairs, *[("ab", "ab")] * 4]
    assert len(made) == 16
    assert {text for text, _ in made[8:]} <= {"xb", "zb"}
    assert made == with_noise(pairs, 2, 1.0, seed=0)
    assert with_noise(pairs, 1, 0.0, seed=0)[8:] == [("ab", "ab")] * 4
