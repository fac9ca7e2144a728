"""Answers of combinatorial problems as SVG: a graph with its cut, a round trip through places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pdl_quantum.problems.base import BinaryProblem
from pdl_quantum.problems.maxcut import MaxCut
from pdl_quantum.problems.tsp import TSP
from pdl_quantum.steps.cuts import SIDES, circle, cut, in_pixels, line, node, svg


def picture(problem: BinaryProblem, bits: Any) -> str | None:
    """A drawing of a bit string's answer, for problems that have one."""
    if isinstance(problem, MaxCut):
        graph = problem.graph
        edges = [(int(a), int(b), float(w)) for (a, b), w in zip(graph.pairs, graph.weights, strict=True)]
        return cut([graph.name(q) for q in range(graph.n)], edges, np.asarray(bits).astype(int).tolist())
    if isinstance(problem, TSP) and bool(problem.valid(bits)):
        return tour(problem, problem.tour(bits))
    return None


def tour(problem: TSP, order: Sequence[int]) -> str:
    """The cities and the way through them: at their places, if these are known, else on a circle."""
    n = problem.num_cities
    at = in_pixels(circle(n) if problem.places is None else problem.places)
    ends = zip(order, [*order[1:], order[0]], strict=True)
    names = [problem.names[v] if problem.names else str(v) for v in range(n)]
    parts = [line(at[a], at[b], True, f"{names[a]} - {names[b]}: {problem.distances[a, b]:.4g}") for a, b in ends]
    parts += [node(at[v], names[v], SIDES[v == order[0]]) for v in range(n)]
    return svg(parts, f"A tour of {problem.length(order):.4g}")
