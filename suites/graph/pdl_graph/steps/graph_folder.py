"""A graph as people keep it: a folder with edges.csv and, where nodes have features, nodes.csv."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.errors import DataError
from pdl.runtime import tables
from pdl.runtime.arrays import read_array
from pdl.suites import suggest

ENDS = ("source", "target")
NO_FEATURES = ("id", "label", "labels", "split", "type", "name")
"""Columns of nodes.csv that are no features."""
NO_ATTRIBUTES = (*ENDS, "weight", "type")
"""Columns of edges.csv that are no attributes."""
_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True, eq=False)
class GraphFolder:
    """The nodes and edges of a folder, or of a graph given as arrays.

    path             where it was read, or a name for it in messages
    names            of the nodes, in the order of nodes.csv, or in the order in which edges.csv first names them
    features         float32 [N, F], or None;    columns  their F names
    source, target   int64 [E], the ends of the edges as they stand;    weight  float32 [E], or None
    attributes       float32 [E, D], or None
    derived          what has been made of it, so that it is made once: by its makers
    """

    path: str | Path
    names: Sequence[str]
    features: Array | None
    columns: Sequence[str]
    source: Array
    target: Array
    weight: Array | None
    attributes: Array | None = None
    derived: dict[Any, Any] = field(default_factory=dict, repr=False)

    @staticmethod
    def read(path: str | Path) -> GraphFolder:
        """The graph of a folder with these files, *.csv or *.tsv, also with .gz:

            edges  source, target[, weight, type], and every other column an attribute; a row for each edge, between
                   nodes by name
            nodes  id[, label, split, type, name], and every other column a feature, a number in each row;
                   features.npy, float [N, F], may stand beside it instead

        DataError with file and line for what is wrong.
        """
        folder = Path(path)
        if not folder.is_dir():
            what = "is no folder" if folder.exists() else "no such folder"
            raise DataError(f"{path}: {what}; a graph is a folder with edges.csv and nodes.csv")
        edges, nodes = _file(folder, "edges"), _file(folder, "nodes")
        if edges is None:
            have = ", ".join(sorted(each.name for each in folder.iterdir())[:8])
            raise DataError(f"{path}: lacks edges.csv, with the columns source and target; it has {have or 'no files'}")
        if (folder / "features.npz").is_file():
            raise DataError(f"{folder / 'features.npz'}: is not read here; save them as features.npy, float [N, F]")
        numbers: dict[str, int] = {}
        features, columns = (None, []) if nodes is None else _nodes(nodes, numbers)
        ends = _edges(edges, numbers, given=nodes)
        if not numbers:
            raise DataError(f"{path}: names no node")
        array = folder / "features.npy"
        if array.is_file():
            features, columns = _array(array, len(numbers)), []
        return GraphFolder(folder, list(numbers), features, columns, *ends)

    def number(self, name: str) -> int:
        """The number of a node; DataError where there is none of this name."""
        if name not in self.numbers:
            near = suggest(name, self.numbers)
            raise DataError(f"{self.path}: no node {name!r} among its {len(self.names):,}{near}")
        return self.numbers[name]

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        """The number of every node by name."""
        return dict(zip(self.names, range(len(self.names)), strict=True))


def _file(folder: Path, name: str) -> Path | None:
    found = (folder / f"{name}{end}{packed}" for end in tables.SEPARATORS for packed in ("", ".gz"))
    return next((each for each in found if each.is_file()), None)


def _nodes(path: Path, numbers: dict[str, int]) -> tuple[Array | None, list[str]]:
    """The features, and their names; the nodes get their numbers."""
    columns: list[str] = []
    found: list[list[float]] = []
    for line, row in _rows(path):
        if not numbers:
            if "id" not in row:
                raise DataError(f"{path}:1: columns are {', '.join(row)}; expected id, the name of a node")
            columns = [name for name in row if name not in NO_FEATURES]
        if not row["id"]:
            raise DataError(f"{path}:{line}: id is empty; name the node")
        if row["id"] in numbers:
            raise DataError(f"{path}:{line}: node {row['id']!r} stands here twice; keep one of them")
        numbers[row["id"]] = len(numbers)
        found.append([_number(path, line, name, row[name], "feature", NO_FEATURES) for name in columns])
    return (np.array(found, np.float32) if columns else None), columns


def _rows(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """As `pdl.runtime.tables.rows`; spaces around names and values mean nothing."""
    if path.is_file() and not path.stat().st_size:
        raise DataError(f"{path}: is empty; expected a header and rows")
    return ((line, {name.strip(): value.strip() for name, value in row.items()}) for line, row in tables.rows(path))


def _number(path: Path, line: str, column: str, text: str, thing: str, others: Sequence[str]) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not abs(value) <= _LARGEST:
        none = f" (no {thing}s: {', '.join(others)})" if others else ""
        raise DataError(f"{path}:{line}: {column} is {text!r}; a {thing} is a finite number{none}")
    return value


def _edges(path: Path, numbers: dict[str, int], given: Path | None) -> tuple[Array, Array, Array | None, Array | None]:
    """Source, target, weight and attributes."""
    ends: list[tuple[int, int]] = []
    weights: list[float] = []
    attributes: list[list[float]] = []
    columns: list[str] = []
    for line, row in _rows(path):
        if not ends:
            if not set(ENDS) <= row.keys():
                raise DataError(f"{path}:1: columns are {', '.join(row)}; expected source and target")
            columns = [name for name in row if name not in NO_ATTRIBUTES]
        ends.append((_end(path, line, row["source"], numbers, given), _end(path, line, row["target"], numbers, given)))
        if "weight" in row:
            weights.append(_number(path, line, "weight", row["weight"], "weight", ()))
        if columns:
            attributes.append([_number(path, line, name, row[name], "number", NO_ATTRIBUTES) for name in columns])
    both = np.array(ends, np.int64).reshape(-1, 2)
    weight = np.array(weights, np.float32) if weights else None
    return both[:, 0].copy(), both[:, 1].copy(), weight, np.array(attributes, np.float32) if attributes else None


def _end(path: Path, line: str, name: str, numbers: dict[str, int], given: Path | None) -> int:
    if not name:
        raise DataError(f"{path}:{line}: source or target is empty; name both nodes")
    if given is None:
        return numbers.setdefault(name, len(numbers))
    if name not in numbers:
        near = suggest(name, numbers)
        raise DataError(f"{path}:{line}: node {name!r} is not in {given.name}{near}; add it there, or leave it out")
    return numbers[name]


def _array(path: Path, nodes: int) -> Array:
    try:
        found = read_array(path)
    except (ValueError, OSError) as error:
        raise DataError(f"{path}: not an array of numbers ({error})") from None
    if found.ndim != 2 or len(found) != nodes or found.dtype.kind not in "fiub":
        raise DataError(f"{path}: {found.dtype} {found.shape}; expected numbers [{nodes}, F], a row for each node")
    if not np.isfinite(found).all():
        row = int(np.flatnonzero(~np.isfinite(found).all(1))[0])
        raise DataError(f"{path}: row {row} has a number that is not finite")
    return found.astype(np.float32)


def pairs(path: str | Path) -> Iterator[tuple[str, str]]:
    """(source, target) for each row of a file *.csv or *.tsv with these columns."""
    for line, row in _rows(Path(path)):
        if not set(ENDS) <= row.keys():
            raise DataError(f"{path}:1: columns are {', '.join(row)}; expected source and target")
        if not (row["source"] and row["target"]):
            raise DataError(f"{path}:{line}: source or target is empty; name both nodes")
        yield row["source"], row["target"]
