"""ONNX files read, checked, interpreted and stored."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pdl.errors import DataError, ShapeError, UsageError
from pdl.onnx.check import require_runnable
from pdl.onnx.graph import Graph
from pdl.onnx.reader import read

from .building import FLOAT, INT64, conv_net, graph, helper, loop_model, model, node, onnx, port

R = np.random.default_rng(1)


def floats(*shape: int) -> np.ndarray:
    return R.standard_normal(shape).astype(np.float32)


def reference(data: bytes, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    from onnx.reference import ReferenceEvaluator

    return ReferenceEvaluator(onnx.ModelProto.FromString(data)).run(None, feeds)


@pytest.mark.parametrize("shape", [(1, 3, 8, 8), (2, 3, 9, 13)])
def test_conv_net_agrees_with_onnx(shape: tuple[int, ...]) -> None:
    data, x = conv_net(), floats(*shape)
    (want,) = reference(data, {"x": x})
    np.testing.assert_allclose(read(data).graph.run({"x": x})["y"], want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rows", [1, 5])
def test_products_with_constants_are_packed_once(rows: int) -> None:
    """Where nodes are run one by one, too: the head of a detector."""
    nodes = [
        node("Gemm", ["x", "w", "b"], ["h"], transB=1, alpha=0.5), node("MatMul", ["h", "v"], ["i"]),
        node("Gemm", ["i", "u", "row"], ["y"], beta=2.0),
    ]  # fmt: skip
    weights = {"w": floats(20, 7), "b": floats(20), "v": floats(20, 6), "u": floats(6, 3), "row": floats(1, 3)}
    data = model(nodes, [port("x", ["n", 7])], ["y"], weights)
    made, x = read(data).graph, floats(rows, 7)
    for scale in (1, 2):
        (want,) = reference(data, {"x": scale * x})
        np.testing.assert_allclose(made.run({"x": scale * x})["y"], want, rtol=1e-4, atol=1e-4)
    assert sum(key[0] == "packed" for key, _ in made.interpreter.prepared) == 2


def test_stored_form_runs_the_same_through_json() -> None:
    made = read(conv_net()).graph
    data, arrays = made.to_dict()
    again = Graph.from_dict(json.loads(json.dumps(data)), arrays)
    x = floats(1, 3, 8, 8)
    assert np.array_equal(made.run({"x": x})["y"], again.run({"x": x})["y"])


def test_stored_form_with_subgraphs_and_dtypes() -> None:
    turns, x = np.array(3), floats(4)
    data, arrays = read(loop_model()).graph.to_dict()
    found = Graph.from_dict(json.loads(json.dumps(data)), arrays).run({"turns": turns, "x": x})
    np.testing.assert_array_equal(found["y"], x * 8)
    np.testing.assert_array_equal(found["rows"], [x * 2, x * 4, x * 8])


def test_long_names_are_stored_short_and_apart() -> None:
    names = ["w" * 600 + str(i) for i in range(2)]
    nodes = [node("Add", ["x", names[0]], ["a"]), node("Mul", ["a", names[1]], ["y"])]
    weights = {name: np.full(1, 2.0 + i, np.float32) for i, name in enumerate(names)}
    data, arrays = read(model(nodes, [port("x", [1])], ["y"], weights)).graph.to_dict()
    assert all(len(name) < 512 for name in arrays)
    assert Graph.from_dict(data, arrays).run({"x": np.ones(1, np.float32)})["y"] == [9]


def test_a_damaged_stored_form_is_a_data_error() -> None:
    data, arrays = read(conv_net()).graph.to_dict()
    del arrays["w1"]
    with pytest.raises(DataError, match="damaged"):
        Graph.from_dict(data, arrays)
    data["nodes"][0]["op"] = "Evil"
    with pytest.raises(UsageError, match="Evil"):
        Graph.from_dict(data, read(conv_net()).graph.to_dict()[1])


def test_if_takes_the_branch_that_its_value_says() -> None:
    then = graph([node("Neg", ["x"], ["a"])], [], [port("a")])
    other = graph([node("Abs", ["x"], ["b"])], [], [port("b")])
    nodes = [
        node("ReduceSum", ["x"], ["s"], keepdims=0),
        node("Greater", ["s", "zero"], ["c"]),
        node("If", ["c"], ["y"], then_branch=then, else_branch=other),
    ]
    made = read(model(nodes, [port("x", [2])], [port("y", [2])], {"zero": np.float32(0)})).graph
    np.testing.assert_array_equal(made.run({"x": np.array([1, 2], np.float32)})["y"], [-1, -2])
    np.testing.assert_array_equal(made.run({"x": np.array([-1, -2], np.float32)})["y"], [1, 2])


def test_scan_sums_along_an_axis() -> None:
    body = graph(
        [node("Add", ["s", "v"], ["t"]), node("Identity", ["t"], ["row"])],
        [port("s", [2]), port("v", [2])],
        [port("t", [2]), port("row", [2])],
    )
    nodes = [node("Scan", ["s0", "x"], ["s", "rows"], body=body, num_scan_inputs=1)]
    made = read(model(nodes, [port("s0", [2]), port("x", [3, 2])], [port("s", [2]), port("rows", [3, 2])])).graph
    x = floats(3, 2)
    found = made.run({"s0": np.zeros(2, np.float32), "x": x})
    np.testing.assert_allclose(found["rows"], np.cumsum(x, 0), rtol=1e-6)


def test_functions_expand_with_their_attributes() -> None:
    inner = node("LeakyRelu", ["v"], ["w"])
    inner.attribute.add(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
    function = helper.make_function(
        "local", "Leak", ["v"], ["w"], [inner], [helper.make_opsetid("", 18)], attributes=["slope"]
    )
    nodes = [
        node("Leak", ["x"], ["a"], domain="local", slope=0.5),
        node("Leak", ["a"], ["y"], domain="local", slope=0.25),
    ]
    made = read(model(nodes, [port("x", [2])], [port("y", [2])], functions=[function], domains={"local": 1})).graph
    assert {n.op for n in made.nodes} == {"LeakyRelu", "Identity"}
    np.testing.assert_array_equal(made.run({"x": np.array([-8, 8], np.float32)})["y"], [-1, 8])


def test_a_function_that_calls_itself_is_refused() -> None:
    body = [node("Again", ["v"], ["w"], domain="local")]
    imports = [helper.make_opsetid("local", 1)]
    function = helper.make_function("local", "Again", ["v"], ["w"], body, imports)
    nodes = [node("Again", ["x"], ["y"], domain="local")]
    with pytest.raises(UsageError, match="deep"):
        read(model(nodes, [port("x", [2])], ["y"], functions=[function], domains={"local": 1}))


def test_every_unsupported_op_is_named_at_once() -> None:
    nodes = [
        node("Strange", ["x"], ["a"], name="one", domain="elsewhere"),
        node("Relu", ["a"], ["b"], name="two", slope=3.0),
        node("Odd", ["b"], ["y"], name="three"),
    ]
    made = read(model(nodes, [port("x", [2])], ["y"], domains={"elsewhere": 1})).graph
    with pytest.raises(UsageError) as caught:
        require_runnable(made)
    said = str(caught.value)
    assert "elsewhere.Strange 'one'" in said
    assert "Odd 'three'" in said
    assert "attribute slope" in said


def test_nodes_out_of_order_run_and_cycles_are_named() -> None:
    nodes = [node("Neg", ["a"], ["y"]), node("Abs", ["x"], ["a"])]
    made = read(model(nodes, [port("x", [2])], ["y"])).graph
    assert [n.op for n in made.nodes] == ["Abs", "Neg"]
    with pytest.raises(UsageError, match=r"cycle.*Neg"):
        read(model([node("Neg", ["y"], ["a"], name="n"), node("Abs", ["a"], ["y"])], [port("x", [2])], ["y"]))


def test_external_data_stays_inside_the_folder(tmp_path: Path) -> None:
    def saved(location: str) -> Path:
        proto = onnx.ModelProto.FromString(model([node("Add", ["x", "w"], ["y"])], [port("x", [2])], ["y"]))
        tensor = proto.graph.initializer.add(name="w", data_type=FLOAT, dims=[2])
        tensor.data_location = onnx.TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=location)
        tensor.external_data.add(key="offset", value="4")
        path = tmp_path / "inside" / "m.onnx"
        path.write_bytes(proto.SerializeToString())
        return path

    (tmp_path / "inside").mkdir()
    np.arange(3, dtype=np.float32).tofile(tmp_path / "inside" / "w.bin")
    np.arange(3, dtype=np.float32).tofile(tmp_path / "w.bin")
    found = read(saved("w.bin")).graph.run({"x": np.zeros(2, np.float32)})
    np.testing.assert_array_equal(found["y"], [1, 2])
    for outside in ("../w.bin", str(tmp_path / "w.bin"), "missing.bin"):
        with pytest.raises(UsageError, match="not in the folder"):
            read(saved(outside))
    np.arange(2, dtype=np.float32).tofile(tmp_path / "inside" / "w.bin")
    with pytest.raises(UsageError, match="ends at byte 12"):
        read(saved("w.bin"))


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda t: t.ClearField("raw_data"), "4 elements of float32 expected"),
        (lambda t: t.dims.append(3), "48 bytes, there are 16"),
        (lambda t: t.dims.append(2**60), "of which no array can be"),
        (lambda t: t.dims.append(-1), "shape"),
        (lambda t: setattr(t, "data_type", 99), "element type"),
    ],
)
def test_initialisers_are_checked_against_their_bytes(damage: object, says: str) -> None:
    proto = onnx.ModelProto.FromString(
        model([node("Add", ["x", "w"], ["y"])], [port("x", [4])], ["y"], {"w": floats(4)})
    )
    damage(proto.graph.initializer[0])  # type: ignore[operator]
    with pytest.raises(UsageError, match=says):
        read(proto.SerializeToString())


def test_inputs_are_checked_against_their_declaration() -> None:
    made = read(conv_net()).graph
    with pytest.raises(ShapeError, match=r"expected \[n, 3, h, w\]"):
        made.run({"x": floats(1, 4, 8, 8)})
    with pytest.raises(UsageError, match="input 'x' is missing"):
        made.run({})


def test_an_error_inside_names_the_node() -> None:
    nodes = [node("Reshape", ["x", "s"], ["y"], name="shaper")]
    made = read(model(nodes, [port("x", [4]), port("s", [2], INT64)], ["y"])).graph
    with pytest.raises(UsageError, match="Reshape 'shaper'"):
        made.run({"x": floats(4), "s": np.array([3, 3])})


def test_a_loop_that_does_not_end_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pdl.onnx.graph.MOST_STEPS", 1000)
    with pytest.raises(UsageError, match="does not end"):
        read(loop_model()).graph.run({"turns": np.array(2**60), "x": floats(1)})


def test_what_no_output_needs_is_dropped() -> None:
    nodes = [node("Strange", ["x"], ["unused"], domain="elsewhere"), node("Abs", ["x"], ["y"])]
    made = read(model(nodes, [port("x", [2])], ["y"], {"w": floats(9)}, domains={"elsewhere": 1})).graph
    assert [n.op for n in made.nodes] == ["Abs"]
    assert not made.initialisers


def test_bytes_that_are_no_model() -> None:
    for data in (b"", b"no model at all", b"\x08\x07"):
        with pytest.raises(UsageError, match="no ONNX model"):
            read(data)


def test_names_that_are_no_text() -> None:
    data = model([node("Abs", ["x"], ["y"])], [port("x", [2])], ["y"]).replace(b"Abs", b"A\xffs")
    with pytest.raises(UsageError):
        read(data)
