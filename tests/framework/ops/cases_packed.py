"""Products with packed weights against the product and what follows it."""

from __future__ import annotations

import numpy as np
from pdl.kernels.packed import blocks

import pdl
from pdl.ops.base import apply
from pdl.ops.conv import _conv_op
from pdl.ops.packed import ExpandDepthwise, PackedConv, PackedLinear, pack

from .case import Draws, forward
from .cases_inference import conv_parts, linear_parts

f = Draws(18).f


def weights(*shape):
    """The constant weights of a case: sixteenths, which every dtype holds."""
    return np.random.default_rng(sum(shape)).integers(-8, 9, shape) / 16


def sparse(*shape):
    """Such weights of which every other row is zeros."""
    w = weights(*shape)
    w.reshape(-1, shape[-1])[::2] = 0
    return w


def packed_conv(x, b=None, residual=None, *, kernel, form="rows", activation="", parameters=(), **window):
    how = {"stride": 1, "padding": 0, "dilation": 1} | window
    if form == "blocks":
        op, w = _conv_op(x.ndim - 2, kernel, how["stride"], how["padding"], how["dilation"], 1), sparse(*kernel)
        kept = int(blocks(w).sum())
        made = PackedConv(op.stride, op.padding, op.dilation, 1, kernel, form, activation, parameters, kept=kept)
        x32, *more = (None if t is None else t.astype(pdl.float32) for t in (x, b, residual))
        return apply(made, x32, pdl.Tensor(pack(form, w.astype(np.float32))), *more).astype(x.dtype)
    op = _conv_op(x.ndim - 2, kernel, how["stride"], how["padding"], how["dilation"], 1)
    lacks = {"rows": (), "taps": (pdl.bfloat16,)}.get(form, (pdl.float64,))  # Winograd is float32 inside
    dtype = pdl.float32 if x.dtype in lacks else x.dtype
    made = PackedConv(op.stride, op.padding, op.dilation, 1, kernel, form, activation, parameters)
    packed = pdl.Tensor(pack(form, weights(*kernel).astype(dtype)))
    b, residual = (None if t is None else t.astype(dtype) for t in (b, residual))
    return apply(made, x.astype(dtype), packed, b, residual).astype(x.dtype)


def conv_reference(x, b=None, residual=None, *, kernel, form="rows", **how):
    return conv_parts(x, (sparse if form == "blocks" else weights)(*kernel), b, residual, **how)


def sparse_linear(x, b=None, residual=None, *, features, activation="", parameters=()):
    w = sparse(*features).astype(np.float32)
    made = PackedLinear(features, activation, parameters, kept=int(blocks(w).sum()))
    x32, *more = (None if t is None else t.astype(pdl.float32) for t in (x, b, residual))
    return apply(made, x32, pdl.Tensor(pack("blocks", w)), *more).astype(x.dtype)


def sparse_reference(x, b=None, residual=None, *, features, **how):
    return linear_parts(x, sparse(*features), b, residual, **how)


def packed_linear(x, b=None, residual=None, *, features, activation="", parameters=()):
    packed = pdl.Tensor(pack("rows", weights(*features).astype(x.dtype)))
    return apply(PackedLinear(features, activation, parameters), x, packed, b, residual)


def linear_reference(x, b=None, residual=None, *, features, **how):
    return linear_parts(x, weights(*features), b, residual, **how)


def expand_depthwise(x, a=None, b=None, *, window, stride=1, **functions):
    c, rank = window[-1], len(window) - 2
    op = _conv_op(rank, window, stride, window[0] // 2, 1, c)
    dtype = x.dtype if x.dtype != np.float64 else pdl.float32  # there is no form of float64
    made = ExpandDepthwise(op.stride, op.padding, op.dilation, c, **functions)
    packed = pdl.Tensor(pack("rows", weights(x.shape[-1], c).astype(dtype)))
    w, (a, b) = weights(*window).astype(dtype), (None if t is None else t.astype(dtype) for t in (a, b))
    return apply(made, x.astype(dtype), packed, a, pdl.Tensor(w), b).astype(x.dtype)


def expand_reference(
    x, a=None, b=None, *, window, stride=1, inner="", inner_parameters=(), activation="", parameters=()
):
    v = linear_parts(x, weights(x.shape[-1], window[-1]), a, None, activation=inner, parameters=inner_parameters)
    how = {"stride": stride, "padding": window[0] // 2, "groups": window[-1]}
    return conv_parts(v, weights(*window), b, None, activation=activation, parameters=parameters, **how)


CASES = [
    forward(packed_conv, [f(2, 5, 5, 3), f(4), f(2, 5, 5, 4)], conv_reference,
         {"kernel": (3, 3, 3, 4), "padding": 1, "activation": "relu"}, bf16=8e-2),
    forward(packed_conv, [f(1, 9, 7, 5), f(37), None], conv_reference,
         {"kernel": (1, 1, 5, 37), "activation": "hardswish"}, bf16=8e-2),
    forward(packed_conv, [f(2, 9, 8, 6), None, None], conv_reference,
         {"kernel": (2, 3, 6, 40), "stride": (2, 1), "padding": (1, 0), "dilation": (1, 2)}, bf16=8e-2),
    forward(packed_conv, [f(2, 12, 6), f(5), f(2, 10, 5)], conv_reference, {"kernel": (3, 6, 5)}, bf16=8e-2),
    forward(packed_conv, [f(1, 4, 5, 6, 3), f(5), None], conv_reference,
         {"kernel": (2, 2, 3, 3, 5), "activation": "gelu"}, bf16=8e-2),
    *[forward(packed_conv, [f(2, 9, 7, 16), f(32), f(2, 9, 7, 32)], conv_reference,
           {"kernel": (3, 3, 16, 32), "padding": 1, "form": form, "activation": activation}, atol=1e-4, float32=2e-5,
           bf16=8e-2)
      for form in ("winograd4", "winograd2") for activation in ("relu", "gelu")],
    forward(packed_conv, [f(2, 9, 7, 6), f(2), f(2, 9, 7, 2)], conv_reference,
         {"kernel": (5, 5, 6, 2), "padding": 2, "form": "taps", "activation": "hardswish"}, bf16=8e-2),
    forward(packed_conv, [f(2, 9, 8, 6), f(40), f(2, 5, 8, 40)], conv_reference,
         {"kernel": (3, 3, 6, 40), "stride": (2, 1), "padding": 1, "form": "blocks", "activation": "relu"}, bf16=8e-2,
         float32=2e-5, atol=1e-4),
    forward(sparse_linear, [f(33, 70), f(35), None], sparse_reference,
         {"features": (70, 35), "activation": "silu"}, float32=2e-5, atol=1e-4, bf16=8e-2),
    forward(packed_linear, [f(3, 4), f(6), f(3, 6)], linear_reference,
         {"features": (4, 6), "activation": "leaky_relu", "parameters": (0.1,)}, bf16=8e-2),
    forward(packed_linear, [f(2, 3, 70), None, None], linear_reference, {"features": (70, 45)}, bf16=8e-2),
    forward(packed_linear, [f(33, 70), f(35), None], linear_reference,
         {"features": (70, 35), "activation": "silu"}, bf16=8e-2),
    forward(packed_linear, [f(61, 1500), f(37), f(61, 37)], linear_reference,
         {"features": (1500, 37), "activation": "gelu"}, float32=2e-5, atol=1e-4, bf16=8e-2),  # k in blocks
    *[forward(packed_linear, [f(rows, 70), f(53), f(rows, 53)], linear_reference,
           {"features": (70, 53), "activation": activation}, bf16=8e-2)
      for rows in (1, 2) for activation in ("", "relu", "gelu")],
    forward(expand_depthwise, [f(2, 9, 37, 6), f(40), f(40)], expand_reference,
         {"window": (3, 3, 1, 40), "inner": "clip", "inner_parameters": (0.0, 6.0), "activation": "relu"}, float32=2e-5,
         atol=1e-4, bf16=8e-2),
    forward(expand_depthwise, [f(1, 30, 8, 4), None, f(19)], expand_reference,
         {"window": (5, 5, 1, 19), "stride": 2, "inner": "silu", "activation": "hardswish"}, float32=2e-5, atol=1e-4,
         bf16=8e-2),
    forward(expand_depthwise, [f(1, 15, 16, 10), f(64), None], expand_reference, {"window": (3, 3, 1, 64), "stride": 2},
         float32=2e-5, atol=1e-4, bf16=8e-2),
]  # fmt: skip
