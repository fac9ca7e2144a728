"""Crops, flips and padding: where pixels move but keep their values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from pdl.data.pipeline import ImageBatchTransform
from pdl.data.randomness import BatchRandom, SampleRandom
from pdl.data.transforms._args import BORDER, Border, Probability, choice, fill_values, number, padding4, size_pair, two
from pdl.data.transforms.annotations import Geometric, check_pairs
from pdl.data.transforms.motion import STILL, Chain, Cut, Mirrored, Motion, Padded
from pdl.data.transforms.pixels import flip, pad_images
from pdl.errors import UsageError


@dataclass(frozen=True)
class Pad(Geometric, ImageBatchTransform):
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

    def motion(self, shape: tuple[int, ...], rng: SampleRandom) -> Motion:
        return Padded(self.padding, self.fill, self.mode)

    def images(self, images: np.ndarray, rngs: BatchRandom) -> np.ndarray:
        return pad_images(images, self.padding, self.fill, self.mode)


@dataclass(frozen=True)
class PadTo(Geometric, ImageBatchTransform):
    """Fill up with `fill` on the right and below to `size`, an int or (height, width), and from there to the next
    multiples of `multiple`; a larger image to the next multiples. After `Normalize`, `fill` is on its scale: 0 is the
    mean.
    """

    size: int | Sequence[int]
    multiple: int | Sequence[int] = 1
    fill: float = 0.0

    def __post_init__(self) -> None:
        self._set(
            size=size_pair("PadTo", "size", self.size),
            multiple=size_pair("PadTo", "multiple", self.multiple),
            fill=float(number("PadTo", "fill", self.fill, -255, 255)),
        )

    def deployed(self) -> list[dict[str, Any]]:
        size, multiple = list(two(self.size)), list(two(self.multiple))
        return [{"step": "pad_to", "size": size, "multiple": multiple, "fill": self.fill}]

    def padded(self, height: int, width: int) -> tuple[int, int]:
        """(height, width) of an image afterwards."""
        least, multiple = two(self.size), two(self.multiple)
        return (
            -(-max(least[0], height) // multiple[0]) * multiple[0],
            -(-max(least[1], width) // multiple[1]) * multiple[1],
        )

    def motion(self, shape: tuple[int, ...], rng: SampleRandom) -> Motion:
        height, width = self.padded(shape[0], shape[1])
        return Padded((0, 0, width - shape[1], height - shape[0]), (self.fill,))

    def images(self, images: np.ndarray, rngs: BatchRandom) -> np.ndarray:
        height, width = self.padded(*images.shape[1:3])
        return pad_images(images, (0, 0, width - images.shape[2], height - images.shape[1]), (self.fill,), "constant")


@dataclass(frozen=True)
class CenterCrop(Geometric, ImageBatchTransform):
    """The middle `size` pixels, an int or (height, width), at (H - h) // 2; smaller images are padded first."""

    size: int | Sequence[int]
    fill: float | Sequence[float] = 0

    def __post_init__(self) -> None:
        self._set(size=size_pair("CenterCrop", "size", self.size), fill=fill_values("CenterCrop", self.fill))

    def deployed(self) -> list[dict[str, Any]]:
        return [{"step": "crop", "size": list(two(self.size)), "fill": list(self.fill)}]  # type: ignore[arg-type]

    def motion(self, shape: tuple[int, ...], rng: SampleRandom) -> Motion:
        padding, y, x = self._place(shape)
        return Chain((Padded(padding, self.fill), Cut(y, x, *two(self.size))))

    def images(self, images: np.ndarray, rngs: BatchRandom) -> np.ndarray:
        (padding, y, x), (h, w) = self._place(images.shape), two(self.size)
        return pad_images(images, padding, self.fill, "constant")[..., y:y + h, x:x + w, :]

    def _place(self, shape: tuple[int, ...]) -> tuple[tuple[int, int, int, int], int, int]:
        """(padding, top, left) for images of shape [..., H, W, C]."""
        (h, w), (have_h, have_w) = two(self.size), shape[-3:-1]
        dy, dx = max(0, h - have_h), max(0, w - have_w)
        return (dx // 2, dy // 2, dx - dx // 2, dy - dy // 2), (have_h + dy - h) // 2, (have_w + dx - w) // 2


@dataclass(frozen=True)
class RandomCrop(Geometric, ImageBatchTransform):
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

    def motion(self, shape: tuple[int, ...], rng: SampleRandom) -> Motion:
        padded = Padded(self.padding, self.fill, self.mode)
        y, x = self._place((*padded.size(*shape[:2]), shape[2]), rng)
        return Chain((padded, Cut(y, x, *two(self.size))))

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


@dataclass(frozen=True)
class _RandomFlip(Geometric, ImageBatchTransform):
    p: Probability = 0.5
    flip_pairs: Sequence[Sequence[int]] | None = None
    axis = 0

    def __post_init__(self) -> None:
        number(type(self).__name__, "p", self.p, 0, 1)
        self._set(flip_pairs=check_pairs(type(self).__name__, self.flip_pairs))

    def motion(self, shape: tuple[int, ...], rng: SampleRandom) -> Motion:
        return Mirrored(self.axis) if rng.chance(self.p) else STILL

    def images(self, images: np.ndarray, rngs: BatchRandom) -> np.ndarray:
        chosen = np.flatnonzero(rngs.chance(self.p))
        out = images.copy()
        if len(chosen):
            out[chosen] = flip(images.take(chosen, axis=0), self.axis)
        return out


@dataclass(frozen=True)
class RandomHorizontalFlip(_RandomFlip):
    """Mirror left and right with probability p.

    flip_pairs  of keypoints that are left and right of each other, [[1, 2], [3, 4]]: they change places; by default as
                the data set says
    """

    axis = 1


@dataclass(frozen=True)
class RandomVerticalFlip(_RandomFlip):
    """Exchange top and bottom with probability p, which mirrors, too.

    flip_pairs  of keypoints that are left and right of each other, [[1, 2], [3, 4]]: they change places; by default as
                the data set says
    """

    axis = 0
