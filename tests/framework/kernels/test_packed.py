"""Products with weights packed before, in every form, against the kernels that take weights as they are, in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pdl.dtype import bfloat16
from pdl.kernels import conv, packed
from pdl.threads import num_threads

ONE = (1, 1, 1)
#: (n, d, h, w, c), (kd, kh, kw), outputs, stride, (padding before, after), dilation: windows in place and gathered,
#: rows that share cache sets, tails of tiles, panels and units, one row, many, depth, sums in several blocks of k
ROWS: list[tuple[Any, ...]] = [
    ((1, 1, 1, 1, 48), ONE, 70, ONE, (0, 0), ONE),
    ((37, 1, 1, 1, 512), ONE, 100, ONE, (0, 0), ONE),
    ((1, 1, 13, 14, 256), ONE, 130, ONE, (0, 0), ONE),
    ((2, 1, 9, 8, 7), ONE, 5, (1, 2, 2), (0, 0), ONE),
    ((1, 1, 23, 21, 3), (1, 7, 7), 64, (1, 2, 2), (3, 3), ONE),
    ((1, 1, 7, 9, 130), (1, 3, 3), 33, ONE, (1, 1), ONE),
    ((3, 1, 8, 8, 20), (1, 3, 3), 8, (1, 2, 1), (1, 2), (1, 2, 3)),
    ((2, 5, 6, 7, 9), (3, 2, 3), 18, (2, 1, 1), (1, 0), ONE),
    ((1, 1, 40, 40, 16), (1, 3, 3), 96, ONE, (0, 0), ONE),
    ((1, 1, 64, 64, 272), ONE, 64, ONE, (0, 0), ONE),
    ((1, 1, 9, 30, 160), (1, 3, 3), 33, (1, 1, 2), (2, 1), (1, 1, 2)),
]
#: n, height, width, channels, outputs, padding, dilation: ragged tiles, few and many tiles, few and many weights
WINOGRAD = [
    (1, 5, 7, 16, 16, 1),
    (2, 9, 11, 32, 48, 1),
    (3, 15, 16, 48, 16, 0),
    (1, 14, 13, 144, 160, 1),
    (4, 28, 28, 16, 32, 2),
    (1, 4, 4, 256, 272, 1),
    (2, 13, 9, 32, 48, 2, 2),
    (1, 12, 15, 144, 160, 4, 4),
    (3, 9, 17, 16, 32, 6, 3),
]
#: few outputs: depth, strides, dilation, windows larger than the image
TAPS: list[tuple[Any, ...]] = [
    ((1, 1, 13, 14, 20), (1, 5, 5), 1, ONE, (2, 2), ONE),
    ((2, 5, 6, 7, 9), (3, 2, 3), 4, (2, 1, 1), (1, 0), ONE),
    ((3, 1, 8, 8, 5), (1, 3, 3), 8, (1, 2, 1), (1, 2), (1, 2, 3)),
    ((1, 1, 3, 2, 4), (1, 7, 7), 2, ONE, (3, 3), ONE),
]
TOLERANCE = {np.float32: 2e-5, np.float64: 1e-13, bfloat16: 8e-3}


def compare(
    form: str, dtype: Any, x_shape: Any, kernel: Any, o: int, stride: Any, pad: Any, dilation: Any, how: dict[str, Any]
) -> None:
    """The packed kernel against conv.forward_then on the same numbers in float64."""
    rng = np.random.default_rng(0)
    first = (0 if x_shape[1] == 1 else pad[0], pad[0], pad[0])
    total = (0 if x_shape[1] == 1 else sum(pad), sum(pad), sum(pad))
    out = [(n + t - d * (k - 1) - 1) // s + 1
           for n, t, d, k, s in zip(x_shape[1:4], total, dilation, kernel, stride, strict=True)]  # fmt: skip
    y_shape, w_shape = (x_shape[0], *out, o), (*kernel, x_shape[4], o)
    arrays = [rng.standard_normal(s).astype(np.float32).astype(dtype) for s in (x_shape, w_shape, (o,), y_shape)]
    arrays[1] = (arrays[1].astype(np.float32) / np.sqrt(np.prod(w_shape[:-1]))).astype(dtype)
    x, w, b, residual = arrays
    own = dict(how, residual=residual if how.get("residual") else None)
    bias = b if how.get("residual") or not how else None
    to = np.empty(packed.size(form, w_shape, dtype), dtype)
    packed.pack(form, to, w)
    y, expected = np.full(y_shape, 7, dtype), np.empty(y_shape)
    packed.forward(form, y, x, to, w_shape, bias, stride, first, dilation, **own)
    wide = {k: v.astype(float) if isinstance(v, np.ndarray) else v for k, v in own.items()}
    conv.forward_then(
        expected,
        x.astype(float),
        w.astype(float),
        None if bias is None else bias.astype(float),
        stride,
        first,
        dilation,
        1,
        **wide,
    )
    scale = max(1.0, float(np.abs(expected).max()))
    tolerance = TOLERANCE[dtype] * (3 if form == "winograd4" and dtype == np.float32 else 1)
    assert np.abs(y.astype(float) - expected).max() <= tolerance * scale
    again = np.full(y_shape, 3, dtype)
    packed.forward(form, again, x, to, w_shape, bias, stride, first, dilation, **own)
    np.testing.assert_array_equal(y, again)


HOW: list[dict[str, Any]] = [
    {},
    {"activation": "relu"},
    {"activation": "clip", "parameters": (0.0, 0.5), "residual": True},
    {"activation": "gelu", "residual": True},
    {"activation": "hardswish"},
]


@pytest.mark.parametrize("how", HOW, ids=lambda h: h.get("activation", "plain"))
@pytest.mark.parametrize("dtype", [np.float32, np.float64, bfloat16], ids=["f32", "f64", "bf16"])
@pytest.mark.parametrize("case", ROWS, ids=lambda c: "x".join(map(str, c[0])))
def test_rows(case: tuple[Any, ...], dtype: Any, how: dict[str, Any]) -> None:
    compare("rows", dtype, *case, how)


@pytest.mark.parametrize("how", HOW, ids=lambda h: h.get("activation", "plain"))
@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["f32", "f64"])
@pytest.mark.parametrize("case", TAPS, ids=lambda c: "x".join(map(str, c[0])))
def test_taps(case: tuple[Any, ...], dtype: Any, how: dict[str, Any]) -> None:
    compare("taps", dtype, *case, how)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, bfloat16], ids=["f32", "f64", "bf16"])
@pytest.mark.parametrize("rows", [1, 2, 30])
def test_every_tail_of_columns(rows: int, dtype: Any) -> None:
    """Whole registers of columns and a part of one give what a product with more columns does, to the bit where rows
    are not few."""
    rng = np.random.default_rng(rows)
    shapes = (rows, 1, 1, 1, 41), (41, 70), (70,), (70,)
    x, w, b, more = (rng.standard_normal(shape).astype(np.float32).astype(dtype) for shape in shapes)

    def product(columns: int) -> Any:
        shape, y = (1, 1, 1, 41, columns), np.full((rows, 1, 1, 1, columns), 7, dtype)
        to = np.empty(packed.size("rows", shape, dtype), dtype)
        packed.pack("rows", to, np.ascontiguousarray(w[:, :columns]).reshape(shape))
        how = {"activation": "clip", "parameters": (-4.0, 4.0), "residual": np.tile(more[:columns], (rows, 1, 1, 1, 1))}
        packed.forward("rows", y, x, to, shape, b[:columns], ONE, (0, 0, 0), ONE, **how)
        return y.reshape(rows, columns).astype(float)

    whole = product(70)
    expected = np.clip(
        x.reshape(rows, 41).astype(float) @ w.astype(float) + b.astype(float) + more.astype(float), -4, 4
    )
    np.testing.assert_allclose(whole, expected, rtol=0, atol=TOLERANCE[dtype] * 4)
    for columns in range(1, 70):
        tolerance = 0 if rows > 2 else TOLERANCE[dtype] * 4
        np.testing.assert_allclose(product(columns), whole[:, :columns], rtol=0, atol=tolerance)


@pytest.mark.parametrize("columns", [3, 8, 16, 37])
@pytest.mark.parametrize("rows", [1, 5, 40])
def test_hard_swish_of_infinities(rows: int, columns: int) -> None:
    """In the registers of a product, as where it is a kernel of its own."""
    x, w = np.zeros((rows, 1, 1, 1, 4), np.float32), np.ones((1, 1, 1, 4, columns), np.float32)
    bias = np.resize(np.array([-np.inf, np.nan, np.inf, -4, -1], np.float32), columns)
    y = np.empty((rows, 1, 1, 1, columns), np.float32)
    to = np.empty(packed.size("rows", w.shape, np.float32), np.float32)
    packed.pack("rows", to, w)
    packed.forward("rows", y, x, to, w.shape, bias, ONE, (0, 0, 0), ONE, activation="hardswish")
    expected = np.resize(np.array([0, np.nan, np.inf, 0, -1 / 3], np.float32), columns)
    np.testing.assert_allclose(y.reshape(rows, columns), np.broadcast_to(expected, (rows, columns)), rtol=1e-6)


@pytest.mark.parametrize("how", HOW, ids=lambda h: h.get("activation", "plain"))
@pytest.mark.parametrize("dtype", [np.float32, bfloat16], ids=["f32", "bf16"])
@pytest.mark.parametrize("form", ["winograd2", "winograd4"])
@pytest.mark.parametrize("shape", WINOGRAD, ids=lambda s: "x".join(map(str, s)))
def test_winograd(shape: tuple[int, ...], form: str, dtype: Any, how: dict[str, Any]) -> None:
    n, h, w, c, o, pad, *apart = shape
    dilation = (1, *(apart or (1,)) * 2)
    compare(form, dtype, (n, 1, h, w, c), (1, 3, 3), o, ONE, (pad, pad), dilation, how)


@pytest.mark.parametrize(("form", "most"), [("rows", 9e-7), ("winograd2", 6e-7), ("winograd4", 4e-6)])
def test_error_against_float64(form: str, most: float) -> None:
    """Root mean square error over the spread of the values: measured 6.0e-7, 3.6e-7 and 2.3e-6."""
    rng = np.random.default_rng(5)
    x, w = rng.standard_normal((1, 1, 28, 28, 128)), rng.standard_normal((1, 3, 3, 128, 128))
    y, expected = np.empty((1, 1, 28, 28, 128), np.float32), np.empty((1, 1, 28, 28, 128))
    to = np.empty(packed.size(form, w.shape, np.float32), np.float32)
    packed.pack(form, to, w.astype(np.float32))
    packed.forward(form, y, x.astype(np.float32), to, w.shape, None, ONE, (0, 1, 1), ONE)
    conv.forward(expected, x, w, None, ONE, (0, 1, 1), ONE, 1)
    assert np.sqrt(np.mean((y - expected) ** 2)) < most * expected.std()


@pytest.mark.parametrize("threads", [1, 3, 4])
@pytest.mark.parametrize("form", ["rows", "winograd4"])
def test_threads_change_no_bit(form: str, threads: int) -> None:
    """Every value is one sum in one order, whoever takes it."""
    rng = np.random.default_rng(6)
    x, w = rng.standard_normal((1, 1, 14, 15, 64), np.float32), rng.standard_normal((1, 3, 3, 64, 112), np.float32)
    to = np.empty(packed.size(form, w.shape, np.float32), np.float32)
    packed.pack(form, to, w)
    found = []
    for count in (2, threads):
        found.append(np.empty((1, 1, 14, 15, 112), np.float32))
        with num_threads(count):
            packed.forward(form, found[-1], x, to, w.shape, None, ONE, (0, 1, 1), ONE)
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize(
    ("form", "shape", "window"),
    [
        ("winograd4", (1, 3, 3, 16, 24), (ONE, (0, 1, 1), ONE)),
        ("winograd2", (1, 3, 3, 16, 16), ((1, 2, 2), (0, 1, 1), ONE)),
        ("winograd2", (1, 5, 5, 16, 16), (ONE, (0, 1, 1), ONE)),
        ("winograd4", (1, 3, 3, 16, 16), (ONE, (0, 3, 3), (1, 2, 2))),
        ("columns", (1, 3, 3, 16, 16), (ONE, (0, 1, 1), ONE)),
        ("taps", (1, 3, 3, 8, 1), (ONE, (0, 1, 1), ONE)),
        ("rows", (1, 3, 3, 8, 16), (ONE, (0, 1, 1), ONE)),
    ],
)
def test_refusals(form: str, shape: tuple[int, ...], window: Any) -> None:
    """Shapes that a form does not take, forms that do not exist, images with other channels: nothing is written."""
    x, y = np.ones((1, 1, 6, 6, 16), np.float32), np.zeros((1, 1, 6, 6, shape[4]), np.float32)
    with pytest.raises(ValueError, match="packed"):
        packed.forward(form, y, x, np.ones(9 * 16 * 32, np.float32), shape, None, *window)
    assert not y.any()
