"""Losses of metric learning: vectors of one class are brought together, those of others apart. Embeddings have any
length; but for `SoftmaxLoss` their directions alone count.

`SoftmaxLoss`, `CosFaceLoss` and `ArcFaceLoss` learn something of each class of training; the others compare the samples
of a batch, which holds several of each of its classes (`pdl.data.ClassBatchSampler`).
"""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Literal

from pdl import ops
from pdl.errors import ShapeError
from pdl.hints import Range
from pdl.nn import init
from pdl.nn.linear import Linear
from pdl.nn.loss import Loss, Margin, Reduction
from pdl.nn.module import Module, Parameter
from pdl.ops.precision import autocast
from pdl.tensor import Tensor

SMALL = 1e-7  # below which squares are not followed by gradients: sqrt has an infinite slope at 0
FAR = 1e4  # more than any distance of two vectors of length 1, and any margin
Count = Annotated[int, Range(1)]
Scale = Annotated[float, Range(above=0)]


class SoftmaxLoss(Loss):
    """Cross-entropy of W x + b: embeddings as a hidden layer of a classifier, which is what the other losses are
    compared with.

    num_classes     of training
    embedding_size  numbers of a vector
    """

    shown: ClassVar[tuple[str, ...]] = ("num_classes", "embedding_size", "reduction")

    def __init__(self, num_classes: Count, embedding_size: Count, *, reduction: Reduction = "mean") -> None:
        super().__init__(reduction=reduction)
        self.num_classes, self.embedding_size = num_classes, embedding_size
        self.linear = Linear(embedding_size, num_classes)

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        """x [N, embedding_size], labels int [N] of 0 to num_classes - 1."""
        return ops.cross_entropy(self.linear(x), labels, reduction=self.reduction)


class _CosineLoss(Loss):
    """Cross-entropy of scale cos(theta_c), where theta_c is the angle to the learned direction of class c, and the
    cosine of the label is made smaller (`_with_margin`).

    num_classes     of training; their directions `weight` [num_classes, embedding_size] are learned with the net
    embedding_size  numbers of a vector
    scale           of the cosines
    """

    shown: ClassVar[tuple[str, ...]] = ("num_classes", "embedding_size", "margin", "scale", "reduction")

    def __init__(
        self, num_classes: int, embedding_size: int, *, margin: float, scale: float, reduction: Reduction
    ) -> None:
        super().__init__(reduction=reduction)
        self.num_classes, self.embedding_size, self.margin, self.scale = num_classes, embedding_size, margin, scale
        self.weight = Parameter(ops.zeros((num_classes, embedding_size)))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Directions at random."""
        init.normal_(self.weight)

    def logits(self, x: Tensor) -> Tensor:
        """x [N, embedding_size] -> scale cos(theta) [N, num_classes], without the margin."""
        return self.scale * self._cosines(x)

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        """x [N, embedding_size], labels int [N] of 0 to num_classes - 1."""
        cosines, own = self._cosines(x), ops.one_hot(labels, self.num_classes, dtype="bool")
        logits = self.scale * ops.where(own, self._with_margin(cosines), cosines)
        return ops.cross_entropy(logits, labels, reduction=self.reduction)

    def _with_margin(self, cosines: Tensor) -> Tensor:
        raise NotImplementedError

    def _cosines(self, x: Tensor) -> Tensor:
        return ops.clip(ops.linear(ops.normalize(x), ops.normalize(self.weight).T), -1.0, 1.0)


class ArcFaceLoss(_CosineLoss):
    """Additive angular margin softmax (Deng et al., arXiv 1801.07698, equation 3): cross-entropy of scale cos(theta_c),
    where theta_c is the angle to the learned direction of class c, and that of the label is made larger by `margin`.
    Past theta = pi - margin, where cos(theta + margin) would rise again, it is cos(theta) - margin sin(margin).

    num_classes     of training; their directions `weight` [num_classes, embedding_size] are learned with the net
    embedding_size  numbers of a vector
    margin          of the angle, in radians; 0: a softmax of cosines
    scale           of the cosines
    """

    def __init__(
        self,
        num_classes: Count,
        embedding_size: Count,
        *,
        margin: Annotated[float, Range(0, below=math.pi / 2)] = 0.5,
        scale: Scale = 64.0,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(num_classes, embedding_size, margin=margin, scale=scale, reduction=reduction)

    def _with_margin(self, cosines: Tensor) -> Tensor:
        sines = ops.sqrt(ops.clip(1.0 - cosines * cosines, SMALL, 1.0))
        moved = cosines * math.cos(self.margin) - sines * math.sin(self.margin)
        return ops.where(cosines > -math.cos(self.margin), moved, cosines - self.margin * math.sin(self.margin))


class CosFaceLoss(_CosineLoss):
    """Large margin cosine loss (Wang et al., arXiv 1801.09414, equation 4; additive margin softmax, arXiv 1801.05599):
    cross-entropy of scale cos(theta_c), where theta_c is the angle to the learned direction of class c, and the cosine
    of the label is made smaller by `margin`.

    num_classes     of training; their directions `weight` [num_classes, embedding_size] are learned with the net
    embedding_size  numbers of a vector
    margin          of the cosine
    scale           of the cosines
    """

    def __init__(
        self,
        num_classes: Count,
        embedding_size: Count,
        *,
        margin: Annotated[float, Range(0, below=2)] = 0.35,
        scale: Scale = 64.0,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(num_classes, embedding_size, margin=margin, scale=scale, reduction=reduction)

    def _with_margin(self, cosines: Tensor) -> Tensor:
        return cosines - self.margin


# -- the samples of a batch against each other -------------------------------------------------------------------------
class TripletLoss(Module):
    """max(0, d(a, p) - d(a, n) + margin) of triplets of a batch: d is the Euclidean distance of unit vectors, p is
    another sample of the class of a, n one of another class.

    mining  "semi_hard": of each pair (a, p) the nearest n that is farther than p, or where none is, the farthest
            (Schroff et al., arXiv 1503.03832, section 3.2), the mean over pairs. "hard": of each a the farthest p and
            the nearest n (Hermans et al., arXiv 1703.07737, equation 5), the mean over a; a fresh net may then make all
            vectors one, at a loss of `margin`. "all": all triplets, the mean over those that cost anything (Hermans et
            al., equation 6)
    margin  null: log(1 + e^(d(a, p) - d(a, n))) in place of the hinge, which pulls on those that are right, too

    A batch without such triplets costs 0.
    """

    shown: ClassVar[tuple[str, ...]] = ("mining", "margin")

    def __init__(
        self, *, mining: Literal["semi_hard", "hard", "all"] = "semi_hard", margin: Margin | None = 0.2
    ) -> None:
        self.mining, self.margin = mining, margin

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        """x [N, C], labels int [N]."""
        distances, same, other = _compared(x, labels)
        if self.mining == "hard":
            far, near = _largest(distances, same), _smallest(distances, other)
            return _mean(self._cost(far - near), _any(same) & _any(other))
        pairs = ops.expand_dims(distances, axis=2)  # [a, p, 1]
        apart = ops.expand_dims(distances, axis=1)  # [a, 1, n]
        negative = ops.expand_dims(other, axis=1)
        if self.mining == "semi_hard":
            beyond = negative & (apart > pairs)
            nearest = ops.min(ops.where(beyond, apart, FAR), axis=2)
            last = ops.expand_dims(_largest(distances, other), axis=1)
            return _mean(self._cost(distances - ops.where(nearest < FAR, nearest, last)), same & _any(other)[:, None])
        cost = self._cost(pairs - apart)
        return _mean(cost, ops.expand_dims(same, axis=2) & negative & (cost > 0))

    def _cost(self, difference: Tensor) -> Tensor:
        return ops.softplus(difference) if self.margin is None else ops.relu(difference + self.margin)


class QuadrupletLoss(Module):
    """max(0, d(a, p) - d(a, n) + margin) + max(0, d(a, p) - d(m, n) + second): d is the Euclidean distance of unit
    vectors, p is of the class of a, and m and n are of two classes other than that (Chen et al., arXiv 1704.01719,
    equation 6, on distances in place of their squares). Of each a the farthest p, the nearest n, and the nearest m and
    n count; the mean over a.

    margin  of distances to another class
    second  of distances between two others; smaller, in the paper
    """

    shown: ClassVar[tuple[str, ...]] = ("margin", "second")

    def __init__(self, *, margin: Margin = 0.2, second: Margin = 0.1) -> None:
        self.margin, self.second = margin, second

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        """x [N, C], labels int [N]."""
        distances, same, other = _compared(x, labels)
        far, near = _largest(distances, same), _smallest(distances, other)
        strangers = ops.expand_dims(other, axis=2) & ops.expand_dims(other, axis=1) & other  # [a, m, n]
        between = ops.min(ops.where(strangers, distances, FAR), axis=(1, 2))
        cost = ops.relu(far - near + self.margin) + ops.relu(far - between + self.second)
        return _mean(cost, _any(same) & _any(other))


class NPairLoss(Module):
    """-log(e^s(a, p) / (e^s(a, p) + sum over n of e^s(a, n))) for every sample a of a batch and every other p of its
    class, n running over the samples of other classes; s is the cosine times `scale`. The mean over pairs (Sohn, NIPS
    2016, equation 7, on directions: there vectors have any length, and their norm is kept small by another term).

    scale  of the cosines
    """

    shown: ClassVar[tuple[str, ...]] = ("scale",)

    def __init__(self, *, scale: Scale = 16.0) -> None:
        self.scale = scale

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        """x [N, C], labels int [N]."""
        cosines, same, other = _cosines(x, labels)
        scores = self.scale * cosines
        against = ops.logsumexp(ops.where(other, scores, -1e30), axis=1, keepdims=True)
        return _mean(ops.softplus(against - scores), same & _any(other)[:, None])


class SupConLoss(Module):
    """Supervised contrastive loss (Khosla et al., arXiv 2004.11362, equation 2): for every sample a of a batch the mean
    over the others p of its class of -log(e^s(a, p) / sum over b != a of e^s(a, b)), s the cosine over `temperature`;
    the mean over a.

    temperature  of the softmax
    """

    shown: ClassVar[tuple[str, ...]] = ("temperature",)

    def __init__(self, *, temperature: Scale = 0.1) -> None:
        self.temperature = temperature

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        """x [N, C], labels int [N]."""
        cosines, same, other = _cosines(x, labels)
        scores = cosines * (1 / self.temperature)
        against = ops.logsumexp(ops.where(same | other, scores, -1e30), axis=1, keepdims=True)
        counts = ops.sum(ops.astype(same, x.dtype), axis=1)
        own = ops.sum(ops.where(same, against - scores, 0.0), axis=1) / ops.maximum(counts, 1.0)
        return _mean(own, counts > 0)


class GE2ELoss(Loss):
    """Generalised end-to-end loss in its softmax form (Wan et al., arXiv 1710.10467, equations 5, 6 and 9):
    cross-entropy of w cos(e, c_k) + b over the classes k of a batch, c_k the mean of the vectors of k, without e itself
    where k is its own class. w (kept above 0) and b are learned; they begin as in the paper.

    Unlike classes with a learned direction each, it may be computed on classes that training has not seen.
    """

    def __init__(self, *, reduction: Reduction = "mean") -> None:
        super().__init__(reduction=reduction)
        self.weight, self.bias = Parameter(ops.full((1,), 10.0)), Parameter(ops.full((1,), -5.0))

    def forward(self, x: Tensor) -> Tensor:
        """x [K, M, C], M at least 2 vectors of each of K classes; the loss of each [K, M] with reduction none."""
        if x.ndim != 3 or x.shape[1] < 2:
            raise ShapeError(f"GE2ELoss: vectors {x.shape} must be [classes, at least 2 of each, C]")
        classes, each, _ = x.shape
        e = ops.normalize(x)
        total = ops.sum(e, axis=1, keepdims=True)  # [K, 1, C]: directions alone count, so means need no division
        others = ops.sum(e * ops.normalize(total - e), axis=-1, keepdims=True)
        cosines = ops.matmul(e, ops.normalize(total)[:, 0].T)  # [K, M, K]
        own = ops.expand_dims(ops.one_hot(ops.arange(classes), classes, dtype="bool"), axis=1)
        scores = ops.maximum(self.weight, 1e-6) * ops.where(own, others, cosines) + self.bias
        labels = ops.broadcast_to(ops.expand_dims(ops.arange(classes), axis=1), (classes, each))
        return ops.cross_entropy(scores, labels, reduction=self.reduction)


def _cosines(x: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Of each two samples of a batch, [N, N]: their cosine, whether they are two of one class, and of two classes."""
    if x.ndim != 2 or labels.shape != x.shape[:1]:
        raise ShapeError(f"expected embeddings [N, C] and labels [N], got {x.shape} and {labels.shape}")
    e = ops.normalize(ops.astype(x, "float32") if x.dtype == "bfloat16" else x)
    equal = ops.equal(ops.expand_dims(labels, axis=1), ops.expand_dims(labels, axis=0))
    numbers = ops.arange(x.shape[0])
    others = ops.not_equal(ops.expand_dims(numbers, axis=1), ops.expand_dims(numbers, axis=0))
    with autocast("float32"):  # between like vectors cosines are near 1, where bfloat16 has steps of 0.004
        return ops.matmul(e, e.T), equal & others, ~equal


def _compared(x: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The same with Euclidean distances of unit vectors, |a - b|^2 = 2 - 2 cos."""
    cosines, same, other = _cosines(x, labels)
    return ops.sqrt(ops.maximum(2.0 - 2.0 * cosines, SMALL)), same, other


def _largest(values: Tensor, chosen: Tensor) -> Tensor:
    """[N]: of each row, among the chosen; 0 where there are none."""
    return ops.max(ops.where(chosen, values, 0.0), axis=1)


def _smallest(values: Tensor, chosen: Tensor) -> Tensor:
    return ops.min(ops.where(chosen, values, FAR), axis=1)


def _any(chosen: Tensor) -> Tensor:
    """bool [N]: rows in which anything is chosen."""
    return ops.any(chosen, axis=1)


def _mean(values: Tensor, chosen: Tensor) -> Tensor:
    """Of the chosen ones; 0 without any."""
    weights = ops.astype(chosen, values.dtype)
    return ops.sum(values * weights) / ops.maximum(ops.sum(weights), 1.0)
