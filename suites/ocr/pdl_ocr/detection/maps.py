"""What a DB net learns of a page: maps of the inner parts of lines, and of their borders (M. Liao et al., arXiv
1911.08947, section 3.4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np

from pdl.data.dataset import Sample
from pdl.data.pipeline import Transform
from pdl.data.randomness import SampleRandom
from pdl_ocr.data.polygons import margin, outlines, shapely, shapes, short_side, split_points

VISIBLE = 0.3  # of a line's area must be on the image for it to be taught; less of it is left out
LEAST = 4.0  # pixels of the shorter side of a line, or it is left out
LOW, HIGH = 0.3, 0.7  # thresholds far from a border, and on it


@dataclass(frozen=True)
class TextMaps(Transform):
    """{"image", "maps" float32 [H, W, 4]}: the polygons of a sample (`points`, `corners`, `ignored`) become maps

    0  1 inside of lines shrunk by area (1 - ratio^2) / perimeter
    1  1 where map 0 teaches, 0 in lines that are unreadable, tiny or mostly outside of the image
    2  on borders of lines 0.7, falling to 0.3 where the shrunk and the grown line end
    3  1 where map 2 teaches: within grown lines

    Points behind those of the lines stay, as "corner".

    ratio  r of shrinking
    """

    ratio: float = 0.4

    def __call__(self, sample: Sample, rng: SampleRandom) -> Sample:
        rest = {name: value for name, value in sample.items() if name not in ("points", "corners", "ignored")}
        points, corner = np.split(sample["points"], [int(sample["corners"].sum())])
        polygons = split_points(points, sample["corners"])
        maps = text_maps(polygons, sample["ignored"], sample["image"].shape[:2], self.ratio)
        return {**rest, "maps": maps, "corner": corner}


def text_maps(polygons: list[np.ndarray], ignored: np.ndarray, size: tuple[int, int], ratio: float) -> np.ndarray:
    """float32 [H, W, 4], as `TextMaps` has them, of polygons [P, 2] on an image of `size` (height, width)."""
    height, width = size
    inner, taught = np.zeros(size, np.uint8), np.ones(size, np.uint8)
    border, near = np.zeros(size, np.float32), np.zeros(size, np.uint8)
    page = shapely().box(0, 0, width, height)
    for polygon, shape, leave_out in zip(polygons, shapes(polygons), ignored, strict=True):
        seen = shape.intersection(page)
        if seen.is_empty or seen.area <= 0:
            continue
        distance = margin(shape, ratio)
        shrunk = shape.buffer(-distance)
        cut = seen.area < VISIBLE * shape.area
        if leave_out or cut or short_side(polygon) < LEAST or shrunk.is_empty:
            cv2.fillPoly(taught, outlines(seen), 0)
            continue
        cv2.fillPoly(inner, outlines(shrunk), 1)
        _draw_border(border, near, shape, distance)
    near &= taught
    return np.stack([inner, taught, border * (HIGH - LOW) + LOW, near], axis=-1).astype(np.float32)


def _draw_border(border: np.ndarray, near: np.ndarray, shape: Any, distance: float) -> None:
    """1 on the border of a line, falling to 0 at `distance` from it; where lines are close, the larger value stays."""
    rings = outlines(shape.buffer(distance))
    corners = np.concatenate(rings)
    left, top = np.maximum(corners.min(axis=0) - 1, 0)
    right, bottom = np.minimum(corners.max(axis=0) + 2, near.shape[::-1])
    if right <= left or bottom <= top:
        return
    part = np.s_[top:bottom, left:right]
    canvas = np.full((bottom - top, right - left), 255, np.uint8)
    cv2.polylines(canvas, [each - (left, top) for each in outlines(shape)], True, 0)
    fallen = 1 - cv2.distanceTransform(canvas, cv2.DIST_L2, 5) / np.float32(max(distance, 1.0))
    np.maximum(border[part], fallen, out=border[part])
    cv2.fillPoly(near, rings, 1)
