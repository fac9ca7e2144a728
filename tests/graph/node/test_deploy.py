"""Runs and bundles of nodes in use: the same answers for the graph that was learned from and for new ones; pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdl import config, workflow
from pdl.cli import main
from pdl.errors import DataError
from pdl_graph import Graph
from pdl_graph.data import Planetoid
from pdl_graph.drawing import ego_network, principal_plane, spring_layout


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on the stand-in for Cora, and a new graph with as many features."""
    root = tmp_path_factory.mktemp("use")
    (root / "data").mkdir()
    found = Planetoid.stand_in(root / "data", {"name": "cora"})
    assert found is not None
    data = {f"data.{split}.path": found.settings["path"] for split in ("train", "val", "test")}
    recipe = config.load("graph/cora_gcn", [f"{k}={v}" for k, v in data.items()] + ["train.epochs=30"])
    workflow.train(recipe, run=root / "run", progress=False)
    features = Planetoid(name="cora", split="test", path=found.settings["path"]).graph.num_features
    folder = root / "new"
    folder.mkdir()
    np.save(folder / "features.npy", np.random.default_rng(0).integers(0, 2, (4, features)))
    (folder / "nodes.csv").write_text("id\na\nb\nc\nd\n")
    (folder / "edges.csv").write_text("source,target\na,b\nb,c\nc,a\n")
    return root


def test_a_run_and_its_bundle_say_the_same(place: Path) -> None:
    ours = workflow.predict(place / "run", [{"graph": place / "new", "node": name} for name in "abcd"], topk=7)
    theirs = workflow.predict(place / "run" / "model.pdl", [place / "new"], topk=7)
    assert [each["input"] for each in ours] == [each["input"] for each in theirs] == list("abcd")
    for a, b in zip(ours, theirs, strict=True):
        assert a["label"] == b["label"]
        assert [x["score"] for x in a["top"]] == pytest.approx([x["score"] for x in b["top"]], abs=1e-5)


def test_nodes_of_the_runs_own_graph(place: Path, tmp_path: Path) -> None:
    known = workflow.predict(place / "run", ["7", {"node": "12"}], topk=2, save=tmp_path)
    assert [len(each["top"]) for each in known] == [2, 2]
    drawn = (tmp_path / "7.svg").read_text()
    assert drawn.startswith("<svg")
    assert known[0]["label"] in drawn
    with pytest.raises(DataError, match=r"no node '9999999' among its \d"):
        workflow.predict(place / "run", ["9999999"])


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["run", "--nodes", "3,4", "--topk", "1"], 0, "score"),
        (["run", "--new-graph", "new", "--nodes", "a"], 0, "score"),
        (["run/model.pdl", "--new-graph", "new"], 0, "score"),
        (["run/model.pdl", "--nodes", "a"], 3, "a bundle holds none"),
        (["run", "--session", "a"], 2, "has no option --session"),
        (["run", "--nodes", ""], 2, "nothing is asked"),
        (["run", "--new-graph", "new/nodes.csv"], 3, "is no folder"),
        (["run", "--new-graph", "nowhere"], 3, "no such folder"),
    ],
)
def test_on_the_command_line(
    place: Path, arguments: list[str], code: int, said: str, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(place)
    assert main(["predict", *arguments]) == code
    assert said in "".join(capsys.readouterr())


def test_pictures_of_small_and_strange_graphs() -> None:
    lonely = Graph.from_edges(np.zeros(0, int), np.zeros(0, int), 1)
    assert "circle" in ego_network(lonely.indptr, lonely.indices, 0)
    star = Graph.from_edges(np.zeros(200, int), np.arange(1, 201), 201, directed=False)
    drawn = ego_network(star.indptr, star.indices, 0, groups=np.arange(201) % 3, classes=["<a>", "b", "c"])
    assert drawn.count("<circle") == 60 + 3
    assert "&lt;a&gt;" in drawn
    assert np.isfinite(spring_layout(5, [0, 0], [0, 1])).all()
    assert principal_plane(np.ones((4, 1))).shape == (4, 2)


def test_the_principal_plane_keeps_what_varies_most() -> None:
    rng = np.random.default_rng(3)
    rotation, _ = np.linalg.qr(rng.normal(size=(6, 6)))
    x = (rng.normal(size=(500, 6)) * [9, 5, 1, 0.5, 0.2, 0.1]) @ rotation
    plane = principal_plane(x)
    assert plane.var(0) == pytest.approx(np.linalg.svd(x - x.mean(0))[1][:2] ** 2 / 500, rel=1e-6)


def test_a_net_that_knows_its_own_nodes_answers_by_name(place: Path, tmp_path: Path) -> None:
    path = {f"data.{split}.path": str(place / "data" / "cora.npz") for split in ("train", "val", "test")}
    settings = [*(f"{k}={v}" for k, v in path.items()), "train.epochs=3", "model.hidden=8"]
    result = workflow.train(config.load("graph/cora_rgcn", settings), run=tmp_path / "run", progress=False)
    assert set(result.baselines) == {"majority", "label propagation"}, "there are no features to compare with"
    ours = workflow.predict(tmp_path / "run", ["7", "word2"], topk=7)
    theirs = workflow.predict(tmp_path / "run" / "model.pdl", ["7", "word2"], topk=7)
    for a, b in zip(ours, theirs, strict=True):
        assert a["input"] == b["input"]
        assert [x["score"] for x in a["top"]] == pytest.approx([x["score"] for x in b["top"]], abs=1e-5)
    again = workflow.evaluate(tmp_path / "run" / "model.pdl").metrics
    assert again["test/loss"] == pytest.approx(result.metrics["test/loss"], abs=1e-5)
    with pytest.raises(DataError, match="node 'word99999' is not among"):
        workflow.predict(tmp_path / "run", ["word99999"])
