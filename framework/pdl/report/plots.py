"""Bars and points as SVG, on the axes of the line charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import numpy as np

from pdl.dtype import Array
from pdl.report.axes import HEIGHT, LETTER, LINE, RIGHT, WIDTH, Column, Frame, hover
from pdl.report.chart import COLOURS, GUIDE

DRAWN = 2000  # points of a scatter plot
BAR = 22  # pixels of a row with a horizontal bar


def bar_chart(
    edges: Array,
    heights: Array,
    said: Sequence[Sequence[str]],
    *,
    x_label: str = "",
    y_label: str = "",
    unit: bool = False,
    height: int = HEIGHT,
) -> str:
    """An SVG of bars: bar i from edges[i] to edges[i + 1] (float [B + 1], ascending) and from 0 to heights[i] >= 0
    (float [B]; NaN: no bar). While the pointer is over it, the lines of said[i], where there are any, are shown.

    unit    both axes are [0, 1] and equally long, and the diagonal is drawn
    """
    top = 1.0 if unit else float(np.nanmax(heights, initial=0.0)) or 1.0
    span = (0.0, 1.0) if unit else (float(edges[0]), float(edges[-1]))
    frame = Frame.of(span, (0.0, top), x_label=x_label, y_label=y_label, square=unit, height=height)
    pixels, bottom = frame.x(np.asarray(edges, np.float64)), frame.y(0.0)
    bars = "".join(
        f"M{left + 0.5:.1f} {bottom:g}V{frame.y(high):.1f}H{right - 0.5:.1f}V{bottom:g}z"
        for left, right, high in zip(pixels[:-1], pixels[1:], heights, strict=True)
        if high > 0
    )
    parts = [f'<path d="{bars}" fill="{COLOURS[0]}" fill-opacity=".75"/>']
    parts += [_diagonal(frame)] if unit else []
    columns = [
        Column(left, right, None, each[0], [(text, COLOURS[0]) for text in each[1:]])
        for left, right, each in zip(pixels[:-1], pixels[1:], said, strict=True)
        if each
    ]
    return frame.svg([*parts, hover(frame, columns)])


def named_bars(values: Mapping[str, float], said: Sequence[str], *, label: str = "") -> str:
    """An SVG of a horizontal bar for each name, from 0 to its value (>= 0; NaN: no bar), with the text said[i] behind
    it; `label` is what they measure."""
    longest = max((len(name) for name in values), default=0)
    left, behind = 8 + LETTER * longest, LETTER * max(map(len, said), default=0) + 8
    top = max((value for value in values.values() if value > 0), default=1.0)
    parts = [f'<text x="{WIDTH - RIGHT}" y="11" text-anchor="end">{escape(label)}</text>'] if label else []
    start = LINE if label else 0
    for row, ((name, value), text) in enumerate(zip(values.items(), said, strict=True)):
        middle = start + (row + 0.5) * BAR
        end = left + (max(WIDTH - RIGHT - behind - left, 0) * value / top if value > 0 else 0.0)
        parts.append(
            f'<text x="{left - 6:.1f}" y="{middle + 4:.1f}" text-anchor="end">{escape(name)}</text>'
            f'<path d="M{left:.1f} {middle - 7:.1f}H{end:.1f}v14H{left:.1f}z" fill="{COLOURS[0]}" fill-opacity=".75"/>'
            f'<text x="{end + 6:.1f}" y="{middle + 4:.1f}">{escape(text)}</text>'
        )
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {start + BAR * len(values)}" role="img" '
        f'xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg>'
    )


def scatter_chart(x: Array, y: Array, *, x_label: str = "", y_label: str = "") -> str:
    """An SVG of points (x[i], y[i]), float [N], on equal scales with the diagonal; of more than `DRAWN`, so many that
    lie evenly among them. Those that are not finite are left out."""
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    finite = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
    if not len(finite):
        return "<p>no points</p>"
    span = (float(min(x[finite].min(), y[finite].min())), float(max(x[finite].max(), y[finite].max())))
    frame = Frame.of(span, span, x_label=x_label, y_label=y_label, square=True)
    few = finite if len(finite) <= DRAWN else finite[np.arange(DRAWN) * len(finite) // DRAWN]
    path = "".join(f"M{a:.1f} {b:.1f}h0" for a, b in zip(frame.x(x[few]), frame.y(y[few]), strict=True))
    size = 5 if len(few) <= 100 else 3
    dots = f'<path d="{path}" stroke="{COLOURS[0]}" stroke-width="{size}" stroke-linecap="round" stroke-opacity=".7"/>'
    return frame.svg([_diagonal(frame), dots])


def _diagonal(frame: Frame) -> str:
    """The line y = x of a square frame."""
    x, y = frame.x, frame.y
    return f'<path d="M{x.start:g} {y.start:g}L{x.end:g} {y.end:g}" fill="none" {GUIDE}/>'
