"""Which sizes stay open: what a program says at one size must be true at others."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import pdl
from pdl import nn
from pdl.dims import Dim
from pdl.dtype import float32
from pdl.errors import ShapeError, TraceError
from pdl.export.symbolic import trace_symbolic
from pdl.ops.base import Spec
from pdl.workflow.exporting import unfit

IMAGE = Spec((Dim.symbol("n", 3), Dim.symbol("h", 12), Dim.symbol("w", 20), 3), float32)


class Net(nn.Module):
    """A function as a module."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x)


def built_for_its_size(x: Any) -> Any:
    if x.shape[1:3] != (12, 20):
        raise ShapeError(f"this net is for 12 x 20, not {tuple(x.shape[1:3])}")
    return x * 2.0


def by_size(x: Any) -> Any:
    return pdl.relu(x) if x.shape[1] < 16 else pdl.tanh(x)


def constant_by_size(x: Any) -> Any:
    return x + pdl.as_tensor(np.full((1, 1, 1, 3), 1 / int(x.shape[2]), np.float32))


def only_multiples_of_four(x: Any) -> Any:
    small = pdl.avg_pool(pdl.avg_pool(x, 2), 2)
    return pdl.resize(small, scale=4, mode="nearest") + x


def repeated(x: Any) -> Any:
    """A loop whose state has sizes that change."""
    start = (pdl.zeros((1,)), x)
    return pdl.jit.while_loop(lambda i, _: pdl.sum(i) < 3.0, lambda i, y: (i + 1.0, pdl.relu(y) * 0.5 + x), start)[1]


CASES: dict[str, tuple[Any, str, list[str]]] = {
    "open": (lambda x: pdl.global_avg_pool(pdl.relu(x)), "nhw", []),
    "checks its size": (built_for_its_size, "n", ["h is fixed at 12: this net is for 12 x 20", "w is fixed at 20"]),
    "branches on a size": (by_size, "nw", ["h is fixed at 12: at n=1, h=49 .*another.*test_symbolic.py:"]),
    "constant of a size": (constant_by_size, "nh", ["w is fixed at 20: .*a constant depends on the size"]),
    "in a loop": (repeated, "nhw", []),
    "multiples": (only_multiples_of_four, "nhw", []),
    "positions": (lambda x: pdl.rotary(pdl.rotary(x[:, 0], size=2), size=2), "nhw", []),
    "one row": (lambda x: x[:1].sum(axis=0), "nhw", []),
    "number in Python": (lambda x: x * float(int(x.shape[0])), "hw", ["n is fixed at 3"]),
}


@pytest.mark.parametrize("name", CASES)
def test_sizes(name: str) -> None:
    function, kept, said = CASES[name]
    program, notes = trace_symbolic(Net(function), {"image": IMAGE})
    assert "".join(program.sizes()) == kept
    assert [v.name for v in program.inputs] == ["image"]
    assert len(notes) == len(said)
    for note, expected in zip(notes, said, strict=True):
        assert re.search(expected, note), note


def test_code_that_cannot_be_traced_says_where() -> None:
    with pytest.raises(TraceError, match=r"test_symbolic.py:\d+: Python needs the values"):
        trace_symbolic(Net(lambda x: x * float(x.sum())), {"image": IMAGE})


def test_evaluation_mode_is_put_back() -> None:
    net = nn.Sequential(nn.Dropout(0.5), nn.BatchNorm2d(3))
    program, _ = trace_symbolic(net, {"image": IMAGE})
    assert net.training
    assert unfit(program) == []
    assert not program.effects


def test_what_no_bundle_holds_is_named_with_its_line() -> None:
    program, _ = trace_symbolic(Net(lambda x: pdl.dropout(x, p=0.5, training=True)), {"image": IMAGE})
    (fault,) = unfit(program)
    assert "test_symbolic.py:" in fault
    assert "draws random numbers" in fault
