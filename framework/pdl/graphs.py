"""Structure of graphs: rows from edges, neighbours drawn, random walks, pairs that are no edges, subgraphs, page ranks.

NumPy in, NumPy out. A graph is its lists of neighbours: `indptr` int64 [N + 1] and `indices` int32 [E], those of node v
being indices[indptr[v]:indptr[v + 1]]; `pdl.ops.CSR` and `pdl_graph.Graph` have them by these names. Which direction an
edge has is the caller's business: walks and samples go from v to the ids on its list.

    near = Neighbours(graph.indptr, graph.indices, seed=0)
    outer, inner = near.blocks(nodes, (10, 25), epoch=0, step=17)   # two hops, the outermost block first
    Neighbours(...).walks(starts, 80, epoch=0)                      # int32 [W, 81]

What is drawn is a function of (seed, epoch, step) and of the node, walk or row that it is drawn for: any number of
threads gives the same, and a resumed run goes on as it would have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pdl.errors import ShapeError, UsageError
from pdl.kernels import graph as kernels
from pdl.kernels import sampling

Array = np.ndarray[Any, Any]

_BLOCKS, _WALKS, _STRANGERS, _PAIRS = range(4)  # draws of one kind say nothing about those of another


# -- rows from edges ---------------------------------------------------------------------------------------------------
def group(ids: Array, n: int) -> tuple[Array, Array]:
    """(indptr int64 [n + 1], order [E]): order[indptr[v]:indptr[v + 1]] are the places of v in `ids`, as they come.

    ids int [E] in [0, n); the order is int32 where that suffices, else int64. Time is linear: a parallel counting sort.
    """
    return _group(_integers(ids), n)


def _group(ids: Array, n: int, before: Array | None = None) -> tuple[Array, Array]:
    """`group`, where places with the same id keep the order `before`, a permutation: the kernel trusts it."""
    indptr, order = np.empty(n + 1, np.int64), np.empty(len(ids), _place(len(ids)))
    bad = kernels.group(order, indptr, ids, before=before)
    if bad >= 0:
        raise UsageError(f"id {ids[bad]} at place {bad} is outside [0, {n})")
    return indptr, order


def from_edges(
    row: Array, column: Array, shape: tuple[int, int], *, ascending: bool = False
) -> tuple[Array, Array, Array]:
    """(indptr, indices, order) of the lists with an entry for each pair (row[e], column[e]), repeated pairs too.

    order [E]   the place of each entry among the pairs: values v of the pairs become v[order]
    ascending   lists by id; otherwise, and among equal pairs, in the order given
    """
    row, column = _integers(row), _integers(column)
    if row.shape != column.shape or row.ndim != 1:
        raise ShapeError(f"edges need two columns of one length, got {row.shape} and {column.shape}")
    indptr, order = _group(row, shape[0], _group(column, shape[1])[1] if ascending else None)
    indices = column[order].astype(np.int32, copy=False)
    if not ascending and len(column) and not 0 <= int(column.min()) <= int(column.max()) < shape[1]:
        bad = int(((column < 0) | (column >= shape[1])).argmax())
        raise UsageError(f"id {column[bad]} at place {bad} is outside [0, {shape[1]})")
    return indptr, indices, order


def rows_of(indptr: Array) -> Array:
    """The row that each entry is in, int32 [E]."""
    indptr = np.ascontiguousarray(indptr, np.int64)
    row = np.empty(int(indptr[-1]), np.int32)
    kernels.expand(row, indptr)
    return row


def transpose(indptr: Array, indices: Array, columns: int) -> tuple[Array, Array, Array]:
    """(t_indptr int64 [columns + 1], t_indices int32 [E], t_edges [E]): the same entries by column, ascending by row,
    and the place that each has in `indices`."""
    indices = np.ascontiguousarray(indices, np.int32)
    t_indptr, t_edges = np.empty(columns + 1, np.int64), np.empty(len(indices), _place(len(indices)))
    t_indices = np.empty(len(indices), np.int32)
    bad = kernels.group(t_edges, t_indptr, indices, carried=t_indices, carry=rows_of(indptr))
    if bad >= 0:
        raise UsageError(f"id {indices[bad]} at place {bad} is outside [0, {columns})")
    return t_indptr, t_indices, t_edges


def coalesce(indptr: Array, indices: Array) -> tuple[Array, Array, Array]:
    """(indptr, indices, first): ascending lists with each id once, and the place of the first of each run of equals,
    so that values are added up by np.add.reduceat(values, first)."""
    new = np.ones(len(indices), bool)
    new[1:] = indices[1:] != indices[:-1]
    new[indptr[:-1][np.diff(indptr) > 0]] = True
    first = np.flatnonzero(new)
    return np.concatenate([[0], np.cumsum(new)])[indptr].astype(np.int64), indices[first], first


def components(source: Array, target: Array, n: int) -> tuple[Array, Array]:
    """(label int64 [n], tree bool [E]): the component of each node, whatever the direction of edges, numbered by their
    lowest nodes; and whether an edge joined two when all are taken in order, which makes a spanning forest."""
    source, target = _integers(source), _integers(target)
    wide = np.promote_types(source.dtype, target.dtype)
    label, tree = np.empty(n, np.int64), np.empty(len(source), np.uint8)
    kernels.components(label, tree, source.astype(wide, copy=False), target.astype(wide, copy=False))
    return label, tree.astype(bool)


# -- what is drawn -----------------------------------------------------------------------------------------------------
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
        self.indices = np.ascontiguousarray(indices, np.int32)
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
        ids = _nodes(nodes)
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
        if (p != 1 or q != 1) and not all(layer.ascending for layer in layers):
            raise UsageError(
                "walks with p or q look neighbours up: lists must be ascending; see from_edges(ascending=)"
            )
        starts = _nodes(starts)
        out = np.empty((len(starts), length + 1), np.int32)
        numbers = np.arange(len(starts)) if streams is None else np.ascontiguousarray(streams, np.int64)
        lists = [(layer.indptr, layer.indices, *layer._weights.values()) for layer in layers]
        kernels.walks(out, lists, starts, numbers, key=self._key(_WALKS, epoch), p=p, q=q)
        return out

    def to_type(self, types: Array, wanted: int) -> Neighbours:
        """The same nodes with the entries whose node has types[node] == wanted: one step of a metapath."""
        keep = np.asarray(types)[self.indices] == wanted
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
        nodes = _nodes(nodes)
        out = np.empty((len(nodes), k), np.int32)
        numbers = np.arange(len(nodes)) if streams is None else np.ascontiguousarray(streams, np.int64)
        tables = {} if chances is None else self._tables(chances)
        kernels.strangers(
            out, self.indptr, self.indices, nodes, numbers, key=self._key(_STRANGERS, epoch, step),
            columns=self.columns, self_too=self_too, **tables,
        )  # fmt: skip
        return out

    def _tables(self, chances: Array) -> dict[str, Array]:
        weight = np.asarray(chances, np.float64)
        if weight.shape != (self.columns,) or not (np.isfinite(weight).all() and (weight >= 0).all() and weight.any()):
            raise UsageError(f"chances must be {self.columns} finite numbers, not negative and not all 0")
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
        n, found = self.num_nodes, np.empty(0, np.int64)
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
        if len(found) < count:
            raise UsageError(f"non_edges: {count} pairs that are no edges were not found; {len(found)} were")
        return (found // n).astype(np.int32), (found % n).astype(np.int32)

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
        nodes = _nodes(nodes)
        return self.around(nodes[None], hops=0)

    def around(self, seeds: Array | Sequence[Array], *, hops: int) -> Subgraphs:
        """A part for each row of seeds (int [P, S], or P arrays): all within `hops` steps of one of them and every
        entry between two such nodes. With two seeds this is the enclosing subgraph of a pair (SEAL, arXiv 1802.09691).
        """
        lengths = [len(row) for row in seeds]
        flat = _nodes(np.concatenate([np.asarray(row) for row in seeds]) if len(lengths) else np.empty(0, np.int32))
        start = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        size, nodes, far, degree, local, edges = kernels.enclosing(
            self.indptr, self.indices, start, flat, hops=hops
        )  # fmt: skip
        node_start = np.concatenate([[0], np.cumsum(size)])
        indptr = np.concatenate([[0], np.cumsum(degree)])
        offsets = np.repeat(node_start[:-1], np.diff(indptr[node_start]))
        return Subgraphs(node_start, indptr, (local + offsets).astype(np.int32), nodes, far, edges)


# -- ranks by links ----------------------------------------------------------------------------------------------------
def page_rank(
    indptr: Array,
    indices: Array,
    *,
    damping: float = 0.85,
    weights: Array | None = None,
    teleport: Array | None = None,
    tolerance: float = 1e-10,
    steps: int = 200,
) -> Array:
    """The chance to find a surfer at each node (Page and others 1999): float64 [N], sum 1.

    Lists hold the nodes that link to v. With chance `damping` the surfer follows a link of where it is, in proportion
    to `weights` [E]; otherwise, or without one, it goes to a node in proportion to `teleport` [N] (personalised; even
    if not given). Iterates until the changes add up to less than `tolerance`, or raises UsageError after `steps`.
    """
    near = Neighbours(indptr, indices)
    n = near.num_nodes
    weight = None if weights is None else np.ascontiguousarray(weights, np.float64)
    out = np.bincount(near.indices, weights=weight, minlength=n).astype(np.float64)
    jump = np.full(n, 1 / n) if teleport is None else np.asarray(teleport, np.float64) / np.sum(teleport)
    rank, new = jump.copy(), np.empty(n)
    share = np.divide(1.0, out, out=np.zeros(n), where=out > 0)
    for _ in range(steps):
        stuck = rank[out == 0].sum()
        kernels.pull(
            new, (1 - damping + damping * stuck) * jump, rank * share, near.indptr, near.indices, damping, weight
        )
        change = np.abs(new - rank).sum()
        rank, new = new, rank
        if change < tolerance:
            return rank
    raise UsageError(
        f"page_rank: changes still add up to {change:.3g} after {steps} steps; give more, or less tolerance"
    )


def _place(count: int) -> Any:
    return np.int32 if count < 2**31 else np.int64


def _integers(ids: Array) -> Array:
    ids = np.asarray(ids)
    if ids.dtype.kind not in "iu":
        raise UsageError(f"ids are whole numbers, not {ids.dtype}")
    return np.ascontiguousarray(ids, np.int32 if ids.dtype == np.int32 else np.int64)


def _nodes(nodes: Array) -> Array:
    nodes = np.asarray(nodes)
    if nodes.size and nodes.dtype.kind not in "iu":
        raise UsageError(f"nodes are whole numbers, not {nodes.dtype}")
    if nodes.size and not -(2**31) <= int(nodes.min()) <= int(nodes.max()) < 2**31:
        raise UsageError("nodes have numbers below 2**31")
    return np.ascontiguousarray(nodes, np.int32)


__all__ = [
    "Block", "Neighbours", "Subgraphs", "coalesce", "components", "from_edges", "group", "page_rank", "rows_of",
    "transpose",
]  # fmt: skip
