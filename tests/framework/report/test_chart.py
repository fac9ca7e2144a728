"""Charts: every curve has its own look, names stand whole inside, ticks of whole numbers are whole, the pointer finds
the values of all curves, and thinned curves look the same."""

from __future__ import annotations

import math
import re
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from pdl.report import bar_chart, line_chart, named_bars, scatter_chart
from pdl.report.axes import HEIGHT, LEFT, LETTER, POINTS, RIGHT, WIDTH, nearest, thinned
from pdl.report.chart import COLUMNS

SVG = "{http://www.w3.org/2000/svg}"


def texts(chart: str) -> list[str]:
    """Everything written outside of what the pointer finds."""
    root = ElementTree.fromstring(chart)
    return ["".join(each.itertext()) for each in root.findall(f"{SVG}text")]


def tips(chart: str) -> list[str]:
    """What each column says; those of a line chart cover the frame without a gap."""
    columns = [each for each in ElementTree.fromstring(chart).iter(f"{SVG}g") if each.get("class") == "at"]
    spans = [(float(each[0].get("x", "")), float(each[0].get("width", ""))) for each in columns]
    if "<polyline" in chart:
        assert all(left + width == pytest.approx(right, abs=0.11) for (left, width), (right, _) in pairwise(spans))
    return ["".join(next(each.iter(f"{SVG}text")).itertext()) for each in columns]


def test_many_curves_with_long_names() -> None:
    names = [f"runs/sweep/optim.lr=0.00{k},train.seed={k}" for k in range(14)]
    chart = line_chart({name: [(0, k), (1, k + 1)] for k, name in enumerate(names)}, x_label="epoch")
    looks = re.findall(r"<polyline [^>]*(stroke=\"[^>]*)>", chart)
    assert len(set(looks)) == 14
    height = int(re.search(r'viewBox="0 0 \d+ (\d+)"', chart)[1])  # type: ignore[index]
    for name in names:
        x, y = map(int, re.search(rf'<text x="(\d+)" y="(\d+)">{name}<', chart).groups())  # type: ignore[union-attr]
        assert x + LETTER * len(name) <= WIDTH + 12
        assert y < height
    assert f'viewBox="0 0 {WIDTH} {HEIGHT}"' in line_chart({"train": [(0, 1)], "val": [(0, 2)]}, x_label="epoch")


@pytest.mark.parametrize("last", [1, 2, 3, 4, 7, 10, 30, 100, 12345])
def test_ticks_of_epochs_are_whole(last: int) -> None:
    chart = line_chart({"val": [(k, k) for k in (1, last)]}, x_label="epoch")
    marks = [each.text for each in ElementTree.fromstring(chart).findall(f"{SVG}text[@text-anchor='middle']")]
    assert marks
    assert all(re.fullmatch(r"\d+", str(mark)) for mark in marks)
    assert len(set(marks)) == len(marks) <= 7


def test_the_pointer_finds_all_curves() -> None:
    chart = line_chart({"train": [(1, 0.5), (2, 0.25), (3, 0.125)], "val <": [(1, 0.75), (3, 2 / 3)]}, x_label="epoch")
    assert tips(chart) == [
        "epoch 1\N{BLACK SQUARE} 0.5 train\N{BLACK SQUARE} 0.75 val <",
        "epoch 2\N{BLACK SQUARE} 0.25 train",
        "epoch 3\N{BLACK SQUARE} 0.125 train\N{BLACK SQUARE} 0.6667 val <",
    ]
    assert chart.count('visibility="hidden"') == 3, "without a style sheet nothing of it is seen"
    assert tips(line_chart({"lr": [(7, 0.1)]}, x_label="step")) == ["step 7\N{BLACK SQUARE} 0.1 lr"]


@pytest.mark.parametrize("curves", [1, 3, 30])
def test_the_pointer_finds_few_of_many_points(curves: int) -> None:
    chart = line_chart({str(k): [(x, x % 7) for x in range(1, 5001)] for k in range(curves)}, x_label="step")
    found = tips(chart)
    assert 10 < len(found) <= COLUMNS
    assert all(said.count("\N{BLACK SQUARE}") == curves for said in found)
    assert len(chart) < 100_000


def test_between_points_the_pointer_finds_the_line() -> None:
    found = tips(line_chart({"a": [(0, 0), (1, 1)]}, x_label="x", unit=True, guides={"chance": [(0, 0), (1, 1)]}))
    for said in found:
        x, y = re.fullmatch(r"x (\S+)\N{BLACK SQUARE} (\S+) a", said).groups()  # type: ignore[union-attr]
        assert float(x) == pytest.approx(float(y), abs=1e-3)


def walks() -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(0)
    x = np.linspace(0, 300, 20_000)
    return [
        (x, 90 + 80 * np.sin(x / 40)),
        (x, np.where(x < 150, 0.0, 180.0)),
        (x, np.sort(rng.random(20_000)) * 180),
        (np.sort(rng.integers(0, 300, 5000)).astype(float), np.floor(np.sort(rng.random(5000)) * 20) * 9),
        (np.zeros(50), np.arange(50.0)),
        (np.zeros(3), np.zeros(3)),
        (np.zeros(1), np.zeros(1)),
    ]


@pytest.mark.parametrize("walk", walks(), ids=range(len(walks())))
def test_thinned_curves_look_the_same(walk: Any) -> None:
    x, y = walk
    kept = thinned(x, y)
    assert 1 <= len(kept) <= POINTS
    assert (kept[0], kept[-1]) == (0, len(x) - 1)
    assert (np.diff(kept) > 0).all()
    for first, last in pairwise(kept):  # every point is near the line that is drawn over it
        ahead, up = x[last] - x[first], y[last] - y[first]
        part = slice(first, last + 1)
        share = ((x[part] - x[first]) * ahead + (y[part] - y[first]) * up) / max(ahead**2 + up**2, 1e-9)
        share = np.clip(share, 0, 1)
        off = np.hypot(x[part] - x[first] - share * ahead, y[part] - y[first] - share * up)
        assert off.max() <= 1.0, "pixels"


def test_a_spike_is_kept() -> None:
    x, y = np.linspace(0, 300, 50_000), np.zeros(50_000)
    y[12_345] = 100
    assert 12_345 in thinned(x, y)


def test_nearest() -> None:
    assert list(nearest(np.array([1.0, 2, 4]), np.array([-1, 1.4, 1.6, 3, 3.1, 9]))) == [0, 0, 1, 1, 2, 2]
    assert list(nearest(np.array([5.0]), np.array([1.0, 9]))) == [0, 0]


def test_bars() -> None:
    said = [("0 to 1", "3 samples"), (), ("2 to 3", "1 sample")]
    chart = bar_chart(np.arange(4.0), np.array([3.0, np.nan, 1.0]), said, x_label="error", y_label="samples")
    path = next(ElementTree.fromstring(chart).iter(f"{SVG}path")).get("d", "")
    assert path.count("z") == 2
    assert tips(chart) == ["0 to 1\N{BLACK SQUARE} 3 samples", "2 to 3\N{BLACK SQUARE} 1 sample"]


def test_bars_by_name() -> None:
    chart = named_bars(
        {"a & b": 0.5, "none": 0.0, "long name": 2.0, "nan": math.nan}, ["1", "2", "3", "-"], label="lost"
    )
    drawing = ElementTree.fromstring(chart)
    ends = [re.findall(r"M(\S+) \S+H(\S+?)v", each.get("d", ""))[0] for each in drawing.iter(f"{SVG}path")]
    widths = [float(end) - float(start) for start, end in ends]
    assert widths[1] == widths[3] == 0
    assert widths[2] == pytest.approx(4 * widths[0], abs=0.3)
    assert max(float(end) for _, end in ends) < WIDTH - RIGHT
    texts = ["lost", "a & b", "1", "none", "2", "long name", "3", "nan", "-"]
    assert [each.text for each in drawing.iter(f"{SVG}text")] == texts


@pytest.mark.parametrize("count", [1, 2, 100, 9999])
def test_points_lie_inside(count: int) -> None:
    rng = np.random.default_rng(count)
    x, y = rng.normal(size=count) * 100, rng.normal(size=count)
    x[count // 2] = np.nan if count > 2 else x[0]
    chart = scatter_chart(x, y, x_label="true <x>", y_label="predicted")
    assert "true &lt;x&gt;" in chart
    path = list(ElementTree.fromstring(chart).iter(f"{SVG}path"))[1].get("d", "")
    drawn = np.array(re.findall(r"M(\S+) (\S+)h0", path), np.float64)
    assert len(drawn) == min(2000, count - (count > 2))
    assert (drawn[:, 0] >= LEFT).all()
    assert (drawn[:, 0] <= WIDTH - RIGHT).all()
    assert scatter_chart(x, y, x_label="true <x>", y_label="predicted") == chart
    assert scatter_chart([np.nan], [1.0]) == "<p>no points</p>"
