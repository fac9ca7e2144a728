"""Every model family: parameter counts as published, a forward and backward pass, and weights from torchvision's
layouts.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdl
import pdl_cv
from pdl import nn
from pdl.errors import ShapeError, UsageError
from pdl_cv.models import lenet, mobilenet_v1, mobilenet_v2, mobilenet_v3, resnet

FAMILIES = [lenet, mobilenet_v1, mobilenet_v2, mobilenet_v3, resnet]
VARIANTS = {name: dict(variant) for family in FAMILIES for name, variant in family.VARIANTS.items()}

# torchvision 0.2x: the `num_params` of each model's weights. mobilenet_v1: the TF-slim implementation (4.24M with all
# norm statistics counted as in the paper, table 8), resnet*_cifar: He et al., table 6 (0.27M, 0.46M, 0.66M, 0.85M,
# 1.7M), counted with shortcut A. lenet: LeCun et al., as built by every tutorial since.
PARAMETERS = {
    "lenet": 61_706,
    "lenet_8": 31_294,
    "mobilenet_v1": 4_231_976,
    "mobilenet_v1_075": 2_585_560,
    "mobilenet_v1_050": 1_331_592,
    "mobilenet_v1_025": 470_072,
    "mobilenet_v2": 3_504_872,
    "mobilenet_v2_140": 6_108_776,
    "mobilenet_v2_050": 1_968_680,
    "mobilenet_v3_large": 5_483_032,
    "mobilenet_v3_small": 2_542_856,
    "resnet18": 11_689_512,
    "resnet34": 21_797_672,
    "resnet50": 25_557_032,
    "resnet101": 44_549_160,
    "resnet152": 60_192_808,
    "resnet20_cifar": 269_722,
    "resnet32_cifar": 464_154,
    "resnet44_cifar": 658_586,
    "resnet56_cifar": 853_018,
    "resnet110_cifar": 1_727_962,
}
#: multiply-adds of one image of 224 x 224 pixels, in millions: torchvision's `_ops` (GFLOPS), which counts the same
MULTIPLY_ADDS = {
    "resnet18": 1814,
    "resnet50": 4089,
    "mobilenet_v2": 301,
    "mobilenet_v3_large": 217,
    "mobilenet_v3_small": 57,
}


def make(name: str, **options: Any) -> nn.Module:
    arguments = dict(VARIANTS[name])
    net: nn.Module = getattr(pdl_cv, arguments.pop("_target_").rpartition(".")[2])(**{**arguments, **options})
    return net


def test_every_variant_is_counted() -> None:
    assert set(PARAMETERS) == set(VARIANTS)


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameter_counts(name: str) -> None:
    assert sum(p.size for p in make(name).parameters()) == PARAMETERS[name]


SMALL = {"lenet": 28, "lenet_8": 8, "mobilenet_v1_025": 32, "mobilenet_v2_050": 32, "mobilenet_v3_large": 32,
         "mobilenet_v3_small": 32, "resnet18": 32, "resnet50": 32, "resnet20_cifar": 16}  # fmt: skip


@pytest.mark.parametrize("name", SMALL)
def test_forward_and_backward(name: str) -> None:
    net = make(name, in_channels=2, num_classes=3)
    y = net(pdl.randn((4, SMALL[name], SMALL[name], 2)))
    assert y.shape == (4, 3)
    pdl.cross_entropy(y, pdl.tensor(np.array([0, 1, 2, 0]))).backward()
    assert all(p.grad is not None and np.isfinite(p.grad.data).all() for p in net.parameters())
    other = make(name, in_channels=2, num_classes=3)
    other.load_state_dict(net.state_dict())
    x = pdl.randn((2, SMALL[name], SMALL[name], 2))
    np.testing.assert_array_equal(net.eval()(x).data, other.eval()(x).data)


@pytest.mark.slow
@pytest.mark.parametrize("name", MULTIPLY_ADDS)
def test_multiply_adds(name: str) -> None:
    found = nn.summary(make(name), (1, 224, 224, 3))
    assert found.parameters == PARAMETERS[name]
    assert found.multiply_adds is not None
    assert found.multiply_adds / 1e6 == pytest.approx(MULTIPLY_ADDS[name], abs=0.6)


def test_zero_init_residual_starts_as_the_identity() -> None:
    block = resnet.ResNet(18, zero_init_residual=True).layer1[0].eval()
    x = pdl.relu(pdl.randn((1, 4, 4, 64)))
    np.testing.assert_array_equal(block(x).data, x.data)


def test_shortcut_b_projects() -> None:
    assert sum(p.size for p in resnet.CifarResNet(20, shortcut="B").parameters()) == 272_474


@pytest.mark.parametrize("name", ["mobilenet_v2_050", "mobilenet_v3_small"])
def test_a_stem_of_stride_1_keeps_small_pictures_larger(name: str) -> None:
    for stride, side in ((1, 2), (2, 1)):
        net: Any = make(name, stride=stride, in_channels=1, num_classes=10).eval()
        assert net.features(pdl.zeros((1, 28, 28, 1))).shape[1:3] == (side, side)
        assert net(pdl.zeros((1, 28, 28, 1))).shape == (1, 10)


@pytest.mark.parametrize("size", [8, 15, 16, 28, 32])
def test_lenet_takes_the_size_it_was_built_for(size: int) -> None:
    net = lenet.LeNet(image_size=size)
    assert net(pdl.zeros((2, size, size, 1))).shape == (2, 10)
    with pytest.raises(ShapeError, match=f"built for image_size={size}"):
        net(pdl.zeros((2, size + 1, size + 1, 1)))


def test_impossible_depth() -> None:
    with pytest.raises(UsageError, match="depth 21 is not 6 n"):
        resnet.CifarResNet(21)


@pytest.mark.parametrize(
    ("value", "expected"), [(32 * 0.35, 16), (32 * 1.4, 48), (3.0, 8), (96 // 4, 24), (672 // 4, 168)]
)
def test_divisible(value: float, expected: int) -> None:
    from pdl_cv.models.blocks import divisible

    assert divisible(value) == expected


@pytest.mark.parametrize(
    ("family", "name"), [(resnet, "resnet18"), (mobilenet_v2, "mobilenet_v2"), (mobilenet_v3, "mobilenet_v3_small")]
)
def test_remap_undoes_torch_s_layout(family: Any, name: str) -> None:
    net, other = make(name), make(name)
    state = nn.to_torch(net)
    state["bn1.num_batches_tracked"] = np.array(0)
    if name == "resnet18":
        assert state["conv1.weight"].shape == (64, 3, 7, 7)
        assert state["fc.weight"].shape == (1000, 512)
    other.load_state_dict(family.remap(other, state))
    for a, b in zip(net.parameters(), other.parameters(), strict=True):
        np.testing.assert_array_equal(a.data, b.data)


def torch_python() -> str | None:
    """A Python that has torch: this one, `python3`, or the one that PDL_TORCH_PYTHON names."""
    import os
    import sys

    for candidate in (os.environ.get("PDL_TORCH_PYTHON"), sys.executable, shutil.which("python3")):
        if (
            candidate
            and subprocess.run([candidate, "-c", "import torch"], capture_output=True, check=False).returncode == 0
        ):
            return candidate
    return None


@pytest.mark.slow
def test_outputs_equal_torch_s(tmp_path: Path) -> None:
    python = torch_python()
    if python is None:
        pytest.skip("no Python with torch was found (PDL_TORCH_PYTHON may name one)")
    subprocess.run([python, str(Path(__file__).with_name("torch_models.py")), str(tmp_path)], check=True)
    for file in sorted(tmp_path.glob("*.npz")):
        data = np.load(file)
        net = make(file.stem).eval()
        state = {name.removeprefix("state/"): data[name] for name in data.files if name.startswith("state/")}
        net.load_state_dict(nn.from_torch(net, state))
        with pdl.no_grad():
            y = net(pdl.tensor(data["x"])).data
        assert np.abs(y - data["y"]).max() < 1e-4 * np.abs(data["y"]).max(), file.stem


def test_pretrained_takes_a_file_and_keeps_a_fresh_head_for_other_classes(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    net = make("lenet_8")
    file = tmp_path / "lenet.safetensors"
    save_file({name: value.data for name, value in net.state_dict().items()}, file)
    other = make("lenet_8", num_classes=3, pretrained=str(file))
    np.testing.assert_array_equal(other.get_parameter("fc2.weight").data, net.get_parameter("fc2.weight").data)
    assert other.get_parameter("fc3.weight").shape == (84, 3)
