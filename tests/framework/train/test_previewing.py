"""What is shown of batches of any kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import pdl
from pdl.train.previewing import described


@dataclass
class Node:
    x: Any
    name: str = "n"
    none: None = None


class Pair(NamedTuple):
    left: Any
    right: Any


LONG = np.arange(20)
ROW = "[0, 1, 2, 3, 4, 5, 6, 7, ...]"
CASES = [
    (LONG, ("b", "int64", "[20]", "0 to 19", "0, 1, 2, ...")),
    (np.array([0.5, np.nan], np.float32), ("b", "float32", "[2]", "0.5 to 0.5", "0.5, nan")),
    (np.zeros((0, 3)), ("b", "float64", "[0, 3]", "", "")),
    (np.full(3, np.nan), ("b", "float64", "[3]", "", "nan, nan, nan")),
    (np.eye(2, dtype=bool), ("b", "bool", "[2, 2]", "", "[True, False], [False, True]")),
    (np.stack([LONG] * 9), ("b", "int64", "[9, 20]", "0 to 19", f"{ROW}, {ROW}, {ROW}, ...")),
    (np.array(1 + 2j), ("b", "complex128", "[]", "", "1+2j")),
    (pdl.as_tensor(np.ones(1, np.float32)), ("b", "float32", "[1]", "1 to 1", "1")),
    ({"a": {"c": 1}}, ("b.a.c", "int", "", "", "1")),
    (Node(2.0), ("b.x", "float", "", "", "2"), ("b.name", "str", "", "", "n")),
    (Pair(1, "x"), ("b.left", "int", "", "", "1"), ("b.right", "str", "", "", "x")),
    ([1, 2, 3, 4], ("b", "list", "[4]", "", "1, 2, 3, ...")),
    ([np.ones(1)], ("b", "list", "[1]", "", ""), ("b[0]", "float64", "[1]", "1 to 1", "1")),
    (object(), ("b", "object", "", "", "")),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: type(case[0]).__name__)
def test_described(case: tuple[Any, ...]) -> None:
    batch, *rows = case
    assert list(described(batch, 3, "b")) == rows
