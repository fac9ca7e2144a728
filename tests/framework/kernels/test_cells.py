"""Recurrent cells: full vectors and tails, against the same cells written in ops."""

from __future__ import annotations

import numpy as np
import pytest

from pdl import Tensor
from pdl.autograd import grad
from pdl.ops.base import apply
from pdl.ops.rnn import GruCell, LstmCell

RNG = np.random.default_rng(8)


def draw(*shape: int, dtype: str) -> Tensor:
    return Tensor((3 * RNG.standard_normal(shape)).astype(dtype), requires_grad=True)


@pytest.mark.parametrize("hidden", [1, 3, 4, 8, 16, 19, 40])
@pytest.mark.parametrize(("dtype", "atol"), [("float32", 3e-6), ("float64", 1e-13)])
@pytest.mark.parametrize("cell", [LstmCell(), GruCell()], ids=["lstm", "gru"])
def test_a_cell_equals_its_composition(cell: LstmCell | GruCell, hidden: int, dtype: str, atol: float) -> None:
    gates = [4, 1] if isinstance(cell, LstmCell) else [3, 3, 1]
    ins = [draw(5, count * hidden, dtype=dtype) for count in gates]
    results = []
    for made in (apply(cell, *ins), cell.compose(*ins)):
        outs = made if isinstance(made, tuple) else (made,)
        seeds = [Tensor(np.linspace(-1, 1, y.size, dtype=dtype).reshape(y.shape)) for y in outs]
        results.append([*outs, *grad(outs, ins, seeds)])
    for found, want in zip(*results, strict=True):
        assert found.dtype == want.dtype
        np.testing.assert_allclose(found.data, want.data, atol=atol, rtol=1e-5 if dtype == "float32" else 1e-12)


@pytest.mark.parametrize("reached", [0, 1])
def test_an_output_without_gradient(reached: int) -> None:
    ins = [draw(3, 4 * 17, dtype="float64"), draw(3, 17, dtype="float64")]
    found, want = (grad(made[reached].sum(), ins) for made in (apply(LstmCell(), *ins), LstmCell().compose(*ins)))
    for a, b in zip(found, want, strict=True):
        np.testing.assert_allclose(a.data, b.data, atol=1e-13)
