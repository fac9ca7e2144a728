"""JSON from strangers: read with limits, so that what comes back is small, plain and of finite numbers."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

from pdl.errors import DataError, listed

MAX_DEPTH = 64  # of nested lists and objects
MAX_ITEMS = 2_000_000  # commas and brackets: what bounds the memory of the result
MAX_INTEGER = 2**63 - 1


def fault(source: str, part: str, what: str, todo: str = "") -> DataError:
    """A DataError that says which file, which part of it, what is wrong, and what to do."""
    return DataError(f"{source}: {part}: {what}; {todo or 'the file is damaged or was edited: export it again'}")


def parse(data: bytes, source: str, part: str) -> Any:
    """The value in `data` (UTF-8 JSON as RFC 8259 has it), or a DataError.

    Refused: a key given twice, NaN and Infinity, integers beyond 64 bits, numbers that overflow, more than MAX_DEPTH
    levels, more than MAX_ITEMS values.
    """
    items = sum(data.count(sign) for sign in (b",", b"[", b"{"))
    if items > MAX_ITEMS:
        raise fault(source, part, f"{items} values, more than the limit of {MAX_ITEMS}")

    def refuse(text: str) -> NoReturn:
        raise ValueError(f"{text} is no JSON number")

    try:
        value = json.loads(data.decode("utf-8"), object_pairs_hook=_object, parse_constant=refuse, parse_float=_float)
    except (ValueError, RecursionError) as error:
        said = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise fault(source, part, f"not the JSON that pdl writes ({said})") from None
    _check(value, source, part)
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {next(n for n in names if names.count(n) > 1)!r} stands twice in one object")
    return made


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is too large")
    return value


def _check(value: Any, source: str, part: str) -> None:
    """Depth and size of integers, without recursion."""
    level, depth = [value], 0
    while level:
        if depth > MAX_DEPTH:
            raise fault(source, part, f"nested more than {MAX_DEPTH} levels deep")
        inner: list[Any] = []
        for item in level:
            what = type(item)
            if what is int:
                if not -MAX_INTEGER <= item <= MAX_INTEGER:
                    raise fault(source, part, f"the integer {str(item)[:24]}... has more than 64 bits")
            elif what is dict:
                inner += item.values()
            elif what is list:
                inner += item
        level = inner
        depth += 1


def check(good: Any, source: str, part: str, what: str, todo: str = "") -> None:
    """Raise `fault` unless `good`."""
    if not good:
        raise fault(source, part, what, todo)


def check_keys(value: Any, names: dict[str, type | tuple[type, ...]], source: str, part: str) -> None:
    """`value` is an object with exactly these keys, of these types."""
    if not isinstance(value, dict):
        raise fault(source, part, f"expected an object with {', '.join(names)}, found {kind(value)}")
    if value.keys() != names.keys():
        extra, lacks = [n for n in value if n not in names], [n for n in names if n not in value]
        said = f"has {listed(extra) or 'nothing'}, lacks {listed(lacks) or 'nothing'} of {', '.join(names)}"
        raise fault(source, part, said)
    for name, wanted in names.items():
        found = value[name]
        if not isinstance(found, wanted) or (isinstance(found, bool) and wanted is int):
            raise fault(source, part, f"{name} is {kind(found)}, expected {_type_names(wanted)}")


def kind(value: Any) -> str:
    """What a JSON value is, in words."""
    names = {
        dict: "an object",
        list: "a list",
        str: "a text",
        bool: "true or false",
        int: "an integer",
        float: "a number",
    }
    return names.get(type(value), "null")


def _type_names(wanted: type | tuple[type, ...]) -> str:
    each = wanted if isinstance(wanted, tuple) else (wanted,)
    return " or ".join(dict.fromkeys("null" if t is type(None) else kind(t()) for t in each))
