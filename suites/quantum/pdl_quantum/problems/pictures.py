"""Answers of combinatorial problems as SVG: a graph with its cut, a round trip through places."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from pdl_quantum.problems.base import BinaryProblem
from pdl_quantum.problems.maxcut import MaxCut
from pdl_quantum.problems.tsp import TSP

Array = np.ndarray
SIDE, MARGIN, RADIUS = 420, 30, 11
SIDES = ("#3366cc", "#dc7f18")
ROUNDS = 300


def picture(problem: BinaryProblem, bits: Any) -> str | None:
    """The answer of a bit string drawn, where the problem can be."""
    if isinstance(problem, MaxCut):
        return cut(problem, bits)
    if isinstance(problem, TSP) and bool(problem.valid(bits)):
        return tour(problem, problem.tour(bits))
    return None


def cut(problem: MaxCut, bits: Any) -> str:
    """The graph: nodes in the colour of their side, edges between the sides drawn through, the others thin."""
    graph, side = problem.graph, np.asarray(bits).astype(int)
    at = _in_pixels(layout(graph.n, graph.pairs))
    parts = []
    for (a, b), weight in zip(graph.pairs.tolist(), graph.weights.tolist(), strict=True):
        told = f"{graph.name(a)} - {graph.name(b)}" + ("" if weight == 1 else f": {weight:g}")
        parts.append(_line(at[a], at[b], bool(side[a] != side[b]), told))
    parts += [_node(at[q], graph.name(q), SIDES[side[q]]) for q in range(graph.n)]
    return _svg(parts, f"A cut of {float(problem.value(bits)):g}")


def tour(problem: TSP, order: Sequence[int]) -> str:
    """The cities and the way through them: at their places, if these are known, else on a circle."""
    n = problem.num_cities
    at = _in_pixels(_circle(n) if problem.places is None else problem.places)
    ends = zip(order, [*order[1:], order[0]], strict=True)
    names = [problem.names[v] if problem.names else str(v) for v in range(n)]
    parts = [_line(at[a], at[b], True, f"{names[a]} - {names[b]}: {problem.distances[a, b]:.4g}") for a, b in ends]
    parts += [_node(at[v], names[v], SIDES[v == order[0]]) for v in range(n)]
    return _svg(parts, f"A tour of {problem.length(order):.4g}")


def layout(n: int, pairs: Array) -> Array:
    """Places [n, 2] of nodes, from a circle on: edges pull with d^2 / k, nodes push with k^2 / d, steps shrink
    (Fruchterman & Reingold, Software 21(11), 1991)."""
    at, k = _circle(n), 1.0 / np.sqrt(n)
    at = at + 0.01 * np.random.default_rng(0).normal(size=at.shape)  # out of balances that are none
    joined = np.zeros((n, n))
    joined[pairs[:, 0], pairs[:, 1]] = joined[pairs[:, 1], pairs[:, 0]] = 1
    for number in range(ROUNDS):
        apart = at[:, None] - at[None]
        far = np.sqrt((apart**2).sum(-1)) + np.eye(n)
        force = (k**2 / far - joined * far**2 / k) / far
        np.fill_diagonal(force, 0)
        move = (force[..., None] * apart).sum(1)
        length = np.sqrt((move**2).sum(1, keepdims=True)) + 1e-12
        at = at + move / length * np.minimum(length, 0.1 * (1 - number / ROUNDS))
    return at


def _circle(n: int) -> Array:
    turn = 2 * np.pi * np.arange(n) / n
    return np.stack([np.sin(turn), -np.cos(turn)], 1)


def _in_pixels(points: Array) -> Array:
    low, high = points.min(0), points.max(0)
    scale = (SIDE - 2 * MARGIN) / max(float((high - low).max()), 1e-9)
    return (points - (low + high) / 2) * scale + SIDE / 2


def _line(a: Array, b: Array, strong: bool, told: str) -> str:
    style = (
        'stroke="currentColor" stroke-width="2"' if strong else 'stroke="#8889" stroke-width="1" stroke-dasharray="4 4"'
    )
    ends = f'x1="{a[0]:.1f}" y1="{a[1]:.1f}" x2="{b[0]:.1f}" y2="{b[1]:.1f}"'
    return f"<line {ends} {style}><title>{escape(told)}</title></line>"


def _node(at: Array, name: str, colour: str) -> str:
    shown = escape(name if len(name) <= 3 else name[:3])
    return (
        f'<circle cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="{RADIUS}" fill="{colour}"><title>{escape(name)}</title></circle>'
        f'<text x="{at[0]:.1f}" y="{at[1] + 3.5:.1f}" text-anchor="middle" style="fill:#fff">{shown}</text>'
    )


def _svg(parts: Sequence[str], title: str) -> str:
    style = "<style>text{font:10px system-ui,sans-serif}</style>"
    body = f"<title>{escape(title)}</title>{style}{''.join(parts)}"
    return f'<svg viewBox="0 0 {SIDE} {SIDE}" width="{SIDE}" role="img" xmlns="http://www.w3.org/2000/svg">{body}</svg>'


__all__ = ["cut", "layout", "picture", "tour"]
