"""SSD: its default boxes by the paper's formulas, its loss prediction by prediction, and that it learns."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import pdl
from pdl import nn
from pdl.errors import ConfigError
from pdl_cv.models.mobilenet_v1 import MobileNetV1
from pdl_cv.models.mobilenet_v2 import MobileNetV2
from pdl_cv.models.ssd import SSD, default_boxes
from tests.cv.models.published.ssd import PRINTED
from tests.cv.models.scenes import Scenes, overlap, scenes
from tests.cv.models.test_detectors import found_all, stepper
from tests.cv.models.test_zoo import make


def light(**options: Any) -> SSD:
    """Maps of 4, 2 and 1 cells a side for images of 64 pixels."""
    pdl.seed(0)
    given = {"extra": (64,), "lite": True, "scales": (0.2, 0.4, 0.6, 0.9), "ratios": ((2, 3),) * 3}
    return SSD(2, **{"backbone": MobileNetV2(width=0.35), **given, **options})


@pytest.mark.parametrize("name", PRINTED)
def test_parameters_for_the_classes_of_coco_are_as_many_as_printed(name: str) -> None:
    with nn.init.skipped():
        net = make(name, num_classes=80)
    assert f"{sum(p.size for p in net.parameters()) / 1e6:.1f}" == PRINTED[name]


@pytest.mark.parametrize(("name", "size", "count"), [("ssd300_vgg16", 300, 8732), ("ssd512_vgg16", 512, 24564)])
def test_as_many_boxes_as_the_paper_has(name: str, size: int, count: int) -> None:
    with nn.init.skipped():
        net = make(name, num_classes=1)
    cells = {300: (38, 19, 10, 5, 3, 1), 512: (64, 32, 16, 8, 4, 2, 1)}[size]
    found = default_boxes([(n, n) for n in cells], (size, size), net.scales, net.ratios, net.steps)
    assert found.shape == (count, 4)
    np.testing.assert_allclose(found[0], np.array([4, 4, 4, 4]) + 0.07 * size / 2 * np.array([-1, -1, 1, 1]), atol=1e-4)
    side = size * np.sqrt(0.07 * 0.15)
    np.testing.assert_allclose(found[1, 2:] - found[1, :2], side, atol=1e-4)
    wide = found[2, 2:] - found[2, :2]
    np.testing.assert_allclose(wide, 0.07 * size * np.array([2**0.5, 0.5**0.5]), atol=1e-4)


def test_a_reduced_first_map() -> None:
    boxes = default_boxes([(1, 1), (1, 2)], (10, 20), (0.2, 0.4, 0.8), ((2,), ()), reduced=True)
    assert len(boxes) == 3 + 2 * 2
    np.testing.assert_allclose(boxes[0], [10 - 1, 5 - 0.5, 10 + 1, 5 + 0.5], atol=1e-5)


@pytest.mark.parametrize("given", [{"scales": (0.2, 0.4)}, {"ratios": ((2,),)}, {"steps": (8.0,)}])
def test_boxes_for_each_map(given: dict[str, Any]) -> None:
    (word,) = given
    with pytest.raises(ConfigError, match=rf"model\.{word}: . of them, expected .: the net has 3 maps"):
        light(**given)


def test_the_loss_by_hand() -> None:
    net, data = light(), scenes(3, seed=5)
    data.labels[2] = -1
    anchors, logits, shifts = net.predictions(pdl.tensor(data.images))
    scores = np.asarray(logits.data, np.float64)
    scores -= np.log(np.exp(scores).sum(-1, keepdims=True))
    classes = boxes = count = 0.0
    for n, truth in enumerate(data.labels):
        taught = assigned(anchors, data, n)
        errors = []
        for a in range(len(anchors)):
            m = taught.get(a, -1)
            if m < 0:
                errors.append(-scores[n, a, 0])
                continue
            count += 1
            classes -= scores[n, a, 1 + truth[m]]
            d = np.abs(shifts.data[n, a] - encoded(anchors[a], data.boxes[n, m]))
            boxes += np.where(d < 1, d * d / 2, d - 0.5).sum()
        classes += sum(sorted(errors, reverse=True)[: 3 * len(taught)])
    found = {name: float(value.data) for name, value in net.loss(pdl.tensor(data.images), data.targets()).items()}
    assert found == pytest.approx({"classes": classes / count, "boxes": boxes / count}, rel=1e-4)


def assigned(anchors: Any, data: Scenes, n: int) -> dict[int, int]:
    """The box that each anchor is to find: of an IoU of at least 0.5, and for each box its best anchor."""
    found: dict[int, int] = {}
    real = [int(m) for m in np.flatnonzero(data.labels[n] >= 0)]
    for a, anchor in enumerate(anchors):
        shares = {m: overlap(anchor, data.boxes[n, m]) for m in real}
        if shares and max(shares.values()) >= 0.5:
            found[a] = max(shares, key=lambda m: shares[m])
    for m in real:
        found[int(np.argmax([overlap(anchor, data.boxes[n, m]) for anchor in anchors]))] = m
    return found


def encoded(anchor: Any, box: Any) -> Any:
    size, sides = anchor[2:] - anchor[:2], box[2:] - box[:2]
    middle = (box[:2] + sides / 2 - anchor[:2] - size / 2) / size
    return np.concatenate([10 * middle, 5 * np.log(sides / size)])


@pytest.mark.parametrize("lite", [True, False])
def test_the_loss_reaches_all_weights_and_is_one_program(lite: bool) -> None:
    net, data = light(lite=lite), scenes(3)
    data.labels[2] = -1
    step = stepper(net)
    eager = float(step.eager(*data).data)
    for path, parameter in net.named_parameters():
        assert parameter.grad is not None, path
        assert np.isfinite(parameter.grad.data).all(), path
    assert float(step(*data).data) == pytest.approx(eager, rel=1e-4)


def test_images_without_objects_teach_nothing() -> None:
    net, data = light(), scenes(2)
    parts = net.loss(pdl.tensor(data.images), data._replace(labels=np.full_like(data.labels, -1)).targets())
    assert {name: float(value.data) for name, value in parts.items()} == {"classes": 0, "boxes": 0}


def test_any_net_is_a_backbone() -> None:
    net = light(backbone=MobileNetV1(width=0.25), lite=False, kernel=1).eval()
    found = net(pdl.zeros(2, 64, 96, 3))
    assert found.boxes.shape == (2, net.selection.most, 4)


@pytest.mark.slow
def test_eight_pictures_are_learnt_in_a_hundred_steps() -> None:
    pdl.seed(0)
    net, data = light(backbone=MobileNetV2(width=0.5)), scenes(8)
    step, optimiser = stepper(net), pdl.optim.AdamW(net.parameters(), lr=0.003)
    for _ in range(100):
        step(*data)
        optimiser.step()
    assert found_all(net, data) == []


def test_default_boxes_have_the_bits_of_torchvision() -> None:
    """float32 after the sides, the centres, each corner and its pixels: one object may overlap several boxes equally,
    and then the last bit decides which of them is to find it."""
    cells, scales = (20, 10, 5, 3, 2, 1), (0.2, 0.35, 0.5, 0.65, 0.8, 0.95, 1.0)
    wanted = []
    for k, count in enumerate(cells):
        s, between = scales[k], math.sqrt(scales[k] * scales[k + 1])
        pairs = [(s, s), (between, between)]
        for root in (math.sqrt(2), math.sqrt(3)):
            pairs += [(s * root, s / root), (s / root, s * root)]
        sides = [[min(np.float32(side), np.float32(1)) for side in pair] for pair in pairs]
        at = [(np.float32(i) + np.float32(0.5)) / np.float32(count) for i in range(count)]
        half, pixels = np.float32(0.5), np.float32(320)
        for y in at:
            for x in at:
                for w, h in sides:
                    corners = (x - half * w, y - half * h, x + half * w, y + half * h)
                    wanted.append([corner * pixels for corner in corners])
    found = default_boxes([(n, n) for n in cells], (320, 320), scales, ((2, 3),) * 6)
    np.testing.assert_array_equal(found, np.array(wanted, np.float32))
