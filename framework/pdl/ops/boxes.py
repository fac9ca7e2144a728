"""Boxes (x1, y1, x2, y2): how much they overlap, which are left of many that do, and their coding by anchors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeAlias, get_args

from pdl.dtype import int64
from pdl.errors import DtypeError, ShapeError, UsageError
from pdl.hints import Choice, Range
from pdl.kernels import boxes as kernels
from pdl.kernels.copies import contiguous
from pdl.kernels.memory import empty
from pdl.ops.attributes import AboveZero, Probability
from pdl.ops.base import Arrays, Fused, Op, Spec, apply, compose_vjp, not_differentiable
from pdl.ops.broadcast import broadcast_to
from pdl.ops.cast import as_tensors
from pdl.ops.checks import broadcast_shapes, check_floating, check_specs
from pdl.ops.elementwise import atan2, exp, log, maximum, minimum, square, where
from pdl.ops.precision import in_float32
from pdl.ops.shape import expand_dims, matrix_transpose, reshape, stack
from pdl.tensor import Tensor, TensorLike

Measure = Literal["iou", "giou", "diou", "ciou"]
Suppression = Literal["hard", "linear", "gaussian", "matrix", "none"]
MeasureName: TypeAlias = Annotated[str, Choice(get_args(Measure))]
SuppressionName: TypeAlias = Annotated[str, Choice(get_args(Suppression))]
#: how many boxes are looked at, or kept
Count: TypeAlias = Annotated[int, Range(1, 2**20)]


# -- overlap -----------------------------------------------------------------------------------------------------------
class BoxIoU(Fused):
    """y [..., N, M] of boxes a [..., N, 4] and b [..., M, 4]; see `box_iou`."""

    kind: MeasureName
    native = True

    def infer(self, a: Spec, b: Spec) -> Spec:
        check_floating("box_iou", a=a, b=b)
        if a.dtype != b.dtype:
            raise DtypeError(f"box_iou: a is {a.dtype.name}, b {b.dtype.name}; expected one dtype")
        if min(len(a.shape), len(b.shape)) < 2 or a.shape[:-2] != b.shape[:-2] or a.shape[-1] != 4 or b.shape[-1] != 4:
            raise ShapeError(f"box_iou: a {a.shape} and b {b.shape}; expected [..., N, 4] and [..., M, 4]")
        return Spec((*a.shape[:-1], b.shape[-2]), a.dtype)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        kernels.overlap(*(_flat(x) for x in (*outs, *ins)), self.kind)

    def compose(self, a: Tensor, b: Tensor) -> Tensor:
        sides = [expand_dims(a[..., k], axis=-1) for k in range(4)], [expand_dims(b[..., k], axis=-2) for k in range(4)]
        (aw, ah), (bw, bh) = ([maximum(s[k + 2] - s[k], 0.0) for k in (0, 1)] for s in sides)
        shared, whole, apart = [], [], []
        for low, high in ((0, 2), (1, 3)):
            (p, q), (r, s) = ((side[low], side[high]) for side in sides)
            shared.append(maximum(minimum(q, s) - maximum(p, r), 0.0))
            whole.append(maximum(maximum(q, s) - minimum(p, r), 0.0))
            apart.append((p + q - r - s) * 0.5)
        intersection = shared[0] * shared[1]
        union = aw * ah + bw * bh - intersection
        iou = _ratio(intersection, union)
        if self.kind == "giou":
            around = whole[0] * whole[1]
            return iou - _ratio(around - union, around)
        if self.kind == "iou":
            return iou
        far = iou - _ratio(square(apart[0]) + square(apart[1]), square(whole[0]) + square(whole[1]))
        if self.kind == "diou":
            return far
        v = square(atan2(bw, bh) - atan2(aw, ah)) * (4 / math.pi**2)
        return far - _ratio(v, 1 - iou + v).detach() * v

    def vjp(self, g: Tensor, y: Tensor, a: Tensor, b: Tensor) -> Any:
        op = BoxIoUGrad(self.kind)
        return lambda: apply(op, g, a, b), lambda: apply(op, matrix_transpose(g), b, a)


class BoxIoUGrad(Fused):
    """da of `BoxIoU` from the gradient g [..., N, M]; the measures are symmetric, so db is that of b and a."""

    kind: MeasureName
    native = True

    def infer(self, g: Spec, a: Spec, b: Spec) -> Spec:
        check_specs("gradient of box_iou", g=(g, BoxIoU(self.kind).infer(a, b)))
        return a

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        kernels.overlap_grad(*(_flat(x) for x in (*outs, *ins)), self.kind)

    def compose(self, g: Tensor, a: Tensor, b: Tensor) -> Tensor:
        tracked = a if a.requires_grad else Tensor(a.data, requires_grad=True)
        da = compose_vjp(BoxIoU(self.kind).compose, g, (tracked, b))[0]
        assert da is not None
        return da


def _flat(x: Any) -> Any:
    """[..., n, m] as contiguous [outer, n, m]."""
    return contiguous(x).reshape(math.prod(x.shape[:-2]), *x.shape[-2:])


def _ratio(a: Tensor, b: Tensor) -> Tensor:
    """a / b, 0 where b is not above 0."""
    some = b > 0
    return where(some, a / where(some, b, 1.0), 0.0)


def _check_kind(name: str, kind: str, kinds: Any) -> None:
    if kind not in get_args(kinds):
        raise UsageError(f"{name}: kind={kind!r} is none of {', '.join(get_args(kinds))}")


def box_iou(a: TensorLike, b: TensorLike, *, kind: Measure = "iou") -> Tensor:
    """How much the boxes of two sets overlap.    a [..., N, 4], b [..., M, 4] (x1, y1, x2, y2) -> [..., N, M]

    iou   intersection / union
    giou  iou - (area around both - union) / area around both (Rezatofighi et al., arXiv 1902.09630)
    diou  iou - (distance of the centres / diagonal around both)^2 (Zheng et al., arXiv 1911.08287)
    ciou  diou - alpha v, v = (4 / pi^2) (difference of atan(width / height))^2, alpha = v / (1 - iou + v), which counts
          as a constant in gradients (the same paper)

    Leading dimensions broadcast. A box whose corners are swapped is empty; a term whose denominator is 0 counts as 0.
    """
    _check_kind("box_iou", kind, Measure)
    a, b = as_tensors(*in_float32(a, b))
    if a.shape[:-2] != b.shape[:-2]:
        outer = broadcast_shapes("box_iou", a.shape[:-2], b.shape[:-2])
        a, b = (broadcast_to(x, (*outer, *x.shape[-2:])) for x in (a, b))
    found: Tensor = apply(BoxIoU(kind), a, b)
    return found


def box_iou_loss(boxes: TensorLike, targets: TensorLike, *, kind: Measure = "iou") -> Tensor:
    """1 - `box_iou` of each box and its target.    boxes, targets [..., 4] -> [...]"""
    boxes, targets = as_tensors(*in_float32(boxes, targets))
    if boxes.shape != targets.shape or boxes.shape[-1:] != (4,):
        raise ShapeError(f"box_iou_loss: boxes {boxes.shape} and targets {targets.shape}; expected both [..., 4]")
    pairs = box_iou(expand_dims(boxes, axis=-2), expand_dims(targets, axis=-2), kind=kind)
    return 1 - reshape(pairs, boxes.shape[:-1])


# -- selection ---------------------------------------------------------------------------------------------------------
class NonMaxSuppression(Op):
    """int64 [kept]: places of the boxes [A, 4] that overlap none with a higher score, by descending score."""

    iou_threshold: Probability
    dynamic = True
    vjp = not_differentiable("places are integers")

    def run(self, ins: tuple[Any, ...]) -> Arrays:
        self.require()
        boxes, scores = ins
        kept, count = empty((1, len(scores)), int64), empty((1,), int64)
        kernels.suppress(
            kept, count, contiguous(boxes[None]), contiguous(scores[None, None]), overlap=self.iou_threshold
        )
        return (kept[0, : int(count[0])].copy(),)


def nms(boxes: TensorLike, scores: TensorLike, *, iou_threshold: float) -> Tensor:
    """Places of the boxes that overlap none with a higher score by more than `iou_threshold` (intersection over union).

    boxes [A, 4] (x1, y1, x2, y2), scores [A] -> int64 [kept], by descending score, equal ones by their place. As
    torchvision's function; how many are kept depends on the values, so programs use `select_boxes`.
    """
    boxes, scores = as_tensors(*in_float32(boxes, scores))
    if boxes.shape != (*scores.shape, 4) or scores.ndim != 1:
        raise ShapeError(f"nms: boxes {boxes.shape} and scores {scores.shape}; expected [A, 4] and [A]")
    found: Tensor = apply(NonMaxSuppression(float(iou_threshold)), boxes, scores)
    return found


class SelectBoxes(Op):
    """(boxes, scores, labels, index) of the best boxes that are left; see `select_boxes`."""

    kind: SuppressionName = "hard"
    iou_threshold: Probability = 0.5
    score_threshold: float = 0.05
    sigma: AboveZero = 0.5
    per_class: bool = True
    candidates: Count = 1000
    most: Count = 100
    native = True
    vjp = not_differentiable("which boxes are left is piecewise constant")

    def infer(self, boxes: Spec, scores: Spec) -> tuple[Spec, ...]:
        check_floating("select_boxes", boxes=boxes, scores=scores)
        if boxes.dtype != scores.dtype:
            raise DtypeError(
                f"select_boxes: boxes are {boxes.dtype.name}, scores {scores.dtype.name}; expected one dtype"
            )
        if len(scores.shape) != 3 or boxes.shape not in ((*scores.shape[:2], 4), (*scores.shape, 4)):
            raise ShapeError(f"select_boxes: boxes {boxes.shape} and scores {scores.shape}; expected [N, A, 4] or "
                             "[N, A, C, 4] and [N, A, C]")  # fmt: skip
        shape = (scores.shape[0], self.most)
        return Spec((*shape, 4), boxes.dtype), Spec(shape, scores.dtype), Spec(shape, int64), Spec(shape, int64)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        kernels.select(
            *outs, *map(contiguous, ins), how=self.kind, overlap=self.iou_threshold, lowest=self.score_threshold,
            sigma=self.sigma, apart=self.per_class, candidates=self.candidates,
        )  # fmt: skip


def select_boxes(
    boxes: TensorLike, scores: TensorLike, *, kind: Suppression = "hard", iou_threshold: float = 0.5,
    score_threshold: float = 0.05, sigma: float = 0.5, per_class: bool = True, candidates: int = 1000, most: int = 100,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """The best boxes of each image that are left when those that overlap are suppressed; all sizes are fixed.

    boxes [N, A, 4] or [N, A, C, 4] (x1, y1, x2, y2), scores [N, A, C] -> boxes [N, K, 4], scores [N, K], labels int64
    [N, K], index int64 [N, K] of the anchor, K = `most`, the best first. Behind the last, boxes and scores are 0,
    labels and index -1.

    kind             hard: a box goes that overlaps a better one by more than `iou_threshold`; linear, gaussian: its
                     score is multiplied by 1 - iou (above `iou_threshold`) or exp(-iou^2 / sigma) in turn (soft
                     suppression, Bodla et al., arXiv 1704.04503); matrix: the latter at once, and less where the better
                     one is itself overlapped (Wang et al., arXiv 2003.10152); none: the best scores
    score_threshold  scores that are not above it are left out, before and after they are lowered
    per_class        boxes of several classes do not meet
    candidates       how many of the best scores of an image are looked at
    """
    _check_kind("select_boxes", kind, Suppression)
    boxes, scores = as_tensors(*in_float32(boxes, scores))
    op = SelectBoxes(
        kind, float(iou_threshold), float(score_threshold), float(sigma), bool(per_class), candidates, most
    )
    return apply(op, boxes, scores)  # type: ignore[no-any-return]


# -- coding ------------------------------------------------------------------------------------------------------------
#: log of how many times larger than its anchor a decoded box is at most
LARGEST = math.log(1000 / 16)


def _centred(boxes: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Centre and size: x, y, width, height."""
    width, height = boxes[..., 2] - boxes[..., 0], boxes[..., 3] - boxes[..., 1]
    return boxes[..., 0] + width * 0.5, boxes[..., 1] + height * 0.5, width, height


def box_encode(anchors: TensorLike, boxes: TensorLike, *, weights: Sequence[float] = (1.0, 1.0, 1.0, 1.0)) -> Tensor:
    """What a net is to say for boxes by anchors, [..., 4]; leading dimensions broadcast.

    (x - x_a) / w_a, (y - y_a) / h_a, log(w / w_a), log(h / h_a) of centres and sizes, times `weights` (Girshick et al.,
    arXiv 1311.2524; Ren et al., arXiv 1506.01497). A size counts as at least 1e-6 of the anchor's, so that padding is
    finite.
    """
    anchors, boxes = as_tensors(*in_float32(anchors, boxes))
    (ax, ay, aw, ah), (x, y, w, h) = _centred(anchors), _centred(boxes)
    parts = (x - ax) / aw, (y - ay) / ah, log(maximum(w / aw, 1e-6)), log(maximum(h / ah, 1e-6))
    return stack([part * weight for part, weight in zip(parts, weights, strict=True)], axis=-1)


def box_decode(
    anchors: TensorLike, deltas: TensorLike, *, weights: Sequence[float] = (1.0, 1.0, 1.0, 1.0),
    largest: float = LARGEST,
) -> Tensor:  # fmt: skip
    """The boxes that `box_encode` made into deltas [..., 4]; logs of sizes count as at most `largest`."""
    anchors, deltas = as_tensors(*in_float32(anchors, deltas))
    ax, ay, aw, ah = _centred(anchors)
    dx, dy, dw, dh = (deltas[..., k] * (1 / weight) for k, weight in zip(range(4), weights, strict=True))
    x, y = dx * aw + ax, dy * ah + ay
    w, h = (exp(minimum(d, largest)) * (size * 0.5) for d, size in ((dw, aw), (dh, ah)))
    return stack([x - w, y - h, x + w, y + h], axis=-1)


__all__ = ["box_decode", "box_encode", "box_iou", "box_iou_loss", "nms", "select_boxes"]
