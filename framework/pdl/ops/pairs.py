"""The sum of the inner products of all pairs of vectors: the second order of a factorisation machine."""

from __future__ import annotations

from typing import Any

import numpy as np

from pdl.errors import ShapeError
from pdl.kernels import chain as kernels
from pdl.kernels.copies import contiguous
from pdl.ops.base import Arrays, Fused, Spec, apply
from pdl.ops.broadcast import sum_into
from pdl.ops.checks import check_floating
from pdl.ops.elementwise import square
from pdl.ops.reduce import sum
from pdl.ops.shape import expand_dims, reshape
from pdl.tensor import Tensor, TensorLike, as_tensor


class PairProducts(Fused):
    """y [N] = sum_{i<j} <v_i, v_j> of v [N, F, C], and total [N, C] = sum_i v_i."""

    def infer(self, v: Spec) -> tuple[Spec, Spec]:
        check_floating("pair_products", v=v)
        if len(v.shape) != 3:
            raise ShapeError(f"pair_products: v {v.shape} has {len(v.shape)} dimensions; expected [rows, fields, dim]")
        return Spec(v.shape[:1], v.dtype), Spec((v.shape[0], v.shape[2]), v.dtype)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        v, (y, total) = contiguous(ins[0]), outs
        sum_into(total, v, (1,))
        flat = v.reshape(len(v), v.shape[1] * v.shape[2])
        np.einsum("nc,nc->n", total, total, out=y)
        y -= np.einsum("nk,nk->n", flat, flat)
        y *= 0.5

    def compose(self, v: Tensor) -> tuple[Tensor, Tensor]:
        total = sum(v, axis=1)
        return 0.5 * (sum(square(total), axis=1) - sum(square(v), axis=(1, 2))), total

    def vjp(self, g: Any, y: Any, v: Tensor) -> Any:
        if g[0] is None or g[1] is not None:
            return super().vjp(g, y, v)
        return lambda: apply(PairProductsGrad(), g[0], v, y[1])


class PairProductsGrad(Fused):
    """dv = g (total - v): g [N], v [N, F, C], total [N, C], in one pass over v."""

    def infer(self, g: Spec, v: Spec, total: Spec) -> Spec:
        y, sums = PairProducts().infer(v)
        if (g, total) != (y, sums):
            raise ShapeError(f"gradient of pair_products: g {g.shape} and total {total.shape} do not fit v {v.shape}")
        return v

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        g, v, total = ins
        each = np.ascontiguousarray(np.broadcast_to(g[:, None], total.shape))
        steps = (("multiply", 1), ("subtract", 2, True))
        kernels.chain(outs[0], (contiguous(v), each, each * total), ("same", "outer_row", "outer_row"), v.shape, steps)

    def compose(self, g: Tensor, v: Tensor, total: Tensor) -> Tensor:
        return reshape(g, (*g.shape, 1, 1)) * (expand_dims(total, axis=1) - v)


def pair_products(v: TensorLike) -> Tensor:
    """sum_{i<j} <v_i, v_j> = ((sum_i v_i)^2 - sum_i v_i^2) / 2, summed over C, of each row.    v [N, F, C] -> [N]

    Rendle, "Factorization Machines", ICDM 2010.
    """
    found: tuple[Tensor, Tensor] = apply(PairProducts(), as_tensor(v))
    return found[0]


__all__ = ["pair_products"]
