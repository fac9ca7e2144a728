"""Programs in bfloat16: what is narrow and what stays wide, casts of weights, values beside float32."""

from __future__ import annotations

import numpy as np
import pytest

import pdl
from pdl import jit
from pdl.dims import Dim
from pdl.dtype import bfloat16, float32
from pdl.ops.base import Spec
from pdl.program import trace
from pdl.program.passes import run_passes
from pdl.program.passes.pack import PackCache
from pdl.program.passes.precision import to_bf16
from pdl.runtime import Session

from .rewriting import counts, r, run, traced

W, W1, B = r(3, 3, 4, 16), r(16, 16), r(16)


def net(x: pdl.Tensor) -> pdl.Tensor:
    """A convolution, a norm in float32, the same matrix twice."""
    x = pdl.relu(pdl.conv2d(x, W, B, padding=1))
    x = pdl.softmax(pdl.layer_norm(x.mean(axis=(1, 2)), B, B))
    return pdl.matmul(pdl.matmul(x, W1), W1)


def test_products_are_narrow_and_ports_stay() -> None:
    made = to_bf16(traced(net, [(2, 6, 6, 4)]))
    kinds = {type(n.op).__name__: n.outputs[0].spec.dtype for n in made.nodes}
    assert (kinds["ConvThen"], kinds["Linear"], kinds["Mean"]) == (bfloat16, bfloat16, float32)
    assert [v.spec.dtype for v in (*made.inputs, *made.outputs) if v is not None] == [float32, float32]
    weights = [v for v in made.captures if v.spec.dtype == bfloat16 and v.spec.shape == (16, 16)]
    assert len(weights) == 1, "a weight that is used twice is cast once"


def test_values_are_those_of_float32_rounded() -> None:
    program = traced(net, [(2, 6, 6, 4)])
    x = np.random.default_rng(0).standard_normal((2, 6, 6, 4)).astype(np.float32)
    wide, narrow = run(program, [x])[0], run(to_bf16(program), [x])[0]
    assert 0 < np.abs(wide - narrow).max() <= 0.02 * np.abs(wide).max()


def test_the_same_as_tracing_under_autocast() -> None:
    """The pass knows no rules of its own."""

    def cast(x: pdl.Tensor) -> pdl.Tensor:
        with pdl.autocast():
            return pdl.conv2d(x, W, B, padding=1).astype("float32")

    x = np.random.default_rng(1).standard_normal((1, 5, 5, 4)).astype(np.float32)
    made = to_bf16(traced(lambda x: pdl.conv2d(x, W, B, padding=1), [x.shape]))
    np.testing.assert_array_equal(run(made, [x])[0], run(traced(cast, [x.shape]), [x])[0])


def test_sizes_stay_symbolic_and_weights_pack() -> None:
    n = Dim.symbol("n", 2)
    made = to_bf16(trace(net, Spec((n, 6, 6, 4), float32)))
    assert made.inputs[0].spec.shape[0].expression == n.expression  # type: ignore[attr-defined]
    fixed = run_passes(to_bf16(traced(net, [(2, 6, 6, 4)])), (PackCache(),))
    assert counts(fixed)["PackedLinear"] == 2


def test_branches_keep_their_types() -> None:
    """An op that holds programs is given what it was traced for."""

    def choose(x: pdl.Tensor) -> pdl.Tensor:
        x = pdl.matmul(x, W1)
        return pdl.matmul(jit.cond(x.sum() > 0, lambda v: v * 2, lambda v: v - 1, x), W1)

    program = traced(choose, [(3, 16)])
    x = np.random.default_rng(2).standard_normal((3, 16)).astype(np.float32)
    np.testing.assert_allclose(run(to_bf16(program), [x])[0], run(program, [x])[0], rtol=0.03, atol=0.3)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_sessions_of_both_precisions(precision: str) -> None:
    session = Session.of(traced(net, [(2, 6, 6, 4)]), precision=precision)  # type: ignore[arg-type]
    y = session.run({"x0": np.ones((2, 6, 6, 4), np.float32)})["y"]
    assert y.dtype == np.float32
