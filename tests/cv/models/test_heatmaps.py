"""Nets of keypoints: heatmaps of a quarter of the resolution, gradients everywhere, a program that takes any batch, and
the layouts of PyTorch.
"""

from __future__ import annotations

import numpy as np
import pytest

import pdl
from pdl import nn
from pdl.dims import Dim
from pdl.errors import ShapeError
from pdl.export.symbolic import trace_symbolic
from pdl.ops.base import Spec
from pdl_cv.models.lite_hrnet import LiteHRNet
from pdl_cv.models.mobilenet_v1 import MobileNetV1
from pdl_cv.models.simple_baseline import SimpleBaseline
from tests.cv.models.published import facts, families, table
from tests.cv.models.test_zoo import F32, make

FACTS = facts("keypoints")
VARIANTS = [
    pytest.param(name, marks=() if name == table(family).QUICK else pytest.mark.slow)  # type: ignore[union-attr]
    for name, (family, _) in FACTS.items()
]


def images(count: int, height: int = 64, width: int = 32) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((count, height, width, 3)).astype(np.float32)


@pytest.mark.parametrize("name", VARIANTS)
def test_heatmaps_and_gradients(name: str) -> None:
    pdl.seed(0)
    net = make(name, num_keypoints=5)
    y = net(pdl.tensor(images(2)))
    assert y.shape == (2, 16, 8, 5)
    (y * y).sum().backward()
    without = [path for path, p in net.named_parameters() if p.grad is None or not np.isfinite(p.grad.data).all()]
    assert not without


@pytest.mark.parametrize("name", VARIANTS)
def test_programs_take_any_number_of_images(name: str) -> None:
    with nn.init.skipped():
        net = make(name)
    program, notes = trace_symbolic(net, {"image": Spec((Dim.symbol("n", 3), 64, 32, 3), F32)})
    assert not notes
    assert list(program.sizes()) == ["n"]


@pytest.mark.parametrize("name", VARIANTS)
def test_remap_undoes_torch_s_layout(name: str) -> None:
    with nn.init.skipped():
        net, other = make(name), make(name)
    for p in net.parameters():
        nn.init.normal_(p)
    other.load_state_dict(families("keypoints")[FACTS[name][0]].remap(other, nn.to_torch(net)))
    theirs = other.state_dict()
    for key, value in net.state_dict().items():
        np.testing.assert_array_equal(value.data, theirs[key].data)


def test_sizes_are_multiples_of_the_lowest_resolution() -> None:
    with nn.init.skipped():
        net = LiteHRNet()
    with pytest.raises(ShapeError, match="H and W multiples of 32"):
        net(pdl.zeros((1, 64, 40, 3)))


def test_any_backbone() -> None:
    net = SimpleBaseline(backbone=MobileNetV1(width=0.25), num_keypoints=3).eval()
    assert net(pdl.zeros((1, 64, 64, 3))).shape == (1, 16, 16, 3)
    assert net.deconv_layers[0].in_channels == 256
