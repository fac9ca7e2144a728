"""What charts stand on: axes with ticks at round numbers, the frame around the curves, values under the pointer."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from statistics import NormalDist
from typing import Any

import numpy as np

from pdl.dtype import Array

SHARES = (1e-4, 1e-3, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 0.98, 0.99, 0.999)  # ticks
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 368, 230, 52, 18, 12, 38
LINE, LETTER = 16, 5.6  # a line of text, and what a letter takes
POINTS = 200  # of a curve: see `thinned`
NORMAL = NormalDist()


class Axis:
    """Maps [low, high] to pixels, with room where the two coincide. `whole`: ticks at whole numbers only."""

    def __init__(self, low: float, high: float, start: float, end: float, *, whole: bool = False) -> None:
        room = 0.0 if high > low else abs(low) * 0.1 or 1.0
        self.low, self.high, self.start, self.end, self.whole = low - room, high + room, start, end, whole

    def __call__(self, value: Any) -> Any:
        """The pixel of a number, or those of an array."""
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self, about: int = 5) -> list[tuple[float, str]]:
        """Round numbers inside the range, multiples of 1, 2 or 5 times a power of ten, and how they are written: with
        as many digits as tell them apart."""
        raw = (self.high - self.low) / about
        raw = max(raw, 1.0) if self.whole else raw
        power = 10.0 ** math.floor(math.log10(raw))
        step = next(power * m for m in (1, 2, 5, 10) if power * m >= raw * 0.999)
        first = math.ceil(self.low / step - 1e-9)
        values = [k * step for k in range(first, math.floor(self.high / step + 1e-9) + 1)]
        largest = max((abs(value) for value in values), default=0.0)
        if self.whole or (step >= 1 and largest < 1e7):
            return [(value, f"{value:.0f}") for value in values]
        digits = 1 + math.floor(math.log10(largest)) - math.floor(math.log10(step)) if largest else 1
        return [(value, f"{value:.{max(4, digits)}g}") for value in values]


@dataclass(frozen=True)
class Frame:
    """The two axes of a chart and what they measure. `log`: y is the decimal logarithm of what is written; `deviates`:
    x and y are normal deviates of shares."""

    x: Axis
    y: Axis
    x_label: str = ""
    y_label: str = ""
    log: bool = False
    deviates: bool = False

    @classmethod
    def of(
        cls,
        x: tuple[float, float],
        y: tuple[float, float],
        *,
        x_label: str = "",
        y_label: str = "",
        log: bool = False,
        whole: bool = False,
        square: bool = False,
        deviates: bool = False,
        height: int = HEIGHT,
    ) -> Frame:
        """A frame of these ranges, as wide as all charts; `square`: its sides are equal, whatever the height."""
        top = TOP + (12 if y_label else 0)
        bottom = top + WIDTH - LEFT - RIGHT if square else height - BOTTOM
        across, up = Axis(*x, LEFT, WIDTH - RIGHT, whole=whole), Axis(*y, bottom, top)
        return cls(across, up, x_label, y_label, log, deviates)

    def ticks(self, axis: Axis, about: int) -> list[tuple[float, str]]:
        """Those of one of the two axes."""
        if not self.deviates:
            return axis.ticks(about)
        return [(at, f"{share:.3g}") for share in SHARES if axis.low <= (at := deviate(share)) <= axis.high]

    @property
    def height(self) -> int:
        """Pixels from the top of the drawing to its end, with the numbers below the x axis."""
        return round(self.y.start) + BOTTOM

    def grid(self) -> list[str]:
        """Lines and numbers of both axes, and their labels."""
        lines, ticks = [], self.ticks(self.y, 5 if self.y.start - self.y.end > 100 else 2)
        whole = [tick for tick in ticks if abs(tick[0] - round(tick[0])) < 1e-9]
        for y, said in whole if self.log and len(whole) > 1 else ticks:  # powers of ten, where there are several
            at, text = self.y(y), f"{10**y:.4g}" if self.log else said
            lines.append(f'<line x1="{LEFT}" y1="{at:.1f}" x2="{WIDTH - RIGHT}" y2="{at:.1f}" class="grid"/>')
            lines.append(f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{text}</text>')
        ticks = self.ticks(self.x, 6)
        wide = LETTER * max((len(said) for _, said in ticks), default=1) + 10
        every = max(1, math.ceil(wide * len(ticks) / (WIDTH - LEFT - RIGHT)))
        lines += [
            f'<text x="{self.x(x):.1f}" y="{self.height - BOTTOM + 15}" text-anchor="middle">{said}</text>'
            for x, said in ticks[::every]
        ]
        if self.y_label:
            lines.append(f'<text x="4" y="11">{escape(self.y_label)}</text>')
        lines.append(f'<text x="{WIDTH - RIGHT}" y="{self.height - 4}" text-anchor="end">{escape(self.x_label)}</text>')
        return lines

    def svg(self, parts: Iterable[str], *, height: int | None = None) -> str:
        """The drawing: the grid, and over it these parts."""
        body = "".join([*self.grid(), *parts])
        return (
            f'<svg class="chart" viewBox="0 0 {WIDTH} {height or self.height}" role="img" '
            f'xmlns="http://www.w3.org/2000/svg">{body}</svg>'
        )


def deviate(share: float) -> float:
    """The number that a normally distributed one is below so often; infinite at 0 and 1."""
    return NORMAL.inv_cdf(share) if 0 < share < 1 else math.inf if share > 0.5 else -math.inf


@dataclass(frozen=True)
class Column:
    """What the pointer finds between two pixels: a line at `at` (None: none), a heading, and texts in colours."""

    left: float
    right: float
    at: float | None
    heading: str
    values: Sequence[tuple[str, str]]


def hover(frame: Frame, columns: Iterable[Column]) -> str:
    """Texts that a style sheet shows while the pointer is inside their column (`pdl.report.page` has it): no script."""
    return f'<g fill="none" pointer-events="all">{"".join(_tip(frame, each) for each in columns)}</g>'


def _tip(frame: Frame, column: Column) -> str:
    top, bottom = frame.y.end, frame.y.start
    texts = [column.heading, *(f"\N{BLACK SQUARE} {text}" for text, _ in column.values)]
    wide, high = round(LETTER * max(map(len, texts)) + 18), LINE * len(texts) + 6
    line = (column.left + column.right) / 2 if column.at is None else column.at
    x = line + 8 if line + 8 + wide <= WIDTH else max(2.0, line - 8 - wide)
    lines = "".join(
        f'<tspan x="7" dy="{LINE}"><tspan fill="{colour}">\N{BLACK SQUARE}</tspan> {escape(text)}</tspan>'
        for text, colour in column.values
    )
    mark = "" if column.at is None else f'<path class="grid" d="M{line:.1f} {top:g}V{bottom:g}"/>'
    return (
        f'<g class="at"><rect x="{column.left:.1f}" y="{top:g}" width="{column.right - column.left:.1f}" '
        f'height="{bottom - top:g}"/><g visibility="hidden">{mark}<g transform="translate({x:.0f} {top:g})">'
        f'<rect class="box" width="{wide}" height="{high}"/><text x="7" y="14">{escape(column.heading)}{lines}'
        "</text></g></g></g>"
    )


def thinned(x: Array, y: Array, most: int = POINTS) -> Array:
    """Which points of a polyline, in pixels, draw it: indices, ascending, the first and the last among them.

    Those are taken, one after the other, that lie farthest from the line drawn so far (Douglas & Peucker), until it is
    nowhere off by more than a quarter of a pixel or there are `most` of them.
    """
    at = _extremes(x, y)
    x, y = x[at], y[at]
    chosen, waiting = {0, len(at) - 1}, _farthest(x, y, 0, len(at) - 1)
    while waiting and len(chosen) < most:
        _, first, middle, last = heapq.heappop(waiting)
        chosen.add(middle)
        for part in (_farthest(x, y, first, middle), _farthest(x, y, middle, last)):
            for each in part:
                heapq.heappush(waiting, each)
    return at[sorted(chosen)]


def _farthest(x: Array, y: Array, first: int, last: int) -> list[tuple[float, int, int, int]]:
    """(-distance, first, index, last) of the point between two that is farthest from the line through them; [] where
    none is farther than a quarter of a pixel."""
    if last - first < 2:
        return []
    dx, dy = x[first + 1 : last] - x[first], y[first + 1 : last] - y[first]
    ahead, up = x[last] - x[first], y[last] - y[first]
    length = math.hypot(ahead, up)
    off = np.abs(dx * up - dy * ahead) / length if length else np.hypot(dx, dy)
    place = int(np.argmax(off))
    return [(-float(off[place]), first, first + 1 + place, last)] if off[place] > 0.25 else []


def _extremes(x: Array, y: Array) -> Array:
    """The first, the last, the lowest and the highest of the points that follow each other within half a pixel of x:
    others are not seen."""
    runs = np.concatenate(([0], np.cumsum(np.diff(np.floor(2 * x)) != 0)))
    begin = np.flatnonzero(np.diff(runs, prepend=-1))
    end = np.append(begin[1:], len(x)) - 1
    order = np.lexsort((y, runs))
    return np.unique(np.concatenate((begin, end, order[begin], order[end])))


def nearest(values: Array, wanted: Array) -> Array:
    """For each wanted number the index of the closest of some values, which ascend."""
    at = np.clip(np.searchsorted(values, wanted), 1, max(1, len(values) - 1))
    at = np.minimum(at, len(values) - 1)
    before = np.maximum(at - 1, 0)
    return np.where(np.abs(wanted - values[before]) <= np.abs(values[at] - wanted), before, at)
