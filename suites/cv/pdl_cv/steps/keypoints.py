"""The step `keypoints`: named points of an image, of the heatmaps that a net makes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.errors import UsageError
from pdl.runtime.images import opencv
from pdl.runtime.steps import Mark, Sample
from pdl.runtime.steps.arguments import are, check, number, one_of
from pdl.runtime.steps.outputs import Labelled

REFINEMENTS = ("none", "quarter", "dark")


class Keypoints(Labelled):
    """{"keypoints": [{"name", "x", "y", "score"}]} of heatmaps [h, w, P], in pixels of the original image. Names are
    the labels of the bundle.

    refine    how points between the cells are found: see `peaks`
    sigma     of the Gaussians, in cells, that the net was taught
    score     points with less are not drawn
    skeleton  pairs of points (numbers from 0) that lines join in drawings
    margin    how many times larger than its box the part of an image around an object is that the net was taught; None:
              it was taught whole images. For those who find the objects
    """

    name = "keypoints"

    def __init__(
        self,
        refine: str = "dark",
        sigma: float = 2.0,
        score: float = 0.2,
        skeleton: Sequence[Sequence[int]] = (),
        margin: float | None = None,
    ) -> None:
        self.refine, self.sigma = one_of("refine", refine, REFINEMENTS), number("sigma", sigma, 0.1, 100)
        self.score = number("score", score)
        good = isinstance(skeleton, list | tuple) and all(are(pair, int, 2) and min(pair) >= 0 for pair in skeleton)
        check(good, f"skeleton={skeleton!r:.60} must be pairs of numbers of points, from 0")
        self.skeleton = [(int(a), int(b)) for a, b in skeleton]
        self.margin = None if margin is None else number("margin", margin, 1, 10)

    def __call__(self, value: Any, sample: Sample) -> Any:
        frame = sample.framed(self.name)
        if not isinstance(value, np.ndarray) or value.ndim != 3:
            shown = f"{value.shape}" if isinstance(value, np.ndarray) else type(value).__name__
            raise UsageError(f"keypoints: expected heatmaps [h, w, P], got {shown}")
        (image,) = sample.inputs.values()
        found = peaks(value[None], refine=self.refine, sigma=self.sigma)[0]
        places = frame.back(found[:, :2] * (image.shape[1] / value.shape[1], image.shape[0] / value.shape[0]))
        return {
            "keypoints": [
                {"name": self.label(i), "x": round(float(x), 2), "y": round(float(y), 2), "score": float(score)}
                for i, ((x, y), score) in enumerate(zip(places, found[:, 2], strict=True))
            ]
        }

    # -- for people ----------------------------------------------------------------------------------------------------
    def rows(self, answer: Any) -> list[dict[str, Any]]:
        return list(answer["keypoints"])

    def caption(self, answer: Any) -> str:
        seen = sum(each["score"] >= self.score for each in answer["keypoints"])
        return f"{seen} of {len(answer['keypoints'])} points"

    def marks(self, answer: Any) -> list[Mark]:
        return posed(answer["keypoints"], self.skeleton, self.score)

    def agrees(self, ours: Any, theirs: Any, tolerance: float, sample: Sample) -> bool:
        """The same scores; and of points that count the same places, within two pixels of the net's input, half a cell
        of heatmaps of a quarter of its resolution."""
        assert sample.frame is not None
        reach = 2 * max(sample.frame.scale)
        return all(
            abs(a["score"] - b["score"]) <= tolerance
            and (a["score"] < self.score or max(abs(a["x"] - b["x"]), abs(a["y"] - b["y"])) <= reach)
            for a, b in zip(ours["keypoints"], theirs["keypoints"], strict=True)
        )


def posed(
    points: Sequence[Any], skeleton: Sequence[tuple[int, int]], score: float, colour: int | None = None
) -> list[Mark]:
    """What points of an answer mark on an image: those of at least `score`, as squares, and the lines between them; all
    in one colour, or each in its own."""
    seen = {i: (each["x"], each["y"]) for i, each in enumerate(points) if each["score"] >= score}
    lines = [Mark([seen[a], seen[b]], colour=colour, closed=False) for a, b in skeleton if a in seen and b in seen]
    places = np.array(list(seen.values())).reshape(-1, 2)
    size = max(2.0, 0.01 * float(np.ptp(places, axis=0).max())) if seen else 2.0
    corners = size * np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]])
    return [*lines, *(Mark((corners + place).tolist(), colour=colour, filled=True) for place in places)]


def shifted(points: Sequence[Mapping[str, Any]], x: float, y: float) -> list[dict[str, Any]]:
    """Points of an answer about a part of an image, in the image, where the part's upper left corner is at (x, y)."""
    return [{**each, "x": each["x"] + x, "y": each["y"] + y} for each in points]


def peaks(heatmaps: Array, *, refine: str = "dark", sigma: float = 2.0) -> Array:
    """The highest point of each map: heatmaps [N, h, w, P] -> float64 [N, P, 3] of x, y and the height. Positions are
    in cells, and cell (0, 0) covers the square from 0 to 1.

    refine  none: the middle of the cell; quarter: a quarter of a cell towards the higher neighbour along each axis
            (Newell et al., arXiv 1603.06937); dark: the top of the parabola through the logarithm of the map, blurred
            by `sigma` cells (Zhang et al., arXiv 1910.06278)
    """
    n, h, w, p = heatmaps.shape
    flat = heatmaps.reshape(n, h * w, p)
    best = flat.argmax(axis=1)  # [N, P]
    y, x = np.divmod(best, w)
    height = np.take_along_axis(flat, best[:, None], axis=1)[:, 0]
    shift = np.zeros((2, n, p))
    if refine == "quarter":
        maps, (gx, gy) = heatmaps, _slopes(heatmaps, x, y)
        shift = 0.25 * np.stack([np.sign(gx), np.sign(gy)])
    elif refine == "dark":
        maps = np.log(np.maximum(_blurred(heatmaps, sigma), 1e-10))
        shift = _newton(maps, x, y)
    return np.stack([x + 0.5 + shift[0], y + 0.5 + shift[1], height], axis=-1).astype(np.float64)


def _at(maps: Array, x: Array, y: Array) -> Array:
    """maps [N, h, w, P] at cells x, y [N, P], moved to the edge where they lie outside."""
    n, h, w, p = maps.shape
    return maps[np.arange(n)[:, None], np.clip(y, 0, h - 1), np.clip(x, 0, w - 1), np.arange(p)].astype(np.float64)


def _slopes(maps: Array, x: Array, y: Array) -> tuple[Array, Array]:
    """Half the difference of the neighbours along x and along y."""
    return (_at(maps, x + 1, y) - _at(maps, x - 1, y)) / 2, (_at(maps, x, y + 1) - _at(maps, x, y - 1)) / 2


def _newton(maps: Array, x: Array, y: Array) -> Array:
    """[2, N, P]: the step to the top of the parabola through the cells around, of one cell at most; none at the edges
    and where there is no top."""
    h, w = maps.shape[1:3]
    gx, gy = _slopes(maps, x, y)
    middle = _at(maps, x, y)
    xx = (_at(maps, x + 2, y) - 2 * middle + _at(maps, x - 2, y)) / 4
    yy = (_at(maps, x, y + 2) - 2 * middle + _at(maps, x, y - 2)) / 4
    xy = (_at(maps, x + 1, y + 1) - _at(maps, x - 1, y + 1) - _at(maps, x + 1, y - 1) + _at(maps, x - 1, y - 1)) / 4
    det = xx * yy - xy * xy
    top = (det > 1e-12) & (xx < 0) & (x > 1) & (y > 1) & (x < w - 2) & (y < h - 2)
    safe = np.where(top, det, 1.0)
    step = np.stack([(xy * gy - yy * gx) / safe, (xy * gx - xx * gy) / safe])
    return np.where(top, np.clip(step, -1, 1), 0.0)


def _blurred(heatmaps: Array, sigma: float) -> Array:
    """Each map [h, w] of [N, h, w, P] convolved with a Gaussian; 0 outside."""
    cv2 = opencv("keypoints: heatmaps are smoothed (refine: dark)", ", or choose refine: quarter")
    maps = np.ascontiguousarray(heatmaps, np.float32)
    blurred = [cv2.GaussianBlur(each, (0, 0), sigma, borderType=cv2.BORDER_CONSTANT) for each in maps]
    return np.stack(blurred).reshape(maps.shape)  # OpenCV drops a last axis of one channel
