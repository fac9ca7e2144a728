"""Convolutions with batch norm inside: several blocks and parts, results that pass the caches, partial vectors."""

from __future__ import annotations

import numpy as np
import pytest

from pdl.dtype import bfloat16
from pdl.errors import ShapeError
from pdl.kernels import norm_conv, runtime

from ..ops.cases_conv import direct

RNG = np.random.default_rng(6)
Array = np.ndarray
ONE, THREE = ((1, 1), ((0, 0), (0, 0))), ((1, 1), ((1, 1), (1, 1)))
HALF = ((2, 2), ((1, 1), (1, 1)))
#: x, outputs, kernel, (stride, padding), groups; the two large ones make results of 8 MiB and more
SIZES = [
    ((2, 40, 41, 19), 35, 1, ONE, 1),
    ((3, 7, 7, 300), 24, 1, ONE, 1),
    ((1, 152, 152, 16), 96, 1, ONE, 1),
    ((1, 152, 152, 96), 16, 1, ONE, 1),
    ((2, 23, 22, 19), 19, 3, HALF, 19),
    ((2, 9, 15, 33), 33, 5, ((1, 1), ((2, 2), (2, 2))), 33),
    ((1, 152, 152, 96), 96, 3, THREE, 96),
]


def unit(dtype: type, *shape: int) -> Array:
    return RNG.standard_normal(shape).astype(dtype)


def run(x: Array, norm: tuple[Array, ...], w: Array, g: Array, gs: tuple[Array, Array], window: tuple, groups: int):
    """y, mean, var, then dx, dw, dmean, dvar, dscale, dshift."""
    y, stats = np.empty_like(g), [np.empty(w.shape[-1], w.dtype) for _ in range(2)]
    norm_conv.forward(y, *stats, x, *norm, w, 1e-3, "relu6", *window, groups)
    made = [np.empty_like(x), np.empty_like(w), *(np.empty_like(norm[0]) for _ in range(4))]
    norm_conv.backward(*made, g, y, stats[0], *gs, x, *norm, w, 1e-3, "relu6", *window, groups)
    return y, *stats, *made


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, bfloat16], ids=str)
def test_against_the_definition(size: tuple, dtype: type) -> None:
    shape, outputs, kernel, (stride, padding), groups = size
    real = np.float32 if dtype == bfloat16 else dtype
    x, c = unit(dtype, *shape), shape[-1]
    norm = (unit(real, c), unit(real, c) ** 2 + 1, unit(real, c), unit(real, c))
    w = unit(real, kernel, kernel, c // groups, outputs)
    h = np.clip((x.astype(float) - norm[0]) / np.sqrt(norm[1] + 1e-3) * norm[2] + norm[3], 0, 6)
    expected = direct(h, w.astype(float), stride=stride, padding=padding, groups=groups)
    g, gs = unit(dtype, *expected.shape), (100 * unit(real, outputs), 100 * unit(real, outputs))
    y, mean, var, dx, dw, *sums = run(x, norm, w, g, gs, (stride, padding), groups)
    tolerance = {np.float64: 1e-9, np.float32: 1e-3}.get(dtype, 3e-2)

    def close(found: Array, want: Array | float) -> None:
        np.testing.assert_allclose(found.astype(float), want, atol=tolerance * max(1.0, np.abs(want).max()))

    close(y, expected)
    close(mean, expected.mean((0, 1, 2)))
    close(var, expected.var((0, 1, 2)))
    # the gradients through what they say of directions: <gradient, d> is the derivative along d
    n, wide = y.size // outputs, y.astype(float)
    raw = g.astype(float) + gs[0] / n + (wide - wide.mean((0, 1, 2))) * 2 * gs[1] / n
    d = RNG.standard_normal(w.shape)
    close((dw * d).sum() / np.linalg.norm(dw), (direct(h, d, stride=stride, padding=padding, groups=groups) * raw).sum()
          / np.linalg.norm(dw))  # fmt: skip
    root = 1 / np.sqrt(norm[1].astype(float) + 1e-3)
    inside = (h > 0) & (h < 6)
    e = RNG.standard_normal(x.shape)
    along = direct(inside * norm[2] * root * e, w.astype(float), stride=stride, padding=padding, groups=groups)
    size_of = np.linalg.norm(dx.astype(float))
    close(np.array((dx.astype(float) * e).sum() / size_of), (along * raw).sum() / size_of)
    total = dx.astype(float).sum((0, 1, 2))
    slack = 1 if dtype == bfloat16 else 1e-2 if dtype == np.float32 else 1e-8
    np.testing.assert_allclose(sums[0], -total, atol=slack * size_of / np.sqrt(c))
    np.testing.assert_allclose(sums[3] * norm[2] * root, total, atol=slack * size_of / np.sqrt(c))
    moment = (dx.astype(float) * (x.astype(float) - norm[0])).sum((0, 1, 2))
    np.testing.assert_allclose(sums[1], moment * root**2 / -2, atol=slack * size_of / np.sqrt(c))
    np.testing.assert_allclose(sums[2] * norm[2], moment, atol=slack * size_of / np.sqrt(c))


def test_same_bits_in_every_run() -> None:
    x, w, g = unit(np.float32, 2, 30, 30, 20), unit(np.float32, 3, 3, 1, 20), unit(np.float32, 2, 30, 30, 20)
    norm = tuple(unit(np.float32, 20) ** 2 + 1 for _ in range(4))
    before = runtime.num_threads()
    try:
        for threads in (1, 2, 3):
            runtime.set_num_threads(threads)
            runs = [b"".join(a.tobytes() for a in run(x, norm, w, g, norm[:2], THREE, 20)) for _ in range(3)]
            assert len(set(runs)) == 1
    finally:
        runtime.set_num_threads(before)


def test_refusals() -> None:
    x, w, y = np.zeros((1, 4, 4, 2)), np.zeros((3, 3, 2, 3)), np.zeros((1, 4, 4, 3))
    none = (None,) * 4
    with pytest.raises(ShapeError, match="has no kernel"):
        norm_conv.forward(y, None, None, x, *none, w, 1e-5, None, *THREE, 1)
    with pytest.raises(ShapeError, match="is not what w"):
        norm_conv.forward(y, None, None, x, *none, w, 1e-5, None, *ONE, 1)
    w, y = np.zeros((1, 1, 2, 3)), np.zeros((1, 4, 4, 3))
    with pytest.raises(ShapeError, match="go with mean"):
        norm_conv.backward(x, w, y[0, 0, 0], *none[:3], y, None, None, None, None, x, *none, w, 1e-5, None, *ONE, 1)
