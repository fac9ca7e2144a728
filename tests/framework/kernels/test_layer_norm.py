"""The layer norm kernels: every width of rows, storage types, the fused sum and dropout, the same bits in every run."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from pdl.kernels import layer_norm as kernels

from ..ops.cases_dropout import factors

RNG = np.random.default_rng(5)
Array = np.ndarray
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
SIZES = [(2, 1), (7, 3), (64, 16), (65, 16), (1000, 5), (33, 20), (129, 64), (9, 67), (3001, 33), (4, 1000), (70000, 2)]
TOLERANCE = {"float32": 2e-5, "float64": 1e-11, "bfloat16": 1e-2}
DTYPES = [np.dtype(np.float32), np.dtype(np.float64), BFLOAT16]


def make(dtype: np.dtype, *shape: int) -> Array:
    return RNG.standard_normal(shape).astype(dtype)


def close(found: Array, expected: Array, dtype: np.dtype) -> None:
    tolerance = TOLERANCE[dtype.name]
    scale = max(1.0, float(np.abs(expected).max(initial=0)))
    np.testing.assert_allclose(found.astype(np.float64), expected, atol=tolerance * scale, rtol=tolerance)


def reference(t: Array, g: Array, scale: Array, shift: Array, centred: bool) -> tuple[Array, ...]:
    """y, dx, dscale, dshift."""
    wide, g = t.astype(np.float64), g.astype(np.float64)
    centre = wide - wide.mean(1, keepdims=True) if centred else wide
    root = 1 / np.sqrt((centre**2).mean(1, keepdims=True) + 1e-2)
    hat, u = centre * root, g * scale
    inner = u - hat * (u * hat).mean(1, keepdims=True)
    dx = root * (inner - u.mean(1, keepdims=True) if centred else inner)
    return hat * scale + shift, dx, (g * hat).sum(0), g.sum(0)


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("how", ["layer", "rms", "sum", "dropout"])
def test_layer_norm(size: tuple[int, int], dtype: np.dtype, how: str) -> None:
    wide = np.dtype(np.float64) if dtype == np.float64 else np.dtype(np.float32)
    x, residual, g, g_total = (make(dtype, *size) for _ in range(4))
    scale, shift = make(wide, size[1]), make(wide, size[1])
    y, dx, dscale, dshift = np.empty_like(x), np.empty_like(x), np.empty_like(scale), np.empty_like(shift)
    mean, rstd = np.empty(size[0], wide) if how != "rms" else None, np.empty(size[0], wide)
    added, p = how in ("sum", "dropout"), 0.4 if how == "dropout" else 0.0
    total = np.empty_like(x) if added else None
    z = factors(size, p, 9) if p else 1.0
    random = {"dropout": p, "seed": 9}
    kernels.layer_norm(
        y, mean, rstd, x, scale, shift, 1e-2, total=total, residual=residual if added else None, **random
    )
    t = x if total is None else total
    if added:
        close(t, x.astype(np.float64) * z + residual.astype(np.float64), dtype)
    expected = reference(t, g, scale, shift, how != "rms")
    close(y, expected[0], dtype)
    more = {"g_total": g_total if added else None, "dresidual": np.empty_like(x) if p else None}
    kernels.layer_norm_grad(dx, dscale, dshift, g, t, mean, rstd, scale, **more, **random)
    inner = expected[1] + (g_total.astype(np.float64) if added else 0)
    close(dx, inner * z, dtype)
    if p:
        close(more["dresidual"], inner, dtype)
    close(dscale, expected[2], wide)
    close(dshift, expected[3], wide)


def test_the_same_bits_in_every_run() -> None:
    x, g, scale = make(DTYPES[0], 3000, 40), make(DTYPES[0], 3000, 40), make(DTYPES[0], 40)
    found = []
    for _ in range(3):
        y, dx, sums, mean, rstd = (
            np.empty_like(x),
            np.empty_like(x),
            np.empty((2, 40), x.dtype),
            *np.empty((2, 3000), x.dtype),
        )
        kernels.layer_norm(y, mean, rstd, x, scale, None, 1e-5)
        kernels.layer_norm_grad(dx, sums[0], sums[1], g, x, mean, rstd, scale)
        found.append(b"".join(a.tobytes() for a in (y, dx, sums)))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"residual": np.zeros((2, 3), np.float32)}, "need a place for the sum"),
        ({"dropout": 0.5}, "need a place for the sum"),
        ({"scale": np.zeros(4, np.float32)}, r"scale \(4,\) has 4 elements, 3 are expected"),
        ({"x": np.zeros((2, 0), np.float32)}, "no values to normalise"),
        ({"x": np.zeros((2, 3), np.int32)}, "float32, float64 and bfloat16, not int32"),
    ],
)
def test_refused(options: dict[str, object], words: str) -> None:
    arrays = {"y": np.zeros((2, 3), np.float32), "mean": None, "rstd": np.zeros(2, np.float32), "shift": None}
    arrays |= {"x": np.zeros((2, 3), np.float32), "scale": None}
    with pytest.raises((TypeError, ValueError), match=words):
        kernels.layer_norm(**{**arrays, "eps": 1e-5, **options})
