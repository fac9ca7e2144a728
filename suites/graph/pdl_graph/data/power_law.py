"""Generated graphs, as large as wanted, whose degrees follow a power law and whose labels neighbourhoods predict."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from pdl.data.dataset import StandIn
from pdl.hints import Range
from pdl_graph.data.base import NodeData
from pdl_graph.graph import Graph

SHARES = {"train": 0.1, "val": 0.02, "test": 0.02}
_PIECE = 1 << 20


class PowerLaw(NodeData):
    """Nodes of a graph drawn from a seed: an undirected Chung-Lu graph (Annals of Combinatorics 6, 2002) with classes.

    The chance of a node to be an end of an edge is in proportion to (rank + 1)^(-1 / (exponent - 1)), so that the
    number of nodes with degree d falls as d^-exponent. With the chance `within` the other end has the class of the
    first. Features are N(0, 1) plus `signal` times a vector of the class, of length sqrt(features), so a node's own
    tell little of its class, and the mean over its neighbours much.

    nodes      N, of which a tenth are for training, a fiftieth each for val and test
    edges      E, both directions counted; none joins a node to itself, some pairs are joined more than once
    features   numbers of a node;    classes  how many there are, of equal size
    split      train, val, test; None: all nodes
    exponent  of the distribution of degrees
    seed      of the graph, its features and splits
    """

    def __init__(
        self,
        split: Literal["train", "val", "test"] | None = None,
        *,
        nodes: Annotated[int, Range(2)] = 1_000_000,
        edges: Annotated[int, Range(0)] = 20_000_000,
        features: Annotated[int, Range(1)] = 64,
        classes: Annotated[int, Range(2)] = 16,
        exponent: Annotated[float, Range(above=2)] = 2.5,
        within: Annotated[float, Range(0, 1)] = 0.6,
        signal: Annotated[float, Range(0)] = 0.15,
        seed: int = 0,
    ) -> None:
        super().__init__(_draw(nodes, edges, features, classes, exponent, within, signal, seed), split)

    @classmethod
    def stand_in(cls, folder: Path, settings: Mapping[str, Any]) -> StandIn:
        """A small one, from which as much can be learned."""
        return StandIn({"nodes": 4000, "edges": 80_000}, "a graph of 4,000 nodes, drawn as the large one is")


@lru_cache(maxsize=2)
def _draw(
    nodes: int, edges: int, features: int, classes: int, exponent: float, within: float, signal: float, seed: int
) -> Graph:
    rng = np.random.default_rng(seed)
    node = rng.permutation(nodes).astype(np.int32)  # the node of each rank; ranks r, r + classes, ... are one class
    y = np.empty(nodes, np.int64)
    y[node] = np.arange(nodes) % classes
    ends = np.empty((2, edges // 2), np.int32)
    for begin in range(0, edges // 2, _PIECE):
        piece = ends[:, begin : begin + _PIECE]
        piece[...] = node[_pairs(rng, piece.shape[1], nodes, classes, exponent, within)]
    x = rng.standard_normal((nodes, features), dtype=np.float32)
    centre = rng.choice(np.array([-signal, signal], np.float32), (classes, features))
    for begin in range(0, nodes, _PIECE):
        x[begin : begin + _PIECE] += centre[y[begin : begin + _PIECE]]
    order = rng.permutation(nodes)
    cuts = np.cumsum([0, *(max(1, int(share * nodes)) for share in SHARES.values())])
    masks = {name: np.zeros(nodes, bool) for name in SHARES}
    for mask, a, b in zip(masks.values(), cuts[:-1], cuts[1:], strict=True):
        mask[order[a:b]] = True
    return Graph.from_edges(ends[0], ends[1], nodes, directed=False, x=x, y=y, masks=masks)


def _pairs(rng: np.random.Generator, n: int, nodes: int, classes: int, exponent: float, within: float) -> np.ndarray:
    """Ranks of the two ends of n edges, int64 [2, n], none to itself."""
    rank = _ranks(rng.random((2, n)), nodes, exponent)
    same = rng.random(n) < within
    near = rank[1] - rank[1] % classes + rank[0] % classes  # the rank next to it in the class of the first
    rank[1] = np.where(same & (near < nodes), near, rank[1])
    itself = rank[0] == rank[1]
    other = rank[1] + classes
    rank[1] = np.where(itself, np.where(other < nodes, other, rank[1] % classes), rank[1])
    rank[1] = np.where(rank[0] == rank[1], (rank[1] + 1) % nodes, rank[1])
    return rank


def _ranks(u: np.ndarray, nodes: int, exponent: float) -> np.ndarray:
    """Ranks from uniform numbers: density (r + 1)^-a on [0, nodes), a = 1 / (exponent - 1), by its inverse."""
    b = 1 - 1 / (exponent - 1)
    x = ((1 + nodes) ** b - 1) * u + 1
    return np.minimum((x ** (1 / b) - 1).astype(np.int64), nodes - 1)
