"""What skip-gram models draw and what it costs, against the formulas written out; the regression at its minimum."""

from __future__ import annotations

import math

import numpy as np
import pytest

import pdl
from pdl.errors import ConfigError, ShapeError
from pdl_graph import LINE, DeepWalk, Graph, MetaPath2Vec, Node2Vec
from pdl_graph.embedding.loader import Sequences
from pdl_graph.embedding.logistic import fit
from pdl_graph.embedding.metrics import TopF1
from pdl_graph.models.skip_gram import Walks

Array = np.ndarray


def ring(n: int, **about: object) -> Graph:
    at = np.arange(n)
    return Graph.from_edges(at, np.roll(at, 1), n, directed=False, **about)


def softplus(x: float) -> float:
    return math.log1p(math.exp(x))


def vectors_and_contexts(model: DeepWalk | LINE) -> tuple[Array, Array]:
    """Tables with other values than those of the beginning."""
    rng = np.random.default_rng(0)
    for table in (model.nodes, model.contexts):
        table.weight.data[1:] = rng.standard_normal(table.weight.shape)[1:]
    return model.nodes.weight.data, model.contexts.weight.data


def test_the_cost_of_walks_is_the_sum_over_nodes_and_their_contexts() -> None:
    model = DeepWalk(9, dim=4, walk_length=6, window=2)
    x, c = vectors_and_contexts(model)
    walks, others = np.array([[1, 2, 3, 4, 5, 6], [7, 8, 7, 0, 0, 0]]), np.array([9, 2, 2])
    total = weights = 0.0
    for walk in walks:
        for i, u in enumerate(walk):
            for j, v in enumerate(walk):
                if u and v and 0 < abs(i - j) <= 2:
                    weight = 1.0 if abs(i - j) == 1 else 0.5
                    negatives = float(np.mean([softplus(x[u] @ c[n]) for n in others]))
                    total += weight * (softplus(-x[u] @ c[v]) + 5 * negatives)
                    weights += weight
    found = model.loss(pdl.as_tensor(walks), pdl.as_tensor(others), 5)
    assert float(found.item()) == pytest.approx(total / weights, rel=1e-5)


@pytest.mark.parametrize("order", ["first", "second", "both"])
def test_the_cost_of_edges_by_order(order: str) -> None:
    model = LINE(9, dim=4, order=order)  # type: ignore[arg-type]
    x, c = vectors_and_contexts(model)
    tables = {"first": [(x, x)], "second": [(x, c)]}.get(order) or [(x, c), (model.joined.weight.data,) * 2]
    edges, others = np.array([[1, 2], [3, 1], [4, 9]]), np.array([5, 6])
    costs = [
        softplus(-a[u] @ b[v]) + 2 * np.mean([softplus(a[u] @ b[n]) for n in others])
        for a, b in tables
        for u, v in edges
    ]
    expected = sum(costs) / len(edges)
    found = model.loss(pdl.as_tensor(edges), pdl.as_tensor(others), 2)
    if order == "first":  # one table, of which the second drawing is left
        assert model.contexts is model.nodes
    assert float(found.item()) == pytest.approx(expected, rel=1e-5)
    assert model.vectors().shape == (10, 4)


def test_walks_follow_edges_and_end_in_zeros() -> None:
    graph = Graph.from_edges(np.array([0, 1, 2]), np.array([1, 2, 3]), 6, directed=True)
    data = Sequences(graph, DeepWalk(6, dim=2, walk_length=3), 4, seed=0)
    assert isinstance(data.sampler, Walks)
    assert data.sampler.starts.tolist() == [0, 1, 2]
    batch = data.get_batch(np.arange(3))
    assert batch["sequence"].tolist() == [[1, 2, 3], [2, 3, 4], [3, 4, 0]]
    assert set(batch["negatives"].tolist()) <= {1, 2, 3, 4}  # who has no edges is never drawn


def test_sequences_depend_on_seed_epoch_and_number_alone() -> None:
    def of(seed: int, epoch: int, numbers: list[int]) -> Array:
        data = Sequences(ring(30), Node2Vec(30, dim=2, walk_length=12, p=0.5, q=2.0), 4, seed=seed)
        data.set_epoch(epoch)
        found: Array = data.get_batch(np.array(numbers))["sequence"]
        return found

    assert np.array_equal(of(0, 1, [3, 4, 5])[1:], of(0, 1, [4, 5]))
    assert not np.array_equal(of(0, 1, [3, 4]), of(0, 2, [3, 4]))
    assert not np.array_equal(of(0, 1, [3, 4]), of(1, 1, [3, 4]))


def test_a_small_p_turns_back() -> None:
    def back(p: float) -> float:
        walks = Sequences(ring(50), Node2Vec(50, dim=2, walk_length=40, p=p), 1, seed=0).get_batch(np.arange(50))
        at = walks["sequence"]
        return float((at[:, 2:] == at[:, :-2]).mean())

    assert back(0.05) > 0.9 > 0.5 > 0.1 > back(20.0)


def test_lines_edges_come_by_weight() -> None:
    source, target, weight = np.array([0, 1, 2]), np.array([1, 2, 3]), np.array([1.0, 2.0, 5.0])
    graph = Graph.from_edges(source, target, 4, directed=False, edge_weight=weight)
    data = Sequences(graph, LINE(4, dim=2), 1, seed=0)
    assert len(data) == 6
    got = data.sampler.draw(np.arange(30_000), epoch=0)
    share = np.array([(np.sort(got, axis=1) == [i + 1, i + 2]).all(1).mean() for i in range(3)])
    assert share == pytest.approx(weight / weight.sum(), abs=0.02)


def test_a_metapath_says_what_types_follow() -> None:
    kinds = np.array([0, 0, 1, 1, 2])
    pairs = np.array([[0, 2], [1, 2], [1, 3], [0, 4], [2, 4]])
    graph = Graph.from_edges(pairs[:, 0], pairs[:, 1], 5, directed=False, node_type=kinds)
    data = Sequences(graph, MetaPath2Vec(5, path=[0, 1, 0], dim=2, walk_length=7), 2, seed=0)
    assert isinstance(data.sampler, Walks)
    assert data.sampler.starts.tolist() == [0, 1]
    walks = data.get_batch(np.arange(2))["sequence"]
    assert (kinds[walks - 1] == np.arange(7) % 2).all()
    with pytest.raises(ConfigError, match="does not end with the type"):
        MetaPath2Vec(5, path=[0, 1], dim=2)
    with pytest.raises(ConfigError, match="the graph has none"):
        Sequences(ring(5), MetaPath2Vec(5, path=[0, 1, 0]), 2, seed=0)


def test_sparse_updates_are_those_of_whole_tables() -> None:
    def trained(sparse: bool) -> Array:
        pdl.random.seed(3)
        model = DeepWalk(20, dim=8, walk_length=8, window=3, sparse=sparse)
        optimizer = pdl.optim.SGD(model.parameters(), lr=0.5)
        data = Sequences(ring(20), model, 5, seed=0)
        for epoch in range(3):
            data.set_epoch(epoch)
            batch = data.get_batch(np.arange(10))
            optimizer.zero_grad()
            model.loss(pdl.as_tensor(batch["sequence"]), pdl.as_tensor(batch["negatives"]), 5).backward()
            optimizer.step()
        return np.array(model.vectors().data)

    assert trained(True) == pytest.approx(trained(False), abs=1e-6)
    assert (trained(True)[0] == 0).all()


# -- the regression ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("l2", [0.01, 1.0, 50.0])
def test_the_gradient_of_the_regression_is_zero(l2: float) -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((300, 5)) * [1, 3, 0.1, 1, 10]
    y = np.stack([x[:, 0] + rng.standard_normal(300) > 1, x[:, 1] > 0, np.ones(300, bool), np.zeros(300, bool)], 1)
    weight, bias = fit(x, y, l2=l2)
    error = 1 / (1 + np.exp(-(x @ weight.T + bias))) - y
    assert np.abs(error.T @ x + l2 * weight).max() < 1e-2 * l2 + 1e-3
    assert np.abs(error.sum(0) + l2 * bias).max() < 1e-2 * l2 + 1e-3


def test_the_regression_finds_the_odds_of_groups() -> None:
    """With one indicator a group and hardly a penalty: the log odds of each, in closed form."""
    x = np.repeat([[-1.0], [1.0]], [40, 60], axis=0)
    y = np.concatenate([np.arange(40) < 10, np.arange(60) < 45])[:, None]
    weight, bias = fit(x, y, l2=1e-6)
    assert bias[0] - weight[0, 0] == pytest.approx(math.log(10 / 30), abs=1e-4)
    assert bias[0] + weight[0, 0] == pytest.approx(math.log(45 / 15), abs=1e-4)
    with pytest.raises(ShapeError, match="l2 above 0"):
        fit(x, y, l2=0.0)


def test_a_node_gets_as_many_labels_as_it_has() -> None:
    scores = np.array([[3.0, 2.0, -1.0], [-5.0, -4.0, -6.0], [0.0, 0.0, 1.0]])
    labels = np.array([[1, 0, 1], [0, 1, 0], [1, 0, 0]])
    found = {}
    for average in ("micro", "macro"):
        metric = TopF1(average)  # type: ignore[arg-type]
        metric.update(scores[:2], labels[:2])
        metric.update(scores[2:], labels[2:])
        found[average] = metric.compute()
    # predicted: 0 and 1, 1, 2; right: 0, 1
    assert found["micro"] == pytest.approx(2 * 2 / (4 + 4))
    assert found["macro"] == pytest.approx((2 / 3 + 2 / 3 + 0) / 3)
