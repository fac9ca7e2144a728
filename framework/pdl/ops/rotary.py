"""Rotary position embeddings."""

from __future__ import annotations

from typing import Any

import numpy as np

from pdl.dtype import bfloat16, float32, float64, int64
from pdl.errors import ShapeError
from pdl.kernels import rotary as kernels
from pdl.kernels.copies import contiguous
from pdl.ops.attributes import Axis, Width
from pdl.ops.base import Arrays, Fused, Op, Spec, apply, not_differentiable
from pdl.ops.cast import astype
from pdl.ops.checks import check_floating
from pdl.ops.elementwise import cos, sin
from pdl.ops.reduce import sum
from pdl.ops.segment import check_ids
from pdl.ops.shape import concat, expand_dims, reshape
from pdl.tensor import Tensor, TensorLike, as_tensor


class Positions(Op):
    """0, 1, ... along an axis of x, int64; no value of x counts."""

    axis: Axis
    of_shapes = True
    native_bf16 = True
    vjp = not_differentiable("positions are integers")

    def infer(self, x: Spec) -> Spec:
        if not -len(x.shape) <= self.axis < len(x.shape):
            raise ShapeError(f"rotary: x {x.shape} has no axis {self.axis}")
        return Spec((x.shape[self.axis],), int64)

    def cpu(self, outs: Arrays, ins: Arrays) -> None:
        outs[0][...] = np.arange(ins[0].shape[self.axis])


class Rotate(Fused):
    """x [..., T, C] with (h[i], h[i + size / 2]) of each head h turned by the angles of its row: the first `heads`
    times `size` columns turn, those behind them stay. cos, sin [T, size / 2] or [..., T, size / 2]. `back`: by the
    negative angles."""

    heads: Width
    size: Width
    back: bool = False
    native_bf16 = native = inplace = True

    def infer(self, x: Spec, cos: Spec, sin: Spec) -> Spec:
        check_floating("rotary", x=x)
        if len(x.shape) < 2 or self.size % 2 or self.heads * self.size > x.shape[-1]:
            raise ShapeError(
                f"rotary: x {x.shape} must be [..., T, C] with {self.heads} heads of {self.size} columns among the C, "
                "and heads an even number of columns"
            )
        wanted = float32 if x.dtype == bfloat16 else x.dtype
        half = self.size // 2
        for angles in (cos, sin):
            if angles.dtype != wanted or angles.shape not in ((x.shape[-2], half), (*x.shape[:-1], half)):
                raise ShapeError(
                    f"rotary: cosines {cos.shape} {cos.dtype.name} and sines {sin.shape} {sin.dtype.name} of x "
                    f"{x.shape} must be {(x.shape[-2], half)} or {(*x.shape[:-1], half)} {wanted.name}"
                )
        if cos.shape != sin.shape:
            raise ShapeError(f"rotary: cosines {cos.shape} and sines {sin.shape} must be alike")
        return x

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        x, cosines, sines = map(contiguous, ins)
        kernels.rotate(outs[0], x, cosines, sines, self.heads, self.size, self.back)

    def compose(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        turned = reshape(x[..., : self.heads * self.size], (*x.shape[:-1], self.heads, self.size))
        a, b = turned[..., : self.size // 2], turned[..., self.size // 2 :]
        cos, sin = (astype(expand_dims(angles, axis=-2), x.dtype) for angles in (cos, -sin if self.back else sin))
        turned = concat([a * cos - b * sin, b * cos + a * sin], axis=-1)
        flat = reshape(turned, (*x.shape[:-1], self.heads * self.size))
        return concat([flat, x[..., self.heads * self.size :]], axis=-1)

    def vjp(self, g: Tensor, y: Tensor, x: Tensor, cos: Tensor, sin: Tensor) -> Any:
        def angle(of_cos: bool) -> Tensor:
            # of what turns, by head: d cos = g_a a + g_b b, d sin = g_b a - g_a b
            both = [
                reshape(v[..., : self.heads * self.size], (*v.shape[:-1], self.heads, 2, self.size // 2))
                for v in (g, x)
            ]
            (ga, gb), (a, b) = ((v[..., 0, :], v[..., 1, :]) for v in both)
            made = ga * a + gb * b if of_cos else (ga * b - gb * a if self.back else gb * a - ga * b)
            made = sum(made, axis=-2)
            if cos.ndim < x.ndim:
                made = sum(made, axis=tuple(range(x.ndim - 2)))
            return astype(made, cos.dtype)

        return (
            lambda: apply(Rotate(self.heads, self.size, not self.back), g, cos, sin),
            lambda: angle(True),
            lambda: angle(False),
        )


def rotary(
    x: TensorLike,
    positions: TensorLike | None = None,
    *,
    heads: int = 1,
    size: int | None = None,
    base: float = 10000.0,
    inverse_frequencies: TensorLike | None = None,
) -> Tensor:
    """Queries or keys turned by angles that grow with their position, so that products of the two depend on distances
    alone. Su et al., arXiv 2104.09864, in the layout of GPT-NeoX and Llama.    x [..., T, C] -> [..., T, C]

    The first `heads` times `size` columns of x are heads side by side (`size` is C / heads by default); columns behind
    them are copied, so that queries and keys turn, and values do not, where one array holds all three. Of a head h at
    position p, the pair (h[i], h[i + size / 2]) turns by p / base^(2 i / size), or by p inverse_frequencies[i].
    `positions` int [T] or [..., T]: 0, 1, ... T - 1 by default.
    """
    x = as_tensor(x)
    if x.ndim < 2:
        raise ShapeError(f"rotary: x {x.shape} must be [..., T, C]")
    if size is None:
        size = int(x.shape[-1]) // max(heads, 1)
    wide = float64 if x.dtype == float64 else float32
    if inverse_frequencies is None:
        exponents = np.arange(0, size, 2, dtype=np.float64) / max(size, 1)
        inverse_frequencies = Tensor((base**-exponents).astype(wide))
    if positions is None:
        positions = apply(Positions(-2), x.detach())
    positions = as_tensor(positions)
    check_ids("rotary", "positions", Spec(positions.shape, positions.dtype))
    angles = expand_dims(astype(astype(positions, int64), wide), axis=-1) * astype(as_tensor(inverse_frequencies), wide)
    return apply(Rotate(heads, size), x, cos(angles), sin(angles))


__all__ = ["rotary"]
