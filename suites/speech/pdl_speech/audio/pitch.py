"""The fundamental frequency of voices: YIN (de Cheveigné and Kawahara, J. Acoust. Soc. Am. 111, 2002)."""

from __future__ import annotations

import numpy as np

from pdl.dtype import Array
from pdl.errors import UsageError

WINDOW = 0.025  # seconds that are compared with those a period later
THRESHOLD = 0.15  # of the normalised difference, below which a frame is voiced
TOGETHER = 1 << 20  # numbers of frames that are transformed at once


def pitch(
    x: Array,
    rate: int,
    hop: int,
    *,
    low: float = 60.0,
    high: float = 500.0,
    window: float = WINDOW,
    threshold: float = THRESHOLD,
) -> Array:
    """The fundamental frequency around samples 0, hop, 2 hop, ... of x [T], in Hz: float32 [1 + T // hop], 0 where
    there is none.

    The period is the first dip below `threshold` of d(t) / mean(d(1), ..., d(t)), d(t) = sum_j (x_j - x_(j+t))^2 over
    a window, refined by a parabola through d.

    low, high  bounds of the frequency, in Hz
    window     seconds of a frame, to which the longest period is added
    threshold  0: only what repeats exactly is voiced; 1: nearly everything is
    UsageError unless 0 < low < high <= rate / 2, and a window has 2 samples at least.
    """
    size, longest = round(window * rate), int(np.ceil(rate / max(low, 1e-9))) + 1
    if x.ndim != 1 or not 0 < low < high <= rate / 2 or size < 2 or hop < 1:
        raise UsageError(
            f"pitch: x {x.shape}, low={low:g}, high={high:g}, window={window:g}, hop={hop}; expected a waveform [T], "
            f"0 < low < high <= {rate / 2:g} Hz, a window of 2 samples at least"
        )
    count, whole = 1 + len(x) // hop, size + longest
    padded = np.zeros((count - 1) * hop + whole)
    begin = whole // 2
    part = np.asarray(x, np.float64)[: len(padded) - begin]
    padded[begin : begin + len(part)] = part
    frames = np.lib.stride_tricks.sliding_window_view(padded, whole)[::hop]
    few = max(1, TOGETHER // (2 * whole))
    found = [_frequencies(frames[a : a + few], size, longest, rate, high, threshold) for a in range(0, count, few)]
    return np.concatenate(found).astype(np.float32)


def _frequencies(frames: Array, size: int, longest: int, rate: int, high: float, threshold: float) -> Array:
    """float64 [n] of frames [n, size + longest]."""
    points = 1 << (frames.shape[1] + size - 1).bit_length()
    spectrum, own = np.fft.rfft(frames, points), np.fft.rfft(frames[:, :size], points)
    products = np.fft.irfft(spectrum * own.conj(), points)[:, : longest + 1]
    sums = np.pad(np.cumsum(frames**2, axis=1), ((0, 0), (1, 0)))
    energy = sums[:, size:] - sums[:, : longest + 1]
    d = np.maximum(energy[:, :1] + energy - 2 * products, 0.0)
    means = np.cumsum(d[:, 1:], axis=1) / np.arange(1, longest + 1)
    level = np.ones_like(d)
    np.divide(d[:, 1:], means, out=level[:, 1:], where=means > 1e-9 * np.maximum(energy[:, :1], 1e-12))
    first = max(2, int(rate / high))
    inner = level[:, first:-1]
    dips = (inner < threshold) & (inner <= level[:, first - 1 : -2]) & (inner < level[:, first + 1 :])
    rows = np.arange(len(d))
    t = dips.argmax(axis=1) + first
    before, at, after = d[rows, t - 1], d[rows, t], d[rows, t + 1]
    bend = before - 2 * at + after
    shift = np.divide(0.5 * (before - after), bend, out=np.zeros(len(d)), where=bend > 0)
    return np.where(dips.any(axis=1), rate / (t + np.clip(shift, -1, 1)), 0.0)


def contour(frequencies: Array) -> Array:
    """log2 of frequencies [T] (0: none), float32 [T]: drawn straight from one voiced frame to the next, and on to both
    ends; NaN where none is voiced."""
    voiced = np.flatnonzero(frequencies > 0)
    if not len(voiced):
        return np.full(len(frequencies), np.nan, np.float32)
    logs = np.log2(frequencies[voiced].astype(np.float64))
    return np.interp(np.arange(len(frequencies)), voiced, logs).astype(np.float32)
