"""Normalisations against NumPy."""

from __future__ import annotations

import numpy as np

import pdl
from pdl.ops.moments import join_moments, moments

from .case import Case, Draws, draws
from .cases_conv import direct
from .cases_dropout import factors, first_seed

draw = Draws(17)
f, distinct = draw.f, draw.distinct


def affine(x, scale, shift):
    x = x if scale is None else x * scale
    return x if shift is None else x + shift


def standard(x, axes, eps):
    mean = x.mean(axis=axes, keepdims=True)
    return (x - mean) / np.sqrt(x.var(axis=axes, keepdims=True) + eps)


def norm_conv(x, mean, var, scale, shift, w, eps=1e-5, activation=None, statistics=True, **window):
    h = x if mean is None else batch_norm_eval(x, mean, var, scale, shift, None, eps, activation)
    y = direct(h, w, **window)
    return (y, y.mean(axis=(0, 1, 2)), y.var(axis=(0, 1, 2))) if statistics else y


def norm_conv_of(x, mean, var, scale, shift, w, **how):
    return pdl.norm_conv(x, w, norm=None if mean is None else (mean, var, scale, shift), **how)


def chained(x, w1, scale, shift, w2, **how):
    y, mean, var = pdl.norm_conv(x, w1)
    return pdl.norm_conv(y, w2, norm=(mean, var, scale, shift), **how)


def chain(x, w1, scale, shift, w2, activation=None, **window):
    y = direct(x, w1)
    h = batch_norm(y, scale, shift, activation=activation)[0]
    y = direct(h, w2, **window)
    return y, y.mean(axis=(0, 1, 2)), y.var(axis=(0, 1, 2))


def normed(c):
    return [f(c), f(c, low=0.5, high=2), f(c, low=0.5), f(c)]


ACTIVATIONS = {
    None: lambda z: z,
    "relu": lambda z: np.maximum(z, 0),
    "relu6": lambda z: np.clip(z, 0, 6),
    "hardswish": lambda z: z * np.clip(z / 6 + 0.5, 0, 1),
    "silu": lambda z: z / (1 + np.exp(-z)),
}


def batch_norm(x, scale=None, shift=None, residual=None, eps=1e-5, activation=None):
    axes = tuple(range(x.ndim - 1))
    y = affine(standard(x, axes, eps), scale, shift) + (0 if residual is None else residual)
    return ACTIVATIONS[activation](y), x.mean(axis=axes), x.var(axis=axes)


def batch_norm_eval(x, mean, var, scale=None, shift=None, residual=None, eps=1e-5, activation=None):
    y = affine((x - mean) / np.sqrt(var + eps), scale, shift) + (0 if residual is None else residual)
    return ACTIVATIONS[activation](y)


def fused(x, scale, shift, residual=None, **how):
    return pdl.batch_norm(x, scale, shift, residual=residual, **how)


def fused_eval(x, mean, var, scale, shift, residual=None, **how):
    return pdl.batch_norm_eval(x, mean, var, scale, shift, residual=residual, **how)


def layer_norm(x, scale=None, shift=None, dims=1, eps=1e-5):
    return affine(standard(x, tuple(range(x.ndim - dims, x.ndim)), eps), scale, shift)


def add_norm(x, residual, scale=None, shift=None, p=0.0, centred=True, parts=3):
    """parts: 1 the norm, 2 the sum, 3 both."""
    pdl.seed(8)
    made = pdl.add_layer_norm(x, residual, scale, shift, dropout_p=p, centred=centred)
    return made if parts == 3 else made[parts - 1]


def add_norm_reference(x, residual, scale=None, shift=None, p=0.0, centred=True, parts=3):
    if p:
        x = x * factors(x.shape, p, first_seed(8))
    t = x + residual
    y = layer_norm(t, scale, shift) if centred else rms_norm(t, scale, eps=1e-5)
    return (y, t) if parts == 3 else (y, t)[parts - 1]


def rms_norm(x, scale=None, eps=1e-6):
    return affine(x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps), scale, None)


def group_norm(x, scale=None, shift=None, groups=1, eps=1e-5):
    grouped = x.reshape(x.shape[0], -1, groups, x.shape[-1] // groups)
    return affine(standard(grouped, (1, 3), eps).reshape(x.shape), scale, shift)


def instance_norm(x, scale=None, shift=None, eps=1e-5):
    return group_norm(x, scale, shift, x.shape[-1], eps)


def local_response_norm(x, size, alpha, beta, k):
    padded = np.pad(x * x, [(0, 0)] * (x.ndim - 1) + [(size // 2, (size - 1) // 2)])
    total = sum(padded[..., j : j + x.shape[-1]] for j in range(size))
    return x / (k + alpha / size * total) ** beta


def normalize(x, axis=-1):
    return x / np.sqrt((x * x).sum(axis=axis, keepdims=True))


def joined(mean, var, n):
    return join_moments(mean, var, n, None)


G, _ = draws(31)
X = distinct(2, 3, 4, 3)  # no output of the norm comes near the relu's kink


def running_average(running, now, share, factor=1.0):
    return running + share * (factor * now - running)


CASES = [
    Case(pdl.batch_norm, [f(6, 3)], batch_norm),
    Case(pdl.batch_norm, [f(2, 3, 4, 5), f(5), f(5)], batch_norm, {"eps": 1e-3}),
    Case(pdl.batch_norm, [f(9, 2), f(2), None], batch_norm),
    Case(pdl.batch_norm, [f(9, 2), None, f(2)], batch_norm),
    Case(fused, [f(2, 5, 3), f(3), f(3), f(2, 5, 3)], batch_norm),
    *[Case(fused, [X, f(3, low=0.5), f(3, low=0.1)], batch_norm, {"activation": a}) for a in ACTIVATIONS if a],
    *[
        Case(fused, [X, f(3, low=0.5), f(3, low=0.1), f(*X.shape, high=0.1)], batch_norm, {"activation": a})
        for a in ACTIVATIONS
        if a
    ],
    Case(pdl.batch_norm_eval, [f(2, 4, 3), f(3), f(3, low=0.5, high=2)], batch_norm_eval),
    Case(pdl.batch_norm_eval, [f(2, 4, 3), f(3), f(3, low=0.5, high=2), f(3), f(3)], batch_norm_eval, {"eps": 1e-3}),
    *[
        Case(fused_eval, [X, f(3), f(3, low=0.5, high=2), f(3, low=0.5), f(3)], batch_norm_eval, {"activation": a})
        for a in ACTIVATIONS
    ],
    *[
        Case(
            fused_eval,
            [X, f(3), f(3, low=0.5, high=2), f(3, low=0.5), f(3), f(*X.shape)],
            batch_norm_eval,
            {"activation": a},
        )
        for a in ACTIVATIONS
    ],
    *[
        Case(
            norm_conv_of,
            [distinct(2, 5, 4, 3), *normed(3), f(3, 3, 1, 3)],
            norm_conv,
            {"activation": a, "groups": 3, "padding": 1, "stride": s},
            atol=1e-9,
        )
        for a, s in ((None, 1), ("relu", 2), ("relu6", 1), ("hardswish", 2), ("silu", 1))
    ],
    Case(norm_conv_of, [f(1, 6, 9, 2), *[None] * 4, f(5, 5, 1, 2)], norm_conv, {"groups": 2, "padding": 2}),
    Case(norm_conv_of, [f(1, 6, 9, 2), *[None] * 4, f(3, 3, 1, 2)], norm_conv, {"groups": 2, "statistics": False}),
    *[
        Case(norm_conv_of, [distinct(2, 2, 3, 3), *normed(3), f(1, 1, 3, 4)], norm_conv, {"activation": a}, atol=1e-9)
        for a in ACTIVATIONS
    ],
    Case(
        norm_conv_of,
        [distinct(2, 2, 3, 3), f(3), f(3, low=0.5, high=2), None, None, f(1, 1, 3, 4)],
        norm_conv,
        {"activation": "relu", "statistics": False},
        atol=1e-9,
    ),
    Case(norm_conv_of, [f(2, 2, 3, 3), *[None] * 4, f(1, 1, 3, 4)], norm_conv),
    Case(
        norm_conv_of,
        [distinct(2, 5, 4, 2), *normed(2), f(3, 3, 2, 3)],
        norm_conv,
        {"activation": "relu", "padding": 1, "stride": 2},
        atol=1e-9,
    ),
    Case(norm_conv_of, [f(2, 5, 4, 2), *[None] * 4, f(3, 3, 2, 3)], norm_conv, {"padding": 1}),
    Case(norm_conv_of, [f(2, 5, 4, 2), *[None] * 4, f(3, 3, 2, 3)], norm_conv, {"stride": 2}, grad=[5]),
    Case(
        chained,
        [f(2, 4, 4, 3), f(1, 1, 3, 4), f(4), f(4), f(3, 3, 1, 4)],
        chain,
        {"activation": "silu", "groups": 4, "padding": 1},
    ),
    Case(chained, [f(2, 3, 3, 3), f(1, 1, 3, 4), f(4), f(4), f(1, 1, 4, 2)], chain, {"activation": "silu"}),
    Case(pdl.layer_norm, [f(3, 7)], layer_norm),
    Case(pdl.layer_norm, [f(0, 7), f(7), f(7)], layer_norm),
    Case(pdl.layer_norm, [f(2, 3, 19), f(19), f(19)], layer_norm, {"eps": 1e-3}),
    Case(pdl.layer_norm, [f(2, 3, 4), f(3, 4), f(3, 4)], layer_norm, {"dims": 2}),
    Case(pdl.rms_norm, [f(3, 7)], rms_norm),
    Case(add_norm, [f(3, 7), f(3, 7)], add_norm_reference),
    Case(add_norm, [f(2, 2, 5), f(2, 2, 5), f(5), f(5)], add_norm_reference, {"p": 0.3}),
    Case(add_norm, [f(3, 18), f(3, 18), f(18)], add_norm_reference, {"p": 0.3, "centred": False}),
    Case(add_norm, [f(4, 5), f(4, 5), f(5)], add_norm_reference, {"parts": 1}),
    Case(add_norm, [f(4, 5), f(4, 5), f(5), f(5)], add_norm_reference, {"p": 0.3, "parts": 2}),
    Case(pdl.rms_norm, [f(2, 3, 6), f(6)], rms_norm, {"eps": 1e-3}),
    Case(pdl.group_norm, [f(2, 3, 4), f(4), f(4)], group_norm, {"groups": 2}),
    Case(pdl.group_norm, [f(1, 2, 3, 6)], group_norm, {"groups": 3}),
    Case(pdl.instance_norm, [f(2, 5, 3), f(3), f(3)], instance_norm),
    Case(pdl.local_response_norm, [f(2, 3, 7)], local_response_norm, {"size": 4, "alpha": 0.5, "beta": 0.75, "k": 2.0}),
    Case(pdl.normalize, [f(3, 4, low=0.2)], normalize),
    Case(pdl.normalize, [f(3, 4, low=0.2)], normalize, {"axis": 0}),
    Case(pdl.running_average, [f(3), f(3)], running_average, {"share": 0.1, "factor": 1.5}, differentiable=()),
    Case(moments, [G(2, 3, 4)], lambda x: (x, x.mean(axis=(0, 1)), x.var(axis=(0, 1)))),
    Case(moments, [G(1, 5)], lambda x: (x, x[0], 0 * x[0])),
    Case(joined, [G(3), G(3)], lambda mean, var, n: (mean, var, np.array(n)), {"n": 6}),
]
