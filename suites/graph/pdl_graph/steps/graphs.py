"""The input step for graphs: a folder in, the arrays of a graph net out."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.errors import DataError, UsageError
from pdl.runtime.steps import Drawing, Flag, Input, InputStep, Mark, Resources, Sample
from pdl.runtime.steps.arguments import MAX_COUNT, count, flag, one_of
from pdl_graph.drawing import ego_network
from pdl_graph.steps.graph_folder import GraphFolder
from pdl_graph.steps.queries import NEW_GRAPH, NODES, PAIRS, node_queries, pair_of, pair_queries

KINDS = ("node", "pair", "graph")
PARTS = ("x", "indptr", "indices", "row", "weight", "attributes", "query")
TOGETHER = 1 << 14  # queries that are put to a graph at once: what a net computes for it is the same for all of them
KEPT = 4  # folders that are read once and asked several times


@dataclass(frozen=True)
class Form:
    """How the arrays of a graph are made of its nodes and edges.

    features    F; 0 for a net that reads none
    directed    False: every edge counts in both directions, once; of several between two nodes the first
    self_loops  an edge from every node to itself, of weight 1, in place of those it has
    normalize   rows of features are divided by their sum, where that is not 0
    attributes  D, numbers that an edge has
    """

    features: int
    directed: bool = False
    self_loops: bool = False
    normalize: bool = False
    attributes: int = 0

    def arrays(self, graph: GraphFolder) -> dict[str, Array]:
        """x float32 [N, F], indptr int64 [N + 1], indices and row int32 [E] (of the edges into each node, sources
        ascending), weight float32 [E], attributes float32 [E, D]. Of one graph the same arrays each time."""
        found = graph.derived.get(self)
        return graph.derived.setdefault(self, self._arrays(graph)) if found is None else found

    def _arrays(self, graph: GraphFolder) -> dict[str, Array]:
        n = len(graph.names)
        source, target, edge = graph.source, graph.target, np.arange(len(graph.source))
        if not self.directed:
            _, edge = np.unique(np.maximum(source, target) * n + np.minimum(source, target), return_index=True)
            source, target = source[edge], target[edge]
            back = source != target
            source, target = np.concatenate([source, target[back]]), np.concatenate([target, source[back]])
            edge = np.concatenate([edge, edge[back]])
        if self.self_loops:
            other, loops = source != target, np.arange(n)
            source, target = np.concatenate([source[other], loops]), np.concatenate([target[other], loops])
            edge = np.concatenate([edge[other], np.full(n, -1)])
        order = np.lexsort((source, target))
        target, edge = target[order], edge[order]
        indptr = np.concatenate([[0], np.cumsum(np.bincount(target, minlength=n), dtype=np.int64)])
        found = {"indptr": indptr, "indices": source[order].astype(np.int32), "row": target.astype(np.int32)}
        return {"x": self._x(graph), **found, **self._of_edges(graph, edge)}

    def _of_edges(self, graph: GraphFolder, edge: Array) -> dict[str, Array]:
        """Features of edges, by their numbers; added loops (-1) have a weight of 1 and zeros."""
        have = 0 if graph.attributes is None else graph.attributes.shape[1]
        if self.attributes and have != self.attributes:
            raise DataError(f"{graph.path}: {have} attributes an edge; the model reads {self.attributes}")
        weight = np.ones(len(graph.source), np.float32) if graph.weight is None else graph.weight
        given = graph.attributes if self.attributes else None
        given = np.zeros((len(weight), 0), np.float32) if given is None else given
        weight, none = np.append(weight, np.float32(1)), np.zeros((1, given.shape[1]), np.float32)
        return {"weight": weight[edge], "attributes": np.concatenate([given, none])[edge]}

    def _x(self, graph: GraphFolder) -> Array:
        n, x = len(graph.names), graph.features
        have = 0 if x is None else x.shape[1]
        if not self.features:
            return np.zeros((n, 0), np.float32)
        if x is None or have != self.features:
            raise DataError(f"{graph.path}: {have} features a node; the model reads {self.features}")
        if not self.normalize:
            return x
        total = x.sum(1, keepdims=True, dtype=np.float64)
        return (x / np.where(total == 0, 1, total)).astype(np.float32)


class GraphArrays(InputStep):
    """An input step that makes the arrays of a graph, one `part` of `PARTS` each."""

    def __init__(self, part: str, form: Form) -> None:
        self.part, self.form = one_of("part", part, PARTS), form

    def graph(self, item: Any) -> GraphFolder:
        """The graph that an item is about."""
        raise NotImplementedError

    def query_array(self, item: Any, graph: GraphFolder) -> Array:
        """The query as an array: the part "query"."""
        raise UsageError(f"{self.name}: nothing is asked of a graph but what it is, so there is no part 'query'")

    def parse(self, item: Any, sample: Sample) -> Array:
        if GraphArrays not in sample.memo:
            sample.memo[GraphArrays] = self.graph(item)
        graph: GraphFolder = sample.memo[GraphArrays]
        return self.query_array(item, graph) if self.part == "query" else self.form.arrays(graph)[self.part]

    def group(self, array: Array) -> Hashable:
        return "query" if self.part == "query" else id(array)

    def collate(self, arrays: Sequence[Array]) -> Array:
        return np.stack(arrays) if self.part == "query" else arrays[0]

    def random(self, shape: tuple[int, ...], rng: np.random.Generator, sizes: Mapping[str, int]) -> Array:
        """Of a graph in which edges go from any node to any, as many into each."""
        nodes, edges = sizes["nodes"], sizes["edges"]
        row = np.arange(edges) * nodes // max(edges, 1)
        if self.part == "indptr":
            return np.searchsorted(row, np.arange(nodes + 1)).astype(np.int64)
        if self.part in ("x", "weight", "attributes"):
            return rng.random(shape, np.float32)
        return row.astype(np.int32) if self.part == "row" else rng.integers(0, nodes, shape)


class GraphInput(GraphArrays):
    """A graph and a query -> one of the arrays of a net, by `part`: those of `Form.arrays`, shared by all queries of
    one graph; or "query": the number of a node, int64 [], or of the two of a pair, int64 [2].

    An item is {"graph": folder, "node": name}, {"graph": folder, "pair": [name, name]} or, for nets that tell whole
    graphs apart, {"graph": folder} or the folder itself: `kind` says which. A folder is the path of one, or a
    `GraphFolder`. A run has a graph of its own (`memory["graph"]`, a function that opens it), which is meant where an
    item names none; then the name of a node, or those of a pair ("a:b"), will do.
    """

    name = "graph"

    def __init__(
        self,
        part: str,
        kind: str,
        features: int,
        directed: bool = False,
        self_loops: bool = False,
        normalize: bool = False,
        attributes: int = 0,
    ) -> None:
        sizes = count("features", features, 0, MAX_COUNT << 8), count("attributes", attributes, 0, MAX_COUNT << 8)
        ways = flag("directed", directed), flag("self_loops", self_loops), flag("normalize", normalize)
        super().__init__(part, Form(sizes[0], *ways, sizes[1]))
        self.kind = self.takes = one_of("kind", kind, KINDS)
        self.about = {
            "node": "a folder of a graph (edges.csv, nodes.csv): all its nodes",
            "pair": "a pair of nodes, source:target",
            "graph": "a folder of a graph: edges.csv and nodes.csv",
        }[self.kind]
        self.batch_size = 1 if self.kind == "graph" else TOGETHER
        self._own: Callable[[], GraphFolder] | None = None

    def bind(self, resources: Resources) -> None:
        self._own = resources.memory.get("graph")

    # -- reading -------------------------------------------------------------------------------------------------------
    def graph(self, item: Any) -> GraphFolder:
        query = self._query(item)
        if "graph" in query:
            return opened(query["graph"])
        if self._own is None:
            raise DataError(f"no graph is given for {item!r:.60}: a bundle holds none; give one (--new-graph DIR)")
        return self._own()

    def query_array(self, item: Any, graph: GraphFolder) -> Array:
        query = self._query(item)
        if self.kind == "graph":
            return super().query_array(item, graph)
        if self.kind == "node":
            return np.array(graph.number(query["node"]), np.int64)
        return np.array([graph.number(name) for name in query["pair"]], np.int64)

    def _query(self, item: Any) -> Mapping[str, Any]:
        """An item as a mapping."""
        if self.kind == "graph":
            return item if isinstance(item, Mapping) else {"graph": item}
        if not isinstance(item, Mapping):
            return {"node": str(item)} if self.kind == "node" else {"pair": pair_of(item)}
        if self.kind not in item:
            raise DataError(f"{item!r:.60} asks for no {self.kind}; expected {{'graph': folder, {self.kind!r}: ...}}")
        return {**item, "pair": pair_of(item["pair"])} if self.kind == "pair" else item

    def title(self, item: Any) -> str:
        query = self._query(item)
        return ":".join(query["pair"]) if self.kind == "pair" else str(query.get(self.kind))

    def file(self, path: str | Path) -> Iterator[Input]:
        """All queries about a folder: each of its nodes, or the graph itself."""
        if self.kind == "graph":
            return iter([Input(str(path), {"graph": str(path)})])
        if self.kind == "node":
            return (Input(name, {"graph": str(path), "node": name}) for name in opened(path).names)
        raise UsageError(f"{path}: which pairs of this graph? give --pairs FILE, with the columns source and target")

    # -- the command line ----------------------------------------------------------------------------------------------
    @property
    def flags(self) -> tuple[Flag, ...]:
        return {"node": (NODES, NEW_GRAPH), "pair": (PAIRS, NEW_GRAPH), "graph": (NEW_GRAPH,)}[self.kind]

    def from_flags(self, values: Mapping[str, Sequence[str]]) -> list[Any]:
        if self.kind == "graph":
            return [Path(folder) for folder in values.get(NEW_GRAPH.name, ())]
        return node_queries(values) if self.kind == "node" else pair_queries(values)

    # -- answers -------------------------------------------------------------------------------------------------------
    def draw(self, item: Any, caption: str, marks: Sequence[Mark]) -> Drawing:
        """The neighbourhood of a node."""
        if self.kind != "node":
            return super().draw(item, caption, marks)
        graph, node = self.graph(item), self._query(item)["node"]
        arrays, centre = self.form.arrays(graph), graph.number(node)
        title = f"{node}: {caption}"
        return Drawing(svg=ego_network(arrays["indptr"], arrays["indices"], centre, names=graph.names, title=title))


_kept: OrderedDict[Any, GraphFolder] = OrderedDict()
_lock = Lock()


def opened(folder: str | Path | GraphFolder) -> GraphFolder:
    """The graph of a folder; the same object while its files are the same, and the folder is among the last `KEPT`."""
    if isinstance(folder, GraphFolder):
        return folder
    path = Path(folder)
    files = sorted(path.iterdir()) if path.is_dir() else []
    key = (os.path.abspath(path), *((f.name, f.stat().st_mtime_ns, f.stat().st_size) for f in files))
    with _lock:
        found = _kept.get(key)
        if found is not None:
            _kept.move_to_end(key)
            return found
    made = GraphFolder.read(path)
    with _lock:
        made = _kept.setdefault(key, made)  # somebody may have been quicker
        _kept.move_to_end(key)
        while len(_kept) > KEPT:
            _kept.popitem(last=False)
    return made
