"""The last layer of a classifier and its loss in one op, for many classes: vocabularies, catalogues."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np

from pdl.dtype import bfloat16, float32, int64
from pdl.errors import DtypeError, ShapeError, UsageError
from pdl.kernels import classifier as kernels
from pdl.ops.attributes import Int64, Length, Reduced
from pdl.ops.base import Arrays, Fused, Spec, apply, compose_vjp
from pdl.ops.cast import astype
from pdl.ops.checks import check_floating
from pdl.ops.create import arange
from pdl.ops.cross_entropy import check_kept, check_reduction, cross_entropy
from pdl.ops.elementwise import where
from pdl.ops.index import take
from pdl.ops.linalg import linear
from pdl.ops.logic import equal, less, logical_and, logical_or, not_equal
from pdl.ops.precision import in_full
from pdl.ops.shape import expand_dims, matrix_transpose, reshape
from pdl.tensor import Tensor, TensorLike, as_tensor


class LinearCrossEntropy(Fused):
    """`CrossEntropy` of the scores x w + b, by blocks of classes that stay in the cache.

    x [N, C], w [C, K] or `transposed` [K, C], b [K] or None, labels int64 [N], ids int64 [K] or None. Outputs: the
    loss, reduced; lse [N]; how many labels count; the scores, in the kernel's own order, for the gradient.
    """

    smoothing: float = 0.0
    ignore_index: Int64 = -100
    reduction: Reduced = "mean"
    transposed: bool = False
    first: Length = 0

    def infer(self, x: Spec, w: Spec, b: Spec | None, labels: Spec, ids: Spec | None) -> tuple[Spec, ...]:
        check_floating("linear_cross_entropy", x=x)
        form = "[classes, C]" if self.transposed else "[C, classes]"
        inputs, *classes = reversed(w.shape) if self.transposed else w.shape
        if len(x.shape) != 2 or len(w.shape) != 2 or x.shape[1] != inputs or not all(w.shape):
            raise ShapeError(f"linear_cross_entropy: x {x.shape} [N, C] does not fit w {w.shape} {form}")
        if b is not None and b.shape != tuple(classes):
            raise ShapeError(f"linear_cross_entropy: b {b.shape} does not fit the {classes[0]} classes of w {w.shape}")
        if any(s is not None and s.dtype != x.dtype for s in (w, b)):
            shown = ", ".join(s.dtype.name for s in (x, w, b) if s is not None)
            raise DtypeError(f"linear_cross_entropy: dtypes {shown}; expected one floating dtype")
        if labels != Spec(x.shape[:1], int64):
            raise ShapeError(
                f"linear_cross_entropy: labels {labels.shape} {labels.dtype.name} must be int64 {x.shape[:1]}, one for "
                f"each row of x {x.shape}"
            )
        if ids is not None and ids != Spec(tuple(classes), int64):
            raise ShapeError(f"linear_cross_entropy: ids {ids.shape} {ids.dtype.name} must be int64 {tuple(classes)}")
        if not 0 <= self.first < classes[0] or (not self.transposed and (self.first or ids is not None)):
            raise ShapeError(
                f"linear_cross_entropy: first {self.first} of {classes[0]} classes of w {w.shape}; first and ids go "
                "with transposed, where the rows of w are the classes"
            )
        wide = float32 if x.dtype == bfloat16 else x.dtype
        loss = x.shape[:1] if self.reduction == "none" else ()
        scores = kernels.scores_shape(x.shape[0], classes[0] - self.first, self.transposed)
        return Spec(loss, wide), Spec(x.shape[:1], wide), Spec((), wide), Spec(scores, wide)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        y, lse, total, scores = outs
        loss = y if self.reduction == "none" else np.empty(lse.shape, lse.dtype)
        x, w, b, labels, ids = _contiguous(ins)
        total[...] = kernels.forward(
            loss, lse, scores, x, w, b, labels,
            smoothing=self.smoothing, ignore_index=self.ignore_index, by_rows=self.transposed,
            first=self.first, ids=ids,
        )  # fmt: skip
        if self.reduction != "none":
            value = np.add.reduce(loss, axis=None)
            y[...] = value / total if self.reduction == "mean" else value

    def compose(self, x: Tensor, w: Tensor, b: Tensor | None, labels: Tensor, ids: Tensor | None) -> tuple[Tensor, ...]:
        if self.first:
            w, b, labels = w[self.first :], None if b is None else b[self.first :], labels - self.first
            ids = None if ids is None else ids[self.first :]
        scores = linear(x, matrix_transpose(w) if self.transposed else w, b)
        if ids is not None:
            scores = where(_left_out(labels, ids), -math.inf, scores)
        loss = cross_entropy(
            scores, labels,
            label_smoothing=self.smoothing, ignore_index=self.ignore_index - self.first, reduction=self.reduction,
        )  # fmt: skip
        return loss, loss.detach(), loss.detach(), loss.detach()  # the others carry no gradient

    def vjp(self, g: Any, y: Any, x: Tensor, w: Tensor, b: Tensor | None, labels: Tensor, ids: Tensor | None) -> Any:
        if g[0] is None:
            return None, None, None, None, None
        op = LinearCrossEntropyGrad(self.smoothing, self.ignore_index, self.reduction, self.transposed, self.first)
        found = apply(op, g[0], x, w, b, labels, ids, *(kept.detach() for kept in y[1:]))
        return (*found, None, None) if b is not None else (*found, None, None, None)


class LinearCrossEntropyGrad(Fused):
    """(dx, dw, db where there is a b) of `LinearCrossEntropy`, from the gradient of its loss and what it kept."""

    smoothing: float = 0.0
    ignore_index: Int64 = -100
    reduction: Reduced = "mean"
    transposed: bool = False
    first: Length = 0

    def infer(  # type: ignore[override]
        self, g: Spec, x: Spec, w: Spec, b: Spec | None, labels: Spec, ids: Spec | None, *kept: Spec
    ) -> tuple[Spec, ...]:
        op = LinearCrossEntropy(self.smoothing, self.ignore_index, self.reduction, self.transposed, self.first)
        check_kept("linear_cross_entropy", (g, *kept), op.infer(x, w, b, labels, ids))
        return (x, w) if b is None else (x, w, b)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        g, x, w, b, labels, _, lse, _, scores = _contiguous(ins)
        kernels.backward(
            outs[0], outs[1], outs[2] if b is not None else None, g, x, w, labels, lse, scores,
            smoothing=self.smoothing, ignore_index=self.ignore_index, by_rows=self.transposed,
            first=self.first, factor=float(1 / ins[7]) if self.reduction == "mean" else 1.0,
        )  # fmt: skip

    def compose(
        self, g: Tensor, x: Tensor, w: Tensor, b: Tensor | None, labels: Tensor, ids: Tensor | None, *_: Any
    ) -> Any:
        op = LinearCrossEntropy(self.smoothing, self.ignore_index, self.reduction, self.transposed, self.first)
        tracked = tuple(v if v is None or v.requires_grad else Tensor(v.data, requires_grad=True) for v in (x, w, b))
        found = compose_vjp(lambda *ins: op.compose(*ins)[0], g, (*tracked, labels, ids))
        return tuple(d for d, v in zip(found, (x, w, b), strict=False) if v is not None)


def _left_out(labels: Tensor, ids: Tensor) -> Tensor:
    """Where a class takes no part in a row's softmax, bool [N, K]."""
    places = expand_dims(labels, axis=1)
    own = take(ids, where(less(places, 0), 0, places))
    again = logical_and(equal(own, ids), not_equal(places, arange(ids.shape[0])))
    return logical_or(less(ids, 0), again)


def _contiguous(ins: tuple[Any, ...]) -> list[Any]:
    return [None if x is None else np.ascontiguousarray(x) for x in ins]


def linear_cross_entropy(
    x: TensorLike,
    w: TensorLike,
    b: TensorLike | None,
    labels: TensorLike,
    *,
    label_smoothing: float = 0.0,
    ignore_index: int = -100,
    reduction: str = "mean",
    transposed: bool = False,
    first: int = 0,
    ids: TensorLike | None = None,
) -> Tensor:
    """``cross_entropy(linear(x, w, b), labels, ...)`` for many classes.    x [..., C], w [C, K], b [K] or None, labels
    int64 [...]

    The same loss in less time and memory: classes are taken in blocks that stay in the cache, and neither the softmax
    nor the gradient of the scores exists as a whole. After Wijmans et al., arXiv 2411.09009. With `transposed` the rows
    of w [K, C] are the classes, as in tables of items and tied embeddings; so is then the gradient of w. Two things
    more go with that form:

    first   classes below this number take no part, such as the row of a table that is no item; no label is one
    ids     int64 [K]: the class of each column, where classes are sampled (a sampled softmax: w are rows of a table,
            b may hold minus the logarithm of what is expected of each). A class that has the id of a row's label but is
            not the label itself takes no part in that row's softmax, one with a negative id in none
    """
    labels = as_tensor(labels)
    check_reduction("linear_cross_entropy", reduction)
    if not 0 <= label_smoothing <= 1:
        raise UsageError(f"linear_cross_entropy: label_smoothing {label_smoothing} is outside [0, 1]")
    full: Any = in_full(as_tensor(x), as_tensor(w), None if b is None else as_tensor(b))
    rows, weight, bias = full
    if rows.shape[:-1] != labels.shape:
        wanted = rows.shape[:-1]
        raise ShapeError(f"linear_cross_entropy: x {rows.shape} [..., C] needs labels {wanted}, got {labels.shape}")
    if labels.dtype != int64:
        labels = astype(labels, int64)
    if (first or ids is not None) and not transposed:
        raise UsageError("linear_cross_entropy: first and ids go with transposed=True: the rows of w are the classes")
    if ids is not None and (label_smoothing or first):
        raise UsageError("linear_cross_entropy: ids go with neither label_smoothing nor first")
    op = LinearCrossEntropy(float(label_smoothing), ignore_index, reduction, transposed, first)
    known = None if ids is None else as_tensor(ids)
    loss = apply(op, reshape(rows, (-1, rows.shape[-1])), weight, bias, reshape(labels, (-1,)), known)[0]
    return cast(Tensor, loss if reduction != "none" else reshape(loss, labels.shape))


__all__ = ["linear_cross_entropy"]
