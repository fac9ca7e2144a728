"""The task of embeddings, whole: what is measured and of what, the run and its bundle in use, faults."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdl import config, workflow
from pdl.cli import main
from pdl.errors import ConfigError, DataError, UsageError
from pdl.train import Recipe, assemble
from pdl.workflow import Run
from pdl_graph import DeepWalk, NodeEmbedding
from pdl_graph.data import BlogCatalog, CaAstroPh, EdgeSplit
from pdl_graph.embedding.check import check_recipe
from pdl_graph.embedding.decoders import combined, for_pairs

SMALL = ["model.dim=32", "model.walk_length=20", "model.window=5"]
SMALL += ["train.epochs=20", "data.batch_size=32"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run on pairs and one on labels, on stand-ins."""
    root = tmp_path_factory.mktemp("embedding")
    found = {}
    for name, data in (("ca_astroph_deepwalk", CaAstroPh), ("blogcatalog_deepwalk", BlogCatalog)):
        stand = data.stand_in(root, {})
        place = "data.train.graph.path" if data is CaAstroPh else "data.{}.path"
        where = [f"{place.format(split)}={stand.settings['path']}" for split in ("train", "test")]
        recipe = config.load(f"graph/{name}", [*SMALL, *dict.fromkeys(where)])
        found[name.partition("_")[0]] = root / name
        workflow.train(recipe, run=root / name, progress=False)
    return found


def test_pairs_are_told_and_labels_too(runs: dict[str, Path]) -> None:
    links, labels = (workflow.Result.load(Run(runs[name]).result) for name in ("ca", "blogcatalog"))
    assert links.metrics["test/auc"] > 0.6
    assert {"test/ap", "test/mrr", "test/hits@10"} <= set(links.metrics)
    assert "preferential attachment" in links.baselines
    assert labels.metrics["test/macro_f1"] > 0.6
    assert labels.metrics["test/macro_f1"] > labels.baselines["majority"]["test/macro_f1"] + 0.2
    assert set(labels.baselines) == {"majority", "label propagation"}
    for name in runs:
        report = (runs[name] / "report.html").read_text()
        assert "Nodes in the plane" in report
        assert report.count("<circle") > 200


def test_a_run_answers_for_nodes_and_pairs_together(runs: dict[str, Path]) -> None:
    found = workflow.predict(runs["ca"], ["3", {"pair": ["3", "4"]}, {"node": "5"}], topk=4)
    assert [each["input"] for each in found] == ["3", "3:4", "5"]
    scores = [item["score"] for item in found[0]["nodes"]]
    assert len(scores) == 4
    assert scores == sorted(scores, reverse=True)
    assert "3" not in [item["node"] for item in found[0]["nodes"]]
    assert 0 < found[1]["edge"] < 1
    with pytest.raises(DataError, match="node 'nobody' is not among the"):
        workflow.predict(runs["ca"], ["nobody"])
    with pytest.raises(DataError, match="asks for no node"):
        workflow.predict(runs["blogcatalog"], [{"pair": ["3", "4"]}])


def test_bundles_say_what_runs_say(runs: dict[str, Path]) -> None:
    for name, requested in (("ca", [{"pair": ["3", "4"]}, {"pair": ["8", "1"]}]), ("blogcatalog", ["3", "77"])):
        ours = workflow.predict(runs[name], requested)
        theirs = workflow.predict(runs[name] / "model.pdl", requested)
        for a, b in zip(ours, theirs, strict=True):
            assert a.keys() == b.keys()
            if name == "ca":
                assert a["edge"] == pytest.approx(b["edge"], abs=1e-5)
            else:
                assert [x["node"] for x in a["nodes"]] == [x["node"] for x in b["nodes"]]


@pytest.mark.parametrize(
    ("name", "arguments", "code", "said"),
    [
        ("ca", ["--nodes", "3,4", "--topk", "2"], 0, "score"),
        ("ca", ["--pairs", "3:4"], 0, "edge"),
        ("blogcatalog", ["--nodes", "3"], 0, "score"),
        ("blogcatalog", ["--pairs", "3:4"], 2, "has no option --pairs"),
    ],
)
def test_the_command_line(
    name: str, arguments: list[str], code: int, said: str, runs: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["predict", str(runs[name]), *arguments]) == code
    messages = capsys.readouterr()
    assert said in messages.out + messages.err


def test_the_regression_learns_of_some_edges_of_training(tmp_path: Path) -> None:
    stand = CaAstroPh.stand_in(tmp_path, {})
    graph = CaAstroPh(stand.settings["path"])
    messages = EdgeSplit(graph, "train", val=0.0, test=0.5, connected=True)
    for operator in ("hadamard", "average", "l1", "l2"):
        vectors = np.random.default_rng(0).standard_normal((graph.graph.num_nodes + 1, 4))
        few = for_pairs(vectors, messages, np.arange(50), operator=operator, l2=1.0, most=1000)  # type: ignore[arg-type]
        capped = for_pairs(vectors, messages, None, operator=operator, l2=1.0, most=50)  # type: ignore[arg-type]
        assert few.weight.shape == capped.weight.shape == (4, 1)
        assert not np.array_equal(few.weight.data, capped.weight.data)
    a, b = np.array([1.0, 4.0]), np.array([3.0, -2.0])
    assert [combined(o, a, b).tolist() for o in ("hadamard", "average", "l1", "l2")] == [  # type: ignore[arg-type]
        [3.0, -8.0], [2.0, 1.0], [2.0, 6.0], [4.0, 36.0],
    ]  # fmt: skip


def recipe(**parts: Any) -> dict[str, Any]:
    base = {
        "task": {"_target_": "pdl_graph.NodeEmbedding"},
        "model": {"_target_": "pdl_graph.DeepWalk", "dim": 8},
        "optim": {"_target_": "pdl.optim.Adam", "lr": 0.01},
        "train": {"epochs": 1},
    }
    return base | parts


def test_faults(tmp_path: Path) -> None:
    stand = BlogCatalog.stand_in(tmp_path, {})
    blogs = {"_target_": "pdl_graph.data.BlogCatalog", "path": stand.settings["path"]}
    data = {"train": {**blogs, "split": "train"}, "test": {**blogs, "split": "test"}}
    pairs = {"_target_": "pdl_graph.data.EdgeSplit", "graph": blogs, "split": "test"}
    with pytest.raises(ConfigError, match=r"data\.test: .*(same graph|same kind)"):
        workflow.train(Recipe(recipe(data={**data, "test": pairs})), run=tmp_path / "a", progress=False)
    edges = CaAstroPh.stand_in(tmp_path, {})
    whole = {"_target_": "pdl_graph.data.CaAstroPh", "path": edges.settings["path"]}
    with pytest.raises(ConfigError, match="asks nothing of nodes"):
        workflow.train(Recipe(recipe(data={"train": whole})), run=tmp_path / "b", progress=False)
    wrong = {"_target_": "pdl_graph.GCN", "num_features": 3, "num_classes": 2}
    with pytest.raises(ConfigError, match=r"no pdl_graph\.SkipGram"):
        workflow.train(Recipe(recipe(data=data, model=wrong)), run=tmp_path / "c", progress=False)
    with pytest.raises(UsageError, match="overfit"):
        assemble(NodeEmbedding(), Recipe(recipe(data=data)), overfit=4)
    with pytest.raises(ConfigError, match="the task infers it"):
        DeepWalk(dim=3)
    assert not [fault for fault in check_recipe(Recipe(recipe(data=data))) if fault.severity == "error"]
    twice = {"train": data["train"], "test": {**data["test"], "seed": 5}}
    assert any("are in train too" in fault.what for fault in check_recipe(Recipe(recipe(data=twice))))


def test_settings_of_blogcatalog_are_chosen_within_the_training_half(tmp_path: Path) -> None:
    path = BlogCatalog.stand_in(tmp_path, {}).settings["path"]
    train, test = (set(BlogCatalog(split, path=path).nodes.tolist()) for split in ("train", "test"))
    (tmp_path / "tune.yaml").write_text(
        "defaults: [/graph/blogcatalog_deepwalk, /graph/data/blogcatalog_tune, _self_]\n"
    )
    data = config.load(tmp_path / "tune.yaml")["data"]
    assert data["test"] is None
    fitted, val = (
        set(BlogCatalog(data[split]["split"], val=data[split]["val"], path=path).nodes.tolist())
        for split in ("train", "val")
    )
    assert val
    assert fitted | val == train
    assert not fitted & val
    assert not (fitted | val) & test
