"""Planetoid's graphs: the real files where they are at hand, what stands in for them, and files with faults."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdl.data import DataFault, Few, data_root
from pdl.errors import ConfigError
from pdl_graph import SparseFeatures
from pdl_graph.data import Planetoid, graph_of, nodes_of
from pdl_graph.data.planetoid import RELATIONS
from pdl_graph.features import dense

#: nodes, edges in both directions, words, classes, training nodes, nodes alone
COUNTS = {
    "cora": (2708, 10556, 1433, 7, 140, 0),
    "citeseer": (3327, 9104, 3703, 6, 120, 48),
    "pubmed": (19717, 88648, 500, 3, 60, 0),
}


def random_citations(folder: Path, name: str = "cora") -> Path:
    return Path(Planetoid.stand_in(folder, {"name": name}).settings["path"])


@pytest.mark.parametrize("name", COUNTS)
def test_counts_of_the_real_graphs(name: Any) -> None:
    if not (data_root() / f"graph/{name}.npz").is_file():
        pytest.skip(f"PDL_DATA/graph has no {name}.npz")
    sets = {split: Planetoid(name, split) for split in ("train", "val", "test")}
    graph = sets["train"].graph
    alone = int(((graph.in_degree() == 0) & (graph.out_degree() == 0)).sum())
    found = (graph.num_nodes, graph.num_edges, graph.num_features, graph.num_classes, len(sets["train"]), alone)
    assert found == COUNTS[name]
    assert [len(sets[split]) for split in ("val", "test")] == [500, 1000]
    assert np.bincount(sets["train"].labels).tolist() == [20] * graph.num_classes
    assert not graph.directed
    assert len(sets["train"].classes) == graph.num_classes


def test_splits_share_the_graph_and_are_nodes(tmp_path: Path) -> None:
    path = random_citations(tmp_path)
    train, test, every = (Planetoid("cora", split, path=path) for split in ("train", "test", None))
    assert train.graph is test.graph is every.graph
    assert len(every) == every.graph.num_nodes
    assert not set(train.nodes) & set(test.nodes)
    batch = test.get_batch(np.array([3, 0]))
    assert batch["node"].tolist() == [test[3]["node"], test[0]["node"]]
    assert (batch["label"] == test.graph.y[batch["node"]]).all()
    assert train.fingerprint != test.fingerprint == Planetoid("cora", "test", path=path).fingerprint
    few = Few(train, 14)
    assert graph_of(few) is train.graph
    assert set(nodes_of(few)) < set(train.nodes)
    assert np.bincount(few.labels).tolist() == [2] * 7


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    path = random_citations(tmp_path)
    before = Planetoid("cora", "train", path=path)
    held = dict(np.load(path))
    np.savez(path, **{**held, "train_idx": held["train_idx"][:-5]})
    assert len(Planetoid("cora", "train", path=path)) == len(before) - 5


def test_normalize_divides_rows_by_their_sum(tmp_path: Path) -> None:
    path = random_citations(tmp_path)
    held = dict(np.load(path))
    held["x_data"][: held["x_indptr"][1]] = 0
    np.savez(path, **held)
    plain, divided = (dense(Planetoid("cora", path=path, normalize=n).graph.x) for n in (False, True))
    assert (divided[0] == 0).all()
    np.testing.assert_allclose(divided[1:], plain[1:] / plain[1:].sum(1, keepdims=True), rtol=1e-6)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"y": None}, "no array 'y'"),
        ({"y": np.zeros(419, int)}, "features of 420 nodes, labels of 419"),
        ({"edges": np.array([[0, 420]])}, "joins 0 and 420, but the graph has 420 nodes"),
        ({"edges": np.zeros((3, 3), int)}, "shape (3, 3)"),
        ({"test_idx": np.array([420])}, "test_idx names node 420 of 420"),
        ({"x_indices": np.zeros(3, np.int32)}, "3 columns"),
        ({"y": np.zeros(420, np.float32)}, "dtype float32"),
    ],
)
def test_faults(tmp_path: Path, changes: dict[str, Any], match: str) -> None:
    path = random_citations(tmp_path)
    held = {**np.load(path), **changes}
    np.savez(path, **{k: v for k, v in held.items() if v is not None})
    with pytest.raises(DataFault) as error:
        Planetoid("cora", path=path)
    assert match in str(error.value)
    assert str(path) in str(error.value)


def test_absent_and_damaged_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PDL_DATA", str(tmp_path))
    monkeypatch.setenv("PDL_CACHE", str(tmp_path / "cache"))
    with pytest.raises(DataFault, match=r"cora.npz is not there; .*pdl data get graph/cora"):
        Planetoid("cora", "train")
    (tmp_path / "cora.npz").write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(DataFault, match=r"no readable \.npz"):
        Planetoid("cora", "train")


def test_an_unknown_split_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="'valid', but the splits of the graph are: train, val, test"):
        Planetoid("cora", "valid", path=random_citations(tmp_path))  # type: ignore[arg-type]


def test_words_may_be_nodes(tmp_path: Path) -> None:
    path = Planetoid.stand_in(tmp_path, {}).settings["path"]
    papers = Planetoid(path=path, split="train").graph
    data = Planetoid(path=path, split="train", words="nodes")
    both, n = data.graph, papers.num_nodes
    assert both.num_nodes == n + papers.num_features
    assert both.x is None
    assert both.node_type is not None
    assert both.edge_type is not None
    assert both.node_type.tolist() == [0] * n + [1] * papers.num_features
    source, target = both.edges()
    assert isinstance(papers.x, SparseFeatures)
    words = papers.x.pattern
    ends = {kind: set(zip(source[both.edge_type == i], target[both.edge_type == i], strict=True))
            for i, kind in enumerate(RELATIONS)}  # fmt: skip
    assert ends["cites"] == set(zip(*papers.edges(), strict=True))
    assert ends["has word"] == set(zip(words.row, words.indices + n, strict=True))
    assert ends["word of"] == {(b, a) for a, b in ends["has word"]}
    assert data.nodes.tolist() == Planetoid(path=path, split="train").nodes.tolist()
    assert data.graph is Planetoid(path=path, split="test", words="nodes").graph, "splits share it"
