"""Transforms that join several samples of a data set into one: Mosaic, MixUpDetection, CopyPaste.

The loader hands over the others (`pdl.data.reading.Partners`) as the data set gives them, so these come first in a list
of transforms. Every image is warped once, straight to its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import cv2
import numpy as np

from pdl.data.dataset import Sample
from pdl.data.pipeline import Transform
from pdl.data.randomness import SampleRandom
from pdl.data.reading import partners_of
from pdl.data.transforms._args import Probability, fill_values, number, size_pair, span, symmetric, two
from pdl.data.transforms.annotations import INSTANCES, MIN_VISIBLE, follow, selected
from pdl.data.transforms.boxes import need_boxes
from pdl.data.transforms.motion import Placed
from pdl.data.transforms.pixels import affine_matrix, draw, mask_boxes, of_positions, placed
from pdl.errors import UsageError
from pdl.hints import Range

HIDDEN = 1.0
"""The visibility of a keypoint that is annotated and not seen."""


class _Join(Transform):
    joins: ClassVar[bool] = True

    p: Any

    def __call__(self, sample: Sample, rng: SampleRandom) -> Sample:
        owner = type(self).__name__
        need_boxes(owner, sample)
        if sample["image"].dtype != np.uint8:
            raise UsageError(f"{owner}: works on uint8 images, got {sample['image'].dtype}; put it first")
        return self.join(sample, rng) if rng.chance(self.p) else sample

    def join(self, sample: Sample, rng: SampleRandom) -> Sample:
        """The sample with others joined to it."""
        raise NotImplementedError(f"{type(self).__name__} must define join")


def joined(samples: Sequence[Sample], owner: str) -> Sample:
    """The instances of all samples; all else is the first one's."""
    names = [name for name in INSTANCES if name in samples[0]]
    for other in samples[1:]:
        need_boxes(owner, other, *names)
    return {**samples[0], **{name: np.concatenate([each[name] for each in samples]) for name in names}}


def canvas_of(size: tuple[int, int], image: np.ndarray, fill: Any) -> np.ndarray:
    """uint8 [*size, C] of `fill`, with the channels of an image."""
    canvas = np.empty((*size, image.shape[2]), np.uint8)
    canvas[...] = np.asarray(fill, np.uint8)
    return canvas


def put(canvas: np.ndarray, sample: Sample, positions: np.ndarray) -> Sample:
    """Draw the sample's image onto the canvas where `positions` [3, 3] moves it; the sample with its annotations there,
    and no image."""
    draw(canvas, sample["image"], positions)
    return {**sample, **follow(sample, Placed(positions, canvas.shape[:2]), sample["image"].shape, canvas.shape)}


@dataclass(frozen=True)
class Mosaic(_Join):
    """Four images around a random point, as one of `size`, turned, scaled, shifted and sheared (Bochkovskiy et al.,
    YOLOv4, arXiv 2004.10934, section 3.3; with the affine map of YOLOv5).

    Each is scaled into `size` with its proportions kept; they meet in a point of the middle half of a canvas that is
    twice as high and wide, of which a window of `size` about its centre is seen through the affine map. With
    probability 1 - p the sample stays as it is: put a Letterbox of the same size behind it.

    size       an int for a square, or (height, width)
    scale      (from, to), above 0: of all four together
    translate  the largest shift as a fraction of width and height
    degrees    an angle d for (-d, d), or (from, to)
    shear      degrees along both axes: s for (-s, s), or (from, to)
    """

    size: int | Sequence[int]
    scale: Sequence[float] = (0.5, 1.5)
    translate: Annotated[float, Range(0, 1)] = 0.1
    degrees: float | Sequence[float] = 0
    shear: float | Sequence[float] = 0
    fill: float | Sequence[float] = 114
    p: Probability = 1.0

    def __post_init__(self) -> None:
        owner = "Mosaic"
        number(owner, "p", self.p, 0, 1)
        number(owner, "translate", self.translate, 0, 1)
        self._set(size=size_pair(owner, "size", self.size), scale=span(owner, "scale", self.scale, 0, above=True),
                  degrees=symmetric(owner, "degrees", self.degrees, 360), fill=fill_values(owner, self.fill),
                  shear=symmetric(owner, "shear", self.shear, 89))

    def join(self, sample: Sample, rng: SampleRandom) -> Sample:
        (h, w), scale = two(self.size), rng.uniform(*self.scale)
        x, y = rng.uniform(0, w), rng.uniform(0, h)  # where they meet; the window begins at (0, 0)
        view = of_positions(affine_matrix(
            (h, w), angle=rng.uniform(*two(self.degrees)), scale=scale,
            translate=tuple(rng.uniform(-self.translate, self.translate) * side for side in (w, h)),
            shear=(rng.uniform(*two(self.shear)), rng.uniform(*two(self.shear)))))  # fmt: skip
        partners, side = partners_of(sample, "Mosaic"), scale * max(h, w)
        samples = [sample, *(partners.draw(rng, side) for _ in range(3))]
        canvas = canvas_of((h, w), sample["image"], self.fill)
        parts = []
        for each, (right, below) in zip(samples, ((0, 0), (1, 0), (0, 1), (1, 1)), strict=True):
            height, width = each["image"].shape[:2]
            factor = min(h / height, w / width)
            left, top = x - (1 - right) * factor * width, y - (1 - below) * factor * height
            parts.append(put(canvas, each, view @ placed(factor, factor, left, top)))
        return {**joined(parts, "Mosaic"), "image": canvas}


def _anywhere(shape: tuple[int, ...], size: tuple[int, int], scale: float, rng: SampleRandom) -> np.ndarray:
    """The matrix [3, 3] that scales an image of this shape into `size`, then by `scale`, and shifts it at random: where
    it is smaller inside of it, where it is larger so that it covers it."""
    (height, width), (h, w) = shape[:2], size
    factor = scale * min(h / height, w / width)
    left, top = (rng.uniform(min(0.0, room), max(0.0, room)) for room in (w - factor * width, h - factor * height))
    return placed(factor, factor, left, top)


@dataclass(frozen=True)
class MixUpDetection(_Join):
    """Blend the image with another one, x = l x_1 + (1 - l) x_2, and keep the boxes of both (Zhang et al.,
    arXiv 1902.04103, with the scale jitter of YOLOX, arXiv 2107.08430). For classes of whole images, use MixUp.

    The size stays: the other one is scaled into it, then by a factor of `scale`, and put at a random place.

    alpha  l ~ Beta(alpha, alpha): 1 is uniform, the larger the nearer to one half
    scale  (from, to), above 0
    """

    alpha: Annotated[float, Range(above=0)] = 32.0
    scale: Sequence[float] = (0.5, 1.5)
    fill: float | Sequence[float] = 114
    p: Probability = 1.0

    def __post_init__(self) -> None:
        owner = "MixUpDetection"
        number(owner, "p", self.p, 0, 1)
        number(owner, "alpha", self.alpha, 0, above=True)
        self._set(scale=span(owner, "scale", self.scale, 0, above=True), fill=fill_values(owner, self.fill))

    def join(self, sample: Sample, rng: SampleRandom) -> Sample:
        image, scale = sample["image"], rng.uniform(*self.scale)
        other = partners_of(sample, "MixUpDetection").draw(rng, scale * max(image.shape[:2]))
        share = float(rng.generator().beta(self.alpha, self.alpha))
        canvas = canvas_of(image.shape[:2], image, self.fill)
        part = put(canvas, other, _anywhere(other["image"].shape, image.shape[:2], scale, rng))
        mixed = cv2.addWeighted(image, share, canvas, 1 - share, 0).reshape(image.shape)
        return {**joined([sample, part], "MixUpDetection"), "image": mixed}


@dataclass(frozen=True)
class CopyPaste(_Join):
    """Paste instances of another image, cut out by their masks (Ghiasi et al., arXiv 2012.07177: simple copy-paste).

    The other image is scaled into this one, then by a factor of `scale`, and put at a random place; each of its
    instances is pasted with probability `share`. What they cover is taken out of the masks below them, whose boxes
    shrink with them; instances of which less than a tenth is left are dropped. Keypoints that are covered become hidden
    ones.

    scale  (from, to), above 0
    share  the probability of each instance to be pasted
    """

    scale: Sequence[float] = (0.1, 2.0)
    share: Probability = 0.5
    p: Probability = 1.0

    def __post_init__(self) -> None:
        owner = "CopyPaste"
        number(owner, "p", self.p, 0, 1)
        number(owner, "share", self.share, 0, 1)
        self._set(scale=span(owner, "scale", self.scale, 0, above=True))

    def join(self, sample: Sample, rng: SampleRandom) -> Sample:
        need_boxes("CopyPaste", sample, "masks")
        image, scale = sample["image"], rng.uniform(*self.scale)
        other = partners_of(sample, "CopyPaste").draw(rng, scale * max(image.shape[:2]))
        need_boxes("CopyPaste", other, "masks")
        other = selected(other, np.array([rng.chance(self.share) for _ in other["labels"]], bool))
        canvas = image.copy()
        part = put(canvas, other, _anywhere(other["image"].shape, image.shape[:2], scale, rng))
        pasted: np.ndarray = np.any(part["masks"], axis=0)
        if not pasted.any():
            return sample
        out = np.where(pasted[:, :, None], canvas, image)
        return {**joined([_covered(sample, pasted), part], "CopyPaste"), "image": out}


def _covered(sample: Sample, pasted: np.ndarray) -> Sample:
    """The sample's annotations where the pixels `pasted`, bool [H, W], have been covered."""
    before = sample["masks"].sum((1, 2), dtype=np.int64)
    masks = sample["masks"] * ~pasted
    left = masks.sum((1, 2), dtype=np.int64)
    changed, share = left < before, left / np.maximum(before, 1)
    out = {**sample, "masks": masks, "boxes": np.where(changed[:, None], mask_boxes(masks), sample["boxes"])}
    if "area" in sample:
        out["area"] = (sample["area"] * share).astype(np.float32)
    if "keypoints" in sample:
        out["keypoints"] = _hidden(sample["keypoints"], pasted)
    return selected(out, ~changed | (share >= MIN_VISIBLE))


def _hidden(keypoints: np.ndarray, pasted: np.ndarray) -> np.ndarray:
    """The keypoints [n, P, 3], those on `pasted` pixels no more than `HIDDEN`."""
    x, y = (np.clip(keypoints[..., axis].astype(int), 0, pasted.shape[1 - axis] - 1) for axis in (0, 1))
    out = keypoints.copy()
    out[..., 2] = np.where(pasted[y, x], np.minimum(out[..., 2], HIDDEN), out[..., 2])
    return out
