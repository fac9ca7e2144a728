"""What `pdl check` tells of graphs, splits of nodes, and pairs; sound data gives no errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdl_graph import Graph
from pdl_graph.data import GraphFolder, NodeData, Planetoid
from pdl_graph.data.check import check_graph, notes
from pdl_graph.node.check import check_nodes

MASKS = {"train": np.array([1, 1, 0, 0], bool), "test": np.array([0, 0, 1, 1], bool)}


def graph(**fields: Any) -> Graph:
    held = {"x": [[1, 0], [0, 1], [1, 1], [0, 0]], "y": [0, 1, 0, 1], "masks": MASKS, **fields}
    return Graph.from_edges([0, 1, 2], [1, 2, 3], 4, directed=False, **held)


def found(made: Graph | dict[str, Graph], severity: str = "error") -> list[str]:
    graphs = made if isinstance(made, dict) else dict.fromkeys(("train", "test"), made)
    faults = check_nodes({split: NodeData(each, split) for split, each in graphs.items()})
    return [f"[{f.split}] {f.what}" for f in faults if f.severity == severity]


@pytest.mark.parametrize("kind", [Planetoid, GraphFolder])
def test_sound_data_has_no_errors(tmp_path: Path, kind: Any) -> None:
    path = kind.stand_in(tmp_path, {}).settings["path"]
    sets = {split: kind(path=path, split=split) for split in ("train", "val", "test")}
    assert [str(f) for f in check_nodes(sets) if f.severity == "error"] == []


def test_a_small_sound_graph_has_no_faults_at_all() -> None:
    assert found(graph()) == found(graph(), "warning") == []


@pytest.mark.parametrize(
    ("made", "match"),
    [
        (graph(y=[0, 1, -1, -1]), "[test] 2 of 2 nodes have no label (first: 2)"),
        (graph(y=[0, 1, -1, 1], names=list("abcd")), "[test] 1 of 2 nodes have no label (first: c)"),
        (graph(y=[0, 0, 1, 1]), "[train] 1 of 2 classes have no nodes: 1"),
        (
            graph(masks={**MASKS, "test": ~np.array([1, 0, 0, 0], bool)}),
            "[test] 1 of 3 nodes are in train too (first: 1)",
        ),
        (graph(x=np.full((4, 2), np.nan)), "[None] 8 features are no finite numbers (first: of node 0)"),
        (graph(edge_weight=[1, np.inf, 1]), "[None] edge_weight has numbers that are not finite"),
        (graph().with_edges([0]), "stand in one direction only (first: 1 to 0)"),
        (graph().with_edges([]), "[None] the graph has no edges"),
        ({"train": graph(), "test": graph(x=np.eye(4))}, "[test] 4 features, train has 2"),
        ({"train": graph(), "test": graph(classes=["a", "b"])}, "[test] 2 classes, train has 2, or other names"),
    ],
)
def test_errors(made: Any, match: str) -> None:
    assert any(match in each for each in found(made)), found(made)


@pytest.mark.parametrize(
    ("made", "match"),
    [
        (Graph.from_edges([0, 0], [1, 1], 4), "1 edges are there more than once (first: 0 to 1)"),
        (Graph.from_edges([0], [0], 2), "1 edges go from a node to itself"),
        (Graph.from_edges([0], [1], 4), "2 of 4 nodes have no edges"),
        (graph(y=[0, 1, -1, 1]), "1 of 4 nodes have no label"),
        (graph(x=np.ones((4, 1))), "1 of 1 features are the same for all nodes"),
        (graph(edge_weight=[1, -1, 1]), "2 edges have negative weights"),
    ],
)
def test_warnings(made: Graph, match: str) -> None:
    assert any(match in f.what for f in check_graph(made) if f.severity == "warning")


def test_notes_of_a_plain_graph_are_none() -> None:
    assert notes(graph()) == []


def test_data_that_cannot_be_opened_is_a_fault_among_others(tmp_path: Path) -> None:
    faults = check_nodes({"train": lambda: GraphFolder(tmp_path, "train")})
    assert [f.split for f in faults] == ["train"]
    assert "has no edges.csv" in faults[0].what
