"""What a session's vector is trained for: that the item which came next scores higher than others, than all others or
than a sample of them.

A loss is called with the vectors of M sessions and the items that came next (0: none, left out), and is the mean over
those that count. Sampled ones compare with candidates that all sessions of the batch share: the targets of the batch
(`in_batch`) and `negatives` items drawn by the loader with probabilities q ~ count^sample_alpha. A candidate that is
the session's own target is none for it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Literal

import numpy as np

import pdl
from pdl.data.negatives import Negatives
from pdl.errors import ConfigError
from pdl.hints import Inherited, Range, part
from pdl.tensor import Tensor
from pdl_rec.models.base import SequenceModel
from pdl_rec.sampled_softmax import NEVER, sampled_softmax

Activation = Literal["linear", "relu", "leaky_relu", "elu", "tanh"]


@part
class ItemLoss:
    """Base of the losses.

    negatives     items sampled for each batch; None: the loss is over all items
    in_batch      whether the targets of other sessions in the batch are candidates, too
    sample_alpha  q ~ count^alpha: 0 draws all items alike, 1 as often as they occur
    """

    def __init__(
        self,
        *,
        negatives: Annotated[int, Range(0)] | None = None,
        in_batch: bool = True,
        sample_alpha: Annotated[float, Range(0)] = 0.75,
    ) -> None:
        if negatives == 0 and not in_batch:
            raise ConfigError("negatives=0 and in_batch=false leave nothing to compare with; set one of them")
        self.negatives, self.in_batch, self.sample_alpha = negatives, in_batch, sample_alpha
        self.counts = self.share = self.chance = np.zeros(0)

    def prepare(self, counts: np.ndarray) -> None:
        """Take how often each item occurs in the training data, [num_items + 1]; row 0 is no item."""
        self.counts = np.append(0.0, counts[1:])
        self.share = self.counts / self.counts.sum()
        self.chance = self.draws(0).chances

    def draws(self, seed: int) -> Negatives:
        """The sampler of negatives; any seed samples from the same distribution."""
        return Negatives(len(self.counts) - 1, counts=self.counts, alpha=self.sample_alpha, seed=seed)

    def __call__(self, model: SequenceModel, sessions: Tensor, targets: Tensor, sampled: Tensor | None) -> Tensor:
        """sessions [M, C], targets int64 [M], sampled int64 [K] -> the mean loss, []."""
        raise NotImplementedError(f"{type(self).__name__} must define __call__")

    def candidates(self, targets: Tensor, sampled: Tensor | None) -> Tensor:
        """The J negatives that all sessions of a batch share, int64 [J]."""
        lists = [*([targets] if self.in_batch else []), *([] if sampled is None else [sampled])]
        return lists[0] if len(lists) == 1 else pdl.concat(lists, axis=0)

    def contest(
        self, model: SequenceModel, sessions: Tensor, targets: Tensor, candidates: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Scores of the targets [M], of the J candidates [M, J], and where a candidate is none (bool [M, J])."""
        own, own_bias = model.item_rows(targets)
        rows, bias = model.item_rows(candidates)
        positive, scores = pdl.sum(sessions * own, axis=1), pdl.matmul(sessions, pdl.matrix_transpose(rows))
        if bias is not None and own_bias is not None:
            positive, scores = positive + own_bias, scores + bias
        across = pdl.expand_dims(candidates, axis=0)
        out = pdl.logical_or(pdl.equal(across, pdl.expand_dims(targets, axis=1)), pdl.equal(across, 0))
        return positive, scores, out

    def log_expected(self, batch: int) -> np.ndarray:
        """ln of how often each item that is not a session's own target is expected among its candidates, in a batch of
        so many targets: float32 [num_items + 1]."""
        return self._log_expected(batch)

    @lru_cache(maxsize=8)  # noqa: B019 - one array for each size of batch, as long as the task lives
    def _log_expected(self, batch: int) -> np.ndarray:
        count = (self.negatives or 0) * self.chance + ((batch - 1) * self.share if self.in_batch else 0.0)
        return np.log(np.maximum(count, 1e-12)).astype(np.float32)


class CrossEntropy(ItemLoss):
    """-log softmax of the target among all items, or with `negatives` among the candidates.

    negatives        None: all items (full softmax)
    logq             how much of ln(expected count among the candidates) is taken off the candidates' scores, in
                     training: 1 makes the sampled softmax estimate the full one (see `pdl_rec.sampled_softmax`), 0 is
                     GRU4Rec's own choice
    label_smoothing  share of the target that is spread evenly over all items (Szegedy et al., arXiv 1512.00567); full
                     softmax only
    """

    def __init__(
        self,
        *,
        logq: Annotated[float, Range(0)] = 0.0,
        label_smoothing: Annotated[float, Range(0, below=1)] = 0.0,
        **options: Inherited,
    ) -> None:
        super().__init__(**options)
        if label_smoothing and self.negatives is not None:
            raise ConfigError("label_smoothing goes with the softmax over all items; leave out negatives, or it")
        self.logq, self.label_smoothing = logq, label_smoothing

    def __call__(self, model: SequenceModel, sessions: Tensor, targets: Tensor, sampled: Tensor | None) -> Tensor:
        if self.negatives is None:
            return full_cross_entropy(model, sessions, targets, self.label_smoothing)
        candidates = self.candidates(targets, sampled)
        if self.in_batch and not self.logq:
            return self.in_blocks(model, sessions, targets, candidates)
        positive, scores, out = self.contest(model, sessions, targets, candidates)
        expected = None
        if self.logq:
            every = Tensor(self.log_expected(targets.shape[0]) * np.float32(self.logq))
            expected = pdl.take(every, candidates)
        return mean_of(sampled_softmax(positive, scores, out, expected), targets)

    def in_blocks(self, model: SequenceModel, sessions: Tensor, targets: Tensor, candidates: Tensor) -> Tensor:
        """The loss where the targets are candidates, session i's the i-th: no matrix of scores is made."""
        places = pdl.where(pdl.equal(targets, 0), -1, pdl.arange(targets.shape[0]))
        ids = pdl.where(pdl.equal(candidates, 0), -1, candidates)
        total = pdl.linear_cross_entropy(
            sessions, *model.item_rows(candidates), places, ids=ids, ignore_index=-1, transposed=True, reduction="sum"
        )
        return total / counted(targets, total)


class _MaxLoss(ItemLoss):
    """Losses that weigh the candidates j by s, the softmax of r = f(score).

    final_activation  f, which scores go through; `slope` of it where it is elu or leaky
    """

    def __init__(
        self,
        *,
        negatives: Annotated[int, Range(0)] = 2048,
        final_activation: Activation = "tanh",
        slope: Annotated[float, Range(0)] = 0.5,
        **options: Inherited,
    ) -> None:
        super().__init__(negatives=negatives, **options)
        self.final_activation, self.slope = final_activation, slope

    def weighted_contest(
        self, model: SequenceModel, sessions: Tensor, targets: Tensor, sampled: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """r of the targets [M, 1] and of the candidates [M, J], and s [M, J]."""
        positive, scores, out = self.contest(model, sessions, targets, self.candidates(targets, sampled))
        own = pdl.expand_dims(activated(positive, self.final_activation, self.slope), axis=1)
        others = activated(scores, self.final_activation, self.slope)
        return own, others, pdl.softmax(pdl.where(out, NEVER, others), axis=1)


class BPRMax(_MaxLoss):
    """-ln sum_j s_j sigmoid(r_i - r_j) + bpreg sum_j s_j r_j^2: r = f(score), i the target, s the softmax of r over the
    candidates j. Hidasi & Karatzoglou, arXiv 1706.03847.

    bpreg             weight of the penalty on scores of candidates
    final_activation  f; `slope` is what elu and leaky_relu multiply negative values by. Ranks are those of the scores
                      themselves: f never reverses two of them
    """

    def __init__(
        self, *, bpreg: Annotated[float, Range(0)] = 1.0, final_activation: Activation = "elu", **options: Inherited
    ) -> None:
        super().__init__(final_activation=final_activation, **options)
        self.bpreg = bpreg

    def __call__(self, model: SequenceModel, sessions: Tensor, targets: Tensor, sampled: Tensor | None) -> Tensor:
        own, others, weight = self.weighted_contest(model, sessions, targets, sampled)
        won = pdl.sum(weight * pdl.sigmoid(own - others), axis=1)
        rows = -pdl.log(won + 1e-24)
        if self.bpreg:
            rows = rows + self.bpreg * pdl.sum(weight * others * others, axis=1)
        return mean_of(rows, targets)


class TOP1Max(_MaxLoss):
    """sum_j s_j (sigmoid(r_j - r_i) + sigmoid(r_j^2)), names as in `BPRMax`. Hidasi & Karatzoglou, arXiv 1706.03847."""

    def __call__(self, model: SequenceModel, sessions: Tensor, targets: Tensor, sampled: Tensor | None) -> Tensor:
        own, others, weight = self.weighted_contest(model, sessions, targets, sampled)
        lost = pdl.sigmoid(others - own) + pdl.sigmoid(others * others)
        return mean_of(pdl.sum(weight * lost, axis=1), targets)


def full_cross_entropy(model: SequenceModel, sessions: Tensor, targets: Tensor, smoothing: float = 0.0) -> Tensor:
    """Mean of -log softmax over all items of the model's table. Row 0 is no item and takes no part; targets 0 are left
    out. `smoothing` as in `CrossEntropy`."""
    return pdl.linear_cross_entropy(
        sessions, *model.item_table(), targets, label_smoothing=smoothing, ignore_index=0, transposed=True, first=1
    )


def activated(x: Tensor, name: Activation, slope: float) -> Tensor:
    """f(x), element by element."""
    if name == "linear":
        return x
    if name == "tanh":
        return pdl.tanh(x)
    if name == "relu":
        return pdl.relu(x)
    return pdl.elu(x, alpha=slope) if name == "elu" else pdl.leaky_relu(x, negative_slope=slope)


def mean_of(rows: Tensor, targets: Tensor) -> Tensor:
    """The mean of rows [M] whose target is an item."""
    counts = pdl.astype(pdl.not_equal(targets, 0), rows.dtype)
    return pdl.sum(rows * counts) / counted(targets, rows)


def counted(targets: Tensor, like: Tensor) -> Tensor:
    """How many targets are items, at least 1; in the dtype of a tensor."""
    return pdl.maximum(pdl.sum(pdl.astype(pdl.not_equal(targets, 0), like.dtype)), 1.0)
