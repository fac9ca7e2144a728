"""What losses make of an assignment index int64 [N, A] (see `pdl_cv.ops.assign`): a sample of its places, the ground
truths that they are to find, targets of their classes. Nothing here has a gradient."""

from __future__ import annotations

from typing import Any, cast

from pdl.kernels.copies import contiguous

from pdl.dtype import float32, int64
from pdl.errors import ShapeError
from pdl.kernels import assign as kernels
from pdl.ops.attributes import Length, Probability
from pdl.ops.base import Arrays, Op, Spec, apply
from pdl.ops.checks import check_floating, check_shapes
from pdl.ops.dropout import check_seed
from pdl.ops.segment import check_ids
from pdl.tensor import Tensor, TensorLike, as_tensor
from pdl_cv.ops.assign import Assignment, Positive


class _OfIndex(Op, abstract=True):
    """What ops share that read an assignment."""

    native = True
    onnx = Assignment.onnx
    vjp = Assignment.vjp

    def _index(self, name: str, index: Spec) -> tuple[int, ...]:
        check_ids(name, "index", index)
        if len(index.shape) != 2:
            raise ShapeError(f"{name}: index {index.shape}; expected [N, A]")
        return index.shape


class SampleAssigned(_OfIndex):
    """index, where all but a random sample of each image is -2; see `sample_assigned`."""

    count: Length
    positive_share: Probability

    def infer(self, index: Spec, seed: Spec) -> Spec:
        check_seed("sample_assigned", seed)
        return Spec(self._index("sample_assigned", index), int64)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        positives = int(self.count * self.positive_share)
        kernels.sample(outs[0], contiguous(ins[0], int64), ins[1], count=self.count, positives=positives)


class HardNegatives(_OfIndex):
    """index, where background is -2 but for the places of the highest loss; see `hard_negatives`."""

    ratio: Positive
    autocast = "wide"

    def infer(self, loss: Spec, index: Spec) -> Spec:
        check_floating("hard_negatives", loss=loss)
        check_shapes("hard_negatives", loss=(loss, self._index("hard_negatives", index)))
        return Spec(index.shape, int64)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        kernels.hard_negatives(outs[0], contiguous(ins[0]), contiguous(ins[1], int64), self.ratio)


class TakeAssigned(_OfIndex):
    """y[n, a] = values[n, index[n, a]]; zeros where the index is negative."""

    native_bf16 = True

    def infer(self, values: Spec, index: Spec) -> Spec:
        n, a = self._index("take_assigned", index)
        if len(values.shape) < 2 or values.shape[0] != n:
            raise ShapeError(f"take_assigned: values {values.shape} and index {index.shape}; expected [N, M, ...] and "
                             "[N, A]")  # fmt: skip
        return Spec((n, a, *values.shape[2:]), values.dtype)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        kernels.take(outs[0], contiguous(ins[0]), contiguous(ins[1], int64))


class ClassTargets(_OfIndex):
    """y[n, a, labels[n, index[n, a]]] = quality[n, a], or 1; 0 elsewhere."""

    num_classes: Length
    autocast = "wide"

    def infer(self, index: Spec, labels: Spec, quality: Spec | None = None) -> Spec:
        n, a = self._index("class_targets", index)
        check_ids("class_targets", "labels", labels)
        check_floating("class_targets", quality=quality)
        check_shapes("class_targets", quality=(quality, (n, a)))
        if len(labels.shape) != 2 or labels.shape[0] != n:
            raise ShapeError(f"class_targets: labels {labels.shape} and index {index.shape}; expected [N, M] and "
                             "[N, A]")  # fmt: skip
        return Spec((n, a, self.num_classes), float32 if quality is None else quality.dtype)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        index, labels = (contiguous(x, int64) for x in ins[:2])
        kernels.targets(outs[0], index, labels, contiguous(ins[2]) if len(ins) > 2 else None)


# -- the public functions ----------------------------------------------------------------------------------------------
def sample_assigned(index: TensorLike, seed: TensorLike, *, count: int, positive_share: float) -> Tensor:
    """A random sample of each image's places, as Faster R-CNN's losses take (arXiv 1506.01497).    index [N, A],
    seed int64 [] (see `pdl.draw_seed`) -> index int64 [N, A]

    count            places of an image that are kept; all others become -2
    positive_share   at most this share of them find something; background fills up

    The sample follows from seed, image and place, whatever the number of threads.
    """
    op = SampleAssigned(count, positive_share)
    return cast(Tensor, apply(op, as_tensor(index), as_tensor(seed)))


def hard_negatives(loss: TensorLike, index: TensorLike, *, ratio: float) -> Tensor:
    """The hardest background of each image (SSD, arXiv 1512.02325).    loss [N, A], index [N, A]
    -> index int64 [N, A]

    Of each image's background the places of the highest loss stay, `ratio` times as many as find something; the other
    background becomes -2. Of equal losses the first stay; those that are NaN never do.
    """
    return cast(Tensor, apply(HardNegatives(ratio), as_tensor(loss), as_tensor(index)))


def take_assigned(values: TensorLike, index: TensorLike) -> Tensor:
    """What each place is to find: boxes, labels, keypoints.    values [N, M, ...], index [N, A] -> [N, A, ...]

    Zeros for places that find nothing. Errors: ShapeError for an index of M or more.
    """
    return cast(Tensor, apply(TakeAssigned(), as_tensor(values), as_tensor(index)))


def class_targets(
    index: TensorLike, labels: TensorLike, *, num_classes: int, quality: TensorLike | None = None
) -> Tensor:
    """Targets of class scores.    index [N, A], labels [N, M], quality [N, A] -> [N, A, num_classes]

    1, or the quality, at the label of what a place is to find, 0 elsewhere and for places that find nothing; float32,
    or of quality's dtype. Errors: ShapeError for a label of num_classes or more, an index of M or more.
    """
    ins = [as_tensor(index), as_tensor(labels)] + ([] if quality is None else [as_tensor(quality)])
    return cast(Tensor, apply(ClassTargets(num_classes), *ins))
