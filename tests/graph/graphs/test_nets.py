"""GIN, GINE and readouts against their formulas in NumPy, and what every net of whole graphs must do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pdl
from pdl.errors import ConfigError
from pdl.tensor import no_grad
from pdl_graph import GAT, GCN, GIN, GINE, GINConv, GINEConv, GraphNet
from pdl_graph.graphs.packing import Packed
from pdl_graph.pooling import AttentionPool, MaxPool, MeanPool, Pools, SAGPool, SumPool
from tests.graph.graphs.samples import matrix, permuted, random_graph


def plain(layer: Any, x: np.ndarray) -> np.ndarray:
    """A linear layer in NumPy."""
    return np.asarray(x @ layer.weight.data + layer.bias.data)


def mlp(net: Any, x: np.ndarray) -> np.ndarray:
    """Two linear layers, batch norm of fresh statistics in evaluation (mean 0, variance 1) between them."""
    hidden = plain(net.layers[0], x) / np.sqrt(1 + 1e-5)
    return plain(net.layers[1], np.maximum(hidden, 0))


@pytest.mark.parametrize("learn_eps", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_gin_conv(learn_eps: bool, weighted: bool) -> None:
    rng = np.random.default_rng(3)
    graph = random_graph(rng)
    graph = graph.with_(edge_weight=rng.random(graph.num_edges, np.float32)) if weighted else graph
    conv = GINConv(3, 5, learn_eps=learn_eps).eval()
    if learn_eps:
        conv.eps.data[...] = 0.25
    expected = mlp(conv.mlp, (1.25 if learn_eps else 1.0) * graph.x + matrix(graph) @ graph.x)
    found = conv(graph.adjacency, pdl.as_tensor(graph.x), graph.edge_weight)
    np.testing.assert_allclose(found.data, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("weighted", [False, True])
def test_gine_conv(weighted: bool) -> None:
    rng = np.random.default_rng(4)
    graph = random_graph(rng, edge_features=2)
    weight = rng.random(graph.num_edges, np.float32) if weighted else np.ones(graph.num_edges, np.float32)
    conv = GINEConv(3, 5, 2, learn_eps=True).eval()
    conv.eps.data[...] = -0.5
    got = np.zeros_like(graph.x)
    for edge, (source, target) in enumerate(zip(*graph.edges(), strict=True)):
        got[target] += weight[edge] * np.maximum(graph.x[source] + plain(conv.edge, graph.edge_attr[edge]), 0)
    found = conv(graph.adjacency, pdl.as_tensor(graph.x), weight if weighted else None, graph.edge_attr)
    np.testing.assert_allclose(found.data, mlp(conv.mlp, 0.5 * graph.x + got), rtol=1e-4, atol=1e-5)


def test_readouts() -> None:
    rng = np.random.default_rng(5)
    batch = Packed([random_graph(rng, nodes) for nodes in (4, 1, 7)]).take([0, 1, 2])
    members = np.where(np.arange(12) == 2, -1, batch.graph)
    batch = type(batch)(batch.adjacency, graph=members, num_graphs=4)  # a node of no graph, a graph without nodes
    x = rng.normal(size=(12, 3)).astype(np.float32)
    parts = [x[members == g] for g in range(4)]
    attend = AttentionPool(3, 2)
    gate = 1 / (1 + np.exp(-plain(attend.gate, x))) * np.tanh(plain(attend.value, x))
    for pool, expected in (
        (SumPool(), [part.sum(0) for part in parts]),
        (MeanPool(), [part.mean(0) if len(part) else np.zeros(3) for part in parts]),
        (MaxPool(), [part.max(0) if len(part) else np.zeros(3) for part in parts]),
        (attend, [np.tanh(gate[members == g].sum(0)) for g in range(4)]),
    ):
        np.testing.assert_allclose(pool(batch, pdl.as_tensor(x)).data, np.stack(expected), rtol=1e-4, atol=1e-5)
    both = Pools(["mean", "max"], 3)(batch, pdl.as_tensor(x))
    assert both.shape == (4, 6)
    with pytest.raises(ConfigError, match="median is none of sum, mean, max, attention"):
        Pools(["mean", "median"], 3)  # type: ignore[list-item]


def nets() -> dict[str, GraphNet]:
    """A net of each kind for 3 features of nodes and 2 of edges."""
    pdl.seed(1)
    gin = {jumping: GIN(3, hidden=8, num_layers=2, jumping=jumping) for jumping in ("concat", "last", "sum")}
    return {
        "gin": GraphNet(gin["concat"], 2),
        "gin, last": GraphNet(gin["last"], 2, readout=["mean", "max"], hidden=[6]),
        "gin, sum": GraphNet(gin["sum"], 2, readout="attention"),
        "gine": GraphNet(GINE(3, num_edge_features=2, hidden=8, num_layers=2), 2, readout="mean"),
        "gcn": GraphNet(GCN(3, 8, dropout=0.0), 2, readout="max"),
        "gat": GraphNet(GAT(3, 8, dropout=0.0), 2, readout=["mean", "max"], sag=0.4),
    }


@pytest.mark.parametrize("name", nets())
@settings(max_examples=10)
@given(seed=st.integers(0, 10**6))
def test_names_of_nodes_and_company_do_not_matter(name: str, seed: int) -> None:
    net, rng = nets()[name].eval(), np.random.default_rng(seed)
    graphs = [random_graph(rng, int(rng.integers(1, 9)), edge_features=2) for _ in range(4)]
    graphs = [graph.with_self_loops() for graph in graphs] if net.self_loops else graphs
    with no_grad():
        alone = np.concatenate([net(graph.batch()).data for graph in graphs])
        other = [permuted(graph, rng.permutation(graph.num_nodes)) for graph in graphs]
        together = net(Packed(other).take([2, 3, 0, 1])).data
    np.testing.assert_allclose(together, alone[[2, 3, 0, 1]], rtol=1e-3, atol=1e-4)


def test_every_weight_of_a_net_learns() -> None:
    rng = np.random.default_rng(7)
    batch = Packed([random_graph(rng, edge_features=2) for _ in range(5)]).take(range(5))
    for name, net in nets().items():
        net.train()
        (net(batch) ** 2).sum().backward()
        unmoved = [key for key, p in net.named_parameters() if p.grad is None or not np.abs(p.grad.data).max() > 0]
        assert unmoved == [], name


def test_sag_pool() -> None:
    rng = np.random.default_rng(6)
    graphs = [random_graph(rng, nodes).with_self_loops() for nodes in (5, 1, 8)]
    batch, pool = Packed(graphs).take([0, 1, 2]), SAGPool(3, ratio=0.5)
    left, y = pool(batch, pdl.as_tensor(batch.x))
    for g, graph in enumerate(graphs):
        here, a = batch.graph == g, matrix(graph)
        norm = 1 / np.sqrt(a.sum(1, keepdims=True) * a.sum(0, keepdims=True))
        z = np.tanh((a * norm) @ graph.x @ pool.score.weight.data + pool.score.bias.data)[:, 0]
        stays = np.zeros(len(z), bool)
        stays[np.argsort(-z, kind="stable")[: -(-len(z) // 2)]] = True
        assert (left.graph.data[here] >= 0).tolist() == stays.tolist()
        np.testing.assert_allclose(y.data[here], graph.x * (z * stays)[:, None], rtol=1e-4, atol=1e-5)
        edges = here[batch.adjacency.row]
        kept = stays[graph.targets] & stays[graph.indices]
        assert left.edge_weight.data[edges].tolist() == kept.astype(float).tolist()
    again, _ = SAGPool(3, ratio=0.5)(left, y)  # half of what is left
    assert np.bincount(again.graph.data[again.graph.data >= 0]).tolist() == [2, 1, 2]


def test_what_a_net_needs() -> None:
    with pytest.raises(ConfigError, match="num_features"):
        GIN()
    with pytest.raises(ConfigError, match="edges have no attributes"):
        GINE(3)
    with pytest.raises(ConfigError, match="num_classes"):
        GraphNet(GIN(3))
    assert GIN(3, hidden=8, num_layers=2).num_classes == 19
    assert GIN(3, 4, hidden=8, num_layers=2)(random_graph(np.random.default_rng(0)).batch()).shape == (6, 4)
