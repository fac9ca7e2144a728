"""Losses of detectors that count easy elements less. They answer element by element unless `reduction` says otherwise,
since detectors divide by how many boxes they were to find."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from pdl.dtype import bfloat16, float32
from pdl.errors import ShapeError
from pdl.hints import Choice
from pdl.kernels import focal as kernels
from pdl.kernels.copies import contiguous
from pdl.ops.activation import relu, sigmoid, softplus
from pdl.ops.attributes import Factor
from pdl.ops.base import Arrays, Fused, Spec, apply, compose_vjp
from pdl.ops.cast import as_tensors, astype
from pdl.ops.checks import check_floating, check_specs
from pdl.ops.create import arange
from pdl.ops.cross_entropy import check_kept, cross_entropy
from pdl.ops.elementwise import abs, exp, pow, square, where
from pdl.ops.loss import pair, reduced
from pdl.ops.precision import in_float32
from pdl.ops.reduce import logsumexp, sum
from pdl.ops.shape import expand_dims
from pdl.ops.softmax import softmax
from pdl.tensor import Tensor, TensorLike

FocalName: TypeAlias = Annotated[str, Choice(("sigmoid_focal", "quality_focal", "varifocal"))]


class FocalLoss(Fused):
    """A loss of each logit and its target; `positive` and `negative` are weights."""

    kind: FocalName
    positive: Factor
    negative: Factor
    gamma: Factor
    native = True

    def infer(self, x: Spec, target: Spec) -> Spec:
        check_floating(f"{self.kind}_loss", x=x, target=target)
        if x != target:
            raise ShapeError(f"{self.kind}_loss: logits {x.shape} {x.dtype.name} and targets {target.shape} "
                             f"{target.dtype.name} must be alike")  # fmt: skip
        return x

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        x, target = map(contiguous, ins)
        kernels.loss(outs[0], x, target, self.kind, self.positive, self.negative, self.gamma)

    def compose(self, x: Tensor, target: Tensor) -> Tensor:
        p, n = softplus(x), softplus(-x)
        negative = exp(n * -self.gamma) * p * self.negative
        if self.kind == "sigmoid_focal":
            return target * exp(p * -self.gamma) * n * self.positive + (1 - target) * negative
        both = p - x * target
        if self.kind == "varifocal":
            return where(target > 0, target * both, negative)
        far = target - sigmoid(x)
        return (square(far) if self.gamma == 2 else pow(abs(far), self.gamma)) * both

    def vjp(self, g: Tensor, y: Tensor, x: Tensor, target: Tensor) -> Any:
        op = FocalLossGrad(self.kind, self.positive, self.negative, self.gamma)
        return lambda: apply(op, g, x, target), lambda: compose_vjp(self.compose, g, (x, target))[1]


class FocalLossGrad(Fused):
    """The gradient of `FocalLoss` in the logits from that of the loss, g."""

    kind: FocalName
    positive: Factor
    negative: Factor
    gamma: Factor
    native = True

    def _forward(self) -> FocalLoss:
        return FocalLoss(self.kind, self.positive, self.negative, self.gamma)

    def infer(self, g: Spec, x: Spec, target: Spec) -> Spec:
        check_specs(f"gradient of {self.kind}_loss", g=(g, self._forward().infer(x, target)))
        return x

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        g, x, target = map(contiguous, ins)
        kernels.slope(outs[0], g, x, target, self.kind, self.positive, self.negative, self.gamma)

    def compose(self, g: Tensor, x: Tensor, target: Tensor) -> Tensor:
        tracked = x if x.requires_grad else Tensor(x.data, requires_grad=True)
        dx = compose_vjp(self._forward().compose, g, (tracked, target))[0]
        assert dx is not None
        return dx


def _focal(
    kind: str, logits: TensorLike, targets: TensorLike, positive: float, negative: float, gamma: float, reduction: str
) -> Tensor:
    logits, targets = pair(f"{kind}_loss", logits, targets)
    return reduced(f"{kind}_loss", apply(FocalLoss(kind, positive, negative, gamma), logits, targets), reduction)


def sigmoid_focal_loss(
    logits: TensorLike, targets: TensorLike, *, alpha: float | None = 0.25, gamma: float = 2.0, reduction: str = "none"
) -> Tensor:
    """Binary cross-entropy times (1 - p_t)^gamma, and alpha or 1 - alpha: easy elements count less. Lin et al., arXiv
    1708.02002.

    -(alpha t (1 - s)^gamma log s + (1 - alpha) (1 - t) s^gamma log(1 - s)), s = sigmoid(logits), t = targets in [0, 1];
    alpha None: no weights.
    """
    positive, negative = (1.0, 1.0) if alpha is None else (alpha, 1 - alpha)
    return _focal("sigmoid_focal", logits, targets, float(positive), float(negative), float(gamma), reduction)


def quality_focal_loss(
    logits: TensorLike, targets: TensorLike, *, beta: float = 2.0, reduction: str = "none"
) -> Tensor:
    """|t - s|^beta times the binary cross-entropy of s = sigmoid(logits) and the quality t in [0, 1] (an IoU, 0 for
    background). Li et al., arXiv 2006.04388.
    """
    return _focal("quality_focal", logits, targets, 1.0, 1.0, float(beta), reduction)


def varifocal_loss(
    logits: TensorLike, targets: TensorLike, *, alpha: float = 0.75, gamma: float = 2.0, reduction: str = "none"
) -> Tensor:
    """t times the binary cross-entropy where the quality t is above 0, -alpha s^gamma log(1 - s) elsewhere, s =
    sigmoid(logits). Zhang et al., arXiv 2008.13367.
    """
    return _focal("varifocal", logits, targets, 1.0, float(alpha), float(gamma), reduction)


class DistributionFocalLoss(Fused):
    """(loss [...], lse [...]) of logits x [..., bins] and targets t [...]: sum_i w_i (lse - x_i), lse = log sum_i
    e^x_i, w_i = max(1 - |i - t|, 0)."""

    native = True

    def infer(self, x: Spec, target: Spec) -> tuple[Spec, Spec]:
        check_floating("distribution_focal_loss", logits=x, targets=target)
        if not x.shape or not x.shape[-1] or target != Spec(x.shape[:-1], x.dtype):
            raise ShapeError(
                f"distribution_focal_loss: logits {x.shape} {x.dtype.name} and targets {target.shape} "
                f"{target.dtype.name}; expected [..., bins] and [...] of one dtype"
            )
        return target, target

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        kernels.distribution(*outs, *map(contiguous, ins))

    def compose(self, x: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        loss = cross_entropy(x, _bin_weights(x, target), reduction="none")
        return astype(loss, x.dtype), logsumexp(x, axis=-1).detach()

    def vjp(self, g: Any, y: Any, x: Tensor, target: Tensor) -> Any:
        if g[0] is None:
            return None, None
        return (
            lambda: apply(DistributionFocalLossGrad(), g[0], x, y[1].detach(), target),
            lambda: compose_vjp(lambda *ins: self.compose(*ins)[0], g[0], (x, target))[1],
        )


class DistributionFocalLossGrad(Fused):
    """dx_i = g (p_i sum_j w_j - w_i) of `DistributionFocalLoss`, p the softmax."""

    native = True

    def infer(self, g: Spec, x: Spec, lse: Spec, target: Spec) -> Spec:
        check_kept("distribution_focal_loss", (g, lse), DistributionFocalLoss().infer(x, target))
        return x

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        kernels.distribution_slope(outs[0], *map(contiguous, ins))

    def compose(self, g: Tensor, x: Tensor, lse: Tensor, target: Tensor) -> Tensor:
        weights = _bin_weights(x, target)
        return (softmax(x) * sum(weights, axis=-1, keepdims=True) - weights) * expand_dims(g, axis=-1)


def _bin_weights(x: Tensor, target: Tensor) -> Tensor:
    """max(1 - |i - t|, 0) of each bin of x [..., bins] for targets [...]."""
    return relu(1 - abs(arange(x.shape[-1], dtype=x.dtype) - expand_dims(target, axis=-1)))


def distribution_focal_loss(logits: TensorLike, targets: TensorLike, *, reduction: str = "none") -> Tensor:
    """Cross-entropy of a distribution over 0, 1, ..., bins - 1 whose mean is to be t: -((i + 1 - t) log p_i +
    (t - i) log p_(i + 1)), i = floor(t). Li et al., arXiv 2006.04388.    logits [..., bins], targets [...] -> [...]

    Targets lie in [0, bins - 1]. The loss of bfloat16 logits is float32, as that of `cross_entropy` is.
    """
    logits, targets = as_tensors(*in_float32(logits, targets))
    logits, targets = (astype(v, float32) if v.dtype == bfloat16 else v for v in (logits, targets))
    return reduced("distribution_focal_loss", apply(DistributionFocalLoss(), logits, targets)[0], reduction)


__all__ = ["distribution_focal_loss", "quality_focal_loss", "sigmoid_focal_loss", "varifocal_loss"]
