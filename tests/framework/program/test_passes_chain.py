"""Elementwise ops in a row: what becomes one chain, and what may not."""

from __future__ import annotations

import numpy as np
import pytest

import pdl
from pdl.dtype import bfloat16
from pdl.errors import ShapeError, UsageError
from pdl.ops.base import Spec
from pdl.ops.chain import Chain, layout
from pdl.program.passes import run_passes
from pdl.program.passes.chain import make_chains

from .rewriting import N, Pattern, check, r, run, size, traced

H = size("h", 5)
ROW, ONE = r(12), pdl.Tensor(np.float32(0.7))
IMAGES = [(N, H, 4, 12)]
OTHER = ({"n": 1, "h": 1}, {"n": 2, "h": 9})
GATE = [*IMAGES, (N, 1, 1, 12)]

PATTERNS = {
    "scale, shift": Pattern(lambda x: x * 0.3 + 0.1, IMAGES, {"Chain": 1}, OTHER),
    "rows": Pattern(lambda x: pdl.silu(x * ROW + ROW) - ONE, IMAGES, {"Chain": 1}, OTHER),
    "the operand comes first": Pattern(lambda x: ROW / (1.0 - x), IMAGES, {"Chain": 1}, OTHER, positive=True),
    "gate and residual": Pattern(lambda x, s: x * s + x, GATE, {"Chain": 1}, OTHER),
    "residual, gate first": Pattern(lambda x, s: x + s * x, GATE, {"Chain": 1}, OTHER),
    "gate of pixels": Pattern(lambda x, s: pdl.relu(x * s) * ROW, [*IMAGES, (N, H, 4, 1)], {"Chain": 1}, OTHER),
    "x again": Pattern(lambda x: x * pdl.sigmoid(x * 1.702), IMAGES, {"Chain": 1}, OTHER),
    "two branches": Pattern(
        lambda x: pdl.tanh(x * 2.0) + pdl.exp(x * 0.5), IMAGES, {"Chain": 2}, OTHER),
    "read in between": Pattern(
        lambda x: (y := pdl.tanh(x) * 2.0, pdl.relu(y) + ROW), IMAGES, {"Chain": 2}, OTHER),
    "squared by itself": Pattern(lambda x: (y := x + ROW) * y, IMAGES, {"Add": 1, "Multiply": 1}, OTHER),
    "the shape grows": Pattern(lambda x: pdl.relu(x) + ROW.reshape((1, 12)), [(12,)], {"Relu": 1, "Add": 1}),
    "two cuts": Pattern(
        lambda x, s, t: pdl.relu(x * s) * t, [(N, H, 4, 12), (N, 1, 1, 12), (N, H, 1, 12)],
        {"Chain": 1, "Multiply": 1}, OTHER),
    "a row of the middle": Pattern(
        lambda x, s: pdl.relu(x) * s, [(N, H, 4, 12), (1, H, 1, 12)], {"Relu": 1, "Multiply": 1}, OTHER),
    "integers": Pattern(lambda x: x.astype("int32") * 2 + 1, IMAGES, {"AsType": 1, "Multiply": 1, "Add": 1}, OTHER),
    "equal in the example": Pattern(
        lambda x, y: pdl.relu(x) * y, [(N, 12), (3, 12)], {"Relu": 1, "Multiply": 1}),
    "more steps than one chain takes": Pattern(
        lambda x: steps(x, 20), IMAGES, {"Chain": 2}, OTHER, atol=1e-4),
}  # fmt: skip


def steps(x: pdl.Tensor, count: int) -> pdl.Tensor:
    for i in range(count):
        x = x * 0.9 if i % 2 else pdl.tanh(x)
    return x


@pytest.mark.parametrize("name", PATTERNS)
def test_patterns(name: str) -> None:
    check(PATTERNS[name], (make_chains,))


def test_bfloat16_is_rounded_once() -> None:
    scale, shift = (np.array(v, bfloat16) for v in (0.3, 0.1))
    program = traced(lambda x: pdl.tanh(x * pdl.Tensor(scale)) + pdl.Tensor(shift), [(N, 300)], [bfloat16])
    run_passes(program, (make_chains,))
    x = np.linspace(-4, 4, 900).reshape(3, 300).astype(bfloat16)
    (y,) = run(program, [x])
    exact = np.tanh(x.astype(np.float64) * float(scale)) + float(shift)
    np.testing.assert_allclose(y.astype(np.float64), exact, rtol=2**-8 * 1.02, atol=1e-6)


@pytest.mark.parametrize(("shape", "operands", "wanted"), [
    ((2, 3, 4, 5), [(5,), (2, 1, 1, 5)], ((2, 12, 5), ["row", "outer_row"])),
    ((2, 3, 4, 5), [(2, 3, 4, 1), ()], ((1, 24, 5), ["column", "one"])),
    ((2, 3, 4, 5), [(2, 3, 4, 5), (1, 1)], ((1, 1, 120), ["same", "one"])),
    ((2, 3, 4, 5), [(2, 3, 1, 5), (2, 1, 1, 5)], None),
    ((2, 3, 4, 5), [(1, 3, 1, 5)], None),
    ((2, 3, 4, 5), [(4, 5)], None),
    ((2, 3), [(1, 2, 3)], None),
    ((7,), [(7,), (1,)], ((1, 1, 7), ["same", "one"])),
])  # fmt: skip
def test_layout(shape, operands, wanted) -> None:
    assert layout(shape, operands) == wanted


def test_refusals() -> None:
    x, row = Spec((2, 3), np.dtype(np.float32)), Spec((3,), np.dtype(np.float32))
    for step in (("swish",), ("add",), ("add", 2), ("relu", 1.0, 2.0, 3.0, 4.0)):
        with pytest.raises(UsageError, match="chain: step"):
            Chain((step,)).infer(x, row)
    with pytest.raises(ShapeError, match=r"\(2,\) beside x \(2, 3\)"):
        Chain((("add", 1),)).infer(x, Spec((2,), np.dtype(np.float32)))
    with pytest.raises(ShapeError, match="float32 as x is"):
        Chain((("add", 1),)).infer(x, Spec((3,), np.dtype(np.float64)))
