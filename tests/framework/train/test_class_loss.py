"""Weighted and focal losses against their formulas, and batches in which all classes come equally often."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import pdl
from pdl.data import ArrayDataset
from pdl.errors import ConfigError
from pdl.train.class_loss import ClassLoss
from pdl.train.recipe import Data

rng = np.random.default_rng(0)
LOGITS, LABELS = rng.normal(size=(6, 3)), np.array([0, 0, 0, 1, 1, 2])
CLASSES = ["a", "b", "c"]
WEIGHTS = {"balanced": np.array([6 / 9, 6 / 6, 6 / 3]), "named": np.array([1.0, 1.0, 5.0]), None: np.ones(3)}


def fitted(weights: Any, gamma: float) -> ClassLoss:
    loss = ClassLoss({"c": 5.0} if weights == "named" else weights, gamma)
    loss.fit(CLASSES, {"train": SimpleNamespace(labels=LABELS)})
    return loss


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_value_and_gradient(weights: Any, gamma: float, smoothing: float) -> None:
    loss, w = fitted(weights, gamma), WEIGHTS[weights]
    p = np.exp(LOGITS) / np.exp(LOGITS).sum(axis=1, keepdims=True)
    q = np.eye(3)[LABELS] * (1 - smoothing) + smoothing / 3
    expected = -(q * w * (1 - p) ** gamma * np.log(p)).sum() / w[LABELS].sum()
    x = pdl.Tensor(LOGITS, requires_grad=True)
    assert loss(x, LABELS, smoothing=smoothing).item() == pytest.approx(expected, rel=1e-5)
    pdl.autograd.gradcheck(lambda x: loss(x, LABELS, smoothing=smoothing), [x])


def test_shares_of_classes_and_certainty() -> None:
    soft = np.eye(3)[LABELS] * 0.7 + 0.1
    for gamma in (0.0, 2.0):
        loss = ClassLoss(gamma=gamma)
        hard = loss(pdl.Tensor(LOGITS), LABELS).item()
        assert loss(pdl.Tensor(LOGITS), np.eye(3)[LABELS]).item() == pytest.approx(hard)
        assert loss(pdl.Tensor(LOGITS), soft).item() > 0
    sure = pdl.Tensor(np.float32([[200.0, -200.0]]), requires_grad=True)
    ClassLoss(gamma=0.5)(sure, np.array([0])).backward()
    assert sure.grad is not None
    assert np.isfinite(sure.grad.numpy()).all()


@pytest.mark.parametrize(
    ("weights", "match"),
    [
        ({"d": 2.0}, "'d' is none of the classes a, b, c"),
        ({"a": -1.0}, "0 or more"),
        ({"a": 0, "b": 0, "c": 0}, "not all 0"),
    ],
)
def test_weights_that_are_none(weights: Any, match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        ClassLoss(weights).fit(CLASSES, {})


def test_data_that_does_not_say_its_classes() -> None:
    with pytest.raises(ConfigError, match="balanced needs the class of every training sample, which ArrayDataset"):
        ClassLoss("balanced").fit(CLASSES, {"train": ArrayDataset(x=np.zeros(3))})
    ClassLoss("balanced").fit(CLASSES, {})  # a run without its training data


def test_balanced_batches() -> None:
    labels = np.array([0] * 90 + [1] * 10)
    sampler = Data({"train": {}, "balanced": True}).sampler(ArrayDataset(x=labels, label=labels), seed=0)
    assert sampler is not None
    drawn = labels[np.concatenate([sampler.order(epoch) for epoch in range(20)])]
    assert len(drawn) == 20 * len(labels)
    assert abs(drawn.mean() - 0.5) < 0.03
