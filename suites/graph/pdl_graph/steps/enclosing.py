"""The enclosing subgraphs of pairs of nodes, in columns, with the labels of SEAL (Zhang & Chen, "Link
prediction based on graph neural networks", arXiv 1802.09691). NumPy in, NumPy out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pdl.dtype import Array
from pdl.hashing import splitmix64
from pdl_graph.ranges import ranges

_STEP = np.uint64(0x9E3779B97F4A7C15)  # of SplitMix64, from one number to the next
_AT_ONCE = 1 << 23  # entries of the table that finds a node's place in a subgraph


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Who is joined with whom, whatever the direction: each neighbour once, ascending, no node its own.

    start  int64 [N + 1], where the neighbours of each node begin;    neighbours  int32 [E], both directions of an edge
    """

    start: Array
    neighbours: Array

    def __len__(self) -> int:
        return len(self.start) - 1

    @staticmethod
    def of(source: Array, target: Array, num_nodes: int) -> Neighbours:
        """Of the ends of edges, int [E] each."""
        source, target = source.astype(np.int64), target.astype(np.int64)
        apart = source != target
        source, target = source[apart], target[apart]
        keys = np.unique(np.concatenate([source * num_nodes + target, target * num_nodes + source]))
        start = np.searchsorted(keys, np.arange(num_nodes + 1) * num_nodes)
        return Neighbours(start, (keys % max(num_nodes, 1)).astype(np.int32))


@dataclass(frozen=True)
class Enclosing:
    """Subgraphs side by side, undirected, without the edge in question: that of pair i has the nodes from node_start[i]
    up to node_start[i + 1], the pair first.

    node_start  int64 [P + 1];       nodes  int32 [N], which node of the graph each is
    label       int32 [N], what the node is to the pair (`drnl`)
    indptr      int64 [N + 1], where the neighbours of each node begin
    indices     int32 [E], their places among the nodes of their subgraph, ascending
    back        int32 [E], the place of the edge in the other direction among the edges of its subgraph
    """

    node_start: Array
    nodes: Array
    label: Array
    indptr: Array
    indices: Array
    back: Array

    def __len__(self) -> int:
        return len(self.node_start) - 1

    @property
    def sizes(self) -> Array:
        """How many nodes each has, int64 [P]."""
        return np.diff(self.node_start)


def enclosing(
    graph: Neighbours, pairs: Array, *, hops: int = 1, max_nodes: int | None = None, seed: int = 0
) -> Enclosing:
    """The subgraphs of the nodes within `hops` steps of either node of each pair, without the pair's own edge.

    pairs      int [P, 2], of two nodes each
    max_nodes  so many nodes of those that are new in a hop, drawn by `seed`, pair, and node: in any company the same
    """
    n = len(graph)
    step = max(1, _AT_ONCE // max(n, 1))
    table = np.full(min(step, len(pairs)) * n, -1, np.int32)
    cut = [_some(graph, pairs[at : at + step], hops, max_nodes, seed, table) for at in range(0, len(pairs), step)]
    return cut[0] if len(cut) == 1 else _joined(cut)


def _some(graph: Neighbours, pairs: Array, hops: int, max_nodes: int | None, seed: int, table: Array) -> Enclosing:
    n, start = len(graph), graph.start
    keys = _nodes(graph, pairs, hops, max_nodes, seed, table)
    owner, nodes = keys // n, keys % n
    table[keys] = np.arange(len(keys), dtype=np.int32)
    counts = np.diff(start)[nodes]
    row = np.repeat(np.arange(len(keys), dtype=np.int32), counts)
    column = table[np.repeat(owner * n, counts) + graph.neighbours[ranges(start[nodes], counts)]]
    table[keys] = -1
    first = np.searchsorted(owner, np.arange(len(pairs) + 1))  # whose next is the pair's other node
    place = np.arange(len(keys)) - first[owner]
    keep = (column >= 0) & ((place[row] > 1) | (place[column] > 1))
    row, column = row[keep], column[keep]
    order = np.lexsort((column, row))
    row, column = row[order], column[order]
    indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(keys)))])
    label = drnl(row, column, first[:-1], len(keys))
    back = np.argsort(column, kind="stable")
    edge_first, node_first = indptr[first[:-1]][owner], first[:-1][owner]
    return Enclosing(
        first, nodes.astype(np.int32), label, indptr, (column - node_first[row]).astype(np.int32),
        (back - edge_first[row]).astype(np.int32),
    )  # fmt: skip


def _nodes(graph: Neighbours, pairs: Array, hops: int, max_nodes: int | None, seed: int, table: Array) -> Array:
    """pair * N + node of all nodes of the subgraphs, by pairs, each pair's own two first."""
    n, start = len(graph), graph.start
    owner = np.arange(len(pairs)) * n
    new = np.stack([owner + pairs[:, 0], owner + pairs[:, 1]], axis=1).ravel()
    hop = [new]
    table[new] = 0
    for _ in range(hops):
        counts = np.diff(start)[new % n]
        met = np.repeat(new - new % n, counts) + graph.neighbours[ranges(start[new % n], counts)]
        new = np.unique(met[table[met] < 0])
        new = new if max_nodes is None else new[_sampled(new // n, new % n, pairs, max_nodes, seed)]
        table[new] = 0
        hop.append(new)
    keys, level = np.concatenate(hop), np.repeat(np.arange(len(hop)), [len(each) for each in hop])
    return keys[np.lexsort((level, keys // n))]


def _sampled(owner: Array, nodes: Array, pairs: Array, most: int, seed: int) -> Array:
    """Places, ascending, of at most so many nodes of each pair (`owner`, ascending)."""
    number = splitmix64(np.full(len(nodes), seed, np.uint64) + _STEP)
    for part in (*pairs[owner].T, nodes):
        number = splitmix64((number ^ part.astype(np.uint64)) + _STEP)
    order = np.lexsort((number, owner))
    rank = np.arange(len(owner)) - np.searchsorted(owner, owner)
    return np.sort(order[rank < most])


def drnl(row: Array, column: Array, first: Array, count: int) -> Array:
    """Double-radius node labels, int32 [count]: with distances d_u and d_v to the two nodes of a pair, each without
    passing through the other, and d = d_u + d_v,

        1 + min(d_u, d_v) + (d // 2) (d // 2 + d % 2 - 1)

    1 for the pair itself, 0 for nodes that one of the two does not reach (section 3.1 and appendix B of the paper).

    row, column  the edges, both directions;  first  the place of each pair's first node, the second follows
    """
    u, v = (_distances(row, column, first + own, first + 1 - own, count) for own in (0, 1))
    d = u + v
    label = 1 + np.minimum(u, v) + (d // 2) * (d // 2 + d % 2 - 1)
    label[(u < 0) | (v < 0)] = 0
    label[first], label[first + 1] = 1, 1
    return label.astype(np.int32)


def _distances(row: Array, column: Array, source: Array, closed: Array, count: int) -> Array:
    """Steps from the nearest of `source`, int64; -1 for nodes that are reached through `closed` only, or not at all."""
    far = np.full(count, -1)
    far[closed] = -2
    far[source] = 0
    new, step = source, 0
    begin = np.searchsorted(row, np.arange(count + 1))
    while len(new):
        step += 1
        met = column[ranges(begin[new], begin[new + 1] - begin[new])]
        new = np.unique(met[far[met] == -1])
        far[new] = step
    return np.maximum(far, -1)


def _joined(parts: list[Enclosing]) -> Enclosing:
    nodes = np.cumsum([0, *(len(part.nodes) for part in parts)])
    edges = np.cumsum([0, *(len(part.indices) for part in parts)])
    node_start = [part.node_start[:-1] + begin for part, begin in zip(parts, nodes[:-1], strict=True)]
    indptr = [part.indptr[:-1] + begin for part, begin in zip(parts, edges[:-1], strict=True)]
    rest = (np.concatenate([getattr(part, k) for part in parts]) for k in ("nodes", "label", "indices", "back"))
    there, label, indices, back = rest
    return Enclosing(
        np.append(np.concatenate(node_start), nodes[-1]), there, label, np.append(np.concatenate(indptr), edges[-1]),
        indices, back,
    )  # fmt: skip
