"""What nets that find lines learn of a page: maps as DB has them (M. Liao et al., arXiv 1911.08947, section 3.4), and
as EAST has them (X. Zhou et al., arXiv 1704.03155, section 3.3)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import cv2
import numpy as np

from pdl_ocr.data.polygons import margin, outlines, shapely, shapes, short_side

VISIBLE = 0.3  # of a line's area must be on the image for it to be taught; less of it is left out
LEAST = 4.0  # pixels of the shorter side of a line, or it is left out
LOW, HIGH = 0.3, 0.7  # DB's thresholds far from a border, and on it
CELL = 4  # pixels of the image in a cell of EAST's maps
SHRUNK = 0.3  # of the reference length of a corner, by which EAST moves it inwards
BITS = 4  # of fractions of a cell in drawing


def _seen(
    polygons: Sequence[np.ndarray], ignored: np.ndarray, size: tuple[int, int]
) -> Iterator[tuple[np.ndarray, Any, Any, bool]]:
    """The lines of which something is on the image: polygon, shape, the part on the image, and whether it is taught."""
    height, width = size
    page = shapely().box(0, 0, width, height)
    for polygon, shape, leave_out in zip(polygons, shapes(polygons), ignored, strict=True):
        seen = shape.intersection(page)
        if not seen.is_empty and seen.area > 0:
            taken = not leave_out and seen.area >= VISIBLE * shape.area and short_side(polygon) >= LEAST
            yield polygon, shape, seen, taken


def text_maps(polygons: list[np.ndarray], ignored: np.ndarray, size: tuple[int, int], ratio: float) -> np.ndarray:
    """float32 [H, W, 4], of polygons [P, 2] on an image of `size` (height, width):

    0  1 inside of lines shrunk by area (1 - ratio^2) / perimeter
    1  1 where map 0 teaches, 0 in lines that are unreadable, tiny or mostly outside of the image
    2  on borders of lines 0.7, falling to 0.3 where the shrunk and the grown line end
    3  1 where map 2 teaches: within grown lines
    """
    inner, taught = np.zeros(size, np.uint8), np.ones(size, np.uint8)
    border, near = np.zeros(size, np.float32), np.zeros(size, np.uint8)
    for _, shape, seen, taken in _seen(polygons, ignored, size):
        distance = margin(shape, ratio)
        shrunk = shape.buffer(-distance)
        if not taken or shrunk.is_empty:
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


def box_maps(polygons: list[np.ndarray], ignored: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """float32 [H / 4, W / 4, 8] of polygons [P, 2] on an image of `size` (height, width):

    0     1 inside of lines whose corners are moved inwards by 0.3 of the shorter edge there
    1     1 where map 0 teaches, as in `text_maps`
    2..5  there, pixels from the middle of the cell to the upper, right, lower and left side of the rectangle of least
          area around the line
    6     its angle in radians, clockwise on a screen and from -pi / 4 to pi / 4
    7     1 where maps 2 to 6 teach: inside of lines
    """
    height, width = (-(-side // CELL) for side in size)
    maps, taught = np.zeros((height, width, 8), np.float32), np.ones((height, width), np.uint8)
    for polygon, _, seen, taken in _seen(polygons, ignored, size):
        if not taken:
            _fill(taught, [np.asarray(each, np.float64) for each in outlines(seen)], 0)
            continue
        corners, angle = _rectangle(polygon)
        inner = np.zeros((height, width), np.uint8)
        _fill(inner, [_shrunk(np.asarray(polygon, np.float64) if len(polygon) == 4 else corners)], 1)
        rows, columns = np.nonzero(inner)
        middles = (np.stack([columns, rows], axis=1) + 0.5) * CELL
        u = np.array([np.cos(angle), np.sin(angle)])
        along, across = (middles - corners[0]) @ u, (middles - corners[0]) @ (-u[1], u[0])
        (length, depth) = (corners[2] - corners[0]) @ u, (corners[2] - corners[0]) @ (-u[1], u[0])
        sides = np.stack([across, length - along, depth - across, along], axis=1)
        within = (sides > 0).all(axis=1)
        rows, columns, sides = rows[within], columns[within], sides[within]
        maps[rows, columns, 2:6], maps[rows, columns, 6] = sides, angle
        maps[rows, columns, 0] = 1
    maps[..., 1] = taught
    maps[..., 7] = maps[..., 0] * taught
    return maps


def _fill(mask: np.ndarray, rings: list[np.ndarray], value: int) -> None:
    """Set the cells whose middles are in rings [P, 2] of pixels, and those on their borders."""
    fine = [np.rint((ring / CELL - 0.5) * (1 << BITS)).astype(np.int32) for ring in rings]
    cv2.fillPoly(mask, fine, value, shift=BITS)


def _rectangle(polygon: np.ndarray) -> tuple[np.ndarray, float]:
    """The rectangle of least area around a polygon: corners float64 [4, 2] clockwise from the upper left one of the
    upright rectangle, and by how much this is turned, from -pi / 4 to pi / 4."""
    corners = cv2.boxPoints(cv2.minAreaRect(polygon.astype(np.float32))).astype(np.float64)
    edge = max(corners[1] - corners[0], corners[2] - corners[1], key=lambda each: float(each @ each))
    angle = float((np.arctan2(edge[1], edge[0]) + np.pi / 4) % (np.pi / 2) - np.pi / 4)
    axes = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    (left, top), (right, bottom) = (pick(corners @ axes.T, axis=0) for pick in (np.min, np.max))
    return np.array([[left, top], [right, top], [right, bottom], [left, bottom]]) @ axes, angle


def _shrunk(corners: np.ndarray) -> np.ndarray:
    """A quadrilateral [4, 2] whose longer pair of opposite edges, and then the other one, is made shorter at each end
    by 0.3 of the shorter edge of the corner there."""
    edges = np.hypot(*(np.roll(corners, -1, axis=0) - corners).T)
    reference = np.minimum(edges, np.roll(edges, 1))
    made, longer = corners.copy(), int(edges[1] + edges[3] > edges[0] + edges[2])
    for first in (longer, longer + 2, 1 - longer, 3 - longer):
        i, j = first, (first + 1) % 4
        edge = made[j] - made[i]
        unit = edge / max(float(np.hypot(*edge)), 1e-9)
        made[i], made[j] = made[i] + SHRUNK * reference[i] * unit, made[j] - SHRUNK * reference[j] * unit
    return made
