"""Norms and per-channel arithmetic around a product, folded into its weights and bias.

    scale (x w + b) + shift  =  x (scale w) + (scale b + shift)
    (scale x + shift) w + b  =  x (scale w) + (b + shift w)

with the products of convolutions for x w; the second holds at a convolution's border only where nothing is padded,
unless shift is 0. Scales and biases are computed in float64.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pdl.dtype import Array, bfloat16
from pdl.ops.base import OPS, Op
from pdl.ops.batchnorm import BatchNormEval
from pdl.ops.conv import Conv, ConvDx
from pdl.ops.linalg import Linear
from pdl.program.ir import Node, Program, Value
from pdl.program.passes.rewrite import Rewriter, on, rewrite, same_spec

Add, Subtract, Multiply, Divide = (OPS[name] for name in ("Add", "Subtract", "Multiply", "Divide"))
_ARITHMETIC: tuple[type[Op], ...] = (Add, Subtract, Multiply, Divide)


class Affine(NamedTuple):
    """x scale + shift over the last axis, in float64; None for 1 and 0."""

    x: Value
    scale: Array | None
    shift: Array | None


def affine_of(node: Node | None, walk: Rewriter) -> Affine | None:
    """What a norm with known statistics, or arithmetic with a constant row, does to its input."""
    if node is None:
        return None
    if isinstance(node.op, BatchNormEval):
        return _norm(node, node.op, walk)
    return _arithmetic(node, walk) if type(node.op) in _ARITHMETIC else None


def _norm(node: Node, op: BatchNormEval, walk: Rewriter) -> Affine | None:
    x, *channels, residual = node.inputs
    arrays = [walk.constant(v) for v in channels]
    if x is None or residual is not None or op.activation is not None:
        return None
    if any(a is None and v is not None for a, v in zip(arrays, channels, strict=True)):
        return None
    mean, var, scale, shift = (None if a is None else a.astype(np.float64) for a in arrays)
    assert mean is not None
    assert var is not None
    factor = 1 / np.sqrt(var + op.eps) * (1 if scale is None else scale)
    return Affine(x, factor, -mean * factor + (0 if shift is None else shift))


def _arithmetic(node: Node, walk: Rewriter) -> Affine | None:
    a, b = node.inputs
    out = node.outputs[0].spec
    if out.dtype.kind != "f" and out.dtype != bfloat16:
        return None
    for x, other in ((a, b), (b, a)) if type(node.op) in (Add, Multiply) else ((a, b),):
        row = row_of(walk.constant(other), out.shape)
        if x is None or row is None or not same_spec(x.spec, out) or walk.constant(x) is not None:
            continue
        if type(node.op) in (Add, Subtract):
            return Affine(x, None, row if type(node.op) is Add else -row)
        return Affine(x, row if type(node.op) is Multiply else 1 / row, None)
    return None


def row_of(array: Array | None, shape: tuple[int, ...]) -> Array | None:
    """A real constant that varies along the last axis at most, as [channels] in float64."""
    if array is None or array.dtype.kind == "c" or not shape or array.ndim > len(shape):
        return None
    if array.size != (array.shape[-1] if array.ndim else 1):
        return None
    if type(shape[-1]) is not int or array.size not in (1, shape[-1]):
        return None
    return np.broadcast_to(array.astype(np.float64).reshape(-1), shape[-1:])


# -- behind a product --------------------------------------------------------------------------------------------------
def norm_behind_product(node: Node, walk: Rewriter) -> Value | None:
    """scale (product + b) + shift, into weights and bias."""
    how = affine_of(node, walk)
    product = None if how is None else walk.single(how.x, Conv, Linear)
    if how is None or product is None:
        return None
    x, w, *rest = product.inputs
    weight, bias = walk.constant(w), walk.constant(rest[0]) if rest else None
    if weight is None or (rest and rest[0] is not None and bias is None):
        return None
    added = np.zeros(weight.shape[-1]) if bias is None else bias.astype(np.float64)
    added = added * (1 if how.scale is None else how.scale) + (0 if how.shift is None else how.shift)
    scaled = w if how.scale is None else walk.capture(_scaled(weight, how.scale), w)
    shift = walk.capture(_rounded(added, weight), (rest[0] if rest else None) or w)
    return walk.emit(product.op, x, scaled, shift)


def scale_behind_transposed(node: Node, walk: Rewriter) -> Value | None:
    """scale (transposed convolution) + shift: the scale into the weights, the shift as a sum."""
    how = affine_of(node, walk)
    product = None if how is None or how.scale is None else walk.single(how.x, ConvDx)
    if how is None or how.scale is None or product is None:
        return None
    x, w = product.inputs
    weight, op = walk.constant(w), product.op
    if weight is None:
        return None
    scale = _per_group(how.scale, weight, op)
    y = walk.emit(op, x, walk.capture(_scaled(weight, scale), w))
    return y if how.shift is None else walk.emit(Add(), y, walk.capture(_rounded(how.shift, weight), w))


@on(BatchNormEval)
def norm_behind_shift(node: Node, walk: Rewriter) -> Value | None:
    """A norm of x + row with known statistics: the row goes into its mean."""
    if not isinstance(node.op, BatchNormEval):
        return None
    how = affine_of(walk.single(node.inputs[0], Add, Subtract), walk)
    mean = walk.constant(node.inputs[1])
    if how is None or how.shift is None or mean is None:
        return None
    moved = walk.capture(_rounded(mean - how.shift, mean), node.inputs[1])
    return walk.emit(node.op, how.x, moved, *node.inputs[2:])


# -- before a product --------------------------------------------------------------------------------------------------
@on(Conv, Linear)
def norm_before_product(node: Node, walk: Rewriter) -> Value | None:
    """product(scale x + shift) + b, into weights and bias."""
    if type(node.op) not in (Conv, Linear):
        return None
    x, w, *rest = node.inputs
    how = affine_of(walk.single(x, BatchNormEval, *_ARITHMETIC), walk)
    weight, bias = walk.constant(w), walk.constant(rest[0]) if rest else None
    if how is None or weight is None or (rest and rest[0] is not None and bias is None):
        return None
    if how.shift is not None and how.shift.any() and any(map(any, getattr(node.op, "padding", ()))):
        return None
    inputs = [how.x, w, *rest]
    if how.shift is not None:
        added = (weight * _per_group(how.shift, weight, node.op)).sum(axis=tuple(range(weight.ndim - 1)))
        total = _rounded(added + (0 if bias is None else bias), weight)
        inputs[2:] = [walk.capture(total, (rest[0] if rest else None) or w)]
    if how.scale is not None:
        inputs[1] = walk.capture(_scaled(weight, _per_group(how.scale, weight, node.op)), w)
    return walk.emit(node.op, *inputs)


def _per_group(row: Array, weight: Array, op: Any) -> Array:
    """Values of the channels that weights [..., C / groups, O] read, shaped to be multiplied with them."""
    groups = getattr(op, "groups", 1)
    columns = row.reshape(groups, -1).T  # [C / groups, groups]
    return np.repeat(columns, weight.shape[-1] // groups, axis=1)


def _scaled(weight: Array, factor: Array) -> Array:
    """weight * factor, the factor in the weight's dtype: float64 would cost four passes over large weights."""
    if weight.dtype.kind != "f":
        return _rounded(weight.astype(np.float64) * factor, weight)
    made: Array = weight * factor.astype(weight.dtype)
    return made


def _rounded(array: Array, like: Array) -> Array:
    return np.asarray(array, dtype=np.float64).astype(like.dtype)


def fold_norms(program: Program) -> None:
    """Norms with known statistics and per-channel arithmetic go into the product before or after them."""
    with np.errstate(all="ignore"):  # weights may hold anything; what comes of it is theirs
        rewrite(program, (norm_behind_product, norm_behind_shift, scale_behind_transposed, norm_before_product))
