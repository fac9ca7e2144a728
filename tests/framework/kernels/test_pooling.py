"""Pooling kernels: every width of lanes and tail, ties and NaN, gaps and overlaps, threads."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import pdl
from pdl import threads
from pdl.errors import DtypeError, ShapeError
from pdl.ops.pool import max_pool

RNG = np.random.default_rng(4)


def naive_max(x: np.ndarray, k: int, s: int) -> tuple[np.ndarray, np.ndarray]:
    n, h, w, c = x.shape
    y = np.zeros((n, (h - k) // s + 1, (w - k) // s + 1, c), x.dtype)
    index = np.zeros(y.shape, np.int32)
    for i in range(y.shape[1]):
        for j in range(y.shape[2]):
            cells = x[:, i * s : i * s + k, j * s : j * s + k].reshape(n, k * k, c)
            y[:, i, j] = cells.max(1)
            at = cells.argmax(1)
            index[:, i, j] = (i * s + at // k) * w + j * s + at % k
    return y, index


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5, 6, 8, 9, 15, 16, 17, 31, 32, 64, 70, 130])
def test_max_and_its_gradient(channels: int) -> None:
    for dtype, (k, s) in product((np.float32, np.float64), ((2, 2), (3, 2), (3, 1), (2, 3), (4, 4))):
        x = RNG.integers(0, 50, (3, 9, 7, channels)).astype(dtype)  # with ties: the first wins
        want, index = naive_max(x, k, s)
        tensor = pdl.Tensor(x, requires_grad=True)
        y, found = max_pool(tensor, k, stride=s, return_index=True)
        np.testing.assert_array_equal(y.data, want)
        np.testing.assert_array_equal(found.data, index)
        g = RNG.integers(1, 9, y.shape).astype(dtype)
        y.backward(pdl.Tensor(g))
        dx = np.zeros((3, 63, channels), dtype)
        batch, _, channel = np.ogrid[:3, : index[0, ..., 0].size, :channels]
        np.add.at(dx, (batch, index.reshape(3, -1, channels), channel), g.reshape(3, -1, channels))
        np.testing.assert_array_equal(tensor.grad.data, dx.reshape(x.shape), err_msg=f"kernel {k}, stride {s}, {dtype}")


@pytest.mark.parametrize("channels", [1, 6, 16, 33])
@pytest.mark.parametrize(("k", "s"), [(2, 2), (3, 2), (2, 3)])
def test_mean_gradient_spreads_g_evenly(channels: int, k: int, s: int) -> None:
    x = pdl.Tensor(RNG.random((2, 8, 7, channels)), requires_grad=True)
    y = pdl.avg_pool(x, k, stride=s)
    g = RNG.random(y.shape)
    y.backward(pdl.Tensor(g))
    dx = np.zeros(x.shape)
    for i in range(y.shape[1]):
        for j in range(y.shape[2]):
            dx[:, i * s : i * s + k, j * s : j * s + k] += g[:, i, j][:, None, None] / k**2
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.data, dx, atol=1e-14)


@pytest.mark.parametrize("channels", [1, 5, 16])
def test_a_nan_wins_and_minus_infinity_is_a_value(channels: int) -> None:
    x = RNG.random((1, 4, 4, channels)).astype(np.float32)
    x[0, 1, 1] = np.nan
    x[0, 2:, 2:] = -np.inf
    y, index = max_pool(pdl.Tensor(x), 2, return_index=True)
    assert np.isnan(y.data[0, 0, 0]).all()
    assert (index.data[0, 0, 0] == 5).all()
    assert (y.data[0, 1, 1] == -np.inf).all()
    assert (index.data[0, 1, 1] == 10).all()


def test_the_number_of_threads_changes_no_bit() -> None:
    x = pdl.Tensor(RNG.standard_normal((5, 40, 40, 19)).astype(np.float32), requires_grad=True)
    found = []
    for count in (1, 2):
        with threads.num_threads(count):
            x.grad = None
            y = max_pool(pdl.avg_pool(x, 3, stride=1, padding=1), 3, stride=2)
            (y * y).sum().backward()
            assert x.grad is not None
            found.append((y.data.copy(), x.grad.data.copy()))
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)


def test_empty_batches_pass() -> None:
    x = pdl.Tensor(np.zeros((0, 4, 4, 3), np.float32), requires_grad=True)
    y = max_pool(x, 2)
    y.sum().backward()
    assert y.shape == (0, 2, 2, 3)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda x: max_pool(x, 6), "window of 6 cells does not fit spatial axis 0 of 5"),
        (lambda x: max_pool(x, 1, padding=2), r"max_pool: window 0 .* lies wholly in the padding of 5 cells"),
        (lambda x: max_pool(x, (2, 2, 2)), r"kernel \(2, 2, 2\) has 3 entries, x has 2 spatial axes"),
        (lambda x: pdl.avg_pool(x, 2, stride=0), r"avg_pool: stride \(0, 0\) must be at least 1"),
        (lambda x: pdl.avg_pool(x, 2, padding=-1), "avg_pool: padding -1 must not be negative"),
        (lambda x: pdl.adaptive_avg_pool(x, 0), r"adaptive_avg_pool: size \(0, 0\) must be at least 1"),
        (lambda x: max_pool(x[0, 0], 2), "max_pool: x has 2 dimensions"),
        (
            lambda x: pdl.ops.pool.pick(x, pdl.Tensor(np.full((1, 2, 3), 30, np.int32))),
            "position 30 is outside the 30 cells",
        ),
    ],
)
def test_errors_say_both_numbers(call, says: str) -> None:
    with pytest.raises(ShapeError, match=says):
        call(pdl.Tensor(np.zeros((1, 5, 6, 3), np.float32)))


def test_integers_are_refused() -> None:
    with pytest.raises(DtypeError, match="max_pool: x is int64"):
        max_pool(pdl.Tensor(np.zeros((1, 4, 4, 3), np.int64)), 2)
