"""Attention over [N, L, E]: several heads, and the transformer's layers. Vaswani et al., Attention is all you need,
arXiv 1706.03762.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pdl import ops
from pdl.errors import ShapeError
from pdl.hints import Range
from pdl.nn import init
from pdl.nn.container import ModuleList
from pdl.nn.dropout import Dropout
from pdl.nn.linear import Linear
from pdl.nn.module import Module
from pdl.nn.norm import LayerNorm
from pdl.tensor import Tensor

Width = Annotated[int, Range(1)]
Rate = Annotated[float, Range(0, below=1)]


class MultiHeadAttention(Module):
    """out_proj of the heads' softmax(q k^T / sqrt(D)) v, where q, k, v [N, L, embed_dim] are projected and split into
    heads of size D.

    `kdim` and `vdim` are the sizes of keys and values where they differ. Initial values: Xavier uniform for the
    projections, biases 0.
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
    ) -> None:
        if embed_dim % num_heads:
            raise ShapeError(f"{type(self).__name__}: num_heads={num_heads} must divide embed_dim={embed_dim}")
        self.embed_dim, self.num_heads, self.dropout = embed_dim, num_heads, dropout
        self.q_proj = Linear(embed_dim, embed_dim, bias=bias)
        self.k_proj = Linear(kdim or embed_dim, embed_dim, bias=bias)
        self.v_proj = Linear(vdim or embed_dim, embed_dim, bias=bias)
        self.out_proj = Linear(embed_dim, embed_dim, bias=bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        for projection in (self.q_proj, self.k_proj, self.v_proj, self.out_proj):
            init.xavier_uniform_(projection.weight)
            if projection.bias is not None:
                init.zeros_(projection.bias)

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

        `mask` broadcasts to [N, heads, L, S]: bool (False: kept out) or floats that are added. `is_causal`: position i
        sees 0..i.
        """
        k = q if k is None else k
        v = k if v is None else v
        heads = [self._split(p(x)) for p, x in ((self.q_proj, q), (self.k_proj, k), (self.v_proj, v))]
        rate = self.dropout if self.training else 0.0
        y = ops.scaled_dot_product_attention(*heads, mask=mask, is_causal=is_causal, dropout_p=rate)
        return self.out_proj(ops.reshape(ops.permute_dims(y, (0, 2, 1, 3)), q.shape))  # type: ignore[no-any-return]

    def _split(self, x: Tensor) -> Tensor:
        """[N, L, E] -> [N, heads, L, E / heads]."""
        n, length, width = x.shape
        return ops.permute_dims(ops.reshape(x, (n, length, self.num_heads, width // self.num_heads)), (0, 2, 1, 3))


class TransformerEncoderLayer(Module):
    """Self-attention, then two linear layers, each with dropout, a residual and a layer norm (before it with
    `norm_first`, else after the sum).
    """

    shown = ("norm_first", "activation")

    def __init__(
        self,
        d_model: Width,
        nhead: Width,
        *,
        dim_feedforward: Width = 2048,
        dropout: Rate = 0.1,
        activation: Literal["relu", "gelu"] = "relu",
        norm_first: bool = False,
        eps: Annotated[float, Range(0)] = 1e-5,
        bias: bool = True,
    ) -> None:
        self.activation, self.norm_first = activation, norm_first
        self.self_attn = MultiHeadAttention(d_model, nhead, dropout=dropout, bias=bias)
        self.linear1, self.linear2 = (
            Linear(d_model, dim_feedforward, bias=bias),
            Linear(dim_feedforward, d_model, bias=bias),
        )
        self.norm1, self.norm2 = LayerNorm(d_model, eps=eps, bias=bias), LayerNorm(d_model, eps=eps, bias=bias)
        self.drop, self.drop1, self.drop2 = Dropout(dropout), Dropout(dropout), Dropout(dropout)

    def forward(self, x: Tensor, *, mask: Tensor | None = None, is_causal: bool = False) -> Tensor:
        """x [N, L, d_model] -> [N, L, d_model]; `mask` as in `MultiHeadAttention`."""
        if self.norm_first:
            x = x + self._attend(self.norm1(x), mask, is_causal)
            return x + self._feed(self.norm2(x))
        x = self.norm1(x + self._attend(x, mask, is_causal))
        return self.norm2(x + self._feed(x))  # type: ignore[no-any-return]

    def _attend(self, x: Tensor, mask: Tensor | None, is_causal: bool) -> Tensor:
        return self.drop1(self.self_attn(x, mask=mask, is_causal=is_causal))  # type: ignore[no-any-return]

    def _feed(self, x: Tensor) -> Tensor:
        hidden = self.linear1(x)
        hidden = ops.relu(hidden) if self.activation == "relu" else ops.gelu(hidden)
        return self.drop2(self.linear2(self.drop(hidden)))  # type: ignore[no-any-return]


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
        activation: Literal["relu", "gelu"] = "relu",
        norm_first: bool = False,
    ) -> None:
        self.layers = ModuleList(
            TransformerEncoderLayer(
                d_model,
                nhead,
                dim_feedforward=dim_feedforward,
                dropout=dropout,
                activation=activation,
                norm_first=norm_first,
            )
            for _ in range(num_layers)
        )
        self.norm = LayerNorm(d_model) if norm_first else None

    def forward(self, x: Tensor, *, mask: Tensor | None = None, is_causal: bool = False) -> Tensor:
        """x [N, L, d_model] -> [N, L, d_model]; `mask` as in `MultiHeadAttention`."""
        for layer in self.layers:
            x = layer(x, mask=mask, is_causal=is_causal)
        return x if self.norm is None else self.norm(x)  # type: ignore[no-any-return]
