"""Crops and expansions for detection, and the removal of boxes that are too small."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from pdl.data.dataset import Sample
from pdl.data.pipeline import Transform
from pdl.data.randomness import SampleRandom
from pdl.data.transforms._args import Probability, fill_values, number, size_pair, span
from pdl.data.transforms.annotations import Geometric, box_area, moved, selected
from pdl.data.transforms.motion import STILL, Cut, Motion, Padded, Placed
from pdl.data.transforms.pixels import placed
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
            windows = self._windows(sample["image"].shape, rng.generator())
            held = _centres_in(sample["boxes"], windows)
            best = np.where(held, _iou(sample["boxes"], windows), -1.0).max(1)
            good = np.flatnonzero(best >= overlap)
            if len(good):
                left, top, right, bottom = windows[good[0]].tolist()
                return moved(sample, Cut(top, left, bottom - top, right - left), keep=held[good[0]])
        return sample

    def _windows(self, shape: tuple[int, ...], generator: np.random.Generator) -> np.ndarray:
        """int64 [t, 4]: the windows (left, top, right, bottom) of all trials whose aspect ratio is one of those, or
        one without pixels where there are none."""
        drawn, full = generator.uniform(size=(self.trials, 4)), np.array(shape[1::-1])
        sides = np.maximum(1, full * (self.scale[0] + (self.scale[1] - self.scale[0]) * drawn[:, :2])).astype(np.int64)
        low = (drawn[:, 2:] * (full - sides + 1)).astype(np.int64)
        ratio = sides[:, 0] / sides[:, 1]
        fits = (self.ratio[0] <= ratio) & (ratio <= self.ratio[1])
        return np.concatenate([low, low + sides], 1)[fits] if fits.any() else np.zeros((1, 4), np.int64)


def _centres_in(boxes: np.ndarray, windows: np.ndarray) -> np.ndarray:
    """bool [t, n]: which windows [t, 4] have the centres of which boxes [n, 4] in them."""
    centres = (boxes[:, :2] + boxes[:, 2:]) / 2
    return np.asarray(((centres > windows[:, None, :2]) & (centres < windows[:, None, 2:])).all(2))


def _iou(boxes: np.ndarray, windows: np.ndarray) -> np.ndarray:
    """The IoU [t, n] of windows [t, 4] with boxes [n, 4]."""
    high, low = np.minimum(boxes[:, 2:], windows[:, None, 2:]), np.maximum(boxes[:, :2], windows[:, None, :2])
    common = np.maximum(high - low, 0).astype(np.float64).prod(2)
    union = box_area(boxes) + box_area(windows)[:, None] - common
    return np.divide(common, union, out=np.zeros_like(common), where=union > 0)


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
class DataAnchorSampling(Transform):
    """With probability p, scale the image so that one of its objects, drawn at random, gets about the side of another
    anchor, and keep a window of `size` that holds it (Tang et al., PyramidBox, arXiv 1803.07737, section 3.4): small
    objects are made of large ones.

    The side of an object is the root of its area, and its anchor that of `sides` which is nearest. One of the anchors
    up to the next larger one is drawn, and the new side is uniform from half of it to twice it; of the largest that may
    be drawn, not above twice the old side. Instances stay whose centres are in the window; what lies outside of the
    image is black. Images without boxes stay as they are.

    size   (height, width) of the window, or one number for both
    sides  of anchors, in pixels, ascending
    """

    size: int | Sequence[int] = 640
    sides: Sequence[float] = (16, 32, 64, 128, 256, 512)
    p: Probability = 0.5

    def __post_init__(self) -> None:
        owner = "DataAnchorSampling"
        sides = tuple(number(owner, "sides", side, 0, above=True) for side in self.sides)
        if not sides or list(sides) != sorted(set(sides)):
            raise ConfigError(f"{owner}: sides={self.sides!r} must be ascending")
        number(owner, "p", self.p, 0, 1)
        self._set(size=size_pair(owner, "size", self.size), sides=sides)

    def __call__(self, sample: Sample, rng: SampleRandom) -> Sample:
        need_boxes("DataAnchorSampling", sample)
        if sample["image"].dtype != np.uint8:
            raise UsageError(f"DataAnchorSampling: works on uint8 images, got {sample['image'].dtype}; put it first")
        area = box_area(sample["boxes"])
        places = np.flatnonzero(area > 0)
        if not len(places) or not rng.chance(self.p):
            return sample
        chosen = places[rng.integers(0, len(places))]
        side = float(np.sqrt(area[chosen]))
        scale = self._side(side, rng) / side
        size: Any = self.size
        shape, box = sample["image"].shape, np.asarray(sample["boxes"][chosen], np.float64) * scale
        left, top = (_offset(box[i], box[i + 2], shape[1 - i] * scale, size[1 - i], rng) for i in (0, 1))
        window = np.array([[left, top, left + size[1], top + size[0]]]) / scale
        keep = _centres_in(sample["boxes"], window)[0]
        return moved(sample, Placed(placed(scale, scale, -left, -top), tuple(size)), keep=keep)

    def _side(self, side: float, rng: SampleRandom) -> float:
        """The new side of an object."""
        sides = np.array(self.sides)
        last = min(int(np.abs(sides - side).argmin()) + 1, len(sides) - 1)
        target = rng.integers(0, last + 1)
        high = 2 * sides[target]
        return rng.uniform(sides[target] / 2, max(sides[target] / 2, min(high, 2 * side)) if target == last else high)


def _offset(low: float, high: float, length: float, window: int, rng: SampleRandom) -> float:
    """Where a window begins that holds an object from `low` to `high`, or lies in it, of an image of this length, of
    which it leaves as little as it can."""
    first, last = sorted((high - window, low))
    inside = sorted((0.0, length - window))
    first, last = max(first, inside[0]), min(last, inside[1])
    return rng.uniform(first, max(first, last))


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
