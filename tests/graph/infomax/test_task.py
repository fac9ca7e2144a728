"""Deep graph infomax: its loss, the regression on its vectors, a training that resumes and is used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdl
from pdl.errors import ConfigError
from pdl.random import fork_seed
from pdl.train import Recipe, assemble
from pdl.workflow import Run, evaluate, predict, train
from pdl_graph import DGI, GraphInfomax
from pdl_graph.data import Planetoid
from pdl_graph.infomax.softmax import fit, minimise
from tests.graph.models.test_node_models import F, K, N, dense, graph, normalised


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(Planetoid.stand_in(tmp_path_factory.mktemp("planetoid"), {"name": "cora"}).settings["path"])


def recipe(file: str, *, model: str = "DGI", **settings: Any) -> dict[str, Any]:
    data = {"_target_": "pdl_graph.data.Planetoid", "name": "cora", "path": file}
    return {
        "task": {"_target_": "pdl_graph.GraphInfomax"},
        "model": {"_target_": f"pdl_graph.{model}", "hidden": 16},
        "data": {split: {**data, "split": split} for split in ("train", "val", "test")},
        "optim": {"_target_": "pdl.optim.Adam", "lr": 1e-2},
        "train": {"epochs": 12, "eval_every": 4, "report": False, **settings},
    }


@pytest.mark.parametrize("layers", [1, 2])
def test_the_contrast_is_its_formula(layers: int) -> None:
    g, order = graph(), np.random.default_rng(1).permutation(N)
    with fork_seed(0):
        net = DGI(F, K, hidden=5, num_layers=layers).eval()
    w = {key: p.data.astype(np.float64) for key, p in net.named_parameters()}
    a, x = dense(g)

    def vectors(h: np.ndarray) -> np.ndarray:
        for i in range(layers):
            h = normalised(a) @ h @ w[f"convs.{i}.weight"] + w[f"convs.{i}.bias"]
            h = np.where(h > 0, h, w[f"activations.{i}.weight"] * h)
        return h

    summary = 1 / (1 + np.exp(-vectors(x).mean(0)))
    batch = g.batch()
    real, fake = net.contrast(batch, pdl.as_tensor(order))
    np.testing.assert_allclose(net.embed(batch).data, vectors(x), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(real.data, vectors(x) @ w["discriminator"] @ summary, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(fake.data, vectors(x[order]) @ w["discriminator"] @ summary, rtol=1e-4, atol=1e-5)


def test_the_regression_is_where_its_gradient_is_nothing() -> None:
    rng = np.random.default_rng(0)
    x, y = 3 * rng.standard_normal((40, 6)) + 1, rng.integers(0, 3, 40)
    w, b = fit(x, y, 3, penalty=0.01)
    p = np.exp(x @ w + b)
    p = (p / p.sum(1, keepdims=True) - np.eye(3)[y]) / 40
    np.testing.assert_allclose(p.sum(0), 0, atol=1e-5)
    np.testing.assert_allclose(x.T @ p + 0.01 * np.mean(x * x) * w, 0, atol=1e-5)


def test_what_is_hard_to_minimise() -> None:
    curved = np.logspace(-2, 2, 12)
    found = minimise(lambda p: (float(curved @ (p - 1) ** 2) / 2, curved * (p - 1)), np.zeros(12))
    np.testing.assert_allclose(found, 1, atol=1e-3)


def test_a_run_is_resumed_measured_and_used(file: str, tmp_path: Path) -> None:
    config = Recipe(recipe(file, checkpoint_every=1, max_steps=9))
    result = train(config, run=tmp_path / "run", progress=False)
    assert result.metrics["train/loss"] < np.log(2), "nodes are told from those with shuffled features"
    assert result.metrics["test/accuracy"] > max(result.baselines["majority"]["test/accuracy"], 0.5)
    again = evaluate(tmp_path / "run").metrics
    assert again["test/accuracy"] == result.metrics["test/accuracy"], "the regression is kept with the weights"
    model = Run.open(tmp_path / "run").opened("best").model
    assert isinstance(model, DGI)
    assert np.abs(model.weight.data).max() > 0
    ours = predict(tmp_path / "run", ["3"])[0]
    held = Planetoid(path=file).graph
    assert ours["label"] in held.classes
    bundle = evaluate(tmp_path / "run" / "model.pdl").metrics
    assert bundle["test/accuracy"] == result.metrics["test/accuracy"]


def test_shuffles_follow_seed_and_epoch(file: str) -> None:
    task = GraphInfomax()
    loader: Any = assemble(task, Recipe(recipe(file)), seed=5).loaders["train"]
    orders = []
    for epoch in (0, 1, 0):
        loader.set_epoch(epoch)
        (batch,) = list(loader)
        orders.append(batch["order"])
    assert np.array_equal(orders[0], orders[2])
    assert not np.array_equal(orders[0], orders[1])
    assert np.array_equal(np.sort(orders[1]), np.arange(len(orders[1])))


@pytest.mark.parametrize(
    ("change", "match"),
    [({"model": "GCN"}, "GraphInfomax takes a DGI"), ({"ema": 0.9}, r"train.ema: .* leave it out")],
)
def test_what_does_not_fit_is_refused(file: str, change: dict[str, Any], match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        assemble(GraphInfomax(), Recipe(recipe(file, **change)))
