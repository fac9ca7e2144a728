"""Checks of the arguments of steps. UsageError, with the name of the argument, for what does not pass."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pdl.errors import UsageError

MAX_COUNT = 1 << 16


def check(good: bool, what: str) -> None:
    """UsageError with `what` unless `good`."""
    if not good:
        raise UsageError(what)


def one_of(name: str, value: Any, allowed: Sequence[Any]) -> Any:
    """One of these values, and of the same type."""
    good = any(value == each and type(value) is type(each) for each in allowed)
    check(good, f"{name}={value!r:.60} must be one of {', '.join(map(str, allowed))}")
    return value


def count(name: str, value: Any, least: int = 1, most: int = MAX_COUNT) -> int:
    """A whole number from `least` to `most`."""
    good = type(value) is int and least <= value <= most
    check(good, f"{name}={value!r:.60} must be a number from {least} to {most}")
    return int(value)


def number(name: str, value: Any, least: float = -math.inf, most: float = math.inf) -> float:
    """A finite number from `least` to `most`."""
    good = type(value) in (int, float) and math.isfinite(value) and least <= value <= most
    within = "a finite number" if math.isinf(least) else f"from {least:g} to {most:g}"
    check(good, f"{name}={value!r:.60} must be {within}")
    return float(value)


def text(name: str, value: Any) -> str:
    """A text."""
    check(isinstance(value, str), f"{name}={value!r:.60} must be a text")
    return str(value)


def texts(name: str, value: Any) -> list[str]:
    """A list of texts."""
    good = isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)
    check(good, f"{name}={value!r:.60} must be a list of texts")
    return list(value)


def flag(name: str, value: Any) -> bool:
    """True or false."""
    check(type(value) is bool, f"{name}={value!r:.60} must be true or false")
    return bool(value)


def are(values: Any, kind: Any, how_many: int | None = None) -> bool:
    """Whether it is a list of values of a type (or of one of several types) with an allowed length."""
    kinds = kind if isinstance(kind, tuple) else (kind,)
    return (
        isinstance(values, list | tuple) and all(type(v) in kinds for v in values) and how_many in (None, len(values))
    )
