"""Attention with relative positions, computed tile by tile without a matrix of scores."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np

from pdl.dtype import bool_
from pdl.errors import ShapeError
from pdl.kernels import attention as kernels
from pdl.kernels.copies import contiguous
from pdl.ops.attention import ScaledDotProductAttention, _Attention, _in_rows
from pdl.ops.base import Arrays, Spec, apply, compose_vjp
from pdl.ops.broadcast import unbroadcast
from pdl.ops.cast import as_tensors, astype
from pdl.ops.dropout import draw_seed
from pdl.ops.elementwise import exp
from pdl.ops.linalg import matmul
from pdl.ops.pad import pad
from pdl.ops.reduce import logsumexp, sum
from pdl.ops.shape import expand_dims, reshape, swapaxes
from pdl.tensor import Tensor, TensorLike, as_tensor

_NAME = "relative_attention"


class _Relative(_Attention, abstract=True):
    """q and moved [..., L, heads E], k [..., S, heads E], v [..., S, heads D], places [L + S - 1, heads E]."""

    native_bf16 = False

    def rows(self, *arrays: Any) -> list[Any]:
        """Arrays as [n, heads, rows, columns] (views)."""
        return [_in_rows(self.split(x, ())) for x in arrays]

    def relative_scores(self, q: Tensor, moved: Tensor, k: Tensor, places: Tensor, mask: Tensor | None) -> Tensor:
        """scale (q k^T + the products of moved and places that belong to i and j) + mask; heads apart."""
        met = matmul(moved * self.scale, swapaxes(places, -1, -2))
        return self.masked(matmul(q * self.scale, swapaxes(k, -1, -2)) + shifted(met), mask)


class RelativeAttention(_Relative):
    """y = dropout(softmax(scale (q k^T + met) + mask)) v with met[i, j] = moved[i] places[L - 1 - i + j], and the
    logarithms of the sums, [..., heads, L]."""

    def infer(
        self, q: Spec, moved: Spec, k: Spec, v: Spec, places: Spec, mask: Spec | None, seed: Spec | None
    ) -> tuple[Spec, Spec]:
        plain = ScaledDotProductAttention(self.scale, self.heads, self.is_causal, self.dropout_p)
        if not self.heads or 0 in (*q.shape, *k.shape):
            raise ShapeError(f"{_NAME}: q {q.shape}, k {k.shape} need heads ({self.heads}), a query and a key")
        made = plain.infer(q, k, v, mask, seed)
        wanted = Spec((q.shape[-2] + k.shape[-2] - 1, q.shape[-1]), q.dtype)
        if moved != q or places != wanted:
            raise ShapeError(
                f"{_NAME}: moved {moved.shape} {moved.dtype.name} must be like q {q.shape} {q.dtype.name}, and places "
                f"{places.shape} {places.dtype.name} have a row for each of L + S - 1 distances: {wanted.shape}"
            )
        return made

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        y, lse = outs
        q, moved, k, v, places = self.rows(*ins[:5])
        mask = self.broadcast_mask(ins[5], q, k, y.shape[:-2])
        places = np.broadcast_to(places, (q.shape[0], *places.shape[1:]))
        kernels.attention(self.split(y, ()), lse, q, k, v, mask, moved, places, **self.options(ins[6]))

    def compose(
        self, q: Tensor, moved: Tensor, k: Tensor, v: Tensor, places: Tensor, mask: Tensor | None, seed: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        q, moved, k, v, places = (self._split(x) for x in (q, moved, k, v, places))
        scores = self.relative_scores(q, moved, k, places, mask)
        lse = logsumexp(scores, axis=-1)
        y = matmul(self.dropped(exp(scores - expand_dims(lse, axis=-1)), seed), v)
        return self.together(y), lse

    def vjp(self, g: Any, y: Any, *ins: Any) -> Any:
        if g[1] is not None:
            return compose_vjp(self.compose, g, ins)
        grad = RelativeAttentionGrad(self.scale, self.heads, self.is_causal, self.dropout_p)
        *made, dplaces = apply(grad, g[0], y[0].detach(), y[1].detach(), *ins)

        q, moved, k, v, places, mask, seed = ins

        def to_mask() -> Tensor | None:
            return compose_vjp(lambda m: self.compose(q, moved, k, v, places, m, seed)[0], g[0], (mask,))[0]

        return *made, unbroadcast(dplaces, places.shape), to_mask, None


class RelativeAttentionGrad(_Relative):
    """Gradients of q, moved, k, v and, for each of the batch, places [..., L + S - 1, heads E], for the gradient g of
    y; y and lse as the forward made them. With dS as in `ScaledDotProductAttentionGrad` and dM[i, L - 1 - i + j] =
    dS[i, j]: dmoved = scale dM places, dplaces = scale dM^T moved."""

    def infer(self, g: Spec, y: Spec, lse: Spec, q: Spec, moved: Spec, k: Spec, v: Spec, places: Spec,
              mask: Spec | None, seed: Spec | None) -> Any:  # fmt: skip
        forward = RelativeAttention(self.scale, self.heads, self.is_causal, self.dropout_p)
        made = forward.infer(q, moved, k, v, places, mask, seed)
        if (g.shape, y, lse) != (y.shape, *made):
            raise ShapeError(
                f"gradient of {_NAME}: g {g.shape}, y {y.shape}, lse {lse.shape}; expected {made[0].shape} twice and "
                f"{made[1].shape} for q {q.shape}"
            )
        return q, moved, k, v, Spec((*q.shape[:-2], *places.shape), places.dtype)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        g, y, lse, *operands, mask, seed = ins
        q, moved, k, v, places = self.rows(*operands)
        mask = self.broadcast_mask(mask, q, k, y.shape[:-2])
        dq, dmoved, dk, dv, dplaces = (self.split(d, ()) for d in outs)
        places = np.broadcast_to(places, (q.shape[0], *places.shape[1:]))
        kernels.attention_grad(
            dq, dk, dv, *self.rows(g, y), contiguous(lse), q, k, v, mask, moved, places, dmoved, dplaces,
            **self.options(seed),
        )  # fmt: skip

    def compose(self, g: Tensor, y: Tensor, lse: Tensor, q: Tensor, moved: Tensor, k: Tensor, v: Tensor,
                places: Tensor, mask: Tensor | None, seed: Tensor | None) -> Any:  # fmt: skip
        g, q, moved, k, v, places = (self._split(x) for x in (g, q, moved, k, v, places))
        scores = self.relative_scores(q, moved, k, places, mask)
        p = exp(scores - logsumexp(scores, axis=-1, keepdims=True))
        kept = self.dropped(p, seed)
        dp = self.dropped(matmul(g, swapaxes(v, -1, -2)), seed)
        ds = p * (dp - sum(p * dp, axis=-1, keepdims=True)) * self.scale
        dm = unshifted(ds)
        back, far = swapaxes(ds, -1, -2), swapaxes(dm, -1, -2)
        made = (matmul(ds, k), matmul(dm, places), matmul(back, q), matmul(swapaxes(kept, -1, -2), g))
        return *(self.together(d) for d in made), self.together(matmul(far, moved))


def shifted(x: Tensor) -> Tensor:
    """x [..., L, S + L - 1] -> y [..., L, S], y[i, j] = x[i, L - 1 - i + j]. One more column in front, the numbers as
    S + L rows of L, the first row left out: all is where it belongs."""
    *lead, steps, wide = x.shape
    y = reshape(pad(x, (*[(0, 0)] * (x.ndim - 1), (1, 0))), (*lead, wide + 1, steps))
    return reshape(y[..., 1:, :], (*lead, steps, wide))[..., : wide - steps + 1]


def unshifted(y: Tensor) -> Tensor:
    """The other way: x[i, L - 1 - i + j] = y[i, j], 0 elsewhere."""
    *lead, steps, keys = y.shape
    wide, still = keys + steps - 1, [(0, 0)] * (y.ndim - 2)
    x = reshape(pad(y, (*still, (0, 0), (0, steps - 1))), (*lead, wide, steps))
    return reshape(pad(x, (*still, (1, 0), (0, 0))), (*lead, steps, wide + 1))[..., 1:]


def relative_attention(
    q: TensorLike,
    moved: TensorLike,
    k: TensorLike,
    v: TensorLike,
    places: TensorLike,
    *,
    heads: int,
    mask: TensorLike | None = None,
    scale: float | None = None,
    dropout_p: float = 0.0,
) -> Tensor:
    """Attention whose score of query i and key j is (q_i k_j + moved_i p_(i - j)) scale + mask, where p_(i - j) is row
    L - 1 - i + j of `places`: the distances L - 1, ..., 0, ..., 1 - S. In Transformer-XL (Dai et al., arXiv
    1901.02860) and the Conformer, q is the query and u, moved the query and v.

    The heads lie side by side: q and moved [..., L, heads E], k [..., S, heads E], v [..., S, heads D], places
    [L + S - 1, heads E] -> [..., L, heads D]. Everything else is as in `scaled_dot_product_attention`; memory is linear
    in L and S.
    """
    q, moved, k, v, places = as_tensors(q, moved, k, v, places)
    mask = None if mask is None else as_tensor(mask)
    if mask is not None and mask.dtype not in (bool_, q.dtype):
        mask = astype(mask, q.dtype)
    if scale is None:
        scale = 1 / math.sqrt(max(1, q.shape[-1] // (heads or 1)))
    op = RelativeAttention(float(scale), heads, False, float(dropout_p))
    return cast(Tensor, apply(op, q, moved, k, v, places, mask, draw_seed() if dropout_p else None)[0])


__all__ = ["relative_attention"]
