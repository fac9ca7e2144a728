"""Taps that read padding alone are left out, and nothing else changes."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import pdl
from pdl.dims import Dim
from pdl.ops.base import Spec
from pdl.program import trace
from pdl.program.passes.taps import meeting
from pdl.runtime.plan import Plans


def kernels(plans, x):
    return [
        tuple(getattr(n.op, "kernel", None) or n.inputs[1].spec.shape)[:2]
        for n in plans.plan((x.shape,)).program.nodes
        if "Conv" in n.op.op_name
    ]


@given(
    st.integers(1, 9), st.integers(1, 4), st.integers(1, 3), st.tuples(st.integers(0, 9), st.integers(0, 9)),
    st.integers(1, 9),
)  # fmt: skip
def test_taps_that_are_left_out_read_padding_alone(size, kernel, step, pad, dilation):
    room = size + sum(pad) - dilation * (kernel - 1) - 1
    if room < 0:
        return
    out = room // step + 1
    kept = meeting(size, out, kernel, step, pad, dilation)
    assert len(kept) >= 1
    for tap in set(range(kernel)) - set(kept):
        assert not any(0 <= tap * dilation - pad[0] + j * step < size for j in range(out))
    before, after = pad[0] - kept.start * dilation, pad[1] - (kernel - kept.stop) * dilation
    assert min(before, after) >= 0
    assert (size + before + after - dilation * (len(kept) - 1) - 1) // step + 1 == out


def test_an_atrous_window_on_a_small_image_becomes_pointwise():
    pdl.seed(0)
    w = pdl.Tensor(np.random.default_rng(0).standard_normal((3, 3, 16, 16), dtype=np.float32))
    program = trace(
        lambda x: pdl.relu(pdl.conv2d(x, w, padding=12, dilation=12)), Spec((1, Dim.symbol("h", 9), 8, 16), pdl.float32)
    )
    plans = Plans(program)
    for h, left in ((9, (1, 1)), (12, (1, 1)), (13, (3, 1))):
        x = np.random.default_rng(h).standard_normal((1, h, 8, 16), dtype=np.float32)
        (y,) = plans([x])
        expected = pdl.relu(pdl.conv2d(pdl.Tensor(x), w, padding=12, dilation=12)).numpy()
        np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)
        assert kernels(plans, x) == [left]
