"""Which channels belong together, which go, and what a net costs without them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pdl
from pdl import nn
from pdl.errors import ConfigError, UsageError
from pdl.ops.base import Spec
from pdl.program import trace
from pdl.pruning import choosing, cutting
from pdl.pruning.coupling import Coupling

F32 = np.dtype(np.float32)


class Net(nn.Module):
    """A sum, a concatenation, groups, a depthwise convolution, a shuffle and a flattened head."""

    def __init__(self) -> None:
        self.stem = nn.Conv2d(2, 8, 3, padding=1)
        self.block = nn.Conv2d(8, 8, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(8)
        self.side = nn.Conv2d(8, 4, 1)
        self.grouped = nn.Conv2d(12, 8, 3, padding=1, groups=2)
        self.depthwise = nn.Conv2d(8, 16, 3, padding=1, groups=8)
        self.up = nn.ConvTranspose2d(16, 6, 2, stride=2)
        self.fc = nn.Linear(6 * 8 * 8, 5)
        self.head = nn.Linear(5, 3)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        x = self.stem(x)
        x = pdl.relu(self.norm(self.block(x)) + x)
        x = pdl.silu(self.grouped(pdl.concat([x, self.side(x)], axis=-1)))
        n, h, w, c = x.shape
        x = pdl.reshape(pdl.permute_dims(pdl.reshape(x, (n, h, w, 2, c // 2)), (0, 1, 2, 4, 3)), (n, h, w, c))
        x = pdl.sigmoid(self.up(self.depthwise(x)))
        return self.head(pdl.relu(self.fc(pdl.reshape(x, (n, -1)))))


def coupling(net: nn.Module) -> Coupling:
    programs = []
    for training in (True, False):
        net.train(training)
        programs.append(trace(net, Spec((2, 4, 4, 2), F32), modules=[net]))
    return Coupling(net, programs, 2)


@pytest.fixture
def net() -> Net:
    pdl.seed(0)
    return Net()


def test_what_belongs_together(net: Net) -> None:
    groups = {group.name: (len(group.units), {name for name, _ in group.axes}) for group in coupling(net).groups}
    # the halves of the grouped convolution read 6 of [sum of 8, side of 4] each, so the places of both are one
    assert groups["fc.weight"] == (5, {"fc.weight", "fc.bias", "head.weight"})
    assert groups["up.weight"] == (6, {"up.weight", "up.bias", "fc.weight"})
    assert groups["grouped.weight"][0] == 4  # the same places go from both groups
    assert {"depthwise.weight", "up.weight"} < groups["grouped.weight"][1]
    assert not any("head.bias" in names for _, names in groups.values())  # classes stay


@pytest.mark.parametrize("share", [0.3, 0.6])
def test_a_smaller_net_is_the_masked_one(net: Net, share: float) -> None:
    made = coupling(net)
    draws = np.random.default_rng(0)
    gone = [
        group.units[i]
        for group in made.groups
        for i in draws.permutation(len(group.units))[: choosing.most(group, share, 1)]
    ]
    x = pdl.tensor(draws.standard_normal((3, 4, 4, 2)).astype(np.float32))
    whole = net.eval()(x).data
    cutting.mask(made, gone)
    masked = net(x).data
    shapes = cutting.cut(net, made, gone)
    assert np.abs(masked - whole).max() > 1e-3
    np.testing.assert_allclose(net(x).data, masked, atol=1e-6)
    again = Net().eval()
    cutting.shape(again, shapes)
    again.load_state_dict(net.state_dict())
    np.testing.assert_array_equal(again(x).data, net(x).data)
    assert again.depthwise.groups == net.depthwise.groups == again.grouped.out_channels
    assert repr(again) == repr(net)


def test_costs_are_those_of_the_smaller_net(net: Net) -> None:
    made = coupling(net)
    measures: dict[str, Any] = {name: choosing.Costs(made, name) for name in ("macs", "parameters")}  # type: ignore[arg-type]
    counts = choosing.uniform(made, measures["macs"], 0.5)
    worth = choosing.importance(made, net, "l1")
    told = {name: measure(counts) for name, measure in measures.items()}
    assert told["macs"] <= 0.5 * measures["macs"]([0] * len(counts))
    cutting.cut(net, made, choosing.least(made, worth, counts))
    found = nn.summary(net, (1, 4, 4, 2))
    assert found.multiply_adds == told["macs"]
    assert sum(p.size for p in net.parameters()) == told["parameters"]


def test_latency_is_measured_once(net: Net) -> None:
    made = coupling(net)
    cost = choosing.Costs(made, "latency")
    assert cost([0] * len(made.groups)) > 0
    assert cost.table is not None
    known = dict(cost.table.known)
    cost([0] * len(made.groups))
    assert cost.table.known == known


def test_criteria_by_hand(net: Net) -> None:
    made = coupling(net)
    at = next(i for i, group in enumerate(made.groups) if group.name == "fc.weight")
    w = net.fc.weight.data.astype(np.float64)
    np.testing.assert_allclose(choosing.importance(made, net, "l1")[at], np.abs(w).sum(axis=0), rtol=1e-6)
    apart = np.linalg.norm(w[:, :, None] - w[:, None, :], axis=0).sum(axis=0)
    np.testing.assert_allclose(choosing.importance(made, net, "fpgm")[at], apart, rtol=1e-6)
    norm = next(i for i, group in enumerate(made.groups) if "norm.weight" in dict(group.axes))
    net.norm.weight.data[...] = np.arange(8) - 4.0
    scales = [
        np.abs(net.norm.weight.data[list(place.indices)]).sum()
        for unit in made.groups[norm].units
        for place in unit
        if place.name == "norm.weight"
    ]
    np.testing.assert_allclose(choosing.importance(made, net, "norm")[norm], scales)

    def batches() -> Any:
        for seed in range(2):
            net.zero_grad()
            pdl.mean(pdl.square(net.eval()(pdl.ones((2, 4, 4, 2)) * (seed + 1)))).backward()
            gradients.append(net.fc.weight.grad.data * net.fc.weight.data)  # type: ignore[union-attr]
            yield

    gradients: list[Any] = []
    found = choosing.importance(made, net, "taylor", batches())[at]
    np.testing.assert_allclose(found, np.mean([np.square(g.sum(axis=0)) for g in gradients], axis=0), rtol=1e-4)
    with pytest.raises(UsageError, match="at least one batch"):
        choosing.importance(made, net, "taylor", ())


def test_what_hurts_least_goes_first(net: Net) -> None:
    made = coupling(net)
    cost = choosing.Costs(made, "macs")
    dear = next(i for i, group in enumerate(made.groups) if group.name == "fc.weight")
    counts = choosing.by_damage(made, cost, 0.7, lambda number, share: share * (100.0 if number == dear else 1.0))
    assert counts[dear] == 0
    assert cost(counts) <= 0.7 * cost([0] * len(counts))
    with pytest.raises(UsageError, match="cannot be reached"):
        choosing.uniform(made, cost, 0.001)
    with pytest.raises(UsageError, match="cannot be reached"):
        choosing.by_damage(made, cost, 0.001, lambda number, share: share)


@pytest.mark.parametrize(
    ("n", "share", "align", "left"), [(16, 0.5, 8, 8), (16, 0.9, 8, 8), (6, 0.5, 8, 3), (9, 1, 1, 1)]
)
def test_how_many_are_left(net: Net, n: int, share: float, align: int, left: int) -> None:
    group = coupling(net).groups[0]
    assert n - choosing.most(group._replace(units=group.units[:1] * n), share, align) == left


def test_shapes_that_do_not_fit(net: Net) -> None:
    with pytest.raises(ConfigError, match="has no weight 'nothing'"):
        cutting.shape(net, {"nothing": [1]})
    with pytest.raises(ConfigError, match="none larger"):
        cutting.shape(net, {"fc.bias": [6]})


def test_a_net_that_is_tied_has_no_groups() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            self.norm, self.fc = nn.LayerNorm(2), nn.Linear(2, 2)

        def forward(self, x: pdl.Tensor) -> pdl.Tensor:
            return self.norm(self.fc(x))

    assert coupling(Tied()).groups == []
