"""Values against annotations: a line says what is taken, and as what, or what is said about it."""

from __future__ import annotations

import enum
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pytest

from pdl.config.schema import Checker
from pdl.config.signature import signature, wants_tuple
from pdl.config.words import describe
from pdl.hints import Choice, Inferred, Inherited, Range
from pdl.nn import Linear


class Colour(enum.Enum):
    RED = 1


TAKEN: list[tuple[Any, Any, Any]] = [
    # hint, value, what the constructor gets
    (int, 3, 3),
    (float, 3, 3),
    (float, 0.5, 0.5),
    (float, "1e-3", 1e-3),
    (float, "-2.5E+2", -250.0),
    (Annotated[float, Range(0, 1)], "5e-1", 0.5),
    (bool, True, True),
    (str, "1e-3", "1e-3"),
    (None, None, None),
    (int | None, None, None),
    (Annotated[int | None, Range(1)], None, None),
    (Annotated[int, Range(1)] | None, 4, 4),
    (int | str, "3", "3"),
    (float | str, "1e-3", "1e-3"),
    (int | float, 3, 3),
    (Literal["a", 2], 2, 2),
    (list[int], [1, 2], [1, 2]),
    (list[float], ["1e-3", 1], [1e-3, 1]),
    (tuple[int, int], [1, 2], [1, 2]),
    (tuple[int, ...], [1, 2, 3], [1, 2, 3]),
    (int | tuple[int, int], [1, 2], [1, 2]),
    (int | tuple[int, int], 3, 3),
    (Sequence[str], ["a"], ["a"]),
    (Annotated[list[int], Range(1)], [1, 2], [1, 2]),
    (dict[str, float], {"a": "1e-2"}, {"a": 0.01}),
    (Mapping[str, int] | None, {"a": 1}, {"a": 1}),
    (str | os.PathLike[str], "a/b", "a/b"),
    (Path, "a/b", "a/b"),
    (Colour, "RED", "RED"),
    (np.dtype, "float32", "float32"),
    (Any, {"a": [1, None]}, {"a": [1, None]}),
    (Annotated[str, Choice(("a", "b"))], "b", "b"),
]

REFUSED: list[tuple[Any, Any, str]] = [
    (int, True, "expected a whole number, got true (true/false)"),
    (int, 2.0, "write 2"),
    (int, None, "got null"),
    (float, "fast", "expected a number, got 'fast' (text)"),
    (float, True, "expected a number"),
    (float, "inf", "expected a number"),
    (bool, 1, "expected true or false, got 1 (int)"),
    (str, 3, "put it in quotes: '3'"),
    (int | None, "x", "expected a whole number, got 'x'"),
    (Annotated[int | None, Range(1)], 0, "0 is out of range: expected a whole number >= 1"),
    (int | str, 1.5, "expected a whole number or text, got 1.5 (float)"),
    (Literal["cos", "exp"], "coss", "did you mean 'cos'?"),
    (Literal["a", 2], True, "expected one of 'a', 2"),
    (list[int], 3, "write a list: [3]"),
    (list[int], [1, "x"], "expected a whole number, got 'x'"),
    (tuple[int, int], [1], "expected a list of 2"),
    (Annotated[list[int], Range(1)], [1, 0], "0 is out of range"),
    (dict[str, int], [1], "expected a mapping"),
    (Annotated[float, Range(above=0)], 0, "expected a number > 0"),
    (Annotated[float, Range(0, 1)], 1.5, "expected a number from 0 to 1"),
    (Annotated[str, Choice(("a", "b"))], "c", "expected one of 'a', 'b', got 'c'"),
    (Callable[[int], int], "relu", "a part that can be called"),
    (Colour, "BLUE", "one of 'RED'"),
    (Path, 3, "expected a path"),
]


@pytest.mark.parametrize(("hint", "value", "expected"), TAKEN, ids=str)
def test_taken(hint: Any, value: Any, expected: Any) -> None:
    checker = Checker()
    result = checker.value(value, hint, ("key",))
    assert checker.faults == []
    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize(("hint", "value", "says"), REFUSED, ids=str)
def test_refused(hint: Any, value: Any, says: str) -> None:
    checker = Checker()
    checker.value(value, hint, ("key",))
    assert len(checker.faults) == 1
    assert says in checker.faults[0].message


def test_signature_resolves_annotations() -> None:
    def part(a: int, /, b: int, *args: int, c: float = None, d: NotThere = 1, **rest: int) -> int:  # type: ignore # noqa
        """A constructor with everything."""

    found = signature(part)
    assert list(found.arguments) == ["b", "c", "d"]
    assert [argument.required for argument in found.arguments.values()] == [True, False, False]
    assert found.arguments["c"].hint == float | None
    assert found.open_ended
    assert found.makes is int


def test_inherited_options_are_the_keywords_of_the_constructor_above() -> None:
    class Base:
        def __init__(self, size: int, *, rate: Annotated[float, Range(0, 1)] = 0.5, steps: int) -> None: ...

    class Middle(Base):
        def __init__(self, *, rate: float = 0.1, **options: Inherited) -> None:
            super().__init__(3, rate=rate, **options)

    class Last(Middle):
        def __init__(self, name: str, **options: Inherited) -> None:
            super().__init__(**options)

    assert {name: each.required for name, each in signature(Last).arguments.items()} == {
        "name": True, "rate": False, "steps": True,
    }  # fmt: skip
    assert signature(Last).arguments["rate"].hint is float
    assert not signature(Last).open_ended


def test_what_the_data_gives_may_be_left_open() -> None:
    """Nothing else may; and what is given is checked as ever."""
    inferred = Annotated[Linear, Inferred("in_features")]
    for hint, node, says in [
        (inferred, {"out_features": 2}, None),
        (inferred, {"in_features": 3, "out_features": 2}, None),
        (inferred, {"in_features": "x", "out_features": 2}, "expected a whole number"),
        (inferred, {}, "missing"),
        (Linear, {"out_features": 2}, "missing"),
    ]:
        checker = Checker()
        checker.value({"_target_": "pdl.nn.Linear", **node}, hint, ("model",))
        assert [says in fault.message for fault in checker.faults] == ([] if says is None else [True])


def test_describe() -> None:
    assert describe(Annotated[float, Range(0, below=1)] | None) == "a number >= 0 and < 1 or null"
    assert describe(list[int]) == "a list (each: a whole number)"


def test_wants_tuple() -> None:
    hints = (tuple[int, int], int | tuple[int, int], tuple[int, ...] | None)
    assert [wants_tuple(each) for each in hints] == [True] * 3
    assert not wants_tuple(list[int])
    assert not wants_tuple(int | list[int] | tuple[int, int])
