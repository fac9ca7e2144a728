"""Recurrent layers as ONNX's RNN, GRU and LSTM: one node a layer and direction."""

from __future__ import annotations

import numpy as np

from pdl.dtype import Array
from pdl.export.onnx.graph import Graph
from pdl.export.onnx.registry import NOT_WRITTEN, Result, emits
from pdl.ops.linalg import Linear
from pdl.ops.rnn import Recurrent
from pdl.program.ir import Value

#: cell -> operator, and the order of pdl's gates in it: GRU r z n as z r h, LSTM i f g o as i o f c
KINDS = {"rnn": ("RNN", (0,)), "gru": ("GRU", (1, 0, 2)), "lstm": ("LSTM", (0, 3, 1, 2))}


def stacked(array: Array, order: tuple[int, ...]) -> Array:
    """Gates side by side in the last axis, in ONNX's order."""
    return np.concatenate([np.split(array, len(order), axis=-1)[i] for i in order], axis=-1)


def projection(g: Graph, gates: Value, width: int) -> tuple[Value, Array | None, Array | None]:
    """What the gates are projected from, weight and bias; the gates themselves where no Linear of constants makes them.

    ONNX's operators contain the projection; gates from elsewhere pass through an identity.
    """
    node = g.resolve(gates).node
    if node is not None and isinstance(node.op, Linear):
        x, w, *b = node.inputs
        weight, bias = g.array(w), g.array(b[0]) if b and b[0] is not None else None
        if x is not None and weight is not None and (bias is not None or not b or b[0] is None):
            return x, weight, bias
    return gates, np.eye(width, dtype=gates.spec.dtype), None


@emits(Recurrent)
def recurrent(
    g: Graph, op: Recurrent, gates: Value, h0: Value | None, c0: Value | None, w: Value, bias: Value | None,
    lengths: Value | None,
) -> Result:  # fmt: skip
    """RNN, GRU (linear_before_reset) or LSTM; weights must be constant."""
    kind, order = KINDS[op.cell]
    weight, shift = g.array(w), g.array(bias)
    if weight is None or (bias is not None and shift is None) or g.read(-1) or g.read(-2):
        return NOT_WRITTEN
    hidden = weight.shape[0]
    x, w_x, b_x = projection(g, gates, weight.shape[1])
    assert w_x is not None
    zero = np.zeros(weight.shape[1], weight.dtype)
    biases = [stacked(zero if b is None else b, order) for b in (b_x, shift)]
    names = [
        g.constant(stacked(w_x, order).T[None], name=f"{g.scope or op.cell}.W"),
        g.constant(stacked(weight, order).T[None], name=f"{g.scope or op.cell}.R"),
        g.constant(np.concatenate(biases)[None], name=f"{g.scope or op.cell}.B"),
        None if lengths is None else g.cast(g.plain(lengths), np.int32),
        *[None if s is None else g.node("Unsqueeze", g.plain(s), g.constant([0], np.int64)) for s in (h0, c0)],
    ]
    if op.cell != "lstm":
        names = names[:5]
    y, *states = g.nodes_of(
        kind, g.transpose(g.plain(x), (1, 0, 2)), *names, outputs=3 if op.cell == "lstm" else 2, hidden_size=hidden,
        direction="reverse" if op.reverse else "forward", linear_before_reset=1 if op.cell == "gru" else None,
    )  # fmt: skip
    row = g.constant([1], np.int64)
    y = g.transpose(g.node("Squeeze", y, row), (1, 0, 2))
    lasts = [g.node("Squeeze", s, g.constant([0], np.int64)) for s in states]
    return y, *lasts, None, None
