"""Classes of nodes, whole: recipes on a drawn graph, training that falls, resuming, what is hidden, what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdl
from pdl.errors import ConfigError, DataError
from pdl.train import Hook, Recipe, assemble
from pdl.workflow import Run, evaluate, train
from pdl_graph import GCN, Graph, NodeClassification
from pdl_graph.data import NodeData, Planetoid
from pdl_graph.node.loader import among
from tests.graph.recipes import recipe_of


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(Planetoid.stand_in(tmp_path_factory.mktemp("planetoid"), {"name": "cora"}).settings["path"])


def recipe(file: str, *, task: dict[str, Any] | None = None, **settings: Any) -> dict[str, Any]:
    data = {"_target_": "pdl_graph.data.Planetoid", "name": "cora", "path": file}
    return {
        "task": {"_target_": "pdl_graph.NodeClassification", **(task or {})},
        "model": {"_target_": "pdl_graph.GCN", "hidden": 8},
        "data": {split: {**data, "split": split} for split in ("train", "val", "test")},
        "optim": {"_target_": "pdl.optim.Adam", "lr": 2e-2},
        "train": {"epochs": 12, "export": False, **settings},
    }


def test_a_recipe_trains_is_resumed_measured_and_restored(file: str, tmp_path: Path) -> None:
    whole = train(Recipe(recipe(file)), run=tmp_path / "whole", progress=False)
    lines = [json.loads(line) for line in (tmp_path / "whole" / "metrics.jsonl").read_text().splitlines()]
    losses = [line["train/loss"] for line in lines if line["kind"] == "epoch"]
    assert whole.steps == 12
    assert losses[-1] < losses[0]
    assert whole.metrics["test/accuracy"] > max(whole.baselines["majority"]["test/accuracy"], 0.5)
    assert set(whole.baselines) == {"majority", "label propagation", "features alone"}
    assert "Confusion matrix" in (tmp_path / "whole" / "report.html").read_text()
    config = Recipe(recipe(file, checkpoint_every=1))

    class Stop(Hook):
        def on_batch(self, trainer: Any) -> None:
            if trainer.state.step == 7:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(config, run=tmp_path / "broken", progress=False, hooks=[Stop()])
    resumed = train(config, run=tmp_path / "broken", resume=True, progress=False)
    assert resumed.metrics == whole.metrics, "a resumed run ends with the same bits"
    assert evaluate(tmp_path / "whole").metrics["test/accuracy"] == whole.metrics["test/accuracy"]
    opened = Run.open(tmp_path / "whole").opened("best")
    task, model = opened.task, opened.model
    assert isinstance(task, NodeClassification)
    assert isinstance(model, GCN)
    graph = Planetoid(path=file).graph
    assert graph.y is not None
    model.eval()
    scores = model(task.read(graph, model.self_loops)).data[graph.masks["test"]]
    assert (scores.argmax(1) == graph.y[graph.masks["test"]]).mean() == whole.metrics["test/accuracy"]
    assert task.classes == list(graph.classes)


def test_the_graph_is_held_once_and_without_hidden_edges_where_it_is_to_be_new(file: str) -> None:
    for inductive, held in ((False, 1), (True, 2)):
        config = Recipe(recipe(file, task={"inductive": inductive}))
        task = NodeClassification(inductive=inductive)
        parts = assemble(task, config)
        numbers = {split: next(iter(loader))["graph"] for split, loader in parts.loaders.items()}
        assert len(task.graphs) == held
        assert numbers == {"train": 0, "val": held - 1, "test": held - 1}
        source = parts.datasets["train"].graph
        seen = task.graphs[0].adjacency
        ends = np.stack([seen.row.data, seen.indices.data])
        apart = ends[:, ends[0] != ends[1]]
        inside = source.masks["train"][apart].all()
        assert inside == inductive
        assert len(ends.T) - len(apart.T) == source.num_nodes, "GCN wants self-loops"


def test_among_keeps_what_edges_carry() -> None:
    graph = Graph.from_edges([0, 1, 2, 3], [1, 2, 0, 1], 4, edge_weight=np.array([1.0, 2.0, 3.0, 4.0], np.float32))
    kept = among(graph, np.array([0, 1, 2]))
    assert [(int(s), int(t)) for s, t in zip(*kept.edges(), strict=True)] == [(2, 0), (0, 1), (1, 2)]
    assert kept.edge_weight is not None
    assert kept.edge_weight.tolist() == [3.0, 1.0, 2.0]


def graph_with(y: np.ndarray, **about: Any) -> Graph:
    rng = np.random.default_rng(0)
    n = len(y)
    x = rng.standard_normal((n, 6)).astype(np.float32)
    masks = {"train": np.arange(n) < n // 2, "val": np.arange(n) >= n // 2}
    source, target = rng.integers(0, n, (2, 3 * n))
    return Graph.from_edges(source, target, n, x=x, y=y, masks=masks, **about)


def built(graph: Graph, **options: Any) -> tuple[NodeClassification, Any]:
    task = NodeClassification(**options)
    datasets = {split: NodeData(graph, split) for split in ("train", "val")}
    given = recipe_of()
    task.prepare(given, datasets)
    model = task.model(given)
    task.check_model(model, datasets, given)
    loaders = {name: task.loader(data, given, training=name == "train", seed=0) for name, data in datasets.items()}
    return task, (model, loaders, datasets)


@pytest.mark.parametrize("dtype", [np.bool_, np.float32, np.int64])
def test_nodes_may_have_several_labels(dtype: Any) -> None:
    rng = np.random.default_rng(1)
    graph = graph_with(rng.random((40, 3)).round().astype(dtype), classes=("a", "b", "c"))
    task, (model, loaders, datasets) = built(graph)
    messages = {"classes": ["a", "b", "c"], "multi_label": True, "directed": True, "weighted": False}
    assert task.learned_config() == messages
    loss = task.evaluate(model.eval(), next(iter(loaders["val"])))
    logits = model(task.graphs[0]).data[20:]
    y = np.asarray(graph.y, np.float64)[20:]
    p = 1 / (1 + np.exp(-logits.astype(np.float64)))
    np.testing.assert_allclose(loss.value.item(), -(y * np.log(p) + (1 - y) * np.log(1 - p)).mean(), rtol=1e-5)
    metrics = task.metrics()
    for metric in metrics.values():
        metric.update(*[np.asarray(getattr(x, "data", x)) for x in loss.outputs])
    hit = ((p > 0.5) & (y > 0)).sum()
    assert metrics["micro_f1"].compute() == 2 * hit / ((p > 0.5).sum() + y.sum())
    assert set(task.baselines(recipe_of(), datasets, "val")) == {"majority", "label propagation", "features alone"}


def test_two_classes_have_an_area_under_the_curve() -> None:
    task, _ = built(graph_with(np.arange(40) % 2))
    assert "auc" in task.metrics()
    scores = np.array([[0.0, 1.0], [0.0, 2.0], [3.0, 0.0]], np.float32)
    metric = task.metrics()["auc"]
    metric.update(scores, np.array([0, 1, 1]))
    assert metric.compute() == 0.5


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"y": np.r_[-1, np.arange(39) % 2]}, "data.train: node 0 has label -1, but classes are 0 to 1"),
        ({"x": None}, "the nodes have no features"),
    ],
)
def test_data_that_does_not_fit_is_refused(change: dict[str, Any], match: str) -> None:
    graph = replace(graph_with(np.arange(40) % 2), **change)
    with pytest.raises(DataError, match=match):
        built(graph)


def test_settings_that_do_not_fit_are_refused(file: str) -> None:
    graph = graph_with(np.arange(40) % 2)
    with pytest.raises(DataError, match=r"expected a row of 2; see task.multi_label"):
        built(graph, multi_label=True)
    task, (_, _, datasets) = built(graph)
    with pytest.raises(ConfigError, match=r"batch_size: 7, but a full batch holds all 20"):
        task.loader(datasets["train"], recipe_of({"data": {"batch_size": 7}}), training=True, seed=0)
    with pytest.raises(ConfigError, match=r"model.num_features: 5, but the data has 6"):
        task.check_model(GCN(5, 2), datasets, recipe_of())
    with pytest.raises(ConfigError, match="reads no graph"):
        task.check_model(pdl.nn.Linear(2, 2), datasets, recipe_of())
    with pytest.raises(ConfigError, match="GCN needs num_features"):
        GCN(num_classes=2)


def test_the_task_checks_its_recipe(file: str) -> None:
    made = recipe(file)
    assert not [fault for fault in NodeClassification().check(Recipe(made)) if fault.severity == "error"]
    made["data"]["test"] = {**made["data"]["train"]}
    messages = [fault.what for fault in NodeClassification().check(Recipe(made)) if fault.severity == "error"]
    assert any("nodes are in train too" in each for each in messages)
