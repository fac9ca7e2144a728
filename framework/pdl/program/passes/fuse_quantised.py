"""From quantise-dequantise programs to products of bytes.

A program that says QuantizeLinear(f(DequantizeLinear(x), ...)) means: f, on bytes. The rules here write the op that
does it (`pdl.ops.quant`): products with bias, residual and activation, sums, pooling, any function of one number as a
table of 256 bytes; what only moves numbers (a reshape, a slice) moves bytes. What no rule fits stays as it is and is
computed in floats between the two, which is right and slow.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from pdl.dtype import Array, int8, uint8
from pdl.ops.activation import Activation
from pdl.ops.base import OPS, Identity, Op, Spec, _quiet
from pdl.ops.conv import Conv
from pdl.ops.elementwise import Clip
from pdl.ops.index import GetItem
from pdl.ops.inference import ConvThen, LinearThen
from pdl.ops.linalg import Linear, MatMul
from pdl.ops.pad import Pad
from pdl.ops.pool import AdaptiveAvgPool, AvgPool, MaxPool
from pdl.ops.quant import (
    MOST_INPUTS,
    DequantizeLinear,
    QAdd,
    QAvgPool,
    QConv,
    QGlobalMean,
    QLinear,
    QMap,
    QMaxPool,
    QuantizeLinear,
)  # fmt: skip
from pdl.ops.reduce import Mean
from pdl.ops.shape import Concat, ExpandDims, PermuteDims, Reshape, Squeeze
from pdl.ops.table import BinaryOp, UnaryOp
from pdl.program.ir import Node, Program, Value
from pdl.program.passes.fuse_inference import Function, activate_product, add_into_product, function_of
from pdl.program.passes.layout import sink_permutations
from pdl.program.passes.measure import BYTES
from pdl.program.passes.rewrite import Rewriter, Rule, rewrite, same_shape
from pdl.tensor import Tensor

#: activations that products of bytes apply themselves
ACTIVATIONS = ("", "relu", "clip", "hardswish")
PRODUCTS: tuple[type[Op], ...] = (Conv, ConvThen, Linear, LinearThen)
_PRODUCTS = (*PRODUCTS, MatMul)  # that of a matrix of weights is a linear layer
MOVES: tuple[type[Op], ...] = (Reshape, ExpandDims, Squeeze, PermuteDims, GetItem, Identity)
MEANS: tuple[type[Op], ...] = (Mean, AvgPool, AdaptiveAvgPool)
Add = OPS["Add"]


class Bytes(NamedTuple):
    """uint8 values with their scale and zero point."""

    value: Value
    scale: float
    zero: int


def bytes_of(value: Value | None, walk: Rewriter) -> Bytes | None:
    """The bytes that a value is dequantised from."""
    node = walk.made_by(value, DequantizeLinear)
    if node is None or node.inputs[0] is None or node.inputs[0].spec.dtype != uint8:
        return None
    found = _parameters(node, walk)
    return None if found is None else Bytes(node.inputs[0], *found)


def _parameters(node: Node, walk: Rewriter) -> tuple[float, int] | None:
    """Scale and zero point of one whole array, where they are constants."""
    scale, zero = walk.constant(node.inputs[1]), walk.constant(node.inputs[2])
    if scale is None or zero is None or scale.size != 1:
        return None
    return float(scale.reshape(())), int(zero.reshape(()))


def _target(node: Node, walk: Rewriter) -> tuple[Value, float, int] | None:
    """What a QuantizeLinear to uint8 rounds, and its scale and zero point."""
    if not isinstance(node.op, QuantizeLinear) or node.outputs[0].spec.dtype != uint8 or node.inputs[0] is None:
        return None
    found = _parameters(node, walk)
    return None if found is None else (node.inputs[0], *found)


# -- products ----------------------------------------------------------------------------------------------------------
class Weights(NamedTuple):
    """int8 weights, outputs last, and their scales."""

    q: Array
    scale: Array
    like: Value


def weights_of(value: Value | None, walk: Rewriter) -> Weights | None:
    """Constant weights that are dequantised symmetrically, with one scale or one for each output."""
    node = walk.made_by(value, DequantizeLinear)
    if node is None or not isinstance(node.op, DequantizeLinear):
        return None
    q, scale, zero = map(walk.constant, node.inputs)
    if q is None or scale is None or zero is None or q.dtype != int8 or np.any(zero) or q.ndim < 2:
        return None
    if scale.ndim and node.op.axis % q.ndim != q.ndim - 1:
        return None
    if q.size // q.shape[-1] > MOST_INPUTS:
        return None
    assert node.inputs[0] is not None
    return Weights(q, np.array(np.broadcast_to(scale, q.shape[-1:]), np.float32), node.inputs[0])


def floats_of(value: Value | None, walk: Rewriter) -> Array | None:
    """A constant, also one that is stored quantised."""
    node = walk.made_by(value, DequantizeLinear)
    if node is None:
        return walk.constant(value)
    arrays = [walk.constant(v) for v in node.inputs]
    return None if any(a is None for a in arrays) else node.op.run(tuple(arrays))[0]


def integer_bias(b: Array, unit: Array) -> Array | None:
    """b in units of `unit`; None where that leaves half of int32."""
    q = np.rint(b.astype(np.float64) / unit)
    return q.astype(np.int32) if np.abs(q).max(initial=0) < 2**30 else None


def _byte_product(
    node: Node, walk: Rewriter, y_scale: float | None, y_zero: int, then: Function | None = None
) -> Value | None:
    """A product of dequantised inputs as one of bytes, with output y; None where something does not fit."""
    op: Any = node.op
    x, w, b, residual = (*node.inputs, None, None)[:4]
    activation = then or Function(getattr(op, "activation", ""), getattr(op, "parameters", ()))
    left, right = bytes_of(x, walk), weights_of(w, walk)
    other = None if residual is None else bytes_of(residual, walk)
    if left is None or right is None or activation.name not in ACTIVATIONS or (other is None and residual is not None):
        return None
    if isinstance(op, MatMul) and right.q.ndim != 2:
        return None
    fields: dict[str, Any] = {"x_scale": left.scale, "x_zero": left.zero, "y_scale": y_scale, "y_zero": y_zero}
    fields |= {"activation": activation.name, "parameters": activation.parameters}
    bias = None
    if b is not None:
        floats = floats_of(b, walk)
        bias = None if floats is None else integer_bias(floats, right.scale.astype(np.float64) * left.scale)
        if bias is None or bias.shape != right.scale.shape:
            return None
    if other is not None:
        fields |= {"residual_scale": other.scale, "residual_zero": other.zero}
    window = {n: getattr(op, n) for n in ("stride", "padding", "dilation", "groups") if hasattr(op, n)}
    made = QConv(**window, **fields) if window else QLinear(**fields)
    stored = walk.capture(right.q, right.like), walk.capture(right.scale, right.like)
    kept = None if bias is None else walk.capture(bias, right.like)
    return walk.emit(made, left.value, *stored, kept, None if other is None else other.value)


def quantise_product(node: Node, walk: Rewriter) -> Value | None:
    """q(product), q(f(product))."""
    found = _target(node, walk)
    product = None if found is None else walk.single(found[0], *_PRODUCTS)
    return None if found is None or product is None else _byte_product(product, walk, *found[1:])


def product_to_floats(node: Node, walk: Rewriter) -> Value | None:
    """A product of bytes with a result in floats."""
    return _byte_product(node, walk, None, 0) if type(node.op) in _PRODUCTS else None


# -- sums, pooling, functions ------------------------------------------------------------------------------------------
def quantise_sum(node: Node, walk: Rewriter) -> Value | None:
    """q(a + b) and q(f(a + b)), f a ReLU or a clip."""
    found = _target(node, walk)
    if found is None:
        return None
    value, scale, zero = found
    outer, function = walk.single(value, *_functions()), None
    if outer is not None and type(outer.op) is not Add:
        function = function_of(outer.op)
        if function is None or function.name not in ("relu", "clip"):
            return None
        value = outer.inputs[0]  # type: ignore[assignment]
    function = function or Function("", ())
    added = walk.single(value, Add)
    a, b = (None, None) if added is None else [bytes_of(v, walk) for v in added.inputs]
    if a is None or b is None or not same_shape(a.value.spec.shape, b.value.spec.shape):
        return None
    op = QAdd(
        a_scale=a.scale, a_zero=a.zero, b_scale=b.scale, b_zero=b.zero, y_scale=scale, y_zero=zero,
        activation=function.name, parameters=function.parameters,
    )  # fmt: skip
    return walk.emit(op, a.value, b.value)


def _byte_mean(node: Node, walk: Rewriter, y_scale: float | None, y_zero: int) -> Value | None:
    op: Any = node.op
    x = bytes_of(node.inputs[0], walk)
    rank = 0 if x is None else len(x.value.spec.shape)
    if x is None or not 3 <= rank <= 5:
        return None
    fields: dict[str, Any] = {"x_scale": x.scale, "x_zero": x.zero, "y_scale": y_scale, "y_zero": y_zero}
    if isinstance(op, AvgPool):
        return walk.emit(QAvgPool(**{n: getattr(op, n) for n in op.fields}, **fields), x.value)
    if isinstance(op, Mean) and sorted(a % rank for a in op.axes) == list(range(1, rank - 1)):
        return walk.emit(QGlobalMean(keepdims=bool(op.keepdims), **fields), x.value)
    if isinstance(op, AdaptiveAvgPool) and set(op.size) == {1}:
        return walk.emit(QGlobalMean(keepdims=True, **fields), x.value)
    return None


def quantise_mean(node: Node, walk: Rewriter) -> Value | None:
    """q(mean), over windows or over all pixels."""
    found = _target(node, walk)
    mean = None if found is None else walk.single(found[0], *MEANS)
    return None if found is None or mean is None else _byte_mean(mean, walk, *found[1:])


def mean_to_floats(node: Node, walk: Rewriter) -> Value | None:
    """A mean of bytes with a result in floats."""
    return _byte_mean(node, walk, None, 0) if type(node.op) in MEANS else None


def pool_bytes(node: Node, walk: Rewriter) -> Value | None:
    """The maximum of dequantised bytes is the dequantised maximum; where its position is not used."""
    x = bytes_of(node.inputs[0], walk) if isinstance(node.op, MaxPool) else None
    if x is None or not walk.dead(node.outputs[1:]):
        return None
    assert isinstance(node.op, MaxPool)
    y = walk.emit(QMaxPool(**{n: getattr(node.op, n) for n in QMaxPool.fields}), x.value)
    return _dequantised(y, node.inputs[0], walk)


def move_bytes(node: Node, walk: Rewriter) -> Value | None:
    """What moves dequantised numbers moves bytes; weights with a scale for each output can be permuted, and
    reshaped where the outputs stay last."""
    before = walk.made_by(node.inputs[0], DequantizeLinear) if isinstance(node.op, MOVES) else None
    if before is None or not isinstance(before.op, DequantizeLinear):
        return None
    scale, axis = before.inputs[1], before.op.axis
    if scale is None or before.inputs[0] is None:
        return None
    if scale.spec.shape:
        old, new = before.inputs[0].spec.shape, node.outputs[0].spec.shape
        rank = len(old)
        if isinstance(node.op, PermuteDims):
            axis = [a % rank for a in node.op.axes].index(axis % rank)
        elif isinstance(node.op, Reshape) and axis % rank == rank - 1 and new and new[-1] == old[-1]:
            axis = len(new) - 1
        else:
            return None
    return walk.emit(DequantizeLinear(axis), _moved(node.op, before.inputs[0], walk), *before.inputs[1:])


def round_first(node: Node, walk: Rewriter) -> Value | None:
    """What is moved and then rounded is rounded first, next to the op that made it."""
    found = _target(node, walk)
    moved = None if found is None else walk.single(found[0], *MOVES)
    if moved is None or moved.inputs[0] is None or moved.inputs[0].tensor is not None:
        return None
    return walk.emit(moved.op, walk.emit(QuantizeLinear(), moved.inputs[0], *node.inputs[1:]))


def pad_bytes(node: Node, walk: Rewriter) -> Value | None:
    """Zeros around dequantised numbers are zero points around bytes."""
    x = bytes_of(node.inputs[0], walk) if isinstance(node.op, Pad) and node.op.value == 0 else None
    if x is None:
        return None
    assert isinstance(node.op, Pad)
    return _dequantised(walk.emit(Pad(node.op.widths, x.zero), x.value), node.inputs[0], walk)


def _moved(op: Op, q: Value, walk: Rewriter) -> Value:
    """The op on bytes, at once where they are known."""
    array = walk.constant(q)
    return walk.emit(op, q) if array is None else walk.capture(np.array(op.run((array,))[0]), q)


def concat_bytes(node: Node, walk: Rewriter) -> Value | None:
    """q(concat): every part brought to the common scale."""
    found = _target(node, walk)
    joined = None if found is None else walk.single(found[0], Concat)
    parts = [] if joined is None else [bytes_of(v, walk) for v in joined.inputs]
    if found is None or joined is None or not parts or any(p is None for p in parts):
        return None
    return walk.emit(joined.op, *[_rescaled(p, *found[1:], walk) for p in parts if p is not None])


def quantise_again(node: Node, walk: Rewriter) -> Value | None:
    """q(dequantised bytes): the bytes, in another scale where that differs."""
    found = _target(node, walk)
    x = None if found is None else bytes_of(found[0], walk)
    return None if found is None or x is None else _rescaled(x, *found[1:], walk)


def _function_of_bytes(value: Value, walk: Rewriter) -> tuple[Bytes, Callable[[Array], Array]] | None:
    """The bytes that a value is a function of, one number from one number, and that function."""
    x = bytes_of(value, walk)
    if x is not None:
        return x, lambda numbers: numbers
    made = walk.single(value, *_functions())
    known = [] if made is None else [walk.constant(v) for v in made.inputs]
    open_ = [i for i, array in enumerate(known) if array is None or array.size != 1]
    inside = made.inputs[open_[0]] if made is not None and len(open_) == 1 else None
    found = None if inside is None else _function_of_bytes(inside, walk)
    if made is None or found is None:
        return None
    op, inner = made.op, found[1]

    def function(numbers: Array) -> Array:
        ins = [inner(numbers) if array is None else array.reshape(1) for array in known]
        return _quiet.run(op.run, tuple(ins))[0]  # type: ignore[no-any-return]

    return found[0], function


def quantise_function(node: Node, walk: Rewriter) -> Value | None:
    """q(f(x)) and q(f(g(x))) for functions of one number: a table of its 256 values."""
    found = _target(node, walk)
    known = None if found is None or bytes_of(found[0], walk) is not None else _function_of_bytes(found[0], walk)
    if found is None or known is None:
        return None
    x, function = known
    return walk.emit(QMap(), x.value, walk.capture(table_of(function, x.scale, x.zero, *found[1:])))


def _byte_function(value: Value, walk: Rewriter) -> tuple[Value, Array]:
    """Bytes as a table of others: what a QMap reads and its table, or the bytes themselves."""
    made = walk.made_by(value, QMap)
    table = None if made is None else walk.constant(made.inputs[1])
    if made is None or made.inputs[0] is None or table is None:
        return value, np.arange(256, dtype=np.uint8)
    return made.inputs[0], table


def quantise_twice(node: Node, walk: Rewriter) -> Value | None:
    """q(x f(x)) and its like, where both sides are functions of the same bytes: one table. (SiLU and GELU in parts.)"""
    found = _target(node, walk)
    made = None if found is None else walk.single(found[0], *_pairs())
    sides = [] if made is None else [bytes_of(v, walk) for v in made.inputs]
    if found is None or made is None or len(sides) != 2 or any(side is None for side in sides):
        return None
    known = [side for side in sides if side is not None]
    plain = [(side.value, np.arange(256, dtype=np.uint8)) for side in known]
    mapped = [_byte_function(side.value, walk) for side in known]
    for left, right in ((plain[0], mapped[1]), (mapped[0], plain[1]), (mapped[0], mapped[1])):
        if left[0] is right[0]:
            numbers = [_numbers(table, side) for (_, table), side in zip((left, right), known, strict=True)]
            y = _quiet.run(made.op.run, tuple(numbers))[0]
            return walk.emit(QMap(), left[0], walk.capture(_to_bytes(y, *found[1:])))
    return None


def join_maps(node: Node, walk: Rewriter) -> Value | None:
    """A table of a table."""
    if not isinstance(node.op, QMap) or node.inputs[0] is None:
        return None
    x, inner = _byte_function(node.inputs[0], walk)
    outer = walk.constant(node.inputs[1])
    return None if x is node.inputs[0] or outer is None else walk.emit(QMap(), x, walk.capture(outer[inner]))


def table_of(function: Callable[[Array], Array], x_scale: float, x_zero: int, y_scale: float, y_zero: int) -> Array:
    """Bytes of y = function(x) for all 256 bytes of x."""
    x = ((np.arange(256) - x_zero) * np.float64(x_scale)).astype(np.float32)
    return _to_bytes(function(x), y_scale, y_zero)


def _numbers(q: Array, of: Bytes) -> Array:
    """What bytes stand for, in the scale of others."""
    return ((q.astype(np.int64) - of.zero) * np.float64(of.scale)).astype(np.float32)


def _to_bytes(y: Array, scale: float, zero: int) -> Array:
    y = np.nan_to_num(y.astype(np.float64) / scale, nan=-zero)
    return (np.rint(np.clip(y, -zero, 255 - zero)) + zero).astype(np.uint8)


def _rescaled(x: Bytes, scale: float, zero: int, walk: Rewriter) -> Value:
    if (x.scale, x.zero) == (scale, zero):
        return x.value
    return walk.emit(QMap(), x.value, walk.capture(table_of(lambda v: v, x.scale, x.zero, scale, zero)))


def _dequantised(y: Value, like: Value | None, walk: Rewriter) -> Value:
    """Bytes as floats, with the scale of another value."""
    before = walk.made_by(like, DequantizeLinear)
    assert before is not None
    return walk.emit(before.op, y, *before.inputs[1:])


@cache
def _functions() -> tuple[type[Op], ...]:
    """Every op that may be a function of one number."""
    kinds = (UnaryOp, BinaryOp, Activation, Clip)
    return tuple(op for op in OPS.values() if issubclass(op, kinds))


@cache
def _pairs() -> tuple[type[Op], ...]:
    """Every elementwise op of two numbers."""
    return tuple(op for op in OPS.values() if issubclass(op, BinaryOp))


# -- the passes --------------------------------------------------------------------------------------------------------
def activate_known(node: Node, walk: Rewriter) -> Value | None:
    """f(product) for a function that a product of bytes applies itself."""
    function = function_of(node.op)
    return None if function is None or function.name not in ACTIVATIONS else activate_product(node, walk)


def fuse_known(program: Program) -> None:
    """Bias, residual and simple activations into products: what products of bytes take along."""
    rewrite(program, (add_into_product, activate_known))


_TO_BYTES: tuple[Rule, ...] = (
    move_bytes, round_first, pad_bytes, pool_bytes, quantise_product, quantise_sum, quantise_mean, concat_bytes,
    quantise_again, quantise_function, quantise_twice, join_maps,
)  # fmt: skip


def drop_signs(program: Program) -> None:
    """Activations in int8 as uint8 with a zero point 128 higher, where only DequantizeLinear reads them."""
    readers = program.readers()
    for node in program.nodes:
        q, zero = node.outputs[0], node.inputs[2] if len(node.inputs) > 2 else None
        if not isinstance(node.op, QuantizeLinear) or q.spec.dtype != int8 or zero is None or zero.tensor is None:
            continue
        reads = readers.get(q, [])
        if q in program.outputs or not all(isinstance(r.op, DequantizeLinear) and r.inputs[2] is zero for r in reads):
            continue
        moved = Tensor._wrap(np.asarray(zero.tensor._data.astype(np.int16) + 128, np.uint8))
        raised = Value(Spec(moved.shape, uint8), tensor=moved)
        program.captures.append(raised)
        q.spec = Spec(q.spec.shape, uint8)
        for each in (node, *reads):
            each.inputs = (*each.inputs[:2], raised)


def known_floats(node: Node, walk: Rewriter) -> Value | None:
    """Dequantised constants that no product of bytes took, as floats."""
    found = floats_of(node.outputs[0], walk) if isinstance(node.op, DequantizeLinear) else None
    return None if found is None else walk.capture(np.array(found), node.inputs[0])


def fuse_quantised(program: Program) -> None:
    """Products, sums, pooling and functions between DequantizeLinear and QuantizeLinear as ops on bytes."""
    if not any(isinstance(n.op, DequantizeLinear) for n in program.nodes):
        return
    drop_signs(program)
    sink_permutations(program)
    fuse_known(program)
    rewrite(program, _TO_BYTES, BYTES)
    rewrite(program, (product_to_floats, mean_to_floats), BYTES)
    rewrite(program, (known_floats,), BYTES)
