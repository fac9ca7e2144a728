"""The task of whole graphs: losses, metrics in the units of the data, what is not known, and one training each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdl
from pdl import nn
from pdl.data import Few
from pdl.errors import ConfigError, DataError
from pdl.nn import Module
from pdl.optim import Adam
from pdl.runtime.steps import Sample
from pdl.train import Recipe, Task, Trainer, TrainSettings, assemble
from pdl.train.assembly import learned_config
from pdl.train.recipe import Data
from pdl.train.task import SPLITS
from pdl.workflow import train
from pdl.workflow.run import Run
from pdl_graph import GraphPrediction
from pdl_graph.data import GraphSet, TUGraphs
from pdl_graph.graphs.deploy import GraphDeployer
from tests.graph.graphs.samples import random_graph
from tests.graph.recipes import recipe_of


class Drawn(GraphSet):
    """Graphs whose targets follow from them: nodes and edges, unknown here and there; or whether they have many."""

    def __init__(self, kind: str = "regression", n: int = 40, seed: int = 0, holes: bool = True) -> None:
        rng = np.random.default_rng(seed)
        self.graphs = [random_graph(rng, int(rng.integers(2, 9))) for _ in range(n)]
        sizes = np.array([(graph.num_nodes, graph.num_edges) for graph in self.graphs], np.float32)
        if kind == "classification":
            self.classes = ["few", "many"]
            self._labels = (sizes[:, 0] > 5).astype(np.int64)
            return
        self.names = ["nodes", "edges"]
        self.targets = sizes * 100 if kind == "regression" else (sizes > [5, 10]).astype(np.float32)
        if holes:
            self.targets[rng.random(sizes.shape) < 0.2] = np.nan

    @property
    def labels(self) -> np.ndarray | None:
        return getattr(self, "_labels", None)


def recipe(kind: str = "classification", **task: Any) -> dict[str, Any]:
    data = {"_target_": "pdl_graph.data.TUGraphs", "name": "MUTAG"}
    return {
        "task": {"_target_": "pdl_graph.GraphPrediction", "kind": kind, **task},
        "model": {
            "_target_": "pdl_graph.GraphNet",
            "encoder": {"_target_": "pdl_graph.GIN", "hidden": 8, "num_layers": 2},
        },
        "data": {**{split: {**data, "split": split} for split in ("train", "val", "test")}, "batch_size": 16},
        "optim": {"_target_": "pdl.optim.Adam", "lr": 1e-2},
        "train": {"epochs": 8, "compile": False, "report": False, "export": False},
    }


class Fixed(Module):
    """Gives what it is told."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def forward(self, graph: Any) -> pdl.Tensor:
        return pdl.as_tensor(self.values)


def prepared(kind: str, data: GraphSet) -> GraphPrediction:
    task = GraphPrediction(kind=kind)  # type: ignore[arg-type]
    task.prepare(recipe_of(), {"train": data})
    return task


def evaluated(task: Task, model: Module, batch: Any) -> dict[str, Any]:
    metrics, found = task.metrics(), task.evaluate(model, batch)
    found.outputs = tuple(x.data if isinstance(x, pdl.Tensor) else x for x in found.outputs)
    task.update_metrics(metrics, found, batch)
    return {"loss": float(found.value.item()), **{name: metric.compute() for name, metric in metrics.items()}}


def won(labels: np.ndarray, scores: np.ndarray) -> float:
    """How often a 1 scores higher than a 0."""
    return float(np.mean(scores[labels == 1][:, None] > scores[labels == 0]))


def batch_of(data: GraphSet) -> dict[str, Any]:
    from pdl_graph.data.graphs import Chosen
    from pdl_graph.graphs.loader import Batches

    return Batches(Chosen(data)).get_batch(np.arange(len(data)))


def test_numbers_are_standardised_and_measured_in_their_units() -> None:
    data = Drawn()
    task, t = prepared("regression", data), data.targets
    assert t is not None
    assert np.isnan(t).any()
    mean, std = np.nanmean(t, 0), np.nanstd(t, 0)
    np.testing.assert_allclose(task.mean, mean, rtol=1e-6)
    np.testing.assert_allclose(task.std, std, rtol=1e-6)
    made = np.random.default_rng(1).normal(size=t.shape).astype(np.float32)
    found = evaluated(task, Fixed(made), batch_of(data))
    off = made * std + mean - t
    assert found["loss"] == pytest.approx(np.nanmean(np.square(off / std)), rel=1e-4)
    assert found["rmse"] == pytest.approx(np.sqrt(np.nanmean(np.square(off), 0)).mean(), rel=1e-4)
    assert found["mae"] == pytest.approx(np.nanmean(np.abs(off), 0).mean(), rel=1e-4)
    assert said(task, made[3]) == pytest.approx(dict(zip(["nodes", "edges"], (made * std + mean)[3], strict=True)))


def said(task: GraphPrediction, outputs: np.ndarray) -> dict[str, Any]:
    """What the steps of a bundle make of a model's outputs for one graph."""
    deployment = GraphDeployer(task, recipe_of()).deployment(nn.Identity())
    assert deployment.pipeline is not None
    return deployment.pipeline.finish({deployment.outputs[0]: outputs}, Sample())  # type: ignore[no-any-return]


def test_questions_with_unknown_answers() -> None:
    data = Drawn("binary")
    task, t = prepared("binary", data), data.targets
    assert t is not None
    known = ~np.isnan(t)
    made = np.random.default_rng(1).normal(size=t.shape).astype(np.float32)
    found = evaluated(task, Fixed(made), batch_of(data))
    p = 1 / (1 + np.exp(-made))
    loss = -np.where(np.nan_to_num(t) > 0, np.log(p), np.log(1 - p))[known].mean()
    assert found["loss"] == pytest.approx(loss, rel=1e-4)
    each = [won(t[known[:, k], k], made[known[:, k], k]) for k in range(2)]
    assert found["auc"] == pytest.approx(np.mean(each), rel=1e-6)
    right = [np.mean((made[known[:, k], k] > 0) == (t[known[:, k], k] > 0)) for k in range(2)]
    assert found["accuracy"] == pytest.approx(np.mean(right))


def test_two_classes_have_an_auc() -> None:
    data = Drawn("classification")
    task = prepared("classification", data)
    made = np.random.default_rng(1).normal(size=(len(data), 2)).astype(np.float32)
    found = evaluated(task, Fixed(made), batch_of(data))
    assert found["auc"] == pytest.approx(won(data.labels, made[:, 1] - made[:, 0]))
    assert found["accuracy"] == np.mean(made.argmax(1) == data.labels)
    answer = said(task, made[0])
    assert answer["label"] == ["few", "many"][made[0].argmax()]
    assert sum(each["score"] for each in answer["top"]) == pytest.approx(1)


def test_a_training_and_its_run(tmp_path: Path) -> None:
    result = train(recipe(), run=tmp_path / "run", progress=False)
    value = result.metrics["test/accuracy"]
    assert value is not None
    assert value > 0.6
    opened = Run(tmp_path / "run").opened("best")
    assert opened.recipe.model.get("encoder")["num_features"] == 7
    assert "num_classes" not in opened.recipe.model.get("encoder")
    assert opened.recipe.task.get("classes") == ["not mutagenic", "mutagenic"]
    again = evaluated(opened.task, opened.model.eval(), batch_of(TUGraphs("MUTAG", "test")))
    assert again["accuracy"] == pytest.approx(value)


def test_numbers_are_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    made = {split: Drawn(n=120, seed=seed) for seed, split in enumerate(SPLITS)}
    monkeypatch.setattr(Data, "datasets", lambda self, splits: made)
    task = GraphPrediction(kind="regression")
    tree = recipe("regression")
    tree["model"]["dropout"] = 0.0
    pdl.seed(0)
    parts = assemble(task, Recipe(tree), seed=0)
    trainer = Trainer(
        task,
        parts.model,
        Adam(parts.model.parameters(), lr=1e-2),
        dict(parts.loaders),
        TrainSettings(epochs=25, compile=False),
    )
    blind = float(np.nanstd(parts.datasets["test"].targets, axis=0).mean())
    trainer.fit()
    assert trainer.evaluate("test").metrics["test/rmse"] < 0.7 * blind
    assert trainer.monitor == "val/rmse"
    learned = learned_config(task, Recipe(tree))
    assert learned["model"] == {"num_classes": 2, "encoder": {"num_features": 3}}
    assert GraphPrediction(kind="regression", **learned["task"]).learned_config() == learned["task"]


def test_few_of_a_set_are_those_samples() -> None:
    from pdl_graph.data.graphs import Chosen

    data = Drawn("classification")
    few = Chosen(Few(data, 6))
    assert data.labels is not None
    assert np.bincount(few.labels).tolist() == [3, 3]
    assert all(few.graphs[i] is data.graphs[row] for i, row in enumerate(few.rows))
    assert data[int(few.rows[0])]["label"] == few.labels[0]


@pytest.mark.parametrize(
    ("kind", "held", "error", "what"),
    [
        ("classification", Drawn(), ConfigError, "needs classes, but data.train has targets"),
        ("regression", Drawn("classification"), ConfigError, "needs targets, but data.train has classes"),
        ("binary", Drawn(), DataError, "targets of task.kind=binary are 0 and 1"),
    ],
)
def test_task_and_data_must_fit(kind: str, held: GraphSet, error: type[Exception], what: str) -> None:
    with pytest.raises(error, match=what):
        prepared(kind, held)


def test_a_net_of_nodes_is_no_net_of_graphs() -> None:
    config = recipe("classification")
    config["model"] = config["model"]["encoder"]
    with pytest.raises(ConfigError, match="a model of whole graphs is"):
        train(config, progress=False)
