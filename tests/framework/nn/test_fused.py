"""Chains of convolution and batch norm against the layers one after the other."""

from __future__ import annotations

import numpy as np
import pytest

import pdl
from pdl import nn
from pdl.errors import ShapeError
from pdl.nn.fused import conv_norm, finish

RNG = np.random.default_rng(8)


def layers(dtype: str) -> nn.ModuleList:
    """Expand, filter, project: the layers of an inverted residual block of 4 channels."""
    made = nn.ModuleList([
        nn.Conv2d(4, 12, 1, bias=False), nn.BatchNorm2d(12),
        nn.Conv2d(12, 12, 3, padding=1, groups=12, bias=False), nn.BatchNorm2d(12),
        nn.Conv2d(12, 4, 1, bias=False), nn.BatchNorm2d(4),
    ])  # fmt: skip
    for p in made.parameters():
        p.data[...] = RNG.uniform(0.5, 1.5, p.shape)
    return made.to(dtype)


def chained(net: nn.ModuleList, x: pdl.Tensor) -> pdl.Tensor:
    a, an, b, bn, c, cn = net
    return finish(conv_norm(conv_norm(conv_norm(x, a, an, "relu6"), b, bn, "relu6"), c, cn), residual=x)


def plain(net: nn.ModuleList, x: pdl.Tensor) -> pdl.Tensor:
    a, an, b, bn, c, cn = net
    return x + cn(c(pdl.relu6(bn(b(pdl.relu6(an(a(x))))))))


@pytest.mark.parametrize("training", [True, False])
def test_the_same_as_the_layers(training: bool) -> None:
    net = layers("float64").train(training)
    x = pdl.Tensor(RNG.standard_normal((2, 5, 6, 4)), requires_grad=True)
    found: list[list[np.ndarray]] = []
    start = {n: v.data.copy() for n, v in net.state_dict().items()}
    for forward in (chained, plain):
        for name, value in net.state_dict().items():
            value.data[...] = start[name]
        net.zero_grad()
        x.grad = None
        y = forward(net, x)
        (y * y).sum().backward()
        buffers = [b.data.copy() for b in net.buffers()]
        found.append([y.data, x.grad.data, *(p.grad.data for p in net.parameters()), *buffers])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-8)


def test_bfloat16_keeps_statistics_in_float32() -> None:
    net = layers("float32")
    x = pdl.Tensor(RNG.standard_normal((2, 5, 6, 4)).astype(np.float32))
    with pdl.autocast():
        y = chained(net, x)
    assert y.dtype == pdl.bfloat16
    np.testing.assert_allclose(y.data.astype(np.float32), plain(net, x).data, atol=0.1)
    raw = conv_norm(pdl.astype(x, "bfloat16"), net[0], net[1])
    assert [t.dtype for t in raw.norm] == [np.float32] * 4


def test_refusal() -> None:
    with pytest.raises(ShapeError, match="has a bias"):
        conv_norm(pdl.zeros((1, 4, 4, 2)), nn.Conv2d(2, 3, 1), nn.BatchNorm2d(3))
