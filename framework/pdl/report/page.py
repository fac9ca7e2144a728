"""The parts of a page: tables, heat maps, images, and the document around them."""

from __future__ import annotations

import base64
import hashlib
import struct
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from typing import Any, TypeAlias

import numpy as np

from pdl.dtype import Array

Image: TypeAlias = "Array | str"  # uint8 [H, W, 1 or 3], or HTML such as an SVG
Cell: TypeAlias = "tuple[Image, str] | str | None"  # an image and its caption, a text, nothing

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --good: light-dark(#1d7a45, #5ec98d);
--bad: light-dark(#b03a2e, #f0897d); }
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 76rem; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin: 0 0 .6rem; } h2 { font-size: 1.15rem; margin: 2.2rem 0 .6rem;
border-bottom: 1px solid var(--line); }
table { border-collapse: collapse; margin: .6rem 0; } td, th { padding: .18rem .6rem; text-align: left;
vertical-align: top; overflow-wrap: break-word; } tr:nth-child(even) td { background: var(--soft); }
td.n, th.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
section, .beside { min-width: 0; overflow-x: auto; }
.beside, .charts, .grid { display: flex; flex-wrap: wrap; gap: 1rem; } .beside { gap: 0 1.5rem; }
.beside > section { flex: none; max-width: 100%; }
.charts svg { width: 32rem; max-width: 100%; } svg.chart, .charts svg.chart { width: 23rem;
max-width: 100%; }
svg text { font-size: 11px; fill: currentColor; } svg .grid { stroke: var(--line); }
svg .at:hover > g { visibility: visible; } svg .at > g { pointer-events: none; }
svg .box { fill: Canvas; stroke: #888; rx: 3px; }
figure { margin: 0; text-align: center; font-size: .8rem; width: 9rem; }
figure.wide { width: auto; max-width: 100%; } figure.wide > figcaption { max-width: 32rem; margin: auto; }
figure.wide > svg.chart + figcaption { max-width: 23rem; }
figure img { width: 8rem; height: 8rem; object-fit: contain; image-rendering: pixelated; background: var(--soft); }
table.images td { padding: .15rem; background: none; } table.images td + td { border-left: 1px solid var(--line); }
table.images figure { width: 7rem; overflow-wrap: anywhere; } table.images img { width: 6.6rem; height: 6.6rem; }
table.images figure.wide { width: auto; } table.images svg { max-width: 9rem; }
table.images .said { padding: .3rem .6rem; }
table.heat td, table.heat th { padding: .1rem .3rem; font-size: .75rem; }
.scroll { overflow-x: auto; } summary { cursor: pointer; }
pre { background: var(--soft); padding: .8rem; overflow-x: auto; font-size: .85rem; margin: .6rem 0; }
.head { display: grid; gap: 1rem 3rem; margin-bottom: .6rem; }
@media (min-width: 50rem) { .head { grid-template-columns: minmax(15rem, 2fr) 5fr; align-items: start; } }
.head .score b { display: block; font-size: 2.8rem; line-height: 1.1; font-variant-numeric: tabular-nums; }
.good { color: var(--good); } .bad { color: var(--bad); } .head .score p { margin: .2rem 0; }
dl { display: grid; grid-template-columns: max-content auto; gap: .1rem 1rem; margin: 0; } dd { margin: 0;
overflow-wrap: anywhere; } dt { opacity: .7; }
.command { display: flex; gap: .6rem; align-items: center; }
.command pre { flex: 0 1 auto; min-width: 0; margin: .3rem 0; }
"""
# Adds a button to every command, which needs a script; without one the command is text, as it is with one.
_SCRIPT = """
for (const place of document.querySelectorAll(".command")) {
  const button = document.createElement("button"), text = place.querySelector("code");
  button.textContent = "copy";
  button.onclick = async () => {
    getSelection().selectAllChildren(text);
    try { await navigator.clipboard.writeText(text.textContent); button.textContent = "copied"; }
    catch { button.textContent = document.execCommand("copy") ? "copied" : "selected"; }
  };
  place.append(button);
}
"""
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; media-src data:; base-uri 'none'; form-action 'none'"
)


@dataclass(frozen=True)
class Section:
    """A heading and the HTML below it (text from outside goes through `escape` first). Sections that are `narrow` stand
    beside each other where they follow each other and the page is wide enough."""

    title: str
    html: str
    narrow: bool = False


def document(title: str, sections: Iterable[Section], *, lead: str = "") -> str:
    """A whole page that needs nothing else: a policy in it forbids the browser to load anything and to run scripts, but
    for the one that copies commands, where there are some. `lead`: HTML between the title and the first section."""
    body = lead
    for narrow, group in groupby(sections, key=lambda each: each.narrow):
        made = "".join(f"<section><h2>{escape(s.title)}</h2>{s.html}</section>\n" for s in group)
        body += f'<div class="beside">{made}</div>\n' if narrow else made
    policy, script = _POLICY, ""
    if '<div class="command">' in body:
        digest = base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()
        policy, script = f"{_POLICY}; script-src 'sha256-{digest}'", f"<script>{_SCRIPT}</script>"
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n"
        f"<body><h1>{escape(title)}</h1>\n{body}{script}</body></html>\n"
    )


def table(rows: Iterable[Sequence[Any]], *, head: Sequence[str] = (), fold: int | None = None) -> str:
    """Rows of values; floats by `number`, numbers to the right. Of more than `fold` rows (and two)
    those after the first `fold` are shown on request."""
    rows = list(rows)
    if fold is not None and len(rows) > fold + 2:
        return table(rows[:fold], head=head) + folded(f"{len(rows) - fold} more", table(rows[fold:], head=head))
    numbers = {k for row in rows for k, value in enumerate(row) if isinstance(value, int | float)}
    cells = (f'<th class="n">{escape(name)}</th>' if k in numbers else f"<th>{escape(name)}</th>"
             for k, name in enumerate(head))  # fmt: skip
    top = f"<tr>{''.join(cells)}</tr>" if head else ""
    return f"<table>{top}" + "".join("<tr>" + "".join(map(_cell, row)) + "</tr>" for row in rows) + "</table>"


def folded(summary: str, html: str) -> str:
    """What is shown on request."""
    return f"<details><summary>{escape(summary)}</summary>{html}</details>"


def charts(figures: Sequence[str], *, fold: int | None = None) -> str:
    """Figures side by side; those after the first `fold` are shown on request."""
    if fold is not None and len(figures) > fold + 1:
        return charts(figures[:fold]) + folded(f"{len(figures) - fold} more", charts(figures[fold:]))
    return f'<div class="charts">{"".join(figures)}</div>'


def figure(chart: str, caption: str) -> str:
    """A chart (HTML) with text below it, one of `charts`."""
    return f'<figure class="wide">{chart}<figcaption>{escape(caption)}</figcaption></figure>'


def command(text: str) -> str:
    """A command to type, with a button that copies it."""
    return f'<div class="command"><pre><code>{escape(text)}</code></pre></div>'


def facts(rows: Iterable[tuple[str, str]]) -> str:
    """Names and texts as a list."""
    return "<dl>" + "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in rows) + "</dl>"


def number(value: float) -> str:
    """A number as people write it: four significant places, or all places before the point up to a billion; NaN as a
    dash."""
    if value != value:
        return "-"
    return f"{value:,.0f}" if 9999.5 <= abs(value) < 1e9 else f"{value:.4g}"


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f'<td class="n">{number(value)}</td>'
    return f'<td class="n">{value}</td>' if isinstance(value, int) else f"<td>{escape(str(value))}</td>"


def heat_table(counts: Array, names: Sequence[str], *, rows: str = "true", columns: str = "predicted") -> str:
    """A matrix of counts [N, N] with cells as dark as their share of the row; the diagonal is green, the rest red."""
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    head = (
        f"<tr><th>{escape(rows)} \\ {escape(columns)}</th>" + "".join(f"<th>{escape(n)}</th>" for n in names) + "</tr>"
    )
    lines = []
    for i, name in enumerate(names):
        cells = "".join(_heat_cell(int(n), float(share[i, j]), i == j) for j, n in enumerate(counts[i]))
        lines.append(f"<tr><th>{escape(name)}</th>{cells}</tr>")
    return f'<div class="scroll"><table class="heat">{head}{"".join(lines)}</table></div>'


def _heat_cell(count: int, share: float, diagonal: bool) -> str:
    colour = f"rgba({'40,150,80' if diagonal else '210,60,50'},{min(0.75, share * (0.7 if diagonal else 4)):.2f})"
    return f'<td class="n" style="background:{colour}">{count or ""}</td>'


def figure_grid(figures: Iterable[tuple[Array, str]]) -> str:
    """Pictures uint8 [H, W, 1 or 3] with captions."""
    return f'<div class="grid">{"".join(_image_figure(*each) for each in figures)}</div>'


def image_table(rows: Iterable[Sequence[Cell]], *, head: Sequence[str]) -> str:
    """Rows of images with captions, and of texts, under named columns."""
    top = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join(f"<tr>{''.join(map(_image_cell, row))}</tr>" for row in rows)
    return f'<table class="images"><tr>{top}</tr>{body}</table>'


def _image_cell(cell: Cell) -> str:
    if isinstance(cell, str):
        return f'<td class="said">{escape(cell)}</td>'
    return f"<td>{'' if cell is None else _image_figure(*cell)}</td>"


def _image_figure(image: Image, caption: str) -> str:
    if isinstance(image, str):
        return figure(image, caption)
    return f"<figure>{picture(image)}<figcaption>{escape(caption)}</figcaption></figure>"


def picture(image: Array) -> str:
    """An <img> with the pixels inside."""
    return f'<img alt="" src="data:image/png;base64,{base64.b64encode(png(image)).decode()}">'


def png(image: Array) -> bytes:
    """PNG of uint8 [H, W, 1] gray or [H, W, 3] RGB (PNG specification, 2nd edition: 8 bits, no filter)."""
    height, width, channels = image.shape
    rows = np.zeros((height, 1 + width * channels), np.uint8)  # each row begins with its filter, 0
    rows[:, 1:] = image.reshape(height, -1)
    head = struct.pack(">IIBBBBB", width, height, 8, {1: 0, 3: 2}[channels], 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + _chunk(b"IHDR", head)
        + _chunk(b"IDAT", zlib.compress(rows.tobytes(), 6))
        + _chunk(b"IEND", b"")
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
