"""Scores of pairs of nodes from the message graph alone, without learning: what a model should beat.

Liben-Nowell & Kleinberg, "The link-prediction problem for social networks" (JASIST 2007), describes all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import pdl
from pdl_graph.data.pairs import member
from pdl_graph.graph import Graph
from pdl_graph.link.loader import split_of
from pdl_graph.link.metrics import link_metrics
from pdl_graph.ranges import ranges

Array = np.ndarray
DAMPING, STEPS, BLOCK = 0.85, 12, 256  # of PageRank: 0.85 ** 12 of the walks are cut short
BUDGET = 4e10  # products: above, PageRank is left out


def baselines(dataset: Any, ks: Sequence[int]) -> dict[str, dict[str, float]]:
    """Metrics of each method on the pairs of an `EdgeSplit`."""
    split, rows = split_of(dataset)
    pairs, labels = split.pairs, split.targets
    if rows is not None:
        pairs, labels = pairs[rows], labels[rows]
    found = {}
    for name, scores in heuristics(split.graph, pairs).items():
        metrics = link_metrics(ks)
        next(iter(metrics.values())).scores.update(scores, labels)  # type: ignore[attr-defined]
        found[name] = {key: float(metric.compute()) for key, metric in metrics.items()}
    return found


def heuristics(graph: Graph, pairs: Array) -> dict[str, Array]:
    """Scores float64 [P] of pairs [P, 2] by each method."""
    rare = 1 / np.log(np.maximum(graph.in_degree(), 2))  # who is shared has two edges
    common, adamic = shared_neighbours(graph, pairs, np.stack([np.ones_like(rare), rare]))
    made = {
        "common neighbours": common,
        "Adamic-Adar": adamic,
        "preferential attachment": np.prod(graph.in_degree()[pairs].astype(np.float64), axis=1),
    }
    sources = len(np.unique(pairs))
    if STEPS * float(sources) * max(graph.num_edges, 1) <= BUDGET:
        made["PageRank"] = personalised_pagerank(graph, pairs)
    return made


def shared_neighbours(graph: Graph, pairs: Array, weights: Array, *, at_once: int = 1 << 22) -> Array:
    """Sums over the nodes with edges into both of a pair, of each row of `weights` [K, N]: float64 [K, P]."""
    n = graph.num_nodes
    into = _each_once(graph)  # numbers target * N + source
    start = np.searchsorted(into, np.arange(n + 1) * n)
    degree = np.diff(start)[pairs]
    rows, few = np.arange(len(pairs)), np.argmin(degree, axis=1)
    small, large, counts = pairs[rows, few], pairs[rows, 1 - few], degree[rows, few]
    found = np.zeros((len(weights), len(pairs)))
    ends = np.cumsum(counts)
    cuts = np.searchsorted(ends, np.arange(at_once, ends[-1] if len(ends) else 0, at_once))
    for part in np.split(np.arange(len(pairs)), cuts):
        pair = np.repeat(part, counts[part])
        middle = into[ranges(start[small[part]], counts[part])] % n
        both = member(into, large[pair] * n + middle)
        for row, weight in zip(found, weights, strict=True):
            row += np.bincount(pair[both], weight[middle[both]], minlength=len(pairs))
    return found


def personalised_pagerank(graph: Graph, pairs: Array) -> Array:
    """Where walks that begin at one node of a pair end at the other, both ways added (rooted PageRank): float64 [P]."""
    weight = np.float32(DAMPING) / np.maximum(graph.out_degree(), 1).astype(np.float32)
    adjacency, total = graph.adjacency, np.zeros(len(pairs))
    for source, target in ((pairs[:, 0], pairs[:, 1]), (pairs[:, 1], pairs[:, 0])):
        roots, number = np.unique(source, return_inverse=True)
        for begin in range(0, len(roots), BLOCK):
            some = roots[begin : begin + BLOCK]
            start = np.zeros((graph.num_nodes, len(some)), np.float32)
            start[some, np.arange(len(some))] = 1 - np.float32(DAMPING)
            x = start
            for _ in range(STEPS):
                x = pdl.spmm(adjacency, x * weight[:, None]).data + start
            mine = np.flatnonzero((number >= begin) & (number < begin + BLOCK))
            total[mine] += x[target[mine], number[mine] - begin]
    return total


def _each_once(graph: Graph) -> Array:
    """target * N + source of every edge that joins two nodes, ascending, int64."""
    source, target = graph.edges()
    apart = source != target
    return np.unique(target[apart].astype(np.int64) * graph.num_nodes + source[apart])
