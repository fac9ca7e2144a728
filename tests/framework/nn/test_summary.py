"""`summary`: shapes, parameters and multiply-adds against counts by hand."""

from __future__ import annotations

import numpy as np
import pytest

import pdl
from pdl import nn
from pdl.ops.listeners import listeners

NET = [
    ("Conv2d", (1, 4, 4, 6), 3 * 3 * 2 * 6 + 6, 16 * 6 * 18),
    ("BatchNorm2d", (1, 4, 4, 6), 12, 0),
    ("ReLU", (1, 4, 4, 6), 0, 0),
    ("Flatten", (1, 96), 0, 0),
    ("Linear", (1, 5), 96 * 5 + 5, 96 * 5),
]


def net() -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(2, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.Flatten(), nn.Linear(96, 5))


def test_rows_and_totals() -> None:
    found = nn.summary(net(), (1, 4, 4, 2))
    assert [(r.layer, r.output_shape, r.parameters, r.multiply_adds) for r in found.rows] == NET
    assert (found.parameters, found.trainable, found.buffers) == (611, 611, 12)
    assert found.multiply_adds == 1728 + 480
    assert nn.summary(net(), pdl.zeros((3, 4, 4, 2))).multiply_adds == 3 * (1728 + 480)


def test_text() -> None:
    model = net()
    model.get_submodule("0").requires_grad_(False)
    text = str(nn.summary(model, (1, 4, 4, 2)))
    assert text.splitlines()[2].split() == ["0", "Conv2d", "1", "x", "4", "x", "4", "x", "6", "114", "1,728"]
    assert (
        text.splitlines()[-1]
        == "Sequential: 611 parameters (114 frozen); 2,208 multiply-adds for an input of 1 x 4 x 4 x 2"
    )
    assert "multiply-adds" not in str(nn.summary(model))


def test_nothing_is_changed() -> None:
    model = net()
    model.get_submodule("1").eval()
    before = {n: v.data.copy() for n, v in model.state_dict().items()}
    modes = [m.training for m in model.modules()]
    nn.summary(model, (1, 4, 4, 2))
    assert [m.training for m in model.modules()] == modes
    assert all(np.array_equal(v.data, before[n]) for n, v in model.state_dict().items())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    assert not listeners.observers


def test_what_a_container_computes_itself_is_its_own_row() -> None:
    found = nn.summary(nn.MultiHeadAttention(4, 2), (1, 3, 4))
    own = next(row for row in found.rows if row.name == "")
    assert own.multiply_adds == 3 * 4 * 12 + 2 * (2 * 3 * 3 * 2)  # the projection of q, k and v, and attention
    assert found.multiply_adds == own.multiply_adds + 3 * 4 * 4


@pytest.mark.parametrize(("layer", "shape", "expected"), [
    (nn.Conv2d(4, 8, 3, groups=2, bias=False), (1, 5, 5, 4), 9 * 8 * 18),
    (nn.ConvTranspose2d(4, 8, 2, stride=2), (1, 3, 3, 4), 9 * 4 * 32),
    (nn.Conv1d(4, 8, 3), (1, 5, 4), 3 * 8 * 12),
])  # fmt: skip
def test_multiply_adds(layer: nn.Module, shape: tuple[int, ...], expected: int) -> None:
    assert nn.summary(layer, shape).multiply_adds == expected


class Halving(nn.Module):
    """Runs its layer until the sum is small: how often depends on values."""

    def __init__(self) -> None:
        self.layer = nn.Linear(4, 4)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        y = self.layer(x)
        return self.layer(y) if float(y.sum()) > -1e9 else y


class Branching(nn.Module):
    def __init__(self) -> None:
        self.layer = nn.Linear(4, 4)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        return pdl.jit.cond(pdl.sum(x) < 1, lambda: self.layer(self.layer(x)), lambda: x)  # type: ignore[no-any-return]


@pytest.mark.parametrize("make", [Halving, Branching])
def test_what_depends_on_values_is_run(make: type[nn.Module]) -> None:
    assert nn.summary(make(), (3, 4)).multiply_adds == 2 * 3 * 16
    assert nn.summary(make(), pdl.zeros((3, 4))).multiply_adds == 2 * 3 * 16


def test_nothing_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    model = net()

    def refuse(*args: object) -> None:
        raise AssertionError("an op ran")

    monkeypatch.setattr(pdl.ops.base.OPS["Conv"], "cpu", refuse)
    assert nn.summary(model, (1000, 4, 4, 2)).multiply_adds == 1000 * (1728 + 480)


def test_a_module_out_of_sight_counts_for_the_whole() -> None:
    class Hidden(nn.Module):
        def __init__(self) -> None:
            self._layers = [nn.Linear(4, 4)]

        def forward(self, x: pdl.Tensor) -> pdl.Tensor:
            return self._layers[0](x)  # type: ignore[no-any-return]

    assert nn.summary(Hidden(), (3, 4)).multiply_adds == 3 * 16
