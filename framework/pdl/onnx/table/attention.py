"""Attention of opsets 23 to 25, its relatives, and rotary positions.

softmax(scale q k^T + bias) v (Vaswani et al., arXiv 1706.03762), with grouped heads (Ainslie et al., arXiv 2305.13245).
Scores are kept in float32 where the inputs have 16 bits.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pdl import ops
from pdl.dtype import Array, bool_
from pdl.errors import ShapeError, UsageError
from pdl.onnx.eager import in_single
from pdl.onnx.registry import Context, NeedsValue, onnx_op
from pdl.onnx.values import tensor
from pdl.tensor import Tensor


@onnx_op("Attention", since=23)
@in_single
def _attention(
    ctx: Context,
    q: Any,
    k: Any,
    v: Any,
    attn_mask: Any = None,
    past_key: Any = None,
    past_value: Any = None,
    nonpad_kv_seqlen: Any = None,
    *,
    scale: float | None = None,
    is_causal: int = 0,
    q_num_heads: int | None = None,
    kv_num_heads: int | None = None,
    softcap: float = 0.0,
    softmax_precision: int = 1,
    qk_matmul_output_mode: int = 0,
    left_window_size: int = -1,
    right_window_size: int = -1,
) -> Any:
    """softmax(softcap(scale q k^T) + bias) v, the present keys and values, and the scores; a row whose keys are all
    masked gives zeros.
    """
    if (past_key is None) != (past_value is None):
        raise UsageError(f"{ctx.node.label()}: past_key and past_value come together")
    if past_key is not None and nonpad_kv_seqlen is not None:
        raise UsageError(f"{ctx.node.label()}: nonpad_kv_seqlen is for a cache outside; there is a past_key too")
    flat = len(q.shape) == 3
    q, k, v = (_split_heads(ctx, tensor(x), n) for x, n in ((q, q_num_heads), (k, kv_num_heads), (v, kv_num_heads)))
    past = 0
    if past_key is not None:
        past = past_key.shape[2]
        k, v = ops.concat([tensor(past_key), k], axis=2), ops.concat([tensor(past_value), v], axis=2)
    present = k, v
    k, v = _for_heads(ctx, k, q.shape[1]), _for_heads(ctx, v, q.shape[1])
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    lengths_alone = attn_mask is None and past_key is None and nonpad_kv_seqlen is None and left_window_size < 0
    if is_causal and lengths_alone and not softcap and not ctx.wants(3):
        y: Any = ops.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale)
        return _joined(y) if flat else y, *present
    windows = (left_window_size, 0 if is_causal else right_window_size)
    bias, dead = _bias(ctx, q, k, attn_mask, past, nonpad_kv_seqlen, windows)
    scores: Any = None
    if softcap or ctx.wants(3):
        y, scores = _spelled_out(q, k, v, bias, dead, scale, softcap, qk_matmul_output_mode)
    else:
        y = ops.scaled_dot_product_attention(q, k, v, mask=bias, scale=scale)
        y = y if dead is None else ops.where(dead, tensor(np.zeros((), y.dtype)), y)
    return _joined(y) if flat else y, *present, scores


def _joined(x: Tensor) -> Tensor:
    """[N, heads, L, E] as [N, L, heads E]."""
    n, heads, length, width = x.shape
    return ops.reshape(ops.permute_dims(x, (0, 2, 1, 3)), (n, length, heads * width))


def _split_heads(ctx: Context, x: Tensor, heads: int | None) -> Tensor:
    """[N, L, heads E] as [N, heads, L, E]; four dimensions stay."""
    if x.ndim == 4:
        return x
    if x.ndim != 3 or not heads or x.shape[2] % heads:
        raise ShapeError(f"{ctx.node.label()}: {x.shape} is no [N, heads, L, E], and no [N, L, {heads} E]")
    n, length, width = x.shape
    return ops.permute_dims(ops.reshape(x, (n, length, heads, width // heads)), (0, 2, 1, 3))


def _for_heads(ctx: Context, x: Tensor, heads: int) -> Tensor:
    """Keys or values repeated so that each head of the queries has its own."""
    own = x.shape[1]
    if heads % own:
        raise ShapeError(f"{ctx.node.label()}: {heads} heads of queries share {own} heads of keys or values")
    return x if own == heads else ops.repeat(x, heads // own, axis=1)


def _bias(
    ctx: Context, q: Tensor, k: Tensor, mask: Any, past: int, valid: Any, windows: tuple[int, int]
) -> tuple[Tensor | None, Tensor | None]:
    """What is added to the scores, and (True: this query sees no key) where such a query may exist."""
    rows, keys = q.shape[2], k.shape[2]
    allowed = _window(ctx, rows, keys, past, valid, windows)
    if mask is not None:
        mask = tensor(mask)
        if mask.shape[-1] != keys:
            widths = [(0, 0)] * (mask.ndim - 1) + [(0, keys - mask.shape[-1])]
            mask = ops.pad(mask, widths, value=False if mask.dtype == bool_ else -math.inf)
        if mask.dtype == bool_:
            allowed = mask if allowed is None else ops.logical_and(allowed, mask)
            mask = None
    if allowed is None and mask is None:
        return None, None
    zero, never = (Tensor(np.array(x, q.dtype)) for x in (0, -math.inf))
    bias = mask if allowed is None else ops.where(allowed, zero if mask is None else mask, never)
    return bias, ops.equal(ops.max(bias, axis=-1, keepdims=True), never)


def _window(ctx: Context, rows: int, keys: int, past: int, valid: Any, windows: tuple[int, int]) -> Tensor | None:
    """The keys j that query i sees: offset + i - left <= j <= offset + i + right, and j below the valid length.

    `past` keys stand before the queries; `valid` keys of each sample do where the cache is kept outside.
    """
    left, right = windows
    if left < 0 and right < 0 and valid is None:
        return None
    if not all(type(n) is int for n in (rows, keys, past)):
        raise NeedsValue(f"{ctx.node.label()} masks keys by their place, and its lengths are not known")
    i, j = np.arange(rows).reshape(-1, 1), np.arange(keys).reshape(1, -1)
    distance: Any = j - i - past
    if valid is not None:
        counts = ops.reshape(ops.astype(tensor(valid), "int64"), (-1, 1, 1, 1))
        distance = Tensor(distance + rows) - counts
    allowed: Any = None if valid is None else ops.less(Tensor(j), counts)
    if left >= 0:
        allowed = _both(allowed, distance >= -left)
    if right >= 0:
        allowed = _both(allowed, distance <= right)
    return tensor(allowed)


def _both(a: Any, b: Any) -> Any:
    return b if a is None else ops.logical_and(a, b)


def _spelled_out(
    q: Tensor, k: Tensor, v: Tensor, bias: Any, dead: Any, scale: float, softcap: float, mode: int
) -> tuple[Tensor, Tensor]:
    """Attention op by op: its value, and the scores as they are after step `mode` (0 product, 1 softcap, 2 bias,
    3 softmax).
    """
    steps = [ops.matmul(q * scale, ops.matrix_transpose(k))]
    steps.append(ops.tanh(steps[0] / softcap) * softcap if softcap else steps[0])
    steps.append(steps[1] if bias is None else steps[1] + bias)
    weights = ops.softmax(steps[2])
    steps.append(weights if dead is None else ops.where(dead, Tensor(np.zeros((), weights.dtype)), weights))
    shown = {0: 1, 1: 1, 2: 2, 3: 3}[mode] if softcap else mode
    return ops.matmul(steps[3], v), steps[shown]


@onnx_op("FlexAttention", domain="ai.onnx.preview")
@in_single
def _flex_attention(
    ctx: Context, q: Any, k: Any, v: Any, *, scale: float | None = None, softmax_precision: int | None = None,
    score_mod: Any = None, prob_mod: Any = None,
) -> Any:  # fmt: skip
    """prob_mod(softmax(score_mod(scale q k^T))) v, with subgraphs as modifiers."""
    q, k, v = tensor(q), tensor(k), tensor(v)
    k, v = _for_heads(ctx, k, q.shape[1]), _for_heads(ctx, v, q.shape[1])
    scores: Any = ops.matmul(q, ops.matrix_transpose(k)) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if score_mod is not None:
        (scores,) = ctx.call(score_mod, [scores])
    weights: Any = ops.softmax(tensor(scores))
    if prob_mod is not None:
        (weights,) = ctx.call(prob_mod, [weights])
    return ops.matmul(tensor(weights), v)


@onnx_op("RotaryEmbedding", since=23)
@in_single
def _rotary(
    ctx: Context, x: Any, cos_cache: Any, sin_cache: Any, position_ids: Any = None, *, interleaved: int = 0,
    num_heads: int = 0, rotary_embedding_dim: int = 0,
) -> Any:  # fmt: skip
    """Pairs of features rotated by angles that grow with the position (Su et al., arXiv 2104.09864)."""
    x, cos, sin = tensor(x), tensor(cos_cache), tensor(sin_cache)
    flat = x.shape if x.ndim == 3 else None
    x = _split_heads(ctx, x, num_heads)
    turned = rotary_embedding_dim or x.shape[-1]
    if position_ids is not None:
        cos, sin = ops.take(cos, tensor(position_ids)), ops.take(sin, tensor(position_ids))
    cos, sin = ops.expand_dims(cos, axis=1), ops.expand_dims(sin, axis=1)
    if cos.shape[-1] * 2 != turned:
        raise ShapeError(f"{ctx.node.label()}: the caches hold {cos.shape[-1]} angles, {turned} features turn by half")
    first = x[..., :turned]
    a, b = (first[..., ::2], first[..., 1::2]) if interleaved else ops.chunk(first, 2, axis=-1)
    pairs = [a * cos - b * sin, a * sin + b * cos]
    y = ops.reshape(ops.stack(pairs, axis=-1), first.shape) if interleaved else ops.concat(pairs, axis=-1)
    if turned != x.shape[-1]:
        y = ops.concat([y, x[..., turned:]], axis=-1)
    return y if flat is None else ops.reshape(ops.permute_dims(y, (0, 2, 1, 3)), flat)


@onnx_op("TensorScatter", since=24)
def _tensor_scatter(
    ctx: Context, past_cache: Any, update: Any, write_indices: Any = None, *, axis: int = -2, mode: str = "linear"
) -> Any:
    """A cache with `update` written along `axis` from each sample's write index on ("circular": modulo its length)."""
    cache, update = ctx.value(past_cache, "the cache"), ctx.value(update, "the update")
    axis, size, new = axis % cache.ndim, cache.shape[axis], update.shape[axis]
    start = np.zeros(len(cache), np.int64) if write_indices is None else ctx.value(write_indices, "write indices")
    place: Array = start.reshape(-1, 1) + np.arange(new)
    if mode == "circular":
        place = place % size
    elif place.size and (place.min() < 0 or place.max() >= size):
        raise ShapeError(f"{ctx.node.label()}: writes at {place.max()} in a cache of {size} places")
    shape = [1] * cache.ndim
    shape[0], shape[axis] = place.shape
    made = cache.copy()
    np.put_along_axis(made, np.broadcast_to(place.reshape(shape), update.shape), update, axis)
    return made
