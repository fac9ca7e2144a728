"""Rooms in which somebody speaks: impulse responses of empty boxes by the image method (J. B. Allen and D. A. Berkley,
J. Acoust. Soc. Am. 65, 1979), and noise of a colour."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from pdl.data.randomness import SampleRandom
from pdl_speech.audio.resample import resample

SPEED = 343.0  # of sound in air, m/s
MOST_T60 = 2.0  # seconds: images grow with the third power
FINE = 8  # points of a sample on which echoes are put before the response is brought to its rate
HIGH_PASS = 100.0  # Hz
LOWEST = 20.0  # Hz, below which coloured noise is white: otherwise inaudible frequencies would have all its power
SIZES = ((3.0, 10.0), (2.5, 8.0), (2.4, 4.0))  # of rooms that are drawn, in metres
NEAREST, WALL = 0.5, 0.3  # metres between source and microphone, and between these and the walls
Point = tuple[float, float, float]

COLOURS = {"white": 0.0, "pink": 1.0, "brown": 2.0}
"""Exponents a of noise whose power falls with frequency as 1 / f^a."""


def reflection(room: Point, t60: float) -> float:
    """The share of the pressure that the walls of a room reflect, by Eyring's formula (C. F. Eyring, 1930):
    T60 = 24 ln 10 V / (-c S ln(1 - a)), of which it is sqrt(1 - a)."""
    x, y, z = room
    return math.exp(-12 * math.log(10) * x * y * z / (SPEED * 2 * (x * y + y * z + z * x) * t60))


def response(room: Point, source: Point, microphone: Point, reflects: float, seconds: float, rate: int) -> np.ndarray:
    """The impulse response float32 [seconds rate] of an empty box with corners 0 and `room` (metres): the sum over the
    images of the source of reflects^(number of reflections) / (4 pi distance), from the time of the direct sound on.

    Echoes come at their time, not at that of the nearest sample (as P. M. Peterson, 1986, has it): they are put on a
    grid of `FINE` points a sample, linearly, and low-passed by `resample`.
    """
    direct = math.dist(source, microphone)
    reach = direct + SPEED * seconds
    axes = [_images(*each, reach) for each in zip(room, source, microphone, strict=True)]
    count = max(1, round(seconds * rate))
    fine: np.ndarray = np.zeros(count * FINE + 1)
    (x, x_order), (y, y_order), (z, z_order) = axes
    square = np.add.outer(y * y, z * z).ravel()
    order = np.add.outer(y_order, z_order).ravel()
    inside = square < reach * reach
    square, order = square[inside], order[inside]
    power = float(reflects) ** np.arange(int(x_order.max() + order.max()) + 1)
    for at, reflections in zip(x, x_order, strict=True):
        distance = np.sqrt(square + at * at)
        time = (distance - direct) * (rate * FINE / SPEED)
        point = time.astype(np.int64)
        heard = point < count * FINE
        distance, time, point = distance[heard], time[heard], point[heard]
        echo = power[order[heard] + reflections] / (4 * math.pi * distance)
        late = np.maximum(time - point, 0)
        for k, weight in ((0, 1 - late), (1, late)):
            fine += np.bincount(point + k, echo * weight, len(fine))
    return resample(fine * FINE, FINE * rate, rate)[:count].astype(np.float32)


def _images(side: float, source: float, microphone: float, reach: float) -> tuple[np.ndarray, np.ndarray]:
    """Of the images of a source along one axis, within `reach`: how far they are from the microphone, and how often
    their sound was reflected."""
    most = math.ceil(reach / (2 * side)) + 1
    n = np.arange(-most, most + 1)
    at = np.concatenate([(1 - 2 * p) * source + 2 * n * side - microphone for p in (0, 1)])
    order = np.concatenate([abs(n - p) + abs(n) for p in (0, 1)])
    near = abs(at) < reach
    return at[near], order[near]


@lru_cache(maxsize=512)
def drawn(number: int, t60: tuple[float, float], rate: int, seed: int) -> np.ndarray:
    """The response of room `number`: a function of its arguments. Size, places of source and microphone and T60, as
    measured, within a tenth, are uniform; it lasts as long as T60."""
    rng = SampleRandom(seed, 0, number)
    x, y, z = (rng.uniform(*each) for each in SIZES)
    room = x, y, z
    source = microphone = 0.0, 0.0, 0.0
    while math.dist(source, microphone) < NEAREST:
        source, microphone = (
            (rng.uniform(WALL, x - WALL), rng.uniform(WALL, y - WALL), rng.uniform(WALL, z - WALL)) for _ in range(2)
        )
    wanted = rng.uniform(*t60)
    share = wanted
    for _ in range(2):  # boxes echo longer than by Eyring's formula, where sound comes from everywhere: corrected once
        made = high_passed(response(room, source, microphone, reflection(room, share), wanted, rate), rate)
        share *= wanted / measured_t60(made, rate)
    made.flags.writeable = False
    return made


def high_passed(h: np.ndarray, rate: int) -> np.ndarray:
    """h [T] through the filter of Allen and Berkley's appendix: echoes of one sign add up to a pressure that stays,
    which no microphone has. (1 - 1/z) (1 - r/z) / (1 - 2 r cos(w) / z + r^2 / z^2), w of 100 Hz, r = exp(-w)."""
    size = fast(len(h) + rate // 10)
    w = 2 * math.pi * HIGH_PASS / rate
    r = math.exp(-w)
    z = np.exp(-2j * math.pi * np.fft.rfftfreq(size))
    filtered = np.fft.rfft(h, size) * (1 - z) * (1 - r * z) / (1 - 2 * r * math.cos(w) * z + r * r * z * z)
    made: np.ndarray = np.fft.irfft(filtered, size)[: len(h)]
    return made.astype(np.float32)


def measured_t60(h: np.ndarray, rate: int) -> float:
    """Seconds in which the sound of a response h [T] falls by 60 dB: three times those from -5 to -25 dB of the energy
    still to come (M. R. Schroeder, 1965; T20 of ISO 3382-2)."""
    left = np.cumsum(np.square(h[::-1], dtype=np.float64))[::-1]
    first, last = (int(np.searchsorted(-left, -left[0] * 10 ** (db / 10))) for db in (-5, -25))
    return 3 * max(1, last - first) / rate


# -- signals -----------------------------------------------------------------------------------------------------------
def convolved(x: np.ndarray, h: np.ndarray) -> np.ndarray:
    """The first T samples of x [T] convolved with h: float32."""
    size = fast(len(x) + len(h) - 1)
    made: np.ndarray = np.fft.irfft(np.fft.rfft(x, size) * np.fft.rfft(h, size), size)[: len(x)]
    return made.astype(np.float32)


def noise(count: int, colour: str, rate: int, rng: SampleRandom) -> np.ndarray:
    """float32 [count] of normal noise whose power falls as 1 / f^a from 20 Hz on, a of `COLOURS`."""
    size = fast(count)
    made: np.ndarray = rng.generator().standard_normal(size, np.float32)
    if COLOURS[colour]:
        spectrum = np.fft.rfft(made)
        spectrum *= np.maximum(np.fft.rfftfreq(size, 1 / rate), LOWEST) ** (-COLOURS[colour] / 2)
        made = np.fft.irfft(spectrum, size)
    return made[:count].astype(np.float32)


def fast(count: int) -> int:
    """The least 2^a, 3 2^a, 5 2^a, 9 2^a or 15 2^a that is not below `count`: a size of quick transforms."""
    sizes = (odd << max(0, (-(-count // odd) - 1).bit_length()) for odd in (1, 3, 5, 9, 15))
    return min(sizes)
