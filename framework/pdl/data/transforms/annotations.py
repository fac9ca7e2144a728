"""What is annotated on an image follows its motions: boxes, masks, keypoints, points, and the class of each pixel.

A sample of detection is {"image": uint8 [H, W, C], "boxes": float32 [n, 4], "labels": int64 [n]} and may have, of n
each, `masks` uint8 [n, H, W], `keypoints` float32 [n, P, 3], `crowd` and `difficult` bool [n], `area` float32 [n];
furthermore `points` float32 [Q, 2] and `flip_pairs` int64 [k, 2]. One of segmentation has `mask` uint8 [H, W], the
class of each pixel, 255 (`IGNORED`) where it counts nothing, as what comes from outside of the image does. One of a
pair has `picture` uint8 [H, W, C], another image of the same place, which moves as the image does. Boxes are (x1, y1,
x2, y2); pixel (0, 0) covers the square from 0 to 1, so that the box of a whole image is (0, 0, W, H).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pdl.data.dataset import Sample
from pdl.data.pipeline import Transform, annotated
from pdl.data.randomness import SampleRandom
from pdl.data.transforms.motion import STILL, Motion, Scaled
from pdl.data.transforms.pixels import mask_boxes
from pdl.errors import ConfigError, UsageError

INSTANCES = ("boxes", "labels", "masks", "keypoints", "crowd", "difficult", "area")
"""What a sample has one of for each instance."""
MIN_VISIBLE = 0.1
"""The share of its moved box that an instance must keep inside of the image, or it is dropped."""

IGNORED = 255
"""The class of pixels that count nothing."""

Pairs = Sequence[Sequence[int]] | np.ndarray | None


class Geometric(Transform):
    """A transform that moves pixels: it draws a `Motion`, which all annotations of the sample follow.

    Boxes become the axis-aligned hull of their moved corners, or where the image turns and the sample has masks, the
    boxes of its masks, clipped to the image. Instances of which less than a tenth (`MIN_VISIBLE`) of the box stays
    inside are dropped, with their labels, masks, keypoints, crowd, difficult and area. Keypoints outside get
    visibility 0. `points` move and are neither clipped nor dropped.
    """

    flip_pairs: Pairs = None

    def motion(self, shape: tuple[int, ...], rng: SampleRandom) -> Motion:
        """What to do to an image of shape [H, W, C]; the random numbers are drawn here."""
        raise NotImplementedError(f"{type(self).__name__} must define motion")

    def image(self, image: np.ndarray, rng: SampleRandom) -> np.ndarray:
        return self.motion(image.shape, rng).image(image)

    def __call__(self, sample: Sample, rng: SampleRandom) -> Sample:
        if not annotated(sample):
            return {**sample, "image": self.image(sample["image"], rng)}
        motion = self.motion(sample["image"].shape, rng)
        return moved(sample, motion, flip_pairs=self.flip_pairs, owner=type(self).__name__)


def moved(sample: Sample, motion: Motion, *, flip_pairs: Pairs = None, keep: np.ndarray | None = None,
          owner: str = "motion") -> Sample:
    """The sample after a motion of its image.

    flip_pairs  of keypoints that change places where the motion mirrors; None: those of the sample
    keep        bool [n]: instances that stay if they are visible; None: all
    """
    if motion is STILL:
        return sample
    image, before = motion.image(sample["image"]), sample["image"].shape
    found = follow(sample, motion, before, image.shape, flip_pairs=flip_pairs, keep=keep, owner=owner)
    return {**sample, "image": image, **found}


def follow(sample: Sample, motion: Motion, before: tuple[int, ...], shape: tuple[int, ...], *,
           flip_pairs: Pairs = None, keep: np.ndarray | None = None, owner: str = "motion") -> Sample:
    """The annotations of the sample after the motion of an image of shape `before` to one of `shape`; see `moved`."""
    matrix = motion.matrix(before[0], before[1])
    out: Sample = {}
    if "points" in sample:
        out["points"] = transform(sample["points"], matrix)
    if "boxes" in sample:
        boxes, share = moved_boxes(sample["boxes"], matrix, shape)
        visible = (share >= MIN_VISIBLE) if keep is None else (share >= MIN_VISIBLE) & keep
        area = sample["area"] * share * _growth(sample["boxes"], matrix) if "area" in sample else None
        sample = {**sample, "boxes": boxes} if area is None else {**sample, "boxes": boxes, "area": np.float32(area)}
        sample = selected(sample, visible)
        out |= {name: sample[name] for name in INSTANCES if name in sample}
    if "keypoints" in sample:
        out["keypoints"] = _moved_keypoints(sample, matrix, shape, flip_pairs, owner)
    if "picture" in sample:
        out["picture"] = motion.image(sample["picture"])
    if "mask" in sample:
        out["mask"] = moved_classes(sample["mask"][None], motion)[0]
    if "masks" in sample:
        out["masks"] = motion.masks(sample["masks"])
        if "boxes" in sample:
            out = by_masks(out, turned=matrix[0, 1] != 0 or matrix[1, 0] != 0)
    return out


def moved_classes(masks: np.ndarray, motion: Motion) -> np.ndarray:
    """Classes uint8 [n, H, W] of pixels after a motion; outside is 0 to `Motion.masks`, and so is `IGNORED` + 1."""
    moved: np.ndarray = motion.masks(masks + np.uint8(1)) - np.uint8(1)
    return moved


def selected(sample: Sample, keep: np.ndarray) -> Sample:
    """The sample with those instances only where keep, bool [n], is true."""
    if keep.all():
        return sample
    return {name: value[keep] if name in INSTANCES else value for name, value in sample.items()}


def transform(points: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """The points float32 [..., 2] moved by matrix [3, 3]."""
    at = np.asarray(points, np.float64) @ matrix[:, :2].T + matrix[:, 2]
    return np.asarray(at[..., :2] / at[..., 2:], np.float32)


def moved_boxes(boxes: np.ndarray, matrix: np.ndarray, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Boxes float32 [n, 4] moved and clipped to an image of this shape; and which share of each is inside, [n], 0 for
    those without area."""
    hull = _hulls(np.asarray(boxes, np.float64), matrix)
    inside = clipped(hull, shape)
    area = box_area(hull)
    return inside.astype(np.float32), np.divide(box_area(inside), area, out=np.zeros(len(area)), where=area > 0)


def _hulls(boxes: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """The boxes [n, 4] around moved boxes."""
    if not _is_affine(matrix):
        corners = transform(_corners(boxes), matrix)
        return np.concatenate([corners.min(1), corners.max(1)], axis=1).astype(np.float64)
    low, high, linear = boxes[:, :2], boxes[:, 2:], matrix[:2, :2]
    centres, halves = (low + high) @ linear.T / 2 + matrix[:2, 2], (high - low) @ np.abs(linear).T / 2
    return np.concatenate([centres - halves, centres + halves], axis=1)


def _growth(boxes: np.ndarray, matrix: np.ndarray) -> Any:
    """How many times larger the areas of boxes [n, 4] become."""
    if _is_affine(matrix):
        return abs(np.linalg.det(matrix[:2, :2]))
    x, y = np.moveaxis(transform(_corners(boxes), matrix).astype(np.float64), -1, 0)
    polygons = np.abs((x * np.roll(y, -1, 1) - y * np.roll(x, -1, 1)).sum(1)) / 2
    area = box_area(boxes)
    return np.divide(polygons, area, out=np.zeros(len(area)), where=area > 0)


def _is_affine(matrix: np.ndarray) -> bool:
    return not matrix[2, :2].any()


def _corners(boxes: np.ndarray) -> np.ndarray:
    """[n, 4, 2] in turn."""
    return boxes[:, [0, 1, 2, 1, 2, 3, 0, 3]].reshape(-1, 4, 2)


def scaled(sample: Sample, before: tuple[int, ...], shape: tuple[int, ...]) -> Sample:
    """What is annotated on an image of shape [H, W, ...] for a version of it that has another size."""
    return {**sample, **follow(sample, Scaled(shape[:2]), before, shape)}


def clipped(boxes: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The parts of boxes [n, 4] inside of an image of this shape."""
    height, width = shape[:2]
    return np.minimum(np.maximum(boxes, 0), np.array([width, height, width, height], boxes.dtype))


def box_area(boxes: np.ndarray) -> np.ndarray:
    """The areas [n] of boxes [n, 4], in float64."""
    sides = np.asarray(boxes[:, 2:], np.float64) - boxes[:, :2]
    return np.asarray(sides[:, 0] * sides[:, 1])


def by_masks(sample: Sample, *, turned: bool) -> Sample:
    """The sample without instances whose masks are empty, and, where it has `turned`, with boxes and areas by masks."""
    found = mask_boxes(sample["masks"])
    if turned:
        sample = {**sample, "boxes": found}
    if turned and "area" in sample:
        sample["area"] = sample["masks"].sum((1, 2), dtype=np.float32)
    return selected(sample, found[:, 2] > 0)


def _moved_keypoints(sample: Sample, matrix: np.ndarray, shape: tuple[int, ...], flip_pairs: Pairs,
                     owner: str) -> np.ndarray:
    """The keypoints float32 [n, P, 3], with 0, 0, 0 for those outside."""
    keypoints: np.ndarray = sample["keypoints"]
    out = np.concatenate([transform(keypoints[..., :2], matrix), keypoints[..., 2:]], axis=-1).astype(np.float32)
    x, y = out[..., 0], out[..., 1]
    inside = (x >= 0) & (y >= 0) & (x <= shape[1]) & (y <= shape[0]) & (out[..., 2] > 0)
    out[~inside] = 0
    if np.linalg.det(matrix[:2, :2]) < 0 and out.shape[1] > 1:
        out = out[:, _exchanged(sample, flip_pairs, out.shape[1], owner)]
    return out


def _exchanged(sample: Sample, flip_pairs: Pairs, count: int, owner: str) -> np.ndarray:
    """int64 [P]: which keypoint takes which place where left and right are exchanged."""
    pairs = sample.get("flip_pairs") if flip_pairs is None else flip_pairs
    if pairs is None:
        raise UsageError(f"{owner} mirrors keypoints and must know which are left and right of each other: give "
                         "flip_pairs, such as [[1, 2], [3, 4]], or [] where there are none")
    first, second = np.asarray(pairs, np.int64).reshape(-1, 2).T
    if len(first) and max(first.max(), second.max()) >= count:
        raise UsageError(f"{owner}: flip_pairs={np.asarray(pairs).tolist()} name more than the {count} keypoints there "
                         "are; they count from 0")
    order = np.arange(count)
    order[first], order[second] = second, first
    return order


def check_pairs(owner: str, pairs: Any) -> tuple[tuple[int, int], ...] | None:
    """flip_pairs in normal form: None, or pairs of different numbers from 0, none of them twice."""
    if pairs is None:
        return None
    given = [tuple(pair) if isinstance(pair, Sequence) else (pair,) for pair in pairs]
    flat = [n for pair in given for n in pair]
    good = all(len(pair) == 2 for pair in given) and all(type(n) is int and n >= 0 for n in flat)
    if not good or len(set(flat)) < len(flat):
        raise ConfigError(f"{owner}: flip_pairs={pairs!r} must be pairs of numbers of keypoints, from 0, each in one "
                          "pair only")
    return tuple((a, b) for a, b in given)
