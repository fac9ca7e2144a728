"""Drawings of graphs as SVG: the neighbourhood of a node, and nodes by their vectors in the plane."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

Array = np.ndarray
COLOURS = (
    "#3366cc", "#dc7f18", "#2c9c5a", "#b5386e", "#7b52ab", "#8a6d3b", "#159aa8", "#d64545", "#7a9a1e", "#5c6f86",
)  # fmt: skip
SIDE, MARGIN, LINE = 460, 26, 16
NODES, POINTS = 60, 3000
ROUNDS = 200
FAR = 0.005  # share of the points on each side


def ego_network(
    indptr: Array,
    indices: Array,
    node: int,
    *,
    groups: Array | None = None,
    classes: Sequence[Any] = (),
    names: Any = (),
    title: str = "",
) -> str:
    """The node, its neighbours, theirs, and the edges between all of these; at most `NODES` of them.

    groups  of the nodes, int [N] (-1: none), whose colours a legend explains by `classes`
    """
    nodes = _neighbourhood(indptr, indices, node)
    source, target = _inside(indptr, indices, nodes)
    at = _fit(spring_layout(len(nodes), source, target, centre=0))
    parts = [_line(at[a], at[b]) for a, b in zip(source, target, strict=True)]
    for place, each in enumerate(nodes):
        group = -1 if groups is None else int(groups[each])
        name = str(names[each]) if len(names) else str(each)
        parts.append(_dot(at[place], 9 if place == 0 else 5, _colour(group), name, ring=place == 0))
        if place == 0 or len(nodes) <= 25:
            parts.append(_text(at[place, 0] + 8, at[place, 1] - 7, name))
    used = sorted({int(groups[each]) for each in nodes if groups[each] >= 0}) if groups is not None else []
    return _svg(parts, [(classes[g], _colour(g)) for g in used if g < len(classes)], title)


def scatter(points: Array, groups: Array, classes: Sequence[Any], *, names: Any = (), title: str = "") -> str:
    """Points [N, 2] in the colours of their groups int [N] (-1: grey); of many, `POINTS` spread evenly over them. The
    few that lie far out are drawn at the edge, so that the others have room."""
    chosen = np.arange(len(points)) if len(points) <= POINTS else np.arange(POINTS) * len(points) // POINTS
    at = _fit(np.clip(points, *np.quantile(points, [FAR, 1 - FAR], axis=0)) if len(points) else points)
    parts = [_dot(at[i], 2.4, _colour(int(groups[i])), str(names[i]) if len(names) else str(i)) for i in chosen]
    used = sorted({int(g) for g in groups if g >= 0})
    return _svg(parts, [(classes[g], _colour(g)) for g in used if g < len(classes)], title)


def principal_plane(vectors: Array) -> Array:
    """[N, C] -> [N, 2]: the two directions in which centred vectors vary most (principal components); zeros where there
    are fewer than two."""
    centred = np.asarray(vectors, np.float64) - np.mean(vectors, axis=0, dtype=np.float64)
    values, directions = np.linalg.eigh(centred.T @ centred)
    first = directions[:, np.argsort(-values)[:2]]
    first = first * np.where(first.sum(0) < 0, -1, 1)  # the sign is free; so it is the same everywhere
    return np.pad(centred @ first, ((0, 0), (0, 2 - first.shape[1])))


def spring_layout(
    n: int, source: Sequence[int], target: Sequence[int], *, centre: int | None = None, seed: int = 0
) -> Array:
    """Places [n, 2] of nodes: edges pull with d^2 / k, all nodes push with k^2 / d, steps shrink (Fruchterman &
    Reingold, "Graph drawing by force-directed placement", Software 21(11), 1991)."""
    at = np.random.default_rng(seed).normal(size=(n, 2)) * 0.3
    k, heat = 1.0 / np.sqrt(max(n, 1)), 0.1
    joined = np.zeros((n, n), bool)
    joined[source, target] = joined[target, source] = True
    np.fill_diagonal(joined, False)
    for round_ in range(ROUNDS):
        away = at[:, None] - at[None]
        distance = np.maximum(np.sqrt((away**2).sum(-1)), 1e-3)
        force = k * k / distance**2 - joined * distance / k
        np.fill_diagonal(force, 0)
        move = (away * force[..., None]).sum(1)
        length = np.maximum(np.sqrt((move**2).sum(-1, keepdims=True)), 1e-9)
        at = at + move / length * np.minimum(length, heat * (1 - round_ / ROUNDS))
        if centre is not None:
            at = at - at[centre]
    return at


def _neighbourhood(indptr: Array, indices: Array, node: int) -> list[int]:
    """The node, then its neighbours, then theirs, as many as are drawn."""
    found, edge = [node], [node]
    for _ in range(2):
        near = [int(other) for each in edge for other in indices[indptr[each] : indptr[each + 1]]]
        edge = [other for other in dict.fromkeys(near) if other not in set(found)][: NODES - len(found)]
        found += edge
    return found


def _inside(indptr: Array, indices: Array, nodes: Sequence[int]) -> tuple[list[int], list[int]]:
    """The edges between nodes by their places, whatever their direction, each once."""
    place = {node: i for i, node in enumerate(nodes)}
    pairs = {
        (min(i, place[int(other)]), max(i, place[int(other)]))
        for i, node in enumerate(nodes)
        for other in indices[indptr[node] : indptr[node + 1]]
        if int(other) in place and int(other) != node
    }
    return [a for a, _ in sorted(pairs)], [b for _, b in sorted(pairs)]


def _fit(points: Array) -> Array:
    """Points in pixels."""
    low, high = points.min(0), points.max(0)
    return MARGIN + (points - low) / np.maximum(high - low, 1e-9) * (SIDE - 2 * MARGIN)


def _colour(group: int) -> str:
    return "#9aa3ad" if group < 0 else COLOURS[group % len(COLOURS)]


def _line(a: Array, b: Array) -> str:
    return f'<line x1="{a[0]:.1f}" y1="{a[1]:.1f}" x2="{b[0]:.1f}" y2="{b[1]:.1f}" stroke="#8887" stroke-width="1"/>'


def _dot(at: Array, radius: float, colour: str, name: str, *, ring: bool = False) -> str:
    border = ' stroke="#222" stroke-width="1.6"' if ring else ""
    mark = f'<circle cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="{radius:g}" fill="{colour}"{border}>'
    return f"{mark}<title>{escape(name)}</title></circle>"


def _text(x: float, y: float, text: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'


def _svg(parts: Sequence[Any], legend: Sequence[tuple[str, str]], title: str) -> str:
    """The drawing, with its title above and its legend below."""
    columns = 3 if max((len(name) for name, _ in legend), default=0) <= 18 else 2
    top, rows = (LINE + 6 if title else 0), -(-len(legend) // columns)
    height = top + SIDE + rows * LINE
    head = _text(MARGIN, LINE, title) if title else ""
    marks = []
    for number, (name, colour) in enumerate(legend):
        x, y = MARGIN + number % columns * (SIDE - MARGIN) // columns, top + SIDE + number // columns * LINE
        marks.append(f'<circle cx="{x}" cy="{y}" r="5" fill="{colour}"/>{_text(x + 9, y + 4, name[:32])}')
    style = "<style>text{font:11px system-ui,sans-serif;fill:currentColor}</style>"
    body = f'<g transform="translate(0 {top})">{"".join(parts)}</g>'
    return (
        f'<svg viewBox="0 0 {SIDE} {height}" role="img" xmlns="http://www.w3.org/2000/svg">'
        f"{style}{head}{body}{''.join(marks)}</svg>"
    )
