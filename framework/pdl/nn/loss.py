"""Losses as modules; formulas and sources are those of the ops (`pdl.ops.loss`). `reduction` is mean, sum or none."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pdl import ops
from pdl.hints import Range
from pdl.nn.module import Buffer, Module
from pdl.tensor import Tensor

Reduction = Literal["mean", "sum", "none"]
Margin = Annotated[float, Range(0)]


def _fixed(weight: Tensor | None) -> Buffer | None:
    """A weight as a part of the module that is not saved, as in PyTorch's losses it may be recomputed from the data."""
    return None if weight is None else Buffer(weight, persistent=False)


class Loss(Module):
    """Base of the losses: called with outputs and targets; a tensor with one element, or one for each with "none".

    reduction     mean or sum over all samples, or none: a number for each
    margin        distance from which on a pair costs nothing
    ignore_index  label of samples that do not count
    weight        of each class, [C]
    """

    shown: ClassVar[tuple[str, ...]] = ("reduction",)

    def __init__(self, *, reduction: Reduction = "mean") -> None:
        self.reduction: Reduction = reduction

    def arguments(self) -> dict[str, Any]:
        """What the op takes beside tensors: all that the module shows of itself."""
        return {name: getattr(self, name) for name in self.shown}


class CrossEntropyLoss(Loss):
    """-log softmax(logits)[label] over the last axis; logits [..., C], target int64 [...] or probabilities [..., C].

    label_smoothing  share of the target that is spread evenly over all classes
    """

    shown: ClassVar[tuple[str, ...]] = ("label_smoothing", "ignore_index", "reduction")

    def __init__(
        self,
        *,
        weight: Tensor | None = None,
        label_smoothing: Annotated[float, Range(0, 1)] = 0.0,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(reduction=reduction)
        self.weight, self.label_smoothing, self.ignore_index = _fixed(weight), label_smoothing, ignore_index

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        return ops.cross_entropy(logits, target, weight=self.weight, **self.arguments())


class NLLLoss(Loss):
    """-log_p[label] over the last axis of log_p [..., C]; labels int64 [...]."""

    shown: ClassVar[tuple[str, ...]] = ("ignore_index", "reduction")

    def __init__(
        self, *, weight: Tensor | None = None, ignore_index: int = -100, reduction: Reduction = "mean"
    ) -> None:
        super().__init__(reduction=reduction)
        self.weight, self.ignore_index = _fixed(weight), ignore_index

    def forward(self, log_p: Tensor, labels: Tensor) -> Tensor:
        return ops.nll_loss(log_p, labels, weight=self.weight, **self.arguments())


class BCELoss(Loss):
    """Binary cross-entropy of probabilities p and targets in [0, 1], of one shape."""

    def forward(self, p: Tensor, target: Tensor) -> Tensor:
        return ops.binary_cross_entropy(p, target, **self.arguments())


class BCEWithLogitsLoss(Loss):
    """Binary cross-entropy of sigmoid(logits) and targets in [0, 1], of one shape; `pos_weight` multiplies the positive
    part.
    """

    def __init__(self, *, pos_weight: Tensor | None = None, reduction: Reduction = "mean") -> None:
        super().__init__(reduction=reduction)
        self.pos_weight = _fixed(pos_weight)

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        return ops.binary_cross_entropy_with_logits(logits, target, pos_weight=self.pos_weight, **self.arguments())


class MSELoss(Loss):
    """(x - target)^2."""

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        return ops.mse_loss(x, target, **self.arguments())


class L1Loss(Loss):
    """|x - target|."""

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        return ops.l1_loss(x, target, **self.arguments())


class SmoothL1Loss(Loss):
    """d^2 / (2 beta) where d = |x - target| < beta, d - beta / 2 beyond.

    beta  distance at which the parabola becomes a line
    """

    shown: ClassVar[tuple[str, ...]] = ("beta", "reduction")

    def __init__(self, *, beta: Margin = 1.0, reduction: Reduction = "mean") -> None:
        super().__init__(reduction=reduction)
        self.beta = beta

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        return ops.smooth_l1_loss(x, target, **self.arguments())


class HuberLoss(Loss):
    """d^2 / 2 where d = |x - target| <= delta, delta (d - delta / 2) beyond.

    delta  distance at which the parabola becomes a line
    """

    shown: ClassVar[tuple[str, ...]] = ("delta", "reduction")

    def __init__(self, *, delta: Annotated[float, Range(above=0)] = 1.0, reduction: Reduction = "mean") -> None:
        super().__init__(reduction=reduction)
        self.delta = delta

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        return ops.huber_loss(x, target, **self.arguments())


class KLDivLoss(Loss):
    """target (log target - log_p), summed or averaged over elements, or over the batch ("batchmean").

    log_target  whether targets are logarithms of probabilities
    """

    shown: ClassVar[tuple[str, ...]] = ("log_target", "reduction")

    def __init__(
        self, *, log_target: bool = False, reduction: Literal["mean", "sum", "none", "batchmean"] = "mean"
    ) -> None:
        self.log_target, self.reduction = log_target, reduction  # type: ignore[assignment]

    def forward(self, log_p: Tensor, target: Tensor) -> Tensor:
        return ops.kl_div(log_p, target, **self.arguments())


class FocalLoss(Loss):
    """Binary cross-entropy of logits times (1 - p_t)^gamma, and alpha or 1 - alpha.

    alpha  weight of the positive class, 1 - alpha that of the negative one; null: none
    gamma  power by which sure answers count less; 0: as in cross-entropy
    """

    shown: ClassVar[tuple[str, ...]] = ("alpha", "gamma", "reduction")

    def __init__(
        self, *, alpha: Annotated[float, Range(0, 1)] | None = 0.25, gamma: Margin = 2.0, reduction: Reduction = "mean"
    ) -> None:
        super().__init__(reduction=reduction)
        self.alpha, self.gamma = alpha, gamma

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        return ops.sigmoid_focal_loss(logits, target, **self.arguments())


class _MarginLoss(Loss):
    shown: ClassVar[tuple[str, ...]] = ("margin", "reduction")

    def __init__(self, *, margin: Margin = 0.0, reduction: Reduction = "mean") -> None:
        super().__init__(reduction=reduction)
        self.margin = margin


class CosineEmbeddingLoss(_MarginLoss):
    """1 - cos(a, b) where sign is 1, max(0, cos(a, b) - margin) where it is -1; a, b [..., C], sign [...]."""

    def forward(self, a: Tensor, b: Tensor, sign: Tensor) -> Tensor:
        return ops.cosine_embedding_loss(a, b, sign, **self.arguments())


class MarginRankingLoss(_MarginLoss):
    """max(0, margin - sign (a - b))."""

    def forward(self, a: Tensor, b: Tensor, sign: Tensor) -> Tensor:
        return ops.margin_ranking_loss(a, b, sign, **self.arguments())


class HingeEmbeddingLoss(_MarginLoss):
    """The distance x where sign is 1, max(0, margin - x) where it is -1."""

    def __init__(self, *, margin: Margin = 1.0, reduction: Reduction = "mean") -> None:
        super().__init__(margin=margin, reduction=reduction)

    def forward(self, x: Tensor, sign: Tensor) -> Tensor:
        return ops.hinge_embedding_loss(x, sign, **self.arguments())


class TripletMarginLoss(_MarginLoss):
    """max(0, |anchor - positive| - |anchor - negative| + margin), p-norms over the last axis.

    p  of the norm: 2 is the Euclidean distance
    """

    shown: ClassVar[tuple[str, ...]] = ("margin", "p", "reduction")

    def __init__(
        self, *, margin: Margin = 1.0, p: Annotated[float, Range(1)] = 2.0, reduction: Reduction = "mean"
    ) -> None:
        super().__init__(margin=margin, reduction=reduction)
        self.p = p

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return ops.triplet_margin_loss(anchor, positive, negative, **self.arguments())


class MultiMarginLoss(_MarginLoss):
    """Sum over the wrong classes c of max(0, margin - x[label] + x[c]) / C, over the last axis of x [..., C]."""

    def __init__(self, *, margin: Margin = 1.0, reduction: Reduction = "mean") -> None:
        super().__init__(margin=margin, reduction=reduction)

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        return ops.multi_margin_loss(x, labels, **self.arguments())


class CTCLoss(Loss):
    """Connectionist temporal classification: -log of the probability of the targets over all alignments. Graves et al.,
    ICML 2006.

    blank          number of the class that stands for nothing
    zero_infinity  whether targets that are too long for their input cost 0 and not infinity
    """

    shown: ClassVar[tuple[str, ...]] = ("blank", "zero_infinity", "reduction")

    def __init__(
        self, *, blank: Annotated[int, Range(0)] = 0, zero_infinity: bool = False, reduction: Reduction = "mean"
    ) -> None:
        super().__init__(reduction=reduction)
        self.blank, self.zero_infinity = blank, zero_infinity

    def forward(self, log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor) -> Tensor:
        """log_probs [N, T, C], targets int [N, U], both lengths [N]."""
        return ops.ctc_loss(log_probs, targets, input_lengths, target_lengths, **self.arguments())
