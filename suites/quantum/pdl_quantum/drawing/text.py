"""Circuits as text."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from pdl_quantum.circuits.circuit import Circuit
from pdl_quantum.drawing.labels import Labels
from pdl_quantum.drawing.layout import Mark, Symbol, columns, folded

UP, DOWN, LEFT, RIGHT = 1, 2, 4, 8
LINES = " ╵╷│╴┘┐┤╶└┌├─┴┬┼"
"""The line that goes into these directions, by their sum."""
POINTS = {"dot": "●", "ring": "○", "plus": "⊕", "cross": "╳", "write": "╩", "when": "╩"}  # noqa: RUF001
LEAST = 20  # columns of characters, however narrow the terminal


def text(circuit: Circuit, values: Any = None, *, width: int | None = None) -> str:
    """The circuit in box characters, a wire a qubit, folded where it is wider than `width` characters (by default the
    terminal's).

        q0 ┤ H ├──●──
           └───┘  │
        q1 ───────⊕──

    values   numbers to write for the parameters, as `Circuit.row` takes them; without them their names stand there

    Errors: UsageError for values that are not the circuit's, or a batch of them.
    """
    room = max(width or shutil.get_terminal_size((100, 24)).columns, LEAST)
    made = columns(circuit, Labels.of(circuit, values))
    names = [f"q{k} " for k in range(circuit.num_qubits)]
    if circuit.num_bits:
        names.append(f"c/{circuit.num_bits} ")
    margin = max(map(len, names))
    widths = [max((_width(symbol) for mark in column for symbol in mark.symbols), default=1) for column in made]
    blocks = [
        _block(circuit.num_qubits, names, margin, [made[k] for k in part], [widths[k] for k in part])
        for part in folded([w + 1 for w in widths], room - margin - 1)
    ]
    return "\n\n".join(blocks)


def _write(symbol: Symbol) -> str:
    return f"{symbol.title}({symbol.angle})" if symbol.angle else symbol.title


def _width(symbol: Symbol) -> int:
    ports = max((len(str(port)) + 1 for port in symbol.ports), default=0)
    if symbol.form in ("box", "meter"):
        return len(_write(symbol)) + ports + 4
    return len(symbol.title) if symbol.form in ("write", "when") else 1


class _Canvas:
    """Characters of lines, which join where they meet, and of words, which cover them. A wire is every second row."""

    def __init__(self, wires: int, width: int) -> None:
        self.lines = np.zeros((2 * wires + 1, width), np.int64)
        self.words: dict[tuple[int, int], str] = {}

    def across(self, row: int, left: int, right: int) -> None:
        """A line from one place to another of a row."""
        self.lines[row, left:right] |= RIGHT
        self.lines[row, left + 1 : right + 1] |= LEFT

    def down(self, at: int, top: int, bottom: int) -> None:
        """A line from one row to another."""
        self.lines[top:bottom, at] |= DOWN
        self.lines[top + 1 : bottom + 1, at] |= UP

    def write(self, row: int, at: int, word: str) -> None:
        """A word, from a place on."""
        self.words.update({(row, at + k): letter for k, letter in enumerate(word)})

    def rows(self) -> list[str]:
        """All of it."""
        return [
            "".join(self.words.get((row, at)) or LINES[mask] for at, mask in enumerate(line))
            for row, line in enumerate(self.lines)
        ]


def _block(wires: int, names: Sequence[str], margin: int, part: list[list[Mark]], widths: Sequence[int]) -> str:
    canvas = _Canvas(len(names), sum(widths) + len(widths) + (1 if widths else 2))
    for wire in range(wires):
        canvas.lines[2 * wire + 1] = LEFT | RIGHT
    for row in range(2 * wires + 1, 2 * len(names), 2):
        canvas.write(row, 0, "═" * canvas.lines.shape[1])
    at = 1
    for marks, width in zip(part, widths, strict=True):
        for mark in marks:
            if mark.family != "barrier":
                canvas.down(at + width // 2, 2 * mark.low + 1, 2 * mark.high + 1)
            for symbol in mark.symbols:
                _draw(canvas, symbol, at, width)
            _join(canvas, mark, at, width)
        at += width + 1
    lines = canvas.rows()
    for row, line in enumerate(lines):
        lines[row] = ((names[row // 2] if row % 2 else "").ljust(margin) + line).rstrip()
    return "\n".join(line for line in lines if line)


def _draw(canvas: _Canvas, symbol: Symbol, at: int, width: int) -> None:
    middle = at + width // 2
    if symbol.form == "barrier":
        for row in range(3):
            canvas.write(2 * symbol.wire + row, middle, "░")
        return
    if symbol.form not in ("box", "meter"):
        canvas.write(2 * symbol.wire + 1, middle, POINTS[symbol.form])
        if symbol.form in ("write", "when"):
            canvas.write(2 * symbol.wire + 2, middle - len(symbol.title) // 2, symbol.title)
        return
    top, bottom, right = 2 * symbol.wire, 2 * symbol.end + 2, at + width - 1
    for row in range(top + 1, bottom):  # what is inside is covered
        canvas.write(row, at + 1, " " * (width - 2))
    for row in (top, bottom):
        canvas.across(row, at, right)
    canvas.lines[top + 1 : bottom, at] &= ~RIGHT
    canvas.lines[top + 1 : bottom, right] &= ~LEFT
    canvas.lines[top, at + 1 : right] &= ~DOWN
    canvas.lines[bottom, at + 1 : right] &= ~UP
    for edge in (at, right):
        canvas.down(edge, top, bottom)
    for place, port in enumerate(symbol.ports):
        canvas.write(top + 1 + 2 * place, at + 1, str(port))
    word = _write(symbol)
    side = max((len(str(port)) + 1 for port in symbol.ports), default=0)
    canvas.write((top + bottom) // 2, at + 1 + side + (width - 2 - side - len(word)) // 2, word)


def _join(canvas: _Canvas, mark: Mark, at: int, width: int) -> None:
    """Boxes of one gate on neighbouring wires become one box, with a line between their labels."""
    boxes = sorted((s for s in mark.symbols if s.form == "box"), key=lambda s: s.wire)
    for upper, lower in pairwise(boxes):
        if lower.wire == upper.end + 1:
            row, right = 2 * lower.wire, at + width - 1
            canvas.lines[row, at + 1 : right] = 0
            canvas.lines[row, at] &= ~RIGHT
            canvas.lines[row, right] &= ~LEFT
            canvas.write(row, at + width // 2, LINES[UP | DOWN])
