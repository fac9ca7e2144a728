"""Cross-entropy of logits with classes or with probabilities: softmax, logarithm, smoothing and class weights in one
kernel."""

from __future__ import annotations

import builtins
from typing import Any, cast

import numpy as np

from pdl.dtype import Array, bfloat16, float32, int64, is_floating
from pdl.errors import DtypeError, ShapeError, UsageError
from pdl.kernels import softmax as kernels
from pdl.ops.attributes import Int64, Reduced
from pdl.ops.base import Arrays, Fused, Op, Spec, apply
from pdl.ops.cast import astype
from pdl.ops.checks import check_floating
from pdl.ops.create import one_hot
from pdl.ops.elementwise import where
from pdl.ops.logic import not_equal
from pdl.ops.reduce import sum
from pdl.ops.shape import expand_dims
from pdl.ops.softmax import log_softmax, softmax
from pdl.tensor import Tensor, TensorLike, as_tensor

_REDUCTIONS = ("mean", "sum", "none")


def check_reduction(name: str, reduction: str) -> None:
    """Raise unless `reduction` is one of the three."""
    if reduction not in _REDUCTIONS:
        raise UsageError(f"{name}: reduction is {reduction!r}; expected 'mean', 'sum' or 'none'")


def check_kept(name: str, given: tuple[Spec, ...], made: tuple[Spec, ...]) -> None:
    """Raise unless the gradient of a loss, and what the loss kept, are like what the loss made."""
    if given != made:
        shown = [", ".join(f"{s.dtype.name} {s.shape}" for s in specs) for specs in (given, made)]
        raise ShapeError(f"gradient of {name}: g and what was kept are {shown[0]}; expected {shown[1]}")


def _weight_like(weight: Array | None, lse: Array) -> Array | None:
    """Class weights in the dtype that losses are computed in."""
    return None if weight is None else np.ascontiguousarray(weight, lse.dtype)


class CrossEntropy(Op):
    """loss = (1 - s) w[label] (lse - x[label]) + s / C sum_c w[c] (lse - x[c]) per row, lse = log sum_c e^x[c]; 0 for
    `ignore_index`.

    x [..., C], labels int64 [...], weight [C] or None. Outputs: the loss, reduced (the mean divides by the sum of
    w[label] that count); lse [...]; that sum. The weight carries no gradient. Beside bfloat16 logits all outputs are
    float32.
    """

    smoothing: float = 0.0
    ignore_index: Int64 = -100
    reduction: Reduced = "mean"
    native_bf16 = True

    def infer(self, x: Spec, labels: Spec, weight: Spec | None) -> tuple[Spec, ...]:
        check_floating("cross_entropy", logits=x)
        if labels.dtype != int64:
            raise DtypeError(
                f"cross_entropy: labels are {labels.dtype.name}; expected int64 (or float probabilities like the "
                "logits)"
            )
        if not x.shape or not x.shape[-1] or labels.shape != x.shape[:-1]:
            raise ShapeError(
                f"cross_entropy: logits {x.shape} [..., classes] need labels {x.shape[:-1]}, got {labels.shape}"
            )
        if weight is not None and weight.shape != x.shape[-1:]:
            raise ShapeError(
                f"cross_entropy: weight {weight.shape} does not fit the {x.shape[-1]} classes of logits {x.shape}"
            )
        wide = float32 if x.dtype == bfloat16 else x.dtype
        return Spec(labels.shape if self.reduction == "none" else (), wide), Spec(labels.shape, wide), Spec((), wide)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        y, lse, total = outs
        x, labels, weight = ins
        loss = y if self.reduction == "none" else np.empty(lse.shape, lse.dtype)
        total[...] = kernels.cross_entropy(
            loss,
            lse,
            np.ascontiguousarray(x),
            np.ascontiguousarray(labels),
            _weight_like(weight, lse),
            smoothing=self.smoothing,
            ignore_index=self.ignore_index,
        )
        if self.reduction != "none":
            value = np.add.reduce(loss, axis=None)
            y[...] = value / total if self.reduction == "mean" else value

    def vjp(self, g: Any, y: Any, x: Tensor, labels: Tensor, weight: Tensor | None) -> Any:
        if g[0] is None:
            return None, None, None
        op = CrossEntropyGrad(self.smoothing, self.ignore_index, self.reduction)
        return apply(op, g[0], x, y[1].detach(), y[2].detach(), labels, weight), None, None


class CrossEntropyGrad(Fused):
    """dx[c] = g (a p[c] - q[c]), p the softmax, q[c] = (1 - s) w[label] [c = label] + s / C w[c], a = sum q; 0 for
    ignored rows.
    """

    smoothing: float = 0.0
    ignore_index: Int64 = -100
    reduction: Reduced = "mean"
    native_bf16 = True

    def infer(self, g: Spec, x: Spec, lse: Spec, total: Spec, labels: Spec, weight: Spec | None) -> Spec:
        loss, *kept = CrossEntropy(self.smoothing, self.ignore_index, self.reduction).infer(x, labels, weight)
        check_kept("cross_entropy", (g, lse, total), (loss, *kept))
        return x

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        g, x, lse, total, labels, weight = ins
        factor = float(1 / total) if self.reduction == "mean" else 1.0
        kernels.cross_entropy_grad(
            outs[0],
            np.ascontiguousarray(g),
            np.ascontiguousarray(x),
            lse,
            np.ascontiguousarray(labels),
            _weight_like(weight, lse),
            smoothing=self.smoothing,
            ignore_index=self.ignore_index,
            factor=factor,
        )

    def compose(
        self, g: Tensor, x: Tensor, lse: Tensor, total: Tensor, labels: Tensor, weight: Tensor | None
    ) -> Tensor:
        classes = x.shape[-1]
        counted = not_equal(labels, self.ignore_index)
        like, x = x.dtype, astype(x, lse.dtype)
        hard = one_hot(where(counted, labels, 0), classes, dtype=x.dtype)
        q = hard * (1 - self.smoothing) + self.smoothing / classes
        if weight is not None:
            w = weight.detach()
            q = hard * w * (1 - self.smoothing) + w * (self.smoothing / classes)
        q = where(expand_dims(counted, axis=-1), q, 0)
        dx = softmax(x) * sum(q, axis=-1, keepdims=True) - q
        if self.reduction == "none":
            return astype(dx * expand_dims(g, axis=-1), like)
        return astype(dx * (g / total if self.reduction == "mean" else g), like)


def cross_entropy(
    logits: TensorLike,
    target: TensorLike,
    *,
    weight: Tensor | None = None,
    label_smoothing: float = 0.0,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    """-sum_c q[c] log softmax(logits)[c] over the last axis of logits [..., C].

    `target` is int64 [...] (classes), q then being (1 - s) [c = label] + s / C, times `weight` [C]; or floats [..., C]
    (probabilities), smoothed and weighted alike. Rows labelled `ignore_index` count nothing. The mean over classes
    divides by the
    sum of weight[label], that over probabilities by the number of rows. Raises `DataError` for a label outside [0, C).
    """
    logits, target = as_tensor(logits), as_tensor(target)
    check_reduction("cross_entropy", reduction)
    if not 0 <= label_smoothing <= 1:
        raise UsageError(f"cross_entropy: label_smoothing {label_smoothing} is outside [0, 1]")
    if is_floating(target.dtype):
        target = astype(target, float32 if logits.dtype == bfloat16 else logits.dtype)
        return cast(Tensor, apply(SoftCrossEntropy(float(label_smoothing), reduction), logits, target, weight)[0])
    if target.dtype != int64:
        target = astype(target, int64)
    return cast(Tensor, apply(CrossEntropy(float(label_smoothing), ignore_index, reduction), logits, target, weight)[0])


class SoftCrossEntropy(Op):
    """loss = sum_c q[c] (lse - x[c]) per row, q[c] = w[c] ((1 - s) target[c] + s / C), lse = log sum_c e^x[c].

    x, target [..., C] (target float32 with bfloat16 x), weight [C] or None. Outputs: the loss, reduced (the mean
    divides by the number of rows); lse [...]; sum_c q[c] [...]. The weight carries no gradient.
    """

    smoothing: float = 0.0
    reduction: Reduced = "mean"
    native_bf16 = True

    def infer(self, x: Spec, target: Spec, weight: Spec | None) -> tuple[Spec, ...]:
        check_floating("cross_entropy", logits=x, target=target)
        wide = float32 if x.dtype == bfloat16 else x.dtype
        if not x.shape or not x.shape[-1] or target != Spec(x.shape, wide):
            raise ShapeError(
                f"cross_entropy: logits {x.shape} [..., classes] need probabilities {x.shape} {wide.name}, got "
                f"{target.shape} {target.dtype.name}"
            )
        if weight is not None and weight.shape != x.shape[-1:]:
            raise ShapeError(
                f"cross_entropy: weight {weight.shape} does not fit the {x.shape[-1]} classes of logits {x.shape}"
            )
        rows = Spec(x.shape[:-1], wide)
        return rows if self.reduction == "none" else Spec((), wide), rows, rows

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        y, lse, mass = outs
        x, target, weight = ins
        loss = y if self.reduction == "none" else np.empty(lse.shape, lse.dtype)
        weight = _weight_like(weight, lse)
        x, target = np.ascontiguousarray(x), np.ascontiguousarray(target)
        kernels.soft_cross_entropy(loss, lse, mass, x, target, weight, smoothing=self.smoothing)
        if self.reduction != "none":
            y[...] = np.add.reduce(loss, axis=None) / (lse.size if self.reduction == "mean" else 1)

    def vjp(self, g: Any, y: Any, x: Tensor, target: Tensor, weight: Tensor | None) -> Any:
        if g[0] is None:
            return None, None, None
        factor = 1 / builtins.max(1, y[1].size) if self.reduction == "mean" else 1.0
        op = SoftCrossEntropyGrad(self.smoothing, factor)

        def to_target() -> Tensor:
            each = expand_dims(g[0], axis=-1) if self.reduction == "none" else g[0]
            scale = (1 - self.smoothing) * factor
            return each * -log_softmax(astype(x, target.dtype)) * (scale if weight is None else weight.detach() * scale)

        return lambda: apply(op, g[0], x, y[1].detach(), y[2].detach(), target, weight), to_target, None


class SoftCrossEntropyGrad(Fused):
    """dx[c] = g factor (p[c] sum_c q[c] - q[c]), p the softmax, q as in `SoftCrossEntropy`; g [...] or one value."""

    smoothing: float = 0.0
    factor: float = 1.0
    native_bf16 = True

    def infer(self, g: Spec, x: Spec, lse: Spec, mass: Spec, target: Spec, weight: Spec | None) -> Spec:
        _, *kept = SoftCrossEntropy(self.smoothing).infer(x, target, weight)
        check_kept("cross_entropy", (g, lse, mass), (Spec(() if not g.shape else lse.shape, lse.dtype), *kept))
        return x

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        g, x, target = (np.ascontiguousarray(ins[i]) for i in (0, 1, 4))
        lse, mass, weight = ins[2], ins[3], _weight_like(ins[5], ins[2])
        kernels.soft_cross_entropy_grad(
            outs[0], g, x, lse, mass, target, weight, smoothing=self.smoothing, factor=self.factor
        )

    def compose(self, g: Tensor, x: Tensor, lse: Tensor, mass: Tensor, target: Tensor, weight: Tensor | None) -> Tensor:
        q = target * (1 - self.smoothing) + self.smoothing / x.shape[-1]
        q = q if weight is None else q * weight.detach()
        dx = softmax(astype(x, lse.dtype)) * sum(q, axis=-1, keepdims=True) - q
        return astype(dx * (expand_dims(g, axis=-1) if g.ndim else g) * self.factor, x.dtype)


__all__ = ["cross_entropy"]
