"""The input step for models that read the enclosing subgraph of a pair of nodes: names in, its arrays out."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from pdl.dtype import Array
from pdl.errors import DataError, UsageError
from pdl.runtime.steps import Flag, Input, InputStep, NamesOf, Resources, Sample
from pdl.runtime.steps.arguments import count, one_of, text
from pdl_graph.steps.enclosing import Enclosing, Neighbours, enclosing
from pdl_graph.steps.graph_folder import GraphFolder
from pdl_graph.steps.graphs import opened
from pdl_graph.steps.queries import NEW_GRAPH, PAIRS, pair_of, pair_queries, pairs_of_file

PARTS, ARRAYS = ("size", "node", "edge"), ("start", "neighbours")


class SubgraphInput(NamesOf, InputStep):
    """A pair of nodes -> one of the arrays of its enclosing subgraph (`pdl_graph.steps.enclosing`), by `part`:

    size  int64 [1], how many nodes it has
    node  int64 [N, 3], of each node: the number of its sample in the batch, its label (`drnl`), its neighbours' count
    edge  int64 [E, 3], of each edge, both directions, by receiving nodes: the number of its sample, and the places of
          the nodes that receive and send among those of the sample

    An item is {"pair": [name, name]}, or without its key, for the graph in the bundle (its `graph` of constants); or
    {"graph": folder, "pair": [name, name]} for another. An edge between the two counts as not there.

    vocabulary       names the nodes of the graph in the bundle
    graph            the constants GRAPH.start and GRAPH.neighbours are its `Neighbours`
    hops, max_nodes  how much is read, as `enclosing` takes them
    """

    name = "enclosing_subgraph"
    takes, about = "pair", "a file of pairs of nodes (source, target), or a:b"

    def __init__(
        self, part: str, vocabulary: str, graph: str = "graph", hops: int = 1, max_nodes: int | None = None
    ) -> None:
        self.part, self.vocabulary = one_of("part", part, PARTS), text("vocabulary", vocabulary)
        self.graph, self.hops = text("graph", graph), count("hops", hops)
        self.max_nodes = None if max_nodes is None else count("max_nodes", max_nodes)

    def bind(self, resources: Resources) -> None:
        super().bind(resources)
        if not all(f"{self.graph}.{name}" in resources.constants for name in ARRAYS):
            raise UsageError(f"{self.name}: no graph {self.graph!r:.60} is among the constants")
        self._constants = resources.constants

    @cached_property
    def own(self) -> Neighbours:
        """The graph in the bundle, checked on first use."""
        made = _shared(*(self._constants[f"{self.graph}.{name}"] for name in ARRAYS))
        if len(made) != len(self.names):
            raise DataError(f"{self.name}: {len(self.names):,} names for the {len(made):,} nodes of the graph")
        return made

    # -- reading -------------------------------------------------------------------------------------------------------
    def parse(self, item: Any, sample: Sample) -> Array:
        key = (self.name, self.graph, self.hops, self.max_nodes)
        if key not in sample.memo:
            graph, numbers = self._found(item)
            sample.memo[key] = enclosing(graph, np.array([numbers]), hops=self.hops, max_nodes=self.max_nodes)
        cut: Enclosing = sample.memo[key]
        if self.part == "size":
            return cut.sizes
        zeros = np.zeros(len(cut.nodes if self.part == "node" else cut.indices), np.int64)
        degree = np.diff(cut.indptr)
        if self.part == "node":
            return np.stack([zeros, cut.label.astype(np.int64), degree], axis=1)
        return np.stack([zeros, np.repeat(np.arange(len(cut.nodes)), degree), cut.indices.astype(np.int64)], axis=1)

    def _found(self, item: Any) -> tuple[Neighbours, tuple[int, int]]:
        """The graph of the query, and the numbers of the two nodes."""
        first, second = self._pair(item)
        if first == second:
            raise DataError(f"the pair {first}:{second} is of one node; two are asked for")
        if isinstance(item, Mapping) and "graph" in item:
            folder = opened(item["graph"])
            return _neighbours(folder), (folder.number(first), folder.number(second))
        numbers = self.names.encode([first, second])
        for name, number in zip((first, second), numbers, strict=True):
            if not number:
                raise DataError(f"node {name!r} is not among the {len(self.names):,} of the model's graph"
                                f"{self.hint(name)}")  # fmt: skip
        return self.own, (int(numbers[0]) - 1, int(numbers[1]) - 1)

    def _pair(self, item: Any) -> tuple[str, str]:
        return pair_of(item.get("pair") if isinstance(item, Mapping) else item)

    def title(self, item: Any) -> str:
        return ":".join(self._pair(item))

    def file(self, path: str | Path) -> Iterator[Input]:
        """The pairs of a table with the columns source and target."""
        if Path(path).is_dir():
            raise UsageError(f"{path}: which pairs of this graph? give --pairs FILE (columns source, target)")
        return pairs_of_file(path)

    @property
    def flags(self) -> tuple[Flag, ...]:
        return (PAIRS, NEW_GRAPH)

    def from_flags(self, values: Mapping[str, Sequence[str]]) -> list[Any]:
        return pair_queries(values)

    # -- batches -------------------------------------------------------------------------------------------------------
    def group(self, array: Array) -> Hashable:
        return self.part  # any pairs are

    def collate(self, arrays: Sequence[Array]) -> Array:
        made = np.concatenate(arrays)
        if self.part != "size":
            made[:, 0] = np.repeat(np.arange(len(arrays)), [len(each) for each in arrays])
        return made

    def random(self, shape: tuple[int, ...], rng: np.random.Generator, sizes: Mapping[str, int]) -> Array:
        """Of subgraphs of about one size, whose edges go from any node to any."""
        count, nodes, edges = sizes["n"], max(sizes["nodes"], 2 * sizes["n"]), sizes["edges"]
        size = np.diff(np.arange(count + 1) * nodes // count)
        owner = np.repeat(np.arange(count), size)
        row = np.arange(edges) * nodes // max(edges, 1)
        if self.part == "size":
            return size
        if self.part == "node":
            return np.stack([owner, rng.integers(0, 4, nodes), np.bincount(row, minlength=nodes)], axis=1)
        place = row - (np.cumsum(size) - size)[owner[row]]
        return np.stack([owner[row], place, rng.integers(0, size[owner[row]])], axis=1)


def _neighbours(folder: GraphFolder) -> Neighbours:
    """Of the graph of a folder, made once."""
    found = folder.derived.get(Neighbours)
    if found is None:
        made = Neighbours.of(folder.source, folder.target, len(folder.names))
        found = folder.derived.setdefault(Neighbours, made)
    return found  # type: ignore[no-any-return]


_known: WeakValueDictionary[tuple[int, int], Neighbours] = WeakValueDictionary()


def _shared(start: Array, neighbours: Array) -> Neighbours:
    """The lists of these arrays, which they keep alive: for all steps the same object."""
    made = _known.get((id(start), id(neighbours)))
    if made is None:
        made = _known[(id(start), id(neighbours))] = _checked(start, neighbours)
    return made


def _checked(start: Array, neighbours: Array) -> Neighbours:
    """Neighbours out of a file; DataError where they are none."""
    good = start.dtype == np.int64 and neighbours.dtype == np.int32 and start.ndim == neighbours.ndim == 1
    good = bool(good and len(start) > 0 and start[0] == 0 and start[-1] == len(neighbours))
    n = len(start) - 1
    good = good and not (np.diff(start) < 0).any()
    if not good or (len(neighbours) and not 0 <= neighbours.min() <= neighbours.max() < n):
        raise DataError("the graph among the constants is damaged: not lists of neighbours; export the model again")
    return Neighbours(start, neighbours)
