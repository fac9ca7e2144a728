"""Losses. `reduction` is "mean", "sum" or "none" everywhere; class scores lie along the last axis (channels last)."""

from __future__ import annotations

from pdl.dtype import int64
from pdl.errors import ShapeError, UsageError
from pdl.ops.activation import log_sigmoid, relu, softplus
from pdl.ops.cast import as_tensors, astype
from pdl.ops.checks import broadcast_shapes
from pdl.ops.create import one_hot
from pdl.ops.cross_entropy import check_reduction
from pdl.ops.elementwise import abs, exp, log, maximum, square, where
from pdl.ops.index import take, take_along_axis
from pdl.ops.logic import equal, greater, less, not_equal
from pdl.ops.precision import in_float32
from pdl.ops.reduce import mean, norm, sum
from pdl.ops.shape import expand_dims, squeeze
from pdl.tensor import Tensor, TensorLike, as_tensor


def reduced(name: str, loss: Tensor, reduction: str) -> Tensor:
    check_reduction(name, reduction)
    return loss if reduction == "none" else mean(loss) if reduction == "mean" else sum(loss)


def pair(name: str, x: TensorLike, target: TensorLike) -> tuple[Tensor, Tensor]:
    """Both as tensors of one dtype; shapes must be equal, since a broadcast between prediction and target is nearly
    always a mistake.
    """
    x, target = as_tensors(*in_float32(x, target))
    if x.shape != target.shape:
        raise ShapeError(f"{name}: prediction {x.shape} and target {target.shape} differ; reshape one of them")
    return x, target


# -- classes -----------------------------------------------------------------------------------------------------------
def nll_loss(
    log_p: TensorLike,
    labels: TensorLike,
    *,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    """-weight[label] log_p[label] over the last axis of log_p [..., C]; the mean divides by the sum of
    weight[label].
    """
    log_p, labels = in_float32(log_p, labels)
    check_reduction("nll_loss", reduction)
    if labels.shape != log_p.shape[:-1]:
        raise ShapeError(
            f"nll_loss: log_p {log_p.shape} [..., classes] needs labels {log_p.shape[:-1]}, got {labels.shape}"
        )
    labels = astype(labels, int64) if labels.dtype.kind == "u" else labels  # `ignore_index` may be negative
    counted = not_equal(labels, ignore_index)
    index = where(counted, labels, 0)
    picked = -squeeze(take_along_axis(log_p, expand_dims(index, axis=-1), axis=-1), axis=-1)
    weights = astype(counted, log_p.dtype)
    if weight is not None:
        weights = weights * take(weight, index, axis=0)
    loss = where(counted, picked * weights, 0)
    return loss if reduction == "none" else sum(loss) / sum(weights) if reduction == "mean" else sum(loss)


# -- regression --------------------------------------------------------------------------------------------------------
def mse_loss(x: TensorLike, target: TensorLike, *, reduction: str = "mean") -> Tensor:
    """(x - target)^2."""
    x, target = pair("mse_loss", x, target)
    return reduced("mse_loss", square(x - target), reduction)


def l1_loss(x: TensorLike, target: TensorLike, *, reduction: str = "mean") -> Tensor:
    """|x - target|."""
    x, target = pair("l1_loss", x, target)
    return reduced("l1_loss", abs(x - target), reduction)


def huber_loss(x: TensorLike, target: TensorLike, *, delta: float = 1.0, reduction: str = "mean") -> Tensor:
    """d^2 / 2 where d = |x - target| <= delta, delta (d - delta / 2) beyond. Huber, 1964."""
    if not delta > 0:
        raise UsageError(f"huber_loss: delta {delta} must be above 0")
    x, target = pair("huber_loss", x, target)
    d = abs(x - target)
    return reduced("huber_loss", where(less(d, delta), square(d) * 0.5, (d - delta / 2) * delta), reduction)


def smooth_l1_loss(x: TensorLike, target: TensorLike, *, beta: float = 1.0, reduction: str = "mean") -> Tensor:
    """huber_loss(delta=beta) / beta; beta 0: the l1 loss. Girshick, arXiv 1504.08083."""
    return (
        l1_loss(x, target, reduction=reduction)
        if beta == 0
        else huber_loss(x, target, delta=beta, reduction=reduction) / beta
    )


# -- probabilities -----------------------------------------------------------------------------------------------------
def binary_cross_entropy(
    p: TensorLike, target: TensorLike, *, weight: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    """-(target log p + (1 - target) log(1 - p)), the logarithms at least -100; `weight` broadcasts."""
    p, target = pair("binary_cross_entropy", p, target)
    loss = -(target * maximum(log(p), -100.0) + (1 - target) * maximum(log(1 - p), -100.0))
    return reduced("binary_cross_entropy", loss if weight is None else loss * weight, reduction)


def binary_cross_entropy_with_logits(
    logits: TensorLike,
    target: TensorLike,
    *,
    weight: Tensor | None = None,
    pos_weight: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    """-(pos_weight target log s + (1 - target) log(1 - s)), s = sigmoid(logits), without overflow; the weights
    broadcast.
    """
    name = "binary_cross_entropy_with_logits"
    logits, target = pair(name, logits, target)
    if pos_weight is None:
        loss = softplus(logits) - logits * target
    else:
        loss = (1 - target) * softplus(logits) - pos_weight * target * log_sigmoid(logits)
    return reduced(name, loss if weight is None else loss * weight, reduction)


def kl_div(log_p: TensorLike, target: TensorLike, *, log_target: bool = False, reduction: str = "mean") -> Tensor:
    """target (log target - log_p), element by element; 0 where the target is 0. "batchmean" divides the sum by the size
    of axis 0.
    """
    log_p, target = pair("kl_div", log_p, target)
    if log_target:
        loss = exp(target) * (target - log_p)
    else:
        some = greater(target, 0)
        loss = where(some, target * (log(where(some, target, 1)) - log_p), 0)
    if reduction == "batchmean":
        return sum(loss) / log_p.shape[0]
    return reduced("kl_div", loss, reduction)


# -- distances between vectors -----------------------------------------------------------------------------------------
def _signs(name: str, shape: tuple[int, ...], sign: Tensor) -> None:
    if sign.shape != shape:
        raise ShapeError(f"{name}: the signs (1 or -1) have shape {sign.shape}; expected {shape}")


def cosine_similarity(a: TensorLike, b: TensorLike, *, axis: int = -1, eps: float = 1e-8) -> Tensor:
    """<a, b> / (max(|a|, eps) max(|b|, eps)) along `axis`; a and b broadcast."""
    a, b = as_tensors(*in_float32(a, b))
    broadcast_shapes("cosine_similarity", a.shape, b.shape)
    lengths = maximum(norm(a, axis=axis), eps) * maximum(norm(b, axis=axis), eps)
    return sum(a * b, axis=axis) / lengths


def cosine_embedding_loss(
    a: TensorLike, b: TensorLike, sign: TensorLike, *, margin: float = 0.0, reduction: str = "mean"
) -> Tensor:
    """1 - cos(a, b) where sign is 1, max(0, cos(a, b) - margin) where it is -1; a, b [..., C], sign [...]."""
    (a, b), sign = pair("cosine_embedding_loss", a, b), as_tensor(sign)
    _signs("cosine_embedding_loss", a.shape[:-1], sign)
    similarity = cosine_similarity(a, b)
    return reduced("cosine_embedding_loss", where(equal(sign, 1), 1 - similarity, relu(similarity - margin)), reduction)


def margin_ranking_loss(
    a: TensorLike, b: TensorLike, sign: TensorLike, *, margin: float = 0.0, reduction: str = "mean"
) -> Tensor:
    """max(0, margin - sign (a - b)): a should be the larger where sign is 1, the smaller where it is -1."""
    (a, b), sign = pair("margin_ranking_loss", a, b), as_tensor(sign)
    _signs("margin_ranking_loss", a.shape, sign)
    return reduced("margin_ranking_loss", relu(margin - astype(sign, a.dtype) * (a - b)), reduction)


def hinge_embedding_loss(x: TensorLike, sign: TensorLike, *, margin: float = 1.0, reduction: str = "mean") -> Tensor:
    """The distance x where sign is 1, max(0, margin - x) where it is -1."""
    x, sign = in_float32(x, sign)
    _signs("hinge_embedding_loss", x.shape, sign)
    return reduced("hinge_embedding_loss", where(equal(sign, 1), x, relu(margin - x)), reduction)


def triplet_margin_loss(
    anchor: TensorLike, positive: TensorLike, negative: TensorLike, *, margin: float = 1.0, p: float = 2.0, eps: float =
    1e-6,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """max(0, |anchor - positive| - |anchor - negative| + margin), p-norms over the last axis of the differences plus
    eps.
    """
    anchor, positive = pair("triplet_margin_loss", anchor, positive)
    anchor, negative = pair("triplet_margin_loss", anchor, negative)
    near, far = (norm(anchor - other + eps, axis=-1, ord=p) for other in (positive, negative))
    return reduced("triplet_margin_loss", relu(near - far + margin), reduction)


def multi_margin_loss(x: TensorLike, labels: TensorLike, *, margin: float = 1.0, reduction: str = "mean") -> Tensor:
    """sum over the wrong classes c of max(0, margin - x[label] + x[c]) / C, over the last axis of x [..., C]."""
    x, labels = in_float32(x, labels)
    if labels.shape != x.shape[:-1]:
        raise ShapeError(
            f"multi_margin_loss: x {x.shape} [..., classes] needs labels {x.shape[:-1]}, got {labels.shape}"
        )
    right = take_along_axis(x, expand_dims(labels, axis=-1), axis=-1)
    wrong = 1 - one_hot(labels, x.shape[-1], dtype=x.dtype)
    return reduced("multi_margin_loss", mean(relu(margin - right + x) * wrong, axis=-1), reduction)


__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cosine_embedding_loss", "cosine_similarity",
    "hinge_embedding_loss", "huber_loss", "kl_div", "l1_loss", "margin_ranking_loss",
    "mse_loss", "multi_margin_loss", "nll_loss", "smooth_l1_loss", "triplet_margin_loss",
]  # fmt: skip
