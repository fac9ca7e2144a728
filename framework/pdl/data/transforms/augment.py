"""Automatic augmentation: RandAugment and TrivialAugment over one set of operations, and random combinations.

The operations and their ranges are those of torchvision's RandAugment and TrivialAugmentWide, which follow the
papers' TensorFlow code. A magnitude m is in 0..30; signed operations turn their sign with probability 1/2.

    operation      RandAugment at m/30 = t            TrivialAugmentWide
    Identity       -                                  -
    ShearX, ShearY       tan(angle) = 0.3 t           0.99 t
    TranslateX, -Y       150/331 t of the side        32 t pixels
    Rotate               30 t degrees                 135 t degrees
    Brightness, Color, Contrast, Sharpness
                         factor 1 +- 0.9 t            1 +- 0.99 t
    Posterize            8 - round(4 t) bits          8 - round(6 t) bits
    Solarize             invert x >= 255 (1 - t)      the same
    AutoContrast         stretch each channel to 0..255
    Equalize             equalise the histogram of each channel
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import cv2
import numpy as np

from pdl.data.dataset import Sample
from pdl.data.pipeline import Transform
from pdl.data.randomness import SampleRandom
from pdl.data.transforms._args import Probability, fill_values, number
from pdl.data.transforms.annotations import Geometric
from pdl.data.transforms.colour import brightness, contrast, lookup, need_uint8, saturation, sharpness
from pdl.data.transforms.motion import STILL, Chain, Motion, Pixels, Warp
from pdl.data.transforms.pixels import affine_matrix
from pdl.errors import ConfigError
from pdl.hints import Range

BINS = 30
_VALUES = np.arange(256, dtype=np.float64)
_Fill = Any  # one value, or one a channel; see fill_values


def posterize(image: np.ndarray, bits: int) -> np.ndarray:
    """Keep the upper `bits` of each byte."""
    return image & np.uint8(0xFF << (8 - bits) & 0xFF)


def solarize(image: np.ndarray, threshold: float) -> np.ndarray:
    """Invert the values at or above the threshold."""
    return lookup(image, np.where(threshold <= _VALUES, 255 - _VALUES, _VALUES))


def autocontrast(image: np.ndarray) -> np.ndarray:
    """Stretch each channel linearly so that its values span 0..255; a flat channel stays."""
    planes = []
    for plane in cv2.split(image):
        low, high, _, _ = cv2.minMaxLoc(plane)
        planes.append(lookup(plane, (_VALUES - low) * (255.0 / (high - low)))[:, :, 0] if high > low else plane)
    return np.stack(planes, axis=2)


def equalize(image: np.ndarray) -> np.ndarray:
    """Equalise the histogram of each channel."""
    return np.stack([cv2.equalizeHist(plane) for plane in cv2.split(image)], axis=2)


def _shear(x: float, y: float) -> np.ndarray:
    """By the slopes x and y about the upper left corner, as the reference code does."""
    return np.array([[1.0, x, 0.0], [y, 1.0, 0.0]])


def _shift(x: float, y: float) -> np.ndarray:
    return np.array([[1.0, 0.0, round(x)], [0.0, 1.0, round(y)]])


_SIGNED = ("ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate", "Brightness", "Color", "Contrast", "Sharpness")

WARPS: dict[str, Callable[[tuple[int, ...], float, bool], np.ndarray]] = {  # (shape, t in -1..1, wide) -> matrix
    "ShearX": lambda shape, t, wide: _shear((0.99 if wide else 0.3) * t, 0.0),
    "ShearY": lambda shape, t, wide: _shear(0.0, (0.99 if wide else 0.3) * t),
    "TranslateX": lambda shape, t, wide: _shift((32.0 if wide else 150 / 331 * shape[1]) * t, 0.0),
    "TranslateY": lambda shape, t, wide: _shift(0.0, (32.0 if wide else 150 / 331 * shape[0]) * t),
    "Rotate": lambda shape, t, wide: affine_matrix(shape, angle=(135.0 if wide else 30.0) * t),
}
COLOURS: dict[str, Callable[[np.ndarray, float, bool], np.ndarray]] = {  # (image, t in -1..1, wide) -> image
    "Brightness": lambda im, t, wide: brightness(im, 1 + (0.99 if wide else 0.9) * t),
    "Color": lambda im, t, wide: saturation(im, 1 + (0.99 if wide else 0.9) * t),
    "Contrast": lambda im, t, wide: contrast(im, 1 + (0.99 if wide else 0.9) * t),
    "Sharpness": lambda im, t, wide: sharpness(im, 1 + (0.99 if wide else 0.9) * t),
    "Posterize": lambda im, t, wide: posterize(im, 8 - round((6 if wide else 4) * t)),
    "Solarize": lambda im, t, wide: solarize(im, 255.0 * (1 - t)),
    "AutoContrast": lambda im, t, wide: autocontrast(im),
    "Equalize": lambda im, t, wide: equalize(im),
}
OPERATIONS = ("Identity", *WARPS, *COLOURS)


def operation(name: str, shape: tuple[int, ...], t: float, fill: _Fill, wide: bool) -> Motion:
    """What an operation does to an image of this shape, at t in -1..1."""
    if name in WARPS:
        return Warp(WARPS[name](shape, t, wide), "nearest", fill)
    return Pixels(lambda image: COLOURS[name](image, t, wide)) if name in COLOURS else STILL


def _drawn(shape: tuple[int, ...], t: float, rng: SampleRandom, fill: _Fill, wide: bool) -> Motion:
    """One operation, drawn uniformly, at strength t in 0..1."""
    name = OPERATIONS[rng.integers(0, len(OPERATIONS))]
    negative = rng.chance(0.5)
    return operation(name, shape, -t if negative and name in _SIGNED else t, fill, wide)


class _Operations(Geometric):
    """Operations on bytes, some of which move pixels."""

    def __call__(self, sample: Sample, rng: SampleRandom) -> Sample:
        need_uint8(type(self).__name__, sample["image"])
        return super().__call__(sample, rng)


@dataclass(frozen=True)
class RandAugment(_Operations):
    """`num_ops` random operations in a row, all at the same magnitude (Cubuk et al., arXiv 1909.13719).

    The operations and their ranges are listed at the top of this module. magnitude in 0..30; uint8 images only.

    magnitude  of every operation, 0 (hardly visible) to 30
    """

    num_ops: Annotated[int, Range(1)] = 2
    magnitude: Annotated[float, Range(0, BINS)] = 9
    fill: float | Sequence[float] = 128

    def __post_init__(self) -> None:
        if not isinstance(self.num_ops, int) or self.num_ops < 1:
            raise ConfigError(f"RandAugment: num_ops={self.num_ops!r} must be an integer of at least 1")
        number("RandAugment", "magnitude", self.magnitude, 0, BINS)
        self._set(fill=fill_values("RandAugment", self.fill))

    def motion(self, shape: tuple[int, ...], rng: SampleRandom) -> Motion:
        t = self.magnitude / BINS
        return Chain(tuple(_drawn(shape, t, rng, self.fill, wide=False) for _ in range(self.num_ops)))


@dataclass(frozen=True)
class TrivialAugmentWide(_Operations):
    """One random operation at a random magnitude of 0..30 (Mueller, Hutter, arXiv 2103.10158; the wide ranges)."""

    fill: float | Sequence[float] = 128

    def __post_init__(self) -> None:
        self._set(fill=fill_values("TrivialAugmentWide", self.fill))

    def motion(self, shape: tuple[int, ...], rng: SampleRandom) -> Motion:
        return _drawn(shape, rng.integers(0, BINS + 1) / BINS, rng, self.fill, wide=True)


@dataclass(frozen=True)
class RandomApply(Transform):
    """All of the transforms one after another, with probability p; otherwise none."""

    transforms: Sequence[Transform]
    p: Probability = 0.5

    def __post_init__(self) -> None:
        number("RandomApply", "p", self.p, 0, 1)
        self._set(transforms=tuple(self.transforms))

    def __call__(self, sample: Sample, rng: SampleRandom) -> Sample:
        if rng.chance(self.p):
            for position, transform in enumerate(self.transforms):
                sample = transform(sample, rng.fork(position))
        return sample


@dataclass(frozen=True)
class UntilEpoch(Transform):
    """All of the transforms one after another in the epochs before `epoch`, and none from then on: strong augmentation
    that is to end before a training does, as Mosaic and MixUp of YOLOX (Ge et al., arXiv 2107.08430, section 2.1).

    epoch  the first one without them, from 0
    """

    transforms: Sequence[Transform]
    epoch: Annotated[int, Range(0)]

    def __post_init__(self) -> None:
        if type(self.epoch) is not int or self.epoch < 0:
            raise ConfigError(f"UntilEpoch: epoch={self.epoch!r} must be an integer of at least 0")
        self._set(transforms=tuple(self.transforms))

    def __call__(self, sample: Sample, rng: SampleRandom) -> Sample:
        if rng.epoch < self.epoch:
            for position, transform in enumerate(self.transforms):
                sample = transform(sample, rng.fork(position))
        return sample


@dataclass(frozen=True)
class RandomChoice(Transform):
    """One of the transforms, drawn with probabilities in proportion to `weights` (equal by default).

    Of MixUp and CutMix, too: `RandomChoice([MixUp(...), CutMix(...)])` works on whole batches as they do.
    """

    transforms: Sequence[Transform]
    weights: Sequence[float] | None = None

    def __post_init__(self) -> None:
        transforms = tuple(self.transforms)
        weights = (1.0,) * len(transforms) if self.weights is None else tuple(float(w) for w in self.weights)
        fits = len(weights) == len(transforms) > 0
        if not fits or min(weights) < 0 or not 0 < math.fsum(weights) < math.inf:
            raise ConfigError(f"RandomChoice: {len(transforms)} transforms need as many weights, each at least 0 and "
                              f"not all 0; got {self.weights!r}")
        levels = {getattr(t, "batch_level", False) for t in transforms}
        if len(levels) > 1:
            raise ConfigError("RandomChoice: transforms of whole batches (MixUp, CutMix) do not mix with others")
        self._set(transforms=transforms, weights=weights)
        object.__setattr__(self, "batch_level", levels.pop())

    def __call__(self, sample: Any, rng: SampleRandom) -> Any:
        weights = self.weights or ()
        at, ends = rng.uniform(0, math.fsum(weights)), list(itertools.accumulate(weights))
        chosen = min(bisect.bisect_right(ends, at), len(ends) - 1)
        return self.transforms[chosen](sample, rng.fork(chosen))
