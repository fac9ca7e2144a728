"""Every task of the suites has baselines, or an exact answer to stand beside it; those of classes, clicks and whole
graphs are measured in a run of each."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pdl import suites
from pdl.config import load, parts
from pdl.train import Task
from pdl.workflow.training import train
from pdl_cv.classification.baselines import averaged
from pdl_graph import Graph, GraphPrediction
from pdl_graph.data.graphs import GraphSet
from pdl_graph.graphs.baselines import baselines as of_graphs
from pdl_graph.graphs.baselines import counts
from pdl_quantum.variational import Variational

RECIPES = {
    "cv/digits_lenet": {"majority", "logistic regression", "nearest neighbour"},
    "quantum/digits01_vsql": {"majority", "logistic regression", "nearest neighbour"},
    "quantum/moons_kernel": {"majority", "logistic regression", "nearest neighbour"},
    "graph/mutag_gin": {"majority", "counts"},
    "rec/synthetic_deepfm": {"prior", "logistic regression"},
    "rec/synthetic_lr": {"prior"},
    "rec/adult_mmoe": {"prior", "logistic regression"},
}


def test_every_task_has_something_to_stand_beside_it() -> None:
    """A variational task knows the exact answer instead."""
    tasks = [suites.locate(part.target) for part in parts("tasks")]
    assert len(tasks) > 20
    assert [t for t in tasks if t.baselines is Task.baselines and not issubclass(t, Variational)] == []


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_run_has_them_with_the_metrics_of_the_model(recipe: str, tmp_path: Path) -> None:
    quick = ["train.epochs=1", "train.report=false", "train.export=false"]
    result = train(load(recipe, quick), run=tmp_path / "run", progress=False)
    assert set(result.baselines) == RECIPES[recipe]
    for metrics in result.baselines.values():
        assert metrics
        assert {name for name in metrics if name not in result.metrics} == set()
        assert np.isfinite(list(metrics.values())).all()


def test_pictures_are_averaged_over_what_lies_in_a_pixel() -> None:
    images = np.random.default_rng(0).random((2, 48, 20, 3))
    made = averaged(images)
    assert made.shape == (2, 16, 16, 3)
    np.testing.assert_allclose(made[1, 0, 0], images[1, :3, 0].mean(axis=0))
    np.testing.assert_allclose(made[1, 5, 3], images[1, 15:18, 3:5].mean(axis=(0, 1)))
    assert averaged(images[:, :8, :8]).shape == (2, 8, 8, 3)


def rings(kind: str) -> tuple[GraphPrediction, dict[str, GraphSet]]:
    """A task, and rings of n nodes of which n (or whether it is above 20) is asked; one is not known."""
    graphs, sizes = [], np.arange(4, 44)
    for n in sizes:
        node = np.arange(n)
        kinds = np.eye(2, dtype=np.float32)[node % 2]
        graphs.append(Graph.from_edges(node, (node + 1) % n, int(n), directed=False, x=kinds))
    requested = sizes.astype(np.float64) if kind == "regression" else (sizes > 20).astype(np.float64)
    requested[3] = np.nan
    dataset = GraphSet()
    dataset.graphs, dataset.targets, dataset.names = graphs, requested[:, None].astype(np.float32), ["size"]
    task = GraphPrediction(kind=kind)  # type: ignore[arg-type]
    task.prepare({}, {"train": dataset})
    return task, {"train": dataset, "test": dataset}


def test_graphs_by_counts() -> None:
    task, datasets = rings("regression")
    assert counts(datasets["train"].graphs)[0].tolist() == [4, 8, 2, 2]
    found = of_graphs(task, datasets, "test")
    known = np.delete(np.arange(4.0, 44.0), 3)
    assert found["mean"]["rmse"] == pytest.approx(known.std())
    assert found["counts"]["rmse"] < 0.3
    task, datasets = rings("binary")
    found = of_graphs(task, datasets, "test")
    assert found["majority"]["auc"] == 0.5
    assert found["counts"]["auc"] == 1.0
