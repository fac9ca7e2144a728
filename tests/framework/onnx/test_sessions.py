"""ONNX graphs in a session: traced anew for shapes and deciding values, interpreted where that does not help."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from pdl.errors import ShapeError
from pdl.onnx import load_model
from pdl.onnx.graph import Graph
from pdl.runtime import Session
from pdl.runtime import graphs as module
from pdl.runtime.graphs import Graphs

from .building import INT64, graph, loop_model, model, node, port

R = np.random.default_rng(3)


def floats(*shape: int) -> np.ndarray:
    return R.standard_normal(shape).astype(np.float32)


def session(data: bytes) -> tuple[Session, Graphs]:
    engine = Graphs(load_model(data).graph)
    return Session(engine, *engine.ports()), engine


def branching(by: str) -> bytes:
    """y = -x where the rate is 16000 (by="rate") or where x adds up to more than 0 (by="x"); else |x|."""
    then = graph([node("Neg", ["x"], ["a"])], [], [port("a")])
    other = graph([node("Abs", ["x"], ["b"])], [], [port("b")])
    decide = {
        "rate": [node("Equal", ["rate", "known"], ["c"])],
        "x": [
            node("ReduceSum", ["x"], ["s"], keepdims=0),
            node("Add", ["s", "zero"], ["t"]),
            node("Cast", ["rate"], ["f"], to=1),
            node("Mul", ["f", "zero"], ["z"]),
            node("Greater", ["t", "z"], ["c"]),
        ],
    }[by]
    nodes = [*decide, node("If", ["c"], ["y"], then_branch=then, else_branch=other)]
    weights = {"known": np.int64(16000), "zero": np.float32(0)}
    return model(nodes, [port("x", ["n", 2]), port("rate", [], INT64)], [port("y", ["n", 2])], weights)


def test_values_that_decide_are_part_of_the_key() -> None:
    made, engine = session(branching("rate"))
    x = floats(3, 2)
    for _ in range(2):
        np.testing.assert_array_equal(made.run({"x": x, "rate": np.array(16000)})["y"], -x)
        np.testing.assert_array_equal(made.run({"x": x, "rate": np.array(8000)})["y"], np.abs(x))
    assert engine.deciding == (1,)
    assert not engine.interpreted
    assert len(engine._plans) == 2


def test_a_branch_on_computed_values_waits_behind_a_program() -> None:
    made, engine = session(branching("x"))
    x = np.array([[1, 2]], np.float32)
    np.testing.assert_array_equal(made.run({"x": x, "rate": np.array(0)})["y"], -x)
    np.testing.assert_array_equal(made.run({"x": -x, "rate": np.array(0)})["y"], x)
    assert "If" in engine.waits
    assert not engine.interpreted
    (plan,) = engine._plans.values()
    assert isinstance(plan, module.Part)
    assert plan.rest is not None
    assert [n.op for n in plan.rest.nodes] == ["If"]
    assert plan.program.nodes


def test_a_loop_unrolls_for_each_number_of_turns() -> None:
    made, engine = session(loop_model())
    x = floats(4)
    for turns in (0, 1, 5):
        found = made.run({"turns": np.array(turns), "x": x})
        np.testing.assert_array_equal(found["y"], x * 2.0**turns)
        assert len(found["rows"]) == turns
    assert len(engine._plans) == 3


def test_values_that_never_repeat_end_the_tracing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 4)
    made, engine = session(branching("rate"))
    x = floats(1, 2)
    for rate in range(10):
        np.testing.assert_array_equal(made.run({"x": x, "rate": np.array(rate)})["y"], np.abs(x))
    assert "repeat" in engine.waits
    for n in range(2, 12):
        assert made.run({"x": floats(n, 2), "rate": np.array(16000)})["y"].shape == (n, 2)
    assert "repeat" in engine.interpreted


def test_what_a_detector_finds_decides_sizes_behind_a_program() -> None:
    """Boxes and scores by a product; those above a threshold, suppressed; a product on what is left."""
    weights = {
        "w": floats(6, 4), "v": floats(6, 1), "low": np.float32(0), "most": np.array([3]),
        "iou": np.array([0.5], np.float32), "end": np.array([2]),
        "u": floats(4, 2), "flat": np.array([-1]), "one": np.array([0]),
    }  # fmt: skip
    nodes = [
        node("MatMul", ["x", "w"], ["boxes"]),
        node("MatMul", ["x", "v"], ["column"]),
        node("Reshape", ["column", "flat"], ["scores"]),
        node("Greater", ["scores", "low"], ["above"]),
        node("NonZero", ["above"], ["places"]),
        node("Reshape", ["places", "flat"], ["chosen"]),
        node("Gather", ["boxes", "chosen"], ["some"]),
        node("Gather", ["scores", "chosen"], ["their"]),
        node("Unsqueeze", ["some", "one"], ["some1"]),
        node("Unsqueeze", ["their", "one"], ["their1"]),
        node("Unsqueeze", ["their1", "one"], ["their2"]),
        node("NonMaxSuppression", ["some1", "their2", "most", "iou"], ["kept"]),
        node("Gather", ["kept", "end"], ["last"], axis=1),
        node("Reshape", ["last", "flat"], ["index"]),
        node("Gather", ["some", "index"], ["found"]),
        node("MatMul", ["found", "u"], ["y"]),
    ]
    data = model(nodes, [port("x", ["n", 6])], [port("y", ["k", 2]), port("scores", ["n"])], weights)
    made, engine = session(data)
    theirs = pytest.importorskip("onnxruntime").InferenceSession(data, providers=["CPUExecutionProvider"])
    for n in (5, 40, 5, 1):
        x = floats(n, 6)
        found = made.run({"x": x})
        for name, value in zip(("y", "scores"), theirs.run(None, {"x": x}), strict=True):
            np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-5)
    assert "NonZero" in engine.waits
    assert not engine.interpreted
    assert len(engine._plans) == 3


def test_what_a_graph_traces_runs_in_bfloat16() -> None:
    weights = {"w": floats(64, 64), "zero": np.float32(0)}
    nodes = [node("MatMul", ["x", "w"], ["m"]), node("Greater", ["m", "zero"], ["c"]), node("NonZero", ["c"], ["y"])]
    graph = load_model(
        model(nodes, [port("x", ["n", 64])], [port("m", ["n", 64]), port("y", [2, "k"], INT64)], weights)
    )
    x = floats(3, 64)
    engine = Graphs(graph.graph, bf16=True)
    m, y = engine([x])
    (plan,) = engine._plans.values()
    assert any(v.spec.dtype.name == "bfloat16" for n in plan.program.nodes for v in n.outputs)
    assert (m.dtype, y.dtype) == (np.float32, np.int64)
    np.testing.assert_allclose(m, x @ weights["w"], atol=0.3)
    assert not np.array_equal(m, x @ weights["w"])


def test_threads_share_a_graph() -> None:
    made, _ = session(branching("rate"))
    xs = [floats(n, 2) for n in (1, 2, 3, 4) * 8]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda x: made.run({"x": x, "rate": np.array(16000)})["y"], xs))
    for x, y in zip(xs, found, strict=True):
        np.testing.assert_array_equal(y, -x)


def test_stored_graph_and_wrong_shapes() -> None:
    data, arrays = load_model(branching("rate")).graph.to_dict()
    engine = Graphs(Graph.from_dict(data, arrays))
    made = Session(engine, *engine.ports())
    assert [str(p) for p in made.inputs] == ["x float32[n, 2]", "rate int64[]"]
    with pytest.raises(ShapeError):
        made.run({"x": floats(3, 5), "rate": np.array(1)})
