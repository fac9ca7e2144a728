"""The attributes of ops: what each may be, stated once by its annotation; frozen values; to JSON and back.

An annotation is text that is read and never evaluated: ``int``, ``float``, ``bool``, ``str``, ``DType``, ``Scalar``,
``Block``, tuples and unions of these, and the names below, which also say from where to where a number goes. Sizes and
steps of windows end at 2^31 - 1, so that a product of two of them and the sum of two such products are an int64.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, NamedTuple, TypeAlias

import numpy as np

from pdl.dims import Dim
from pdl.dtype import as_dtype
from pdl.hints import Choice, Range

#: a whole number that NumPy holds: an index, a label
Int64: TypeAlias = Annotated[int, Range(-(2**63), 2**63 - 1)]
#: the length of a dimension, how many there are of something
Length: TypeAlias = Annotated[int, Range(0, 2**48)]
#: a length of `reshape`, where -1 is the one that follows from the others
LengthOrRest: TypeAlias = Annotated[int, Range(-1, 2**48)]
#: the number of a dimension, negative from the last
Axis: TypeAlias = Annotated[int, Range(-64, 63)]
#: the number of a diagonal, a shift: up or down
Offset: TypeAlias = Annotated[int, Range(-(2**31) + 1, 2**31 - 1)]
#: a stride, dilation, size of a window, number of groups
Step: TypeAlias = Annotated[int, Range(1, 2**31 - 1)]
#: an axis that tables of windows or weights are made for
Cells: TypeAlias = Annotated[int, Range(0, 2**24)]
#: a width of padding, a number of heads that may be none
Width: TypeAlias = Annotated[int, Range(0, 2**31 - 1)]
#: padding of a sliding window on one side of an axis, which a kernel may copy
Pad: TypeAlias = Annotated[int, Range(0, 2**16)]
#: a zero point
Byte: TypeAlias = Annotated[int, Range(0, 255)]
#: a share, such as that of the values that dropout takes
Probability: TypeAlias = Annotated[float, Range(0, 1)]
#: what a statistic is multiplied by: n / (n - 1), say
Factor: TypeAlias = Annotated[float, Range(0, 2**48)]
#: a number above 0 that is divided by: no subnormal one, which counts as 0 while a kernel runs
AboveZero: TypeAlias = Annotated[float, Range(2.0**-126)]

#: what becomes of a loss a row
Reduced: TypeAlias = Annotated[str, Choice(("mean", "sum", "none"))]

#: how attributes that are no plain values are read from JSON, where they stand as {kind: content}
JSON_KINDS: dict[str, Callable[[Any], Any]] = {"dtype": as_dtype, "float": float}


class Kind(NamedTuple):
    """What an attribute may be: whether a value is, and how messages say it."""

    holds: Callable[[Any], bool]
    text: str


# -- from annotations --------------------------------------------------------------------------------------------------
@cache
def kinds(op: type) -> dict[str, Kind]:
    """Attribute -> its kind, by the annotations of an op class and the classes it inherits from. TypeError for an
    annotation of another form."""
    found: dict[str, Kind] = {}
    for cls in reversed(op.__mro__):
        for name, text in cls.__dict__.get("__annotations__", {}).items():  # noqa: RUF063 (inspect is slow to load)
            if name in op.fields and not str(text).startswith("ClassVar"):  # type: ignore[attr-defined]
                found[name] = _parsed(text, cls.__module__)
    return {name: found[name] for name in op.fields}  # type: ignore[attr-defined]


def _parsed(text: str, module: str) -> Kind:
    return _kind(ast.parse(text, mode="eval").body, module)


def _kind(hint: ast.expr, module: str) -> Kind:
    if isinstance(hint, ast.BinOp):  # A | B
        left, right = _kind(hint.left, module), _kind(hint.right, module)
        return Kind(lambda v: left.holds(v) or right.holds(v), f"{left.text} or {right.text}")
    if isinstance(hint, ast.Constant):
        return _KINDS["None"] if hint.value is None else _parsed(str(hint.value), module)
    if isinstance(hint, ast.Subscript) and isinstance(hint.value, ast.Name) and hint.value.id == "tuple":
        return _tuple(hint.slice.elts if isinstance(hint.slice, ast.Tuple) else [hint.slice], module)
    if isinstance(hint, ast.Name):
        alias = getattr(sys.modules[module], hint.id, None)
        if isinstance(alias, str):
            return _parsed(alias, module)
        if hint.id in _KINDS:
            return _KINDS[hint.id]
        if alias is not None and hasattr(alias, "__metadata__"):
            return _within(_KINDS[alias.__origin__.__name__], alias.__metadata__[0])
    raise TypeError(f"{module}: an op's attribute is annotated {ast.unparse(hint)}; see pdl.ops.attributes")


def _within(kind: Kind, allowed: Range | Choice) -> Kind:
    """The values of a kind that lie in a range, or among a choice."""
    holds = kind.holds
    return Kind(lambda v: holds(v) and v in allowed, f"{kind.text} {allowed}")


def _tuple(hints: list[ast.expr], module: str) -> Kind:
    """``tuple[T, ...]`` and ``tuple[A, B]``."""
    if len(hints) == 2 and isinstance(hints[1], ast.Constant) and hints[1].value is Ellipsis:
        each = _kind(hints[0], module)
        return Kind(lambda v: type(v) is tuple and all(map(each.holds, v)), f"a tuple, each {each.text}")
    parts = [_kind(hint, module) for hint in hints]

    def holds(value: Any) -> bool:
        if type(value) is not tuple or len(value) != len(parts):
            return False
        return all(part.holds(v) for part, v in zip(parts, value, strict=True))

    return Kind(holds, f"({', '.join(part.text for part in parts)})")


def _instance(text: str, *types: type) -> Kind:
    return Kind(lambda v: isinstance(v, types), text)


def _number(text: str, *types: type) -> Kind:
    return Kind(lambda v: isinstance(v, types) and type(v) is not bool, text)


_KINDS = {
    "None": Kind(lambda v: v is None, "None"),
    "int": _number("a whole number", int, np.integer),
    "float": _number("a number", float, int, np.floating, np.integer),
    "bool": _instance("True or False", bool, np.bool_),
    "str": _instance("text", str),
    "Scalar": _instance("a number", bool, int, float, complex, np.generic),
    "DType": _instance("a dtype", np.dtype),
    "Block": Kind(lambda v: hasattr(v, "program"), "a program"),
}


# -- values ------------------------------------------------------------------------------------------------------------
def frozen(value: Any) -> Any:
    """Lists as tuples, at any depth."""
    return tuple(frozen(v) for v in value) if isinstance(value, list | tuple) else value


def to_json(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, Dim):
        return {"dim": value.text}
    if isinstance(value, np.dtype):
        return {"dtype": value.name}
    if isinstance(value, float) and value - value != 0:  # JSON lacks infinity and NaN
        return {"float": str(value)}
    if hasattr(value, "to_json"):
        return value.to_json()
    return [to_json(v) for v in value] if isinstance(value, tuple) else value


def from_json(value: Any) -> Any:
    """The value that `to_json` wrote."""
    if isinstance(value, dict):
        ((kind, inner),) = value.items()
        return JSON_KINDS[kind](inner)
    return tuple(from_json(v) for v in value) if isinstance(value, list) else value
