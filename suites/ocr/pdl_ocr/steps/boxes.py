"""What steps that find lines of text share, and the step `db_boxes`: quadrilaterals around lines, of the map that a DB
net makes of an image.

M. Liao, Z. Wan, C. Yao, K. Chen, X. Bai: Real-time Scene Text Detection with Differentiable Binarization, AAAI 2020,
arXiv 1911.08947. The net marks the inner part of each line, shrunk by d = A (1 - r^2) / L; the step finds these parts
and lets them grow again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.errors import UsageError
from pdl.runtime.frame import Frame
from pdl.runtime.images import opencv
from pdl.runtime.steps import Mark, Sample
from pdl.runtime.steps.arguments import count, number
from pdl.runtime.steps.outputs import Thresholded


class LineBoxes(Thresholded):
    """A step that answers {"boxes": [{"polygon": [[x, y], ...], "score"}]}, in pixels of the original image and in
    reading order; a polygon has four corners, clockwise, the upper left one first.

    near   pixels of the net's input by which corners of boxes that are the same may differ
    small  a shorter side of as many of them may be too short to count
    """

    near: float = 2.0
    small: float

    def __call__(self, value: Any, sample: Sample) -> Any:
        return self.place(value, sample.framed(self.name))

    def place(self, value: Any, frame: Frame) -> Any:
        """The boxes; `frame` tells where the input of the net lies in the image."""
        raise NotImplementedError(f"{type(self).__name__} must define place")

    def rows(self, answer: Any) -> list[dict[str, Any]]:
        return list(answer["boxes"])

    def agrees(self, ours: Any, theirs: Any, tolerance: float, sample: Sample) -> bool:
        """Each box has a counterpart within `near` pixels; one whose score or size is as near to the least that counts
        may lack it."""
        assert sample.frame is not None
        scale = max(sample.frame.scale)
        near = self.near * scale
        apart = [*_alone(ours["boxes"], theirs["boxes"], near), *_alone(theirs["boxes"], ours["boxes"], near)]
        return all(abs(box["score"] - self.score) <= tolerance or self._small(box, scale) for box in apart)

    def _small(self, box: Mapping[str, Any], scale: float) -> bool:
        corners = np.array(box["polygon"])
        sides = np.hypot(*(np.roll(corners, -1, axis=0) - corners).T)
        return bool(sides.min() <= (self.small + 2 * self.near) * scale)

    def caption(self, answer: Any) -> str:
        count = len(answer["boxes"])
        return f"{count} {'box' if count == 1 else 'boxes'}"

    def marks(self, answer: Any) -> list[Mark]:
        return [Mark(box["polygon"]) for box in answer["boxes"]]


class DbBoxes(LineBoxes):
    """The boxes of a map of probabilities [1, H, W], [H, W, 1] or [H, W] of the net's input.

    threshold   a pixel belongs to a line where its probability is above
    score       a box stays where the mean probability inside, before it grows, is at least
    ratio       a box grows on each side by ratio * area / perimeter
    least       shorter sides than this many pixels of the map are noise
    most        how many boxes are looked at
    """

    name = "db_boxes"

    def __init__(
        self, threshold: float = 0.3, score: float = 0.6, ratio: float = 1.5, least: int = 3, most: int = 1000
    ) -> None:
        self.threshold, self.score = number("threshold", threshold, 0, 1), number("score", score, 0, 1)
        self.ratio = number("ratio", ratio, 0, 10)
        self.least, self.most = count("least", least), count("most", most, most=100_000)
        self.small = self.least + 2

    def place(self, value: Any, frame: Frame) -> Any:
        found = np.asarray(value, np.float32)
        if found.ndim == 3 and 1 in (found.shape[0], found.shape[2]):
            found = found[0] if found.shape[0] == 1 else found[..., 0]
        if found.ndim != 2:
            raise UsageError(
                f"db_boxes: expected a map [1, H, W], [H, W, 1] or [H, W], got an output of shape {found.shape}"
            )
        polygons, scores = [], []
        for corners, sides in rectangles(found > self.threshold, self.most):
            score = mean_inside(found, corners) if min(sides) >= self.least else -1.0
            grown, short = grow(corners, sides, self.ratio)
            if score >= self.score and short >= self.least + 2:
                polygons.append(clockwise(frame.back(grown)))
                scores.append(score)
        return listed(polygons, scores)


def _alone(boxes: Sequence[Mapping[str, Any]], others: Sequence[Mapping[str, Any]], near: float) -> list[Any]:
    """The boxes that have no counterpart among the others: one whose corners are all that near."""
    there = np.array([other["polygon"] for other in others]).reshape(-1, 4, 2)
    far = [np.abs(there - box["polygon"]).max(axis=(1, 2)).min(initial=np.inf) for box in boxes]
    return [box for box, distance in zip(boxes, far, strict=True) if distance > near]


def rectangles(mask: Array, most: int) -> list[tuple[Array, tuple[float, float]]]:
    """The rectangle of least area, at any angle, around each connected part of `mask` [H, W]: four corners and the
    lengths of the sides 0-1 and 1-2."""
    cv2 = opencv("db_boxes: outlines are found")
    # two levels, outlines and holes: a hole in a line is no line, and a line inside a ring is one
    outlines, levels = cv2.findContours(mask.astype(np.uint8), cv2.RETR_CCOMP, cv2.CHAIN_APPROX_SIMPLE)
    outer = [line for line, level in zip(outlines, levels[0], strict=True) if level[3] < 0] if outlines else []
    found = []
    for outline in outer[:most]:
        corners = cv2.boxPoints(cv2.minAreaRect(outline)).astype(np.float64)
        a, b = (float(np.hypot(*(corners[i + 1] - corners[i]))) for i in (0, 1))
        found.append((corners, (a, b)))
    return found


def mean_inside(values: Array, corners: Array) -> float:
    """The mean of `values` [H, W] over the pixels that a polygon covers."""
    cv2 = opencv("db_boxes: outlines are found")
    height, width = values.shape
    last = (width - 1, height - 1)
    left, top = np.clip(np.floor(corners.min(0)), 0, last).astype(int)
    right, bottom = np.clip(np.ceil(corners.max(0)), 0, last).astype(int)
    mask = np.zeros((bottom - top + 1, right - left + 1), np.uint8)
    cv2.fillPoly(mask, [np.rint(corners - (left, top)).astype(np.int32)], 1)
    part = values[top : bottom + 1, left : right + 1][mask > 0]
    return float(part.mean()) if part.size else 0.0


def grow(corners: Array, sides: tuple[float, float], ratio: float) -> tuple[Array, float]:
    """A rectangle with each side moved outwards by ratio * area / perimeter, and its shorter side.

    The paper offsets the polygon with round corners (Vatti) and takes the rectangle of least area around that; for a
    rectangle this is the same rectangle with longer sides.
    """
    a, b = sides
    d = ratio * a * b / max(2 * (a + b), 1e-9)
    u = (corners[1] - corners[0]) / max(a, 1e-9)
    v = (corners[2] - corners[1]) / max(b, 1e-9)
    signs = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]])
    return corners + d * (signs[:, :1] * u + signs[:, 1:] * v), min(a, b) + 2 * d


def clockwise(corners: Array) -> Array:
    """Four corners from the upper left one on, clockwise on a screen: the left two are those with the least x."""
    left, right = np.split(corners[np.argsort(corners[:, 0], kind="stable")], 2)
    (upper_left, lower_left), (upper_right, lower_right) = (side[np.argsort(side[:, 1])] for side in (left, right))
    return np.stack([upper_left, upper_right, lower_right, lower_left])


def in_reading_order(polygons: Sequence[Array]) -> list[int]:
    """Numbers of the polygons [4, 2], row by row from above, each from the left: a polygon continues a row where the
    middle of both lies within half of the lower one's height."""
    middles = [float(p[:, 1].mean()) for p in polygons]
    heights = [float(np.hypot(*(p[3] - p[0]))) for p in polygons]
    rows: list[list[int]] = []
    for i in sorted(range(len(polygons)), key=lambda i: middles[i]):
        if rows and middles[i] - np.mean([middles[j] for j in rows[-1]]) < 0.5 * min(heights[i], heights[rows[-1][-1]]):
            rows[-1].append(i)
        else:
            rows.append([i])
    return [i for row in rows for i in sorted(row, key=lambda i: float(polygons[i][:, 0].min()))]


def listed(polygons: Sequence[Array], scores: Sequence[float]) -> dict[str, Any]:
    """The answer of a step that finds these polygons [4, 2] of the original image."""
    order = in_reading_order(polygons)
    return {"boxes": [{"polygon": _plain(polygons[i]), "score": scores[i]} for i in order]}


def _plain(corners: Array) -> list[list[float]]:
    return [[round(float(x), 1), round(float(y), 1)] for x, y in corners]
