"""The values of an op's attributes: frozen, to JSON, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pdl.dims import Dim
from pdl.dtype import as_dtype

#: how attributes that are no plain values are read from JSON, where they stand as {kind: content}
JSON_KINDS: dict[str, Callable[[Any], Any]] = {"dtype": as_dtype, "float": float}


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


__all__ = ["JSON_KINDS", "from_json", "frozen", "to_json"]
