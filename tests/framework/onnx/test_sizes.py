"""Sizes that a graph computes with: programs that are right at every size, and ops on views of symbolic sizes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pdl.onnx import load_model
from pdl.runtime.graphs import Graphs
from pdl.runtime.plan import Plans

from .building import BOOL, FLOAT, INT64, model, node, port

NUMBERS = {"zero": 0, "one": 1, "two": 2, "three": 3, "five": 5}
#: what becomes of the size s (and f, its float) -> the same in Python
ARITHMETIC: dict[str, tuple[list[Any], Callable[[int], int]]] = {
    "max": ([node("Max", ["s", "three"], ["y"])], lambda n: max(n, 3)),
    "min": ([node("Min", ["three", "s"], ["y"])], lambda n: min(n, 3)),
    "clip": ([node("Clip", ["s", "one", "five"], ["y"])], lambda n: min(max(n, 1), 5)),
    "relu": ([node("Sub", ["s", "three"], ["d"]), node("Relu", ["d"], ["y"])], lambda n: max(n - 3, 0)),
    "abs": ([node("Sub", ["s", "three"], ["d"]), node("Abs", ["d"], ["y"])], lambda n: abs(n - 3)),
    "greater": ([node("Greater", ["s", "three"], ["c"]), node("Where", ["c", "s", "two"], ["y"])],
                lambda n: n if n > 3 else 2),
    "less or equal": ([node("LessOrEqual", ["s", "three"], ["c"]), node("Where", ["c", "s", "two"], ["y"])],
                      lambda n: n if n <= 3 else 2),
    "equal": ([node("Equal", ["s", "three"], ["c"]), node("Where", ["c", "five", "s"], ["y"])],
              lambda n: 5 if n == 3 else n),
    "between": ([node("Greater", ["s", "two"], ["a"]), node("Less", ["s", "five"], ["b"]),
                 node("And", ["a", "b"], ["c"]), node("Not", ["c"], ["e"]), node("Where", ["e", "s", "zero"], ["y"])],
                lambda n: 0 if 2 < n < 5 else n),
    "truncated": ([node("Sub", ["s", "five"], ["d"]), node("Div", ["d", "two"], ["q"]),
                   node("Add", ["q", "three"], ["y"])],
                  lambda n: int((n - 5) / 2) + 3),
    "floor": ([node("Mul", ["f", "half"], ["g"]), node("Floor", ["g"], ["h"]), node("Cast", ["h"], ["y"], to=INT64)],
              lambda n: n // 2),
    "ceil": ([node("Div", ["f", "four"], ["g"]), node("Ceil", ["g"], ["h"]), node("Cast", ["h"], ["y"], to=INT64)],
             lambda n: -(-n // 4)),
    "round": ([node("Mul", ["f", "half"], ["g"]), node("Round", ["g"], ["h"]), node("Cast", ["h"], ["y"], to=INT64)],
              lambda n: round(n / 2)),
    "third": ([node("Div", ["f", "third"], ["g"]), node("Floor", ["g"], ["h"]), node("Cast", ["h"], ["y"], to=INT64)],
              lambda n: n // 3),
    "a float sum": ([node("Mul", ["f", "half"], ["g"]), node("Add", ["g", "four"], ["h"]),
                     node("Cast", ["h"], ["y"], to=INT64)], lambda n: math.floor(n / 2 + 4)),
    "as a truth": ([node("Cast", ["s"], ["c"], to=BOOL), node("Where", ["c", "s", "five"], ["y"])], lambda n: n or 5),
}  # fmt: skip


@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic_of_sizes_holds_at_every_size(name: str) -> None:
    """As a value, and where it decides a shape."""
    nodes, expected = ARITHMETIC[name]
    weights: dict[str, Any] = {k: np.int64(v) for k, v in NUMBERS.items()}
    weights |= {"half": np.float32(0.5), "four": np.float32(4), "third": np.float32(3), "first": np.int64([0])}
    made = [
        node("Shape", ["x"], ["shape"]), node("Gather", ["shape", "zero"], ["s"]), node("Cast", ["s"], ["f"], to=FLOAT),
        *nodes, node("Unsqueeze", ["y", "first"], ["line"]), node("ConstantOfShape", ["line"], ["zeros"]),
    ]  # fmt: skip
    run = program(model(made, [port("x", ["n", 2])], [port("y", [], INT64), port("zeros", ["k"])], weights))
    for n in (0, 1, 2, 3, 4, 5, 6, 7, 97):
        y, zeros = run([np.zeros((n, 2), np.float32)])
        assert (int(y), zeros.shape) == (expected(n), (expected(n),)), n


def program(data: bytes) -> Plans:
    """What runs a model that must be one program."""
    made = load_model(data)
    assert made.program is not None, made.notes
    return Plans(made.program)


X = np.arange(24, dtype=np.float32).reshape(4, 3, 2)
#: nodes from x [n, 3, 2] (ids: their constants) to y -> the same in NumPy
VIEWS: dict[str, tuple[list[Any], dict[str, Any], Callable[[Any], Any]]] = {
    "the last of equal places": (
        [node("ArgMax", ["x"], ["y"], axis=0, keepdims=0, select_last_index=1)], {},
        lambda x: len(x) - 1 - x[::-1].argmax(0)),
    "sums of what came before, not finite": (
        [node("Log", ["x"], ["l"]), node("CumSum", ["l", "first"], ["y"], exclusive=1)], {"first": np.int64(0)},
        lambda x: np.concatenate([np.zeros_like(x[:1]), _log(x).cumsum(0)[:-1]])),
    "sizes one-hot": (
        [node("Shape", ["x"], ["s"]), node("OneHot", ["s", "depth", "both"], ["y"])],
        {"depth": np.int64(6), "both": np.int64([0, 1])}, lambda x: np.eye(6, dtype=np.int64)[list(x.shape)]),
    "a sum of sizes": (
        [node("Size", ["x"], ["s"]), node("Cast", ["s"], ["f"], to=FLOAT), node("Sqrt", ["f"], ["y"])], {},
        lambda x: np.sqrt(np.float32(x.size))),
    "scattered beside the rest": (
        [node("ScatterElements", ["x", "at", "new"], ["y"], axis=1)],
        {"at": np.int64([[[2], [0]]]), "new": np.float32([[[-1], [-2]]])}, lambda x: _put(x, [0, 0], [2, 0], [0, 0])),
    "scattered at places": (
        [node("ScatterND", ["x", "at", "new"], ["y"])],
        {"at": np.int64([[0, 2, 0], [0, -3, 0]]), "new": np.float32([-1, -2])},
        lambda x: _put(x, [0, 0], [2, 0], [0, 0])),
    "reversed steps": (
        [node("Transpose", ["x"], ["t"], perm=[1, 2, 0]),
         node("ReverseSequence", ["t", "lengths"], ["y"], batch_axis=1, time_axis=0)],
        {"lengths": np.int64([3, 2])},
        lambda x: np.stack([x.transpose(1, 2, 0)[[2, 1, 0], 0], x.transpose(1, 2, 0)[[1, 0, 2], 1]], 1)),
    "padded and cut": (
        [node("Pad", ["x", "pads"], ["y"])], {"pads": np.int64([-1, 0, 0, 2, 0, 0])},
        lambda x: np.pad(x, [(0, 2), (0, 0), (0, 0)])[1:]),
    "cut to nothing": (
        [node("Slice", ["x", "two", "end"], ["t"]), node("Shape", ["t"], ["s"]), node("Reshape", ["x", "flat"], ["v"]),
         node("Expand", ["t", "s"], ["y"])],
        {"two": np.int64([2]), "end": np.int64([2**62]), "flat": np.int64([-1])}, lambda x: x[2:]),
    "backwards from before the first": (
        [node("Slice", ["x", "start", "end", "axis", "back"], ["y"])],
        {"start": np.int64([-2]), "end": np.int64([-(2**62)]), "axis": np.int64([0]), "back": np.int64([-1])},
        lambda x: x[max(len(x) - 2, 0) :: -1]),
    "from behind the end": (
        [node("Slice", ["x", "start", "end", "axis", "step"], ["y"])],
        {"start": np.int64([2**62]), "end": np.int64([2**63 - 1]), "axis": np.int64([0]), "step": np.int64([3])},
        lambda x: x[:0]),
    "padded by its edge": (
        [node("Pad", ["x", "pads"], ["y"], mode="edge")], {"pads": np.int64([3, 1, 0, 1, 0, 0])},
        lambda x: np.pad(x, [(3, 1), (1, 0), (0, 0)], "edge")),
    "padded by reflection": (
        [node("Pad", ["x", "pads"], ["y"], mode="reflect")], {"pads": np.int64([2, 1, 0, 5, 0, 0])},
        lambda x: np.pad(x, [(2, 5), (1, 0), (0, 0)], "reflect")),
    "padded by its other end": (
        [node("Pad", ["x", "pads"], ["y"], mode="wrap")], {"pads": np.int64([2, 0, 0, 3, 0, 0])},
        lambda x: np.pad(x, [(2, 3), (0, 0), (0, 0)], "wrap")),
    "the first largest": (
        [node("Neg", ["x"], ["z"]), node("Hardmax", ["z"], ["y"], axis=0)], {},
        lambda x: np.arange(len(x))[:, None, None] == np.zeros(x.shape)),
    "norms of windows": (
        [node("Transpose", ["x"], ["t"], perm=[1, 2, 0]),
         node("LpPool", ["t"], ["y"], kernel_shape=[2], pads=[1, 0], p=3)], {},
        lambda x: np.cbrt(x**3 + np.concatenate([np.zeros_like(x[:1]), x[:-1]]) ** 3).transpose(1, 2, 0)),
    "halves up to a size": (
        [node("Shape", ["x"], ["s"]), node("Gather", ["s", "first"], ["n"]), node("Cast", ["n"], ["f"], to=FLOAT),
         node("Range", ["half", "f", "half"], ["y"])],
        {"first": np.int64(0), "half": np.float32(0.5)}, lambda x: np.arange(0.5, len(x), 0.5, np.float32)),
    "halves down from a size": (
        [node("Shape", ["x"], ["s"]), node("Gather", ["s", "first"], ["n"]), node("Cast", ["n"], ["f"], to=FLOAT),
         node("Range", ["f", "half", "step"], ["y"])],
        {"first": np.int64(0), "half": np.float32(0.5), "step": np.float32(-0.5)},
        lambda x: np.arange(len(x), 0.5, -0.5, np.float32)),
}  # fmt: skip


def _log(x: Any) -> Any:
    with np.errstate(divide="ignore"):
        return np.log(x)


def _put(x: Any, *places: list[int]) -> Any:
    made = x.copy()
    made[tuple(places)] = [-1, -2]
    return made


@pytest.mark.parametrize("name", VIEWS)
def test_views_of_symbolic_sizes(name: str) -> None:
    nodes, weights, expected = VIEWS[name]
    run = program(model(nodes, [port("x", ["n", 3, 2])], ["y"], weights))
    for n in (4, 2, 1):
        (y,) = run([X[:n]])
        np.testing.assert_allclose(y, expected(X[:n]), rtol=1e-6)


@pytest.mark.parametrize("ends", [(0, 10, 2), (-5, 2**62, 1), (5, 2**62, 1), (1, -3, 1), (-3, 9, 2),
                                  (-2, 2, 1), (-2, 1, 1), (2, -3, -1), (1, -5, -1), (5, 0, -2),
                                  (0, -9, -1)])  # fmt: skip
def test_slices_whose_ends_are_beyond_the_example_are_right_at_every_size(ends: tuple[int, int, int]) -> None:
    """The example of an axis of batches is 2."""
    names = ("first", "last", "axis", "step")
    nodes = [node("Slice", ["x", *names], ["t"]), node("Shape", ["t"], ["s"]), node("ConstantOfShape", ["s"], ["y"])]
    start, stop, step = ends
    weights = {k: np.int64([v]) for k, v in zip(names, (start, stop, 0, step), strict=True)}
    run = program(model(nodes, [port("x", ["n"])], ["t", "y"], weights))
    for n in range(13):
        x = np.arange(n, dtype=np.float32)
        t, y = run([x])
        np.testing.assert_array_equal(t, x[start:stop:step])
        assert y.shape == t.shape


def test_a_slice_that_is_shorter_than_its_key_at_small_sizes_decides_nothing() -> None:
    """The shape of x[:, :3] is no constant."""
    nodes = [
        node("Slice", ["x", "zero", "three", "one"], ["t"]), node("Shape", ["t"], ["s"]),
        node("Expand", ["flat", "s"], ["y"]),
    ]  # fmt: skip
    weights = {"zero": np.int64([0]), "three": np.int64([3]), "one": np.int64([1]), "flat": np.float32([[1]])}
    made = load_model(model(nodes, [port("x", [2, "m"])], ["y"], weights))
    run = Graphs(made.graph) if made.program is None else Plans(made.program)
    for m in (7, 3, 2, 1, 0):
        assert run([np.zeros((2, m), np.float32)])[0].shape == (2, min(m, 3))


EMPTY: dict[str, tuple[list[Any], dict[str, Any], tuple[int, ...]]] = {
    "Resize": ([node("Resize", ["x", "", "scales"], ["y"], mode="linear")],
               {"scales": np.float32([1, 1, 2])}, (0, 3, 0)),
    "ArgMax": ([node("ArgMax", ["x"], ["y"], axis=0)], {}, (1, 3, 0)),
    "ArgMin": ([node("ArgMin", ["x"], ["y"], axis=2, keepdims=0)], {}, (0, 3)),
    "Hardmax": ([node("Hardmax", ["x"], ["y"], axis=2)], {}, (0, 3, 0)),
}  # fmt: skip


@pytest.mark.parametrize("op", EMPTY)
def test_nothing_is_made_of_nothing(op: str) -> None:
    nodes, weights, expected = EMPTY[op]
    run = program(model(nodes, [port("x", ["n", 3, "n"])], ["y"], weights))
    assert run([np.zeros((0, 3, 0), np.float32)])[0].shape == expected


@pytest.mark.parametrize(("op", "nothing"), [("ReduceMax", -np.inf), ("ReduceMin", np.inf)])
def test_extremes_of_nothing_are_neutral(op: str, nothing: float) -> None:
    first = {"first": np.int64([0])}
    run = program(model([node(op, ["x", "first"], ["y"], keepdims=0)], [port("x", ["n", 3, 2])], ["y"], first))
    for n in (3, 1, 0):
        expected = getattr(np, op[6:].lower())(X[:n], axis=0, initial=nothing)
        np.testing.assert_array_equal(run([X[:n]])[0], expected)


@pytest.mark.parametrize("op", ["BatchNormalization", "InstanceNormalization"])
def test_norms_of_an_empty_batch(op: str) -> None:
    ones = {name: np.ones(3, np.float32) for name in "abcd"}
    inputs = ["x", "a", "b", *(["c", "d"] if op == "BatchNormalization" else [])]
    run = program(model([node(op, inputs, ["y"])], [port("x", ["n", 3, 2])], [port("y", ["n", 3, 2])], ones))
    assert [run([X[:n]])[0].shape for n in (2, 0)] == [(2, 3, 2), (0, 3, 2)]
