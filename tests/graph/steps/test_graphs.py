"""Graphs in a bundle: folders read with their faults, arrays as nets read them, nodes asked together."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdl
from pdl import nn
from pdl.dims import Dim
from pdl.dtype import float32, int32, int64
from pdl.errors import DataError, UsageError
from pdl.export.bundle import write
from pdl.export.deployment import Deployment
from pdl.ops import CSR
from pdl.ops.base import Spec
from pdl.runtime import load
from pdl.runtime.bench import bench
from pdl.runtime.pipeline import Answer
from pdl.runtime.predict import predict
from pdl.runtime.steps import Sample
from pdl_graph.steps import graphs
from pdl_graph.steps.graph_folder import GraphFolder
from pdl_graph.steps.graphs import Form, opened
from tests.pipelines import pipeline as made_pipeline

NODES = "id,label,a,b\nx,0,1,3\ny,1,0.5,0.5\nz,0,2,0\nlone,1,0,0\n"
EDGES = "source,target\nx,y\ny,x\ny,z\nz,z\n"


def folder(at: Path, nodes: str | None = NODES, edges: str | None = EDGES) -> Path:
    at.mkdir(exist_ok=True)
    for name, text in (("nodes.csv", nodes), ("edges.csv", edges)):
        if text is not None:
            (at / name).write_text(text)
    return at


def test_a_folder_is_a_graph(tmp_path: Path) -> None:
    graph = GraphFolder.read(folder(tmp_path))
    assert list(graph.names) == ["x", "y", "z", "lone"]
    assert graph.columns == ["a", "b"]
    assert graph.features is not None
    assert graph.features.tolist() == [[1, 3], [0.5, 0.5], [2, 0], [0, 0]]
    assert np.stack([graph.source, graph.target]).tolist() == [[0, 1, 1, 2], [1, 0, 2, 2]]
    alone = GraphFolder.read(folder(tmp_path / "edges", None, "source,target,weight\n7,5,2\n5,9,0.5\n"))
    assert list(alone.names) == ["7", "5", "9"]
    assert alone.weight is not None
    assert alone.weight.tolist() == [2, 0.5]


@pytest.mark.parametrize(
    ("nodes", "edges", "message"),
    [
        (NODES, None, "lacks edges.csv"),
        (NODES, "from,to\nx,y\n", "edges.csv:1: columns are from, to; expected source and target"),
        (NODES, "source,target\nx,y\nyy,x\n", "edges.csv:3: node 'yy' is not in nodes.csv"),
        (NODES.replace("lone", "x"), EDGES, "nodes.csv:5: node 'x' stands here twice"),
        (NODES.replace("0.5,0.5", "0.5,red"), EDGES, "nodes.csv:3: b is 'red'; a feature is a finite number"),
        (NODES.replace("0.5,0.5", "nan,1"), EDGES, "nodes.csv:3: a is 'nan'"),
        (NODES.replace("id,", "name,"), EDGES, "expected id"),
        (NODES.replace("2,0", "2"), EDGES, "nodes.csv:4: 3 columns, expected 4"),
        (NODES.replace("2,0", "1e39,0"), EDGES, "nodes.csv:4: a is '1e39'"),
        (NODES.replace("lone", " "), EDGES, "nodes.csv:5: id is empty"),
        (NODES.replace("a,b", "a, a"), EDGES, "nodes.csv:1: two columns are called 'a'"),
        (NODES, "", "edges.csv: is empty"),
        (NODES, "source,target\nx,\n", "edges.csv:2: source or target is empty"),
        (None, "source,target\n", "names no node"),
    ],
)
def test_faults_have_a_line(tmp_path: Path, nodes: str, edges: str | None, message: str) -> None:
    with pytest.raises(DataError, match=message):
        GraphFolder.read(folder(tmp_path, nodes, edges))


def test_spaces_around_mean_nothing(tmp_path: Path) -> None:
    graph = GraphFolder.read(folder(tmp_path, "id, a\nx, 1\n y ,2\n", "source, target\nx, y\n"))
    assert (list(graph.names), graph.columns, graph.target.tolist()) == (["x", "y"], ["a"], [1])


def test_features_in_an_array(tmp_path: Path) -> None:
    folder(tmp_path, "id\nx\ny\nz\n")
    np.save(tmp_path / "features.npy", np.arange(6.0).reshape(3, 2))
    assert GraphFolder.read(tmp_path).features.tolist() == [[0, 1], [2, 3], [4, 5]]  # type: ignore[union-attr]
    np.save(tmp_path / "features.npy", np.zeros((2, 2)))
    with pytest.raises(DataError, match=r"features.npy: float64 \(2, 2\); expected numbers \[3, F\]"):
        GraphFolder.read(tmp_path)


def test_edges_have_attributes_in_the_order_of_the_arrays(tmp_path: Path) -> None:
    text = "source,target,weight,single,double\nx,y,2,1,0\ny,z,3,0,1\n"
    graph = GraphFolder.read(folder(tmp_path, NODES, text))
    made = Form(2, self_loops=True, attributes=2).arrays(graph)
    ends = list(zip(made["indices"].tolist(), made["row"].tolist(), strict=True))
    assert ends == [(0, 0), (1, 0), (0, 1), (1, 1), (2, 1), (1, 2), (2, 2), (3, 3)]
    assert made["weight"].tolist() == [1, 2, 2, 1, 3, 3, 1, 1]
    assert made["attributes"].tolist() == [[0, 0], [1, 0], [1, 0], [0, 0], [0, 1], [0, 1], [0, 0], [0, 0]]
    with pytest.raises(DataError, match="2 attributes an edge; the model reads 3"):
        Form(2, attributes=3).arrays(graph)


def test_arrays_of_a_graph(tmp_path: Path) -> None:
    graph = GraphFolder.read(folder(tmp_path))
    made = Form(2, normalize=True).arrays(graph)
    assert made["x"].tolist() == [[0.25, 0.75], [0.5, 0.5], [1, 0], [0, 0]]
    assert made["indptr"].tolist() == [0, 1, 3, 5, 5]
    assert made["indices"].tolist() == [1, 0, 2, 1, 2]  # x-y stands once, z-z is its own way back
    assert made["row"].tolist() == [0, 1, 1, 2, 2]
    twice = GraphFolder("", ["a", "b"], None, [], np.array([1, 0]), np.array([0, 1]), np.array([2, 5], np.float32))
    assert Form(0).arrays(twice)["weight"].tolist() == [2, 2]  # of a pair that stands twice the first, in both ways
    assert Form(2).arrays(graph) is Form(2).arrays(graph), "made once"
    looped = Form(2, directed=True, self_loops=True).arrays(graph)
    assert looped["indices"].tolist() == [0, 1, 0, 1, 1, 2, 3]
    assert looped["weight"].tolist() == [1] * 7
    with pytest.raises(DataError, match="2 features a node; the model reads 5"):
        Form(5).arrays(graph)


class Mean(nn.Module):
    """The mean of the neighbours' features, times a matrix, for the nodes asked for."""

    def __init__(self) -> None:
        self.linear = nn.Linear(2, 3)

    def forward(self, x: Any, indptr: Any, indices: Any, row: Any, nodes: Any) -> Any:
        a = CSR(indptr, indices, row, indptr, indices, row)
        return pdl.take(self.linear(pdl.spmm(a, x, reduce="mean")), nodes, axis=0)


def bundled(place: Path, graph: Path) -> Path:
    n, e, k = Dim.symbol("nodes", 5), Dim.symbol("edges", 7), Dim.symbol("n", 3)
    inputs = {
        "x": Spec((n, 2), float32), "indptr": Spec((n + 1,), int64), "indices": Spec((e,), int32),
        "row": Spec((e,), int32), "query": Spec((k,), int64),
    }  # fmt: skip
    steps = {name: [{"step": "graph", "part": name, "kind": "node", "features": 2}] for name in inputs}
    write(
        place,
        Deployment(
            Mean(), inputs, ("y",), steps, {"y": [{"step": "softmax"}, {"step": "top", "k": 2}]},
            samples=[{"graph": str(graph), "node": name} for name in ("x", "z", "lone")],
            labels=["red", "green", "blue"],
        ),
    )  # fmt: skip
    return place


def test_a_bundle_answers_for_the_nodes_of_new_graphs(tmp_path: Path) -> None:
    place = bundled(tmp_path / "m.pdl", folder(tmp_path / "g"))
    session = load(place)
    other = folder(tmp_path / "h", "id,a,b\nq,1,1\nr,2,5\n", "source,target\nq,r\n")
    items = [{"graph": str(tmp_path / "g"), "node": "y"}, {"graph": str(other), "node": "q"}]
    items.append({"graph": str(tmp_path / "g"), "node": "lone"})
    together = session.batch(items)
    assert together == [session(item) for item in items]
    assert {each["class"] for each in together[0]["top"]} <= {"red", "green", "blue"} or "label" in together[0]
    assert [each.name for each in predict(session, [other])] == ["q", "r"]
    assert bench(place, batch=4, seconds=0.01, sizes={"nodes": 50, "edges": 220}).inputs["indptr"] == (51,)
    with pytest.raises(DataError, match="no node 'k' among its 2"):
        session({"graph": str(other), "node": "k"})
    with pytest.raises(DataError, match="--new-graph"):
        session({"node": "q"})


NODE = {"step": "graph", "kind": "node", "features": 2}


def test_flags_become_queries(tmp_path: Path) -> None:
    step = made_pipeline({"query": [{**NODE, "part": "query"}]}).input
    assert [flag.name for flag in step.flags] == ["--nodes", "--new-graph"]
    found = step.from_flags({"--nodes": ["x,y", '"a,b"'], "--new-graph": ["g"]})
    assert [each.name for each in found] == ["x", "y", "a,b"]
    assert found[0].item == {"graph": "g", "node": "x"}
    assert step.from_flags({"--new-graph": ["g"]}) == [Path("g")]
    with pytest.raises(UsageError, match="--nodes '': nothing is asked"):
        step.from_flags({"--nodes": [""]})
    with pytest.raises(UsageError, match="--new-graph is given 2 times"):
        step.from_flags({"--new-graph": ["g", "h"]})
    pairs = made_pipeline({"query": [{**NODE, "kind": "pair", "part": "query"}]}).input
    file = tmp_path / "pairs.csv"
    file.write_text("source,target\na,b\nb,c\n")
    found = pairs.from_flags({"--pairs": [str(file), "x:y"], "--new-graph": [str(tmp_path)]})
    assert [each.name for each in found] == ["a:b", "b:c", "x:y"]
    assert found[2].item == {"graph": str(tmp_path), "pair": ("x", "y")}
    with pytest.raises(DataError, match="is no pair; expected"):
        pairs.from_flags({"--pairs": ["nothing.csv"]})


def test_a_run_has_a_graph_of_its_own(tmp_path: Path) -> None:
    own = GraphFolder.read(folder(tmp_path))
    query, answer = {"query": [{**NODE, "part": "query"}]}, {"y": [{"step": "top"}]}
    steps = made_pipeline(query, answer, memory={"graph": lambda: own})
    assert steps.prepare("z")["query"].tolist() == 2
    assert steps.prepare({"node": "y"})["query"].tolist() == 1
    answer = Answer(steps.finish({"y": np.array([0.25, 0.75])}, Sample()), ("y",))
    svg = steps.draw("y", answer).svg
    assert "y: 1  75.0%" in svg
    assert all(f"<title>{name}</title>" in svg for name in "xyz")


def test_threads_that_open_more_graphs_than_are_kept(tmp_path: Path) -> None:
    """One of them met a KeyError: a graph that it had just read was dropped by another before it was taken."""
    places = [folder(tmp_path / str(number)) for number in range(graphs.KEPT + 3)]

    def ask(place: Path) -> int:
        return sum(len(opened(place).names) for _ in range(40))

    with ThreadPoolExecutor(len(places)) as pool:
        assert list(pool.map(ask, places)) == [160] * len(places)
