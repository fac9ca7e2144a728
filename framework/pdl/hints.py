"""Words for recipes: what a recipe may build (`part`), and for argument annotations that say which values make sense
(`Annotated[float, Range(0, 1)]`).

People read them in the signature; `pdl.config` checks recipes against them before anything is built. `Literal["a",
"b"]` and plain types need no words of their own; `Choice` is for sets that are only known when the module is
loaded.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, TypeAlias, TypeVar

T = TypeVar("T")

Inherited: TypeAlias = Annotated[Any, "inherited"]
"""Annotation of the `**options` that a constructor hands to the one above it: the keyword-only arguments of that one,
by which recipes are checked."""


def part(made: T) -> T:
    """Decorator: a recipe may build this by its import path.

    A class: itself and all that inherit from it, as `pdl.nn.Module`, `pdl.data.Dataset` and the other bases of parts.
    A function: one that makes a part and does nothing else; its annotation says the class of what it returns.
    """
    made.__pdl_part__ = True  # type: ignore[attr-defined]
    return made


def is_part(made: Any) -> bool:
    """Whether a class or function was declared by `part`."""
    return getattr(made, "__pdl_part__", False) is True


class Range:
    """A number between `low` and `high`; ends are included unless `above` / `below` is used instead. NaN is never
    inside.

    Range(1) is >= 1; Range(0, 1) is 0 to 1; Range(above=0) is > 0; Range(0, below=1) is 0 <= x < 1.
    """

    __slots__ = ("above", "below", "high", "low")

    def __init__(
        self,
        low: float | None = None,
        high: float | None = None,
        *,
        above: float | None = None,
        below: float | None = None,
    ) -> None:
        self.low, self.high, self.above, self.below = low, high, above, below

    def __contains__(self, x: Any) -> bool:
        if x != x:  # NaN
            return False
        return (
            (self.low is None or x >= self.low)
            and (self.high is None or x <= self.high)
            and (self.above is None or x > self.above)
            and (self.below is None or x < self.below)
        )

    def __str__(self) -> str:
        if self.low is not None and self.high is not None:
            return f"from {self.low} to {self.high}"
        ends = ((">=", self.low), (">", self.above), ("<=", self.high), ("<", self.below))
        return " and ".join(f"{sign} {end}" for sign, end in ends if end is not None)

    def __repr__(self) -> str:
        return f"Range({self})"


class Choice:
    """One of these values; for sets computed at import, such as the names of a table."""

    __slots__ = ("values",)

    def __init__(self, values: Iterable[Any]) -> None:
        self.values = tuple(values)

    def __contains__(self, x: Any) -> bool:
        return x in self.values

    def __str__(self) -> str:
        return "one of " + ", ".join(map(repr, self.values))

    def __repr__(self) -> str:
        return f"Choice({self.values!r})"


class Inferred:
    """Arguments of a part that are inferred from the data where the recipe leaves them out: a module that takes
    `circuit: Annotated[Circuit, Inferred("num_qubits")]` is given circuits that the recipe names without num_qubits."""

    __slots__ = ("names",)

    def __init__(self, *names: str) -> None:
        self.names = frozenset(names)

    def __repr__(self) -> str:
        return f"Inferred({', '.join(map(repr, sorted(self.names)))})"
