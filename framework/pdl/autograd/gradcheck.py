"""Check gradients against finite differences, first and second order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from pdl.autograd.tape import grad
from pdl.dtype import Array
from pdl.errors import GradientError
from pdl.tensor import Tensor, no_grad

Function = Callable[..., Tensor | tuple[Tensor, ...]]


def gradcheck(
    function: Function, inputs: Sequence[Tensor | None], *, eps: float = 1e-6, atol: float = 1e-5, rtol: float = 1e-3
) -> None:
    """Compare the gradients of ``sum_i <function(*inputs)_i, u_i>`` (u random, fixed) with central differences.

    `inputs` are float64 or complex128; those with `requires_grad` are checked. For complex inputs the gradient is
    dL/d(Re) + i dL/d(Im). Raises `GradientError` with both numbers at the worst place.
    """
    checked = [x for x in inputs if x is not None and x.requires_grad]
    weights = _weights(function, inputs)
    analytic = grad(_project(function(*inputs), weights), checked, allow_unused=True)
    for number, (x, g) in enumerate(zip(checked, analytic, strict=True)):
        found = np.zeros(x.shape, x.dtype) if g is None else g.detach().numpy()
        expected = _numeric(lambda: _project(function(*inputs), weights), x, eps)
        _compare(found, expected, number, atol, rtol)


def gradgradcheck(
    function: Function, inputs: Sequence[Tensor | None], *, eps: float = 1e-6, atol: float = 1e-4, rtol: float = 1e-3
) -> None:
    """`gradcheck` of the gradient of `function`: the second derivatives, also with respect to the output gradient."""
    checked = [x for x in inputs if x is not None and x.requires_grad]
    weights = [Tensor(w, requires_grad=True) for w in _weights(function, inputs)]

    def first(*args: Tensor | None) -> tuple[Tensor, ...]:
        xs, us = args[: len(inputs)], args[len(inputs) :]
        wanted = [x for x in xs if x is not None and x.requires_grad]
        ys = _differentiable(function(*xs))
        pairs = [(y, u) for y, u in zip(ys, us, strict=True) if y.requires_grad and u is not None]
        found = grad([y for y, _ in pairs], wanted, [u for _, u in pairs], create_graph=True, allow_unused=True)
        return tuple(x * 0 if g is None else g for x, g in zip(wanted, found, strict=True))

    if checked:
        gradcheck(first, [*inputs, *weights], eps=eps, atol=atol, rtol=rtol)


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


def _project(value: Tensor | tuple[Tensor, ...], weights: Sequence[Array | Tensor]) -> Tensor:
    """Re <value, weights>, as a real scalar."""
    total: Tensor | None = None
    for y, w in zip(_differentiable(value), weights, strict=True):
        weight = w if isinstance(w, Tensor) else Tensor(w)
        term = (y * weight.conj()).real().sum() if y.dtype.kind == "c" else (y * weight).sum()
        total = term if total is None else total + term
    if total is None:
        raise GradientError("the function returned nothing that carries a gradient")
    return total


def _numeric(value: Callable[[], Tensor], x: Tensor, eps: float) -> Array:
    """Central differences of `value` with respect to `x`, changed in place and put back."""
    result = np.zeros(x.shape, x.dtype)
    for at in np.ndindex(x.shape):
        steps = (eps, 1j * eps) if x.dtype.kind == "c" else (eps,)
        for step in steps:
            result[at] += (_at(value, x, at, step) - _at(value, x, at, -step)) / (2 * eps) * (step / eps)
    return result


def _at(value: Callable[[], Tensor], x: Tensor, at: tuple[int, ...], step: complex) -> float:
    before = x.data[at]
    x.data[at] = before + step
    try:
        return float(value().detach().item())
    finally:
        x.data[at] = before


def _compare(found: Array, expected: Array, number: int, atol: float, rtol: float) -> None:
    error = np.abs(found - expected) - (atol + rtol * np.abs(expected))
    if error.size and not error.max() <= 0:
        at = np.unravel_index(int(np.nanargmax(error)), error.shape)
        place = tuple(int(i) for i in at)
        numbers = f"vjp {found[at]:.8g}, finite difference {expected[at]:.8g}"
        raise GradientError(f"gradient of input {number} at {place}: {numbers}")
