"""The whole product on one page: tensors, gradients, a module, an optimiser, a recipe."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import pdl
from pdl import nn, optim


def test_gradient_of_a_product() -> None:
    x = pdl.tensor([2.0, 3.0], requires_grad=True)
    (x * x).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [4.0, 6.0]


def test_second_derivative() -> None:
    x = pdl.tensor(2.0, dtype="float64", requires_grad=True)
    (first,) = pdl.autograd.grad(x**3, x, create_graph=True)
    assert first is not None
    (second,) = pdl.autograd.grad(first, x)
    assert second is not None
    assert second.item() == pytest.approx(12.0)


def test_convolution_is_channels_last() -> None:
    x, w = pdl.ones((1, 5, 5, 3)), pdl.ones((3, 3, 3, 4))
    y = pdl.conv2d(x, w, padding=1)
    assert y.shape == (1, 5, 5, 4)
    assert y[0, 2, 2, 0].item() == 27.0


def test_a_net_learns_xor() -> None:
    pdl.seed(0)
    x = pdl.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    y = pdl.tensor(np.array([0, 1, 1, 0]))
    net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))
    optimizer = optim.Adam(net.parameters(), lr=0.05)
    for _ in range(100):
        optimizer.zero_grad()
        pdl.cross_entropy(net(x), y).backward()
        optimizer.step()
    assert pdl.argmax(net(x), axis=1).tolist() == [0, 1, 1, 0]


def test_a_recipe_trains(tmp_path: Path) -> None:
    cfg = pdl.config.load(Path(__file__).parents[1] / "configs/cv/digits_lenet.yaml", ["train.epochs=1"])
    result = pdl.workflow.train(cfg, run=tmp_path / "run")
    assert result.metrics["test/accuracy"] > 0.5
    assert (tmp_path / "run/result.json").is_file()
