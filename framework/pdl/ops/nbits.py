"""Products with weights of 8 or 4 bits: less memory to read, for nets that write token by token."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, TypeAlias

import numpy as np

from pdl.dtype import Array, float32, int32
from pdl.errors import DtypeError, ShapeError, UsageError
from pdl.hints import Range
from pdl.kernels.copies import contiguous
from pdl.ops.attributes import Step
from pdl.ops.base import Arrays, Op, Spec, not_differentiable
from pdl.ops.packed import aligned

#: of a weight: 4 or 8
Bits: TypeAlias = Annotated[int, Range(4, 8)]
NO_GRADIENT = not_differentiable("weights are rounded for inference only")
PANEL = 64
"""Outputs that stand side by side in packed weights."""
GROUP = 64
"""Inputs that share a scale, unless said otherwise."""
_SHRUNK = (1.0, 0.95, 0.9, 0.85, 0.8, 0.7)  # widths of the range of 4 bits that are tried


class LinearNBits(Op):
    """y [..., O] = x [..., C] @ w (+ b), w = low + scale q with q of `bits` bits; a scale and a lowest value for each
    output and each `group` of inputs.

    x float32; packed int32 and levels float32 as `quantise` gives them, on every machine alike; b [O] or None. C and
    `group` are multiples of 8. Sums are float32: nothing but the weights is rounded.
    """

    features: tuple[Step, Step]
    bits: Bits
    group: Step = GROUP
    native = True
    vjp: ClassVar[Any] = NO_GRADIENT

    def infer(self, x: Spec, packed: Spec, levels: Spec, b: Spec | None) -> Spec:
        inputs, outputs = self.features
        if self.bits not in (4, 8):
            raise UsageError(f"linear_nbits: {self.bits} bits; expected 4 or 8")
        if x.dtype != float32:
            raise DtypeError(f"linear_nbits: x is {x.dtype.name}, expected float32")
        if inputs % 8 or self.group % 8 or not x.shape or x.shape[-1] != inputs:
            raise ShapeError(
                f"linear_nbits: x {x.shape} must end in the {inputs} inputs, a multiple of 8 as group={self.group} is"
            )
        wanted = shapes(self.features, self.bits, self.group)
        if (packed, levels) != wanted:
            raise ShapeError(
                f"linear_nbits: packed {packed.shape} {packed.dtype.name} and levels {levels.shape} "
                f"{levels.dtype.name} must be {wanted[0].shape} int32 and {wanted[1].shape} float32"
            )
        if b is not None and b != Spec((outputs,), float32):
            raise ShapeError(f"linear_nbits: b {b.shape} {b.dtype.name} must be ({outputs},) float32")
        return Spec((*x.shape[:-1], outputs), float32)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        x, packed, levels, b = (None if each is None else contiguous(each) for each in ins)
        from pdl.kernels import nbits as kernels

        kernels.product(outs[0], x, packed, levels, b, *self.features, self.group, self.bits)


def shapes(features: tuple[int, int], bits: int, group: int) -> tuple[Spec, Spec]:
    """What packed weights and their levels are."""
    inputs, outputs = features
    panels, groups = -(-outputs // PANEL), -(-inputs // group)
    return (
        Spec((panels, inputs * bits // 32, PANEL), int32),
        Spec((panels, groups, 2, PANEL), float32),
    )


def quantise(w: Array, bits: int, group: int = GROUP) -> tuple[Array, Array]:
    """Weights [C, O] as `LinearNBits` takes them: (packed, levels).

    q is w between the lowest and the highest of its group in 2^bits - 1 even steps. Of 4 bits the range is shrunk where
    that lowers the squared error.
    """
    if bits not in (4, 8) or w.ndim != 2 or w.shape[0] % 8 or group % 8 or group < 8 or not w.size:
        raise UsageError(f"quantise: {bits} bits of w {w.shape}, group={group}; expected 4 or 8 and multiples of 8")
    inputs, outputs = w.shape
    per, most = 32 // bits, (1 << bits) - 1
    one, two = shapes((inputs, outputs), bits, group)
    packed, levels = aligned(int(np.prod(one.shape)), int32), aligned(int(np.prod(two.shape)), float32)
    packed, levels = packed.reshape(one.shape), levels.reshape(two.shape)
    packed[...], levels[...] = 0, 0
    shifts = (np.arange(per, dtype=np.int64) * bits)[None, :, None]
    for number in range(packed.shape[0]):
        part = np.asarray(w[:, number * PANEL : (number + 1) * PANEL], np.float32)
        width = part.shape[1]
        for g in range(levels.shape[1]):
            own = part[g * group : (g + 1) * group]
            q, scale, low = _rounded(own, most, _SHRUNK if bits == 4 else _SHRUNK[:1])
            made = (q.reshape(-1, per, width).astype(np.int64) << shifts).sum(axis=1)
            packed[number, g * group // per : g * group // per + len(made), :width] = made.astype(np.uint32).view(int32)
            levels[number, g, 0, :width], levels[number, g, 1, :width] = scale, low
    return packed, levels


def dequantise(packed: Array, levels: Array, features: tuple[int, int], bits: int, group: int = GROUP) -> Array:
    """The weights [C, O] float32 that `quantise` made of others."""
    inputs, outputs = features
    shifts = np.arange(32 // bits, dtype=np.int32)[:, None] * bits
    q = (packed[:, :, None, :] >> shifts) & ((1 << bits) - 1)
    scale, low = (np.repeat(levels[:, :, i], group, axis=1)[:, :inputs] for i in range(2))
    w = low + scale * q.reshape(len(packed), inputs, -1).astype(np.float32)
    return np.ascontiguousarray(w.transpose(1, 0, 2).reshape(inputs, -1)[:, :outputs])


def _rounded(w: Array, most: int, shrunk: tuple[float, ...]) -> tuple[Array, Array, Array]:
    """q, scale and lowest value of each column of one group."""
    low, high = w.min(axis=0), w.max(axis=0)
    middle, half = (low + high) / 2, (high - low) / 2
    best: Any = None
    for share in shrunk:
        start = middle - share * half
        scale = np.where(half > 0, 2 * share * half / most, 1).astype(np.float32)
        q = np.clip(np.rint((w - start) / scale), 0, most)
        error = ((start + scale * q - w) ** 2).sum(axis=0)
        if best is None:
            best = [q, scale, start, error]
            continue
        better = error < best[3]
        for held, new in zip(best, (q, scale, start, error), strict=True):
            held[..., better] = new[..., better]
    return best[0], best[1], best[2]


__all__ = ["LinearNBits", "dequantise", "quantise"]
