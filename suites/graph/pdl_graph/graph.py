"""`Graph`: nodes, edges and what is known of them, as NumPy arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from pdl.data import digest
from pdl.data.faults import fault
from pdl.ops import CSR
from pdl.ops.csr import indptr_of
from pdl_graph.batch import GraphBatch, SparseFeatures
from pdl_graph.features import sparse_features

Array = np.ndarray
_EDGE = ("edge_weight", "edge_attr", "edge_type")


@dataclass(frozen=True)
class Graph:
    """A directed graph in CSR form: for every node the edges that come in, from the nodes in `indices`.

    An undirected graph has each edge in both directions, and says so. Arrays may be memory maps.

    indptr       int64 [N + 1]: the edges into node i are those from indptr[i] up to indptr[i + 1]
    indices      int32 [E]: the node that each comes from
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
        """
        source, target = np.asarray(source), np.asarray(target)
        n = int(max(source.max(initial=-1), target.max(initial=-1))) + 1 if num_nodes is None else num_nodes
        _demand_ids(source, target, n)
        edge = {k: np.asarray(v) for k, v in about.items() if k.startswith("edge_") and v is not None}
        if not directed:
            back = source != target
            source, target = np.concatenate([source, target[back]]), np.concatenate([target, source[back]])
            edge = {k: np.concatenate([v, v[back]]) for k, v in edge.items()}
        order = np.lexsort((source, target))
        edge = {k: v[order] for k, v in edge.items()}
        indptr = indptr_of(target, n)
        return Graph(indptr, source[order].astype(np.int32), directed=directed, **{**about, **edge})

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
        return max(len(self.classes), self.y.shape[1] if self.y.ndim == 2 else int(self.y.max(initial=-1)) + 1)

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
        held: dict[str, Any] = {k: getattr(self, k) for k in ("indptr", "indices", "y", *_EDGE, "node_type")}
        if isinstance(self.x, SparseFeatures):
            held |= {"x": self.x.value, "x_indices": self.x.pattern.indices, "x_indptr": self.x.pattern.indptr}
        else:
            held["x"] = self.x
        for name, array in (*held.items(), *self.masks.items()):
            if array is not None:
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

    # -- other graphs --------------------------------------------------------------------------------------------------
    def with_(self, **fields: Any) -> Graph:
        """The same graph with other fields."""
        return replace(self, **fields)

    def with_self_loops(self) -> Graph:
        """With an edge of weight 1 (attributes 0, type 0) from every node to itself; those it has are replaced."""
        source, target = self.edges()
        keep, loops = source != target, np.arange(self.num_nodes)
        edge: dict[str, Any] = {}
        for name, fill in (("edge_weight", 1), ("edge_attr", 0), ("edge_type", 0)):
            values = getattr(self, name)
            if values is not None:
                more = np.full((self.num_nodes, *values.shape[1:]), fill, values.dtype)
                edge[name] = np.concatenate([values[keep], more])
        about = {k: getattr(self, k) for k in ("x", "y", "node_type", "masks", "names", "classes")}
        made = Graph.from_edges(
            np.concatenate([source[keep], loops]),
            np.concatenate([target[keep], loops]),
            self.num_nodes,
            **about,
            **edge,
        )
        return replace(made, directed=self.directed)

    def batch(self) -> GraphBatch:
        """The arrays that nets read."""
        return GraphBatch(
            self.adjacency, self.x, self.edge_weight, self.edge_attr, self.edge_type, self.node_type,
            np.zeros(self.num_nodes, np.int64), 1,
        )  # fmt: skip


def _demand_ids(source: Array, target: Array, n: int) -> None:
    if source.shape != target.shape or source.ndim != 1:
        what = f"edges need two columns of one length, got {source.shape} and {target.shape}"
        raise fault(None, what, "give source and target of each edge")
    if len(source) and (min(source.min(), target.min()) < 0 or max(source.max(), target.max()) >= n):
        bad = int(np.flatnonzero((source < 0) | (target < 0) | (source >= n) | (target >= n))[0])
        what = f"edge {bad} joins {source[bad]} and {target[bad]}, but the graph has {n} nodes, 0 to {n - 1}"
        raise fault(None, what, "give more nodes, or leave the edge out", index=bad)


__all__ = ["Graph", "sparse_features"]
