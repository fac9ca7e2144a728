"""`Graph`: nodes, edges and their features and labels, as NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from pdl.data import digest
from pdl.data.faults import fault
from pdl.ops import CSR
from pdl_graph import exchange, storage, structure
from pdl_graph.batch import GraphBatch
from pdl_graph.features import sparse_features
from pdl_graph.message_passing import Message, recv, send
from pdl_graph.order import cuthill_mckee
from pdl_graph.structure import EDGE, Merge, batch_graphs
from pdl_graph.typed import typed

Array = np.ndarray


@dataclass(frozen=True)
class Graph:
    """A directed graph in CSR form: for every node the edges that come in, from the nodes in `indices`.

    An undirected graph has each edge in both directions, and says so. Arrays may be memory maps.

    indptr       int64 [N + 1]: the edges into node i are those from indptr[i] up to indptr[i + 1]
    indices      int32 [E]: the node that each comes from; ascending for each node
    x            float32 [N, F], or `SparseFeatures` over NumPy arrays
    y            of the nodes: int64 [N] classes (-1: unknown), bool or float [N, K]
    edge_weight  float32 [E];  edge_attr float32 [E, D];  edge_type int64 [E];  node_type int64 [N]
    directed     False: every edge stands in both directions
    masks        sets of nodes by name, bool [N]: {"train": ..., "val": ..., "test": ...}
    names        what nodes are called in the user's files, one for each, or () where they are numbers
    classes      names of the classes of y
    """

    indptr: Array
    indices: Array
    x: Any = None
    y: Array | None = None
    edge_weight: Array | None = None
    edge_attr: Array | None = None
    edge_type: Array | None = None
    node_type: Array | None = None
    directed: bool = True
    masks: Mapping[str, Array] = field(default_factory=dict)
    names: Any = ()
    classes: Any = ()

    # -- making one ----------------------------------------------------------------------------------------------------
    @staticmethod
    def from_edges(
        source: Any, target: Any, num_nodes: int | None = None, *, directed: bool = True, **about: Any
    ) -> Graph:
        """A graph from the two ends of its edges, int [E] each.

        directed   False: each edge is given once and stands for both directions (a self-loop for one)
        about      the other fields; those of edges in the order given (both directions get the same)

        Without `num_nodes` the largest id is the last node. DataFault for ids outside of the graph, and for arrays that
        have not one row for each node or edge.
        """
        source, target = np.asarray(source), np.asarray(target)
        n = structure.check_ids(source, target, num_nodes)
        if not len(source) or "u" in source.dtype.kind + target.dtype.kind:  # an empty list is an array of floats
            source, target = source.astype(np.int64), target.astype(np.int64)
        about = {name: typed(name, value) for name, value in about.items() if value is not None}
        edge = {name: about.pop(name) for name in EDGE if name in about}
        for name, values in edge.items():
            if len(values) != len(source):
                raise fault(None, f"{name} has {len(values)} rows for {len(source)} edges", "give each edge one row")
        if not directed:
            source, target, at = structure.both_ways(source, target, ordered=bool(edge))
            edge = {k: v[at] for k, v in edge.items()}
        empty = Graph(np.zeros(n + 1, np.int64), np.zeros(0, np.int32), directed=directed, **about)
        structure.check_lengths(empty)
        return structure.with_edges(empty, source, target, None, **edge)

    @staticmethod
    def from_scipy(adjacency: Any, *, directed: bool = True, **about: Any) -> Graph:
        """From a scipy.sparse matrix [N, N] whose entry [i, j] is the weight of the edge from i to j.

        directed   False: the matrix is symmetric, and both entries of a pair are one edge
        weighted   in `about`: False leaves the values out; by default they are weights unless all are 1
        """
        return exchange.from_scipy(Graph, adjacency, directed=directed, **about)

    @staticmethod
    def from_networkx(
        graph: Any,
        *,
        weight: str | None = "weight",
        features: Sequence[str] = (),
        label: str | None = None,
        edge_features: Sequence[str] = (),
    ) -> Graph:
        """From a networkx graph; what its nodes are called becomes `names`, unless they are 0 to N - 1 in order.

        weight         attribute of edges; without effect where no edge has it
        features       attributes of nodes, numbers or rows of them, side by side as x
        label          attribute of nodes: whole numbers are classes, text is `classes` by name in order, floats are
                       numbers to predict
        edge_features  attributes of edges, side by side as edge_attr
        """
        return exchange.from_networkx(
            Graph, graph, weight=weight, features=features, label=label, edge_features=edge_features
        )

    @staticmethod
    def open(folder: str | Path) -> Graph:
        """A graph that `save` wrote, as memory maps: arrays are read when they are used."""
        return Graph(**storage.open_fields(Path(folder)))

    # -- facts ---------------------------------------------------------------------------------------------------------
    @property
    def num_nodes(self) -> int:
        """N."""
        return len(self.indptr) - 1

    @property
    def num_edges(self) -> int:
        """E: of an undirected graph both directions."""
        return len(self.indices)

    @property
    def num_features(self) -> int:
        """F; 0 without features."""
        return 0 if self.x is None else int(self.x.shape[1])

    @property
    def num_classes(self) -> int:
        """Classes of y."""
        if self.y is None:
            return 0
        if self.y.ndim == 2 or self.y.dtype.kind == "f":
            return max(len(self.classes), *self.y.shape[1:], 0)
        return max(len(self.classes), int(self.y.max(initial=-1)) + 1)

    @cached_property
    def targets(self) -> Array:
        """The node that each edge goes to, int32 [E]."""
        return np.repeat(np.arange(self.num_nodes, dtype=np.int32), np.diff(self.indptr))

    @cached_property
    def adjacency(self) -> CSR:
        """The pattern that nets compute with."""
        return CSR.from_rows(self.indptr, self.indices, self.num_nodes)

    @cached_property
    def fingerprint(self) -> str:
        """A short hash that names the content."""
        parts: list[str | Array] = [str(self.directed), *map(str, self.names), *map(str, self.classes)]
        for name, array in storage.arrays_of(self).items():
            parts += [name, str(array.dtype), str(array.shape), array]
        return digest(*parts)

    def in_degree(self) -> Array:
        """Edges into each node, int64 [N]."""
        return np.diff(self.indptr)

    def out_degree(self) -> Array:
        """Edges out of each node, int64 [N]."""
        return np.bincount(self.indices, minlength=self.num_nodes)

    def edges(self) -> tuple[Array, Array]:
        """(source, target) of every edge, int32 [E] each, in the order of the edges' arrays."""
        return self.indices, self.targets

    def once(self) -> Array:
        """Ids of edges, int64: all, but of the two directions of an undirected edge the one from the smaller node."""
        return np.arange(self.num_edges) if self.directed else np.flatnonzero(self.indices <= self.targets)

    def components(self) -> Array:
        """The smallest node that each node hangs together with, whatever the direction of edges: int64 [N]."""
        return structure.components(self)

    def describe(self) -> dict[str, int]:
        """Counts by name: nodes, edges (those of an undirected graph once), components, the largest component,
        isolated nodes, self-loops, duplicate edges, the largest degree (edges in), features and classes."""
        return structure.describe(self)

    # -- other graphs --------------------------------------------------------------------------------------------------
    def with_(self, **fields: Any) -> Graph:
        """The same graph with other fields."""
        return replace(self, **fields)

    def with_self_loops(self) -> Graph:
        """With an edge of weight 1 (attributes 0, type 0) from every node to itself; those it has are replaced."""
        return structure.with_self_loops(self)

    def without_self_loops(self) -> Graph:
        """Without the edges from a node to itself."""
        return structure.without_self_loops(self)

    def coalesce(self, merge: Merge = "sum") -> Graph:
        """Each edge once: those between the same nodes (of the same type) become one, whose weight and attributes are
        their sum, mean, max, min, or those of the first. Where edges have neither, repeated ones are just left out."""
        return structure.coalesce(self, merge)

    def reversed(self) -> Graph:
        """Every edge the other way round."""
        return structure.reverse(self)

    def undirected(self, merge: Merge = "first") -> Graph:
        """With every edge in both directions, each pair of nodes once; `merge` as for `coalesce`, where both stood."""
        return structure.undirected(self, merge)

    def subgraph(self, nodes: Any) -> Graph:
        """The graph of some nodes (ids without repeats, or a mask), in the order given, with the edges among them."""
        return structure.subgraph(self, nodes)

    def reordered(self) -> tuple[Graph, Array]:
        """(graph, order): the same graph numbered so that neighbours lie close (Cuthill and McKee's order), and which
        node here each of its nodes is, int64 [N]. What has neighbours near it in some order is computed several times
        as fast once it does not fit the caches; graphs without such an order (random ones) gain little."""
        order = cuthill_mckee(self)
        return structure.subgraph(self, order), order

    def with_edges(self, edges: Any) -> Graph:
        """The same nodes with only some edges (ids, or a mask over the edges)."""
        return structure.take_edges(self, edges)

    # -- elsewhere -----------------------------------------------------------------------------------------------------
    def batch(self) -> GraphBatch:
        """The arrays that nets read."""
        return GraphBatch(
            self.adjacency, self.x, self.edge_weight, self.edge_attr, self.edge_type, self.node_type,
            np.zeros(self.num_nodes, np.int64), 1,
        )  # fmt: skip

    def send(
        self, fn: Callable[[Any, Any, Any], Any], *, src_feat: Any = None, dst_feat: Any = None, edge_feat: Any = None
    ) -> Message:
        """The messages fn(source, target, edge) of all edges; see `GraphBatch.send`."""
        return send(self.adjacency, fn, src_feat=src_feat, dst_feat=dst_feat, edge_feat=edge_feat)

    def recv(self, reduce: str | Callable[[Message], Any], message: Message) -> Any:
        """What the nodes make of the messages they receive, [N, ...]; see `GraphBatch.recv`."""
        return recv(reduce, message)

    def to_scipy(self) -> Any:
        """scipy.sparse.csr_matrix [N, N]: entry [i, j] is the weight of the edge from i to j, 1 without weights."""
        return exchange.to_scipy(self)

    def to_networkx(self) -> Any:
        """A networkx graph (DiGraph or Graph; Multi... where edges repeat) with nodes by name, x and y of nodes, and
        weight, type and attr of edges."""
        return exchange.to_networkx(self)

    def save(self, folder: str | Path) -> Path:
        """Write the arrays below a folder, for `open`; an existing graph is replaced once all is written."""
        return storage.save(self, Path(folder))


__all__ = ["Graph", "batch_graphs", "sparse_features"]
