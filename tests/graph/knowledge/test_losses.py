"""Losses against their formulas, one query at a time."""

from __future__ import annotations

import math

import numpy as np
import pytest

import pdl
from pdl_graph.knowledge.losses import NEVER, margin_loss, n3, self_adversarial, softmax

RNG = np.random.default_rng(0)
OWN, OTHERS = RNG.standard_normal(4), RNG.standard_normal((4, 5))
OTHERS[1, 2] = OTHERS[3, 0] = NEVER


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0


def test_self_adversarial() -> None:
    found = self_adversarial(pdl.tensor(OWN), pdl.tensor(OTHERS), 0.7).data
    for row, (own, others) in enumerate(zip(OWN, OTHERS, strict=True)):
        weights = [math.exp(0.7 * x) if x > NEVER else 0.0 for x in others]
        pushed = sum(w * math.log(1 - sigmoid(x)) for w, x in zip(weights, others, strict=True)) / sum(weights)
        assert found[row] == pytest.approx(-(math.log(sigmoid(own)) + pushed) / 2)


def test_no_gradient_goes_through_the_weights() -> None:
    others = pdl.tensor(OTHERS[:1], requires_grad=True)
    self_adversarial(pdl.tensor(OWN[:1]), others, 0.7).sum().backward()
    weights = np.exp(0.7 * OTHERS[0]) / np.exp(0.7 * OTHERS[0]).sum()
    assert others.grad is not None
    np.testing.assert_allclose(others.grad.data[0], weights * [sigmoid(x) for x in OTHERS[0]] / 2)


def test_softmax_estimates_the_sum_over_all() -> None:
    found = softmax(pdl.tensor(OWN), pdl.tensor(OTHERS), 21).data
    for row, (own, others) in enumerate(zip(OWN, OTHERS, strict=True)):
        total = math.exp(own) + 20 / 5 * sum(math.exp(x) if x > NEVER else 0.0 for x in others)
        assert found[row] == pytest.approx(math.log(total) - own)


def test_margin_and_n3() -> None:
    found = margin_loss(pdl.tensor(OWN), pdl.tensor(OTHERS), 0.5).data
    np.testing.assert_allclose(found, np.maximum(0, 0.5 - OWN[:, None] + OTHERS).mean(1))
    sizes = [np.abs(RNG.standard_normal((4, 3))) for _ in range(3)]
    assert n3(tuple(pdl.tensor(s) for s in sizes)).item() == pytest.approx(sum((s**3).sum() for s in sizes) / 4)
