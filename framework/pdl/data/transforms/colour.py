"""Colour and sharpness of uint8 images. Gray means ITU-R BT.601: 0.299 R + 0.587 G + 0.114 B."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import cv2
import numpy as np

from pdl.data.pipeline import Transform
from pdl.data.randomness import SampleRandom
from pdl.data.transforms._args import Probability, around_one, number, span, symmetric
from pdl.data.transforms.pixels import with_channels
from pdl.errors import ConfigError, UsageError
from pdl.runtime.images import stretched

_VALUES = np.arange(256, dtype=np.float64)


def need_uint8(owner: str, image: np.ndarray) -> None:
    """Raise UsageError unless the image is uint8."""
    if image.dtype != np.uint8:
        raise UsageError(f"{owner}: works on uint8 images, got {image.dtype}; put it before ToFloat and Normalize")


def lookup(image: np.ndarray, values: np.ndarray) -> np.ndarray:
    """values[image], the values (float [256]) rounded and clipped to 0..255."""
    table = np.clip(np.rint(values), 0, 255).astype(np.uint8)
    return with_channels(cv2.LUT(image, table))


def gray(image: np.ndarray) -> np.ndarray:
    """The brightness of the image: [H, W]."""
    return cv2.cvtColor(image, cv2.COLOR_RGB2GRAY) if image.shape[2] == 3 else image[:, :, 0]


def brightness(image: np.ndarray, factor: float) -> np.ndarray:
    """factor * x."""
    return lookup(image, factor * _VALUES)


def contrast(image: np.ndarray, factor: float) -> np.ndarray:
    """factor * x + (1 - factor) * mean(gray(x))."""
    mean = float(cv2.mean(gray(image))[0])
    return lookup(image, factor * _VALUES + (1 - factor) * mean)


def saturation(image: np.ndarray, factor: float) -> np.ndarray:
    """factor * x + (1 - factor) * gray(x); a gray image stays as it is."""
    if image.shape[2] == 1:
        return image
    pale = cv2.cvtColor(gray(image), cv2.COLOR_GRAY2RGB)
    return cv2.addWeighted(image, factor, pale, 1 - factor, 0)


def hue(image: np.ndarray, shift: float) -> np.ndarray:
    """Turn the hue by `shift` of a full circle, in HSV; a gray image stays as it is."""
    if image.shape[2] == 1 or shift == 0:
        return image
    hsv = cv2.cvtColor(image, cv2.COLOR_RGB2HSV_FULL)
    hsv[:, :, 0] += np.uint8(round(shift * 256) % 256)  # wraps around, as hue does
    return cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB_FULL)


def sharpness(image: np.ndarray, factor: float) -> np.ndarray:
    """factor * x + (1 - factor) * smooth(x), smooth = [[1,1,1],[1,5,1],[1,1,1]] / 13; the border pixels stay."""
    if min(image.shape[:2]) < 3:
        return image
    kernel = np.array([[1, 1, 1], [1, 5, 1], [1, 1, 1]], np.float32) / 13
    out = image.copy()
    inner = with_channels(cv2.filter2D(image, -1, kernel))[1:-1, 1:-1]
    out[1:-1, 1:-1] = with_channels(cv2.addWeighted(np.ascontiguousarray(image[1:-1, 1:-1]), factor,
                                                    np.ascontiguousarray(inner), 1 - factor, 0))
    return out


@dataclass(frozen=True)
class ColorJitter(Transform):
    """Change brightness, contrast, saturation and hue by random amounts, in random order.

    brightness, contrast, saturation  a number v for a factor in (max(0, 1-v), 1+v), or (from, to)
    hue                               a number v in [0, 0.5] for a shift in (-v, v) of the circle, or (from, to)
    """

    brightness: float | Sequence[float] = 0
    contrast: float | Sequence[float] = 0
    saturation: float | Sequence[float] = 0
    hue: float | Sequence[float] = 0

    def __post_init__(self) -> None:
        owner = "ColorJitter"
        self._set(brightness=around_one(owner, "brightness", self.brightness),
                  contrast=around_one(owner, "contrast", self.contrast),
                  saturation=around_one(owner, "saturation", self.saturation),
                  hue=symmetric(owner, "hue", self.hue, 0.5))

    def image(self, image: np.ndarray, rng: SampleRandom) -> np.ndarray:
        need_uint8("ColorJitter", image)
        steps: list[tuple[Callable[[np.ndarray, float], np.ndarray], Any, float]] = [
            (brightness, self.brightness, 1.0), (contrast, self.contrast, 1.0),
            (saturation, self.saturation, 1.0), (hue, self.hue, 0.0)]
        for at in rng.permutation(len(steps)):
            function, extent, neutral = steps[at]
            amount = rng.uniform(*extent)
            if amount != neutral:
                image = function(image, amount)
        return image


@dataclass(frozen=True)
class RandomGamma(Transform):
    """y = 255 (x / 255)^g, g random, its logarithm uniform: below 1 lifts the dark parts, above 1 lowers them.

    gamma  (from, to)
    """

    gamma: Sequence[float] = (0.7, 1.4)

    def __post_init__(self) -> None:
        self._set(gamma=span("RandomGamma", "gamma", self.gamma, 0, above=True))

    def image(self, image: np.ndarray, rng: SampleRandom) -> np.ndarray:
        need_uint8("RandomGamma", image)
        exponent = np.exp(rng.uniform(*np.log(self.gamma)))
        return lookup(image, 255 * (_VALUES / 255) ** exponent)


@dataclass(frozen=True)
class AutoContrast(Transform):
    """Stretch the values of an image, so that they reach from 0 to 255: see `pdl.runtime.images.stretched`. It is for
    training and evaluation alike, and in bundles. Comes first, as it enlarges differences of a grey level, too.

    low, high  shares of the pixels that become 0 and 255 at most
    each       every channel by itself, which takes out the colour of the light, too
    """

    low: float = 0.0
    high: float = 0.0
    each: bool = False

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            self._set(**{name: number("AutoContrast", name, getattr(self, name), 0, 0.49)})

    def deployed(self) -> list[dict[str, Any]]:
        return [{"step": "auto_contrast", "low": self.low, "high": self.high, "each": self.each}]

    def image(self, image: np.ndarray, rng: SampleRandom) -> np.ndarray:
        need_uint8("AutoContrast", image)
        return stretched(image, self.low, self.high, each=self.each)


@dataclass(frozen=True)
class Grayscale(Transform):
    """To gray; `channels` 1 gives [H, W, 1], 3 repeats it to [H, W, 3]."""

    channels: Literal[1, 3] = 1

    def __post_init__(self) -> None:
        if self.channels not in (1, 3):
            raise ConfigError(f"Grayscale: channels={self.channels!r} must be 1 or 3")

    def deployed(self) -> list[dict[str, Any]]:
        return [{"step": "gray", "channels": self.channels}]

    def image(self, image: np.ndarray, rng: SampleRandom) -> np.ndarray:
        return np.repeat(gray(image)[:, :, None], self.channels, axis=2)


@dataclass(frozen=True)
class RandomGrayscale(Transform):
    """To gray with probability p; the number of channels stays."""

    p: Probability = 0.1

    def __post_init__(self) -> None:
        number("RandomGrayscale", "p", self.p, 0, 1)

    def image(self, image: np.ndarray, rng: SampleRandom) -> np.ndarray:
        if not rng.chance(self.p) or image.shape[2] == 1:
            return image
        return np.repeat(gray(image)[:, :, None], image.shape[2], axis=2)


@dataclass(frozen=True)
class GaussianBlur(Transform):
    """Blur with a Gaussian of `kernel` x `kernel` taps (odd) and a standard deviation uniform in `sigma`, in pixels."""

    kernel: int = 3
    sigma: Sequence[float] = (0.1, 2.0)

    def __post_init__(self) -> None:
        if not isinstance(self.kernel, int) or self.kernel < 1 or self.kernel % 2 == 0:
            raise ConfigError(f"GaussianBlur: kernel={self.kernel!r} must be an odd number of at least 1")
        self._set(sigma=span("GaussianBlur", "sigma", self.sigma, 0, above=True))

    def image(self, image: np.ndarray, rng: SampleRandom) -> np.ndarray:
        return with_channels(cv2.GaussianBlur(image, (self.kernel, self.kernel), rng.uniform(*self.sigma)))
