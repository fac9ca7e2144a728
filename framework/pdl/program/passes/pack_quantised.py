"""Weights of products of bytes, packed once for this CPU, and the form of every convolution: the one that is estimated
to take least time. All forms give the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pdl import machine
from pdl.dtype import Array, uint8
from pdl.kernels import runtime
from pdl.ops.quant import QConv, QConvPacked, QLinear, QLinearPacked, sums_fit
from pdl.program.ir import Node, Program, Value
from pdl.program.passes.costs import Product
from pdl.program.passes.costs_quantised import byte_estimates
from pdl.program.passes.log import log, wanted
from pdl.program.passes.rewrite import Rewriter, rewrite

#: op, form, weights, scales and bias -> packed weights
Packer = Callable[[Any, str, "list[Any]"], Array]


def form_of(node: Node, w: Array, program: Program, held: int) -> str:
    """The form of a convolution with weights w that takes least time."""
    op: Any = node.op
    x, y = node.inputs[0], node.outputs[0].spec
    assert x is not None
    if not isinstance(op, QConv) or op.groups != 1 or 0 in y.shape:
        return "rows"
    product = Product(uint8, x.spec.shape, w.shape, y.shape, op.stride, op.padding, op.dilation)
    threads = runtime.num_threads()
    seconds = byte_estimates(product, machine.current(False), threads, held)
    form = min((f for f in seconds if sums_fit(w, f)), key=seconds.__getitem__)
    if wanted() and len(seconds) > 1:
        each = ", ".join(f"{name} {1e6 * took:.1f}" for name, took in seconds.items())
        log(program, f"{product}: {form}; estimated on {threads} threads, microseconds: {each}")
    return form


def pack_quantised(program: Program, packer: Packer) -> None:
    """Weights of products of bytes as this CPU's kernels read them; such a program is not stored."""
    held = sum(value.nbytes for value in program.captures)

    def pack_product(node: Node, walk: Rewriter) -> Value | None:
        op: Any = node.op
        if not isinstance(op, QConv | QLinear):
            return None
        x, w, *rest, residual = node.inputs
        arrays: list[Any] = [walk.constant(v) for v in (w, *rest)]
        if any(a is None and v is not None for a, v in zip(arrays, (w, *rest), strict=True)) or w is None:
            return None
        fields: dict[str, Any] = {n: getattr(op, n) for n in op.fields} | {"outputs": int(w.spec.shape[-1])}
        form = form_of(node, arrays[0], program, held)
        if isinstance(op, QConv):
            made: Any = QConvPacked(**fields, kernel=w.spec.shape[:-2], form=form)
        else:
            made = QLinearPacked(**fields)
        return walk.emit(made, x, walk.capture(packer(op, form, arrays), w), residual)

    rewrite(program, (pack_product,))
