"""Small ONNX models made by hand, for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="needs the package onnx: pip install onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
node = helper.make_node


def port(name: str, shape: Any = None, kind: int = FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def graph(
    nodes: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any], weights: Mapping[str, Any] | None = None
) -> Any:
    held = [numpy_helper.from_array(np.asarray(v), name) for name, v in (weights or {}).items()]
    return helper.make_graph(list(nodes), "g", list(inputs), list(outputs), held)


def model(
    nodes: Sequence[Any],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    weights: Mapping[str, Any] | None = None,
    *,
    opset: int = 18,
    functions: Sequence[Any] = (),
    domains: Mapping[str, int] | None = None,
) -> bytes:
    """The bytes of a model; outputs may be names."""
    ports = [helper.make_empty_tensor_value_info(y) if isinstance(y, str) else y for y in outputs]
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, v) for d, v in (domains or {}).items())]
    made = helper.make_model(
        graph(nodes, inputs, ports, weights), opset_imports=imports, functions=list(functions), ir_version=8
    )
    return bytes(made.SerializeToString())


def conv_net(opset: int = 18) -> bytes:
    """x [n, 3, h, w] -> conv, relu, pool, conv of stride 2, mean over cells, product: [n, 4]."""
    r = np.random.default_rng(0)
    weights = {
        "w1": r.standard_normal((8, 3, 3, 3)).astype(np.float32),
        "b1": r.standard_normal(8).astype(np.float32),
        "w2": r.standard_normal((8, 1, 3, 3)).astype(np.float32),
        "w3": r.standard_normal((8, 4)).astype(np.float32),
    }
    nodes = [
        node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1]),
        node("Relu", ["c1"], ["r1"]),
        node("MaxPool", ["r1"], ["p1"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", ["p1", "w2"], ["c2"], group=8, strides=[2, 2], pads=[1, 1, 1, 1]),
        node("GlobalAveragePool", ["c2"], ["m"]),
        node("Flatten", ["m"], ["f"]),
        node("MatMul", ["f", "w3"], ["y"]),
    ]
    return model(nodes, [port("x", ["n", 3, "h", "w"])], [port("y", ["n", 4])], weights, opset=opset)


def loop_model() -> bytes:
    """x [k] doubled `turns` times, and the value of each turn as a row."""
    body = graph(
        [node("Add", ["v", "v"], ["next"]), node("Identity", ["next"], ["row"]), node("Identity", ["go"], ["still"])],
        [port("turn", [], INT64), port("go", [], BOOL), port("v", ["k"])],
        [port("still", [], BOOL), port("next", ["k"]), port("row", ["k"])],
    )
    nodes = [node("Loop", ["turns", "", "x"], ["y", "rows"], body=body)]
    return model(nodes, [port("turns", [], INT64), port("x", ["k"])], [port("y", ["k"]), port("rows", ["t", "k"])])
