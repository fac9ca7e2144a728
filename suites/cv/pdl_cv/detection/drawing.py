"""Images with objects drawn on them, as SVG for pages: masks, boxes with names, keypoints."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import cv2
import numpy as np

from pdl.report import escape

Array = np.ndarray[Any, Any]

COLOURS = (
    "#e6194b", "#3cb44b", "#4363d8", "#f58231", "#911eb4", "#42d4f4", "#f032e6", "#bfef45", "#fabed4", "#469990",
    "#9a6324", "#ffe119",
)  # fmt: skip
SIDE = 320  # pixels of the longer side
QUALITY = 85  # of the JPEG inside
INK = 0.45  # of masks
LINE, LETTER = 14, 6.0  # height of a name, and width of a letter, in pixels of the page


def drawn(
    image: Array,
    objects: Mapping[str, Any],
    classes: Sequence[str],
    *,
    skeleton: Sequence[tuple[int, int]] = (),
    dashed: Mapping[str, Any] | None = None,
    wide: float = 16.0,
) -> str:
    """An SVG of an image uint8 [H, W, 1 or 3], made smaller where its longer side is above 320 pixels.

    objects   labels int [n] (-1: left out) and boxes [n, 4] in pixels of the image; masks uint8 [n, H, W], keypoints
              [n, P, 3], scores [n] and texts (n of them, in place of names of classes) where there are some
    skeleton  pairs of keypoints that lines join
    dashed    more objects, whose boxes are dashed and have their names below
    wide      the longer side on the page, in rem
    """
    height, width = image.shape[:2]
    inner = [
        _object(each, k, classes, skeleton, each is dashed, (height, width))
        for each in ([objects] if dashed is None else [dashed, objects])
        for k in _drawable(each)
    ]
    data = base64.b64encode(_jpeg(_inked(image, objects, _drawable(objects)))).decode()
    style = f"width:{wide * min(1.0, width / height):.1f}rem"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" style="{style}">'
        f'<image width="{width}" height="{height}" href="data:image/jpeg;base64,{data}"/>{"".join(inner)}</svg>'
    )


def _drawable(objects: Mapping[str, Any]) -> list[int]:
    """The objects that are no padding."""
    return np.flatnonzero(np.asarray(objects["labels"]) >= 0).tolist()


def _inked(image: Array, objects: Mapping[str, Any], keep: Sequence[int]) -> Array:
    """The image with its masks mixed in, RGB."""
    inked = np.repeat(image, 3, axis=2) if image.shape[2] == 1 else image
    if objects.get("masks") is None or not keep:
        return inked
    inked = inked.copy()
    for k in keep:
        inside = np.asarray(objects["masks"][k]) > 0
        ink = np.array([*bytes.fromhex(_colour(objects, k)[1:])], np.float32)
        inked[inside] = (inked[inside] * (1 - INK) + ink * INK).astype(np.uint8)
    return inked


def _jpeg(image: Array) -> bytes:
    factor = SIDE / max(image.shape[:2])
    if factor < 1:
        size = tuple(max(1, round(side * factor)) for side in image.shape[1::-1])
        image = cv2.resize(np.ascontiguousarray(image), size, interpolation=cv2.INTER_AREA)
    done, data = cv2.imencode(".jpg", image[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, QUALITY])
    assert done
    return data.tobytes()


def _colour(objects: Mapping[str, Any], k: int) -> str:
    return COLOURS[int(objects["labels"][k]) % len(COLOURS)]


def _object(
    objects: Mapping[str, Any],
    k: int,
    classes: Sequence[str],
    skeleton: Sequence[tuple[int, int]],
    dashed: bool,
    size: tuple[int, int],
) -> str:
    """One object in an image of this (height, width)."""
    unit = max(size) / SIDE  # a pixel of the page in pixels of the image
    x1, y1, x2, y2 = (float(v) for v in objects["boxes"][k])
    colour, name = _colour(objects, k), classes[int(objects["labels"][k])]
    text = objects["texts"][k] if "texts" in objects else name
    if "scores" in objects:
        text = f"{text} {float(objects['scores'][k]):.2f}"
    dash = f' stroke-dasharray="{4 * unit:.1f}"' if dashed else ""
    top = y2 if dashed else y1 - LINE * unit if y1 > LINE * unit else y1
    parts = [
        f'<rect x="{x1:.1f}" y="{y1:.1f}" width="{max(x2 - x1, 0):.1f}" height="{max(y2 - y1, 0):.1f}" fill="none" '
        f'stroke="{colour}" stroke-width="{2 * unit:.2f}"{dash}/>',
        _label(text, x1 - unit, top, colour, size),
    ]
    if objects.get("keypoints") is not None:
        parts.append(_points(np.asarray(objects["keypoints"][k], np.float64), skeleton, colour, unit))
    return "".join(parts)


def _label(text: str, x: float, y: float, colour: str, size: tuple[int, int]) -> str:
    """Text on a ground of the colour; (x, y) is the upper left corner, if that lets it stay in the image."""
    unit = max(size) / SIDE
    light = np.dot([*bytes.fromhex(colour[1:])], (0.299, 0.587, 0.114)) > 140
    ink = "#000" if light else "#fff"
    wide, high = (LETTER * len(text) + 4) * unit, LINE * unit
    x, y = max(min(x, size[1] - wide), 0.0), max(min(y, size[0] - high), 0.0)
    return (
        f'<path d="M{x:.1f} {y:.1f}h{wide:.1f}v{high:.1f}h{-wide:.1f}z" fill="{colour}" fill-opacity=".85"/>'
        f'<text x="{x + 2 * unit:.1f}" y="{y + 0.78 * high:.1f}" textLength="{LETTER * len(text) * unit:.1f}" '
        f'lengthAdjust="spacingAndGlyphs" style="font-size:{0.85 * high:.1f}px;fill:{ink}">'
        f"{escape(text)}</text>"
    )


def _points(points: Array, skeleton: Sequence[tuple[int, int]], colour: str, unit: float) -> str:
    known = points[:, 2] > 0 if points.shape[1] > 2 else np.ones(len(points), np.bool_)
    lines = "".join(
        f"M{points[a, 0]:.1f} {points[a, 1]:.1f}L{points[b, 0]:.1f} {points[b, 1]:.1f}"
        for a, b in skeleton
        if known[a] and known[b]
    )
    dots = "".join(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{2.5 * unit:.2f}" fill="{colour}" stroke="#fff" '
        f'stroke-width="{0.7 * unit:.2f}"/>'
        for x, y in points[known, :2]
    )
    return f'<path d="{lines}" fill="none" stroke="{colour}" stroke-width="{1.5 * unit:.2f}"/>{dots}'
