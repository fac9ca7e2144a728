"""Folders of users: the same graph through each door, what columns mean, broken files."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdl.data import DataFault
from pdl.errors import ConfigError
from pdl_graph import Graph
from pdl_graph.data import GraphFolder, nodes_of, read_graph
from pdl_graph.features import dense
from tests.graph.data.graphs import same

NODES = "id,label,split,a,b\nx,red,train,1,0\ny,blue,val,0.5,2\nz,,test,0,0\n"
EDGES = "source,target,weight\nx,y,1\ny,z,2\n"
WANTED = Graph.from_edges(
    [0, 1], [1, 2], directed=False, edge_weight=[1, 2], x=[[1, 0], [0.5, 2], [0, 0]], y=[1, 0, -1], names=list("xyz"),
    classes=["blue", "red"], masks={k: np.arange(3) == i for i, k in enumerate(("train", "val", "test"))},
)  # fmt: skip


def folder(path: Path, **files: str | bytes | None) -> Path:
    for name, content in files.items():
        if content is not None:
            (path / name.replace("__", ".")).write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def parquet(text: str) -> bytes:
    arrow, csv, store = (pytest.importorskip(f"pyarrow{part}") for part in ("", ".csv", ".parquet"))
    sink = arrow.BufferOutputStream()
    store.write_table(csv.read_csv(arrow.BufferReader(text.encode())), sink)
    made: bytes = sink.getvalue().to_pybytes()
    return made


def without_features(text: str) -> str:
    return "\n".join(",".join(line.split(",")[:3]) for line in text.splitlines())


@pytest.mark.parametrize("door", ["csv", "tsv", "gzip", "parquet", "npy", "npz", "saved"])
def test_every_door_gives_the_same_graph(tmp_path: Path, door: str) -> None:
    if door == "csv":
        folder(tmp_path, nodes__csv=NODES, edges__csv=EDGES)
    elif door == "tsv":
        folder(tmp_path, nodes__tsv=NODES.replace(",", "\t"), edges__tsv=EDGES.replace(",", "\t"))
    elif door == "gzip":
        folder(tmp_path, nodes__csv__gz=gzip.compress(NODES.encode()), edges__csv__gz=gzip.compress(EDGES.encode()))
    elif door == "parquet":
        folder(tmp_path, nodes__parquet=parquet(NODES), edges__parquet=parquet(EDGES))
    elif door == "saved":
        same(read_graph(WANTED.save(tmp_path / "g")), WANTED)
        return
    else:
        folder(tmp_path, nodes__csv=without_features(NODES), edges__csv=EDGES)
        if door == "npy":
            np.save(tmp_path / "features.npy", WANTED.x)
        else:
            sparse = pytest.importorskip("scipy.sparse")
            sparse.save_npz(tmp_path / "features.npz", sparse.csr_matrix(WANTED.x))
    same(read_graph(tmp_path), WANTED)


def test_splits_and_samples(tmp_path: Path) -> None:
    folder(tmp_path, nodes__csv=NODES, edges__csv=EDGES)
    train, every = GraphFolder(tmp_path, "train"), GraphFolder(tmp_path)
    assert train.graph is every.graph
    assert (train.nodes.tolist(), every.nodes.tolist(), every.classes) == ([0], [0, 1], ["blue", "red"])
    with pytest.raises(ConfigError, match="split='dev', but the splits of the graph are: train, val, test"):
        GraphFolder(tmp_path, "dev")


def test_ratios_cut_the_labelled_nodes(tmp_path: Path) -> None:
    path = GraphFolder.stand_in(tmp_path, {}).settings["path"]
    ratios = {"train": 0.6, "val": 0.2, "test": 0.2}
    parts = {split: GraphFolder(path, split, ratios=ratios, seed=3) for split in ratios}
    assert sorted(np.concatenate([nodes_of(part) for part in parts.values()])) == list(range(420))
    assert np.bincount(parts["train"].labels).tolist() == [63] * 4
    assert nodes_of(GraphFolder(path, "val", ratios=ratios, seed=4)).tolist() != nodes_of(parts["val"]).tolist()
    with pytest.raises(ConfigError, match="none of the ratios train, val, test"):
        GraphFolder(path, "dev", ratios=ratios)


def test_what_columns_mean(tmp_path: Path) -> None:
    nodes = "id,labels,type,h\n1,b a,p,1\n2,,q,2\n3,b,p,3\n"
    edges = "source,target,type,w,v\n3,1,likes,1,2\n1,3,sees,3,4\n1,3,likes,3,4\n"
    graph = read_graph(folder(tmp_path, nodes__csv=nodes, edges__csv=edges), directed=True)
    assert (graph.y.tolist(), graph.classes) == ([[True, True], [False, False], [False, True]], ["a", "b"])
    assert graph.node_type.tolist() == [0, 1, 0]
    assert [end.tolist() for end in graph.edges()] == [[2, 0, 0], [0, 2, 2]]
    assert (graph.edge_type.tolist(), graph.edge_attr.tolist()) == ([0, 1, 0], [[1, 2], [3, 4], [3, 4]])


def test_edges_alone_name_the_nodes(tmp_path: Path) -> None:
    data = GraphFolder(folder(tmp_path, edges__csv="source,target\nq,b\nb,a\nb,q\n"))
    assert list(data.graph.names) == ["q", "b", "a"]
    assert (len(data), data.graph.num_edges, data[2]) == (3, 4, {"node": 2})


def test_labels_that_are_numbers(tmp_path: Path) -> None:
    path = folder(tmp_path, nodes__csv="id,label\na,0.5\nb,\nc,2\n", edges__csv="source,target\na,b\n")
    data = GraphFolder(path, target="number")
    assert (data.nodes.tolist(), data.graph.y[data.nodes].tolist(), data.classes) == ([0, 2], [[0.5], [2.0]], [])


@pytest.mark.parametrize(
    ("labels", "y", "classes"),
    [
        (["2", "", "0"], [2, -1, 0], []),
        (["1", "-1", "0"], [1, -1, 0], []),
        (["2003", "-1", "999"], [1, -1, 0], ["999", "2003"]),
        (["-1", "a", "01"], [0, 2, 1], ["-1", "01", "a"]),
    ],
)
def test_what_labels_mean(tmp_path: Path, labels: list[str], y: list[int], classes: list[str]) -> None:
    nodes = "id, label\n" + "".join(f" {i} ,{label}\n" for i, label in enumerate(labels))  # spaces around mean nothing
    graph = read_graph(folder(tmp_path, nodes__csv=nodes, edges__csv="source, target\n0, 1\n"))
    assert (graph.y.tolist(), graph.classes, graph.names.tolist()) == (y, classes, ["0", "1", "2"])


def test_whole_numbers_of_parquet_with_gaps(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    for name, columns in (
        ("nodes", {"id": [7, 8, 9], "label": [1, None, 0]}), ("edges", {"source": [7.0, 8.0], "target": [8.0, 9.0]})
    ):  # fmt: skip
        parquet.write_table(arrow.table(columns), tmp_path / f"{name}.parquet")
    graph = read_graph(tmp_path)
    assert (graph.y.tolist(), graph.classes, graph.describe()["edges"]) == ([1, -1, 0], [], 2)


def test_normalize(tmp_path: Path) -> None:
    found = GraphFolder(folder(tmp_path, nodes__csv=NODES, edges__csv=EDGES), normalize=True).graph
    np.testing.assert_allclose(dense(found.x), [[1, 0], [0.2, 0.8], [0, 0]], rtol=1e-6)


@pytest.mark.parametrize(
    ("files", "file", "line", "match"),
    [
        ({"edges__csv": None}, "", None, "has no edges.csv"),
        ({"edges__csv": "from,to\nx,y\n"}, "edges.csv", 1, "no column 'source', only from, to"),
        ({"edges__csv": "source,target\nx,y\n\nx,w\nw,w\n"}, "edges.csv", 4, "'w' is not in nodes.csv (2 such rows)"),
        ({"edges__csv": "source,target\nx\n"}, "edges.csv", 2, "1 values for 2 columns"),
        ({"edges__csv": "source,target,weight\nx,y,much\n"}, "edges.csv", 2, "weight is 'much'; a weight is a finite"),
        ({"edges__csv": "source,target\nx,\n"}, "edges.csv", 2, "target is empty"),
        ({"edges__csv": ""}, "edges.csv", None, "is empty"),
        ({"edges__csv": "source,target\n", "nodes__csv": None}, "edges.csv", None, "names no node"),
        ({"nodes__csv": "id,a\nx,1\ny,1e40\nz,1\n"}, "nodes.csv", 3, "a is '1e40'"),
        ({"nodes__csv": "name\nx\n"}, "nodes.csv", 1, "no column 'id'"),
        ({"nodes__csv": "id,a,a\nx,1,1\n"}, "nodes.csv", 1, "two columns 'a'"),
        ({"nodes__csv": "id\nx\ny\nz\nx\n"}, "nodes.csv", 5, "'x' stands here twice"),
        ({"nodes__csv": "id,a\nx,1\ny,nan\nz,1\n"}, "nodes.csv", 3, "a is 'nan'; a feature is a finite number"),
        ({"nodes__csv": "id,a\nx,1\ny,tall\nz,1\n"}, "nodes.csv", 3, "a is 'tall'"),
        ({"nodes__csv": 'id,a\nx,"1\n'}, "nodes.csv", 2, "cannot be read as a table"),
        ({"nodes__csv": b"id\n\xff\n"}, "nodes.csv", None, "no text in UTF-8"),
        ({"features__npy": b"no"}, "features.npy", None, "is no array of numbers"),
        ({"edges__parquet": b"PAR1", "edges__csv": None}, "edges.parquet", None, "cannot be read as parquet"),
    ],
)
def test_broken_files_are_told(tmp_path: Path, files: dict[str, Any], file: str, line: int | None, match: str) -> None:
    folder(tmp_path, **{"nodes__csv": NODES, "edges__csv": EDGES, **files})
    with pytest.raises(DataFault) as error:
        GraphFolder(tmp_path)
    assert match in str(error.value)
    assert (error.value.fault.path, error.value.fault.line) == (str(tmp_path / file), line)


@pytest.mark.parametrize(
    ("x", "match"),
    [(np.ones((2, 1)), r"holds float64 \(2, 1\); give numbers \[3, F\]"), (np.full((3, 1), np.nan), "3 numbers that")],
)
def test_features_beside_must_fit(tmp_path: Path, x: np.ndarray, match: str) -> None:
    folder(tmp_path, nodes__csv=NODES, edges__csv=EDGES)
    np.save(tmp_path / "features.npy", x)
    with pytest.raises(DataFault, match=match):
        GraphFolder(tmp_path)
