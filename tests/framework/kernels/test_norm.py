"""Norm kernels: every width of rows, large means, fused relu and residual, the same bits in every run."""

from __future__ import annotations

import numpy as np
import pytest

from pdl.dtype import bfloat16
from pdl.errors import ShapeError
from pdl.kernels import batch_norm, norm, runtime

RNG = np.random.default_rng(5)
Array = np.ndarray
SIZES = [(2, 1), (7, 3), (64, 16), (65, 16), (1000, 5), (33, 20), (129, 64), (9, 67), (3001, 33), (4, 1000), (70000, 2)]
TOLERANCE = {np.float32: 2e-5, np.float64: 1e-11}


def make(dtype: type, *shape: int, offset: float = 0.0) -> Array:
    return (RNG.standard_normal(shape) + offset).astype(dtype)


def close(found: Array, expected: Array, dtype: type) -> None:
    scale = max(1.0, float(np.abs(expected).max(initial=0)))
    np.testing.assert_allclose(found, expected, atol=TOLERANCE[dtype] * scale, rtol=TOLERANCE[dtype])


def forward(x: Array, scale: Array, shift: Array, residual: Array | None = None, activation: str | None = None):
    y, stats = np.empty_like(x), [np.empty(x.shape[-1], scale.dtype) for _ in range(3)]
    batch_norm.batch_norm(y, *stats, x, scale, shift, residual, 1e-5, activation)
    return y, *stats


def functions(z: Array) -> dict[str | None, tuple[Array, Array]]:
    """Value and slope of every activation."""
    s = 1 / (1 + np.exp(-z))
    swish = np.where(np.abs(z) < 3, z / 3 + 0.5, z > 0)
    return {
        None: (z, np.ones_like(z)),
        "relu": (np.maximum(z, 0), z > 0),
        "relu6": (np.clip(z, 0, 6), (z > 0) & (z < 6)),
        "hardswish": (z * np.clip(z / 6 + 0.5, 0, 1), swish),
        "silu": (z * s, s * (1 + z * (1 - s))),
    }


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, bfloat16], ids=str)
def test_batch_norm(size: tuple[int, int], dtype: type) -> None:
    real = np.float32 if dtype == bfloat16 else dtype
    x, g, r = (make(dtype, *size) for _ in range(3))
    scale, shift = 4 * make(real, size[1]), make(real, size[1])  # large enough to reach 6

    def near(found: Array, expected: Array) -> None:
        if found.dtype == bfloat16:  # a mask may flip where a sum was rounded: at most at a few points
            off = np.abs(found.astype(np.float64) - expected) > 0.02 * max(1.0, np.abs(expected).max())
            assert off.mean() <= 0.002
        else:
            close(found, expected, real)

    wide, wide_g = x.astype(np.float64), g.astype(np.float64)
    rstd = 1 / np.sqrt(wide.var(0) + 1e-5)
    hat = (wide - wide.mean(0)) * rstd
    plain, both = hat * scale + shift, hat * scale + shift + r.astype(np.float64)
    dx, dr = np.empty_like(x), np.empty_like(x)
    dscale, dshift, dmean, dvar = (np.empty_like(scale) for _ in range(4))
    for name, (value, slope) in functions(plain).items():
        y, *stats = forward(x, scale, shift, activation=name)
        near(y, value)
        for found, want in zip(stats, (wide.mean(0), wide.var(0), rstd), strict=True):
            close(found, want, real)
        batch_norm.batch_norm_apply(y, x, *stats[:2], scale, shift, None, 1e-5, name)
        near(y, value)
        kept = wide_g * slope
        sums = {"dshift": kept.sum(0), "dscale": (kept * hat).sum(0)}
        batch_norm.batch_norm_grad(dx, dscale, dshift, None, g, x, None, stats[0], stats[2], scale, shift, name)
        near(dx, scale * rstd * (kept - kept.mean(0) - hat * (kept * hat).mean(0)))
        close(dshift, sums["dshift"], real)
        close(dscale, sums["dscale"], real)
        batch_norm.batch_norm_apply_grad(
            dx, dmean, dvar, dscale, dshift, None, g, x, None, *stats[:2], scale, shift, 1e-5, name
        )
        near(dx, kept * scale * rstd)
        close(dshift, sums["dshift"], real)
        close(dscale, sums["dscale"], real)
        close(dmean, -sums["dshift"] * scale * rstd, real)
        close(dvar, sums["dscale"] * scale * rstd**2 / -2, real)
    for name in ("relu", "relu6"):
        y, *stats = forward(x, scale, shift, r, name)
        near(y, functions(both)[name][0])
        slope = functions(y.astype(np.float64))[name][1]
        kept = wide_g * slope
        batch_norm.batch_norm_grad(dx, dscale, dshift, dr, g, x, y, stats[0], stats[2], scale, shift, name)
        near(dx, scale * rstd * (kept - kept.mean(0) - hat * (kept * hat).mean(0)))
        np.testing.assert_array_equal(dr.astype(np.float64), kept)
        close(dscale, (kept * hat).sum(0), real)
        batch_norm.batch_norm_apply_grad(
            dx, dmean, dvar, dscale, dshift, dr, g, x, y, *stats[:2], scale, shift, 1e-5, name
        )
        near(dx, kept * scale * rstd)
        np.testing.assert_array_equal(dr.astype(np.float64), kept)


def test_a_large_mean_costs_no_digits() -> None:
    x = make(np.float32, 50000, 12, offset=1000.0)
    x[0] = -1e4  # an outlier in the first row must not matter either
    _, mean, var, _ = forward(x, np.ones(12, np.float32), np.zeros(12, np.float32))
    wide = x.astype(np.float64)
    np.testing.assert_allclose(mean, wide.mean(0), rtol=1e-7)
    np.testing.assert_allclose(var, wide.var(0), rtol=1e-5)


@pytest.mark.parametrize(
    "size", [(1, 50, 8, 4), (3, 7, 6, 2), (5, 33, 20, 20), (2, 1, 64, 1), (4, 300, 16, 8)], ids=str
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_group_norm(size: tuple[int, int, int, int], dtype: type) -> None:
    n, rows, columns, groups = size
    x, g, scale, shift = (
        make(dtype, n, rows, columns),
        make(dtype, n, rows, columns),
        make(dtype, columns),
        make(dtype, columns),
    )
    y, dx, dscale, dshift = np.empty_like(x), np.empty_like(x), np.empty_like(scale), np.empty_like(shift)
    mean, rstd = np.empty((n, groups), dtype), np.empty((n, groups), dtype)
    norm.group_norm(y, mean, rstd, x, scale, shift, groups, 1e-2)

    def average(v: Array) -> Array:
        mean = v.reshape(n, rows, groups, -1).mean((1, 3), keepdims=True)
        return np.broadcast_to(mean, (n, rows, groups, columns // groups)).reshape(x.shape)

    centre = x - average(x.astype(np.float64))
    root = 1 / np.sqrt(average(centre**2) + 1e-2)
    hat, u = centre * root, g.astype(np.float64) * scale
    close(y, hat * scale + shift, dtype)
    norm.group_norm_grad(dx, dscale, dshift, g, x, mean, rstd, scale, groups)
    close(dx, root * (u - average(u) - hat * average(u * hat)), dtype)
    close(dscale, (g * hat).sum((0, 1)), dtype)
    close(dshift, g.astype(np.float64).sum((0, 1)), dtype)


def test_same_bits_in_every_run() -> None:
    x, ones = make(np.float32, 40000, 16), np.ones(16, np.float32)
    before = runtime.num_threads()
    try:
        for threads in (1, 2, 3):
            runtime.set_num_threads(threads)
            first, *others = [b"".join(a.tobytes() for a in forward(x, ones, ones)) for _ in range(4)]
            assert all(other == first for other in others)
    finally:
        runtime.set_num_threads(before)


def test_refusals() -> None:
    x, ones = np.zeros((4, 3)), np.ones(3)
    stats = [np.empty(3) for _ in range(3)]
    with pytest.raises(ShapeError, match=r"scale .* 2 elements, 3 are expected"):
        batch_norm.batch_norm(x, *stats, x, np.ones(2), ones, None, 1e-5)
    with pytest.raises(ShapeError, match="no values"):
        batch_norm.batch_norm(np.zeros((0, 3)), *stats, np.zeros((0, 3)), ones, ones, None, 1e-5)
    with pytest.raises(ShapeError, match="3 channels do not divide into 2 groups"):
        norm.group_norm(x, np.empty((4, 2)), np.empty((4, 2)), x, ones, ones, 2, 1e-5)
    with pytest.raises(ShapeError, match="belong together"):
        batch_norm.batch_norm_grad(x, ones, ones, None, x, x, x, ones, ones, ones, None)
    with pytest.raises(ShapeError, match=r"none of .'hardswish', 'relu'"):
        batch_norm.batch_norm(x, *stats, x, ones, ones, None, 1e-5, "gelu")
