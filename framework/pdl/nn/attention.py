"""Attention over [N, L, E]: several heads, and the transformer's layers. Vaswani et al., Attention is all you need,
arXiv 1706.03762.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Literal

from pdl import ops
from pdl.errors import ShapeError
from pdl.hints import Range
from pdl.nn import init
from pdl.nn.container import ModuleList
from pdl.nn.linear import Linear
from pdl.nn.module import Module, Parameter
from pdl.nn.norm import LayerNorm
from pdl.tensor import Tensor

Width = Annotated[int, Range(1)]
Rate = Annotated[float, Range(0, below=1)]
Base = Annotated[float, Range(above=1)]


class MultiHeadAttention(Module):
    """out_proj of the heads' softmax(q k^T / sqrt(D)) v, where q, k, v [N, L, embed_dim] are projected and split into
    heads of size D.

    One matrix, in_proj_weight [embed_dim, 3 embed_dim], projects all three; where `kdim` or `vdim` say that keys or
    values have another size, there are q_proj_weight, k_proj_weight and v_proj_weight. Initial values: Xavier uniform
    for the projections, biases 0. With `rotary`, a base, queries and keys turn by their positions 0, 1, ... (see
    `pdl.rotary`), so that scores depend on distances.
    """

    shown = ("embed_dim", "num_heads")

    def __init__(
        self,
        embed_dim: Width,
        num_heads: Width,
        *,
        dropout: Rate = 0.0,
        bias: bool = True,
        kdim: Width | None = None,
        vdim: Width | None = None,
        rotary: Base | None = None,
    ) -> None:
        if embed_dim % num_heads:
            raise ShapeError(f"{type(self).__name__}: num_heads={num_heads} must divide embed_dim={embed_dim}")
        if rotary is not None and embed_dim // num_heads % 2:
            raise ShapeError(
                f"{type(self).__name__}: heads of {embed_dim // num_heads} numbers; rotary positions need an even "
                "number"
            )
        self.embed_dim, self.num_heads, self.dropout, self.rotary = embed_dim, num_heads, dropout, rotary
        if kdim in (None, embed_dim) and vdim in (None, embed_dim):
            self.in_proj_weight: Parameter | None = Parameter(ops.zeros((embed_dim, 3 * embed_dim)))
        else:
            self.in_proj_weight = None
            self.q_proj_weight = Parameter(ops.zeros((embed_dim, embed_dim)))
            self.k_proj_weight = Parameter(ops.zeros((kdim or embed_dim, embed_dim)))
            self.v_proj_weight = Parameter(ops.zeros((vdim or embed_dim, embed_dim)))
        self.in_proj_bias = Parameter(ops.zeros((3 * embed_dim,))) if bias else None
        self.out_proj = Linear(embed_dim, embed_dim, bias=bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        for name, p in self.named_parameters():
            if name.endswith("bias"):
                init.zeros_(p)
            else:
                init.xavier_uniform_(p)

    def forward(
        self,
        q: Tensor,
        k: Tensor | None = None,
        v: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """q [N, L, embed_dim], k [N, S, kdim] (default q), v [N, S, vdim] (default k) -> [N, L, embed_dim].

        `mask` broadcasts to [N, heads, L, S]: bool (False: not attended to) or floats that are added. `is_causal`:
        position i sees 0..i.
        """
        k = q if k is None else k
        v = k if v is None else v
        rate = self.dropout if self.training else 0.0
        y = ops.scaled_dot_product_attention(
            *self._project(q, k, v), mask=mask, is_causal=is_causal, dropout_p=rate, heads=self.num_heads
        )
        return self.out_proj(y)  # type: ignore[no-any-return]

    def project(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        """Queries, keys and values of x [N, L, embed_dim] side by side, [N, L, 3 embed_dim]; with `rotary` queries and
        keys turned by `positions` int64 [L] or [N, L], by default 0, 1, ..."""
        if self.in_proj_weight is None:
            raise ShapeError(f"{type(self).__name__}: kdim or vdim is not embed_dim; no product makes all three")
        return self._turned(ops.linear(x, self.in_proj_weight, self.in_proj_bias), 2 * self.num_heads, positions)

    def _project(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        """What attention takes: [N, L, 3 embed_dim] where one product makes it, else q, k and v apart."""
        if q is k and k is v and self.in_proj_weight is not None:
            return (self.project(q),)
        size, shift = self.embed_dim, self.in_proj_bias
        weights: Sequence[Tensor]
        if self.in_proj_weight is not None:
            weights = ops.split(self.in_proj_weight, size, axis=1)
        else:
            weights = [self.q_proj_weight, self.k_proj_weight, self.v_proj_weight]
        shifts = (None,) * 3 if shift is None else ops.split(shift, size)
        q, k, v = (ops.linear(x, w, b) for x, w, b in zip((q, k, v), weights, shifts, strict=True))
        return self._turned(q, self.num_heads), self._turned(k, self.num_heads), v

    def _turned(self, x: Tensor, heads: int, positions: Tensor | None = None) -> Tensor:
        """The first `heads` of x turned by their positions."""
        if self.rotary is None:
            return x
        return ops.rotary(x, positions, heads=heads, size=self.embed_dim // self.num_heads, base=self.rotary)


class TransformerEncoderLayer(Module):
    """Self-attention, then two linear layers, each with dropout, a residual and a layer norm (before it with
    `norm_first`, else after the sum); `rotary` as in `MultiHeadAttention`.
    """

    shown = ("norm_first", "activation")

    def __init__(
        self,
        d_model: Width,
        nhead: Width,
        *,
        dim_feedforward: Width = 2048,
        dropout: Rate = 0.1,
        activation: Literal["relu", "gelu", "silu"] = "relu",
        norm_first: bool = False,
        eps: Annotated[float, Range(0)] = 1e-5,
        bias: bool = True,
        rotary: Base | None = None,
    ) -> None:
        self.activation, self.norm_first, self.dropout = activation, norm_first, dropout
        self.self_attn = MultiHeadAttention(d_model, nhead, dropout=dropout, bias=bias, rotary=rotary)
        self.linear1, self.linear2 = (
            Linear(d_model, dim_feedforward, bias=bias),
            Linear(dim_feedforward, d_model, bias=bias),
        )
        self.norm1, self.norm2 = LayerNorm(d_model, eps=eps, bias=bias), LayerNorm(d_model, eps=eps, bias=bias)

    def forward(
        self,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        is_causal: bool = False,
        attend: Callable[[Tensor], Tensor] | None = None,
    ) -> Tensor:
        """x [N, L, d_model] -> [N, L, d_model]; `mask` as in `MultiHeadAttention`. `attend`, [N, L, d_model] to the
        same, stands for the self-attention, such as one to what was kept of earlier positions."""
        rate = self.dropout if self.training else 0.0
        if attend is None:
            attend = partial(self.self_attn, mask=mask, is_causal=is_causal)  # type: ignore[call-arg]
        if self.norm_first:
            normed, x = self.norm2.add(attend(self.norm1(x)), x, dropout_p=rate)
            return x + ops.dropout(self._feed(normed, rate), p=rate)
        x, _ = self.norm1.add(attend(x), x, dropout_p=rate)
        return self.norm2.add(self._feed(x, rate), x, dropout_p=rate)[0]

    def _feed(self, x: Tensor, rate: float) -> Tensor:
        return self.linear2(ops.activated_dropout(self.linear1(x), self.activation, p=rate))  # type: ignore[no-any-return]


class TransformerEncoder(Module):
    """`num_layers` encoder layers one after the other, and a final layer norm where they norm first."""

    def __init__(
        self,
        d_model: Width,
        nhead: Width,
        num_layers: Width,
        *,
        dim_feedforward: Width = 2048,
        dropout: Rate = 0.1,
        activation: Literal["relu", "gelu", "silu"] = "relu",
        norm_first: bool = False,
        rotary: Base | None = None,
    ) -> None:
        self.layers = ModuleList(
            TransformerEncoderLayer(
                d_model,
                nhead,
                dim_feedforward=dim_feedforward,
                dropout=dropout,
                activation=activation,
                norm_first=norm_first,
                rotary=rotary,
            )
            for _ in range(num_layers)
        )
        self.norm = LayerNorm(d_model) if norm_first else None

    def forward(self, x: Tensor, *, mask: Tensor | None = None, is_causal: bool = False) -> Tensor:
        """x [N, L, d_model] -> [N, L, d_model]; `mask` as in `MultiHeadAttention`."""
        for layer in self.layers:
            x = layer(x, mask=mask, is_causal=is_causal)
        return x if self.norm is None else self.norm(x)  # type: ignore[no-any-return]
