"""Which channels of which weights belong together: read off the traced program of a net, whatever the net is.

Every axis of every weight has a number for each of its indices. Ops join numbers: a sum those of its operands, a
convolution those of its input with those of its weights' input axis, a batch norm those of its vectors with those of
what it normalises. What is joined in the end is one unit: it goes from all weights or from none, and the net without it
computes what it computes with zeros there. What an op without a rule reads or makes, and what has no weights, is fixed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from pdl.dtype import Array
from pdl.nn.module import Module
from pdl.ops.activation import Activation
from pdl.ops.base import OPS, Identity, Op
from pdl.ops.batchnorm import BatchNorm, BatchNormEval, RunningAverage
from pdl.ops.broadcast import BroadcastTo
from pdl.ops.cast import AsType
from pdl.ops.classifier import LinearCrossEntropy
from pdl.ops.conv import Conv, ConvDx
from pdl.ops.cost import multiply_adds
from pdl.ops.dropout import Dropout
from pdl.ops.elementwise import Clip
from pdl.ops.index import GetItem
from pdl.ops.linalg import Linear, MatMul
from pdl.ops.moments import Moments
from pdl.ops.norm_conv import NormConv
from pdl.ops.pad import Pad
from pdl.ops.pool import AdaptiveAvgPool, AdaptiveMaxPool, AvgPool, MaxPool
from pdl.ops.reduce import Reduction
from pdl.ops.resize import Resize
from pdl.ops.shape import Clone, Concat, ExpandDims, Flip, PermuteDims, Reshape, Squeeze
from pdl.ops.softmax import LogSoftmax, Softmax
from pdl.ops.table import BinaryOp, UnaryOp
from pdl.program.ir import Node, Program, Value, is_state

#: the numbers of an axis; None where it has none, and so keeps its size
Labels: TypeAlias = "Array | None"
FIXED = 0


class Place(NamedTuple):
    """Where a unit lies: indices of an axis of a weight."""

    name: str
    axis: int
    indices: tuple[int, ...]


class Group(NamedTuple):
    """Units of the same axes of the same weights, such as the channels between two convolutions: all units are of equal
    kind, and any of them may go.

    name    of the weight that makes the channels
    units   the places of each
    """

    name: str
    units: tuple[tuple[Place, ...], ...]

    @property
    def axes(self) -> tuple[tuple[str, int], ...]:
        """(weight, axis) that shrink with it."""
        return tuple((place.name, place.axis) for place in self.units[0])


class Product(NamedTuple):
    """A product of the net with one of its weights.

    name    of the weight, of the sizes `weight`
    adds    multiply-adds for one input of the net, in proportion to the elements of the weight
    """

    name: str
    adds: float
    weight: tuple[int, ...]
    node: Node


class Coupling:
    """What of a net's weights is coupled, by one or several programs of it (training, evaluation).

    model      whose weights the programs capture
    programs   traced, before any pass; the last one of evaluation
    samples    how many it was traced with
    """

    def __init__(self, model: Module, programs: Sequence[Program], samples: float = 1) -> None:
        self.names = {id(tensor): name for name, tensor in _state(model)}
        self.tensors = dict(_state(model))
        self._parents: list[int] = [FIXED]
        self._weights: dict[int, list[Labels]] = {}
        self._labels: dict[Value, list[Labels]] = {}
        for program in programs:
            self._read(program)
        self.products = _products(programs[-1], self.names, samples)
        self.groups = self._groups()

    # -- union-find ----------------------------------------------------------------------------------------------------
    def _fresh(self, count: int) -> Array:
        first = len(self._parents)
        self._parents += range(first, first + count)
        return np.arange(first, first + count)

    def root(self, number: int) -> int:
        """The least number that this one is joined with."""
        parents = self._parents
        while parents[number] != number:
            parents[number] = parents[parents[number]]
            number = parents[number]
        return number

    def join(self, a: Labels, b: Labels) -> None:
        """The numbers of two axes of one size, in pairs; with an axis that has none, they are fixed."""
        for x, y in zip(_numbers(a, b), _numbers(b, a), strict=True):
            p, q = self.root(int(x)), self.root(int(y))
            self._parents[max(p, q)] = min(p, q)

    def fix(self, labels: Labels) -> None:
        """These stay."""
        if labels is not None:
            self.join(labels, None)

    # -- reading programs ----------------------------------------------------------------------------------------------
    def of(self, value: Value) -> list[Labels]:
        """The numbers of a value's axes."""
        found = self._labels.get(value)
        if found is None:
            tensor = value.tensor
            known = tensor is not None and is_state(tensor) and id(tensor) in self.names
            if known and id(tensor) not in self._weights:
                self._weights[id(tensor)] = [self._fresh(int(n)) for n in value.spec.shape]
            found = self._weights[id(tensor)] if known else [None] * len(value.spec.shape)
            self._labels[value] = found
        return found

    def _read(self, program: Program) -> None:
        for node in program.nodes:
            rule = _rule(node.op)
            made = None if rule is None else rule(self, node)
            if made is None:
                self._fix_all(node)
                made = [[None] * len(v.spec.shape) for v in node.outputs]
            self._labels.update(zip(node.outputs, made, strict=True))
        for value in program.outputs:
            if value is not None:
                for labels in self.of(value):
                    self.fix(labels)
        for buffer, value in program.effects:
            for a, b in zip(self.of(buffer), self.of(value), strict=True):
                self.join(a, b)

    def _fix_all(self, node: Node) -> None:
        for value in node.inputs:
            for labels in self.of(value) if value is not None else ():
                self.fix(labels)

    # -- what comes of it ----------------------------------------------------------------------------------------------
    def _groups(self) -> list[Group]:
        """All groups, in the order of the net's weights."""
        units: dict[int, list[Place]] = {}
        for name, tensor in self.tensors.items():
            for axis, labels in enumerate(self._weights.get(id(tensor), ())):
                at: dict[int, list[int]] = {}
                for index, number in enumerate(() if labels is None else labels):
                    at.setdefault(self.root(int(number)), []).append(index)
                for root, indices in at.items():
                    units.setdefault(root, []).append(Place(name, axis, tuple(indices)))
        units.pop(FIXED, None)
        found: dict[tuple[tuple[str, int], ...], list[tuple[Place, ...]]] = {}
        for places in units.values():
            found.setdefault(tuple((p.name, p.axis) for p in places), []).append(tuple(places))
        return [Group(self._maker(axes), tuple(each)) for axes, each in found.items() if len(each) > 1]

    def _maker(self, axes: Sequence[tuple[str, int]]) -> str:
        made = [name for name, axis in axes if self.tensors[name].ndim > 1 and axis == self.tensors[name].ndim - 1]
        return made[0] if made else axes[0][0]


def _state(model: Module) -> Iterable[tuple[str, Any]]:
    yield from model.named_parameters()
    yield from model.named_buffers()


def _numbers(labels: Labels, other: Labels) -> Array:
    if labels is not None:
        return labels
    return np.full(0 if other is None else len(other), FIXED)


def _products(program: Program, names: Mapping[int, str], samples: float) -> list[Product]:
    """The products of a program with weights of the net, for one sample."""
    found = []
    for node in program.nodes:
        adds = multiply_adds(node.op, [v and v.spec for v in node.inputs], [v.spec for v in node.outputs])
        held = [v for v in node.inputs if v is not None and id(v.tensor) in names and len(v.spec.shape) > 1]
        if adds and held:
            sizes = tuple(int(n) for n in held[0].spec.shape)
            found.append(Product(names[id(held[0].tensor)], adds / samples, sizes, node))
    return found


# -- rules -------------------------------------------------------------------------------------------------------------
#: the numbers of what an op makes, by those of what it reads; None where it is used in a way that the rule knows not
Rule: TypeAlias = "Callable[[Coupling, Node], list[list[Labels]] | None]"


def _rule(op: Op) -> Rule | None:
    return next((RULES[kind] for kind in type(op).__mro__ if kind in RULES), None)


def _x(node: Node) -> Value:
    assert node.inputs[0] is not None
    return node.inputs[0]


def _kept(c: Coupling, node: Node, among: Callable[[int], bool] = lambda axis: True) -> list[list[Labels]]:
    """Outputs of the rank of the first input: axes that keep their size, and are `among` those that may, keep their
    numbers; the others are fixed."""
    x, before = c.of(_x(node)), _x(node).spec.shape
    made = []
    for value in node.outputs:
        same = [m == n and among(axis) for axis, (m, n) in enumerate(zip(before, value.spec.shape, strict=True))]
        for labels, stays in zip(x, same, strict=True):
            if not stays:
                c.fix(labels)
        made.append([labels if stays else None for labels, stays in zip(x, same, strict=True)])
    return made


def _passed(c: Coupling, node: Node) -> list[list[Labels]]:
    """Numbers one by one: activations, casts, dropout."""
    return _kept(c, node)


def _pooled(c: Coupling, node: Node) -> list[list[Labels]]:
    """Windows over all axes but the first and the last."""
    last = len(_x(node).spec.shape) - 1
    return _kept(c, node, lambda axis: axis in (0, last))


def _along(c: Coupling, node: Node) -> list[list[Labels]]:
    """What mixes the indices of some axes: softmax, flips, resizing."""
    op: Any = node.op
    rank = len(_x(node).spec.shape)
    mixed = {a % rank for a in (op.axes if hasattr(op, "axes") else (op.axis,))}
    return _kept(c, node, lambda axis: axis not in mixed)


def _elementwise(c: Coupling, node: Node) -> list[list[Labels]]:
    """Operands that are broadcast against each other."""
    rank = len(node.outputs[0].spec.shape)
    made: list[Labels] = [None] * rank
    for axis in range(1, rank + 1):
        there = [v for v in node.inputs if v is not None and len(v.spec.shape) >= axis and int(v.spec.shape[-axis]) > 1]
        labels = [c.of(v)[-axis] for v in there]
        made[-axis] = next((each for each in labels if each is not None), None)
        for each in labels:
            c.join(made[-axis], each)
    return [list(made) for _ in node.outputs]


def _channelwise(c: Coupling, node: Node) -> list[list[Labels]]:
    """Vectors along the last axis of the first input, and arrays of its shape: batch norms."""
    own = c.of(_x(node))
    for value in node.inputs[1:]:
        theirs = [] if value is None else c.of(value)
        for a, b in zip(own[len(own) - len(theirs) :], theirs, strict=True):
            c.join(a, b)
    return [own if len(v.spec.shape) == len(own) else [own[-1]] for v in node.outputs]


def _convolved(c: Coupling, x: Value, w: Value, b: Value | None, groups: int) -> Labels:
    """The numbers of a convolution's output channels."""
    *window, fan_in, out = c.of(w)
    for labels in (*window, *c.of(x)[1:-1]):
        c.fix(labels)
    if b is not None:
        c.join(out, c.of(b)[0])
    if groups == 1:
        c.join(c.of(x)[-1], fan_in)
        return out
    rows = _numbers(out, out).reshape(groups, -1) if out is not None else np.zeros((groups, 1), int)
    channels = np.zeros(int(x.spec.shape[-1]), int) if c.of(x)[-1] is None else _numbers(c.of(x)[-1], None)
    if int(w.spec.shape[-2]) == 1:  # depthwise: a channel takes its own outputs along
        c.fix(fan_in)
        for column in rows.T:
            c.join(column, channels)
    else:  # the same places go from every group
        for row in rows:
            c.join(row, rows[0])
        for row in channels.reshape(groups, -1):
            c.join(row, fan_in)
    return out


def _conv(c: Coupling, node: Node) -> list[list[Labels]] | None:
    op: Any = node.op
    x, w, b = (*node.inputs, None)[:3]
    if x is None or w is None:
        return None
    return [[c.of(x)[0], *[None] * len(op.stride), _convolved(c, x, w, b, op.groups)]]


def _norm_conv(c: Coupling, node: Node) -> list[list[Labels]] | None:
    op: Any = node.op
    x, *vectors, w = node.inputs
    if x is None or w is None:
        return None
    for value in vectors:
        if value is not None:
            c.join(c.of(x)[-1], c.of(value)[0])
    out = _convolved(c, x, w, None, op.groups)
    return [[c.of(x)[0], None, None, out], *[[out] for _ in node.outputs[1:]]]


def _transposed(c: Coupling, node: Node) -> list[list[Labels]] | None:
    op: Any = node.op
    x, w = node.inputs[:2]
    if x is None or w is None or op.groups != 1:
        return None
    *window, out, fan_in = c.of(w)
    for labels in (*window, *c.of(x)[1:-1]):
        c.fix(labels)
    c.join(c.of(x)[-1], fan_in)
    return [[c.of(x)[0], *[None] * len(window), out]]


def _linear(c: Coupling, node: Node) -> list[list[Labels]] | None:
    x, w, b = (*node.inputs, None)[:3]
    if x is None or w is None or len(w.spec.shape) != 2:
        return None
    c.join(c.of(x)[-1], c.of(w)[0])
    if b is not None:
        c.join(c.of(w)[1], c.of(b)[0])
    return [[*c.of(x)[:-1], c.of(w)[1]]]


def _classified(c: Coupling, node: Node) -> list[list[Labels]] | None:
    """The last layer with its loss: classes stay."""
    op: Any = node.op
    x, w, *others = node.inputs
    if x is None or w is None:
        return None
    fan_in, classes = c.of(w)[:: -1 if op.transposed else 1]
    c.join(c.of(x)[-1], fan_in)
    for labels in (c.of(x)[0], classes, *(labels for v in others if v is not None for labels in c.of(v))):
        c.fix(labels)
    return [[None] * len(v.spec.shape) for v in node.outputs]


def _concatenated(c: Coupling, node: Node) -> list[list[Labels]]:
    op: Any = node.op
    values = [v for v in node.inputs if v is not None]
    rank = len(values[0].spec.shape)
    made: list[Labels] = []
    for axis in range(rank):
        labels = [c.of(v)[axis] for v in values]
        if axis == op.axis % rank:
            sizes = [int(v.spec.shape[axis]) for v in values]
            parts = [np.zeros(n, int) if each is None else each for n, each in zip(sizes, labels, strict=True)]
            made.append(None if all(each is None for each in labels) else np.concatenate(parts))
        else:
            made.append(next((each for each in labels if each is not None), None))
            for each in labels:
                c.join(made[-1], each)
    return [made]


def _reduced(c: Coupling, node: Node) -> list[list[Labels]]:
    op: Any = node.op
    labels, rank = c.of(_x(node)), len(_x(node).spec.shape)
    axes = {a % rank for a in op.axes}
    for axis in axes:
        c.fix(labels[axis])
    kept = [None if axis in axes else each for axis, each in enumerate(labels) if op.keepdims or axis not in axes]
    return [list(kept) for _ in node.outputs]


def _indexed(c: Coupling, node: Node) -> list[list[Labels]]:
    """Slices keep the numbers of an axis that they take whole."""
    op: Any = node.op
    rest, sizes, made = list(c.of(_x(node))), list(_x(node).spec.shape), list[Labels]()
    for entry in op.key:
        if entry is None:
            made.append(None)
            continue
        labels, size = rest.pop(0), sizes.pop(0)
        whole = isinstance(entry, tuple) and entry[2] == 1 and node.outputs[0].spec.shape[len(made)] == size
        if not whole:
            c.fix(labels)
        if isinstance(entry, tuple):
            made.append(labels if whole else None)
    return [[*made, *rest]]


def _permuted(c: Coupling, node: Node) -> list[list[Labels]]:
    op: Any = node.op
    labels = c.of(_x(node))
    return [[labels[axis] for axis in op.axes]]


def _reshaped(c: Coupling, node: Node) -> list[list[Labels]]:
    """Axes that are joined carry their numbers along; of an axis that is split the last part has the numbers, and its
    other parts keep their sizes: the same places go from all of them."""
    labels = c.of(_x(node))
    before, after = [int(n) for n in _x(node).spec.shape], [int(n) for n in node.outputs[0].spec.shape]
    made: list[Labels] = [None] * len(after)
    for sources, targets in _blocks(before, after):
        held = [axis for axis in sources if labels[axis] is not None and before[axis] > 1]
        long = [axis for axis in targets if after[axis] > 1]
        if len(held) != 1 or not long:
            for axis in held:
                c.fix(labels[axis])
            continue
        form = [-1 if axis == held[0] else 1 for axis in sources]
        grid = np.broadcast_to(_numbers(labels[held[0]], None).reshape(form), [before[axis] for axis in sources])
        rows = grid.reshape(-1, after[long[-1]])
        if len(long) > 1:
            if math.prod(after[axis] for axis in targets[targets.index(long[-1]) :]) != after[long[-1]]:
                c.fix(labels[held[0]])
                continue
            for row in rows:
                c.join(row, rows[0])
        made[long[-1]] = rows[0] if len(long) > 1 else grid.reshape(-1)
    return [made]


def _blocks(before: Sequence[int], after: Sequence[int]) -> Iterator[tuple[list[int], list[int]]]:
    """Axes that a reshape turns into each other, in the smallest pieces."""
    i = j = 0
    while i < len(before) or j < len(after):
        sources, targets = list(range(i, min(i + 1, len(before)))), list(range(j, min(j + 1, len(after))))
        i, j = i + len(sources), j + len(targets)
        while (a := math.prod(before[k] for k in sources)) != (b := math.prod(after[k] for k in targets)):
            if a < b:
                sources.append(i)
                i += 1
            else:
                targets.append(j)
                j += 1
        yield sources, targets


def _same(*ops: str) -> dict[type[Op], Rule]:
    return {OPS[name]: _passed for name in ops}


RULES: dict[type[Op], Rule] = {
    **dict.fromkeys((UnaryOp, Activation, Identity, Clone, AsType, Clip, Dropout), _passed),
    **_same("Elu", "LeakyRelu", "Hardtanh", "Gelu", "GeluTanh"),
    **dict.fromkeys((MaxPool, AvgPool, AdaptiveAvgPool, AdaptiveMaxPool), _pooled),
    **dict.fromkeys((Softmax, LogSoftmax, Flip, Resize), _along),
    **dict.fromkeys((BinaryOp, BroadcastTo, OPS["Where"]), _elementwise),
    **dict.fromkeys((BatchNorm, BatchNormEval, RunningAverage, Moments), _channelwise),
    **dict.fromkeys((Reshape, ExpandDims, Squeeze), _reshaped),
    **dict.fromkeys((Linear, MatMul), _linear),
    Conv: _conv,
    NormConv: _norm_conv,
    ConvDx: _transposed,
    LinearCrossEntropy: _classified,
    Concat: _concatenated,
    Reduction: _reduced,
    GetItem: _indexed,
    PermuteDims: _permuted,
    Pad: _passed,
}
