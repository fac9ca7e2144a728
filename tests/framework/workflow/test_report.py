"""The parts of reports are well-formed, and show what they were given."""

from __future__ import annotations

import base64
import xml.etree.ElementTree as ET

import cv2
import numpy as np
import pytest

from pdl.report import Section, document, heat_table, line_chart, picture, png, table
from pdl.workflow.report import curves


@pytest.mark.parametrize("channels", [1, 3])
def test_png_is_read_back(channels: int) -> None:
    image = np.random.default_rng(0).integers(0, 256, (5, 7, channels), np.uint8)
    read = cv2.imdecode(np.frombuffer(png(image), np.uint8), cv2.IMREAD_UNCHANGED).reshape(5, 7, channels)
    assert np.array_equal(read[..., ::-1], image)
    encoded = picture(image).partition("base64,")[2].rstrip('">')
    assert base64.b64decode(encoded) == png(image)


@pytest.mark.parametrize(
    "points",
    [
        [(1, 0.5), (2, 0.25), (3, 0.3)],
        [(1, 0.5)],
        [(1, 2.0), (2, 2.0)],
        [(1, float("nan")), (2, 1.0)],
        [(i, i**0.5) for i in range(5000)],
    ],
    ids=["curve", "point", "flat", "nan", "long"],
)
def test_charts_are_svg(points: list[tuple[float, float]]) -> None:
    root = ET.fromstring(line_chart({"a <b>": points}, x_label="epoch"))
    line = next(root.iter("{http://www.w3.org/2000/svg}polyline"))
    pairs = [tuple(map(float, p.split(","))) for p in line.attrib["points"].split()]
    assert 1 <= len(pairs) <= 610
    assert all(0 <= x <= 368 and 0 <= y <= 230 for x, y in pairs)


def test_chart_without_points() -> None:
    assert line_chart({"a": [], "b": [(1, float("inf"))]}) == "<p>no points</p>"


def test_ticks_that_lie_close_are_told_apart():
    root = ET.fromstring(line_chart({"energy": [(1, -1.1352), (2, -1.1372701)]}))
    said = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"-1.1355", "-1.136", "-1.1365", "-1.137"} <= set(said)


def test_text_is_escaped() -> None:
    page = document(
        "<t>",
        [
            Section(
                "a&b",
                table([("<script>", 0.123456, 3)], head=("<h>",)) + heat_table(np.eye(2, dtype=int), ["<x>", "y"]),
            )
        ],
    )
    assert "<script>" not in page
    assert "<x>" not in page
    assert "&lt;script&gt;" in page
    assert "0.1235" in page


def test_metrics_that_were_never_known_have_no_chart() -> None:
    lines = [
        {"kind": "epoch", "step": k, "epoch": k, "lr": 0.1, "val/loss": 1.0, "val/AP": 0.5, "val/AP_large": None}
        for k in (1, 2)
    ]
    html = curves([*lines, {**lines[0], "epoch": 3, "val/AP": None}])
    assert [name in html for name in ("AP<", "AP_large", "loss<")] == [True, False, True]
