"""From an ONNX graph to a program: the interpreter's walk over the nodes, on symbols instead of values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pdl.dtype import Array, float32
from pdl.onnx.graph import Beginning, Graph, Port, check_shape
from pdl.onnx.registry import NeedsValue
from pdl.onnx.values import dtype_named, float16, is_tensor_dtype, tensor
from pdl.ops.base import Spec
from pdl.program.ir import Program, Value
from pdl.program.tracing import Recorder
from pdl.program.verify import verify
from pdl.tensor import set_grad_enabled


def spec_of(port: Port, shape: Sequence[int]) -> Spec:
    """What a program takes for an input of the graph; `NeedsValue` for dtypes that no tensor has, ShapeError for shapes
    that its declaration excludes."""
    dtype = dtype_named(port.dtype or "float32")
    dtype = float32 if dtype == float16 else dtype
    if port.kind != "tensor" or not is_tensor_dtype(dtype):
        raise NeedsValue(f"input {port.name!r} is a {port.dtype if port.kind == 'tensor' else port.kind}")
    check_shape(port, shape)
    return Spec(tuple(shape), dtype)


def trace(graph: Graph, shapes: Mapping[str, Sequence[int]], *, values: Mapping[str, Array] | None = None) -> Program:
    """The program of a graph for inputs of these shapes, whose sizes may be symbolic (`pdl.dims`).

    values   inputs whose values are constants of the program: they decide shapes or branches

    Raises NeedsValue where other values decide, UsageError where the graph does not take the shapes.
    """
    recorder = Recorder(graph.name or "onnx")
    values = values or {}
    with recorder.active(), set_grad_enabled(False):
        inputs: list[Any] = [
            values[p.name] if p.name in values else recorder.input(spec_of(p, shapes[p.name]), p.name)
            for p in graph.inputs
        ]
        made = graph.interpreter.run(inputs)
        for port, value in zip(graph.outputs, made, strict=True):
            if value is None or isinstance(value, list):
                raise NeedsValue(f"output {port.name!r} is no tensor")
            if isinstance(value, np.ndarray) and not (is_tensor_dtype(value.dtype) or value.dtype in (object, float16)):
                raise NeedsValue(f"output {port.name!r} is {value.dtype.name}")
            recorder.program.outputs.append(recorder.value_of(tensor(value)))
    return verify(recorder.program)


def trace_beginning(graph: Graph, shapes: Mapping[str, Sequence[int]]) -> tuple[Program, Graph]:
    """The program of what needs no values, for inputs of these shapes, and the graph of the rest, which takes its
    outputs.

    Raises NeedsValue where nothing can be computed before values are known.
    """
    recorder = Recorder(graph.name or "onnx")
    with recorder.active(), set_grad_enabled(False):
        frame = Beginning(
            graph.interpreter, graph, [recorder.input(spec_of(p, shapes[p.name]), p.name) for p in graph.inputs]
        )
        frame.run()
        rest, made = frame.rest()
        recorder.program.outputs = [recorder.value_of(value) for value in made]
    if all(v is None or v.node is None for v in recorder.program.outputs):
        raise NeedsValue("its first nodes need values")
    return verify(recorder.program), rest


# -- is a program right at other sizes? --------------------------------------------------------------------------------
def difference(a: Program, b: Program) -> str:
    """What tells two programs of one graph apart, in a line; empty where they compute the same."""
    if len(a.nodes) != len(b.nodes):
        return f"{len(a.nodes)} nodes, not {len(b.nodes)}"
    number: dict[Value, Any] = {}
    other: dict[Value, Any] = {}
    for mine, theirs in ((a, number), (b, other)):
        theirs.update({v: ("in", i) for i, v in enumerate(mine.inputs)})
        theirs.update({v: ("at", i, k) for i, n in enumerate(mine.nodes) for k, v in enumerate(n.outputs)})
    for x, y in zip(a.nodes, b.nodes, strict=True):
        where = f" at {x.where}" if x.where else ""
        if x.op != y.op or _plain_specs(x.outputs) != _plain_specs(y.outputs):
            return f"{x.op!r}{where}, not {y.op!r}"
        if len(x.inputs) != len(y.inputs) or not all(
            _same(p, q, number, other) for p, q in zip(x.inputs, y.inputs, strict=True)
        ):
            return f"other inputs of {type(x.op).__name__}{where}"
    for p, q in zip(a.outputs, b.outputs, strict=True):
        if not _same(p, q, number, other):
            return "other outputs"
    return ""


def _plain_specs(values: Sequence[Value]) -> list[tuple[tuple[int, ...], Any]]:
    return [(tuple(map(int, v.spec.shape)), v.spec.dtype) for v in values]


def _same(p: Value | None, q: Value | None, number: dict[Value, Any], other: dict[Value, Any]) -> bool:
    """Whether two values are the same input, output of the same node, or constants of equal content."""
    if p is None or q is None:
        return p is q
    if p.tensor is None or q.tensor is None:
        return p.tensor is q.tensor and number[p] == other[q]
    x, y = p.tensor._data, q.tensor._data
    return x is y or (x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes())
