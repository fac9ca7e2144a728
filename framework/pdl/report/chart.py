"""Line charts as SVG."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

COLOURS = ("#3366cc", "#dc7f18", "#2c9c5a", "#b5386e", "#7b52ab", "#8a6d3b")
DASHES = ("", ' stroke-dasharray="6 3"', ' stroke-dasharray="2 3"')  # of further curves than there are colours
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 520, 260, 56, 20, 14, 34
MARK, LINE, LETTER = 16, 16, 5.6  # of the legend: the marks, its lines, and what a letter takes

Points = Sequence[tuple[float, float]]


def line_chart(series: Mapping[str, Points], *, x_label: str = "", log: bool = False) -> str:
    """An SVG of curves [(x, y), ...] by name, with axes and a legend; points that are not finite are left out. `log`:
    logarithmic y."""
    shown = {name: [p for p in points if _drawable(p, log)] for name, points in series.items()}
    shown = {name: points for name, points in shown.items() if points}
    if not shown:
        return "<p>no points</p>"
    transform = math.log10 if log else float
    xs = [x for points in shown.values() for x, _ in points]
    ys = [transform(y) for points in shown.values() for _, y in points]
    x_axis, y_axis = _Axis(min(xs), max(xs), LEFT, WIDTH - RIGHT), _Axis(min(ys), max(ys), HEIGHT - BOTTOM, TOP)
    places, height = _legend_places(list(shown), x_label)
    parts = [*_grid(x_axis, y_axis, log), _caption(x_label)]
    for number, (name, points) in enumerate(shown.items()):
        colour, dash = COLOURS[number % len(COLOURS)], DASHES[number // len(COLOURS) % len(DASHES)]
        path = " ".join(f"{x_axis(x):.1f},{y_axis(transform(y)):.1f}" for x, y in _thin(points))
        title = f"<title>{escape(name)}</title>"
        drawn = f'fill="none" stroke="{colour}" stroke-width="1.6"{dash}'
        parts.append(f'<polyline points="{path}" {drawn}>{title}</polyline>')
        if len(points) == 1:
            x, _, y = path.partition(",")
            parts.append(f'<circle cx="{x}" cy="{y}" r="3" fill="{colour}"/>')
        parts.append(_legend(name, *places[number], f'stroke="{colour}" stroke-width="3"{dash}'))
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg>'


class _Axis:
    """Maps [low, high] to pixels, with room where the two coincide."""

    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        room = 0.0 if high > low else abs(low) * 0.1 or 1.0
        self.low, self.high, self.start, self.end = low - room, high + room, start, end

    def __call__(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self, about: int = 5) -> list[tuple[float, str]]:
        """Round numbers inside the range, multiples of 1, 2 or 5 times a power of ten, and how they are written: with
        as many digits as tell them apart."""
        raw = (self.high - self.low) / about
        power = 10.0 ** math.floor(math.log10(raw))
        step = next(power * m for m in (1, 2, 5, 10) if power * m >= raw * 0.999)
        first = math.ceil(self.low / step - 1e-9)
        values = [k * step for k in range(first, math.floor(self.high / step + 1e-9) + 1)]
        largest = max((abs(value) for value in values), default=0.0)
        digits = 1 + math.floor(math.log10(largest)) - math.floor(math.log10(step)) if largest else 1
        return [(value, f"{value:.{max(4, digits)}g}") for value in values]


def _grid(x_axis: _Axis, y_axis: _Axis, log: bool) -> list[str]:
    lines, ticks = [], y_axis.ticks()
    whole = [tick for tick in ticks if abs(tick[0] - round(tick[0])) < 1e-9]
    for y, said in whole if log and len(whole) > 1 else ticks:  # powers of ten, where there are several
        at, text = y_axis(y), f"{10**y:.4g}" if log else said
        lines.append(f'<line x1="{LEFT}" y1="{at:.1f}" x2="{WIDTH - RIGHT}" y2="{at:.1f}" class="grid"/>')
        lines.append(f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{text}</text>')
    lines += [
        f'<text x="{x_axis(x):.1f}" y="{HEIGHT - BOTTOM + 15}" text-anchor="middle">{said}</text>'
        for x, said in x_axis.ticks(8)
    ]
    return lines


def _caption(text: str) -> str:
    return f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 4}" text-anchor="end">{escape(text)}</text>'


def _legend_places(names: Sequence[str], x_label: str) -> tuple[list[tuple[int, int]], int]:
    """Where the names of the curves stand, in as many lines as they need, and how high the chart is with them."""
    places, x, y = [], LEFT + 8, HEIGHT - 11
    end = WIDTH - RIGHT - round(LETTER * len(x_label)) - 8  # of the first line, which the label of the axis shares
    for name in names:
        width = max(MARK + 4 + round(LETTER * len(name)) + 12, 80)
        if x + width > end and x > LEFT + 8:
            x, y, end = LEFT + 8, y + LINE, WIDTH
        places.append((x, y))
        x += width
    return places, y + 11


def _legend(name: str, x: int, y: int, drawn: str) -> str:
    mark = f'<line x1="{x}" y1="{y}" x2="{x + MARK}" y2="{y}" {drawn}/>'
    return f'{mark}<text x="{x + MARK + 4}" y="{y + 4}">{escape(name)}</text>'


def _drawable(point: tuple[float, float], log: bool) -> bool:
    return all(v is not None and math.isfinite(v) for v in point) and (not log or point[1] > 0)


def _thin(points: Points, most: int = 600) -> Points:
    """At most about `most` points, the last among them."""
    if len(points) <= most:
        return points
    stride = -(-len(points) // most)
    return [*points[:-1:stride], points[-1]]
