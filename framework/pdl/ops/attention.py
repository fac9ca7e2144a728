"""Attention, computed tile by tile without a matrix of scores."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np

from pdl.dtype import Array, bfloat16, bool_, float32
from pdl.errors import DtypeError, ShapeError
from pdl.kernels import attention as kernels
from pdl.kernels.copies import contiguous
from pdl.kernels.launch import now
from pdl.ops.attributes import Probability, Width
from pdl.ops.base import Arrays, Fused, Spec, apply, compose_vjp
from pdl.ops.broadcast import fill, unbroadcast
from pdl.ops.cast import as_tensors, astype
from pdl.ops.checks import broadcast_shapes, check_floating
from pdl.ops.dropout import Dropout, check_seed, draw_seed, seed_number
from pdl.ops.elementwise import exp, where
from pdl.ops.linalg import matmul
from pdl.ops.reduce import logsumexp, sum
from pdl.ops.shape import concat, expand_dims, reshape, split, swapaxes
from pdl.tensor import Tensor, TensorLike, as_tensor

_NAME = "scaled_dot_product_attention"


class _Attention(Fused, abstract=True):
    """What attention and its gradient share: attributes, and the view of their arrays as [n, heads, rows, columns].

    `heads` 0: q [..., L, E], k [..., S, E], v [..., S, D], leading dimensions broadcast. Else the heads lie side by
    side: q [..., L, heads E] and so on. k and v None: q holds all three, [..., L, 3 heads E].
    """

    scale: float
    heads: Width = 0
    is_causal: bool = False
    dropout_p: Probability = 0.0
    native_bf16 = native = True

    def options(self, seed: Array | None) -> dict[str, Any]:
        """Keyword arguments of the kernel."""
        if seed is not None:
            now("attention: the seed of dropout is read")
        return {
            "scale": self.scale,
            "causal": self.is_causal,
            "dropout": self.dropout_p,
            "seed": 0 if seed is None else seed_number(seed),
        }

    def apart(self, q: Any, k: Any, v: Any) -> tuple[Any, Any, Any]:
        """q, k and v as arrays [n, heads, rows, columns] (views)."""
        if k is None:
            columns = q.shape[-1] // (3 * self.heads)
            three = q.reshape(math.prod(q.shape[:-2]), q.shape[-2], 3, self.heads, columns).transpose(2, 0, 3, 1, 4)
            return three[0], three[1], three[2]
        batch = () if self.heads else np.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
        return self.split(q, batch), self.split(k, batch), self.split(v, batch)

    def split(self, x: Array, batch: tuple[int, ...]) -> Array:
        """One array as [n, heads, rows, columns], its leading dimensions those of the `batch` (heads 0)."""
        rows, columns = x.shape[-2:]
        if self.heads:
            x = x.reshape(math.prod(x.shape[:-2]), rows, self.heads, columns // self.heads)
            return x.transpose(0, 2, 1, 3)
        if x.shape[:-2] != batch:
            x = np.broadcast_to(x, (*batch, rows, columns))
        return x if x.ndim == 4 else x.reshape(math.prod(batch[:-1]), batch[-1] if batch else 1, rows, columns)

    def broadcast_mask(self, mask: Array | None, q: Array, k: Array, lead: tuple[int, ...]) -> Array | None:
        """The mask as [n, heads, L, S]."""
        if mask is None:
            return None
        batch = (*lead, self.heads) if self.heads else lead
        whole = np.broadcast_to(mask, (*batch, q.shape[2], k.shape[2]))
        return whole if whole.ndim == 4 else whole.reshape(*q.shape[:3], k.shape[2])

    def tensors(self, q: Tensor, k: Tensor | None, v: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """`apart` for tensors, in ops: [..., heads, rows, columns]."""
        if k is None or v is None:
            q, k, v = split(q, q.shape[-1] // 3, axis=-1)
        return self._split(q), self._split(k), self._split(v)

    def _split(self, x: Tensor) -> Tensor:
        if not self.heads:
            return x
        parts = reshape(x, (*x.shape[:-1], self.heads, x.shape[-1] // self.heads))
        return swapaxes(parts, -2, -3)

    def together(self, x: Tensor) -> Tensor:
        """[..., heads, rows, columns] as [..., rows, heads columns]."""
        if not self.heads:
            return x
        parts = swapaxes(x, -2, -3)
        return reshape(parts, (*parts.shape[:-2], parts.shape[-2] * parts.shape[-1]))

    def scores(self, q: Tensor, k: Tensor, mask: Tensor | None) -> Tensor:
        """scale q k^T + mask, -inf where a key is kept out."""
        return self.masked(matmul(q * self.scale, swapaxes(k, -1, -2)), mask)

    def masked(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        """Scores [..., L, S] + mask, -inf where a key is kept out."""
        if self.is_causal:
            scores = where(Tensor(np.tri(*scores.shape[-2:], dtype=np.bool_)), scores, -math.inf)
        if mask is None:
            return scores
        return where(mask, scores, -math.inf) if mask.dtype == bool_ else scores + mask

    def dropped(self, p: Tensor, seed: Tensor | None) -> Tensor:
        """Probabilities [..., L, S], some dropped."""
        return p if seed is None else cast(Tensor, apply(Dropout(self.dropout_p), p, seed))


class ScaledDotProductAttention(_Attention):
    """y = dropout(softmax(scale q k^T + mask)) v, and the logarithms of the sums, [n, heads, L] or [..., L]."""

    def infer(self, q: Spec, k: Spec | None, v: Spec | None, mask: Spec | None, seed: Spec | None) -> tuple[Spec, Spec]:
        batch, rows, columns = _check(self.heads, q, k, v)
        lead = (*batch, self.heads) if self.heads else batch
        keys = q.shape[-2] if k is None else k.shape[-2]
        if mask is not None:
            if not _broadcasts(mask.shape, (*lead, rows, keys)):
                raise ShapeError(f"{_NAME}: mask {mask.shape} does not broadcast to the scores {(*lead, rows, keys)}")
            if mask.dtype not in (bool_, q.dtype):
                raise DtypeError(f"{_NAME}: mask is {mask.dtype.name}; expected bool or {q.dtype.name}")
        if seed is not None:
            check_seed(_NAME, seed)
        return Spec((*batch, rows, columns), q.dtype), Spec((*lead, rows), float32 if q.dtype == bfloat16 else q.dtype)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        y, lse = outs
        if not y.size or 0 in (ins[0] if ins[1] is None else ins[1]).shape:  # no queries, or no keys
            fill(y, 0)
            return fill(lse, -math.inf)
        q, k, v = (_in_rows(x) for x in self.apart(*ins[:3]))
        mask = self.broadcast_mask(ins[3], q, k, y.shape[:-2])
        kernels.attention(self.split(y, y.shape[:-2]), lse, q, k, v, mask, **self.options(ins[4]))

    def compose(
        self, q: Tensor, k: Tensor | None, v: Tensor | None, mask: Tensor | None, seed: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        q, k, v = self.tensors(q, k, v)
        scores = self.scores(q, k, mask)
        lse = logsumexp(scores, axis=-1)
        y = matmul(self.dropped(exp(scores - expand_dims(lse, axis=-1)), seed), v)
        return self.together(y), lse

    def vjp(self, g: Any, y: Any, q: Tensor, k: Any, v: Any, mask: Any, seed: Any) -> Any:
        if g[1] is not None:
            return compose_vjp(self.compose, g, (q, k, v, mask, seed))
        grad = ScaledDotProductAttentionGrad(self.scale, self.heads, self.is_causal, self.dropout_p)
        made = apply(grad, g[0], y[0].detach(), y[1].detach(), q, k, v, mask, seed)

        def to_mask() -> Tensor | None:
            return compose_vjp(lambda m: self.compose(q, k, v, m, seed)[0], g[0], (mask,))[0]

        if k is None:
            return made, None, None, to_mask, None
        dq, dk, dv = (unbroadcast(d, x.shape) for d, x in zip(made, (q, k, v), strict=True))
        return dq, dk, dv, to_mask, None


class ScaledDotProductAttentionGrad(_Attention):
    """Gradients of q, k and v (of q alone where k is None) for the gradient g of y; y and lse as the forward made them.

    With P the probabilities, Z the dropout factors, dP = Z (g v^T): dS = P (dP - sum g y), dq = scale dS k,
    dk = scale dS^T q, dv = (P Z)^T g.
    """

    def infer(self, g: Spec, y: Spec, lse: Spec, q: Spec, k: Any, v: Any, mask: Any, seed: Any) -> Any:
        made = ScaledDotProductAttention(self.scale, self.heads, self.is_causal, self.dropout_p).infer(
            q, k, v, mask, seed
        )
        if (g.shape, y, lse) != (y.shape, *made):
            raise ShapeError(
                f"gradient of {_NAME}: g {g.shape}, y {y.shape}, lse {lse.shape}; expected {made[0].shape} twice and "
                f"{made[1].shape} for q {q.shape}"
            )
        if k is None:
            return q
        return tuple(Spec((*y.shape[:-2], *x.shape[-2:]), x.dtype) for x in (q, k, v))

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        g, y, lse, *operands, mask, seed = ins
        if not g.size or 0 in (operands[0] if operands[1] is None else operands[1]).shape:
            for d in outs:
                fill(d, 0)
            return
        q, k, v = (_in_rows(x) for x in self.apart(*operands))
        lead = y.shape[:-2]
        mask = self.broadcast_mask(mask, q, k, lead)
        grads = self.apart(outs[0], None, None) if len(outs) == 1 else tuple(self.split(d, lead) for d in outs)
        g, y = _in_rows(self.split(g, lead)), _in_rows(self.split(y, lead))
        kernels.attention_grad(*grads, g, y, contiguous(lse), q, k, v, mask, **self.options(seed))

    def compose(
        self,
        g: Tensor,
        y: Tensor,
        lse: Tensor,
        q: Tensor,
        k: Tensor | None,
        v: Tensor | None,
        mask: Tensor | None,
        seed: Tensor | None,
    ) -> Any:
        packed = k is None
        q, k, v = self.tensors(q, k, v)
        g = self._split(g)
        scores = self.scores(q, k, mask)
        p = exp(scores - logsumexp(scores, axis=-1, keepdims=True))
        kept = self.dropped(p, seed)
        dp = self.dropped(matmul(g, swapaxes(v, -1, -2)), seed)
        ds = p * (dp - sum(p * dp, axis=-1, keepdims=True)) * self.scale
        back = swapaxes(ds, -1, -2)
        made = (matmul(ds, k), matmul(back, q), matmul(swapaxes(kept, -1, -2), g))
        parts = tuple(self.together(d) for d in made)
        return concat(parts, axis=-1) if packed else parts


def scaled_dot_product_attention(
    q: TensorLike,
    k: TensorLike | None = None,
    v: TensorLike | None = None,
    *,
    mask: TensorLike | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    dropout_p: float = 0.0,
    heads: int = 0,
) -> Tensor:
    """softmax(q k^T scale + mask) v for q [..., L, E], k [..., S, E], v [..., S, D] -> [..., L, D]. Vaswani et al.,
    arXiv 1706.03762.

    With `heads`, the heads lie side by side as linear layers make them: q [..., L, heads E], k [..., S, heads E],
    v [..., S, heads D] -> [..., L, heads D]; k and v left out, q [..., L, 3 heads E] holds all three. `mask` broadcasts
    to the scores [..., L, S], with heads [..., heads, L, S]: bool (False: kept out) or floats that are added.
    `is_causal`: position i sees the keys 0..i. `scale` is 1 / sqrt(E) by default. `dropout_p` drops attention weights
    (leave it 0 in evaluation). A query whose keys are all kept out gives NaN, one without keys 0. Memory is linear in L
    and S: Dao et al., arXiv 2205.14135.
    """
    if k is None or v is None:
        q = as_tensor(q)
        if not heads or k is not None or v is not None or q.ndim < 2 or q.shape[-1] % (3 * heads):
            raise ShapeError(
                f"{_NAME}: without k and v, q {q.shape} must be [..., L, 3 heads E] with heads given, not {heads}"
            )
        width = q.shape[-1] // 3
    else:
        q, k, v = as_tensors(q, k, v)
        width = q.shape[-1] if q.ndim else 0
    mask = None if mask is None else as_tensor(mask)
    if mask is not None and mask.dtype not in (bool_, q.dtype):
        mask = astype(mask, q.dtype)
    if scale is None:
        scale = 1 / math.sqrt(max(1, width // (heads or 1)))
    op = ScaledDotProductAttention(float(scale), heads, is_causal, float(dropout_p))
    return cast(Tensor, apply(op, q, k, v, mask, draw_seed() if dropout_p else None)[0])


def _in_rows(x: Array) -> Array:
    """x with the values of a row side by side, copied only where they are not."""
    return x if x.strides[-1] == x.itemsize or x.shape[-1] == 1 else contiguous(x)


def _broadcasts(small: tuple[int, ...], large: tuple[int, ...]) -> bool:
    last = large[len(large) - len(small) :]
    return len(small) <= len(large) and all(a in (1, b) for a, b in zip(small, last, strict=True))


def _check(heads: int, q: Spec, k: Spec | None, v: Spec | None) -> tuple[tuple[int, ...], int, int]:
    """Leading dimensions, rows and columns of the result; raises where the operands do not fit."""
    check_floating(_NAME, q=q, k=k, v=v)
    if k is None or v is None:
        if (
            k is not None
            or v is not None
            or len(q.shape) < 2
            or not heads
            or q.shape[-1] % (3 * heads)
            or not q.shape[-1]
        ):
            raise ShapeError(
                f"{_NAME}: without k and v, q {q.shape} must be [..., L, 3 heads E], heads {heads} or more"
            )
        return q.shape[:-2], q.shape[-2], q.shape[-1] // 3
    if min(len(q.shape), len(k.shape), len(v.shape)) < 2:
        raise ShapeError(f"{_NAME}: q {q.shape}, k {k.shape}, v {v.shape} need at least two dimensions")
    if q.dtype != k.dtype or q.dtype != v.dtype:
        raise DtypeError(f"{_NAME}: q, k and v are {q.dtype.name}, {k.dtype.name} and {v.dtype.name}; astype them")
    if q.shape[-1] != k.shape[-1]:
        raise ShapeError(f"{_NAME}: q {q.shape} has {q.shape[-1]} features, k {k.shape} has {k.shape[-1]}")
    if k.shape[-2] != v.shape[-2]:
        raise ShapeError(f"{_NAME}: k {k.shape} has {k.shape[-2]} positions, v {v.shape} has {v.shape[-2]}")
    if not q.shape[-1]:
        raise ShapeError(f"{_NAME}: q {q.shape} and k {k.shape} have no features")
    if not heads:
        batch = broadcast_shapes(_NAME, q.shape[:-2], k.shape[:-2], v.shape[:-2])
    elif q.shape[-1] % heads or v.shape[-1] % heads:
        raise ShapeError(f"{_NAME}: {heads} heads do not divide the features of q {q.shape} and v {v.shape}")
    elif not q.shape[:-2] == k.shape[:-2] == v.shape[:-2]:
        raise ShapeError(
            f"{_NAME}: with heads, q {q.shape}, k {k.shape} and v {v.shape} must agree in front of L and S"
        )
    else:
        batch = q.shape[:-2]
    return batch, q.shape[-2], v.shape[-1]


__all__ = ["scaled_dot_product_attention"]
