"""Passes that put several ops into one that passes over memory once.

A rule looks at one node and answers with a `Fusion`, or None. Rules run before gradients are appended, so the fused
op's own gradient replaces those of its parts.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from pdl.dtype import bfloat16
from pdl.ops.activation import Activation
from pdl.ops.base import OPS, Op
from pdl.ops.batchnorm import ACTIVATIONS, BatchNorm, BatchNormEval
from pdl.ops.classifier import LinearCrossEntropy
from pdl.ops.conv import Conv
from pdl.ops.cross_entropy import CrossEntropy
from pdl.ops.dropout import Dropout
from pdl.ops.epilogue import ConvAct, LinearAct, keeps_input
from pdl.ops.layer_norm import AddLayerNorm, LayerNorm
from pdl.ops.linalg import Linear
from pdl.program.ir import Node, Program, Value
from pdl.program.verify import specs_of

Add = OPS["Add"]  # elementwise ops are made from a table
WIDE = 32  # channels from which on an epilogue of a convolution costs less than a pass of its own
MANY_CLASSES = 4096  # from here on scores are taken in blocks that stay in the cache


@dataclass
class Fusion:
    """`op` on `inputs` in place of `nodes`, the first of which says whose it is; `outputs` says which of its outputs
    stands for which value."""

    nodes: tuple[Node, ...]
    op: Op
    inputs: tuple[Value | None, ...]
    outputs: dict[Value, int]


Rule: TypeAlias = "Callable[[Node, Graph], Fusion | None]"


class Graph:
    """Who reads what, while rules match."""

    def __init__(self, program: Program) -> None:
        self.uses = program.uses()

    def made_for(self, value: Value | None, kind: type[Op]) -> Node | None:
        """The node of this kind that made `value`, if nothing but one reader sees it."""
        node = None if value is None else value.node
        if node is None or value is None or type(node.op) is not kind or self.uses.get(value, 0) != 1:
            return None
        return node


# -- rules -------------------------------------------------------------------------------------------------------------
_NORMS = (BatchNorm, BatchNormEval)
_NAMES = {activation: name for name, activation in ACTIVATIONS.items()}


def norm_then_activation(node: Node, graph: Graph) -> Fusion | None:
    """f(batch_norm(x) (+ residual))."""
    name = _NAMES.get(node.op) if isinstance(node.op, Activation) else None
    norm = name and next((n for kind in _NORMS if (n := graph.made_for(node.inputs[0], kind))), None)
    if not norm or norm.op.activation is not None:  # type: ignore[attr-defined]
        return None
    if norm.inputs[-1] is not None and name not in ("relu", "relu6"):
        return None
    outputs = {v: i for i, v in enumerate(norm.outputs[1:], 1)} | {node.outputs[0]: 0}
    return Fusion((norm, node), type(norm.op)(norm.op.eps, name), norm.inputs, outputs)  # type: ignore[attr-defined]


def norm_plus_residual(node: Node, graph: Graph) -> Fusion | None:
    """batch_norm(x) + residual."""
    if type(node.op) is not Add:
        return None
    for value, other in (node.inputs, node.inputs[::-1]):
        norm = next((n for kind in _NORMS if (n := graph.made_for(value, kind))), None)
        if norm is None or other is None or other is value or norm.inputs[-1] is not None:
            continue
        if norm.op.activation is None and other.spec == norm.outputs[0].spec:  # type: ignore[attr-defined]
            outputs = {v: i for i, v in enumerate(norm.outputs[1:], 1)} | {node.outputs[0]: 0}
            return Fusion((norm, node), norm.op, (*norm.inputs[:-1], other), outputs)
    return None


def sum_then_layer_norm(node: Node, graph: Graph) -> Fusion | None:
    """layer_norm(residual + dropout(x)); the sum itself is an output, too, for nodes that read it."""
    op, total = node.op, node.inputs[0] if node.inputs else None
    if not isinstance(op, LayerNorm) or total is None or total.node is None or type(total.node.op) is not Add:
        return None
    x, residual = total.node.inputs
    if x is None or residual is None or x.spec != residual.spec or x is residual:
        return None
    seed, p = None, 0.0
    nodes: tuple[Node, ...] = (node, total.node)
    for one, other in ((x, residual), (residual, x)):
        dropped = graph.made_for(one, Dropout)
        if dropped is not None:
            assert isinstance(dropped.op, Dropout)
            nodes, p = (*nodes, dropped), dropped.op.p
            x, seed, residual = dropped.inputs[0], dropped.inputs[1], other
            break
    outputs = {total: 1, node.outputs[0]: 0} | {v: i + 1 for i, v in enumerate(node.outputs[1:], 1)}
    return Fusion(nodes, AddLayerNorm(op.eps, p, op.centred), (x, residual, *node.inputs[1:], seed), outputs)


def linear_then_cross_entropy(node: Node, graph: Graph) -> Fusion | None:
    """cross_entropy(x w + b) over many classes: the scores are never whole in memory."""
    op = node.op
    layer = graph.made_for(node.inputs[0], Linear) if isinstance(op, CrossEntropy) else None
    if layer is None or not isinstance(op, CrossEntropy) or node.inputs[2] is not None:
        return None
    x, w, *b = layer.inputs
    if x is None or w is None or len(x.spec.shape) != 2 or x.spec.dtype == bfloat16 or w.spec.shape[1] < MANY_CLASSES:
        return None
    fused = LinearCrossEntropy(op.smoothing, op.ignore_index, op.reduction)
    inputs = (x, w, b[0] if b else None, node.inputs[1], None)
    return Fusion((layer, node), fused, inputs, {v: i for i, v in enumerate(node.outputs)})


def product_then_activation(node: Node, graph: Graph) -> Fusion | None:
    """f(x w + b), and f(conv(x, w) + b) where f's gradient follows from its value."""
    op = node.op
    if not isinstance(op, Activation) or "." in op.op_name:  # others' may be in files that are read without them
        return None
    name, values = op.op_name, tuple(getattr(op, field) for field in op.fields)
    layer = graph.made_for(node.inputs[0], Linear)
    if layer is not None:
        inputs = (*layer.inputs, *[None] * (3 - len(layer.inputs)))
        return Fusion((layer, node), LinearAct(name, values), inputs, {node.outputs[0]: 0})
    layer = graph.made_for(node.inputs[0], Conv)
    if layer is None or keeps_input(name) or layer.outputs[0].spec.shape[-1] < WIDE:
        return None
    conv = layer.op
    assert isinstance(conv, Conv)
    fused = ConvAct(conv.stride, conv.padding, conv.dilation, conv.groups, name, values)
    inputs = (*layer.inputs, *[None] * (4 - len(layer.inputs)))
    return Fusion((layer, node), fused, inputs, {node.outputs[0]: 0})


RULES: tuple[Rule, ...] = (
    norm_plus_residual, norm_then_activation, sum_then_layer_norm, linear_then_cross_entropy, product_then_activation,
)  # fmt: skip


# -- the pass ----------------------------------------------------------------------------------------------------------
def fuse(program: Program) -> None:
    """Apply the rules until none matches."""
    apply_rules(program, RULES)


def apply_rules(program: Program, rules: Sequence[Rule]) -> None:
    """Apply some rules until none matches."""
    while any(_apply(rule, program) for rule in rules):
        pass


def _apply(rule: Rule, program: Program) -> bool:
    """Every place where one rule matches; whether there was one."""
    graph, gone, mapping = Graph(program), set[Node](), dict[Value, Value]()
    nodes: list[Node] = []
    for node in program.nodes:
        found = rule(node, graph)
        if found is None or gone.intersection(found.nodes):
            nodes.append(node)
            continue
        made = Node(
            found.op,
            found.inputs,
            specs_of(found.op, found.inputs),
            where=node.where,
            scope=found.nodes[0].scope,
            differentiable=any(n.differentiable for n in found.nodes),
        )
        gone.update(found.nodes)
        mapping.update({value: made.outputs[i] for value, i in found.outputs.items()})
        nodes.append(made)
    program.nodes = [n for n in nodes if n not in gone]
    if mapping:
        program.replace(mapping)
        reorder(program)
    return bool(mapping)


def reorder(program: Program) -> None:
    """Put nodes after what they read, and otherwise keep their order."""
    place = {node: i for i, node in enumerate(program.nodes)}
    waits = {node: {v.node for v in node.inputs if v is not None and v.node is not None} for node in program.nodes}
    readers: dict[Node, list[Node]] = {}
    for node, needed in waits.items():
        for other in needed:
            readers.setdefault(other, []).append(node)
    ready = [place[node] for node, needed in waits.items() if not needed]
    heapq.heapify(ready)
    order = []
    by_place = program.nodes
    while ready:
        node = by_place[heapq.heappop(ready)]
        order.append(node)
        for reader in readers.get(node, ()):
            waits[reader].discard(node)
            if not waits[reader]:
                heapq.heappush(ready, place[reader])
    program.nodes = order
