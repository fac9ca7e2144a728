"""Sampling from lists of neighbours: blocks, random walks, non-neighbours; and subgraphs.

NumPy in, NumPy out. A graph is its lists of neighbours: `indptr` int64 [N + 1] and `indices` int32 [E], those of node v
being indices[indptr[v]:indptr[v + 1]]; `pdl.ops.CSR` and `pdl_graph.Graph` have them by these names. Which direction an
edge has is the caller's business: walks and samples go from v to the ids on its list.

    near = Neighbours(graph.indptr, graph.indices, seed=0)
    outer, inner = near.blocks(nodes, (10, 25), epoch=0, step=17)   # two hops, the outermost block first
    Neighbours(...).walks(starts, 80, epoch=0)                      # int32 [W, 81]

A sample is a function of (seed, epoch, step) and of its node, walk or row: any number of
threads gives the same, and a resumed run goes on as it would have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pdl.compressed import int32s, rows_of
from pdl.dtype import Array
from pdl.errors import ShapeError, UsageError
from pdl.kernels import graph as kernels
from pdl.kernels import sampling

_BLOCKS, _WALKS, _NEGATIVES = range(3)  # draws of one kind say nothing about those of another


@dataclass(frozen=True)
class Block:
    """Edges into some nodes from others: a rectangular piece of a graph, its nodes renumbered.

    indptr, indices  lists of the receiving nodes, the first `len(indptr) - 1` of `nodes`, with the numbers in `nodes`
                     of those that send: `CSR.from_rows(block.indptr, block.indices, len(block.nodes))`
    nodes            int32, which nodes of the graph these are: the receiving ones, then further senders as met
    edges            int64, the place of each edge in the graph's `indices`: edge_weight[block.edges]
    """

    indptr: Array
    indices: Array
    nodes: Array
    edges: Array


@dataclass(frozen=True)
class Subgraphs:
    """Parts of a graph side by side as one, nodes renumbered through all of them: part i has the nodes (and rows) from
    node_start[i] up to node_start[i + 1], its seeds first, then in the order met.

    indptr, indices  lists of all nodes, with entries that are nodes of the same part
    nodes            int32, which node of the graph each is;    hops  int32, how far from the nearest seed
    edges            int64, the place of each entry in the graph's `indices`
    """

    node_start: Array
    indptr: Array
    indices: Array
    nodes: Array
    hops: Array
    edges: Array

    @property
    def part(self) -> Array:
        """The part that each node belongs to, int32."""
        return rows_of(self.node_start)


class Neighbours:
    """The lists of neighbours of a graph, checked once, and samples from them.

    indptr, indices  as above; memory maps are read in place
    weights          [E], finite and not negative: draws are in proportion to them; without, all are as likely
    columns          how many nodes there are to be on a list, N if not given
    seed             of everything drawn
    """

    def __init__(
        self, indptr: Array, indices: Array, *, weights: Array | None = None, columns: int | None = None, seed: int = 0
    ) -> None:
        self.indptr = np.ascontiguousarray(indptr, np.int64)
        self.indices = int32s(indices)
        self.columns = len(self.indptr) - 1 if columns is None else columns
        self.seed = seed
        self.ascending = kernels.check(self.indptr, self.indices, self.columns)
        self._weights: dict[str, Array] = {}
        if weights is not None:
            weight = np.ascontiguousarray(weights, np.float64)
            sums = np.empty(len(weight))
            kernels.cumulate(sums, weight, self.indptr)
            self._weights = {"weight": weight, "sums": sums}

    @property
    def num_nodes(self) -> int:
        """N, the number of lists."""
        return len(self.indptr) - 1

    @property
    def degrees(self) -> Array:
        """How long each list is, int64 [N]."""
        return np.diff(self.indptr)

    def _key(self, *counts: int) -> int:
        made: int = kernels.key(self.seed & 0xFFFFFFFFFFFFFFFF, *counts)
        return made

    # -- neighbours ----------------------------------------------------------------------------------------------------
    def blocks(
        self, nodes: Array, fanouts: Sequence[int], *, epoch: int = 0, step: int = 0, replace: bool = False
    ) -> list[Block]:
        """Neighbours sampled hop by hop, a block for each layer of a net, in the order in which layers run: the last
        block's receiving nodes are `nodes` (int [R], each once), and each block receives for the one behind it.

        fanouts   how many neighbours a node gets in each hop, the hop next to `nodes` first; -1: all
        replace   with repetition: then every node with neighbours gets exactly that many

        What a node gets depends on (seed, epoch, step, hop) and the node, not on its company.
        """
        numbers, found = kernels.Numbers(), []
        fanouts = [count("blocks: a fanout", each, -1) for each in fanouts]
        ids = int32s(nodes)
        own = np.empty(len(ids), np.int32)
        numbers.add(own, ids)
        if len(ids) and own[-1] != len(ids) - 1:
            raise UsageError("blocks: some of the nodes are given more than once; np.unique tells them apart")
        for hop, fanout in enumerate(fanouts):
            key = self._key(_BLOCKS, epoch, step, hop)
            indptr, met, edges = kernels.neighbours(
                self.indptr, self.indices, ids, key=key, k=fanout, replace=replace and fanout >= 0, **self._weights
            )
            indices = np.empty(len(met), np.int32)
            numbers.add(indices, met)
            ids = numbers.nodes()
            found.append(Block(indptr, indices, ids, edges))
        return found[::-1]

    # -- walks ---------------------------------------------------------------------------------------------------------
    def walks(
        self,
        starts: Array,
        length: int,
        *,
        epoch: int = 0,
        p: float = 1.0,
        q: float = 1.0,
        streams: Array | None = None,
        along: Sequence[Neighbours] | None = None,
    ) -> Array:
        """Random walks of `length` steps: int32 [W, length + 1], -1 from where a walk has nowhere to go.

        starts    int [W]
        p, q      node2vec (Grover and Leskovec 2016, arXiv 1607.00653): having come from t, a step to t is 1/p, one to
                  a neighbour of t 1, and any other 1/q times as likely; drawn by rejection, from ascending lists.
                  Both 1 is DeepWalk (arXiv 1403.6652)
        streams   the numbers of the walks, int64 [W]; walk w of an epoch is a function of its number and start
        along     a metapath: step s goes along along[s % len(along)], such as `self.to_type(...)` in turn
        """
        layers = list(along) if along is not None else [self]
        for layer in layers:
            layer._check_square("walks")
        length = count("walks: length", length)
        if (p != 1 or q != 1) and not all(layer.ascending for layer in layers):
            raise UsageError("walks with p or q look neighbours up: lists must be ascending; see from_coo(ascending=)")
        starts = int32s(starts)
        out = np.empty((len(starts), length + 1), np.int32)
        numbers = np.arange(len(starts)) if streams is None else np.ascontiguousarray(streams, np.int64)
        lists = [(layer.indptr, layer.indices, *layer._weights.values()) for layer in layers]
        kernels.walks(out, lists, starts, numbers, key=self._key(_WALKS, epoch), p=p, q=q)
        return out

    def _check_square(self, name: str) -> None:
        """Where the next list is that of the node on this one, every node needs a list."""
        if self.columns > self.num_nodes:
            raise UsageError(f"{name}: lists name {self.columns} nodes, but only {self.num_nodes} have a list")

    def to_type(self, types: Array, wanted: int) -> Neighbours:
        """The same nodes with the entries whose node has types[node] == wanted: one step of a metapath."""
        types = np.asarray(types)
        if types.shape != (self.columns,):
            raise ShapeError(f"to_type: types {types.shape}; expected one for each of {self.columns} nodes")
        keep = types[self.indices] == wanted
        indptr = np.concatenate([[0], np.cumsum(keep)])[self.indptr]
        weights = self._weights["weight"][keep] if self._weights else None
        return Neighbours(indptr, self.indices[keep], weights=weights, columns=self.columns, seed=self.seed)

    # -- nodes that are no neighbours ----------------------------------------------------------------------------------
    def negatives(
        self,
        nodes: Array,
        k: int,
        *,
        epoch: int = 0,
        step: int = 0,
        streams: Array | None = None,
        weights: Array | None = None,
        include_self: bool = False,
    ) -> Array:
        """k nodes for each of `nodes` (int [R]) that are not on its list, with repetition: int32 [R, k].

        streams        the numbers of the rows' random streams, int64 [R]; 0, 1, ... if not given
        weights        float [columns], what nodes are drawn in proportion to, such as degrees ** 0.75
        include_self   whether a node may be drawn for itself

        Raises UsageError where a node is joined to all.
        """
        if not self.ascending:
            raise UsageError(
                "negatives: neighbours are looked up, so lists must be ascending; see from_coo(ascending=)"
            )
        nodes = int32s(nodes)
        out = np.empty((len(nodes), count("negatives: k", k)), np.int32)
        numbers = np.arange(len(nodes)) if streams is None else np.ascontiguousarray(streams, np.int64)
        tables = {} if weights is None else self._tables(weights)
        kernels.strangers(
            out, self.indptr, self.indices, nodes, numbers, key=self._key(_NEGATIVES, epoch, step),
            columns=self.columns, self_too=include_self, **tables,
        )  # fmt: skip
        return out

    def _tables(self, weights: Array) -> dict[str, Array]:
        weight = np.asarray(weights, np.float64)
        check_weights("negatives: weights", weight, self.columns)
        weight = weight / weight.sum()
        keep, other = np.empty(self.columns), np.empty(self.columns, np.int64)
        sampling.alias(keep, other, weight)
        return {"keep": keep, "other": other, "weight": weight}

    # -- parts ---------------------------------------------------------------------------------------------------------
    def induced_subgraph(self, nodes: Array) -> Subgraphs:
        """The part with these nodes (each once, numbered in this order) and all entries between them."""
        nodes = int32s(nodes)
        return self.enclosing_subgraphs(nodes[None], hops=0)

    def enclosing_subgraphs(self, seeds: Array | Sequence[Array], *, hops: int) -> Subgraphs:
        """A part for each row of seeds (int [P, S], or P arrays): all within `hops` steps of one of them and every
        entry between two such nodes. With two seeds this is the enclosing subgraph of a pair (SEAL, arXiv 1802.09691).
        """
        self._check_square("enclosing_subgraphs")
        rows = [np.asarray(row) for row in seeds]
        lengths = list(map(len, rows))
        flat = int32s(np.concatenate(rows or [np.empty(0, np.int32)]))
        start = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        size, nodes, far, degree, local, edges = kernels.enclosing(
            self.indptr, self.indices, start, flat, hops=hops
        )  # fmt: skip
        node_start = np.concatenate([[0], np.cumsum(size)])
        indptr = np.concatenate([[0], np.cumsum(degree)])
        offsets = np.repeat(node_start[:-1], np.diff(indptr[node_start]))
        return Subgraphs(node_start, indptr, (local + offsets).astype(np.int32), nodes, far, edges)


def count(name: str, value: Any, minimum: int = 0) -> int:
    """A whole number. UsageError, with its name, for anything else."""
    if not isinstance(value, int | np.integer) or value < minimum:
        raise UsageError(f"{name} is {value!r}; expected a whole number from {minimum} on")
    return int(value)


def check_weights(name: str, weights: Array, n: int) -> None:
    """UsageError unless these are n sampling weights: finite, not negative, not all 0."""
    if weights.shape != (n,) or not (np.isfinite(weights).all() and (weights >= 0).all() and weights.any()):
        raise UsageError(f"{name} must be {n} finite numbers, not negative and not all 0")
