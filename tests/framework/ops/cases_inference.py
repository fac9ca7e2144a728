"""Products with what follows them, as inference passes make them, against the parts."""

from __future__ import annotations

import numpy as np
from scipy import special

from pdl.ops.base import apply
from pdl.ops.conv import _conv_op
from pdl.ops.inference import ConvThen, LinearThen

from .case import Draws, forward
from .cases_conv import direct

f = Draws(14).f
FUNCTIONS = {
    "": lambda v: v,
    "relu": lambda v: np.maximum(v, 0),
    "clip": lambda v, low, high: np.clip(v, low, high),
    "leaky_relu": lambda v, slope: np.where(v < 0, v * slope, v),
    "hardswish": lambda v: v * np.clip(v / 6 + 0.5, 0, 1),
    "hardsigmoid": lambda v: np.clip(v / 6 + 0.5, 0, 1),
    "silu": lambda v: v * special.expit(v),
    "sigmoid": special.expit,
    "gelu": lambda v: v * special.ndtr(v),
    "elu": lambda v, a, b, c: b * np.where(v > 0, v, a * np.expm1(c * v)),
    "square": np.square,
}


def conv_then(x, w, b=None, residual=None, *, activation="", parameters=(), **window):
    how = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1} | window
    op = _conv_op(x.ndim - 2, w.shape, how["stride"], how["padding"], how["dilation"], how["groups"])
    return apply(ConvThen(op.stride, op.padding, op.dilation, op.groups, activation, parameters), x, w, b, residual)


def conv_parts(x, w, b=None, residual=None, *, activation="", parameters=(), **window):
    y = direct(x, w, b, **window) + (0 if residual is None else residual)
    return FUNCTIONS[activation](y, *parameters)


def linear_then(x, w, b=None, residual=None, *, activation="", parameters=()):
    return apply(LinearThen(activation, parameters), x, w, b, residual)


def linear_parts(x, w, b=None, residual=None, *, activation="", parameters=()):
    z = x @ w + (0 if b is None else b) + (0 if residual is None else residual)
    return FUNCTIONS[activation](z, *parameters)


CONV = [
    forward(conv_then, [f(2, 5, 5, 3), f(3, 3, 3, 4), f(4), f(2, 5, 5, 4)], conv_parts,
         {"padding": 1, "activation": "relu"}, bf16=8e-2),
    forward(conv_then, [f(2, 5, 5, 3), f(3, 3, 3, 4), None, None], conv_parts, bf16=8e-2),
    forward(conv_then, [f(1, 9, 7, 5), f(1, 1, 5, 37), f(37), None], conv_parts, {"activation": "hardswish"},
            bf16=8e-2),
    forward(conv_then, [f(1, 9, 7, 5), f(1, 1, 5, 37), f(37), f(1, 9, 7, 37)], conv_parts, bf16=8e-2),
    forward(conv_then, [f(2, 8, 9, 20), f(3, 3, 1, 20), f(20), None], conv_parts,
         {"groups": 20, "padding": 1, "activation": "clip", "parameters": (0.0, 6.0)}, bf16=8e-2),
    forward(conv_then, [f(2, 8, 9, 20), f(5, 5, 1, 20), f(20), f(2, 4, 5, 20)], conv_parts,
         {"groups": 20, "padding": 2, "stride": 2, "activation": "silu"}, bf16=8e-2),
    forward(conv_then, [f(4, 12, 11, 16), f(3, 3, 16, 16) / 16, f(16), f(4, 12, 11, 16)], conv_parts,
         {"padding": 1, "activation": "leaky_relu", "parameters": (0.1,)}, bf16=8e-2),
    forward(conv_then, [f(4, 12, 11, 64), f(3, 3, 64, 48) / 64, f(48), f(4, 12, 11, 48)], conv_parts,
         {"padding": 1, "activation": "relu"}, bf16=8e-2),
    forward(conv_then, [f(2, 7, 4, 6), f(3, 2, 3, 8), f(8), f(2, 3, 3, 8)], conv_parts,
         {"groups": 2, "stride": (2, 1), "activation": "gelu"}, bf16=8e-2),
]  # fmt: skip
LINEAR = [
    forward(linear_then, [f(3, 4), f(4, 2), f(2), f(3, 2)], linear_parts, {"activation": "gelu"}, bf16=8e-2),
    forward(linear_then, [f(3, 4), f(4, 2), None, None], linear_parts, bf16=8e-2),
    forward(linear_then, [f(2, 3, 4), f(4, 5), None, f(2, 3, 5)], linear_parts, {"activation": "relu"}, bf16=8e-2),
    forward(linear_then, [f(5, 4), f(4, 40), f(40), f(5, 40)], linear_parts, bf16=8e-2),
    forward(linear_then, [f(1, 30), f(30, 70), f(70), f(1, 70)], linear_parts,
         {"activation": "elu", "parameters": (0.7, 1.1, 2.0)}, bf16=8e-2),
    forward(linear_then, [f(3, 30), f(30, 1), f(1), f(3, 1)], linear_parts, {"activation": "square"}, bf16=0.2),
    forward(linear_then, [f(33, 2100), f(2100, 35), f(35), f(33, 35)], linear_parts,
         {"activation": "sigmoid"}, atol=1e-9, bf16=8e-2),
    forward(linear_then, [f(70, 40), f(40, 130), f(130), f(70, 130)], linear_parts, {"activation": "hardsigmoid"},
         bf16=8e-2),
]  # fmt: skip
CASES = [*CONV, *LINEAR]
