"""Faster and Mask R-CNN: regions of a fixed number, losses prediction by prediction, and that they learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pdl
from pdl import nn
from pdl.dims import Dim
from pdl.errors import ConfigError, DataError
from pdl.export.symbolic import trace_symbolic
from pdl.ops.base import Spec
from pdl.runtime.frame import Frame
from pdl_cv.models import faster_rcnn
from pdl_cv.models.detector import Detector, Targets
from pdl_cv.models.faster_rcnn import FasterRCNN
from pdl_cv.models.mask_rcnn import MaskRCNN
from pdl_cv.models.mobilenet_v2 import MobileNetV2
from pdl_cv.models.pyramids import FeaturePyramid, multiscale_roi_align, pyramid_level
from pdl_cv.steps.masks import pasted
from tests.cv.models.scenes import Scenes, scenes
from tests.cv.models.test_detectors import F32, found_all, overlap, stepper
from tests.cv.models.test_zoo import make

LIGHT: dict[str, Any] = {
    "strides": (8, 16, 32), "channels": 32, "anchor_sizes": ((12, 24), (24, 48), (32, 64)), "hidden": 64,
    "regions": 48, "proposals": 40, "training_proposals": 60,
}  # fmt: skip


def light(kind: type[FasterRCNN] = FasterRCNN, **options: Any) -> Any:
    pdl.seed(0)
    small = {"mask_convs": 1, "mask_channels": 16} if kind is MaskRCNN else {}
    return kind(2, **{"backbone": MobileNetV2(width=0.35), **LIGHT, **small, **options})


def masks(data: Scenes) -> Any:
    """Rectangles fill their boxes."""
    size = data.images.shape[1]
    at = np.arange(size) + 0.5
    x1, y1, x2, y2 = np.moveaxis(data.boxes[..., None], 2, 0)
    across, down = (at > x1) & (at < x2), (at > y1) & (at < y2)
    return (down[..., :, None] & across[..., None, :]).astype(np.uint8)


def masked(data: Scenes) -> Targets:
    return data.targets()._replace(masks=pdl.tensor(masks(data)))


class Masked(Detector):
    """A net whose loss gets masks beside boxes and labels."""

    def __init__(self, net: Detector, crops: pdl.Tensor) -> None:
        self.net, self.crops = net, crops

    def loss(self, images: pdl.Tensor, targets: Targets) -> dict[str, pdl.Tensor]:
        return self.net.loss(images, targets._replace(masks=self.crops))


# -- pieces ------------------------------------------------------------------------------------------------------------
def test_levels_are_those_of_the_paper() -> None:
    sides = np.array([4.0, 111.9, 112.0, 223.9, 224.0, 448.0, 900.0])
    boxes = np.stack([0 * sides, 0 * sides, sides, sides], axis=1).astype(np.float32)
    assert pyramid_level(pdl.tensor(boxes), strides=(4, 8, 16, 32)).data.tolist() == [0, 0, 1, 1, 2, 3, 3]
    assert pyramid_level(pdl.tensor(boxes), strides=(32, 32)).data.tolist() == [0] * 7


def test_each_region_is_read_from_its_level() -> None:
    strides, draw = (4, 8), np.random.default_rng(0)
    maps = [pdl.tensor(draw.standard_normal((2, 256 // s, 256 // s, 3)), requires_grad=True) for s in strides]
    regions = np.array([[[4, 8, 50, 60], [0, 0, 250, 250]], [[30, 30, 190, 180], [0, 0, 1, 1]]], np.float64)
    used = np.array([[True, True], [True, False]])
    found = multiscale_roi_align(maps, pdl.tensor(regions), pdl.tensor(used), strides=strides, size=3)
    for row, (image, level) in enumerate([(0, 0), (0, 1), (1, 1)]):
        roi = pdl.tensor(regions.reshape(4, 4)[row : row + 1])
        options: Any = {"size": (3, 3), "scale": 1 / strides[level], "ratio": 2, "half_pixel": False}
        alone = pdl.roi_align(maps[level], roi, pdl.tensor(np.array([image])), **options)
        np.testing.assert_allclose(found.data[row], alone.data[0], atol=1e-6)
    assert not found.data[3].any()
    found.sum().backward()
    assert all(x.grad is not None and x.grad.data.any() for x in maps)


def test_a_pyramid_takes_odd_sizes() -> None:
    maps = [pdl.ones(1, n, n + 1, c) for n, c in ((9, 4), (5, 6), (3, 8))]
    found = FeaturePyramid((4, 6, 8), 5, extra=2)(maps)
    assert [x.shape[1:] for x in found] == [(9, 10, 5), (5, 6, 5), (3, 4, 5), (2, 2, 5), (1, 1, 5)]


def test_anchors_are_those_of_the_first_release() -> None:
    rpn = faster_rcnn.RegionProposals(4, [(32, 64)], (0.5, 1.0, 2.0))
    found = rpn.anchors((2, 3), (32, 48), (32, 64))
    assert found[:6].tolist() == [
        [-23, -11, 23, 11], [-45, -23, 45, 23], [-16, -16, 16, 16], [-32, -32, 32, 32], [-11, -23, 11, 23],
        [-23, -45, 23, 45],
    ]  # fmt: skip
    np.testing.assert_array_equal(found[6:12], found[:6] + np.array([16, 0, 16, 0]))
    np.testing.assert_array_equal(found[18:24], found[:6] + np.array([0, 16, 0, 16]))


def test_sizes_for_each_map_of_the_backbone() -> None:
    with pytest.raises(ConfigError, match=r"model\.anchor_sizes: 2 maps, the backbone has 3"):
        light(anchor_sizes=((8,), (16,)))


# -- losses ------------------------------------------------------------------------------------------------------------
def smooth(x: Any, beta: float = 1 / 9) -> float:
    d = np.abs(np.asarray(x, np.float64))
    return float(np.where(d < beta, d * d / 2 / beta, d - beta / 2).sum())


def encoded(anchor: Any, box: Any, weights: Any) -> Any:
    size, sides = anchor[2:] - anchor[:2], box[2:] - box[:2]
    middle = (box[:2] + sides / 2 - anchor[:2] - size / 2) / size
    return np.concatenate([middle, np.log(sides / size)]) * weights


def test_the_loss_of_regions_by_hand() -> None:
    net, data = light(regions=4000), scenes(3, seed=5)  # more than there are: nothing is drawn
    data.labels[2] = -1
    targets = data.targets()
    found = net.predictions(pdl.tensor(data.images))
    parts, regions, truth = net.sampled_losses(found, targets, data.images.shape[1:3])
    logits, shifts = (np.asarray(x.data, np.float64) for x in net.read(found.maps, regions, truth > -2))
    classes = boxes = 0.0
    count = int((truth.data > -2).sum())
    for n, row in enumerate(truth.data):
        for r, m in enumerate(row):
            if m == -2:
                continue
            scores = logits[n, r] - np.log(np.exp(logits[n, r]).sum())
            shares = [overlap(regions.data[n, r], box) for box in data.boxes[n][data.labels[n] >= 0]]
            assert (max(shares, default=0) >= 0.5) == (m >= 0)
            label = 1 + data.labels[n, m] if m >= 0 else 0
            classes -= scores[label]
            if m >= 0:
                assert shares[m] == max(shares)
                wanted = encoded(regions.data[n, r], data.boxes[n, m], np.array([10, 10, 5, 5]))
                boxes += smooth(shifts[n, r, label] - wanted)
    assert (truth.data >= 0).sum() >= 3
    assert float(parts["classes"].data) == pytest.approx(classes / count, rel=1e-4)
    assert float(parts["boxes"].data) == pytest.approx(boxes / count, rel=1e-4)


def test_the_loss_of_proposals_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faster_rcnn, "SAMPLE", 10**4)  # more than there are: nothing is drawn
    net, data = light(), scenes(2, seed=5)
    images = pdl.tensor(data.images)
    found = net.rpn(net.pyramid(net.backbone(images)), (64, 64))
    anchors = np.concatenate([each.anchors for each in found])
    logits = np.concatenate([each.logits.data for each in found], axis=1).astype(np.float64)
    shifts = np.concatenate([each.shifts.data for each in found], axis=1)
    objectness = proposals = count = 0.0
    for n, labels in enumerate(data.labels):
        real = data.boxes[n][labels >= 0]
        shares = np.array([[overlap(anchor, box) for box in real] for anchor in anchors])
        best = ((shares == shares.max(0)) & (shares > 0)).any(1)
        positive, negative = best | (shares.max(1) >= 0.7), ~best & (shares.max(1) < 0.3)
        objectness += np.logaddexp(0, -logits[n][positive]).sum() + np.logaddexp(0, logits[n][negative]).sum()
        for a in np.flatnonzero(positive):
            proposals += smooth(shifts[n, a] - encoded(anchors[a], real[shares[a].argmax()], 1.0))
        count += positive.sum() + negative.sum()
    parts = {name: float(value.data) for name, value in net.rpn.loss(found, data.targets()).items()}
    assert parts == pytest.approx({"objectness": objectness / count, "proposals": proposals / count}, rel=1e-4)


def test_masks_are_cropped_to_regions() -> None:
    net, data = light(MaskRCNN), scenes(2)
    regions = np.stack([data.boxes[:, 0], np.tile(np.array([[0, 0, 64, 64]], np.float32), (2, 1))], axis=1)
    truth = np.array([[0, 0], [0, -1]])
    targets = masked(data)
    found = net.mask_targets(targets.masks, pdl.tensor(regions), pdl.tensor(truth)).data
    assert found.shape == (2, 2, 28, 28)
    assert found[:, 0, 2:-2, 2:-2].min() > 0.999, "a box around a rectangle"
    x1, y1, x2, y2 = data.boxes[0, 0]
    assert found[0, 1].mean() == pytest.approx((x2 - x1) * (y2 - y1) / 64**2, abs=0.05)
    assert not found[1, 1].any()


def test_masks_of_regions_are_put_back_where_they_were() -> None:
    """Half a pixel off costs a nucleus of 13 pixels a tenth of its area."""
    net, draw = light(MaskRCNN), np.random.default_rng(0)
    down, across = np.mgrid[:64, :64] + 0.5
    for _ in range(20):
        x, y = centre = draw.uniform(14, 50, 2)
        radii = draw.uniform(5, 9, 2)
        mask = (((across - x) / radii[0]) ** 2 + ((down - y) / radii[1]) ** 2 < 1).astype(np.uint8)
        region = np.concatenate([centre - radii, centre + radii]) + draw.uniform([-3, -3, 0, 0], [0, 0, 3, 3])
        grid = net.mask_targets(
            pdl.tensor(mask[None, None]), pdl.tensor(region[None, None].astype(np.float32)), pdl.tensor([[0]])
        )
        back = pasted(grid.data[0, 0], region, Frame(64, 64))
        assert (back != mask).sum() <= 0.06 * mask.sum()


@pytest.mark.parametrize("kind", [FasterRCNN, MaskRCNN])
def test_the_loss_reaches_all_weights_and_is_one_program(kind: type[FasterRCNN]) -> None:
    net, data = light(kind, norm=True, convs=1, linears=1, rpn_depth=2), scenes(3)
    data.labels[2] = -1  # nothing is there
    step = stepper(Masked(net, pdl.tensor(masks(data))) if kind is MaskRCNN else net)
    pdl.seed(3)
    eager = float(step.eager(*data).data)
    for path, parameter in net.named_parameters():
        assert parameter.grad is not None, path
        assert np.isfinite(parameter.grad.data).all(), path
    pdl.seed(3)
    assert float(step(*data).data) == pytest.approx(eager, rel=1e-3)


@pytest.mark.parametrize("kind", [FasterRCNN, MaskRCNN])
def test_images_without_objects(kind: type[FasterRCNN]) -> None:
    net, data = light(kind), scenes(2)
    data.labels[:] = -1
    found = {name: float(value.data) for name, value in net.loss(pdl.tensor(data.images), masked(data)).items()}
    assert found.pop("objectness") > 0
    assert found.pop("classes") > 0
    assert not any(found.values())


def test_masks_are_needed() -> None:
    data = scenes(1)
    with pytest.raises(DataError, match="the targets have no masks"):
        light(MaskRCNN).loss(pdl.tensor(data.images), data.targets())


# -- answers -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", [FasterRCNN, MaskRCNN])
def test_answers_have_fixed_sizes(kind: type[FasterRCNN]) -> None:
    net = light(kind).eval()
    nn.init.normal_(net.cls_score.weight, std=1.0)
    images = pdl.tensor(scenes(2, size=96).images[:, :, :64])
    with pdl.no_grad():
        boxes, scores = net.dense(images)
        found = net(images)
    assert boxes.shape == (2, 40, 2, 4)
    assert scores.shape == (2, 40, 2)
    assert found.boxes.shape == (2, net.selection.most, 4)
    assert (found.labels.data >= 0).any()
    assert found.boxes.data.max() <= 96
    if kind is MaskRCNN:
        assert found.masks.shape == (2, net.selection.most, 28, 28)
        nowhere = found.labels.data < 0
        assert (found.masks.data[nowhere] == 0.5).all()
    else:
        assert found.masks is None
    inputs = {"image": Spec((Dim.symbol("n", 3), 64, 64, 3), F32)}
    program, notes = trace_symbolic(net, inputs)
    assert not notes
    assert list(program.sizes()) == ["n"]


@pytest.mark.parametrize("name", ["fasterrcnn_mobilenet_v3_large_320_fpn"])
def test_old_names_of_torchvision(name: str) -> None:
    """Of files from before its heads and pyramids were sequences."""
    with nn.init.skipped():
        net = make(name, num_classes=2)
    theirs = {
        "backbone.fpn.inner_blocks.1.weight": "pyramid.inner_blocks.1.0.weight",
        "backbone.fpn.inner_blocks.1.0.weight": "pyramid.inner_blocks.1.0.weight",
        "backbone.body.0.0.weight": "backbone.net.features.0.0.weight",
        "rpn.head.conv.bias": "rpn.conv.0.0.bias",
        "rpn.head.conv.0.0.bias": "rpn.conv.0.0.bias",
        "roi_heads.box_head.fc7.bias": "box_head.linears.1.bias",
        "roi_heads.box_predictor.cls_score.bias": "cls_score.bias",
        "roi_heads.mask_head.mask_fcn2.bias": "mask_head.1.0.bias",
        "roi_heads.mask_predictor.conv5_mask.bias": "conv5_mask.bias",
    }
    assert [*faster_rcnn.remap(net, {old: np.zeros((1,)) for old in theirs})] == list(dict.fromkeys(theirs.values()))
    weight = np.arange(2 * 256 * 49.0).reshape(2, -1)
    found = faster_rcnn.remap(net, {"roi_heads.box_head.fc6.weight": weight})["box_head.linears.0.weight"]
    assert found[(1 * 7 + 3) * 256 + 5, 1] == weight[1, 5 * 49 + 1 * 7 + 3]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [FasterRCNN, MaskRCNN])
def test_eight_pictures_are_learnt_in_a_hundred_steps(kind: type[FasterRCNN]) -> None:
    pdl.seed(0)
    more = {"regions": 64, "training_proposals": 100, "proposals": 60}
    net, data = light(kind, backbone=MobileNetV2(width=0.5), **more), scenes(8)
    crops, optimiser = pdl.tensor(masks(data)), pdl.optim.AdamW(net.parameters(), lr=0.003)
    step = stepper(Masked(net, crops) if kind is MaskRCNN else net)
    for _ in range(100):
        step(*data)
        optimiser.step()
    assert found_all(net, data) == []
    if kind is MaskRCNN:
        with pdl.no_grad():
            found = net(pdl.tensor(data.images))
        assert found.masks.data[:, 0, 4:-4, 4:-4].mean() > 0.9
