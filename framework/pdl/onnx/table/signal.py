"""Windows, the discrete Fourier transform and mel filters."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.errors import ShapeError, UsageError
from pdl.onnx.eager import computed, scalar
from pdl.onnx.registry import Context, onnx_op
from pdl.onnx.values import dtype_of, require_room


def _window(name: str, weights: tuple[float, ...], doc: str) -> None:
    """Register sum_i (-1)^i weights[i] cos(2 pi i n / N), where N is the size, less 1 unless periodic."""

    def window(ctx: Context, size: Any, *, output_datatype: int = 1, periodic: int = 1) -> Any:
        count = int(scalar(size, "the size"))
        require_room(ctx.node.label(), (count,), 8)
        n = np.arange(count) * (2 * math.pi / (count if periodic else count - 1) if count > 1 else 0)
        y = sum((-1) ** i * w * np.cos(i * n) for i, w in enumerate(weights))
        return np.asarray(y).astype(dtype_of(output_datatype, ctx.node.label()))

    window.__doc__ = doc
    onnx_op(name, since=17)(computed(window))


_window("HannWindow", (0.5, 0.5), "(1 - cos(2 pi n / N)) / 2.")
_window("HammingWindow", (25 / 46, 21 / 46), "25/46 - 21/46 cos(2 pi n / N).")
_window("BlackmanWindow", (0.42, 0.5, 0.08), "0.42 - 0.5 cos(2 pi n / N) + 0.08 cos(4 pi n / N).")


def _complex(ctx: Context, x: Array) -> Array:
    """[..., 1] or [..., 2] (real, imaginary) as complex numbers [...]; 16-bit floats as single precision."""
    if x.ndim < 2 or x.shape[-1] not in (1, 2):
        raise ShapeError(f"{ctx.node.label()}: x {x.shape} must end with 1 (real) or 2 (complex)")
    wide = x if x.dtype == np.float64 else x.astype(np.float32)
    y: Array = wide[..., 0] + 1j * wide[..., 1] if x.shape[-1] == 2 else wide[..., 0]
    return y


def _parts(x: Array, dtype: Any) -> Array:
    return np.stack([x.real, x.imag], axis=-1).astype(dtype)


def _transform(ctx: Context, x: Array, length: Any, axis: int, inverse: int, onesided: int) -> Array:
    """y[k] = sum_n e^(-2 pi i k n / N) x[n] along `axis`; inverse: divided by N and with the other sign."""
    axis = axis % x.ndim
    if axis == x.ndim - 1:
        raise ShapeError(f"{ctx.node.label()}: axis {axis} is that of the real and imaginary parts")
    values, dtype = _complex(ctx, x), x.dtype
    n = int(scalar(length, "the length")) if length is not None else None
    require_room(ctx.node.label(), (n or 0, values.size // max(1, values.shape[axis])), 16)
    if inverse and onesided:
        return np.fft.irfft(values, n, axis=axis)[..., None].astype(dtype)
    if onesided:
        if np.iscomplexobj(values):
            raise UsageError(f"{ctx.node.label()}: a one-sided transform takes real numbers")
        return _parts(np.fft.rfft(values, n, axis=axis), dtype)
    return _parts((np.fft.ifft if inverse else np.fft.fft)(values, n, axis=axis), dtype)


@onnx_op("DFT", since=17)
@computed
def _dft_17(ctx: Context, x: Any, length: Any = None, *, axis: int = 1, inverse: int = 0, onesided: int = 0) -> Any:
    """The discrete Fourier transform along `axis`."""
    return _transform(ctx, x, length, axis, inverse, onesided)


@onnx_op("DFT", since=20)
@computed
def _dft_20(ctx: Context, x: Any, length: Any = None, axis: Any = None, *, inverse: int = 0, onesided: int = 0) -> Any:
    """The discrete Fourier transform along an axis that is an input; one-sided and inverse: real numbers come out."""
    return _transform(ctx, x, length, -2 if axis is None else int(scalar(axis, "the axis")), inverse, onesided)


@onnx_op("STFT", since=17)
@computed
def _stft(
    ctx: Context, signal: Any, frame_step: Any, window: Any = None, frame_length: Any = None, *, onesided: int = 1
) -> Any:
    """The transform of windowed frames of the signal [N, L, 1 or 2]; [N, frames, bins, 2]."""
    step = int(scalar(frame_step, "the step"))
    given = scalar(frame_length, "the frame's length") if frame_length is not None else None
    size = int(given if given is not None else signal.shape[1] if window is None else len(window))
    if window is not None and window.shape != (size,):
        raise ShapeError(f"{ctx.node.label()}: the window has shape {window.shape}, a frame {size} samples")
    if step < 1 or not 0 < size <= signal.shape[1]:
        raise ShapeError(f"{ctx.node.label()}: frames of {size} in steps of {step} in a signal of {signal.shape[1]}")
    x = _complex(ctx, signal)
    frames = np.lib.stride_tricks.sliding_window_view(x, size, axis=1)[:, ::step]
    frames = frames if window is None else frames * window.astype(frames.real.dtype)
    real = not np.iscomplexobj(frames)
    if onesided and not real:
        raise UsageError(f"{ctx.node.label()}: a one-sided transform takes real numbers")
    return _parts(np.fft.rfft(frames) if onesided else np.fft.fft(frames), signal.dtype)


@onnx_op("MelWeightMatrix", since=17)
@computed
def _mel(
    ctx: Context, num_mel_bins: Any, dft_length: Any, sample_rate: Any, lower_edge_hertz: Any, upper_edge_hertz: Any, *,
    output_datatype: int = 1,
) -> Any:  # fmt: skip
    """Triangles of height 1 whose corners lie at equal distances on the mel scale 2595 log10(1 + f / 700), rounded down
    to bins of the transform; [length // 2 + 1, bins].
    """
    bins, length = int(scalar(num_mel_bins, "bins")), int(scalar(dft_length, "the length"))
    rows = length // 2 + 1
    require_room(ctx.node.label(), (rows, bins), 8)
    low, high = (2595 * np.log10(1 + scalar(f, "an edge") / 700) for f in (lower_edge_hertz, upper_edge_hertz))
    corners = 700 * (10 ** (np.linspace(low, high, bins + 2, endpoint=False) / 2595) - 1)
    edges = ((length + 1) * corners // scalar(sample_rate, "the rate")).astype(np.int64)
    made = np.zeros((rows, bins))
    at = np.arange(rows)
    for i, (start, peak, end) in enumerate(zip(edges, edges[1:], edges[2:], strict=False)):
        rising, falling = (at >= start) & (at <= peak), (at >= peak) & (at < end)
        made[rising, i] = (at[rising] - start) / (peak - start) if peak > start else 1
        if end > peak:
            made[falling, i] = (end - at[falling]) / (end - peak)
    return made.astype(dtype_of(output_datatype, ctx.node.label()))
