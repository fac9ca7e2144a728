"""Convolution kernels against their definition, over drawn geometries; the gradients through the adjoint identity.

<conv(v, w), g> = <v, dx(g, w)> and <conv(x, u), g> = <u, dw(x, g)> for all v and u, since conv is linear in both.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdl.dtype import bfloat16
from pdl.kernels import conv

from ..ops.cases_conv import direct

sizes = st.integers(1, 3)
CHANNELS = [
    (1, 1, 1),
    (1, 3, 6),
    (1, 16, 17),
    (1, 5, 40),
    (2, 2, 3),
    (3, 17, 16),
    (4, 1, 1),
    (19, 1, 1),
]  # groups, C/g, O/g


@st.composite
def geometries(draw: st.DrawFn) -> dict:
    kernel = draw(st.tuples(sizes, sizes, sizes))
    stride, dilation = draw(st.tuples(sizes, sizes, sizes)), draw(st.tuples(*[st.integers(1, 2)] * 3))
    pad = [draw(st.tuples(st.integers(0, 2), st.integers(0, 2))) for _ in range(3)]
    reach = [d * (k - 1) + 1 - sum(p) for d, k, p in zip(dilation, kernel, pad, strict=True)]
    size = [draw(st.integers(max(1, r), 9)) for r in reach]
    return {
        "kernel": kernel,
        "stride": stride,
        "dilation": dilation,
        "padding": pad,
        "size": size,
        "channels": draw(st.sampled_from(CHANNELS)),
        "batch": draw(st.integers(1, 3)),
        "dtype": draw(st.sampled_from([np.float32, np.float64])),
        "seed": draw(st.integers(0, 99)),
    }


@settings(max_examples=150)
@given(geometries())
def test_forward_and_gradients(geo: dict) -> None:
    rng, dtype = np.random.default_rng(geo["seed"]), geo["dtype"]
    groups, c, o = geo["channels"]
    x = rng.standard_normal((geo["batch"], *geo["size"], c * groups)).astype(dtype)
    w = rng.standard_normal((*geo["kernel"], c, o * groups)).astype(dtype)
    b = rng.standard_normal(o * groups).astype(dtype)
    how = {"stride": geo["stride"], "padding": geo["padding"], "dilation": geo["dilation"], "groups": groups}
    window = (geo["stride"], tuple(p[0] for p in geo["padding"]), geo["dilation"], groups)
    expected = direct(x.astype(np.float64), w.astype(np.float64), b.astype(np.float64), **how)
    tolerance = 2e-4 if dtype == np.float32 else 1e-10

    y = np.full(expected.shape, np.nan, dtype)
    conv.forward(y, x, w, b, *window)
    np.testing.assert_allclose(y, expected, atol=tolerance)

    g = rng.standard_normal(y.shape).astype(dtype)
    dx, dw = np.full(x.shape, np.nan, dtype), np.full(w.shape, np.nan, dtype)
    conv.dx(dx, g, w, *window)
    conv.dw(dw, x, g, *window)
    v, u = rng.standard_normal(x.shape), rng.standard_normal(w.shape)
    scale = 10 * np.sqrt(y.size) * tolerance
    assert abs((direct(v, w.astype(np.float64), **how) * g).sum() - (dx * v).sum()) < scale
    assert abs((direct(x.astype(np.float64), u, **how) * g).sum() - (dw * u).sum()) < scale


@settings(max_examples=150)
@given(geometries(), st.booleans())
def test_bf16_is_summed_in_float(geo: dict, wide: bool) -> None:
    rng = np.random.default_rng(geo["seed"])
    groups, c, o = geo["channels"]
    x = rng.standard_normal((geo["batch"], *geo["size"], c * groups)).astype(bfloat16)
    w = rng.standard_normal((*geo["kernel"], c, o * groups)).astype(bfloat16)
    b = rng.standard_normal(o * groups).astype(bfloat16)
    window = (geo["stride"], tuple(p[0] for p in geo["padding"]), geo["dilation"], groups)
    how = {"stride": geo["stride"], "padding": geo["padding"], "dilation": geo["dilation"], "groups": groups}
    x8, w8 = x.astype(np.float64), w.astype(np.float64)
    y8 = direct(x8, w8, b.astype(np.float64), **how)
    y = np.full(y8.shape, np.nan, bfloat16)
    conv.forward(y, x, w, b, *window)
    g = rng.standard_normal(y.shape).astype(bfloat16)
    g8, dx8, dw8 = g.astype(np.float64), np.empty(x.shape), np.empty(w.shape)
    conv.dx(dx8, g8, w8, *window)
    conv.dw(dw8, x8, g8, *window)
    dx, dw = np.full(x.shape, np.nan, bfloat16), np.full(w.shape, np.nan, np.float32 if wide else bfloat16)
    conv.dx(dx, g, w, *window)
    conv.dw(dw, x, g, *window)
    for found, expected in ((y, y8), (dx, dx8), (dw, dw8)):
        rounding = 0 if found.dtype == np.float32 else 2**-8 * np.abs(expected)
        assert (np.abs(found.astype(np.float64) - expected) <= 1e-4 + rounding).all()


def test_one_image_is_cut_between_the_threads() -> None:
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((1, 1, 40, 41, 8)), rng.standard_normal((1, 3, 3, 8, 20))
    y = np.full((1, 1, 40, 41, 20), np.nan)
    conv.forward(y, x, w, None, (1, 1, 1), (0, 1, 1), (1, 1, 1), 1)
    np.testing.assert_allclose(y, direct(x, w, padding=(0, 1, 1)), atol=1e-10)


@pytest.mark.parametrize("kernel", [1, 2, 3, 4, 5, 6, 7])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_depthwise_windows(kernel: int, stride: int) -> None:
    """Every window with a form of its own, rows of several pieces, whole and partial vectors of channels."""
    rng = np.random.default_rng(kernel)
    for c, width, dtype in ((35, 50, np.float32), (300, 29, np.float64)):
        how = {"stride": stride, "padding": (0, kernel // 2, kernel // 2), "dilation": 1, "groups": c}
        window = ((stride,) * 3, (0, kernel // 2, kernel // 2), (1, 1, 1), c)
        x = rng.standard_normal((2, 1, 8, width, c)).astype(dtype)
        w = rng.standard_normal((1, kernel, kernel, 1, c)).astype(dtype)
        expected = direct(x.astype(np.float64), w.astype(np.float64), **how)
        y, dx, dw = (np.full(shape, np.nan, dtype) for shape in (expected.shape, x.shape, w.shape))
        conv.forward(y, x, w, None, *window)
        tolerance = 1e-4 if dtype == np.float32 else 1e-11
        np.testing.assert_allclose(y, expected, atol=tolerance)
        conv.dx(dx, y, w, *window)
        conv.dw(dw, x, y, *window)
        v, u = rng.standard_normal(x.shape), rng.standard_normal(w.shape)
        scale = 10 * np.sqrt(y.size) * kernel * tolerance
        assert abs((direct(v, w.astype(np.float64), **how) * y).sum() - (dx * v).sum()) < scale
        assert abs((direct(x.astype(np.float64), u, **how) * y).sum() - (dw * u).sum()) < scale


@pytest.mark.parametrize(("kernel", "pad", "width"), [(31, 15, 130), (9, 0, 60), (31, 30, 5), (87, 43, 57)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, bfloat16])
def test_long_depthwise_windows(kernel: int, pad: int, width: int, dtype: Any) -> None:
    """Several pieces of a row, windows that reach beyond both of its ends, whole and partial vectors of channels."""
    rng = np.random.default_rng(kernel)
    for c in (16, 21):
        x, b = (rng.standard_normal(shape).astype(dtype) for shape in ((2, 1, 1, width, c), (c,)))
        w = rng.standard_normal((1, 1, kernel, 1, c)).astype(dtype)
        how = {"stride": 1, "padding": (0, 0, pad), "dilation": 1, "groups": c}
        window = ((1, 1, 1), (0, 0, pad), (1, 1, 1), c)
        wide = [a.astype(np.float64) for a in (x, w, b)]
        exact = direct(*wide, **how)
        rounding = {2: 2**-8, 4: 1e-5, 8: 1e-13}[np.dtype(dtype).itemsize]
        for activation, expected in (("relu", np.maximum(exact, 0)), ("tanh", np.tanh(exact))):
            y = np.full(exact.shape, np.nan, dtype)
            conv.forward_then(y, x, w, b, *window, activation=activation)
            np.testing.assert_allclose(y.astype(np.float64), expected, atol=4 * rounding, rtol=2 * rounding)
        g = rng.standard_normal(exact.shape).astype(dtype)
        dx = np.full(x.shape, np.nan, dtype)
        conv.dx(dx, g, w, *window)
        back = direct(g.astype(np.float64), wide[1][:, :, ::-1], **{**how, "padding": (0, 0, kernel - 1 - pad)})
        np.testing.assert_allclose(dx.astype(np.float64), back, atol=4 * rounding, rtol=2 * rounding)


@pytest.mark.parametrize(("kernel", "dilation", "width"), [(3, 2, 14), (5, 2, 14), (5, 3, 18), (3, 4, 10), (3, 2, 9)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, bfloat16])
def test_dilated_depthwise_windows(kernel: int, dilation: int, width: int, dtype: Any) -> None:
    """Widths that are multiples of the dilation, and others; whole and partial vectors of channels."""
    rng, pad = np.random.default_rng(width), kernel // 2 * dilation
    for c in (16, 21):
        x, b = (rng.standard_normal(shape).astype(dtype) for shape in ((2, 1, 11, width, c), (c,)))
        w = rng.standard_normal((1, kernel, kernel, 1, c)).astype(dtype)
        how = {"stride": 1, "padding": (0, pad, pad), "dilation": (1, dilation, dilation), "groups": c}
        expected = np.maximum(direct(x.astype(np.float64), w.astype(np.float64), b.astype(np.float64), **how), 0)
        y = np.full(expected.shape, np.nan, dtype)
        conv.forward_then(y, x, w, b, (1, 1, 1), (0, pad, pad), (1, dilation, dilation), c, activation="relu")
        rounding = {2: 2**-8, 4: 1e-5, 8: 1e-13}[np.dtype(dtype).itemsize]
        np.testing.assert_allclose(y.astype(np.float64), expected, atol=4 * rounding, rtol=2 * rounding)


@pytest.mark.parametrize(("kernel", "stride"), [(3, 1), (7, 2), (6, 1)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, bfloat16])
def test_several_outputs_of_every_channel(kernel: int, stride: int, dtype: Any) -> None:
    """Depthwise convolutions with a multiplier."""
    rng, pad = np.random.default_rng(kernel), kernel // 2
    for c, times in ((8, 2), (21, 2), (5, 3)):
        x, b = (rng.standard_normal(shape).astype(dtype) for shape in ((2, 1, 11, 13, c), (c * times,)))
        w = rng.standard_normal((1, kernel, kernel, 1, c * times)).astype(dtype)
        how = {"stride": stride, "padding": (0, pad, pad), "dilation": 1, "groups": c}
        exact = direct(x.astype(np.float64), w.astype(np.float64), b.astype(np.float64), **how)
        for activation, expected in (("relu", np.maximum(exact, 0)), ("tanh", np.tanh(exact))):
            y = np.full(expected.shape, np.nan, dtype)
            conv.forward_then(y, x, w, b, (1, stride, stride), (0, pad, pad), (1, 1, 1), c, activation=activation)
            rounding = {2: 2**-8, 4: 1e-5, 8: 1e-13}[np.dtype(dtype).itemsize]
            np.testing.assert_allclose(y.astype(np.float64), expected, atol=4 * rounding, rtol=2 * rounding)


@pytest.mark.parametrize("group", [2, 4, 8, 16])
@pytest.mark.parametrize(("kernel", "stride"), [(1, 1), (3, 1), (3, 2)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, bfloat16])
def test_narrow_groups(group: int, kernel: int, stride: int, dtype: Any) -> None:
    """Groups that fill a vector together: whole and partial vectors, rows of several pieces, activations."""
    rng = np.random.default_rng(group)
    for groups, width in ((3, 23), (16, 8), (1 + 16 // group, 2)):
        c = groups * group
        how = {"stride": stride, "padding": (0, kernel // 2, kernel // 2), "dilation": 1, "groups": groups}
        window = ((1, stride, stride), (0, kernel // 2, kernel // 2), (1, 1, 1), groups)
        x = rng.standard_normal((2, 1, 11, width, c)).astype(dtype)
        w, b = rng.standard_normal((1, kernel, kernel, group, c)).astype(dtype), rng.standard_normal(c).astype(dtype)
        exact = direct(x.astype(np.float64), w.astype(np.float64), b.astype(np.float64), **how)
        for activation, expected in ((None, exact), ("relu", np.maximum(exact, 0)), ("tanh", np.tanh(exact))):
            y = np.full(exact.shape, np.nan, dtype)
            if activation is None:
                conv.forward(y, x, w, b, *window)
            else:
                conv.forward_then(y, x, w, b, *window, activation=activation)
            rounding = {2: 2**-8, 4: 1e-5, 8: 1e-13}[np.dtype(dtype).itemsize]
            np.testing.assert_allclose(y.astype(np.float64), expected, atol=4 * rounding, rtol=2 * rounding)


@pytest.mark.parametrize(("groups", "c", "o"), [(1, 3, 4), (4, 1, 4)])
def test_the_weight_gradient_of_no_images_is_zero(groups: int, c: int, o: int) -> None:
    x, g, dw = np.empty((0, 1, 5, 5, c * groups)), np.empty((0, 1, 5, 5, o)), np.full((1, 3, 3, c, o), np.nan)
    conv.dw(dw, x, g, (1, 1, 1), (0, 1, 1), (1, 1, 1), groups)
    assert not dw.any()
