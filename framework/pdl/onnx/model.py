"""What every reader of model files makes: a `Model`, whose graph lies in an order in which it can run; and which
tensors a file may hold.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.errors import UsageError
from pdl.limits import check_time
from pdl.onnx.check import in_order, structure
from pdl.onnx.graph import Graph
from pdl.onnx.values import dtype_named

#: element types that lie two or four to a byte in a file
PACKED = {"uint4": 4, "int4": 4, "float4_e2m1fn": 4, "uint2": 2, "int2": 2}
MOST_AXES = 32
MOST_SIZE = 2**63 - 1  # NumPy counts the bytes of an array so, also where one of its axes has none


@dataclass
class Model:
    """A graph, and what its file says about itself."""

    graph: Graph
    opsets: dict[str, int]
    producer: str = ""
    metadata: dict[str, str] | None = None


def settle(graph: Graph) -> None:
    """Drop what nothing reads of a graph in order; UsageError with all that is wrong with its names."""
    if faults := structure(graph):
        raise UsageError("the graph is damaged:\n" + "\n".join(f"  {fault}" for fault in faults[:40]))
    prune(graph)


def order(graph: Graph, around: set[str]) -> None:
    """Bring the nodes of a graph and of all inside into an order in which they can run."""
    check_time()
    known = around | {p.name for p in graph.inputs} | graph.initialisers.keys()
    graph.nodes = in_order(graph.nodes, known)
    for node in graph.nodes:
        known |= set(node.outputs)
        for inner in node.subgraphs():
            order(inner, known)


def prune(graph: Graph) -> None:
    """Drop nodes and initialisers that nothing reads: what a graph cannot need it need not support."""
    wanted = {p.name for p in graph.outputs}
    kept = []
    for node in reversed(graph.nodes):
        check_time()
        if wanted.intersection(node.outputs):
            for inner in node.subgraphs():
                prune(inner)
            node.outputs = [name if name in wanted else "" for name in node.outputs]
            kept.append(node)
            wanted.update(filter(None, node.inputs))
            for inner in node.subgraphs():
                wanted |= inner.free_names()
    graph.nodes = kept[::-1]
    graph.initialisers = {name: x for name, x in graph.initialisers.items() if name in wanted}


# -- tensors in files -------------------------------------------------------------------------------------------------
def bytes_of(name: str, dtype: Any, count: int) -> int:
    """Bytes that `count` elements take in a file."""
    return -(-count * PACKED[name] // 8) if name in PACKED else count * dtype.itemsize


def unpacked(raw: Array, name: str, count: int) -> Array:
    """Elements of 2 or 4 bits, the lowest first."""
    width = PACKED[name]
    shifts = np.arange(0, 8, width, dtype=np.uint8)
    codes = ((raw[:, None] >> shifts) & (2**width - 1)).reshape(-1)[:count]
    if name.startswith("int"):
        codes = ((codes.astype(np.int16) ^ (1 << (width - 1))) - (1 << (width - 1))).astype(np.int8)
        return codes.astype(dtype_named(name))
    return codes.view(dtype_named(name)) if name.startswith("float") else codes.astype(dtype_named(name))


def fitting(shape: Sequence[int], name: str, nbytes: int, what: str) -> int:
    """How many elements an array of this shape has; UsageError unless they take exactly so many bytes of a file."""
    require_shape(shape, what)
    count = math.prod(shape)
    needed = bytes_of(name, dtype_named(name), count)
    if needed != nbytes:
        raise UsageError(f"{what}: {tuple(shape)} of {name} needs {needed} bytes, there are {nbytes}")
    return count


def require_shape(shape: Sequence[int], what: str) -> None:
    """UsageError for shapes that no array has."""
    shown = f"{tuple(shape[:8])}{'...' if len(shape) > 8 else ''}"
    if len(shape) > MOST_AXES or any(n < 0 for n in shape):
        raise UsageError(f"{what} has the shape {shown}")
    if math.prod(max(n, 1) for n in shape) * 16 > MOST_SIZE:
        raise UsageError(f"{what} has the shape {shown}, of which no array can be")
