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
