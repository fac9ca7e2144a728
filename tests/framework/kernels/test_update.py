"""Optimiser kernels against the formulas in NumPy, over several steps and arrays of many sizes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from pdl.errors import DtypeError, ShapeError
from pdl.kernels import runtime, update

Array = np.ndarray
SHAPES = [(5, 5, 1, 6), (6,), (), (3, 40000), (17,), (0,)]
LR, WD, SCALE = 0.1, 0.01, 0.5


def arrays(dtype: type, seed: int) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [np.asarray(rng.standard_normal(s), dtype) for s in SHAPES]


def zeros(like: list[Array]) -> list[Array]:
    return [np.zeros_like(p) for p in like]


def sgd(
    p: Array, d: Array, s: list[Array], t: int, momentum: float = 0.9, nesterov: bool = False, dampening: float = 0.0
) -> Array:
    s[0] = d if t == 1 else momentum * s[0] + (1 - dampening) * d
    return p - LR * (d + momentum * s[0] if nesterov else s[0])


def adam(p: Array, d: Array, s: list[Array], t: int, amsgrad: bool = False, decoupled: bool = False) -> Array:
    p = p * (1 - LR * WD) if decoupled else p
    s[0], s[1] = 0.9 * s[0] + 0.1 * d, 0.999 * s[1] + 0.001 * d * d
    if amsgrad:
        s[2] = np.maximum(s[2], s[1])
    return p - LR * s[0] / (1 - 0.9**t) / (np.sqrt(s[2 if amsgrad else 1] / (1 - 0.999**t)) + 1e-8)


def lamb(p: Array, d: Array, s: list[Array], t: int) -> Array:
    s[0], s[1] = 0.9 * s[0] + 0.1 * d, 0.999 * s[1] + 0.001 * d * d
    u = s[0] / (1 - 0.9**t) / (np.sqrt(s[1] / (1 - 0.999**t)) + 1e-6) + WD * p
    a, b = np.linalg.norm(p), np.linalg.norm(u)
    return p - LR * (a / b if a and b else 1) * u


def rmsprop(p: Array, d: Array, s: list[Array], t: int, centred: bool = False, momentum: float = 0.0) -> Array:
    s[0], s[1] = 0.99 * s[0] + 0.01 * d * d, 0.99 * s[1] + 0.01 * d
    step = d / (np.sqrt(s[0] - s[1] ** 2 if centred else s[0]) + 1e-8)
    s[2] = momentum * s[2] + step
    return p - LR * s[2]


def adagrad(p: Array, d: Array, s: list[Array], t: int) -> Array:
    s[0] = s[0] + d * d
    return p - LR * d / (np.sqrt(s[0]) + 1e-10)


def adagrad_velocity(p: Array, d: Array, s: list[Array], t: int) -> Array:
    """As GRU4Rec's authors have it: eps under the root, the rate inside the velocity."""
    s[0] = s[0] + d * d
    s[1] = 0.5 * s[1] - LR * d / np.sqrt(s[0] + 1e-3)
    return p + s[1]


def adadelta(p: Array, d: Array, s: list[Array], t: int) -> Array:
    s[0] = 0.9 * s[0] + 0.1 * d * d
    u = np.sqrt(s[1] + 1e-6) / np.sqrt(s[0] + 1e-6) * d
    s[1] = 0.9 * s[1] + 0.1 * u * u
    return p - LR * u


H = {"lr": LR, "weight_decay": WD, "scale": SCALE}
# name: (reference, its arguments, kernel on (params, grads, states, step), whether the decay joins the gradient)
RULES: dict[str, tuple[Callable[..., Array], dict, Callable[..., None], bool]] = {
    "sgd": (sgd, {"momentum": 0.0}, lambda p, g, s, t: update.sgd(p, g, **H), True),
    "momentum": (sgd, {}, lambda p, g, s, t: update.sgd(p, g, s[0], momentum=0.9, **H), True),
    "nesterov": (
        sgd,
        {"nesterov": True},
        lambda p, g, s, t: update.sgd(p, g, s[0], momentum=0.9, nesterov=True, **H),
        True,
    ),
    "dampening": (
        sgd,
        {"dampening": 0.5},
        lambda p, g, s, t: update.sgd(p, g, s[0], momentum=0.9, dampening=0.5, first=t == 1, **H),
        True,
    ),
    "adam": (adam, {}, lambda p, g, s, t: update.adam(p, g, s[0], s[1], count=t, **H), True),
    "adamw": (
        adam,
        {"decoupled": True},
        lambda p, g, s, t: update.adam(p, g, s[0], s[1], count=t, decoupled=True, **H),
        False,
    ),
    "amsgrad": (adam, {"amsgrad": True}, lambda p, g, s, t: update.adam(p, g, *s, count=t, **H), True),
    "lamb": (lamb, {}, lambda p, g, s, t: update.lamb(p, g, *s, count=t, **H), False),
    "rmsprop": (rmsprop, {}, lambda p, g, s, t: update.rmsprop(p, g, s[0], **H), True),
    "rmsprop_centred": (rmsprop, {"centred": True}, lambda p, g, s, t: update.rmsprop(p, g, s[0], s[1], **H), True),
    "rmsprop_momentum": (
        rmsprop,
        {"momentum": 0.9},
        lambda p, g, s, t: update.rmsprop(p, g, s[0], None, s[2], momentum=0.9, **H),
        True,
    ),
    "rmsprop_both": (
        rmsprop,
        {"centred": True, "momentum": 0.9},
        lambda p, g, s, t: update.rmsprop(p, g, *s, momentum=0.9, **H),
        True,
    ),
    "adagrad": (adagrad, {}, lambda p, g, s, t: update.adagrad(p, g, s[0], **H), True),
    "adagrad_velocity": (
        adagrad_velocity,
        {},
        lambda p, g, s, t: update.adagrad(p, g, s[0], s[1], momentum=0.5, eps=1e-3, under_root=True, **H),
        True,
    ),
    "adadelta": (adadelta, {}, lambda p, g, s, t: update.adadelta(p, g, s[0], s[1], **H), True),
}


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rule(name: str, dtype: type) -> None:
    reference, args, kernel, coupled = RULES[name]
    params, states = arrays(dtype, 0), [zeros(arrays(dtype, 0)) for _ in range(3)]
    expected, expected_states = [p.astype(np.float64) for p in params], [[np.zeros(p.shape)] * 3 for p in params]
    for t in range(1, 5):
        grads = arrays(dtype, t)
        kernel(params, grads, states, t)
        for i, g in enumerate(grads):
            d = g.astype(np.float64) * SCALE + (WD * expected[i] if coupled else 0)
            expected[i] = reference(expected[i], d, expected_states[i], t, **args)
    for p, want in zip(params, expected, strict=True):
        np.testing.assert_allclose(
            p, want, rtol=2e-4 if dtype is np.float32 else 1e-10, atol=2e-5 if dtype is np.float32 else 1e-10
        )


def test_sums_do_not_depend_on_the_threads() -> None:
    xs = arrays(np.float32, 1)
    before = runtime.num_threads()
    try:
        found = []
        for threads in (1, 2, 5):
            runtime.set_num_threads(threads)
            found.append(update.sum_squares(xs).tobytes())
    finally:
        runtime.set_num_threads(before)
    assert len(set(found)) == 1
    np.testing.assert_allclose(update.sum_squares(xs), [np.sum(x.astype(np.float64) ** 2) for x in xs], rtol=1e-6)
    assert update.sum_squares([]).shape == (0,)


def test_averages_and_scaling() -> None:
    a, b = arrays(np.float64, 1), arrays(np.float64, 2)
    mean, summed, scaled = ([x.copy() for x in a] for _ in range(3))
    update.ema(mean, b, 0.9)
    update.axpy(summed, b, np.arange(len(a)))
    update.scale(scaled, 3.0)
    for i, (x, y) in enumerate(zip(a, b, strict=True)):
        np.testing.assert_allclose(mean[i], 0.9 * x + 0.1 * y)
        np.testing.assert_allclose(summed[i], x + i * y)
        np.testing.assert_array_equal(scaled[i], 3 * x)


def test_gradients_need_not_be_contiguous() -> None:
    p, g = [np.zeros((3, 4))], [np.arange(12.0).reshape(4, 3).T]
    update.sgd(p, g, lr=1.0)
    np.testing.assert_array_equal(p[0], -g[0])


def test_refusals() -> None:
    p, g = [np.zeros(3), np.zeros(2)], [np.zeros(3), np.zeros(4)]
    with pytest.raises(ShapeError, match="4 elements, 2 are expected"):
        update.sgd(p, g, lr=1.0)
    with pytest.raises(ShapeError, match="2 parameters, but 1 arrays in list 1"):
        update.sgd(p, g[:1], lr=1.0)
    with pytest.raises(ShapeError, match="needs a list of buffers"):
        update.sgd(p, p, lr=1.0, momentum=0.9)
    with pytest.raises(DtypeError, match="float32"):
        update.sgd(p, [x.astype(np.float32) for x in p], lr=1.0)
    with pytest.raises(ShapeError, match="not contiguous"):
        update.sgd([np.zeros((3, 4)).T], [np.zeros((4, 3))], lr=1.0)
