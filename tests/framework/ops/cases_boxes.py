"""Boxes that overlap, one pair at a time; suppression as the papers write it."""

from __future__ import annotations

import math

import numpy as np

import pdl
from pdl.ops.boxes import LARGEST

from .case import Case, forward
from .cases_sort import BY_VALUES

R = np.random.default_rng(11)


def drawn(*shape, span=10.0, largest=8.0):
    """Boxes of which many overlap."""
    corner = R.uniform(0, span, (*shape, 2))
    return np.concatenate([corner, corner + R.uniform(0.5, largest, (*shape, 2))], axis=-1)


def measured(a, b, kind):
    aw, ah, bw, bh = (max(v, 0.0) for v in (a[2] - a[0], a[3] - a[1], b[2] - b[0], b[3] - b[1]))
    shared = max(min(a[2], b[2]) - max(a[0], b[0]), 0) * max(min(a[3], b[3]) - max(a[1], b[1]), 0)
    union = aw * ah + bw * bh - shared
    iou = shared / union if union > 0 else 0.0
    width, height = (max(max(a[k + 2], b[k + 2]) - min(a[k], b[k]), 0.0) for k in (0, 1))
    if kind == "giou":
        return iou - (width * height - union) / (width * height) if width * height > 0 else iou
    if kind == "iou":
        return iou
    far = ((a[0] + a[2] - b[0] - b[2]) ** 2 + (a[1] + a[3] - b[1] - b[3]) ** 2) / 4
    found = iou - far / (width**2 + height**2) if width or height else iou
    if kind == "diou":
        return found
    v = 4 / math.pi**2 * (math.atan2(bw, bh) - math.atan2(aw, ah)) ** 2
    return found - (v / (1 - iou + v) * v if v else 0.0)


def box_iou(a, b, kind="iou"):
    outer = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = (np.broadcast_to(x, (*outer, *x.shape[-2:])) for x in (a, b))
    y = np.zeros((*a.shape[:-1], b.shape[-2]))
    for at in np.ndindex(y.shape):
        y[at] = measured(a[at[:-1]], b[(*at[:-2], at[-1])], kind)
    return y


def box_iou_loss(a, b, kind="iou"):
    y = np.zeros(a.shape[:-1])
    for at in np.ndindex(y.shape):
        y[at] = 1 - measured(a[at], b[at], kind)
    return y


def nms(boxes, scores, iou_threshold):
    kept = []
    for k in np.argsort(-scores, kind="stable"):
        if all(measured(boxes[k], boxes[i], "iou") <= iou_threshold for i in kept):
            kept.append(k)
    return np.array(kept, np.int64)


def decayed(kind, iou, limit, sigma):
    if kind == "hard":
        return float(iou <= limit)
    if kind == "linear":
        return 1 - iou if iou > limit else 1.0
    return math.exp(-(iou**2) / sigma) if kind == "gaussian" else 1.0


def matrix(found, sigma):
    """Each score by the smallest of f(iou with a better one) / f(what covers that)."""
    made, covered = [], []
    for k, (score, label, _, box) in enumerate(found):
        ious = [measured(box, found[i][3], "iou") if found[i][1] == label else 0.0 for i in range(k)]
        covered.append(max(ious, default=0.0))
        factors = [math.exp((covered[i] ** 2 - iou**2) / sigma) for i, iou in enumerate(ious) if found[i][1] == label]
        made.append(score * min([1.0, *factors]))
    return made


def select_boxes(
    boxes, scores, kind="hard", iou_threshold=0.5, score_threshold=0.05, sigma=0.5, per_class=True, candidates=1000,
    most=100,
):  # fmt: skip
    n, _, classes = scores.shape
    found = [np.zeros((n, most, 4)), np.zeros((n, most)), np.full((n, most), -1), np.full((n, most), -1)]
    for image in range(n):
        flat = scores[image].reshape(-1)
        order = [k for k in np.argsort(-flat, kind="stable") if flat[k] > score_threshold][:candidates]
        at = [boxes[image, k // classes, k % classes] if boxes.ndim == 4 else boxes[image, k // classes] for k in order]
        left = [[flat[k], k % classes if per_class else 0, k, box] for k, box in zip(order, at, strict=True)]
        if kind == "matrix":
            for each, score in zip(left, matrix(left, sigma), strict=True):
                each[0] = score
        for rank in range(most):
            left = [each for each in left if each[0] > score_threshold]
            if not left:
                break
            best = max(left, key=lambda each: each[0])
            left = [each for each in left if each is not best]
            for each in left:
                if each[1] == best[1]:
                    each[0] *= decayed(kind, measured(best[3], each[3], "iou"), iou_threshold, sigma)
            values = best[3], best[0], best[2] % classes, best[2] // classes
            for to, value in zip(found, values, strict=True):
                to[image, rank] = value
    return tuple(found)


def encode(anchors, boxes, weights=(1, 1, 1, 1)):
    (ax, ay, aw, ah), (x, y, w, h) = (
        ((v[..., 0] + v[..., 2]) / 2, (v[..., 1] + v[..., 3]) / 2, v[..., 2] - v[..., 0], v[..., 3] - v[..., 1])
        for v in (anchors, boxes)
    )
    return np.stack([(x - ax) / aw, (y - ay) / ah, np.log(w / aw), np.log(h / ah)], axis=-1) * weights


def decode(anchors, deltas, weights=(1, 1, 1, 1), largest=LARGEST):
    d = deltas / weights
    size = anchors[..., 2:] - anchors[..., :2]
    centre = (anchors[..., :2] + anchors[..., 2:]) / 2 + d[..., :2] * size
    size = np.exp(np.minimum(d[..., 2:], largest)) * size
    return np.concatenate([centre - size / 2, centre + size / 2], axis=-1)


def there_and_back(anchors, boxes, **how):
    return pdl.box_decode(anchors, pdl.box_encode(anchors, boxes, **how), **how)


KINDS = ("iou", "giou", "diou", "ciou")
ALPHA = {"grad": (), "why": "alpha is a constant for gradients: test_boxes.py compares them with PyTorch's form"}
A, B = drawn(2, 5), drawn(2, 3)
FLAT = np.array([[0.0, 0, 0, 0], [2, 2, 2, 2], [5, 5, 4, 4], [1, 1, 3, 3]])
SCORES = R.uniform(0, 1, (2, 24, 3))
MANY = drawn(2, 24)
MOVED = "bfloat16 boxes overlap by more or less than the limit"


def selection(boxes, scores, **how):
    return forward(pdl.select_boxes, [boxes, scores], select_boxes, how, bf16=None, why=MOVED)


CASES = [
    *[
        case
        for kind in KINDS
        for extra in (ALPHA if kind == "ciou" else {},)
        for case in (
            Case(pdl.box_iou, [A, B], box_iou, {"kind": kind}, **extra),
            Case(pdl.box_iou_loss, [drawn(2, 4), drawn(2, 4)], box_iou_loss, {"kind": kind}, **extra),
            Case(pdl.box_iou, [FLAT, FLAT], box_iou, {"kind": kind}, grad=()),
        )
    ],
    Case(pdl.box_iou, [A[0], B], box_iou),
    Case(pdl.box_encode, [drawn(4), drawn(2, 4)], encode, {"weights": (10.0, 10.0, 5.0, 5.0)}),
    Case(pdl.box_decode, [drawn(4), R.uniform(-1, 6, (2, 4, 4))], decode, {"weights": (1.0, 2.0, 1.0, 0.5)}),
    Case(there_and_back, [drawn(4), drawn(2, 4)], lambda anchors, boxes, weights: boxes + 0 * anchors,
         {"weights": (10.0, 10.0, 5.0, 5.0)}, grad=()),
    forward(pdl.nms, [drawn(40), R.uniform(0, 1, 40)], nms, {"iou_threshold": 0.4}, bf16=None, why=MOVED,
            untraceable=BY_VALUES),
    forward(pdl.nms, [drawn(40), R.integers(0, 4, 40) / 4], nms, {"iou_threshold": 0.2}, bf16=None, why=MOVED,
            untraceable=BY_VALUES),
    *[
        selection(MANY, SCORES, kind=kind, most=most, iou_threshold=0.3, per_class=per_class)
        for kind in ("hard", "linear", "gaussian", "matrix", "none")
        for most, per_class in ((8, True), (90, True), (40, False))
    ],
    selection(drawn(2, 24, 3), SCORES, most=30, candidates=20),
    selection(drawn(2, 24, 3), SCORES, most=30, per_class=False, iou_threshold=0.1),
    selection(MANY, np.round(SCORES, 1), most=30, candidates=17),  # many are equal
    selection(MANY, SCORES, most=5, score_threshold=1.5),  # nothing
    selection(np.zeros((2, 0, 4)), np.zeros((2, 0, 3)), most=3),
    selection(np.zeros((1, 3, 4)), np.full((1, 3, 1), 0.5), most=4),  # boxes without an area cover none
]  # fmt: skip
