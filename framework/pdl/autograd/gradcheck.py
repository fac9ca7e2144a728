"""Check gradients against finite differences, first and second order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from pdl.autograd.tape import grad
from pdl.dtype import Array
from pdl.errors import GradientError
from pdl.tensor import Tensor, no_grad

Function = Callable[..., Tensor | tuple[Tensor, ...]]
#: random directions that the fast mode looks along
DIRECTIONS = 3


def gradcheck(
    function: Function,
    inputs: Sequence[Tensor | None],
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    fast_mode: bool = False,
) -> None:
    """Compare the gradients of ``sum_i <function(*inputs)_i, u_i>`` (u random, fixed) with central differences.

    `inputs` are float64 or complex128; those with `requires_grad` are checked: element by element, or with `fast_mode`
    along a few random directions, as PyTorch's fast mode does. For complex inputs the gradient is
    dL/d(Re) + i dL/d(Im). Raises `GradientError` with both numbers at the worst place.
    """
    _check(function, function, inputs, Step(eps, atol, rtol, fast_mode))


def gradgradcheck(
    function: Function,
    inputs: Sequence[Tensor | None],
    *,
    eps: float = 1e-6,
    atol: float = 1e-4,
    rtol: float = 1e-3,
    fast_mode: bool = False,
) -> None:
    """`gradcheck` of the gradient of `function`: the second derivatives, also with respect to the output gradient."""
    checked = [x for x in inputs if x is not None and x.requires_grad]
    weights = [Tensor(w, requires_grad=True) for w in _weights(function, inputs)]

    def first(*args: Tensor | None, create_graph: bool) -> tuple[Tensor, ...]:
        xs, us = args[: len(inputs)], args[len(inputs) :]
        wanted = [x for x in xs if x is not None and x.requires_grad]
        ys = _differentiable(function(*xs))
        pairs = [(y, u) for y, u in zip(ys, us, strict=True) if y.requires_grad and u is not None]
        found = grad([y for y, _ in pairs], wanted, [u for _, u in pairs], create_graph=create_graph, allow_unused=True)
        return tuple(x * 0 if g is None else g for x, g in zip(wanted, found, strict=True))

    if checked:
        recorded, plain = partial(first, create_graph=True), partial(first, create_graph=False)
        _check(recorded, plain, [*inputs, *weights], Step(eps, atol, rtol, fast_mode))


class Step(NamedTuple):
    """How differences are taken and compared."""

    eps: float
    atol: float
    rtol: float
    fast: bool


def _check(function: Function, plain: Function, inputs: Sequence[Tensor | None], step: Step) -> None:
    """The gradients of `function` against differences of `plain`, which has its values."""
    checked = [x for x in inputs if x is not None and x.requires_grad]
    weights = _weights(plain, inputs)
    analytic = grad(_project(function(*inputs), weights), checked, allow_unused=True)
    compare = _along_directions if step.fast else _by_element
    for number, (x, g) in enumerate(zip(checked, analytic, strict=True)):
        found = np.zeros(x.shape, x.dtype) if g is None else g.detach().numpy()
        compare(lambda: _projected(plain(*inputs), weights), x, found, step, f"gradient of input {number}")


def _differentiable(value: Tensor | tuple[Tensor, ...]) -> list[Tensor]:
    values = [value] if isinstance(value, Tensor) else list(value)
    return [v for v in values if v.dtype.kind in "fc"]


def _weights(function: Function, inputs: Sequence[Tensor | None]) -> list[Array]:
    rng = np.random.default_rng(7)
    with no_grad():
        shapes = [(y.shape, y.dtype) for y in _differentiable(function(*inputs))]
    return [_draw(rng, shape, dtype) for shape, dtype in shapes]


def _draw(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> Array:
    values = rng.uniform(0.5, 1.5, shape)
    return np.asarray(values + 1j * rng.uniform(0.5, 1.5, shape) if dtype.kind == "c" else values).astype(dtype)


def _project(value: Tensor | tuple[Tensor, ...], weights: Sequence[Array]) -> Tensor:
    """Re <value, weights>, as a real scalar."""
    total: Tensor | None = None
    for y, w in zip(_differentiable(value), weights, strict=True):
        term = (y * Tensor(w.conj())).real().sum() if y.dtype.kind == "c" else (y * Tensor(w)).sum()
        total = term if total is None else total + term
    if total is None:
        raise GradientError("the function returned nothing that carries a gradient")
    return total


def _projected(value: Tensor | tuple[Tensor, ...], weights: Sequence[Array]) -> float:
    """The number that `_project` makes."""
    return sum(float(np.vdot(w, y.data).real) for y, w in zip(_differentiable(value), weights, strict=True))


def _by_element(value: Callable[[], float], x: Tensor, found: Array, step: Step, what: str) -> None:
    expected = np.zeros(x.shape, x.dtype)
    for at in np.ndindex(x.shape):
        one = np.zeros(x.shape, x.dtype)
        for unit in (1, 1j) if x.dtype.kind == "c" else (1,):
            one[at] = unit
            expected[at] += unit * _difference(value, x, one, step.eps)
    error = np.abs(found - expected) - (step.atol + step.rtol * np.abs(expected))
    if error.size and not error.max() <= 0:
        at = np.unravel_index(int(np.nanargmax(error)), error.shape)
        place = tuple(int(i) for i in at)
        raise GradientError(f"{what} at {place}: vjp {found[at]:.8g}, finite difference {expected[at]:.8g}")


def _along_directions(value: Callable[[], float], x: Tensor, found: Array, step: Step, what: str) -> None:
    rng = np.random.default_rng(11)
    for _ in range(DIRECTIONS):
        signs = [rng.choice([-1.0, 1.0], x.shape) for _ in range(2)]
        direction = np.asarray(signs[0] + 1j * signs[1] if x.dtype.kind == "c" else signs[0]).astype(x.dtype)
        along, expected = float(np.vdot(direction, found).real), _difference(value, x, direction, step.eps)
        if not abs(along - expected) <= step.atol + step.rtol * abs(expected):
            raise GradientError(f"{what} along a direction of signs: vjp {along:.8g}, finite difference {expected:.8g}")


def _difference(value: Callable[[], float], x: Tensor, direction: Array, eps: float) -> float:
    """The central difference of `value` as `x` moves along `direction`, in place, and is put back."""
    before = x.data.copy()
    try:
        x.data[...] = before + eps * direction
        after = value()
        x.data[...] = before - eps * direction
        return (after - value()) / (2 * eps)
    finally:
        x.data[...] = before
