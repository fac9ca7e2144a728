"""From the nodes of a program to those of a graph: each op by its emitter, or by the ops it is composed of."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import contextmanager
from typing import Any

from pdl.errors import PdlError, UsageError
from pdl.export.onnx import (  # noqa: F401 - they fill the table of emitters
    emit_boxes,
    emit_control,
    emit_dense,
    emit_image,
    emit_index,
    emit_math,
    emit_pool,
    emit_quant,
    emit_recurrent,
    emit_reduce,
    emit_shape,
)
from pdl.export.onnx.graph import Graph, onnx_dtype, symbolic
from pdl.export.onnx.no_form import reason_of
from pdl.export.onnx.registry import _NotWritten, emitter_of
from pdl.ops.base import Fused, _quiet
from pdl.program.ir import Node, Program, Value, show_op
from pdl.program.ir import symbolic as symbolic_op
from pdl.program.passes import run_passes
from pdl.program.passes.cleanup import remove_dead
from pdl.program.tracing import Recorder
from pdl.tensor import casting, set_grad_enabled

#: constants computed now may be larger than what they are made of by this many bytes
GROWTH = 1 << 16


def write_nodes(g: Graph, nodes: Sequence[Node]) -> None:
    """Write nodes in order; what has no ONNX form goes into `g.faults`."""
    for node in nodes:
        if not _fold(g, node):
            _write(g, node)


def _write(g: Graph, node: Node) -> None:
    """One node, by its emitter or composed."""
    with _standing_at(g, node):
        name = node.op.op_name
        why = _emitted(g, node)
        if why == "":
            why = reason_of(type(node.op))
            if not why and isinstance(node.op, Fused):
                why = _composed(g, node, node.op)
        if why is not None:
            g.faults.append((f"{name}: {why}" if why else show_op(node.op), g.where))
            for value in node.outputs:  # a name that stands for it, so that the nodes behind are looked at too
                if not g.written(value):
                    g.put(value, g.names.unique("missing"))


@contextmanager
def _standing_at(g: Graph, node: Node) -> Any:
    """Scope, place and outputs of the node being written; nodes inside a composed one stand where it stands."""
    before = g.scope, g.where, g.outputs
    g.scope, g.where, g.outputs = before[0] or node.scope, before[1] or node.where, node.outputs
    yield
    g.scope, g.where, g.outputs = before


def _emitted(g: Graph, node: Node) -> str | None:
    """None where the emitter wrote the node, else why it did not."""
    emitter, mark = emitter_of(type(node.op)), g.mark()
    if emitter is None:
        return ""
    try:
        for value in (*node.inputs, *node.outputs):
            if value is not None:
                onnx_dtype(value.spec.dtype)
        result = emitter(g, node.op, *node.inputs)
    except UsageError as error:
        g.cut_back(mark)
        return str(error)
    if not isinstance(result, _NotWritten):
        entries = result if isinstance(result, tuple) else (result,)
        for value, entry in zip(node.outputs, entries, strict=False):
            g.put(value, entry)
        if all(g.written(v) or not g.readers(v) for v in node.outputs):
            return None
    g.cut_back(mark)
    return ""


def _composed(g: Graph, node: Node, op: Fused) -> str | None:
    """None where the ops that the fused op is composed of were written, else why not."""
    try:
        program = _recorded(g, node, op)
    except PdlError as error:
        return str(error)
    known = len(g.faults)
    for value, count in program.uses().items():
        g.uses[value] = g.uses.get(value, 0) + count
    write_nodes(g, program.nodes)
    inner, g.faults[known:] = g.faults[known:], []
    for value, made in zip(node.outputs, program.outputs, strict=True):
        if made is not None:
            g.same(value, made)
    return "; ".join(dict.fromkeys(name for name, _ in inner)) if inner else None


def _recorded(g: Graph, node: Node, op: Fused) -> Program:
    """The program of `op.compose`, with the node's inputs in the places of its own; outputs that nobody reads are left
    out.
    """
    recorder = Recorder(type(op).__name__)
    with recorder.active(), set_grad_enabled(False), casting(None):
        symbols = [None if v is None else recorder.input(v.spec, "x") for v in node.inputs]
        made = op.compose(*symbols)
        outputs = [recorder.value_of(y) for y in (made if isinstance(made, tuple) else (made,))]
    recorder.program.outputs = [y if g.readers(v) else None for v, y in zip(node.outputs, outputs, strict=True)]
    for symbol, value in zip(symbols, node.inputs, strict=True):
        if symbol is not None and value is not None:
            g.same(symbol.value, value)
    return run_passes(recorder.program, (remove_dead,))


def _fold(g: Graph, node: Node) -> bool:
    """Compute a node whose inputs are known now; its outputs become constants."""
    op, arrays = node.op, [g.array(v) for v in node.inputs]
    changing = op.stateful or op.effect or op.recorded or not arrays or symbolic_op(op)
    if changing or any(a is None and v is not None for a, v in zip(arrays, node.inputs, strict=True)):
        return False
    known: list[Any] = arrays
    size = sum(a.nbytes for a in known if a is not None)
    if any(symbolic(n) for v in node.outputs for n in v.spec.shape) or _bytes(node.outputs) > size + GROWTH:
        return False
    for value, array in zip(node.outputs, _quiet.run(op.run, tuple(known)), strict=True):
        g.put_array(value, array)
    return True


def _bytes(values: Sequence[Value]) -> int:
    return sum(v.nbytes for v in values)
