"""What gates turn by: numbers, or parameters of a circuit with a factor and an offset."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from pdl.errors import UsageError


@dataclass(frozen=True)
class Angle:
    """factor * parameter + offset, in radians; without a parameter the offset alone.

    parameter   its name in the circuit;    index  its place in that parameter's array, flat
    """

    parameter: str | None
    index: int = 0
    factor: float = 1.0
    offset: float = 0.0

    def __mul__(self, by: float) -> Angle:
        return replace(self, factor=self.factor * float(by), offset=self.offset * float(by))

    __rmul__ = __mul__

    def __truediv__(self, by: float) -> Angle:
        return self * (1.0 / by)

    def __neg__(self) -> Angle:
        return self * -1.0

    def __add__(self, more: float) -> Angle:
        return replace(self, offset=self.offset + float(more))

    __radd__ = __add__

    def __sub__(self, less: float) -> Angle:
        return self + -float(less)

    def __str__(self) -> str:
        if self.parameter is None:
            return f"{self.offset:.4g}"
        name = self.parameter if self.index < 0 else f"{self.parameter}[{self.index}]"
        times = "" if self.factor == 1 else "-" if self.factor == -1 else f"{self.factor:.4g} "
        return f"{times}{name}" + (f" {'+' if self.offset > 0 else '-'} {abs(self.offset):.4g}" if self.offset else "")


@dataclass(frozen=True)
class Parameter:
    """Parameters of a circuit: one (`shape` ()), or an array of them, whose entries are `Angle`s.

        theta = Parameter("theta", (2, 3))
        Circuit(3).ry(theta[0, 1], 0).rz(-theta[1, 2] / 2, 1)
    """

    name: str
    shape: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise UsageError(f"{self.name!r} is no name for a parameter; use letters, digits and _")
        if any(n < 1 for n in self.shape):
            raise UsageError(f"parameter {self.name}: a shape of {self.shape} has nothing in it")

    @property
    def size(self) -> int:
        """How many numbers it has."""
        return int(np.prod(self.shape, dtype=np.int64))

    def __getitem__(self, key: Any) -> Any:
        """An `Angle`, or an array of them where the key leaves axes open."""
        return self.angles[key]

    @cached_property
    def angles(self) -> np.ndarray:
        """All of them, as a read-only array of `Angle`s, made once."""
        made = np.empty(self.shape, object)
        for place, index in enumerate(np.ndindex(*self.shape)):
            made[index] = Angle(self.name, place if self.shape else -1)
        made.flags.writeable = False
        return made


def angle_of(value: Any) -> Angle:
    """An `Angle` of a number, an `Angle`, a scalar `Parameter` or its name."""
    if isinstance(value, Angle):
        return value
    if isinstance(value, str):
        value = Parameter(value)
    if isinstance(value, Parameter):
        if value.shape:
            raise UsageError(f"parameter {value.name} has the shape {value.shape}; give one of its entries")
        return Angle(value.name, -1)
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise UsageError(f"{value!r:.60} is no angle; give radians, a Parameter or its name") from None
    if not np.isfinite(number):
        raise UsageError(f"an angle of {number} turns nothing; give a finite number of radians")
    return Angle(None, 0, 1.0, number)
