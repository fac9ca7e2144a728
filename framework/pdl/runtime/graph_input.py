"""The step that reads a graph: a folder in, the arrays of a graph net out."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from pdl.errors import DataError, UsageError
from pdl.runtime.graph_folder import GraphFolder, pairs
from pdl.runtime.names import checked_name
from pdl.runtime.readers import Reader
from pdl.runtime.steps import PRE
from pdl.tensor import Array

KINDS = ("node", "pair", "graph")
PARTS = ("x", "indptr", "indices", "row", "weight", "ask")
KEPT = 4  # graphs that are read once and asked several times


@dataclass(frozen=True)
class Form:
    """How the arrays of a graph are made of its nodes and edges.

    features    F; 0 for a net that reads none
    directed    False: every edge counts in both directions, once
    self_loops  an edge from every node to itself, of weight 1, in place of those it has
    normalize   rows of features are divided by their sum, where that is not 0
    """

    features: int
    directed: bool = False
    self_loops: bool = False
    normalize: bool = False

    def arrays(self, graph: GraphFolder) -> dict[str, Array]:
        """x float32 [N, F], indptr int64 [N + 1], indices and row int32 [E] (of the edges into each node, sources
        ascending), weight float32 [E]."""
        n = len(graph.names)
        source, target, weight = graph.source, graph.target, graph.weight
        weight = np.ones(len(source), np.float32) if weight is None else weight
        if not self.directed:
            back = source != target
            source, target = np.concatenate([source, target[back]]), np.concatenate([target, source[back]])
            weight = np.concatenate([weight, weight[back]])
            _, first = np.unique(target * n + source, return_index=True)
            source, target, weight = source[first], target[first], weight[first]
        if self.self_loops:
            other, loops = source != target, np.arange(n)
            source, target = np.concatenate([source[other], loops]), np.concatenate([target[other], loops])
            weight = np.concatenate([weight[other], np.ones(n, np.float32)])
        order = np.lexsort((source, target))
        indptr = np.concatenate([[0], np.cumsum(np.bincount(target, minlength=n), dtype=np.int64)])
        edges = {"indices": source[order].astype(np.int32), "row": target[order].astype(np.int32)}
        return {"x": self._x(graph), "indptr": indptr, **edges, "weight": weight[order]}

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
    ) -> None:
        for what, value, known in (("part", part, PARTS), ("kind", kind, KINDS)):
            if value not in known:
                raise UsageError(f"{what}={value!r} must be one of {', '.join(known)}")
        if (
            type(features) is not int
            or features < 0
            or not all(type(b) is bool for b in (directed, self_loops, normalize))
        ):
            raise UsageError(f"features={features!r} must be a number; directed, self_loops, normalize true or false")
        self.part, self.takes = checked_name(part), checked_name(kind)
        self.form = Form(features, directed, self_loops, normalize)

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
        if self.part in ("x", "weight"):
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
