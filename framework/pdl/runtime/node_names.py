"""The step for models that know the nodes of one graph by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.errors import DataError, UsageError
from pdl.runtime import tables
from pdl.runtime.graph_folder import pairs
from pdl.runtime.names import checked_name
from pdl.runtime.readers import Named, Reader
from pdl.runtime.steps import PRE
from pdl.suites import suggest

KINDS = ("node", "pair")


class NodeNames(Named, Reader, table=PRE, name="nodes"):
    """What is asked of a graph that the model knows -> numbers of nodes in a vocabulary, int64 [1] of a node or [2] of
    a pair, as `kind` says. An item is {"node": name} or {"pair": [name, name]}, or without its key."""

    takes = "node"

    def __init__(self, vocabulary: str, kind: str) -> None:
        if kind not in KINDS:
            raise UsageError(f"kind={kind!r} must be one of {', '.join(KINDS)}")
        self.vocabulary, self.takes = checked_name(vocabulary), kind

    @property
    def accepts(self) -> tuple[str, ...]:
        return (self.takes, "graph")  # a new graph is refused where it is read, which says why

    def read(self, item: Any, told: dict[str, Any]) -> Array:
        names = self._asked(item)
        numbers = self.names.numbers(names)
        for name, number in zip(names, numbers, strict=True):
            if not number:
                near = suggest(name, self.names)
                raise DataError(f"node {name!r} is not among the {len(self.names):,} that the model knows{near}")
        return numbers

    def _asked(self, item: Any) -> list[str]:
        if isinstance(item, Mapping):
            if "graph" in item:
                raise UsageError(
                    f"{item['graph']}: this model knows the nodes of its own graph alone; leave --new-graph out"
                )
            item = item.get(self.takes)
        if self.takes == "node" and isinstance(item, str | int):
            return [str(item)]
        if self.takes == "pair" and isinstance(item, str):
            item = item.split(":")
        if self.takes == "pair" and isinstance(item, Sequence) and len(item) == 2:
            return [str(each) for each in item]
        example = "'a'" if self.takes == "node" else "['a', 'b'] or 'a:b'"
        raise DataError(f"{item!r:.60} is no {self.takes}; expected {example}")

    def called(self, item: Any) -> str:
        return ":".join(self._asked(item))

    def rows(self, path: str | Path) -> Iterator[tuple[str, Any]]:
        """The pairs of a table with the columns source and target; the nodes of a text with one a line."""
        if Path(path).is_dir():
            raise UsageError(f"{path}: this model knows the nodes of its own graph alone; leave --new-graph out")
        if self.takes == "pair":
            return ((f"{a}:{b}", {"pair": [a, b]}) for a, b in pairs(path))
        return ((name, {"node": name}) for name, _ in tables.texts(path, "id"))

    def together(self, array: Array) -> Any:
        return array.shape

    def random(self, shape: tuple[int, ...], rng: np.random.Generator, sizes: Mapping[str, int]) -> Array:
        return rng.integers(1, max(2, self.names.size), shape)


__all__ = ["NodeNames"]
