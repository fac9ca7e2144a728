"""Losses of metric learning, by their papers' formulas, and their gradients by differences."""

from __future__ import annotations

import math

import numpy as np
import pytest

import pdl
from pdl import nn
from pdl.autograd import gradcheck
from pdl.errors import ShapeError

RNG = np.random.default_rng(0)


def unit(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def log_softmax(x: np.ndarray) -> np.ndarray:
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def test_arcface_is_its_formula() -> None:
    pdl.seed(0)
    loss, x, labels = nn.ArcFaceLoss(5, 4, margin=0.3, scale=8.0), RNG.standard_normal((6, 4)), np.arange(6) % 5
    x[0] = -loss.weight.data[0]
    angles = np.arccos(np.clip(unit(x) @ unit(loss.weight.data.astype(float)).T, -1, 1))
    expected = []
    for theta, label in zip(angles, labels, strict=True):
        logits = np.cos(theta)
        far = theta[label] + 0.3 > math.pi
        logits[label] = np.cos(theta[label]) - 0.3 * math.sin(0.3) if far else np.cos(theta[label] + 0.3)
        expected.append(-log_softmax(8 * logits)[label])
    assert angles[0, 0] + 0.3 > math.pi
    found = loss(pdl.tensor(x.astype(np.float32)), pdl.tensor(labels))
    assert found.item() == pytest.approx(np.mean(expected), rel=1e-5)
    np.testing.assert_allclose(loss.logits(pdl.tensor(x.astype(np.float32))).data, 8 * np.cos(angles), atol=1e-5)


def test_ge2e_is_its_formula() -> None:
    x, loss = RNG.standard_normal((3, 4, 5)), nn.GE2ELoss(reduction="none")
    e, expected = unit(x), np.empty((3, 4))
    for j in range(3):
        for i in range(4):
            rest = np.delete(e[j], i, axis=0).mean(axis=0)
            centres = [rest if k == j else e[k].mean(axis=0) for k in range(3)]
            expected[j, i] = -log_softmax(10 * np.array([e[j, i] @ unit(c) for c in centres]) - 5)[j]
    np.testing.assert_allclose(loss(pdl.tensor(x.astype(np.float32))).data, expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(ShapeError, match="at least 2 of each"):
        loss(pdl.zeros((3, 1, 5)))


def test_gradients() -> None:
    pdl.seed(0)
    arc, ge2e = nn.ArcFaceLoss(3, 4, margin=0.2, scale=5.0).to("float64"), nn.GE2ELoss().to("float64")
    x = pdl.Tensor(RNG.standard_normal((4, 4)), dtype="float64", requires_grad=True)
    labels = pdl.tensor(np.array([0, 2, 1, 0]))
    gradcheck(lambda x, w: arc(x, labels), [x, arc.weight])
    y = pdl.Tensor(RNG.standard_normal((2, 3, 4)), dtype="float64", requires_grad=True)
    gradcheck(lambda y, w, b: ge2e(y), [y, ge2e.weight, ge2e.bias])


# -- the samples of a batch against each other -------------------------------------------------------------------------
LABELS = np.array([0, 1, 0, 2, 1, 0, 2, 3])  # class 3 has one sample
VECTORS = RNG.standard_normal((8, 5))


def triplets() -> list[tuple[int, int, int]]:
    n = range(len(LABELS))
    return [(a, p, k) for a in n for p in n for k in n if a != p and LABELS[a] == LABELS[p] != LABELS[k]]


def distances() -> np.ndarray:
    e = unit(VECTORS)
    return np.linalg.norm(e[:, None] - e[None], axis=-1)


def test_cosface_and_softmax_are_their_formulas() -> None:
    pdl.seed(0)
    cos, plain, x = nn.CosFaceLoss(5, 4, margin=0.2, scale=8.0), nn.SoftmaxLoss(5, 4), RNG.standard_normal((6, 4))
    labels = np.arange(6) % 5
    logits = 8 * (unit(x) @ unit(cos.weight.data.astype(float)).T - 0.2 * np.eye(5)[labels])
    found = cos(pdl.tensor(x.astype(np.float32)), pdl.tensor(labels)).item()
    assert found == pytest.approx(-log_softmax(logits)[np.arange(6), labels].mean(), rel=1e-5)
    logits = plain.linear(pdl.tensor(x.astype(np.float32))).data.astype(float)
    found = plain(pdl.tensor(x.astype(np.float32)), pdl.tensor(labels)).item()
    assert found == pytest.approx(-log_softmax(logits)[np.arange(6), labels].mean(), rel=1e-5)


def cost(difference: float, margin: float | None) -> float:
    return math.log1p(math.exp(difference)) if margin is None else max(0.0, difference + margin)


@pytest.mark.parametrize("margin", [0.2, None])
def test_triplets_are_mined_as_they_say(margin: float | None) -> None:
    d, anchors = distances(), [a for a in range(8) if LABELS[a] != 3]
    other = LABELS[:, None] != LABELS
    same = ~other & ~np.eye(8, dtype=bool)
    hard = [cost(d[a][same[a]].max() - d[a][other[a]].min(), margin) for a in anchors]
    every = [value for a, p, n in triplets() if (value := cost(d[a, p] - d[a, n], margin)) > 0]
    semi = []
    for a, p in zip(*np.nonzero(same), strict=True):
        beyond = d[a][other[a] & (d[a] > d[a, p])]
        semi.append(cost(d[a, p] - (beyond.min() if len(beyond) else d[a][other[a]].max()), margin))
    for mining, expected in (("hard", hard), ("semi_hard", semi), ("all", every)):
        loss = nn.TripletLoss(mining=mining, margin=margin)  # type: ignore[arg-type]
        assert loss(pdl.tensor(VECTORS), pdl.tensor(LABELS)).item() == pytest.approx(np.mean(expected), rel=1e-5)


def test_quadruplets_npairs_and_supervised_contrast_are_their_formulas() -> None:
    x, labels, d, s = pdl.tensor(VECTORS), pdl.tensor(LABELS), distances(), unit(VECTORS) @ unit(VECTORS).T
    other = LABELS[:, None] != LABELS
    same = ~other & ~np.eye(8, dtype=bool)
    expected = []
    for a in np.flatnonzero(same.any(axis=1)):
        far, near = d[a][same[a]].max(), d[a][other[a]].min()
        between = min(d[m, n] for m in range(8) for n in range(8) if other[a, m] and other[a, n] and other[m, n])
        expected.append(max(0, far - near + 0.2) + max(0, far - between + 0.1))
    assert nn.QuadrupletLoss()(x, labels).item() == pytest.approx(np.mean(expected), rel=1e-5)
    pairs = [-math.log(np.exp(9 * s[a, p]) / (np.exp(9 * s[a, p]) + np.exp(9 * s[a][other[a]]).sum()))
             for a, p in zip(*np.nonzero(same), strict=True)]  # fmt: skip
    assert nn.NPairLoss(scale=9.0)(x, labels).item() == pytest.approx(np.mean(pairs), rel=1e-5)
    contrast = []
    for a in np.flatnonzero(same.any(axis=1)):
        total = np.exp(np.delete(s[a], a) / 0.2).sum()
        contrast.append(np.mean([-math.log(np.exp(s[a, p] / 0.2) / total) for p in np.flatnonzero(same[a])]))
    assert nn.SupConLoss(temperature=0.2)(x, labels).item() == pytest.approx(np.mean(contrast), rel=1e-5)


BATCH = [nn.TripletLoss(), nn.TripletLoss(mining="hard"), nn.TripletLoss(mining="all", margin=None),
         nn.QuadrupletLoss(margin=0.7, second=0.4), nn.NPairLoss(), nn.SupConLoss()]  # fmt: skip


@pytest.mark.parametrize("loss", BATCH, ids=str)
def test_gradients_within_a_batch(loss: nn.Module) -> None:
    x = pdl.Tensor(VECTORS, dtype="float64", requires_grad=True)
    gradcheck(lambda x: loss(x, pdl.tensor(LABELS)), [x])
    alone = loss(x, pdl.tensor(np.arange(8)))  # no two of one class
    alone.backward()
    assert alone.item() == 0
    assert np.isfinite(x.grad.data).all()  # type: ignore[union-attr]
    with pytest.raises(ShapeError, match=r"labels \[N\]"):
        loss(x, pdl.tensor(LABELS[:3]))
