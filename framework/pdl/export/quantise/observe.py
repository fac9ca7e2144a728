"""The range of an activation, from a histogram of what it was on samples.

Bytes hold 256 numbers. A range that takes in every outlier rounds the rest coarsely; one that leaves outliers out clips
them. Each method here makes that choice in its own way.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pdl.dtype import Array
from pdl.program.passes.quantise import Range

BINS = 2048
_SHARES = np.linspace(0.25, 1.0, 76)  # of the whole range, that `mse` tries


class Histogram:
    """Counts of values in even bins between `low` and `high`, which are known beforehand and hold 0."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = min(low, 0.0), max(high, 0.0)
        if self.low == self.high:
            self.high = 1.0
        self.counts = np.zeros(BINS, np.int64)

    def add(self, values: Array) -> None:
        """Count more values."""
        self.counts += np.histogram(values, BINS, (self.low, self.high))[0]

    def centres(self) -> Array:
        """The middle of each bin."""
        return self.low + (np.arange(BINS) + 0.5) * (self.high - self.low) / BINS


def whole(histogram: Histogram) -> Range:
    """Everything that was seen."""
    return Range(histogram.low, histogram.high)


def percentile(histogram: Histogram, share: float = 0.9999) -> Range:
    """All but the outermost values on each side."""
    total = np.cumsum(histogram.counts) / max(1, int(histogram.counts.sum()))
    width = (histogram.high - histogram.low) / BINS
    first, last = np.searchsorted(total, 1 - share), np.searchsorted(total, share)
    return Range(histogram.low + int(first) * width, histogram.low + min(int(last) + 1, BINS) * width)


def least_squares(histogram: Histogram) -> Range:
    """The range whose bytes come nearest in the mean of squares: clipping and rounding together.

    Both ends are drawn in, each on its own, so that values on one side of 0 keep a tight range.
    """
    centres, counts = histogram.centres(), histogram.counts.astype(np.float64)

    def error(low: float, high: float) -> float:
        scale, zero = Range(low, high).scale_and_zero()
        rounded = (np.clip(np.rint(centres / scale) + zero, 0, 255) - zero) * scale
        return float(np.sum(counts * (rounded - centres) ** 2))

    high = min((error(histogram.low, histogram.high * s), histogram.high * s) for s in _SHARES)[1]
    low = min((error(histogram.low * s, high), histogram.low * s) for s in _SHARES)[1]
    return Range(low, high)


def entropy(histogram: Histogram, levels: int = 128) -> Range:
    """The range whose distribution, in `levels` steps, is nearest to the one seen, by relative entropy (Migacz, 8-bit
    inference with TensorRT, 2017).
    """
    magnitudes = np.abs(histogram.centres())
    most = max(-histogram.low, histogram.high)
    folded = np.histogram(magnitudes, BINS, (0, most), weights=histogram.counts)[0]
    folded[0] = folded[1]  # zeros of a ReLU say nothing of where to cut
    best = min((_divergence(folded, stop, levels), stop) for stop in range(levels, BINS + 1, 16))[1]
    cut = most * best / BINS
    return Range(max(histogram.low, -cut), min(histogram.high, cut))


def _divergence(counts: Array, stop: int, levels: int) -> float:
    """Relative entropy of what `levels` even steps make of the first `stop` bins, outliers in the last one."""
    p = counts[:stop].astype(np.float64)
    inside = p.copy()
    p[-1] += counts[stop:].sum()
    steps = np.arange(stop) * levels // stop
    sums, filled = np.bincount(steps, inside, levels), np.bincount(steps, inside > 0, levels)
    q = np.where(inside > 0, (sums / np.maximum(filled, 1))[steps], 0)
    if p.sum() == 0 or q.sum() == 0:
        return np.inf
    p, q = p / p.sum(), q / q.sum()
    there = p > 0
    return float(np.sum(p[there] * np.log(p[there] / np.maximum(q[there], 1e-10))))


#: the ways to choose a range, by name
METHODS: dict[str, Callable[[Histogram], Range]] = {
    "mse": least_squares,
    "entropy": entropy,
    "percentile": percentile,
    "minmax": whole,
}
