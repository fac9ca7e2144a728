"""The symbols of gates as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from pdl.circuits.drawing.layout import Mark, Symbol
from pdl_quantum.drawing.style import SMALL, TITLE, rich, width

PITCH, BOX, LEAST, GAP = 47.0, 35.0, 36.0, 15.0
"""Between wires; a box' height and least width; between columns."""
DOT, PLUS, CROSS, PORT = 4.6, 10.5, 5.5, 11.0


def widths(marks: Sequence[Mark]) -> dict[str, float]:
    """How wide the boxes of each family are in a column."""
    found: dict[str, float] = {}
    for mark in marks:
        for symbol in mark.symbols:
            own = max(LEAST, width(symbol.title, TITLE) + 16, width(symbol.angle, SMALL) + 12)
            own += 2 * PORT if symbol.ports else 0
            found[mark.family] = max(found.get(mark.family, 2 * PLUS), own if symbol.form == "box" else 0)
    return found


def draw(mark: Mark, x: float, top: float, wide: float) -> str:
    """A gate whose middle is at x, the first wire at `top`."""
    places = [top + s.wire * PITCH for s in mark.symbols]
    first, last = top + mark.low * PITCH, top + mark.high * PITCH
    join = f'<line class="join" x1="{x:.1f}" y1="{first:.1f}" x2="{x:.1f}" y2="{last:.1f}"/>' if last > first else ""
    shapes = "".join(_symbol(s, x, y, wide) for s, y in zip(mark.symbols, places, strict=True))
    return f'<g class="{mark.family}"><title>{escape(told(mark))}</title>{join}{shapes}</g>'


def told(mark: Mark) -> str:
    """A gate in words: "ry(θ[0,1]) on q2"."""
    gate = mark.gate
    angle = next((s.angle for s in mark.symbols if s.angle), "")
    name = f"{gate.kind} {gate.about}" if gate.kind == "pauli" else gate.kind
    made = name + (f"({angle})" if angle else "") + " on " + ", ".join(f"q{q}" for q in gate.qubits)
    if gate.controls:
        where = ", ".join(f"q{q} is {v}" for q, v in zip(gate.controls, gate.values, strict=True))
        made += f" where {where}"
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
    return _box(symbol, x, y, wide)


def _box(symbol: Symbol, x: float, y: float, wide: float) -> str:
    height = BOX + (symbol.end - symbol.wire) * PITCH
    top, middle = y - BOX / 2, y - BOX / 2 + height / 2
    made = (
        f'<rect class="box" x="{x - wide / 2:.1f}" y="{top:.1f}" width="{wide:.1f}" height="{height:.1f}" rx="5"/>'
        f'<text x="{x:.1f}" y="{middle + (-1.5 if symbol.angle else 4.7):.1f}">{rich(symbol.title)}</text>'
    )
    if symbol.angle:
        made += f'<text class="angle" x="{x:.1f}" y="{middle + 11.5:.1f}">{rich(symbol.angle)}</text>'
    for place, port in enumerate(symbol.ports):
        at = y + place * PITCH + 3
        made += f'<text class="port" x="{x - wide / 2 + 8:.1f}" y="{at:.1f}">{port}</text>'
    return made


__all__ = ["BOX", "GAP", "PITCH", "draw", "told", "widths"]
