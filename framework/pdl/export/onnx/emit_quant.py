"""Between floats and bytes: the two ops that quantised ONNX models are written in."""

from __future__ import annotations

from pdl.export.onnx.graph import Graph
from pdl.export.onnx.registry import Result, emits
from pdl.ops.quant import DequantizeLinear, QuantizeLinear
from pdl.program.ir import Value


@emits(QuantizeLinear, DequantizeLinear)
def linear(g: Graph, op: QuantizeLinear | DequantizeLinear, x: Value, scale: Value, zero: Value) -> Result:
    """The operator of the same name; one scale for all, or one for each slice along an axis."""
    numbers, kind = (g.plain(scale), g.plain(zero)), type(op).__name__
    if scale.spec.shape == ():
        name, wrap = g.either(x)
        return wrap(g.node(kind, name, *numbers))
    name, axis, wrap = g.axis(x, op.axis)
    return wrap(g.node(kind, name, *numbers, axis=axis))
