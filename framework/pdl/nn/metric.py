"""Losses of metric learning: vectors of one class are brought together, those of others apart. Embeddings have any
length; their directions count."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar

from pdl import ops
from pdl.errors import ShapeError
from pdl.hints import Range
from pdl.nn import init
from pdl.nn.loss import Loss, Reduction
from pdl.nn.module import Parameter
from pdl.tensor import Tensor

SMALL = 1e-7  # below which sin^2 is not followed by gradients: sqrt has an infinite slope at 0


class ArcFaceLoss(Loss):
    """Additive angular margin softmax (Deng et al., arXiv 1801.07698, equation 3): cross-entropy of scale cos(theta_c),
    where theta_c is the angle to the learned direction of class c, and that of the label is made larger by `margin`.
    Past theta = pi - margin, where cos(theta + margin) would rise again, it is cos(theta) - margin sin(margin).

    num_classes     of training; their directions `weight` [num_classes, embedding_size] are learned with the net
    embedding_size  numbers of a vector
    margin          of the angle, in radians; 0: a softmax of cosines
    scale           of the cosines
    """

    shown: ClassVar[tuple[str, ...]] = ("num_classes", "embedding_size", "margin", "scale", "reduction")

    def __init__(
        self,
        num_classes: Annotated[int, Range(1)],
        embedding_size: Annotated[int, Range(1)],
        *,
        margin: Annotated[float, Range(0, below=math.pi / 2)] = 0.5,
        scale: Annotated[float, Range(above=0)] = 64.0,
        reduction: Reduction = "mean",
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
        cosines = self._cosines(x)
        sines = ops.sqrt(ops.clip(1.0 - cosines * cosines, SMALL, 1.0))
        moved = cosines * math.cos(self.margin) - sines * math.sin(self.margin)
        beyond = cosines - self.margin * math.sin(self.margin)
        moved = ops.where(cosines > -math.cos(self.margin), moved, beyond)
        own = ops.one_hot(labels, self.num_classes, dtype="bool")
        return ops.cross_entropy(self.scale * ops.where(own, moved, cosines), labels, reduction=self.reduction)

    def _cosines(self, x: Tensor) -> Tensor:
        return ops.clip(ops.linear(ops.normalize(x), ops.normalize(self.weight).T), -1.0, 1.0)


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
