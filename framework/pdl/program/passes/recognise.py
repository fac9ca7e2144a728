"""Activations written in arithmetic, as exporters write them, recognised by their values.

GELU alone has a dozen spellings (factors in any order, erf or tanh, cubes as powers or products). Instead of listing
them, a piece of arithmetic that reads one array and constants is computed in float64 at sample points and compared with
each activation. All ops in it are continuous and few, so two that agree on the grid, on both tails and around their
kinks are the same function, up to the rounding of the constants in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from pdl.dtype import Array, bfloat16
from pdl.kernels.pointwise import unary as unary_kernel
from pdl.ops.activation import (
    Activation,
    Gelu,
    GeluTanh,
    Hardsigmoid,
    Hardswish,
    Hardtanh,
    LeakyRelu,
    Mish,
    Relu,
    Sigmoid,
    Silu,
    Softplus,
    Softsign,
)  # fmt: skip
from pdl.ops.base import Op, _quiet
from pdl.ops.elementwise import Clip
from pdl.ops.table import BinaryOp, UnaryOp
from pdl.program.ir import Node, Program, Value
from pdl.program.passes.rewrite import Rewriter, rewrite, same_spec

MOST = 14  # nodes of one piece of arithmetic
Function = Callable[[Array], Array]
_UNARY = {"negative", "abs", "square", "sqrt", "rsqrt", "reciprocal", "exp", "expm1", "log", "log1p", "tanh", "erf"}
_BINARY = {"add", "subtract", "multiply", "divide", "maximum", "minimum", "pow"}

_FIXED: tuple[Activation, ...] = (
    Relu(), Gelu(), GeluTanh(), Silu(), Hardswish(), Hardsigmoid(), Mish(), Sigmoid(), Softplus(), Softsign(),
)  # fmt: skip


def _leaky(f: Function) -> Activation | None:
    slope = -float(f(np.array([-1.0]))[0])
    return LeakyRelu(slope) if slope < 1 and slope != 0 else None


def _clip(f: Function) -> Activation | None:
    low, high = (float(v) for v in f(np.array([-1e30, 1e30])))
    return Hardtanh(low, high) if -1e20 < low < high < 1e20 else None


# -- the arithmetic in front of a value --------------------------------------------------------------------------------
def _elementwise(node: Node | None) -> bool:
    """Whether a node is continuous arithmetic, element by element, on floats."""
    if node is None or node.outputs[0].spec.dtype not in (bfloat16, np.float32, np.float64):
        return False
    op = node.op
    if isinstance(op, UnaryOp | BinaryOp):
        return op.label in (_UNARY if isinstance(op, UnaryOp) else _BINARY)
    return isinstance(op, Clip | Activation)


def _varying(node: Node, walk: Rewriter) -> list[Value] | None:
    """The inputs that are no single constants; None where one is a constant array."""
    found = []
    for value in node.inputs:
        if value is None or walk.constant(value) is None:
            found.append(value)
        elif walk.scalar(value) is None:
            return None
    return found  # type: ignore[return-value]


def pieces(root: Node, walk: Rewriter) -> Iterator[tuple[Value, list[Node]]]:
    """(x, nodes): what `root` computes as a function of one array x, from the smallest piece to the largest."""
    nodes: list[Node] = []
    front: set[Value] = {root.outputs[0]}
    while len(nodes) < MOST:
        last = max(front, key=walk.place)
        node = root if last is root.outputs[0] else last.node
        if node is None or not _elementwise(node) or (nodes and not same_spec(last.spec, root.outputs[0].spec)):
            return
        inputs = _varying(node, walk)
        if not inputs:
            return
        nodes.append(node)
        front = (front - {last}) | set(inputs)
        if len(front) == 1:
            (x,) = front
            if same_spec(x.spec, root.outputs[0].spec):
                yield x, nodes[::-1]


def _closed(nodes: list[Node], root: Node, walk: Rewriter) -> bool:
    """Whether the intermediate values of the nodes have no use outside."""
    inner = [n.outputs[0] for n in nodes if n is not root]
    return all(walk.uses[v] == sum(n.inputs.count(v) for n in nodes) for v in inner)


def _function(x: Value, nodes: list[Node], walk: Rewriter) -> Function:
    """The piece as a function of an array of float64."""

    def compute(points: Array) -> Array:
        values: dict[Value, Array] = {x: points}
        for node in nodes:
            ins = [values[v] if v in values else np.array(walk.scalar(v)) for v in node.inputs if v is not None]
            values[node.outputs[0]] = _quiet.run(node.op.run, tuple(ins))[0]
        return values[nodes[-1].outputs[0]]

    return compute


# -- comparison --------------------------------------------------------------------------------------------------------
@lru_cache(maxsize=1)
def _points() -> Array:
    """A grid around 0, points between those of any simpler grid, and both tails."""
    tails = np.geomspace(0.013, 80, 40)
    return np.concatenate([np.linspace(-12, 12, 289), np.sin(np.arange(1, 60)) * 7, tails, -tails])


@lru_cache(maxsize=1)
def _far_points() -> Array:
    """Points beyond those, where a clip at the size of an image still is none."""
    tails = np.geomspace(81, 1e30, 120)
    return np.concatenate([tails, -tails])


def _values(op: Activation, points: Array) -> Array:
    """An activation at points."""
    values = np.empty_like(points)
    unary_kernel(op.kernel, values, points, *op.parameters())
    return values


@lru_cache(maxsize=1)
def _table() -> Array:
    """The fixed activations at the points, one a row."""
    return np.stack([_values(op, _points()) for op in _FIXED])


def _close(found: Array, wanted: Array) -> Any:
    """Whether they differ by the rounding of constants only. Where an activation is small, so must the difference be: a
    summand such as 1e-12 keeps a root or a logarithm after it finite; and so does a floor such as max(x, 1e-24), which
    is nowhere 0, a division."""
    size, zero = np.abs(wanted), wanted == 0
    floored = zero.any(-1) & ((found != 0) | ~zero).all(-1)
    return ~floored & (np.abs(found - wanted) <= 2e-6 * size + 2e-7 * np.minimum(1.0, 1e3 * size) + 1e-14).all(-1)


def _named(f: Function) -> Activation | None:
    """The activation that the piece is."""
    found = f(_points())
    if not np.isfinite(found).all():
        return None
    far = f(_far_points())
    finite = np.isfinite(far)  # an exponential may overflow there, which the activation does not

    def stays(op: Activation) -> bool:
        return bool(_close(far[finite], _values(op, _far_points())[finite]))

    row = int(np.argmax(fits := _close(found, _table())))
    if fits[row] and stays(_FIXED[row]):
        return _FIXED[row]
    fitted = (made for fit in (_clip, _leaky) if (made := fit(f)) is not None)
    return next((op for op in fitted if _close(found, _values(op, _points())) and stays(op)), None)


def name_activation(node: Node, walk: Rewriter) -> Value | None:
    """An activation for arithmetic that computes it; the largest piece that is one."""
    best: tuple[Activation, Value] | None = None
    if not _elementwise(node) or not _may_end(node.op):
        return None
    for x, nodes in pieces(node, walk):
        found = _named(_function(x, nodes, walk)) if _closed(nodes, node, walk) else None
        best = best if found is None else (found, x)
    return None if best is None else walk.emit(best[0], best[1])


def _may_end(op: Op) -> bool:
    """Whether a spelling of an activation may end with this op; an activation that has its name already is none."""
    return isinstance(op, BinaryOp) or (isinstance(op, UnaryOp) and op.label in ("log", "log1p", "reciprocal"))


def name_activations(program: Program) -> None:
    """GELU, SiLU, hardswish and others written in arithmetic become one op each."""
    rewrite(program, (name_activation,))
