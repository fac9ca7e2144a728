"""Fields of brightness without any file: noise of a band of wavelengths, and stains."""

from __future__ import annotations

import math
from functools import lru_cache

import cv2
import numpy as np

from pdl.data.randomness import SampleRandom

KEPT = 1 << 18  # normal numbers that are drawn once: drawing them anew takes as long as a letter does
SPOTS = 512  # pixels of the longer side at which stains are drawn before they are enlarged


@lru_cache(maxsize=1)
def _kept() -> np.ndarray:
    made = np.random.Generator(np.random.Philox(key=0)).standard_normal(KEPT, np.float32)
    made.flags.writeable = False
    return made


def normal(count: int, rng: SampleRandom) -> np.ndarray:
    """float32 [count] of normal numbers: a piece of the `KEPT` ones, at random; for large images new ones."""
    if count > KEPT // 2:
        return rng.generator().standard_normal(count, np.float32)
    begin = rng.integers(0, KEPT - count + 1)
    return _kept()[begin : begin + count]


def fractal(height: int, width: int, rng: SampleRandom, *, coarse: float, fine: float) -> np.ndarray:
    """float32 [height, width] from 0 to 1: noise of wavelengths from `coarse` down to `fine` pixels, an octave each
    with half of the amplitude of the one before (fractional Brownian motion of Hurst exponent 1)."""
    amplitude = 1.0
    field: np.ndarray = np.zeros((1, 1), np.float32)
    for octave in range(1 + max(0, int(math.log2(max(1.0, coarse / fine))))):
        cell = coarse / 2**octave
        rows, columns = (max(2, 1 + math.ceil(side / cell)) for side in (height, width))
        field = cv2.resize(field, (columns, rows), interpolation=cv2.INTER_LINEAR)
        field = field + np.float32(amplitude) * normal(rows * columns, rng).reshape(rows, columns)
        amplitude /= 2
    field = cv2.resize(field, (width, height), interpolation=cv2.INTER_LINEAR)
    low, high = float(field.min()), float(field.max())
    return np.asarray((field - low) * np.float32(1 / max(high - low, 1e-6)))


def stains(height: int, width: int, rng: SampleRandom, *, most: int = 3) -> np.ndarray:
    """float32 [height, width, 3] from 0 to 1: how much light blots of coffee, ink or damp take away, at most, of each
    channel. They are round, ragged, and darker along the rim, where what dries is carried to."""
    scale = min(1.0, SPOTS / max(height, width))
    size = max(2, round(height * scale)), max(2, round(width * scale))
    rows, columns = (np.arange(side, dtype=np.float32) for side in size)
    taken = np.zeros((*size, 3), np.float32)
    for _ in range(rng.integers(1, most + 1)):
        radius = rng.uniform(0.1, 0.5) * min(max(size), 3 * min(size))
        away: np.ndarray = np.hypot(
            rows[:, None] - rng.uniform(0, size[0]), columns - rng.uniform(0, size[1])
        ) / np.float32(radius)
        away += np.float32(0.3) * (fractal(*size, rng, coarse=radius / 2, fine=max(2.0, radius / 16)) - np.float32(0.5))
        inside = np.clip((1 - away) * np.float32(rng.uniform(5, 25)), 0, 1)
        rim = np.exp(-np.square((1 - away) * np.float32(rng.uniform(8, 20))))
        colour = np.array([rng.uniform(0.2, 1), rng.uniform(0.4, 1), rng.uniform(0.6, 1)], np.float32)
        spot = inside * (np.float32(rng.uniform(0.3, 0.8)) + rim * np.float32(rng.uniform(0, 0.6)))
        np.maximum(taken, np.minimum(spot, 1)[:, :, None] * colour, out=taken)
    return np.asarray(cv2.resize(taken, (width, height), interpolation=cv2.INTER_LINEAR))
