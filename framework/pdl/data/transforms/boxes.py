"""Crops and expansions for detection, and the removal of boxes that are too small."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from pdl.data.dataset import Sample
from pdl.data.pipeline import Transform
from pdl.data.randomness import SampleRandom
from pdl.data.transforms._args import Probability, fill_values, number, span
from pdl.data.transforms.annotations import Geometric, box_area, moved, selected
from pdl.data.transforms.motion import STILL, Cut, Motion, Padded
from pdl.errors import ConfigError, UsageError
from pdl.hints import Range

WHOLE = 1.0
"""The overlap that stands for the whole image."""


def need_boxes(owner: str, sample: Sample, *more: str) -> None:
    """Raise UsageError unless the sample has boxes, and what else is named."""
    absent = [name for name in ("image", "boxes", "labels", *more) if name not in sample]
    if absent:
        raise UsageError(f"{owner}: works on samples with boxes; this one has no {', '.join(absent)}, only "
                         f"{', '.join(sorted(map(str, sample)))}")


@dataclass(frozen=True)
class RandomIoUCrop(Transform):
    """A random window that overlaps some box by a drawn IoU (Liu et al., SSD, arXiv 1512.02325, section 2.2).

    One of `overlaps` is drawn; 1 leaves the image whole. Windows have `scale` (from, to) of the height and of the
    width, each uniform, and an aspect ratio w/h in `ratio`; instances stay whose centres are in the window. A window
    must hold a centre, and the IoU with one of these boxes must reach the overlap; after `trials` that do not, another
    overlap is drawn. Images without boxes stay as they are.

    overlaps  the least IoU of the window with one box, drawn uniformly; 1: the whole image
    scale     (from, to), of height and width
    ratio     (from, to), of width to height
    trials    windows tried before another overlap is drawn
    """

    overlaps: Sequence[float] = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, WHOLE)
    scale: Sequence[float] = (0.3, 1.0)
    ratio: Sequence[float] = (0.5, 2.0)
    trials: Annotated[int, Range(1)] = 40

    def __post_init__(self) -> None:
        owner = "RandomIoUCrop"
        overlaps = tuple(number(owner, "overlaps", v, 0, WHOLE) for v in self.overlaps)
        if not overlaps or WHOLE not in overlaps:
            raise ConfigError(f"{owner}: overlaps={self.overlaps!r} must have 1 among them: some images stay whole")
        if type(self.trials) is not int or self.trials < 1:
            raise ConfigError(f"{owner}: trials={self.trials!r} must be an integer of at least 1")
        self._set(overlaps=overlaps, scale=span(owner, "scale", self.scale, 0, 1, above=True),
                  ratio=span(owner, "ratio", self.ratio, 0, above=True))

    def __call__(self, sample: Sample, rng: SampleRandom) -> Sample:
        need_boxes("RandomIoUCrop", sample)
        if not len(sample["boxes"]):
            return sample
        while (overlap := self.overlaps[rng.integers(0, len(self.overlaps))]) < WHOLE:
            for _ in range(self.trials):
                window = self._window(sample["image"].shape, rng)
                if window is None:
                    continue
                keep = _centres_in(sample["boxes"], window)
                if keep.any() and _iou(sample["boxes"][keep], window).max() >= overlap:
                    return moved(sample, window, keep=keep)
        return sample

    def _window(self, shape: tuple[int, ...], rng: SampleRandom) -> Cut | None:
        """A window drawn; None where its aspect ratio is none of those."""
        height, width = shape[:2]
        h, w = (max(1, int(side * rng.uniform(*self.scale))) for side in (height, width))
        if not self.ratio[0] <= w / h <= self.ratio[1]:
            return None
        return Cut(rng.integers(0, height - h + 1), rng.integers(0, width - w + 1), h, w)


def _centres_in(boxes: np.ndarray, window: Cut) -> np.ndarray:
    """bool [n]: the boxes whose centres are in the window."""
    x, y = (boxes[:, 0] + boxes[:, 2]) / 2 - window.left, (boxes[:, 1] + boxes[:, 3]) / 2 - window.top
    return np.asarray((x > 0) & (x < window.width) & (y > 0) & (y < window.height))


def _iou(boxes: np.ndarray, window: Cut) -> np.ndarray:
    """The IoU [n] of boxes [n, 4] with the window."""
    low, high = np.array([window.left, window.top]), np.array([window.left + window.width, window.top + window.height])
    sides = np.clip(np.minimum(boxes[:, 2:], high) - np.maximum(boxes[:, :2], low), 0, None)
    common = sides.astype(np.float64).prod(1)
    return np.asarray(common / (box_area(boxes) + window.width * window.height - common))


@dataclass(frozen=True)
class RandomZoomOut(Geometric):
    """With probability p, put the image on a canvas of `fill` that is s times as high and as wide, at a random place;
    s is uniform in `side` (Liu et al., SSD, arXiv 1512.02325, section 3.6: "expansion").

    side  (from, to), 1 or more
    """

    side: Sequence[float] = (1.0, 4.0)
    fill: float | Sequence[float] = 114
    p: Probability = 0.5

    def __post_init__(self) -> None:
        owner = "RandomZoomOut"
        number(owner, "p", self.p, 0, 1)
        self._set(side=span(owner, "side", self.side, 1), fill=fill_values(owner, self.fill))

    def motion(self, shape: tuple[int, ...], rng: SampleRandom) -> Motion:
        if not rng.chance(self.p):
            return STILL
        side: Any = rng.uniform(*self.side)
        (top, bottom), (left, right) = (_split(int(n * side) - n, rng) for n in shape[:2])
        return Padded((left, top, right, bottom), self.fill)


def _split(more: int, rng: SampleRandom) -> tuple[int, int]:
    first = rng.integers(0, more + 1)
    return first, more - first


@dataclass(frozen=True)
class SanitizeBoundingBoxes(Transform):
    """Drop instances whose boxes are too small to learn from, together with all that belongs to them.

    min_size  of both sides, in pixels
    min_area  in pixels
    """

    min_size: Annotated[float, Range(0)] = 1.0
    min_area: Annotated[float, Range(0)] = 1.0

    def __post_init__(self) -> None:
        for name in ("min_size", "min_area"):
            number("SanitizeBoundingBoxes", name, getattr(self, name), 0)

    def __call__(self, sample: Sample, rng: SampleRandom) -> Sample:
        need_boxes("SanitizeBoundingBoxes", sample)
        boxes = sample["boxes"]
        sides = boxes[:, 2:] - boxes[:, :2]
        return selected(sample, (sides >= self.min_size).all(1) & (box_area(boxes) >= self.min_area))
