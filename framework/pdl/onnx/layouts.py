"""ONNX keeps channels second, pdl last: how values cross, and the arguments of sliding windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pdl import ops
from pdl.dtype import Array
from pdl.errors import ShapeError, UsageError
from pdl.onnx.registry import Context
from pdl.onnx.values import is_known, tensor
from pdl.tensor import Tensor

#: cells of padding on one side of an axis
MOST_PADDING = 10**6
Pairs = tuple[tuple[int, int], ...]


def channels_last(x: Any) -> Tensor:
    """[N, C, *spatial] -> [N, *spatial, C]."""
    x = tensor(x)
    return ops.permute_dims(x, (0, *range(2, x.ndim), 1)) if x.ndim > 2 else x


def channels_first(y: Tensor) -> Tensor:
    """[N, *spatial, C] -> [N, C, *spatial]."""
    return ops.permute_dims(y, (0, y.ndim - 1, *range(1, y.ndim - 1))) if y.ndim > 2 else y


def permuted(ctx: Context, w: Any, axes: Sequence[int], key: str) -> Tensor:
    """A weight with its axes in another order; a constant is rearranged once."""
    if not is_known(w) or isinstance(w, Tensor):
        return ops.permute_dims(tensor(w), axes)

    def rearranged(x: Array) -> Tensor:
        y: Tensor = tensor(np.ascontiguousarray(np.transpose(x, axes)))
        return y

    return ctx.prepared(key, w, rearranged)  # type: ignore[no-any-return]


def kernel_last(ctx: Context, w: Any) -> Tensor:
    """A convolution's weight [O, C / groups, *kernel] as [*kernel, C / groups, O]; the same for a transposed one."""
    return permuted(ctx, w, (*range(2, w.ndim), 1, 0), "kernel_last")


def bias(ctx: Context, b: Any) -> Tensor | None:
    """A bias as a tensor, one object for one constant."""
    if b is None or isinstance(b, Tensor):
        return b
    return ctx.prepared("tensor", b, tensor)  # type: ignore[no-any-return]


def each(given: Sequence[int] | None, rank: int, default: int = 1) -> tuple[int, ...]:
    """One number for each spatial axis."""
    values = (default,) * rank if not given else tuple(given)
    if len(values) != rank:
        raise ShapeError(f"{list(values)} has {len(values)} entries for {rank} spatial axes")
    return values


def pairs(pads: Sequence[int] | None, rank: int) -> Pairs:
    """(before, after) for each axis, from ONNX's list of all befores, then all afters."""
    values = tuple(pads) if pads else (0,) * (2 * rank)
    if len(values) != 2 * rank:
        raise ShapeError(f"pads {list(values)} has {len(values)} entries; {rank} axes need {2 * rank}")
    if any(abs(int(v)) > MOST_PADDING for v in values):
        raise ShapeError(f"pads {list(values)} are over {MOST_PADDING:,} cells")
    return tuple(zip(values[:rank], values[rank:], strict=True))


def padding(
    auto_pad: str, pads: Sequence[int] | None, spatial: Sequence[int], kernel: Sequence[int], stride: Sequence[int],
    dilation: Sequence[int],
) -> Pairs:  # fmt: skip
    """(before, after) for each axis, as `auto_pad` or `pads` say."""
    rank = len(spatial)
    if auto_pad == "NOTSET":
        return pairs(pads, rank)
    if auto_pad == "VALID":
        return ((0, 0),) * rank
    if auto_pad not in ("SAME_UPPER", "SAME_LOWER"):
        raise UsageError(f"auto_pad {auto_pad!r} must be NOTSET, VALID, SAME_UPPER or SAME_LOWER")
    totals = [_same(*sizes) for sizes in zip(spatial, kernel, stride, dilation, strict=True)]
    return tuple(halves(total, auto_pad == "SAME_UPPER") for total in totals)


def _same(size: int, kernel: int, stride: int, dilation: int) -> int:
    """Padding that makes ceil(size / stride) outputs; with stride 1 it does not depend on the size."""
    reach = dilation * (kernel - 1)
    return reach if stride == 1 else max(0, (-(-int(size) // stride) - 1) * stride + reach + 1 - int(size))


def halves(total: int, odd_behind: bool) -> tuple[int, int]:
    """A padding split in two; the odd cell goes to the end or to the beginning."""
    small = total // 2
    return (small, total - small) if odd_behind else (total - small, small)
