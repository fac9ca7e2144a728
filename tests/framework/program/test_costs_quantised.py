"""Forms of convolutions of bytes: estimated, chosen, and alike in their results."""

from __future__ import annotations

import numpy as np
import pytest

import pdl
from pdl import machine
from pdl.dtype import uint8
from pdl.kernels import int8 as kernels
from pdl.machine import BUILT_IN
from pdl.ops import quant
from pdl.ops.base import Spec, apply
from pdl.ops.quant import QConvPacked, sums_fit
from pdl.program import Executable, trace
from pdl.program.passes import run_passes
from pdl.program.passes.costs_quantised import byte_estimates, byte_forms
from pdl.program.passes.pack import PackCache
from pdl.runtime.plan import frozen

from .test_costs import product

ALL = ("rows", "winograd4", "winograd2")
pairs = pytest.mark.skipif(kernels.unit() != 2, reason="direct summation is the only form where bytes are multiplied")


@pairs
def test_forms() -> None:
    assert byte_forms(product(14, 32, 48, taps=3, dtype=uint8)) == ALL
    for other in (product(14, 32, 48), product(14, 24, 48, taps=3), product(14, 32, 48, taps=3, stride=2)):
        assert byte_forms(other._replace(dtype=uint8)) == ("rows",)


@pairs
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("size", "c"), [(56, 64), (28, 128), (14, 256), (8, 64)])
def test_known_machine_chooses_as_measured(size: int, c: int, threads: int) -> None:
    found = byte_estimates(product(size, c, c, taps=3, dtype=uint8), BUILT_IN["avx2"], threads, 11 << 20)
    assert min(found, key=found.__getitem__) == "winograd4"
    assert all(seconds > 0 for seconds in found.values())


def test_few_pixels_do_not_repay_points() -> None:
    found = byte_estimates(product(4, 512, 512, taps=3, dtype=uint8), BUILT_IN["avx2"], 1, 11 << 20)
    assert min(found, key=found.__getitem__) != "winograd4"


def test_sums_fit() -> None:
    w = np.zeros((3, 3, 16, 16), np.int8)
    w[..., 0, 3] = 127  # 9 * 127 * 255 * 64 is less than 2^31
    assert all(sums_fit(w, form) for form in quant.TILES)
    w = np.full((3, 3, 128, 16), 127, np.int8)
    assert sums_fit(w, "winograd2")
    assert not sums_fit(w, "winograd4")
    assert not sums_fit(-w, "winograd4")


@pytest.mark.parametrize("large", [False, True])
def test_plans_choose(large: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also what the estimate prefers is left where sums could leave int32; results are those of the plain op."""
    monkeypatch.setattr(machine, "current", lambda measure: BUILT_IN["avx2"])
    rng = np.random.default_rng(0)
    w = np.full((3, 3, 128, 64), 127, np.int8) if large else rng.integers(-40, 41, (3, 3, 128, 64)).astype(np.int8)
    scale, bias = np.full(64, 1e-4, np.float32), rng.integers(-99, 99, 64).astype(np.int32)
    op = quant.QConv((1, 1), ((1, 1), (1, 1)), (1, 1), 1, x_zero=100, y_scale=0.5, y_zero=128)
    program = trace(lambda x: apply(op, x, pdl.Tensor(w), pdl.Tensor(scale), pdl.Tensor(bias), None),
                    Spec((1, 28, 28, 128), uint8))  # fmt: skip
    x = rng.integers(0, 256, (1, 28, 28, 128), np.uint8)
    wanted = Executable(program)(x)[0]
    cache = PackCache()
    made = run_passes(frozen(program), (cache,))
    (node,) = made.nodes
    assert isinstance(node.op, QConvPacked)
    if kernels.unit() == 2:
        assert node.op.form == ("winograd2" if large else "winograd4")
    np.testing.assert_array_equal(Executable(made)(x)[0], wanted)
    held = cache.nbytes
    run_passes(frozen(program), (cache,))
    assert cache.nbytes == held  # the second plan shares what the first packed
