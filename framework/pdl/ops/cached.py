"""Attention of new positions to those that are kept: what a step of a net that writes token by token needs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from threading import local
from typing import Any, ClassVar, cast

from pdl.dtype import Array, int64
from pdl.errors import DtypeError, ShapeError
from pdl.kernels import cached as kernels
from pdl.kernels.copies import contiguous, copy
from pdl.kernels.memory import empty
from pdl.ops.attention import scaled_dot_product_attention
from pdl.ops.attributes import Step
from pdl.ops.base import Arrays, Fused, Spec, apply
from pdl.ops.broadcast import broadcast_to
from pdl.ops.cast import as_tensors, astype
from pdl.ops.checks import check_floating
from pdl.ops.elementwise import maximum, minimum, where
from pdl.ops.index import take_along_axis
from pdl.ops.rotary import Positions
from pdl.ops.shape import expand_dims, reshape, swapaxes
from pdl.tensor import Tensor, TensorLike

_NAME = "cached_attention"


class CachedAttention(Fused):
    """(y, keys', values') from q [R, T, heads E], k [R, T, kv_heads E], v [R, T, kv_heads D], keys [R, room, kv_heads
    E], values [R, room, kv_heads D], lengths and counts int64 [R]; see `cached_attention`."""

    scale: float
    heads: Step
    kv_heads: Step
    native_bf16 = native = True
    overwrites: ClassVar[dict[int, int]] = {1: 3, 2: 4}

    def infer(
        self, q: Spec, k: Spec, v: Spec, keys: Spec, values: Spec, lengths: Spec, counts: Spec
    ) -> tuple[Spec, Spec, Spec]:
        check_floating(_NAME, q=q)
        for label, x in (("k", k), ("v", v), ("keys", keys), ("values", values)):
            if x.dtype != q.dtype:
                raise DtypeError(f"{_NAME}: {label} is {x.dtype.name}, q is {q.dtype.name}; astype one of them")
        if any(len(x.shape) != 3 for x in (q, k, v, keys, values)):
            named = zip(("q", "k", "v", "keys", "values"), (q, k, v, keys, values), strict=True)
            shapes = ", ".join(f"{name} {x.shape}" for name, x in named)
            raise ShapeError(f"{_NAME}: {shapes}; each must have three dimensions")
        rows, steps, width = q.shape
        if self.heads % self.kv_heads or width % self.heads or not width or values.shape[2] % self.kv_heads:
            raise ShapeError(
                f"{_NAME}: q {q.shape} and values {values.shape} do not divide into {self.heads} heads of queries and "
                f"{self.kv_heads} of keys and values"
            )
        narrow = width // self.heads * self.kv_heads
        for label, x, like in (
            ("k", k, (rows, steps, narrow)),
            ("v", v, (rows, steps, values.shape[2])),
            ("keys", keys, (rows, keys.shape[1], narrow)),
            ("values", values, (rows, keys.shape[1], values.shape[2])),
        ):
            if x.shape != like:
                raise ShapeError(f"{_NAME}: {label} {x.shape} must be {like} for q {q.shape} and keys {keys.shape}")
        for label, x in (("lengths", lengths), ("counts", counts)):
            if x != Spec((rows,), int64):
                raise ShapeError(f"{_NAME}: {label} {x.shape} {x.dtype.name} must be ({rows},) int64")
        return Spec((rows, steps, values.shape[2] // self.kv_heads * self.heads), q.dtype), keys, values

    def run(self, ins: tuple[Any, ...]) -> Arrays:
        if not getattr(_mode, "overwrite", False):
            return super().run(ins)
        first = self.specs(ins)[0]
        outs = (empty(first.shape, first.dtype), *ins[3:5])
        self.cpu(outs, ins)
        return outs

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        for own, kept in zip(outs[1:], ins[3:5], strict=True):
            if not _same(own, kept):
                copy(own, kept)
        q, k, v, lengths, counts = map(contiguous, (*ins[:3], *ins[5:]))
        kernels.attend(*outs, q, k, v, lengths, counts, self.heads, self.kv_heads, self.scale)

    def compose(
        self, q: Tensor, k: Tensor, v: Tensor, keys: Tensor, values: Tensor, lengths: Tensor, counts: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        rows, steps, width = q.shape
        room, group = keys.shape[1], self.heads // self.kv_heads
        lengths, counts = expand_dims(lengths, axis=1), expand_dims(counts, axis=1)
        standing = expand_dims(cast(Tensor, apply(Positions(1), q.detach())), axis=0)  # of symbolic sizes, too
        positions = expand_dims(cast(Tensor, apply(Positions(1), keys.detach())), axis=0)
        at = positions - lengths
        new = expand_dims((at >= 0) & (at < counts), axis=2)
        places = expand_dims(maximum(minimum(at, counts - 1), 0), axis=2)

        def appended(x: Tensor, cache: Tensor) -> Tensor:
            moved = take_along_axis(x, broadcast_to(places, cache.shape), axis=1)
            return where(new, moved, cache)

        keys, values = appended(k, keys), appended(v, values)

        def heads(x: Tensor, count: int) -> Tensor:  # [R, ..., count C] as [R, count, ..., C]
            return swapaxes(reshape(x, (*x.shape[:2], count, x.shape[2] // count)), 1, 2)

        asking = reshape(heads(q, self.heads), (rows, self.kv_heads, group * steps, width // self.heads))
        last = reshape(lengths + standing, (rows, 1, steps, 1))
        seen = reshape(positions, (1, 1, 1, room)) <= last
        seen = broadcast_to(expand_dims(seen, axis=2), (rows, 1, group, steps, room))
        mask = reshape(seen, (rows, 1, group * steps, room))
        y = scaled_dot_product_attention(
            asking, heads(keys, self.kv_heads), heads(values, self.kv_heads), mask=mask, scale=self.scale
        )
        y = swapaxes(reshape(y, (rows, self.heads, steps, y.shape[-1])), 1, 2)
        y = reshape(y, (rows, steps, self.heads * y.shape[-1]))
        real = expand_dims(standing < counts, axis=2)
        return where(real, y, 0.0), keys, values


_mode = local()


@contextmanager
def overwriting_caches() -> Iterator[None]:
    """Inside the block, and in this thread, `cached_attention` in eager mode puts keys' and values' in the memory of
    keys and values, as programs do: for who owns these arrays and reads them no more."""
    before = getattr(_mode, "overwrite", False)
    _mode.overwrite = True
    try:
        yield
    finally:
        _mode.overwrite = before


def _same(a: Array, b: Array) -> bool:
    """Whether two arrays of a shape are the same memory."""
    return a.ctypes.data == b.ctypes.data and a.strides == b.strides


def cached_attention(
    q: TensorLike,
    k: TensorLike,
    v: TensorLike,
    keys: TensorLike,
    values: TensorLike,
    lengths: TensorLike,
    counts: TensorLike,
    *,
    heads: int,
    kv_heads: int | None = None,
    scale: float | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Causal attention of new positions to those of their row that are kept, which they join: (y, keys', values').

    q [R, T, heads E], k [R, T, kv_heads E], v [R, T, kv_heads D]: the new positions of R rows, of which the first
    counts[r] are real (T a prompt, or 1). keys [R, room, kv_heads E] and values [R, room, kv_heads D]: what is kept, of
    row r the first lengths[r] positions; what lies behind them is never read. lengths and counts int64 [R].

    keys'[r, lengths[r] + t] = k[r, t] and likewise the values; y[r, t] = softmax(scale q keys'^T) values' over the
    positions up to lengths[r] + t, 0 where t >= counts[r]. Each of the kv_heads (by default as many as heads) serves
    heads / kv_heads query heads side by side: Ainslie et al., arXiv 2305.13245. scale is 1 / sqrt(E) by default. In
    eager mode keys' and values' are copies; a program that decodes has them in the memory of keys and values.
    ShapeError where lengths + counts exceed the room. Positions enter before: see `rotary`.
    """
    q, k, v, keys, values = as_tensors(q, k, v, keys, values)
    q, k, v = (x if x.dtype == keys.dtype else astype(x, keys.dtype) for x in (q, k, v))
    numbers = [x if x.dtype == int64 else astype(x, int64) for x in as_tensors(lengths, counts)]
    if scale is None:
        scale = 1 / math.sqrt(max(1, (q.shape[-1] if q.ndim else 0) // max(1, heads)))
    op = CachedAttention(float(scale), heads, heads if kv_heads is None else kv_heads)
    return cast("tuple[Tensor, Tensor, Tensor]", apply(op, q, k, v, keys, values, *numbers))


__all__ = ["cached_attention"]
