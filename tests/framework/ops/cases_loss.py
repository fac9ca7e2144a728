"""Losses against NumPy."""

from __future__ import annotations

import numpy as np
from scipy import special

import pdl

from .case import Case, Draws

draw = Draws(16)
f, distinct, i = draw.f, draw.distinct, draw.i


def reduced(loss, reduction="mean"):
    return {"mean": np.mean, "sum": np.sum, "none": np.asarray}[reduction](loss)


def with_weight(x, labels, weight, **kwargs):
    return pdl.cross_entropy(x, labels, weight=weight, **kwargs)


def nll_with_weight(x, labels, weight, **kwargs):
    return pdl.nll_loss(x, labels, weight=weight, **kwargs)


def cross_entropy(x, labels, weight=None, label_smoothing=0.0, ignore_index=-100, reduction="mean"):
    log_p = special.log_softmax(x, axis=-1).reshape(-1, x.shape[-1])
    weight = np.ones(x.shape[-1]) if weight is None else weight
    counted = labels.reshape(-1) != ignore_index
    label = np.where(counted, labels.reshape(-1), 0)
    rows = np.arange(len(label))
    loss = -(1 - label_smoothing) * weight[label] * log_p[rows, label]
    loss = np.where(counted, loss - label_smoothing / x.shape[-1] * (log_p * weight).sum(-1), 0)
    if reduction == "none":
        return loss.reshape(labels.shape)
    return loss.sum() / (weight[label] * counted).sum() if reduction == "mean" else loss.sum()


def nll_loss(x, labels, weight=None, ignore_index=-100, reduction="mean"):
    weight = np.ones(x.shape[-1]) if weight is None else weight
    counted = labels != ignore_index
    label = np.where(counted, labels, 0)
    loss = np.where(counted, -weight[label] * np.take_along_axis(x, label[..., None], -1)[..., 0], 0)
    return loss.sum() / (weight[label] * counted).sum() if reduction == "mean" else reduced(loss, reduction)


def soft(x, target, weight=1.0, label_smoothing=0.0, reduction="mean"):
    target = (target * (1 - label_smoothing) + label_smoothing / x.shape[-1]) * weight
    return reduced(-(target * special.log_softmax(x, axis=-1)).sum(-1), reduction)


def huber(x, t, delta=1.0, reduction="mean"):
    d = np.abs(x - t)
    return reduced(np.where(d < delta, d * d / 2, delta * (d - delta / 2)), reduction)


def bce(p, t, reduction="mean"):
    return reduced(-(t * np.log(p) + (1 - t) * np.log(1 - p)), reduction)


def bce_logits(x, t, weight=None, pos_weight=1.0, reduction="mean"):
    loss = -(pos_weight * t * special.log_expit(x) + (1 - t) * special.log_expit(-x))
    return reduced(loss if weight is None else loss * weight, reduction)


def logits_with_weights(x, t, weight, pos_weight):
    return pdl.binary_cross_entropy_with_logits(x, t, weight=weight, pos_weight=pos_weight)


def kl(x, t, log_target=False, reduction="mean"):
    loss = np.exp(t) * (t - x) if log_target else special.xlogy(t, t) - t * x
    return loss.sum() / len(x) if reduction == "batchmean" else reduced(loss, reduction)


def cosine(a, b):
    return (a * b).sum(-1) / np.linalg.norm(a, axis=-1) / np.linalg.norm(b, axis=-1)


def cosine_embedding(a, b, sign, margin=0.0, reduction="mean"):
    return reduced(np.where(sign == 1, 1 - cosine(a, b), np.maximum(cosine(a, b) - margin, 0)), reduction)


def triplet(a, p, n, margin=1.0, reduction="mean"):
    near, far = (np.linalg.norm(a - o + 1e-6, axis=-1) for o in (p, n))
    return reduced(np.maximum(near - far + margin, 0), reduction)


def multi_margin(x, labels, margin=1.0):
    right = np.take_along_axis(x, labels[:, None], -1)
    loss = np.maximum(margin - right + x, 0)
    np.put_along_axis(loss, labels[:, None], 0.0, -1)
    return loss.mean(-1).mean()


LABELS, SIGNS = i(6), np.where(i(4, high=2) == 1, 1, -1)
HOLES = np.array([0, -100, 3, 1, -100, 4])
SOFT = special.softmax(f(6, 5), axis=-1)
UNIT = {"low": 0.1, "high": 0.9}
CASES = [
    Case(pdl.cross_entropy, [f(6, 5), LABELS], cross_entropy),
    Case(pdl.cross_entropy, [f(6, 19), LABELS], cross_entropy, {"reduction": "sum"}),
    Case(pdl.cross_entropy, [f(2, 3, 5), LABELS.reshape(2, 3)], cross_entropy, {"reduction": "none"}),
    Case(pdl.cross_entropy, [f(6, 5), HOLES], cross_entropy),
    Case(pdl.cross_entropy, [f(6, 5), LABELS], cross_entropy, {"label_smoothing": 0.1, "ignore_index": 2}),
    Case(with_weight, [f(6, 5), HOLES, f(5, **UNIT)], cross_entropy, {"label_smoothing": 0.2}, grad=[0]),
    Case(with_weight, [f(6, 5), HOLES, f(5, **UNIT)], cross_entropy, {"reduction": "none"}, grad=[0]),
    Case(pdl.cross_entropy, [f(6, 5), SOFT], soft),
    Case(pdl.cross_entropy, [f(6, 5), SOFT], soft, {"label_smoothing": 0.1, "reduction": "none"}),
    Case(pdl.cross_entropy, [f(7, 19), f(7, 19, low=0)], soft, {"label_smoothing": 0.1, "reduction": "sum"}),
    Case(with_weight, [f(6, 5), SOFT, f(5, **UNIT)], soft, {"label_smoothing": 0.2}, grad=[0, 1]),
    Case(pdl.nll_loss, [f(6, 5), HOLES], nll_loss),
    Case(nll_with_weight, [f(2, 3, 5), LABELS.reshape(2, 3), f(5, **UNIT)], nll_loss, {"ignore_index": 2}),
    Case(pdl.nll_loss, [f(6, 5), LABELS], nll_loss, {"reduction": "none"}),
    Case(pdl.mse_loss, [f(3, 4), f(3, 4)], lambda x, t: reduced((x - t) ** 2)),
    Case(
        pdl.mse_loss,
        [f(3, 4), f(3, 4)],
        lambda x, t, reduction: reduced((x - t) ** 2, reduction),
        {"reduction": "none"},
    ),
    Case(pdl.l1_loss, [distinct(3, 4), f(3, 4, high=-0.99)], lambda x, t: reduced(np.abs(x - t))),
    Case(pdl.huber_loss, [distinct(3, 4, gap=0.7), np.zeros((3, 4))], huber, {"delta": 1.5, "reduction": "sum"}),
    Case(
        pdl.smooth_l1_loss,
        [distinct(3, 4, gap=0.7), np.zeros((3, 4))],
        lambda x, t, beta: huber(x, t, beta) / beta,
        {"beta": 0.5},
    ),
    Case(pdl.binary_cross_entropy, [f(3, 4, **UNIT), f(3, 4, **UNIT)], bce),
    Case(pdl.binary_cross_entropy_with_logits, [f(3, 4, low=-9, high=9), f(3, 4, low=0)], bce_logits),
    Case(logits_with_weights, [f(3, 4), f(3, 4, low=0), f(4, low=0), f(4, low=0.5, high=3)], bce_logits),
    Case(pdl.kl_div, [f(3, 4), f(3, 4, **UNIT)], kl, {"reduction": "batchmean"}),
    Case(pdl.kl_div, [f(3, 4), np.maximum(f(3, 4), 0)], kl, {"reduction": "sum"}, grad=[0]),
    Case(pdl.kl_div, [f(3, 4), f(3, 4)], kl, {"log_target": True}),
    Case(pdl.cosine_similarity, [f(3, 4, low=0.2), f(3, 4)], cosine),
    Case(pdl.cosine_embedding_loss, [f(4, 3, low=0.2), f(4, 3, low=0.2), SIGNS], cosine_embedding, {"margin": 0.1}),
    Case(
        pdl.margin_ranking_loss,
        [distinct(4), f(4, high=-0.99), SIGNS],
        lambda a, b, s, margin: reduced(np.maximum(margin - s * (a - b), 0)),
        {"margin": 0.2},
    ),
    Case(
        pdl.hinge_embedding_loss,
        [f(4, low=0.2, high=2.5), SIGNS],
        lambda x, s: reduced(np.where(s == 1, x, np.maximum(1 - x, 0))),
    ),
    Case(pdl.triplet_margin_loss, [f(4, 3), f(4, 3), f(4, 3)], triplet, {"margin": 2.5}),
    Case(pdl.multi_margin_loss, [distinct(6, 5), LABELS], multi_margin, {"margin": 1.05}),
]
