"""PyramidBox: its squares, regions and max-in-out, its losses as one program, and what a deployed net leaves out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pdl
from pdl import nn
from pdl.dims import Dim
from pdl.export.symbolic import trace_symbolic
from pdl.ops.base import Spec
from pdl.optim import AdamW
from pdl_cv.models import pyramidbox
from pdl_cv.models.blazeface import squares
from pdl_cv.models.mobilenet_v2 import MobileNetV2
from pdl_cv.models.pyramidbox import PyramidBox, VGGMaps, region
from pdl_cv.models.ssd import Predictions, multibox_losses
from pdl_cv.models.vgg import VGG
from tests.cv.models.scenes import scenes
from tests.cv.models.test_detectors import found_all, stepper


def light(**options: Any) -> PyramidBox:
    """Maps of MobileNetV2 and narrow layers behind it, for two classes."""
    pdl.seed(0)
    return PyramidBox(num_classes=2, backbone=MobileNetV2(width=0.35), width=16, **options)


def counted(module: nn.Module) -> int:
    return sum(p.size for p in module.parameters())


def test_as_many_squares_as_the_paper_has() -> None:
    found = squares([(160 >> i, 160 >> i) for i in range(6)], pyramidbox.STRIDES, pyramidbox.SIDES)
    assert found.shape == (34125, 4)
    assert found[0].tolist() == [-6, -6, 10, 10]
    assert found[-1].tolist() == [320, 320, 832, 832]


def test_a_module_of_context_is_as_large_as_the_authors() -> None:
    wide, width, half = 1024, 256, 128
    residual = 512 * wide + 512 * width + width * width * 9 + width * wide + 2 * (wide + width + width + wide)
    rows = wide * (width + half) * 9 + width + half + 3 * (half * half * 9 + half)
    with nn.init.skipped():
        assert counted(pyramidbox.ContextModule(512, 256)) == residual + rows


def test_maps_of_a_vgg() -> None:
    with nn.init.skipped(), pdl.no_grad():
        net = VGGMaps(VGG(16, hidden=8))
        found = net(pdl.zeros(1, 64, 96, 3))
    assert [each.shape[1:] for each in found] == [(16, 24, 256), (8, 12, 512), (4, 6, 512), (2, 3, 1024)]


def test_regions_are_around_objects_and_inside_of_the_image() -> None:
    found = region(pdl.tensor(np.array([[10, 20, 30, 30], [0, 0, 8, 8]], np.float32)), 2, (50, 38))
    assert found.data.tolist() == [[0, 15, 38, 35], [0, 0, 12, 12]]


def test_the_highest_of_three_scores_counts() -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 3, 7)).astype(np.float32)
    first = pyramidbox._highest(pdl.tensor(x[..., :5]), 2, 0).data
    np.testing.assert_array_equal(first[..., 0], x[..., :3].max(-1).reshape(2, 9))
    np.testing.assert_array_equal(first[..., 1:], x[..., 3:5].reshape(2, 9, 2))
    other = pyramidbox._highest(pdl.tensor(x), 2, 3).data
    np.testing.assert_array_equal(other[..., 0], x[..., 0].reshape(2, 9))
    np.testing.assert_array_equal(other[..., 2], x[..., 4:].max(-1).reshape(2, 9))


def test_an_object_is_also_a_head_and_a_body() -> None:
    """A face of 16 pixels: its square is one of the first map, its head's of the second, its body's of the third."""
    anchors = squares([(16, 16), (8, 8), (4, 4)], (4, 8, 16), ((16,), (32,), (64,)))
    box = pdl.tensor(np.array([[[22, 22, 38, 38]]], np.float32))
    for level, factor in enumerate((1, 2, 4)):
        around = region(box, factor, (64, 64))
        perfect = pdl.box_encode(
            anchors, pdl.broadcast_to(around, (1, len(anchors), 4)), weights=(10.0, 10.0, 5.0, 5.0)
        )
        logits = np.zeros((1, len(anchors), 2), np.float32)
        found = Predictions(anchors, pdl.tensor(logits), perfect)
        parts = multibox_losses(found, around, pdl.tensor(np.array([[0]])), matched=0.35)
        assert float(parts["boxes"].data) == 0
        assert float(parts["classes"].data) == pytest.approx(
            4 * np.log(2), rel=1e-5
        )  # one, and three of the background
        overlaps = pdl.box_iou(pdl.tensor(anchors), around[0]).data[:, 0]
        start = (0, 256, 320)[level]
        assert start <= overlaps.argmax() < start + (256, 64, 16)[level]


def test_the_loss_reaches_all_weights_and_is_one_program() -> None:
    net, drawn = light(), scenes(3)
    drawn.labels[2] = -1
    step = stepper(net)
    eager = float(step.eager(*drawn).data)
    assert np.isfinite(eager)
    for path, parameter in net.named_parameters():
        assert parameter.grad is not None, path
        assert np.isfinite(parameter.grad.data).all(), path
    assert float(step(*drawn).data) == pytest.approx(eager, rel=1e-4)


def test_a_deployed_net_leaves_regions_out() -> None:
    with_regions, without = light().eval(), light(regions=()).eval()
    spec = {"image": Spec((Dim.symbol("n", 3), 64, 64, 3), np.dtype(np.float32))}
    sizes = []
    for net in (with_regions, without):
        program, notes = trace_symbolic(net, spec)
        assert not notes
        sizes.append(sum(value.tensor.size for value in program.captures if value.tensor is not None))
    assert counted(with_regions) > counted(without)
    assert sizes[0] == sizes[1]


@pytest.mark.slow
def test_eight_images_are_learnt() -> None:
    net, drawn = light(), scenes(8)
    step, optimiser = stepper(net), AdamW(net.parameters(), lr=0.003)
    for _ in range(150):
        step(*drawn)
        optimiser.step()
    assert found_all(net, drawn) == []
