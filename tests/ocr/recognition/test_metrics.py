"""What is measured of texts, against definitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdl.train.texts import Read, alignment, edit_distance
from pdl_ocr.recognition import metrics as m

WORDS = st.text(alphabet="abcé", max_size=7)


@pytest.mark.parametrize(
    ("a", "b", "distance"),
    [("", "", 0), ("kitten", "sitting", 3), ("flaw", "lawn", 2), ("", "abc", 3), ("日本語", "日本", 1)],
)
def test_the_edit_distance(a: str, b: str, distance: int) -> None:
    assert edit_distance(a, b) == edit_distance(b, a) == distance


@given(WORDS, WORDS, WORDS)
def test_it_is_a_metric(a: str, b: str, c: str) -> None:
    assert (edit_distance(a, b) == 0) == (a == b)
    assert edit_distance(a, c) <= edit_distance(a, b) + edit_distance(b, c)


@given(WORDS, WORDS)
def test_an_alignment_spells_both_texts_at_the_price_of_their_distance(a: str, b: str) -> None:
    pairs = alignment(a, b)
    assert "".join(x for x, _ in pairs) == a
    assert "".join(y for _, y in pairs) == b
    assert sum(x != y for x, y in pairs) == edit_distance(a, b)


def test_what_is_measured() -> None:
    found, texts = ["Hello", "w0rld!", "", "abc"], ["Hello", "world!", "a", "ABC."]
    made = m.recognition_metrics()
    for metric in made.values():
        metric.update(found, texts, np.arange(4))
    assert made["accuracy"].compute() == 1 / 4
    assert made["alphanumeric"].compute() == 2 / 4
    assert made["similarity"].compute() == pytest.approx((1 + 5 / 6 + 0 + 0) / 4)
    assert made["cer"].compute() == pytest.approx((0 + 1 + 1 + 4) / (5 + 6 + 1 + 4))


def test_tables_by_length_and_by_character() -> None:
    pairs = [Read(0, "oo", "o0"), Read(1, "ab", "ab"), Read(2, "abc", "ac")]
    assert [row[:3] for row in m.by_length(pairs)] == [(2, 2, 0.5), (3, 1, 0.0)]
    worst = {each.character: each for each in m.by_character(pairs)}
    assert (worst["o"].times, worst["o"].right, worst["o"].taken_for) == (2, 1, [("0", 1)])
    assert worst["b"].taken_for == [("", 1)]
    assert m.named("") == "nothing"
    assert m.named("̈") == "combining diaeresis"
