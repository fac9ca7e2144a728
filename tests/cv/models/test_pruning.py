"""Every family of classifiers without some of its channels: what is left computes what the whole computes with zeros in
their place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pdl
from pdl import nn
from pdl.ops.base import Spec
from pdl.program import trace
from pdl.pruning import choosing, cutting
from pdl.pruning.coupling import Coupling
from tests.cv.models.published import table
from tests.cv.models.test_zoo import F32, FACTS, pictures, small

FIRST = {family: name for name, (family, _) in reversed(FACTS.items())}  # of families without a quick variant
QUICK = {family: getattr(table(family), "QUICK", None) or name for family, name in FIRST.items()}
LARGE = (
    "alexnet",
    "convnext",
    "densenet",
    "efficientnet",
    "googlenet",
    "inception_v4",
    "mobilenet_v3",
    "swin",
    "vgg",
    "vit",
)
NAMES = [
    pytest.param(name, marks=pytest.mark.slow if name not in QUICK.values() or FACTS[name][0] in LARGE else ())
    for name in FACTS
]


def coupled(net: nn.Module, size: int) -> Coupling:
    programs = []
    for training in (True, False):
        net.train(training)
        programs.append(trace(net, Spec((2, size, size, 2), F32), modules=[net]))
    return Coupling(net, programs, 2)


def statistics(net: nn.Module, size: int) -> None:
    """Running statistics of the net as it is, without which little of an image reaches the end."""
    norms: list[Any] = [m for m in net.modules() if isinstance(m, nn.BatchNorm2d)]
    for norm in norms:
        norm.momentum = 1.0
    with pdl.no_grad():
        net.train()(pdl.tensor(pictures(8, size)))
    net.eval()


@pytest.mark.parametrize("name", NAMES)
def test_a_third_of_the_channels_goes(name: str) -> None:
    net, size = small(name)
    made, draws = coupled(net, size), np.random.default_rng(0)
    assert made.groups
    gone = [
        group.units[i]
        for group in made.groups
        for i in draws.permutation(len(group.units))[: choosing.most(group, 1 / 3, 1)]
    ]
    cutting.mask(made, gone)
    statistics(net, size)
    x = pdl.tensor(pictures(3, size))
    with pdl.no_grad():
        wanted = net(x).data.copy()
        shapes = cutting.cut(net, made, gone)
        np.testing.assert_allclose(net(x).data, wanted, atol=1e-4 * np.abs(wanted).max())
        assert np.abs(wanted - wanted[:1]).max() > 1e-4 * np.abs(wanted).max()  # images are told apart
        np.testing.assert_allclose(net.deployed().eval()(x).data, wanted, atol=1e-3 * np.abs(wanted).max())
    assert sum(p.size for p in net.parameters()) < 0.9 * sum(t.size for t in small(name)[0].parameters())
    assert {key: list(value.shape) for key, value in net.state_dict().items() if key in shapes} == {
        key: shapes[key] for key in net.state_dict() if key in shapes
    }
    coupled(net, size)  # it trains, and may be made smaller again
