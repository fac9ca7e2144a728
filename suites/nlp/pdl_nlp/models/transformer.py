"""The Transformer (Vaswani et al., "Attention is all you need", arXiv 1706.03762), encoder and decoder."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Annotated, Literal

import numpy as np

import pdl
from pdl import nn
from pdl.decoder_state import Kept, KeyValues
from pdl.dtype import Array
from pdl.errors import ConfigError, ShapeError
from pdl.hints import Range
from pdl.nn.decoder import attend_to_memory, last_real
from pdl.nn.decoder import positions as standing
from pdl.tensor import Tensor
from pdl_nlp.models.base import Rate, Seq2SeqModel, Width

Positions = Literal["sinusoid", "learned"]


def sinusoid(positions: int, dim: int) -> Array:
    """float32 [positions, dim]: sin(t / 10000^(2i/dim)) side by side with cos of the same, as Vaswani et al. 3.5 (sines
    first, then cosines, which is the same up to the order of columns)."""
    rate = np.exp(np.arange(dim // 2) * (-math.log(10000.0) / max(dim // 2, 1)))
    angle = np.arange(positions)[:, None] * rate
    return np.concatenate([np.sin(angle), np.cos(angle)], axis=1).astype(np.float32)


class CrossAttention(nn.Module):
    """Attention of a text that is written to one that is read; keys and values of the latter are projected once, by
    `project`, and kept side by side."""

    def __init__(self, dim: int, heads: int, dropout: float) -> None:
        self.heads, self.rate = heads, dropout
        self.q_proj, self.kv_proj, self.out_proj = nn.Linear(dim, dim), nn.Linear(dim, 2 * dim), nn.Linear(dim, dim)
        for name, p in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(p)
            else:
                nn.init.xavier_uniform_(p)

    def project(self, memory: Tensor) -> Tensor:
        """States [N, S, dim] -> keys and values [N, S, 2 dim]."""
        return self.kv_proj(memory)  # type: ignore[no-any-return]

    def forward(self, x: Tensor, kv: Tensor, mask: Tensor) -> Tensor:
        """x [N, T, dim], kv [N, S, 2 dim], mask bool [N, 1, 1, S] -> [N, T, dim]."""
        k, v = pdl.split(kv, x.shape[-1], axis=-1)
        rate = self.rate if self.training else 0.0
        y = pdl.scaled_dot_product_attention(self.q_proj(x), k, v, mask=mask, dropout_p=rate, heads=self.heads)
        return self.out_proj(y)  # type: ignore[no-any-return]

    def weights(self, x: Tensor, kv: Tensor, mask: Tensor) -> Tensor:
        """What each position attends to, the mean over heads, [N, T, S]."""
        k, _ = pdl.split(kv, x.shape[-1], axis=-1)
        q, k = (
            pdl.swapaxes(pdl.reshape(each, (each.shape[0], each.shape[1], self.heads, -1)), 1, 2)
            for each in (self.q_proj(x), k)
        )
        scores = pdl.matmul(q, pdl.swapaxes(k, 2, 3)) * (1 / math.sqrt(q.shape[-1]))
        return pdl.softmax(pdl.where(mask, scores, -math.inf), axis=-1).mean(axis=1)


class DecoderLayer(nn.Module):
    """Self-attention to what is written, attention to what is read, two linear layers; each with dropout, a residual
    and a layer norm (before it with `norm_first`, else after the sum)."""

    def __init__(self, dim: int, heads: int, *, hidden: int, dropout: float, activation: str, norm_first: bool) -> None:
        self.activation, self.norm_first, self.rate = activation, norm_first, dropout
        self.self_attn, self.cross_attn = (
            nn.MultiHeadAttention(dim, heads, dropout=dropout),
            CrossAttention(dim, heads, dropout),
        )
        self.linear1, self.linear2 = nn.Linear(dim, hidden), nn.Linear(hidden, dim)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(dim) for _ in range(3))

    def forward(self, x: Tensor, attend: Callable[[Tensor], Tensor], cross: Callable[[Tensor], Tensor]) -> Tensor:
        """x [N, T, dim] -> [N, T, dim]; `attend` and `cross` are the two kinds of attention to [N, T, dim]."""
        rate = self.rate if self.training else 0.0
        if self.norm_first:
            normed, x = self.norm2.add(attend(self.norm1(x)), x, dropout_p=rate)
            normed, x = self.norm3.add(cross(normed), x, dropout_p=rate)
            return x + pdl.dropout(self._feed(normed, rate), p=rate)
        x, _ = self.norm1.add(attend(x), x, dropout_p=rate)
        x, _ = self.norm2.add(cross(x), x, dropout_p=rate)
        return self.norm3.add(self._feed(x, rate), x, dropout_p=rate)[0]

    def _feed(self, x: Tensor, rate: float) -> Tensor:
        return self.linear2(pdl.ops.activated_dropout(self.linear1(x), self.activation, p=rate))  # type: ignore[no-any-return]


class Transformer(Seq2SeqModel):
    """Encoder and decoder of attention alone. Vectors of tokens times sqrt(dim), plus those of positions; scores are
    products of the decoder's states with the vectors of tokens (Press & Wolf, arXiv 1608.05859).

    vocab_size   tokens of both languages; by default those of the tokenizer
    dim          numbers of a token's vector
    layers       of the encoder
    decoder_layers  of the decoder; by default as many
    heads        of each attention
    hidden       numbers inside of the feed-forward part; by default 4 dim
    dropout      of vectors, attention weights, the feed-forward part and branches
    norm_first   layer norms before branches, and one at the end (Xiong et al., arXiv 2002.04745), not after sums
    positions    "sinusoid" or "learned"
    shared       one table of vectors for both texts; else one for each
    activation   "relu" or "gelu"
    max_length   positions that there are vectors for
    pad          number of the token for padding
    """

    def __init__(
        self,
        vocab_size: Width | None = None,
        *,
        dim: Annotated[int, Range(2)] = 256,
        layers: Width = 3,
        decoder_layers: Width | None = None,
        heads: Width = 4,
        hidden: Width | None = None,
        dropout: Rate = 0.1,
        norm_first: bool = False,
        positions: Positions = "sinusoid",
        shared: bool = True,
        activation: Literal["relu", "gelu"] = "relu",
        max_length: Width = 512,
        pad: Annotated[int, Range(0)] = 0,
    ) -> None:
        if vocab_size is None:
            raise ConfigError("Transformer needs vocab_size, which the task takes from its tokenizer")
        if dim % heads or dim % 2:
            raise ConfigError(f"Transformer: heads={heads} must divide dim={dim}, an even number")
        self.vocab_size, self.dim, self.max_length, self.pad, self.heads = vocab_size, dim, max_length, pad, heads
        self.embed = nn.Embedding(vocab_size, dim)
        self.source_embed = None if shared else nn.Embedding(vocab_size, dim)
        for table in filter(None, (self.embed, self.source_embed)):
            nn.init.normal_(table.weight, std=dim**-0.5)
        if positions == "sinusoid":
            self.positions: Tensor = nn.Buffer(sinusoid(max_length, dim), persistent=False)
        else:
            self.positions = nn.Parameter(pdl.zeros((max_length, dim)))
            nn.init.normal_(self.positions, std=dim**-0.5)
        self.dropout, width = nn.Dropout(dropout), hidden or 4 * dim
        self.encoder = nn.TransformerEncoder(
            dim, heads, layers, dim_feedforward=width, dropout=dropout, activation=activation, norm_first=norm_first
        )
        self.decoder = nn.ModuleList(
            DecoderLayer(dim, heads, hidden=width, dropout=dropout, activation=activation, norm_first=norm_first)
            for _ in range(decoder_layers or layers)
        )
        self.norm = nn.LayerNorm(dim) if norm_first else None

    # -- training ------------------------------------------------------------------------------------------------------
    def states(self, tokens: Tensor, given: Tensor) -> Tensor:
        return self._decoded(tokens, given, lambda layer, kv, mask, y: layer.cross_attn(y, kv, mask))

    def table(self) -> tuple[Tensor, Tensor | None]:
        return self.embed.weight, None

    def attention(self, tokens: Tensor, given: Tensor) -> Tensor:
        """What each token that is written attends to in the last layer, the mean over heads, [N, T, S]."""
        seen: list[Tensor] = []

        def cross(layer: DecoderLayer, kv: Tensor, mask: Tensor, y: Tensor) -> Tensor:
            seen.append(layer.cross_attn.weights(y, kv, mask))
            return layer.cross_attn(y, kv, mask)  # type: ignore[no-any-return]

        self._decoded(tokens, given, cross)
        return seen[-1]

    def _decoded(self, tokens: Tensor, given: Tensor, cross: Callable[..., Tensor]) -> Tensor:
        """The decoder's states of all tokens at once, with attention to what is read by cross(layer, kv, mask, x)."""
        there, *projected = self.encode(tokens)
        mask = pdl.expand_dims(there, axis=(1, 2))
        x = self._embedded(given, self.embed, self._rows(given.shape[1]))
        for layer, kv in zip(self._layers, projected, strict=True):
            own = partial(layer.self_attn, is_causal=True)  # type: ignore[call-arg]
            x = layer(x, own, partial(cross, layer, kv, mask))
        return x if self.norm is None else self.norm(x)  # type: ignore[no-any-return]

    # -- decoding ------------------------------------------------------------------------------------------------------
    def kinds(self) -> tuple[Kept, ...]:
        return tuple(KeyValues(self.dim) for _ in range(2 * len(self._layers)))

    def encode(self, tokens: Tensor) -> tuple[Tensor, ...]:  # type: ignore[override]
        """tokens int64 [N, S] -> bool [N, S], where a token stands, and keys and values [N, S, 2 dim] of each layer of
        the decoder."""
        there = self.there(tokens)
        table = self.embed if self.source_embed is None else self.source_embed
        x = self._embedded(tokens, table, self._rows(tokens.shape[1]))
        memory = self.encoder(x, mask=pdl.expand_dims(there, axis=(1, 2)))
        return there, *(layer.cross_attn.project(memory) for layer in self._layers)

    def step(
        self, tokens: Tensor, counts: Tensor, lengths: Tensor, state: tuple[Tensor, ...], *memory: Tensor
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        there, *projected = memory
        at = pdl.minimum(standing(tokens, lengths), self.max_length - 1)
        positions = pdl.embedding(self.positions, at)  # padding of a prompt may lie behind
        x, after = self._embedded(tokens, self.embed, positions), list[Tensor]()
        for number, (layer, kv) in enumerate(zip(self._layers, projected, strict=True)):
            kept = state[2 * number], state[2 * number + 1]
            own = partial(_cached, layer, kept, lengths, counts, after)
            x = layer(x, own, partial(_to_memory, layer, kv, there))
        x = last_real(x, counts)
        return self.scores(x if self.norm is None else self.norm(x)), tuple(after)

    @property
    def _layers(self) -> list[DecoderLayer]:
        return list(self.decoder)  # type: ignore[arg-type]

    def _rows(self, count: int) -> Tensor:
        """Vectors of the first positions."""
        if int(count) > self.max_length:
            have = f"there are vectors for {self.max_length} positions"
            raise ShapeError(f"Transformer: {count} tokens, {have}; cut texts (max_length={self.max_length})")
        return self.positions[:count]

    def _embedded(self, tokens: Tensor, table: nn.Embedding, positions: Tensor) -> Tensor:
        return self.dropout(table(tokens) * math.sqrt(self.dim) + positions)  # type: ignore[no-any-return]


def _cached(
    layer: DecoderLayer, kept: tuple[Tensor, Tensor], lengths: Tensor, counts: Tensor, after: list[Tensor], x: Tensor
) -> Tensor:
    """Self-attention to what is kept, which the new positions join; `after` gets the new keys and values."""
    own = layer.self_attn
    q, k, v = pdl.split(own.project(x), own.embed_dim, axis=-1)
    y, *joined = pdl.cached_attention(q, k, v, *kept, lengths, counts, heads=own.num_heads)
    after += joined
    return own.out_proj(y)  # type: ignore[no-any-return]


def _to_memory(layer: DecoderLayer, kv: Tensor, there: Tensor, x: Tensor) -> Tensor:
    """Attention of rows to their sources."""
    cross = layer.cross_attn
    k, v = pdl.split(kv, x.shape[-1], axis=-1)
    y = attend_to_memory(cross.q_proj(x), k, v, heads=cross.heads, mask=there)
    return cross.out_proj(y)  # type: ignore[no-any-return]


TASK = "seq2seq"
VARIANTS = {
    "transformer_seq2seq": {"_target_": "pdl_nlp.Transformer"},
    "transformer_base": {
        "_target_": "pdl_nlp.Transformer", "dim": 512, "layers": 6, "heads": 8, "hidden": 2048,
    },
}  # fmt: skip
