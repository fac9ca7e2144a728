"""Programs on bytes: what calibration makes of nets, against the pairs of QuantizeLinear and DequantizeLinear that say
what they must compute.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdl
from pdl import nn
from pdl.dims import Dim
from pdl.errors import UsageError
from pdl.export.quantise import METHODS, calibrate
from pdl.export.quantise.calibrate import tapped
from pdl.export.quantise.observe import Histogram
from pdl.ops import quant
from pdl.ops.base import Spec, apply
from pdl.program import Executable, Program, trace
from pdl.program.ir import Value
from pdl.program.passes import INFERENCE_ONCE, fuse_quantised, run_passes
from pdl.program.passes.quantise import Range, points, quantised_weights
from pdl.program.specialise import bind, specialise
from pdl.runtime.plan import frozen
from pdl.runtime.session import Session
from pdl.tensor import no_grad

F32, U8 = np.dtype(np.float32), np.dtype(np.uint8)


class Residual(nn.Module):
    """Norms, ReLU, a shortcut, one that is padded and strided, a mean, a linear layer."""

    def __init__(self) -> None:
        self.stem, self.norm = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.a, self.b = nn.Conv2d(8, 8, 3, padding=1), nn.Conv2d(8, 16, 3, padding=1, stride=2)
        self.c, self.fc = nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.Linear(16, 5)

    def forward(self, x: Any) -> Any:
        x = self.norm(self.stem(x), activation="relu")
        x = pdl.relu(x + self.a(x))
        y = pdl.relu6(self.b(x))
        x = y + pdl.pad(x[:, ::2, ::2], ((0, 0), (0, 0), (0, 0), (4, 4)))
        return self.fc(pdl.global_avg_pool(pdl.hardswish(self.c(x))))


class Mixed(nn.Module):
    """Max and mean pooling, a function that products do not take along, two branches that are joined, a reshape."""

    def __init__(self) -> None:
        self.a, self.b, self.c = nn.Conv2d(3, 6, 3), nn.Conv2d(6, 4, 1), nn.Conv2d(6, 7, 3, padding=1)
        self.fc = nn.Linear(11 * 9, 4)

    def forward(self, x: Any) -> Any:
        x = pdl.max_pool(pdl.silu(self.a(x)), 2)
        x = pdl.concat([pdl.sigmoid(self.b(x)), self.c(x) * 0.5], axis=-1)
        x = pdl.avg_pool(x, 3, stride=2, padding=1, count_include_pad=False)
        return pdl.softmax(self.fc(x.reshape(x.shape[0], -1)))


NETS: dict[str, tuple[Callable[[], nn.Module], set[str]]] = {
    "residual": (Residual, {"QuantizeLinear", "QConv", "GetItem", "Pad", "QAdd", "QGlobalMean", "QLinear"}),
    "mixed": (
        Mixed,
        {"QuantizeLinear", "QConv", "QMap", "QMaxPool", "Concat", "QAvgPool", "Reshape", "QLinear", "Softmax"},
    ),
}


def traced(net: nn.Module, size: int = 12) -> Program:
    net.eval()
    with no_grad():
        return trace(net, Spec((Dim.symbol("n", 3), size, size, 3), F32))


def pictures(n: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(0.3, 1, (n, 12, 12, 3)).astype(np.float32)


def named(program: Program) -> set[str]:
    return {type(n.op).__name__ for n in program.nodes}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", NETS)
def test_a_net_stays_in_bytes(name: str, method: str) -> None:
    make, ops = NETS[name]
    pdl.random.seed(0)
    net = make()
    program = traced(net)
    made = calibrate(program, [[pictures(16, s)] for s in range(4)], method=method)
    assert named(made.program) == ops
    x = pictures(7, 9)
    plan = Session.of(made.program).engine.plan((x.shape,))  # type: ignore[attr-defined]
    assert named(plan.program) >= {"QConvPacked", "QLinearPacked"}
    ours, theirs = (Session.of(p).run({p.inputs[0].name or "x": x})["y"] for p in (made.program, program))
    assert np.abs(ours - theirs).max() < 0.08 * np.abs(theirs).max()
    assert not np.array_equal(ours, theirs)


@pytest.mark.parametrize("name", NETS)
def test_bytes_are_those_of_the_pairs(name: str) -> None:
    """The program on bytes and the one with pairs round at the same places: they differ by float32's last bits only,
    which may tip a value from one byte to the next.
    """
    pdl.random.seed(1)
    made = calibrate(traced(NETS[name][0]()), [[pictures(8, s)] for s in range(3)])
    x = pictures(3, 4)
    ours, theirs = ([np.array(y) for y in next(tapped(p, p.outputs, [[x]]))] for p in (made.program, made.pairs))
    np.testing.assert_allclose(ours[0], theirs[0], atol=0.02 * np.abs(theirs[0]).max())
    assert np.abs(ours[0] - theirs[0]).mean() < 0.002 * np.abs(theirs[0]).max()


# -- single patterns ---------------------------------------------------------------------------------------------------
def quantised(x: Any, scale: float, zero: int) -> Any:
    made = quant.quantize_linear(x, np.float32(scale), np.uint8(zero))
    return quant.dequantize_linear(made, np.float32(scale), np.uint8(zero))


def fused(function: Callable[..., Any], *shapes: tuple[int, ...]) -> Program:
    """The function of bytes (scale 0.05, zero 120) and its result as bytes (scale 0.0937, zero 50), fused."""

    def whole(*xs: Any) -> Any:
        y = function(*[quant.dequantize_linear(x, np.float32(0.05), np.uint8(120)) for x in xs])
        return quant.quantize_linear(y, np.float32(0.0937), np.uint8(50))

    program = frozen(trace(whole, *[Spec(s, U8) for s in shapes]))
    plain = program.copy()
    fused = run_passes(program, (fuse_quantised,))
    rng = np.random.default_rng(3)
    ins = [rng.integers(0, 256, s, np.uint8) for s in shapes]
    ours, theirs = (Executable(p)(*ins)[0] for p in (fused, plain))
    assert np.abs(ours.astype(int) - theirs.astype(int)).max() <= 1
    assert (ours == theirs).mean() > 0.98
    return fused


RNG = np.random.default_rng(7)
W, B = RNG.integers(-127, 128, (3, 3, 4, 6)).astype(np.int8), RNG.normal(0, 1, 6).astype(np.float32)
S = RNG.uniform(0.005, 0.02, 6).astype(np.float32)


def weight() -> Any:
    return quant.dequantize_linear(W, S, np.zeros(6, np.int8), axis=3)


def gate(x: Any) -> Any:
    """1 + erf(x / sqrt(2)), where quantisers round it."""
    return quantised(quantised(pdl.erf(x / 2**0.5), 0.008, 128) + 1, 0.008, 0)


PATTERNS: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]], list[str]]] = {
    "conv": (lambda x: pdl.conv2d(x, weight(), B, padding=1), [(2, 5, 6, 4)], ["QConv"]),
    "conv, relu": (lambda x: pdl.relu(pdl.conv2d(x, weight())), [(2, 5, 6, 4)], ["QConv"]),
    "conv, silu": (lambda x: pdl.silu(pdl.conv2d(x, weight())), [(2, 5, 6, 4)], ["QConv", "Silu", "QuantizeLinear"]),
    "residual": (
        lambda x, r: pdl.relu(pdl.conv2d(x, weight(), B, padding=1) + r), [(1, 5, 6, 4), (1, 5, 6, 6)], ["QConv"],
    ),
    "sum": (lambda a, b: a + b, [(3, 9), (3, 9)], ["QAdd"]),
    "sum, relu6": (lambda a, b: pdl.relu6(a + b), [(3, 9), (3, 9)], ["QAdd"]),
    "function": (lambda x: pdl.gelu(x), [(3, 90)], ["QMap"]),
    "number": (lambda x: 3 - x, [(3, 90)], ["QMap"]),
    "gated": (lambda x: x * quantised(pdl.sigmoid(x), 0.004, 0), [(3, 90)], ["QMap"]),
    "gated behind": (lambda x: quantised(pdl.sigmoid(x), 0.004, 0) * x, [(3, 90)], ["QMap"]),
    "two functions": (
        lambda x: quantised(pdl.sigmoid(x), 0.004, 0) - quantised(pdl.tanh(x), 0.008, 128), [(3, 90)], ["QMap"],
    ),
    "parts of GELU": (lambda x: quantised(x * gate(x), 0.05, 9) * 0.5, [(3, 90)], ["QMap"]),
    "a function of a function": (lambda x: pdl.tanh(pdl.exp(1 - x)), [(3, 90)], ["QMap"]),
    "matrix product": (
        lambda x: x @ quant.dequantize_linear(W[0, 0], S, np.zeros(6, np.int8), axis=1), [(2, 5, 4)], ["QLinear"],
    ),
    "rescaled": (lambda x: x, [(3, 90)], ["QMap"]),
    "joined": (lambda a, b: pdl.concat([a, b], axis=1), [(3, 9), (3, 4)], ["QMap", "QMap", "Concat"]),
    "max pool": (lambda x: pdl.max_pool(x, 3, stride=2, padding=1), [(2, 7, 7, 3)], ["QMaxPool", "QMap"]),
    "avg pool": (lambda x: pdl.avg_pool(x, 3, stride=2, padding=1), [(2, 7, 7, 3)], ["QAvgPool"]),
    "mean": (lambda x: pdl.global_avg_pool(x), [(2, 7, 7, 3)], ["QGlobalMean"]),
    "mean, flattened": (
        lambda x: pdl.global_avg_pool(x, keepdims=True).reshape(2, 3), [(2, 7, 7, 3)], ["QGlobalMean", "Reshape"],
    ),
    "adaptive": (lambda x: pdl.adaptive_avg_pool(x, 1), [(2, 7, 7, 3)], ["QGlobalMean"]),
    "padded": (lambda x: pdl.pad(x, ((0, 0), (1, 2))), [(2, 7)], ["Pad", "QMap"]),
    "moved": (lambda x: pdl.permute_dims(x, (1, 0)), [(2, 7)], ["QMap", "PermuteDims"]),
    "another mean": (lambda x: x.mean(axis=0), [(4, 7)], ["DequantizeLinear", "Mean", "QuantizeLinear"]),
}  # fmt: skip


@pytest.mark.parametrize("name", PATTERNS)
def test_pattern(name: str) -> None:
    function, shapes, ops = PATTERNS[name]
    assert [type(n.op).__name__ for n in fused(function, *shapes).nodes] == ops


def test_weights_that_arrive_permuted() -> None:
    """As an importer writes them: OIHW with scales along axis 0, permuted after they are dequantised."""
    stored = np.ascontiguousarray(W.transpose(3, 2, 0, 1))

    def function(x: Any) -> Any:
        w = quant.dequantize_linear(stored, S, np.zeros(6, np.int8), axis=0)
        return pdl.conv2d(x, pdl.permute_dims(w, (2, 3, 1, 0)))

    program = fused(function, (1, 5, 5, 4))
    assert [type(n.op).__name__ for n in program.nodes] == ["QConv"]
    w = next(v for v in program.nodes[0].inputs[1:2] if v is not None)
    np.testing.assert_array_equal(w.tensor._data, W)  # type: ignore[union-attr]


def test_a_bias_of_int32_is_kept() -> None:
    b = RNG.integers(-(2**20), 2**20, 6).astype(np.int32)
    unit = (np.float32(0.05) * S).astype(np.float32)

    def function(x: Any) -> Any:
        bias = quant.dequantize_linear(b, unit, np.zeros(6, np.int32), axis=0)
        return pdl.conv2d(x, weight(), bias)

    kept = fused(function, (1, 5, 5, 4)).nodes[0].inputs[3]
    assert kept is not None
    np.testing.assert_array_equal(kept.tensor._data, b)  # type: ignore[union-attr]


# -- ranges and weights ------------------------------------------------------------------------------------------------
def test_ranges() -> None:
    rng = np.random.default_rng(0)
    values = np.abs(rng.normal(0, 1, 100_000)).astype(np.float32)
    values[0] = 12
    found = {}
    for name, method in METHODS.items():
        histogram = Histogram(float(values.min()), float(values.max()))
        histogram.add(values)
        found[name] = method(histogram)
        assert found[name].low == 0
    assert found["minmax"].high == 12
    assert 3 < found["percentile"].high < 6
    assert 4 < found["mse"].high < 12
    assert 2 < found["entropy"].high < 12


@pytest.mark.parametrize("ends", [(0.0, 6.0), (-3.0, 1.0), (0.5, 2.0), (-2.0, -1.0), (0.0, 0.0), (0.0, 1e-30)])
def test_zero_is_a_byte(ends: tuple[float, float]) -> None:
    scale, zero = Range(*ends).scale_and_zero()
    assert scale > 0
    assert 0 <= zero <= 255
    low, high = (0 - zero) * scale, (255 - zero) * scale
    assert low <= min(0, ends[0]) + scale
    assert high >= max(0, ends[1]) - scale


def test_weights() -> None:
    w = RNG.normal(0, 1, (3, 3, 4, 5)).astype(np.float32)
    w[..., 3] = 0
    w[..., 4] = 1e-12
    b = np.array([0, 1, -1, 5, 5], np.float32)
    q, scale = quantised_weights(w, b, 0.01)
    assert np.abs(w - q * scale).max() <= np.abs(w).max() / 127 / 2 * 1.001
    assert np.abs(q[..., :3]).max() == 127
    assert (np.abs(b) / (scale * 0.01) < 2**30).all()


def test_what_is_rounded() -> None:
    program = run_passes(frozen(traced(Residual())), INFERENCE_ONCE)
    at = points(program)
    assert len(at.products) == 5
    names = [type(v.node.op).__name__ if v.node else "input" for v in at.values]
    assert names[0] == "input"
    assert all(isinstance(v, Value) for v in at.values)
    assert points(program, at.products).values == []


def test_refusals() -> None:
    batch = [[pictures(2)]]
    with pytest.raises(UsageError, match="nothing to quantise"):
        calibrate(traced(nn.ReLU()), batch)
    with pytest.raises(UsageError, match="method='best' must be one of mse"):
        calibrate(traced(Residual()), batch, method="best")
    with pytest.raises(UsageError, match="needs samples"):
        calibrate(traced(Residual()), [])
    with pytest.raises(UsageError, match="not finite"):
        calibrate(traced(Residual()), [[pictures(2) * np.inf]])
    with pytest.raises(UsageError, match="keep='middle'"):
        calibrate(traced(Residual()), batch, keep="middle")


@pytest.mark.parametrize(("keep", "count"), [("", 5), ("first", 4), ("last", 4), ("both", 3)])
def test_layers_that_stay_in_floats(keep: str, count: int) -> None:
    made = calibrate(traced(Residual()), [[pictures(4)]], keep=keep)
    assert sum(isinstance(n.op, quant.QConv | quant.QLinear) for n in made.program.nodes) == count


def test_hostile_attributes_are_refused() -> None:
    x, w = np.zeros((1, 4, 4, 4), np.uint8), W
    fields: dict[str, Any] = {"stride": (1, 1), "padding": ((0, 0), (0, 0)), "dilation": (1, 1), "groups": 1}
    for more in ({"x_scale": float("nan")}, {"x_zero": 300}, {"y_scale": -1.0}, {"activation": "tanh"}):
        with pytest.raises(UsageError):
            apply(quant.QConv(**fields, **more), *map(pdl.Tensor, (x, w, S)), None, None)


# -- ONNX --------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", NETS)
def test_onnx_and_back(name: str, tmp_path: Path) -> None:
    """The pairs as an ONNX file, and what is read from it: the same bytes; ONNX Runtime, where it is, rounds alike."""
    pytest.importorskip("onnx")
    from pdl.export.onnx import to_onnx
    from pdl.onnx.importer import load_model

    pdl.random.seed(2)
    made = calibrate(traced(NETS[name][0]()), [[pictures(8, s)] for s in range(3)])
    path, x = tmp_path / "net.onnx", pictures(5, 11)
    to_onnx(made.pairs, path, inputs=["x"], outputs=["y"], samples=[])
    read = load_model(path).program
    assert read is not None
    ours = Session.of(made.program, inputs=["x"]).run({"x": x})["y"]
    session = Session.of(read, inputs=["x"])
    first = np.ascontiguousarray(x.transpose(0, 3, 1, 2))
    np.testing.assert_allclose(session.run({"x": first})["y"], ours, atol=0.02 * np.abs(ours).max())
    products = [n for n in session.engine.program.nodes if type(n.op).__name__ in ("QConv", "QLinear")]  # type: ignore[attr-defined]
    assert len(products) == len(points(made.floats).products)
    runtime = pytest.importorskip("onnxruntime")
    theirs = runtime.InferenceSession(str(path)).run(None, {"x": first})[0]
    np.testing.assert_allclose(theirs, ours, atol=0.05 * np.abs(ours).max())


def test_activations_with_a_sign() -> None:
    """int8 on both sides of a product becomes uint8: the same numbers."""

    def function(x: Any) -> Any:
        s, z = np.float32(0.05), np.int8(-8)
        y = quant.dequantize_linear(quant.quantize_linear(x, s, z), s, z)
        y = pdl.conv2d(y, weight(), B)
        return quant.dequantize_linear(quant.quantize_linear(y, s, np.int8(9)), s, np.int8(9))

    program = frozen(trace(function, Spec((1, 5, 5, 4), F32)))
    plain, fused = program.copy(), run_passes(program, (fuse_quantised,))
    assert [type(n.op).__name__ for n in fused.nodes] == ["QuantizeLinear", "QConv", "DequantizeLinear"]
    x = RNG.normal(0, 3, (1, 5, 5, 4)).astype(np.float32)
    ours, theirs = (Executable(p)(x)[0] for p in (fused, plain))
    assert np.abs(ours - theirs).max() <= 0.051
    assert (ours == theirs).mean() > 0.98


class Wide(nn.Module):
    """Feed-forward layers between two norms, as in transformers; the first norm makes two channels a hundred times as
    large as the others."""

    def __init__(self) -> None:
        self.norm, self.a, self.b, self.last = nn.LayerNorm(64), nn.Linear(64, 32), nn.Linear(32, 64), nn.LayerNorm(64)
        self.norm.weight.data[[3, 40]] = 100
        self.scale = pdl.as_tensor(1 / self.norm.weight.data)
        self.a.weight.data[[3, 40]] *= 0.01

    def forward(self, x: Any) -> Any:
        x = self.norm(x)
        return self.last(x * self.scale + self.b(pdl.gelu(self.a(x))))


def test_channels_of_many_sizes() -> None:
    """What a layer reads keeps its small channels in bytes, and what is added behind it stays as it was."""
    pdl.seed(0)
    net = Wide().eval()
    with no_grad():
        program = trace(net, Spec((Dim.symbol("n", 3), Dim.symbol("t", 5), 64), F32))
    x = np.random.default_rng(0).normal(size=(8, 6, 64)).astype(np.float32)
    made = calibrate(program, [[x]])
    wanted = Executable(frozen_at(program, x))(x)[0]
    floats, found = (Executable(frozen_at(each, x))(x)[0] for each in (made.floats, made.program))
    assert np.abs(floats - wanted).max() < 1e-4, "smoothing is exact in floats"
    assert np.sqrt(np.mean((found - wanted) ** 2)) < 0.02, "0.48 without smoothing"
    assert {type(node.op).__name__ for node in made.program.nodes} >= {"QLinear", "Multiply"}


def test_channels_of_about_one_size_stay() -> None:
    net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4)).eval()
    with no_grad():
        program = trace(net, Spec((Dim.symbol("n", 3), 5, 8), F32))
    made = calibrate(program, [[np.random.default_rng(0).normal(size=(64, 5, 8)).astype(np.float32)]])
    assert {type(node.op).__name__ for node in made.program.nodes} == {"QuantizeLinear", "QLinear"}


def frozen_at(program: Program, x: Any) -> Program:
    return specialise(program, bind(program, (x.shape,)))
