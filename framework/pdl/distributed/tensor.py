"""Tensor parallel: a traced program as the program of one process that has a part of the weights.

`Cutting` finds, for every value of the forward part, whether each process has all of it or a part of one axis: weights
of products are cut by columns where their input is whole, and by rows where it is cut, so that pairs of products
exchange one sum (Megatron-LM, Shoeybi et al., arXiv 1909.08053); every other op has a rule that says what it makes of a
part (GSPMD, Xu et al., arXiv 2105.04663). Where an op has none, the weights that led to it stay whole. `rewritten`
writes the program of one process, collectives included; gradients are appended to that as to any other, so that they
hold for every op.
"""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from pdl import ops
from pdl.dtype import Array, bfloat16, float32
from pdl.ops.activation import Activation
from pdl.ops.attention import ScaledDotProductAttention
from pdl.ops.base import OPS, Identity, Op, apply
from pdl.ops.batchnorm import BatchNorm, BatchNormEval, RunningAverage
from pdl.ops.cast import AsType
from pdl.ops.classifier import LinearCrossEntropy
from pdl.ops.conv import Conv
from pdl.ops.cost import multiply_adds
from pdl.ops.cross_entropy import CrossEntropy
from pdl.ops.cut import JoinParts, OwnRows, Parts, SpreadOver, SumOver, TakePart, joined, taken
from pdl.ops.dropout import ActivatedDropout, Dropout, Seed
from pdl.ops.elementwise import Clip, Where
from pdl.ops.embedding import Embedding
from pdl.ops.epilogue import LinearAct
from pdl.ops.index import GetItem
from pdl.ops.layer_norm import AddLayerNorm, LayerNorm
from pdl.ops.linalg import Linear, MatMul
from pdl.ops.moments import JoinMoments, Moments
from pdl.ops.pool import AdaptiveAvgPool, AdaptiveMaxPool, AvgPool, MaxPool
from pdl.ops.reduce import Max, Mean, Min, Sum
from pdl.ops.shape import Clone, Concat, ExpandDims, PermuteDims, Reshape, Squeeze
from pdl.ops.softmax import Softmax
from pdl.ops.table import BinaryOp, UnaryOp
from pdl.program.ir import Node, Program, Value
from pdl.program.tracing import Recorder
from pdl.tensor import Tensor, set_grad_enabled

#: a weight is cut where its bytes are more than this share of those that the cut makes travel in a step, or its
#: multiply-adds more than so many a byte
_BYTES, _WORK = 1 / 8, 32
_NOTHING = -1e30  # the score of a class that is none
_MIXED = 0x9E3779B97F4A7C15 >> 1  # what the part times this makes of a seed is another one


class Cut(NamedTuple):
    """Each process has its part of each of `groups` blocks of an axis; of a vocabulary of `size` rows that are no equal
    parts the last one is filled up with rows that nothing reads."""

    axis: int
    groups: int = 1
    size: int = 0

    def shape(self, whole: Sequence[int], parts: int) -> tuple[int, ...]:
        """The shape of a part."""
        return (*whole[: self.axis], -(-whole[self.axis] // parts), *whole[self.axis + 1 :])

    def fits(self, shape: Sequence[int], parts: int) -> bool:
        """Whether the axis has so many equal parts."""
        if self.size:
            return self.axis < len(shape) and shape[self.axis] == self.size
        return self.axis < len(shape) and shape[self.axis] > 0 and shape[self.axis] % (self.groups * parts) == 0


Cuts: TypeAlias = "list[Cut | None]"
Tensors: TypeAlias = "list[Any]"


@dataclass
class Local:
    """A node as a process runs it.

    wants   how its inputs are cut
    makes   how its outputs are
    op      the op, where its attributes are others
    write   what is written instead of one op
    """

    wants: Cuts
    makes: Cuts
    op: Op | None = None
    write: Callable[[Writer, Tensors], Any] | None = None


class Cutting:
    """How the values of a program are cut over `parts` processes.

    parameters   the model's, by name
    cuts         of parameters, by id, where they are decided already; by default they are found
    whole        patterns of names of parameters that stay whole
    """

    def __init__(
        self,
        program: Program,
        parts: int,
        parameters: Sequence[tuple[str, Tensor]],
        *,
        cuts: dict[int, Cut] | None = None,
        whole: Iterable[str] = (),
    ) -> None:
        self.program, self.parts = program, parts
        self.names = {id(p): name for name, p in parameters}
        self.fixed = cuts is not None
        self.cuts = dict(cuts or {})
        patterns = list(whole)
        self.why: dict[int, str] = {  # of parameters that stay whole
            key: "distributed.whole"
            for key, name in self.names.items()
            if any(fnmatch.fnmatch(name, p) for p in patterns)
        }
        self.readers = program.readers()
        self.uses = program.uses()
        while not self._pass():
            pass

    # -- the walk ------------------------------------------------------------------------------------------------------
    def _pass(self) -> bool:
        """Decide on every node in order; False where a weight has turned out to stay whole: the walk begins anew."""
        self.at: dict[Value, Cut] = {}
        self.local: dict[Node, Local] = {}
        self.from_: dict[Value, frozenset[int]] = {}
        self.chains: dict[int, list[Node]] = {}
        if not self.fixed:
            self.cuts = {}
        self._show(self.program.captures)
        for node in self.program.nodes:
            if _carries(node.op) and (root := self.root(node.outputs[0])) is not None:
                self.chains.setdefault(id(root), []).append(node)
                self._carry(node)
                continue
            if not self._place(node):
                return False
        return True

    def _show(self, values: Iterable[Value]) -> None:
        for value in values:
            if (cut := self.cuts.get(id(value.tensor))) is not None:
                self.at[value] = cut

    def _place(self, node: Node) -> bool:
        """The local form of a node; False where weights must stay whole for it."""
        rule = rule_of(node.op)
        found = rule(self, node) if rule is not None else None
        if found is not None and not self._fits(node, found):
            found = None
        cut = [v for v in node.inputs if v is not None and v in self.at]
        if found is None:
            if cut and not self.fixed:
                seeds: frozenset[int] = frozenset().union(*[self.from_.get(v, _no_one(self, v)) for v in cut])
                self.why.update(dict.fromkeys(seeds, f"{node.op.op_name} needs all of what it makes"))
                return False
            found = Local([None] * len(node.inputs), [None] * len(node.outputs))
        self.local[node] = found
        seeds = frozenset().union(*[self.from_.get(v, _no_one(self, v)) for v in node.inputs if v in self.at])
        for value, made in zip(node.outputs, found.makes, strict=True):
            if made is not None:
                self.at[value], self.from_[value] = made, seeds
        return True

    def _fits(self, node: Node, found: Local) -> bool:
        """Whether inputs can be what a rule wants; weights that are not decided become it."""
        cuts = [*found.wants, *found.makes]
        if any(cut is not None and cut.size for cut in cuts) and not (_elementwise(node.op) or type(node.op) in FILLED):
            return False
        for value, want in zip(node.inputs, found.wants, strict=True):
            if value is None:
                continue
            have = self.at.get(value)
            if want is None and have is not None and self.root(value) is None and not self.fixed:
                return False
            if want is not None and (not want.fits(value.spec.shape, self.parts) or (have not in (None, want))):
                return False
        for value, made in zip(node.outputs, found.makes, strict=True):
            if made is not None and not made.fits(value.spec.shape, self.parts):
                return False
        if any(found.makes):
            for value, want in zip(node.inputs, found.wants, strict=True):
                if value is None or want is None or value in self.at:
                    continue
                if not self.claim(value, want, filled=True) and want.size:
                    return False
        return True

    # -- weights -------------------------------------------------------------------------------------------------------
    def root(self, value: Value | None) -> Tensor | None:
        """The parameter that a value is, but for its dtype and the order of its axes."""
        while value is not None and value.node is not None and _carries(value.node.op):
            value = value.node.inputs[0]
        tensor = None if value is None else value.tensor
        return tensor if tensor is not None and id(tensor) in self.names else None

    def claim(self, value: Value | None, want: Cut, *, worth: bool = True, filled: bool = False) -> bool:
        """Whether a value is cut so, or is a weight that can be and now is; its last part may be `filled` up."""
        if value is None:
            return True
        if value in self.at:
            return self.at[value][:2] == want[:2] and (filled or not self.at[value].size)
        root = self.root(value)
        if root is None or self.fixed or id(root) in self.why or not worth:
            return False
        if filled and want.groups == 1 and not want.size and value.spec.shape[want.axis] % self.parts:
            want = Cut(want.axis, 1, value.spec.shape[want.axis])
        if not want.fits(value.spec.shape, self.parts):
            self.why[id(root)] = f"{value.spec.shape[want.axis]} are not {self.parts} equal parts"
            return False
        axis = want.axis
        source: Value | None = value
        while source is not None and source.node is not None:
            op = source.node.op
            axis = op.axes[axis] % len(op.axes) if isinstance(op, PermuteDims) else axis
            source = source.node.inputs[0]
        self.cuts[id(root)] = Cut(axis, want.groups, want.size)
        self._show(self.program.captures)
        for node in self.chains.get(id(root), ()):
            self._carry(node)
        return True

    def _carry(self, node: Node) -> None:
        """A node that gives a weight another dtype or order."""
        (value, *_), op = node.inputs, node.op
        have = None if value is None else self.at.get(value)
        if have is not None and isinstance(op, PermuteDims):
            have = Cut([a % len(op.axes) for a in op.axes].index(have.axis), have.groups, have.size)
        self.local[node] = Local([self.at.get(value)] if value is not None else [None], [have])
        if have is not None:
            self.at[node.outputs[0]] = have

    def worth(self, node: Node, weight: Value, *moved: Value) -> bool:
        """Whether a cut saves more than it costs, where so much travels, forward and backward."""
        travels = 2 * sum(v.nbytes for v in moved) or 1
        ins = [None if v is None else v.spec for v in node.inputs]
        work = 3 * multiply_adds(node.op, ins, [v.spec for v in node.outputs])
        good = weight.nbytes >= _BYTES * travels or work >= _WORK * travels
        root = self.root(weight)
        if not good and root is not None and id(root) not in self.cuts:
            self.why.setdefault(id(root), "what travels would cost more than the cut saves")
        return good

    def scores(self, value: Value) -> bool:
        """Whether a cross-entropy reads a value, and nothing else but results."""
        readers = {node: node.op for node in self.readers.get(value, ())}
        kinds = [isinstance(op, CrossEntropy) for op in readers.values()]
        left = [node for node, op in readers.items() if not isinstance(op, CrossEntropy)]
        return any(kinds) and all(_elementwise(node.op) and node.outputs[0] not in self.readers for node in left)

    def blocks(self, value: Value) -> int:
        """In how many blocks the last axis of a product is read: three of queries, keys and values, two of gates."""
        columns, seen, queue = value.spec.shape[-1], {value}, [value]
        for each in queue:
            for node in self.readers.get(each, ()):
                op = node.op
                if isinstance(op, ScaledDotProductAttention) and node.inputs[1] is None:
                    return 3
                if isinstance(op, GetItem) and len(op.key) == len(each.spec.shape) and isinstance(op.key[-1], tuple):
                    length = node.outputs[0].spec.shape[-1]
                    if length < columns and columns % length == 0:
                        return columns // length
                if _elementwise(op) and node.outputs[0].spec.shape[-1:] == (columns,) and node.outputs[0] not in seen:
                    seen.add(node.outputs[0])
                    queue.append(node.outputs[0])
        return 1

    # -- what came of it -----------------------------------------------------------------------------------------------
    def summary(self) -> str:
        """One line: what is cut, and what stays whole."""
        sizes = {id(v.tensor): v.nbytes for v in self.program.captures if id(v.tensor) in self.names}
        total, divided = sum(sizes.values()) or 1, sum(n for key, n in sizes.items() if key in self.cuts)
        whole = sorted((key for key in sizes if key not in self.cuts), key=lambda key: -sizes[key])
        large = [
            f"{self.names[k]} ({self.why.get(k, 'no product reads it')})" for k in whole[:2] if sizes[k] > total / 100
        ]
        told = f"; whole: {', '.join(large)}" if large else ""
        return (
            f"tensor={self.parts}: {len(sizes) - len(whole)} of {len(sizes)} parameters, {divided / total:.1%} of the "
            f"weights, are cut{told}"
        )


def _no_one(cutting: Cutting, value: Value | None) -> frozenset[int]:
    """A weight answers for itself."""
    root = cutting.root(value)
    return frozenset() if root is None else frozenset([id(root)])


def _carries(op: Op) -> bool:
    return isinstance(op, AsType | PermuteDims | Identity)


def _elementwise(op: Op) -> bool:
    return isinstance(op, _ELEMENTWISE)


_ELEMENTWISE = (
    UnaryOp, BinaryOp, Activation, Where, Clip, AsType, Identity, Clone, Dropout, ActivatedDropout, RunningAverage,
)  # fmt: skip


# -- rules: what ops make of parts -------------------------------------------------------------------------------------
Rule: TypeAlias = "Callable[[Cutting, Node], Local | None]"
RULES: dict[type[Op], Rule] = {}


def rule_of(op: Op) -> Rule | None:
    """The rule of an op; None where it needs all of its inputs."""
    return elementwise if _elementwise(op) else RULES.get(type(op))


def _rule(*kinds: type[Op]) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(kinds, rule))
        return rule

    return register


def elementwise(c: Cutting, node: Node) -> Local | None:
    """All inputs, broadcast, are cut as the output is."""
    shape = node.outputs[0].spec.shape
    cuts = set()
    for v in node.inputs:
        if v is not None and (cut := c.at.get(v)) is not None:
            cuts.add(Cut(cut.axis + len(shape) - len(v.spec.shape), cut.groups, cut.size))
    if len(cuts) != 1:
        return None
    (cut,) = cuts
    wants: Cuts = []
    for v in node.inputs:
        axis = -1 if v is None else cut.axis - len(shape) + len(v.spec.shape)
        with_axis = v is not None and axis >= 0 and v.spec.shape[axis] == shape[cut.axis] and shape[cut.axis] > 1
        wants.append(Cut(axis, cut.groups, cut.size) if with_axis else None)
    return Local(wants, [cut])


def _of(c: Cutting, value: Value | None) -> Cut | None:
    return None if value is None else c.at.get(value)


@_rule(Linear, LinearAct)
def linear(c: Cutting, node: Node) -> Local | None:
    """By rows where x is cut, by columns where it is whole."""
    x, w, *rest = node.inputs
    assert x is not None
    assert w is not None
    y, last = node.outputs[0], len(x.spec.shape) - 1
    cx, bias = _of(c, x), len(rest)
    if cx is not None and cx.axis < last:
        return Local([cx, *[None] * (1 + bias)], [cx])
    if cx is not None or _of(c, w) == Cut(0):
        rows = Cut(0, 1 if cx is None else cx.groups)
        if isinstance(node.op, LinearAct) or not c.claim(w, rows):
            return None
        return Local([Cut(last, rows.groups), rows, *[None] * bias], [None], write=_summed(node.op))
    have = _of(c, w)
    blocks = have.groups if have is not None else c.blocks(y)
    if not c.claim(w, Cut(1, blocks), worth=c.worth(node, w, x), filled=c.scores(y)):
        return None
    columns = c.at[w]
    return Local([None, columns, *[columns._replace(axis=0)] * bias], [columns._replace(axis=last)])


def _summed(op: Op) -> Callable[[Writer, Tensors], Any]:
    """A product of which each process has an addend; the bias comes once."""

    def write(writer: Writer, ins: Tensors) -> Any:
        x, w, *rest = ins
        y = writer.sum(apply(op, x, w, *[None] * isinstance(op, Linear)))
        return y if not rest or rest[0] is None else y + rest[0]

    return write


@_rule(MatMul)
def matmul(c: Cutting, node: Node) -> Local | None:
    """As `linear`; leading axes are cut alike."""
    a, b = node.inputs
    assert a is not None
    assert b is not None
    ca, cb, na, nb = _of(c, a), _of(c, b), len(a.spec.shape), len(b.spec.shape)
    n = len(node.outputs[0].spec.shape)
    if ca is None and cb is None:
        if (
            c.root(b) is not None
            and nb == 2
            and c.claim(b, Cut(1, c.blocks(node.outputs[0])), worth=c.worth(node, b, a))
        ):
            cb = c.at[b]
        else:
            return None
    if ca is not None and ca.axis == na - 1 and not ca.size:
        rows = Cut(nb - 2, ca.groups)
        if cb == rows or (cb is None and c.root(b) is not None and c.claim(b, rows)):
            return Local([ca, rows], [None], write=_summed(node.op))
        return None
    if cb is not None and cb.axis == nb - 1 and ca is None:
        return Local([None, cb], [cb._replace(axis=n - 1)])
    if (ca is not None and ca.size) or (cb is not None and cb.size):
        return None
    if cb is not None and cb.axis == nb - 2 and ca is None:
        return Local([Cut(na - 1, cb.groups), cb], [None], write=_summed(node.op))
    if ca is not None and ca.axis == na - 2 and cb is None:
        return Local([ca, None], [Cut(n - 2, ca.groups)])
    leads = {
        Cut(cut.axis + n - k, cut.groups) for cut, k in ((ca, na), (cb, nb)) if cut is not None and cut.axis < k - 2
    }
    if len(leads) != 1 or any(cut is not None and cut.axis >= k - 2 for cut, k in ((ca, na), (cb, nb))):
        return None
    (lead,) = leads
    size = node.outputs[0].spec.shape[lead.axis]
    wants: Cuts = []
    for v, k in ((a, na), (b, nb)):
        axis = lead.axis - n + k
        wants.append(Cut(axis, lead.groups) if axis >= 0 and v.spec.shape[axis] == size else None)
    return Local(wants, [lead])


@_rule(Conv)
def conv(c: Cutting, node: Node) -> Local | None:
    """As `linear`, over channels; one filter a channel is cut with its channel."""
    op = node.op
    assert isinstance(op, Conv)
    x, w, *rest = node.inputs
    assert x is not None
    assert w is not None
    last, filters = len(x.spec.shape) - 1, len(w.spec.shape) - 1
    cx, bias = _of(c, x), len(rest)
    if op.groups > 1:
        if cx is None or cx.axis != last or op.groups != x.spec.shape[last] or cx.groups > 1:
            return None
        local = Conv(op.stride, op.padding, op.dilation, op.groups // c.parts)
        return Local([cx, Cut(filters), *[Cut(0)] * bias], [Cut(last)], op=local)
    if cx is not None and cx.axis < last:
        return None
    if cx is not None or _of(c, w) == Cut(filters - 1):
        rows = Cut(filters - 1, 1 if cx is None else cx.groups)
        if not c.claim(w, rows):
            return None
        return Local([Cut(last, rows.groups), rows, *[None] * bias], [None], write=_summed(op))
    columns = Cut(filters)
    if not c.claim(w, columns, worth=c.worth(node, w, x)):
        return None
    return Local([None, columns, *[Cut(0)] * bias], [Cut(last)])


@_rule(BatchNorm, BatchNormEval, Moments, JoinMoments)
def per_channel(c: Cutting, node: Node) -> Local | None:
    """What is computed channel by channel: arrays [..., C], and [C]."""
    cuts = {
        cut.groups for v in node.inputs if v is not None and (cut := c.at.get(v)) and cut.axis == len(v.spec.shape) - 1
    }
    if len(cuts) != 1 or any(v is not None and v in c.at and c.at[v].axis < len(v.spec.shape) - 1 for v in node.inputs):
        return None
    (groups,) = cuts

    def at(v: Value | None) -> Cut | None:
        return None if v is None or not v.spec.shape else Cut(len(v.spec.shape) - 1, groups)

    return Local([at(v) for v in node.inputs], [at(v) for v in node.outputs])


@_rule(MaxPool, AvgPool, AdaptiveAvgPool, AdaptiveMaxPool)
def pool(c: Cutting, node: Node) -> Local | None:
    """Channels are apart."""
    (x, *_) = node.inputs
    cut = _of(c, x)
    if cut is None or x is None or cut.axis != len(x.spec.shape) - 1:
        return None
    return Local([cut, *[None] * (len(node.inputs) - 1)], [cut for _ in node.outputs])


@_rule(LayerNorm, AddLayerNorm)
def layer_norm(c: Cutting, node: Node) -> Local | None:
    """Rows are apart; a row is not cut."""
    shape = node.outputs[0].spec.shape
    cuts = {c.at[v] for v in node.inputs if v is not None and v in c.at}
    if len(cuts) != 1 or isinstance(node.op, AddLayerNorm):
        return None
    (cut,) = cuts
    if cut.axis >= len(shape) - 1:
        return None
    wants = [cut if v is not None and v.spec.shape == shape else None for v in node.inputs]
    return Local(wants, [cut for _ in node.outputs])


@_rule(Softmax, *(OPS[name] for name in ("LogSoftmax",)))
def softmax(c: Cutting, node: Node) -> Local | None:
    """Another axis than that of the sum."""
    (x,) = node.inputs
    cut = _of(c, x)
    if cut is None or x is None or node.op.axis % len(x.spec.shape) == cut.axis:  # type: ignore[attr-defined]
        return None
    return Local([cut], [cut])


@_rule(Sum, Mean, Max, Min)
def reduction(c: Cutting, node: Node) -> Local | None:
    """Other axes, or sums over the parts."""
    (x,), op = node.inputs, node.op
    cut = _of(c, x)
    if cut is None or x is None:
        return None
    assert isinstance(op, Sum | Mean | Max | Min)
    n = len(x.spec.shape)
    axes = {a % n for a in op.axes}
    if cut.axis not in axes:
        gone = 0 if op.keepdims else sum(a < cut.axis for a in axes)
        return Local([cut], [Cut(cut.axis - gone, cut.groups)])
    if not isinstance(op, Sum | Mean):
        return None
    factor = 1 / c.parts if isinstance(op, Mean) else 1

    def write(writer: Writer, ins: Tensors) -> Any:
        part = apply(op, *ins)
        return writer.sum(part * factor if factor != 1 else part)

    return Local([cut], [None], write=write)


@_rule(Reshape)
def reshape(c: Cutting, node: Node) -> Local | None:
    """The axis of the new shape in which the parts lie, maybe in other blocks."""
    (x,), shape = node.inputs, node.outputs[0].spec.shape
    cut = _of(c, x)
    if cut is None or x is None:
        return None
    if cut.size and shape[-1] == cut.size == x.spec.shape[-1]:
        made = Cut(len(shape) - 1, 1, cut.size)
        return Local([cut], [made], op=Reshape(made.shape(shape, c.parts)))
    blocks = math.prod(x.spec.shape[: cut.axis]) * cut.groups  # before the parts, of all that lies in order
    outer = 1
    for axis, size in enumerate(shape):
        if blocks % outer == 0 and size % (blocks // outer * c.parts) == 0 and size >= blocks // outer * c.parts:
            made = Cut(axis, blocks // outer)
            return Local([cut], [made], op=Reshape(made.shape(shape, c.parts)))
        outer *= size
    return None


@_rule(PermuteDims)
def permute(c: Cutting, node: Node) -> Local | None:
    """The axis goes where it goes."""
    cut = _of(c, node.inputs[0])
    if cut is None:
        return None
    axes = [a % len(node.op.axes) for a in node.op.axes]  # type: ignore[attr-defined]
    return Local([cut], [Cut(axes.index(cut.axis), cut.groups)])


@_rule(ExpandDims, Squeeze)
def sized_one(c: Cutting, node: Node) -> Local | None:
    """Axes of size 1 come or go."""
    (x,), op = node.inputs, node.op
    cut = _of(c, x)
    if cut is None or x is None:
        return None
    n = len(x.spec.shape)
    if isinstance(op, ExpandDims):
        return Local([cut], [Cut(cut.axis + (op.axis % (n + 1) <= cut.axis), cut.groups)])
    assert isinstance(op, Squeeze)
    return Local([cut], [Cut(cut.axis - sum(a % n < cut.axis for a in op.axes), cut.groups)])


@_rule(Concat)
def concat(c: Cutting, node: Node) -> Local | None:
    """Along another axis."""
    cuts = {c.at[v] for v in node.inputs if v is not None and v in c.at}
    if len(cuts) != 1:
        return None
    (cut,) = cuts
    if node.op.axis % len(node.outputs[0].spec.shape) == cut.axis:  # type: ignore[attr-defined]
        return None
    return Local([cut for _ in node.inputs], [cut])


@_rule(GetItem)
def get_item(c: Cutting, node: Node) -> Local | None:
    """Other axes; of the cut one all, or whole blocks."""
    (x,), op = node.inputs, node.op
    cut = _of(c, x)
    if cut is None or x is None:
        return None
    assert isinstance(op, GetItem)
    axis = made = 0
    key: list[Any] = []
    groups, seen = cut.groups, False
    for entry in op.key:
        key.append(entry)
        if entry is None:
            made += 1
            continue
        if axis == cut.axis:
            if not isinstance(entry, tuple):
                return None
            n = x.spec.shape[axis]
            start, stop, step = slice(*entry).indices(n)
            block = n // cut.groups
            if step != 1 or start % block or stop % block or stop <= start:
                return None
            groups, key[-1], seen = (stop - start) // block, (start // c.parts, stop // c.parts, None), True
            place = made
        axis += 1
        made += isinstance(entry, tuple)
    if not seen:
        place = made + cut.axis - axis
    if cut.size and seen:
        return None
    return Local([cut], [Cut(place, groups, cut.size)], op=GetItem(tuple(key)))


@_rule(Embedding)
def embedding(c: Cutting, node: Node) -> Local | None:
    """Each process looks up its rows of the table; or all rows, of which it has some columns."""
    table, index = node.inputs
    op = node.op
    assert isinstance(op, Embedding)
    assert table is not None
    assert index is not None
    cut, y = _of(c, table), node.outputs[0]
    if cut is None:
        if op.sparse or not c.claim(table, Cut(0), worth=c.worth(node, table, y), filled=True):
            return None
        cut = c.at[table]
    if cut.axis == 1:
        return Local([cut, None], [Cut(len(y.spec.shape) - 1, cut.groups)])
    if cut.groups > 1 or op.sparse:
        return None
    rows = table.spec.shape[0]

    def write(writer: Writer, ins: Tensors) -> Any:
        part, numbers = ins
        count = part.shape[0]
        first = writer.part * count
        own, inside = apply(OwnRows(first, count, rows), numbers)
        padding = op.padding_idx is not None and first <= op.padding_idx < first + count
        found = apply(Embedding(op.padding_idx - first if padding else None), part, own)  # type: ignore[operator]
        return writer.sum(ops.where(ops.expand_dims(inside, axis=-1), found, 0))

    return Local([cut, None], [None], write=write)


@_rule(ScaledDotProductAttention)
def attention(c: Cutting, node: Node) -> Local | None:
    """Heads are apart."""
    q, k, v, mask, _ = node.inputs
    op, y = node.op, node.outputs[0]
    assert isinstance(op, ScaledDotProductAttention)
    assert q is not None
    n = len(q.spec.shape)
    cuts = {cut for x in (q, k, v) if x is not None and (cut := c.at.get(x)) is not None}
    if len(cuts) != 1:
        return None
    (cut,) = cuts
    if op.heads:
        if cut != Cut(n - 1, 3 if k is None else 1) or op.heads % c.parts:
            return None
        with_heads = mask is not None and len(mask.spec.shape) >= 3 and mask.spec.shape[-3] == op.heads > 1
        local = ScaledDotProductAttention(op.scale, op.heads // c.parts, op.is_causal, op.dropout_p)
        wants = [cut, *[None if x is None else cut for x in (k, v)]]
        lse = Cut(len(node.outputs[1].spec.shape) - 2)
        return Local(
            [*wants, Cut(len(mask.spec.shape) - 3) if with_heads and mask is not None else None, None],
            [Cut(len(y.spec.shape) - 1), lse],
            op=local,
        )
    rank = len(y.spec.shape)
    lead = cut.axis - n + rank
    if cut.axis >= n - 2 or any(x is not None and len(x.spec.shape) != rank for x in (q, k, v)):
        return None
    size = y.spec.shape[lead]
    wants = []
    for x in (q, k, v, mask):
        axis = -1 if x is None else lead - rank + len(x.spec.shape)
        has = x is not None and axis >= 0 and x.spec.shape[axis] == size
        wants.append(Cut(axis, cut.groups) if has else None)
    return Local([*wants, None], [Cut(lead, cut.groups), Cut(lead, cut.groups)])


@_rule(CrossEntropy)
def cross_entropy(c: Cutting, node: Node) -> Local | None:
    """Rows are apart; classes are summed over the processes."""
    x, _, weight = node.inputs
    op, cut = node.op, _of(c, x)
    assert isinstance(op, CrossEntropy)
    assert x is not None
    if cut is None or cut[:2] != (len(x.spec.shape) - 1, 1):
        return None
    whole = x.spec.shape[-1]

    def write(writer: Writer, ins: Tensors) -> Any:
        return writer.cross_entropy(op, whole, *ins)

    if weight is not None and cut.size:
        return None
    return Local([cut, None, None if weight is None else Cut(0)], [None, None, None], write=write)


@_rule(LinearCrossEntropy)
def linear_cross_entropy(c: Cutting, node: Node) -> Local | None:
    """A product by columns, and the loss of its classes."""
    x, w, b, _, ids = node.inputs
    op = node.op
    assert isinstance(op, LinearCrossEntropy)
    assert w is not None
    assert x is not None
    classes = Cut(0 if op.transposed else 1)
    if _of(c, x) is not None or ids is not None or op.first or any(c.uses.get(v, 0) for v in node.outputs[1:2]):
        return None
    worth = c.worth(node, w, x)
    if any(c.uses.get(v, 0) for v in node.outputs[3:]) or not c.claim(w, classes, worth=worth, filled=True):
        return None
    classes = c.at[w]
    whole = w.spec.shape[classes.axis]

    def write(writer: Writer, ins: Tensors) -> Any:
        rows, part, bias, numbers, _ = ins
        part = ops.permute_dims(part, (1, 0)) if op.transposed else part
        loss = CrossEntropy(op.smoothing, op.ignore_index, op.reduction)
        return (*writer.cross_entropy(loss, whole, ops.linear(rows, part, bias), numbers, None), None)

    of_bias = None if b is None else classes._replace(axis=0)
    return Local([None, classes, of_bias, None, None], [None] * 4, write=write)


# -- writing -----------------------------------------------------------------------------------------------------------
class Writer:
    """Writes the program of process `part`; `across` are all of them (None in a plan that is not run)."""

    def __init__(self, cutting: Cutting, part: int, across: Parts | None) -> None:
        self.cutting, self.parts, self.part, self.across = cutting, cutting.parts, part, across
        self.env: dict[Value, Any] = {}
        self.known: dict[Any, Any] = {}  # whole values made of parts, and the other way round
        self.ends: list[int] = []  # nodes that are written when each node is

    def sum(self, x: Any) -> Any:
        """The sum of what all processes have."""
        return apply(SumOver().over(self.across), x)

    def join(self, x: Any, cut: Cut) -> Any:
        """The parts of all processes."""
        whole = apply(JoinParts(cut.axis, self.parts, self.part, cut.groups).over(self.across), x)
        return whole[(*[slice(None)] * cut.axis, slice(0, cut.size))] if cut.size else whole

    def program(self, recorder: Recorder, nodes: Sequence[Node]) -> None:
        """Write nodes, the inputs of which are in `env`."""
        for node in nodes:
            self._node(recorder, node)
            self.ends.append(len(recorder.program.nodes))

    def whole(self, value: Value) -> Any:
        """All of a value."""
        return self._as(value, None)

    def _node(self, recorder: Recorder, node: Node) -> None:
        local = self.cutting.local[node]
        divided = any(local.makes) or local.write is not None
        recorder._where, scope = node.where, node.scope
        recorder._scopes.append(scope)
        with set_grad_enabled(node.differentiable):
            ins: Tensors = []
            for value, want in zip(node.inputs, local.wants, strict=True):
                x: Any = None if value is None else self._as(value, want)
                if divided and value is not None and want is None and x.requires_grad and not _bias(node, value, local):
                    x = self._spread(value, x)
                if divided and value is not None and value.node is not None and isinstance(value.node.op, Seed):
                    x = self._other_seed(value, x)
                ins.append(x)
            made = local.write(self, ins) if local.write is not None else apply(local.op or node.op, *ins)
        recorder._scopes.pop()
        recorder._where = None
        outs = made if isinstance(made, tuple) else (made,)
        self.env.update({v: y for v, y in zip(node.outputs, outs, strict=True) if y is not None})

    def _as(self, value: Value, want: Cut | None) -> Any:
        """A value, cut as it is wanted."""
        x = self.env[value] if value.tensor is None else value.tensor
        have = self.cutting.at.get(value)
        if have == want:
            return x
        key = (value, want)
        if key not in self.known:
            with set_grad_enabled(True):
                y = x if have is None else self.join(x, have)
                if want is not None:
                    y = apply(TakePart(want.axis, self.parts, self.part, want.groups).over(self.across), y)
            self.known[key] = y
        return self.known[key]

    def _spread(self, value: Value, x: Any) -> Any:
        key = (value, "spread")
        if key not in self.known:
            with set_grad_enabled(True):
                self.known[key] = apply(SpreadOver().over(self.across), x)
        return self.known[key]

    def _other_seed(self, value: Value, x: Any) -> Any:
        """A seed of this process's own: parts drop numbers of their own."""
        key = (value, "seed")
        if key not in self.known:
            mixed = np.int64(self.part * _MIXED % 2**62)
            self.known[key] = ops.bitwise_xor(x, Tensor(mixed)) if self.part else x
        return self.known[key]

    def cross_entropy(self, op: CrossEntropy, classes: int, x: Any, labels: Any, weight: Any) -> tuple[Any, Any, Any]:
        """`CrossEntropy` of scores [..., C / parts], C = `classes`: loss, lse, sum of the weights that count."""
        x = ops.astype(x, float32) if x.dtype == bfloat16 else x
        count = x.shape[-1]
        own, inside = apply(OwnRows(self.part * count, count, classes, op.ignore_index), labels)
        counted = ops.not_equal(labels, op.ignore_index)
        sums = x
        if count * self.parts > classes:  # filled up
            real = Tensor(np.arange(count) < classes - self.part * count)
            x, sums = ops.where(real, x, _NOTHING), ops.where(real, x, 0)

        def of_label(values: Any) -> Any:
            return self.sum(ops.where(inside, values, 0))

        picked = ops.squeeze(ops.take_along_axis(x, ops.expand_dims(own, axis=-1), axis=-1), axis=-1)
        parts = self.join(ops.expand_dims(ops.logsumexp(x, axis=-1), axis=0), Cut(0))
        lse = ops.logsumexp(parts, axis=0)
        label = lse - of_label(picked)
        share = None if weight is None else of_label(ops.take(weight.detach(), own, axis=0))
        loss = label if share is None else label * share
        if op.smoothing:
            smooth = lse * classes - self.sum(ops.sum(sums, axis=-1))
            if weight is not None:
                scores = self.sum(ops.sum(x * weight.detach(), axis=-1))
                smooth = lse * self.sum(ops.sum(weight.detach())) - scores
            loss = loss * (1 - op.smoothing) + smooth * (op.smoothing / classes)
        loss = ops.where(counted, loss, 0)
        total = ops.sum(ops.astype(counted, x.dtype) if share is None else ops.where(counted, share, 0))
        if op.reduction == "none":
            return loss, lse, total
        value = ops.sum(loss)
        return value / total if op.reduction == "mean" else value, lse, total


def _bias(node: Node, value: Value, local: Local) -> bool:
    """Whether an input is added after the sum, so that its gradient is whole already."""
    products = isinstance(node.op, Linear | Conv | LinearAct) and local.write is not None
    return products and len(node.inputs) > 2 and value is node.inputs[2]


def rewritten(
    cutting: Cutting, part: int, across: Parts | None, name: str, names: dict[int, str]
) -> tuple[Recorder, Writer]:
    """The program of process `part`, its inputs and effects those of the program; parameters hold their parts now."""
    program, recorder = cutting.program, Recorder(name, names)
    writer = Writer(cutting, part, across)
    with recorder.active():
        for value in program.inputs:
            writer.env[value] = recorder.input(value.spec, value.name or "x")
        writer.program(recorder, program.nodes)
        for buffer, value in program.effects:
            assert buffer.tensor is not None
            recorder.assign(buffer.tensor, writer.whole(value))
    return recorder, writer


def cut_array(x: Array, cut: Cut, parts: int, part: int) -> Array:
    """A process's part of a weight, in memory of its own."""
    if cut.size:
        more = cut.shape(x.shape, parts)[cut.axis] * parts - cut.size
        x = np.pad(x, [(0, more if axis == cut.axis else 0) for axis in range(x.ndim)])
    return np.array(taken(x, cut.axis, parts, part, cut.groups), order="C")


def whole_array(rows: Array, cut: Cut) -> Array:
    """The weight of which `rows` are the parts of all processes."""
    whole = joined(rows, cut.axis, cut.groups)
    return np.ascontiguousarray(whole[(*[slice(None)] * cut.axis, slice(0, cut.size))]) if cut.size else whole


#: ops that take part in a vocabulary whose last part is filled up
FILLED = (Embedding, Linear, MatMul, GetItem, Reshape, CrossEntropy, LinearCrossEntropy)


__all__ = ["Cut", "Cutting", "Writer", "cut_array", "rewritten", "whole_array"]
