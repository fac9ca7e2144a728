"""Steps for circuits whose measurements are bit strings: a bit string in, its cost and probability out, or the likely
ones and the best of these."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.errors import DataError, UsageError
from pdl.runtime import tables
from pdl.runtime.steps import Drawing, Input, InputStep, Labelled, Ranking, Sample
from pdl.runtime.steps.arguments import are, check, count, number, one_of, text
from pdl_quantum.steps.cuts import cut

PARTS = ("bits", "selector")
LIKELY, BEST = "likely", "best"


class BitStringInput(InputStep):
    """Bits "0110" (also "0 1 1 0" or "0,1,1,0"), or one of the words "likely" and "best" -> one of its parts:

        part      "011" of 3 qubits    "likely"     "best"
        bits      [0, 1, 1]            [0, 0, 0]    [0, 0, 0]    int64 [num_qubits]
        selector  0                    1            2            int64 []

    DataError for anything else.
    """

    name = "bit_string"
    takes, metavar = "bitstring", "0110"

    def __init__(self, part: str, num_qubits: int) -> None:
        self.part, self.num_qubits = one_of("part", part, PARTS), count("num_qubits", num_qubits)
        self.about = f"{self.num_qubits} of 0 and 1, or {LIKELY}, or {BEST}"

    def parse(self, item: Any, sample: Sample) -> Array:
        given = str(item).strip()
        if given in (LIKELY, BEST):
            selector = 1 + (LIKELY, BEST).index(given)
            return np.array(selector if self.part == "selector" else [0] * self.num_qubits, np.int64)
        plain = given.replace(" ", "").replace(",", "")
        if len(plain) != self.num_qubits or set(plain) - {"0", "1"}:
            raise DataError(
                f"{given[:60]!r} is no bit string of {self.num_qubits} qubits; write {self.num_qubits} of 0 and 1, "
                f"the first for qubit 0, or {LIKELY}, or {BEST}"
            )
        return np.array(0 if self.part == "selector" else [int(bit) for bit in plain], np.int64)

    def file(self, path: str | Path) -> Iterator[Input]:
        """The lines of a file, or the column `bitstring` of a table."""
        for name, item in tables.text_lines(path, self.takes):
            yield Input(name, item.get(self.takes, "") if isinstance(item, Mapping) else item)

    def random(self, shape: tuple[int, ...], rng: np.random.Generator, sizes: Mapping[str, int]) -> Array:
        return rng.integers(0, 2 if self.part == "bits" else 3, shape)


class BitStrings(Labelled, Ranking):
    """{"bits", measure, "probability", "ones"} of one row, {"strings": [these of the first k]} of several.

    A row of the value [L, n + 2] has the bits, their probability (below 0: the row is empty) and energy; `measure` is
    what energy scale + shift is called. "ones" are the labels of the bits that are 1. With `edges`, [[a, b, weight],
    ...] between bits, an answer is drawn as the cut of that graph.
    """

    name = "bit_strings"

    def __init__(
        self,
        measure: str = "energy",
        scale: float = 1.0,
        shift: float = 0.0,
        k: int = 10,
        edges: Sequence[Sequence[float]] = (),
    ) -> None:
        self.measure, self.k = text("measure", measure), count("k", k)
        self.scale, self.shift = number("scale", scale), number("shift", shift)
        good = isinstance(edges, list | tuple) and all(are(edge, (int, float), 3) for edge in edges)
        check(good, f"edges={edges!r:.60} must be a list of [a, b, weight]")
        self.edges = [(int(a), int(b), float(weight)) for a, b, weight in edges]

    def __call__(self, value: Any, sample: Sample) -> Any:
        rows = np.asarray(value, np.float64)
        if rows.ndim != 2 or rows.shape[1] < 3:
            raise UsageError(f"bit_strings: expected rows of bits, probability and energy, got {rows.shape}")
        found = [self._described(row) for row in rows[rows[:, -2] >= 0]]
        return found[0] if len(found) == 1 else {"strings": found[: self.k]}

    def _described(self, row: Array) -> dict[str, Any]:
        bits = row[:-2] > 0.5
        return {
            "bits": "".join("1" if bit else "0" for bit in bits),
            self.measure: float(row[-1] * self.scale + self.shift),
            "probability": float(row[-2]),
            "ones": " ".join(self.label(int(q)) for q in np.flatnonzero(bits)),
        }

    def rows(self, answer: Any) -> list[dict[str, Any]]:
        return list(answer.get("strings", [answer]))

    def agrees(self, ours: Any, theirs: Any, tolerance: float, sample: Sample) -> bool:
        return super().agrees(ours, theirs, tolerance * max(1.0, abs(self.scale)), sample)

    def draw(self, item: Any, answer: Any, source: InputStep) -> Drawing:
        """The graph with the cut of a bit string, or of the first of several; of a run of Max-Cut."""
        if not self.edges:
            raise UsageError("this model's cost is that of no graph, so there is nothing to draw; leave out --save")
        first = self.rows(answer)[0]
        names = [self.label(q) for q in range(len(first["bits"]))]
        return Drawing(svg=cut(names, self.edges, [int(bit) for bit in first["bits"]]))
