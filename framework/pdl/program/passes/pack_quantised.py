"""Weights of products of bytes, packed once for this CPU."""

from __future__ import annotations

from typing import Any

from pdl.ops.quant import QConv, QConvPacked, QLinear, QLinearPacked
from pdl.program.ir import Node, Program, Value
from pdl.program.passes.rewrite import Rewriter, rewrite


def pack_product(node: Node, walk: Rewriter) -> Value | None:
    """Weights of a product of bytes as this CPU's kernel reads them."""
    op: Any = node.op
    if not isinstance(op, QConv | QLinear):
        return None
    x, w, *rest, residual = node.inputs
    arrays: list[Any] = [walk.constant(v) for v in (w, *rest)]
    if any(a is None and v is not None for a, v in zip(arrays, (w, *rest), strict=True)) or w is None:
        return None
    fields = {n: getattr(op, n) for n in op.fields} | {"outputs": int(w.spec.shape[-1])}
    window = isinstance(op, QConv)
    made = QConvPacked(**fields, kernel=w.spec.shape[:-2]) if window else QLinearPacked(**fields)
    return walk.emit(made, x, walk.capture(op.packed(*arrays), w), residual)


def pack_quantised(program: Program) -> None:
    """Weights of products of bytes, packed once for this CPU; such a program is not stored."""
    rewrite(program, (pack_product,))
