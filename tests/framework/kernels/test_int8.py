"""Kernels of quantised nets against NumPy, bit for bit."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from pdl import threads
from pdl.errors import DtypeError, ShapeError
from pdl.kernels import int8 as kernels
from tests.framework.kernels import integers

Triple = tuple[int, int, int]


class Net(NamedTuple):
    """One convolution: x [n, *size, c], `pads` before and behind, in three dimensions."""

    n: int
    size: Triple
    c: int
    o: int
    kernel: Triple
    stride: Triple = (1, 1, 1)
    pads: tuple[tuple[int, int], ...] = ((0, 0), (0, 0), (0, 0))
    dilation: Triple = (1, 1, 1)
    groups: int = 1


SAME3, SAME5 = ((0, 0), (1, 1), (1, 1)), ((0, 0), (2, 2), (2, 2))
NETS = {
    "pointwise": Net(2, (1, 7, 9), 32, 24, (1, 1, 1)),
    "pointwise, odd channels": Net(1, (1, 5, 5), 13, 37, (1, 1, 1)),
    "linear": Net(3, (1, 1, 1), 1280, 10, (1, 1, 1)),
    "linear, many outputs": Net(1, (1, 1, 1), 64, 1000, (1, 1, 1)),
    "many rows": Net(40, (1, 17, 19), 20, 40, (1, 1, 1)),
    "stem": Net(2, (1, 19, 17), 3, 32, (1, 3, 3), (1, 2, 2), SAME3),
    "3 x 3": Net(2, (1, 12, 11), 16, 16, (1, 3, 3), pads=SAME3),
    "3 x 3, wide": Net(1, (1, 9, 33), 64, 70, (1, 3, 3), pads=SAME3),
    "3 x 3, deep": Net(1, (1, 4, 4), 160, 128, (1, 3, 3), pads=SAME3),
    "valid": Net(2, (1, 10, 10), 8, 20, (1, 3, 3)),
    "valid, odd": Net(2, (1, 10, 10), 5, 20, (1, 3, 3)),
    "5 x 5, uneven padding": Net(1, (1, 13, 8), 6, 17, (1, 5, 5), (1, 2, 3), ((0, 0), (2, 1), (0, 3))),
    "1 x 1, stride 2": Net(2, (1, 8, 8), 16, 33, (1, 1, 1), (1, 2, 2)),
    "dilated": Net(1, (1, 15, 14), 7, 9, (1, 3, 3), (1, 1, 1), ((0, 0), (2, 2), (2, 2)), (1, 2, 2)),
    "groups": Net(2, (1, 9, 8), 24, 36, (1, 3, 3), pads=SAME3, groups=3),
    "groups of 5": Net(1, (1, 9, 8), 15, 6, (1, 3, 3), pads=SAME3, groups=3),
    "grouped pointwise": Net(1, (1, 6, 6), 16, 32, (1, 1, 1), groups=2),
    "3-d": Net(1, (5, 6, 7), 4, 8, (3, 3, 3), (2, 1, 1), ((1, 1), (1, 1), (1, 1))),
    "1-d": Net(3, (1, 1, 50), 12, 18, (1, 1, 7), (1, 1, 2), ((0, 0), (0, 0), (3, 3))),
    "depthwise": Net(2, (1, 10, 9), 64, 64, (1, 3, 3), pads=SAME3, groups=64),
    "depthwise, 144": Net(1, (1, 8, 8), 144, 144, (1, 3, 3), pads=SAME3, groups=144),
    "depthwise, 24, stride 2": Net(2, (1, 9, 11), 24, 24, (1, 3, 3), (1, 2, 2), SAME3, groups=24),
    "depthwise, 5 x 5": Net(1, (1, 9, 9), 72, 72, (1, 5, 5), pads=SAME5, groups=72),
    "depthwise, 5 x 5, stride 2": Net(2, (1, 9, 9), 7, 7, (1, 5, 5), (1, 2, 2), SAME5, groups=7),
    "depthwise, 7 x 5, stride 3": Net(
        1, (1, 15, 16), 33, 33, (1, 7, 5), (1, 2, 3), ((0, 0), (3, 3), (2, 1)), groups=33
    ),
    "depthwise, dilated": Net(1, (1, 15, 15), 40, 40, (1, 3, 3), (1, 1, 1), SAME5, (1, 2, 2), groups=40),
    "depthwise, beyond": Net(1, (1, 2, 2), 20, 20, (1, 3, 3), (1, 1, 1), ((0, 0), (4, 5), (6, 3)), groups=20),
    "depthwise, 1-d": Net(2, (1, 1, 31), 48, 48, (1, 1, 9), pads=((0, 0), (0, 0), (4, 4)), groups=48),
    "depthwise, two outputs each": Net(1, (1, 6, 6), 12, 24, (1, 3, 3), pads=SAME3, groups=12),
}


def arrays(net: Net, seed: int = 0) -> tuple[Any, Any, Any, Any]:
    """x, w, bias, multipliers; the largest products are among them."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 256, (net.n, *net.size, net.c), np.uint8)
    w = rng.integers(-127, 128, (*net.kernel, net.c // net.groups, net.o)).astype(np.int8)
    x[0, ..., : net.c // 2] = 255
    w[..., 0] = 127
    if net.o > 1:
        w[..., 1] = -128
    spread = 100 * np.sqrt(w[..., 0].size) * 74
    bias = rng.integers(-50_000, 50_000, net.o).astype(np.int32)
    return x, w, bias, (rng.uniform(50, 200, net.o) / spread).astype(np.float32) * 50


def run(net: Net, x: Any, w: Any, bias: Any, multiplier: Any, x_zero: int, out: Any, **then: Any) -> Any:
    """The kernel's result."""
    tile = then.pop("tile", 0)
    packed = np.full(kernels.packed_bytes(net.kernel, net.c, net.o, net.dilation, net.groups, tile), 99, np.int8)
    kernels.pack(packed, w, bias, multiplier, x_zero, net.dilation, net.groups, tile)
    before = tuple(p[0] for p in net.pads)
    kernels.convolution(
        out, x, packed, net.kernel, net.stride, before, net.dilation, net.groups, x_zero,
        then.pop("zero") or 0, then.pop("low"), then.pop("high"), tile=tile, **then,
    )  # fmt: skip
    return out


#: what Winograd's filters take: tiles that are whole and those that are not, few and many
TILED = {
    "3 x 3": NETS["3 x 3"],
    "wide": Net(1, (1, 9, 33), 64, 80, (1, 3, 3), pads=SAME3),
    "deep": Net(1, (1, 4, 4), 160, 128, (1, 3, 3), pads=SAME3),
    "valid": Net(3, (1, 10, 11), 16, 48, (1, 3, 3)),
    "small": Net(2, (1, 3, 2), 32, 16, (1, 3, 3), pads=SAME3),
    "uneven padding": Net(1, (1, 13, 8), 16, 32, (1, 3, 3), pads=((0, 0), (2, 1), (0, 2))),
    "many tiles": Net(6, (1, 21, 30), 32, 32, (1, 3, 3), pads=SAME3),
    "many weights": Net(1, (1, 15, 6), 256, 272, (1, 3, 3), pads=SAME3),
    "very many weights": Net(1, (1, 5, 6), 416, 400, (1, 3, 3), pads=SAME3),
}
THEN: dict[str, dict[str, Any]] = {
    "plain": {"zero": 113, "low": -113, "high": 142},
    "relu6": {"zero": 3, "low": 0, "high": 171.25},
    "residual": {"zero": 7, "low": 0, "high": 248, "residual_scale": 0.7183, "residual_zero": 93},
    "swish": {"zero": 16, "low": -16, "high": 239, "after": 1.37},
    "both": {"zero": 16, "low": -16, "high": 239, "after": 1.37, "residual_scale": 0.31, "residual_zero": 128},
    "wide": {"zero": None, "low": -np.inf, "high": np.inf},
    "wide, residual": {"zero": None, "low": 0.0, "high": np.inf, "residual_scale": 0.31, "residual_zero": 128},
}  # fmt: skip


@pytest.mark.parametrize("how", THEN)
@pytest.mark.parametrize("name", NETS)
def test_convolution(name: str, how: str) -> None:
    net = NETS[name]
    x, w, bias, multiplier = arrays(net)
    then = THEN[how]
    total = integers.correlation(x, w, net.stride, net.pads, net.dilation, net.groups, 77) + bias
    if "residual_scale" in then:
        then = {**then, "residual": np.random.default_rng(5).integers(0, 256, total.shape, np.uint8)}
    wanted = integers.finish(total, multiplier, **then)
    assert wanted.std() > 0
    found = run(net, x, w, bias, multiplier, 77, np.empty_like(wanted), **then)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("name", NETS)
def test_threads_and_no_bias(name: str) -> None:
    net = NETS[name]
    x, w, _, multiplier = arrays(net, 3)
    total = integers.correlation(x, w, net.stride, net.pads, net.dilation, net.groups, 255)
    wanted = integers.finish(total, multiplier, **THEN["plain"])
    for count in (1, 2, 3, 7):
        with threads.num_threads(count):
            found = run(net, x, w, None, multiplier, 255, np.empty_like(wanted), **THEN["plain"])
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("how", THEN)
@pytest.mark.parametrize("tile", [2, 4])
@pytest.mark.parametrize("name", TILED)
def test_winograd(name: str, tile: int, how: str) -> None:
    """The same bytes as direct summation, up to the largest sums that a tile allows."""
    net = TILED[name]
    x, w, bias, multiplier = arrays(net)
    if tile == 4 and 255 * 128 * 64 * net.c * 9 >= 2**31:
        w //= 4
        w[..., 0], w[..., 1] = 2**25 // (255 * net.c * 9), -(2**25 // (255 * net.c * 9))
    then = THEN[how]
    total = integers.correlation(x, w, net.stride, net.pads, net.dilation, net.groups, 77) + bias
    if "residual_scale" in then:
        then = {**then, "residual": np.random.default_rng(5).integers(0, 256, total.shape, np.uint8)}
    wanted = integers.finish(total, multiplier, **then)
    for count in (1, 3):
        with threads.num_threads(count):
            found = run(net, x, w, bias, multiplier, 77, np.empty_like(wanted), tile=tile, **then)
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("case", ["5 x 5", "stride", "dilation", "groups", "channels", "tile 3"])
def test_windows_that_winograd_does_not_take(case: str) -> None:
    kernel = (1, 5, 5) if case == "5 x 5" else (1, 3, 3)
    stride, dilation = (1, 1, 1 + (case == "stride")), (1, 1, 1 + (case == "dilation"))
    c, groups = 24 if case == "channels" else 32, 1 + (case == "groups")
    net = Net(1, (1, 9, 9), c, 32, kernel, stride, SAME3, dilation, groups)
    x, w, bias, multiplier = arrays(net)
    with pytest.raises(ShapeError, match="tile"):
        run(net, x, w, bias, multiplier, 0, np.empty((1, 1, 9, 9, 32), np.uint8),
            tile=3 if case == "tile 3" else 4, **THEN["plain"])  # fmt: skip


def test_ties_go_to_even() -> None:
    """Sums that are halves: 0.5 -> 0, 1.5 -> 2, 2.5 -> 2, also beside an odd zero point."""
    x = np.arange(0, 64, dtype=np.uint8).reshape(1, 1, 1, 64, 1)
    net = Net(1, (1, 1, 64), 1, 1, (1, 1, 1))
    half, w = np.full(1, 0.5, np.float32), np.ones((1, 1, 1, 1, 1), np.int8)
    found = run(net, x, w, None, half, 20, np.empty_like(x), zero=101, low=-101, high=154)
    np.testing.assert_array_equal(found.ravel(), np.rint((np.arange(64) - 20) / 2) + 101)


@pytest.mark.parametrize("kernel", [(1, 1, 1), (1, 3, 3)])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e28])
def test_the_largest_sums(kernel: Triple, scale: float) -> None:
    """All inputs 255 and all weights of an output alike: sums near the ends of int32, and numbers far beyond bytes."""
    c = 64_000 // (kernel[1] * kernel[2])
    net = Net(1, (1, 7, 4), c, 21, kernel)
    x = np.full((1, 1, 7, 4, c), 255, np.uint8)
    w = np.tile(np.array([127, -128, 1, -1, 0, 64, -65], np.int8), (*kernel, c, 3))
    w[..., -1] = np.where(np.arange(c) % 4 < 2, 127, -128)  # neighbours that add up, then the other way
    total = integers.correlation(x, w, net.stride, net.pads, net.dilation, 1, 0)
    then = {"zero": 9, "low": -9, "high": 246}
    multiplier = np.full(21, scale, np.float32)
    wanted = integers.finish(total, multiplier, **then)
    np.testing.assert_array_equal(run(net, x, w, None, multiplier, 0, np.empty_like(wanted), **then), wanted)


@pytest.mark.parametrize(("shape", "axis"), [((1000,), -1), ((3, 5, 37), 1), ((4, 9), 0), ((17, 3), 1), ((0, 3), -1)])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_quantise(shape: Any, axis: int, dtype: Any) -> None:
    rng = np.random.default_rng(2)
    x = (rng.standard_normal(shape) * 50).astype(np.float32)
    x.ravel()[:6] = np.array([0.25, 0.75, 1e30, -1e30, np.inf, -np.inf], np.float32)[: x.size]
    n = 1 if axis < 0 else shape[axis]
    scale = np.full(n, 0.5, np.float32) if axis < 0 else rng.uniform(0.1, 2, n).astype(np.float32)
    zero = rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, n).astype(dtype)
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    y, back = np.empty(shape, dtype), np.empty(shape, np.float32)
    kernels.quantise(y, x, scale, zero, axis, low, high)
    form = [1] * len(shape)
    if axis >= 0:
        form[axis] = n
    s, z = scale.reshape(form), zero.reshape(form).astype(np.int64)
    wanted = np.clip(np.rint((x / s).astype(np.float64)) + z, low, high).astype(dtype)
    np.testing.assert_array_equal(y, wanted)
    kernels.dequantise(back, y, scale, zero, axis)
    np.testing.assert_array_equal(back, (y.astype(np.float32) - z.astype(np.float32)) * s)


def test_quantise_nan_is_the_least_byte() -> None:
    y = np.empty(3, np.uint8)
    kernels.quantise(y, np.full(3, np.nan, np.float32), np.ones(1, np.float32), np.full(1, 9, np.uint8), -1, 0, 255)
    np.testing.assert_array_equal(y, 0)


@pytest.mark.parametrize("n", [1, 15, 64, 1003, 200_000])
def test_add_and_look_up(n: int) -> None:
    rng = np.random.default_rng(n)
    a, b, table = (rng.integers(0, 256, m, np.uint8) for m in (n, n, 256))
    y, F = np.empty_like(a), np.float32
    kernels.add(y, a, b, 12, 0.31, 200, 0.77, 5, 0, 250)
    v = (a.astype(F) - F(12)) * F(0.31) + (b.astype(F) - F(200)) * F(0.77)
    np.testing.assert_array_equal(y, np.rint(np.clip(v, 0, 250)) + 5)
    kernels.look_up(y, a, table)
    np.testing.assert_array_equal(y, table[a])


def test_refusals() -> None:
    net = NETS["valid"]
    x, w, bias, multiplier = arrays(net)
    y = np.empty((2, 1, 8, 8, 20), np.uint8)
    with pytest.raises(DtypeError, match="x is float32"):
        run(net, x.astype(np.float32), w, bias, multiplier, 0, y, **THEN["plain"])
    with pytest.raises(ShapeError, match="bounds"):
        run(net, x, w, bias, multiplier, 0, y, zero=100, low=-120, high=10)
    with pytest.raises(ShapeError, match="no uint8"):
        run(net, x, w, bias, multiplier, 256, y, **THEN["plain"])
    with pytest.raises(ShapeError, match="elements"):
        run(net, x, w, bias[:3], multiplier, 0, y, **THEN["plain"])
