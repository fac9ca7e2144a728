"""Losses of detectors against the formulas of their papers."""

from __future__ import annotations

import numpy as np
from scipy import special

import pdl

from .case import Case, Draws
from .cases_loss import reduced

f = Draws(29).f


def bce(x, t):
    return -(t * np.log(special.expit(x)) + (1 - t) * np.log(special.expit(-x)))


def sigmoid_focal(x, t, alpha=0.25, gamma=2.0, reduction="none"):
    p = special.expit(x)
    a, b = (1, 1) if alpha is None else (alpha, 1 - alpha)
    return reduced(-(a * t * (1 - p) ** gamma * np.log(p) + b * (1 - t) * p**gamma * np.log(1 - p)), reduction)


def quality_focal(x, t, beta=2.0, reduction="none"):
    return reduced(np.abs(t - special.expit(x)) ** beta * bce(x, t), reduction)


def varifocal(x, t, alpha=0.75, gamma=2.0, reduction="none"):
    p = special.expit(x)
    return reduced(np.where(t > 0, t * bce(x, t), -alpha * p**gamma * np.log(1 - p)), reduction)


def distribution(x, t, reduction="none"):
    log_p = special.log_softmax(x, axis=-1)
    low = np.minimum(np.floor(t).astype(int), x.shape[-1] - 2)[..., None]
    left, right = (np.take_along_axis(log_p, at, -1)[..., 0] for at in (low, low + 1))
    return reduced(-((low[..., 0] + 1 - t) * left + (t - low[..., 0]) * right), reduction)


UNIT = {"low": 0.05, "high": 0.95}
SOME = np.where(f(5, 19) > 0.3, f(5, 19, **UNIT), 0.0)  # most are background
CASES = [
    Case(pdl.sigmoid_focal_loss, [f(5, 19, low=-6, high=6), f(5, 19, **UNIT)], sigmoid_focal),
    Case(pdl.sigmoid_focal_loss, [f(3, 4), (f(3, 4) > 0).astype(float)], sigmoid_focal, {"gamma": 1.5, "alpha": None}),
    Case(pdl.sigmoid_focal_loss, [f(3, 4), f(3, 4, **UNIT)], sigmoid_focal, {"gamma": 0.0, "reduction": "mean"}),
    Case(pdl.quality_focal_loss, [f(5, 19, low=-6, high=6), SOME], quality_focal),
    Case(pdl.quality_focal_loss, [f(3, 4), f(3, 4, **UNIT)], quality_focal, {"beta": 1.5, "reduction": "sum"}),
    Case(pdl.varifocal_loss, [f(5, 19, low=-6, high=6), SOME], varifocal, grad=[0]),
    Case(pdl.varifocal_loss, [f(3, 4), f(3, 4, **UNIT)], varifocal, {"alpha": 0.5, "gamma": 1.5, "reduction": "mean"}),
    Case(pdl.distribution_focal_loss, [f(3, 4, 8), f(3, 4, low=0.1, high=6.9)], distribution),
    Case(pdl.distribution_focal_loss, [f(19, 17, low=-6, high=6), f(19, low=0.1, high=15.9)], distribution,
         {"reduction": "sum"}),
    Case(pdl.distribution_focal_loss, [f(3, 8), np.array([0.0, 3.0, 7.0])], distribution, {"reduction": "mean"},
         grad=[0]),
]  # fmt: skip
