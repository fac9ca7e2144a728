"""Every function of the array API standard, 2024.12, against array-api-strict: one table over all functions and dtypes.

Inputs are drawn, special values among them. Where NumPy, on which array-api-strict stands, has other values than the
standard (in floor_divide, expm1, tan, tanh), `test_special_values` has the standard's own cases.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable
from typing import Any

import array_api_strict as strict
import numpy as np
import pytest

import pdl

from .table import FLOATING, FLOATS, INTS, TABLE, Arguments, Draw, Row

CASES = [case for row in TABLE for case in row.cases()]


def function_of(module: Any, name: str) -> Any:
    for part in name.split("."):
        module = getattr(module, part)
    return module


def converted(value: Any, to: Callable[[np.ndarray], Any], dtypes: Any) -> Any:
    """`value` with its arrays, and dtypes, as a library has them."""
    if isinstance(value, np.ndarray):
        return to(value)
    if isinstance(value, np.dtype):
        return getattr(dtypes, value.name)
    if isinstance(value, list | tuple):
        return type(value)(converted(v, to, dtypes) for v in value)
    return value


def called(module: Any, name: str, to: Callable[[np.ndarray], Any], given: Arguments) -> list[tuple[str, np.ndarray]]:
    """Name of the dtype, and values, of each array that a function returns."""
    args = converted(given[0], to, module)
    kwargs = {key: converted(value, to, module) for key, value in given[1].items()}
    made = function_of(module, name)(*args, **kwargs)
    results = made if isinstance(made, list | tuple) else [made]
    return [(str(getattr(y.dtype, "name", None) or y.dtype._np_dtype.name), np.asarray(y)) for y in results]


def to_pdl(x: np.ndarray) -> pdl.Tensor:
    return pdl.asarray(x)


def to_strict(x: np.ndarray) -> Any:
    return strict.asarray(x)


def close(found: np.ndarray, expected: np.ndarray, *, sign_of_zero: bool) -> None:
    if expected.dtype.kind not in "fc":
        np.testing.assert_array_equal(found, expected)
        return
    if expected.dtype.kind == "c":
        for part in (np.real, np.imag):
            scale = float(np.max(np.abs(expected[np.isfinite(expected)]), initial=0))
            _close(part(found), part(expected), scale, sign_of_zero=False)
        return
    _close(found, expected, 0.0, sign_of_zero=sign_of_zero)


def _close(found: np.ndarray, expected: np.ndarray, scale: float, *, sign_of_zero: bool) -> None:
    tolerance = 3e-5 if expected.dtype == np.float32 else 1e-10
    least = float(np.finfo(expected.dtype).smallest_normal)  # below it, numbers count as 0
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=max(tolerance * max(scale, 0.1), least))
    if sign_of_zero:
        zero = (expected == 0) & (found == 0)
        np.testing.assert_array_equal(np.signbit(found[zero]), np.signbit(expected[zero]))


@pytest.mark.parametrize(("name", "dtype", "row"), CASES, ids=[f"{name}-{dtype}" for name, dtype, _ in CASES])
def test_a_function_as_array_api_strict(name: str, dtype: str, row: Row) -> None:
    draw = Draw(name, dtype)
    for given in itertools.chain.from_iterable(row.calls(draw) for _ in range(row.drawn)):
        with np.errstate(all="ignore"):
            expected = called(strict, name, to_strict, given)
        found = called(pdl, name, to_pdl, given)
        assert [(kind, y.shape) for kind, y in found] == [(kind, y.shape) for kind, y in expected], given
        for (_, y), (_, want) in zip(found, expected, strict=True):
            if name == "unique_values":  # of no order in NumPy
                want = np.sort(want)
            close(y, want, sign_of_zero=row.sign_of_zero)


#: pairs of dtypes that the standard promotes
PAIRS = [
    (a, b)
    for kinds in (INTS, FLOATING)
    for a, b in itertools.product(kinds, kinds)
    if a != b and not ("uint64" in (a, b) and (a + b).count("u") != 2)
]
MIXED = [
    "add", "subtract", "multiply", "equal", "less", "maximum", "floor_divide", "remainder", "pow", "bitwise_and",
    "bitwise_left_shift", "divide", "hypot", "copysign", "nextafter", "atan2", "where", "concat", "matmul", "tensordot",
    "vecdot", "linalg.cross", "linalg.outer",
]  # fmt: skip


@pytest.mark.parametrize("name", MIXED)
def test_two_dtypes_meet(name: str) -> None:
    """Where array-api-strict takes the two."""
    met = 0
    for a, b in PAIRS:
        size = (3,) if name in ("linalg.cross", "linalg.outer") else (3, 3)
        x, y = Draw(name, a)(*size, low=1, high=2), Draw(f"{name} 2", b)(*size, low=1, high=2)
        kwargs = {"axes": 1} if name == "tensordot" else {}
        args = {"where": (np.eye(3, dtype=bool), x, y), "concat": ([x, y],)}.get(name, (x, y))
        try:
            (expected,) = called(strict, name, to_strict, (args, kwargs))
        except TypeError:
            continue
        (found,) = called(pdl, name, to_pdl, (args, kwargs))
        assert (found[0], found[1].shape) == (expected[0], expected[1].shape), (a, b)
        close(found[1], expected[1], sign_of_zero=True)
        met += 1
    assert met


# -- decompositions: their vectors are not unique, so they are compared by what they are made for --------------------
def adjoint(x: np.ndarray) -> np.ndarray:
    return np.conj(np.swapaxes(x, -1, -2))


def assert_near(found: Any, expected: Any, dtype: str) -> None:
    np.testing.assert_allclose(np.asarray(found), expected, atol=1e-4 if dtype in ("float32", "complex64") else 1e-10)


SHAPES = [(3, 3), (2, 4, 3), (3, 5), (0, 2, 2)]


@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("full", [True, False])
def test_svd(shape: tuple[int, ...], dtype: str, full: bool) -> None:
    x = Draw("svd", dtype)(*shape)
    found = pdl.linalg.svd(pdl.asarray(x), full_matrices=full)
    expected = strict.linalg.svd(strict.asarray(x), full_matrices=full)
    assert [(y.shape, y.dtype.name) for y in found] == [(y.shape, str(y.dtype._np_dtype)) for y in expected]
    k = min(shape[-2:])
    assert_near(found.S, np.asarray(expected.S), dtype)
    u, vh = found.U.numpy(), found.Vh.numpy()
    assert_near((u[..., :k] * found.S.numpy()[..., None, :]) @ vh[..., :k, :], x, dtype)
    assert_near(adjoint(u) @ u, np.broadcast_to(np.eye(u.shape[-1]), (*shape[:-2], *u.shape[-1:] * 2)), dtype)


@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("mode", ["reduced", "complete"])
def test_qr(shape: tuple[int, ...], dtype: str, mode: str) -> None:
    x = Draw("qr", dtype)(*shape)
    found = pdl.linalg.qr(pdl.asarray(x), mode=mode)
    expected = strict.linalg.qr(strict.asarray(x), mode=mode)
    assert [(y.shape, y.dtype.name) for y in found] == [(y.shape, str(y.dtype._np_dtype)) for y in expected]
    q, r = found.Q.numpy(), found.R.numpy()
    assert_near(q @ r, x, dtype)
    assert_near(np.tril(r, -1), np.zeros_like(r), dtype)
    assert_near(adjoint(q) @ q, np.broadcast_to(np.eye(q.shape[-1]), (*shape[:-2], *q.shape[-1:] * 2)), dtype)


@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 4), (0, 2, 2)], ids=str)
def test_eigh(shape: tuple[int, ...], dtype: str) -> None:
    x = Draw("eigh", dtype).hermitian(*shape)
    w, v = pdl.linalg.eigh(pdl.asarray(x))
    expected = strict.linalg.eigh(strict.asarray(x))
    assert [(y.shape, y.dtype.name) for y in (w, v)] == [(y.shape, str(y.dtype._np_dtype)) for y in expected]
    assert_near(w, np.asarray(expected.eigenvalues), dtype)
    assert_near(x @ v.numpy(), v.numpy() * w.numpy()[..., None, :], dtype)


@pytest.mark.parametrize("name", ["fftfreq", "rfftfreq"])
@pytest.mark.parametrize("n", [1, 4, 5])
def test_frequencies(name: str, n: int) -> None:
    for dtype in (None, *FLOATS):
        found = getattr(pdl.fft, name)(n, d=0.5, dtype=dtype)
        np.testing.assert_allclose(found.numpy(), getattr(np.fft, name)(n, d=0.5), rtol=1e-6)
        assert found.dtype.name == (dtype or "float32")


def test_the_table_has_every_function() -> None:
    here = {"linalg.eigh", "linalg.qr", "linalg.svd", "fft.fftfreq", "fft.rfftfreq"}
    elsewhere = {  # creation, dtypes and exchange
        "arange", "asarray", "astype", "broadcast_shapes", "can_cast", "empty", "empty_like", "eye", "finfo",
        "from_dlpack", "full", "full_like", "iinfo", "isdtype", "isin", "linspace", "ones", "ones_like", "result_type",
        "zeros", "zeros_like",
    }  # fmt: skip
    tested = {name for row in TABLE for name in row.names.split()} | here
    asked = {
        f"{space}{name}"
        for space, module in (("", strict), ("linalg.", strict.linalg), ("fft.", strict.fft))
        for name in module.__all__
        if inspect.isfunction(getattr(module, name)) and "strict_flags" not in name and not name.startswith("__")
    }
    assert asked - elsewhere - tested == set()
