"""Nodes that ONNX's own suite does not cover, against ONNX Runtime: older forms, rarer attributes, rims of images."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from pdl.errors import UsageError
from pdl.onnx import load_model
from pdl.onnx.reader import read
from pdl.runtime import Session

from .building import graph, helper, model, node, port

rng = np.random.default_rng(5)


def f(*shape: int) -> Any:
    return rng.standard_normal(shape).astype(np.float32)


def ints(*values: int) -> Any:
    return np.array(values, np.int64)


def floats(*values: float) -> Any:
    return np.array(values, np.float32)


WINDOWS = {"kernel_shape": [3, 2], "strides": [2, 3], "pads": [1, 0, 1, 1]}
#: (op, opset, inputs: the first is fed, the others are constants, attributes)
NODES: list[tuple[str, int, list[Any], Mapping[str, Any]]] = [
    ("AveragePool", 19, [f(2, 3, 7, 8)], {**WINDOWS, "ceil_mode": 1, "count_include_pad": 1}),
    ("AveragePool", 19, [f(1, 2, 9, 9)], {"kernel_shape": [2, 2], "dilations": [3, 2], "pads": [1, 1, 0, 0]}),
    ("BitwiseXor", 18, [np.arange(6, dtype=np.int32), np.arange(6, dtype=np.int32)[::-1].copy()], {}),
    ("Clip", 6, [f(4, 5)], {"min": -0.5, "max": 0.3}),
    ("Conv", 11, [f(1, 4, 9, 8), f(6, 2, 3, 3)], {"group": 2, "auto_pad": "SAME_LOWER", "strides": [2, 1]}),
    ("ConvTranspose", 11, [f(1, 4, 5, 4), f(4, 2, 3, 2)], {"strides": [2, 3], "output_padding": [1, 2], "group": 2}),
    ("DequantizeLinear", 13, [ints(3, 0, -9, 7).astype(np.int8), abs(f(4)), np.zeros(4, np.int8)], {"axis": 0}),
    ("Gather", 13, [f(3, 4), ints(-1, 0)], {"axis": 1}),
    ("GridSample", 16, [f(2, 3, 4, 5), f(2, 3, 3, 2)], {"mode": "bicubic", "padding_mode": "reflection"}),
    ("GRU", 14, [f(4, 2, 3), f(2, 12, 3), f(2, 12, 4), f(2, 24)],
     {"hidden_size": 4, "direction": "bidirectional", "clip": 0.7}),
    ("Hardmax", 11, [f(2, 3, 4)], {"axis": 1}),
    ("LogSoftmax", 11, [f(2, 3, 4)], {"axis": 1}),
    ("LpPool", 18, [f(1, 2, 7, 8)], {**WINDOWS, "p": 3}),
    ("LSTM", 14, [f(4, 2, 3), f(1, 16, 3), f(1, 16, 4), f(1, 32), None, None, None, f(1, 12)],
     {"hidden_size": 4, "direction": "reverse", "activations": ["HardSigmoid", "Softsign", "Relu"]}),
    ("Mod", 13, [f(3, 4), f(4)], {"fmod": 1}),
    ("Pad", 13, [f(3, 4), ints(-1, 2, 1, -1), np.float32(2)], {}),
    ("Pad", 13, [np.ones((2, 3), bool), ints(1, 0, 0, 1), np.bool_(True)], {}),
    ("Pow", 13, [abs(f(3, 4)), np.array([2, 3, 0, -1], np.int64)], {}),
    ("QuantizeLinear", 13, [f(3, 4) * 9, abs(f(3)) + 0.1, np.array([3, 9, 0], np.int8)], {"axis": 0}),
    ("ReduceLogSumExp", 13, [f(3, 4, 5)], {"axes": [-1, 0], "keepdims": 0}),
    ("Resize", 10, [f(1, 2, 4, 5), floats(1, 1, 1.7, 0.6)], {"mode": "linear"}),
    ("Resize", 13, [f(1, 2, 6, 5), floats(), floats(1, 1, 0.6, 1.5)],
     {"mode": "linear", "coordinate_transformation_mode": "asymmetric"}),
    ("Resize", 13, [f(1, 2, 4, 5), floats(), floats(1, 1, 2, 3)],
     {"mode": "cubic", "cubic_coeff_a": -0.5, "exclude_outside": 1}),
    ("RNN", 14, [f(4, 2, 3), f(1, 4, 3), f(1, 4, 4), f(1, 8)], {"hidden_size": 4, "activations": ["LeakyRelu"]}),
    ("RoiAlign", 10, [f(1, 2, 8, 8), floats(1, 1, 5, 7).reshape(1, 4), ints(0)],
     {"output_height": 2, "output_width": 3, "sampling_ratio": 2}),
    ("ScatterElements", 18, [f(3, 4), np.array([[0, -1, 0, 1]]), f(1, 4)], {"reduction": "max"}),
    ("ScatterND", 18, [f(3, 4), np.array([[0], [-1], [0]]), f(3, 4)], {"reduction": "add"}),
    ("Slice", 13, [f(3, 4), ints(-10), ints(-100), ints(0), ints(-1)], {}),
    ("ArgMin", 13, [rng.integers(0, 3, (3, 6)).astype(np.float32)], {"axis": 1, "select_last_index": 1}),
    ("Trilu", 14, [f(2, 4, 5), np.array(-1)], {"upper": 0}),
    ("Upsample", 9, [f(1, 2, 3, 4), floats(1, 1, 2, 3)], {"mode": "nearest"}),
]  # fmt: skip


def made(op: str, opset: int, inputs: list[Any], attributes: Mapping[str, Any]) -> bytes:
    names = [f"x{i}" if x is not None else "" for i, x in enumerate(inputs)]
    held = {name: x for name, x in zip(names[1:], inputs[1:], strict=True) if x is not None}
    kind = helper.np_dtype_to_tensor_dtype(inputs[0].dtype)
    return model([node(op, names, ["y"], **attributes)], [port("x0", inputs[0].shape, kind)], ["y"], held, opset=opset)


@pytest.mark.parametrize("case", NODES, ids=[f"{op}-{opset}-{i}" for i, (op, opset, _, _) in enumerate(NODES)])
def test_a_node_agrees_with_onnx_runtime(case: Any) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    import onnx

    data = made(*case)
    typed = onnx.shape_inference.infer_shapes(onnx.ModelProto.FromString(data)).SerializeToString()
    feed = {"x0": case[2][0]}
    (expected,) = onnxruntime.InferenceSession(typed, providers=["CPUExecutionProvider"]).run(None, feed)
    imported = load_model(data)
    answers = [imported.graph.run(feed)["y"]]
    if imported.program is not None:
        answers += Session.of(imported.program).run(feed).values()
    for y in answers:
        assert y.dtype == expected.dtype
        assert_allclose(y.astype(np.float64), expected.astype(np.float64), rtol=1e-4, atol=1e-5)


def run(data: bytes, **inputs: Any) -> Any:
    return read(data).graph.run(inputs)["y"]


def test_opset_6_aligns_b_below_the_axes_of_a() -> None:
    a, b = f(2, 3, 4), f(3)
    data = model([node("Mul", ["a", "b"], ["y"], broadcast=1, axis=1)], [port("a", a.shape)], ["y"], {"b": b}, opset=6)
    assert_allclose(run(data, a=a), a * b[:, None])


@pytest.mark.parametrize(("op", "inputs"), [("Dropout", ["x"]), ("BatchNormalization", ["x", "s", "s", "s", "s"])])
def test_what_trains_in_opset_6_is_refused(op: str, inputs: list[str]) -> None:
    x = f(2, 3, 4)
    data = model([node(op, inputs, ["y"], is_test=0)], [port("x", x.shape)], ["y"], {"s": abs(f(3))}, opset=6)
    with pytest.raises(UsageError, match="is_test=0 trains"):
        run(data, x=x)


def test_scan_8_walks_each_sample() -> None:
    x = f(2, 3, 4)
    body = graph(
        [node("Add", ["s", "v"], ["t"]), node("Identity", ["t"], ["row"])],
        [port("s", [4]), port("v", [4])],
        [port("t", [4]), port("row", [4])],
    )
    nodes = [node("Scan", ["", "start", "x"], ["last", "y"], body=body, num_scan_inputs=1)]
    data = model(nodes, [port("x", x.shape)], ["y"], {"start": np.zeros((2, 4), np.float32)}, opset=8)
    assert_allclose(run(data, x=x), np.cumsum(x, axis=1), rtol=1e-5)


def test_a_seed_draws_the_same_numbers_at_every_run() -> None:
    data = model([node("RandomNormal", [], ["y"], shape=[50], seed=3.0)], [], ["y"])
    other = model([node("RandomNormal", [], ["y"], shape=[50], seed=4.0)], [], ["y"])
    assert np.array_equal(run(data), run(data))
    assert not np.array_equal(run(data), run(other))


def test_unseeded_numbers_differ_from_run_to_run_also_in_a_session() -> None:
    x = f(40)
    imported = load_model(model([node("RandomUniformLike", ["x"], ["y"])], [port("x", x.shape)], ["y"]))
    assert imported.program is None  # a trace would draw once for all
    one, two = (imported.graph.run({"x": x})["y"] for _ in range(2))
    assert not np.array_equal(one, two)


def test_gradients_through_ops_that_leave_the_tape_are_refused() -> None:
    nodes = [
        node("CumSum", ["x", "axis"], ["s"]),
        node("Gradient", ["x"], ["y"], domain="ai.onnx.preview.training", xs=["x"], y="s"),
    ]
    domains = {"ai.onnx.preview.training": 1}
    data = model(nodes, [port("x", [3])], ["y"], {"axis": np.array(0)}, domains=domains)
    with pytest.raises(UsageError, match=r"the gradient of CumSum .* is not supported"):
        run(data, x=f(3))


@pytest.mark.parametrize("pattern", [r"(a+)+b", r"(?=a)a", r"(a)\1"])
def test_patterns_that_python_may_take_for_ever_are_refused(pattern: str) -> None:
    data = model([node("RegexFullMatch", ["x"], ["y"], pattern=pattern)], [port("x", [1], 8)], ["y"], opset=20)
    with pytest.raises(UsageError, match="not supported"):
        run(data, x=np.array(["aaa"], object))
