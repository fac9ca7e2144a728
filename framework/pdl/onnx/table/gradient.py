"""The op `Gradient`: derivatives of a value of the graph, by pdl's own tape.

`pdl.onnx.reader` hands the node the part of the graph between its `xs` and `y` as a subgraph. What a table function
computes in NumPy leaves no trace on the tape, so only ops that are known to stay on it may stand there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pdl.errors import UsageError
from pdl.limits import check_time
from pdl.onnx.registry import Context, NeedsValue, onnx_op
from pdl.onnx.values import is_known, tensor
from pdl.tensor import Tensor, set_grad_enabled

if TYPE_CHECKING:
    from pdl.onnx.graph import Graph, Node

DOMAIN = "ai.onnx.preview.training"
#: ops whose table functions consist of pdl's ops for floats
ON_TAPE = frozenset(
    (
        "Abs", "Add", "Conv", "Cos", "Div", "Exp", "Gemm", "Identity", "Log", "MatMul", "Mul", "Neg", "Reciprocal",
        "ReduceMean", "ReduceSum", "Relu", "Reshape", "Sigmoid", "Sin", "Sqrt", "Sub", "Sum", "Tanh", "Transpose",
    )
)  # fmt: skip


@onnx_op("Gradient", domain=DOMAIN)
def _gradient(ctx: Context, *inputs: Any, xs: Any, y: str, zs: Any = (), graph: Any = None) -> Any:
    """dy/dx for each of `xs`."""
    if graph is None or not is_known(*inputs):
        raise NeedsValue(f"{ctx.node.label()} is computed by the interpreter")
    given = [Tensor(tensor(x)._data, requires_grad=i < len(xs)) for i, x in enumerate(inputs)]
    with set_grad_enabled(True):
        (made,) = ctx.call(graph, given)
        tensor(made).sum().backward()
    grads = [x.grad for x in given[: len(xs)]]
    if None in grads:
        raise UsageError(f"{ctx.node.label()}: {y!r} does not depend on {xs[grads.index(None)]!r}")
    return tuple(g._data for g in grads if g is not None)


def close_gradients(graph: Graph) -> None:
    """Give every `Gradient` node the part of the graph that leads from its `xs` and `zs` to `y`."""
    for node in graph.nodes:
        if (node.domain, node.op) == (DOMAIN, "Gradient") and "graph" not in node.attributes:
            names = [*node.attributes.get("xs", ()), *node.attributes.get("zs", ())]
            node.attributes["graph"] = _between(graph, node, names, str(node.attributes.get("y", "")))


def _between(graph: Graph, node: Node, names: Sequence[str], y: str) -> Graph:
    from pdl.onnx.graph import Graph, Port

    wanted, kept = {y} - set(names), []
    for other in reversed(graph.nodes):
        check_time()
        if wanted.intersection(other.outputs):
            if other.op not in ON_TAPE or other.domain:
                raise UsageError(f"{node.label()}: the gradient of {other.label()} is not supported")
            kept.append(replace(other, outputs=list(other.outputs)))
            wanted |= set(filter(None, other.inputs)) - set(names)
            wanted -= set(other.outputs)
    return Graph("gradient", [Port(n) for n in names], [Port(y)], kept[::-1])
