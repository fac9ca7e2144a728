"""What happens to lines of text between paper and pixels, as transforms of images, for training."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated

import cv2
import numpy as np

from pdl.data.pipeline import Transform
from pdl.data.randomness import SampleRandom
from pdl.errors import ConfigError
from pdl.hints import Range

Probability = Annotated[float, Range(0, 1)]
KEPT = 1 << 18  # normal numbers that are drawn once: drawing them anew takes as long as a letter does


@lru_cache(maxsize=1)
def _kept() -> np.ndarray:
    made = np.random.Generator(np.random.Philox(key=0)).standard_normal(KEPT, np.float32)
    made.flags.writeable = False
    return made


def _normal(count: int, rng: SampleRandom) -> np.ndarray:
    """float32 [count] of normal numbers: a piece of the `KEPT` ones, at random; for large images new ones."""
    if count > KEPT // 2:
        return rng.generator().standard_normal(count, np.float32)
    begin = rng.integers(0, KEPT - count + 1)
    return _kept()[begin : begin + count]


@dataclass(frozen=True)
class _Sometimes(Transform):
    """A distortion of an image uint8 [H, W, C], applied with probability `p`."""

    p: Probability = 0.5

    def __post_init__(self) -> None:
        if not 0 <= self.p <= 1:
            raise ConfigError(f"{type(self).__name__}: p={self.p!r} must be from 0 to 1")

    def image(self, image: np.ndarray, rng: SampleRandom) -> np.ndarray:
        if not rng.chance(self.p):
            return image
        made = self.distorted(image, rng)
        return made[:, :, None] if made.ndim == 2 else made

    def distorted(self, image: np.ndarray, rng: SampleRandom) -> np.ndarray:
        """The image, distorted."""
        raise NotImplementedError


@dataclass(frozen=True)
class LinePerspective(_Sometimes):
    """Seen from the side: the corners move by up to `amount` times the height, the edges are continued."""

    amount: Annotated[float, Range(0, 1)] = 0.2

    def distorted(self, image: np.ndarray, rng: SampleRandom) -> np.ndarray:
        height, width = image.shape[:2]
        corners = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float32)
        moves = np.array([rng.uniform(-1, 1) for _ in range(8)], np.float32).reshape(4, 2)
        moved = corners + moves * self.amount * height
        matrix = cv2.getPerspectiveTransform(corners, moved.astype(np.float32))
        found: np.ndarray = cv2.warpPerspective(
            image, matrix, (width, height), flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE
        )
        return found


@dataclass(frozen=True)
class Tilted(_Sometimes):
    """A line that climbs or falls by up to `degrees`, in the upright box around it, as boxes of photographs are: the
    image grows higher; its edges are continued."""

    degrees: Annotated[float, Range(0, 45)] = 15.0

    def distorted(self, image: np.ndarray, rng: SampleRandom) -> np.ndarray:
        height, width = image.shape[:2]
        angle = math.radians(self.degrees * rng.uniform(-1, 1))
        across, up = math.cos(angle), math.sin(angle)
        size = round(width * across + height * abs(up)), round(height * across + width * abs(up))
        x, y = (width - 1) / 2, (height - 1) / 2
        u, v = (size[0] - 1) / 2, (size[1] - 1) / 2
        matrix = np.array([[across, up, u - across * x - up * y], [-up, across, v + up * x - across * y]])
        found: np.ndarray = cv2.warpAffine(image, matrix, size, borderMode=cv2.BORDER_REPLICATE)
        return found


@dataclass(frozen=True)
class Neighbours(_Sometimes):
    """Parts of lines around this one, where a box is too large or lines are close: above the feet and below the heads
    of letters, of up to `amount` of the height. They are the line's own, moved along it, so that they look alike."""

    amount: Annotated[float, Range(0, below=1)] = 0.35

    def distorted(self, image: np.ndarray, rng: SampleRandom) -> np.ndarray:
        height, width = image.shape[:2]
        above, below = (round(height * self.amount * rng.uniform(0.3, 1)) * rng.chance(0.6) for _ in range(2))
        parts = [
            np.roll(image[height - above :], rng.integers(0, width), axis=1),
            image,
            np.roll(image[:below], rng.integers(0, width), axis=1),
        ]
        return np.concatenate(parts)


@dataclass(frozen=True)
class Bolder(_Sometimes):
    """Letters written with a brush of up to `pixels` more. Ink is what there is less of, dark or bright."""

    pixels: Annotated[int, Range(2)] = 3

    def distorted(self, image: np.ndarray, rng: SampleRandom) -> np.ndarray:
        brush = np.ones([rng.integers(2, self.pixels + 1) for _ in range(2)], np.uint8)
        dark = image.mean() < np.median(image)
        return np.asarray((cv2.erode if dark else cv2.dilate)(image, brush))


@dataclass(frozen=True)
class Contrast(_Sometimes):
    """Paler, darker or brighter: grey levels are drawn together to as little as `least` of their range, about any level
    that keeps them between black and white."""

    least: Annotated[float, Range(above=0, high=1)] = 0.35

    def distorted(self, image: np.ndarray, rng: SampleRandom) -> np.ndarray:
        share = rng.uniform(self.least, 1)
        return np.asarray(cv2.convertScaleAbs(image, alpha=share, beta=255 * (1 - share) * rng.uniform(0, 1)))


@dataclass(frozen=True)
class Curvature(_Sometimes):
    """Bent along a wave: a column moves up or down by up to `amount` times the height; the edges are continued."""

    amount: Annotated[float, Range(0, 1)] = 0.15

    def distorted(self, image: np.ndarray, rng: SampleRandom) -> np.ndarray:
        height, width = image.shape[:2]
        waves, phase = rng.uniform(0.3, 1.0), rng.uniform(0, 2 * math.pi)
        across = np.arange(width, dtype=np.float32)
        shift = self.amount * height * rng.uniform(0.3, 1) * np.sin(2 * math.pi * waves * across / width + phase)
        x = np.broadcast_to(across, (height, width)).astype(np.float32)
        y = (np.arange(height, dtype=np.float32)[:, None] + shift - shift.mean()).astype(np.float32)
        found: np.ndarray = cv2.remap(image, x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
        return found


@dataclass(frozen=True)
class Stretch(_Sometimes):
    """Letters of unlike width: thirds of the line stretched and squeezed by up to `amount` (as in Luo et al., Learn to
    augment, CVPR 2020, without the learning)."""

    amount: Annotated[float, Range(0, below=1)] = 0.3

    def distorted(self, image: np.ndarray, rng: SampleRandom) -> np.ndarray:
        height, width = image.shape[:2]
        shares = np.array([1 + self.amount * rng.uniform(-1, 1) for _ in range(3)])
        borders = np.concatenate([[0], np.cumsum(shares / shares.sum())]) * (width - 1)
        source = np.interp(np.arange(width), borders, np.linspace(0, width - 1, 4)).astype(np.float32)
        x = np.broadcast_to(source, (height, width)).astype(np.float32)
        y = np.broadcast_to(np.arange(height, dtype=np.float32)[:, None], (height, width)).astype(np.float32)
        found: np.ndarray = cv2.remap(image, x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
        return found


@dataclass(frozen=True)
class MotionBlur(_Sometimes):
    """Moved while the picture was taken: the mean along a line of up to `length` pixels at any angle."""

    length: Annotated[int, Range(3)] = 5

    def distorted(self, image: np.ndarray, rng: SampleRandom) -> np.ndarray:
        size = rng.integers(3, self.length + 1) | 1
        angle, middle = rng.uniform(0, math.pi), size // 2
        kernel = np.zeros((size, size), np.float32)
        reach = (round(middle * math.cos(angle)), round(middle * math.sin(angle)))
        cv2.line(kernel, (middle - reach[0], middle - reach[1]), (middle + reach[0], middle + reach[1]), 1.0)
        found: np.ndarray = cv2.filter2D(image, -1, kernel / kernel.sum(), borderType=cv2.BORDER_REPLICATE)
        return found


@dataclass(frozen=True)
class GaussianNoise(_Sometimes):
    """Noise of a camera: normal, of a standard deviation of up to `std` grey levels, alike in all channels or not."""

    std: Annotated[float, Range(above=0)] = 15.0

    def distorted(self, image: np.ndarray, rng: SampleRandom) -> np.ndarray:
        height, width, channels = image.shape
        planes = channels if rng.chance(0.5) else 1
        noise = _normal(height * width * planes, rng).reshape(height, width, planes)
        noise = noise * np.float32(self.std * rng.uniform(0.2, 1))
        noise = cv2.merge([noise] * channels) if planes < channels else noise
        return np.asarray(cv2.add(image, noise.reshape(image.shape), dtype=cv2.CV_8U))


@dataclass(frozen=True)
class Shadow(_Sometimes):
    """A shadow or a lamp: brightness changes along a line through the image by up to `amount`."""

    amount: Annotated[float, Range(0, 1)] = 0.5

    def distorted(self, image: np.ndarray, rng: SampleRandom) -> np.ndarray:
        height, width = image.shape[:2]
        angle, middle = rng.uniform(0, 2 * math.pi), rng.uniform(0.2, 0.8)
        steep, depth = rng.uniform(4, 40), rng.uniform(0, self.amount)
        x = steep * math.cos(angle) * (np.arange(width, dtype=np.float32) / width - middle)
        y = steep * math.sin(angle) * (np.arange(height, dtype=np.float32)[:, None] / height - 0.5)
        factor = (1 - depth / (1 + np.exp(-(x + y)))).astype(np.float32)
        factors = factor if image.shape[2] == 1 else cv2.merge([factor] * image.shape[2])
        return np.asarray(cv2.multiply(image, factors.reshape(image.shape), dtype=cv2.CV_8U))


@dataclass(frozen=True)
class LowResolution(_Sometimes):
    """Shrunk to as little as `least` of its size, and enlarged again."""

    least: Annotated[float, Range(above=0, high=1)] = 0.35

    def distorted(self, image: np.ndarray, rng: SampleRandom) -> np.ndarray:
        height, width = image.shape[:2]
        share = rng.uniform(self.least, 1)
        small = (max(4, round(width * share)), max(4, round(height * share)))
        found: np.ndarray = cv2.resize(
            cv2.resize(image, small, interpolation=cv2.INTER_AREA), (width, height), interpolation=cv2.INTER_LINEAR
        )
        return found


@dataclass(frozen=True)
class JPEGCompression(_Sometimes):
    """Stored as JPEG with a quality of `quality` or more, up to 95."""

    quality: Annotated[int, Range(1, 95)] = 20

    def distorted(self, image: np.ndarray, rng: SampleRandom) -> np.ndarray:
        _, data = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, rng.integers(self.quality, 96)])
        return np.asarray(cv2.imdecode(data, cv2.IMREAD_UNCHANGED))


@dataclass(frozen=True)
class Inverted(_Sometimes):
    """Light and dark exchanged."""

    def distorted(self, image: np.ndarray, rng: SampleRandom) -> np.ndarray:
        return 255 - image
