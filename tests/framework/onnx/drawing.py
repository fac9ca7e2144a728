"""A random ONNX graph as it grows: each node that is drawn is run alone by ONNX Runtime, at several sizes of the axes
of inputs, and kept where it takes them. What it made is what the whole graph must compute."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from tests.framework.program.graphs import Draws

onnx = pytest.importorskip("onnx", reason="needs the package onnx: pip install onnx")
runtime = pytest.importorskip("onnxruntime", reason="needs the package onnxruntime: pip install onnxruntime")
from onnx import helper, numpy_helper  # noqa: E402

#: sizes of the symbolic axes: a node must take all in which none is 0
SIZES = (
    {"n": 5, "m": 7}, {"n": 1, "m": 7}, {"n": 2, "m": 3}, {"n": 3, "m": 1}, {"n": 4, "m": 4}, {"n": 0, "m": 2},
    {"n": 2, "m": 0},
)  # fmt: skip
LARGE, DEEP = 4096, 6  # elements of an array, and dimensions
FAR = 100.0  # beyond, differences of rounding would look like errors
FINE = 1024.0  # numbers that are whole when multiplied by it are exact in every order of a sum
OPSETS = (17, 17, 17, 17, 13, 15, 18, 19, 21)
#: ops that make exact numbers of exact ones
_EXACT = """
    Abs Add ArgMax ArgMin Cast Ceil Clip Compress Concat ConstantOfShape CumSum DepthToSpace Einsum Equal Expand Flatten
    Floor Gather GatherElements GatherND Gemm Greater GreaterOrEqual Identity Less LessOrEqual MatMul Max MaxPool Min
    Mod Mul Neg OneHot Pad Range ReduceMax ReduceMin ReduceSum Relu Reshape ReverseSequence Round ScatterElements
    ScatterND Sign Slice SpaceToDepth Split Squeeze Sub Sum Tile TopK Transpose Trilu Unsqueeze Where
"""
EXACT = frozenset(_EXACT.split())


#: ops that divide by nothing where their inputs are empty, and those whose answer to a window larger than x is its own
FRAGILE = frozenset({"ConvTranspose", "Einsum", "LpPool", "ReduceMean"})
WINDOWS = frozenset({"AveragePool", "Conv", "LpPool", "MaxPool"})


class Unfit(Exception):
    """ONNX Runtime does not take a node, or what it makes is no use."""


@dataclass(eq=False)
class Value:
    """A value of the graph, at each of the sizes: None where a size has been given up. `exact`: without rounding."""

    name: str
    at: list[Any]
    exact: bool

    @property
    def ndim(self) -> int:
        return int(self.some.ndim)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.some.dtype  # type: ignore[no-any-return]

    @property
    def some(self) -> Any:
        return next(x for x in self.at if x is not None)

    @property
    def dims(self) -> list[int | None]:
        """Sizes of its axes, None where they depend on those of the inputs."""
        each = [set(sizes) for sizes in zip(*[x.shape for x in self.at if x is not None], strict=True)]
        return [next(iter(sizes)) if len(sizes) == 1 else None for sizes in each]


@dataclass
class Case:
    """A graph with what it reads and makes: names of inputs with their axes, arrays that it holds, its nodes, outputs,
    and every value at every size."""

    opset: int
    inputs: dict[str, tuple[int | str, ...]] = field(default_factory=dict)
    held: dict[str, Any] = field(default_factory=dict)
    nodes: list[Any] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    values: dict[str, Value] = field(default_factory=dict)
    sizes: list[int] = field(default_factory=lambda: list(range(len(SIZES))))

    def model(self) -> bytes:
        """The file."""

        def port(name: str, shape: Any) -> Any:
            return helper.make_tensor_value_info(name, _element(self.values[name].dtype), shape)

        made = helper.make_graph(
            self.nodes, "drawn", [port(name, shape) for name, shape in self.inputs.items()],
            [port(name, [f"{name}_{i}" for i in range(self.values[name].ndim)]) for name in self.outputs],
            [numpy_helper.from_array(x, name) for name, x in self.held.items()],
        )  # fmt: skip
        return bytes(_model(made, self.opset).SerializeToString())

    def pruned(self) -> Case:
        """Without the nodes, inputs and arrays that no output needs."""
        wanted, nodes = set(self.outputs), []
        for node in reversed(self.nodes):
            if wanted & set(node.output):
                nodes.append(node)
                wanted |= set(node.input)
        inputs = {name: shape for name, shape in self.inputs.items() if name in wanted}
        held = {name: x for name, x in self.held.items() if name in wanted}
        return Case(self.opset, inputs, held, nodes[::-1], self.outputs, self.values, self.sizes)


class Drawing:
    """Draws a case, step by step; a step that ends in `Unfit` leaves nothing behind."""

    def __init__(self, d: Draws) -> None:
        self.d, self.case = d, Case(d.pick(OPSETS))
        self.made: list[Value] = []
        self.count = 0

    # -- values to work on ---------------------------------------------------------------------------------------------
    def pick(self, fits: Callable[[Value], bool] = lambda v: True) -> Value:
        """One of the values so far, of the last ones more often."""
        found = [v for v in self.made if fits(v)]
        if not found:
            raise Unfit
        return self.d.pick(found[-4:] if self.d.often(0.8) else found)

    def floats(self, fits: Callable[[Value], bool] = lambda v: True, *, exact: bool = False) -> Value:
        """A float, one at least of a dimension more often than not."""
        wide = self.d.often(0.1)
        kinds = (np.float64, np.float32) if wide else (np.float32,)
        return self.pick(lambda v: v.dtype in kinds and (v.exact or not exact) and fits(v))

    def ints(self, fits: Callable[[Value], bool] = lambda v: True) -> Value:
        return self.pick(lambda v: v.dtype in (np.int64, np.int32) and fits(v))

    def bools(self) -> Value:
        return self.pick(lambda v: v.dtype == np.bool_)

    def input(self, shape: tuple[int | str, ...], dtype: Any) -> Value:
        name = f"x{len(self.case.inputs)}"
        sizes = [tuple(n if isinstance(n, int) else at[n] for n in shape) for at in SIZES]
        value = Value(name, [numbers(self.d, s, dtype) for s in sizes], True)
        self.case.inputs[name] = shape
        self.case.values[name] = value
        self.made.append(value)
        return value

    def hold(self, x: Any, dtype: Any = None) -> Value:
        """A constant of the graph."""
        x = np.array(x, dtype)
        value = Value(self._name("c"), [x] * len(SIZES), _is_exact(x))
        self.case.held[value.name] = x
        self.case.values[value.name] = value
        return value

    def numbers(self, shape: Sequence[int], dtype: Any = np.float32) -> Value:
        """A constant of drawn numbers."""
        return self.hold(numbers(self.d, shape, dtype))

    def _name(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count}"

    # -- nodes ---------------------------------------------------------------------------------------------------------
    def add(self, op: str, *inputs: Value | None, outputs: int = 1, show: bool = True, **attributes: Any) -> Any:
        """A node, and what it makes; `show`: as a value that others may take."""
        names = [self._name("y") for _ in range(outputs)]
        kept = {k: v for k, v in attributes.items() if v is not None and v != []}
        node = helper.make_node(op, ["" if v is None else v.name for v in inputs], names, **kept)
        made = alone(node, [v for v in inputs if v is not None], self.case.opset, self.case.sizes)
        exact = op in EXACT and all(v.exact for v in inputs if v is not None)
        values = [Value(name, at, exact) for name, at in zip(names, made, strict=True)]
        for value in values:
            self._require(value)
            self.case.values[value.name] = value
        self.case.nodes.append(node)
        self.case.sizes = [i for i in self.case.sizes if all(v.at[i] is not None for v in values)]
        self.made += values if show else []
        return values[0] if outputs == 1 else tuple(values)

    def _require(self, value: Value) -> None:
        """Unfit unless a value is of one rank, small, finite, and there at all sizes but 0."""
        found = [x for x in value.at if x is not None]
        if any(value.at[i] is None and i in self.case.sizes and 0 not in SIZES[i].values() for i in range(len(SIZES))):
            raise Unfit
        if not found or len({x.ndim for x in found}) > 1 or found[0].ndim > DEEP or max(x.size for x in found) > LARGE:
            raise Unfit
        for i, x in enumerate(value.at):
            if x is not None and x.dtype.kind == "f" and not (np.abs(x) < FAR).all():
                if 0 not in SIZES[i].values():
                    raise Unfit
                value.at[i] = None
        value.exact = value.exact and all(_is_exact(x) for x in found)

    def step(self, kind: Callable[[Draws, Drawing], Any]) -> bool:
        """Draw a step of a kind; whether it fits."""
        nodes, made, sizes = len(self.case.nodes), len(self.made), self.case.sizes
        try:
            kind(self.d, self)
        except Unfit:
            del self.case.nodes[nodes:], self.made[made:]
            self.case.sizes = sizes
            return False
        return True


def numbers(d: Draws, shape: Sequence[int], dtype: Any) -> Any:
    """Drawn numbers: floats are quarters, so that little is rounded."""
    x = d.rng.integers(-8, 9, tuple(shape))
    kind = np.dtype(dtype)
    if kind == np.bool_:
        return x > 0
    return (x / 4).astype(kind) if kind.kind == "f" else np.abs(x).astype(kind) if kind.kind == "u" else x.astype(kind)


def _is_exact(x: Any) -> bool:
    return x.dtype.kind != "f" or bool((x * FINE == np.round(x * FINE)).all())


def _element(dtype: Any) -> int:
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


def _model(graph: Any, opset: int) -> Any:
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def quiet() -> Any:
    """Options of ONNX Runtime: nothing fused, nothing said."""
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return options


def alone(node: Any, inputs: Sequence[Value], opset: int, sizes: Sequence[int]) -> list[list[Any]]:
    """What a node makes, by ONNX Runtime, for each output at each size: None where it does not take that."""
    each = list({v.name: v for v in inputs}.values())
    ports = [helper.make_tensor_value_info(v.name, _element(v.dtype), [None] * v.ndim) for v in each]
    ends = [helper.make_empty_tensor_value_info(name) for name in node.output]
    try:
        data = _model(helper.make_graph([node], "one", ports, ends), opset).SerializeToString()
        session = runtime.InferenceSession(data, quiet(), providers=["CPUExecutionProvider"])
    except Exception as error:
        raise Unfit(str(error)) from None
    made: list[list[Any]] = [[None] * len(SIZES) for _ in node.output]
    for i in sizes:
        if node.op_type in FRAGILE and any(v.at[i].size == 0 for v in each):
            continue
        if node.op_type == "Reshape" and _copies(inputs[1].at[i], inputs[1].at[0]):
            continue
        if node.op_type in WINDOWS and not _fits(node, [v.at[i].shape for v in inputs]):
            if 0 not in SIZES[i].values():
                raise Unfit
            continue
        try:
            found = session.run(None, {v.name: v.at[i] for v in each})
        except Exception as error:
            if 0 not in SIZES[i].values():
                raise Unfit(str(error)) from None
            continue
        for values, x in zip(made, found, strict=True):
            values[i] = np.asarray(x)
    return made


def _copies(shape: Any, usual: Any) -> bool:
    """Whether a size of a shape is 0 by chance, which ONNX reads as a copy of x's."""
    return any(n == 0 != other for n, other in zip(shape, usual, strict=False))


def _fits(node: Any, shapes: Sequence[tuple[int, ...]]) -> bool:
    """Whether a window is inside the padded x."""
    given = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    window = given.get("kernel_shape") or shapes[1][2:]
    if given.get("auto_pad", b"").startswith(b"SAME"):
        return all(shapes[0][2:])
    rank = len(window)
    pads, dilations = given.get("pads", [0] * 2 * rank), given.get("dilations", [1] * rank)
    return all(
        n + pads[i] + pads[i + rank] > dilations[i] * (window[i] - 1) and n > 0 for i, n in enumerate(shapes[0][2:])
    )
