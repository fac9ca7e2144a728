"""Message passing in one's own words: what goes along an edge, what a node makes of what it receives.

Two forms of the same. `MessagePassing` is a layer with a method for each step. `GraphBatch.send` and `recv` are the two
steps as calls, as in Paddle Graph Learning.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any, Literal, get_args

import pdl
from pdl.errors import ConfigError, ShapeError, TraceError
from pdl.nn import Module
from pdl.ops import CSR
from pdl.ops.csr import edge_softmax, spmm
from pdl.ops.segment import segment_max, segment_mean, segment_min, segment_sum, segment_take
from pdl.program.ir import Value
from pdl.program.tracing import Recorder, Symbol, module_names, symbols
from pdl.program.tree import leaves, rebuild
from pdl.tensor import Tensor, casting

Aggregate = Literal["sum", "mean", "max", "min", "softmax"]
_SEGMENTS: dict[str, Callable[..., Tensor]] = {
    "sum": segment_sum,
    "mean": segment_mean,
    "max": segment_max,
    "min": segment_min,
}


def aggregated(adjacency: CSR, message: Any, how: str) -> Tensor:
    """What each node receives: messages [E, ...] -> [rows, ...]; 0 where none arrive.

    how   "sum", "mean", "max" or "min" over the messages, each column for itself, or "softmax", the sum of
          softmax(message) message: a maximum with a gradient for all (arXiv 2006.07739, equation 3)
    """
    message = pdl.as_tensor(message)
    if how == "softmax":
        message, how = edge_softmax(adjacency, message) * message, "sum"
    if how not in _SEGMENTS:
        raise ConfigError(f"messages are aggregated by {', '.join(get_args(Aggregate))}, not by {how!r}")
    return _SEGMENTS[how](message, pdl.as_tensor(adjacency.row), num_segments=adjacency.shape[0])


class MessagePassing(Module):
    """A layer of message passing: y[i] = update(aggregate over the edges e = (j, i) of message(x[j], x[i], e), x[i]).

    A subclass says what is its own:

        class Attention(pdl_graph.MessagePassing):
            aggregate = "softmax"

            def __init__(self, channels: int) -> None:
                self.key = pdl.nn.Linear(2 * channels, channels)

            def message(self, source, target, edge):
                return pdl.relu(self.key(pdl.concat([source, target], axis=1)))

            def update(self, received, target):
                return received + target

        y = Attention(16)(graph.adjacency, x)

    aggregate   "sum", "mean", "max", "min" or "softmax" (see `aggregated`)

    A message that is `source`, or `source * edge` with one number for each edge (or for each edge and head), is never
    written down: it runs as one sparse product, `pdl.spmm`. To see that, `message` is called once more on tensors
    without values, so it should do nothing but compute.
    """

    aggregate: Aggregate = "sum"

    def message(self, source: Any, target: Any, edge: Any) -> Tensor:
        """What goes along the edges [E, ...], from the nodes that send and receive, source and target [E, C], and
        what is known of the edges. By default source, or source edge where there are weights [E]."""
        if edge is None:
            return pdl.as_tensor(source)
        return source * pdl.reshape(edge, (*edge.shape, *(1,) * (source.ndim - edge.ndim)))

    def update(self, received: Tensor, target: Any) -> Tensor:
        """The nodes' new vectors, from what they received [rows, ...] and their own [rows, C]. By default the
        former."""
        return received

    def forward(self, adjacency: CSR, x: Any, edge: Any = None, *, target: Any = None) -> Tensor:
        """x [columns, ...] -> [rows, ...].

        x        of the nodes that send: a tensor, or a dict or tuple of tensors, which `message` then gets as such
        edge     of the edges, [E, ...] in the order of the adjacency's nonzeros, likewise; or None
        target   of the nodes that receive [rows, ...]; without it they are the first of those that send
        """
        x, edge = _tensors(x), _tensors(edge)
        target = _first(x, adjacency) if target is None else _tensors(target)
        form = self._form(adjacency, x, target, edge)
        if form.weighted is not None and self.aggregate != "softmax":
            value = None if form.weighted == () else pdl.reshape(edge, form.weighted)
            return self.update(spmm(adjacency, x, value, reduce=self.aggregate), target)
        ends = _taken(target, adjacency.row) if form.needs_target else None
        message = self.message(_taken(x, adjacency.indices), ends, edge)
        return self.update(aggregated(adjacency, message, self.aggregate), target)

    def _form(self, adjacency: CSR, x: Any, target: Any, edge: Any) -> _Form:
        """What `message` computes, seen by tracing it."""
        recorder, edges = Recorder("message", module_names(self)), adjacency.nonzeros
        try:
            with recorder.active(), casting(None):
                source, ends = (_symbols(recorder, tree, edges) for tree in (x, target))
                about = symbols(recorder, edge, "edge")
                made = self.message(source, ends, about)
                recorder.program.outputs = [recorder.value_of(made)]
        except TraceError:  # a message that looks at values: it is what it says
            return _Form(None, True)
        used = recorder.program.uses()
        needs = any(s.value in used for s in leaves(ends))
        if not isinstance(source, Symbol) or not isinstance(made, Symbol):
            return _Form(None, needs)
        return _Form(_weighted(made.value, source.value, about.value if isinstance(about, Symbol) else None), needs)


@dataclass(frozen=True)
class _Form:
    """weighted   the shape that makes `edge` the values of a sparse product, () for one without values; None where the
                  message is none
    needs_target  whether the receiving node's own vector is read
    """

    weighted: tuple[int, ...] | None
    needs_target: bool


def _weighted(message: Value, source: Value, edge: Value | None) -> tuple[int, ...] | None:
    """The shape of the weights where message = source * weights, and the weights are `edge` with other axes."""
    if message is source:
        return ()
    node = message.node
    if node is None or type(node.op).__name__ != "Multiply" or source not in node.inputs or edge is None:
        return None
    other = node.inputs[1] if node.inputs[0] is source else node.inputs[0]
    if other is None or message.spec != source.spec or not _only_reshaped(other, edge):
        return None
    shape, full = other.spec.shape, source.spec.shape
    if len(shape) != len(full) or prod(shape[1:]) != prod(shape[1:2]):  # one number for each edge, or edge and head
        return None
    if prod(shape[1:]) == 1:
        return shape[:1]
    return shape[:2] if shape[1] == full[1] and len(full) > 2 else None


def _only_reshaped(value: Value, origin: Value) -> bool:
    """Whether value holds the numbers of origin in their order."""
    while value is not origin:
        node = value.node
        if node is None or node.inputs[0] is None:
            return False
        kind, key = type(node.op).__name__, getattr(node.op, "key", None)
        whole = kind == "GetItem" and all(k in (None, Ellipsis, (None, None, None)) for k in key or ("?",))
        if kind not in ("Reshape", "ExpandDims", "Squeeze", "Identity") and not whole:
            return False
        value = node.inputs[0]
    return True


@dataclass(frozen=True)
class Message:
    """What `GraphBatch.send` made: values [E, ...] for every edge, by name if there are several, and ways to reduce
    them over the edges into each node."""

    adjacency: CSR
    values: Any

    def __getitem__(self, name: str) -> Tensor:
        """The values of this name."""
        found: Tensor = self.values[name]
        return found

    def reduce(self, x: Any, how: str = "sum") -> Tensor:
        """[E, ...] -> [rows, ...]: "sum", "mean", "max", "min" or "softmax", see `aggregated`."""
        return aggregated(self.adjacency, x, how)

    def softmax(self, x: Any) -> Tensor:
        """Softmax over the edges into each node, each column for itself: [E, ...] -> [E, ...]."""
        return edge_softmax(self.adjacency, x)

    def expand(self, x: Any) -> Tensor:
        """What belongs to the nodes that receive, for every edge: [rows, ...] -> [E, ...]."""
        return segment_take(pdl.as_tensor(x), pdl.as_tensor(self.adjacency.row))


def send(
    adjacency: CSR, fn: Callable[[Any, Any, Any], Any], *, src_feat: Any, dst_feat: Any, edge_feat: Any
) -> Message:
    """See `GraphBatch.send`."""
    edge = _tensors(edge_feat)
    for value in leaves(edge):
        if value.shape[:1] != (adjacency.nonzeros,):
            raise ShapeError(f"send: edge_feat {value.shape} must have a row for each of {adjacency.nonzeros} edges")
    source, target = _taken(_tensors(src_feat), adjacency.indices), _taken(_tensors(dst_feat), adjacency.row)
    return Message(adjacency, fn(source, target, edge))


def recv(reduce: str | Callable[[Message], Any], message: Message) -> Any:
    """See `GraphBatch.recv`."""
    if callable(reduce):
        return reduce(message)
    return rebuild(message.values, lambda x: aggregated(message.adjacency, x, reduce))


def _tensors(tree: Any) -> Any:
    return rebuild(tree, pdl.as_tensor)


def _taken(tree: Any, ids: Any) -> Any:
    return rebuild(tree, lambda x: segment_take(x, pdl.as_tensor(ids)))


def _first(tree: Any, adjacency: CSR) -> Any:
    """Of the nodes that send, those that receive: the first."""
    rows, columns = adjacency.shape
    return tree if rows == columns else rebuild(tree, lambda x: x[:rows])


def _symbols(recorder: Recorder, tree: Any, edges: int) -> Any:
    """The tree with a row for each edge, without values."""
    return rebuild(tree, lambda x: recorder.input(pdl.ops.base.Spec((edges, *x.shape[1:]), x.dtype), "x", True))
