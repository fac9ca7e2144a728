"""Checks that ops share: shapes that broadcast, axes that exist, dtypes of a kind."""

from __future__ import annotations

import operator

from pdl.dtype import DType, bfloat16, bool_, kind
from pdl.errors import DtypeError, IndexRangeError, ShapeError
from pdl.ops.base import Spec

_KINDS = {"b": "bool", "i": "integers", "f": "floats", "c": "complex numbers"}


def broadcast_shapes(name: str, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The common shape under NumPy's broadcasting rule, or a `ShapeError` that shows all of them."""
    made: list[int] = []
    for place in range(1, max(map(len, shapes), default=0) + 1):
        size = 1
        for shape in shapes:
            n = shape[-place] if place <= len(shape) else 1
            if n != 1 and size not in (1, n):
                shown = " and ".join(str(s) for s in shapes)
                raise ShapeError(f"{name}: shapes {shown} do not broadcast; sizes must be equal or 1, from the right")
            if n != 1 or (type(size) is int and size == 1):  # a symbolic size whose example is 1 stays symbolic
                size = n
        made.append(size)
    return tuple(reversed(made))


def normalize_axis(name: str, axis: int, ndim: int) -> int:
    """`axis` counted from the front; raises where it is outside [-ndim, ndim)."""
    if not -ndim <= axis < ndim:
        if not ndim:
            raise IndexRangeError(f"{name}: axis {axis} of a tensor without dimensions")
        lowest, last = -ndim, ndim - 1
        raise IndexRangeError(f"{name}: axis {axis} is outside [{lowest}, {last}] of a tensor with {ndim} dimensions")
    return axis % ndim


def normalize_axes(name: str, axis: int | tuple[int, ...] | None, ndim: int) -> tuple[int, ...]:
    """All axes (None) or the given ones, from the front, sorted, without repeats."""
    if axis is None:
        return tuple(range(ndim))
    axes = tuple(axis) if isinstance(axis, tuple | list) else (operator.index(axis),)
    found = tuple(sorted(normalize_axis(name, a, ndim) for a in axes))
    if len(set(found)) != len(found):
        raise ShapeError(f"{name}: axis {axes} names a dimension twice")
    return found


def check_floating(name: str, **specs: Spec | None) -> None:
    """Raise unless every given spec has a floating dtype."""
    for label, spec in specs.items():
        if spec is not None and spec.dtype.kind != "f" and spec.dtype != bfloat16:
            raise DtypeError(f"{name}: {label} is {spec.dtype.name}; expected float32, float64 or bfloat16")


def check_shapes(name: str, **expected: tuple[Spec | None, tuple[int, ...]]) -> None:
    """Raise unless each spec that is given has the shape beside it."""
    for label, (spec, shape) in expected.items():
        if spec is not None and spec.shape != shape:
            raise ShapeError(f"{name}: {label} is {spec.shape}; expected {shape}")


def check_specs(name: str, **expected: tuple[Spec | None, Spec]) -> None:
    """Raise unless each spec that is given has the shape and dtype beside it."""
    check_shapes(name, **{label: (spec, like.shape) for label, (spec, like) in expected.items()})
    for label, (spec, like) in expected.items():
        if spec is not None and spec.dtype != like.dtype:
            raise DtypeError(f"{name}: {label} is {spec.dtype.name}; expected {like.dtype.name}")


def check_kind(name: str, kinds: str, dtype: DType) -> None:
    """Raise unless the dtype is of one of these kinds ("b", "i", "f", "c")."""
    if kind(dtype) not in kinds:
        takes = " or ".join(_KINDS[k] for k in kinds)
        hint = "; use logical_and/or/xor, or astype first" if dtype == bool_ else ""
        raise DtypeError(f"{name}: takes {takes}, not {dtype.name}{hint}")
