"""From a program in floats to one that says where numbers are rounded to bytes: pairs of QuantizeLinear and
DequantizeLinear on activations, DequantizeLinear on weights.

Rounded is what a product reads and, backwards from there, every value on the way that can stay in bytes, so that a net
leaves them only where it must. Which op runs on bytes is up to `fuse_quantised`; both know the same set of ops.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np

from pdl.dtype import Array, float32
from pdl.ops.activation import Activation
from pdl.ops.base import OPS, Op, Spec
from pdl.ops.conv import Conv
from pdl.ops.elementwise import Clip
from pdl.ops.inference import ConvThen, LinearThen
from pdl.ops.linalg import Linear
from pdl.ops.pad import Pad
from pdl.ops.pool import AdaptiveAvgPool, MaxPool
from pdl.ops.quant import MOST_INPUTS, DequantizeLinear, QuantizeLinear
from pdl.ops.reduce import Mean
from pdl.ops.shape import Concat
from pdl.ops.table import BinaryOp
from pdl.program.ir import Node, Program, Value
from pdl.program.passes.fuse_quantised import MEANS, MOVES, PRODUCTS, Add, _functions
from pdl.program.passes.log import log
from pdl.program.passes.measure import PARTS
from pdl.program.passes.rewrite import Rewriter, rewrite, same_shape
from pdl.program.verify import specs_of
from pdl.tensor import Tensor

#: a bias in int32, in units of the scale of its products, stays below this
_BIAS = 2.0**29


class Range(NamedTuple):
    """Between which numbers a value lies."""

    low: float
    high: float

    def scale_and_zero(self) -> tuple[float, int]:
        """Of bytes from low to high, where 0 is one of them: padding and ReLU are exact."""
        low, high = min(self.low, 0.0), max(self.high, 0.0)
        scale = np.float32((high - low) / 255) if high > low else np.float32(1)
        return float(scale), int(np.clip(np.rint(-low / scale), 0, 255))


class Points(NamedTuple):
    """Where a program is rounded.

    products   nodes whose weights become int8
    values     activations that become uint8, in the order in which they are made
    """

    products: list[Node]
    values: list[Value]


def points(program: Program, keep: Collection[Node] = ()) -> Points:
    """Where to round; products in `keep` stay in floats."""
    products = [n for n in program.nodes if n not in keep and _is_product(n)]
    chosen = set(products)
    wanted: set[Value] = set()
    for node in reversed(program.nodes):
        if node in chosen:
            wanted.update(v for v in (node.inputs[0], *node.inputs[3:4]) if v is not None)
        elif any(v in wanted for v in node.outputs) and _on_bytes(node):
            wanted.update(v for v in node.inputs if v is not None and not _number(v))
    moved = {n.outputs[0] for n in program.nodes if _keeps_scale(n)}  # these take the scale of their input
    order = [*program.inputs, *(v for n in program.nodes for v in n.outputs)]
    return Points(products, [v for v in order if v in wanted and v not in moved and v.spec.dtype == float32])


def _is_product(node: Node) -> bool:
    """Whether an op is a product of floats with constant weights."""
    if type(node.op) not in PRODUCTS:
        return False
    w, b = node.inputs[1], node.inputs[2] if len(node.inputs) > 2 else None
    known = w is not None and w.tensor is not None and (b is None or b.tensor is not None)
    return known and w.spec.dtype == float32 and w.tensor._data[..., 0].size <= MOST_INPUTS  # type: ignore[union-attr]


def _on_bytes(node: Node) -> bool:
    """Whether `fuse_quantised` has a form on bytes for this op."""
    op, kind = node.op, type(node.op)
    if _keeps_scale(node) or kind is Concat:
        return True
    if kind is Add and all(v is not None and v.tensor is None for v in node.inputs):
        return same_shape(*(v.spec.shape for v in node.inputs if v is not None))
    if kind is Mean:
        rank = len(node.inputs[0].spec.shape) if node.inputs[0] is not None else 0
        assert isinstance(op, Mean)
        return 3 <= rank <= 5 and sorted(a % rank for a in op.axes) == list(range(1, rank - 1))
    if kind in MEANS:
        return not isinstance(op, AdaptiveAvgPool) or set(op.size) == {1}
    if isinstance(op, BinaryOp):
        return sum(v is not None and not _number(v) for v in node.inputs) == 1
    return kind in _functions()


def _keeps_scale(node: Node) -> bool:
    """Whether the bytes of the output are bytes of the input."""
    return type(node.op) in MOVES or type(node.op) is MaxPool or (isinstance(node.op, Pad) and node.op.value == 0)


def _number(value: Value) -> bool:
    """A captured tensor of one element."""
    return value.tensor is not None and value.tensor._data.size == 1


# -- rewriting ---------------------------------------------------------------------------------------------------------
def quantise(program: Program, at: Points, ranges: Mapping[Value, Range]) -> dict[Value, Value]:
    """Write the pairs and the dequantised weights, in place.

    ranges   of all `at.values`. Returns for each of them the dequantised value that everybody reads in its place.
    """
    writer = _Writer(program)
    for value in program.inputs:
        writer.round(value, ranges)
    chosen = set(at.products)
    for node in program.nodes:
        node.inputs = tuple(writer.final(v) for v in node.inputs)
        if node in chosen:
            x_scale = writer.scales.get(node.inputs[0])  # type: ignore[arg-type]
            writer.weights(node, x_scale)
        writer.nodes.append(node)
        for value in node.outputs:
            writer.move(node, value)
            writer.round(value, ranges)
    program.nodes = writer.nodes
    program.outputs = [writer.final(v) for v in program.outputs]
    log(program, f"quantise: {len(at.products)} products, {len(at.values)} activations")
    return writer.mapping


class _Writer:
    """The new list of nodes, and which value stands for which."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.nodes: list[Node] = []
        self.mapping: dict[Value, Value] = {}
        self.scales: dict[Value, float] = {}  # of rounded values

    def final(self, value: Value | None) -> Value | None:
        """The rounded value, where there is one."""
        return None if value is None else self.mapping.get(value, value)

    def round(self, value: Value, ranges: Mapping[Value, Range]) -> None:
        """Round an activation, where it has a range."""
        if value not in ranges:
            return
        scale, zero = ranges[value].scale_and_zero()
        parameters = self.capture(np.array(scale, np.float32)), self.capture(np.array(zero, np.uint8))
        bytes_ = self.emit(QuantizeLinear(), value, *parameters)
        made = self.mapping[value] = self.emit(DequantizeLinear(), bytes_, *parameters)
        self.scales[made] = scale

    def move(self, node: Node, value: Value) -> None:
        """What only moves rounded numbers keeps their scale."""
        source = node.inputs[0] if node.inputs else None
        if _keeps_scale(node) and source in self.scales:
            self.scales[value] = self.scales[source]

    def weights(self, node: Node, x_scale: float | None) -> None:
        """Dequantised int8 in place of a product's weights."""
        w, b = node.inputs[1], node.inputs[2] if len(node.inputs) > 2 else None
        assert w is not None
        assert w.tensor is not None
        bias = None if b is None or b.tensor is None else b.tensor._data
        q, scale = quantised_weights(w.tensor._data, bias, x_scale)
        stored, scales = self.capture(q, w), self.capture(scale, w, ".scale")
        zero = self.capture(np.zeros(scale.shape, np.int8), w, ".zero")
        made = self.emit(DequantizeLinear(q.ndim - 1), stored, scales, zero)
        node.inputs = (node.inputs[0], made, *node.inputs[2:])

    def emit(self, op: Op, *inputs: Value) -> Value:
        node = Node(op, inputs, specs_of(op, inputs))
        self.nodes.append(node)
        return node.outputs[0]

    def capture(self, array: Array, like: Value | None = None, ending: str = "") -> Value:
        tensor = Tensor._wrap(np.asarray(array))
        value = Value(Spec(tensor.shape, tensor.dtype), tensor=tensor)
        value.name = None if like is None or like.name is None else like.name + ending
        self.program.captures.append(value)
        return value


def quantised_weights(w: Array, b: Array | None, x_scale: float | None) -> tuple[Array, Array]:
    """w [..., O] as int8 in [-127, 127], and a float32 scale for each output.

    A scale is raised where the bias, in units of it times `x_scale`, would leave int32: a channel of almost no weights
    keeps its bias.
    """
    most = np.abs(w).reshape(-1, w.shape[-1]).max(axis=0).astype(np.float64)
    scale = np.where(most > 0, most / 127, 1.0)
    if b is not None and x_scale is not None:
        scale = np.maximum(scale, np.abs(b) / (x_scale * _BIAS))
    scale = np.maximum(scale, np.finfo(np.float32).tiny).astype(np.float32)
    return np.clip(np.rint(w / scale), -127, 127).astype(np.int8), scale


def split_epilogue(node: Node, walk: Rewriter) -> Value | None:
    """f(product + residual) in ops of their own."""
    op: Any = node.op
    if not isinstance(op, ConvThen | LinearThen):
        return None
    *inputs, residual = node.inputs
    window = {n: getattr(op, n) for n in ("stride", "padding", "dilation", "groups") if hasattr(op, n)}
    y = walk.emit(Conv(**window), *(v for v in inputs if v is not None)) if window else walk.emit(Linear(), *inputs)
    y = y if residual is None else walk.emit(Add(), y, residual)
    if op.activation == "clip":
        low, high = (None if math.isinf(p) else p for p in op.parameters)
        return walk.emit(Clip(low, high), y)
    named = next((a for a in OPS.values() if issubclass(a, Activation) and a.kernel == op.activation), None)
    return y if named is None else walk.emit(named(), y)


def split_epilogues(program: Program) -> None:
    """Products that say all they do in one op, as ops that other formats have."""
    rewrite(program, (split_epilogue,), PARTS)


def is_window(node: Node) -> bool:
    """Whether a product is a convolution."""
    return isinstance(node.op, Conv | ConvThen)
