"""Drawings of answers as files: an image with a label below it, outlines of what was detected, the texts that were read
next to them; or an SVG that a step made.

Labels become a PNG. Texts become an SVG with the image inside, because they may be in any script: the viewer has the
fonts, OpenCV has none.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from html import escape
from pathlib import Path

import numpy as np

from pdl.dtype import Array
from pdl.files import write_atomic
from pdl.report.page import png
from pdl.runtime.drawing import Drawing, Mark

COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf")


def save(drawing: Drawing, folder: Path, name: str) -> Path:
    """Write a drawing under the name of its input, without what a file's name cannot hold, or with a number where that
    exists."""
    file = Path(name).stem if drawing.image is not None else name
    stem = "".join(c if c.isalnum() or c in "-_." else "_" for c in file).strip("-.")[:80] or "stdin"
    if drawing.image is None:
        return _write(folder, stem, ".svg", drawing.svg.encode())
    if drawing.any_script or any(mark.text is not None for mark in drawing.marks):
        below = "" if drawing.marks else drawing.caption
        return _write(folder, stem, ".svg", svg(drawing.image, drawing.marks, below).encode())
    return _write(folder, stem, ".png", png(labelled(outlined(drawing.image, drawing.marks), drawing.caption)))


def labelled(image: Array, text: str) -> Array:
    """image uint8 [H, W, 3], at least 256 wide, with a line of text below it."""
    import cv2

    height, width = image.shape[:2]
    factor = max(1, -(-256 // width))
    large = cv2.resize(image, (width * factor, height * factor), interpolation=cv2.INTER_NEAREST)
    canvas = np.full((large.shape[0] + 32, large.shape[1], 3), 255, np.uint8)
    canvas[: large.shape[0]] = large
    place = (8, canvas.shape[0] - 10)
    cv2.putText(canvas, text, place, cv2.FONT_HERSHEY_SIMPLEX, 0.6, (20, 20, 20), 1, cv2.LINE_AA)
    return canvas


def outlined(image: Array, marks: Sequence[Mark]) -> Array:
    """A copy of the image with the polygons of the marks drawn on it."""
    if not marks:
        return image
    import cv2

    picture = np.ascontiguousarray(image).copy()
    thickness = max(1, round(max(image.shape[:2]) / 600))
    for number, mark in enumerate(marks):
        points = np.rint(np.array(mark.polygon, np.float64)).astype(np.int32)
        colour = bytes.fromhex(COLOURS[number % len(COLOURS)][1:])
        cv2.polylines(picture, [points], True, tuple(colour), thickness, cv2.LINE_AA)
    return picture


def svg(image: Array, marks: Sequence[Mark], below: str = "") -> str:
    """The image with outlines, and to its right each text at the same place; or with a line of text below it."""
    height, width = image.shape[:2]
    zoom = max(1.0, 256 / width)
    inside = f"data:image/png;base64,{base64.b64encode(png(np.ascontiguousarray(image))).decode()}"
    parts = [f'<image width="{width}" height="{height}" href="{inside}"/>']
    for number, mark in enumerate(marks):
        parts.append(_outline(mark, COLOURS[number % len(COLOURS)], width))
    wide, high = (2 * width if marks else width), height + (32 / zoom if below else 0)
    if below:
        parts.append(f'<text x="{8 / zoom}" y="{height + 22 / zoom}" font-size="{16 / zoom}">{escape(below)}</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high:g}" width="{wide * zoom:g}" '
        f'height="{high * zoom:g}" font-family="system-ui, sans-serif"><rect width="100%" height="100%" fill="#fff"/>'
        f"{''.join(parts)}</svg>\n"
    )


def _outline(mark: Mark, colour: str, right: int) -> str:
    """A polygon, and its text in the copy of it that lies `right` pixels to the right."""
    points = [(float(x), float(y)) for x, y in mark.polygon]
    corners = " ".join(f"{x:g},{y:g}" for x, y in points)
    shape = f'<polygon points="{corners}" fill="none" stroke="{colour}" stroke-width="2"/>'
    if mark.text is None:
        return shape
    (x, y), (x1, y1), _, (x3, y3) = points[:4]
    length, size = math.hypot(x1 - x, y1 - y), math.hypot(x3 - x, y3 - y)
    angle = math.degrees(math.atan2(y1 - y, x1 - x))
    return (
        f'{shape}<g transform="translate({right + x:g} {y:g}) rotate({angle:.1f})"><text y="{0.8 * size:.1f}" '
        f'font-size="{0.8 * size:.1f}" textLength="{length:.1f}" lengthAdjust="spacingAndGlyphs" fill="{colour}">'
        f"{escape(mark.text)}</text></g>"
    )


def _write(folder: Path, stem: str, suffix: str, data: bytes) -> Path:
    """The file under a name that is free."""
    path, number = folder / f"{stem}{suffix}", 2
    while path.exists():
        path, number = folder / f"{stem}-{number}{suffix}", number + 1
    write_atomic(path, data)
    return path
