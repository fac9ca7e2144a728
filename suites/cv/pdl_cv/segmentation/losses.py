"""What nets that classify pixels learn by. Logits are [N, H, W, C], labels int64 [N, H, W], 255 where they count
nothing."""

from __future__ import annotations

import math

import pdl
from pdl import Tensor
from pdl.dtype import DType
from pdl_cv.data.index_maps import IGNORED

SMOOTH = 1.0  # in Dice's numerator and denominator, so that a class that is absent costs nothing


def cross_entropy(logits: Tensor, labels: Tensor, *, weight: Tensor | None = None) -> Tensor:
    """Mean of -w[y] log p[y] over the pixels that count, divided by the sum of their weights."""
    return pdl.cross_entropy(logits, labels, weight=weight, ignore_index=IGNORED)


def ohem(
    logits: Tensor, labels: Tensor, *, weight: Tensor | None = None, threshold: float = 0.7, least: float = 1 / 16
) -> Tensor:
    """Cross-entropy over hard pixels alone: those whose own class has a probability below `threshold`, and in any case
    the hardest, a share `least` of all (online hard example mining; Shrivastava et al., arXiv 1604.03540)."""
    each = pdl.reshape(pdl.cross_entropy(logits, labels, weight=weight, ignore_index=IGNORED, reduction="none"), (-1,))
    hardest = pdl.topk(each.detach(), max(1, int(least * each.size)))[0][-1]
    limit = pdl.minimum(hardest, -math.log(threshold))
    kept = pdl.astype(each.detach() >= limit, each.dtype) * counted(pdl.reshape(labels, (-1,)), each.dtype)
    return pdl.sum(each * kept) / pdl.maximum(pdl.sum(kept), 1.0)


def dice(logits: Tensor, labels: Tensor) -> Tensor:
    """1 - mean over the classes of (2 sum p t + 1) / (sum p + sum t + 1), sums over all pixels of the batch that count
    (Milletari et al., arXiv 1606.04797, with p in place of p^2)."""
    p, t = _shares(logits, labels)
    axes = tuple(range(p.ndim - 1))
    both, size = pdl.sum(p * t, axis=axes), pdl.sum(p, axis=axes) + pdl.sum(t, axis=axes)
    return 1.0 - pdl.mean((2.0 * both + SMOOTH) / (size + SMOOTH))


def focal(logits: Tensor, labels: Tensor, *, weight: Tensor | None = None, gamma: float = 2.0) -> Tensor:
    """Mean of -w[y] (1 - p[y])^gamma log p[y] over the pixels that count (Lin et al., arXiv 1708.02002)."""
    each = pdl.cross_entropy(logits, labels, ignore_index=IGNORED, reduction="none")
    known = counted(labels, each.dtype)
    if weight is not None:
        known = known * pdl.take(weight, pdl.where(pdl.equal(labels, IGNORED), 0, labels))
    easy = pdl.pow(pdl.clip(1.0 - pdl.exp(-each), 1e-7, 1.0), gamma)
    return pdl.sum(known * easy * each) / pdl.maximum(pdl.sum(known), 1.0)


def lovasz(logits: Tensor, labels: Tensor) -> Tensor:
    """The Lovász extension of the Jaccard loss 1 - IoU, mean over the classes that the batch has (Berman et al., arXiv
    1705.08790, algorithm 1): errors |t - p| of each class, largest first, times how much the loss grows with each."""
    p, t = _shares(logits, labels)
    classes = p.shape[-1]
    errors = pdl.permute_dims(pdl.reshape(pdl.abs(t - p), (-1, classes)), (1, 0))  # [C, pixels]; 0 where none counts
    truth = pdl.permute_dims(pdl.reshape(t, (-1, classes)), (1, 0))
    order = pdl.argsort(errors.detach(), axis=-1, descending=True)
    sorted_errors, sorted_truth = (pdl.take_along_axis(x, order, axis=-1) for x in (errors, truth))
    total = pdl.sum(truth, axis=-1, keepdims=True)
    covered = pdl.cumulative_sum(sorted_truth, axis=-1)
    others = pdl.cumulative_sum(1.0 - sorted_truth, axis=-1)
    jaccard = 1.0 - (total - covered) / pdl.maximum(total + others, 1.0)
    growth = pdl.concat([jaccard[:, :1], jaccard[:, 1:] - jaccard[:, :-1]], axis=-1).detach()
    present = pdl.astype(total[:, 0] > 0, p.dtype)
    return pdl.sum(pdl.sum(sorted_errors * growth, axis=-1) * present) / pdl.maximum(pdl.sum(present), 1.0)


def boundary(logits: Tensor, labels: Tensor, *, width: int = 3) -> Tensor:
    """1 - mean over the classes of the F1 of their edges, widened to `width` pixels (Bokhovkin and Burnaev, arXiv
    1905.07852): a pixel is on the edge as far as a window around it holds less of the class than it does itself."""
    p, t = _shares(logits, labels)
    edges_p, edges_t = _edges(p), _edges(t)
    near_p, near_t = (pdl.max_pool(e, width, stride=1, padding=width // 2) for e in (edges_p, edges_t))
    axes = tuple(range(p.ndim - 1))
    precision = (pdl.sum(edges_p * near_t, axis=axes) + SMOOTH) / (pdl.sum(edges_p, axis=axes) + SMOOTH)
    recall = (pdl.sum(near_p * edges_t, axis=axes) + SMOOTH) / (pdl.sum(edges_t, axis=axes) + SMOOTH)
    return 1.0 - pdl.mean(2.0 * precision * recall / (precision + recall))


def _edges(x: Tensor) -> Tensor:
    """x [N, H, W, C] minus the least of the nine values around each."""
    return x + pdl.max_pool(-x, 3, stride=1, padding=1)


def counted(labels: Tensor, dtype: DType) -> Tensor:
    """1 where a label counts, else 0."""
    return pdl.astype(pdl.not_equal(labels, IGNORED), dtype)


def _shares(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Probabilities and one-hot labels [N, H, W, C], both 0 where labels do not count."""
    known = pdl.expand_dims(counted(labels, logits.dtype), -1)
    safe = pdl.where(pdl.equal(labels, IGNORED), 0, labels)
    return pdl.softmax(logits, axis=-1) * known, pdl.one_hot(safe, logits.shape[-1], dtype=logits.dtype) * known
