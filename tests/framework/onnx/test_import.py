"""Graphs traced into programs with symbolic sizes, and the ones that cannot be."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from pdl.dims import Dim
from pdl.errors import ShapeError, UsageError
from pdl.onnx import load_model
from pdl.onnx.axes import named_axes
from pdl.onnx.graph import Port
from pdl.onnx.tracing import difference, trace
from pdl.program import Executable
from pdl.program.specialise import bind, specialise
from pdl.runtime import Session

from .building import INT64, conv_net, graph, loop_model, model, node, port

R = np.random.default_rng(2)


def floats(*shape: int) -> np.ndarray:
    return R.standard_normal(shape).astype(np.float32)


def test_dynamic_axes_become_symbolic_sizes() -> None:
    made = load_model(conv_net())
    assert made.notes == []
    assert made.shapes == {"x": ("n", 3, "h", "w")}
    assert made.program is not None
    for shape in [(1, 3, 8, 8), (2, 3, 9, 13), (5, 3, 40, 7)]:
        x = floats(*shape)
        program = specialise(made.program, bind(made.program, [shape]))
        (y,) = Executable(program)(x)
        np.testing.assert_allclose(y, made.graph.run({"x": x})["y"], rtol=1e-5, atol=1e-5)


def test_shape_arithmetic_folds_and_stays_symbolic() -> None:
    """[n, c, h, w] -> [n, c, h w] by way of Shape, Gather, Mul, Unsqueeze, Concat, as PyTorch writes `flatten(2)`."""
    nodes = [
        node("Shape", ["x"], ["s"]),
        *[node("Gather", ["s", f"i{i}"], [f"g{i}"]) for i in range(4)],
        node("Mul", ["g2", "g3"], ["cells"]),
        *[node("Unsqueeze", [v, "zero"], [f"{v}_1"]) for v in ("g0", "g1", "cells")],
        node("Concat", ["g0_1", "g1_1", "cells_1"], ["shape"], axis=0),
        node("Reshape", ["x", "shape"], ["y"]),
    ]
    weights = {f"i{i}": np.int64(i) for i in range(4)} | {"zero": np.array([0])}
    made = load_model(model(nodes, [port("x", ["n", 4, "h", "w"])], ["y"], weights))
    assert made.program is not None
    (only,) = made.program.nodes
    assert [str(n) for n in only.outputs[0].spec.shape] == ["n", "4", "h*w"]
    assert isinstance(only.outputs[0].spec.shape[2], Dim)


def test_a_size_that_decides_keeps_the_model_a_graph() -> None:
    """The first three of an axis are fewer where it is shorter, and their number is a value of the graph."""
    nodes = [node("Slice", ["x", "zero", "three", "one"], ["t"]), node("Shape", ["t"], ["y"])]
    weights = {"zero": np.array([0]), "three": np.array([3]), "one": np.array([1])}
    made = load_model(model(nodes, [port("x", ["n", "k"])], ["y"], weights))
    assert made.program is None
    assert "traced anew for each" in made.notes[0]
    assert made.graph.run({"x": np.zeros((1, 2), np.float32)})["y"].tolist() == [1, 2]


def test_an_axis_with_one_size_is_fixed() -> None:
    nodes = [node("MatMul", ["x", "w"], ["y"])]
    made = load_model(model(nodes, [port("x", ["n", "k"])], ["y"], {"w": floats(48, 2)}))
    assert made.shapes == {"x": ("n", 48)}
    assert "k is fixed at 48" in made.notes[0]
    assert made.program is not None


def test_axes_without_names_that_change_together_are_one_size() -> None:
    ports = [port("a", [None, None, 4]), port("b", [None, None, 4]), port("other", [None, None])]
    nodes = [node("Add", ["a", "b"], ["c"]), node("MatMul", ["c", "w"], ["y"]), node("Neg", ["other"], ["z"])]
    made = load_model(model(nodes, ports, ["y", "z"], {"w": floats(4, 2)}))
    assert made.shapes == {"a": ("n", "a_1", 4), "b": ("n2", "a_1", 4), "other": ("n3", "other_1")}
    assert made.notes == ["b_1 and a_1 are one size, a_1"]
    assert made.program is not None
    given = {"a": floats(3, 7, 4), "b": floats(3, 7, 4), "other": floats(2, 9)}
    session = Session.of(made.program, outputs=["y", "z"])
    np.testing.assert_allclose(session.run(given)["y"], made.graph.run(given)["y"], rtol=1e-5)
    with pytest.raises(ShapeError, match="a_1"):
        session.run({**given, "b": floats(3, 8, 4)})


def test_sizes_can_be_given() -> None:
    made = load_model(conv_net(), sizes={"h": 12})
    assert made.shapes == {"x": ("n", 3, 12, "w")}
    with pytest.raises(UsageError, match="no size is called q"):
        load_model(conv_net(), sizes={"q": 12})


def test_no_size_fits() -> None:
    nodes = [node("MatMul", ["x", "w"], ["y"])]
    with pytest.raises(UsageError, match="no sizes were found"):
        load_model(model(nodes, [port("x", ["n", "k"])], ["y"], {"w": floats(53, 2)}))


def test_values_that_decide_keep_the_model_a_graph() -> None:
    made = load_model(loop_model())
    assert made.program is None
    assert "stays a graph" in made.notes[0]
    assert "Loop" in made.notes[0]


def test_values_given_to_the_trace_fold_the_branch_away() -> None:
    then = graph([node("Neg", ["x"], ["a"])], [], [port("a")])
    other = graph([node("Abs", ["x"], ["b"])], [], [port("b")])
    nodes = [
        node("Equal", ["rate", "known"], ["c"]),
        node("If", ["c"], ["y"], then_branch=then, else_branch=other),
    ]
    weights = {"known": np.int64(16000)}
    made = load_model(model(nodes, [port("x", [2]), port("rate", [], INT64)], [port("y", [2])], weights))
    assert made.program is None
    program = trace(made.graph, {"x": (2,)}, values={"rate": np.array(16000)})
    assert [type(n.op).__name__ for n in program.nodes] == ["Negative"]


def test_difference_sees_attributes_and_constants() -> None:
    def program(scale: float, axis: int) -> object:
        nodes = [node("Mul", ["x", "s"], ["m"]), node("Softmax", ["m"], ["y"], axis=axis)]
        made = load_model(model(nodes, [port("x", [2, 2])], ["y"], {"s": np.full(40, scale, np.float32)[:2]}))
        return made.program

    assert difference(program(1, 0), program(1, 0)) == ""  # type: ignore[arg-type]
    assert "Mul" in difference(program(1, 0), program(2, 0))  # type: ignore[arg-type]
    assert "Softmax" in difference(program(1, 0), program(1, 1))  # type: ignore[arg-type]


def test_names_of_axes() -> None:
    ports = [
        Port("x", "float32", ("p2o.DynamicDimension.0", 3, None, "p2o.DynamicDimension.1")),
        Port("state", "float32", (2, "batch", 8)),
        Port("seq-in", "float32", ("batch", "sequence length")),
        Port("other", "float32", (None, "p2o.DynamicDimension.1")),
    ]
    assert named_axes(ports) == {
        "x": ("n", 3, "h", "w"),
        "state": (2, "batch", 8),
        "seq-in": ("batch", "sequence_length"),
        "other": ("n2", "w"),
    }


def test_a_tensor_of_nothing_whose_other_axes_are_too_long() -> None:
    proto = onnx.ModelProto.FromString(model([node("Add", ["x", "w"], ["y"])], [port("x", [3])], [port("y")]))
    proto.graph.initializer.append(onnx.TensorProto(name="w", data_type=1, dims=[0, 2**62, 3]))
    with pytest.raises(UsageError, match=r"initializer 'w' has the shape \(0, .*, of which no array can be"):
        load_model(proto.SerializeToString())


SIZES = [node("Shape", ["x"], ["s"]), node("Slice", ["s", "two", "three"], ["h"]), node("Squeeze", ["h"], ["h0"])]
OF_SIZES = {
    "count to a size": ([node("Range", ["n0", "h0", "n1"], ["y"])], "program"),
    "count to a size by threes": ([node("Range", ["n1", "h0", "n3"], ["y"])], "program"),
    "a range beside a size": (
        [node("Range", ["n0", "h0", "n1"], ["r"]), node("Sub", ["h0", "r"], ["y"])], "program"),
    "the smallest of all": ([node("ReduceMin", ["s"], ["q"]), node("ConstantOfShape", ["q"], ["y"])], "program"),
    "the product": ([node("ReduceProd", ["s", "zero"], ["q"]), node("ConstantOfShape", ["q"], ["y"])], "program"),
    "the largest of all": ([node("ReduceMax", ["s"], ["q"]), node("ConstantOfShape", ["q"], ["y"])], "program"),
    "the mean": ([node("ReduceMean", ["s"], ["y"])], "program"),
}  # fmt: skip


@pytest.mark.parametrize("name", OF_SIZES)
def test_arithmetic_on_sizes(name: str) -> None:
    """As a program where one is right for all sizes."""
    nodes, kind = OF_SIZES[name]
    weights = {"two": [2], "three": [3], "zero": [0], "n0": 0, "n1": 1, "n3": 3}
    ints = {key: np.array(value, np.int64) for key, value in weights.items()}
    data = model([*SIZES, *nodes], [port("x", ["n", 3, "h", "w"])], ["y"], ints)
    made = load_model(data)
    assert (made.program is not None) == (kind == "program"), made.notes
    session = Session.of(made.program, outputs=["y"]) if made.program is not None else None
    for shape in [(1, 3, 8, 8), (2, 3, 70, 9), (2, 3, 9, 70)]:
        x = floats(*shape)
        if session is not None:
            np.testing.assert_array_equal(session.run({"x": x})["y"], made.graph.run({"x": x})["y"])
