"""Weights of few bits: how far they are from those that they were made of."""

from __future__ import annotations

import numpy as np
import pytest

from pdl.errors import UsageError
from pdl.ops.nbits import dequantise, quantise


@pytest.mark.parametrize(("bits", "group"), [(8, 64), (8, 24), (4, 64), (4, 8)])
def test_no_weight_is_further_off_than_half_a_step(bits: int, group: int) -> None:
    w = np.random.default_rng(0).standard_normal((120, 70)).astype(np.float32)
    w[:, 3], w[8:16, 4] = 0.25, 0
    made = dequantise(*quantise(w, bits, group), (120, 70), bits, group)
    np.testing.assert_array_equal(made[:, 3], w[:, 3])
    for at in range(0, 120, group):
        own, error = w[at : at + group], np.abs(made - w)[at : at + group]
        step = (own.max(0) - own.min(0)) / (2**bits - 1)
        if bits == 8:
            assert (error <= step * 0.51 + 1e-6).all()
        even = np.rint((own - own.min(0)) / np.maximum(step, 1e-12)) * step + own.min(0)
        assert ((error**2).sum(0) <= ((even - own) ** 2).sum(0) * 1.001 + 1e-6).all()  # shrinking helps or is not done


def test_what_is_refused() -> None:
    for shape, bits, group in (((12, 4), 4, 8), ((16, 4), 3, 8), ((16, 4), 4, 12), ((0, 4), 8, 8)):
        with pytest.raises(UsageError, match="expected 4 or 8 and multiples of 8"):
            quantise(np.zeros(shape, np.float32), bits, group)
