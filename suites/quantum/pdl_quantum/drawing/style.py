"""Colours and fonts of drawn circuits, for light and dark pages."""

from __future__ import annotations

import re
from html import escape

# family: fill and edge on a light page, fill and edge on a dark one
PALETTE = {
    "hadamard": ("#fdeccb", "#c8862a", "#43331a", "#e3ad5c"),
    "pauli": ("#dbe8fc", "#3a6fc4", "#1d3252", "#7fabf0"),
    "phase": ("#d3f0ea", "#1c8c7e", "#143b36", "#5cc7b7"),
    "rotation": ("#e6e0fa", "#7455c0", "#31284f", "#ab93ee"),
    "word": ("#fbdde8", "#bd4374", "#4a2234", "#ee8db2"),
    "swap": ("#dff1d8", "#4b9136", "#22391b", "#90cf7b"),
    "matrix": ("#e9edf2", "#64748b", "#2a323d", "#9aa9bd"),
    "readout": ("#f3f4f6", "#4b5563", "#262c35", "#b6c0cd"),
    "noise": ("#fdeeea", "#cf5a3c", "#40221b", "#ee8a70"),
    "barrier": ("#ffffff", "#7d8796", "#14181f", "#8490a1"),
}
INK = {
    "paper": ("#ffffff", "#14181f"), "ink": ("#1d2430", "#e8ecf2"), "soft": ("#66707f", "#9aa4b4"),
    "wire": ("#a3adba", "#5a6676"),
}  # fmt: skip
TITLE, SMALL, SUB = 13.0, 10.5, 8.5
"""Heights of letters: of a gate's name, of its angle, of indices and ports."""
FONT = "Inter,system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif"
_INDEX = re.compile(r"\[([\d,]+)\]|(?<=^R)([XYZ])$")


def sheet(scope: str) -> str:
    """The style sheet of drawings inside `scope`."""
    light = {name: pair[0] for name, pair in INK.items()}
    dark = {name: pair[1] for name, pair in INK.items()}
    for name, (fill, edge, dark_fill, dark_edge) in PALETTE.items():
        light |= {f"{name}-fill": fill, name: edge}
        dark |= {f"{name}-fill": dark_fill, name: dark_edge}
    families = "".join(f"{scope} .{name}{{--fill:var(--{name}-fill);--edge:var(--{name})}}" for name in PALETTE)
    return (
        f"{scope}{{{_variables(light)}}}@media(prefers-color-scheme:dark){{{scope}{{{_variables(dark)}}}}}{families}"
        f"{scope} text{{font:600 {TITLE}px {FONT};fill:var(--ink);text-anchor:middle}}"
        f"{scope} text.angle{{font-weight:400;font-size:{SMALL}px}}{scope} text.sub,{scope} .sub{{font-size:{SUB}px}}"
        f"{scope} text.port{{font-weight:400;font-size:{SUB}px;fill:var(--soft)}}"
        f"{scope} text.name{{font-weight:500;fill:var(--soft);text-anchor:end}}"
        f"{scope} .paper{{fill:var(--paper)}}{scope} .wire{{stroke:var(--wire);stroke-width:1.2}}"
        f"{scope} .on{{stroke-dasharray:2 3}}{scope} .box{{fill:var(--fill);stroke:var(--edge);stroke-width:1.2}}"
        f"{scope} .join{{stroke:var(--edge);stroke-width:1.8}}{scope} .dot{{fill:var(--edge)}}"
        f"{scope} .ring{{fill:var(--paper);stroke:var(--edge);stroke-width:1.8}}"
        f"{scope} .cross{{stroke:var(--edge);stroke-width:2.2;stroke-linecap:round}}"
        f"{scope} .meter{{fill:none;stroke:var(--edge);stroke-width:1.5;stroke-linecap:round}}"
        f"{scope} .noise .box{{stroke-dasharray:3.5 2.5}}"
        f"{scope} line.barrier{{stroke:var(--barrier);stroke-width:2;stroke-dasharray:4 4}}"
        f"{scope} .readout .join{{stroke-width:1.4}}"
        f"{scope} .plus{{stroke:var(--paper);stroke-width:2;stroke-linecap:round}}"
    )


def _variables(colours: dict[str, str]) -> str:
    return ";".join(f"--{name}:{colour}" for name, colour in colours.items())


def rich(text: str) -> str:
    """A label with its indices below the line: "θ[0,1]/2", "RX"."""
    parts, at, low = [], 0, False
    for found in _INDEX.finditer(text):
        parts.append(_piece(text[at : found.start()], low))
        parts.append(f'<tspan class="sub" dy="3">{escape(found[1] or found[2])}</tspan>')
        at, low = found.end(), True
    return "".join([*parts, _piece(text[at:], low)])


def _piece(text: str, low: bool) -> str:
    return f'<tspan dy="-3">{escape(text)}</tspan>' if low and text else escape(text)


def width(text: str, size: float) -> float:
    """About how wide a label is, in pixels."""
    wide, at = 0.0, 0
    for found in _INDEX.finditer(text):
        wide += _plain(text[at : found.start()]) * size + _plain(found[1] or found[2]) * SUB
        at = found.end()
    return wide + _plain(text[at:]) * size


def _plain(text: str) -> float:
    """In heights of a letter: of the widest of the fonts named, so that labels fit their boxes."""
    narrow, broad = " .,:;'|()[]/ijlft-", "mwMW√"
    return sum(0.36 if c in narrow else 0.88 if c in broad else 0.72 if c.isupper() else 0.63 for c in text)
