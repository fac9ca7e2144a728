"""A plane that a classifier divides, as SVG."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from html import escape

import numpy as np

from pdl.report import png

Array = np.ndarray
COLOURS = ("#3366cc", "#dc7f18", "#2c9c5a", "#b5386e", "#7b52ab", "#8a6d3b", "#159aa8", "#d64545", "#7a9a1e", "#5c6f86")
SIDE, LEFT, BELOW = 400, 44, 40
MOST = 1500


def divided(
    axes: tuple[Array, Array],
    chances: Array,
    points: Array,
    labels: Array,
    classes: Sequence[str],
    columns: Sequence[str],
) -> str:
    """The plane of `axes` (x [W], y [H]) coloured by probabilities [H, W, C], with points [N, 2] in the colours of
    their labels; at most 1500 of them."""
    x, y = axes
    image = _coloured(chances)[::-1]  # y upwards
    data = base64.b64encode(png(image)).decode()
    width, height = LEFT + SIDE + 12, SIDE + BELOW + 14 + 18 * -(-len(classes) // 4)
    parts = [f'<svg viewBox="0 0 {width} {height}" width="{width}" role="img" xmlns="http://www.w3.org/2000/svg">',
             f"<title>{escape(' and '.join(columns))}: {escape(', '.join(classes))}</title>",
             f'<image x="{LEFT}" y="8" width="{SIDE}" height="{SIDE}" preserveAspectRatio="none" '
             f'href="data:image/png;base64,{data}"/>']  # fmt: skip
    for i in np.arange(min(len(points), MOST)) * len(points) // max(1, min(len(points), MOST)):
        px = LEFT + SIDE * (points[i, 0] - x[0]) / (x[-1] - x[0])
        py = 8 + SIDE * (1 - (points[i, 1] - y[0]) / (y[-1] - y[0]))
        parts.append(f'<circle cx="{px:.1f}" cy="{py:.1f}" r="3.4" fill="{_colour(int(labels[i]))}" stroke="white" '
                     'stroke-width="1"/>')  # fmt: skip
    text = 'font-size="12" fill="currentColor" font-family="sans-serif"'
    for place, value in ((0.0, x[0]), (0.5, (x[0] + x[-1]) / 2), (1.0, x[-1])):
        at = LEFT + SIDE * place
        parts.append(f'<text x="{at:.0f}" y="{SIDE + 24}" text-anchor="middle" {text}>{_written(value, x)}</text>')
    for place, value in ((0.0, y[0]), (0.5, (y[0] + y[-1]) / 2), (1.0, y[-1])):
        at = 12 + SIDE * (1 - place)
        parts.append(f'<text x="{LEFT - 6}" y="{at:.0f}" text-anchor="end" {text}>{_written(value, y)}</text>')
    parts.append(f'<text x="{LEFT + SIDE / 2}" y="{SIDE + 42}" text-anchor="middle" {text}>{escape(columns[0])}</text>')
    parts.append(f'<text x="12" y="{8 + SIDE / 4}" {text}>{escape(columns[1])}</text>')
    for number, name in enumerate(classes):
        at, down = LEFT + SIDE / 4 * (number % 4), SIDE + 60 + 18 * (number // 4)
        parts.append(f'<circle cx="{at + 6:.0f}" cy="{down - 4}" r="5" fill="{_colour(number)}"/>'
                     f'<text x="{at + 16:.0f}" y="{down}" {text}>{escape(name)}</text>')  # fmt: skip
    return "".join([*parts, "</svg>"])


def _coloured(chances: Array) -> Array:
    """uint8 [H, W, 3]: the likeliest class's colour, the paler the less likely it is."""
    named = np.array([[int(c[i : i + 2], 16) for i in (1, 3, 5)] for c in COLOURS], np.float64)
    best = chances.argmax(axis=2)
    least = 1 / chances.shape[2]
    share = (np.take_along_axis(chances, best[..., None], axis=2) - least) / (1 - least)
    colours = named[best % len(COLOURS)]
    return np.rint(255 - (255 - colours) * (0.08 + 0.5 * share)).astype(np.uint8)


def _written(value: float, axis: Array) -> str:
    """A number of an axis to a hundredth of its length or better: the middle of -1.1574 to 1.155 is 0."""
    digits = 2 - math.floor(math.log10(axis[-1] - axis[0]))
    return f"{round(float(value), digits) + 0.0:.4g}"


def _colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]
