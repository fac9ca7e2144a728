"""What is particular to one family; what all share stands in test_zoo.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdl
from pdl import nn
from pdl.errors import ShapeError, UsageError
from pdl_cv.models import lenet, mobilenet_v1, mobilenet_v2, mobilenet_v3, resnet


def test_zero_init_residual_starts_as_the_identity() -> None:
    block = resnet.ResNet(18, zero_init_residual=True).layer1[0].eval()
    x = pdl.relu(pdl.randn((1, 4, 4, 64)))
    np.testing.assert_array_equal(block(x).data, x.data)


def test_shortcut_b_projects() -> None:
    assert sum(p.size for p in resnet.CifarResNet(20, shortcut="B").parameters()) == 272_474


@pytest.mark.parametrize("family", [mobilenet_v1.MobileNetV1, mobilenet_v2.MobileNetV2, mobilenet_v3.MobileNetV3])
def test_a_stem_of_stride_1_keeps_small_pictures_larger(family: Any) -> None:
    for stride, side in ((1, 2), (2, 1)):
        net = family(width=0.5, stride=stride, in_channels=1, num_classes=10).eval()
        assert net.features(pdl.zeros((1, 28, 28, 1))).shape[1:3] == (side, side)
        assert net(pdl.zeros((1, 28, 28, 1))).shape == (1, 10)


def test_mobilenet_v1_takes_timm_s_names() -> None:
    net = mobilenet_v1.MobileNetV1(width=0.25, activation="relu6")
    assert any(isinstance(module, nn.ReLU6) for module in net.modules())
    assert not any(isinstance(module, nn.ReLU) for module in net.modules())
    names = [
        ("conv_stem.weight", "features.0.0.weight"),
        ("bn1.running_mean", "features.0.1.running_mean"),
        ("blocks.0.0.conv_dw.weight", "features.1.0.0.weight"),
        ("blocks.3.0.bn1.bias", "features.6.0.1.bias"),
        ("blocks.4.1.conv_pw.weight", "features.13.1.0.weight"),
        ("blocks.4.1.bn2.weight", "features.13.1.1.weight"),
        ("classifier.weight", "classifier.1.weight"),
    ]
    own, torch = net.state_dict(), nn.to_torch(net)
    for theirs, ours in names:
        found = mobilenet_v1.remap(net, {theirs: torch[ours]})
        assert {name: value.shape for name, value in found.items()} == {ours: own[ours].shape}


def test_resnet_d_halves_odd_sizes_as_a_stride_does() -> None:
    net = resnet.ResNet(18, deep_stem=True, average_shortcut=True, in_channels=2, num_classes=3).eval()
    assert net.layer2[0].downsample[0](pdl.ones((1, 7, 5, 1))).data.tolist() == np.ones((1, 4, 3, 1)).tolist()
    assert net(pdl.zeros((1, 70, 47, 2))).shape == (1, 3)


def test_small_images_keep_their_size_through_either_stem() -> None:
    for deep in (False, True):
        net = resnet.ResNet(18, deep_stem=deep, small_images=True).eval()
        assert net.conv1(pdl.zeros((1, 32, 32, 3))).shape == (1, 32, 32, 64)


def test_groups_need_bottlenecks() -> None:
    with pytest.raises(UsageError, match="groups and width_per_group belong to bottlenecks"):
        resnet.ResNet(34, groups=32, width_per_group=4)


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
    from pdl.nn.blocks import divisible

    assert divisible(value) == expected


def test_pretrained_takes_a_file_and_keeps_a_fresh_head_for_other_classes(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    net = lenet.LeNet(image_size=8)
    file = tmp_path / "lenet.safetensors"
    save_file({name: value.data for name, value in net.state_dict().items()}, file)
    other = lenet.LeNet(image_size=8, num_classes=3, pretrained=str(file))
    np.testing.assert_array_equal(other.get_parameter("fc2.weight").data, net.get_parameter("fc2.weight").data)
    assert other.get_parameter("fc3.weight").shape == (84, 3)
