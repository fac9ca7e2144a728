"""The step for trained circuits: a Pauli word in, or the name of an observable, the numbers of its letters out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.errors import DataError, UsageError
from pdl.runtime import tables
from pdl.runtime.names import checked_count, checked_name
from pdl.runtime.readers import Reader
from pdl.runtime.steps import PRE
from pdl.suites import suggest

PARTS, LETTERS = ("word", "named"), "IXYZ"
_LETTER = re.compile(r"([IXYZ])(\d+)")


class PauliWord(Reader, table=PRE, name="pauli_word"):
    """A product of Pauli matrices, or the name of an observable that the model knows -> one of its parts:

        part    "Z0 X2" on 3 qubits    the name number k, from 1
        word    [3, 0, 1]              [0, 0, 0]                    int64 [num_qubits]; I, X, Y, Z are 0 to 3
        named   0                      k                            int64 []

    A word is written by letters and qubits ("Z0 X2", "Z0X2") or with a letter for each qubit ("ZIX"). DataError for
    anything else.
    """

    takes = "word"

    def __init__(self, part: str, num_qubits: int, names: Sequence[str] = ()) -> None:
        if part not in PARTS:
            raise UsageError(f"part={part!r:.60} must be one of {', '.join(PARTS)}")
        self.part, self.num_qubits = part, checked_count("num_qubits", num_qubits)
        self.names = [checked_name(name) for name in names]

    def read(self, item: Any, told: dict[str, Any]) -> Array:
        """The part for a word, or for a name."""
        text = str(item).strip()
        if text in self.names:
            return np.array(1 + self.names.index(text) if self.part == "named" else [0] * self.num_qubits, np.int64)
        letters = self._letters(text)
        return np.array(0 if self.part == "named" else letters, np.int64)

    def _letters(self, text: str) -> list[int]:
        plain = text.replace(" ", "")
        if len(plain) == self.num_qubits and not set(plain) - set(LETTERS):
            return [LETTERS.index(letter) for letter in plain]
        letters, end = [0] * self.num_qubits, 0
        for found in _LETTER.finditer(plain):
            letter, qubit = found[1], int(found[2])
            if found.start() != end or qubit >= self.num_qubits or letters[qubit]:
                break
            letters[qubit], end = LETTERS.index(letter), found.end()
        if not plain or end != len(plain):
            raise DataError(
                f"{text[:60]!r} is no product of Pauli matrices on {self.num_qubits} qubits, such as "
                f"'X0 Z{self.num_qubits - 1}'{self._others()}{suggest(text, self.names)}"
            )
        return letters

    def _others(self) -> str:
        return f", and not {' or '.join(self.names)}" if self.names else ""

    def rows(self, path: str | Path) -> Iterator[tuple[str, Any]]:
        """The lines of a file, or the column `word` of a table."""
        for name, item in tables.texts(path, self.takes):
            yield name, item.get(self.takes, "") if isinstance(item, Mapping) else item

    def random(self, shape: tuple[int, ...], rng: np.random.Generator, sizes: Mapping[str, int]) -> Array:
        """Letters, or numbers of names."""
        return rng.integers(0, len(LETTERS) if self.part == "word" else len(self.names) + 1, shape)


__all__ = ["PauliWord"]
