"""Resizing and warping, on OpenCV."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, get_args

import cv2
import numpy as np

from pdl.data.pipeline import ImageBatchTransform
from pdl.data.randomness import BatchRandom, SampleRandom
from pdl.data.transforms._args import (
    Interpolation,
    Probability,
    WarpInterpolation,
    choice,
    fill_values,
    number,
    size_pair,
    span,
    symmetric,
    two,
)
from pdl.data.transforms.annotations import Geometric
from pdl.data.transforms.motion import STILL, Chain, Cut, Motion, Padded, Placed, Scaled, Warp
from pdl.data.transforms.pixels import affine_matrix, resize
from pdl.errors import ConfigError, UsageError
from pdl.hints import Range
from pdl.runtime.images import METHODS, letterbox_places

_WARPS = get_args(WarpInterpolation)
_RESIZES = get_args(Interpolation)


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


@dataclass(frozen=True)
class Resize(Geometric, ImageBatchTransform):
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

    def motion(self, shape: tuple[int, ...], rng: SampleRandom) -> Motion:
        return Scaled(self.size, self.interpolation)

    def images(self, images: np.ndarray, rngs: BatchRandom) -> np.ndarray:
        return resize_all(images, self.size, self.interpolation)


@dataclass(frozen=True)
class ResizeShort(Geometric, ImageBatchTransform):
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

    def motion(self, shape: tuple[int, ...], rng: SampleRandom) -> Motion:
        return Scaled(self._size(shape[0], shape[1]), self.interpolation)

    def images(self, images: np.ndarray, rngs: BatchRandom) -> np.ndarray:
        return resize_all(images, self._size(images.shape[1], images.shape[2]), self.interpolation)


@dataclass(frozen=True)
class ResizeHeight(Geometric, ImageBatchTransform):
    """Scale to `height` pixels, the proportions kept as long as the width is at most `width`: lines of text."""

    height: Annotated[int, Range(1)]
    width: Annotated[int, Range(1)]
    interpolation: Interpolation = "auto"

    def __post_init__(self) -> None:
        for name in ("height", "width"):
            if not isinstance(getattr(self, name), int) or getattr(self, name) < 1:
                raise ConfigError(f"ResizeHeight: {name}={getattr(self, name)!r} must be an integer of at least 1")
        choice("ResizeHeight", "interpolation", self.interpolation, _RESIZES)

    def deployed(self) -> list[dict[str, Any]]:
        return [{"step": "resize_height", "height": self.height, "width": self.width, "method": deployable(self)}]

    def size(self, height: int, width: int) -> tuple[int, int]:
        """(height, width) of an image afterwards."""
        return self.height, min(self.width, max(1, math.ceil(self.height * width / height)))

    def motion(self, shape: tuple[int, ...], rng: SampleRandom) -> Motion:
        return Scaled(self.size(shape[0], shape[1]), self.interpolation)

    def images(self, images: np.ndarray, rngs: BatchRandom) -> np.ndarray:
        return resize_all(images, self.size(images.shape[1], images.shape[2]), self.interpolation)


@dataclass(frozen=True)
class ResizeWithin(Geometric, ImageBatchTransform):
    """Scale so that the longer side is at most `limit` pixels, and each side to the nearest multiple of `multiple`:
    pages of text. Images are never enlarged but to that multiple.
    """

    limit: Annotated[int, Range(1)]
    multiple: Annotated[int, Range(1)] = 32
    interpolation: Interpolation = "auto"

    def __post_init__(self) -> None:
        for name in ("limit", "multiple"):
            if not isinstance(getattr(self, name), int) or getattr(self, name) < 1:
                raise ConfigError(f"ResizeWithin: {name}={getattr(self, name)!r} must be an integer of at least 1")
        choice("ResizeWithin", "interpolation", self.interpolation, _RESIZES)

    def deployed(self) -> list[dict[str, Any]]:
        method = deployable(self)
        return [{"step": "resize_within", "limit": self.limit, "multiple": self.multiple, "method": method}]

    def size(self, height: int, width: int) -> tuple[int, int]:
        """(height, width) of an image afterwards."""
        factor = min(1.0, self.limit / max(height, width))
        h, w = (max(1, round(n * factor / self.multiple)) * self.multiple for n in (height, width))
        return h, w

    def motion(self, shape: tuple[int, ...], rng: SampleRandom) -> Motion:
        return Scaled(self.size(shape[0], shape[1]), self.interpolation)

    def images(self, images: np.ndarray, rngs: BatchRandom) -> np.ndarray:
        return resize_all(images, self.size(images.shape[1], images.shape[2]), self.interpolation)


@dataclass(frozen=True)
class RandomShortestSize(Geometric):
    """Scale so that the shorter side is one of `min_size` pixels, drawn uniformly, but the longer side at most
    `max_size`; the proportions stay.

    min_size  one length, or several
    max_size  the longest that the longer side may become; None: any
    """

    min_size: int | Sequence[int]
    max_size: Annotated[int, Range(1)] | None = None
    interpolation: Interpolation = "auto"

    def __post_init__(self) -> None:
        owner = "RandomShortestSize"
        sizes = tuple(self.min_size) if isinstance(self.min_size, Sequence) else (self.min_size,)
        if not sizes or not all(type(v) is int and v >= 1 for v in sizes):
            raise ConfigError(f"{owner}: min_size={self.min_size!r} must be integers of at least 1")
        if self.max_size is not None and (type(self.max_size) is not int or self.max_size < 1):
            raise ConfigError(f"{owner}: max_size={self.max_size!r} must be an integer of at least 1, or null")
        choice(owner, "interpolation", self.interpolation, _RESIZES)
        self._set(min_size=sizes)

    def motion(self, shape: tuple[int, ...], rng: SampleRandom) -> Motion:
        sizes: Any = self.min_size
        factor = sizes[rng.integers(0, len(sizes))] / min(shape[:2])
        if self.max_size is not None:
            factor = min(factor, self.max_size / max(shape[:2]))
        return Scaled(tuple(max(1, round(n * factor)) for n in shape[:2]), self.interpolation)


@dataclass(frozen=True)
class Letterbox(Geometric):
    """Scale into `size` with the proportions kept and fill the rest: a net for one size sees the whole image, unbent.

    fill     of the rest, 0..255
    centre   the same rest on both sides; false: on the right and below
    enlarge  images that are smaller, too; false: they keep their size
    """

    size: int | Sequence[int]
    fill: float | Sequence[float] = 114
    centre: bool = True
    enlarge: bool = True
    interpolation: Interpolation = "auto"

    def __post_init__(self) -> None:
        self._set(size=size_pair("Letterbox", "size", self.size), fill=fill_values("Letterbox", self.fill))
        for name in ("centre", "enlarge"):
            choice("Letterbox", name, getattr(self, name), (True, False))
        choice("Letterbox", "interpolation", self.interpolation, _RESIZES)

    def deployed(self) -> list[dict[str, Any]]:
        return [{"step": "letterbox", "size": list(two(self.size)), "fill": list(self.fill),  # type: ignore[arg-type]
                 "centre": self.centre, "enlarge": self.enlarge, "method": deployable(self)}]

    def motion(self, shape: tuple[int, ...], rng: SampleRandom) -> Motion:
        inner, padding = letterbox_places(shape, two(self.size), centre=self.centre, enlarge=self.enlarge)
        return Chain((Scaled(inner, self.interpolation), Padded(padding, self.fill)))


@dataclass(frozen=True)
class RandomResizedCrop(Geometric):
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

    def motion(self, shape: tuple[int, ...], rng: SampleRandom) -> Motion:
        return Chain((Cut(*self._part(shape[0], shape[1], rng)), Scaled(self.size, self.interpolation)))


@dataclass(frozen=True)
class RandomView(Geometric):
    """A part of a large image, `size` pixels, at a random place; what lies outside of the image is black.

    limit    the longer side of the image without `scale`, as `ResizeWithin` has it
    scale    (from, to): larger or smaller than that, log-uniform
    degrees  it is turned by up to so many, either way
    """

    size: int | Sequence[int]
    limit: Annotated[int, Range(1)] = 960
    scale: Sequence[float] = (0.7, 1.5)
    degrees: Annotated[float, Range(0, 45)] = 3.0

    def __post_init__(self) -> None:
        owner = "RandomView"
        self._set(size=size_pair(owner, "size", self.size), scale=span(owner, "scale", self.scale, 0, above=True),
                  degrees=number(owner, "degrees", self.degrees, 0, 45))

    def motion(self, shape: tuple[int, ...], rng: SampleRandom) -> Motion:
        height, width = ResizeWithin(self.limit, 1).size(shape[0], shape[1])
        low, high = (math.log(each) for each in self.scale)
        grown = math.exp(rng.uniform(low, high))
        angle = math.radians(self.degrees * rng.uniform(-1, 1))
        linear = grown * np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
        centre = np.array([width, height]) / 2
        to = np.array(two(self.size)[::-1])
        free = to - grown * np.array([width, height])
        corner = np.array([rng.uniform(min(0, each), max(0, each)) for each in free])
        matrix = np.eye(3)
        matrix[:2, :2], matrix[:2, 2] = linear, corner + grown * centre - linear @ centre
        return Chain((Scaled((height, width)), Placed(matrix, (int(to[1]), int(to[0])))))


@dataclass(frozen=True)
class RandomRotation(Geometric):
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

    def motion(self, shape: tuple[int, ...], rng: SampleRandom) -> Motion:
        matrix = affine_matrix(shape, angle=rng.uniform(*two(self.degrees)))
        return Warp(matrix, self.interpolation, self.fill)


@dataclass(frozen=True)
class RandomAffine(Geometric):
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

    def motion(self, shape: tuple[int, ...], rng: SampleRandom) -> Motion:
        h, w = shape[:2]
        tx, ty = two(self.translate)
        shear: Any = self.shear
        matrix = affine_matrix(shape, angle=rng.uniform(*two(self.degrees)),
                               translate=(rng.uniform(-tx, tx) * w, rng.uniform(-ty, ty) * h),
                               scale=rng.uniform(*self.scale), shear=(rng.uniform(*shear[:2]), rng.uniform(*shear[2:])))
        return Warp(matrix, self.interpolation, self.fill)


@dataclass(frozen=True)
class RandomPerspective(Geometric):
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

    def motion(self, shape: tuple[int, ...], rng: SampleRandom) -> Motion:
        if not rng.chance(self.p) or min(shape[:2]) < 2:
            return STILL
        right, bottom = shape[1] - 1, shape[0] - 1
        corners = np.array([[0, 0], [right, 0], [right, bottom], [0, bottom]], np.float32)
        moves = np.array([[rng.uniform(0, self.distortion / 2) * right, rng.uniform(0, self.distortion / 2) * bottom]
                          for _ in corners], np.float32)
        inwards = np.array([[1, 1], [-1, 1], [-1, -1], [1, -1]], np.float32)
        matrix = cv2.getPerspectiveTransform(corners, corners + inwards * moves)
        return Warp(matrix, self.interpolation, self.fill)
