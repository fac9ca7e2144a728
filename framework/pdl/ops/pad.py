"""Arrays made larger: constants around them, or their own elements again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from pdl.errors import ShapeError
from pdl.kernels.copies import copy
from pdl.kernels.launch import constant
from pdl.ops.attributes import Width
from pdl.ops.base import Arrays, Op, Spec, apply
from pdl.ops.index import take
from pdl.tensor import Tensor, TensorLike, as_tensor


class Pad(Op):
    """`value` put before and after each dimension, ``widths[i] = (before, after)`` times."""

    widths: tuple[tuple[Width, Width], ...]
    value: float = 0
    native_bf16 = native = True

    def infer(self, x: Spec) -> Spec:
        if len(self.widths) != len(x.shape):
            raise ShapeError(f"pad: {len(self.widths)} widths for the {len(x.shape)} dimensions of {x.shape}")
        if any(n < 0 for w in self.widths for n in w):
            raise ShapeError(f"pad: widths {self.widths} must not be negative; index to crop")
        return Spec(tuple(n + before + after for n, (before, after) in zip(x.shape, self.widths, strict=True)), x.dtype)

    def cpu(self, outs: Arrays, ins: Arrays) -> None:
        copy(outs[0], np.broadcast_to(constant(np.array(self.value, outs[0].dtype)), outs[0].shape))
        copy(outs[0][self._inner(ins[0].shape)], ins[0])

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> Tensor:
        return g[self._inner(x.shape)]

    def _inner(self, shape: tuple[int, ...]) -> tuple[slice, ...]:
        return tuple(slice(before, before + n) for n, (before, _) in zip(shape, self.widths, strict=True))


def pad(
    x: TensorLike, widths: int | Sequence[int | Sequence[int]], *, mode: str = "constant", value: float = 0
) -> Tensor:
    """`x` made larger: ``widths[i] = (before, after)`` for each dimension, or one pair or number for all.

    `mode`: "constant" (`value`), "reflect" (without the edge), "symmetric" (with it), "edge" or "wrap".
    """
    x = as_tensor(x)
    pairs = _pairs(widths, x.ndim)
    if mode == "constant":
        return cast(Tensor, apply(Pad(pairs, value), x))
    if mode not in ("reflect", "symmetric", "edge", "wrap"):
        raise ShapeError(f"pad: mode {mode!r} is not one of constant, reflect, symmetric, edge, wrap")
    for axis, (before, after) in enumerate(pairs):
        if before or after:
            if x.shape[axis] <= (mode == "reflect") * max(before, after) or not x.shape[axis]:
                raise ShapeError(
                    f"pad: {mode} by {(before, after)} needs more than the {x.shape[axis]} elements of axis {axis}"
                )
            x = take(x, np.pad(np.arange(x.shape[axis]), (before, after), mode), axis=axis)  # type: ignore[call-overload]
    return x


def _pairs(widths: int | Sequence[int | Sequence[int]], ndim: int) -> tuple[tuple[int, int], ...]:
    if isinstance(widths, int):
        return ((widths, widths),) * ndim
    if len(widths) == 2 and all(isinstance(w, int) for w in widths):
        return (cast("tuple[int, int]", tuple(widths)),) * ndim
    return tuple((w, w) if isinstance(w, int) else cast("tuple[int, int]", tuple(w)) for w in widths)


__all__ = ["pad"]
