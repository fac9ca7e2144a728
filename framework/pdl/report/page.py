"""The parts of a page: tables, heat maps, images, and the document around them."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from pdl.dtype import Array

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; border-bottom: 1px solid var(--line); }
table { border-collapse: collapse; margin: .6rem 0; } td, th { padding: .18rem .6rem; text-align: left;
vertical-align: top; } tr:nth-child(even) td { background: var(--soft); } td.n, th.n { text-align: right;
font-variant-numeric: tabular-nums; } .charts, .grid { display: flex; flex-wrap: wrap; gap: 1rem; } .charts svg {
width: 32rem; max-width: 100%; } svg text { font-size: 11px; fill: currentColor; } svg .grid { stroke: var(--line); }
figure { margin: 0; text-align: center; font-size: .8rem; width: 9rem; }
figure.wide { width: auto; }
figure img { width: 8rem; height: 8rem; object-fit: contain; image-rendering: pixelated; background: var(--soft); }
table.heat td, table.heat th { padding: .1rem .3rem; font-size: .75rem; } .scroll { overflow-x: auto; }
pre { background: var(--soft); padding: .8rem; overflow-x: auto; font-size: .85rem; }
"""


@dataclass(frozen=True)
class Section:
    """A heading and the HTML below it (text from outside goes through `escape` first)."""

    title: str
    html: str


def document(title: str, sections: Iterable[Section]) -> str:
    """A whole page that needs nothing else."""
    body = "".join(f"<section><h2>{escape(s.title)}</h2>{s.html}</section>\n" for s in sections)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n"
        f"<body><h1>{escape(title)}</h1>\n{body}</body></html>\n"
    )


def table(rows: Iterable[Sequence[Any]], *, head: Sequence[str] = ()) -> str:
    """Rows of values; floats with four significant places, numbers to the right."""
    top = "<tr>" + "".join(f"<th>{escape(name)}</th>" for name in head) + "</tr>" if head else ""
    return f"<table>{top}" + "".join("<tr>" + "".join(map(_cell, row)) + "</tr>" for row in rows) + "</table>"


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f'<td class="n">{value:.4g}</td>'
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
    each = (
        f"<figure>{picture(image)}<figcaption>{escape(caption)}</figcaption></figure>" for image, caption in figures
    )
    return f'<div class="grid">{"".join(each)}</div>'


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
