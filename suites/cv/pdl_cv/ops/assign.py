"""Target assignment: which ground truth each anchor, point or query of an image is to find, while a detector trains.

All take ground truths boxes [N, M, 4] (x1, y1, x2, y2) with labels [N, M], -1 for padding, and give index int64 [N, A]:
the ground truth 0..M-1 that a place is to find, -1 for background, -2 for places that the loss leaves out. Boxes
without area, or that are no numbers, overlap nothing. Nothing here has a gradient.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias, cast

import numpy as np
from pdl.kernels.copies import contiguous
from pdl.kernels.launch import constant

from pdl.dtype import int64
from pdl.errors import ShapeError, UsageError
from pdl.hints import Range
from pdl.kernels import assign as kernels
from pdl.ops.attributes import Length, Step
from pdl.ops.base import Arrays, Op, Spec, apply, not_differentiable, not_exported
from pdl.ops.checks import check_floating, check_shapes
from pdl.ops.segment import check_ids
from pdl.tensor import Tensor, TensorLike, as_tensor

#: an intersection over union
Share: TypeAlias = Annotated[float, Range(0, 1)]
#: an exponent, a weight
Positive: TypeAlias = Annotated[float, Range(0, 2**16)]


class Assignment(Op, abstract=True):
    """What ops share that assign targets: index int64 [N, A], from arrays that are brought to one floating dtype."""

    native = True
    autocast = "wide"
    onnx = not_exported("targets are assigned in training only")
    vjp = not_differentiable("which ground truth a place is to find is piecewise constant")

    def _truth(self, name: str, boxes: Spec, labels: Spec) -> tuple[int, ...]:
        """N and M; raises where boxes and labels do not fit together."""
        check_floating(name, boxes=boxes)
        check_ids(name, "labels", labels)
        if len(labels.shape) != 2 or boxes.shape != (*labels.shape, 4):
            raise ShapeError(f"{name}: boxes {boxes.shape} and labels {labels.shape}; expected [N, M, 4] and [N, M]")
        return labels.shape

    def _points(self, name: str, n: int, points: Spec, predicted: Spec, scores: Spec) -> int:
        """A; raises where points, the boxes found there and their scores do not fit together."""
        check_floating(name, points=points, predicted=predicted, scores=scores)
        if len(scores.shape) != 3 or scores.shape[0] != n:
            raise ShapeError(f"{name}: scores {scores.shape} of {n} images; expected [{n}, A, C]")
        a = scores.shape[1]
        check_shapes(name, points=(points, (a, 2)), predicted=(predicted, (n, a, 4)))
        return a


class MaxIouAssign(Assignment):
    """The box that an anchor overlaps most; see `max_iou_assign`."""

    positive: Share
    negative: Share
    best: bool = True
    forced: bool = False

    def check(self) -> None:
        super().check()
        if self.negative > self.positive or self.positive == 0:
            raise UsageError(
                f"max_iou_assign: positive {self.positive} must be above 0 and not below negative {self.negative}"
            )
        if self.forced and not self.best:
            raise UsageError("max_iou_assign: forced says how best anchors are assigned; best is False")

    def infer(self, anchors: Spec, boxes: Spec, labels: Spec) -> Spec:
        n, _m = self._truth("max_iou_assign", boxes, labels)
        check_floating("max_iou_assign", anchors=anchors)
        if anchors.shape[-1:] != (4,) or len(anchors.shape) not in (2, 3) or anchors.shape[:-2] not in ((), (n,)):
            raise ShapeError(f"max_iou_assign: anchors {anchors.shape}; expected [A, 4] or [{n}, A, 4]")
        return Spec((n, anchors.shape[-2]), int64)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        anchors, boxes = (contiguous(x, ins[0].dtype) for x in ins[:2])
        kernels.max_iou(
            outs[0], anchors, boxes, contiguous(ins[2], int64), positive=self.positive, negative=self.negative,
            best=self.best, forced=self.forced,
        )  # fmt: skip


class AtssAssign(Assignment):
    """The box whose nearest anchors an anchor is one of, and overlaps enough; see `atss_assign`."""

    levels: tuple[Length, ...]
    k: Step = 9

    def infer(self, anchors: Spec, boxes: Spec, labels: Spec) -> Spec:
        n, _m = self._truth("atss_assign", boxes, labels)
        check_floating("atss_assign", anchors=anchors)
        if anchors.shape != (sum(self.levels), 4):
            raise ShapeError(
                f"atss_assign: anchors {anchors.shape}, levels {self.levels}; expected [{sum(self.levels)}, 4]"
            )
        return Spec((n, anchors.shape[0]), int64)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        anchors, boxes = (contiguous(x, ins[0].dtype) for x in ins[:2])
        levels = constant(np.array(self.levels, np.int64))
        kernels.atss(outs[0], anchors, boxes, contiguous(ins[2], int64), levels, self.k)


class TaskAlignedAssign(Assignment):
    """The points whose score and box agree most with a ground truth; see `task_aligned_assign`."""

    k: Step = 13
    alpha: Positive = 1.0
    beta: Positive = 6.0

    def infer(self, points: Spec, predicted: Spec, scores: Spec, boxes: Spec, labels: Spec) -> tuple[Spec, Spec]:
        n, _m = self._truth("task_aligned_assign", boxes, labels)
        a = self._points("task_aligned_assign", n, points, predicted, scores)
        return Spec((n, a), int64), Spec((n, a), predicted.dtype)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        floats = [contiguous(x, outs[1].dtype) for x in ins[:4]]
        kernels.task_aligned(*outs, *floats, contiguous(ins[4], int64), k=self.k, alpha=self.alpha, beta=self.beta)


class SimotaAssign(Assignment):
    """The points of the lowest cost for each ground truth; see `simota_assign`."""

    radius: Positive = 2.5
    k: Step = 10
    iou_weight: Positive = 3.0

    def infer(
        self, points: Spec, strides: Spec, predicted: Spec, scores: Spec, boxes: Spec, labels: Spec
    ) -> tuple[Spec, Spec]:
        n, _m = self._truth("simota_assign", boxes, labels)
        a = self._points("simota_assign", n, points, predicted, scores)
        check_floating("simota_assign", strides=strides)
        check_shapes("simota_assign", strides=(strides, (a,)))
        return Spec((n, a), int64), Spec((n, a), predicted.dtype)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        points, strides, predicted, scores, boxes = (contiguous(x, outs[1].dtype) for x in ins[:5])
        kernels.simota(
            *outs, points, strides, predicted, scores, boxes, contiguous(ins[5], int64), radius=self.radius, k=self.k,
            iou_weight=self.iou_weight,
        )  # fmt: skip


class HungarianAssign(Assignment):
    """The pairing of queries and ground truths of the lowest total cost; see `hungarian_assign`."""

    def infer(self, cost: Spec, labels: Spec) -> Spec:
        check_floating("hungarian_assign", cost=cost)
        check_ids("hungarian_assign", "labels", labels)
        if len(cost.shape) != 3 or labels.shape != (cost.shape[0], cost.shape[2]):
            raise ShapeError(
                f"hungarian_assign: cost {cost.shape} and labels {labels.shape}; expected [N, Q, M] and [N, M]"
            )
        return Spec(cost.shape[:2], int64)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        kernels.hungarian(outs[0], contiguous(ins[0]), contiguous(ins[1], int64))


# -- the public functions ----------------------------------------------------------------------------------------------
def max_iou_assign(
    anchors: TensorLike, boxes: TensorLike, labels: TensorLike, *, positive: float, negative: float,
    best: bool = True, forced: bool = False,
) -> Tensor:  # fmt: skip
    """The box that each anchor overlaps most.    anchors [A, 4] or [N, A, 4], boxes [N, M, 4], labels [N, M]
    -> index int64 [N, A]

    positive   IoU from which an anchor is to find that box
    negative   IoU below which it is background; between the two it is left out (-2)
    best       so that every box is found, all anchors of its highest IoU, if above 0, find the box that they overlap
               most (Faster R-CNN, arXiv 1506.01497; torchvision's `allow_low_quality_matches`)
    forced     with `best`: the first anchor of its highest IoU finds this very box, of several boxes the last (SSD,
               arXiv 1512.02325)

    Errors: UsageError for thresholds outside of 0 < negative <= positive <= 1 (negative may be 0).
    """
    ins = (as_tensor(x) for x in (anchors, boxes, labels))
    return cast(Tensor, apply(MaxIouAssign(positive, negative, best, forced), *ins))


def atss_assign(
    anchors: TensorLike, boxes: TensorLike, labels: TensorLike, *, levels: tuple[int, ...], k: int = 9
) -> Tensor:
    """Adaptive training sample selection (arXiv 1912.02424).    anchors [A, 4], boxes [N, M, 4], labels [N, M]
    -> index int64 [N, A]

    levels   how many of the anchors each level of the pyramid has, in their order
    k        of each level the anchors whose centres are nearest to a box's are its candidates

    A candidate is to find the box where its IoU is at least the mean and standard deviation (of a sample: n - 1) of all
    the box's candidates', and its centre lies in the box; of several boxes that of the highest IoU.
    """
    ins = (as_tensor(x) for x in (anchors, boxes, labels))
    return cast(Tensor, apply(AtssAssign(tuple(levels), k), *ins))


def task_aligned_assign(
    points: TensorLike, predicted: TensorLike, scores: TensorLike, boxes: TensorLike, labels: TensorLike, *,
    k: int = 13, alpha: float = 1.0, beta: float = 6.0,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Task-aligned assignment (TOOD, arXiv 2108.07755).    points [A, 2], predicted boxes [N, A, 4], scores [N, A, C]
    in 0..1, boxes [N, M, 4], labels [N, M] -> (index int64 [N, A], quality [N, A])

    Of the points inside a box the `k` of the highest alignment t = score^alpha IoU^beta are to find it, where t is
    above 0; a point that several boxes take goes to the one of the highest IoU. Quality is t, scaled for each box so
    that the highest equals the highest IoU among its points, and 0 for background: the target of its class' score. A
    box with no point inside finds none.
    """
    ins = (as_tensor(x) for x in (points, predicted, scores, boxes, labels))
    return cast("tuple[Tensor, Tensor]", apply(TaskAlignedAssign(k, alpha, beta), *ins))


def simota_assign(
    points: TensorLike, strides: TensorLike, predicted: TensorLike, scores: TensorLike, boxes: TensorLike,
    labels: TensorLike, *, radius: float = 2.5, k: int = 10, iou_weight: float = 3.0,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """SimOTA (YOLOX, arXiv 2107.08430).    points [A, 2], strides [A], predicted boxes [N, A, 4], scores [N, A, C] in
    0..1, boxes [N, M, 4], labels [N, M] -> (index int64 [N, A], iou [N, A])

    scores       the probabilities that the cost sees: YOLOX gives the root of class times objectness
    radius       points within so many strides of a box's centre, along each axis, are candidates, and those in the box
    k            a box takes as many candidates as its `k` highest IoUs sum up to, at least one
    iou_weight   cost = binary cross-entropy of all classes + iou_weight * -log(IoU), and 1e5 more for points that are
                 not both in the box and near its centre

    A box takes the candidates of the lowest cost; one that several boxes take goes to that of the lowest cost. `iou` is
    that of the predicted box with the one to find, 0 for background.
    """
    ins = (as_tensor(x) for x in (points, strides, predicted, scores, boxes, labels))
    return cast("tuple[Tensor, Tensor]", apply(SimotaAssign(radius, k, iou_weight), *ins))


def hungarian_assign(cost: TensorLike, labels: TensorLike) -> Tensor:
    """The pairing of queries and ground truths whose costs have the lowest sum (Kuhn 1955; shortest augmenting paths,
    Jonker and Volgenant 1987).    cost [N, Q, M], labels [N, M] -> index int64 [N, Q]

    Every ground truth is paired with a query, or every query with a ground truth, where these are fewer; the others are
    background. Costs that are NaN or beyond 1e12 count as 1e12.
    """
    return cast(Tensor, apply(HungarianAssign(), as_tensor(cost), as_tensor(labels)))
