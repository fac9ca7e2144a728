"""Drawings of answers as files: an image with a label below it, outlines of what was detected, the texts that were read
next to them; or an SVG that a step made.

Labels become an image of the input's own format. Texts become an SVG with the image inside, because they may be in any
script: the viewer has the fonts, OpenCV has none.
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

TINT = 0.4  # share of its colour in what a mark fills
QUALITY = 95  # of JPEG and WebP
FORMATS = {
    ".jpg": "jpeg", ".jpeg": "jpeg", ".png": "png", ".webp": "webp", ".bmp": "bmp", ".tif": "tiff", ".tiff": "tiff",
}  # fmt: skip
"""What drawings are written as, by the endings of their inputs; those of other inputs become a PNG."""
BARRED = '<>:"/\\|?*'  # in names of files, on some system
COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf")


def save(drawing: Drawing, folder: Path, name: str) -> Path:
    """Write a drawing under the name of its input and in its format, without what a file's name cannot hold, or with a
    number where that exists."""
    if drawing.image is None:
        return _write(folder, name, ".svg", drawing.svg.encode())
    stem, suffix = Path(name).stem, Path(name).suffix.lower()
    if drawing.plain:
        return _write(folder, stem, ".png", png(np.ascontiguousarray(drawing.image)))
    suffix = suffix if suffix in FORMATS else ".png"
    texts = any(mark.text is not None for mark in drawing.marks)
    if drawing.any_script or texts or any(not mark.label.isascii() for mark in drawing.marks):
        below = "" if texts else drawing.caption
        return _write(folder, stem, ".svg", svg(drawing.image, drawing.marks, below, suffix).encode())
    image = labelled(outlined(drawing.image, drawing.marks), drawing.caption)
    return _write(folder, stem, suffix, encoded(image, suffix))


def encoded(image: Array, suffix: str) -> bytes:
    """An image uint8 [H, W, 3] as a file with this ending, of FORMATS."""
    import cv2

    if FORMATS[suffix] == "png":
        return png(np.ascontiguousarray(image))
    quality = {"jpeg": [cv2.IMWRITE_JPEG_QUALITY, QUALITY], "webp": [cv2.IMWRITE_WEBP_QUALITY, QUALITY]}
    return bytes(cv2.imencode(suffix, image[:, :, ::-1], quality.get(FORMATS[suffix], []))[1].tobytes())


def rendered(drawing: Drawing) -> Array:
    """A drawing of an image as one: with its marks and the labels that are written there, uint8 [H, W, 3]."""
    assert drawing.image is not None
    return outlined(drawing.image, drawing.marks)


def free(folder: Path, name: str, suffix: str) -> Path:
    """A file of the folder under the name of an input that no file has yet."""
    stem = "".join("_" if c in BARRED or not c.isprintable() else c for c in name).strip("-. ")[:80] or "stdin"
    path, number = folder / f"{stem}{suffix}", 2
    while path.exists():
        path, number = folder / f"{stem}-{number}{suffix}", number + 1
    return path


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
    tinted = picture.copy() if any(mark.filled for mark in marks) else picture
    placed = [(_points(mark), _colour(mark, number), mark) for number, mark in enumerate(marks)]
    for points, colour, mark in placed:
        if mark.filled:
            cv2.fillPoly(tinted, [points], colour, cv2.LINE_AA)
    picture = picture if tinted is picture else cv2.addWeighted(picture, 1 - TINT, tinted, TINT, 0)
    for points, colour, mark in placed:
        cv2.polylines(picture, [points], mark.closed, colour, thickness, cv2.LINE_AA)
    for points, colour, mark in placed:  # above all lines
        if mark.label:
            _write_label(picture, mark.label, points.min(axis=0), colour)
    return picture


def _points(mark: Mark) -> Array:
    return np.rint(np.array(mark.polygon, np.float64)).astype(np.int32)


def _colour(mark: Mark, number: int) -> tuple[int, ...]:
    return tuple(bytes.fromhex(COLOURS[(number if mark.colour is None else mark.colour) % len(COLOURS)][1:]))


def _write_label(picture: Array, label: str, corner: Array, colour: tuple[int, ...]) -> None:
    """White letters on the mark's colour above its upper left corner, or inside where there is no room above."""
    import cv2

    size = min(1.0, max(0.4, max(picture.shape[:2]) / 1600))
    (width, height), below = cv2.getTextSize(label, cv2.FONT_HERSHEY_SIMPLEX, size, 1)
    high = height + below + 2
    left = int(np.clip(corner[0], 0, max(0, picture.shape[1] - width - 4)))
    top = int(corner[1]) - high if corner[1] >= high else max(0, int(corner[1]))
    cv2.rectangle(picture, (left, top), (left + width + 4, top + high), colour, cv2.FILLED)
    place = (left + 2, top + height + 1)
    cv2.putText(picture, label, place, cv2.FONT_HERSHEY_SIMPLEX, size, (255, 255, 255), 1, cv2.LINE_AA)


def svg(image: Array, marks: Sequence[Mark], below: str = "", suffix: str = ".png") -> str:
    """The image, as a file with this ending, with outlines, and to its right each text at the same place; or with a
    line of text below it."""
    height, width = image.shape[:2]
    zoom = max(1.0, 256 / width)
    suffix = suffix if FORMATS[suffix] in ("jpeg", "webp") else ".png"  # what browsers show
    inside = f"data:image/{FORMATS[suffix]};base64,{base64.b64encode(encoded(image, suffix)).decode()}"
    parts = [f'<image width="{width}" height="{height}" href="{inside}"/>']
    for number, mark in enumerate(marks):
        parts.append(_outline(mark, f"#{bytes(_colour(mark, number)).hex()}", width))
    wide = width if all(mark.text is None for mark in marks) else 2 * width
    high = height + (32 / zoom if below else 0)
    if below:
        parts.append(f'<text x="{8 / zoom}" y="{height + 22 / zoom}" font-size="{16 / zoom}">{escape(below)}</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high:g}" width="{wide * zoom:g}" '
        f'height="{high * zoom:g}" font-family="system-ui, sans-serif"><rect width="100%" height="100%" fill="#fff"/>'
        f"{''.join(parts)}</svg>\n"
    )


def _outline(mark: Mark, colour: str, right: int) -> str:
    """A polygon with its label, and its text in the copy of it that lies `right` pixels to the right."""
    points = [(float(x), float(y)) for x, y in mark.polygon]
    corners = " ".join(f"{x:g},{y:g}" for x, y in points)
    kind, fill = ("polygon" if mark.closed else "polyline"), (colour if mark.filled else "none")
    shape = f'<{kind} points="{corners}" fill="{fill}" fill-opacity="{TINT}" stroke="{colour}" stroke-width="2"/>'
    if mark.label:
        left, top = min(x for x, _ in points), min(y for _, y in points)
        shape += (
            f'<text x="{left + 3:g}" y="{max(top - 4, 14):g}" font-size="14" fill="{colour}" stroke="#fff" '
            f'stroke-width="3" paint-order="stroke">{escape(mark.label)}</text>'
        )
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
    path = free(folder, stem, suffix)
    write_atomic(path, data)
    return path
