"""ONNX files: names, layouts, sizes known at run time only, metadata, control flow, and what is refused."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdl
from pdl import jit, nn
from pdl.dims import Dim
from pdl.errors import CheckError, UsageError
from pdl.export.onnx import Report, missing, model, to_onnx
from pdl.export.onnx.registry import EMITTERS
from pdl.ops.base import Spec
from pdl.ops.elementwise import Clip
from pdl.program import Program, trace

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")

F32, I64 = np.dtype(np.float32), np.dtype(np.int64)
N = Dim.symbol("n", 3)
RNG = np.random.default_rng(4)


def image(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape, dtype=np.float32)


def kinds(path: Path) -> list[str]:
    return [node.op_type for node in onnx.load(path).graph.node]


def exported(net: Any, specs: list[Spec], samples: list[list[np.ndarray]], path: Path, **more: Any) -> Report:
    pdl.seed(1)
    made = to_onnx(trace(net.eval() if isinstance(net, nn.Module) else net, *specs), path, samples=samples, **more)
    assert made.samples == len(samples)
    assert made.difference is not None
    assert made.difference < 2e-5
    return made


class Small(nn.Module):
    """A net with a branch, a residual and a flattened image."""

    def __init__(self) -> None:
        self.stem, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.branch, self.head = nn.Conv2d(8, 8, 3, padding=1), nn.Linear(8 * 4 * 4, 5)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        y = pdl.relu(self.norm(self.stem(x)))
        y = pdl.max_pool(y + self.branch(y), 2)
        return self.head(pdl.flatten(y, start=1))


def test_an_image_net_is_channels_first_throughout(tmp_path: Path) -> None:
    path = tmp_path / "small.onnx"
    made = exported(Small(), [Spec((N, 8, 8, 3), F32)], [[image(1, 8, 8, 3)], [image(5, 8, 8, 3)]], path)
    assert kinds(path) == [
        "Conv", "BatchNormalization", "Relu", "Conv", "Add", "MaxPool", "Flatten", "Gemm", "Identity",
    ]  # fmt: skip
    graph = onnx.load(path).graph
    assert [d.dim_param or d.dim_value for d in graph.input[0].type.tensor_type.shape.dim] == ["n", 3, 8, 8]
    assert [d.dim_param or d.dim_value for d in graph.output[0].type.tensor_type.shape.dim] == ["n", 5]
    names = {i.name: list(i.dims) for i in graph.initializer}
    assert names["stem.weight"] == [8, 3, 3, 3]
    assert names["head.weight"] == [128, 5]
    assert {"stem/Conv", "norm/BatchNormalization", "head/Gemm"} <= {node.name for node in graph.node}
    assert made.inputs[0].channels_first
    assert not made.outputs[0].channels_first
    assert "n" in str(made.inputs[0].shape)


def test_image_sizes_are_known_at_run_time_only(tmp_path: Path) -> None:
    h, w = Dim.symbol("h", 24), Dim.symbol("w", 32)
    convs = [nn.Conv2d(3, 4, 3, stride=2, padding=1), nn.Conv2d(4, 4, 3, padding=1)]

    def net(x: pdl.Tensor) -> Any:
        y = pdl.relu(convs[0](x))
        small = pdl.avg_pool(convs[1](y), 2)
        large = pdl.resize(small, y.shape[1:3], mode="bilinear")
        rows = pdl.reshape(y + large, (x.shape[0], -1, 4))  # as a detection head: [n, cells, 4]
        half = pdl.reshape(rows[:, : rows.shape[1] // 2], (-1,))
        return y + large, pdl.softmax(rows, axis=-1), pdl.broadcast_to(half.sum(), (x.shape[1] * 2 - 1,))

    samples = [[image(1, 16, 20, 3)], [image(2, 40, 24, 3)], [image(3, 24, 32, 3)]]
    made = exported(net, [Spec((N, h, w, 3), F32)], samples, tmp_path / "sizes.onnx", opset=13)
    assert [port.channels_first for port in made.outputs] == [True, False, False]


def test_a_size_that_must_be_fixed_is_said_with_its_line(tmp_path: Path) -> None:
    def net(x: pdl.Tensor) -> pdl.Tensor:
        return pdl.adaptive_avg_pool(pdl.relu(x), (3, 3))

    program = trace(net, Spec((1, Dim.symbol("h", 7), 7, 4), F32))
    ((what, where),) = missing(program)
    assert what.startswith("AdaptiveAvgPool")
    assert where.split(":")[0].endswith("test_onnx.py")


@pytest.mark.parametrize("opset", [13, 17, 18, 23])
def test_a_transformer_layer(opset: int, tmp_path: Path) -> None:
    layer = nn.TransformerEncoderLayer(12, 3, dim_feedforward=20, activation="gelu", norm_first=True)
    length = Dim.symbol("length", 6)
    samples = [[image(2, 5, 12)], [image(1, 9, 12)]]
    exported(layer, [Spec((N, length, 12), F32)], samples, tmp_path / "layer.onnx", opset=opset)


def test_causal_attention_of_any_length(tmp_path: Path) -> None:
    length = Dim.symbol("length", 6)

    def net(x: pdl.Tensor) -> pdl.Tensor:
        return pdl.scaled_dot_product_attention(x, x, x, heads=2, is_causal=True)

    path = tmp_path / "causal.onnx"
    exported(net, [Spec((N, length, 8), F32)], [[image(2, 4, 8)], [image(1, 7, 8)]], path)
    assert "Trilu" in kinds(path)


@pytest.mark.parametrize("kind", [nn.GRU, nn.LSTM, nn.RNN])
def test_recurrent_layers_are_one_node_a_direction(kind: Callable[..., nn.Module], tmp_path: Path) -> None:
    rnn = kind(5, 4, num_layers=2, bidirectional=True)
    length = Dim.symbol("length", 6)

    def net(x: pdl.Tensor, lengths: pdl.Tensor) -> Any:
        y, last = rnn(x, lengths=lengths)
        return (y, *last) if isinstance(last, tuple) else (y, last)

    samples = [[image(2, 7, 5), np.array([7, 3])], [image(3, 4, 5), np.array([1, 4, 2])]]
    path = tmp_path / "rnn.onnx"
    exported(net, [Spec((N, length, 5), F32), Spec((N,), I64)], samples, path)
    assert kinds(path).count(kind.__name__) == 4  # type: ignore[attr-defined]
    assert "MatMul" not in kinds(path), "the projection of the input is part of the node"


def test_conditionals_and_loops(tmp_path: Path) -> None:
    factor = nn.Parameter(pdl.full((3,), 1.5))

    @jit.to_static
    def net(x: pdl.Tensor) -> pdl.Tensor:
        if x.sum() > 0:
            y = x * factor
        else:
            y = x - 1
        while (y * y).sum() < 100:
            y = y * 2 + 0.5
        return y

    samples = [[image(2, 3) + 2], [image(2, 3) - 3], [np.full((2, 3), 90, np.float32)]]
    path = tmp_path / "control.onnx"
    exported(net, [Spec((2, 3), F32)], samples, path)
    assert {"If", "Loop"} <= set(kinds(path))


def test_permutations_between_layouts_vanish(tmp_path: Path) -> None:
    conv = nn.Conv2d(3, 4, 3)

    def net(x: pdl.Tensor) -> pdl.Tensor:  # takes and gives [n, c, h, w], as a net of another framework does
        return pdl.permute_dims(conv(pdl.permute_dims(x, (0, 2, 3, 1))), (0, 3, 1, 2))

    path = tmp_path / "permuted.onnx"
    exported(net, [Spec((N, 3, 8, 8), F32)], [[image(2, 3, 8, 8)]], path)
    assert kinds(path) == ["Conv", "Identity"]


def test_metadata_and_names(tmp_path: Path) -> None:
    path = tmp_path / "meta.onnx"
    program = trace(nn.Linear(3, 2).eval(), Spec((N, 3), F32), name="head")
    messages = {"licence": "Apache-2.0", "labels": ["cat", "dog"], "metrics": {"accuracy": 0.5}}
    made = to_onnx(program, path, metadata=messages, inputs=["features"], outputs=["scores"], opset=15)
    read = onnx.load(path)
    assert (read.producer_name, read.graph.name, made.opset) == ("pdl", "head", 15)
    assert read.opset_import[0].version == 15
    stored = {p.key: p.value for p in read.metadata_props}
    assert stored == {
        "pdl_version": pdl.__version__, "licence": "Apache-2.0", "labels": '["cat", "dog"]',
        "metrics": '{"accuracy": 0.5}',
    }  # fmt: skip
    assert [i.name for i in read.graph.input] == ["features"]
    assert [o.name for o in read.graph.output] == ["scores"]
    again = path.read_bytes()
    to_onnx(program, path, metadata=messages, inputs=["features"], outputs=["scores"], opset=15)
    assert path.read_bytes() == again, "the same program gives the same bytes"


def test_large_models_keep_their_weights_beside_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "EXTERNAL", 1000)
    path = tmp_path / "large.onnx"
    for _ in range(2):  # written anew, not appended to
        made = exported(nn.Linear(64, 32), [Spec((N, 64), F32)], [[image(2, 64)]], path)
        data = tmp_path / "large.onnx.data"
        assert 64 * 32 * 4 <= data.stat().st_size < 2 * 64 * 32 * 4
        assert made.nbytes == path.stat().st_size + data.stat().st_size


def test_constants_are_computed_before(tmp_path: Path) -> None:
    weight = nn.Parameter(pdl.tensor([[1.0, 2.0], [3.0, 4.0]]))

    def net(x: pdl.Tensor) -> pdl.Tensor:
        return x @ (weight / pdl.sqrt((weight * weight).sum()))

    path = tmp_path / "constant.onnx"
    exported(net, [Spec((N, 2), F32)], [[image(3, 2)]], path)
    assert kinds(path) == ["MatMul", "Identity"]


# -- refused -----------------------------------------------------------------------------------------------------------
def test_all_ops_without_a_form_are_named_with_their_lines(tmp_path: Path) -> None:
    def net(x: pdl.Tensor) -> pdl.Tensor:
        y = pdl.linalg.inv(x) if hasattr(pdl, "linalg") else pdl.inv(x)
        return pdl.relu(pdl.erfinv(y * 0.01))

    program = trace(net, Spec((2, 3, 3), F32))
    found = missing(program)
    assert [what.split(":")[0] for what, _ in found] == ["Inv", "Erfinv"]
    with pytest.raises(UsageError) as messages:
        to_onnx(program, tmp_path / "none.onnx")
    for what, where in found:
        assert f"{where}: {what}" in str(messages.value)
    assert not list(tmp_path.iterdir())


def test_a_program_in_training_mode(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
    program = trace(net.train(), Spec((2, 6, 6, 3), F32))
    with pytest.raises(UsageError, match=r"changes 1\.running_mean.*evaluation mode"):
        to_onnx(program, tmp_path / "training.onnx")


@pytest.mark.parametrize("opset", [12, 1000])
def test_opsets_that_cannot_be_written(opset: int, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=rf"opset {opset} is outside 13 to \d+"):
        to_onnx(trace(pdl.relu, Spec((2,), F32)), tmp_path / "old.onnx", opset=opset)


def without(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the package were not installed."""
    real = builtins.__import__

    def blocked(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.split(".")[0] == package:
            raise ImportError(name)
        return real(name, *args, **kwargs)

    for loaded in [m for m in sys.modules if m.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setattr(builtins, "__import__", blocked)


def test_without_the_package_onnx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = trace(pdl.relu, Spec((2,), F32))
    without("onnx", monkeypatch)
    assert missing(program) == [], "what cannot be written is known without it"
    with pytest.raises(UsageError, match=r'needs the package onnx: pip install "pdl-core\[onnx\]"'):
        to_onnx(program, tmp_path / "x.onnx")


def test_without_onnx_runtime_nothing_is_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = trace(pdl.relu, Spec((2,), F32))
    without("onnxruntime", monkeypatch)
    made = to_onnx(program, tmp_path / "x.onnx", samples=[[image(2)]])
    assert (made.difference, made.samples, made.runtime) == (None, 0, "")
    assert any("not compared" in note for note in made.notes)


def test_a_wrong_file_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = trace(lambda x: pdl.clip(x, -0.5, 0.5), Spec((4,), F32), name="clipped")
    monkeypatch.setitem(EMITTERS, Clip, lambda g, op, x: g.node("Neg", g.plain(x)))
    with pytest.raises(CheckError, match=r"differs from the program by 2\.5 on 1 samples in onnxruntime"):
        to_onnx(program, tmp_path / "wrong.onnx", samples=[[np.array([0.1, 0.5, -0.5, 2], np.float32)]])
    assert not list(tmp_path.iterdir()), "a wrong file is not left behind"


def in_bfloat16(net: nn.Module, *shape: int) -> Program:
    net.eval()
    with pdl.autocast():
        return trace(lambda x: net(pdl.astype(x, pdl.bfloat16)), Spec(shape, F32), modules=[net])


def test_a_file_that_onnx_runtime_does_not_run(tmp_path: Path) -> None:
    program, path = in_bfloat16(nn.Linear(3, 4), 2, 3), tmp_path / "bf16.onnx"
    assert to_onnx(program, path).outputs[0].dtype == "bfloat16"
    with pytest.raises(CheckError, match=r"onnxruntime [\d.]+ does not run .*bf16\.onnx"):
        to_onnx(program, path, samples=[[image(2, 3)]])
    assert not path.exists()


def test_a_model_that_the_standard_does_not_allow(tmp_path: Path) -> None:
    program = in_bfloat16(nn.Conv2d(3, 4, 3), 1, 8, 8, 3)  # bfloat16 images came with opset 22
    with pytest.raises(UsageError, match=r"the checker of onnx [\d.]+ refuses the model: .*Conv.*bfloat16"):
        to_onnx(program, tmp_path / "bf16.onnx", opset=17)
    assert not list(tmp_path.iterdir())
    assert to_onnx(program, tmp_path / "bf16.onnx", opset=22).nodes


def test_names_must_fit(tmp_path: Path) -> None:
    program: Program = trace(pdl.relu, Spec((2,), F32))
    with pytest.raises(UsageError, match="2 input names for 1 inputs"):
        to_onnx(program, tmp_path / "x.onnx", inputs=["a", "b"])
