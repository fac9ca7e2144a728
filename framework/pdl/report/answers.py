"""A picture with the answer drawn on it: a label below it, outlines where the answer names places, texts beside them.

Labels become a PNG. Texts become an SVG with the picture inside, because they may be in any script: the viewer has the
fonts, OpenCV has none.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.errors import UsageError
from pdl.report.page import png
from pdl.runtime.pictures import picture

COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf")
#: keys of answers that are a list of {"polygon": [[x, y], ...], ...}, and what one of it is; lines have a "text" too
PLACES = {"lines": "line", "boxes": "box"}


def draw(item: Any, prediction: dict[str, Any], folder: Path) -> Path:
    """Save `item` (a path, bytes or an array) with the prediction, under a name that is free in `folder`."""
    image, stem = picture(item, "rgb"), Path(prediction["input"]).stem.strip("-") or "stdin"
    places: Sequence[Mapping[str, Any]] = next((prediction[key] for key in PLACES if key in prediction), ())
    if "lines" in prediction or "text" in prediction:
        text = "" if places else caption(prediction)
        return _write(folder, stem, ".svg", svg(image, places, text).encode())
    return save(outlined(image, places), caption(prediction), folder, stem)


def caption(prediction: dict[str, Any]) -> str:
    """The answer in one line; UsageError where a prediction is nothing that can be drawn."""
    if "label" in prediction:
        return f"{prediction['label']}  {prediction['score']:.1%}"
    if "text" in prediction:
        return f"{prediction['text']}  {prediction['score']:.1%}"
    if "labels" in prediction:
        return ", ".join(f"{each['label']} {each['score']:.0%}" for each in prediction["labels"]) or "nothing"
    for several, one in PLACES.items():
        if several in prediction:
            return f"{len(prediction[several])} {several if len(prediction[several]) != 1 else one}"
    raise UsageError("this model's answers are arrays, which cannot be drawn; leave out --save")


def save(image: np.ndarray, text: str, folder: Path, stem: str) -> Path:
    """image uint8 [H, W, 3], at least 256 wide, with a line of text below it, as folder/stem.png, or with a number
    where that exists."""
    import cv2

    height, width = image.shape[:2]
    factor = max(1, -(-256 // width))
    large = cv2.resize(image, (width * factor, height * factor), interpolation=cv2.INTER_NEAREST)
    canvas = np.full((large.shape[0] + 32, large.shape[1], 3), 255, np.uint8)
    canvas[: large.shape[0]] = large
    place = (8, canvas.shape[0] - 10)
    cv2.putText(canvas, text, place, cv2.FONT_HERSHEY_SIMPLEX, 0.6, (20, 20, 20), 1, cv2.LINE_AA)
    return _write(folder, stem, ".png", png(canvas))


def outlined(image: Array, places: Sequence[Mapping[str, Any]]) -> Array:
    """A copy of the picture with the polygons of `places` drawn on it."""
    if not places:
        return image
    import cv2

    drawn = np.ascontiguousarray(image).copy()
    thickness = max(1, round(max(image.shape[:2]) / 600))
    for number, each in enumerate(places):
        points = np.rint(np.array(each["polygon"], np.float64)).astype(np.int32)
        colour = bytes.fromhex(COLOURS[number % len(COLOURS)][1:])
        cv2.polylines(drawn, [points], True, tuple(colour), thickness, cv2.LINE_AA)
    return drawn


def svg(image: Array, places: Sequence[Mapping[str, Any]], below: str = "") -> str:
    """The picture with outlines, and beside it each text at the same place; or with a line of text below it."""
    height, width = image.shape[:2]
    zoom = max(1.0, 256 / width)
    inside = f"data:image/png;base64,{base64.b64encode(png(np.ascontiguousarray(image))).decode()}"
    parts = [f'<image width="{width}" height="{height}" href="{inside}"/>']
    for number, each in enumerate(places):
        parts.append(_outline(each, COLOURS[number % len(COLOURS)], width))
    wide, high = (2 * width if places else width), height + (32 / zoom if below else 0)
    if below:
        parts.append(f'<text x="{8 / zoom}" y="{height + 22 / zoom}" font-size="{16 / zoom}">{escape(below)}</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high:g}" width="{wide * zoom:g}" '
        f'height="{high * zoom:g}" font-family="system-ui, sans-serif"><rect width="100%" height="100%" fill="#fff"/>'
        f"{''.join(parts)}</svg>\n"
    )


def _outline(place: Mapping[str, Any], colour: str, right: int) -> str:
    """A polygon, and its text in the copy of it that lies `right` pixels to the right."""
    points = [(float(x), float(y)) for x, y in place["polygon"]]
    corners = " ".join(f"{x:g},{y:g}" for x, y in points)
    shape = f'<polygon points="{corners}" fill="none" stroke="{colour}" stroke-width="2"/>'
    if "text" not in place:
        return shape
    (x, y), (x1, y1), _, (x3, y3) = points[:4]
    length, size = math.hypot(x1 - x, y1 - y), math.hypot(x3 - x, y3 - y)
    angle = math.degrees(math.atan2(y1 - y, x1 - x))
    return (
        f'{shape}<g transform="translate({right + x:g} {y:g}) rotate({angle:.1f})"><text y="{0.8 * size:.1f}" '
        f'font-size="{0.8 * size:.1f}" textLength="{length:.1f}" lengthAdjust="spacingAndGlyphs" fill="{colour}">'
        f"{escape(place['text'])}</text></g>"
    )


def _write(folder: Path, stem: str, suffix: str, data: bytes) -> Path:
    """The file under a name that is free."""
    folder.mkdir(parents=True, exist_ok=True)
    path, number = folder / f"{stem}{suffix}", 2
    while path.exists():
        path, number = folder / f"{stem}-{number}{suffix}", number + 1
    path.write_bytes(data)
    return path
