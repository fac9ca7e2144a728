"""Graphs in text form: the shipped sets, folds, and files with faults."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

from pdl.data import DataFault
from pdl.data.splits import stratified_folds
from pdl.errors import ConfigError
from pdl_graph.data import TUGraphs

SMALL = "2\n3 1\n5 1 1\n7 2 0 2\n5 1 1\n1 0\n9 0\n"


@pytest.mark.parametrize(
    ("name", "graphs", "classes", "nodes", "edges", "kinds"),
    [("MUTAG", 188, [63, 125], 3371, 7442, 7), ("PROTEINS", 1113, [663, 450], 43471, 162088, 3)],
)
def test_the_shipped_sets(name: str, graphs: int, classes: list[int], nodes: int, edges: int, kinds: int) -> None:
    whole = TUGraphs(name)
    assert len(whole) == graphs
    assert np.bincount(whole.labels).tolist() == classes
    assert sum(graph.num_nodes for graph in whole.graphs) == nodes
    assert sum(graph.num_edges for graph in whole.graphs) == edges
    assert {graph.num_features for graph in whole.graphs} == {kinds}
    assert not any(graph.directed for graph in whole.graphs)
    assert all((graph.x.sum(1) == 1).all() for graph in whole.graphs)
    assert whole.classes[int(np.argmax(classes))] in ("mutagenic", "enzyme")


def test_folds_are_stratified_and_disjoint() -> None:
    labels = np.random.default_rng(0).integers(0, 3, 157)
    folds = stratified_folds(labels, 10, seed=4)
    assert np.ptp(np.bincount(folds, minlength=10)) <= 1
    for label in range(3):
        assert np.ptp(np.bincount(folds[labels == label], minlength=10)) <= 1
    assert (folds == stratified_folds(labels, 10, seed=4)).all()
    assert (folds != stratified_folds(labels, 10, seed=5)).any()


@pytest.mark.parametrize(("validate", "parts"), [("inner", 150), ("held_out", 169)])
def test_what_the_splits_hold(validate: str, parts: int) -> None:
    def ids(split: str, fold: int = 9) -> set[int]:
        return {id(graph) for graph in TUGraphs("MUTAG", split, fold=fold, validate=validate).graphs}

    train, val, test = (ids(split) for split in ("train", "val", "test"))
    assert not train & test
    assert not train & val
    assert (val == test) == (validate == "held_out")
    assert len(train | val | test) == 188
    assert abs(len(train) - parts) <= 1
    assert set().union(*(ids("test", fold) for fold in range(10))) == train | val | test
    with pytest.raises(ConfigError, match="fold=10 of 10"):
        TUGraphs("MUTAG", "test", fold=10)


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "own.txt").write_text(SMALL)
    with zipfile.ZipFile(tmp_path / "own.zip", "w") as box:
        box.writestr("own.txt", SMALL)
    for file in ("own.txt", "own.zip"):
        found = TUGraphs("own", path=tmp_path / file)
        assert found.classes == ["0", "1"]
        assert found.labels.tolist() == [1, 0]
        assert found.graphs[0].x.tolist() == [[1, 0, 0], [0, 1, 0], [1, 0, 0]]
        assert [edge.tolist() for edge in found.graphs[0].edges()] == [[1, 0, 2, 1], [0, 1, 1, 2]]
        assert found.graphs[1].x.tolist() == [[0, 0, 1]]
    assert TUGraphs("own", path=tmp_path / "own.txt", degrees=True).graphs[0].x.tolist() == [
        [0, 1, 0], [0, 0, 1], [0, 1, 0],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("x\n", 1, "no row of whole numbers"),
        ("1 2\n", 1, "number of graphs"),
        ("1\n3\n", 2, "`nodes class`"),
        ("1\n2 0\n0 1 1\n0 1 2\n", 4, "neighbours from 0 to 1"),
        ("1\n2 0\n0 2 1\n0 1 0\n", 3, "neighbours from 0 to 1"),
        ("1\n2 0\n0 1 1\n", 3, "ends before the 2 nodes"),
        ("2\n1 0\n0 0\n", 4, "`nodes class`"),
    ],
)
def test_faults_name_the_line(tmp_path: Path, text: str, line: int, what: str) -> None:
    file = tmp_path / "bad.txt"
    file.write_text(text)
    with pytest.raises(DataFault, match=what) as caught:
        TUGraphs("bad", path=file)
    assert caught.value.fault.line == line
    assert caught.value.fault.path == str(file)
