"""Checks of constructor arguments: the accepted value in its normal form, or a ConfigError that names both."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import cv2

from pdl.errors import ConfigError
from pdl.hints import Range

Probability = Annotated[float, Range(0, 1)]
Interpolation = Literal["auto", "nearest", "linear", "cubic", "area", "lanczos"]
WarpInterpolation = Literal["nearest", "linear", "cubic"]
Border = Literal["constant", "reflect", "edge"]

INTERPOLATION = {"nearest": cv2.INTER_NEAREST, "linear": cv2.INTER_LINEAR, "cubic": cv2.INTER_CUBIC,
                 "area": cv2.INTER_AREA, "lanczos": cv2.INTER_LANCZOS4}
BORDER = {"constant": cv2.BORDER_CONSTANT, "reflect": cv2.BORDER_REFLECT_101, "edge": cv2.BORDER_REPLICATE}


def _items(value: Any, repeat: int = 1) -> tuple[Any, ...]:
    """A number `repeat` times, or the items of a list; nothing for what is neither."""
    if isinstance(value, int | float):
        return (value,) * repeat
    return tuple(value) if isinstance(value, Sequence) else ()


def size_pair(owner: str, name: str, value: Any, *, low: int = 1) -> tuple[int, int]:
    """An int, or (height, width), each at least `low`."""
    pair = _items(value, 2)
    if len(pair) != 2 or not all(isinstance(v, int) and not isinstance(v, bool) and v >= low for v in pair):
        raise ConfigError(f"{owner}: {name}={value!r} must be an integer or (height, width), each at least {low}")
    return pair


def padding4(owner: str, value: Any) -> tuple[int, int, int, int]:
    """An int, (horizontal, vertical) or (left, top, right, bottom), as the last of these."""
    given = _items(value, 4)
    four = (given[0], given[1], given[0], given[1]) if len(given) == 2 else given
    if len(four) != 4 or not all(isinstance(v, int) and v >= 0 for v in four):
        raise ConfigError(f"{owner}: padding={value!r} must be an integer, (horizontal, vertical) or "
                          "(left, top, right, bottom), each at least 0")
    return four


def number(owner: str, name: str, value: Any, low: float, high: float = math.inf, *, above: bool = False) -> float:
    """A finite number in [low, high]; with `above`, in (low, high]."""
    numeric = isinstance(value, int | float) and math.isfinite(value)
    if not numeric or not low <= value <= high or (above and value == low):
        left, right = "(" if above else "[", ")" if high == math.inf else "]"
        raise ConfigError(f"{owner}: {name}={value!r} must be a number in {left}{low:g}, {high:g}{right}")
    return float(value)


def span(owner: str, name: str, value: Any, low: float, high: float = math.inf, *,
         above: bool = False) -> tuple[float, float]:
    """(from, to) with low <= from <= to <= high."""
    pair = () if isinstance(value, int | float) else _items(value)
    if len(pair) != 2:
        raise ConfigError(f"{owner}: {name}={value!r} must be two numbers (from, to)")
    start, end = (number(owner, name, v, low, high, above=above) for v in pair)
    if start > end:
        raise ConfigError(f"{owner}: {name}={value!r} runs backwards; write the smaller number first")
    return start, end


def symmetric(owner: str, name: str, value: Any, limit: float = math.inf) -> tuple[float, float]:
    """A number v >= 0 as (-v, v), or (from, to), within [-limit, limit]."""
    pair = (-value, value) if isinstance(value, int | float) else value
    return span(owner, name, pair, -limit, limit)


def around_one(owner: str, name: str, value: Any) -> tuple[float, float]:
    """A number v >= 0 as (max(0, 1 - v), 1 + v), or (from, to), both at least 0."""
    pair = (max(0.0, 1.0 - value), 1.0 + value) if isinstance(value, int | float) and value >= 0 else value
    return span(owner, name, pair, 0.0)


def choice(owner: str, name: str, value: Any, allowed: Sequence[Any]) -> Any:
    """One of the allowed words."""
    if value not in allowed:
        raise ConfigError(f"{owner}: {name}={value!r} must be one of {', '.join(map(str, allowed))}")
    return value


def fill_values(owner: str, value: Any) -> tuple[float, ...]:
    """One number, or one for each channel, in 0..255."""
    values = _items(value)
    if len(values) not in (1, 3):
        raise ConfigError(f"{owner}: fill={value!r} must be one number, or three (R, G, B)")
    return tuple(number(owner, "fill", v, 0, 255) for v in values)


def scalar(fill: tuple[float, ...], channels: int) -> tuple[float, ...]:
    """The fill as an OpenCV scalar for images of that many channels."""
    return fill * channels if len(fill) == 1 else fill


def two(value: Any) -> tuple[Any, Any]:
    """The two numbers of a field that `__post_init__` has brought into its normal form (its type also allows one)."""
    first, second = value
    return first, second
