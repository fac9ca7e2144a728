"""TensorFlow Lite: every operator by NumPy (and by LiteRT where that is installed), quantised nets, names, refusals."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdl.runtime
from pdl.cli import main
from pdl.errors import UsageError
from pdl.export.imported import import_model
from pdl.onnx import load_model
from pdl.onnx.registry import TABLE, load_table
from pdl.onnx.tflite import DOMAIN
from pdl.program import Executable
from pdl.runtime.session import Session

from .flat import Lite, flat
from .lite_cases import CASES, NET, Case, built, sigmoid
from .lite_nets import RANGES, SAME, SPARSE, X, net, reference, sparse_net

LSTM = "UNIDIRECTIONAL_SEQUENCE_LSTM"
#: nodes that LiteRT wants told more than pdl reads, or does not run without inputs
NOT_IN_LITERT = ("DEQUANTIZE", "ARG_MAX", "ARG_MIN", "SHAPE", "PACK")


def test_every_operator_has_a_case() -> None:
    load_table()
    assert {name for domain, name in TABLE if domain == DOMAIN} == {case.op for case in CASES} | {LSTM, "DENSIFY"}


@pytest.mark.parametrize("case", CASES, ids=[f"{i}-{case.op}" for i, case in enumerate(CASES)])
def test_operators(case: Case) -> None:
    """As a program where its values are not needed before it runs, and node by node."""
    data, feeds, wants = built(case)
    made = load_model(data)
    found = [list(made.graph.run(feeds).values())]
    if made.program is not None:
        found.append([np.asarray(y) for y in Executable(made.program)(*feeds.values())])
    for got in found:
        for y, want in zip(got, wants, strict=True):
            assert (y.dtype, y.shape) == (want.dtype, want.shape)
            np.testing.assert_allclose(y.astype(float), want.astype(float), rtol=2e-5, atol=2e-5)


@pytest.mark.skipif(find_spec("ai_edge_litert") is None, reason="compares with ai-edge-litert")
def test_operators_in_litert() -> None:
    from ai_edge_litert.interpreter import Interpreter

    for case in CASES:
        if case.op in NOT_IN_LITERT:
            continue
        data, feeds, wants = built(case)
        interpreter = Interpreter(model_content=data, num_threads=1)
        interpreter.allocate_tensors()
        for each in interpreter.get_input_details():
            interpreter.set_tensor(each["index"], feeds[each["name"]])
        interpreter.invoke()
        for each, want in zip(interpreter.get_output_details(), wants, strict=True):
            got = interpreter.get_tensor(each["index"])
            np.testing.assert_allclose(got.astype(float), want.astype(float), rtol=3e-5, atol=3e-5, err_msg=case.op)


def lstm(time_major: bool) -> tuple[bytes, np.ndarray, np.ndarray]:
    """A layer of an LSTM, what it is fed, and what it makes, step by step."""
    r, (steps, n, channels, hidden) = np.random.default_rng(3), (5, 2, 3, 4)
    lite = Lite()
    x = r.standard_normal((steps, n, channels) if time_major else (n, steps, channels)).astype(np.float32)
    gates = {g: [r.normal(0, 0.5, s).astype(np.float32) for s in ((hidden, channels), (hidden, hidden), (hidden,))]
             for g in "ifco"}  # fmt: skip
    made = [[lite.constant(f"{g}{i}", gates[g][i]) for g in "ifco"] for i in range(3)]
    states = [lite.tensor(name, (n, hidden)) for name in "hc"]
    for state in states:
        lite.tensors[state][5] = ("?", True)
    ends = lite.tensor("x", x.shape), lite.tensor("y", (*x.shape[:2], hidden))
    lite.op(LSTM, [ends[0], *made[0], *made[1], -1, -1, -1, *made[2], -1, -1, *states], ends[1:], activation="TANH",
            time_major=time_major)  # fmt: skip
    h, c, y = np.zeros((n, hidden)), np.zeros((n, hidden)), []
    for row in x if time_major else x.transpose(1, 0, 2):
        i, f, g, o = (row @ gates[k][0].T + h @ gates[k][1].T + gates[k][2] for k in "ifco")
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        y.append(h)
    return lite.file(ends[:1], ends[1:]), x, np.stack(y, 0 if time_major else 1)


@pytest.mark.parametrize("time_major", [False, True])
def test_an_lstm(time_major: bool) -> None:
    data, x, want = lstm(time_major)
    made = load_model(data)
    assert made.program is not None
    np.testing.assert_allclose(Executable(made.program)(x)[0], want, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(made.graph.run({"x": x})["y"], want, rtol=1e-4, atol=1e-5)


# -- whole nets --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("kind", "apart"), [("float", 1e-5), ("half", 1e-3), ("weights", 5e-3)])
def test_a_net_in_floats(kind: str, apart: float) -> None:
    made = load_model(net(kind, dynamic=True))
    assert made.shapes == {"x": ("n", 9, 8, 3)}
    assert made.program is not None
    x = np.concatenate([X, -X, X[:, ::-1]])
    session = Session.of(made.program, outputs=["p"])
    np.testing.assert_allclose(session.run({"x": x})["p"], reference(x), atol=apart)


@pytest.mark.parametrize("kind", ["int8", "uint8"])
def test_a_quantised_net(kind: str, tmp_path: Path) -> None:
    """Bytes go in and out as the file says; numbers are those in floats but for rounding to 256 steps."""
    (tmp_path / "net.tflite").write_bytes(net(kind))
    import_model(tmp_path / "net.tflite", check=False)
    session = pdl.runtime.load(tmp_path / "net.pdl")
    assert [str(p) for p in (*session.inputs, *session.outputs)] == [f"x {kind}[1, 9, 8, 3]", f"p {kind}[1, 5]"]
    scale, zero = RANGES["x"]
    shift = 128 * (kind == "uint8")
    q = np.clip(np.rint(X / scale) + zero + shift, -128 + shift, 127 + shift).astype(kind)
    got = session.run({"x": q})["p"].astype(int)
    want = np.rint(reference((q.astype(float) - zero - shift) * scale) * 256) - 128 + shift
    assert np.abs(got - want).max() <= 3


def test_int8_runs_on_bytes() -> None:
    """Products of int8 weights become ops on bytes: nothing between the first rounding and softmax is in floats."""
    made = load_model(net("int8"))
    assert made.program is not None
    plan = Session.of(made.program).engine.plan((X.shape,))  # type: ignore[attr-defined]
    kinds = {type(node.op).__name__ for node in plan.program.nodes}
    assert kinds == {"QuantizeLinear", "DequantizeLinear", "QConvPacked", "QGlobalMean", "QLinearPacked", "Softmax"}
    assert not kinds & {"Conv", "ConvPacked", "ConvThen", "Linear", "LinearPacked", "Mean"}


@pytest.mark.skipif(find_spec("ai_edge_litert") is None, reason="compares with ai-edge-litert")
@pytest.mark.parametrize("kind", ["float", "half", "int8", "uint8"])
def test_import_compares_with_litert(kind: str, tmp_path: Path) -> None:
    (tmp_path / "net.tflite").write_bytes(net(kind, signature=True))
    facts = import_model(tmp_path / "net.tflite")
    assert facts["runtime"] == "LiteRT"
    assert facts["checks"][0]["relative"] <= (1e-5 if kind in ("float", "half") else 0.02)


def test_a_signature_names_inputs_and_outputs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And the command knows the file by its content."""
    path = tmp_path / "net.bin"
    path.write_bytes(net(signature=True))
    assert main(["import", str(path), "--json", "--no-check"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["inputs"], facts["outputs"]) == (["image float32[1, 9, 8, 3]"], ["scores float32[1, 5]"])
    assert facts["opset"] == {"tflite": 3}
    assert facts["producer"] == "made by hand"
    assert facts["ops"]["DEPTHWISE_CONV_2D"] == 1


def test_sparse_weights() -> None:
    x = np.random.default_rng(0).standard_normal((2, 4)).astype(np.float32)
    got = load_model(sparse_net()).graph.run({"x": x})["y"]
    np.testing.assert_allclose(got, x @ SPARSE.T, rtol=1e-5, atol=1e-6)


# -- what is refused ---------------------------------------------------------------------------------------------------
def one(op: str, x: Any, dtype: str = "float32", **options: Any) -> bytes:
    lite = Lite()
    ends = lite.tensor("x", x.shape, dtype), lite.tensor("y", x.shape, dtype)
    lite.op(op, ends[:1], ends[1:], **options)
    return lite.file(ends[:1], ends[1:])


def of_other_options() -> bytes:
    lite = Lite()
    ends = lite.tensor("x", (2, 2)), lite.tensor("y", (2, 2))
    lite.op("SOFTMAX", ends[:1], ends[1:], beta=1.0)
    lite.operators[0][3] = ("B", 5)
    return lite.file(ends[:1], ends[1:])


def short_weights() -> bytes:
    lite = Lite()
    ends = lite.tensor("x", (2, 2)), lite.tensor("y", (2, 2))
    lite.op("ADD", [ends[0], lite.tensor("w", (3, 9), data=np.zeros(4, np.float32))], ends[1:], activation="NONE")
    return lite.file(ends[:1], ends[1:])


def scales_of_values() -> bytes:
    lite = Lite()
    x = lite.tensor("x", (2, 2), "int8", scale=[1, 2], axis=1)
    lite.op("TANH", [x], [lite.tensor("y", (2, 2))])
    return lite.file([x], [1])


X2 = np.zeros((2, 2))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (one("SVDF", X2), "SVDF 'y': pdl does not have this op"),
        (one("TFLite_Detection_PostProcess", X2), "TFLite_Detection_PostProcess 'y': pdl does not have this op"),
        (one("WHILE", X2), "WHILE 'y': pdl does not have this op"),
        (one("ADD", X2, activation="NONE"), "ADD 'y': it has 1 inputs; expected 2"),
        (one("RELU", X2, "resource"), "a tensor is a resource, which pdl does not read"),
        (of_other_options(), "SOFTMAX has the options of another operator, number 5"),
        (short_weights(), r"tensor 'w': \(3, 9\) of float32 needs 108 bytes, there are 16"),
        (scales_of_values(), "tensor 'x' is computed"),
        (flat({0: ("I", 2)}, b"TFL3"), "has version 2 of the schema"),
        (flat({0: ("I", 3)}, b"TFL3"), "it has no graph"),
        (b"\xff\xff\xff\x7fTFL3", "it refers to bytes 2147483647 to 2147483651 of 8"),
        (one("CONV_2D", X2, **SAME), "it has 1 inputs; expected 2 to 3"),
    ],
    ids=range(12),
)  # fmt: skip
def test_refusals(data: bytes, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        load_model(data)


def test_shared_vectors_are_not_read_again_and_again() -> None:
    """Two hundred operators whose inputs are one vector of a hundred thousand numbers: no work without end."""
    lite = Lite()
    x = lite.tensor("x", (2,))
    lite.op("ADD_N", [x] * 100_000, [x])
    lite.operators *= 200
    data = lite.file([x], [x])
    assert len(data) < 500_000
    with pytest.raises(UsageError, match="refer to each other's bytes again and again"):
        load_model(data)


def test_conv_of_a_weight_that_is_none() -> None:
    lite = Lite()
    x, w, y = (
        lite.tensor("x", (1, 4, 4, 3)),
        lite.constant("w", np.zeros((2, 0, 3, 3), np.float32)),
        lite.tensor("y", (1,)),
    )
    lite.op("CONV_2D", [x, w], [y], **{**NET, "padding": "SAME"})
    with pytest.raises(UsageError, match="a weight of shape"):
        load_model(lite.file([x], [y]))
