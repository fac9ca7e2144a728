"""Crops, flips and padding: where pixels move but keep their values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.lib.stride_tricks import as_strided

from pdl.data.pipeline import ImageBatchTransform
from pdl.data.randomness import BatchRandom, SampleRandom
from pdl.data.transforms._args import BORDER, Border, Probability, choice, fill_values, number, padding4, size_pair, two
from pdl.errors import UsageError
from pdl.runtime.images import require_room


def pad_images(images: np.ndarray, padding: Any, fill: Any, mode: Border) -> np.ndarray:
    """images [..., H, W, C] with padding = (left, top, right, bottom) pixels more of `fill` (one value, or C)."""
    left, top, right, bottom = padding
    if not any(padding):
        return images
    height, width, channels = images.shape[-3:]
    require_room((height + top + bottom, width + left + right, channels), images.itemsize)
    if mode != "constant":
        _check_reach(images.shape, padding, mode)
        width = [(0, 0)] * (images.ndim - 3) + [(top, bottom), (left, right), (0, 0)]
        return np.pad(images, width, mode="reflect" if mode == "reflect" else "edge")
    *lead, h, w, c = images.shape
    out = np.empty((*lead, h + top + bottom, w + left + right, c), images.dtype)
    out[...] = np.asarray(fill, images.dtype)
    out[..., top:top + h, left:left + w, :] = images
    return out


def _check_reach(shape: tuple[int, ...], padding: tuple[int, int, int, int], mode: Border) -> None:
    h, w = shape[-3:-1]
    if mode == "reflect" and (max(padding[1], padding[3]) >= h or max(padding[0], padding[2]) >= w):
        raise UsageError(f"padding {padding} by reflection needs a larger image than {h} x {w}; use mode='edge'")


@dataclass(frozen=True)
class Pad(ImageBatchTransform):
    """Add `padding` pixels: an int, (horizontal, vertical) or (left, top, right, bottom).

    mode: "constant" (with `fill`, 0..255), "reflect" (without repeating the edge) or "edge".

    mode  constant (with `fill`), reflect (without repeating the edge) or edge
    """

    padding: int | Sequence[int]
    fill: float | Sequence[float] = 0
    mode: Border = "constant"

    def __post_init__(self) -> None:
        self._set(padding=padding4("Pad", self.padding), fill=fill_values("Pad", self.fill),
                  mode=choice("Pad", "mode", self.mode, list(BORDER)))

    def deployed(self) -> list[dict[str, Any]]:
        padding, fill = list(self.padding), list(self.fill)  # type: ignore[arg-type]
        return [{"step": "pad", "padding": padding, "fill": fill, "mode": self.mode}]

    def image(self, image: np.ndarray, rng: SampleRandom) -> np.ndarray:
        return pad_images(image, self.padding, self.fill, self.mode)

    def images(self, images: np.ndarray, rngs: BatchRandom) -> np.ndarray:
        return pad_images(images, self.padding, self.fill, self.mode)


@dataclass(frozen=True)
class CenterCrop(ImageBatchTransform):
    """The middle `size` pixels, an int or (height, width), at (H - h) // 2; smaller images are padded first."""

    size: int | Sequence[int]
    fill: float | Sequence[float] = 0

    def __post_init__(self) -> None:
        self._set(size=size_pair("CenterCrop", "size", self.size), fill=fill_values("CenterCrop", self.fill))

    def deployed(self) -> list[dict[str, Any]]:
        return [{"step": "crop", "size": list(two(self.size)), "fill": list(self.fill)}]  # type: ignore[arg-type]

    def image(self, image: np.ndarray, rng: SampleRandom) -> np.ndarray:
        return self._crop(image)

    def images(self, images: np.ndarray, rngs: BatchRandom) -> np.ndarray:
        return self._crop(images)

    def _crop(self, image: np.ndarray) -> np.ndarray:
        h, w = two(self.size)
        dy, dx = max(0, h - image.shape[-3]), max(0, w - image.shape[-2])
        image = pad_images(image, (dx // 2, dy // 2, dx - dx // 2, dy - dy // 2), self.fill, "constant")
        y, x = (image.shape[-3] - h) // 2, (image.shape[-2] - w) // 2
        return image[..., y:y + h, x:x + w, :]


@dataclass(frozen=True)
class RandomCrop(ImageBatchTransform):
    """A window of `size` at a uniformly random place, after padding by `padding` (as in `Pad`).

    Padding 4 and size 32 is the augmentation of the CIFAR-10 residual networks (He et al., arXiv 1512.03385, 4.2).

    mode  of the padding: constant (with `fill`), reflect (without repeating the edge) or edge
    """

    size: int | Sequence[int]
    padding: int | Sequence[int] = 0
    fill: float | Sequence[float] = 0
    mode: Border = "constant"

    def __post_init__(self) -> None:
        self._set(size=size_pair("RandomCrop", "size", self.size), padding=padding4("RandomCrop", self.padding),
                  fill=fill_values("RandomCrop", self.fill), mode=choice("RandomCrop", "mode", self.mode, list(BORDER)))

    def _place(self, shape: tuple[int, ...], rng: Any) -> tuple[Any, Any]:
        """(top, left) of the window, drawn in this order."""
        (h, w), (have_h, have_w) = two(self.size), shape[-3:-1]
        if have_h < h or have_w < w:
            raise UsageError(f"RandomCrop: size {h} x {w} does not fit into an image of {have_h} x {have_w} (with "
                             "padding); lower size, raise padding, or put a Resize before it")
        return rng.integers(0, have_h - h + 1), rng.integers(0, have_w - w + 1)

    def image(self, image: np.ndarray, rng: SampleRandom) -> np.ndarray:
        padded = pad_images(image, self.padding, self.fill, self.mode)
        y, x = self._place(padded.shape, rng)
        h, w = two(self.size)
        return padded[y:y + h, x:x + w]

    def images(self, images: np.ndarray, rngs: BatchRandom) -> np.ndarray:
        padded = np.ascontiguousarray(pad_images(images, self.padding, self.fill, self.mode))
        y, x = self._place(padded.shape, rngs)
        return windows(padded, y, x, self.size)


def windows(images: np.ndarray, y: np.ndarray, x: np.ndarray, size: Any) -> np.ndarray:
    """out[n] = images[n, y[n]:y[n]+h, x[n]:x[n]+w]; images [N, H, W, C] contiguous, offsets inside.

    One gather over a view of all windows [N, H-h+1, W-w+1, h, w*C], whose rows are contiguous runs of w*C.
    """
    (n, have_h, have_w, c), (h, w) = images.shape, size
    s0, s1, s2, s3 = images.strides
    view = as_strided(images, (n, have_h - h + 1, have_w - w + 1, h, w * c), (s0, s1, s2, s1, s3), writeable=False)
    out: np.ndarray = view[np.arange(n), y, x]
    return out.reshape(n, h, w, c)


def flip(images: np.ndarray, axis: int) -> np.ndarray:
    """images [N, H, W, C] mirrored: axis 1 left-right, axis 0 upside down."""
    if axis == 0:
        return images[:, ::-1]
    rows = np.ascontiguousarray(images).reshape(-1, *images.shape[2:])  # all rows of all images: one tall picture
    return np.asarray(cv2.flip(rows, 1)).reshape(images.shape)


@dataclass(frozen=True)
class _RandomFlip(ImageBatchTransform):
    p: Probability = 0.5
    axis = 0

    def __post_init__(self) -> None:
        number(type(self).__name__, "p", self.p, 0, 1)

    def image(self, image: np.ndarray, rng: SampleRandom) -> np.ndarray:
        return flip(image[None], self.axis)[0] if rng.chance(self.p) else image

    def images(self, images: np.ndarray, rngs: BatchRandom) -> np.ndarray:
        chosen = np.flatnonzero(rngs.chance(self.p))
        out = images.copy()
        if len(chosen):
            out[chosen] = flip(images.take(chosen, axis=0), self.axis)
        return out


@dataclass(frozen=True)
class RandomHorizontalFlip(_RandomFlip):
    """Mirror left and right with probability p."""

    axis = 1


@dataclass(frozen=True)
class RandomVerticalFlip(_RandomFlip):
    """Turn upside down with probability p."""

    axis = 0
