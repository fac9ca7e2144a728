"""3x3 convolutions of float32 by Winograd's F(4x4, 3x3) against direct sums in float64 (which never take that way)."""

from __future__ import annotations

import numpy as np
import pytest

from pdl.dtype import bfloat16
from pdl.kernels import conv

#: n, height, width, channels, outputs, padding: ragged tiles, all paddings, few and many weights, several runs of
#: tiles; channels that are no whole vectors, in one run of images and in several
SHAPES = [
    (8, 9, 11, 16, 32, 1),
    (3, 15, 16, 48, 16, 0),
    (2, 14, 16, 32, 48, 2),
    (5, 16, 16, 64, 64, 1),
    (3, 15, 15, 160, 176, 1),
    (64, 28, 28, 16, 16, 1),
    (7, 15, 16, 46, 37, 0),
    (50, 16, 16, 45, 45, 1),
]
#: the same, and the dilation
DILATED = [(3, 22, 23, 32, 48, 2, 2), (5, 31, 30, 64, 64, 0, 2), (2, 40, 37, 46, 48, 3, 3)]


@pytest.mark.parametrize("shape", [*SHAPES, *DILATED], ids=lambda s: "x".join(map(str, s)))
def test_error_against_float64(shape: tuple[int, ...]) -> None:
    """Root mean square error over the spread of the values: measured 1e-6 (forward, dx) to 2e-5 (dw, a long sum)."""
    n, h, w, c, o, pad, *apart = shape
    step = apart[0] if apart else 1
    rng = np.random.default_rng(1)
    out = (n, 1, h + 2 * pad - 2 * step, w + 2 * pad - 2 * step, o)
    x, weight, dy = (rng.standard_normal(s) for s in ((n, 1, h, w, c), (1, 3, 3, c, o), out))
    bias = rng.standard_normal(o)
    window = ((1, 1, 1), (0, pad, pad), (1, step, step), 1)

    def run(dtype: type) -> list[np.ndarray]:
        x_, w_, dy_ = (np.ascontiguousarray(a, dtype) for a in (x, weight, dy))
        y, dx, dw = np.empty(out, dtype), np.empty(x.shape, dtype), np.empty(weight.shape, dtype)
        conv.forward(y, x_, w_, bias.astype(dtype), *window)
        conv.dx(dx, dy_, w_, *window)
        conv.dw(dw, x_, dy_, *window)
        return [y, dx, dw]

    for found, expected, bound in zip(run(np.float32), run(np.float64), (1e-5, 1e-5, 1e-4), strict=True):
        assert np.sqrt(np.mean((found - expected) ** 2)) < bound * expected.std()


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: "x".join(map(str, s)))
def test_error_beside_that_of_direct_summation(shape: tuple[int, ...]) -> None:
    """The forward result is off by about 11 times what nine float32 products, one for each tap, are off."""
    n, h, w, c, o, pad = shape
    rng = np.random.default_rng(1)
    x, weight = (rng.standard_normal(s, dtype=np.float32) for s in ((n, 1, h, w, c), (1, 3, 3, c, o)))
    high, wide = h + 2 * pad - 2, w + 2 * pad - 2
    padded = np.pad(x[:, 0], ((0, 0), (pad, pad), (pad, pad), (0, 0)))

    def direct(dtype: type) -> np.ndarray:
        total = np.zeros((n, high, wide, o), dtype)
        for i in range(3):
            for j in range(3):
                total += padded[:, i : i + high, j : j + wide].astype(dtype) @ weight[0, i, j].astype(dtype)
        return total

    y = np.empty((n, 1, high, wide, o), np.float32)
    conv.forward(y, x, weight, None, (1, 1, 1), (0, pad, pad), (1, 1, 1), 1)
    exact = direct(np.float64)
    ours, plain = (np.sqrt(np.mean((found - exact) ** 2)) for found in (y[:, 0], direct(np.float32)))
    assert plain < ours < 20 * plain


@pytest.mark.parametrize("shape", SHAPES[:4], ids=lambda s: "x".join(map(str, s)))
def test_bfloat16_is_rounded_once(shape: tuple[int, ...]) -> None:
    """float32 between load and store: the result is that of float32, rounded; dw may be had without rounding."""
    n, h, w, c, o, pad = shape
    rng = np.random.default_rng(3)
    out = (n, 1, h + 2 * pad - 2, w + 2 * pad - 2, o)
    x, weight, dy = (rng.standard_normal(s).astype(bfloat16) for s in ((n, 1, h, w, c), (1, 3, 3, c, o), out))
    window = ((1, 1, 1), (0, pad, pad), (1, 1, 1), 1)
    wide = [np.ascontiguousarray(a, np.float32) for a in (x, weight, dy)]
    y, y32 = np.empty(out, bfloat16), np.empty(out, np.float32)
    conv.forward(y, x, weight, None, *window)
    conv.forward(y32, *wide[:2], None, *window)
    np.testing.assert_array_equal(y, y32.astype(bfloat16))
    dx, dx32 = np.empty(x.shape, bfloat16), np.empty(x.shape, np.float32)
    conv.dx(dx, dy, weight, *window)
    conv.dx(dx32, wide[2], wide[1], *window)
    np.testing.assert_array_equal(dx, dx32.astype(bfloat16))
    dw, dw32 = np.empty(weight.shape, np.float32), np.empty(weight.shape, np.float32)
    conv.dw(dw, x, dy, *window)
    conv.dw(dw32, wide[0], wide[2], *window)
    np.testing.assert_array_equal(dw, dw32)


def test_same_bits_every_time() -> None:
    rng = np.random.default_rng(2)
    x, dy = (rng.standard_normal((6, 1, 20, 20, c), dtype=np.float32) for c in (32, 64))
    runs = []
    for _ in range(3):
        dw = np.empty((1, 3, 3, 32, 64), np.float32)
        conv.dw(dw, x, dy, (1, 1, 1), (0, 1, 1), (1, 1, 1), 1)
        runs.append(dw)
    np.testing.assert_array_equal(runs[0], runs[1])
    np.testing.assert_array_equal(runs[0], runs[2])
