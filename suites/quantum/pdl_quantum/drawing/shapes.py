"""The symbols of gates as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from pdl_quantum.drawing.layout import Mark, Symbol
from pdl_quantum.drawing.style import SMALL, SUB, TITLE, rich, width

PITCH, BOX, LEAST, GAP = 47.0, 35.0, 36.0, 15.0
"""Between wires; a box' height and least width; between columns."""
DOT, PLUS, CROSS, PORT = 4.6, 10.5, 5.5, 11.0


def widths(marks: Sequence[Mark]) -> dict[str, float]:
    """How wide the boxes of each family are in a column."""
    found: dict[str, float] = {}
    for mark in marks:
        for symbol in mark.symbols:
            found[mark.family] = max(found.get(mark.family, 0), _wide(symbol))
    return found


def _wide(symbol: Symbol) -> float:
    if symbol.form in ("write", "when"):
        return width(symbol.title, SUB) + 2
    if symbol.form not in ("box", "meter"):
        return 0 if symbol.form == "barrier" else 2 * PLUS
    name = width(symbol.title, TITLE) if symbol.form == "box" else 0
    return max(LEAST, name + 16, width(symbol.angle, SMALL) + 12) + (2 * PORT if symbol.ports else 0)


def draw(mark: Mark, x: float, top: float, wide: float) -> str:
    """A gate whose middle is at x, the first wire at `top`."""
    places = [top + s.wire * PITCH for s in mark.symbols]
    solid = [s.end for s in mark.symbols if s.form != "when"]
    first, last, end = (top + wire * PITCH for wire in (mark.low, max(solid), mark.high))
    join = ""
    if mark.family != "barrier":
        join = _line("join", x, first, last) + _line("join on", x, last, end)  # dashed to the bits of a condition
    shapes = "".join(_symbol(s, x, y, wide) for s, y in zip(mark.symbols, places, strict=True))
    return f'<g class="{mark.family}"><title>{escape(gate_text(mark))}</title>{join}{shapes}</g>'


def _line(kind: str, x: float, top: float, bottom: float) -> str:
    return f'<line class="{kind}" x1="{x:.1f}" y1="{top:.1f}" x2="{x:.1f}" y2="{bottom:.1f}"/>' if bottom > top else ""


def gate_text(mark: Mark) -> str:
    """A gate in words: "ry(θ[0,1]) on q2"."""
    gate = mark.gate
    angle = next((s.angle for s in mark.symbols if s.angle), "")
    name = f"{gate.kind} {gate.about}" if gate.kind == "pauli" else gate.kind
    name = gate.about.name if gate.kind == "channel" else name
    made = name + (f"({angle})" if angle else "") + " on " + ", ".join(f"q{q}" for q in gate.qubits)
    if gate.controls:
        where = ", ".join(f"q{q} is {v}" for q, v in zip(gate.controls, gate.values, strict=True))
        made += f" where {where}"
    if gate.bits:
        made += " into " + ", ".join(f"c{bit}" for bit in gate.bits)
    if gate.condition:
        made += " if " + ", ".join(f"c{bit} is {value}" for bit, value in gate.condition)
    return made


def _symbol(symbol: Symbol, x: float, y: float, wide: float) -> str:
    if symbol.form in ("dot", "ring"):
        return f'<circle class="{symbol.form}" cx="{x:.1f}" cy="{y:.1f}" r="{DOT}"/>'
    if symbol.form == "plus":
        arm = PLUS - 4
        return (
            f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="{PLUS}"/><path class="plus" '
            f'd="M{x - arm:.1f} {y:.1f}h{2 * arm}M{x:.1f} {y - arm:.1f}v{2 * arm}"/>'
        )
    if symbol.form == "cross":
        a = CROSS
        return f'<path class="cross" d="M{x - a:.1f} {y - a:.1f}l{2 * a} {2 * a}m{-2 * a} 0l{2 * a} {-2 * a}"/>'
    if symbol.form == "barrier":
        return _line("barrier", x, y - PITCH / 2, y + PITCH / 2)
    if symbol.form in ("write", "when"):
        end = f'<path class="dot" d="M{x - 4.5:.1f} {y - 8:.1f}h9l-4.5 7z"/>'
        made = end if symbol.form == "write" else f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="{DOT}"/>'
        return made + f'<text class="port" x="{x:.1f}" y="{y + 15:.1f}">{escape(symbol.title)}</text>'
    return _box(symbol, x, y, wide)


def _meter(x: float, y: float) -> str:
    """An arc and a needle."""
    return (
        f'<path class="meter" d="M{x - 9:.1f} {y + 5:.1f}a9 9 0 0 1 18 0M{x:.1f} {y + 5:.1f}l6.5 -10.5"/>'
        f'<circle class="dot" cx="{x:.1f}" cy="{y + 5:.1f}" r="1.4"/>'
    )


def _box(symbol: Symbol, x: float, y: float, wide: float) -> str:
    height = BOX + (symbol.end - symbol.wire) * PITCH
    top, middle = y - BOX / 2, y - BOX / 2 + height / 2
    made = f'<rect class="box" x="{x - wide / 2:.1f}" y="{top:.1f}" width="{wide:.1f}" height="{height:.1f}" rx="5"/>'
    if symbol.form == "meter":
        made += _meter(x, middle - (6 if symbol.angle else -0.5))
    else:
        made += f'<text x="{x:.1f}" y="{middle + (-1.5 if symbol.angle else 4.7):.1f}">{rich(symbol.title)}</text>'
    if symbol.angle:
        made += f'<text class="angle" x="{x:.1f}" y="{middle + 11.5:.1f}">{rich(symbol.angle)}</text>'
    for place, port in enumerate(symbol.ports):
        at = y + place * PITCH + 3
        made += f'<text class="port" x="{x - wide / 2 + 8:.1f}" y="{at:.1f}">{port}</text>'
    return made
