"""Graphs with a cut as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from pdl.dtype import Array

SIDE, MARGIN, RADIUS = 420, 30, 11
SIDES = ("#3366cc", "#dc7f18")
ROUNDS = 300


def cut(names: Sequence[str], edges: Sequence[tuple[int, int, float]], side: Sequence[int]) -> str:
    """The graph: nodes in the colour of their side (0 or 1), edges between the sides drawn through, the others thin.

    names   of the nodes;    edges   (node, node, weight)
    """
    n, pairs = len(names), np.array([edge[:2] for edge in edges], np.int64).reshape(-1, 2)
    at = in_pixels(layout(n, pairs))
    parts, total = [], 0.0
    for a, b, weight in edges:
        across = side[a] != side[b]
        total += weight * across
        parts.append(line(at[a], at[b], across, f"{names[a]} - {names[b]}" + ("" if weight == 1 else f": {weight:g}")))
    parts += [node(at[q], names[q], SIDES[side[q]]) for q in range(n)]
    return svg(parts, f"A cut of {total:g}")


def layout(n: int, pairs: Array) -> Array:
    """Places [n, 2] of nodes, from a circle on: edges pull with d^2 / k, nodes push with k^2 / d, steps shrink
    (Fruchterman & Reingold, Software 21(11), 1991)."""
    at, k = circle(n), 1.0 / np.sqrt(n)
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


def circle(n: int) -> Array:
    """Places [n, 2] on a circle of radius 1, clockwise from the top."""
    turn = 2 * np.pi * np.arange(n) / n
    return np.stack([np.sin(turn), -np.cos(turn)], 1)


def in_pixels(points: Array) -> Array:
    """Points [n, 2] in the pixels of the drawing."""
    low, high = points.min(0), points.max(0)
    scale = (SIDE - 2 * MARGIN) / max(float((high - low).max()), 1e-9)
    return (points - (low + high) / 2) * scale + SIDE / 2


def line(a: Array, b: Array, strong: bool, title: str) -> str:
    """An edge between two places."""
    style = (
        'stroke="currentColor" stroke-width="2"' if strong else 'stroke="#8889" stroke-width="1" stroke-dasharray="4 4"'
    )
    ends = f'x1="{a[0]:.1f}" y1="{a[1]:.1f}" x2="{b[0]:.1f}" y2="{b[1]:.1f}"'
    return f"<line {ends} {style}><title>{escape(title)}</title></line>"


def node(at: Array, name: str, colour: str) -> str:
    """A node with the first letters of its name."""
    shown = escape(name if len(name) <= 3 else name[:3])
    return (
        f'<circle cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="{RADIUS}" fill="{colour}"><title>{escape(name)}</title></circle>'
        f'<text x="{at[0]:.1f}" y="{at[1] + 3.5:.1f}" text-anchor="middle" style="fill:#fff">{shown}</text>'
    )


def svg(parts: Sequence[str], title: str) -> str:
    """The drawing."""
    style = "<style>text{font:10px system-ui,sans-serif}</style>"
    body = f"<title>{escape(title)}</title>{style}{''.join(parts)}"
    return f'<svg viewBox="0 0 {SIDE} {SIDE}" width="{SIDE}" role="img" xmlns="http://www.w3.org/2000/svg">{body}</svg>'
