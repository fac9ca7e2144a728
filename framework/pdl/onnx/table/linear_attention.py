"""Attention by a recurrent state, and the causal convolution that stands before it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.errors import ShapeError, UsageError
from pdl.limits import check_time
from pdl.onnx.eager import computed
from pdl.onnx.registry import Context, onnx_op


@onnx_op("LinearAttention", since=27)
@computed
def _linear_attention(
    ctx: Context, query: Any, key: Any, value: Any, past_state: Any = None, decay: Any = None, beta: Any = None, *,
    q_num_heads: int, kv_num_heads: int, update_rule: str = "gated_delta", scale: float = 0.0, chunk_size: int = 64,
) -> Any:  # fmt: skip
    """S <- e^g S; S <- S + k (beta (v - S^T k))^T (without "delta": k v^T); y = scale S^T q, step by step."""
    gated, delta = update_rule in ("gated", "gated_delta"), update_rule in ("delta", "gated_delta")
    if not gated and not delta and update_rule != "linear":
        raise UsageError(f"{ctx.node.label()}: update_rule {update_rule!r} is not known")
    if gated != (decay is not None) or delta != (beta is not None):
        raise UsageError(f"{ctx.node.label()}: update_rule {update_rule!r} does not go with the inputs decay and beta")
    q, k, v = _steps(query, q_num_heads), _steps(key, kv_num_heads), _steps(value, kv_num_heads)
    state = np.zeros((len(k), kv_num_heads, k.shape[-1], v.shape[-1]), np.float32)
    state += 0 if past_state is None else past_state.astype(np.float32)
    growth = np.exp(_steps(decay, kv_num_heads)) if gated else None
    rate = _steps(beta, beta.shape[-1]) if delta else None
    group, scale = q_num_heads // kv_num_heads, scale or 1 / math.sqrt(q.shape[-1])
    out = np.empty((*q.shape[:3], v.shape[-1]), np.float32)
    for t in range(q.shape[1]):
        check_time()
        if growth is not None:
            state = state * growth[:, t, :, :, None]
        written = v[:, t]
        if rate is not None:
            written = rate[:, t] * (written - np.einsum("bhkv,bhk->bhv", state, k[:, t]))
        state = state + k[:, t, :, :, None] * written[:, :, None, :]
        out[:, t] = scale * np.einsum("bhkv,bhk->bhv", np.repeat(state, group, axis=1), q[:, t])
    kept = query.dtype if past_state is None else past_state.dtype
    return out.reshape(*out.shape[:2], -1).astype(query.dtype), state.astype(kept)


def _steps(x: Array, heads: int) -> Array:
    """[B, T, heads D] as [B, T, heads, D] in float32."""
    if x.ndim != 3 or x.shape[2] % heads:
        raise ShapeError(f"linear attention: {x.shape} is not [B, T, {heads} D]")
    return x.reshape(*x.shape[:2], heads, -1).astype(np.float32)


@onnx_op("CausalConvWithState", since=27)
@computed
def _causal_conv(
    ctx: Context, x: Any, weight: Any, bias: Any = None, past_state: Any = None, *, activation: str = "none"
) -> Any:
    """y[b, c, t] = act(bias[c] + sum_i weight[c, 0, i] padded[b, c, t + i]), and the last k - 1 inputs; the past stands
    in front, zeros where there is none.
    """
    if activation not in ("none", "silu", "swish"):
        raise UsageError(f"{ctx.node.label()}: activation {activation!r} is not known")
    taps, length = weight.shape[2], x.shape[2]
    front = np.zeros((*x.shape[:2], taps - 1), x.dtype) if past_state is None else past_state
    padded = np.concatenate([front, x], axis=2)
    wide, w = padded.astype(np.float32), weight.astype(np.float32)
    y = sum(wide[:, :, i : i + length] * w[:, 0, i : i + 1] for i in range(taps))
    if bias is not None:
        y = y + bias.astype(np.float32).reshape(-1, 1)
    if activation != "none":
        y = y / (1 + np.exp(-y))
    return np.asarray(y).astype(x.dtype), padded[:, :, padded.shape[2] - (taps - 1) :]
