"""What is drawn from lists of neighbours: blocks, walks, strangers; and parts of a graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pdl.errors import ShapeError, UsageError
from pdl.graphs import given
from pdl.graphs.rows import rows_of
from pdl.kernels import graph as kernels
from pdl.kernels import sampling

Array = np.ndarray[Any, Any]

_LISTED = 8192  # nodes up to which pairs that are hard to hit are listed
_BLOCKS, _WALKS, _STRANGERS, _PAIRS = range(4)  # draws of one kind say nothing about those of another


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
    """The lists of neighbours of a graph, checked once, and what is drawn from them.

    indptr, indices  as above; memory maps are read in place
    weights          [E], finite and not negative: draws are in proportion to them; without, all are as likely
    columns          how many nodes there are to be on a list, N if not given
    seed             of everything drawn
    """

    def __init__(
        self, indptr: Array, indices: Array, *, weights: Array | None = None, columns: int | None = None, seed: int = 0
    ) -> None:
        self.indptr = np.ascontiguousarray(indptr, np.int64)
        self.indices = given.int32s(indices)
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
        """Neighbours drawn hop by hop, a block for each layer of a net, in the order in which layers run: the last
        block's receiving nodes are `nodes` (int [R], each once), and each block receives for the one behind it.

        fanouts   how many neighbours a node gets in each hop, the hop next to `nodes` first; -1: all
        replace   with repetition: then every node with neighbours gets exactly that many

        What a node gets depends on (seed, epoch, step, hop) and the node, not on its company.
        """
        numbers, found = kernels.Numbers(), []
        fanouts = [given.whole("blocks: a fanout", each, -1) for each in fanouts]
        ids = given.int32s(nodes)
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
            layer._demand_square("walks")
        length = given.whole("walks: length", length)
        if (p != 1 or q != 1) and not all(layer.ascending for layer in layers):
            raise UsageError(
                "walks with p or q look neighbours up: lists must be ascending; see from_edges(ascending=)"
            )
        starts = given.int32s(starts)
        out = np.empty((len(starts), length + 1), np.int32)
        numbers = np.arange(len(starts)) if streams is None else np.ascontiguousarray(streams, np.int64)
        lists = [(layer.indptr, layer.indices, *layer._weights.values()) for layer in layers]
        kernels.walks(out, lists, starts, numbers, key=self._key(_WALKS, epoch), p=p, q=q)
        return out

    def _demand_square(self, name: str) -> None:
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

    # -- pairs that are no edges ---------------------------------------------------------------------------------------
    def strangers(
        self,
        nodes: Array,
        k: int,
        *,
        epoch: int = 0,
        step: int = 0,
        streams: Array | None = None,
        chances: Array | None = None,
        self_too: bool = False,
    ) -> Array:
        """k nodes for each of `nodes` (int [R]) that are not on its list, with repetition: int32 [R, k].

        streams    the numbers of the rows' random streams, int64 [R]; 0, 1, ... if not given
        chances    float [columns], what a node's chance is in proportion to, such as degrees ** 0.75
        self_too   whether a node may be its own stranger

        Raises UsageError where a node is joined to all.
        """
        if not self.ascending:
            raise UsageError(
                "strangers: neighbours are looked up, so lists must be ascending; see from_edges(ascending=)"
            )
        nodes = given.int32s(nodes)
        out = np.empty((len(nodes), given.whole("strangers: k", k)), np.int32)
        numbers = np.arange(len(nodes)) if streams is None else np.ascontiguousarray(streams, np.int64)
        tables = {} if chances is None else self._tables(chances)
        kernels.strangers(
            out, self.indptr, self.indices, nodes, numbers, key=self._key(_STRANGERS, epoch, step),
            columns=self.columns, self_too=self_too, **tables,
        )  # fmt: skip
        return out

    def _tables(self, chances: Array) -> dict[str, Array]:
        weight = np.asarray(chances, np.float64)
        given.demand_chances("strangers: chances", weight, self.columns)
        weight = weight / weight.sum()
        keep, other = np.empty(self.columns), np.empty(self.columns, np.int64)
        sampling.alias(keep, other, weight)
        return {"keep": keep, "other": other, "weight": weight}

    def non_edges(self, count: int, *, directed: bool = False, epoch: int = 0) -> tuple[Array, Array]:
        """`count` pairs (source, target) that are no edges, each once, drawn evenly from all such: int32 [count] each.

        directed   False: pairs are unordered, source < target, and joined in neither direction. No node is joined to
                   itself in any case.

        Raises UsageError where there are not so many.
        """
        if not self.ascending or self.columns != self.num_nodes:
            raise UsageError("non_edges needs ascending lists of the graph's own nodes; see from_edges(ascending=)")
        n, found, count = self.num_nodes, np.empty(0, np.int64), given.whole("non_edges: count", count)
        for step in range(64 if n > 1 and count else 0):
            more = self._random(2 * (count - len(found)) + 16, n * (n - 1), epoch, step)
            source, target = more // (n - 1), more % (n - 1)
            target += target >= source
            if not directed:
                source, target = np.minimum(source, target), np.maximum(source, target)
            free = ~self.joined(source, target)
            if not directed:
                free &= ~self.joined(target, source)
            pairs = np.concatenate([found, (source * n + target)[free]])
            found = pairs[np.sort(np.unique(pairs, return_index=True)[1])][:count]
            if len(found) == count:
                break
        if len(found) < count and n <= _LISTED:
            found = self._free(directed)
            if len(found) >= count:
                rng = np.random.Generator(np.random.PCG64(self._key(_PAIRS, epoch)))
                found = rng.choice(found, count, replace=False)
        if len(found) < count:
            raise UsageError(f"non_edges: {count} pairs that are no edges were not found; {len(found)} were")
        return (found // n).astype(np.int32), (found % n).astype(np.int32)

    def _free(self, directed: bool) -> Array:
        """All pairs that are no edges, as source * N + target."""
        n = self.num_nodes
        free = np.ones((n, n), bool)
        np.fill_diagonal(free, False)
        free[rows_of(self.indptr), self.indices] = False
        return np.flatnonzero(free if directed else np.triu(free & free.T))

    def _random(self, count: int, below: int, epoch: int, step: int) -> Array:
        rng = np.random.Generator(np.random.PCG64(self._key(_PAIRS, epoch, step)))
        return rng.integers(0, max(1, below), count)

    def joined(self, source: Array, target: Array) -> Array:
        """Whether target[i] is on the list of source[i], bool; lists must be ascending."""
        key = self._pairs
        wanted = np.asarray(source, np.int64) * self.columns + np.asarray(target, np.int64)
        at = np.searchsorted(key, wanted)
        return (at < len(key)) & (key[np.minimum(at, len(key) - 1)] == wanted) if len(key) else np.zeros(len(at), bool)

    @cached_property
    def _pairs(self) -> Array:
        return rows_of(self.indptr).astype(np.int64) * self.columns + self.indices

    # -- parts ---------------------------------------------------------------------------------------------------------
    def induced(self, nodes: Array) -> Subgraphs:
        """The part with these nodes (each once, numbered in this order) and all entries between them."""
        nodes = given.int32s(nodes)
        return self.around(nodes[None], hops=0)

    def around(self, seeds: Array | Sequence[Array], *, hops: int) -> Subgraphs:
        """A part for each row of seeds (int [P, S], or P arrays): all within `hops` steps of one of them and every
        entry between two such nodes. With two seeds this is the enclosing subgraph of a pair (SEAL, arXiv 1802.09691).
        """
        self._demand_square("around")
        rows = [np.asarray(row) for row in seeds]
        lengths = list(map(len, rows))
        flat = given.int32s(np.concatenate(rows or [np.empty(0, np.int32)]))
        start = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        size, nodes, far, degree, local, edges = kernels.enclosing(
            self.indptr, self.indices, start, flat, hops=hops
        )  # fmt: skip
        node_start = np.concatenate([[0], np.cumsum(size)])
        indptr = np.concatenate([[0], np.cumsum(degree)])
        offsets = np.repeat(node_start[:-1], np.diff(indptr[node_start]))
        return Subgraphs(node_start, indptr, (local + offsets).astype(np.int32), nodes, far, edges)


__all__ = ["Block", "Neighbours", "Subgraphs"]
