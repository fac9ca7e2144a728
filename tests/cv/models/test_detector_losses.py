"""Losses of detectors against the papers' formulas, prediction by prediction. Which prediction is to find what is left
to the ops that assign; these have tests of their own.
"""

from __future__ import annotations

import math
from typing import Any, TypeVar

import numpy as np
import pytest

import pdl
from pdl_cv.models.detector import Detector
from pdl_cv.models.picodet import PicoDet
from pdl_cv.models.pp_yoloe import PPYOLOE
from pdl_cv.models.yolov3 import YOLOv3
from pdl_cv.models.yolox import YOLOX
from pdl_cv.ops import simota_assign, task_aligned_assign
from tests.cv.models.scenes import Scenes, overlap, scenes

EPS = 1e-12
T = TypeVar("T", bound=Detector)


def stirred(net: T) -> T:
    """A net whose predictions differ from place to place."""
    for parameter in net.parameters():
        parameter._data += 0.05 * pdl.randn(parameter.shape).data
    return net


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-np.asarray(x, np.float64)))


def entropy(p: Any, t: Any) -> Any:
    """Binary cross-entropy of probabilities."""
    return -(t * np.log(np.maximum(p, EPS)) + (1 - t) * np.log(np.maximum(1 - p, EPS)))


def giou(a: Any, b: Any) -> float:
    hull = (np.maximum(a[2:], b[2:]) - np.minimum(a[:2], b[:2])).prod()
    shared = np.maximum(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]), 0).prod()
    union = (a[2:] - a[:2]).prod() + (b[2:] - b[:2]).prod() - shared
    return float(shared / union - (hull - union) / hull)


def losses(net: Detector, drawn: Scenes) -> dict[str, float]:
    parts = net.loss(pdl.tensor(drawn.images), drawn.targets())
    return {name: float(value.data) for name, value in parts.items()}


def drawn() -> Scenes:
    made = scenes(3, seed=5)
    made.labels[2] = -1
    return made


def test_yolox() -> None:
    pdl.seed(1)
    net, data = stirred(YOLOX("nano", num_classes=3, l1=True)), drawn()
    found = net.predictions(pdl.tensor(data.images))
    boxes, stride, at = net.boxes(found.places, found.points).data, found.points.stride, found.points.at
    classes, objects = sigmoid(found.classes.data), sigmoid(found.objects.data)
    index, iou = simota_assign(
        at, stride, boxes, np.sqrt(classes * objects).astype(np.float32), data.boxes, data.labels
    )
    sums, count = {"box": 0.0, "object": 0.0, "class": 0.0, "l1": 0.0}, 0
    for n, row in enumerate(index.data):
        for a, which in enumerate(row):
            sums["object"] += float(entropy(objects[n, a, 0], float(which >= 0)))
            if which < 0:
                continue
            count, box = count + 1, data.boxes[n, which]
            share = overlap(boxes[n, a], box)
            assert share == pytest.approx(float(iou.data[n, a]), abs=1e-5)
            sums["box"] += 5 * (1 - share**2)
            sums["class"] += entropy(classes[n, a], share * np.eye(3)[data.labels[n, which]]).sum()
            middle = (box[:2] + box[2:]) / 2 / stride[a] - (at[a] / stride[a] - 0.5)
            size = np.log((box[2:] - box[:2]) / stride[a])
            sums["l1"] += np.abs(found.places.data[n, a] - np.concatenate([middle, size])).sum()
    assert count >= 3
    assert losses(net, data) == pytest.approx({name: value / count for name, value in sums.items()}, rel=1e-4)


@pytest.mark.parametrize("family", [PicoDet, PPYOLOE])
def test_those_that_assign_by_agreement(family: type[PicoDet | PPYOLOE]) -> None:
    pdl.seed(1)
    net, data = stirred(family(num_classes=3)), drawn()
    found = net.predictions(pdl.tensor(data.images))
    boxes, scores = (each.data for each in net.dense(pdl.tensor(data.images)))
    at, stride = found.points.at, found.points.stride[:, None]
    index, quality = (
        each.data for each in task_aligned_assign(at, boxes, scores, data.boxes, data.labels, k=13, alpha=1, beta=6)
    )
    bins = found.distances.shape[2] // 4
    shares = found.distances.data.reshape(*index.shape, 4, bins)
    shares = np.exp(shares - shares.max(-1, keepdims=True))
    shares /= shares.sum(-1, keepdims=True)
    total = max(float(quality.sum()), 1.0)
    sums = {"class": 0.0, "box": 0.0, "distance": 0.0}
    for n, row in enumerate(index):
        for a, which in enumerate(row):
            wanted = np.zeros(3)
            if which >= 0:
                box, q = data.boxes[n, which], float(quality[n, a])
                wanted[data.labels[n, which]] = q
                sums["box"] += 2.5 * q * (1 - giou(boxes[n, a], box))
                sides = np.concatenate([at[a] - box[:2], box[2:] - at[a]]) / stride[a]
                for side, spread in zip(sides, shares[n, a], strict=True):
                    t = min(max(float(side), 0), bins - 1 - (0.1 if bins == 8 else 0.01))
                    low = math.floor(t)
                    sums["distance"] += -0.5 * q / 4 * (
                        (low + 1 - t) * math.log(spread[low]) + (t - low) * math.log(spread[low + 1])
                    )  # fmt: skip
            p = np.asarray(scores[n, a], np.float64)
            sums["class"] += (np.where(wanted > 0, wanted, 0.75 * p**2) * entropy(p, wanted)).sum()
    assert (index >= 0).sum() > 3
    assert losses(net, data) == pytest.approx({name: value / total for name, value in sums.items()}, rel=1e-3)


@pytest.mark.parametrize("kind", ["tiny", pytest.param("mobilenet_v1", marks=pytest.mark.slow)])
def test_yolov3(kind: Any) -> None:
    pdl.seed(1)
    net, data = stirred(YOLOv3(kind, num_classes=3)), drawn()
    found, anchors = net.predictions(pdl.tensor(data.images))
    boxes, values = net.boxes(found, anchors).data, np.asarray(found.data, np.float64)
    shapes = np.concatenate([np.array(each) for each in net.anchors])
    sums = {"place": 0.0, "size": 0.0, "object": 0.0, "class": 0.0}
    for n, truth in enumerate(data.labels):
        real, taught = np.flatnonzero(truth >= 0), set()
        for m in real:
            box = data.boxes[n, m]
            size, middle = box[2:] - box[:2], (box[:2] + box[2:]) / 2
            best = max(range(len(shapes)), key=lambda i: overlap(np.r_[0, 0, size], np.r_[0, 0, shapes[i]]))
            same = (anchors.size == shapes[best]).all(1)  # one in each cell of its map
            cell = same & (np.floor(middle / anchors.stride) == anchors.corner).all(1)
            (a,) = np.flatnonzero(cell)
            taught.add(int(a))
            weight = 2 - size.prod() / 64**2
            inside = middle / anchors.stride[a] - anchors.corner[a]
            sums["place"] += weight * entropy(sigmoid(values[n, a, :2]), inside).sum()
            sums["size"] += weight * np.abs(values[n, a, 2:4] - np.log(size / shapes[best])).sum()
            sums["object"] += float(entropy(sigmoid(values[n, a, 4]), 1.0))
            sums["class"] += entropy(sigmoid(values[n, a, 5:]), np.eye(3)[truth[m]]).sum()
        for a in range(boxes.shape[1]):
            near = max((overlap(boxes[n, a], data.boxes[n, m]) for m in real), default=0.0)
            if a not in taught and near < 0.7:
                sums["object"] += float(entropy(sigmoid(values[n, a, 4]), 0.0))
    assert losses(net, data) == pytest.approx({name: value / 3 for name, value in sums.items()}, rel=1e-4)
