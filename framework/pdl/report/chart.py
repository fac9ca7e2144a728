"""Line charts as SVG."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape

import numpy as np

from pdl.report.axes import (
    LEFT,
    LETTER,
    LINE,
    NORMAL,
    RIGHT,
    WIDTH,
    Column,
    Frame,
    deviate,
    hover,
    nearest,
    thinned,
)
from pdl.report.page import number

COLOURS = ("#3b6fd4", "#dc7f18", "#2c9c5a", "#c2437b", "#8a63c0", "#a07c42")
DASHES = ("", ' stroke-dasharray="6 3"', ' stroke-dasharray="2 3"')  # of further curves than there are colours
GUIDE = 'stroke="#888" stroke-dasharray="4 4"'
MARK = 16  # of the legend
COLUMNS, VALUES = 80, 320  # that the pointer finds: a column takes 250 bytes, and a value 100

Points = Sequence[tuple[float, float]]


def line_chart(
    series: Mapping[str, Points],
    *,
    x_label: str = "",
    y_label: str = "",
    log: bool = False,
    guides: Mapping[str, Points] | None = None,
    unit: bool = False,
    deviates: bool = False,
) -> str:
    """An SVG of curves [(x, y), ...] by name, with axes, a legend, and the values of all curves under the pointer;
    points that are not finite are left out. Where all x are whole numbers, so are the ticks.

    log     logarithmic y
    guides  curves to compare with, dashed and grey, of which the pointer says nothing
    unit    both axes are [0, 1] and equally long, and between two points the pointer finds what is drawn
    deviates  both are shares, 0 and 1 excluded, drawn at their normal deviates, as DET curves are: where scores of both
              kinds are normally distributed the curve is a straight line
    """
    if deviates:
        series, guides = _deviates(series), _deviates(guides or {})
    curves = [_Curve(name, *_look(k), points) for k, (name, points) in enumerate(_drawable(series, log).items())]
    if not curves:
        return "<p>no points</p>"
    frame = _frame(curves, x_label, y_label, log, unit, deviates)
    beside = [_Curve(name, GUIDE, "#888", points) for name, points in _drawable(guides or {}, log).items()]
    places, height = _legend_places([each.name for each in (*curves, *beside)], x_label, frame.height)
    parts = [part for each in (*beside, *curves) for part in each.drawn(frame)]
    parts += [_legend(each, *place) for each, place in zip((*curves, *beside), places, strict=True)]
    return frame.svg([*parts, hover(frame, _columns(frame, curves, unit or deviates))], height=height)


class _Curve:
    """A curve with its look."""

    def __init__(self, name: str, look: str, colour: str, points: Points) -> None:
        self.name, self.look, self.colour = name, look, colour
        self.x, self.y = (np.array(each, np.float64) for each in zip(*points, strict=True))

    def drawn(self, frame: Frame) -> Iterator[str]:
        """The line, and a dot where it is one point."""
        x, y = frame.x(self.x), frame.y(np.log10(self.y) if frame.log else self.y)
        kept = thinned(x, y)
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x[kept], y[kept], strict=True))
        yield f'<polyline points="{path}" fill="none" {self.look} stroke-width="1.6"/>'
        if len(kept) == 1:
            yield f'<circle cx="{x[0]:.1f}" cy="{y[0]:.1f}" r="3" fill="{self.colour}"/>'

    def value(self, x: float, reach: float) -> str:
        """The y of the point nearest to x, if that is at most `reach` away."""
        place = int(np.argmin(np.abs(self.x - x)))
        return number(float(self.y[place])) if abs(self.x[place] - x) <= reach else ""


def _deviates(series: Mapping[str, Points]) -> dict[str, Points]:
    return {name: [(deviate(x), deviate(y)) for x, y in points] for name, points in series.items()}


def _frame(curves: Sequence[_Curve], x_label: str, y_label: str, log: bool, unit: bool, deviates: bool) -> Frame:
    if unit:
        return Frame.of((0.0, 1.0), (0.0, 1.0), x_label=x_label, y_label=y_label, square=True)
    x, y = np.concatenate([each.x for each in curves]), np.concatenate([each.y for each in curves])
    y = np.log10(y) if log else y
    spans = [(float(each.min()), float(each.max())) for each in (x, y)]
    if deviates:
        span = min(low for low, _ in spans), max(high for _, high in spans)
        return Frame.of(span, span, x_label=x_label, y_label=y_label, square=True, deviates=True)
    return Frame.of(*spans, x_label=x_label, y_label=y_label, log=log, whole=bool((x == np.round(x)).all()))


def _columns(frame: Frame, curves: Sequence[_Curve], between: bool) -> list[Column]:
    """What the pointer finds at the x of points, or of as many of them as there is room for. A curve without a point
    there has no value, but where `between` says that the line is as good as its points."""
    most = max(12, min(COLUMNS, VALUES // len(curves)))
    every = np.unique(np.concatenate([each.x for each in curves]))
    even = np.linspace(frame.x.low, frame.x.high, most)
    chosen = even if between else every if len(every) <= most else np.unique(every[nearest(every, even)])
    reach = 0.0 if len(chosen) == len(every) or between else (frame.x.high - frame.x.low) / most / 2
    pixels = frame.x(chosen)
    edges = np.concatenate(([LEFT], (pixels[1:] + pixels[:-1]) / 2, [WIDTH - RIGHT]))
    found = []
    for k, x in enumerate(chosen.tolist()):
        found_there = [float(np.interp(x, each.x, each.y)) for each in curves] if between else []
        if frame.deviates:
            x, found_there = NORMAL.cdf(x), [NORMAL.cdf(y) for y in found_there]
        texts = [number(y) for y in found_there] if between else [each.value(x, reach) for each in curves]
        values = [(f"{text} {each.name}", each.colour) for each, text in zip(curves, texts, strict=True) if text]
        said = f"{x:.0f}" if frame.x.whole else f"{x:.4g}"
        found.append(Column(edges[k], edges[k + 1], pixels[k], f"{frame.x_label} {said}".strip(), values))
    return found


def _look(number: int) -> tuple[str, str]:
    """How a curve is drawn, and its colour."""
    colour, dash = COLOURS[number % len(COLOURS)], DASHES[number // len(COLOURS) % len(DASHES)]
    return f'stroke="{colour}"{dash}', colour


def _legend_places(names: Sequence[str], x_label: str, height: int) -> tuple[list[tuple[int, int]], int]:
    """Where the names of the curves stand, in as many lines as they need, and how high the chart is with them."""
    places, x, y = [], LEFT, height - 11
    end = WIDTH - RIGHT - round(LETTER * len(x_label)) - 8  # of the first line, which the label of the axis shares
    for name in names:
        width = max(MARK + 4 + round(LETTER * len(name)) + 12, 60)
        if x + width > end and (x > LEFT or y == height - 11):
            x, y, end = LEFT if LEFT + width <= WIDTH else 4, y + LINE, WIDTH
        places.append((x, y))
        x += width
    return places, y + 11


def _legend(curve: _Curve, x: int, y: int) -> str:
    mark = f'<line x1="{x}" y1="{y}" x2="{x + MARK}" y2="{y}" stroke-width="3" {curve.look}/>'
    return f'{mark}<text x="{x + MARK + 4}" y="{y + 4}">{escape(curve.name)}</text>'


def _drawable(series: Mapping[str, Points], log: bool) -> dict[str, Points]:
    """Finite points only, and curves that have some."""
    found = {
        name: [(x, y) for x, y in points if _finite(x) and _finite(y) and (not log or y > 0)]
        for name, points in series.items()
    }
    return {name: points for name, points in found.items() if points}


def _finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)
