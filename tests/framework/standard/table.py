"""The functions of the array API standard, 2024.12, with the dtypes that they take and calls of them."""

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

inf, nan = math.inf, math.nan
BOOL = ("bool",)
INTS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float32", "float64")
COMPLEX = ("complex64", "complex128")
REAL, FLOATING, NUMERIC = (*INTS, *FLOATS), (*FLOATS, *COMPLEX), (*INTS, *FLOATS, *COMPLEX)
ALL = (*BOOL, *NUMERIC)
SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, 2.0, 0.5, -1.5, 2.5, inf, -inf, nan, 1e-3, 1e6])


class Draw:
    """Arrays of one dtype: ``d(2, 3)`` finite and of moderate size, ``d.special(9)`` with special values."""

    def __init__(self, name: str, dtype: str) -> None:
        self.rng, self.dtype = np.random.default_rng(zlib.crc32(f"{name} {dtype}".encode())), np.dtype(dtype)

    def __call__(self, *shape: int, low: float = -3, high: float = 3) -> np.ndarray:
        kind, rng = self.dtype.kind, self.rng
        if kind == "b":
            return np.asarray(rng.random(shape) < 0.5)
        if kind in "iu":
            return np.asarray(
                rng.integers(max(0, int(low)) if kind == "u" else int(low), int(high) + 1, shape), self.dtype
            )
        x = rng.uniform(low, high, shape)
        return np.asarray(x + 1j * rng.uniform(low, high, shape) if kind == "c" else x, self.dtype)

    def special(self, *shape: int) -> np.ndarray:
        if self.dtype.kind in "biu":
            limits = [] if self.dtype.kind == "b" else [np.iinfo(self.dtype).min, np.iinfo(self.dtype).max]
            return self.rng.choice(np.array([0, 1, *limits], self.dtype), shape)
        x = np.zeros(shape, self.dtype)
        if self.dtype.kind == "c":
            x.real, x.imag = self.rng.choice(SPECIAL, shape), self.rng.choice(SPECIAL, shape)
        else:
            x[...] = self.rng.choice(SPECIAL, shape)
        return x

    def scalar(self) -> Any:
        return {"b": True, "i": 2, "u": 2, "f": 1.5, "c": 1 + 2j}[self.dtype.kind]

    def good(self, *shape: int) -> np.ndarray:
        """Matrices far from singular, with distinct singular values."""
        n, m = shape[-2:]
        return np.asarray(self(*shape) * 0.1 + np.eye(n, m) * np.arange(1, m + 1), self.dtype)

    def hermitian(self, *shape: int) -> np.ndarray:
        x = self.good(*shape)
        return x + np.conj(np.swapaxes(x, -1, -2))


Arguments = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass
class Row:
    """Functions, the dtypes that they take, and calls of them with what a `Draw` makes."""

    names: str
    dtypes: tuple[str, ...]
    calls: Callable[[Draw], list[Any]]
    sign_of_zero: bool = True
    drawn: int = 3

    def cases(self) -> Iterator[tuple[str, str, Row]]:
        for name, dtype in itertools.product(self.names.split(), self.dtypes):
            yield name, dtype, self


def of(*args: Any, **kwargs: Any) -> Arguments:
    return args, kwargs


def one(d: Draw) -> list[Arguments]:
    return [of(d(2, 3)), of(d()), of(d(0, 3)), of(d(3, 4).T), of(d(600))]


def one_special(d: Draw) -> list[Arguments]:
    return [*one(d), of(d.special(40)), of(d.special(4, 3)[::2])]


def two(d: Draw) -> list[Arguments]:
    return [
        of(d(2, 3), d(2, 3)), of(d(2, 1), d(3)), of(d(), d(4)), of(d(0, 3), d(3)), of(d(600), d(600)),
        of(d(2, 3), d.scalar()), of(d.scalar(), d(3)),
    ]  # fmt: skip


def two_special(d: Draw) -> list[Arguments]:
    return [*two(d), of(d.special(60), d.special(60)), of(d.special(600), d.special(600)), of(d.special(9), d.scalar())]


def two_nonzero(d: Draw) -> list[Arguments]:
    return [(args, kwargs) for args, kwargs in two(d) if np.all(np.asarray(args[1]) != 0)]


def shifts(d: Draw) -> list[Arguments]:
    return [of(d(9), d(9, low=0)), of(d.special(9), d(9, low=0)), of(d(2, 3), 2), of(3, d(4, low=0))]


def powers(d: Draw) -> list[Arguments]:
    return [of(d(9), d(9, low=0)), of(d(2, 1), d(3, low=0)), of(d(4), 2), of(2, d(4, low=0))]


def clips(d: Draw) -> list[Arguments]:
    low, high = (1, 2) if d.dtype.kind in "iu" else (-1.0, 1.5)
    return [
        of(d(2, 3), low, high), of(d(2, 3), min=low), of(d(2, 3), max=high), of(d(3)), of(d(2, 3), d(3), None),
        of(d(2, 3), np.full(3, low, d.dtype), np.full((), high, d.dtype)), of(d.special(20), low, high),
    ]  # fmt: skip


def reductions(d: Draw) -> list[Arguments]:
    return [
        of(d(2, 3, 4)), of(d(2, 3), axis=0), of(d(2, 3, 4), axis=(0, -1)), of(d(2, 3), axis=1, keepdims=True), of(d()),
        of(d(2, 3, 4), axis=(1, 2), keepdims=True), of(d(3, 300), axis=1), of(d(2, 3), keepdims=True),
    ]  # fmt: skip


def sums(d: Draw) -> list[Arguments]:
    given = [t for t in NUMERIC if np.dtype(t).kind == d.dtype.kind]
    return [*reductions(d), of(d(0, 3), axis=0), of(d(0)), *[of(d(2, 3), axis=1, dtype=np.dtype(t)) for t in given]]


def spreads(d: Draw) -> list[Arguments]:
    return [*reductions(d), of(d(3, 4), axis=1, correction=1), of(d(3, 4), correction=0.5, keepdims=True)]


def running(d: Draw) -> list[Arguments]:
    given = [t for t in NUMERIC if np.dtype(t).kind == d.dtype.kind]
    return [
        of(d(5)), of(d(2, 3), axis=0), of(d(2, 3), axis=-1, include_initial=True), of(d(0, 2), axis=0),
        *[of(d(4), dtype=np.dtype(t), include_initial=True) for t in given],
    ]  # fmt: skip


def truths(d: Draw) -> list[Arguments]:
    return [*reductions(d), of(d(0, 3), axis=0), of(d(0)), of(d.special(2, 3), axis=1)]


def arguments(d: Draw) -> list[Arguments]:
    return [
        of(d(2, 3)), of(d(2, 3), axis=0), of(d(2, 3), axis=-1, keepdims=True), of(d(2, 3), keepdims=True), of(d()),
        of(d.special(12)),
    ]  # fmt: skip


def choices(d: Draw) -> list[Arguments]:
    mask = d.rng.random((2, 3)) < 0.5
    return [of(mask, d(2, 3), d(3)), of(mask, d(), d(2, 1)), of(mask, d.scalar(), d(3)), of(mask, d(3), d.scalar())]


def places(d: Draw) -> list[Arguments]:
    x, order = np.sort(d(6)), d(6)
    return [
        of(x, d(2, 3)), of(x, d(4), side="right"), of(order, d(4), sorter=np.argsort(order)), of(x, d()),
        of(d(0), d(2)),
    ]  # fmt: skip


def orders(d: Draw) -> list[Arguments]:
    return [
        of(d(2, 20)), of(d(4, 3), axis=0), of(d(2, 9), descending=True), of(d(3, 9), stable=False, axis=1),
        of(np.where(np.isnan(x := d.special(30)), 0, x).astype(d.dtype)), of(d(0, 2)), of(d(2, 0), axis=-1),
    ]  # fmt: skip


def sets(d: Draw) -> list[Arguments]:
    return [of(d(20)), of(d(3, 4)), of(d(0)), of(d()), of(d.special(9) if d.dtype.kind in "biuf" else d(9))]


def index_of(n: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(n).integers(-n, n, shape)


def taken(d: Draw) -> list[Arguments]:
    return [of(d(5), index_of(5, 3)), of(d(4, 3), index_of(3, 6), axis=1), of(d(4, 3), index_of(4, 2), axis=-2)]


def taken_along(d: Draw) -> list[Arguments]:
    return [of(d(4, 3), index_of(3, 4, 2)), of(d(4, 3), index_of(4, 2, 3), axis=0)]


#: the functions on shapes
SHAPED: dict[str, Callable[[Draw], list[Arguments]]] = {
    "broadcast_arrays": lambda d: [of(d(2, 1), d(3)), of(d()), of(d(0, 1), d(1, 3), d())],
    "broadcast_to": lambda d: [of(d(3), (2, 3)), of(d(), (2,)), of(d(0, 1), shape=(0, 4))],
    "concat": lambda d: [of([d(2, 3), d(1, 3)]), of((d(2, 3), d(4)), axis=None), of([d(2, 0), d(2, 3)], axis=-1)],
    "expand_dims": lambda d: [of(d(2, 3), axis=-1), of(d(), axis=0), of(d(2, 3), axis=1)],
    "flip": lambda d: [of(d(2, 3)), of(d(2, 3), axis=0), of(d(2, 3, 4), axis=(0, -1)), of(d())],
    "moveaxis": lambda d: [of(d(2, 3, 4), 0, -1), of(d(2, 3, 4), (0, 1), (1, 2))],
    "permute_dims": lambda d: [of(d(2, 3, 4), (2, 0, 1)), of(d(2, 3), axes=(1, 0)), of(d(), ())],
    "repeat": lambda d: [of(d(2, 3), 2), of(d(2, 3), np.array([1, 0, 2]), axis=1), of(d(4), np.array([2])),
                     of(d(2, 3), 3, axis=-1), of(d(2, 2), np.arange(4))],
    "reshape": lambda d: [of(d(2, 3), (3, 2)), of(d(2, 3), (-1,)), of(d(4), shape=(2, 2), copy=True),
                      of(d(1), ()), of(d(0, 3), (3, 0)), of(d(4), (2, 2), copy=False)],
    "roll": lambda d: [of(d(2, 3), 1), of(d(2, 3), -4, axis=1), of(d(2, 3), (1, 2), axis=(0, 1)), of(d(), 1)],
    "squeeze": lambda d: [of(d(1, 3, 1), 0), of(d(1, 3, 1), axis=(0, -1)), of(d(2, 1), (1,))],
    "stack": lambda d: [of([d(2), d(2)]), of((d(2, 3), d(2, 3)), axis=-1), of([d()])],
    "tile": lambda d: [of(d(2, 3), (2,)), of(d(3), (2, 1)), of(d(), (2,)), of(d(2, 1), (0, 2))],
    "unstack": lambda d: [of(d(2, 3)), of(d(2, 3), axis=-1), of(d(0, 2))],
    "tril": lambda d: [of(d(3, 4)), of(d(2, 3, 3), k=-1)],
    "triu": lambda d: [of(d(3, 4)), of(d(2, 3, 3), k=1)],
    "meshgrid": lambda d: [of(d(2), d(3)), of(d(2), d(3), d(1), indexing="ij"), of(d(2))],
}  # fmt: skip


def products(d: Draw) -> list[Arguments]:
    return [
        of(d(2, 3), d(3, 4)), of(d(3), d(3)), of(d(2, 3), d(3)), of(d(3), d(3, 2)), of(d(5, 2, 3), d(3, 2)),
        of(d(2, 1, 2, 3), d(4, 3, 2)), of(d(2, 3, 0), d(0, 2)), of(d(0, 2, 3), d(3, 2)),
    ]  # fmt: skip


def contractions(d: Draw) -> list[Arguments]:
    return [
        of(d(2, 3, 4), d(3, 4, 2)), of(d(2, 3), d(3, 2), axes=1), of(d(2), d(3), axes=0),
        of(d(2, 3, 4), d(4, 2), axes=((2, 0), (0, 1))), of(d(2, 3), d(2, 3), axes=((-1,), (1,))),
    ]  # fmt: skip


def dots(d: Draw) -> list[Arguments]:
    return [of(d(2, 3), d(3)), of(d(3), d(3)), of(d(3, 2), d(3, 2), axis=-2), of(d(4, 1, 3), d(2, 3))]


def differences(d: Draw) -> list[Arguments]:
    return [
        of(d(6)), of(d(2, 3), axis=0), of(d(3, 6), n=2), of(d(3, 4), prepend=d(3, 1), append=d(3, 2)), of(d(3), n=0),
        of(d(2), n=4),
    ]  # fmt: skip


def lengths(d: Draw) -> list[Arguments]:
    return [of(d(2, 5)), of(d(2, 5), n=3), of(d(2, 5), n=8), of(d(4, 3), axis=0), of(d(2, 6), norm="ortho"),
            of(d(5), norm="forward")]  # fmt: skip


def several(d: Draw) -> list[Arguments]:
    return [of(d(3, 4)), of(d(2, 3, 4), axes=(0, 2)), of(d(3, 4), s=(2, 6), axes=(0, 1)), of(d(3, 4), norm="ortho")]


def real_spectra(d: Draw) -> list[Arguments]:
    """Half spectra of real signals, whose elements of frequency 0 and n/2 are real."""
    return [of(np.fft.rfft(d.rng.normal(size=(2, n)), axis=-1).astype(d.dtype), n=n, norm=m)
            for n, m in ((6, "backward"), (5, "ortho"), (8, "forward"))]  # fmt: skip


def several_real_spectra(d: Draw) -> list[Arguments]:
    return [of(np.fft.rfftn(d.rng.normal(size=s)).astype(d.dtype), s=s, axes=(0, 1)) for s in ((3, 4), (2, 5))]


def norms(d: Draw) -> list[Arguments]:
    return [*[of(d(2, 3, 4), ord=o) for o in ("fro", "nuc", 1, -1, 2, -2, inf, -inf)], of(d(3, 4), keepdims=True)]


def vector_norms(d: Draw) -> list[Arguments]:
    orders = (2, 1, 0, inf, -inf, 3, -1, -2, 0.5)
    return [*[of(d(3, 4), axis=1, ord=o) for o in orders], of(d(2, 3, 4)), of(d(2, 3, 4), axis=(0, 2), keepdims=True)]


#: the functions of `linalg` on numbers, and those that LAPACK computes
LINEAR: dict[str, Callable[[Draw], list[Arguments]]] = {
    "linalg.cross": lambda d: [of(d(3), d(3)), of(d(2, 1, 3), d(4, 3)), of(d(3, 2), d(3, 2), axis=-2)],
    "linalg.outer": lambda d: [of(d(3), d(4))],
    "linalg.trace": lambda d: [of(d(3, 4)), of(d(2, 3, 3), offset=1), of(d(3, 3), dtype=np.dtype(d.dtype))],
}  # fmt: skip
LAPACK: dict[str, Callable[[Draw], list[Arguments]]] = {
    "linalg.det": lambda d: [of(d.good(3, 3)), of(d.good(2, 2, 2)), of(d.good(0, 2, 2))],
    "linalg.inv": lambda d: [of(d.good(3, 3)), of(d.good(2, 2, 2))],
    "linalg.matrix_power": lambda d: [of(d.good(3, 3), n) for n in (0, 1, 2, 5, -1, -3)],
    "linalg.matrix_rank": lambda d: [of(d.good(3, 4)), of(d.good(2, 3, 3), rtol=0.6), of(d.good(3, 1) @ d(1, 3))],
    "linalg.pinv": lambda d: [of(d.good(4, 3)), of(d.good(2, 3, 4)), of(d.good(3, 3), rtol=0.01)],
    "linalg.slogdet": lambda d: [of(d.good(3, 3)), of(d.good(2, 2, 2))],
    "linalg.solve": lambda d: [of(d.good(3, 3), d(3)), of(d.good(2, 3, 3), d(3, 2)), of(d.good(3, 3), d(2, 3, 1))],
    "linalg.svdvals": lambda d: [of(d.good(3, 4)), of(d.good(2, 4, 3))],
    "linalg.eigvalsh": lambda d: [of(d.hermitian(3, 3)), of(d.hermitian(2, 2, 2))],
}  # fmt: skip


TABLE = [
    Row("abs negative positive square round", NUMERIC, one_special),
    Row("sign", REAL, one_special),
    Row("sign", COMPLEX, one),
    Row("ceil floor trunc", REAL, one_special),
    Row("acos acosh asin asinh atan atanh cos cosh exp log log1p log2 log10 sin sinh sqrt reciprocal", FLOATS,
        one_special),
    Row("expm1 tan tanh", FLOATS, one_special),
    Row("acos asin atan atanh cos cosh exp expm1 log log1p log2 log10 sin sinh sqrt tan tanh reciprocal asinh acosh",
        COMPLEX, one),
    Row("signbit", FLOATS, one_special),
    Row("conj", NUMERIC, one_special),
    Row("real imag", COMPLEX, one_special),
    Row("isfinite isinf isnan", NUMERIC, one_special),
    Row("logical_not bitwise_invert", BOOL, one),
    Row("bitwise_invert", INTS, one_special),
    Row("add subtract multiply", NUMERIC, two),
    Row("add subtract multiply divide hypot atan2 logaddexp copysign nextafter", FLOATS, two_special),
    Row("pow", FLOATING, lambda d: [of(d(9, low=0.1), d(9)), of(d(2, 1, low=0.1), d(3)), of(d(4), 2.0)]),
    Row("pow", FLOATS, lambda d: [of(d.special(60), d.special(60))]),
    Row("pow", INTS, powers),
    Row("divide", COMPLEX, two),
    Row("floor_divide remainder", REAL, two_nonzero),
    Row("remainder", FLOATS, two_special),
    Row("maximum minimum", REAL, two_special, sign_of_zero=False),
    Row("less less_equal greater greater_equal", REAL, two_special),
    Row("equal not_equal", ALL, two_special),
    Row("logical_and logical_or logical_xor", BOOL, two),
    Row("bitwise_and bitwise_or bitwise_xor", (*BOOL, *INTS), two_special),
    Row("bitwise_left_shift bitwise_right_shift", INTS, shifts),
    Row("clip", REAL, clips),
    Row("sum", NUMERIC, sums),
    Row("prod", NUMERIC, sums),
    Row("max min", REAL, reductions),
    Row("mean", FLOATING, reductions),
    Row("var std", FLOATS, spreads),
    Row("cumulative_sum cumulative_prod", NUMERIC, running),
    Row("all any", ALL, truths),
    Row("count_nonzero", ALL, reductions),
    Row("argmax argmin", REAL, arguments),
    Row("nonzero", ALL, lambda d: [of(d(9)), of(d(3, 4)), of(d.special(9)), of(d(0, 2))]),
    Row("where", ALL, choices),
    Row("searchsorted", REAL, places),
    Row("sort", REAL, orders),
    Row("argsort", REAL, lambda d: [given for given in orders(d) if "stable" not in given[1]]),
    Row("unique_all unique_counts unique_inverse unique_values", ALL, sets, sign_of_zero=False),
    Row("take", ALL, taken),
    Row("take_along_axis", ALL, taken_along),
    *[Row(name, ALL, calls) for name, calls in SHAPED.items()],
    Row("diff", NUMERIC, differences),
    Row("matmul linalg.matmul", NUMERIC, products),
    Row("tensordot linalg.tensordot", NUMERIC, contractions),
    Row("vecdot linalg.vecdot", NUMERIC, dots),
    Row("matrix_transpose linalg.matrix_transpose", ALL, lambda d: [of(d(2, 3)), of(d(2, 3, 4))]),
    *[Row(name, FLOATING, calls) for name, calls in LAPACK.items()],
    *[Row(name, NUMERIC, calls) for name, calls in LINEAR.items()],
    Row("linalg.diagonal", ALL, lambda d: [of(d(3, 4)), of(d(2, 3, 3), offset=1), of(d(3, 4), offset=-1)]),
    Row("linalg.matrix_norm", FLOATING, norms),
    Row("linalg.vector_norm", FLOATING, vector_norms),
    Row("linalg.cholesky", FLOATING, lambda d: [of((x := d.good(2, 3, 3)) @ np.conj(np.swapaxes(x, -1, -2)), upper=u)
                                                for u in (False, True)]),
    Row("fft.fft fft.ifft", COMPLEX, lengths),
    Row("fft.fftn fft.ifftn", COMPLEX, several),
    Row("fft.rfft fft.ihfft", FLOATS, lengths),
    Row("fft.rfftn", FLOATS, several),
    Row("fft.irfft fft.hfft", COMPLEX, real_spectra),
    Row("fft.irfftn", COMPLEX, several_real_spectra),
    Row("fft.fftshift fft.ifftshift", FLOATING, lambda d: [of(d(4)), of(d(3, 4)), of(d(3, 5), axes=1),
                                                            of(d(3, 4), axes=(0, 1))]),
]  # fmt: skip
