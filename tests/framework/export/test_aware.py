"""Nets that are trained with the roundings of bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pdl
from pdl import nn
from pdl.dims import Dim
from pdl.errors import UsageError
from pdl.export.quantise import calibrate
from pdl.export.quantise.aware import SHARE, Rounded, described, inputs_of
from pdl.export.symbolic import trace_symbolic
from pdl.ops.base import Spec
from pdl.ops.quant import QConv, QLinear
from pdl.program import Executable, StepProgram, bind, specialise

INPUTS = {"image": Spec((Dim.symbol("n", 3), 6, 6, 2), np.dtype(np.float32))}


class Net(nn.Module):
    def __init__(self) -> None:
        self.first, self.norm = nn.Conv2d(2, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.second, self.head = nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.Linear(8, 3)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        x = pdl.relu(self.norm(self.first(x)))
        return self.head(pdl.global_avg_pool(pdl.clip(self.second(x) + x, 0.0, 6.0)))


@pytest.fixture
def made() -> tuple[Net, Rounded, Any]:
    pdl.seed(0)
    net, x = Net(), pdl.randn((8, 6, 6, 2)).data
    with pdl.no_grad():
        net(pdl.tensor(x))
    rounded = Rounded(net.eval(), INPUTS)
    rounded.calibrate([[x]])
    return net, rounded.eval(), x


def run(program: Any, x: Any) -> Any:
    return np.array(Executable(specialise(program, bind(program, (x.shape,))))(x)[0])


def test_it_is_what_the_exporter_writes(made: tuple[Net, Rounded, Any]) -> None:
    net, rounded, x = made
    with pdl.no_grad():
        whole, found = net(pdl.tensor(x)).data, rounded(pdl.tensor(x)).data
    spread = np.abs(whole).max()
    assert 0 < np.abs(found - whole).max() < 0.05 * spread
    program, notes = trace_symbolic(rounded, INPUTS)
    assert notes == []
    on_bytes = calibrate(program, [[x]])
    assert on_bytes.method == "as trained"
    np.testing.assert_array_equal(run(on_bytes.floats, x), found)
    assert sum(isinstance(n.op, QConv | QLinear) for n in on_bytes.program.nodes) == 3
    np.testing.assert_allclose(run(on_bytes.program, x), found, atol=0.02 * spread)
    usual = calibrate(trace_symbolic(net, INPUTS)[0], [[x]])  # the same places, by the same ranges
    np.testing.assert_allclose(run(usual.pairs, x), found, atol=0.02 * spread)
    assert len(usual.errors) == len(rounded.low.data)


def test_weights_come_from_the_norm_and_go_by_name(made: tuple[Net, Rounded, Any]) -> None:
    net, rounded, x = made
    names = dict(rounded.named_parameters())
    assert {name: p.shape for name, p in names.items()} == {
        "first.weight": (3, 3, 2, 8), "first.bias": (8,), "second.weight": (3, 3, 8, 8),
        "head.weight": (8, 3), "head.bias": (3,),
    }  # fmt: skip
    scale = net.norm.weight.data / np.sqrt(net.norm.running_var.data + net.norm.eps)  # type: ignore[union-attr]
    np.testing.assert_allclose(names["first.weight"].data, net.first.weight.data * scale, rtol=1e-5)
    other = Net()
    for tensor in (*other.parameters(), *other.buffers()):  # whatever it holds, it has places for all of that
        if tensor.dtype.kind == "f":
            tensor._data[...] = np.random.default_rng(1).uniform(0.5, 1.5, tensor.shape)
    again = Rounded(other.eval(), inputs_of(described(INPUTS))).eval()
    again.load_state_dict(rounded.state_dict())
    with pdl.no_grad():
        np.testing.assert_array_equal(again(pdl.tensor(x)).data, rounded(pdl.tensor(x)).data)
    assert isinstance(rounded, Net)  # and what the net has, it has
    assert rounded.norm is net.norm
    assert rounded.first.kernel_size == (3, 3)


def test_gradients_go_straight_through(made: tuple[Net, Rounded, Any]) -> None:
    _, rounded, x = made
    rounded.low.data[...], rounded.high.data[...] = -1e3, 1e3  # nothing is clipped; rounding is coarse
    rounded.train()
    pdl.sum(rounded(pdl.tensor(x))).backward()
    bias = next(p for p in rounded.parameters() if p.shape == (3,))
    np.testing.assert_allclose(bias.grad.data, len(x))  # type: ignore[union-attr]
    rounded.high.data[...] = rounded.low.data[...] = 0.0  # everything is clipped
    rounded.zero_grad()
    pdl.sum(rounded(pdl.tensor(x + 10))).backward()
    for p in rounded.parameters():
        assert p is bias or p.shape == (8, 3) or p.grad is None or np.abs(p.grad.data).max() < 1e-6


def test_the_gradient_is_that_of_the_net_with_rounded_weights(made: tuple[Net, Rounded, Any]) -> None:
    """Of the last layer: d/dW of mean(y^2) with the rounded W and what it reads, by central differences over a W that
    is not rounded."""
    _, rounded, x = made
    rounded.train()
    weight = next(p for p in rounded.parameters() if p.shape == (8, 3))
    pdl.mean(pdl.square(rounded(pdl.tensor(x)))).backward()
    got = weight.grad.data.copy()  # type: ignore[union-attr]
    seen: list[Any] = []
    rounded._weight = lambda w: w if w.shape != (8, 3) else seen.append(w) or Rounded._weight(rounded, w)  # type: ignore[assignment, func-returns-value]
    with pdl.no_grad():
        base = Rounded._weight(rounded.eval(), weight).data.copy()
    delta, wanted = 1e-2, np.zeros_like(base)
    rounded.train()
    kept = weight.data.copy()
    for index in np.ndindex(base.shape):
        values = []
        for sign in (1, -1):
            moved = base.copy()
            moved[index] += sign * delta
            rounded._weight = lambda w, m=moved: pdl.tensor(m) if w.shape == (8, 3) else Rounded._weight(rounded, w)  # type: ignore[assignment, misc]
            low, high = rounded.low.data.copy(), rounded.high.data.copy()
            with pdl.no_grad():
                values.append(pdl.mean(pdl.square(rounded(pdl.tensor(x)))).item())
            rounded.low.data[...], rounded.high.data[...] = low, high
        wanted[index] = (values[0] - values[1]) / (2 * delta)
    assert (kept == weight.data).all()
    np.testing.assert_allclose(got, wanted, atol=2e-2 * np.abs(wanted).max())


def test_ranges_follow_the_batches_and_a_step_compiles(made: tuple[Net, Rounded, Any]) -> None:
    _, rounded, x = made
    ends = rounded.low.data.copy(), rounded.high.data.copy()
    rounded.train()
    rounded(pdl.tensor(2 * x))
    wanted = (1 - SHARE) * ends[1][0] + SHARE * 2 * x.max()
    assert rounded.high.data[0] == pytest.approx(wanted, rel=1e-5)
    rounded.low.data[...], rounded.high.data[...] = ends
    pdl.mean(pdl.square(rounded(pdl.tensor(x)))).backward()
    eager = {name: p.grad.data.copy() for name, p in rounded.named_parameters()}  # type: ignore[union-attr]
    after = rounded.high.data.copy()
    rounded.low.data[...], rounded.high.data[...] = ends
    step = StepProgram(lambda b: pdl.mean(pdl.square(rounded(b))), rounded, (pdl.tensor(x),), "step")
    step(pdl.tensor(x))
    np.testing.assert_allclose(rounded.high.data, after, rtol=1e-5)
    for name, p in rounded.named_parameters():
        assert p.grad is not None
        np.testing.assert_allclose(p.grad.data, eager[name], atol=1e-5)


def test_refusals(made: tuple[Net, Rounded, Any]) -> None:
    _, rounded, x = made
    with pytest.raises(UsageError, match="method='best'"):
        rounded.calibrate([[x]], "best")

    class Nothing(nn.Module):
        def forward(self, x: pdl.Tensor) -> pdl.Tensor:
            return pdl.relu(x)

    with pytest.raises(UsageError, match="to put on bytes"):
        Rounded(Nothing().eval(), INPUTS)
