"""Graphs with a class each, in the text form of the GIN paper's code; MUTAG and PROTEINS ship with pdl-graph."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Annotated, Literal

import numpy as np

from pdl.data.faults import fault, unreadable
from pdl.data.splits import of_fold, stratified_folds
from pdl.errors import ConfigError, listed
from pdl.files import DAMAGED, MOST, open_file, read_plain
from pdl.hints import Range
from pdl_graph.data.graphs import GraphSet
from pdl_graph.data.store import locate, shared
from pdl_graph.graph import Graph

ADDRESS = "https://github.com/weihua916/powerful-gnns (dataset.zip)"
CLASSES = {"MUTAG": {0: "not mutagenic", 2: "mutagenic"}, "PROTEINS": {0: "enzyme", 1: "no enzyme"}}
Split = Literal["train", "val", "test"]


@dataclass(frozen=True)
class Labelled:
    """What a file holds: graphs, the number of each one's class, and all the classes' own numbers."""

    graphs: Sequence[Graph]
    labels: np.ndarray
    numbers: Sequence[int]


class TUGraphs(GraphSet):
    """Graphs in folds, each with a class; nodes have a kind each, one-hot in `x`.

    name      MUTAG (188 molecules: mutagenic or not) and PROTEINS (1,113: enzymes or not) ship with pdl-graph; of other
              sets give the `path`
    split     test: the graphs of fold `fold`; val: as `validate` says; train: all others; None: all
    fold      which of the `folds` is held out; folds are stratified: each has the same share of every class, up to one
    seed      of the permutation behind the folds
    validate  "inner": val is the next fold, which training then leaves out; "held_out": val is the test fold itself, as
              in the tables of the GIN paper (arXiv 1810.00826), where the best epoch is chosen on it
    degrees   kinds of nodes are their degrees, not the tags of the file (the paper's for social networks)
    path      a file in text form: the number of graphs; for each graph a line `nodes class`, then for each node a line
              `tag degree neighbour neighbour ...`, neighbours numbered from 0; also .gz, or NAME.txt within a .zip
    """

    def __init__(
        self,
        name: str = "MUTAG",
        split: Split | None = None,
        *,
        fold: Annotated[int, Range(0)] = 0,
        folds: Annotated[int, Range(2)] = 10,
        seed: Annotated[int, Range(0)] = 0,
        validate: Literal["inner", "held_out"] = "inner",
        degrees: bool = False,
        path: str | Path | None = None,
    ) -> None:
        if fold >= folds:
            raise ConfigError(f"TUGraphs: fold={fold} of {folds} folds; they are numbered from 0 to {folds - 1}")
        self.path = _place(name, path)
        held = shared(self.path, ("tu", name, degrees), lambda: _read(self.path, name, degrees))
        known = CLASSES.get(name, {})
        self.classes = [known.get(number, str(number)) for number in held.numbers]
        parts = stratified_folds(held.labels, folds, seed)
        rows = of_fold(parts, split, fold, folds, validate)
        self.graphs = [held.graphs[i] for i in rows.tolist()]
        self._labels = held.labels[rows]

    @property
    def labels(self) -> np.ndarray:
        return self._labels

    def path_of(self, index: int) -> str:
        return str(self.path)


def _place(name: str, path: str | Path | None) -> Path:
    if path is not None:
        return locate(path, ADDRESS)
    own = Path(str(resources.files("pdl_graph.data") / "files" / f"{name}.txt.gz"))
    return own if own.is_file() else locate(f"{name}.txt", ADDRESS)


def _lines(path: Path, name: str) -> list[list[int]]:
    """The numbers of every line."""
    try:
        data = _content(path, name)
    except DAMAGED as error:
        raise fault(path, f"is damaged or cut off: {error}", "get it again from its source") from error
    except OSError as error:
        raise unreadable(path, error) from error
    made = []
    for number, line in enumerate(data.decode("ascii", "replace").splitlines(), 1):
        try:
            row = [int(word) for word in line.split()]
            if any(abs(each) >= 2**31 for each in row):
                raise ValueError
            made.append(row)
        except ValueError:
            raise fault(
                path, f"{line[:60]!r} is no row of whole numbers", "see TUGraphs for the form", line=number
            ) from None
    return made


def _content(path: Path, name: str) -> bytes:
    if path.suffix != ".zip":
        return read_plain(path)
    with open_file(path) as file, zipfile.ZipFile(file) as box:
        if f"{name}.txt" not in box.namelist():
            raise fault(path, f"there is no {name}.txt inside", f"it has {listed(box.namelist())}")
        if box.getinfo(f"{name}.txt").file_size > MOST:
            raise fault(path, f"{name}.txt unpacks to more than {MOST} bytes", "get it again from its source")
        return box.read(f"{name}.txt")


def _read(path: Path, name: str, degrees: bool) -> Labelled:
    lines, at = _lines(path, name), 1
    if not lines or len(lines[0]) != 1 or lines[0][0] < 1:
        raise fault(path, "the first line must be the number of graphs", "see TUGraphs for the form", line=1)
    found, classes = [], []
    for _ in range(lines[0][0]):
        if at >= len(lines) or len(lines[at]) != 2:
            raise fault(path, "a line `nodes class` is expected", "see TUGraphs for the form", line=at + 1)
        nodes, label = lines[at]
        if nodes < 0:
            raise fault(path, f"a graph of {nodes} nodes", "see TUGraphs for the form", line=at + 1)
        found.append(_graph(path, lines[at + 1 : at + 1 + nodes], nodes, at + 2))
        classes.append(label)
        at += 1 + nodes
    numbers, labels = np.unique(np.array(classes, np.int64), return_inverse=True)
    tags = [graph.in_degree() if degrees else tag for graph, tag in found]
    kinds = np.unique(np.concatenate(tags))
    graphs = [
        graph.with_(x=(tag[:, None] == kinds).astype(np.float32)) for (graph, _), tag in zip(found, tags, strict=True)
    ]
    return Labelled(graphs, labels.reshape(-1).astype(np.int64), numbers.tolist())


def _graph(path: Path, rows: list[list[int]], nodes: int, line: int) -> tuple[Graph, np.ndarray]:
    """The graph of some lines, and its nodes' tags."""
    for offset, row in enumerate(rows):
        if len(row) < 2 or len(row) != 2 + row[1] or not all(0 <= other < nodes for other in row[2:]):
            what = f"a line `tag degree neighbours` with neighbours from 0 to {nodes - 1} is expected"
            raise fault(path, what, "see TUGraphs for the form", line=line + offset)
    if len(rows) != nodes:
        raise fault(path, f"the file ends before the {nodes} nodes of a graph", "get the whole file", line=line)
    target = np.repeat(np.arange(nodes), [row[1] for row in rows])
    source = np.array([other for row in rows for other in row[2:]], np.int64)
    graph = Graph.from_edges(source, target, nodes)
    return graph.with_(directed=not _both_ways(source, target, nodes)), np.array([row[0] for row in rows])


def _both_ways(source: np.ndarray, target: np.ndarray, nodes: int) -> bool:
    return np.array_equal(np.unique(source * nodes + target), np.unique(target * nodes + source))
