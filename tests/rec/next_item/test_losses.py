"""Losses against their formulas, session by session in NumPy; gradients by finite differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pdl
from pdl.autograd import gradcheck
from pdl.errors import ConfigError
from pdl_rec import BPRMax, CrossEntropy, SequenceModel, TOP1Max
from pdl_rec.next_item.losses import ItemLoss
from pdl_rec.sampled_softmax import sampled_softmax

ITEMS, WIDTH = 9, 4
COUNTS = np.array([0, 5, 1, 2, 8, 1, 1, 3, 2, 4])
TARGETS = np.array([4, 1, 0, 4, 7])  # one has no target, two have the same
SAMPLED = np.array([1, 4, 9, 9, 2, 6])  # targets are among them, and one twice


class Table(SequenceModel):
    """Vectors of items and nothing else."""

    def __init__(self, bias: bool = True) -> None:
        rng = np.random.default_rng(0)
        self.table = pdl.nn.Parameter(rng.standard_normal((ITEMS + 1, WIDTH)))
        self.bias = pdl.nn.Parameter(rng.standard_normal(ITEMS + 1)) if bias else None

    def item_table(self) -> tuple[pdl.Tensor, pdl.Tensor | None]:
        return self.table, self.bias


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "linear": lambda r: r,
    "relu": lambda r: np.maximum(r, 0),
    "leaky_relu": lambda r: np.where(r > 0, r, 0.3 * r),
    "elu": lambda r: np.where(r > 0, r, 0.3 * (np.exp(r) - 1)),
    "tanh": np.tanh,
}


def stated(loss: Any, model: Table, sessions: np.ndarray) -> float:
    """The definition: one session at a time, over the list of its candidates."""
    counts = COUNTS.astype(float)
    chance = np.where(counts > 0, counts, 1) ** loss.sample_alpha * (counts > 0)
    chance /= chance.sum()
    scores = sessions @ model.table.data.T + (model.bias.data if model.bias is not None else 0)
    values = []
    for row, target in enumerate(TARGETS):
        if target == 0:
            continue
        pool = [*(TARGETS if loss.in_batch else []), *(SAMPLED if loss.negatives else [])]
        others = np.array([j for j in pool if j not in (0, target)], int)
        own, rest = scores[row, target], scores[row, others]
        if isinstance(loss, CrossEntropy):
            if loss.negatives is None:
                rest = np.delete(scores[row], [0, target])
            elif loss.logq:
                expected = loss.negatives * chance + (
                    (len(TARGETS) - 1) * counts / counts.sum() if loss.in_batch else 0
                )
                rest = rest - loss.logq * np.log(expected[others])  # the target was not drawn and keeps its score
            lse = np.log(np.exp(own) + np.exp(rest).sum())
            smooth = loss.label_smoothing and loss.label_smoothing * (lse - scores[row, 1:].mean())
            values.append((1 - loss.label_smoothing) * (lse - own) + smooth)
            continue
        f = ACTIVATIONS[loss.final_activation]
        own, rest = f(own), f(rest)
        s = np.exp(rest) / np.exp(rest).sum()
        if isinstance(loss, BPRMax):
            values.append(-np.log((s * sigmoid(own - rest)).sum()) + loss.bpreg * (s * rest**2).sum())
        else:
            values.append((s * (sigmoid(rest - own) + sigmoid(rest**2))).sum())
    return float(np.mean(values))


LOSSES = {
    "cross-entropy": lambda: CrossEntropy(),
    "smoothed": lambda: CrossEntropy(label_smoothing=0.2),
    "sampled": lambda: CrossEntropy(negatives=6),
    "sampled, not in batch": lambda: CrossEntropy(negatives=6, in_batch=False, sample_alpha=0.0),
    "in batch": lambda: CrossEntropy(negatives=0),
    "logq": lambda: CrossEntropy(negatives=6, logq=1.0, sample_alpha=0.5),
    "half of logq, not in batch": lambda: CrossEntropy(negatives=6, logq=0.5, in_batch=False),
    "bpr-max": lambda: BPRMax(negatives=6, slope=0.3),
    "bpr-max, no penalty": lambda: BPRMax(negatives=6, bpreg=0.0, final_activation="linear"),
    "bpr-max, in batch": lambda: BPRMax(negatives=0, final_activation="leaky_relu", slope=0.3),
    "bpr-max, relu": lambda: BPRMax(negatives=6, final_activation="relu", in_batch=False),
    "top1-max": lambda: TOP1Max(negatives=6),
    "top1-max, linear": lambda: TOP1Max(negatives=6, final_activation="linear", in_batch=False),
}


def call(loss: ItemLoss, model: Table, sessions: Any) -> pdl.Tensor:
    loss.prepare(COUNTS)
    sampled = pdl.Tensor(SAMPLED) if loss.negatives else None
    return loss(model, pdl.as_tensor(sessions), pdl.Tensor(TARGETS), sampled)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("bias", [True, False])
def test_a_loss_is_what_its_formula_says(name: str, bias: bool) -> None:
    model, loss = Table(bias), LOSSES[name]()
    sessions = np.random.default_rng(1).standard_normal((len(TARGETS), WIDTH))
    value = call(loss, model, sessions).item()
    np.testing.assert_allclose(value, stated(loss, model, sessions), rtol=2e-6)


@pytest.mark.parametrize("name", LOSSES)
def test_gradients(name: str) -> None:
    model, loss = Table(), LOSSES[name]()
    start = np.random.default_rng(1).standard_normal((len(TARGETS), WIDTH))
    gradcheck(lambda x: call(loss, model, x), [pdl.Tensor(start, requires_grad=True)])
    call(loss, model, start).backward()
    grad = model.table.grad
    assert grad is not None
    dense = grad.to_dense().data if hasattr(grad, "to_dense") else grad.data
    used = {*TARGETS, *(SAMPLED if loss.negatives else ())} - {0}  # row 0 is no item, and gets none
    rows = set(np.flatnonzero(np.abs(dense).sum(axis=1)))
    assert rows == set(range(1, ITEMS + 1)) if loss.negatives is None else rows <= used


@pytest.mark.parametrize("in_batch", [True, False])
@pytest.mark.parametrize("popular", [True, False])
def test_a_sampled_softmax_with_logq_estimates_the_full_one(in_batch: bool, popular: bool) -> None:
    """Bengio & Senecal, by hand: over many batches the mean of exp(loss) - 1 is the sum of exp(s_j - s_i) over all j
    but the target i, be it frequent or rare; the loss itself comes near the full one with many draws."""
    loss, model, draws = CrossEntropy(negatives=4, in_batch=in_batch, sample_alpha=0.6, logq=1.0), Table(), 4000
    loss.prepare(COUNTS)
    rng = np.random.default_rng(3)
    target = int(COUNTS.argmax() if popular else 1 + COUNTS[1:].argmin())
    session = rng.standard_normal((1, WIDTH))
    scores = session[0] @ model.table.data.T + model.bias.data  # type: ignore[union-attr]
    rest = np.exp(np.delete(scores, [0, target]) - scores[target]).sum()
    beside = rng.choice(ITEMS + 1, (draws, 2), p=COUNTS / COUNTS.sum())  # the other targets of its batch
    sampled = rng.choice(ITEMS + 1, (draws, 4), p=loss.chance)
    positive, candidate = (
        np.full(draws, scores[target]),
        np.concatenate([beside, sampled] if in_batch else [sampled], 1),
    )
    found = sampled_softmax(
        pdl.Tensor(positive),
        pdl.Tensor(scores[candidate]),
        pdl.Tensor(candidate == target),
        pdl.Tensor(loss.log_expected(3)[candidate]),
    )
    np.testing.assert_allclose((np.exp(found.data) - 1).mean(), rest, rtol=0.05)
    wide = CrossEntropy(negatives=40_000, in_batch=in_batch, sample_alpha=0.6, logq=1.0)
    wide.prepare(COUNTS)
    drawn = pdl.Tensor(rng.choice(ITEMS + 1, 40_000, p=wide.chance))
    value = wide(model, pdl.Tensor(session), pdl.Tensor(np.array([target])), drawn).item()
    np.testing.assert_allclose(value, np.log1p(rest), rtol=0.03)


def test_alpha_moves_from_uniform_to_popular() -> None:
    for alpha, expected in ((0.0, (COUNTS > 0) / 9), (1.0, COUNTS / COUNTS.sum())):
        loss = CrossEntropy(negatives=3, sample_alpha=alpha)
        loss.prepare(COUNTS)
        np.testing.assert_allclose(loss.chance, expected)


def test_a_loss_without_candidates_is_refused() -> None:
    with pytest.raises(ConfigError, match="nothing to compare with"):
        BPRMax(negatives=0, in_batch=False)


def test_smoothing_needs_all_items() -> None:
    with pytest.raises(ConfigError, match="label_smoothing goes with the softmax over all items"):
        CrossEntropy(negatives=6, label_smoothing=0.1)
