"""The input step for models that know the nodes of one graph by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.errors import DataError, UsageError
from pdl.runtime import tables
from pdl.runtime.steps import Flag, Input, InputStep, NamesOf, Resources, Sample
from pdl.runtime.steps.arguments import one_of, text
from pdl_graph.steps.queries import NODES, PAIRS, node_queries, pair_of, pair_queries, pairs_of_file

KINDS = ("node", "pair")
OWN = "this model knows the nodes of its own graph alone, by name"


class NodeInput(NamesOf, InputStep):
    """A query about the training graph -> numbers of nodes in a vocabulary, int64 [1] of a node or [2] of
    a pair, as `kind` says. An item is {"node": name} or {"pair": [name, name]}, or without its key."""

    name = "nodes"

    def __init__(self, vocabulary: str, kind: str) -> None:
        self.vocabulary, self.kind = text("vocabulary", vocabulary), one_of("kind", kind, KINDS)
        self.takes = self.kind
        self.about = "a file with a node on each line" if kind == "node" else "a file of pairs (source, target), or a:b"

    def parse(self, item: Any, sample: Sample) -> Array:
        names = self.names_in(item)
        numbers = self.names.encode(names)
        for name, number in zip(names, numbers, strict=True):
            if not number:
                raise DataError(f"node {name!r} is not among the {len(self.names):,} that the model knows"
                                f"{self.hint(name)}")  # fmt: skip
        return numbers

    def names_in(self, item: Any) -> Sequence[str]:
        """The names of the node or pair of the query."""
        if isinstance(item, Mapping):
            if "graph" in item:
                raise UsageError(f"{item['graph']}: {OWN}; leave the graph out")
            if self.kind not in item:
                raise DataError(f"{item!r:.60} asks for no {self.kind}; expected {{{self.kind!r}: ...}}")
            item = item[self.kind]
        if self.kind == "pair":
            return pair_of(item)
        if isinstance(item, str | int):
            return [str(item)]
        raise DataError(f"{item!r:.60} is no node; expected 'a'")

    def title(self, item: Any) -> str:
        return ":".join(self.names_in(item))

    def file(self, path: str | Path) -> Iterator[Input]:
        """The pairs of a table with the columns source and target; the nodes of a text with one a line."""
        if Path(path).is_dir():
            raise UsageError(f"{path}: {OWN}; leave the graph out")
        if self.kind == "pair":
            return pairs_of_file(path)
        return (Input(name, {"node": name}) for name, _ in tables.text_lines(path, "id"))

    @property
    def flags(self) -> tuple[Flag, ...]:
        return (NODES,) if self.kind == "node" else (PAIRS,)

    def from_flags(self, values: Mapping[str, Sequence[str]]) -> list[Any]:
        return node_queries(values) if self.kind == "node" else pair_queries(values)

    def random(self, shape: tuple[int, ...], rng: np.random.Generator, sizes: Mapping[str, int]) -> Array:
        return rng.integers(1, max(2, len(self.names) + 1), shape)


class NodeOrPair(InputStep):
    """Names of nodes, or of pairs of them: {"node": name} or a name, and {"pair": [name, name]}. For runs, and no
    bundle: the query decides what is computed."""

    name, takes, about = "node_or_pair", "node", "a file with a node on each line"

    def __init__(self, vocabulary: str) -> None:
        self.node, self.pair = NodeInput(vocabulary, "node"), NodeInput(vocabulary, "pair")

    def bind(self, resources: Resources) -> None:
        self.node.bind(resources)
        self.pair.bind(resources)

    def _step(self, item: Any) -> NodeInput:
        return self.pair if isinstance(item, Mapping) and "pair" in item else self.node

    def parse(self, item: Any, sample: Sample) -> np.ndarray:
        return self._step(item).parse(item, sample)

    def title(self, item: Any) -> str:
        return self._step(item).title(item)

    def file(self, path: str | Path) -> Iterator[Input]:
        return self.node.file(path)

    @property
    def flags(self) -> tuple[Flag, ...]:
        return (*self.node.flags, *self.pair.flags)

    def from_flags(self, values: Mapping[str, Sequence[str]]) -> list[Any]:
        return [*self.node.from_flags(values), *self.pair.from_flags(values)]
