"""What follows a product goes into its epilogue: bias, residual, activation, done to a tile that is in registers."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from pdl.dims import symbolic
from pdl.kernels.pointwise import UNARY
from pdl.ops.activation import Activation
from pdl.ops.base import OPS, Op
from pdl.ops.conv import Conv
from pdl.ops.elementwise import Clip
from pdl.ops.inference import ConvThen, LinearThen
from pdl.ops.linalg import Linear
from pdl.ops.pad import Pad
from pdl.ops.shape import ExpandDims, Reshape, Squeeze
from pdl.ops.table import UnaryOp
from pdl.program.ir import Node, Program, Value
from pdl.program.passes.affine import row_of
from pdl.program.passes.fuse import apply_rules, norm_plus_residual, norm_then_activation, sum_then_layer_norm
from pdl.program.passes.rewrite import Rewriter, on, rewrite, same_spec

Add = OPS["Add"]
_PRODUCTS: tuple[type[Op], ...] = (Conv, Linear, ConvThen, LinearThen)


class Function(NamedTuple):
    """A function of `UNARY` with its parameters."""

    name: str
    parameters: tuple[float, ...]


def function_of(op: Op) -> Function | None:
    """The kernel's name for an elementwise op of one input."""
    if isinstance(op, Activation):
        return Function(op.kernel, op.parameters())
    if isinstance(op, UnaryOp) and op.label in UNARY:
        return Function(op.label, ())
    if isinstance(op, Clip):
        low, high = (-math.inf if op.min is None else op.min), (math.inf if op.max is None else op.max)
        if isinstance(low, int | float) and isinstance(high, int | float):
            return Function("clip", (float(low), float(high)))
    return None


_IDENTITY = Function("", ())


class _Product(NamedTuple):
    """A product as x, w, b, residual and what follows."""

    op: Any
    inputs: tuple[Value | None, ...]

    @property
    def open(self) -> bool:
        """No activation follows so far."""
        return not getattr(self.op, "activation", "")

    def then(self, walk: Rewriter, function: Function = _IDENTITY, **more: Value | None) -> Value:
        """The product with more in its epilogue."""
        x, w, b, residual = self.inputs
        b, residual = more.get("b", b), more.get("residual", residual)
        op, plain = self.op, residual is None and not function.name
        inputs = (x, w, b) if plain else (x, w, b, residual)
        if isinstance(op, Linear | LinearThen):
            return walk.emit(Linear() if plain else LinearThen(*function), *inputs)
        window = (op.stride, op.padding, op.dilation, op.groups)
        return walk.emit(Conv(*window) if plain else ConvThen(*window, *function), *inputs)


def _product(value: Value | None, walk: Rewriter) -> _Product | None:
    """The product that made a value which has no other use."""
    node = walk.single(value, *_PRODUCTS)
    if node is None or node.outputs[0].spec.dtype.kind == "c":
        return None
    return _Product(node.op, (*node.inputs, None, None)[:4])


@on(Conv)
def pad_into_convolution(node: Node, walk: Rewriter) -> Value | None:
    """conv(pad(x)) with zeros around the image: the padding of the convolution itself."""
    op = node.op
    pad = walk.made_by(node.inputs[0], Pad) if isinstance(op, Conv) else None
    if pad is None or not isinstance(pad.op, Pad) or not isinstance(op, Conv) or pad.op.value != 0:
        return None
    first, *widths, last = pad.op.widths
    if first != (0, 0) or last != (0, 0) or symbolic(tuple(widths)):
        return None
    padding = tuple((a + c, b + d) for (a, b), (c, d) in zip(op.padding, widths, strict=True))
    return walk.emit(Conv(op.stride, padding, op.dilation, op.groups), pad.inputs[0], *node.inputs[1:])


# -- rules -------------------------------------------------------------------------------------------------------------
@on(Add)
def add_into_product(node: Node, walk: Rewriter) -> Value | None:
    """product + row as its bias, product + array as its residual."""
    if type(node.op) is not Add:
        return None
    out = node.outputs[0].spec
    pairs = [(a, b) for a, b in (node.inputs, node.inputs[::-1]) if a is not None and a is not b]
    for a, b in sorted(pairs, key=lambda pair: -walk.place(pair[0])):  # what is made last has its residual at hand
        product = _product(a, walk)
        if product is None or a is None or b is None or not product.open or not same_spec(a.spec, out):
            continue
        row = row_of(walk.constant(b), out.shape)
        if row is not None and product.inputs[2] is None:
            return product.then(walk, b=walk.capture(row.astype(out.dtype), b))
        if product.inputs[3] is None and same_spec(b.spec, out):
            return product.then(walk, residual=b)
    return None


def activate_product(node: Node, walk: Rewriter) -> Value | None:
    """f(product), and f(reshape(product)) as reshape(f(product))."""
    function = function_of(node.op)
    if function is None:
        return None
    reshaped = walk.single(node.inputs[0], Reshape, ExpandDims, Squeeze)
    product = _product(node.inputs[0] if reshaped is None else reshaped.inputs[0], walk)
    if product is None or not product.open:
        return None
    value = product.then(walk, function)
    return value if reshaped is None else walk.emit(Reshape(node.outputs[0].spec.shape), value)


def fuse_epilogues(program: Program) -> None:
    """Padding, bias, residual and activation into products and norms; a sum into the layer norm after it."""
    rewrite(program, (pad_into_convolution, add_into_product, activate_product))
    apply_rules(program, (norm_plus_residual, norm_then_activation, sum_then_layer_norm))
