"""Channels of about one size, before a net is put on bytes: SmoothQuant (Xiao et al., ICML 2023, arXiv 2211.10438).

What linear layers of transformers read has a few channels that are many times as large as the others, and one scale of
bytes for all of them leaves the others hardly any steps. x W = (x / s) (s W) with s_c = max |x_c|^a / max |W_c|^(1 - a)
hands most of that difference to the weights. The division is an op of its own, so that what else reads x, such as the
sum behind the layer, reads it as it was: in floats.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pdl.dtype import Array, float32
from pdl.ops.base import OPS, Spec
from pdl.ops.inference import LinearThen
from pdl.ops.linalg import Linear
from pdl.program.ir import Node, Program, Value
from pdl.program.verify import specs_of, verify
from pdl.tensor import Tensor

Multiply = OPS["Multiply"]
STRENGTH = 0.75  # a; of MiniLM's vectors the mean cosine is 0.986 with 0.5, 0.997 with 0.65 to 0.8, and 0.996 with 1
LEAST = 1e-5  # of a channel that is 0
APART = 4.0  # the largest channel over the median one, from where on a layer is smoothed


def readers(program: Program) -> dict[Value, list[Node]]:
    """Linear layers with constant weights, by what they read: states [N, ..., T, C]."""
    found: dict[Value, list[Node]] = {}
    for node in program.nodes:
        x, w = (*node.inputs, None, None)[:2]
        known = w is not None and w.tensor is not None and w.spec.dtype == float32
        if type(node.op) in (Linear, LinearThen) and x is not None and known and len(x.spec.shape) > 2:
            found.setdefault(x, []).append(node)
    return found


def smooth(program: Program, largest: Sequence[Array]) -> None:
    """Divide what linear layers read by a factor for each channel, and multiply their weights by it, in place.
    Where channels are of about one size, nothing changes.

    largest   max |x| of each channel [C], for every value of `readers`
    """
    before: dict[Node, Node] = {}
    for (x, nodes), most in zip(readers(program).items(), largest, strict=True):
        if most.max(initial=0) <= APART * np.median(most):
            continue
        weights = np.max([np.abs(_array(node)).max(axis=1) for node in nodes], axis=0)
        a, b = np.maximum(most, LEAST) ** STRENGTH, np.maximum(weights, LEAST) ** (1 - STRENGTH)
        factor = (a / b).astype(np.float32)
        made = Node(Multiply(), (x, by := _captured(program, 1 / factor)), specs_of(Multiply(), (x, by)))
        before[nodes[0]] = made
        for node in nodes:
            scaled = _captured(program, _array(node) * factor[:, None], node.inputs[1])
            node.inputs = (made.outputs[0], scaled, *node.inputs[2:])
    program.nodes = [each for node in program.nodes for each in ((before[node], node) if node in before else (node,))]
    verify(program, after="smooth")


def _array(node: Node) -> Array:
    w = node.inputs[1]
    assert w is not None
    assert w.tensor is not None
    return w.tensor._data


def _captured(program: Program, array: Array, like: Value | None = None) -> Value:
    tensor = Tensor._wrap(np.ascontiguousarray(array))
    value = Value(Spec(tensor.shape, tensor.dtype), tensor=tensor)
    value.name = None if like is None else like.name
    program.captures.append(value)
    return value
