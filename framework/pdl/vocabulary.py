"""Names by number: items of a shop, users, words. Data gives names, nets take numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from pdl.errors import DataError, UsageError


class Vocabulary(Sequence[str]):
    """Names, each once; name i has the number i + 1, and 0 is whatever is not among them (or padding).

    A table of vectors for it has `len(vocabulary) + 1` rows: row 0, and those of the names. As text (`text`, `read`) it
    is one name a line, the backslash and line ends written as in Python.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.names = list(names)
        if len(self._numbers) < len(self.names):
            twice = next(name for i, name in enumerate(self.names) if self._numbers[name] != i + 1)
            raise UsageError(f"a vocabulary holds each name once; {twice!r} is there twice")

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: i + 1 for i, name in enumerate(self.names)}

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __getitem__(self, index: Any) -> Any:
        return self.names[index]

    def __contains__(self, name: object) -> bool:
        return name in self._numbers

    def encode(self, names: Iterable[str]) -> np.ndarray:
        """Names to numbers: int64, one for each; 0 for the unknown."""
        find = self._numbers.get
        return np.array([find(name, 0) for name in names], np.int64)

    def decode(self, number: int) -> str:
        """The name of a number from 1 on."""
        if not 1 <= number <= len(self.names):
            raise UsageError(f"number {number} has no name; they run from 1 to {len(self.names)}")
        return self.names[number - 1]

    def text(self) -> str:
        """One name a line."""
        return "".join(_escaped(name) + "\n" for name in self.names)

    @classmethod
    def read(cls, text: str, source: str) -> Vocabulary:
        """From `text`; DataError for what it never writes."""
        lines = text.split("\n")
        if lines.pop() != "":
            raise DataError(f"{source}: the last line is cut off")
        try:
            return cls(_unescaped(line) if "\\" in line else line for line in lines)
        except (UsageError, ValueError) as error:
            raise DataError(f"{source}: {error}") from error


_WRITTEN = {"\\": "\\\\", "\n": "\\n", "\r": "\\r"}
_READ = {"\\": "\\", "n": "\n", "r": "\r"}


def _escaped(name: str) -> str:
    for plain, written in _WRITTEN.items():
        name = name.replace(plain, written)
    return name


def _unescaped(line: str) -> str:
    parts = iter(line)
    found = []
    for character in parts:
        if character == "\\":
            after = next(parts, "")
            if after not in _READ or not after:
                raise ValueError(f"a backslash before {after!r} in {line!r}")
            character = _READ[after]
        found.append(character)
    return "".join(found)


__all__ = ["Vocabulary"]
