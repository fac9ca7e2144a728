"""Counts of outcomes as columns."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from html import escape

from pdl.errors import UsageError
from pdl_quantum.drawing.style import SMALL, SUB, sheet

SCOPE = "pdl-histogram"
HEIGHT, MARGIN, LEFT, GAP = 180.0, 14.0, 46.0, 6.0
NARROW, WIDE = 14.0, 46.0
"""Widths of a column."""
FLAT = 4  # letters of an outcome that is written across, not upwards


def histogram(
    counts: Mapping[str, float],
    *,
    expected: Mapping[str, float] | None = None,
    marked: Collection[str] = (),
    most: int = 32,
    width: float = 720,
) -> str:
    """The shares of outcomes as an SVG, such as `pdl_quantum.circuits.counts` or `Shots.counts` gives them.

    expected  probabilities to compare with, drawn as marks;    marked  outcomes in another colour
    most      columns: up to so many outcomes stand in the order of their names, of more the most frequent in the order
              of their counts, and a line tells of the others

    Errors: UsageError for counts below 0, and where nothing was counted.
    """
    total = float(sum(counts.values()))
    if not total > 0 or min(counts.values()) < 0 or most < 1:
        raise UsageError(f"a histogram of {len(counts)} outcomes with {total:g} counts in all; give counts from 0 on, "
                         "not all of them 0, and a column at least")  # fmt: skip
    shares = {name: count / total for name, count in counts.items()}
    shown = dict(sorted(shares.items()))
    if len(shares) > most:
        shown = dict(sorted(shares.items(), key=lambda pair: (-pair[1], pair[0]))[:most])
    reference = {name: expected.get(name, 0.0) for name in shown} if expected is not None else {}
    high, step = _axis(max([*shown.values(), *reference.values()]))
    column = min(WIDE, max(NARROW, (width - LEFT - MARGIN) / len(shown) - GAP))
    longest = max(map(len, shown))
    below = (14.0 if longest <= FLAT else longest * 6.2 + 10) + MARGIN
    right = LEFT + len(shown) * (column + GAP) + GAP
    if len(shares) > most:
        right = max(right, 280.0)
    parts = [_grid(share * step, high, right) for share in range(round(high / step) + 1)]
    for place, (name, share) in enumerate(shown.items()):
        x = LEFT + GAP + place * (column + GAP)
        family = "phase" if name in marked else "pauli"
        parts.append(_column(name, share, reference.get(name), x, column, high, family, longest <= FLAT))
    if len(shares) > most:
        note = f"{len(shares) - most:,} other outcomes: {100 * (1 - sum(shown.values())):.3g}%"
        parts.append(f'<text class="tick" x="{right - 4:.1f}" y="{MARGIN + 13:.1f}">{note}</text>')
    w, h = right + MARGIN, MARGIN + HEIGHT + below
    return (
        f'<svg class="{SCOPE}" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w:.0f} {h:.0f}" width="{w:.0f}" '
        f'height="{h:.0f}" style="max-width:100%;height:auto" role="img"><title>Shares of {len(counts)} outcomes'
        f"</title><style>{_sheet()}</style>"
        f'<rect class="paper" width="100%" height="100%" rx="8"/>{"".join(parts)}</svg>\n'
    )


def _sheet() -> str:
    scope = f".{SCOPE}"
    return sheet(scope) + (
        f"{scope} text.tick{{font-weight:400;font-size:{SMALL}px;fill:var(--soft);text-anchor:end}}"
        f"{scope} text.label{{font:400 {SMALL}px ui-monospace,'DejaVu Sans Mono',monospace;fill:var(--ink)}}"
        f"{scope} text.up{{text-anchor:end}}{scope} text.share{{font-weight:400;font-size:{SUB}px;fill:var(--soft)}}"
        f"{scope} .line{{stroke:var(--wire);stroke-width:.6;stroke-opacity:.6}}"
        f"{scope} .mark{{stroke:var(--ink);stroke-width:1.8}}"
    )


def _axis(top: float) -> tuple[float, float]:
    """(the axis' end, its step): three to six steps of 1, 2 or 5 times a power of ten."""
    power = 10.0
    while True:
        for step in (power / 2, power / 5, power / 10):
            if top / step >= 2.5:
                return step * -(-top // step), step
        power /= 10


def _grid(share: float, high: float, right: float) -> str:
    y = MARGIN + HEIGHT * (1 - share / high)
    return (
        f'<line class="line" x1="{LEFT:.1f}" y1="{y:.1f}" x2="{right:.1f}" y2="{y:.1f}"/>'
        f'<text class="tick" x="{LEFT - 6:.1f}" y="{y + 3.6:.1f}">{100 * share:.4g}%</text>'
    )


def _column(
    name: str, share: float, expected: float | None, x: float, wide: float, high: float, family: str, flat: bool
) -> str:
    tall, middle, foot = HEIGHT * share / high, x + wide / 2, MARGIN + HEIGHT
    reference = f"{name}: {100 * share:.4g}%" + (f", expected {100 * expected:.4g}%" if expected is not None else "")
    made = f'<rect class="box" x="{x:.1f}" y="{foot - tall:.1f}" width="{wide:.1f}" height="{tall:.1f}" rx="2"/>'
    if expected is not None:
        y = foot - HEIGHT * expected / high
        made += f'<line class="mark" x1="{x - 2:.1f}" y1="{y:.1f}" x2="{x + wide + 2:.1f}" y2="{y:.1f}"/>'
    if flat:
        made += f'<text class="label" x="{middle:.1f}" y="{foot + 15:.1f}">{escape(name)}</text>'
    else:
        at = f"{middle + 3.6:.1f} {foot + 7:.1f}"
        made += f'<text class="label up" transform="translate({at}) rotate(-90)">{escape(name)}</text>'
    return f'<g class="{family}"><title>{escape(reference)}</title>{made}</g>'
