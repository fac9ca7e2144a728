"""The stored form of an ONNX graph: JSON for its structure, named arrays for its numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.errors import DataError
from pdl.onnx.graph import Graph, Node, Port
from pdl.onnx.values import dtype_named

#: dtypes that a bundle's weights file holds as they are; others are stored as bytes of the same width
PLAIN = {
    "bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "bfloat16", "float32",
    "float64",
}  # fmt: skip


#: characters of an array's name; a bundle takes no longer ones
LONGEST = 400


class _Writer:
    """Collects arrays under names of their own; equal objects are stored once."""

    def __init__(self) -> None:
        self.arrays: dict[str, Array] = {}
        self._names: dict[int, str] = {}

    def array(self, x: Array, hint: str) -> dict[str, Any]:
        if x.dtype == object:
            return {"strings": [str(v) for v in x.flat], "shape": list(x.shape)}
        if id(x) not in self._names:
            hint = hint[:LONGEST]
            name = hint if hint not in self.arrays else f"{hint}#{len(self.arrays)}"
            self._names[id(x)] = name
            stored = x if x.dtype.name in PLAIN else np.ascontiguousarray(x).view(f"u{x.dtype.itemsize}")
            self.arrays[name] = np.ascontiguousarray(stored).reshape(x.shape)
        name = self._names[id(x)]
        return {"array": name} if x.dtype.name in PLAIN else {"array": name, "dtype": x.dtype.name}

    def graph(self, graph: Graph) -> dict[str, Any]:
        return {
            "name": graph.name,
            "inputs": [_port(p) for p in graph.inputs],
            "outputs": [_port(p) for p in graph.outputs],
            "nodes": [self.node(n) for n in graph.nodes],
            "initialisers": {name: self.array(x, name) for name, x in graph.initialisers.items()},
        }

    def node(self, node: Node) -> dict[str, Any]:
        made: dict[str, Any] = {"op": node.op, "in": node.inputs, "out": node.outputs, "opset": node.opset}
        if node.name:
            made["name"] = node.name
        if node.domain:
            made["domain"] = node.domain
        if node.attributes:
            made["attributes"] = {k: self.value(v, f"{node.name}.{k}") for k, v in node.attributes.items()}
        return made

    def value(self, value: Any, hint: str) -> Any:
        if isinstance(value, Graph):
            return {"graph": self.graph(value)}
        if isinstance(value, np.ndarray):
            return self.array(value, hint)
        if isinstance(value, float) and not np.isfinite(value):
            return {"float": repr(value)}
        return [self.value(v, hint) for v in value] if isinstance(value, list | tuple) else value


def to_dict(graph: Graph) -> tuple[dict[str, Any], dict[str, Array]]:
    """Plain values fit for JSON, and the arrays they refer to by name."""
    writer = _Writer()
    return writer.graph(graph), writer.arrays


def _port(port: Port) -> dict[str, Any]:
    shape = None if port.shape is None else list(port.shape)
    return {"name": port.name, "dtype": port.dtype, "shape": shape, "kind": port.kind}


# -- reading -----------------------------------------------------------------------------------------------------------
def from_dict(data: Mapping[str, Any], weights: Mapping[str, Array]) -> Graph:
    """The graph that `to_dict` wrote; a DataError names what a damaged form lacks."""
    from pdl.onnx.check import require_runnable

    try:
        graph = _graph(data, weights)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise DataError(f"the stored ONNX graph is damaged: {type(error).__name__}: {error}") from None
    require_runnable(graph)
    return graph


def _graph(data: Mapping[str, Any], weights: Mapping[str, Array]) -> Graph:
    return Graph(
        str(data["name"]),
        [_read_port(d) for d in data["inputs"]],
        [_read_port(d) for d in data["outputs"]],
        [_read_node(d, weights) for d in data["nodes"]],
        {str(name): _read_array(name, ref, weights) for name, ref in data["initialisers"].items()},
    )


def _read_array(name: str, ref: Any, weights: Mapping[str, Array]) -> Array:
    found = _read_value(ref, weights)
    if not isinstance(found, np.ndarray):
        raise TypeError(f"initialiser {name!r} is no array")
    return found


def _read_port(data: Mapping[str, Any]) -> Port:
    shape = data["shape"]
    if not (data["dtype"] is None or isinstance(data["dtype"], str)):
        raise TypeError(f"the dtype of {data['name']!r} is no text")
    if not all(n is None or type(n) in (int, str) for n in shape or ()):
        raise TypeError(f"the shape of {data['name']!r} holds {shape}")
    return Port(str(data["name"]), data["dtype"], None if shape is None else tuple(shape), str(data["kind"]))


def _read_node(data: Mapping[str, Any], weights: Mapping[str, Array]) -> Node:
    attributes = {str(k): _read_value(v, weights) for k, v in data.get("attributes", {}).items()}
    inputs, outputs = ([str(name) for name in data[side]] for side in ("in", "out"))
    name, domain = str(data.get("name", "")), str(data.get("domain", ""))
    return Node(str(data["op"]), inputs, outputs, attributes, name, domain, int(data["opset"]))


def _read_value(value: Any, weights: Mapping[str, Array]) -> Any:
    if isinstance(value, list):
        return [_read_value(v, weights) for v in value]
    if not isinstance(value, Mapping):
        return value
    if "graph" in value:
        return _graph(value["graph"], weights)
    if "float" in value:
        return float(value["float"])
    if "strings" in value:
        made = np.empty(len(value["strings"]), object)
        made[:] = value["strings"]
        return made.reshape(value["shape"])
    x = np.asarray(weights[value["array"]])
    return x.view(dtype_named(value["dtype"])) if "dtype" in value else x
