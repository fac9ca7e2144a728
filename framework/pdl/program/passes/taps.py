"""Taps of dilated convolutions that read nothing but padding are left out, once the sizes are known.

A 3x3 window of dilation 24 on an image of 16x16 (atrous pyramids, Chen et al., arXiv 1706.05587) has one tap that ever
meets the image: what is left is a pointwise convolution.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.ops.conv import Conv
from pdl.ops.inference import ConvThen
from pdl.program.ir import Node, Program, Value
from pdl.program.passes.measure import TAPS
from pdl.program.passes.rewrite import Rewriter, rewrite


def meeting(size: int, out: int, kernel: int, step: int, pad: tuple[int, int], dilation: int) -> range:
    """The taps along one axis to keep: without those at either end that read padding for all `out` outputs, as far as
    the padding that is left is not negative."""
    first, last = 0, kernel
    while last - first > 1 and (first + 1) * dilation <= pad[0] and first * dilation - pad[0] + (out - 1) * step < 0:
        first += 1
    while last - first > 1 and (kernel - last + 1) * dilation <= pad[1] and (last - 1) * dilation - pad[0] >= size:
        last -= 1
    return range(first, last)


class TapCache:
    """Smaller windows by the weights that they are cut from, for all plans; ``cache(program)`` is the pass."""

    __name__ = "drop_taps"

    def __init__(self) -> None:
        self._cut: dict[tuple[int, tuple[range, ...]], tuple[Array, Array]] = {}

    def cut(self, w: Array, kept: tuple[range, ...]) -> Array:
        """w [*kernel, C, O] at these taps."""
        key = (id(w), kept)
        if key not in self._cut:  # w itself is kept, so that its id is not given to another
            self._cut[key] = w, np.ascontiguousarray(w[tuple(slice(r.start, r.stop) for r in kept)])
        return self._cut[key][1]

    def __call__(self, program: Program) -> None:
        """Rewrite the convolutions of a program."""

        def drop(node: Node, walk: Rewriter) -> Value | None:
            op: Any = node.op
            if type(op) not in (Conv, ConvThen) or max(op.dilation) == 1 or 0 in node.outputs[0].spec.shape:
                return None
            x, w, *rest = node.inputs
            assert x is not None
            array = walk.constant(w)
            if array is None:
                return None
            sizes = zip(x.spec.shape[1:-1], node.outputs[0].spec.shape[1:-1], array.shape, op.stride, strict=False)
            kept = tuple(
                meeting(size, out, kernel, step, pad, dilation)
                for (size, out, kernel, step), pad, dilation in zip(sizes, op.padding, op.dilation, strict=True)
            )
            if all(len(r) == kernel for r, kernel in zip(kept, array.shape, strict=False)):
                return None
            padding = tuple(
                (before - r.start * d, after - (kernel - r.stop) * d)
                for (before, after), r, d, kernel in zip(op.padding, kept, op.dilation, array.shape, strict=False)
            )
            dilation = tuple(1 if len(r) == 1 else d for r, d in zip(kept, op.dilation, strict=True))
            fields = {name: getattr(op, name) for name in op.fields} | {"padding": padding, "dilation": dilation}
            return walk.emit(type(op)(**fields), x, walk.capture(self.cut(array, kept), w), *rest)

        rewrite(program, (drop,), measure=TAPS)


__all__ = ["TapCache", "meeting"]
