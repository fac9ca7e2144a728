"""What happens to text between paper and pixels, as transforms of images, for training. On pages, `points` go with the
pixels, and where straight edges bend, polygons get more corners. Text is never moved out of the image: it grows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any

import cv2
import numpy as np

from pdl.data.dataset import Sample
from pdl.data.pipeline import ANNOTATIONS, Transform
from pdl.data.randomness import SampleRandom
from pdl.data.transforms.annotations import moved
from pdl.data.transforms.motion import STILL, Motion
from pdl.data.transforms.pixels import placed, with_channels
from pdl.errors import ConfigError, UsageError
from pdl.hints import Range
from pdl_ocr.data.motions import Remapped, Warped
from pdl_ocr.data.polygons import denser
from pdl_ocr.data.textures import fractal, normal, stains

Probability = Annotated[float, Range(0, 1)]
CONVEX = 0.3  # of a side by which a corner may move: from a third on, a quadrilateral may be concave


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
class _Moving(_Sometimes):
    """A distortion that moves pixels, by a motion that is drawn. `fill` is the value, 0 to 255, of what comes from
    outside of the image; None: its edges are continued, which suits lines with paper around them."""

    fill: Annotated[float, Range(0, 255)] | None = None

    def __call__(self, sample: Sample, rng: SampleRandom) -> Sample:
        shape = sample["image"].shape
        motion = self.motion(shape, rng) if rng.chance(self.p) else STILL
        if not isinstance(motion, Remapped):
            return moved(sample, motion, owner=type(self).__name__)
        if wrong := sorted(ANNOTATIONS & sample.keys() - {"points"}):
            owner = type(self).__name__
            raise UsageError(f"{owner} bends images, and {wrong[0]} cannot follow; it is for lines and pages")
        found = {**sample, "image": motion.image(sample["image"])}
        if "points" in sample:
            points, corners = denser(sample["points"], sample.get("corners"), shape[1])
            more = {} if corners is None else {"corners": corners}
            found |= {"points": np.asarray(motion.points(points.astype(np.float64)), np.float32), **more}
        return found

    def distorted(self, image: np.ndarray, rng: SampleRandom) -> np.ndarray:
        return self.motion(image.shape, rng).image(image)

    def motion(self, shape: tuple[int, ...], rng: SampleRandom) -> Motion:
        """What happens to an image of shape [H, W, C]."""
        raise NotImplementedError


@dataclass(frozen=True)
class LinePerspective(_Moving):
    """Seen from the side: each corner moves by up to `amount` times the height, and never more than 0.3 of a side; the
    image grows to hold all of it."""

    amount: Annotated[float, Range(0, 1)] = 0.2

    def motion(self, shape: tuple[int, ...], rng: SampleRandom) -> Motion:
        height, width = shape[:2]
        corners = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float32)
        moves = np.array([rng.uniform(-1, 1) for _ in range(8)], np.float32).reshape(4, 2) * self.amount * height
        most = np.array([CONVEX * width, CONVEX * height], np.float32)
        seen = corners + np.clip(moves, -most, most)
        seen -= np.floor(seen.min(axis=0))
        matrix = cv2.getPerspectiveTransform(corners, seen.astype(np.float32))
        right, bottom = np.ceil(seen.max(axis=0)).astype(int).tolist()
        return Warped(matrix, (bottom, right), self.fill)


@dataclass(frozen=True)
class Tilted(_Moving):
    """A line that climbs or falls by up to `degrees`, in the upright box around it, as boxes of photographs are: the
    image grows."""

    degrees: Annotated[float, Range(0, 45)] = 15.0

    def motion(self, shape: tuple[int, ...], rng: SampleRandom) -> Motion:
        height, width = shape[:2]
        angle = math.radians(self.degrees * rng.uniform(-1, 1))
        across, up = math.cos(angle), math.sin(angle)
        size = math.ceil(height * across + width * abs(up)), math.ceil(width * across + height * abs(up))
        turned = np.array([[across, up, 0.0], [-up, across, 0.0], [0.0, 0.0, 1.0]])
        centred = placed(1, 1, size[1] / 2, size[0] / 2) @ turned @ placed(1, 1, -width / 2, -height / 2)
        return Warped(centred, size, self.fill)


@dataclass(frozen=True)
class Neighbours(_Sometimes):
    """Parts of lines around this one, where a box is too large or lines are close: above the feet and below the heads
    of letters, of up to `amount` of the height. They are the line's own, moved along it, so that they look alike. Not
    for pages, where they would be in no label."""

    amount: Annotated[float, Range(0, below=1)] = 0.35

    def __call__(self, sample: Sample, rng: SampleRandom) -> Sample:
        if "points" in sample:
            raise UsageError("Neighbours adds text that no label has; it is for lines, not for pages")
        return super().__call__(sample, rng)

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
class Curvature(_Moving):
    """Bent along a wave: a column moves up or down by up to `amount` times the height; the image grows to hold it."""

    amount: Annotated[float, Range(0, 1)] = 0.15

    def motion(self, shape: tuple[int, ...], rng: SampleRandom) -> Motion:
        height, width = shape[:2]
        waves, phase = rng.uniform(0.3, 1.0), rng.uniform(0, 2 * math.pi)
        strength = self.amount * height * rng.uniform(0.3, 1)
        pixels = np.arange(width, dtype=np.float32)

        def up(x: np.ndarray) -> Any:
            return strength * np.sin(2 * math.pi * waves * x / width + phase)

        shift = up(pixels)
        first, last = float(shift.max()), float(shift.min())

        def points(given: np.ndarray) -> np.ndarray:
            return np.stack([given[:, 0], given[:, 1] + first - up(given[:, 0] - 0.5)], axis=1)

        return Remapped(pixels, shift - first, (height + math.ceil(first - last), width), points, self.fill)


@dataclass(frozen=True)
class Stretch(_Moving):
    """Letters of unlike width: thirds of the line stretched and squeezed by up to `amount` (as in Luo et al., Learn to
    augment, CVPR 2020, without the learning)."""

    amount: Annotated[float, Range(0, below=1)] = 0.3

    def motion(self, shape: tuple[int, ...], rng: SampleRandom) -> Motion:
        height, width = shape[:2]
        shares = np.array([1 + self.amount * rng.uniform(-1, 1) for _ in range(3)])
        borders = np.concatenate([[0], np.cumsum(shares / shares.sum())]) * (width - 1)
        thirds = np.linspace(0, width - 1, 4)
        source = np.interp(np.arange(width), borders, thirds)

        def points(given: np.ndarray) -> np.ndarray:
            inside = np.interp(given[:, 0] - 0.5, thirds, borders) + 0.5
            beyond = given[:, 0] - np.clip(given[:, 0], 0.5, width - 0.5)
            return np.stack([inside + beyond, given[:, 1]], axis=1)

        return Remapped(source, np.zeros(width), (height, width), points, self.fill)


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
        noise = normal(height * width * planes, rng).reshape(height, width, planes)
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
        return _lit(image, factor)


@dataclass(frozen=True)
class Texture(_Sometimes):
    """Paper, cloth or a wall behind the text: noise of wavelengths from `coarse` (times the height) down to 2 pixels
    takes away up to `amount` of the light. As it does so from ink and paper alike, their ratio stays."""

    amount: Annotated[float, Range(0, 1)] = 0.35
    coarse: Annotated[float, Range(above=0)] = 2.0

    def distorted(self, image: np.ndarray, rng: SampleRandom) -> np.ndarray:
        height, width = image.shape[:2]
        longest = max(2.0, self.coarse * height * rng.uniform(0.05, 1))
        noise = fractal(height, width, rng, coarse=longest, fine=rng.uniform(2, 8))
        return _lit(image, 1 - noise * np.float32(self.amount * rng.uniform(0.2, 1)))


@dataclass(frozen=True)
class Stains(_Sometimes):
    """Coffee, ink or damp: one to three ragged blots, darker along the rim, take away up to `amount` of the light."""

    amount: Annotated[float, Range(0, 1)] = 0.5

    def distorted(self, image: np.ndarray, rng: SampleRandom) -> np.ndarray:
        taken = stains(image.shape[0], image.shape[1], rng) * np.float32(self.amount * rng.uniform(0.3, 1))
        return _lit(image, 1 - (taken if image.shape[2] == 3 else taken.mean(axis=2)))


@dataclass(frozen=True)
class Faded(_Sometimes):
    """Print that has lost ink in places, as of worn ribbons and thermal paper: up to `amount` of the way to the paper,
    which is taken to be what strokes of up to `pixels` are surrounded by. Ink is what there is less of."""

    amount: Annotated[float, Range(0, below=1)] = 0.7
    pixels: Annotated[int, Range(3)] = 9

    def distorted(self, image: np.ndarray, rng: SampleRandom) -> np.ndarray:
        height, width = image.shape[:2]
        kind = cv2.MORPH_CLOSE if image.mean() < np.median(image) else cv2.MORPH_OPEN
        paper = with_channels(cv2.morphologyEx(image, kind, np.ones((self.pixels, self.pixels), np.uint8)))
        coarse = rng.uniform(0.3, 3) * min(height, width)
        lost = fractal(height, width, rng, coarse=coarse, fine=2) * np.float32(self.amount * rng.uniform(0.3, 1))
        return np.asarray(cv2.convertScaleAbs(image + (paper.astype(np.float32) - image) * lost[:, :, None]))


@dataclass(frozen=True)
class Specks(_Sometimes):
    """Dirt and drop-outs: up to `share` of the pixels become black or white, alone or with three neighbours."""

    share: Annotated[float, Range(above=0, high=1)] = 0.01

    def distorted(self, image: np.ndarray, rng: SampleRandom) -> np.ndarray:
        height, width = image.shape[:2]
        made, draws = image.copy(), rng.generator()
        for size in (1, 2):
            count = max(1, round(height * width * self.share * rng.uniform(0, 1) / (2 * size * size)))
            rows, columns = draws.integers(0, height, count), draws.integers(0, width, count)
            values = (draws.integers(0, 2, count) * 255).astype(np.uint8)[:, None]
            for down in range(size):
                for right in range(size):
                    made[np.minimum(rows + down, height - 1), np.minimum(columns + right, width - 1)] = values
        return made


@dataclass(frozen=True)
class ShowThrough(_Sometimes):
    """The other side of thin paper: the image itself, mirrored and blurred, takes away up to `amount` of the light."""

    amount: Annotated[float, Range(0, 1)] = 0.25

    def distorted(self, image: np.ndarray, rng: SampleRandom) -> np.ndarray:
        behind = np.roll(image[:, ::-1], [rng.integers(0, side) for side in image.shape[:2]], axis=(0, 1))
        behind = with_channels(cv2.GaussianBlur(np.ascontiguousarray(behind), (0, 0), rng.uniform(0.7, 2)))
        depth = np.float32(self.amount * rng.uniform(0.2, 1))
        return _lit(image, 1 - depth + depth / np.float32(max(1, int(behind.max()))) * behind)


def _lit(image: np.ndarray, light: np.ndarray) -> np.ndarray:
    """uint8 of an image uint8 [H, W, C] times light float32 [H, W] or [H, W, C]."""
    factors = light if light.ndim == 3 or image.shape[2] == 1 else cv2.merge([light] * image.shape[2])
    return np.asarray(cv2.multiply(image, np.asarray(factors, np.float32).reshape(image.shape), dtype=cv2.CV_8U))


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
