"""Products with an epilogue against the product and what follows it."""

from __future__ import annotations

import numpy as np
from scipy import special

from pdl.ops.epilogue import conv2d_act, conv2d_stats, linear_act

from .case import Case, Draws
from .cases_conv import direct

f = Draws(12).f


def gelu(x):
    return x * special.ndtr(x)


def relu(x):
    return np.maximum(x, 0)


def affine(x, w, b=None, *, activation, values=()):
    z = x @ w + (0 if b is None else b)
    return {"Relu": relu, "Gelu": gelu, "Sigmoid": special.expit}[activation](z)


def stats(x, w, b=None, **window):
    y = direct(x, w, b, **window)
    return y, y.mean((0, 1, 2)), y.var((0, 1, 2))


FUNCTIONS = {
    "": lambda v, _: v,
    "Relu": lambda v, _: relu(v),
    "LeakyRelu": lambda v, slope: np.where(v < 0, v * sum(slope), v),
    "Silu": lambda v, _: v / (1 + np.exp(-v)),
}


def act(x, w, b=None, residual=None, *, activation="", values=(), **window):
    y = direct(x, w, b, **window) + (0 if residual is None else residual)
    return FUNCTIONS[activation](y, values)


CASES = [
    Case(linear_act, [f(3, 4), f(4, 2), f(2)], affine, {"activation": "Gelu"}, bf16=8e-2),
    Case(linear_act, [f(2, 3, 4), f(4, 5), None], affine, {"activation": "Relu"}, bf16=8e-2),
    Case(linear_act, [f(5, 4), f(4, 40), f(40)], affine, {"activation": "Sigmoid"}, bf16=8e-2),
    Case(linear_act, [f(33, 70), f(70, 35), f(35)], affine, {"activation": "Gelu"},
         grad=[2], second=False, bf16=8e-2),
    Case(linear_act, [f(3, 4100), f(4100, 5), f(5)], affine, {"activation": "Relu"},
         grad=[2], second=False, atol=1e-9, bf16=8e-2),
    Case(conv2d_stats, [f(2, 5, 5, 3), f(3, 3, 3, 4)], stats, {"padding": 1}, bf16=8e-2),
    Case(conv2d_stats, [f(2, 4, 4, 3), f(1, 1, 3, 5), f(5)], stats, bf16=8e-2),
    Case(conv2d_stats, [f(2, 4, 4, 4), f(3, 3, 2, 6), f(6)], stats,
         {"groups": 2, "stride": 2, "padding": 1}, bf16=8e-2),
    Case(conv2d_stats, [f(1, 5, 5, 4), f(3, 3, 1, 4)], stats, {"groups": 4}, bf16=8e-2),
    Case(conv2d_stats, [f(3, 9, 9, 17) + 30, f(3, 3, 17, 40)], stats, grad=[], bf16=0.2),
    *[Case(conv2d_stats, [f(4, 12, 11, c) + 3, f(3, 3, c, c) / c], stats, {"padding": 1}, grad=[], bf16=8e-2)
      for c in (16, 144)],
    Case(conv2d_act, [f(4, 12, 11, 16), f(3, 3, 16, 16) / 16, None, f(4, 10, 9, 16)], act,
         {"activation": "Relu"}, grad=[], bf16=8e-2),
    Case(conv2d_act, [f(2, 5, 5, 3), f(3, 3, 3, 4), f(4), f(2, 5, 5, 4)], act,
         {"padding": 1, "activation": "Relu"}, bf16=8e-2),
    Case(conv2d_act, [f(2, 4, 4, 3), f(1, 1, 3, 5), f(5), None], act,
         {"activation": "LeakyRelu", "values": (0.1,)}, bf16=8e-2),
    Case(conv2d_act, [f(2, 4, 4, 4), f(3, 3, 1, 4), None, f(2, 2, 2, 4)], act,
         {"groups": 4, "activation": "Silu"}, bf16=8e-2),
    Case(conv2d_act, [f(2, 4, 4, 3), f(2, 2, 3, 5), f(5), f(2, 3, 3, 5)], act, bf16=8e-2),
]  # fmt: skip
