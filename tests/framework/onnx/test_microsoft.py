"""Ops of com.microsoft: what ONNX Runtime's optimiser and quantiser write, against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from pdl.errors import UsageError
from pdl.onnx import load_model
from pdl.runtime import Session

from .building import conv_net, helper, model, node, port

runtime = pytest.importorskip("onnxruntime")
R = np.random.default_rng(7)


def f(*shape: int) -> Any:
    return R.standard_normal(shape).astype(np.float32)


def u(*shape: int) -> Any:
    """Bytes; of signed weights ONNX Runtime saturates sums of two products on CPUs without VNNI."""
    return R.integers(0, 256, shape).astype(np.uint8)


def q(scale: float = 0.02, zero: int = 128) -> tuple[Any, Any]:
    return np.float32(scale), np.uint8(zero)


IMAGE, WIDE = (2, 3, 8, 6), (2, 4, 8)
MASK = np.array([[1, 1, 1, 0], [1, 1, 1, 1]], np.int32)
#: (op, inputs: the first is fed, the others are constants, attributes, outputs that are compared)
NODES: list[tuple[str, list[Any], Mapping[str, Any], list[int]]] = [
    *[("FusedConv", [f(*IMAGE), f(4, 3, 3, 3), f(4)], {"activation": a, "pads": [1] * 4, **p}, [0])
      for a, p in (("Relu", {}), ("Sigmoid", {}), ("Tanh", {}), ("LeakyRelu", {"activation_params": [0.2]}),
                   ("Clip", {"activation_params": [-0.5, 0.7]}), ("HardSigmoid", {"activation_params": [0.3, 0.4]}))],
    ("FusedConv", [f(*IMAGE), f(4, 3, 3, 3), f(4), f(2, 4, 3, 2)], {"activation": "Relu", "strides": [2, 2]}, [0]),
    ("FusedGemm", [f(3, 5), f(4, 5), f(4)], {"activation": "Relu", "transB": 1, "alpha": 0.5}, [0]),
    ("FusedGemm", [f(3, 5), f(5, 4), f(4)], {"activation": "LeakyRelu", "activation_alpha": 0.3}, [0]),
    *[("FusedMatMul", [f(*a), f(*b)], how, [0]) for a, b, how in (
        ((2, 3, 5), (2, 4, 5), {"transB": 1, "alpha": 0.3}), ((2, 5, 3), (2, 5, 4), {"transA": 1}),
        ((3, 2, 5), (2, 5, 4), {"transBatchA": 1}), ((2, 3, 5), (5, 2, 4), {"transBatchB": 1}))],
    ("Gelu", [f(3, 4)], {}, [0]), ("BiasGelu", [f(3, 4), f(4)], {}, [0]), ("FastGelu", [f(3, 4), f(4)], {}, [0]),
    ("FastGelu", [f(3, 4)], {}, [0]), ("QuickGelu", [f(3, 4)], {"alpha": 1.702}, [0]),
    ("SkipLayerNormalization", [f(*WIDE), f(*WIDE), f(8), f(8), f(8)], {"epsilon": 1e-5}, [0, 3]),
    ("SkipLayerNormalization", [f(*WIDE), f(*WIDE), f(8)], {}, [0]),
    ("SkipSimplifiedLayerNormalization", [f(*WIDE), f(*WIDE), f(8)], {"epsilon": 1e-5}, [0, 3]),
    ("EmbedLayerNormalization",
     [R.integers(0, 9, (2, 4)).astype(np.int32), R.integers(0, 2, (2, 4)).astype(np.int32), f(9, 8), f(6, 8), f(2, 8),
      f(8), f(8), MASK], {"epsilon": 1e-5}, [0, 1]),
    ("Attention", [f(*WIDE), f(8, 24), f(24)], {"num_heads": 2}, [0]),
    ("Attention", [f(*WIDE), f(8, 24), f(24), MASK], {"num_heads": 4}, [0]),
    ("Attention", [f(*WIDE), f(8, 24), f(24), np.array([3, 4], np.int32)], {"num_heads": 4}, [0]),
    ("Attention", [f(*WIDE), f(8, 24), f(24)], {"num_heads": 2, "unidirectional": 1, "scale": 0.4}, [0]),
    ("Attention", [f(*WIDE), f(8, 24), f(24), None, f(2, 2, 2, 3, 4)], {"num_heads": 2}, [0, 1]),
    ("MultiHeadAttention", [f(*WIDE), f(*WIDE), f(*WIDE), f(24)], {"num_heads": 2}, [0]),
    ("MultiHeadAttention", [f(*WIDE), f(2, 4, 8), f(2, 4, 8), None, MASK], {"num_heads": 2}, [0]),
    ("MultiHeadAttention", [f(*WIDE), f(2, 5, 8), f(2, 5, 8), None, None, f(1, 2, 4, 5)], {"num_heads": 2}, [0]),
    *[(f"QLinear{op}", [u(3, 4), *q(), u(*b), *q(0.03, 100), *q(0.05, 90)], {}, [0])
      for op, b in (("Add", (3, 4)), ("Mul", (4,)), ("Add", ()))],
    ("QLinearConcat", [u(2, 3), *q(), u(2, 4), *q(0.01, 7)], {"axis": 1}, [0]),
    ("QLinearLeakyRelu", [u(3, 4), *q(), *q(0.03, 50)], {"alpha": 0.1}, [0]),
    ("QLinearSigmoid", [u(3, 4), *q(), *q(1 / 256, 0)], {}, [0]),
    ("QLinearSoftmax", [u(3, 4), *q(), *q(1 / 256, 0)], {"opset": 13, "axis": -1}, [0]),
    ("QLinearGlobalAveragePool", [u(2, 3, 5, 4), *q(), *q(0.01, 120)], {}, [0]),
    ("QLinearAveragePool", [u(2, 3, 6, 4), *q(), *q(0.01, 120)], {"kernel_shape": [2, 2], "strides": [2, 2]}, [0]),
    ("QGemm", [u(3, 5), *q(), u(5, 4), *q(0.01, 100), R.integers(-99, 99, 4).astype(np.int32), *q(0.05, 100)], {}, [0]),
    ("MatMulIntegerToFloat", [u(3, 5), u(5, 4), np.float32(0.02), np.float32(0.01), np.uint8(128), np.uint8(90), f(4)],
     {}, [0]),
    ("DynamicQuantizeMatMul", [f(3, 5), u(5, 4), np.float32(0.01), np.uint8(90), f(4)], {}, [0]),
    ("NhwcMaxPool", [u(2, 6, 4, 3)], {"kernel_shape": [2, 2], "strides": [2, 2]}, [0]),
]  # fmt: skip


def made(op: str, inputs: list[Any], attributes: Mapping[str, Any], outputs: list[int]) -> tuple[bytes, dict[str, Any]]:
    """A model of one node whose first input is fed with a dynamic first axis."""
    at = 2 if op == "QLinearConcat" else 0
    inputs = [*q(0.03, 60), *inputs] if op == "QLinearConcat" else inputs
    names = [f"x{i}" if x is not None else "" for i, x in enumerate(inputs)]
    held = {n: x for i, (n, x) in enumerate(zip(names, inputs, strict=True)) if x is not None and i != at}
    fed = inputs[at]
    results = [f"y{i}" if i in outputs else "" for i in range(max(outputs) + 1)]
    kind = helper.np_dtype_to_tensor_dtype(fed.dtype)
    body = node(op, names, results, domain="com.microsoft", **attributes)
    data = model([body], [port(names[at], list(fed.shape), kind)], list(filter(None, results)), held, opset=17,
                 domains={"com.microsoft": 1})  # fmt: skip
    return data, {names[at]: fed}


@pytest.mark.parametrize("case", NODES, ids=[f"{op}-{i}" for i, (op, *_) in enumerate(NODES)])
def test_a_node_agrees_with_onnx_runtime_as_a_program(case: Any) -> None:
    data, feed = made(*case)
    expected = runtime.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, feed)
    imported = load_model(data)
    assert imported.program is not None, imported.notes
    for answers in (Session.of(imported.program).run(feed), imported.graph.run(feed)):
        for y, want in zip(answers.values(), expected, strict=True):
            assert y.dtype == want.dtype
            step = 1.01 if want.dtype == np.uint8 else 1e-4  # halves may round to the other side
            assert_allclose(y.astype(np.float64), want.astype(np.float64), rtol=1e-4, atol=step)


@pytest.mark.parametrize("level", ["ORT_ENABLE_BASIC", "ORT_ENABLE_EXTENDED"])
def test_what_the_optimiser_saves_is_a_program(level: str, tmp_path: Path) -> None:
    options = runtime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "saved.onnx")
    options.graph_optimization_level = getattr(runtime.GraphOptimizationLevel, level)
    session = runtime.InferenceSession(conv_net(), options, providers=["CPUExecutionProvider"])
    imported = load_model(tmp_path / "saved.onnx")
    assert imported.program is not None, imported.notes
    x = f(2, 3, 9, 13)
    (y,) = Session.of(imported.program).run({"x": x}).values()
    assert_allclose(y, session.run(None, {"x": x})[0], rtol=1e-4, atol=1e-5)


def test_unknown_ops_take_a_line_a_kind() -> None:
    nodes = [node("Riddle", [f"v{i}"], [f"v{i + 1}"], domain="com.microsoft") for i in range(30)]
    data = model([*nodes, node("Puzzle", ["v30"], ["y"])], [port("v0", [2])], ["y"], domains={"com.microsoft": 1})
    with pytest.raises(UsageError) as said:
        load_model(data)
    assert str(said.value).splitlines()[1:] == [
        "  com.microsoft.Riddle 'v1' and 29 more: pdl does not have this op",
        "  Puzzle 'y': pdl does not have this op",
    ]
