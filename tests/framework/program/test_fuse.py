"""Fusion: which ops a pattern becomes, and that values and gradients stay what they were."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

import pdl
from pdl import nn
from pdl.program import CompiledStep, trace
from pdl.program.passes import FORWARD, run_passes
from pdl.program.passes.fuse import RULES, Graph


class Net(nn.Module):
    """Layers for the patterns, each with parameters that are neither 0 nor 1."""

    def __init__(self) -> None:
        self.norm, self.other = nn.BatchNorm2d(6), nn.BatchNorm2d(6)
        self.layer_norm, self.dropout = nn.LayerNorm(6), nn.Dropout(0.3)
        self.head, self.linear = nn.Linear(6, 5000), nn.Linear(6, 6)
        self.conv, self.narrow = nn.Conv2d(6, 32, 3, padding=1), nn.Conv2d(6, 6, 3, padding=1)
        rng = np.random.default_rng(4)
        for p in self.parameters():
            p.data[...] += rng.uniform(-0.3, 0.3, p.shape)


@dataclass
class Pattern:
    """Code, the ops it becomes (others are not looked at), and how many."""

    function: Callable[[Net, pdl.Tensor], pdl.Tensor]
    op: str
    gone: tuple[str, ...]


def classes(net: Net, x: pdl.Tensor) -> pdl.Tensor:
    rows = x.mean(axis=(1, 2))
    return pdl.cross_entropy(net.head(rows), pdl.tensor(np.arange(x.shape[0]) * 7), label_smoothing=0.1)


PATTERNS = {
    "norm, relu": Pattern(lambda n, x: pdl.relu(n.norm(x)), "BatchNorm", ("Relu",)),
    "norm, relu6": Pattern(lambda n, x: pdl.relu6(n.norm(x)), "BatchNorm", ("Hardtanh",)),
    "norm, silu": Pattern(lambda n, x: pdl.silu(n.norm(x)), "BatchNorm", ("Silu",)),
    "norm + residual": Pattern(lambda n, x: n.norm(x * 2) + x, "BatchNorm", ("Add",)),
    "relu(shortcut + norm)": Pattern(
        lambda n, x: pdl.relu(n.other(x * 3) + n.norm(pdl.tanh(x))), "BatchNorm", ("Add", "Relu")
    ),
    "the residual comes later": Pattern(
        lambda n, x: pdl.relu(n.norm(x) + pdl.tanh(pdl.exp(x) * 0.1)), "BatchNorm", ("Add", "Relu")
    ),
    "sum, layer norm": Pattern(lambda n, x: n.layer_norm(x + pdl.tanh(x)), "AddLayerNorm", ("Add", "LayerNorm")),
    "the sum is read twice": Pattern(
        lambda n, x: n.layer_norm(s := x + pdl.tanh(x)) * s, "AddLayerNorm", ("Add", "LayerNorm")
    ),
    "sum of what was dropped": Pattern(
        lambda n, x: n.layer_norm(x + n.dropout(pdl.tanh(x))), "AddLayerNorm", ("Add", "Dropout", "LayerNorm")
    ),
    "convolution, relu": Pattern(lambda n, x: pdl.relu(n.conv(x))[..., :6], "ConvAct", ("Conv", "Relu")),
    "convolution, sigmoid": Pattern(lambda n, x: pdl.sigmoid(n.conv(x))[..., 9:15], "ConvAct", ("Conv", "Sigmoid")),
    "linear, relu": Pattern(lambda n, x: pdl.relu(n.linear(x)), "LinearAct", ("Linear", "Relu")),
    "linear, gelu": Pattern(lambda n, x: pdl.gelu(n.linear(x)), "LinearAct", ("Linear", "Gelu")),
    "many classes": Pattern(classes, "LinearCrossEntropy", ("Linear", "CrossEntropy")),
}
KEPT = {
    "the norm is read twice": lambda n, x: pdl.relu(y := n.norm(x)) + pdl.tanh(y),
    "silu behind a residual": lambda n, x: pdl.silu(n.norm(x, residual=x)),
    "gelu behind a convolution": lambda n, x: pdl.gelu(n.conv(x)),
    "few channels": lambda n, x: pdl.relu(n.narrow(x)),
    "a residual to broadcast": lambda n, x: n.norm(x) + x[:1],
}
X = np.random.default_rng(3).standard_normal((4, 5, 3, 6)).astype(np.float32)


def ops_of(function: Callable[[Net, pdl.Tensor], pdl.Tensor]) -> tuple[list[str], list[str]]:
    """Names of the ops before and after fusion."""
    net = Net()
    program = trace(lambda x: function(net, x), X, modules=[net])
    before = [type(n.op).__name__ for n in program.nodes]
    run_passes(program, FORWARD)
    return before, [type(n.op).__name__ for n in program.nodes]


@pytest.mark.parametrize("name", PATTERNS)
def test_pattern(name: str) -> None:
    pattern = PATTERNS[name]
    before, after = ops_of(pattern.function)
    assert pattern.op in after
    for gone in pattern.gone:
        assert gone in before
        assert gone not in after, f"{gone} is left in {after}"


@pytest.mark.parametrize("name", KEPT)
def test_what_must_stay(name: str) -> None:
    before, after = ops_of(KEPT[name])
    assert sorted(before) == sorted(after)


@pytest.mark.parametrize("name", PATTERNS)
def test_step_equals_eager(name: str) -> None:
    function, weight = PATTERNS[name].function, np.random.default_rng(5).standard_normal(X.shape).astype(np.float32)

    def loss(x: pdl.Tensor) -> pdl.Tensor:
        y = function(net, x * net.scale)
        return y if not y.ndim else (y * pdl.as_tensor(weight)).sum()

    net = Net()
    net.scale = nn.Parameter(np.full(6, 0.7, np.float32))
    step = CompiledStep(loss, net, notify=pytest.fail)
    running = {name: b.data.copy() for name, b in net.named_buffers()}
    found = []
    for run in (step, step.eager):
        pdl.seed(1)
        for name_, b in net.named_buffers():
            b.data[...] = running[name_]
        value = float(run(pdl.tensor(X)))
        grads = [None if p.grad is None else p.grad.data.copy() for p in net.parameters()]
        found.append((value, grads, [b.data.copy() for b in net.buffers()]))
    (value, grads, buffers), (value_eager, grads_eager, buffers_eager) = found
    assert value == pytest.approx(value_eager, rel=1e-4, abs=1e-4)
    for g, want in zip([*grads, *buffers], [*grads_eager, *buffers_eager], strict=True):
        assert (g is None) == (want is None)
        if want is not None:
            np.testing.assert_allclose(g, want, rtol=1e-3, atol=1e-3)


def test_every_rule_has_a_pattern() -> None:
    fired = set()
    for pattern in PATTERNS.values():
        net = Net()
        program = trace(lambda x, p=pattern, n=net: p.function(n, x), X, modules=[net])
        fired |= {rule for rule in RULES for node in program.nodes if rule(node, Graph(program)) is not None}
    assert fired == set(RULES)
