"""Steps for circuits whose measurements are bit strings: a bit string in, its cost and probability out, or the likely
ones and the best of these."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.errors import DataError, UsageError
from pdl.runtime import tables
from pdl.runtime.names import checked_count, checked_name
from pdl.runtime.readers import Reader
from pdl.runtime.steps import POST, PRE, Labelled

PARTS = ("bits", "asked")
LIKELY, BEST = "likely", "best"


class BitString(Reader, table=PRE, name="bit_string"):
    """Bits "0110" (also "0 1 1 0" or "0,1,1,0"), or one of the words "likely" and "best" -> one of its parts:

        part    "011" of 3 qubits    "likely"     "best"
        bits    [0, 1, 1]            [0, 0, 0]    [0, 0, 0]    int64 [num_qubits]
        asked   0                    1            2            int64 []

    DataError for anything else.
    """

    takes = "bitstring"

    def __init__(self, part: str, num_qubits: int) -> None:
        if part not in PARTS:
            raise UsageError(f"part={part!r:.60} must be one of {', '.join(PARTS)}")
        self.part, self.num_qubits = part, checked_count("num_qubits", num_qubits)

    def read(self, item: Any, told: dict[str, Any]) -> Array:
        text = str(item).strip()
        if text in (LIKELY, BEST):
            return np.array(
                (1 + (LIKELY, BEST).index(text)) if self.part == "asked" else [0] * self.num_qubits, np.int64
            )
        plain = text.replace(" ", "").replace(",", "")
        if len(plain) != self.num_qubits or set(plain) - {"0", "1"}:
            raise DataError(
                f"{text[:60]!r} is no bit string of {self.num_qubits} qubits; write {self.num_qubits} of 0 and 1, "
                f"the first for qubit 0, or {LIKELY}, or {BEST}"
            )
        return np.array(0 if self.part == "asked" else [int(bit) for bit in plain], np.int64)

    def rows(self, path: str | Path) -> Iterator[tuple[str, Any]]:
        """The lines of a file, or the column `bitstring` of a table."""
        for name, item in tables.texts(path, self.takes):
            yield name, item.get(self.takes, "") if isinstance(item, Mapping) else item

    def random(self, shape: tuple[int, ...], rng: np.random.Generator, sizes: Mapping[str, int]) -> Array:
        return rng.integers(0, 2 if self.part == "bits" else 3, shape)


class BitStrings(Labelled, table=POST, name="bit_strings"):
    """{"bits", measure, "probability", "ones"} of one row, {"strings": [these of the first k]} of several.

    A row of the value [L, n + 2] has the bits, their probability (below 0: the row is empty) and energy; `measure` is
    what energy scale + shift is called. "ones" are the labels of the bits that are 1.
    """

    def __init__(self, measure: str = "energy", scale: float = 1.0, shift: float = 0.0, k: int = 10) -> None:
        for name, number in (("scale", scale), ("shift", shift)):
            if type(number) not in (int, float) or not math.isfinite(number):
                raise UsageError(f"{name}={number!r:.60} must be a finite number")
        self.measure, self.k = checked_name(measure), checked_count("k", k)
        self.scale, self.shift = float(scale), float(shift)

    def __call__(self, value: Any) -> Any:
        rows = np.asarray(value, np.float64)
        if rows.ndim != 2 or rows.shape[1] < 3:
            raise UsageError(f"bit_strings: expected rows of bits, probability and energy, got {rows.shape}")
        told = [self._told(row) for row in rows[rows[:, -2] >= 0]]
        return told[0] if len(told) == 1 else {"strings": told[: self.k]}

    def _told(self, row: Array) -> dict[str, Any]:
        bits = row[:-2] > 0.5
        return {
            "bits": "".join("1" if bit else "0" for bit in bits),
            self.measure: float(row[-1] * self.scale + self.shift),
            "probability": float(row[-2]),
            "ones": " ".join(self.label(int(q)) for q in np.flatnonzero(bits)),
        }


__all__ = ["BEST", "LIKELY", "PARTS", "BitString", "BitStrings"]
