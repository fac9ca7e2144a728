"""Products with weights of 8 and 4 bits against the product with what these stand for."""

from __future__ import annotations

import numpy as np

import pdl
from pdl.ops.base import apply
from pdl.ops.nbits import LinearNBits, dequantise, quantise

from .case import draws, forward

f, _ = draws(31)


def weights(inputs: int, outputs: int) -> np.ndarray:
    return np.random.default_rng(inputs + outputs).standard_normal((inputs, outputs)).astype(np.float32)


def linear_nbits(x, b=None, *, features, bits, group=64):
    packed, levels = quantise(weights(*features), bits, group)
    made = LinearNBits(features, bits, group)
    b = None if b is None else b.astype(pdl.float32)
    return apply(made, x.astype(pdl.float32), pdl.Tensor(packed), pdl.Tensor(levels), b).astype(x.dtype)


def reference(x, b=None, *, features, bits, group=64):
    w = dequantise(*quantise(weights(*features), bits, group), features, bits, group)
    return x @ w.astype(x.dtype) + (0 if b is None else b)


CASES = [
    forward(linear_nbits, [f(rows, inputs), f(outputs) if shift else None], reference,
            {"features": (inputs, outputs), "bits": bits, "group": group}, atol=1e-4, float32=1e-4, bf16=8e-2)
    for bits in (4, 8)
    for rows, inputs, outputs, group, shift in (
        (1, 128, 64, 64, True), (3, 72, 130, 32, False), (7, 40, 5, 64, True), (4, 64, 65, 8, False),
    )
]  # fmt: skip
