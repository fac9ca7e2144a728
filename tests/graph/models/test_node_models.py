"""Nets on nodes: what they compute, restated with dense matrices; the same from compiled steps; the same for other
orders of the nodes; how many parameters they have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pdl
import pdl_graph
from pdl.nn import Module
from pdl.program import CompiledStep
from pdl.program.tree import rebuild
from pdl.random import fork_seed
from pdl.tensor import no_grad
from pdl_graph import Graph, GraphBatch, SparseFeatures
from pdl_graph.features import sparse_features
from pdl_graph.models import GATConv, GATv2Conv
from pdl_graph.models.propagation import gcn_norm

Array = np.ndarray
N, F, K = 12, 7, 3
Dense = Callable[[dict[str, Array], Array, Array], Array]


def graph(seed: int = 0, *, directed: bool = False, weighted: bool = False, features: str = "sparse") -> Graph:
    """A drawn graph with self-loops; node 0 has no other edge."""
    rng = np.random.default_rng(seed)
    ends = rng.integers(1, N, (2, 2 * N))
    source, target = np.unique(np.sort(ends[:, ends[0] != ends[1]], axis=0), axis=1)
    weight = (rng.random(len(source)) + 0.5).astype(np.float32) if weighted else None
    x = (rng.random((N, F)) * (rng.random((N, F)) < 0.5)).astype(np.float32)
    made = Graph.from_edges(source, target, N, directed=directed, edge_weight=weight)
    return made.with_(x=sparse_features(x) if features == "sparse" else x).with_self_loops()


def dense(g: Graph) -> tuple[Array, Array]:
    """(A, X) in float64."""
    a = np.zeros((N, N))
    source, target = g.edges()
    np.add.at(a, (target, source), 1.0 if g.edge_weight is None else g.edge_weight)
    x = g.x
    if isinstance(x, SparseFeatures):
        full = np.zeros((N, F))
        full[x.pattern.row, x.pattern.indices] = x.value
        return a, full
    return a, x.astype(np.float64)


def normalised(a: Array) -> Array:
    """D^-1/2 A D^-1/2, with the degrees of rows and of columns."""
    s: Array = a / np.sqrt(a.sum(1)[:, None] * a.sum(0)[None])
    return s


def relu(x: Array) -> Array:
    return np.maximum(x, 0)


def gcn(w: dict[str, Array], a: Array, x: Array) -> Array:
    s = normalised(a)
    h = relu(s @ x @ w["convs.0.weight"] + w["convs.0.bias"])
    return s @ h @ w["convs.1.weight"] + w["convs.1.bias"]


def softmax_rows(score: Array, a: Array) -> Array:
    e = np.exp(score) * (a > 0)
    made: Array = e / e.sum(1, keepdims=True)
    return made


def leaky(x: Array) -> Array:
    return np.where(x > 0, x, 0.2 * x)


def heads(w: dict[str, Array], name: str, a: Array, x: Array) -> list[Array]:
    """What each head of GAT's layer gives."""
    found = []
    for r, s, part in zip(w[f"{name}.receive"], w[f"{name}.send"], _split(w, f"{name}.weight", name), strict=True):
        h = x @ part
        found.append(softmax_rows(leaky((h @ r)[:, None] + (h @ s)[None]), a) @ h)
    return found


def heads2(w: dict[str, Array], name: str, a: Array, x: Array) -> list[Array]:
    """Likewise of GATv2's."""
    found = []
    parts = zip(_split(w, f"{name}.weight", name, "attention"), _split(w, f"{name}.receive", name, "attention"),
                w[f"{name}.attention"], strict=True)  # fmt: skip
    for sending, receiving, v in parts:
        hs, hr = x @ sending, x @ receiving
        found.append(softmax_rows(leaky(hr[:, None] + hs[None]) @ v, a) @ hs)
    return found


def _split(w: dict[str, Array], weight: str, name: str, of: str = "send") -> list[Array]:
    return np.split(w[weight], len(w[f"{name}.{of}"]), axis=1)


def attention(each: Callable[..., list[Array]]) -> Dense:
    def net(w: dict[str, Array], a: Array, x: Array) -> Array:
        h = np.concatenate(each(w, "convs.0", a, x), axis=1) + w["convs.0.bias"]
        h = np.where(h > 0, h, np.exp(np.minimum(h, 0)) - 1)
        made: Array = np.mean(each(w, "convs.1", a, h), axis=0) + w["convs.1.bias"]
        return made

    return net


def mlp(w: dict[str, Array], a: Array, x: Array) -> Array:
    h = relu(x @ w["mlp.layers.0.weight"] + w["mlp.layers.0.bias"])
    return h @ w["mlp.layers.1.weight"] + w["mlp.layers.1.bias"]


def sgc(w: dict[str, Array], a: Array, x: Array) -> Array:
    return np.linalg.matrix_power(normalised(a), 3) @ x @ w["linear.weight"] + w["linear.bias"]


def ssgc(w: dict[str, Array], a: Array, x: Array) -> Array:
    hops = [np.linalg.matrix_power(normalised(a), k) @ x for k in range(1, 5)]
    return np.mean([0.9 * hop + 0.1 * x for hop in hops], axis=0) @ w["linear.weight"] + w["linear.bias"]


def appnp(w: dict[str, Array], a: Array, x: Array) -> Array:
    z = h = mlp(w, a, x)
    for _ in range(4):
        z = 0.8 * normalised(a) @ z + 0.2 * h
    return z


def gprgnn(w: dict[str, Array], a: Array, x: Array) -> Array:
    h = mlp(w, a, x)
    np.testing.assert_allclose(w["gamma"], [0.2, 0.16, 0.128, 0.512], rtol=1e-6)
    made: Array = sum(g * np.linalg.matrix_power(normalised(a), k) @ h for k, g in enumerate(w["gamma"]))
    return made


def gcnii(w: dict[str, Array], a: Array, x: Array) -> Array:
    h = h0 = relu(x @ w["first.weight"] + w["first.bias"])
    for layer in range(1, 4):
        p, beta = 0.9 * normalised(a) @ h + 0.1 * h0, np.log(0.5 / layer + 1)
        h = relu((1 - beta) * p + beta * p @ w[f"convs.{layer - 1}.weight"])
    return h @ w["last.weight"] + w["last.bias"]


CASES: dict[str, tuple[dict[str, Any], Dense, int]] = {  # options, the dense formula, parameters
    "MLP": ({"hidden": 5}, mlp, F * 5 + 5 + 5 * K + K),
    "GCN": ({"hidden": 5}, gcn, F * 5 + 5 + 5 * K + K),
    "GAT": ({"hidden": 4, "heads": 3, "out_heads": 2}, attention(heads),
            12 * (F + 2 + 1) + 12 * 2 * K + 2 * 2 * K + K),
    "GATv2": ({"hidden": 4, "heads": 3, "out_heads": 2}, attention(heads2),
              12 * (2 * F + 1 + 1) + 2 * 12 * 2 * K + 2 * K + K),
    "SGC": ({"hops": 3}, sgc, F * K + K),
    "SSGC": ({"hops": 4, "alpha": 0.1}, ssgc, F * K + K),
    "APPNP": ({"hidden": 5, "hops": 4, "alpha": 0.2}, appnp, F * 5 + 5 + 5 * K + K),
    "GPRGNN": ({"hidden": 5, "hops": 3, "alpha": 0.2}, gprgnn, F * 5 + 5 + 5 * K + K + 4),
    "GCNII": ({"hidden": 5, "num_layers": 3}, gcnii, F * 5 + 5 + 3 * 25 + 5 * K + K),
}  # fmt: skip
SPECTRAL = [name for name in CASES if not name.startswith("GAT")]


def made(name: str, seed: int = 0) -> Any:
    """The net with drawn parameters, biases too."""
    with fork_seed(seed):
        net = getattr(pdl_graph, name)(F, K, **CASES[name][0])
    rng = np.random.default_rng(seed)
    for key, p in net.named_parameters():
        if key.endswith("bias"):
            p._data[...] = rng.standard_normal(p.shape)
    return net


def scores(net: Module, g: Graph) -> Array:
    with no_grad():
        found: Array = net.eval()(g.batch()).data
    return found


@pytest.mark.parametrize("features", ["sparse", "dense"])
@pytest.mark.parametrize("name", CASES)
def test_a_net_is_its_formula(name: str, features: str) -> None:
    g, net = graph(features=features), made(name)
    weights = {key: p.data.astype(np.float64) for key, p in net.named_parameters()}
    np.testing.assert_allclose(scores(net, g), CASES[name][1](weights, *dense(g)), rtol=1e-4, atol=1e-5)
    assert sum(p.size for p in net.parameters()) == CASES[name][2]
    assert net.embed(g.batch()).shape[0] == N


@pytest.mark.parametrize("name", SPECTRAL)
def test_edges_may_have_weights_and_directions(name: str) -> None:
    g, net = graph(directed=True, weighted=True), made(name)
    weights = {key: p.data.astype(np.float64) for key, p in net.named_parameters()}
    np.testing.assert_allclose(scores(net, g), CASES[name][1](weights, *dense(g)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_a_compiled_step_is_the_eager_one(name: str) -> None:
    """With dropout, on a graph that the step captures, as the task trains."""
    held: GraphBatch = rebuild(graph().batch(), pdl.as_tensor)
    net, labels = made(name).train(), np.arange(N) % K

    def step(nodes: Any) -> Any:
        return pdl.cross_entropy(pdl.take(net(held), nodes), pdl.as_tensor(labels[:5]))

    results = []
    for compiled in (False, True):
        messages: list[str] = []
        program = CompiledStep(step, net, notify=messages.append)
        with fork_seed(3):
            value = program(np.arange(5)) if compiled else program.eager(np.arange(5))
        assert not messages
        results.append((value.item(), [np.array(p.grad.data) for p in net.parameters()]))
    np.testing.assert_allclose(results[0][0], results[1][0], rtol=1e-6)
    for eager, other in zip(results[0][1], results[1][1], strict=True):
        np.testing.assert_allclose(eager, other, rtol=1e-4, atol=1e-6)
        assert np.abs(eager).max() > 0


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=5)
@given(seed=st.integers(0, 2**16), order=st.permutations(range(N)))
def test_the_order_of_the_nodes_does_not_matter(name: str, seed: int, order: list[int]) -> None:
    g, net, new = graph(seed), made(name), np.argsort(order)
    source, target = g.edges()
    _, x = dense(g)
    moved = Graph.from_edges(new[source], new[target], num_nodes=N, x=sparse_features(x[order].astype(np.float32)))
    np.testing.assert_allclose(scores(net, moved), scores(net, g)[order], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("conv", [GATConv, GATv2Conv])
def test_fewer_nodes_may_receive_than_send(conv: Any) -> None:
    """As in a sampled neighbourhood: the first rows of the same layer on the whole graph."""
    g = graph()
    with fork_seed(0):
        layer = conv(F, 4, heads=2).eval()
    end = int(g.indptr[5])
    part = pdl.ops.CSR.from_rows(g.indptr[:6], g.indices[:end], N)
    np.testing.assert_allclose(layer(part, g.x).data, layer(g.adjacency, g.x).data[:5], rtol=1e-5, atol=1e-6)


def test_a_node_without_edges_has_no_share_in_the_norm() -> None:
    g = Graph.from_edges([1], [2], num_nodes=3)
    assert gcn_norm(g.adjacency).data.tolist() == [1.0]
    assert gcn_norm(g.adjacency, np.zeros(1, np.float32)).data.tolist() == [0.0]
