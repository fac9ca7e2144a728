"""Graphs with nodes and edges of several types, each type of node with numbers, features and labels of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from pdl.data.faults import fault
from pdl.errors import UsageError
from pdl.ops import CSR
from pdl_graph.batch import SparseFeatures
from pdl_graph.data.base import known
from pdl_graph.features import sparse_features, stack_rows
from pdl_graph.graph import Graph

Array = np.ndarray
Relation = tuple[str, str, str]
"""(type of the source, name, type of the target)."""


@dataclass(frozen=True)
class HeteroGraph:
    """Typed nodes and typed, directed edges.

    num_nodes  how many of each type: {"author": 4057, "paper": 14328}; its order numbers the types
    edges      the two ends by relation, int [2, E], numbered within their types: {("author", "writes", "paper"): ...};
               its order numbers the relations
    x          features by type of node: [N, F] or SparseFeatures, with an F for each type; types may lack them
    y          labels by type of node;   masks  {"author": {"train": bool [N], ...}}
    weight     of edges by relation, float [E]
    names      of nodes by type;   classes  of the labels, by type of node
    """

    num_nodes: Mapping[str, int]
    edges: Mapping[Relation, Array]
    x: Mapping[str, Any] = field(default_factory=dict)
    y: Mapping[str, Array] = field(default_factory=dict)
    masks: Mapping[str, Mapping[str, Array]] = field(default_factory=dict)
    weight: Mapping[Relation, Array] = field(default_factory=dict)
    names: Mapping[str, Any] = field(default_factory=dict)
    classes: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("x", "y", "masks", "names", "classes"):
            for kind in getattr(self, name):
                if kind not in self.num_nodes:
                    raise fault(None, f"{name} speaks of nodes {kind!r}", f"types are {', '.join(self.num_nodes)}")
        for kind, number in self.num_nodes.items():
            if not isinstance(number, int | np.integer) or number < 0:
                raise fault(None, f"num_nodes of {kind!r} is {number!r}", "give a whole number, 0 or more")
        masks = {f"the mask {split!r}": {kind: m} for kind, of in self.masks.items() for split, m in of.items()}
        for name, given in ({n: getattr(self, n) for n in ("x", "y", "names")} | masks).items():
            for kind, held in given.items():
                count = held.shape[0] if hasattr(held, "shape") else len(held)
                if count != self.num_nodes[kind]:
                    what = f"{name} of {kind!r} has {count} rows for {self.num_nodes[kind]} nodes"
                    raise fault(None, what, "give each node one row")
        for relation, ends in self.edges.items():
            self._check_edges(relation, np.asarray(ends))
        if unknown := [relation for relation in self.weight if relation not in self.edges]:
            raise fault(None, f"there are weights of {unknown[0]} and no such edges", "name them as the edges are")

    def _check_edges(self, relation: Relation, ends: Array) -> None:
        if not isinstance(relation, tuple) or len(relation) != 3:
            advice = "name it (type of the source, name, type of the target)"
            raise fault(None, f"edges {relation!r} are of no relation", advice)
        if ends.ndim != 2 or len(ends) != 2:
            raise fault(None, f"edges {relation} have shape {ends.shape}", "give two rows: sources and targets")
        for row, kind in ((ends[0], relation[0]), (ends[1], relation[2])):
            if kind not in self.num_nodes:
                raise fault(None, f"edges {relation} join nodes {kind!r}", f"types are {', '.join(self.num_nodes)}")
            self._check_ids(relation, row, kind)
        if relation in self.weight and len(self.weight[relation]) != ends.shape[1]:
            raise fault(None, f"edges {relation} and their weights differ in number", "give each edge one weight")

    def _check_ids(self, relation: Relation, row: Array, kind: str) -> None:
        n, whole = self.num_nodes[kind], row.dtype.kind in "iu"
        bad = np.flatnonzero((row < 0) | (row >= n)) if whole else np.arange(len(row))
        if len(bad):
            what = f"edge {bad[0]} of {relation} joins {kind} {row[bad[0]]}, one of {n:,}" if whole else (
                f"the ends of edges {relation} are {row.dtype}")  # fmt: skip
            raise fault(None, what, f"number the nodes of {kind!r} from 0 to {n - 1}", index=int(bad[0]))

    # -- facts ---------------------------------------------------------------------------------------------------------
    @cached_property
    def offsets(self) -> dict[str, int]:
        """The first node of each type where types stand one behind another, as in `to_homogeneous`."""
        ends = np.cumsum([0, *self.num_nodes.values()])
        return dict(zip(self.num_nodes, ends[:-1].tolist(), strict=True))

    @property
    def node_types(self) -> list[str]:
        """By number."""
        return list(self.num_nodes)

    @property
    def relations(self) -> list[Relation]:
        """By number."""
        return list(self.edges)

    def nodes(self, kind: str, ids: Any = None) -> Array:
        """Nodes of a type (all, or these of its numbers) as numbers in `to_homogeneous`, int64."""
        if kind not in self.num_nodes:
            raise UsageError(f"no nodes {kind!r}; types are {', '.join(self.num_nodes)}")
        local = np.arange(self.num_nodes[kind]) if ids is None else np.asarray(ids)
        return local + self.offsets[kind]

    # -- other graphs --------------------------------------------------------------------------------------------------
    def with_reverses(self, prefix: str = "rev_") -> HeteroGraph:
        """With a relation the other way round behind each, named with the prefix; R-GCN then sees both directions."""
        edges, weight = dict(self.edges), dict(self.weight)
        for (source, name, target), ends in self.edges.items():
            back = (target, prefix + name, source)
            if back in edges:
                raise UsageError(f"there are edges {back} already; choose another prefix")
            edges[back] = np.asarray(ends)[::-1]
            if (source, name, target) in weight:
                weight[back] = weight[source, name, target]
        return replace(self, edges=edges, weight=weight)

    def to_homogeneous(self, target: str | None = None) -> Graph:
        """One graph of all nodes, type behind type, with `node_type` and `edge_type` by number.

        target  the type of nodes whose labels, splits and classes it gets (-1 elsewhere); by default the only one that
                has labels. Labels of several columns are False, numbers NaN elsewhere

        Features of each type have columns of their own, so one weight matrix on them is a projection for each type; if
        only one type has some the others have zeros.
        """
        ends = [np.stack([self.nodes(s, e[0]), self.nodes(t, e[1])]) for (s, _, t), e in self.edges.items()]
        source, to = np.concatenate(ends, 1) if ends else np.zeros((2, 0), np.int64)
        counts = [each.shape[1] for each in ends]
        sizes = list(self.num_nodes.values())
        about: dict[str, Any] = {
            "edge_type": np.repeat(np.arange(len(counts)), counts),
            "node_type": np.repeat(np.arange(len(sizes)), sizes),
            "x": _blocks([self.x.get(kind) for kind in self.num_nodes], sizes),
            **self._labels(target),
        }
        if self.weight:
            about["edge_weight"] = np.concatenate(
                [self.weight.get(r, np.ones(c, np.float32)) for r, c in zip(self.edges, counts, strict=True)]
            )
        if self.names:
            about["names"] = tuple(
                f"{kind}:{name}" for kind, n in self.num_nodes.items() for name in self.names.get(kind, range(n))
            )
        return Graph.from_edges(source, to, sum(sizes), **about)

    def _labels(self, target: str | None) -> dict[str, Any]:
        """y, masks and classes of one type, spread over all nodes."""
        if target is None:
            if len(self.y) > 1:
                raise UsageError(f"nodes {', '.join(self.y)} all have labels; say whose with target=")
            target = next(iter(self.y), None)
        if target is None:
            return {}
        if target not in self.y:
            raise UsageError(f"nodes {target!r} have no labels; those that do: {', '.join(self.y) or 'none'}")
        held, nodes, n = np.asarray(self.y[target]), self.nodes(target), sum(self.num_nodes.values())
        empty = {"f": np.nan, "b": False}.get(held.dtype.kind, -1)
        y = np.full((n, *held.shape[1:]), empty, held.dtype if held.dtype.kind in "fb" else np.int64)
        y[nodes] = held
        masks = {}
        for split, mask in self.masks.get(target, {}).items():
            masks[split] = np.zeros(n, bool)
            masks[split][nodes] = mask
        return {"y": y, "masks": masks, "classes": self.classes.get(target, ())}

    @staticmethod
    def from_homogeneous(
        graph: Graph, node_types: Sequence[str] | None = None, edge_types: Sequence[str] | None = None
    ) -> HeteroGraph:
        """The typed graph of one with `node_type` and `edge_type` (either may be missing: then all are one type).

        Edges of one type that join nodes of several types become several relations. Dense features are cut up by type
        of node; edge_attr is left out.
        """
        n = graph.num_nodes
        kind = np.zeros(n, np.int64) if graph.node_type is None else np.asarray(graph.node_type)
        edge = np.zeros(graph.num_edges, np.int64) if graph.edge_type is None else np.asarray(graph.edge_type)
        kinds = _type_names(node_types, kind, "node")
        relations = _type_names(edge_types, edge, "edge")
        rows = {name: np.flatnonzero(kind == i) for i, name in enumerate(kinds)}
        local = np.zeros(n, np.int64)
        for each in rows.values():
            local[each] = np.arange(len(each))
        source, target = graph.edges()
        triple = np.stack([edge, kind[source], kind[target]])
        edges, weight = {}, {}
        for r, s, t in np.unique(triple, axis=1).T.tolist():
            chosen = np.flatnonzero((triple == [[r], [s], [t]]).all(0))
            relation = (kinds[s], relations[r], kinds[t])
            edges[relation] = np.stack([local[source[chosen]], local[target[chosen]]])
            if graph.edge_weight is not None:
                weight[relation] = graph.edge_weight[chosen]
        parts = {name: graph.subgraph(each) for name, each in rows.items()}
        about: dict[str, dict[str, Any]] = {
            "x": {k: g.x for k, g in parts.items() if g.x is not None},
            "y": {k: g.y for k, g in parts.items() if g.y is not None and known(g.y).any()},
            "masks": {k: g.masks for k, g in parts.items()},
            "names": {k: g.names for k, g in parts.items() if len(g.names)},
            "classes": {k: graph.classes for k in parts if len(graph.classes)},
        }
        return HeteroGraph({name: len(each) for name, each in rows.items()}, edges, weight=weight, **about)


def _type_names(given: Sequence[str] | None, numbers: Array, thing: str) -> list[str]:
    count = int(numbers.max(initial=-1)) + 1
    if given is None:
        return [str(i) for i in range(count)]
    if len(given) < count:
        raise UsageError(f"{len(given)} names for {count} types of {thing}s: {', '.join(given)}")
    if thing == "node" and len(set(given)) < len(given):
        raise UsageError(f"two types of nodes have one name: {', '.join(given)}")
    return list(given)


def _blocks(parts: list[Any], sizes: list[int]) -> Any:
    """Features of types one under another, each with columns of its own; None where no type has some."""
    there = [part for part in parts if part is not None]
    if not there:
        return None
    width, start = sum(part.shape[1] for part in there), 0
    moved = []
    for part, n in zip(parts, sizes, strict=True):
        if part is None:
            nothing = CSR.from_rows(np.zeros(n + 1, np.int64), np.zeros(0, np.int32), width)
            moved.append(SparseFeatures(nothing, np.zeros(0, np.float32)))
            continue
        sparse = part if isinstance(part, SparseFeatures) else sparse_features(np.asarray(part, np.float32))
        pattern = CSR.from_rows(sparse.pattern.indptr, sparse.pattern.indices + start, width)
        moved.append(SparseFeatures(pattern, sparse.value))
        start += part.shape[1]
    return stack_rows(moved)
