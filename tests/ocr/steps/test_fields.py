"""Pages as arrays, spans out of logits, and inputs that are none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdl.errors import DataError, UsageError
from pdl.runtime.steps import Resources, Sample
from pdl.vocabulary import Vocabulary
from pdl_ocr.steps.fields import PIECES, FieldValues, PageLines, PageText, edges_of, likely_spans


def line(text: str, top: float, left: float = 0.0, width: float = 100.0) -> dict[str, Any]:
    polygon = [[left, top], [left + width, top], [left + width, top + 10], [left, top + 10]]
    return {"text": text, "polygon": polygon}


def test_lines_are_cut_into_pieces_and_nothing_is_lost() -> None:
    said = ["one two three four five", "x" * 20, "a"]
    page = PageText.of([line(text, 20 * i) for i, text in enumerate(said)], width=8)
    assert page.lines == said
    assert all(0 < piece.end - piece.begin <= 8 for piece in page.pieces)
    again = ["".join(said[n][p.begin : p.end] for p in page.pieces if p.line == n) for n in range(3)]
    assert again == said
    words = [said[0][p.begin : p.end] for p in page.pieces if p.line == 0]
    assert words == ["one two ", "three ", "four ", "five"]
    assert page.boxes[:, 0].min() == 0
    assert page.boxes[:, 2].max() == pytest.approx(1)
    assert np.diff(page.boxes[[p.line == 0 for p in page.pieces]][:, 0]).min() > 0
    places = page.places()
    assert len(places) == sum(map(len, said))
    assert [page.positions()[place] for place in places.values()] == list(places)


@pytest.mark.parametrize(
    ("text", "begins", "ends"),
    [
        ("DATE:25/12/2018", "D:2", "E:8"),
        ("RM9.00 x", "R9x", "M0x"),
        ("$ 1,250.5.", "$1.", "$5."),
        ("总计九元", "总计九元", "总计九元"),
    ],
)
def test_values_begin_and_end_with_words_and_numbers(text: str, begins: str, ends: str) -> None:
    first, last = edges_of(text)
    assert "".join(c for c, yes in zip(text, first, strict=True) if yes) == begins
    assert "".join(c for c, yes in zip(text, last, strict=True) if yes) == ends


def test_the_best_span_is_that_of_all_spans() -> None:
    rng = np.random.default_rng(0)
    for _ in range(40):
        t, most = 14, int(rng.integers(1, 14))
        logits, edges = rng.normal(0, 3, (t + 1, 3)), rng.random((2, t)) < 0.7
        (found,) = likely_spans(logits, edges, [most])
        sides = []
        for side in range(2):
            p = np.exp(logits[:, side]) * np.append(edges[side], 1)
            sides.append(p / p.sum())
        outside = np.minimum(1, 2 / (1 + np.exp(-logits[:-1, 2])))
        weights = {
            (i, j): sides[0][i] * sides[1][j] * outside[i : j + 1].prod() ** 0.1
            for i in range(t) if edges[0, i] for j in range(i, min(t, i + most)) if edges[1, j]
        }  # fmt: skip
        if sides[0][-1] * sides[1][-1] >= 0.25 or not weights:
            assert found == []
            continue
        best = max(found, key=lambda each: each.weight)
        assert (best.first, best.last) == max(weights, key=lambda at: weights[at])
        assert best.p == pytest.approx(sides[0][best.first] * sides[1][best.last])
        assert all(np.exp(each.weight) == pytest.approx(weights[each.first, each.last]) for each in found)


def test_places_with_the_same_text_count_together() -> None:
    sample = Sample()
    lines = [line("b", 0), line("a", 20), line("A.", 40)]
    bound().parse({"lines": lines}, sample)
    logits = np.zeros((8 * 24 + 1, 3), np.float32)
    logits[:, :2] = -20
    for row, p in enumerate((0.4, 0.35, 0.25)):
        logits[24 * row, :2] = np.log(p)
    found = FieldValues(["x"], [9])(logits, sample)["fields"]["x"]
    assert (found["text"], found["lines"]) == ("a", [1])
    assert found["score"] == pytest.approx(0.35**2 + 0.25**2, rel=1e-3)


def bound(gives: str = "characters") -> PageLines:
    step = PageLines(gives)
    step.bind(Resources([], {"characters": Vocabulary(["[PAD]", "[UNK]", "a", "b"])}, {}))
    return step


def test_arrays_have_room_for_whole_pages_and_say_what_they_left_out() -> None:
    sample = Sample()
    made = bound().parse({"lines": [line("ab?", 20 * i) for i in range(9)]}, sample)
    assert made.shape == (PIECES[1], 24)
    assert made[0, :4].tolist() == [2, 3, 1, 0]
    assert bound("boxes").parse(None, sample).shape == (PIECES[1], 4)  # of the page that is known
    assert "cut" not in sample.notes
    large = Sample()
    assert len(bound().parse({"lines": [line("a", 20 * i) for i in range(600)]}, large)) == PIECES[-1]
    assert large.notes["cut"] == PIECES[-1]  # characters, of lines of one


@pytest.mark.parametrize(
    ("item", "said"),
    [
        ({}, "is no page"),
        ({"lines": "abc"}, "is no page"),
        ({"lines": [{"text": 3}]}, "line 0: "),
        ({"lines": [{"text": "a"}]}, "has no polygon"),
        ({"lines": [{"text": "a", "polygon": [[1, 2], [3, 4]]}]}, "has no polygon"),
        ({"lines": [{"text": "a", "polygon": [[1, 2], [3, 4], [float("inf"), 1]]}]}, "has no polygon"),
        ({"lines": [{"text": "a", "polygon": "abc"}]}, "has no polygon"),
        (7, "is no page"),
    ],
)
def test_items_that_are_no_pages(item: Any, said: str) -> None:
    with pytest.raises(DataError, match=said):
        bound().parse(item, Sample())


def test_empty_pages_have_no_fields() -> None:
    for lines in ([], [line(" ", 0)]):
        sample = Sample()
        assert not bound().parse({"lines": lines}, sample).any()
        assert FieldValues(["x"], [9])(np.zeros((8 * 24 + 1, 3), np.float32), sample) == {"fields": {}}


def test_files_that_are_no_pages(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("<html>")
    with pytest.raises(DataError, match="not JSON"):
        list(bound().expand(str(tmp_path / "a.json"), 0))
    with pytest.raises(DataError, match="cannot be read"):
        list(bound().expand(str(tmp_path / "none.json"), 0))


def test_logits_of_another_page_are_refused() -> None:
    sample = Sample()
    bound().parse({"lines": [line("ab", 0)]}, sample)
    with pytest.raises(UsageError, match=r"must be \(193, 3\)"):
        FieldValues(["a"], [9])(np.zeros((10, 3), np.float32), sample)
    for wrong in ({"names": [], "longest": []}, {"names": ["a"], "longest": []}, {"names": ["a"], "longest": [0]}):
        with pytest.raises((UsageError, DataError, ValueError, TypeError)):
            FieldValues(**wrong)
