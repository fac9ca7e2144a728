"""Circuits as SVG."""

from __future__ import annotations

from typing import Any

from pdl_quantum.circuits import Circuit
from pdl_quantum.drawing.labels import Labels
from pdl_quantum.drawing.layout import Mark, columns, folded
from pdl_quantum.drawing.shapes import BOX, GAP, PITCH, draw, widths
from pdl_quantum.drawing.style import TITLE, rich, sheet, width

SCOPE, MARGIN, TAIL = "pdl-circuit", 16.0, 14.0
BETWEEN = 30.0
"""Between rows of a folded circuit."""


def svg(circuit: Circuit, values: Any = None, *, width: float = 960) -> str:
    """The circuit as an SVG: a wire a qubit, gates in columns, coloured by what they do, in rows of at most `width`
    pixels. It needs nothing else, follows the page into its dark form, and tells each gate in words where a pointer
    rests on it.

    values   numbers to write for the parameters, as `Circuit.row` takes them; without them their names stand there

    Errors: UsageError for values that are not the circuit's, or a batch of them.
    """
    made = columns(circuit, Labels.of(circuit, values))
    return _Picture(circuit, made, width).write()


class _Picture:
    """Columns of marks, and what they need of the page."""

    def __init__(self, circuit: Circuit, made: list[list[Mark]], room: float) -> None:
        self.wires, self.bits, self.columns = circuit.num_qubits, circuit.num_bits, made
        self.boxes = [widths(column) for column in made]
        self.widths = [max(each.values()) + GAP for each in self.boxes]
        self.left = MARGIN + max(width(f"q[{self.wires - 1}]", TITLE), width(self.register, TITLE)) + 10
        free = room - self.left - TAIL - MARGIN
        self.rows = list(folded(self.widths, free))
        self.height = (self.wires - 1) * PITCH + BOX + (PITCH if self.bits else 0)

    @property
    def register(self) -> str:
        """The classical bits' name and number."""
        return f"c/{self.bits}" if self.bits else ""

    def write(self) -> str:
        """The SVG."""
        ends = [self.left + GAP / 2 + sum(self.widths[k] for k in row) + TAIL for row in self.rows]
        wide, high = max(ends) + MARGIN, len(self.rows) * (self.height + BETWEEN) - BETWEEN + 2 * MARGIN
        rows = [self._row(row, place, end) for place, (row, end) in enumerate(zip(self.rows, ends, strict=True))]
        return (
            f'<svg class="{SCOPE}" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:.0f} {high:.0f}" '
            f'width="{wide:.0f}" height="{high:.0f}" style="max-width:100%;height:auto" role="img">'
            f"<title>A circuit of {self.wires} qubits</title><style>{sheet('.' + SCOPE)}</style>"
            f'<rect class="paper" width="100%" height="100%" rx="8"/>{"".join(rows)}</svg>\n'
        )

    def _row(self, row: range, place: int, end: float) -> str:
        top = MARGIN + BOX / 2 + place * (self.height + BETWEEN)
        parts = [self._wire(wire, top, end, place) for wire in range(self.wires + (self.bits > 0))]
        x = self.left + GAP / 2
        for k in row:
            middle = x + self.widths[k] / 2
            parts += [draw(mark, middle, top, self.boxes[k][mark.family]) for mark in self.columns[k]]
            x += self.widths[k]
        return "".join(parts)

    def _wire(self, wire: int, top: float, end: float, place: int) -> str:
        y, start = top + wire * PITCH, self.left
        name = self.register if wire == self.wires else f"q[{wire}]"
        made = f'<text class="name" x="{start - 8:.1f}" y="{y + 4.5:.1f}">{rich(name)}</text>'
        for line in (y - 1.3, y + 1.3) if wire == self.wires else (y,):
            on, off = TAIL * (place > 0), TAIL * (place < len(self.rows) - 1)
            made += _line("wire", start + on, end - off, line)
            made += _line("wire on", start, start + on, line) if on else ""
            made += _line("wire on", end - off, end, line) if off else ""
        return made


def _line(kind: str, a: float, b: float, y: float) -> str:
    return f'<line class="{kind}" x1="{a:.1f}" y1="{y:.1f}" x2="{b:.1f}" y2="{y:.1f}"/>'
