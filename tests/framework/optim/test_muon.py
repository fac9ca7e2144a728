"""Muon against its formulas in NumPy, and which parameters it takes for matrices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import pdl
from pdl import nn, optim
from pdl.errors import UsageError
from pdl.optim.muon import COEFFICIENTS, orthogonal


def newton_schulz(g: np.ndarray, steps: int = 5) -> np.ndarray:
    """As published by Jordan et al., in float64."""
    a, b, c = COEFFICIENTS
    x = g.T if g.shape[0] > g.shape[1] else g
    x = x / np.linalg.norm(x)
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if g.shape[0] > g.shape[1] else x


def muon(p: np.ndarray, lr: float, options: dict[str, Any]) -> np.ndarray:
    """Six updates with g = sin(3 p + t)."""
    momentum, decay = options.get("momentum", 0.95), options.get("weight_decay", 0.1)
    m = np.zeros_like(p)
    for t in range(6):
        g = np.sin(3 * p + t)
        m = momentum * m + (1 - momentum) * g
        d = (1 - momentum) * g + momentum * m if options.get("nesterov", True) else m
        if options.get("adjust_lr_fn") == "original":
            scale = math.sqrt(max(1, p.shape[1] / p.shape[0]))
        else:
            scale = 0.2 * math.sqrt(max(p.shape))
        p = p * (1 - lr * decay) - lr * scale * newton_schulz(d)
    return p


START = np.random.default_rng(0).standard_normal((5, 8))


def run(start: np.ndarray, dtype: str, **options: Any) -> np.ndarray:
    p = nn.Parameter(start.copy(), dtype=dtype)
    optimizer = optim.Muon([p], **options)
    for t in range(6):
        p.grad = pdl.Tensor(np.sin(3 * p.data.astype(np.float64) + t), dtype=dtype)
        optimizer.step()
    return p.data.astype(np.float64)


@pytest.mark.parametrize("start", [START, START.T], ids=["wide", "tall"])
@pytest.mark.parametrize(
    "options",
    [{}, {"nesterov": False, "weight_decay": 0.0}, {"adjust_lr_fn": "original", "momentum": 0.8}],
    ids=["default", "plain", "original"],
)
def test_formula(start: np.ndarray, options: dict[str, Any]) -> None:
    expected = muon(start, 0.1, options)
    np.testing.assert_allclose(run(start, "float64", lr=0.1, **options), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(run(start, "float32", lr=0.1, **options), expected, rtol=2e-3, atol=2e-3)
    rough = run(start, "float32", lr=0.1, ns_dtype="bfloat16", **options)
    np.testing.assert_allclose(rough, expected, rtol=0.1, atol=0.1)


def test_orthogonal_is_nearly_the_polar_factor() -> None:
    x = np.random.default_rng(1).standard_normal((2, 24, 60)).astype(np.float32)
    for dtype in ("float32", "bfloat16"):
        found = np.linalg.svd(orthogonal(x, 5, dtype), compute_uv=False)
        assert 0.6 < found.min() <= found.max() < 1.25


def test_parts_of_a_matrix() -> None:
    """Each part as if it were a parameter of its own."""
    whole = run(START, "float64", lr=0.1, split=[2, 6])
    apart = [muon(START[:, :2], 0.1, {}), muon(START[:, 2:], 0.1, {})]
    np.testing.assert_allclose(whole, np.concatenate(apart, axis=1), rtol=1e-9, atol=1e-12)
    with pytest.raises(UsageError, match="split=3 does not fit a matrix with 8 outputs"):
        run(START, "float64", split=3)


class Net(nn.Module):
    head = "out"

    def __init__(self) -> None:
        self.table, self.body, self.out = nn.Embedding(7, 4), nn.Linear(4, 4), nn.Linear(4, 2)


def test_what_is_no_matrix_is_learned_by_adamw() -> None:
    layout = [
        (group["names"], group["orthogonal"], group["lr"])
        for group in optim.Muon(Net(), lr=0.1, adamw_lr=0.05, adamw=["nothing"]).param_groups
    ]
    others = ["table.weight", "body.bias", "out.weight", "out.bias"]
    assert layout == [(["body.weight"], True, 0.1), (others, False, 0.05)]
    one, two = nn.Parameter([1.0, 2.0]), nn.Parameter([1.0, 2.0])
    muon, adamw = optim.Muon([one], lr=0.1), optim.AdamW([two], lr=0.1, weight_decay=0.1, betas=(0.9, 0.95))
    for optimizer, p in ((muon, one), (adamw, two)):
        p.grad = pdl.Tensor([0.3, -1.0])
        optimizer.step()
    np.testing.assert_array_equal(one.data, two.data)
