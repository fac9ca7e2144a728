"""Arithmetic of sizes that are known only when a graph runs, so that what it gives decides shapes.

An array of sizes holds, as objects, ints and `Dim`s; truth values about them (bools, and `Truth` where a size decides);
and what float arithmetic makes of them (`Ratio`), as exporters write it for Resize: Floor(Cast(h) * 0.5). What is not
here, or would be rounded, is computed as tensors when the graph runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from pdl import dims
from pdl.dims import Dim
from pdl.dtype import Array, DType

#: numerators and denominators of factors up to this are exact in float32 beside sizes up to a few thousand
EXACT = 1 << 12


class Truth(Dim):
    """Whether something holds for sizes: 1 or 0."""


class Ratio:
    """top / bottom as a float: `exact` if its float32 is that number, else only its neighbours among the integers are
    known."""

    __slots__ = ("bottom", "dtype", "exact", "top")

    def __init__(self, top: int, bottom: int, dtype: DType, exact: bool = True) -> None:
        self.top, self.bottom, self.dtype, self.exact = top, bottom, dtype, exact


class NoSize(Exception):
    """The result is no size."""


# -- one entry ---------------------------------------------------------------------------------------------------------
def _ratio(x: Any, dtype: DType) -> Ratio:
    if isinstance(x, Ratio):
        return x
    if not isinstance(x, float) or x != x or abs(x) > EXACT:
        raise NoSize
    top, bottom = x.as_integer_ratio()
    if max(abs(top), bottom) > EXACT:
        raise NoSize
    return Ratio(top, bottom, dtype)


def _ratios(a: Any, b: Any) -> tuple[Ratio, Ratio] | None:
    """Both as ratios where one is; None where both are whole."""
    given = next((x for x in (a, b) if isinstance(x, Ratio)), None)
    if given is None:
        if isinstance(a, float) or isinstance(b, float):
            raise NoSize
        return None
    return _ratio(a, given.dtype), _ratio(b, given.dtype)


def _reduced(top: int, bottom: int, like: Ratio) -> Ratio:
    if bottom > EXACT:
        raise NoSize
    return Ratio(top, bottom, like.dtype, bottom & (bottom - 1) == 0)


def _linear(of_sizes: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Sums and what chooses between two: of ratios, with one denominator."""

    def function(a: Any, b: Any) -> Any:
        both = _ratios(a, b)
        if both is None:
            return of_sizes(a, b)
        p, q = both
        if not (p.exact and q.exact):
            raise NoSize
        return _reduced(of_sizes(p.top * q.bottom, q.top * p.bottom), p.bottom * q.bottom, p)

    return function


def _multiply(a: Any, b: Any) -> Any:
    both = _ratios(a, b)
    if both is None:
        return a * b
    p, q = both
    if not (p.exact and q.exact):
        raise NoSize
    return _reduced(p.top * q.top, p.bottom * q.bottom, p)


def _divide(a: Any, b: Any) -> Any:
    """Integers are divided toward zero."""
    both = _ratios(a, b)
    if both is not None:
        p, q = both
        if not isinstance(q.top, Dim) and q.top < 0:
            p, q = _negative(p), _negative(q)
        if isinstance(q.top, Dim) or q.top < 1 or not (p.exact and q.exact):
            raise NoSize
        return _reduced(p.top * q.bottom, p.bottom * q.top, p)
    if isinstance(b, Dim) and dims.least(b) is None:
        raise NoSize
    if not isinstance(b, Dim) and b < 1:
        return _divide(-a, -b) if b else _refuse()
    return _toward_zero(a, b)


def _toward_zero(a: int, b: int) -> int:
    low = dims.least(a)
    if low is not None and low >= 0:
        return a // b
    return dims.maximum(a, 0) // b - dims.maximum(-a, 0) // b


def _refuse() -> Any:
    raise NoSize


def _remainder(a: Any, b: Any) -> Any:
    if _ratios(a, b) is not None or (not isinstance(b, Dim) and b == 0):
        raise NoSize
    return a % b


def _truth(value: int) -> Any:
    """A size that is 0 or 1 as a truth value."""
    return Truth(int(value), value.expression) if isinstance(value, Dim) else bool(value)


def _compared(of_difference: Callable[[int], int]) -> Callable[[Any, Any], Any]:
    def function(a: Any, b: Any) -> Any:
        both = _ratios(a, b)
        if both is None:
            return _truth(of_difference(a - b))
        p, q = both
        if not (p.exact and q.exact):
            raise NoSize
        return _truth(of_difference(p.top * q.bottom - q.top * p.bottom))

    return function


def _one_if_positive(d: int) -> int:
    return dims.minimum(dims.maximum(d, 0), 1)


def _magnitude(x: Any) -> Any:
    if isinstance(x, Ratio):
        return Ratio(_magnitude(x.top), x.bottom, x.dtype, x.exact)
    return dims.maximum(x, 0) + dims.maximum(-x, 0)


def _negative(x: Any) -> Any:
    return Ratio(-x.top, x.bottom, x.dtype, x.exact) if isinstance(x, Ratio) else -x


def _logic(of_sizes: Callable[[int, int], int]) -> Callable[[Any, Any], Any]:
    return lambda a, b: _truth(of_sizes(_whole(a), _whole(b)))


def _whole(x: Any) -> int:
    return int(x) if isinstance(x, bool) else x  # type: ignore[no-any-return]


def _where(condition: Any, a: Any, b: Any) -> Any:
    if isinstance(condition, bool):
        return a if condition else b
    if isinstance(a, Ratio | float) or isinstance(b, Ratio | float):
        raise NoSize
    made = _whole(b) + condition * (_whole(a) - _whole(b))
    return _truth(made) if isinstance(a, bool | Truth) else made


def _rounding(of_quotient: Callable[[int, int], int]) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        if not isinstance(x, Ratio):
            raise NoSize
        return Ratio(of_quotient(x.top, x.bottom), 1, x.dtype)

    return function


def _half_to_even(top: int, bottom: int) -> int:
    nearest = (2 * top + bottom) // (2 * bottom)
    tie = 1 - _one_if_positive((2 * top + bottom) % (2 * bottom))
    return nearest - tie * (nearest % 2)


#: an ONNX op -> what it makes of entries
ENTRIES: dict[str, Callable[..., Any]] = {
    "Add": _linear(lambda a, b: a + b),
    "Sub": _linear(lambda a, b: a - b),
    "Mul": _multiply,
    "Div": _divide,
    "Mod": _remainder,
    "Max": _linear(dims.maximum),
    "Min": _linear(dims.minimum),
    "Neg": _negative,
    "Abs": _magnitude,
    "Floor": _rounding(lambda p, q: p // q),
    "Ceil": _rounding(lambda p, q: -(-p // q)),
    "Round": _rounding(_half_to_even),
    "Equal": _compared(lambda d: 1 - _one_if_positive(_magnitude(d))),
    "Greater": _compared(_one_if_positive),
    "Less": _compared(lambda d: _one_if_positive(-d)),
    "GreaterOrEqual": _compared(lambda d: 1 - _one_if_positive(-d)),
    "LessOrEqual": _compared(lambda d: 1 - _one_if_positive(d)),
    "And": _logic(lambda a, b: a * b),
    "Or": _logic(lambda a, b: a + b - a * b),
    "Xor": _logic(lambda a, b: a + b - 2 * a * b),
    "Not": lambda a: _truth(1 - _whole(a)),
    "Where": _where,
}
_OF_AN_AXIS = {"ReduceSum": "Add", "ReduceProd": "Mul", "ReduceMax": "Max", "ReduceMin": "Min"}


# -- arrays ------------------------------------------------------------------------------------------------------------
def elementwise(op: str, *arrays: Array) -> Array | None:
    """What an op makes of arrays of sizes, broadcast; None where that is no size, or is rounded."""
    if op not in ENTRIES:
        return None
    try:
        return collected(np.frompyfunc(ENTRIES[op], len(arrays), 1)(*[x.astype(object) for x in arrays]))
    except NoSize:
        return None


def along(op: str, x: Array, axes: Sequence[int] | None, keepdims: bool) -> Array | None:
    """A reduction of an array of sizes; None where it is none of sizes."""
    if op not in _OF_AN_AXIS or not x.size:
        return None
    places = [a % x.ndim for a in (range(x.ndim) if axes is None else axes)]
    function = ENTRIES[_OF_AN_AXIS[op]]
    try:
        for axis in sorted(places, reverse=True):
            lines = reduce(np.frompyfunc(function, 2, 1), np.split(x, x.shape[axis], axis))
            x = lines if keepdims else collected(lines.reshape([n for i, n in enumerate(lines.shape) if i != axis]))
    except NoSize:
        return None
    return collected(x)


def collected(x: Any) -> Array:
    """Entries as an array: of int64 or bool where all are known."""
    if not isinstance(x, np.ndarray):
        made = np.empty((), object)
        made[()] = x
        x = made
    kinds = {type(v) for v in x.flat} if x.dtype == object else set()
    return x.astype({int: np.int64, bool: np.bool_}[kinds.pop()]) if len(kinds) == 1 and kinds <= {int, bool} else x


def cast(x: Array, dtype: DType) -> Array | None:
    """Sizes in another dtype; None where that is none that they have."""

    def entry(v: Any) -> Any:
        if dtype.kind == "f" and dtype.itemsize >= 4:
            return Ratio(v.top, v.bottom, dtype, v.exact) if isinstance(v, Ratio) else Ratio(_plain(v), 1, dtype)
        if dtype == np.bool_:
            return _truth(_one_if_positive(_magnitude(_plain(v.top if isinstance(v, Ratio) else v))))
        if dtype.kind != "i" or dtype.itemsize < 4:
            raise NoSize
        return _toward_zero(v.top, v.bottom) if isinstance(v, Ratio) else _plain(v)

    try:
        return collected(np.frompyfunc(entry, 1, 1)(x))
    except NoSize:
        return None


def _plain(v: Any) -> int:
    """A size or truth value as a size."""
    return Dim(int(v), v.expression) if isinstance(v, Truth) else _whole(v)


def is_symbolic(x: Any) -> bool:
    """Whether entries of an array depend on sizes that a run decides."""
    return isinstance(x, np.ndarray) and x.dtype == object and any(isinstance(v, Dim | Ratio) for v in x.flat)


def has_ratios(x: Any) -> bool:
    """Whether floats made of sizes are in an array."""
    return isinstance(x, np.ndarray) and x.dtype == object and any(isinstance(v, Ratio | float) for v in x.flat)
