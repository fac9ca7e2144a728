"""Charts of many trainings with different settings: parallel coordinates (Inselberg, The plane with parallel
coordinates, 1985), and what they reached one after another. All they show under the pointer is in the page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

from pdl.report.axes import LETTER, WIDTH, Axis, Column, Frame, hover
from pdl.report.chart import COLOURS

GOOD, BAD = (44, 156, 90), (220, 127, 24)  # the colours of the best line and of the last
ROOM, APART, SIDE, HIGH = 1100, (110, 280), 80, 240  # pixels: of all, between two axes, beside the outermost, of one
LETTERS = 20  # of a name or a value, at most


@dataclass(frozen=True)
class Scale:
    """A vertical axis: values that are `names`, one above the other, or numbers; `log`: their logarithms."""

    title: str
    names: Sequence[str] = ()
    log: bool = False


@dataclass(frozen=True)
class Line:
    """A training: its value on each axis (text where the axis has names; NaN: none), how good it is (0 the best, 1 the
    worst), what is said of it, where it leads, and whether it came to its end."""

    values: Sequence[float | str]
    rank: float
    said: str
    link: str = ""
    whole: bool = True


def parallel_chart(scales: Sequence[Scale], lines: Sequence[Line]) -> str:
    """An SVG with an axis for each scale and a polyline for each training, the best ones on top; those that did not
    come to their end are dashed. Under the pointer a line is thick, and its text stands below the axes."""
    apart = min(max((ROOM - 2 * SIDE) // max(len(scales) - 1, 1), APART[0]), APART[1])
    made = [_Upright(scale, SIDE + k * apart, [line.values[k] for line in lines]) for k, scale in enumerate(scales)]
    width = 2 * SIDE + apart * (len(scales) - 1)
    width = max(width, *(round(LETTER * len(line.said)) + 20 for line in lines), WIDTH)
    top, height = 34, 34 + HIGH + 40
    parts = [axis.drawn(top) for axis in made]
    for line in sorted(lines, key=lambda each: -each.rank):
        places = [(axis.x, axis.y(value, top)) for axis, value in zip(made, line.values, strict=True)]
        points = " ".join(f"{x:g},{y:.1f}" for x, y in places if not math.isnan(y))
        colour = _colour(line.rank)
        dash = "" if line.whole else ' stroke-dasharray="5 4"'
        drawn = (
            f'<g class="at" fill="none"><polyline points="{points}" stroke="{colour}" stroke-width="1.4"{dash}/>'
            f'<polyline points="{points}" stroke="#000" stroke-opacity="0" stroke-width="9" pointer-events="stroke"/>'
            f'<g visibility="hidden"><polyline points="{points}" stroke="{colour}" stroke-width="4"/>'
            f'<text x="8" y="{height - 8}" stroke="none">{escape(line.said)}</text></g></g>'
        )
        parts.append(f'<a href="{escape(line.link)}">{drawn}</a>' if line.link else drawn)
    parts += [axis.ticks(top, after=axis is made[-1]) for axis in made]
    return (
        f'<svg viewBox="0 0 {width} {height}" style="width:{width}px;max-width:100%" role="img" '
        f'xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg>'
    )


class _Upright:
    """A scale at its place."""

    def __init__(self, scale: Scale, x: float, values: Sequence[float | str]) -> None:
        self.scale, self.x = scale, x
        known = [self._number(value) for value in values]
        known = [value for value in known if math.isfinite(value)]
        if scale.names:
            known = [0.0, max(len(scale.names) - 1.0, 1.0)]
        self.axis = Axis(min(known, default=0.0), max(known, default=1.0), HIGH, 0.0)

    def _number(self, value: float | str) -> float:
        if self.scale.names:
            return float(list(self.scale.names).index(str(value)))
        number = float(value)
        return math.log10(number) if self.scale.log and number > 0 else math.nan if self.scale.log else number

    def y(self, value: float | str, top: float) -> float:
        """The pixel of a value; NaN for what has no place."""
        at = self._number(value)
        return top + float(self.axis(at)) if math.isfinite(at) else math.nan

    def drawn(self, top: float) -> str:
        """The axis and its title."""
        return (
            f'<line x1="{self.x}" y1="{top}" x2="{self.x}" y2="{top + HIGH}" class="grid" stroke-width="2"/>'
            f'<text x="{self.x}" y="{top - 18}" text-anchor="middle" font-weight="bold">'
            f"{escape(_short(self.scale.title, end=True))}</text>"
        )

    def ticks(self, top: float, *, after: bool) -> str:
        """The values along it, before or after it, readable over lines."""
        if self.scale.names:
            ticks = [(float(k), name) for k, name in enumerate(self.scale.names)]
        else:
            ticks = self.axis.ticks()
            if self.scale.log:
                whole = [tick for tick in ticks if abs(tick[0] - round(tick[0])) < 1e-9]
                ticks = [(at, f"{10**at:.2g}") for at, _ in (whole if len(whole) > 1 else ticks)]
        x, anchor = (self.x + 7, "start") if after else (self.x - 7, "end")
        texts = (
            f'<text x="{x}" y="{top + float(self.axis(at)) + 4:.1f}">{escape(_short(text))}</text>'
            for at, text in ticks
        )
        halo = 'stroke="Canvas" stroke-width="3" paint-order="stroke" pointer-events="none"'
        return f'<g text-anchor="{anchor}" {halo}>{"".join(texts)}</g>'


def _short(text: str, *, end: bool = False) -> str:
    if len(text) <= LETTERS:
        return text
    return f"\N{HORIZONTAL ELLIPSIS}{text[1 - LETTERS :]}" if end else f"{text[: LETTERS - 1]}\N{HORIZONTAL ELLIPSIS}"


def _colour(rank: float) -> str:
    """Between that of the best and that of the worst."""
    mixed = (round(good + (bad - good) * rank) for good, bad in zip(GOOD, BAD, strict=True))
    return f"#{''.join(f'{each:02x}' for each in mixed)}"


def best_so_far(values: Sequence[float], whole: Sequence[bool], said: Sequence[Sequence[str]], *, less: bool,
                y_label: str) -> str:  # fmt: skip
    """An SVG of what trainings reached one after another (NaN: nothing): dots, hollow for those that did not come to
    their end, and as a line the best of the whole ones so far. Under the pointer are the lines of said[i]."""
    known = [value for value in values if math.isfinite(value)]
    if not known:
        return "<p>no points</p>"
    frame = Frame.of((1.0, float(len(values))), (min(known), max(known)), x_label="trial", y_label=y_label, whole=True)
    dots, line, best = [], "", math.nan
    for k, value in enumerate(values, 1):
        if not math.isfinite(value):
            continue
        x, y = frame.x(k), frame.y(value)
        look = f'fill="{COLOURS[0]}"' if whole[k - 1] else f'fill="none" stroke="{COLOURS[1]}"'
        dots.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" {look}/>')
        if whole[k - 1] and not (value >= best if less else value <= best):
            best = value
            line += f"H{x:.1f}V{y:.1f}" if line else f"M{x:.1f} {y:.1f}"
    path = f'<path d="{line}H{frame.x(len(values)):.1f}" fill="none" stroke="{COLOURS[2]}" stroke-width="1.6"/>'
    at = [float(frame.x(k)) for k in range(1, len(values) + 1)]
    edges = [frame.x.start, *((a + b) / 2 for a, b in pairwise(at)), frame.x.end]
    columns = [
        Column(edges[k], edges[k + 1], at[k], texts[0], [(text, COLOURS[0]) for text in texts[1:]])
        for k, texts in enumerate(said)
    ]
    legend = (
        f'<text x="{frame.x.start}" y="{frame.height - 4}"><tspan fill="{COLOURS[2]}">\N{EM DASH}</tspan> best so far'
        f"</text>"
    )
    return frame.svg([*([path] if line else []), *dots, legend, hover(frame, columns)])
