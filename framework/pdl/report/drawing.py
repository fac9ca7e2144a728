"""A graph as an SVG picture: layers from top to bottom, boxes in each, curves between them.

After Sugiyama, Tagawa, Toda, Methods for visual understanding of hierarchical system structures, 1981: a box lies below
all that it reads, long edges pass through the layers between, and boxes move under the mean of their neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from itertools import pairwise

from pdl.report.graph import Box, Graph

LINE, PAD, GAP_X, GAP_Y, MARGIN = 13, 6, 26, 26, 24
SWEEPS = 16
COLOURS = {
    "product": "#cfe0f7", "norm": "#d5ecd4", "activation": "#fbe3c2", "pool": "#e3d6f2", "loss": "#f6cfd2",
    "noise": "#ece6d8", "shape": "#ececec", "table": "#cdebea", "input": "#ffffff", "": "#f4f4ec",
}  # fmt: skip
STYLE = (
    "text{font:11px system-ui,sans-serif;fill:#222}.op{font-weight:600}.module{fill:#666}"
    ".edge{fill:none;stroke:#7a7f87;stroke-width:1.2}.box{stroke:#55606e;stroke-width:.8}"
    ".group{fill:#8aa0b8;fill-opacity:.08;stroke:#8aa0b8;stroke-dasharray:4 3}.label{fill:#4a5a6d;font-style:italic}"
)


@dataclass(eq=False)
class Spot:
    """A place in a layer: of a box, or (box None) of an edge that passes."""

    box: Box | None
    layer: int
    width: float = 4.0
    height: float = 0.0
    x: float = 0.0
    y: float = 0.0

    @property
    def left(self) -> float:
        """Its left edge; x is the middle."""
        return self.x - self.width / 2


def draw(graph: Graph) -> str:
    """The SVG text of a graph."""
    spots, edges = _layers(graph)
    rows = _rows([*spots, *(s for path in edges for s in path[1:-1])])
    links = [(a, b) for path in edges for a, b in pairwise(path)]
    _order(rows, links)
    _place(rows, links)
    least = min((s.left for row in rows for s in row), default=0.0)
    for row in rows:
        for s in row:
            s.x += MARGIN - least
    groups, edge = _groups(graph, spots)
    width = max((s.x + s.width / 2 for row in rows for s in row), default=0.0)
    width = max(width, edge) + MARGIN
    height = max((s.y + s.height for s in spots), default=0.0) + MARGIN
    parts = [*groups, *map(_curve, edges), *map(_box, spots)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" role="img"><title>{escape(graph.name)}</title><style>{STYLE}</style>'
        f'<rect width="100%" height="100%" fill="#fff"/>{"".join(parts)}</svg>\n'
    )


# -- layout ------------------------------------------------------------------------------------------------------------
def _layers(graph: Graph) -> tuple[list[Spot], list[list[Spot]]]:
    """A spot for each box, in the layer below the last it reads; each edge as a path of spots."""
    spots: list[Spot] = []
    for box in graph.boxes:
        layer = 1 + max((spots[i].layer for i in box.inputs), default=-1)
        width = max(_text_width(line) for line in (box.title, *box.lines)) + 2 * PAD
        spots.append(Spot(box, layer, width, LINE * (1 + len(box.lines)) + 2 * PAD))
    _sink(graph, spots)
    edges = []
    for spot, box in zip(spots, graph.boxes, strict=True):
        for i in box.inputs:
            between = [Spot(None, layer) for layer in range(spots[i].layer + 1, spot.layer)]
            edges.append([spots[i], *between, spot])
    return spots, edges


def _sink(graph: Graph, spots: list[Spot]) -> None:
    """Boxes that read nothing, such as labels, lie just above their first reader."""
    first: dict[int, int] = {}
    for spot, box in zip(spots, graph.boxes, strict=True):
        for i in box.inputs:
            first[i] = min(first.get(i, spot.layer), spot.layer)
    for number, box in enumerate(graph.boxes):
        if not box.inputs and number in first:
            spots[number].layer = first[number] - 1


def _rows(spots: list[Spot]) -> list[list[Spot]]:
    rows: list[list[Spot]] = [[] for _ in range(1 + max((s.layer for s in spots), default=-1))]
    for spot in spots:
        rows[spot.layer].append(spot)
    y = float(MARGIN)
    for row in rows:
        height = max(spot.height for spot in row)
        for spot in row:
            spot.y = y
            spot.height = height if spot.box is None else spot.height
        y += height + GAP_Y
    return rows


def _neighbours(links: list[tuple[Spot, Spot]]) -> tuple[dict[Spot, list[Spot]], dict[Spot, list[Spot]]]:
    above: dict[Spot, list[Spot]] = {}
    below: dict[Spot, list[Spot]] = {}
    for a, b in links:
        above.setdefault(b, []).append(a)
        below.setdefault(a, []).append(b)
    return above, below


def _order(rows: list[list[Spot]], links: list[tuple[Spot, Spot]]) -> None:
    """Sort each layer by the mean place of its neighbours above, then below, and again."""
    above, below = _neighbours(links)
    for sweep in range(SWEEPS):
        near, order = (above, rows) if sweep % 2 == 0 else (below, rows[::-1])
        place = {s: i / max(1, len(row) - 1) for row in rows for i, s in enumerate(row)}
        for row in order:
            wanted = {s: sum(place[n] for n in near[s]) / len(near[s]) if s in near else place[s] for s in row}
            row.sort(key=wanted.__getitem__)
            place.update({s: i / max(1, len(row) - 1) for i, s in enumerate(row)})


def _place(rows: list[list[Spot]], links: list[tuple[Spot, Spot]]) -> None:
    """Move the spots of each layer under the mean of their neighbours, as far as their order and widths allow."""
    above, below = _neighbours(links)
    for row in rows:
        _settle(row, [0.0] * len(row))
    for sweep in range(SWEEPS):
        near, order = (above, rows) if sweep % 2 == 0 else (below, rows[::-1])
        for row in order:
            _settle(row, [sum(n.x for n in near[s]) / len(near[s]) if s in near else s.x for s in row])


def _settle(row: list[Spot], wanted: list[float]) -> None:
    """Places near the wanted ones that keep order and distance: the mean of pushing to the right and to the left."""
    right, left = list(wanted), list(wanted)
    for i in range(1, len(row)):
        right[i] = max(right[i], right[i - 1] + _distance(row[i - 1], row[i]))
    for i in range(len(row) - 2, -1, -1):
        left[i] = min(left[i], left[i + 1] - _distance(row[i], row[i + 1]))
    for spot, a, b in zip(row, left, right, strict=True):
        spot.x = (a + b) / 2


def _distance(a: Spot, b: Spot) -> float:
    return (a.width + b.width) / 2 + GAP_X


def _text_width(text: str) -> float:
    return 6.9 * len(text)


# -- paint -------------------------------------------------------------------------------------------------------------
def _box(spot: Spot) -> str:
    assert spot.box is not None
    box = spot.box
    lines = [f'<tspan class="op" x="{spot.x:.1f}" dy="{LINE}">{escape(box.title)}</tspan>']
    for line in box.lines:
        kind = ' class="module"' if line == box.module else ""
        lines.append(f'<tspan{kind} x="{spot.x:.1f}" dy="{LINE}">{escape(line)}</tspan>')
    colour = COLOURS.get(box.family, COLOURS[""])
    return (
        f'<rect class="box" x="{spot.left:.1f}" y="{spot.y:.1f}" width="{spot.width:.1f}" height="{spot.height:.1f}" '
        f'rx="4" fill="{colour}"/><text text-anchor="middle" y="{spot.y + PAD - 2:.1f}">{"".join(lines)}</text>'
    )


def _curve(path: list[Spot]) -> str:
    """From the lower edge of the first to the upper edge of the last, straight down past the layers between."""
    text = [f"M{path[0].x:.1f} {path[0].y + path[0].height:.1f}"]
    for a, b in pairwise(path):
        half = (a.y + a.height + b.y) / 2
        text.append(f"C{a.x:.1f} {half:.1f} {b.x:.1f} {half:.1f} {b.x:.1f} {b.y:.1f}")
        if b.box is None:
            text.append(f"V{b.y + b.height:.1f}")
    x, y = path[-1].x, path[-1].y
    head = f"M{x - 3.5:.1f} {y - 6:.1f}L{x:.1f} {y:.1f}L{x + 3.5:.1f} {y - 6:.1f}"
    return f'<path class="edge" d="{" ".join(text)} {head}"/>'


def _groups(graph: Graph, spots: list[Spot]) -> tuple[list[str], float]:
    """A frame around each module of several boxes, unless another box would lie inside the frame; and how far to the
    right they reach. Outermost and folded ones have a label.
    """
    members: dict[str, list[Spot]] = {}
    for spot in spots:
        assert spot.box is not None
        parts = spot.box.module.split(".")
        for depth in range(1, len(parts) + 1):
            members.setdefault(".".join(parts[:depth]), []).append(spot)
    found, edge = [], 0.0
    for module, own in sorted(members.items()):
        if not module or len(own) < 2 or len(own) == len(spots):
            continue
        room = 5.0 + 4.0 * (_deepest(members, module) - module.count("."))
        box = _frame(own, room)
        if not any(_inside(s, box) for s in spots if s not in own):
            label = _label(module, graph.folded.get(module, 1))
            found.append(_group(label, module.count("."), box))
            edge = max(edge, box[2] + 4 + _text_width(label))
    return found, edge


def _deepest(members: dict[str, list[Spot]], module: str) -> int:
    """How many levels of modules with frames lie in one."""
    return max(m.count(".") for m, own in members.items() if len(own) > 1 and f"{m}.".startswith(f"{module}."))


def _frame(own: list[Spot], room: float) -> tuple[float, float, float, float]:
    left, right = min(s.left for s in own) - room, max(s.left + s.width for s in own) + room
    return left, min(s.y for s in own) - room, right, max(s.y + s.height for s in own) + room


def _inside(spot: Spot, frame: tuple[float, float, float, float]) -> bool:
    left, top, right, bottom = frame
    return spot.left < right and spot.left + spot.width > left and spot.y < bottom and spot.y + spot.height > top


def _label(module: str, count: int) -> str:
    """What a frame says: nothing where it is one of many inside another."""
    if count == 1:
        return "" if "." in module else module
    return f"{module} to {int(module.rpartition('.')[2]) + count - 1}: {count} times"


def _group(label: str, depth: int, frame: tuple[float, float, float, float]) -> str:
    left, top, right, bottom = frame
    return (
        f'<rect class="group" x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" height="{bottom - top:.1f}" '
        f'rx="6"/><text class="label" x="{right + 4:.1f}" y="{top + 10 + LINE * depth:.1f}">{escape(label)}</text>'
    )
