"""Losses against their formulas."""

from __future__ import annotations

import numpy as np
import pytest

import pdl
from pdl_cv.data.index_maps import IGNORED
from pdl_cv.segmentation import losses

RNG = np.random.default_rng(0)
LOGITS = RNG.standard_normal((2, 5, 6, 3)).astype(np.float32)
LABELS = RNG.integers(0, 3, (2, 5, 6))
LABELS[0, 0] = IGNORED
KEPT = LABELS != IGNORED
P = np.exp(LOGITS) / np.exp(LOGITS).sum(-1, keepdims=True)
OWN = np.take_along_axis(P, np.where(KEPT, LABELS, 0)[..., None], -1)[..., 0]
HARD = np.float32(40) * np.eye(3, dtype=np.float32)[RNG.integers(0, 3, LABELS.shape)]  # logits of certain answers
TENSORS = pdl.tensor(LOGITS), pdl.tensor(LABELS)


def iou_loss(answer: np.ndarray) -> float:
    """1 - IoU, mean over the classes that the labels have."""
    each = []
    for k in np.unique(LABELS[KEPT]):
        a, b = (answer == k)[KEPT], (k == LABELS)[KEPT]
        each.append(1 - (a & b).sum() / (a | b).sum())
    return float(np.mean(each))


def test_cross_entropy_and_focal() -> None:
    assert losses.cross_entropy(*TENSORS).item() == pytest.approx(-np.log(OWN[KEPT]).mean(), rel=1e-5)
    assert losses.focal(*TENSORS).item() == pytest.approx(-((1 - OWN) ** 2 * np.log(OWN))[KEPT].mean(), rel=1e-5)
    weight = np.array([1, 2, 5], np.float32)
    each = weight[LABELS[KEPT]]
    expected = (each * -((1 - OWN[KEPT]) ** 2) * np.log(OWN[KEPT])).sum() / each.sum()
    assert losses.focal(*TENSORS, weight=pdl.tensor(weight)).item() == pytest.approx(expected, rel=1e-5)


def test_ohem_takes_hard_pixels() -> None:
    each = -np.log(OWN)
    hard = KEPT & (OWN <= 0.3)
    found = losses.ohem(*TENSORS, threshold=0.3, least=1 / 60).item()
    assert found == pytest.approx(each[hard].mean(), rel=1e-5)
    count = 6  # of 60
    worst = np.sort(np.where(KEPT, each, 0).ravel())[::-1][:count]
    assert losses.ohem(*TENSORS, threshold=1e-6, least=count / 60).item() == pytest.approx(worst.mean(), rel=1e-5)


def test_dice() -> None:
    truth = (LABELS[..., None] == np.arange(3)) & KEPT[..., None]
    p = P * KEPT[..., None]
    both, size = (p * truth).sum((0, 1, 2)), p.sum((0, 1, 2)) + truth.sum((0, 1, 2))
    assert losses.dice(*TENSORS).item() == pytest.approx(1 - ((2 * both + 1) / (size + 1)).mean(), rel=1e-5)


def test_lovasz_of_certain_answers_is_the_jaccard_loss() -> None:
    found = losses.lovasz(pdl.tensor(HARD), TENSORS[1]).item()
    assert found == pytest.approx(iou_loss(HARD.argmax(-1)), abs=1e-5)


def test_boundary_is_least_where_edges_agree() -> None:
    right = np.float32(40) * np.eye(3, dtype=np.float32)[np.where(KEPT, LABELS, 0)]
    ours, other = (losses.boundary(pdl.tensor(x), TENSORS[1]).item() for x in (right, LOGITS))
    assert 0 <= ours < 0.01 < other < 1


@pytest.mark.parametrize("name", ["cross_entropy", "ohem", "focal", "dice", "lovasz", "boundary"])
def test_gradients_fall_along(name: str) -> None:
    """A small step against the gradient makes less of every loss; what is ignored has no gradient."""
    logits = pdl.tensor(LOGITS, requires_grad=True)
    value = getattr(losses, name)(logits, TENSORS[1])
    value.backward()
    slope = logits.grad.numpy()
    assert np.abs(slope[~KEPT]).max() < 1e-9
    below = getattr(losses, name)(pdl.tensor(LOGITS - 0.05 * slope / np.abs(slope).max()), TENSORS[1])
    assert below.item() < value.item()
