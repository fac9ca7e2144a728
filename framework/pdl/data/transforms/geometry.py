"""Resizing and warping, on OpenCV. Coordinates are pixel centres; the centre of an image is ((W-1)/2, (H-1)/2)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, get_args

import cv2
import numpy as np

from pdl.data.pipeline import ImageBatchTransform, Transform
from pdl.data.randomness import BatchRandom, SampleRandom
from pdl.data.transforms._args import (
    BORDER,
    INTERPOLATION,
    Interpolation,
    Probability,
    WarpInterpolation,
    choice,
    fill_values,
    number,
    scalar,
    size_pair,
    span,
    symmetric,
    two,
)
from pdl.errors import ConfigError, UsageError
from pdl.hints import Range
from pdl.runtime.images import METHODS, require_room

_WARPS = get_args(WarpInterpolation)
_RESIZES = get_args(Interpolation)


def resize(image: np.ndarray, size: Any, interpolation: str = "auto") -> np.ndarray:
    """image [H, W, C] scaled to size (height, width); "auto" averages areas when shrinking and is linear otherwise."""
    h, w = size
    if image.shape[:2] == size:
        return image
    require_room((h, w, image.shape[2]))
    if interpolation == "auto":
        interpolation = "area" if h * w < image.shape[0] * image.shape[1] else "linear"
    return with_channels(cv2.resize(image, (w, h), interpolation=INTERPOLATION[interpolation]))


def deployable(transform: Any) -> str:
    """The interpolation of a resizing transform, where the runtime has it too; UsageError otherwise."""
    method = str(transform.interpolation)
    if method not in METHODS:
        raise UsageError(
            f"{type(transform).__name__} with interpolation={method!r} has no form that a bundle can hold; "
            f"use {', '.join(METHODS)}"
        )
    return method


def resize_all(images: np.ndarray, size: Any, interpolation: str) -> np.ndarray:
    """`resize` for each of images [N, H, W, C]."""
    if images.shape[1:3] == tuple(size):
        return images
    return np.stack([resize(image, size, interpolation) for image in images])


def with_channels(image: np.ndarray) -> np.ndarray:
    """[H, W] to [H, W, 1]: OpenCV drops a last axis of one channel."""
    return image[:, :, None] if image.ndim == 2 else image


def warp(image: np.ndarray, matrix: np.ndarray, interpolation: str = "linear", fill: Any = (0.0,)) -> np.ndarray:
    """Move each point p to matrix @ p; matrix [2, 3] or [3, 3] on (x, y, 1); uncovered parts get `fill`."""
    h, w, c = image.shape
    function = cv2.warpAffine if matrix.shape[0] == 2 else cv2.warpPerspective
    return with_channels(function(image, matrix, (w, h), flags=INTERPOLATION[interpolation],
                                  borderMode=BORDER["constant"], borderValue=scalar(fill, c)))


def affine_matrix(shape: tuple[int, ...], *, angle: float = 0.0, translate: tuple[float, float] = (0.0, 0.0),
                  scale: float = 1.0, shear: tuple[float, float] = (0.0, 0.0)) -> np.ndarray:
    """The [2, 3] matrix T(centre + translate) R(angle) S(shear) scale T(-centre).

    angle in degrees, counter-clockwise as seen; translate (x, y) in pixels; shear (x, y) in degrees.
    """
    cx, cy = (shape[1] - 1) / 2, (shape[0] - 1) / 2
    a = math.radians(-angle)  # y points down
    rotation = np.array([[math.cos(a), -math.sin(a)], [math.sin(a), math.cos(a)]])
    slant = np.array([[1.0, math.tan(math.radians(shear[0]))], [math.tan(math.radians(shear[1])), 1.0]])
    linear = scale * rotation @ slant
    offset = np.array([cx + translate[0], cy + translate[1]]) - linear @ np.array([cx, cy])
    return np.column_stack([linear, offset])


@dataclass(frozen=True)
class Resize(ImageBatchTransform):
    """Scale to exactly `size`: an int for a square, or (height, width). To keep the proportions, use `ResizeShort`.

    interpolation: auto (area when shrinking, else linear), nearest, linear, cubic, area, lanczos.
    """

    size: int | Sequence[int]
    interpolation: Interpolation = "auto"

    def __post_init__(self) -> None:
        self._set(size=size_pair("Resize", "size", self.size))
        choice("Resize", "interpolation", self.interpolation, _RESIZES)

    def deployed(self) -> list[dict[str, Any]]:
        return [{"step": "resize", "size": list(two(self.size)), "method": deployable(self)}]

    def image(self, image: np.ndarray, rng: SampleRandom) -> np.ndarray:
        return resize(image, self.size, self.interpolation)

    def images(self, images: np.ndarray, rngs: BatchRandom) -> np.ndarray:
        return resize_all(images, self.size, self.interpolation)


@dataclass(frozen=True)
class ResizeShort(ImageBatchTransform):
    """Scale so that the shorter side is `size` pixels and the proportions stay (the longer side is rounded)."""

    size: Annotated[int, Range(1)]
    interpolation: Interpolation = "auto"

    def __post_init__(self) -> None:
        if not isinstance(self.size, int) or self.size < 1:
            raise ConfigError(f"ResizeShort: size={self.size!r} must be an integer of at least 1")
        choice("ResizeShort", "interpolation", self.interpolation, _RESIZES)

    def deployed(self) -> list[dict[str, Any]]:
        return [{"step": "resize_short", "size": self.size, "method": deployable(self)}]

    def _size(self, height: int, width: int) -> tuple[int, int]:
        factor = self.size / min(height, width)
        return max(1, round(height * factor)), max(1, round(width * factor))

    def image(self, image: np.ndarray, rng: SampleRandom) -> np.ndarray:
        return resize(image, self._size(image.shape[0], image.shape[1]), self.interpolation)

    def images(self, images: np.ndarray, rngs: BatchRandom) -> np.ndarray:
        return resize_all(images, self._size(images.shape[1], images.shape[2]), self.interpolation)


@dataclass(frozen=True)
class RandomResizedCrop(Transform):
    """A random part of the image, scaled to `size`.

    The part covers `scale` (from, to) of the area with an aspect ratio w/h log-uniform in `ratio`; after 10 tries that
    do not fit, the largest centred part with an allowed ratio (Szegedy et al., arXiv 1409.4842, section 6).
    """

    size: int | Sequence[int]
    scale: Sequence[float] = (0.08, 1.0)
    ratio: Sequence[float] = (3 / 4, 4 / 3)
    interpolation: Interpolation = "auto"

    def __post_init__(self) -> None:
        owner = "RandomResizedCrop"
        self._set(size=size_pair(owner, "size", self.size), scale=span(owner, "scale", self.scale, 0, 1, above=True),
                  ratio=span(owner, "ratio", self.ratio, 0, above=True))
        choice(owner, "interpolation", self.interpolation, _RESIZES)

    def _part(self, height: int, width: int, rng: SampleRandom) -> tuple[int, int, int, int]:
        """(top, left, height, width) of the part."""
        low, high = (math.log(r) for r in self.ratio)
        for _ in range(10):
            area = height * width * rng.uniform(*self.scale)
            ratio = math.exp(rng.uniform(low, high))
            h, w = round(math.sqrt(area / ratio)), round(math.sqrt(area * ratio))
            if 0 < h <= height and 0 < w <= width:
                return rng.integers(0, height - h + 1), rng.integers(0, width - w + 1), h, w
        ratio = min(max(width / height, self.ratio[0]), self.ratio[1])
        h, w = min(height, max(1, round(width / ratio))), min(width, max(1, round(height * ratio)))
        return (height - h) // 2, (width - w) // 2, h, w

    def image(self, image: np.ndarray, rng: SampleRandom) -> np.ndarray:
        y, x, h, w = self._part(image.shape[0], image.shape[1], rng)
        return resize(image[y:y + h, x:x + w], self.size, self.interpolation)


@dataclass(frozen=True)
class RandomRotation(Transform):
    """Turn about the centre by degrees uniform in (-degrees, degrees) or (from, to); corners get `fill`.

    degrees  an angle d for (-d, d), or (from, to)
    """

    degrees: float | Sequence[float]
    interpolation: WarpInterpolation = "linear"
    fill: float | Sequence[float] = 0

    def __post_init__(self) -> None:
        owner = "RandomRotation"
        self._set(degrees=symmetric(owner, "degrees", self.degrees, 360), fill=fill_values(owner, self.fill))
        choice(owner, "interpolation", self.interpolation, _WARPS)

    def image(self, image: np.ndarray, rng: SampleRandom) -> np.ndarray:
        matrix = affine_matrix(image.shape, angle=rng.uniform(*two(self.degrees)))
        return warp(image, matrix, self.interpolation, self.fill)


@dataclass(frozen=True)
class RandomAffine(Transform):
    """Rotate, shift, scale and shear about the centre, each uniform in its range (see `affine_matrix`).

    degrees    an angle d for (-d, d), or (from, to)
    translate  the largest shift as a fraction of width and height: a number or (x, y), each in [0, 1]
    scale      (from, to), above 0
    shear      degrees along x, and along y if four numbers are given: s, (from, to) or (x from, x to, y from, y to)
    """

    degrees: float | Sequence[float] = 0
    translate: float | Sequence[float] = 0
    scale: Sequence[float] = (1.0, 1.0)
    shear: float | Sequence[float] = 0
    interpolation: WarpInterpolation = "linear"
    fill: float | Sequence[float] = 0

    def __post_init__(self) -> None:
        owner = "RandomAffine"
        shift: Any = (self.translate,) * 2 if isinstance(self.translate, int | float) else self.translate
        if not isinstance(shift, Sequence) or len(shift) != 2:
            raise ConfigError(f"{owner}: translate={self.translate!r} must be a number or (x, y)")
        four = isinstance(self.shear, Sequence) and len(self.shear) == 4
        angles: Any = self.shear
        along_x, along_y = (angles[:2], angles[2:]) if four else (angles, 0.0)
        self._set(degrees=symmetric(owner, "degrees", self.degrees, 360), fill=fill_values(owner, self.fill),
                  translate=tuple(number(owner, "translate", t, 0, 1) for t in shift),
                  scale=span(owner, "scale", self.scale, 0, above=True),
                  shear=(*symmetric(owner, "shear", along_x, 89), *symmetric(owner, "shear", along_y, 89)))
        choice(owner, "interpolation", self.interpolation, _WARPS)

    def image(self, image: np.ndarray, rng: SampleRandom) -> np.ndarray:
        h, w = image.shape[:2]
        tx, ty = two(self.translate)
        shear: Any = self.shear
        matrix = affine_matrix(image.shape, angle=rng.uniform(*two(self.degrees)),
                               translate=(rng.uniform(-tx, tx) * w, rng.uniform(-ty, ty) * h),
                               scale=rng.uniform(*self.scale), shear=(rng.uniform(*shear[:2]), rng.uniform(*shear[2:])))
        return warp(image, matrix, self.interpolation, self.fill)


@dataclass(frozen=True)
class RandomPerspective(Transform):
    """With probability p, move each corner inwards by up to distortion/2 of width and height, uniformly.

    distortion  the furthest that a corner moves, in halves of width and height, 0 to 0.9
    """

    distortion: Annotated[float, Range(0, 0.9)] = 0.5
    p: Probability = 0.5
    interpolation: WarpInterpolation = "linear"
    fill: float | Sequence[float] = 0

    def __post_init__(self) -> None:
        owner = "RandomPerspective"
        number(owner, "p", self.p, 0, 1)
        number(owner, "distortion", self.distortion, 0, 0.9)
        self._set(fill=fill_values(owner, self.fill))
        choice(owner, "interpolation", self.interpolation, _WARPS)

    def image(self, image: np.ndarray, rng: SampleRandom) -> np.ndarray:
        if not rng.chance(self.p) or min(image.shape[:2]) < 2:
            return image
        right, bottom = image.shape[1] - 1, image.shape[0] - 1
        corners = np.array([[0, 0], [right, 0], [right, bottom], [0, bottom]], np.float32)
        moves = np.array([[rng.uniform(0, self.distortion / 2) * right, rng.uniform(0, self.distortion / 2) * bottom]
                          for _ in corners], np.float32)
        inwards = np.array([[1, 1], [-1, 1], [-1, -1], [1, -1]], np.float32)
        matrix = cv2.getPerspectiveTransform(corners, corners + inwards * moves)
        return warp(image, matrix, self.interpolation, self.fill)
