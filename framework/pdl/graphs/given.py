"""What callers give: ids, counts and chances, looked over."""

from __future__ import annotations

from typing import Any

import numpy as np

from pdl.errors import UsageError

Array = np.ndarray[Any, Any]


def integers(ids: Array) -> Array:
    """Ids as int32 where they are, else as int64."""
    ids = np.asarray(ids)
    if ids.dtype.kind not in "iu":
        raise UsageError(f"ids are whole numbers, not {ids.dtype}")
    return np.ascontiguousarray(ids, np.int32 if ids.dtype == np.int32 else np.int64)


def int32s(ids: Array) -> Array:
    """Ids as int32; those that do not fit are told, not cut off."""
    ids = np.asarray(ids)
    if ids.size and ids.dtype.kind not in "iu":
        raise UsageError(f"nodes are whole numbers, not {ids.dtype}")
    if ids.size and not -(2**31) <= int(ids.min()) <= int(ids.max()) < 2**31:
        raise UsageError(f"nodes have numbers below 2**31; there are {ids.min()} to {ids.max()}")
    return np.ascontiguousarray(ids, np.int32)


def whole(name: str, value: Any, least: int = 0) -> int:
    """A count. UsageError, with its name, for anything else."""
    if not isinstance(value, int | np.integer) or value < least:
        raise UsageError(f"{name} is {value!r}; expected a whole number from {least} on")
    return int(value)


def demand_chances(name: str, chance: Array, n: int) -> None:
    """UsageError unless these are n numbers that things can be drawn in proportion to."""
    if chance.shape != (n,) or not (np.isfinite(chance).all() and (chance >= 0).all() and chance.any()):
        raise UsageError(f"{name} must be {n} finite numbers, not negative and not all 0")


__all__ = ["demand_chances", "int32s", "integers", "whole"]
