"""GraphSAGE and R-GCN against their papers' formulas in plain NumPy, a node at a time; renumbering; layers with graphs
of their own; compiled steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pdl
from pdl.errors import ConfigError
from pdl.ops import CSR
from pdl.program import CompiledStep
from pdl_graph import Graph, GraphBatch
from pdl_graph.features import sparse_features
from pdl_graph.models.layered import LayeredModel
from pdl_graph.models.rgcn import RGCN, RGCNConv
from pdl_graph.models.sage import GraphSAGE, SAGEConv, orders

N, E, F, C, R = 9, 30, 4, 3, 3


def graph(seed: int = 0, *, features: bool = True) -> Graph:
    rng = np.random.default_rng(seed)
    source, target = rng.integers(0, N, E), rng.integers(0, N - 1, E)  # the last node receives nothing
    x = rng.standard_normal((N, F)).astype(np.float32) if features else None
    return Graph.from_edges(source, target, N, x=x, edge_type=rng.integers(0, R, E))


def weights(module: Any) -> dict[str, np.ndarray]:
    """By name, in double precision, none of them zero."""
    rng = np.random.default_rng(1)
    for p in module.parameters():
        p.data = rng.standard_normal(p.shape).astype(np.float32) * 0.5
    return {name: p.data.astype(np.float64) for name, p in module.named_parameters()}


def neighbours(g: Graph, i: int) -> slice:
    return slice(g.indptr[i], g.indptr[i + 1])


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def lstm(gates: list[np.ndarray], state: np.ndarray) -> np.ndarray:
    h = c = np.zeros(len(state))
    for given in gates:
        i, f, g, o = np.split(given + h @ state, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
    return h


def sage(w: dict[str, np.ndarray], g: Graph, how: str) -> np.ndarray:
    """arXiv 1706.02216, algorithm 1, lines 4 and 5."""
    read = {r: ids for rows, many in orders(g.indptr, g.indices, 0) for r, ids in zip(rows, many, strict=True)}
    out = []
    for i in range(N):
        x = g.x[g.indices[neighbours(g, i)]]
        if how == "mean":
            found = x.mean(0) if len(x) else np.zeros(F)
        elif how == "max":
            found = np.maximum(x @ w["inner"] + w["inner_bias"], 0).max(0) if len(x) else np.zeros(C)
        else:
            order = [j for j in read.get(i, []) if j >= 0]
            assert sorted(order) == sorted(g.indices[neighbours(g, i)])
            found = lstm([g.x[j] @ w["inner"] + w["inner_bias"] for j in order], w["state"])
        out.append(np.concatenate([g.x[i], found]) @ np.concatenate([w["own"], w["neighbour"]]) + w["bias"])
    return np.stack(out)


@pytest.mark.parametrize("how", ["mean", "max", "lstm"])
@pytest.mark.parametrize("out", [C, 2 * F])  # narrower than the input, and wider: another order of products
def test_sage(how: str, out: int) -> None:
    g, conv = graph(), SAGEConv(F, out, aggregator=how, width=C)
    expected = sage(weights(conv), g, how)
    np.testing.assert_allclose(conv(g.adjacency, g.x).data, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(conv(g.adjacency, sparse_features(g.x)).data, expected, rtol=1e-4, atol=1e-5)


def relational(w: dict[str, np.ndarray], g: Graph, bases: int | None, blocks: int | None) -> np.ndarray:
    """arXiv 1703.06103, equations 2 to 4."""
    if bases:
        matrices = np.einsum("rb,bio->rio", w["mix"], w["weight"])
    elif blocks:
        matrices = np.zeros((R, F, 2 * F))
        for number, block in enumerate(w["weight"]):
            r, b = divmod(number, blocks)
            (wide, narrow), z = block.shape, matrices[r]
            z[b * wide : (b + 1) * wide, b * narrow : (b + 1) * narrow] = block
    else:
        matrices = w["weight"]
    assert g.edge_type is not None
    out = g.x @ w["own"] + w["bias"]
    for i in range(N):
        sources, kinds = g.indices[neighbours(g, i)], g.edge_type[neighbours(g, i)]
        for r in set(kinds.tolist()):
            out[i] += g.x[sources[kinds == r]].mean(0) @ matrices[r]
    return np.asarray(out)


@pytest.mark.parametrize(("bases", "blocks"), [(None, None), (2, None), (None, 2), (None, 4)])
def test_rgcn(bases: int | None, blocks: int | None) -> None:
    g = graph()
    conv = RGCNConv(F, 2 * F, R, bases=bases, blocks=blocks)
    w = weights(conv)
    np.testing.assert_allclose(
        conv(g.adjacency, g.x, g.edge_type).data, relational(w, g, bases, blocks), rtol=1e-4, atol=1e-5
    )
    if blocks:
        with pytest.raises(ConfigError, match="use bases"):
            conv(g.adjacency, sparse_features(g.x), g.edge_type)


def test_rgcn_settings() -> None:
    for settings, message in [({"bases": 2, "blocks": 2}, "one of them"), ({"blocks": 3}, "3 blocks do not divide 4")]:
        with pytest.raises(ConfigError, match=message):
            RGCNConv(F, F, R, **settings)
    with pytest.raises(ConfigError, match="needs num_nodes"):
        RGCN(num_classes=C, num_relations=R)
    with pytest.raises(ConfigError, match="has no edge_type"):
        RGCN(F, C, R)(graph().with_(edge_type=None).batch())
    with pytest.raises(ConfigError, match="expected mean, max or lstm"):
        SAGEConv(F, C, aggregator="most")  # type: ignore[arg-type]


NETS: dict[str, Any] = {
    "sage": lambda: GraphSAGE(F, C, hidden=5, num_layers=2, dropout=0),
    "sage_normalized": lambda: GraphSAGE(F, C, hidden=5, num_layers=3, dropout=0, normalize=True),
    "sage_max": lambda: GraphSAGE(F, C, hidden=5, aggregator="max", dropout=0),
    "sage_lstm": lambda: GraphSAGE(F, C, hidden=5, aggregator="lstm", dropout=0),
    "rgcn": lambda: RGCN(F, C, R, hidden=6),
    "rgcn_bases": lambda: RGCN(F, C, R, hidden=6, bases=2),
    "rgcn_blocks": lambda: RGCN(F, C, R, hidden=4, blocks=2, num_layers=3),
    "rgcn_nodes": lambda: RGCN(None, C, R, N, hidden=4),
}


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("sage", 2 * F * 5 + 5 + 2 * 5 * C + C),
        ("sage_max", F * 5 + F * 5 + 5 + 5 * 5 + 5 + 5 * C + 5 * 5 + 5 + 5 * C + C),
        ("sage_lstm", F * 5 + F * 20 + 20 + 5 * 20 + 5 * 5 + 5 + 5 * C + 5 * 20 + 20 + 5 * 20 + 5 * C + C),
        ("rgcn", (R + 1) * F * 6 + 6 + (R + 1) * 6 * C + C),
        ("rgcn_bases", 3 * F * 6 + 6 + 2 * R + 3 * 6 * C + C + 2 * R),
        ("rgcn_blocks", 2 * (R * F * 4 // 2 + F * 4 + 4) + (R + 1) * 4 * C + C),
        ("rgcn_nodes", N * 4 + (R + 1) * 16 + 4 + (R + 1) * 4 * C + C),
    ],
)
def test_numbers_of_weights(name: str, count: int) -> None:
    assert sum(p.size for p in NETS[name]().parameters()) == count


@pytest.mark.parametrize("name", sorted(set(NETS) - {"rgcn_nodes"}))
def test_nodes_may_be_renumbered(name: str) -> None:
    """Scores follow the nodes. (An LSTM's order of neighbours is drawn for each numbering, so there it reads graphs
    with one neighbour each.)"""
    g, net = graph(), NETS[name]()
    if "lstm" in name:
        g = Graph.from_edges(np.arange(N)[::-1].copy(), np.arange(N), N, x=g.x)
    weights(net)
    new = np.random.default_rng(3).permutation(N)  # node i becomes new[i]
    x = np.empty_like(g.x)
    x[new] = g.x
    source, target = g.edges()
    other = Graph.from_edges(new[source], new[target], N, x=x, edge_type=g.edge_type)
    np.testing.assert_allclose(net(other.batch()).data[new], net(g.batch()).data, rtol=1e-4, atol=1e-5)


def blocks_of(g: Graph, seeds: np.ndarray, layers: int, x: Any) -> list[GraphBatch]:
    """The whole neighbourhoods of the seeds, a graph for each layer."""
    found: list[GraphBatch] = []
    nodes = seeds
    for _ in range(layers):
        edges = np.concatenate([np.arange(g.indptr[i], g.indptr[i + 1]) for i in nodes])
        row = np.repeat(np.arange(len(nodes)), np.diff(g.indptr)[nodes])
        sending = np.concatenate([nodes, np.setdiff1d(g.indices[edges], nodes)])
        number = np.empty(N, np.int64)
        number[sending] = np.arange(len(sending))
        pattern, order = CSR.from_coo(row, number[g.indices[edges]], (len(nodes), len(sending)))
        assert g.edge_type is not None
        found.insert(0, GraphBatch(pattern, edge_type=g.edge_type[edges][order]))
        nodes = sending
    found[0] = GraphBatch(found[0].adjacency, nodes if x is None else x[nodes], edge_type=found[0].edge_type)
    return found


@pytest.mark.parametrize("name", sorted(set(NETS) - {"sage_lstm"}))
def test_layers_take_graphs_of_their_own(name: str) -> None:
    """The whole neighbourhoods of some nodes give these the scores that they have in the whole graph."""
    net: LayeredModel = NETS[name]()
    g = graph(features=net.num_features > 0)
    weights(net)
    seeds = np.array([5, 2, 8])
    blocks = blocks_of(g, seeds, net.num_layers, g.x)
    np.testing.assert_allclose(net(blocks).data, net(g.batch()).data[seeds], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(net.embed(blocks).data[:3], net.embed(g.batch()).data[seeds], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", sorted(NETS))
def test_compiled_steps_agree(name: str) -> None:
    """On a graph that the step holds; that of an LSTM, too, is known when it is traced."""
    net: LayeredModel = NETS[name]()
    batch = graph(features=net.num_features > 0).batch()
    y = np.arange(N) % C

    def loss(labels: Any) -> pdl.Tensor:
        return pdl.cross_entropy(net(batch), labels)

    loss(pdl.as_tensor(y)).backward()
    expected = [p.grad.data.copy() for p in net.parameters()]
    step = CompiledStep(loss, net, notify=pytest.fail)
    step(y)
    assert len(step.programs) == 1
    for p, g in zip(net.parameters(), expected, strict=True):
        np.testing.assert_allclose(p.grad.data, g, rtol=1e-3, atol=1e-6)


def test_orders_cover_every_neighbour_once_and_follow_the_seed() -> None:
    rng = np.random.default_rng(0)
    degree = np.array([0, 1, 2, 3, 40, 17, 5, 0])
    indptr = np.concatenate([[0], np.cumsum(degree)])
    indices = rng.integers(0, 100, indptr[-1])
    found = orders(indptr, indices, 1)
    assert sorted(r for rows, _ in found for r in rows) == [1, 2, 3, 4, 5, 6]
    for rows, ids in found:
        for r, line in zip(rows, ids, strict=True):
            assert sorted(line[line >= 0]) == sorted(indices[indptr[r] : indptr[r + 1]])
            assert (line[degree[r] :] == -1).all()
    assert sum(ids.size for _, ids in found) <= 1.5 * len(indices)
    again, other = orders(indptr, indices, 1), orders(indptr, indices, 2)
    assert all((a[1] == b[1]).all() for a, b in zip(found, again, strict=True))
    assert any((a[1] != b[1]).any() for a, b in zip(found, other, strict=True))
