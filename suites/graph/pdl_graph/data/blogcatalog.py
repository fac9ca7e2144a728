"""BlogCatalog (Tang and Liu, KDD 2009; http://datasets.syr.edu): bloggers, their friends, the groups they are in."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from pdl.data.dataset import StandIn
from pdl.data.faults import fault, unreadable
from pdl.files import DAMAGED, open_file, read_text
from pdl.hints import Range
from pdl_graph.data import standin
from pdl_graph.data.base import NodeData
from pdl_graph.data.store import locate, naming, shared
from pdl_graph.graph import Graph

FILES = ("nodes.csv", "edges.csv", "groups.csv", "group-edges.csv")


class BlogCatalog(NodeData):
    """Bloggers by the groups they are in, one or several each (labels bool [N, 39]); edges are friendships,
    in both directions: 10,312 nodes, 333,983 edges.

    split  train, val or test: a share of `train` of all nodes, drawn at random with `seed`, is for training, the rest
           for the test; None: all nodes
    val    share of the nodes for training that are kept for validation: to choose settings on
    path   of a zip or folder with nodes.csv, edges.csv, groups.csv and group-edges.csv (numbers from 1 on); by default
           blogcatalog.zip, looked for under PDL_DATA and its folder graph

    The usual protocol (Perozzi et al., arXiv 1403.6652): vectors of all nodes are learned from the edges alone, and the
    groups by logistic regression on them, with half of the nodes.
    """

    def __init__(
        self,
        split: Literal["train", "val", "test"] | None = None,
        *,
        train: Annotated[float, Range(above=0, below=1)] = 0.5,
        val: Annotated[float, Range(0, below=1)] = 0.0,
        seed: Annotated[int, Range(0)] = 0,
        path: str | Path | None = None,
    ) -> None:
        place = "blogcatalog.zip" if path is None else path
        found = locate(place, "graph/blogcatalog", also=("BlogCatalog-dataset/data",))
        graph = shared(found, "blogcatalog", lambda: _read(found))
        super().__init__(graph, None, path=found)
        if split is not None:
            last = round(train * graph.num_nodes)
            first = last - round(val * last)
            order = np.random.default_rng(seed).permutation(graph.num_nodes)
            parts = {"train": order[:first], "val": order[first:last], "test": order[last:]}
            self.split, self.nodes = split, np.sort(parts[split])

    @classmethod
    def stand_in(cls, folder: Path, settings: Mapping[str, Any]) -> StandIn:
        file = folder / "blogs.zip"
        standin.write_blogs(file)
        return StandIn({"path": str(file)}, standin.WHAT)


def _read(path: Path) -> Graph:
    tables = {name: _table(path, name) for name in FILES}
    nodes, groups = (len(tables[name]) for name in ("nodes.csv", "groups.csv"))
    member = tables["group-edges.csv"]
    y = np.zeros((nodes, groups), bool)
    outside = np.flatnonzero((member < 1).any(1) | (member > [nodes, groups]).any(1))
    if len(outside):
        row = int(outside[0])
        what = f"node {member[row, 0]} in group {member[row, 1]}, of {nodes} nodes and {groups} groups"
        raise fault(f"{path}/group-edges.csv", what, "correct the line, or list it", line=row + 1)
    y[member[:, 0] - 1, member[:, 1] - 1] = True
    edges = tables["edges.csv"] - 1
    with naming(path):
        graph = Graph.from_edges(edges[:, 0], edges[:, 1], nodes, directed=False, y=y, names=np.arange(1, nodes + 1),
                                 classes=[str(g) for g in range(1, groups + 1)])  # fmt: skip
    return graph.coalesce()


def _table(path: Path, name: str) -> np.ndarray:
    """The numbers of one of the files, int64 [rows, columns]; a single column is [rows]."""
    place = f"{path}/{name}"
    text = _text(path, name)
    columns = 1 if name in ("nodes.csv", "groups.csv") else 2
    try:
        found = np.loadtxt(io.StringIO(text), np.int64, delimiter=",", ndmin=2)
    except ValueError as error:
        raise fault(place, f"cannot be read as numbers: {error}", "get it again from its source") from error
    if found.shape[1:] != (columns,):
        raise fault(place, f"has {found.shape[1]} columns, not {columns}", "get it again from its source")
    return found if columns == 2 else found[:, 0]


def _text(path: Path, name: str) -> str:
    try:
        if path.is_dir():
            return read_text(path / name)
        with open_file(path) as file, zipfile.ZipFile(file) as archive:
            inside = [each for each in archive.namelist() if each.rpartition("/")[2] == name]
            if not inside:
                raise fault(path, f"has no {name}", f"it needs {', '.join(FILES)}")
            return archive.read(inside[0]).decode("utf-8")
    except (*DAMAGED, UnicodeDecodeError) as error:
        raise fault(path, f"is damaged or cut off: {error}", "get it again from its source") from error
    except OSError as error:
        raise unreadable(path / name if path.is_dir() else path, error) from error
