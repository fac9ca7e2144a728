"""Enclosing subgraphs of pairs: cut, labelled and put side by side as the definitions say; SEAL learns from them."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pdl
from pdl import config
from pdl.errors import ConfigError, DataError
from pdl.ops import CSR
from pdl.runtime import load
from pdl.runtime.bench import bench
from pdl.train import Recipe, assemble
from pdl.train.assembly import learned_config
from pdl.workflow import predict, train
from pdl.workflow.evaluation import evaluate_bundle
from pdl.workflow.exporting import export
from pdl_graph import SEAL, Graph, GraphBatch, SubgraphLinks
from pdl_graph.data import EdgeSplit, Planetoid
from pdl_graph.models.seal import sort_pool
from pdl_graph.subgraph.loader import enclosing, side_by_side
from pdl_graph.subgraph.task import hops_by_validation


def random_graph(n: int, edges: int, seed: int) -> Graph:
    return Graph.from_edges(*np.random.default_rng(seed).integers(0, n, (2, edges)), n, directed=False)


def lists(graph: Graph) -> list[set[int]]:
    return [set(graph.indices[graph.indptr[i] : graph.indptr[i + 1]].tolist()) - {i} for i in range(graph.num_nodes)]


def steps(neighbours: dict[int, set[int]], source: int, closed: int) -> dict[int, int]:
    found, queue = {source: 0}, deque([source])
    while queue:
        node = queue.popleft()
        for other in neighbours[node]:
            if other != closed and other not in found:
                found[other] = found[node] + 1
                queue.append(other)
    return found


def labelled(neighbours: dict[int, set[int]], u: int, v: int) -> dict[int, int]:
    """The labels of the paper, node by node."""
    of_u, of_v, found = steps(neighbours, u, v), steps(neighbours, v, u), {}
    for node in neighbours:
        found[node] = 0
        if node in (u, v):
            found[node] = 1
        elif node in of_u and node in of_v:
            d = of_u[node] + of_v[node]
            found[node] = 1 + min(of_u[node], of_v[node]) + (d // 2) * (d // 2 + d % 2 - 1)
    return found


@settings(max_examples=30)
@given(st.integers(2, 25), st.integers(0, 60), st.integers(1, 3), st.integers(0, 1000))
def test_enclosing_subgraphs_follow_their_definition(n: int, edges: int, hops: int, seed: int) -> None:
    graph = random_graph(n, edges, seed)
    whole = lists(graph)
    rng = np.random.default_rng(seed)
    pairs = rng.integers(0, n, (12, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    pairs = np.concatenate([pairs, [[0, 1]]])
    parts = enclosing(graph, pairs, hops=hops)
    assert len(parts) == len(pairs)
    for i, (u, v) in enumerate(pairs.tolist()):
        near = set(steps(dict(enumerate(whole)), u, -1).items()) | set(steps(dict(enumerate(whole)), v, -1).items())
        inside = {node for node, far in near if far <= hops}
        begin, end = parts.node_start[i : i + 2]
        nodes = parts.nodes[begin:end].tolist()
        assert nodes[:2] == [u, v]
        assert sorted(nodes) == sorted(inside)
        expected = {a: {b for b in whole[a] & inside if {a, b} != {u, v}} for a in inside}
        rows = [parts.indices[parts.indptr[j] : parts.indptr[j + 1]] for j in range(begin, end)]
        assert {a: {nodes[j] for j in row} for a, row in zip(nodes, rows, strict=True)} == expected
        assert dict(zip(nodes, parts.label[begin:end].tolist(), strict=True)) == labelled(expected, u, v)


@given(st.integers(0, 100))
def test_some_of_them_side_by_side_are_one_graph(seed: int) -> None:
    graph, rng = random_graph(20, 50, seed), np.random.default_rng(seed)
    pairs = np.stack([rng.integers(0, 10, 15), rng.integers(10, 20, 15)], axis=1)
    parts = enclosing(graph, pairs, hops=1)
    rows = rng.permutation(15)[:6]
    batch = side_by_side(parts, rows)
    one = batch.adjacency
    same = CSR.from_rows(one.indptr, one.indices, one.shape[0])
    for name in ("indptr", "indices", "row", "t_indptr", "t_indices", "t_edges"):
        np.testing.assert_array_equal(getattr(one, name), getattr(same, name), err_msg=name)
    assert batch.num_graphs == 6
    np.testing.assert_array_equal(np.bincount(batch.graph), parts.sizes[rows])
    np.testing.assert_array_equal(batch.graph[one.row], batch.graph[one.indices])
    at = np.concatenate([np.arange(*parts.node_start[i : i + 2]) for i in rows])
    np.testing.assert_array_equal(batch.node_type, parts.label[at])


def test_hops_may_be_cut_short_for_a_pair_always_alike() -> None:
    graph = Graph.from_edges(np.zeros(30, int), np.arange(2, 32), 32, directed=False)
    parts = enclosing(graph, np.array([[0, 1], [2, 3], [0, 5]]), hops=1, max_nodes=5)
    assert parts.sizes.tolist() == [7, 3, 7]
    assert np.array_equal(enclosing(graph, np.array([[0, 1]]), max_nodes=5).nodes, parts.nodes[:7])
    assert np.array_equal(enclosing(graph, np.array([[0, 5]]), max_nodes=5).nodes, parts.nodes[10:])
    seeds = [tuple(enclosing(graph, np.array([[0, 1]]), max_nodes=5, seed=s).nodes[2:]) for s in range(200)]
    assert len(set(seeds)) > 150
    counts = np.bincount(np.ravel(seeds), minlength=32)[2:]  # 1000 draws among 30 nodes
    assert counts.min() > 10
    assert counts.max() < 60


def test_directions_and_repeated_edges_do_not_matter() -> None:
    rng = np.random.default_rng(3)
    source, target = rng.integers(0, 15, (2, 40))
    pairs = np.array([[0, 1], [4, 9]])
    one = enclosing(Graph.from_edges(source, target, 15), pairs)
    both = enclosing(Graph.from_edges(np.tile(source, 2), np.tile(target, 2), 15, directed=False), pairs)
    for name in ("node_start", "nodes", "label", "indptr", "indices", "back"):
        np.testing.assert_array_equal(getattr(one, name), getattr(both, name), err_msg=name)


def test_sort_pooling_keeps_the_highest_of_each_graph() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((9, 3)).astype(np.float32)
    x[1, -1] = x[0, -1]
    graph = np.array([0, 0, 0, 0, 0, 1, 2, 2, 2])
    batch = GraphBatch(CSR.from_rows(np.zeros(10, int), np.zeros(0, int), 9), graph=graph, num_graphs=3)
    found = sort_pool(pdl.tensor(x), batch, 4).data
    for g in range(3):
        own = x[graph == g]
        own = own[np.argsort(-own[:, -1], kind="stable")][:4]
        np.testing.assert_array_equal(found[g], np.pad(own, ((0, 4 - len(own)), (0, 0))))


def test_seal_does_not_mind_the_order_of_nodes_and_gives_every_weight_a_gradient() -> None:
    graph, rng = random_graph(30, 90, 1), np.random.default_rng(1)
    pairs = rng.integers(0, 30, (8, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    names = rng.permutation(30)
    renamed = Graph.from_edges(names[graph.indices], names[graph.targets], 30)
    pdl.seed(0)
    model = SEAL(30, 12, dropout=0.0)
    logits = model(side_by_side(enclosing(graph, pairs), np.arange(len(pairs))))
    again = model(side_by_side(enclosing(renamed, names[pairs]), np.arange(len(pairs))))
    np.testing.assert_allclose(logits.data, again.data, atol=1e-4)
    logits.sum().backward()
    assert all(p.grad is not None and np.abs(p.grad.data).sum() > 0 for p in model.parameters())


def recipe(root: Path, **task: Any) -> dict[str, Any]:
    Planetoid.stand_in(root, {"name": "cora"})
    graph = {"_target_": "pdl_graph.data.Planetoid", "name": "cora", "path": str(root / "cora.npz")}
    data = {"_target_": "pdl_graph.data.EdgeSplit", "graph": graph, "test": 0.2, "val_messages": True}
    return {
        "task": {"_target_": "pdl_graph.SubgraphLinks", **task},
        "model": {"_target_": "pdl_graph.SEAL", "hidden": 16},
        "data": {"batch_size": 50, **{split: {**data, "split": split} for split in ("train", "val", "test")}},
        "optim": {"_target_": "pdl.optim.Adam", "lr": 0.005},
        "train": {"epochs": 3, "export": False, "compile": False},
    }


def test_seal_learns_who_is_joined(tmp_path: Path) -> None:
    result = train(Recipe(recipe(tmp_path, hops=2, max_nodes=20)), run=tmp_path / "run", progress=False)
    assert result.metrics["test/auc"] > 0.65, result.metrics
    task = SubgraphLinks()
    parts = assemble(task, Recipe(recipe(tmp_path)))
    assert learned_config(task, Recipe(recipe(tmp_path)))["model"].keys() == {"num_labels", "k"}
    train_set = parts.datasets["train"]
    cut = task.subgraphs(train_set, training=True)
    assert cut.targets.sum() * 2 == len(cut) == 2 * len(train_set)


def test_a_run_and_its_bundle_answer_for_pairs_of_their_own_graph_and_of_others(tmp_path: Path) -> None:
    cfg = recipe(tmp_path, hops=2, max_nodes=6)
    cfg["train"]["max_steps"] = 3
    train(Recipe(cfg), run=tmp_path / "run", progress=False)
    other = tmp_path / "other"
    other.mkdir()
    (other / "edges.csv").write_text("source,target\na,b\nb,c\na,c\nc,d\n")
    requested = ["0:1", {"pair": ["5", "7"]}, {"graph": str(other), "pair": ["a", "d"]}, "0:1", ["20", "3"]]
    own = predict(tmp_path / "run", requested)
    assert [each["input"] for each in own] == ["0:1", "5:7", "a:d", "0:1", "20:3"]
    made = export(tmp_path / "run")
    assert not made.notes  # any number of pairs, of subgraphs of any size
    session = load(made.path)
    (tmp_path / "cora.npz").unlink()
    together, alone = session.batch(requested), [session(each) for each in requested]
    for run, both, one in zip(own, together, alone, strict=True):
        assert run["edge"] == pytest.approx(both["edge"], abs=1e-6)
        assert both["edge"] == pytest.approx(one["edge"], abs=1e-6)
    assert own[0]["edge"] != own[1]["edge"]
    assert predict(tmp_path / "run", [requested[2]])[0]["edge"] == own[2]["edge"]  # without the run's own data
    for wrong, message in (("0:0", "is of one node"), ("0:zz", "node 'zz' is not among the"), ("0", "is no pair")):
        with pytest.raises(DataError, match=message):
            session(wrong)
    assert bench(made.path, batch=4, seconds=0.01).inputs["size"] == (4,)


def test_a_bundle_measures_what_its_run_does(tmp_path: Path) -> None:
    cfg = recipe(tmp_path)
    cfg["train"]["max_steps"] = 5
    result = train(Recipe(cfg), run=tmp_path / "run", progress=False)
    measured = evaluate_bundle(export(tmp_path / "run").path).metrics
    assert measured["test/auc"] == pytest.approx(result.metrics["test/auc"], abs=1e-3)  # near ties may turn
    assert measured["test/loss"] == pytest.approx(result.metrics["test/loss"], rel=1e-5)


def test_other_models_are_refused(tmp_path: Path) -> None:
    wrong = Recipe({**recipe(tmp_path), "model": {"_target_": "pdl_graph.GAE", "num_features": 3}})
    with pytest.raises(ConfigError, match=r"use pdl_graph\.SEAL"):
        assemble(SubgraphLinks(), wrong)
    assert len(EdgeSplit(random_graph(20, 60, 0), "test")) > 0


def split_of_edges(edges: list[tuple[int, int]], n: int) -> dict[str, EdgeSplit]:
    source, target = np.array(edges).T
    graph = Graph.from_edges(source, target, n, directed=False)
    return {split: EdgeSplit(graph, split, val=0.2, test=0.1, seed=0) for split in ("train", "val")}  # type: ignore[arg-type]


def test_hops_are_chosen_by_the_validation_pairs() -> None:
    """In cliques two nodes share neighbours, and no more is needed; in a grid no two that are joined share any."""
    cliques = [(16 * c + i, 16 * c + j) for c in range(3) for i in range(16) for j in range(i)]
    parts = split_of_edges(cliques, 48)
    assert hops_by_validation(parts["train"], parts["val"]) == 1
    grid = [(10 * i + j, 10 * i + j + 1) for i in range(10) for j in range(9)]
    grid += [(10 * i + j, 10 * i + j + 10) for i in range(9) for j in range(10)]  # no triangles
    parts = split_of_edges(grid, 100)
    assert hops_by_validation(parts["train"], parts["val"]) == 2


def test_a_run_keeps_the_hops_that_it_chose(tmp_path: Path) -> None:
    cfg = recipe(tmp_path, max_nodes=6)
    cfg["train"]["max_steps"] = 3
    train(Recipe(cfg), run=tmp_path / "run", progress=False)
    kept = config.load(tmp_path / "run").get("task.hops")
    assert kept in (1, 2)
    session = load(export(tmp_path / "run").path)
    assert 0 < session("0:1")["edge"] < 1
    task = SubgraphLinks()
    cfg["data"]["val"] = None
    with pytest.raises(ConfigError, match=r"task.hops: 1 or 2 is chosen on data.val"):
        assemble(task, Recipe(cfg))
