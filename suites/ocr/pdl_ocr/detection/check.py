"""Look pages over before training: polygons that cannot be learned, pages without lines, lines drawn twice."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np

from pdl.data.checks import Progress, check, open_all, shorten
from pdl.data.faults import Fault
from pdl.errors import DataError
from pdl.train import Recipe
from pdl_ocr.data.pages import TextPages
from pdl_ocr.data.polygons import overlaps, shapely, shapes, short_side, split_points

SHOWN = 5  # faults of a kind and split
MOST = 1000  # faults of a kind that are gathered
LEAST = 4.0  # pixels of the shorter side of a line
TWICE = 0.9  # intersection over union of two lines that are one


def check_recipe(recipe: Recipe, progress: Progress | None = None) -> list[Fault]:
    """Faults of the pages of a recipe: of their files, and of their polygons."""
    sources = {split: part.build for split, part in recipe.data.splits.items()}
    faults = check(sources, progress=progress)
    for split, data in open_all(sources, []).items():
        if isinstance(data, TextPages):
            for kind in (_empty(data), _polygons(data), _twice(data)):
                faults += shorten(list(islice(kind, MOST)), SHOWN, split)
    return faults


def _of(data: TextPages, index: int) -> tuple[list[np.ndarray], list[str]]:
    found = data.annotation(index)
    return split_points(found["points"].astype(np.float64), found["corners"]), data.texts(index)


def _empty(data: TextPages) -> Iterator[Fault]:
    """One warning, with the number of pages without lines: they are fine where there is no text."""
    none = [index for index in range(len(data)) if not len(data.annotation(index)["corners"])]
    if none:
        what = f"{len(none)} of {len(data)} pages have no lines; this one first"
        yield Fault(data.path_of(none[0]), none[0], what, "fine, if no text is there", severity="warning")


def _polygons(data: TextPages) -> Iterator[Fault]:
    for index in range(len(data)):
        try:
            height, width = data.size_of(index)
        except DataError:  # reported by the check of files
            continue
        for polygon, text in zip(*_of(data, index), strict=True):
            what = _trouble(polygon, height, width)
            if what is not None:
                said = f"the polygon of {text!r:.40} {what}"
                yield Fault(data.path_of(index), index, said, "correct it, or mark the line as unreadable (###)")


def _trouble(polygon: np.ndarray, height: int, width: int) -> str | None:
    shape = shapely().Polygon(polygon)
    if not shape.is_valid:
        return "crosses itself"
    if short_side(polygon) < LEAST:
        return f"is {short_side(polygon):.0f} pixels high"
    low, high = polygon.min(axis=0), polygon.max(axis=0)
    if (high <= 0).any() or low[0] >= width or low[1] >= height:
        return f"lies outside of the image of {width} x {height} pixels"
    return None


def _twice(data: TextPages) -> Iterator[Fault]:
    for index in range(len(data)):
        polygons, texts = _of(data, index)
        both, area, _ = overlaps(made := shapes(polygons), made)
        iou = both / np.maximum(area[:, None] + area[None] - both, 1e-9)
        for i, j in np.argwhere(np.triu(iou, 1) > TWICE).tolist():
            what = f"{texts[i]!r:.40} and {texts[j]!r:.40} have the same polygon"
            yield Fault(data.path_of(index), index, what, "leave one of them out")
