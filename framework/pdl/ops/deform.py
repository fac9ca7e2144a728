"""Deformable convolution: its taps are read where a net says."""

from __future__ import annotations

import numpy as np

from pdl.dtype import DType, int64
from pdl.errors import ShapeError
from pdl.ops.broadcast import broadcast_to
from pdl.ops.cast import as_tensors, astype
from pdl.ops.conv import Conv, Padding, conv2d, conv_op
from pdl.ops.create import arange
from pdl.ops.precision import in_float32
from pdl.ops.reduce import sum
from pdl.ops.regions import grid_sample
from pdl.ops.running import cumsum
from pdl.ops.shape import expand_dims, permute_dims, reshape, stack
from pdl.ops.window import Sizes
from pdl.tensor import Tensor, TensorLike, as_tensor


def deform_conv2d(
    x: TensorLike, offset: TensorLike, w: TensorLike, b: TensorLike | None = None, *, mask: TensorLike | None = None,
    stride: Sizes = 1, padding: Padding = 0, dilation: Sizes = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """`conv2d` whose taps are moved by offsets, read bilinearly (0 outside) and weighted (Dai et al., arXiv 1703.06211;
    Zhu et al., arXiv 1811.11168).    x [N, H, W, C], w [KH, KW, C/groups, O] (+ b [O]) -> [N, H', W', O]

    offset  [N, H', W', 2 G KH KW]: (down, right) in cells of x for each of G blocks of its channels and each tap
    mask    [N, H', W', G KH KW]: what each tap is multiplied by

    As torchvision's function, channels last. The other arguments are those of `conv2d`.
    """
    x, offset = as_tensors(*in_float32(x, offset))
    w = as_tensor(w)
    op = conv_op(2, w.shape, stride, padding, dilation, groups)
    taps = w.shape[0] * w.shape[1]
    if x.ndim != 4 or offset.ndim != 4 or x.shape[3] != w.shape[2] * groups:
        raise ShapeError(f"deform_conv2d: x {x.shape}, offset {offset.shape} and w {w.shape} with groups={groups}; "
                         "expected [N, H, W, C], [N, H', W', 2 G KH KW] and [KH, KW, C/groups, O]")  # fmt: skip
    n, h, width, c = x.shape
    out, blocks = (n, *op.out_sizes((h, width), w.shape[:2])), offset.shape[3] // (2 * taps)
    if not blocks or c % blocks or offset.shape != (*out, 2 * blocks * taps):
        raise ShapeError(f"deform_conv2d: offset {offset.shape}; expected {out} and {2 * taps} numbers for each of one "
                         f"or more equal blocks of the {c} channels")  # fmt: skip
    if mask is not None and as_tensor(mask).shape != (*out, blocks * taps):
        raise ShapeError(f"deform_conv2d: mask {as_tensor(mask).shape}; expected {(*out, blocks * taps)}")
    read = _read(x, reshape(offset, (*out, blocks, taps, 2)), op, w.shape[1])
    if mask is not None:
        weight = astype(in_float32(mask)[0], read.dtype)
        read = read * expand_dims(reshape(weight, (*out, blocks, taps)), axis=5)
    read = permute_dims(read, (0, 1, 2, 4, 3, 5))  # taps before channels, as in w
    if groups > 1:
        read = permute_dims(reshape(read, (*out, taps, groups, c // groups)), (0, 1, 2, 4, 3, 5))
    flat = reshape(w, (1, 1, taps * w.shape[2], w.shape[3]))
    return conv2d(reshape(read, (*out, taps * c)), flat, b, groups=groups)


def _read(x: Tensor, moves: Tensor, op: Conv, columns: int) -> Tensor:
    """What taps read, [N, H', W', G, taps, C/G].    moves [N, H', W', G, taps, 2]"""
    n, h, width, c = x.shape
    _, rows, cells, blocks, taps, _ = moves.shape
    steps, places = np.divmod(np.arange(taps), columns), []
    for axis, (size, count) in enumerate(((h, rows), (width, cells))):
        first = _places(count) * op.stride[axis] - op.padding[axis][0]
        at = expand_dims(first, axis=1) + as_tensor(steps[axis] * op.dilation[axis])
        at = reshape(astype(at, x.dtype), (count, *(1,) * (2 - axis), taps))
        places.append(((moves[..., axis] + at) * 2 + 1) / _number(size, x.dtype) - 1)
    grid = stack([places[1], places[0]], axis=-1)
    if blocks == 1:
        found = grid_sample(x, reshape(grid, (n, rows, cells * taps, 2)))
        return reshape(found, (n, rows, cells, 1, taps, c))
    parts = permute_dims(reshape(x, (n, h, width, blocks, c // blocks)), (0, 3, 1, 2, 4))
    grid = permute_dims(grid, (0, 3, 1, 2, 4, 5))
    found = grid_sample(
        reshape(parts, (n * blocks, h, width, c // blocks)), reshape(grid, (n * blocks, rows, cells * taps, 2))
    )
    return permute_dims(reshape(found, (n, blocks, rows, cells, taps, c // blocks)), (0, 2, 3, 1, 4, 5))


def _places(count: int) -> Tensor:
    """0, 1, ... before a count; of one that is symbolic as a running sum."""
    return arange(count) if type(count) is int else cumsum(_ones(count), axis=0) - 1


def _number(size: int, dtype: DType) -> Tensor | int:
    """A size as a number; of one that is symbolic as a sum."""
    return size if type(size) is int else astype(sum(_ones(size)), dtype)


def _ones(count: int) -> Tensor:
    return broadcast_to(as_tensor(np.ones((), int64)), (count,))


__all__ = ["deform_conv2d"]
