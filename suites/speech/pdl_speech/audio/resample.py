"""Change of the sampling rate by a windowed sinc, evaluated as products of matrices.

With c = 0.95 min(1, to / rate) and H = 64 max(1, rate / to), both in units of the samples read,

    y[n] = sum_k x[k] h(n rate / to - k),   h(t) = c sinc(c t) I0(b sqrt(1 - (t / H)^2)) / I0(b),   |t| <= H

a low-pass filter of Kaiser's window (b = 0.1102 (A - 8.7), J. F. Kaiser, 1974) at 0.95 of the lower Nyquist frequency,
with 60 zero crossings on either side. By Kaiser's formula the transition from 0.9 to 1 of that frequency and an
attenuation of A = 100 dB from there on take these 64 samples. The values of h for one output are divided by their sum:
a constant stays one. There is no shift in time: sample 0 stays at time 0, and beyond the ends of x there are zeros.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from pdl.dtype import Array
from pdl.errors import DataError, UsageError
from pdl.kernels import gemm
from pdl_speech.audio.wav import MOST_SAMPLES, require_rate

ZEROS = 64  # samples of the lower rate to either side of an output that it reads
CUTOFF = 0.95  # of the lower Nyquist frequency
ATTENUATION = 100.0  # dB
_BETA = 0.1102 * (ATTENUATION - 8.7)
MOST_RATIO = 1024  # of the two rates: a filter grows with it
_COLUMNS = 32  # outputs of one matrix
_KEPT = 1 << 23  # numbers of the matrices of one ratio that are kept
_PIECE = 1 << 16  # outputs that are made at once, so that what they read stays in the cache


def resample(x: Array, rate: int, to: int) -> Array:
    """Samples x [..., T], float32 or float64, of `rate` Hz at `to` Hz: [..., ceil(T to / rate)] of the same dtype.

    Passband to 0.9 of the lower Nyquist frequency within 0.001 dB; what lies above that frequency is 100 dB weaker. x
    itself where the rates are equal. UsageError: no floats, no whole rates from 1 to 768000, or one more than 1024
    times the other; DataError: more than 2^28 samples.
    """
    rate, to = require_rate(rate), require_rate(to, "to")
    if x.dtype not in (np.float32, np.float64) or not x.ndim:
        raise UsageError(f"resample takes float32 or float64 [..., T], not {x.dtype} {x.shape}")
    if rate == to:
        return x
    made = _filter(rate, to)
    count = made.outputs(x.shape[-1])
    if math.prod(x.shape[:-1]) * count > MOST_SAMPLES:
        raise DataError(f"x {x.shape} has {count} samples at {to} Hz, more than {MOST_SAMPLES}; resample it in parts")
    rows = x.reshape(-1, x.shape[-1]) if x.size else np.zeros((math.prod(x.shape[:-1]), x.shape[-1]), x.dtype)
    y: Array = np.empty((len(rows), count), x.dtype)
    each = max(1, max(_PIECE, 128 * made.outs) // max(1, len(rows)))
    for start in range(0, count, each):
        end = min(start + each, count)
        y[:, start:end] = made.run(rows, 0, start, end)
    return y.reshape(*x.shape[:-1], count)


class Resampler:
    """`resample` of a stream of one channel: the samples of all `feed` and of `flush`, one behind the other, are those
    of the whole, up to the rounding of floats.

        resampler = Resampler(44_100, 16_000)
        for chunk in stream: use(resampler.feed(chunk))
        use(resampler.flush())

    latency   seconds by which outputs lie behind what is fed: 64 / min(rate, to)
    """

    def __init__(self, rate: int, to: int) -> None:
        self.rate, self.to = require_rate(rate), require_rate(to, "to")
        self._filter = _filter(self.rate, self.to)
        self.latency = 0.0 if rate == to else self._filter.half / rate
        self.reset()

    def reset(self) -> None:
        """Begin again."""
        self._kept: Array = np.zeros(0, np.float32)
        self._begin = self._fed = self._made = 0

    def feed(self, x: Array) -> Array:
        """The next samples float32 [T], of any T; those float32 [...] at the other rate that are now known."""
        if x.dtype != np.float32 or x.ndim != 1:
            raise UsageError(f"Resampler takes float32 [T], not {x.dtype} {x.shape}")
        if self.rate == self.to:
            return x
        self._kept = np.concatenate([self._kept, x])
        self._fed += len(x)
        return self._run(max(self._made, self._filter.outputs(self._fed - self._filter.half)))

    def flush(self) -> Array:
        """The last samples, with zeros behind them; then it begins again."""
        found = self._run(self._filter.outputs(self._fed)) if self.rate != self.to else self._kept
        self.reset()
        return found

    def _run(self, end: int) -> Array:
        """Outputs up to `end`; of the inputs those that later ones read are kept."""
        found = self._filter.run(self._kept[None], self._begin, self._made, end)[0]
        self._made = end
        needed = self._filter.first(end)
        drop = min(max(0, needed - self._begin), len(self._kept))
        self._kept, self._begin = self._kept[drop:], self._begin + drop
        return found


class _Filter:
    """A ratio to / rate = up / down in lowest terms. A period of `outs` outputs, a multiple of up, reads `ins` more
    inputs than the one before; it is made in groups of up to `_COLUMNS` outputs, each a product of windows of the input
    [periods, K] and a matrix [K, columns]."""

    def __init__(self, up: int, down: int) -> None:
        self.up, self.down = up, down
        self.half = math.ceil(ZEROS * max(1.0, down / up))
        self.times = max(1, _COLUMNS // up)
        self.outs, self.ins = self.times * up, self.times * down
        self.columns = math.ceil(self.outs / math.ceil(self.outs / _COLUMNS))
        self._kept: dict[tuple[int, str], Array] = {}
        self._room = _KEPT

    def outputs(self, inputs: int) -> int:
        """How many outputs lie before the time of input `inputs`: ceil(inputs up / down)."""
        return max(0, -(-inputs * self.up // self.down))

    def first(self, n: int) -> int:
        """The first input that output n reads."""
        return n * self.down // self.up - self.half

    def run(self, x: Array, begin: int, start: int, end: int) -> Array:
        """Outputs start..end [N, end - start] of x [N, T], which is the input from `begin` on; others are zeros."""
        if end <= start:
            return np.zeros((len(x), 0), x.dtype)
        low = self.first(start - self.columns)
        high = self.first(end + self.columns) + 2 * self.half + 1
        padded: Array = np.zeros((len(x), high - low), x.dtype)
        a, b = max(begin, low), min(begin + x.shape[1], high)
        if a < b:
            padded[:, a - low : b - low] = x[:, a - begin : b - begin]
        period = start // self.outs
        y: Array = np.empty((len(x), -(-end // self.outs) - period, self.outs), x.dtype)
        for offset in range(0, self.outs, self.columns):
            self._group(y, padded, low, period, start, end, offset)
        skip = start - period * self.outs
        return np.ascontiguousarray(y.reshape(len(x), -1)[:, skip : skip + end - start])

    def _group(self, y: Array, padded: Array, low: int, period: int, start: int, end: int, offset: int) -> None:
        """The outputs of the group that begins at `offset`, of the periods in which some are within start..end, into y
        [N, periods, outs], which begins with `period`."""
        count = min(self.columns, self.outs - offset)
        first = -((offset + count - 1 - start) // self.outs)  # its last output is not before start
        last = -((offset - end) // self.outs)  # its first output is not before end
        if first >= last:
            return
        matrix = self._matrix(offset, count, y.dtype.char)
        at = self.first(first * self.outs + offset) - low
        made: Array = np.empty((len(y), last - first, count), y.dtype)
        row, step = padded.strides
        windows: Array = np.ndarray(
            (*made.shape[:2], len(matrix)),
            y.dtype,
            padded,
            at * step,
            (row, self.ins * step, step),  # type: ignore[arg-type]
        )
        gemm.matmul(made, windows, matrix)  # BLAS would copy the windows, which overlap
        y[:, first - period : last - period, offset : offset + count] = made

    def _matrix(self, offset: int, count: int, dtype: str) -> Array:
        """[K, count]: the weights of inputs first(offset) + 0..K-1 for outputs offset..offset + count - 1."""
        found = self._kept.get((offset, dtype))
        if found is None:
            begin = self.first(offset)
            size = self.first(offset + count - 1) + 2 * self.half + 1 - begin
            n = offset + np.arange(count)
            t = ((begin + np.arange(size))[:, None] * self.up - n * self.down) / self.up
            c, h = CUTOFF * min(1.0, self.up / self.down), ZEROS * max(1.0, self.down / self.up)
            values = np.sinc(c * t) * np.i0(_BETA * np.sqrt(np.maximum(0, 1 - (t / h) ** 2))) * (np.abs(t) <= h)
            found = (values / values.sum(axis=0)).astype(dtype)
            if found.size <= self._room:
                self._room -= found.size
                self._kept[offset, dtype] = found
        return found


def _filter(rate: int, to: int) -> _Filter:
    if max(rate, to) > MOST_RATIO * min(rate, to):
        raise UsageError(f"{rate} Hz cannot become {to} Hz at once: one is more than {MOST_RATIO} times the other")
    common = math.gcd(rate, to)
    return _ratio(to // common, rate // common)


_ratio = lru_cache(maxsize=8)(_Filter)
