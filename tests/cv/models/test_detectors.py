"""Every variant of every family that finds objects: what it says of all places of an image, what it answers, and that
it learns.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

import pdl
from pdl import nn
from pdl.dims import Dim
from pdl.export.bundle import to_bytes
from pdl.export.deployment import Deployment
from pdl.export.symbolic import trace_symbolic
from pdl.ops.base import Spec
from pdl.optim import AdamW
from pdl.program import CompiledStep
from pdl_cv.models import yolox
from pdl_cv.models.blocks import from_paddle
from pdl_cv.models.detector import Backbone, Detections, Detector, Targets
from pdl_cv.models.mobilenet_v2 import MobileNetV2
from tests.cv.models.published import facts, table
from tests.cv.models.scenes import overlap, scenes
from tests.cv.models.test_zoo import make, shapes_of

FACTS = facts("detection")
VARIANTS = [
    pytest.param(name, marks=() if name == getattr(table(family), "QUICK", None) else pytest.mark.slow)
    for name, (family, _) in FACTS.items()
]
#: families whose answers are chosen from dense predictions
DENSE = [
    each for each in VARIANTS if FACTS[str(each.values[0])][0] in ("picodet", "pp_yoloe", "rt_detr", "yolov3", "yolox")
]
F32 = np.dtype(np.float32)


def small(name: str) -> Detector:
    """A variant for two classes, fresh."""
    pdl.seed(0)
    return cast(Detector, make(name, num_classes=2))


def stepper(net: Detector) -> CompiledStep:
    """The sum of a detector's losses and its gradients, which must be one program."""

    def loss(images: Any, boxes: Any, labels: Any) -> pdl.Tensor:
        targets = Targets(pdl.as_tensor(boxes), pdl.as_tensor(labels))
        first, *others = net.loss(pdl.as_tensor(images), targets).values()
        for other in others:
            first = first + other
        return first

    def refuse(line: str) -> None:
        raise AssertionError(line)

    return CompiledStep(loss, net, notify=refuse)


@pytest.mark.parametrize("name", [name for name in FACTS if FACTS[name][1].millions])
def test_parameters_are_as_many_as_printed(name: str) -> None:
    """Of the net as it is deployed, cut off or rounded."""
    with nn.init.skipped():
        net = make(name).deployed()
    printed = FACTS[name][1].millions
    found = sum(p.size for p in net.parameters()) / 1e6
    digits = len(printed.partition(".")[2])
    assert printed in (f"{found:.{digits}f}", f"{int(found * 10**digits) / 10**digits:.{digits}f}")


@pytest.mark.parametrize("name", FACTS)
def test_head_is_what_depends_on_classes(name: str) -> None:
    with nn.init.skipped():
        net, other = make(name), make(name, num_classes=7)
    shapes, theirs = shapes_of(net), shapes_of(other)
    differ = {key.rpartition(".")[0] for key in shapes.keys() | theirs.keys() if shapes.get(key) != theirs.get(key)}
    assert differ == set(net.head)


@pytest.mark.parametrize("name", DENSE)
def test_what_is_said_of_all_places(name: str) -> None:
    net = small(name).eval()
    images = pdl.tensor(scenes(3, size=96).images[:, :, :64])
    with pdl.no_grad():
        boxes, scores = net.dense(images)
        again, _ = net.dense(images[1:2])
    assert boxes.shape == (*scores.shape[:2], 4)
    assert scores.shape[::2] == (3, 2)
    assert (boxes.data[..., 2:] >= boxes.data[..., :2]).all()
    assert (scores.data >= 0).all()
    assert scores.data.max() < 0.2, "fresh nets find objects rarely"
    np.testing.assert_allclose(boxes.data[1:2], again.data, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("name", VARIANTS)
def test_objects_and_losses_are_of_one_run(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    side = int(name[3:6]) if name.endswith("vgg16") else 96  # SSD's last maps on VGG are a pixel of a whole image
    net, drawn = small(name).eval(), scenes(2, size=side)
    images, targets, runs = pdl.tensor(drawn.images), drawn.targets(), []
    with pdl.no_grad():
        alone, losses = net(images), net.loss(images, targets)
        predictions = type(net).predictions
        monkeypatch.setattr(type(net), "predictions", lambda *args: runs.append(args) or predictions(*args))
        found, parts = net.measured(images, targets)
    assert len(runs) == 1
    for each, other in zip(found, alone, strict=True):
        assert other is None or (each.data == other.data).all()
    assert {name: float(part.data) for name, part in parts.items()} == {k: float(v.data) for k, v in losses.items()}


@pytest.mark.parametrize("name", DENSE)
def test_the_loss_reaches_all_weights_and_is_one_program(name: str) -> None:
    net, drawn = small(name), scenes(3)
    drawn.labels[2] = -1  # nothing is there
    step = stepper(net)
    eager = float(step.eager(*drawn).data)
    assert np.isfinite(eager)
    for path, parameter in net.named_parameters():
        assert parameter.grad is not None, path
        assert np.isfinite(parameter.grad.data).all(), path
    eager_grads = {path: parameter.grad.data.copy() for path, parameter in net.named_parameters()}
    assert float(step(*drawn).data) == pytest.approx(eager, rel=1e-4)
    for path, parameter in net.named_parameters():
        scale = np.abs(eager_grads[path]).max()
        np.testing.assert_allclose(parameter.grad.data, eager_grads[path], rtol=0.02, atol=0.02 * scale + 1e-6)


@pytest.mark.parametrize("name", DENSE)
def test_images_without_objects_teach_that_nothing_is_there(name: str) -> None:
    net, drawn = small(name), scenes(2)
    parts = net.loss(pdl.tensor(drawn.images), drawn._replace(labels=np.full_like(drawn.labels, -1)).targets())
    found = {part: float(value.data) for part, value in parts.items()}
    nothing = found.pop("object", None) or found.pop("class")
    assert nothing > 0
    assert not any(found.values())


@pytest.mark.parametrize("name", DENSE)
def test_a_bundle_answers_the_same(name: str) -> None:
    net = small(name)
    for parameter in net.parameters():
        parameter._data += 0.02 * pdl.randn(parameter.shape).data
    net.train()
    with pdl.no_grad():
        for _ in range(20):  # statistics of a batch
            net.dense(pdl.tensor(scenes(4, seed=1).images))
    net.eval()
    inputs = {"image": Spec((Dim.symbol("n", 3), 64, 64, 3), F32)}
    program, notes = trace_symbolic(net, inputs)
    assert not notes
    names = Detections._fields[:3]
    session = pdl.runtime.load(to_bytes(program, Deployment(net, inputs, names, {}, {}, (), lambda sample: sample)))
    for count in (1, 2):
        images = scenes(count).images
        ours = session.run({"image": images})
        with pdl.no_grad():
            found = net(pdl.tensor(images))
        np.testing.assert_allclose(ours["scores"], found.scores.data, atol=2e-4)
        assert (np.sort(ours["labels"]) == np.sort(found.labels.data)).mean() > 0.95


def test_statistics_of_paddle_s_norms() -> None:
    state = {"a.bn.weight": 1, "a.bn._mean": 2, "a.bn._variance": 3}
    assert from_paddle(state) == {"a.bn.weight": 1, "a.bn.running_mean": 2, "a.bn.running_var": 3}


def test_focus_reads_blocks_of_pixels() -> None:
    """A convolution of 6 x 6 and stride 2 is the authors' one of 3 x 3 over blocks of 2 x 2 pixels."""
    net = make("yolox_nano", num_classes=2)
    draw = np.random.default_rng(0)
    image, weight = draw.standard_normal((1, 8, 12, 3)), draw.standard_normal((16, 12, 3, 3))
    blocks = np.concatenate([image[:, i::2, j::2] for i, j in ((0, 0), (1, 0), (0, 1), (1, 1))], axis=3)
    theirs = pdl.conv2d(pdl.tensor(blocks), pdl.tensor(weight.transpose(2, 3, 1, 0)), padding=1)
    (ours,) = yolox.remap(net, {"backbone.backbone.stem.conv.conv.weight": weight}).values()
    found = pdl.conv2d(pdl.tensor(image), pdl.tensor(ours), stride=2, padding=2)
    np.testing.assert_allclose(found.data, theirs.data, atol=1e-10)


#: steps and learning rates in which the least variants learn eight images
LEARN = [("yolox_nano", 0.01), ("picodet_xs", 0.005), ("ppyoloe_plus_s", 0.003), ("yolov3_tiny", 0.002)]


def found_all(net: Detector, drawn: Any) -> list[tuple[int, int]]:
    """(image, object) of those that no detection of the same label above a score of 0.4 overlaps by more than 0.7."""
    with pdl.no_grad():
        found = net.eval()(pdl.tensor(drawn.images))
    missed = []
    for i, j in zip(*np.nonzero(drawn.labels >= 0), strict=True):
        good = (found.labels.data[i] == drawn.labels[i, j]) & (found.scores.data[i] > 0.4)
        if not any(overlap(box, drawn.boxes[i, j]) > 0.7 for box in found.boxes.data[i][good]):
            missed.append((int(i), int(j)))
    return missed


@pytest.mark.slow
@pytest.mark.parametrize(("name", "rate"), LEARN)
def test_eight_pictures_are_learnt_in_a_hundred_steps(name: str, rate: float) -> None:
    net, drawn = small(name), scenes(8)
    step, optimiser = stepper(net), AdamW(net.parameters(), lr=rate)
    for _ in range(100):
        step(*drawn)
        optimiser.step()
    assert found_all(net, drawn) == []


@pytest.mark.parametrize("name", ["picodet_xs", "yolox_nano"])
def test_any_net_is_a_backbone(name: str) -> None:
    pdl.seed(0)
    net = make(name, num_classes=2, backbone=Backbone(MobileNetV2(width=0.35)))
    drawn = scenes(2)
    parts = net.loss(pdl.tensor(drawn.images), drawn.targets())
    first, *others = parts.values()
    (first + others[0]).backward()
    stem = next(net.backbone.parameters())
    assert stem.grad is not None
    assert np.abs(stem.grad.data).max() > 0
