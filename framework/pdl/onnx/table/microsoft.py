"""Ops of the domain com.microsoft that ONNX Runtime's optimiser writes, in float: products with what follows them,
norms with what precedes them, activations, attention. Bytes are in `microsoft_quantised`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pdl import ops
from pdl.errors import ShapeError, UsageError
from pdl.onnx.eager import in_single
from pdl.onnx.registry import Context, NeedsValue, onnx_op, today
from pdl.onnx.values import tensor
from pdl.tensor import Tensor

DOMAIN = "com.microsoft"
_ACTIVATIONS: dict[str, Callable[..., Tensor]] = {
    "": lambda x: x,
    "Relu": ops.relu,
    "Tanh": ops.tanh,
    "Sigmoid": ops.sigmoid,
    "HardSwish": ops.hardswish,
    "LeakyRelu": lambda x, a=0.01: ops.leaky_relu(x, negative_slope=a),
    "Clip": ops.clip,
    "HardSigmoid": lambda x, a=0.2, b=0.5: ops.clip(x * a + b, 0.0, 1.0),
}


def ours(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function for an op of the domain, whose floats of 16 bits are computed in float32."""
    return lambda function: onnx_op(name, domain=DOMAIN)(in_single(function))


def _activated(ctx: Context, x: Any, name: str, numbers: Sequence[float]) -> Any:
    if name not in _ACTIVATIONS:
        raise UsageError(f"{ctx.node.label()}: activation {name!r} is none of {', '.join(filter(None, _ACTIVATIONS))}")
    return _ACTIVATIONS[name](tensor(x), *numbers)


# -- products ----------------------------------------------------------------------------------------------------------
@ours("FusedConv")
def _fused_conv(
    ctx: Context, x: Any, w: Any, b: Any = None, z: Any = None, *, activation: str = "", activation_params: Any = None,
    **how: Any,
) -> Any:  # fmt: skip
    """activation(conv(x, w) + b + z)."""
    y = today("Conv")(ctx, x, w, b, **how)
    return _activated(ctx, y if z is None else y + tensor(z), activation, activation_params or ())


@ours("FusedGemm")
def _fused_gemm(
    ctx: Context, a: Any, b: Any, c: Any = None, *, activation: str = "", activation_alpha: float | None = None,
    activation_beta: float | None = None, activation_gamma: float | None = None, **how: Any,
) -> Any:  # fmt: skip
    """activation(alpha a b + beta c)."""
    numbers = [v for v in (activation_alpha, activation_beta, activation_gamma) if v is not None]
    return _activated(ctx, today("Gemm")(ctx, a, b, c, **how), activation, numbers)


@ours("FusedMatMul")
def _fused_matmul(
    ctx: Context, a: Any, b: Any, *, alpha: float = 1.0, transA: int = 0, transB: int = 0, transBatchA: int = 0,
    transBatchB: int = 0,
) -> Any:  # fmt: skip
    """alpha a b; transBatch: the first axis goes behind those of the batch, before the matrix is turned."""
    a, b = (
        _turned(tensor(x), bool(t), bool(batch)) for x, t, batch in ((a, transA, transBatchA), (b, transB, transBatchB))
    )
    y = ops.matmul(a, b)
    return y if alpha == 1 else y * alpha


@ours("TransposeMatMul")
def _transpose_matmul(ctx: Context, a: Any, b: Any, *, alpha: float = 1.0, transA: int = 0, transB: int = 0) -> Any:
    """`FusedMatMul` under its first name."""
    return _fused_matmul(ctx, a, b, alpha=alpha, transA=transA, transB=transB)


def _turned(x: Tensor, matrix: bool, batch: bool) -> Tensor:
    if batch and x.ndim > 2:
        x = ops.permute_dims(x, (*range(1, x.ndim - 1), 0, x.ndim - 1))
    return ops.matrix_transpose(x) if matrix and x.ndim > 1 else x


# -- norms -------------------------------------------------------------------------------------------------------------
@ours("SkipLayerNormalization")
def _skip_layer_norm(
    ctx: Context, x: Any, skip: Any, gamma: Any, beta: Any = None, bias: Any = None, *, epsilon: float = 1e-12
) -> Any:
    """Layer norm of x + skip + bias, and that sum."""
    total = _sum(x, skip, bias)
    y = ops.layer_norm(total, tensor(gamma), None if beta is None else tensor(beta), eps=epsilon)
    return y, None, None, total


@ours("SkipSimplifiedLayerNormalization")
def _skip_rms_norm(ctx: Context, x: Any, skip: Any, gamma: Any, bias: Any = None, *, epsilon: float = 1e-12) -> Any:
    """RMS norm of x + skip + bias, and that sum."""
    total = _sum(x, skip, bias)
    return today("RMSNormalization")(ctx, total, gamma, epsilon=epsilon), None, None, total


@onnx_op("SimplifiedLayerNormalization")
def _rms_norm(ctx: Context, x: Any, gamma: Any, **how: Any) -> Any:
    """RMSNormalization as ONNX Runtime called it before opset 23."""
    return today("RMSNormalization")(ctx, x, gamma, **how)


@ours("EmbedLayerNormalization")
def _embed_layer_norm(
    ctx: Context, ids: Any, segments: Any, words: Any, places: Any, kinds: Any, gamma: Any, beta: Any, mask: Any = None,
    position_ids: Any = None, *, epsilon: float = 1e-12, mask_index_type: int = 0,
) -> Any:  # fmt: skip
    """Layer norm of the sum of a word's, a place's and a segment's vector; how many words the mask holds; the sum."""
    total = ops.take(tensor(words), tensor(ids), axis=0)
    at = tensor(np.arange(ids.shape[1])) if position_ids is None and type(ids.shape[1]) is int else position_ids
    if at is None:
        raise NeedsValue(f"{ctx.node.label()} numbers the places of a length that is not known")
    total = total + ops.take(tensor(places), tensor(at), axis=0)
    if kinds is not None and segments is not None:
        total = total + ops.take(tensor(kinds), tensor(segments), axis=0)
    y = ops.layer_norm(total, tensor(gamma), tensor(beta), eps=epsilon)
    if mask is None:
        return y, ops.astype(ops.sum(tensor(ids) * 0, axis=1), "int32"), total
    return y, ops.astype(ops.sum(ops.astype(tensor(mask), "int64"), axis=1), "int32"), total


def _sum(*xs: Any) -> Tensor:
    first, *more = (tensor(x) for x in xs if x is not None)
    for x in more:
        first = first + x
    return first  # type: ignore[no-any-return]


# -- activations -------------------------------------------------------------------------------------------------------
@ours("Gelu")
def _gelu(ctx: Context, x: Any) -> Any:
    """x Phi(x)."""
    return ops.gelu(tensor(x))


@ours("BiasGelu")
def _bias_gelu(ctx: Context, x: Any, b: Any) -> Any:
    """Gelu of x + b."""
    return ops.gelu(_sum(x, b))


@ours("FastGelu")
def _fast_gelu(ctx: Context, x: Any, b: Any = None) -> Any:
    """Gelu of x + b by tanh."""
    return ops.gelu(_sum(x, b), approximate="tanh")


@ours("QuickGelu")
def _quick_gelu(ctx: Context, x: Any, *, alpha: float = 1.702) -> Any:
    """x sigmoid(alpha x)."""
    x = tensor(x)
    return ops.silu(x) if alpha == 1 else x * ops.sigmoid(x * alpha)


# -- attention ---------------------------------------------------------------------------------------------------------
@ours("Attention")
def _attention(
    ctx: Context, x: Any, w: Any, b: Any = None, mask: Any = None, past: Any = None, attention_bias: Any = None,
    past_length: Any = None, *, num_heads: int, unidirectional: int = 0, qkv_hidden_sizes: Any = None,
    mask_filter_value: float = -10000.0, scale: float | None = None, do_rotary: int = 0,
    past_present_share_buffer: int = 0, rotary_embedding_dim: int = 0,
) -> Any:  # fmt: skip
    """Self-attention of x [N, L, D], its queries, keys and values x w + b; `past` [2, N, heads, P, E] stands before the
    keys and values.
    """
    if do_rotary or past_present_share_buffer or past_length is not None:
        raise UsageError(f"{ctx.node.label()}: rotary positions and shared caches are not supported")
    sizes = list(qkv_hidden_sizes) if qkv_hidden_sizes else [int(w.shape[1]) // 3] * 3
    y = ops.linear(tensor(x), tensor(w), None if b is None else tensor(b))
    ends = np.cumsum([0, *sizes]).tolist()
    q, k, v = (_heads(ctx, y[..., a:e], num_heads) for a, e in itertools.pairwise(ends))
    present = None
    if past is not None:
        past = tensor(past)
        k, v = ops.concat([past[0], k], axis=2), ops.concat([past[1], v], axis=2)
    if ctx.wants(1):
        present = ops.stack([k, v], axis=0)
    return _attended(ctx, q, k, v, mask, attention_bias, bool(unidirectional), mask_filter_value, scale), present


@ours("MultiHeadAttention")
def _multi_head(
    ctx: Context, q: Any, k: Any = None, v: Any = None, b: Any = None, mask: Any = None, attention_bias: Any = None,
    past_key: Any = None, past_value: Any = None, *, num_heads: int, mask_filter_value: float = -10000.0,
    scale: float | None = None, unidirectional: int = 0,
) -> Any:  # fmt: skip
    """Attention of q [N, L, D] to k and v [N, S, D], or heads apart [N, heads, S, E]; packed: q [N, L, heads, 3, E], or
    k [N, S, heads, 2, E]; b is added to all three.
    """
    if len(q.shape) == 5:
        q, k, v = (_merged(tensor(q)[:, :, :, i]) for i in range(3))
    elif k is not None and len(k.shape) == 5:
        k, v = (_merged(tensor(k)[:, :, :, i]) for i in range(2))
    if k is None or v is None:
        raise UsageError(f"{ctx.node.label()}: there are no keys and values")
    parts: list[Any] = [None] * 3
    if b is not None:
        width = q.shape[2]
        parts = [tensor(b)[:width], tensor(b)[width : 2 * width], tensor(b)[2 * width :]]
    q, k, v = (
        tensor(x) if len(x.shape) == 4 else _heads(ctx, tensor(x) if p is None else tensor(x) + p, num_heads)
        for x, p in zip((q, k, v), parts, strict=True)
    )
    if past_key is not None:
        k, v = ops.concat([tensor(past_key), k], axis=2), ops.concat([tensor(past_value), v], axis=2)
    y = _attended(ctx, q, k, v, mask, attention_bias, bool(unidirectional), mask_filter_value, scale)
    return y, k, v


def _merged(x: Tensor) -> Tensor:
    n, length, heads, width = x.shape
    return ops.reshape(x, (n, length, heads * width))


def _heads(ctx: Context, x: Tensor, heads: int) -> Tensor:
    """[N, L, heads E] as [N, heads, L, E]."""
    n, length, width = x.shape
    if width % heads:
        raise ShapeError(f"{ctx.node.label()}: {heads} heads of {width} features")
    return ops.permute_dims(ops.reshape(x, (n, length, heads, width // heads)), (0, 2, 1, 3))


def _attended(
    ctx: Context, q: Tensor, k: Tensor, v: Tensor, mask: Any, bias: Any, causal: bool, never: float, scale: float | None
) -> Tensor:
    """softmax(scale q k^T + bias) v with heads side by side, [N, L, heads E]."""
    added = None if bias is None else tensor(bias)
    if mask is not None:
        hidden = _hidden(ctx, tensor(mask), q, k)
        number = Tensor(np.array(never, q.dtype.name))
        shown = ops.where(hidden, number, Tensor(np.zeros((), q.dtype.name)))
        added = shown if added is None else added + shown
    if causal and (type(q.shape[2]) is not int or type(k.shape[2]) is not int):
        raise NeedsValue(f"{ctx.node.label()} hides keys that come later, and its lengths are not known")
    if causal:
        late = np.triu(np.ones((q.shape[2], k.shape[2]), bool), k.shape[2] - q.shape[2] + 1)
        later = Tensor(np.where(late, -math.inf, 0.0).astype(q.dtype.name))
        added = later if added is None else added + later
    y = ops.scaled_dot_product_attention(q, k, v, mask=added, scale=scale or 1 / math.sqrt(q.shape[-1]))
    return _merged(ops.permute_dims(y, (0, 2, 1, 3)))


def _hidden(ctx: Context, mask: Tensor, q: Tensor, k: Tensor) -> Tensor:
    """Which keys a query does not see, to broadcast with [N, heads, L, S], from one of the masks that the ops take: how
    many keys of each sample there are; or 1 where a key is seen, [N, S], [N, L, S], [N, 1, M, M]."""
    if mask.ndim == 1:
        if mask.shape[0] != q.shape[0] or type(k.shape[2]) is not int:
            raise NeedsValue(f"{ctx.node.label()}: a mask of {mask.shape[0]} numbers for {q.shape[0]} samples")
        at = Tensor(np.arange(k.shape[2]))
        return ops.logical_not(ops.less(at, ops.reshape(ops.astype(mask, "int64"), (-1, 1, 1, 1))))
    if mask.ndim == 4:
        mask = mask[:, :, k.shape[2] - q.shape[2] : k.shape[2], : k.shape[2]]
    else:
        mask = ops.expand_dims(mask, axis=1) if mask.ndim == 3 else ops.expand_dims(mask, axis=(1, 2))
    return ops.equal(mask, Tensor(np.zeros((), mask.dtype.name)))
