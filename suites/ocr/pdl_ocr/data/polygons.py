"""Polygons around lines of text: shrunk and grown, clipped, compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pdl.errors import UsageError


def shapely() -> Any:
    """The library Shapely, which training alone needs."""
    try:
        import shapely
    except ImportError as error:
        raise UsageError("polygons of lines are shrunk and compared by Shapely; install pdl-ocr[train]") from error
    return shapely


def split_points(points: np.ndarray, corners: np.ndarray) -> list[np.ndarray]:
    """The polygons float32 [P, 2] of points [Q, 2], where line i has corners[i] of them."""
    return np.split(points, np.cumsum(corners)[:-1]) if len(corners) else []


def denser(points: np.ndarray, corners: np.ndarray | None, width: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Points [Q, 2] and corners [n] with more corners on straight edges, at most a sixteenth of `width` apart and up to
    8 an edge, so that polygons can bend; points behind those of the polygons stay, as do all where corners is None."""
    if corners is None or not len(corners):
        return points, corners
    count, made, numbers = int(corners.sum()), [], []
    for polygon in split_points(points[:count], corners):
        edges = np.roll(polygon, -1, axis=0) - polygon
        parts = np.clip(np.ceil(np.linalg.norm(edges, axis=1) * 16 / width), 1, 8).astype(int)
        steps = np.concatenate([np.arange(each) / each for each in parts])[:, None]
        made.append(np.repeat(polygon, parts, axis=0) + steps * np.repeat(edges, parts, axis=0))
        numbers.append(len(made[-1]))
    return np.concatenate([*made, points[count:]]).astype(points.dtype), np.array(numbers, corners.dtype)


def shapes(polygons: Sequence[np.ndarray]) -> list[Any]:
    """Shapely's polygons of corners [P, 2]; what crosses itself becomes what it encloses."""
    polygon = shapely().Polygon
    made = [polygon(each) if len(each) > 2 else polygon() for each in polygons]
    return [each if each.is_valid else each.buffer(0) for each in made]


def margin(shape: Any, ratio: float) -> float:
    """By how much DB shrinks a polygon, and lets it grow: area (1 - ratio^2) / perimeter (arXiv 1911.08947, section
    3.4)."""
    return float(shape.area * (1 - ratio**2) / max(shape.length, 1e-6))


def outlines(shape: Any) -> list[np.ndarray]:
    """The outer rings int32 [P, 2] of a polygon, or of several."""
    parts = [each for each in getattr(shape, "geoms", [shape]) if each.geom_type == "Polygon" and not each.is_empty]
    return [np.rint(np.asarray(each.exterior.coords)[:-1]).astype(np.int32) for each in parts]


def short_side(polygon: np.ndarray) -> float:
    """The shorter side of the rectangle of least area around a polygon [P, 2]."""
    import cv2

    return float(min(cv2.minAreaRect(polygon.astype(np.float32))[1]))


def overlaps(a: Sequence[Any], b: Sequence[Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Areas float64 of intersections [len(a), len(b)], of `a` and of `b`, all of them Shapely's polygons."""
    library, first, second = shapely(), np.array(a, object), np.array(b, object)
    areas = library.area(first), library.area(second)
    if not len(a) or not len(b):
        return np.zeros((len(a), len(b))), *areas
    return library.area(library.intersection(first[:, None], second[None])), *areas
