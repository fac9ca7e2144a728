"""The step that reads a graph: a folder in, the arrays of a graph net out."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from pdl.dtype import Array
from pdl.errors import DataError, UsageError
from pdl.runtime.graph_folder import GraphFolder, pairs
from pdl.runtime.names import checked_name
from pdl.runtime.readers import Reader
from pdl.runtime.steps import PRE

KINDS = ("node", "pair", "graph")
PARTS = ("x", "indptr", "indices", "row", "weight", "attributes", "ask")
KEPT = 4  # graphs that are read once and asked several times


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
        ascending), weight float32 [E], attributes float32 [E, D]."""
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
        """What is known of edges, by their numbers; of added loops (-1) a weight of 1 and zeros."""
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


class GraphPart(Reader, table=PRE, name="graph"):
    """A graph, and what is asked of it -> one of the arrays of a net, by `part`: those of `Form.arrays`, shared by all
    that is asked of a graph together; or "ask", what is asked: the number of a node, int64 [], or of the two of a pair,
    int64 [2].

    An item is {"graph": folder, "node": name}, {"graph": folder, "pair": [name, name]} or, for nets that tell whole
    graphs apart, {"graph": folder} or the folder itself: `kind` says which. A folder is the path of one, or a
    `GraphFolder`.
    """

    takes = "graph"

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
        for what, value, known in (("part", part, PARTS), ("kind", kind, KINDS)):
            if value not in known:
                raise UsageError(f"{what}={value!r} must be one of {', '.join(known)}")
        for what, count in (("features", features), ("attributes", attributes)):
            if type(count) is not int or count < 0:
                raise UsageError(f"{what}={count!r} must be a number, 0 for none")
        if not all(type(each) is bool for each in (directed, self_loops, normalize)):
            raise UsageError("directed, self_loops and normalize must be true or false")
        self.part, self.takes = checked_name(part), checked_name(kind)
        self.form = Form(features, directed, self_loops, normalize, attributes)

    @property
    def accepts(self) -> tuple[str, ...]:
        return tuple({self.takes: None, "graph": None})

    def read(self, item: Any, told: dict[str, Any]) -> Array:
        graph, arrays = opened(self._folder(item), self.form)
        if self.part != "ask":
            return arrays[self.part]
        if self.takes == "node":
            return np.array(graph.number(self._asked(item, "node")), np.int64)
        return np.array([graph.number(each) for each in self._asked(item, "pair")], np.int64)

    def _folder(self, item: Any) -> str | Path | GraphFolder:
        if self.takes == "graph" and not isinstance(item, Mapping):
            return cast(Path, item)
        if not isinstance(item, Mapping) or "graph" not in item:
            raise DataError(f"no graph is given for {item!r:.60}: a bundle holds none; give one (--new-graph DIR)")
        return cast(Path, item["graph"])

    def _asked(self, item: Any, what: str) -> Any:
        if not isinstance(item, Mapping) or what not in item:
            raise DataError(f"{item!r:.60} asks for no {what}; expected {{'graph': folder, {what!r}: ...}}")
        return item[what]

    def called(self, item: Any) -> str:
        if not isinstance(item, Mapping):
            return str(item)
        pair = item.get("pair")
        return str(item.get("node", item.get("graph"))) if pair is None else ":".join(map(str, pair))

    def rows(self, path: str | Path) -> Iterator[tuple[str, Any]]:
        """All that can be asked of a folder: each of its nodes, or the graph itself."""
        if self.takes == "graph":
            return iter([(str(path), {"graph": str(path)})])
        if self.takes == "node":
            graph, _ = opened(Path(path), self.form)
            return ((name, {"graph": str(path), "node": name}) for name in graph.names)
        raise UsageError(f"{path}: which pairs of this graph? give --pairs FILE, with the columns source and target")

    def together(self, array: Array) -> Any:
        return "ask" if self.part == "ask" else id(array)

    def joined(self, arrays: Sequence[Array]) -> Array:
        return np.stack(arrays) if self.part == "ask" else arrays[0]

    def random(self, shape: tuple[int, ...], rng: np.random.Generator, sizes: Mapping[str, int]) -> Array:
        """Of a graph in which edges go from any node to any, as many into each."""
        nodes, edges = sizes["nodes"], sizes["edges"]
        row = np.arange(edges) * nodes // max(edges, 1)
        if self.part == "indptr":
            return np.searchsorted(row, np.arange(nodes + 1)).astype(np.int64)
        if self.part in ("x", "weight", "attributes"):
            return rng.random(shape, np.float32)
        return row.astype(np.int32) if self.part == "row" else rng.integers(0, nodes, shape)


_graphs: OrderedDict[Any, tuple[GraphFolder, dict[str, Array]]] = OrderedDict()


def opened(folder: str | Path | GraphFolder, form: Form) -> tuple[GraphFolder, dict[str, Array]]:
    """The graph of a folder and its arrays; the same objects while the files are the same."""
    if isinstance(folder, GraphFolder):
        key: Any = (id(folder), form)  # it is kept with its arrays, so no other has its id
    else:
        path = Path(folder)
        files = sorted(path.iterdir()) if path.is_dir() else []
        stats = [(f.name, f.stat().st_mtime_ns, f.stat().st_size) for f in files]
        key = (os.path.abspath(path), form, *stats)
    if key not in _graphs:
        graph = folder if isinstance(folder, GraphFolder) else GraphFolder.read(folder)
        _graphs[key] = graph, form.arrays(graph)
        while len(_graphs) > KEPT:
            _graphs.popitem(last=False)
    _graphs.move_to_end(key)
    return _graphs[key]


def asked(kind: str, names: Sequence[str], graph: str | Path | None) -> list[tuple[str, dict[str, Any]]]:
    """(name, item) for nodes ("a", "b"), or for pairs: files of them, or "a:b"."""
    about = {} if graph is None else {"graph": str(graph)}
    if kind == "node":
        return [(name, {**about, "node": name}) for name in names]
    found = [each for name in names for each in (pairs(name) if Path(name).is_file() else [_pair(name)])]
    return [(f"{a}:{b}", {**about, "pair": [a, b]}) for a, b in found]


def _pair(text: str) -> tuple[str, str]:
    first, colon, second = text.partition(":")
    if not colon:
        raise UsageError(f"{text!r}: no such file, and no pair; a pair is written source:target")
    return first, second


__all__ = ["Form", "GraphPart", "asked", "opened"]
