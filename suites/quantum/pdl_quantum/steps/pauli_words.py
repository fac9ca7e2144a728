"""The input step for trained circuits: a Pauli word, or the name of an observable, in; its letters by number out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.errors import DataError
from pdl.runtime import tables
from pdl.runtime.steps import Input, InputStep, Sample
from pdl.runtime.steps.arguments import count, one_of, texts
from pdl.suites import suggest

PARTS, LETTERS = ("word", "named"), "IXYZ"
_LETTER = re.compile(r"([IXYZ])(\d+)")


class PauliWordInput(InputStep):
    """A product of Pauli matrices, or the name of an observable that the model knows -> one of its parts:

        part    "Z0 X2" on 3 qubits    the name number k, from 1
        word    [3, 0, 1]              [0, 0, 0]                    int64 [num_qubits]; I, X, Y, Z are 0 to 3
        named   0                      k                            int64 []

    A word is written by letters and qubits ("Z0 X2", "Z0X2") or with a letter for each qubit ("ZIX"). DataError for
    anything else.
    """

    name = "pauli_word"
    takes, metavar = "word", '"Z0 X2"'

    def __init__(self, part: str, num_qubits: int, names: Sequence[str] = ()) -> None:
        self.part, self.num_qubits = one_of("part", part, PARTS), count("num_qubits", num_qubits)
        self.names = texts("names", names)
        others = f', or {", ".join(self.names)}' if self.names else ""
        self.about = f"a product of Pauli matrices on {self.num_qubits} qubits{others}"

    def parse(self, item: Any, sample: Sample) -> Array:
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

    def file(self, path: str | Path) -> Iterator[Input]:
        """The lines of a file, or the column `word` of a table."""
        for name, item in tables.text_lines(path, self.takes):
            yield Input(name, item.get(self.takes, "") if isinstance(item, Mapping) else item)

    def random(self, shape: tuple[int, ...], rng: np.random.Generator, sizes: Mapping[str, int]) -> Array:
        """Letters, or numbers of names."""
        return rng.integers(0, len(LETTERS) if self.part == "word" else len(self.names) + 1, shape)
