"""User-defined message passing: what it computes, its gradients, compiled steps, and the sparse product it finds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pdl
import pdl_graph
from pdl import nn
from pdl.errors import ConfigError, ShapeError
from pdl.ops import CSR
from pdl.program import CompiledStep
from pdl.train import Loss
from pdl_graph import Graph, GraphBatch, MessagePassing
from pdl_graph.message_passing import aggregated

NODES, EDGES, WIDTH = 7, 20, 3
RNG = np.random.default_rng(0)
TARGET = np.sort(RNG.integers(0, NODES - 1, EDGES))  # the last node receives nothing
SOURCE = RNG.integers(0, NODES, EDGES)
X = RNG.standard_normal((NODES, WIDTH)).astype(np.float32)
WEIGHT = RNG.standard_normal(EDGES).astype(np.float32)


def batch() -> GraphBatch:
    return Graph.from_edges(SOURCE, TARGET, NODES, x=X, edge_weight=WEIGHT).batch()


class Reference:
    """Each node at a time."""

    def __init__(self, how: str) -> None:
        self.how = how

    def one(self, received: np.ndarray) -> np.ndarray:
        if not len(received):
            return np.zeros(received.shape[1:])
        if self.how == "softmax":
            e = np.exp(received - received.max(0))
            return (e / e.sum(0) * received).sum(0)
        return np.asarray(getattr(np, self.how)(received, axis=0))

    def __call__(self, graph: GraphBatch, messages: np.ndarray) -> np.ndarray:
        bounds = graph.adjacency.indptr
        return np.stack([self.one(messages[bounds[i] : bounds[i + 1]]) for i in range(graph.num_nodes)])


@pytest.mark.parametrize("how", ["sum", "mean", "max", "min", "softmax"])
def test_aggregates(how: str) -> None:
    graph = batch()
    messages = RNG.standard_normal((EDGES, WIDTH)).astype(np.float32)
    expected = Reference(how)(graph, messages)
    np.testing.assert_allclose(aggregated(graph.adjacency, messages, how).data, expected, rtol=1e-5, atol=1e-6)
    sent = graph.send(lambda s, d, e: {"m": s * 0 + e}, src_feat=X, edge_feat=messages)
    np.testing.assert_allclose(graph.recv(how, sent)["m"].data, expected, rtol=1e-5, atol=1e-6)


def test_unknown_aggregate() -> None:
    with pytest.raises(ConfigError, match="softmax, not by 'most'"):
        aggregated(batch().adjacency, WEIGHT[:, None], "most")


class Plain(MessagePassing):
    pass


class Spelled(MessagePassing):
    def message(self, source: Any, target: Any, edge: Any) -> Any:
        return edge[:, None] * source


class Turned(MessagePassing):
    """Looks like a weighted sum, and is none: the weights go backwards."""

    def message(self, source: Any, target: Any, edge: Any) -> Any:
        return source * edge[::-1][:, None]


class Channels(MessagePassing):
    """One weight for each channel is no weighted sum of vectors."""

    def message(self, source: Any, target: Any, edge: Any) -> Any:
        return source * edge


class Differences(MessagePassing):
    def __init__(self) -> None:
        self.mix = nn.Linear(WIDTH, WIDTH)

    def message(self, source: Any, target: Any, edge: Any) -> Any:
        return pdl.tanh(self.mix(source - target)) * edge[:, None]

    def update(self, received: Any, target: Any) -> Any:
        return received + target


@pytest.mark.parametrize("how", ["sum", "mean", "max", "min", "softmax"])
@pytest.mark.parametrize(
    ("layer", "edge", "message"),
    [
        (Plain, None, X[SOURCE]),
        (Plain, WEIGHT, X[SOURCE] * WEIGHT[:, None]),
        (Spelled, WEIGHT, X[SOURCE] * WEIGHT[:, None]),
        (Turned, WEIGHT, X[SOURCE] * WEIGHT[::-1, None]),
        (Channels, WEIGHT[:, None] + np.arange(3, dtype=np.float32), None),
    ],
)
def test_layers_compute_what_their_messages_say(how: str, layer: type, edge: Any, message: Any) -> None:
    graph = Graph(batch().adjacency.indptr, SOURCE.astype(np.int32)).batch()
    made = layer()
    made.aggregate = how
    expected = Reference(how)(graph, X[SOURCE] * edge if message is None else message)
    np.testing.assert_allclose(made(graph.adjacency, X, edge).data, expected, rtol=1e-5, atol=1e-6)


def test_a_weighted_sum_is_one_sparse_product(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    def spmm(*args: Any, **kwargs: Any) -> Any:
        calls.append(args)
        return pdl.spmm(*args, **kwargs)

    monkeypatch.setattr(pdl_graph.message_passing, "spmm", spmm)
    a = batch().adjacency
    for layer, edge, seen in [
        (Plain(), None, 1),
        (Plain(), WEIGHT, 1),
        (Spelled(), WEIGHT, 1),
        (Spelled(), WEIGHT, 1),
        (Turned(), WEIGHT, 0),
        (Channels(), np.stack([WEIGHT] * WIDTH, 1), 0),
        (Differences(), WEIGHT, 0),
    ]:
        calls.clear()
        layer(a, X, edge)
        assert len(calls) == seen, type(layer)
    heads = np.stack([X, 2 * X], 1)
    for weight, seen in [(np.stack([WEIGHT] * 2, 1), 1), (WEIGHT, 1)]:
        calls.clear()
        y = Plain()(a, heads, weight)
        assert len(calls) == seen
        np.testing.assert_allclose(y.data[:, 1], 2 * y.data[:, 0], rtol=1e-5)


class Looks(MessagePassing):
    """Reads values in Python: no program can hold that."""

    def message(self, source: Any, target: Any, edge: Any) -> Any:
        return source * (1.0 if float(edge.sum()) > 0 else -1.0)


def test_a_message_that_looks_at_values_is_run_as_it_is() -> None:
    a = batch().adjacency
    for sign in (1.0, -1.0):
        edge = np.full(EDGES, sign, np.float32)
        np.testing.assert_allclose(Looks()(a, X, edge).data, sign * Plain()(a, X).data, rtol=1e-6)


def test_gradients() -> None:
    layer, a = Differences(), batch().adjacency
    for p in layer.parameters():
        p.data = p.data.astype(np.float64)
    x, e = (pdl.tensor(v.astype(np.float64), requires_grad=True) for v in (X, WEIGHT))
    pdl.autograd.gradcheck(lambda x, e: layer(a, x, e), (x, e))


def test_trees_of_features_and_two_kinds_of_nodes() -> None:
    """Users receive from items: two sets of nodes, features by name."""

    class Rated(MessagePassing):
        aggregate = "mean"

        def message(self, source: Any, target: Any, edge: Any) -> Any:
            return source["h"] * source["scale"][:, None] + target

    a, _ = CSR.from_coo(np.array([0, 0, 1]), np.array([3, 1, 2]), (2, 4))
    h, own = np.arange(8, dtype=np.float32).reshape(4, 2), np.ones((2, 2), np.float32)
    y = Rated()(a, {"h": h, "scale": np.array([1, 2, 3, 4], np.float32)}, target=own)
    np.testing.assert_allclose(y.data, [(h[3] * 4 + h[1] * 2) / 2 + 1, h[2] * 3 + 1])


def test_receiving_nodes_are_the_first_of_the_sending() -> None:
    a, _ = CSR.from_coo(np.array([0, 1, 1]), np.array([2, 3, 0]), (2, 4))

    class Gap(MessagePassing):
        def message(self, source: Any, target: Any, edge: Any) -> Any:
            return source - target

    h = np.array([[1.0], [10.0], [100.0], [1000.0]], np.float32)
    np.testing.assert_allclose(Gap()(a, h).data, [[99.0], [981.0]])


@pytest.mark.parametrize("kind", ["graph", "batch"])
def test_send_and_recv_attend(kind: str) -> None:
    """Attention in two calls, against the same by hand."""
    made = Graph.from_edges(SOURCE, TARGET, NODES, edge_weight=WEIGHT)
    graph = made if kind == "graph" else made.batch()

    def message(source: Any, target: Any, edge: Any) -> dict[str, Any]:
        return {"score": (source["h"] * target).sum(axis=1), "h": source["h"] * edge[:, None]}

    def attend(sent: pdl_graph.Message) -> Any:
        weight = sent.softmax(sent["score"])
        total = sent.expand(sent.reduce(weight))
        np.testing.assert_allclose(total.data, 1, rtol=1e-5)
        return sent.reduce(weight[:, None] * sent["h"])

    sent = graph.send(message, src_feat={"h": X}, dst_feat=X, edge_feat=graph.edge_weight)
    ids, ends, w = graph.adjacency.indices, graph.adjacency.row, graph.edge_weight
    score = np.exp((X[ids] * X[ends]).sum(1))
    share = score / np.bincount(ends, score, NODES)[ends]
    expected = np.zeros((NODES, WIDTH))
    np.add.at(expected, ends, (share * w)[:, None] * X[ids])
    np.testing.assert_allclose(graph.recv(attend, sent).data, expected, rtol=1e-4, atol=1e-6)


def test_send_says_what_does_not_fit() -> None:
    with pytest.raises(ShapeError, match=r"edge_feat \(3,\) must have a row for each of 20 edges"):
        batch().send(lambda s, d, e: s, src_feat=X, edge_feat=WEIGHT[:3])


class Net(nn.Module):
    """The example of the documentation: a layer of one's own, and one written as send and recv."""

    def __init__(self, features: int, classes: int) -> None:
        self.enter = nn.Linear(features, 8)
        self.layer = Gated(8)
        self.leave = nn.Linear(8, classes)

    def forward(self, graph: GraphBatch) -> pdl.Tensor:
        h = pdl.relu(self.layer(graph.adjacency, self.enter(graph.x)))
        sent = graph.send(lambda source, target, edge: source - target, src_feat=h, dst_feat=h)
        return self.leave(h + graph.recv("mean", sent))


class Gated(MessagePassing):
    """Each channel of a message opens as far as both ends say."""

    aggregate = "mean"

    def __init__(self, channels: int) -> None:
        self.gate = nn.Linear(2 * channels, channels)

    def message(self, source: Any, target: Any, edge: Any) -> Any:
        return pdl.sigmoid(self.gate(pdl.concat([source, target], axis=1))) * source

    def update(self, received: Any, target: Any) -> Any:
        return received + target


def two_circles(n: int = 60) -> tuple[GraphBatch, np.ndarray]:
    """Two groups, edges mostly within; features tell little of a node, and much of its neighbours together."""
    rng = np.random.default_rng(1)
    y = np.arange(n) % 2
    source = rng.integers(0, n, 8 * n)
    target = rng.integers(0, n // 2, 8 * n) * 2 + np.where(rng.random(8 * n) < 0.9, y[source], 1 - y[source])
    x = rng.standard_normal((n, 4)) + np.where(y[:, None] == 1, 0.5, -0.5)
    return Graph.from_edges(source, target, n, x=x.astype(np.float32)).batch(), y


def test_the_example_trains_and_compiled_steps_agree() -> None:
    graph, y = two_circles()
    pdl.random.seed(0)
    net = Net(4, 2)
    optimizer = pdl.optim.Adam(net.parameters(), lr=0.02)

    def loss(graph: GraphBatch) -> Loss:
        scores = net(graph)
        return Loss(pdl.cross_entropy(scores, pdl.as_tensor(y)), outputs=(scores,))

    step = CompiledStep(loss, net, notify=pytest.fail)
    net.eval()
    eager = loss(graph)
    eager.value.backward()
    expected = [p.grad.data.copy() for p in net.parameters()]
    made = step(graph)
    np.testing.assert_allclose(made.value.data, eager.value.data, rtol=1e-5)
    for p, g in zip(net.parameters(), expected, strict=True):
        np.testing.assert_allclose(p.grad.data, g, rtol=1e-4, atol=1e-6)
    for _ in range(60):
        made = step(graph)
        optimizer.step()
    assert (made.outputs[0].data.argmax(1) == y).mean() > 0.95
    assert len(step.programs) == 1
