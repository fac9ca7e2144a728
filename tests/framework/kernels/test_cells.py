"""Recurrent layers in one call: every cell, width, direction and sharing of the work, against the same layer in ops."""

from __future__ import annotations

import numpy as np
import pytest
from pdl.kernels.cells import CELLS

from pdl import Tensor, threads
from pdl.autograd import grad
from pdl.errors import ShapeError
from pdl.ops.base import apply
from pdl.ops.rnn import Recurrent

RNG = np.random.default_rng(8)


def draw(*shape: int, dtype: str, scale: float = 1.0) -> Tensor:
    return Tensor((scale * RNG.standard_normal(shape)).astype(dtype), requires_grad=True)


def inputs(cell: str, n: int, steps: int, hidden: int, dtype: str, lengths: object = None) -> list[Tensor | None]:
    count = CELLS[cell][1]
    c0 = draw(n, hidden, dtype=dtype) if cell == "lstm" else None
    w = draw(hidden, count * hidden, dtype=dtype, scale=1 / np.sqrt(hidden))
    bias = draw(count * hidden, dtype=dtype)
    given = None if lengths is None else Tensor(np.asarray(lengths))
    return [draw(n, steps, count * hidden, dtype=dtype), draw(n, hidden, dtype=dtype), c0, w, bias, given]


def outputs_and_gradients(made: tuple[Tensor, ...], ins: list[Tensor | None]) -> list[Tensor]:
    wanted = [x for x in ins if x is not None and x.requires_grad]
    reached = made[:-2]  # what is kept for the gradient carries none itself
    seeds = [Tensor(np.linspace(-1, 1, y.size, dtype=y.dtype).reshape(y.shape)) for y in reached]
    return [*made, *(g for g in grad(list(reached), wanted, seeds) if g is not None)]


def compare(op: Recurrent, ins: list[Tensor | None], atol: float) -> None:
    found, want = (outputs_and_gradients(made, ins) for made in (apply(op, *ins), op.compose(*ins)))
    for a, b in zip(found, want, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a.data, b.data, atol=atol, rtol=1e-5 if atol > 1e-7 else 1e-11)


@pytest.mark.parametrize("hidden", [1, 3, 8, 16, 19, 33, 64, 70])
@pytest.mark.parametrize(("dtype", "atol"), [("float32", 3e-5), ("float64", 1e-12)])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("cell", CELLS)
def test_a_layer_equals_its_composition(cell: str, reverse: bool, hidden: int, dtype: str, atol: float) -> None:
    op = Recurrent(cell, reverse)
    compare(op, inputs(cell, 5, 4, hidden, dtype), atol)
    compare(op, inputs(cell, 4, 5, hidden, dtype, [5, 0, 2, 4]), atol)


@pytest.mark.parametrize("n", [1, 7, 70, 130])
@pytest.mark.parametrize("cell", CELLS)
def test_rows_are_cut_into_groups(cell: str, n: int) -> None:
    compare(Recurrent(cell), inputs(cell, n, 3, 20, "float64", RNG.integers(0, 4, n)), 1e-11)


@pytest.mark.parametrize("n", [6, 60])
@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_a_large_state_is_cut_into_units(cell: str, n: int) -> None:
    ins = inputs(cell, n, 3, 300, "float32", RNG.integers(1, 4, n))
    compare(Recurrent(cell), ins, 2e-4)
    with threads.num_threads(1):
        alone = apply(Recurrent(cell), *ins)
    for a, b in zip(apply(Recurrent(cell), *ins), alone, strict=True):
        np.testing.assert_array_equal(a.data, b.data)


@pytest.mark.parametrize("reached", [0, 1, 2])
def test_an_output_without_gradient(reached: int) -> None:
    ins = inputs("lstm", 3, 2, 17, "float64")
    wanted = [x for x in ins if x is not None]
    found, want = (
        grad(made[reached].sum(), wanted) for made in (apply(Recurrent("lstm"), *ins), Recurrent("lstm").compose(*ins))
    )
    for a, b in zip(found, want, strict=True):
        assert a is not None
        assert b is not None
        np.testing.assert_allclose(a.data, b.data, atol=1e-13)


@pytest.mark.parametrize("lengths", [[3, 4], [-1, 2]])
def test_lengths_outside_the_steps_are_refused(lengths: list[int]) -> None:
    with pytest.raises(ShapeError, match=r"gru: lengths\[\d\] is -?\d, the sequences have 0 to 3 steps"):
        apply(Recurrent("gru"), *inputs("gru", 2, 3, 4, "float32", lengths))
