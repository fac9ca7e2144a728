"""The step for models that read what is around a pair of nodes: names in, the subgraph around them out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from pdl.dtype import Array
from pdl.errors import DataError, UsageError
from pdl.runtime import graph_input
from pdl.runtime.graph_folder import GraphFolder, pairs
from pdl.runtime.names import checked_count, checked_name
from pdl.runtime.readers import Named, Reader
from pdl.runtime.steps import PRE
from pdl.runtime.surroundings import Enclosing, Lists, enclosing
from pdl.suites import suggest

PARTS, ARRAYS = ("size", "node", "edge"), ("start", "neighbours")
_FORM = graph_input.Form(0)


class PairSurroundings(Named, Reader, table=PRE, name="surroundings"):
    """A pair of nodes -> one of the arrays of the subgraph around it (`pdl.runtime.surroundings.enclosing`), by `part`:

    size  int64 [1], how many nodes it has
    node  int64 [N, 3], of each node: the number of its sample in the batch, its label (`drnl`), its neighbours' count
    edge  int64 [E, 3], of each edge, both directions, by receiving nodes: the number of its sample, and the places of
          the nodes that receive and send among those of the sample

    An item is {"pair": [name, name]}, or without its key, for the graph in the bundle (its `graph` of constants); or
    {"graph": folder, "pair": [name, name]} for another. An edge between the two counts as not there.

    vocabulary       names the nodes of the graph in the bundle
    graph            the constants GRAPH.start and GRAPH.neighbours are its `Lists`
    hops, max_nodes  how much is read, as `enclosing` takes them
    """

    takes = "pair"
    accepts = ("pair", "graph")

    def __init__(
        self, part: str, vocabulary: str, graph: str = "graph", hops: int = 1, max_nodes: int | None = None
    ) -> None:
        if part not in PARTS:
            raise UsageError(f"part={part!r} must be one of {', '.join(PARTS)}")
        self.part, self.vocabulary, self.graph = part, checked_name(vocabulary), checked_name(graph)
        self.hops = checked_count("hops", hops)
        self.max_nodes = None if max_nodes is None else checked_count("max_nodes", max_nodes)

    def hold(self, constants: Mapping[str, Array]) -> None:
        if not all(f"{self.graph}.{name}" in constants for name in ARRAYS):
            raise UsageError(f"{self.name}: no graph {self.graph!r:.60} is among the constants")
        self._constants = constants

    @cached_property
    def own(self) -> Lists:
        """The graph in the bundle, which is looked over when it is first asked for."""
        made = _shared(*(self._constants[f"{self.graph}.{name}"] for name in ARRAYS))
        if len(made) != len(self.names):
            raise DataError(f"{self.name}: {len(self.names):,} names for the {len(made):,} nodes of the graph")
        return made

    # -- reading -------------------------------------------------------------------------------------------------------
    def read(self, item: Any, told: dict[str, Any]) -> Array:
        graph, numbers = self._found(item)
        cut = _cut(graph, *numbers, self.hops, self.max_nodes)
        if self.part == "size":
            return cut.sizes
        zeros = np.zeros(len(cut.nodes if self.part == "node" else cut.indices), np.int64)
        degree = np.diff(cut.indptr)
        if self.part == "node":
            return np.stack([zeros, cut.label.astype(np.int64), degree], axis=1)
        return np.stack([zeros, np.repeat(np.arange(len(cut.nodes)), degree), cut.indices.astype(np.int64)], axis=1)

    def _found(self, item: Any) -> tuple[Lists, tuple[int, int]]:
        """The graph that is asked of, and the numbers of the two nodes."""
        first, second = self._asked(item)
        if first == second:
            raise DataError(f"the pair {first}:{second} is of one node; two are asked for")
        if isinstance(item, Mapping) and "graph" in item:
            folder, _ = graph_input.opened(item["graph"], _FORM)
            return _lists(folder), (folder.number(first), folder.number(second))
        numbers = self.names.numbers([first, second])
        for name, number in zip((first, second), numbers, strict=True):
            if not number:
                near = suggest(name, self.names)
                raise DataError(f"node {name!r} is not among the {len(self.names):,} of the model's graph{near}")
        return self.own, (int(numbers[0]) - 1, int(numbers[1]) - 1)

    def _asked(self, item: Any) -> tuple[str, str]:
        asked = item.get("pair") if isinstance(item, Mapping) else item
        asked = asked.split(":") if isinstance(asked, str) else asked
        if isinstance(asked, Sequence) and len(asked) == 2:
            return str(asked[0]), str(asked[1])
        raise DataError(f"{item!r:.60} is no pair; expected ['a', 'b'] or 'a:b'")

    def called(self, item: Any) -> str:
        return ":".join(self._asked(item))

    def rows(self, path: str | Path) -> Iterator[tuple[str, Any]]:
        """The pairs of a table with the columns source and target."""
        if Path(path).is_dir():
            raise UsageError(f"{path}: which pairs of this graph? give --pairs FILE (columns source, target)")
        return ((f"{a}:{b}", {"pair": [a, b]}) for a, b in pairs(path))

    # -- batches -------------------------------------------------------------------------------------------------------
    def together(self, array: Array) -> Any:
        return self.part  # any pairs are

    def joined(self, arrays: Sequence[Array]) -> Array:
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


@lru_cache(maxsize=8)  # the parts of one pair are asked for one after the other
def _cut(graph: Lists, first: int, second: int, hops: int, max_nodes: int | None) -> Enclosing:
    return enclosing(graph, np.array([[first, second]]), hops=hops, max_nodes=max_nodes)


@lru_cache(maxsize=graph_input.KEPT)
def _lists(folder: GraphFolder) -> Lists:
    return Lists.of(folder.source, folder.target, len(folder.names))


_known: WeakValueDictionary[tuple[int, int], Lists] = WeakValueDictionary()


def _shared(start: Array, neighbours: Array) -> Lists:
    """The lists of these arrays, which they keep alive: for all steps the same object."""
    made = _known.get((id(start), id(neighbours)))
    if made is None:
        made = _known[(id(start), id(neighbours))] = _checked(start, neighbours)
    return made


def _checked(start: Array, neighbours: Array) -> Lists:
    """Lists out of a file; DataError where they are none."""
    good = start.dtype == np.int64 and neighbours.dtype == np.int32 and start.ndim == neighbours.ndim == 1
    good = bool(good and len(start) > 0 and start[0] == 0 and start[-1] == len(neighbours))
    n = len(start) - 1
    good = good and not (np.diff(start) < 0).any()
    if not good or (len(neighbours) and not 0 <= neighbours.min() <= neighbours.max() < n):
        raise DataError("the graph among the constants is damaged: not lists of neighbours; export the model again")
    return Lists(start, neighbours)


__all__ = ["PairSurroundings"]
