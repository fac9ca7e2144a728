"""The task of links, whole: what is measured, what is read, training that falls, baselines, report and check."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdl
from pdl.errors import ConfigError
from pdl.train import Recipe, assemble
from pdl.train.assembly import learned_config, restored
from pdl.workflow import train
from pdl_graph import VGAE, BilinearDecoder, DotDecoder, Graph, LinkPrediction, MLPDecoder
from pdl_graph.data import EdgeSplit, Planetoid
from pdl_graph.link.baselines import personalised_pagerank, shared_neighbours
from pdl_graph.link.check import check_recipe
from pdl_graph.link.loader import as_constant
from pdl_graph.link.losses import balanced_loss
from pdl_graph.link.metrics import hits, reciprocal_rank
from pdl_graph.link.report import neighbourhood

GCN = {"_target_": "pdl_graph.GCN", "hidden": 32, "num_classes": 16, "dropout": 0.0}
MODELS: dict[str, dict[str, Any]] = {
    "gae": {"_target_": "pdl_graph.GAE"},
    "vgae": {"_target_": "pdl_graph.VGAE", "length": 2.0},
    "dot": {"_target_": "pdl_graph.LinkPredictor", "encoder": GCN},
    "bilinear": {
        "_target_": "pdl_graph.LinkPredictor",
        "encoder": GCN,
        "decoder": {"_target_": "pdl_graph.BilinearDecoder", "dim": 16, "diagonal": True},
    },
    "mlp on hidden": {
        "_target_": "pdl_graph.LinkPredictor",
        "encoder": GCN,
        "penultimate": True,
        "decoder": {"_target_": "pdl_graph.MLPDecoder", "dim": 32, "hidden": 16},
    },
}


def recipe(root: Path, model: str, **settings: Any) -> dict[str, Any]:
    Planetoid.stand_in(root, {"name": "cora"})
    graph = {"_target_": "pdl_graph.data.Planetoid", "name": "cora", "path": str(root / "cora.npz")}
    data = {"_target_": "pdl_graph.data.EdgeSplit", "graph": graph, "seed": 1}
    return {
        "task": {"_target_": "pdl_graph.LinkPrediction", "hits": [10]},
        "model": MODELS[model],
        "data": {split: {**data, "split": split} for split in ("train", "val", "test")} | settings.pop("data", {}),
        "optim": {"_target_": "pdl.optim.Adam", "lr": 0.02},
        "train": {"epochs": 40, "export": False, **settings},
    }


@pytest.mark.parametrize("model", MODELS)
def test_every_kind_learns_who_is_joined(model: str, tmp_path: Path) -> None:
    result = train(Recipe(recipe(tmp_path, model)), run=tmp_path / "run", progress=False)
    assert result.metrics["test/auc"] > 0.75, result.metrics
    assert {"test/ap", "test/mrr", "test/hits@10"} <= set(result.metrics)
    assert set(result.baselines) == {"common neighbours", "Adamic-Adar", "preferential attachment", "PageRank"}
    report = (tmp_path / "run/report.html").read_text()
    assert "precision, recall" in report
    assert "Nodes in the plane" in report


def test_batches_and_bits_of_a_split_do(tmp_path: Path) -> None:
    few = {"_target_": "pdl.data.Few", "n": 30, "dataset": recipe(tmp_path, "gae")["data"]["val"]}
    made = recipe(tmp_path, "gae", epochs=2, data={"batch_size": 200, "eval_batch_size": 16, "val": few})
    assert train(Recipe(made), run=tmp_path / "run", progress=False).metrics["val/loss"] > 0


def test_a_run_is_used_without_its_data(tmp_path: Path) -> None:
    tree = recipe(tmp_path, "vgae")
    task = LinkPrediction()
    parts = assemble(task, Recipe(tree))
    tree["model"] = {**tree["model"], **learned_config(task, Recipe(tree))["model"]}
    (tmp_path / "cora.npz").unlink()
    again = restored(LinkPrediction(), Recipe(tree))
    again.load_state_dict(parts.model.state_dict())
    batch = parts.datasets["val"].get_batch(np.arange(20))
    parts.model.eval()
    logits = again.eval()(as_constant(parts.datasets["val"].graph, self_loops=True), batch["pair"])
    np.testing.assert_allclose(task.evaluate(parts.model, batch).outputs[0].data, logits.data)


def test_graphs_without_features_have_those_of_the_identity() -> None:
    rng = np.random.default_rng(0)
    graph = Graph.from_edges(*rng.integers(0, 20, (2, 60)), 20, directed=False)
    model = VGAE(20, hidden=8, dim=4)
    z = model.embed(as_constant(graph, self_loops=True)).data
    plain = graph.with_(x=np.eye(20, dtype=np.float32))
    np.testing.assert_allclose(z, model.embed(as_constant(plain, self_loops=True)).data, atol=1e-5)


def test_decoders_follow_their_formulas() -> None:
    u, v = (pdl.tensor(x) for x in np.random.default_rng(0).standard_normal((2, 5, 4)).astype(np.float32))
    dot = (u.data * v.data).sum(1)
    np.testing.assert_allclose(DotDecoder()(u, v).data, dot, rtol=1e-5)
    for diagonal in (False, True):  # which begin as the dot product
        decoder = BilinearDecoder(4, diagonal=diagonal)
        np.testing.assert_allclose(decoder(u, v).data, dot, rtol=1e-5)
        decoder.weight.data[...] = weight = np.arange(decoder.weight.size, dtype=np.float32).reshape(
            decoder.weight.shape
        )
        full = np.diag(weight) if diagonal else weight
        np.testing.assert_allclose(decoder(u, v).data, np.einsum("pi,ij,pj->p", u.data, full, v.data), rtol=1e-4)
    mlp = MLPDecoder(4, hidden=3)
    np.testing.assert_allclose(mlp(u, v).data, mlp(v, u).data, rtol=1e-5)


def test_the_divergence_is_that_of_two_normal_distributions() -> None:
    graph = as_constant(Graph.from_edges([0, 1], [1, 2], 3, directed=False), self_loops=True)
    model = VGAE(3, hidden=4, dim=2, kl=6.0)
    hidden, norm = model._hidden(graph)
    mean = model.embed(graph).data.astype(np.float64)
    std = np.exp(model.logstd(graph.adjacency, hidden, norm=norm).data.astype(np.float64))
    expected = (np.log(1 / std) + (std**2 + mean**2) / 2 - 0.5).sum()  # KL(N(mean, std) || N(0, 1))
    drawn, penalty = model.encode(graph)
    assert penalty is not None
    np.testing.assert_allclose(penalty.item(), 6.0 / 3 / 3 * expected, rtol=1e-4)
    again = model.encode(graph)[0]
    assert not np.allclose(drawn.data, again.data)


def test_the_loss_weighs_both_kinds_alike() -> None:
    logits, label = np.array([2.0, -1.0, 0.5, 3.0], np.float32), np.array([1, 0, 0, 0])
    value = balanced_loss(pdl.tensor(logits), label).item()
    assert value == pytest.approx(0.5 * np.log1p(np.exp(-2)) + np.log1p(np.exp(logits[1:])).mean() / 2, rel=1e-5)
    assert balanced_loss(pdl.tensor(logits[:1]), label[:1]).item() == pytest.approx(
        0.5 * np.log1p(np.exp(-2)), rel=1e-5
    )


def test_ranks_of_edges_among_others() -> None:
    scores, labels = np.array([5.0, 3.0, 1.0, 4.0, 3.0, 2.0, 0.0]), np.array([1, 1, 1, 0, 0, 0, 0])
    assert reciprocal_rank(scores, labels) == pytest.approx((1 + 1 / 2.5 + 1 / 4) / 3)
    assert [hits(scores, labels, k) for k in (1, 2, 3, 4, 5)] == pytest.approx([1 / 3, 1 / 3, 2 / 3, 1, 1])


def test_a_drawing_shows_what_is_around_a_hidden_edge() -> None:
    graph = Graph.from_edges([0, 1, 2, 3, 4, 4], [2, 2, 3, 4, 5, 6], 9, directed=False, names=list("abcdefghi"))
    pairs, labels = np.array([[7, 8], [0, 1], [5, 6]]), np.array([1, 1, 0])
    (section,) = neighbourhood(graph, pairs, np.array([0.0, 2.0, 0.0]), labels)
    assert "a (ringed) and b, whose edge was hidden and gets 0.88" in section.html
    drawn = {name for name in "abcdefghi" if f"<title>{name}</title>" in section.html}
    assert drawn == {"a", "b", "c"}  # two and the neighbour of both
    (lonely,) = neighbourhood(graph, pairs[:1], np.array([0.0]), labels[:1])
    assert "h (ringed) and i" in lonely.html
    assert not neighbourhood(graph, pairs[2:], np.zeros(1), labels[2:])


def test_baselines_count_what_they_say() -> None:
    rng = np.random.default_rng(1)
    graph = Graph.from_edges(*rng.integers(0, 25, (2, 90)), 25, directed=False)
    a = np.zeros((25, 25))
    a[graph.targets, graph.indices] = 1
    np.fill_diagonal(a, 0)
    pairs = rng.integers(0, 25, (40, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    weights = np.stack([np.ones(25), rng.random(25)])
    for at_once in (1 << 22, 7):
        found = shared_neighbours(graph, pairs, weights, at_once=at_once)
        for row, w in zip(found, weights, strict=True):
            np.testing.assert_allclose(row, (a @ np.diag(w) @ a)[pairs[:, 0], pairs[:, 1]])
    step = np.zeros((25, 25))
    np.add.at(step, (graph.targets, graph.indices), 1 / np.maximum(graph.out_degree(), 1)[graph.indices])
    walks = 0.15 * np.linalg.inv(np.eye(25) - 0.85 * step)
    both = walks[pairs[:, 1], pairs[:, 0]] + walks[pairs[:, 0], pairs[:, 1]]
    np.testing.assert_allclose(personalised_pagerank(graph, pairs), both, atol=2 * 0.85**12)


def test_splits_that_do_not_fit_are_told(tmp_path: Path) -> None:
    good = recipe(tmp_path, "gae")
    assert not [fault for fault in check_recipe(Recipe(good)) if fault.severity == "error"]
    other = {**good["data"]["test"], "seed": 2}
    bad = Recipe(recipe(tmp_path, "gae", data={"test": other}))
    messages = " | ".join(fault.what for fault in check_recipe(bad))
    assert "are in train, too" in messages
    with pytest.raises(ConfigError, match="its messages use other edges"):
        assemble(LinkPrediction(), bad)
    kept = {name: {**good["data"][name], "val_messages": True} for name in ("train", "val", "test")}
    with pytest.raises(ConfigError, match="val_messages"):
        assemble(LinkPrediction(), Recipe({**good, "data": kept}))


def test_edges_to_be_found_in_the_message_graph_are_leaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = EdgeSplit.__init__

    def leaky(self: EdgeSplit, *args: Any, **settings: Any) -> None:
        made(self, *args, **settings)
        self.graph = self.whole
        self.targets = np.ones_like(self.targets)

    monkeypatch.setattr(EdgeSplit, "__init__", leaky)
    messages = " | ".join(fault.what for fault in check_recipe(Recipe(recipe(tmp_path, "gae"))))
    assert "of test are in the message graph" in messages
    assert "have a label that is not the graph's" in messages
