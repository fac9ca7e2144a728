"""Parts of images around boxes, as nets see them that look at one object at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pdl.dtype import Array
from pdl.errors import UsageError
from pdl.runtime.images import require_room

FILL = 114  # of what lies outside of the image


class Crop(NamedTuple):
    """The window of `height` x `width` pixels whose upper left pixel is (top, left) of the image, which may end inside
    of it."""

    left: int
    top: int
    width: int
    height: int


def around(box: Sequence[float] | Array, *, aspect: float | None = None, margin: float = 1.0) -> Crop:
    """The window around the middle of a box (x1, y1, x2, y2), `margin` times as wide and high, and then so much wider
    or higher that width / height is `aspect`, where that is given."""
    x1, y1, x2, y2 = (float(v) for v in box)
    width, height = max(1.0, (x2 - x1) * margin), max(1.0, (y2 - y1) * margin)
    if aspect is not None:
        width, height = max(width, height * aspect), max(height, width / aspect)
    left, top = math.floor((x1 + x2 - width) / 2), math.floor((y1 + y2 - height) / 2)
    return Crop(left, top, max(1, round(width)), max(1, round(height)))


def cut(image: Array, crop: Crop, fill: int = FILL) -> Array:
    """The pixels [height, width, C] of a window of an image uint8 [H, W, C]; `fill` where it reaches beyond."""
    left, top, width, height = crop
    if left >= 0 and top >= 0 and left + width <= image.shape[1] and top + height <= image.shape[0]:
        return image[top : top + height, left : left + width]
    require_room((height, width, image.shape[2]))
    made = np.full((height, width, image.shape[2]), fill, image.dtype)
    (x, right), (y, bottom) = _inside(left, width, image.shape[1]), _inside(top, height, image.shape[0])
    if x >= right or y >= bottom:
        raise UsageError(f"a window at ({left}, {top}) of {width} x {height} pixels lies outside of the image")
    made[y - top : bottom - top, x - left : right - left] = image[y:bottom, x:right]
    return made


def _inside(first: int, length: int, size: int) -> tuple[int, int]:
    return max(0, first), min(size, first + length)
