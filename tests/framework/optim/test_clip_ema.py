"""Gradient clipping and averaged weights."""

from __future__ import annotations

import math

import numpy as np
import pytest

import pdl
from pdl import nn, optim
from pdl.errors import NumericalError, UsageError


def with_gradients(*values: list[float], dtype: str = "float32") -> list[nn.Parameter]:
    found = []
    for value in values:
        p = nn.Parameter(np.zeros(len(value)), dtype=dtype)
        p.grad = pdl.Tensor(np.array(value), dtype=dtype)
        found.append(p)
    return found


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_norm_is_over_all_gradients(dtype: str) -> None:
    params = with_gradients([3.0, 4.0, 0.0], [0.0, 12.0], dtype=dtype)
    assert optim.clip_grad_norm_(params, 2.0) == 13.0
    grads = [np.asarray(p.grad.data, np.float64) for p in params if p.grad is not None]
    np.testing.assert_allclose(
        np.concatenate(grads), np.array([3.0, 4.0, 0.0, 0.0, 12.0]) * 2 / 13, rtol=1e-2 if dtype == "bfloat16" else 1e-6
    )


def test_small_gradients_stay_bit_for_bit() -> None:
    (p,) = with_gradients([0.3, 0.1])
    before = p.grad
    optim.clip_grad_norm_([p], 1.0)
    assert p.grad is before


@pytest.mark.parametrize(("order", "expected"), [(1.0, 7.0), (2.0, 5.0), (math.inf, 4.0)])
def test_norm_types(order: float, expected: float) -> None:
    assert optim.clip_grad_norm_(with_gradients([3.0], [-4.0]), 100.0, norm_type=order) == pytest.approx(expected)


def test_a_shared_gradient_is_scaled_once() -> None:
    a, b = with_gradients([3.0, 4.0], [3.0, 4.0])
    a.grad = b.grad
    optim.clip_grad_norm_([a, b], 1.0)
    assert a.grad is not None
    assert math.hypot(*a.grad.tolist()) == pytest.approx(1 / math.sqrt(2), rel=1e-5)


def test_nan_is_reported_on_request() -> None:
    with pytest.raises(NumericalError, match="is nan"):
        optim.clip_grad_norm_(with_gradients([math.nan]), 1.0, error_if_nonfinite=True)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_not_finite_stays_visible(value: float) -> None:
    params = with_gradients([value, 1.0], [2.0])
    assert not math.isfinite(optim.clip_grad_norm_(params, 1.0))
    assert params[0].grad is not None
    assert np.isnan(params[0].grad.data[0])


def test_clip_value() -> None:
    (p,) = with_gradients([3.0, -0.2, -9.0])
    optim.clip_grad_value_(p, 0.5)
    assert p.grad is not None
    np.testing.assert_array_equal(p.grad.data, np.float32([0.5, -0.2, -0.5]))


def model() -> nn.Module:
    pdl.seed(0)
    net = nn.Sequential(nn.Linear(2, 3))
    net.register_buffer("seen", np.zeros(2, np.float32))
    net.register_buffer("count", np.array(0))
    return net


def move(net: nn.Module, by: float) -> None:
    for p in (*net.parameters(), *net.buffers()):
        p.data[...] += np.asarray(by, p.dtype)


@pytest.mark.parametrize("warmup", [False, True])
def test_average(warmup: bool) -> None:
    net = model()
    ema = optim.EMA(net, 0.5, warmup=warmup)
    expected, own = net.get_parameter("0.bias").data.copy(), net.get_parameter("0.bias")
    for n in (1, 2, 3):
        move(net, 1.0)
        ema.update()
        decay = min(0.5, (1 + n) / (10 + n)) if warmup else 0.5
        expected = decay * expected + (1 - decay) * own.data
    last = own.data.copy()
    with ema.swapped():
        np.testing.assert_allclose(own.data, expected, rtol=1e-6)
        assert net.state_dict()["count"].item() == 3
    np.testing.assert_array_equal(own.data, last)
    np.testing.assert_allclose(ema.average["seen"][0] - ema.average["0.bias"][0], -own.data[0] + 3, rtol=1e-5)


def test_average_resumes() -> None:
    net = model()
    ema, other = optim.EMA(net, 0.9), optim.EMA(net, 0.9)
    for _ in range(2):
        move(net, 0.5)
        ema.update()
    other.load_state_dict({**ema.state_dict(), "average": {k: v.copy() for k, v in ema.average.items()}})
    move(net, 0.5)
    ema.update(), other.update()
    np.testing.assert_array_equal(ema.average["0.weight"], other.average["0.weight"])
    with pytest.raises(UsageError, match="another model"):
        optim.EMA(nn.Linear(1, 1)).load_state_dict(ema.state_dict())


def test_average_of_bfloat16_is_float32() -> None:
    net = model().to("bfloat16")
    ema = optim.EMA(net, 0.999, warmup=False)
    assert ema.average["0.weight"].dtype == np.float32
    with ema.swapped():
        assert net.get_parameter("0.weight").dtype == pdl.bfloat16
