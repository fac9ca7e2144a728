"""Every family of models as ONNX: one file for all batch and image sizes, channels first without a transpose."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import pdl
import pdl_cv
from pdl.dims import Dim
from pdl.export.onnx import to_onnx
from pdl.ops.base import Spec
from pdl.program import trace
from tests.cv.test_export import shaken

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

F32 = np.dtype(np.float32)
N, H, W = Dim.symbol("n", 3), Dim.symbol("h", 64), Dim.symbol("w", 96)
#: model, size of the images it takes (None: any), channels, operators that are not convolutions and their epilogues
FAMILIES: dict[str, tuple[Callable[[], pdl.nn.Module], int | None, int, set[str]]] = {
    "lenet": (lambda: pdl_cv.LeNet(), 28, 1, {"MaxPool", "Flatten", "Gemm"}),
    "cifar_resnet20": (
        lambda: pdl_cv.CifarResNet(20), None, 3, {"Add", "Pad", "Slice", "GlobalAveragePool", "Flatten", "Gemm"},
    ),
    "resnet18": (lambda: pdl_cv.ResNet(18), None, 3, {"Add", "MaxPool", "GlobalAveragePool", "Flatten", "Gemm"}),
    "mobilenet_v1": (lambda: pdl_cv.MobileNetV1(width=0.25), None, 3, {"GlobalAveragePool", "Flatten", "Gemm"}),
    "mobilenet_v2": (lambda: pdl_cv.MobileNetV2(width=0.25), None, 3, {"Add", "GlobalAveragePool", "Flatten", "Gemm"}),
    "mobilenet_v3": (
        lambda: pdl_cv.MobileNetV3("small", width=0.5), None, 3,
        {"Add", "Mul", "HardSwish", "HardSigmoid", "GlobalAveragePool", "Flatten", "Gemm"},
    ),
}  # fmt: skip
EPILOGUES = {"Conv", "BatchNormalization", "Relu", "Clip", "Identity"}


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_as_onnx(name: str, tmp_path: Path) -> None:
    make, size, channels, more = FAMILIES[name]
    pdl.seed(0)
    spec = Spec((N, H, W, channels) if size is None else (N, size, size, channels), F32)
    rng = np.random.default_rng(0)
    shapes = [(1, 64, 64), (2, 96, 64)] if size is None else [(1, size, size), (5, size, size)]
    samples = [[rng.standard_normal((*shape, channels), dtype=np.float32)] for shape in shapes]
    made = to_onnx(trace(shaken(make()).eval(), spec), tmp_path / "net.onnx", samples=samples)
    assert made.difference is not None
    assert made.difference < 2e-5
    kinds = {node.op_type for node in onnx.load(made.path).graph.node}
    assert kinds - EPILOGUES == more
