"""Parallel coordinates, and what trainings reached one after another."""

from __future__ import annotations

import math
import re

from pdl.report.parallel import Line, Scale, best_so_far, parallel_chart


def points(svg: str) -> list[list[tuple[float, float]]]:
    """Of the lines that are seen, in the order in which they are drawn."""
    found = re.findall(r'<g class="at" fill="none"><polyline points="([^"]*)"', svg)
    return [[(float(x), float(y)) for x, y in (pair.split(",") for pair in each.split())] for each in found]


def test_lines_pass_the_axes_where_their_values_are() -> None:
    scales = [Scale("optim.lr", log=True), Scale("kind", ["a", "b", "<c>"]), Scale("val/loss")]
    lines = [
        Line(["0.001", "a", 1.0], 0.0, "the best & first", "one/report.html"),
        Line(["0.01", "b", 2.0], 0.5, "second", whole=False),
        Line(["0.1", "<c>", math.nan], 1.0, "third"),
    ]
    svg = parallel_chart(scales, lines)
    worst, second, best = points(svg)
    assert [x for x, _ in best] == [x for x, _ in second]
    assert len(worst) == 2, "what was not measured is not drawn"
    low, high = best[0][1], worst[0][1]
    assert low > high, "pixels are counted from above"
    assert abs(second[0][1] - (low + high) / 2) < 0.1, "0.01 is in the middle between 0.001 and 0.1"
    assert [best[1][1], second[1][1], worst[1][1]] == [low, (low + high) / 2, high]
    assert (best[2][1], second[2][1]) == (low, high)
    assert svg.count("stroke-dasharray") == 1
    assert '<a href="one/report.html"><g class="at"' in svg
    assert "the best &amp; first" in svg
    assert "&lt;c&gt;" in svg
    assert "<c>" not in svg
    assert all(f">{text}</text>" in svg for text in ("0.001", "0.01", "0.1"))


def test_the_best_so_far_is_that_of_whole_trainings() -> None:
    said = [[f"trial {k}", "x=1"] for k in range(1, 5)]
    svg = best_so_far([0.5, 0.9, math.nan, 0.7], [True, False, False, True], said, less=False, y_label="val/accuracy")
    assert svg.count("<circle") == 3
    assert svg.count('fill="none" stroke="#dc7f18"') == 1
    (line,) = re.findall(r'<path d="(M[^"]*)" fill="none"', svg)
    heights = [float(y) for y in re.findall(r"(?:V|M\S+ )([\d.]+)", line)]
    circles = [float(y) for y in re.findall(r'<circle cx="\S+" cy="([\d.]+)"', svg)]
    assert heights == [circles[0], circles[2]]
    assert svg.count('class="at"') == 4
    assert best_so_far([math.nan], [True], [["x"]], less=True, y_label="") == "<p>no points</p>"
