"""Arithmetic of programs: numbers, and angles that hold one of a program's inputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pdl.errors import DataError
from pdl.suites import suggest
from pdl_quantum.circuits import Angle

Value = int | float | bool | Angle
MOST_DEPTH = 50
"""Of brackets and operators inside each other."""

CONSTANTS = {
    "pi": math.pi, "π": math.pi, "tau": math.tau, "τ": math.tau, "euler": math.e, "ℇ": math.e,
}  # fmt: skip
FUNCTIONS: dict[str, tuple[Callable[..., float], int]] = {
    "sin": (math.sin, 1), "cos": (math.cos, 1), "tan": (math.tan, 1), "exp": (math.exp, 1), "sqrt": (math.sqrt, 1),
    "ln": (math.log, 1), "log": (math.log, 1), "arcsin": (math.asin, 1), "arccos": (math.acos, 1),
    "arctan": (math.atan, 1), "ceiling": (math.ceil, 1), "floor": (math.floor, 1), "mod": (lambda a, b: a % b, 2),
    "pow": (lambda a, b: a**b, 2), "popcount": (lambda a: int(a).bit_count(), 1),
}  # fmt: skip
OF_TWO = ("sin", "cos", "tan", "exp", "ln", "sqrt")
"""The functions of OpenQASM 2."""


def binary(sign: str, a: Value, b: Value) -> Value:
    """a sign b. Whole numbers that do not divide give a fraction, as files mean it that write pow(1/2) or rx(1/2)."""
    if isinstance(a, Angle) or isinstance(b, Angle):
        return _of_inputs(sign, a, b)
    try:
        if sign in ("^", "**"):
            return finite(float(a) ** float(b) if abs(b) > 64 or b < 0 else a**b)
        if sign == "/":
            return a // b if isinstance(a, int) and isinstance(b, int) and a % b == 0 else finite(a / b)
        return finite(_BINARY[sign](a, b))
    except KeyError:
        raise DataError(f"the operator {sign} is not known here") from None
    except (ArithmeticError, ValueError, TypeError):
        raise DataError(f"{a} {sign} {b} has no value") from None


_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "%": lambda a, b: a % b,
    "==": lambda a, b: a == b, "!=": lambda a, b: a != b, "<": lambda a, b: a < b, ">": lambda a, b: a > b,
    "<=": lambda a, b: a <= b, ">=": lambda a, b: a >= b, "&&": lambda a, b: bool(a) and bool(b),
    "||": lambda a, b: bool(a) or bool(b),
}  # fmt: skip


def _of_inputs(sign: str, a: Value, b: Value) -> Angle:
    if isinstance(a, Angle) and isinstance(b, Angle):
        if sign in "+-" and (a.parameter, a.index) == (b.parameter, b.index):
            turn = 1 if sign == "+" else -1
            return Angle(a.parameter, a.index, a.factor + turn * b.factor, a.offset + turn * b.offset)
        raise DataError(f"({a}) {sign} ({b}): an angle may hold one input, with a factor and an offset")
    if isinstance(a, Angle) and not isinstance(b, Angle):
        if sign == "/" and b != 0:
            return a / b
        if sign in "+-*":
            return a + b if sign == "+" else a - b if sign == "-" else a * b
    elif isinstance(b, Angle) and not isinstance(a, Angle) and sign in "+-*":
        return b + a if sign == "+" else -b + a if sign == "-" else b * a
    raise DataError(f"{a} {sign} {b}: an angle may hold one input, with a factor and an offset")


def negative(a: Value) -> Value:
    """-a."""
    return -a


def call(name: str, arguments: Sequence[Value], known: Sequence[str] = tuple(FUNCTIONS)) -> Value:
    """A function of numbers."""
    if name not in known:
        raise DataError(f"there is no function {name!r}{suggest(name, known)}")
    function, count = FUNCTIONS[name]
    if len(arguments) != count:
        raise DataError(f"{name} takes {count} arguments, not {len(arguments)}")
    held = next((a for a in arguments if isinstance(a, Angle)), None)
    if held is not None:
        raise DataError(f"{name}({held}): an angle may hold an input with a factor and an offset, not a function of it")
    try:
        return finite(function(*arguments))
    except (ArithmeticError, ValueError, TypeError):
        raise DataError(f"{name}({', '.join(map(str, arguments))}) has no value") from None


def lookup(name: str, known: Mapping[str, Value]) -> Value:
    """The value of a name, or a constant's."""
    if name in known:
        return known[name]
    if name in CONSTANTS:
        return CONSTANTS[name]
    raise DataError(f"there is no value {name!r}{suggest(name, [*known, *CONSTANTS])}")


def whole(value: Value, what: str) -> int:
    """A whole number."""
    if isinstance(value, Angle) or value != math.floor(finite(value)):
        raise DataError(f"{what} is {value}, and must be a whole number")
    return int(value)


def finite(value: Any) -> Any:
    """A number that is one: literals such as 1e999 are not."""
    if isinstance(value, complex) or not math.isfinite(value):
        raise DataError(f"{value} is no number to calculate with")
    return value
