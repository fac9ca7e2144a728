"""Graphs that are only edges: lists of them in text, and the sets that link prediction is measured on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pdl.data.dataset import StandIn
from pdl.data.faults import fault
from pdl.hints import Range
from pdl_graph.data import standin
from pdl_graph.data.base import GraphData
from pdl_graph.data.edge_text import Repeats, read_edge_text
from pdl_graph.data.npz import read_arrays
from pdl_graph.data.store import locate, naming, shared
from pdl_graph.graph import Graph


class EdgeFile(GraphData):
    """The graph of a list of edges as SNAP gives them: lines `source target`, parted by tabs, spaces or commas; lines
    that begin with # or % are comments. Read in pieces, so that 100 million edges fit.

    path        .txt, .csv, .txt.gz or .bz2; a relative one is also looked for under PDL_DATA and its folder graph
    directed    False: a line stands for both directions (whether the file has both or one)
    weighted    each line has a third column, the weight
    repeats     "drop": an edge that is there several times counts once; "keep" them all
    self_loops  "keep" edges from a node to itself, or "drop" them
    num_nodes   ids in the file are numbers below this; without it the ids that occur are the nodes, numbered in their
                order, and their ids in the file become names where these have gaps
    """

    def __init__(
        self,
        path: str | Path,
        *,
        directed: bool = True,
        weighted: bool = False,
        repeats: Repeats = "drop",
        self_loops: Repeats = "keep",
        num_nodes: Annotated[int, Range(1)] | None = None,
    ) -> None:
        self.path = found = locate(path)
        how: dict[str, Any] = {
            "directed": directed, "weighted": weighted, "repeats": repeats, "self_loops": self_loops,
            "num_nodes": num_nodes,
        }  # fmt: skip
        self.graph = shared(found, ("edges", *how.values()), lambda: read_edge_text(found, **how))

    @classmethod
    def stand_in(cls, folder: Path, settings: Mapping[str, Any]) -> StandIn:
        file = folder / "edges.txt"
        standin.write_edges(file, weighted=bool(settings.get("weighted")))
        return StandIn({"path": str(file)}, standin.WHAT)


class CaAstroPh(EdgeFile):
    """Who wrote papers of astrophysics with whom (Leskovec et al., ACM TKDD 1(1), 2007): 18,772 authors, 198,050 pairs;
    the 60 authors who are listed with themselves lose that edge.

    path  of ca-AstroPh.txt.gz; by default looked for under PDL_DATA and its folder graph
    """

    def __init__(self, path: str | Path | None = None) -> None:
        found = locate("ca-AstroPh.txt.gz" if path is None else path, "graph/ca_astroph")
        super().__init__(found, directed=False, self_loops="drop")


class LinkGraph(GraphData):
    """One of the graphs of SEAL (Zhang and Chen, arXiv 1802.09691), undirected and without features.

    name  USAir (332 airports), NS (1,589 authors of network science), Yeast (2,375 proteins), Celegans (297 neurons)
    path  of an .npz file with an array int [E, 2] of that name; by default linkpred_seal4.npz, looked
          for under PDL_DATA and its folder graph
    """

    def __init__(
        self, name: Literal["USAir", "NS", "Yeast", "Celegans"] = "USAir", *, path: str | Path | None = None
    ) -> None:
        found = locate("linkpred_seal4.npz" if path is None else path, "graph/seal")
        self.path = found
        self.graph = shared(found, ("link", name), lambda: _pairs(found, name))

    @classmethod
    def stand_in(cls, folder: Path, settings: Mapping[str, Any]) -> StandIn:
        file = folder / "links.npz"
        standin.write_links(file, ("USAir", "NS", "Yeast", "Celegans"))
        return StandIn({"path": str(file)}, standin.WHAT)


def _pairs(path: Path, name: str) -> Graph:
    pairs = read_arrays(path, {name: "iu"})[name]
    if pairs.ndim != 2 or pairs.shape[1] != 2 or not len(pairs):
        raise fault(path, f"array {name!r} has shape {pairs.shape}", "give one row of two nodes for each edge")
    with naming(path):
        graph = Graph.from_edges(pairs[:, 0], pairs[:, 1], directed=False).coalesce()
    return graph.without_self_loops()
