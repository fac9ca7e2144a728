"""Pages as `Reader` answers them, of texts at known places."""

from __future__ import annotations

from typing import Any

import numpy as np

from pdl_ocr.rectify import Rectified


def line(text: str, left: float, top: float, width: float, height: float = 30, degrees: float = 0) -> dict[str, Any]:
    """A line, turned clockwise about the upper left corner of its first letter; its own first corner is the upper left
    one on the page."""
    angle = np.radians(degrees)
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    corners = np.array([[0, 0], [width, 0], [width, height], [0, height]]) @ turn + (left, top)
    corners = np.roll(corners, 1, axis=0) if degrees == 90 else corners
    return {"text": text, "score": 0.875, "polygon": np.round(corners, 1).tolist()}


def page(*lines: dict[str, Any], width: int = 800, height: int = 1000) -> dict[str, Any]:
    return {"lines": list(lines), "width": width, "height": height}


def turned(answer: dict[str, Any], degrees: int) -> dict[str, Any]:
    """The answer for the image of a page that lies turned clockwise by quarter turns, as `Reader` reads it."""
    lies = Rectified.of((answer["height"], answer["width"]), None, np.radians(-degrees))
    assert lies is not None
    back = Rectified.of((lies.height, lies.width), None, np.radians(degrees))
    assert back is not None
    lines = [{**each, "polygon": lies.forth(each["polygon"]).round(1).tolist()} for each in answer["lines"]]
    return {"lines": lines, "width": lies.width, "height": lies.height, "rectified": back.facts}


HOSTILE = page(
    line('a < b & "c" \x00\x07\ud800\uffff>', 50, 50, 300), line("  ", 50, 300, 90), line("\x01", 50, 500, 90)
)
ARTICLE = page(
    line("A heading", 100, 40, 400, 60),
    *(line("running text that fills it exam-" if i % 2 else "ple of a row", 50, 140 + 40 * i, 640) for i in range(4)),
    line("the end.", 50, 300, 200),
    line("Total", 50, 420, 150), line("12.50", 500, 421, 90),
    line("Cash", 50, 460, 140), line("20.00", 500, 461, 90),
)  # fmt: skip
