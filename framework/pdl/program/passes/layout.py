"""Permutations of an imported graph moved until they meet and cancel.

ONNX keeps channels second, pdl last, so an imported convolution stands between two permutations. Each permutation is
moved after its readers, as op(P(x)) = P(op'(x)): arithmetic, reductions, joins, slices, pads, softmax and
reshapes with their axes renamed. Where it meets the one in front of the next convolution, both vanish; constants are
permuted once. What is left stands at the graph's ends, and where a permutation really is computed.

The whole is undone where it would move more bytes than before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pdl import dims
from pdl.ops.activation import Activation
from pdl.ops.base import Op
from pdl.ops.broadcast import BroadcastTo
from pdl.ops.cast import AsType
from pdl.ops.elementwise import Clip, Where
from pdl.ops.index import GetItem
from pdl.ops.inference import LinearThen
from pdl.ops.layer_norm import LayerNorm
from pdl.ops.linalg import Linear
from pdl.ops.pad import Pad
from pdl.ops.quant import DequantizeLinear, QuantizeLinear
from pdl.ops.reduce import ArgMax, ArgMin, Reduction
from pdl.ops.running import Running
from pdl.ops.shape import Concat, ExpandDims, Flip, PermuteDims, Reshape, Squeeze
from pdl.ops.softmax import LogSoftmax, Softmax
from pdl.ops.table import BinaryOp, UnaryOp
from pdl.program.ir import Node, Program, Value
from pdl.program.passes.fold import SIMPLE, permutation_of_ones
from pdl.program.passes.log import log
from pdl.program.passes.measure import moves_nothing
from pdl.program.passes.rewrite import Rewriter, Rule, on, rewrite, same_shape

SMALL = 8  # an operand of a part this size is permuted so that a permutation may pass


def permuted(value: Value | None, walk: Rewriter) -> tuple[Value, tuple[int, ...]] | None:
    """(x, axes) of a value that is x with its axes permuted."""
    node = walk.made_by(value, PermuteDims)
    if node is None or node.inputs[0] is None or not isinstance(node.op, PermuteDims):
        return None
    return node.inputs[0], tuple(a % len(node.op.axes) for a in node.op.axes)


def inverse(axes: Sequence[int]) -> tuple[int, ...]:
    """The axes that undo a permutation."""
    return tuple(sorted(range(len(axes)), key=lambda i: axes[i]))


def _again(op: Op, **changed: Any) -> Op:
    """The op with some attributes changed."""
    return type(op)(**({name: getattr(op, name) for name in op.fields} | changed))


def _behind(axes: Sequence[int], value: Value, walk: Rewriter) -> Value:
    """A value with its axes permuted; two permutations in a row are one."""
    found = permuted(value, walk)
    if found is not None:
        value, axes = found[0], [found[1][a] for a in axes]
    if list(axes) == list(range(len(axes))):
        return value
    return walk.emit(PermuteDims(tuple(axes)), value)


# -- arithmetic and joins: inputs of one shape, or broadcast -----------------------------------------------------------
@on(UnaryOp, Activation, Clip, AsType)
def behind_one(node: Node, walk: Rewriter) -> Value | None:
    """f(P(x)) = P(f(x)) for f element by element."""
    found = permuted(node.inputs[0], walk) if isinstance(node.op, UnaryOp | Activation | Clip | AsType) else None
    return None if found is None else _behind(found[1], walk.emit(node.op, found[0]), walk)


@on(QuantizeLinear, DequantizeLinear)
def behind_rounding(node: Node, walk: Rewriter) -> Value | None:
    """To bytes and back, with scales along the axis' place before."""
    op, found = node.op, permuted(node.inputs[0], walk)
    if not isinstance(op, QuantizeLinear | DequantizeLinear) or found is None:
        return None
    x, axes = found
    scales = node.inputs[1:]
    axis = axes[op.axis % len(axes)] if scales[0] is not None and scales[0].spec.shape else op.axis
    return _behind(axes, walk.emit(type(op)(axis), x, *scales), walk)


@on(BinaryOp, Where)
def behind_several(node: Node, walk: Rewriter) -> Value | None:
    """f(P(x), P(y), ...) = P(f(x, y, ...)), constants and small operands permuted to fit."""
    if not isinstance(node.op, BinaryOp | Where):
        return None
    out = node.outputs[0]
    found = [f for v in node.inputs if (f := permuted(v, walk)) and len(f[1]) == len(out.spec.shape)]
    for _, axes in found:
        ways = [_operand(v, axes, out, walk) for v in node.inputs]
        if all(ways):
            return _behind(axes, walk.emit(node.op, *(way() for way in ways if way is not None)), walk)
    return None


def _operand(value: Value | None, axes: tuple[int, ...], out: Value, walk: Rewriter) -> Callable[[], Value] | None:
    """How to get an operand in the order before the permutation; None where that costs too much."""
    assert value is not None
    rank, shape = len(axes), value.spec.shape
    found, array = permuted(value, walk), walk.constant(value)
    if found is not None and found[1] == axes:
        return lambda: found[0]
    if not shape or (all(type(n) is int and n == 1 for n in shape) and len(shape) <= rank):
        return lambda: value
    whole = (*[1] * (rank - len(shape)), *shape)
    if array is not None:
        return lambda: walk.capture(array.reshape(whole).transpose(inverse(axes)), value)
    if not moves_nothing(inverse(axes), whole) and found is None and value.nbytes * SMALL > out.nbytes:
        return None

    def reordered() -> Value:
        spread = value if len(shape) == rank else walk.emit(Reshape(whole), value)
        return _behind(inverse(axes), spread, walk)

    return reordered


@on(Concat)
def behind_concat(node: Node, walk: Rewriter) -> Value | None:
    """concat(P(x), P(y), ...) = P(concat(x, y, ...)) along the axis' place before."""
    if not isinstance(node.op, Concat):
        return None
    out = node.outputs[0]
    for _, axes in [f for v in node.inputs if (f := permuted(v, walk))]:
        ways = [_operand(v, axes, out, walk) if _full(v) else None for v in node.inputs]
        if all(ways):
            op = Concat(axes[node.op.axis % len(axes)])
            return _behind(axes, walk.emit(op, *(way() for way in ways if way is not None)), walk)
    return None


def _full(value: Value | None) -> bool:
    """Whether a part is no array of ones: such an array is left as it is by `_operand`, which a join may not."""
    return value is not None and any(type(n) is not int or n != 1 for n in value.spec.shape)


# -- ops with axes -----------------------------------------------------------------------------------------------------
@on(Reduction)
def behind_reduction(node: Node, walk: Rewriter) -> Value | None:
    """Reductions, over the axes' places before."""
    found = permuted(node.inputs[0], walk) if isinstance(node.op, Reduction) else None
    if found is None or not isinstance(node.op, Reduction):
        return None
    if isinstance(node.op, ArgMax | ArgMin) and len(node.op.axes) > 1:
        return None  # they number the elements in the order of the axes
    x, axes = found
    reduced = {a % len(axes) for a in node.op.axes}
    y = walk.emit(_again(node.op, axes=tuple(sorted(axes[a] for a in reduced))), x)
    if node.op.keepdims:
        return _behind(axes, y, walk)
    return _behind(_ranks([a for i, a in enumerate(axes) if i not in reduced]), y, walk)


def _ranks(places: Sequence[int]) -> tuple[int, ...]:
    """The place of each among all, sorted."""
    order = sorted(places)
    return tuple(order.index(p) for p in places)


@on(Softmax, LogSoftmax, Running, Pad, Flip, BroadcastTo)
def behind_axis(node: Node, walk: Rewriter) -> Value | None:
    """Softmax, running sums, pad, flip and broadcast, with their axes' places before."""
    op = node.op
    if not isinstance(op, Softmax | LogSoftmax | Running | Pad | Flip | BroadcastTo):
        return None
    found = permuted(node.inputs[0], walk)
    if found is None:
        return None
    x, axes = found
    back = inverse(axes)
    if isinstance(op, Softmax | LogSoftmax | Running):
        moved = _again(op, axis=axes[op.axis % len(axes)])
    elif isinstance(op, Pad):
        moved = _again(op, widths=tuple(op.widths[i] for i in back))
    elif isinstance(op, Flip):
        moved = Flip(tuple(sorted(axes[a % len(axes)] for a in op.axes)))
    elif len(op.shape) != len(axes):
        return None
    else:
        moved = BroadcastTo(tuple(op.shape[i] for i in back))
    return _behind(axes, walk.emit(moved, x), walk)


@on(GetItem)
def behind_slice(node: Node, walk: Rewriter) -> Value | None:
    """x[key] for keys of slices and numbers."""
    found = permuted(node.inputs[0], walk) if isinstance(node.op, GetItem) else None
    if found is None or not isinstance(node.op, GetItem) or None in node.op.key:
        return None
    x, axes = found
    key = (*node.op.key, *[(None, None, None)] * (len(axes) - len(node.op.key)))
    y = walk.emit(GetItem(tuple(key[i] for i in inverse(axes))), x)
    return _behind(_ranks([axes[i] for i, entry in enumerate(key) if isinstance(entry, tuple)]), y, walk)


@on(Linear, LinearThen, LayerNorm)
def behind_rows(node: Node, walk: Rewriter) -> Value | None:
    """Linear layers and layer norm, where the last axis stays the last."""
    op = node.op
    found = permuted(node.inputs[0], walk) if isinstance(op, Linear | LinearThen | LayerNorm) else None
    if found is None or found[1][-1] != len(found[1]) - 1 or not walk.dead(node.outputs[1:]):
        return None
    x, axes = found
    inputs = [x, *node.inputs[1:]]
    if isinstance(op, LinearThen) and node.inputs[3] is not None:
        residual = permuted(node.inputs[3], walk)
        if residual is None or residual[1] != axes:
            return None
        inputs[3] = residual[0]
    return _behind(axes, walk.emit(op, *inputs), walk)


# -- reshapes ----------------------------------------------------------------------------------------------------------
@on(Reshape, ExpandDims, Squeeze)
def behind_reshape(node: Node, walk: Rewriter) -> Value | None:
    """Reshapes that join or cut dimensions which lay side by side before, too."""
    if not isinstance(node.op, Reshape | ExpandDims | Squeeze):
        return None
    found = permuted(node.inputs[0], walk)
    if found is None or node.inputs[0] is None:
        return None
    (x, axes), shape = found, node.outputs[0].spec.shape
    blocks = _blocks(node.inputs[0].spec.shape, shape)
    if not blocks:
        return None
    large = [a for a in range(len(axes)) if not _one(x.spec.shape[a])]  # of x, in order
    for source, _ in blocks:
        places = [large.index(axes[i]) for i in source]
        if places != list(range(places[0], places[0] + len(places))):
            return None
    order = sorted(blocks, key=lambda block: axes[block[0][0]])
    targets = [j for _, target in order for j in target]
    y = walk.emit(Reshape(tuple(shape[j] for j in targets)), x)
    return _behind([targets.index(j) for j in range(len(shape))], y, walk)


@on(PermuteDims)
def before_reshape(node: Node, walk: Rewriter) -> Value | None:
    """P(reshape(Q(x))) = reshape(R(x)) where P moves whole blocks of the reshape: one permutation for two."""
    reshaped = walk.single(node.inputs[0], Reshape, ExpandDims, Squeeze) if isinstance(node.op, PermuteDims) else None
    first = None if reshaped is None else walk.single(reshaped.inputs[0], PermuteDims)
    if reshaped is None or first is None or not isinstance(node.op, PermuteDims):
        return None
    shape, (source, inner) = first.outputs[0].spec.shape, permuted(first.outputs[0], walk)  # type: ignore[misc]
    blocks = _blocks(shape, reshaped.outputs[0].spec.shape)
    place = inverse([a % len(node.op.axes) for a in node.op.axes])
    for _, target in blocks or ():
        if [place[j] for j in target] != list(range(place[target[0]], place[target[0]] + len(target))):
            return None
    if not blocks:
        return None
    large = [i for block, _ in sorted(blocks, key=lambda b: place[b[1][0]]) for i in block]
    axes = (*large, *(i for i in range(len(shape)) if i not in large))
    y = _behind([inner[a] for a in axes], source, walk)
    return walk.emit(Reshape(node.outputs[0].spec.shape), y)


def _one(n: int) -> bool:
    return type(n) is int and n == 1


def _blocks(a: tuple[int, ...], b: tuple[int, ...]) -> list[tuple[list[int], list[int]]] | None:
    """Runs of dimensions of `a` and of `b` with equal products for all sizes; ones of `b` go with their neighbours."""
    blocks: list[tuple[list[int], list[int]]] = []
    left, right = [i for i, n in enumerate(a) if not _one(n)], list(range(len(b)))
    while left:
        source, target = [left.pop(0)], []
        whole: Any = a[source[0]]
        part: Any = 1
        while not dims.same(whole, part):
            if (int(part) <= int(whole) and right) or not left:
                if not right:
                    return None
                target.append(right.pop(0))
                part = part * b[target[-1]]
            else:
                source.append(left.pop(0))
                whole = whole * a[source[-1]]
        blocks.append((source, target))
    if blocks:
        if any(not _one(b[j]) for j in right):
            return None
        blocks[-1][1].extend(right)
    return blocks


@on(Linear, LinearThen)
def flatten_into_linear(node: Node, walk: Rewriter) -> Value | None:
    """A linear layer on flattened, permuted images: its weights take the order in which the images lie."""
    if not isinstance(node.op, Linear | LinearThen):
        return None
    flat = walk.made_by(node.inputs[0], Reshape)
    found = None if flat is None else permuted(flat.inputs[0], walk)
    weight = walk.constant(node.inputs[1])
    if flat is None or found is None or weight is None or flat.inputs[0] is None:
        return None
    (x, axes), shape = found, flat.inputs[0].spec.shape
    if (
        axes[0] != 0
        or dims.symbolic(shape[1:])
        or not same_shape(flat.outputs[0].spec.shape, (shape[0], int(np.prod(shape[1:]))))
    ):
        return None
    back = inverse(axes)
    cube = weight.reshape(*shape[1:], weight.shape[1]).transpose(*(a - 1 for a in back[1:]), len(shape) - 1)
    rows = walk.emit(Reshape(flat.outputs[0].spec.shape), x)
    moved = walk.capture(cube.reshape(weight.shape), node.inputs[1])
    return walk.emit(node.op, rows, moved, *node.inputs[2:])


RULES: tuple[Rule, ...] = (
    *SIMPLE, before_reshape, behind_one, behind_rounding, behind_several, behind_concat, behind_reduction, behind_axis,
    behind_slice, behind_rows, flatten_into_linear, behind_reshape,
)  # fmt: skip


# -- the pass ----------------------------------------------------------------------------------------------------------
def moved_bytes(program: Program) -> int:
    """Bytes of the arrays that permutations bring into another order (of the example, where sizes are symbolic)."""
    total = 0
    for node in program.nodes:
        x = node.inputs[0] if isinstance(node.op, PermuteDims) else None
        if x is not None and isinstance(node.op, PermuteDims) and not moves_nothing(node.op.axes, x.spec.shape):
            total += x.nbytes
    return total


def sink_permutations(program: Program) -> None:
    """Move permutations towards the outputs, where that leaves fewer bytes to be moved."""
    before, kept = moved_bytes(program), _Kept(program)
    rewrite(program, RULES)
    after = moved_bytes(program)
    if after > before:
        kept.put_back()
    if before:
        log(program, f"permutations move {min(before, after)} bytes instead of {before}")
    rewrite(program, (*SIMPLE, permutation_of_ones))


class _Kept:
    """A program as it is now."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.nodes = [(n, n.inputs) for n in program.nodes]
        self.outputs, self.effects = list(program.outputs), list(program.effects)
        self.captures = list(program.captures)

    def put_back(self) -> None:
        """Undo what was done since."""
        for node, inputs in self.nodes:
            node.inputs = inputs
        self.program.nodes = [n for n, _ in self.nodes]
        self.program.outputs, self.program.effects = self.outputs, self.effects
        self.program.captures = self.captures
