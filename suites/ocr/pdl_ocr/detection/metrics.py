"""How well lines of text were found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from pdl.train.metrics import Metric
from pdl_ocr.data.polygons import overlaps, shapes

IOU = 0.5  # from which on a polygon found and one that is there are a pair
OUTSIDE = 0.5  # of a polygon found lies in what is marked as unreadable: it does not count
AREA_RECALL, AREA_PRECISION, SCATTERED = 0.8, 0.4, 0.8  # of DetEval


class Counts(NamedTuple):
    """Matches counted for recall and for precision, lines that are there, and that were found."""

    recalled: float
    precise: float
    there: int
    found: int


@dataclass
class Page:
    """A page that was looked at: polygons [P, 2] found with their scores, those that are there, and which of the first
    and of the second are pairs."""

    index: int
    found: list[np.ndarray]
    scores: list[float]
    there: list[np.ndarray]
    ignored: np.ndarray
    pairs: list[tuple[int, int]] = field(default_factory=list)
    left_out: np.ndarray = field(default_factory=lambda: np.zeros(0, bool))


class Overlaps(NamedTuple):
    """Of a page's polygons: areas of intersections [found, there], areas of both, and which of the found lie mostly in
    what is marked as unreadable."""

    both: np.ndarray
    found: np.ndarray
    there: np.ndarray
    left_out: np.ndarray


def overlaps_of(page: Page) -> Overlaps:
    """The overlaps of a page, with the readable lines alone as what is there."""
    ours, theirs = shapes(page.found), shapes(page.there)
    both, found, there = overlaps(ours, theirs)
    inside = both[:, page.ignored].max(axis=1, initial=0) / np.maximum(found, 1e-9)
    return Overlaps(both[:, ~page.ignored], found, there[~page.ignored], inside > OUTSIDE)


def matched(seen: Overlaps) -> list[tuple[int, int]]:
    """Pairs of numbers (found, there) with an intersection over union of more than `IOU`, one to one, the best
    first."""
    both, found, there, left_out = seen
    union = found[:, None] + there[None] - both
    iou = np.where(left_out[:, None], 0, both / np.maximum(union, 1e-9))
    pairs: list[tuple[int, int]] = []
    rows, columns = np.nonzero(iou > IOU)
    for k in np.argsort(-iou[rows, columns], kind="stable").tolist():
        i, j = int(rows[k]), int(columns[k])
        if all(i != a and j != b for a, b in pairs):
            pairs.append((i, j))
    return pairs


def icdar(seen: Overlaps) -> Counts:
    """ICDAR 2015's counts: pairs at an intersection over union of 0.5; what was found in unreadable text is left
    out."""
    pairs = len(matched(seen))
    return Counts(pairs, pairs, len(seen.there), int((~seen.left_out).sum()))


def deteval(seen: Overlaps) -> Counts:
    """DetEval's counts (Wolf and Jolion, IJDAR 2006; ICDAR 2013), of polygons: pairs of which 0.8 of the line and 0.4
    of what was found are in both; a line found in parts, or lines found as one, count 0.8."""
    kept = ~seen.left_out
    recall = seen.both[kept] / np.maximum(seen.there[None], 1e-9)
    precision = seen.both[kept] / np.maximum(seen.found[kept][:, None], 1e-9)
    counted_there, counted_found = np.zeros(recall.shape[1]), np.zeros(recall.shape[0])
    good = (recall >= AREA_RECALL) & (precision >= AREA_PRECISION)
    for i, j in zip(*np.nonzero(good), strict=True):
        if good[i].sum() == 1 and good[:, j].sum() == 1:
            counted_found[i] = counted_there[j] = 1
    for j in np.flatnonzero(counted_there == 0):  # a line found in parts
        parts = np.flatnonzero((precision[:, j] >= AREA_PRECISION) & (counted_found == 0))
        if len(parts) and recall[parts, j].sum() >= AREA_RECALL:
            alone = len(parts) == 1
            counted_there[j], counted_found[parts] = (1, 1) if alone else (SCATTERED, SCATTERED)
    for i in np.flatnonzero(counted_found == 0):  # lines found as one
        parts = np.flatnonzero((recall[i] >= AREA_RECALL) & (counted_there == 0))
        if len(parts) and precision[i, parts].sum() >= AREA_PRECISION:
            alone = len(parts) == 1
            counted_found[i], counted_there[parts] = (1, 1) if alone else (SCATTERED, SCATTERED)
    return Counts(float(counted_there.sum()), float(counted_found.sum()), len(seen.there), int(kept.sum()))


def scores(counts: Sequence[Counts]) -> dict[str, float]:
    """precision, recall and their harmonic mean over all pages together; 0 where nothing is there or was found."""
    recalled, precise, there, found = (
        (float(sum(column)) for column in zip(*counts, strict=True)) if counts else [0.0] * 4
    )
    precision, recall = precise / max(found, 1), recalled / max(there, 1)
    return {"precision": precision, "recall": recall, "hmean": 2 * precision * recall / max(precision + recall, 1e-9)}


class Pages(Metric):
    """All pages with what was found on them, and the counts of both protocols."""

    def __init__(self) -> None:
        self.pages: list[Page] = []
        self.icdar: list[Counts] = []
        self.deteval: list[Counts] = []

    def update(self, answers: Sequence[Mapping[str, Any]], originals: Sequence[Mapping[str, Any]]) -> None:
        for answer, original in zip(answers, originals, strict=True):
            boxes = answer["boxes"]
            page = Page(
                int(original["index"]),
                [np.array(box["polygon"], np.float64) for box in boxes],
                [float(box["score"]) for box in boxes],
                original["polygons"],
                original["ignored"],
            )
            seen = overlaps_of(page)
            readable = np.flatnonzero(~page.ignored)
            page.pairs = [(i, int(readable[j])) for i, j in matched(seen)]
            page.left_out = seen.left_out
            self.pages.append(page)
            self.icdar.append(icdar(seen))
            self.deteval.append(deteval(seen))

    def compute(self) -> Any:
        return self.pages


class Score(Metric):
    """One number of a protocol, of the pages that `Pages` has seen."""

    def __init__(self, pages: Pages, protocol: str, name: str) -> None:
        self.pages, self.protocol, self.name = pages, protocol, name

    def update(self, answers: Sequence[Mapping[str, Any]], originals: Sequence[Mapping[str, Any]]) -> None:
        """Nothing: `Pages` sees them."""

    def compute(self) -> float:
        return scores(getattr(self.pages, self.protocol))[self.name]


def detection_metrics() -> dict[str, Metric]:
    """hmean, precision and recall by ICDAR 2015's protocol, hmean by DetEval; and all pages for the report."""
    pages = Pages()
    return {
        "hmean": Score(pages, "icdar", "hmean"),
        "precision": Score(pages, "icdar", "precision"),
        "recall": Score(pages, "icdar", "recall"),
        "deteval": Score(pages, "deteval", "hmean"),
        "pages": pages,
    }
