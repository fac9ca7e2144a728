"""What is measured of words, against definitions and jiwer."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdl.train.texts import Read
from pdl_speech.recognition import metrics as m

SENTENCES = st.lists(st.sampled_from(["one", "two", "oh", "three"]), max_size=6).map(" ".join)


@pytest.mark.parametrize(
    ("text", "found", "edits"),
    [
        ("a b c", "a b c", (0, 0, 0, 3)),
        ("a b c", "a x c", (1, 0, 0, 3)),
        ("a b c", "a c", (0, 1, 0, 3)),
        ("a b c", "a b b c", (0, 0, 1, 3)),
        ("a b c", "", (0, 3, 0, 3)),
        ("", "a", (0, 0, 1, 0)),
    ],
)
def test_edits(text: str, found: str, edits: tuple[int, ...]) -> None:
    assert tuple(m.edits(text, found)) == edits


@given(SENTENCES, SENTENCES)
def test_edits_make_one_of_the_other(text: str, found: str) -> None:
    row = m.edits(text, found)
    assert row.words == len(text.split())
    assert len(found.split()) == row.words - row.deletions + row.insertions


@given(st.lists(st.tuples(SENTENCES.filter(bool), SENTENCES), min_size=1, max_size=4))
def test_rates_are_those_of_jiwer(pairs: list[tuple[str, str]]) -> None:
    jiwer = pytest.importorskip("jiwer")
    texts, found = [list(each) for each in zip(*pairs, strict=True)]
    made = m.recognition_metrics()
    for metric in made.values():
        metric.update(found, texts, np.arange(len(texts)))
    assert made["wer"].compute() == pytest.approx(jiwer.wer(texts, found))
    assert made["cer"].compute() == pytest.approx(jiwer.cer(texts, found))
    sums = m.summed(made["heard"].compute())  # type: ignore[arg-type]
    theirs = jiwer.process_words(texts, found)
    assert sums[:3] == (theirs.substitutions, theirs.deletions, theirs.insertions)


def test_what_is_measured() -> None:
    found, texts = ["one too", "", "six six"], ["one two", "four", "six"]
    made = m.recognition_metrics()
    for metric in made.values():
        metric.update(found, texts, np.arange(3))
    assert made["wer"].compute() == 3 / 4
    assert [made[kind].compute() for kind in ("substitutions", "deletions", "insertions")] == [1 / 4] * 3
    assert made["cer"].compute() == pytest.approx((1 + 4 + 4) / (7 + 4 + 3))
    assert made["accuracy"].compute() == 0


def test_what_the_report_says_of_words() -> None:
    pairs = [Read(0, "turn it left", "turn left"), Read(1, "go left", "go lift"), Read(2, "left", "now left")]
    assert m.confused([*pairs, pairs[1]]) == [("left", "lift", 2), ("", "now", 1), ("it", "", 1)]
    assert m.marked(pairs[0]) == "turn [it -> ] left"
    assert m.summed(pairs).rate == 3 / 6
