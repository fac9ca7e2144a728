"""Quantised ops against NumPy: sums in int64, then float32 in the order that the kernels promise."""

from __future__ import annotations

from typing import Any

import numpy as np

from pdl.ops import quant
from pdl.ops.base import apply
from tests.framework.kernels import integers

from .case import Case, forward

RNG = np.random.default_rng(20)
F = np.float32


def u8(*shape: int) -> np.ndarray:
    return RNG.integers(0, 256, shape, np.uint8)


def s8(*shape: int) -> np.ndarray:
    return RNG.integers(-127, 128, shape).astype(np.int8)


def s32(*shape: int) -> np.ndarray:
    return RNG.integers(-3000, 3000, shape).astype(np.int32)


SCALES = RNG.uniform(0.001, 0.02, 64).astype(F)
ZEROS = RNG.integers(-90, 90, 64).astype(np.int8)


# -- between floats and bytes ------------------------------------------------------------------------------------------
def quantise(x, *, scale=0.1, zero=7, dtype=np.uint8, axis=None):
    """Scalars, or `SCALES` and `ZEROS` along the axis."""
    s, z = (F(scale), dtype(zero)) if axis is None else (SCALES[: x.shape[axis]], ZEROS[: x.shape[axis]].astype(dtype))
    return apply(quant.QuantizeLinear(1 if axis is None else axis), x.astype("float32"), *tensors(s, z))


def quantised(x, *, scale=0.1, zero=7, dtype=np.uint8, axis=None):
    s, z = (F(scale), int(zero)) if axis is None else along(x, axis)
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    return np.clip(np.rint(x.astype(F) / s).astype(np.float64) + z, low, high).astype(dtype)


def dequantise(q, *, scale=0.1, zero=7, axis=None):
    s, z = (F(scale), zero) if axis is None else (SCALES[: q.shape[axis]], ZEROS[: q.shape[axis]])
    return quant.dequantize_linear(q, *tensors(s, np.asarray(z, q.dtype)), axis=1 if axis is None else axis)


def dequantised(q, *, scale=0.1, zero=7, axis=None):
    s, z = (F(scale), zero) if axis is None else along(q, axis)
    return (q.astype(F) - F(z)) * s


def along(x, axis):
    form = [-1 if a == axis % x.ndim else 1 for a in range(x.ndim)]
    return SCALES[: x.shape[axis]].reshape(form), ZEROS[: x.shape[axis]].astype(np.int64).reshape(form)


def tensors(*arrays: Any) -> list[Any]:
    import pdl

    return [pdl.Tensor(np.asarray(a)) for a in arrays]


# -- products ----------------------------------------------------------------------------------------------------------
BYTES = {"x_scale": 0.05, "x_zero": 101, "y_scale": 0.7, "y_zero": 90}
RESIDUAL = {"residual_scale": 0.4, "residual_zero": 33}


def weights(w: Any) -> Any:
    return SCALES[: w.shape[-1]]


STORED = {"conv": (s8(3, 3, 5, 9), s32(9)), "depthwise": (s8(3, 3, 1, 24), s32(24)), "linear": (s8(10, 7), s32(7))}


def window_of(rank, window):
    stride, pad, dilation, groups = window or (1, 1, 1, 1)
    each = {"stride": (stride,) * rank, "padding": ((pad, pad),) * rank, "dilation": (dilation,) * rank}
    return each | {"groups": groups}


def conv(x, w, b=None, residual=None, *, window=(), **how):
    op = quant.QConv(**window_of(len(x.shape) - 2, window), **how)
    return apply(op, x, w, *tensors(weights(w)), b, residual)


def packed_conv(x, *, stored, window=(), **how):
    """`STORED` weights, packed."""
    w, b = STORED[stored]
    fields = window_of(2, window) | how
    made = quant.QConv(**fields).packed(w, weights(w), b)
    return apply(quant.QConvPacked(**fields, kernel=w.shape[:-2], outputs=w.shape[-1]), x, *tensors(made), None)


def packed_conv_in_numpy(x, *, stored, **how):
    return conv_in_numpy(x, *STORED[stored], **how)


def conv_in_numpy(x, w, b=None, residual=None, *, window=(), **how):
    stride, pad, dilation, groups = window or (1, 1, 1, 1)
    one, rank = (1,) * (5 - x.ndim), x.ndim - 2
    pads = [(0, 0)] * (3 - rank) + [(pad, pad)] * rank
    steps = [(*one, *(n,) * rank) for n in (stride, dilation)]
    total = integers.correlation(
        x.reshape(x.shape[0], *one, *x.shape[1:]), w.reshape(*one, *w.shape), steps[0], pads, steps[1], groups,
        how["x_zero"],
    )  # fmt: skip
    total = total.reshape(x.shape[0], *total.shape[4 - rank :])
    return finish(total, w, b, residual, **how)


def linear(x, w, b=None, residual=None, **how):
    return apply(quant.QLinear(**how), x, w, *tensors(weights(w)), b, residual)


def packed_linear(x, **how):
    w, b = STORED["linear"]
    made = quant.QLinear(**how).packed(w, weights(w), b)
    return apply(quant.QLinearPacked(**how, outputs=w.shape[-1]), x, *tensors(made), None)


def packed_linear_in_numpy(x, **how):
    return linear_in_numpy(x, *STORED["linear"], **how)


def linear_in_numpy(x, w, b=None, residual=None, **how):
    total = (x.astype(np.int64) - how["x_zero"]) @ w.astype(np.int64)
    return finish(total, w, b, residual, **how)


def finish(
    total, w, b, residual, *, x_scale, x_zero, y_scale=None, y_zero=0, activation="", parameters=(),
    residual_scale=0.0, residual_zero=0,
):  # fmt: skip
    total = total if b is None else total + b
    unit = 1.0 if y_scale is None or activation == "hardswish" else y_scale
    low, high = {"": (-np.inf, np.inf), "relu": (0, np.inf), "hardswish": (-np.inf, np.inf)}.get(activation, parameters)
    if y_scale is not None:
        low, high = max(-y_zero, low / y_scale), min(255 - y_zero, high / y_scale)
    after = None if activation != "hardswish" else 1.0 if y_scale is None else 1 / y_scale
    return integers.finish(
        total, (weights(w).astype(np.float64) * (x_scale / unit)).astype(F), zero=None if y_scale is None else y_zero,
        low=low, high=high, residual=residual, residual_scale=residual_scale / unit, residual_zero=residual_zero,
        after=after,
    )  # fmt: skip


# -- sums, pooling, functions ------------------------------------------------------------------------------------------
SUM = {"a_scale": 0.3, "a_zero": 20, "b_scale": 0.11, "b_zero": 140, "y_scale": 0.25, "y_zero": 60}


def add(a, b, **how):
    return apply(quant.QAdd(**how), a, b)


def added(a, b, *, a_scale, a_zero, b_scale, b_zero, y_scale, y_zero, activation="", parameters=()):
    v = (a.astype(F) - F(a_zero)) * F(a_scale / y_scale) + (b.astype(F) - F(b_zero)) * F(b_scale / y_scale)
    low = 0 if activation == "relu" else parameters[0] / y_scale if parameters else -y_zero
    high = parameters[1] / y_scale if parameters else 255 - y_zero
    return (np.rint(np.clip(v, F(low), F(high))) + y_zero).astype(np.uint8)


def look_up(x, table):
    return apply(quant.QMap(), x, table)


def windows(x, kernel, stride, pad, empty):
    """[N, H', W', kernel * kernel, C] of the cells of each window; padding is `empty`."""
    wide = np.pad(x.astype(np.int64), [(0, 0), (pad, pad), (pad, pad), (0, 0)], constant_values=empty)
    cells = np.lib.stride_tricks.sliding_window_view(wide, (kernel, kernel), (1, 2))[:, ::stride, ::stride]
    return np.moveaxis(cells.reshape(*cells.shape[:4], -1), 3, 4)


def max_pool(x, *, kernel, stride, pad):
    return apply(quant.QMaxPool((kernel,) * 2, (stride,) * 2, ((pad, pad),) * 2, dilation=(1, 1)), x)


def max_pooled(x, *, kernel, stride, pad):
    return windows(x, kernel, stride, pad, 0).max(3).astype(np.uint8)


MEAN = {"x_scale": 0.3, "x_zero": 12, "y_scale": 0.29, "y_zero": 3}


def avg_pool(x, *, kernel, stride, pad, include, **how):
    shape = {"kernel": (kernel,) * 2, "stride": (stride,) * 2, "padding": ((pad, pad),) * 2}
    return apply(quant.QAvgPool(**shape, count_include_pad=include, **how), x)


def avg_pooled(x, *, kernel, stride, pad, include, **how):
    cells = windows(x, kernel, stride, pad, -1)
    inside = cells >= 0
    total = np.where(inside, cells - how["x_zero"], 0).sum(3)
    count = kernel * kernel if include else inside.sum(3)
    return mean_in_numpy(total, count, **how)


def global_mean(x, **how):
    return apply(quant.QGlobalMean(**how), x)


def global_mean_in_numpy(x, *, keepdims=False, **how):
    axes = tuple(range(1, x.ndim - 1))
    total = (x.astype(np.int64) - how["x_zero"]).sum(axes, keepdims=keepdims)
    return mean_in_numpy(total, np.prod(x.shape[1:-1]), **how)


def mean_in_numpy(total, count, *, x_scale, x_zero, y_scale=None, y_zero=0):
    factor = F(x_scale if y_scale is None else x_scale / y_scale)
    v = total.astype(F) * ((1.0 / count * np.ones_like(total)).astype(F) * factor)
    return v if y_scale is None else (np.rint(np.clip(v, -y_zero, 255 - y_zero)) + y_zero).astype(np.uint8)


WIDE = {"x_scale": 0.05, "x_zero": 101}
WHY = {"float32": None, "bf16": None, "why": "bytes in float32 scales: float64 and bfloat16 have no quantised form"}

CASES = [
    forward(quantise, [RNG.uniform(-20, 40, (3, 5, 4))], quantised, **WHY),
    forward(quantise, [np.arange(-40, 41) / 4], quantised, {"scale": 0.5, "zero": 3}, **WHY),
    forward(quantise, [RNG.uniform(-20, 20, (4, 7))], quantised, {"dtype": np.int8, "zero": -5}, **WHY),
    forward(quantise, [RNG.uniform(-1, 1, (4, 7, 3))], quantised, {"dtype": np.int8, "axis": 1}, **WHY),
    forward(quantise, [RNG.uniform(-1, 1, (4, 33))], quantised, {"dtype": np.int8, "axis": -1}, **WHY),
    Case(dequantise, [u8(3, 5, 4)], dequantised, {"zero": 200}),
    Case(dequantise, [s8(4, 7, 3)], dequantised, {"axis": 1}),
    Case(dequantise, [s8(4, 7, 3)], dequantised, {"axis": -1}),
    Case(dequantise, [s32(9)], dequantised, {"zero": 0, "scale": 0.003}),
    Case(dequantise, [s32(4, 9)], dequantised, {"axis": 1}),
    Case(conv, [u8(2, 7, 6, 5), s8(3, 3, 5, 9), s32(9)], conv_in_numpy, BYTES),
    Case(packed_conv, [u8(2, 7, 6, 5)], packed_conv_in_numpy, BYTES | {"stored": "conv"}),
    Case(conv, [u8(2, 7, 6, 5), s8(3, 3, 5, 9)], conv_in_numpy, BYTES | {"activation": "relu"}),
    Case(conv, [u8(1, 7, 6, 5), s8(3, 3, 5, 9), s32(9), u8(1, 7, 6, 9)], conv_in_numpy, BYTES | RESIDUAL),
    Case(conv, [u8(1, 5, 5, 8), s8(1, 1, 8, 20), None, u8(1, 3, 3, 20)], conv_in_numpy,
         BYTES | RESIDUAL | {"window": (2, 0, 1, 1), "activation": "clip", "parameters": (-3.0, 6.0)}),
    Case(conv, [u8(1, 9, 8, 24), s8(3, 3, 1, 24), s32(24)], conv_in_numpy,
         BYTES | {"window": (2, 1, 1, 24), "activation": "hardswish"}),
    Case(packed_conv, [u8(1, 9, 8, 24)], packed_conv_in_numpy,
         BYTES | {"window": (2, 1, 1, 24), "activation": "hardswish", "stored": "depthwise"}),
    Case(conv, [u8(1, 9, 8, 6), s8(3, 3, 3, 4), s32(4)], conv_in_numpy, WIDE | {"window": (1, 2, 2, 2)}),
    Case(conv, [u8(2, 9, 6), s8(3, 6, 4), s32(4)], conv_in_numpy, WIDE | {"activation": "hardswish"}),
    Case(linear, [u8(3, 2, 10), s8(10, 7), s32(7)], linear_in_numpy, BYTES),
    Case(packed_linear, [u8(3, 2, 10)], packed_linear_in_numpy, BYTES),
    Case(linear, [u8(3, 10), s8(10, 7), None, u8(3, 7)], linear_in_numpy, BYTES | RESIDUAL | {"activation": "relu"}),
    Case(linear, [u8(1, 100), s8(100, 10)], linear_in_numpy, WIDE),
    Case(add, [u8(3, 40), u8(3, 40)], added, SUM),
    Case(add, [u8(3, 40), u8(3, 40)], added, SUM | {"activation": "relu"}),
    Case(add, [u8(3, 40), u8(3, 40)], added, SUM | {"activation": "clip", "parameters": (-2.0, 9.0)}),
    Case(look_up, [u8(3, 40), u8(256)], lambda x, table: table[x]),
    Case(max_pool, [u8(2, 7, 7, 5)], max_pooled, {"kernel": 3, "stride": 2, "pad": 1}),
    Case(max_pool, [u8(1, 6, 6, 40)], max_pooled, {"kernel": 2, "stride": 2, "pad": 0}),
    Case(avg_pool, [u8(2, 7, 7, 5)], avg_pooled, MEAN | {"kernel": 3, "stride": 2, "pad": 1, "include": False}),
    Case(avg_pool, [u8(2, 7, 7, 5)], avg_pooled, MEAN | {"kernel": 3, "stride": 1, "pad": 1, "include": True}),
    Case(global_mean, [u8(2, 7, 5, 9)], global_mean_in_numpy, MEAN),
    Case(global_mean, [u8(2, 6, 9)], global_mean_in_numpy, MEAN | {"keepdims": True}),
    Case(global_mean, [u8(2, 7, 5, 9)], global_mean_in_numpy, {"x_scale": 0.3, "x_zero": 12}),
]  # fmt: skip
