"""Drawn neighbourhoods: batches that depend on seed, epoch and node alone; exact scores in pieces; training that
falls and is resumed; what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdl
from pdl.errors import ConfigError, DataError
from pdl.train import Hook, Recipe
from pdl.train.assembly import learned_config
from pdl.train.recipe import Data
from pdl.workflow import train
from pdl_graph import RGCN, Graph, GraphSAGE, NodeClassification
from pdl_graph.data import NodeData
from pdl_graph.features import sparse_features
from pdl_graph.node import sampler as sampling
from pdl_graph.node.loader import sampled_loader
from pdl_graph.node.sampler import NeighbourSampler, one_by_one
from tests.graph.recipes import recipe_of

N, E, F, C, R = 60, 400, 5, 3, 2


def graph(seed: int = 0) -> Graph:
    rng = np.random.default_rng(seed)
    return Graph.from_edges(
        rng.integers(0, N, E),
        rng.integers(0, N - 2, E),
        N,
        x=rng.standard_normal((N, F)).astype(np.float32),
        y=rng.integers(0, C, N),
        edge_type=rng.integers(0, R, E),
        edge_weight=rng.random(E).astype(np.float32),
        masks={"train": np.arange(N) < 40, "val": np.arange(N) >= 40},
    )


NETS: dict[str, Any] = {
    "mean": lambda: GraphSAGE(F, C, hidden=6, num_layers=3, dropout=0),
    "max": lambda: GraphSAGE(F, C, hidden=6, aggregator="max", dropout=0),
    "rgcn": lambda: RGCN(F, C, R, hidden=6),
    "rgcn of nodes": lambda: RGCN(None, C, R, N, hidden=6),
}


@pytest.mark.parametrize("name", NETS)
def test_all_neighbours_drawn_and_scores_in_pieces_are_the_whole_graphs(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    net, g = NETS[name](), graph()
    net.eval()
    for p in net.parameters():
        p.data = np.random.default_rng(1).standard_normal(p.shape).astype(np.float32)
    g = g if net.num_features else replace(g, x=None)
    nodes = np.array([50, 3, 59, 8])
    with pdl.no_grad():
        expected = net(g.batch()).data[nodes]
        sampler = NeighbourSampler(g)
        blocks = sampler.blocks(nodes, [-1] * net.num_layers, epoch=0, step=0)
        np.testing.assert_allclose(one_by_one(net, blocks).data, expected, rtol=1e-4, atol=1e-5)
        for edges in (7, 1 << 20):
            monkeypatch.setattr(sampling, "PIECE_EDGES", edges)
            np.testing.assert_allclose(sampler.scores(net, nodes).data, expected, rtol=1e-4, atol=1e-5)
            assert sampler.scores(net, np.arange(N)).shape == (N, C)
            vectors = sampler.scores(net, nodes, num_layers=net.num_layers - 1).data
            np.testing.assert_allclose(vectors, net.embed(g.batch()).data[nodes], rtol=1e-4, atol=1e-5)


def test_blocks_hold_what_belongs_to_their_nodes_and_edges() -> None:
    g = graph()
    nodes = np.arange(30, 40)
    first, last = NeighbourSampler(g, seed=3).blocks(nodes, (2, 4), epoch=1, step=5)
    assert last.num_nodes == len(nodes)
    assert last.x is None
    assert first.num_nodes == last.adjacency.shape[1]
    assert (np.diff(last.adjacency.indptr) == np.minimum(g.in_degree()[nodes], 2)).all()
    assert (np.diff(first.adjacency.indptr) <= 4).all()
    number = {row.tobytes(): i for i, row in enumerate(g.x)}  # features tell which node a row is
    ids = np.array([number[row.tobytes()] for row in first.x])
    np.testing.assert_array_equal(ids[: len(nodes)], nodes)
    source, target = g.edges()
    known = set(zip(source.tolist(), target.tolist(), g.edge_type.tolist(), g.edge_weight.tolist(), strict=True))
    a = first.adjacency
    drawn_edges = zip(ids[a.indices].tolist(), ids[a.row].tolist(), first.edge_type.tolist(),
                      first.edge_weight.tolist(), strict=True)  # fmt: skip
    assert set(drawn_edges) <= known


def batches(workers: int, *, seed: int = 0, epochs: int = 1, of: Graph | None = None) -> list[Any]:
    data = NodeData(of or graph(), "train")
    settings = {"batch_size": 16, "workers": workers}
    loader = sampled_loader(
        data, NeighbourSampler(data.graph, seed=seed), (3, 3), Data(settings), training=True, seed=seed
    )
    return [batch for _ in range(epochs) for batch in loader]


def arrays(batch: Any) -> list[np.ndarray]:
    return [np.asarray(x) for x in pdl.program.tree.leaves(batch)]


def alike(a: list[Any], b: list[Any]) -> bool:
    pairs = zip((x for batch in a for x in arrays(batch)), (x for batch in b for x in arrays(batch)), strict=False)
    return all(x.shape == y.shape and (x == y).all() for x, y in pairs)


def test_batches_depend_on_seed_and_epoch_and_not_on_threads() -> None:
    once = batches(0, epochs=2)
    assert [len(batch["node"]) for batch in once] == [16, 16, 8] * 2
    assert sorted(np.concatenate([batch["node"] for batch in once[:3]])) == list(range(40))
    assert alike(once, batches(2, epochs=2))
    assert not alike(once[:3], once[3:])
    assert not alike(once[:3], batches(0, seed=1))
    assert all((batch["label"] == graph().y[batch["node"]]).all() for batch in once)


def test_features_are_read_from_files_and_sparse_ones_stay_sparse(tmp_path: Path) -> None:
    g = graph()
    np.save(tmp_path / "x.npy", g.x)
    mapped = replace(g, x=np.load(tmp_path / "x.npy", mmap_mode="r"))
    assert alike(batches(1), batches(1, of=mapped))
    rare = replace(g, x=sparse_features(g.x * (g.x > 1)))
    net = GraphSAGE(F, C, hidden=6, dropout=0)
    for batch, full in zip(batches(0, of=rare), batches(0, of=replace(g, x=g.x * (g.x > 1))), strict=True):
        found, expected = (one_by_one(net, b["blocks"]).data for b in (batch, full))
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_weights_of_edges_draw_neighbours() -> None:
    g = graph()
    weight = np.where(np.arange(E) % 2, g.edge_weight, 0)
    sampler = NeighbourSampler(replace(g, edge_weight=weight), weighted=True)
    for block in sampler.blocks(np.arange(N), (3, 3), epoch=0, step=0):
        assert (block.edge_weight > 0).all()
    again = NeighbourSampler(g, replace=True).blocks(np.arange(20), (7,), epoch=0, step=0)[0]
    assert set(np.diff(again.adjacency.indptr)) <= {0, 7}
    with pytest.raises(ConfigError, match="have no weights"):
        NeighbourSampler(replace(g, edge_weight=None), weighted=True)


def recipe(task: dict[str, Any] | None = None, **model: Any) -> dict[str, Any]:
    data = {"_target_": "pdl_graph.data.PowerLaw", "nodes": 3000, "edges": 60_000, "features": 32, "classes": 4}
    return {
        "task": {"_target_": "pdl_graph.NodeClassification", "neighbours": [5, 5], **(task or {})},
        "model": {"_target_": "pdl_graph.GraphSAGE", "hidden": 16, "dropout": 0.0, **model},
        "data": {**{split: {**data, "split": split} for split in ("train", "val", "test")}, "batch_size": 64},
        "optim": {"_target_": "pdl.optim.Adam", "lr": 2e-2},
        "train": {"epochs": 6, "export": False, "compile": False, "checkpoint_every": 1, "report": False},
    }


@pytest.mark.parametrize("inference", ["exact", "sampled"])
def test_a_recipe_learns_from_neighbours_what_nodes_do_not_tell(inference: str, tmp_path: Path) -> None:
    settings = recipe({"inference": inference})
    settings["train"]["report"] = True
    config = Recipe(settings)
    whole = train(config, run=tmp_path / "whole", progress=False)
    assert whole.steps == 6 * 5
    assert "Nodes in the plane" in (tmp_path / "whole" / "report.html").read_text()
    assert whole.metrics["test/accuracy"] > whole.baselines["features alone"]["test/accuracy"] + 0.15

    class Stop(Hook):
        def on_batch(self, trainer: Any) -> None:
            if trainer.state.step == 7:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(config, run=tmp_path / "broken", progress=False, hooks=[Stop()])
    resumed = train(config, run=tmp_path / "broken", resume=True, progress=False)
    assert resumed.metrics == whole.metrics, "a resumed run ends with the same bits"


def test_a_step_that_is_to_be_compiled_says_why_it_is_not(tmp_path: Path) -> None:
    lines: list[str] = []

    class Heard(Hook):
        def on_message(self, trainer: Any, line: str) -> None:
            lines.append(line)

    settings = recipe()
    settings["train"] |= {"compile": True, "epochs": 1}
    train(Recipe(settings), run=tmp_path / "run", progress=False, hooks=[Heard()])
    assert [line for line in lines if "another shape in every batch" in line]


@pytest.mark.parametrize(
    ("task", "model", "message"),
    [
        ({"neighbours": [5]}, {}, "1 numbers for the 2 layers of GraphSAGE"),
        ({}, {"_target_": "pdl_graph.GCN"}, "GCN reads one graph in all its layers"),
        ({"neighbours": None}, {}, "a full batch holds all 300 training nodes"),
        ({}, {"_target_": "pdl_graph.RGCN"}, "RGCN needs num_relations"),
    ],
)
def test_refused(task: dict[str, Any], model: dict[str, Any], message: str, tmp_path: Path) -> None:
    settings = recipe(task, **model)
    if model:
        settings["model"] = {"_target_": model["_target_"], "hidden": 8}
    with pytest.raises(ConfigError, match=message):
        train(Recipe(settings), run=tmp_path / "run", progress=False)


class Relations(NodeData):
    """Typed edges, nodes without features: a node's class is that of whom it is joined to by edges of type 0."""

    def __init__(self, split: str) -> None:
        rng = np.random.default_rng(0)
        y = rng.integers(0, 3, 300)
        source, kind = rng.integers(0, 300, 3000), rng.integers(0, 3, 3000)
        target = np.array([rng.choice(np.flatnonzero(y == (y[s] + k) % 3)) for s, k in zip(source, kind, strict=True)])
        masks = {"train": np.arange(300) < 200, "test": np.arange(300) >= 200}
        super().__init__(Graph.from_edges(source, target, 300, y=y, edge_type=kind, masks=masks), split)


def test_a_net_that_needs_features_says_so() -> None:
    with pytest.raises(DataError, match="the nodes have no features"):
        NodeClassification().prepare(recipe_of(), {"train": Relations("train")})


def test_rgcn_without_features_learns_what_the_types_of_edges_tell() -> None:
    """Not through a recipe, which names installed suites alone: the task itself, whole and drawn."""
    for neighbours in (None, [10, 10]):
        pdl.random.seed(0)
        task = NodeClassification(neighbours=neighbours)
        data = {split: Relations(split) for split in ("train", "test")}
        settings = {"batch_size": 50} if neighbours else {}
        given = recipe_of({"model": {"_target_": "pdl_graph.RGCN", "hidden": 16}, "data": settings})
        task.prepare(given, data)
        assert learned_config(task, given)["model"] == {
            "num_features": 0, "num_classes": 3, "num_nodes": 300, "num_relations": 3
        }  # fmt: skip
        net: Any = task.model(given)
        task.check_model(net, data, given)
        loaders = {split: task.loader(data[split], given, training=split == "train", seed=0) for split in data}
        optimizer = pdl.optim.Adam(net, lr=2e-2)
        for _ in range(40 if neighbours is None else 10):
            for batch in loaders["train"]:
                optimizer.zero_grad()
                task.step(net, batch).value.backward()
                optimizer.step()
        net.eval()
        (batch,) = loaders["test"]
        logits, labels = task.evaluate(net, batch).outputs
        assert (pdl.as_tensor(logits).numpy().argmax(1) == labels).mean() > 0.9
