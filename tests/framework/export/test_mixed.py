"""int8 with some products in floats: those whose bytes cost most."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pdl
from pdl import nn
from pdl.errors import UsageError
from pdl.export.quantise import calibrate
from pdl.ops.base import Spec
from pdl.ops.quant import QConv
from pdl.program import Executable, trace


class Net(nn.Module):
    """What the second convolution reads has one channel that is a thousand times as large as the others, and that it
    does without: one scale for all leaves the others no steps."""

    def __init__(self) -> None:
        self.first, self.second, self.third = (nn.Conv2d(4, 4, 3, padding=1) for _ in range(3))
        self.first.weight.data[..., 0] *= 1e3
        self.second.weight.data[:, :, 0] = 0

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        return self.third(pdl.relu(self.second(self.first(x))))


def test_the_costliest_product_stays_in_floats() -> None:
    pdl.seed(0)
    net, x = Net().eval(), np.random.default_rng(0).standard_normal((4, 6, 6, 4)).astype(np.float32)
    program = trace(net, Spec(x.shape, x.dtype), modules=[net])
    with pdl.no_grad():
        wanted = net(pdl.tensor(x)).data

    def noise(spare: int) -> tuple[Any, float, int]:
        made = calibrate(program, [[x]], spare=spare)
        found = np.array(Executable(made.program)(x)[0])
        return (
            made.spared,
            float(np.abs(found - wanted).max()),
            sum(isinstance(n.op, QConv) for n in made.program.nodes),
        )

    names, whole, count = noise(0)
    assert (names, count) == ((), 3)
    names, less, count = noise(1)
    assert (names, count) == (("second",), 2)
    assert less < 0.2 * whole
    with pytest.raises(UsageError, match="none of the 3 products"):
        noise(3)
