"""Sections on probabilities and numbers: which curves they draw, what they say, and what they refuse."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from pdl.errors import DataError, ShapeError
from pdl.ranking import auc, average_precision, calibration_bins
from pdl.report import curve_sections, number_sections
from pdl.report.axes import POINTS
from pdl.report.curves import _OneClass

SVG = "{http://www.w3.org/2000/svg}"


def predicted(count: int, classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, list[str]]:
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % classes
    scores = rng.normal(size=(count, classes))
    scores[np.arange(count), labels] += 2
    odds = np.exp(scores)
    return (odds / odds.sum(1, keepdims=True)).astype(np.float32), labels, [f"<{k}>" for k in range(classes)]


def lines(html: str) -> list[ElementTree.Element]:
    """The polylines of the first chart."""
    return list(ElementTree.fromstring(html[html.index("<svg") : html.index("</svg>") + 6]).iter(f"{SVG}polyline"))


@pytest.mark.parametrize(("classes", "curves"), [(2, 1), (3, 4), (10, 11), (30, 11), (100, 11)])
def test_curves_by_number_of_classes(classes: int, curves: int) -> None:
    probabilities, labels, names = predicted(3000, classes)
    made = curve_sections(probabilities, labels, names, "test")
    of = " of <1>" if classes == 2 else ""
    assert [each.title for each in made] == [
        f"ROC{of} (test)",
        f"Precision and recall{of} (test)",
        "Calibration (test)",
    ]
    for section in made[:2]:
        drawn = lines(section.html)
        assert len(drawn) == curves + 1, "and the guide"
        assert max(len(each.get("points", "").split()) for each in drawn) <= POINTS
        assert "<1>" not in section.html
    assert sum(len(each.html) for each in made) < 150_000
    areas = [auc(probabilities[:, k], labels == k) for k in range(classes)]
    if classes == 2:
        assert f"&lt;1&gt; ({areas[1]:.3f})" in made[0].html
        assert f"&lt;1&gt; ({average_precision(probabilities[:, 1], labels):.3f})" in made[1].html
    else:
        assert f"mean ({np.mean(areas):.3f})" in made[0].html
        for k in np.argsort(areas)[:10]:
            assert f"&lt;{k}&gt; ({areas[k]:.3f})" in made[0].html


def test_many_classes_have_calibration_alone() -> None:
    made = curve_sections(*predicted(500, 101), "val")
    assert [each.title for each in made] == ["Calibration (val)"]


def test_calibration_names_its_error() -> None:
    probabilities, labels, names = predicted(500, 4)
    error = calibration_bins(probabilities.max(1), probabilities.argmax(1) == labels).expected_calibration_error
    assert f"expected calibration error {error:.3f}" in curve_sections(probabilities, labels, names, "val")[-1].html


@pytest.mark.parametrize("seed", range(10))
def test_the_area_under_the_steps_is_the_average_precision(seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores, labels = rng.integers(0, 9, 50) / 9, rng.integers(0, 2, 50)
    one = _OneClass.of("a", scores, labels)
    recall, precision = one.recall()
    assert (recall[0], recall[-1]) == (0, 1)
    assert np.diff(recall) @ precision[1:] == pytest.approx(one.precision)


def test_classes_that_a_split_lacks() -> None:
    probabilities, labels, names = predicted(300, 4)
    some = labels != 2
    made = curve_sections(probabilities[some], labels[some], names, "test")
    assert len(lines(made[0].html)) == 5
    one = labels == 0
    assert [each.title for each in curve_sections(probabilities[one], labels[one], names, "test")] == [
        "Calibration (test)"
    ]
    assert curve_sections(probabilities[:0], labels[:0], names, "test") == []


@pytest.mark.parametrize(
    ("probabilities", "labels", "error", "message"),
    [
        ([[0.5, 0.5]], [0, 1], ShapeError, "expected"),
        ([[1.0]], [0], ShapeError, "C at least 2"),
        ([[2.0, -1.0]], [0], DataError, "row 0"),
        ([[0.5, 0.5], [3.0, 1.0]], [0, 1], DataError, "row 1 sums to 4"),
        ([[0.5, np.nan]], [0], DataError, "row 0"),
        ([[0.5, 0.5]], [2], DataError, "there are 2 classes"),
    ],
)
def test_what_is_refused(probabilities: list, labels: list, error: type[Exception], message: str) -> None:
    names = ["a", "b"][: len(probabilities[0])]
    with pytest.raises(error, match=message):
        curve_sections(np.array(probabilities), np.array(labels), names, "test")


@pytest.mark.parametrize("count", [1, 3, 50, 5000])
def test_numbers(count: int) -> None:
    rng = np.random.default_rng(count)
    targets = rng.normal(size=count).astype(np.float32)
    errors = rng.standard_t(2, count)
    (section,) = number_sections(targets + errors, targets, "price <EUR>", "test")
    assert section.title == "Predictions and errors (test)"
    assert "predicted price &lt;EUR&gt;" in section.html
    assert "<EUR>" not in section.html
    assert re.search(rf"mean {re.escape(f'{errors.mean():.4g}')}, std {re.escape(f'{errors.std():.4g}')}", section.html)
    assert ("2,000 of 5,000 samples" in section.html) == (count == 5000)
    counted = re.findall(r"([\d,]+) samples?</tspan>", section.html)
    assert sum(int(each.replace(",", "")) for each in counted) == count
    assert len(section.html) < 60_000


def test_numbers_that_are_not_finite() -> None:
    (section,) = number_sections([1.0, np.nan, 3.0], [1.0, 2.0, np.inf], "x", "val")
    assert "2 samples whose prediction or target is not finite are left out" in section.html
    assert number_sections([], [], "x", "val") == []
    with pytest.raises(ShapeError, match="2 predictions and 1 targets"):
        number_sections([1.0, 2.0], [1.0], "x", "val")
