"""Transformers that write texts token by token: GPT-2 (Radford et al., "Language models are unsupervised multitask
learners", 2019) and those of Llama's form: Llama (Touvron et al., arXiv 2302.13971, 2307.09288; Llama 3: arXiv
2407.21783), Mistral (Jiang et al., arXiv 2310.06825), Qwen 2 and 3 (arXiv 2407.10671, 2505.09388). Sizes are the
published ones.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

import pdl
from pdl import nn
from pdl.dtype import Array
from pdl.errors import ConfigError, ShapeError
from pdl.hints import Range
from pdl.nn.decoder import Decoder, KeyValues, last_real
from pdl.tensor import Tensor
from pdl_nlp.models.base import Rate, Width

STD = 0.02
Positions = Literal["learned", "rotary"]
Activation = Literal["gelu", "gelu_tanh", "relu", "swiglu"]
SCALINGS = ("linear", "llama3")


class LanguageDecoder(Decoder):
    """Base of the models that write texts: tokens int64 [N, T] -> scores [N, T, vocab_size] of what follows each."""

    vocab_size: int
    max_length: int

    def forward(self, tokens: Tensor) -> Tensor:
        """tokens int64 [N, T] -> scores [N, T, vocab_size]."""
        raise NotImplementedError(f"{type(self).__name__} must define forward")

    def loss(self, tokens: Tensor, targets: Tensor, *, reduction: str = "mean") -> Tensor:
        """-log p(target) of each token, targets int64 [N, T], -1 where there is none; their mean over the others."""
        return pdl.cross_entropy(self(tokens), targets, ignore_index=-1, reduction=reduction)


class GPT(LanguageDecoder):
    """Tokens int64 [N, T] -> scores [N, T, vocab_size] of the token behind each: causal attention and feed-forward
    layers, each behind a norm. The defaults are GPT-2's; `VARIANTS` has others by name.

    vocab_size   tokens; by default those of the tokenizer
    dim          numbers of a token's vector
    layers       of attention and feed-forward
    heads        of each attention
    kv_heads     heads of keys and values, each for heads / kv_heads of the queries (Ainslie et al., arXiv 2305.13245);
                 by default as many as heads
    head_dim     numbers of a head; by default dim / heads
    hidden       numbers inside of the feed-forward part; by default 4 dim, of "swiglu" 8/3 dim, rounded up to 64s
    max_length   positions of a text; longer ones are a ShapeError
    positions    "learned": a vector for each; "rotary": queries and keys turn by them (Su et al., arXiv 2104.09864)
    base         of rotary positions
    scaling      of rotary positions: {"kind": "linear", "factor": 2.0}, or {"kind": "llama3", "factor": 8.0,
                 "low": 1.0, "high": 4.0, "length": 8192} as Llama 3.1 stretches slow angles alone
    norm         "layer" or "rms" (Zhang & Sennrich, arXiv 1910.07467)
    activation   "gelu_tanh", "gelu", "relu", or "swiglu": silu(W x) * (V x) (Shazeer, arXiv 2002.05202)
    bias         whether linear layers and norms add one
    qkv_bias     whether queries, keys and values have one; by default as `bias` says
    qk_norm      RMS norm of each head's queries and keys, before they turn (Henry et al., arXiv 2010.04245)
    tied         scores by the table of the tokens; else by a matrix of their own
    dropout      of embeddings, attention and branches
    eps          of the norms
    pretrained   weights to begin with: the folder of an HF checkpoint, a name of the hub, a file or a run. A task takes
                 sizes and tokenizer from there, too, where the recipe leaves them open
    """

    head: ClassVar[tuple[str, ...]] = ("lm_head",)

    def __init__(
        self,
        vocab_size: Width | None = None,
        *,
        dim: Width = 768,
        layers: Width = 12,
        heads: Width = 12,
        kv_heads: Width | None = None,
        head_dim: Width | None = None,
        hidden: Width | None = None,
        max_length: Width = 1024,
        positions: Positions = "learned",
        base: Annotated[float, Range(above=1)] = 10000.0,
        scaling: Mapping[str, Any] | None = None,
        norm: Literal["layer", "rms"] = "layer",
        activation: Activation = "gelu_tanh",
        bias: bool = True,
        qkv_bias: bool | None = None,
        qk_norm: bool = False,
        tied: bool = True,
        dropout: Rate = 0.0,
        eps: Annotated[float, Range(0)] = 1e-5,
        pretrained: str | None = None,
    ) -> None:
        if vocab_size is None:
            raise ConfigError("GPT needs vocab_size, which a task takes from its tokenizer")
        if head_dim is None and dim % heads:
            raise ConfigError(f"GPT: heads={heads} must divide dim={dim}, or give head_dim")
        kv_heads, size = kv_heads or heads, head_dim or dim // heads
        if heads % kv_heads:
            raise ConfigError(f"GPT: kv_heads={kv_heads} must divide heads={heads}")
        if positions == "rotary" and size % 2:
            raise ConfigError(f"GPT: heads of {size} numbers; rotary positions need an even number (head_dim)")
        if hidden is None:
            hidden = 4 * dim if activation != "swiglu" else -(-8 * dim // 3 // 64) * 64
        self.vocab_size, self.dim, self.max_length = vocab_size, dim, max_length
        self.kv_width, self.rate = kv_heads * size, dropout
        angles = inverse_frequencies(size, base, scaling) if positions == "rotary" else None
        self.angles = None if angles is None else nn.Buffer(angles, persistent=False, exact=True)
        self.words = nn.Embedding(vocab_size, dim)
        self.positions = nn.Parameter(pdl.zeros((max_length, dim))) if positions == "learned" else None
        self.layers = nn.ModuleList(
            Layer(
                Attention(
                    dim, heads, kv_heads, size, bias=bias, qkv_bias=bias if qkv_bias is None else qkv_bias,
                    qk_norm=qk_norm, eps=eps, dropout=dropout,
                ),
                FeedForward(dim, hidden, activation, bias=bias, dropout=dropout),
                norm_of(norm, dim, eps, bias), norm_of(norm, dim, eps, bias), dropout,
            )
            for _ in range(layers)
        )  # fmt: skip
        self.norm = norm_of(norm, dim, eps, bias)
        self.lm_head = None if tied else nn.Linear(dim, vocab_size, bias=False)
        self._draw(layers)
        if pretrained is not None:
            from pdl_nlp.checkpoints import load

            load(self, pretrained)

    def _draw(self, layers: int) -> None:
        """GPT-2's initial values: N(0, 0.02^2), of what adds to the sum of branches less by sqrt(2 layers)."""
        for key, p in self.named_parameters():
            if p.ndim == 2:
                last = key.endswith(("out_proj.weight", "down.weight"))
                nn.init.normal_(p, std=STD / math.sqrt(2 * layers) if last else STD)
            elif key.endswith("bias"):
                nn.init.zeros_(p)

    # -- all tokens at once --------------------------------------------------------------------------------------------
    def forward(self, tokens: Tensor) -> Tensor:
        """tokens int64 [N, T] -> scores [N, T, vocab_size]."""
        return self.scores(self.states(tokens))

    def states(self, tokens: Tensor) -> Tensor:
        """tokens int64 [N, T] -> normed states [N, T, dim]."""
        if int(tokens.shape[1]) > self.max_length:
            raise ShapeError(f"GPT: {tokens.shape[1]} tokens, the most that it takes are {self.max_length}")
        x = self.words(tokens)
        if self.positions is not None:
            x = x + self.positions[: tokens.shape[1]]
        rate = self.rate if self.training else 0.0
        x, branch = pdl.dropout(x, p=rate), None
        for layer in self.layers:
            x, branch = layer(x, branch, self.angles)
        return add_norm(self.norm, x, branch, rate)[0]

    def scores(self, x: Tensor) -> Tensor:
        """States [..., dim] -> scores [..., vocab_size]."""
        if self.lm_head is not None:
            return self.lm_head(x)  # type: ignore[no-any-return]
        return pdl.matmul(x, pdl.swapaxes(self.words.weight, 0, 1))

    def loss(self, tokens: Tensor, targets: Tensor, *, reduction: str = "mean") -> Tensor:
        """-log p(target) of each token, targets int64 [N, T], -1 where there is none; their mean over the others. The
        scores never exist as a whole."""
        tied = self.lm_head is None
        table = self.words.weight if self.lm_head is None else self.lm_head.weight
        return pdl.linear_cross_entropy(
            self.states(tokens), table, None, targets, ignore_index=-1, reduction=reduction, transposed=tied
        )

    # -- token by token ------------------------------------------------------------------------------------------------
    def kinds(self) -> tuple[KeyValues, ...]:
        return (KeyValues(self.kv_width, self.words.weight.dtype),) * (2 * len(self.layers))

    def step(
        self, tokens: Tensor, counts: Tensor, lengths: Tensor, state: tuple[Tensor, ...], *memory: Tensor
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        at = pdl.cumsum(tokens * 0 + 1, axis=1) - 1 + pdl.expand_dims(lengths, axis=1)
        x, branch = self.words(tokens), None
        if self.positions is not None:
            real = pdl.less(at, pdl.expand_dims(lengths + counts, axis=1))
            x = x + pdl.embedding(self.positions, pdl.where(real, at, 0))  # which raises behind the last one
        kept: list[Tensor] = []
        layer: Any
        for number, layer in enumerate(self.layers):
            pair = state[2 * number : 2 * number + 2]
            x, branch, new = layer.step(x, branch, self.angles, (at, counts, lengths), pair)
            kept += new
        x = last_real(x if branch is None else x + branch, counts)
        return self.scores(self.norm(x)), tuple(kept)


class Layer(nn.Module):
    """x + attention(norm(x)), then x + feed(norm(x)). What a layer's feed-forward part adds, its `branch`, is added by
    the norm behind it, in the same pass over memory."""

    def __init__(
        self, attention: Attention, feed: FeedForward, norm1: nn.LayerNorm, norm2: nn.LayerNorm, dropout: float
    ) -> None:
        self.norm1, self.attention, self.norm2, self.feed, self.rate = norm1, attention, norm2, feed, dropout

    def forward(self, x: Tensor, branch: Tensor | None, angles: Tensor | None) -> tuple[Tensor, Tensor]:
        """x [N, T, dim], and a branch to be added to it -> the same behind the layer."""
        rate = self.rate if self.training else 0.0
        normed, x = add_norm(self.norm1, x, branch, rate)
        normed, x = add_norm(self.norm2, x, self.attention(normed, angles), rate)
        return x, self.feed(normed)

    def step(
        self,
        x: Tensor,
        branch: Tensor | None,
        angles: Tensor | None,
        places: tuple[Tensor, Tensor, Tensor],
        kept: Sequence[Tensor],
    ) -> tuple[Tensor, Tensor, list[Tensor]]:
        """The same of new positions; see `Attention.step`."""
        normed, x = add_norm(self.norm1, x, branch, 0.0)
        y, new = self.attention.step(normed, angles, places, kept)
        normed, x = add_norm(self.norm2, x, y, 0.0)
        return x, self.feed(normed), new


class Attention(nn.Module):
    """Causal attention of `heads` queries over `kv_heads` keys and values of `size` numbers. One product, `in_proj`,
    makes queries, keys and values, side by side in this order."""

    def __init__(
        self, dim: int, heads: int, kv_heads: int, size: int, *, bias: bool, qkv_bias: bool, qk_norm: bool, eps: float,
        dropout: float,
    ) -> None:  # fmt: skip
        self.heads, self.kv_heads, self.size, self.rate = heads, kv_heads, size, dropout
        self.in_proj = nn.Linear(dim, (heads + 2 * kv_heads) * size, bias=qkv_bias)
        self.q_norm, self.k_norm = (nn.RMSNorm(size, eps=eps) if qk_norm else None for _ in range(2))
        self.out_proj = nn.Linear(heads * size, dim, bias=bias)

    def forward(self, x: Tensor, angles: Tensor | None) -> Tensor:
        """x [N, T, dim] -> [N, T, dim]; angles as of `inverse_frequencies`, of rotary positions."""
        rate = self.rate if self.training else 0.0
        if self.kv_heads == self.heads and self.q_norm is None:
            made = self._turned(self.in_proj(x), 2 * self.heads, angles)
            y = pdl.scaled_dot_product_attention(made, is_causal=True, dropout_p=rate, heads=self.heads)
        else:
            q, k, v = self._apart(x, angles)
            k, v = self._repeated(k), self._repeated(v)
            y = pdl.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=rate, heads=self.heads)
        return self.out_proj(y)  # type: ignore[no-any-return]

    def step(
        self,
        x: Tensor,
        angles: Tensor | None,
        places: tuple[Tensor, Tensor, Tensor],
        kept: Sequence[Tensor],
    ) -> tuple[Tensor, list[Tensor]]:
        """New positions x [R, T, dim] -> [R, T, dim], and the keys and values with theirs. places: positions int64
        [R, T], counts and lengths int64 [R] as of `Decoder.step`; kept: keys and values [R, room, kv_heads size]."""
        at, counts, lengths = places
        q, k, v = self._apart(x, angles, at)
        y, *new = pdl.cached_attention(
            q, k, v, kept[0], kept[1], lengths, counts, heads=self.heads, kv_heads=self.kv_heads
        )
        return self.out_proj(y), new

    def _apart(self, x: Tensor, angles: Tensor | None, at: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Queries [..., heads size], keys and values [..., kv_heads size]."""
        made, queries, keys = self.in_proj(x), self.heads * self.size, self.kv_heads * self.size
        if self.q_norm is None or self.k_norm is None:
            made = self._turned(made, self.heads + self.kv_heads, angles, at)
            return made[..., :queries], made[..., queries : queries + keys], made[..., queries + keys :]
        q, k = self._normed(made[..., :queries], self.q_norm), self._normed(made[..., queries:-keys], self.k_norm)
        both = self._turned(pdl.concat([q, k], axis=-1), self.heads + self.kv_heads, angles, at)
        return both[..., :queries], both[..., queries:], made[..., -keys:]

    def _normed(self, x: Tensor, norm: nn.Module) -> Tensor:
        parts = norm(pdl.reshape(x, (*x.shape[:-1], x.shape[-1] // self.size, self.size)))
        return pdl.reshape(parts, x.shape)

    def _turned(self, x: Tensor, heads: int, angles: Tensor | None, at: Tensor | None = None) -> Tensor:
        """The first `heads` of x turned by their positions."""
        if angles is None:
            return x
        return pdl.rotary(x, at, heads=heads, size=self.size, inverse_frequencies=angles)

    def _repeated(self, x: Tensor) -> Tensor:
        """Keys or values [N, T, kv_heads size] for every head of the queries, [N, T, heads size]."""
        if self.kv_heads == self.heads:
            return x
        parts = pdl.reshape(x, (*x.shape[:-1], self.kv_heads, 1, self.size))
        wide = pdl.broadcast_to(parts, (*x.shape[:-1], self.kv_heads, self.heads // self.kv_heads, self.size))
        return pdl.reshape(wide, (*x.shape[:-1], self.heads * self.size))


class FeedForward(nn.Module):
    """down(f(up(x))), f the activation; of "swiglu" `up` makes gate and value side by side: down(silu(gate) value)."""

    def __init__(self, dim: int, hidden: int, activation: Activation, *, bias: bool, dropout: float) -> None:
        self.gated, self.activation = activation == "swiglu", activation
        self.up = nn.Linear(dim, 2 * hidden if self.gated else hidden, bias=bias)
        self.down = nn.Linear(hidden, dim, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        """x [..., dim] -> [..., dim]."""
        y = self.up(x)
        if self.gated:
            hidden = self.down.in_features
            return self.down(pdl.silu(y[..., :hidden]) * y[..., hidden:])  # type: ignore[no-any-return]
        if self.activation == "relu":
            return self.down(pdl.relu(y))  # type: ignore[no-any-return]
        return self.down(pdl.gelu(y, approximate="tanh" if self.activation == "gelu_tanh" else "none"))  # type: ignore[no-any-return]


def add_norm(norm: nn.LayerNorm, x: Tensor, branch: Tensor | None, rate: float) -> tuple[Tensor, Tensor]:
    """The norm of x + dropout(branch), and that sum."""
    return (norm(x), x) if branch is None else norm.add(branch, x, dropout_p=rate)


def norm_of(kind: str, dim: int, eps: float, bias: bool) -> nn.LayerNorm:
    """A norm over the last axis."""
    return nn.RMSNorm(dim, eps=eps) if kind == "rms" else nn.LayerNorm(dim, eps=eps, bias=bias)


def inverse_frequencies(size: int, base: float, scaling: Mapping[str, Any] | None) -> Array:
    """float32 [size / 2]: the angles by which pairs of a head's numbers turn from one position to the next. "linear":
    all divided by `factor` (Chen et al., arXiv 2306.15595). "llama3": those that turn less than `low` times in `length`
    positions are, those of more than `high` times stay, and in between it is interpolated by the number of turns."""
    angles = base ** -(np.arange(0, size, 2, dtype=np.float64) / size)
    if scaling is not None:
        given = dict(scaling)
        kind = given.pop("kind", None)
        needed = {"linear": {"factor"}, "llama3": {"factor", "low", "high", "length"}}.get(str(kind))
        if needed is None or set(given) != needed:
            raise ConfigError(
                f"GPT: scaling={dict(scaling)}; known: kind=linear with factor; llama3 with factor, low, high, length"
            )
        if kind == "linear":
            angles = angles / given["factor"]
        else:
            turns = given["length"] * angles / (2 * np.pi)
            share = np.clip((turns - given["low"]) / (given["high"] - given["low"]), 0, 1)
            angles = angles * (share + (1 - share) / given["factor"])
    return angles.astype(np.float32)


TASK = "language_modelling"
_LLAMA: dict[str, Any] = {
    "_target_": "pdl_nlp.GPT", "positions": "rotary", "norm": "rms", "activation": "swiglu", "bias": False,
}  # fmt: skip
_LLAMA3_1: dict[str, Any] = {"kind": "llama3", "low": 1.0, "high": 4.0, "length": 8192}
VARIANTS: dict[str, dict[str, Any]] = {
    **{
        name: {"_target_": "pdl_nlp.GPT", "dim": dim, "layers": layers, "heads": heads}
        for name, dim, layers, heads in (
            ("gpt2", 768, 12, 12), ("gpt2_medium", 1024, 24, 16), ("gpt2_large", 1280, 36, 20),
            ("gpt2_xl", 1600, 48, 25),
        )
    },
    "llama_2_7b": {**_LLAMA, "dim": 4096, "layers": 32, "heads": 32, "hidden": 11008, "max_length": 4096,
                   "tied": False},
    "llama_3_8b": {**_LLAMA, "dim": 4096, "layers": 32, "heads": 32, "kv_heads": 8, "hidden": 14336,
                   "max_length": 8192, "base": 500_000.0, "tied": False},
    "llama_3_2_1b": {**_LLAMA, "dim": 2048, "layers": 16, "heads": 32, "kv_heads": 8, "hidden": 8192,
                     "max_length": 131_072, "base": 500_000.0, "scaling": {**_LLAMA3_1, "factor": 32.0}},
    "mistral_7b": {**_LLAMA, "dim": 4096, "layers": 32, "heads": 32, "kv_heads": 8, "hidden": 14336,
                   "max_length": 32_768, "base": 1e6, "tied": False},
    "qwen2_0_5b": {**_LLAMA, "dim": 896, "layers": 24, "heads": 14, "kv_heads": 2, "hidden": 4864,
                   "max_length": 32_768, "base": 1e6, "qkv_bias": True, "eps": 1e-6},
    "qwen2_7b": {**_LLAMA, "dim": 3584, "layers": 28, "heads": 28, "kv_heads": 4, "hidden": 18_944,
                 "max_length": 32_768, "base": 1e6, "qkv_bias": True, "tied": False, "eps": 1e-6},
    "qwen3_0_6b": {**_LLAMA, "dim": 1024, "layers": 28, "heads": 16, "kv_heads": 8, "head_dim": 128, "hidden": 3072,
                   "max_length": 40_960, "base": 1e6, "qk_norm": True, "eps": 1e-6},
    "qwen3_8b": {**_LLAMA, "dim": 4096, "layers": 36, "heads": 32, "kv_heads": 8, "head_dim": 128, "hidden": 12_288,
                 "max_length": 40_960, "base": 1e6, "qk_norm": True, "tied": False, "eps": 1e-6},
}  # fmt: skip
"""Published nets; `vocab_size` is the tokenizer's."""

#: (pattern, name here) of HF's checkpoints: GPT-2's, then Llama's
_RENAMED = [
    (r"(?:transformer|model)\.(?=wte\.|wpe\.|h\.|ln_f\.|embed_tokens\.|layers\.|norm\.)", ""),
    (r"(?:wte|embed_tokens)\.", "words."),
    (r"wpe\.weight", "positions"),
    (r"h\.(\d+)\.", r"layers.\1."),
    (r"ln_f\.", "norm."),
    (r"layers\.(\d+)\.(?:ln_1|input_layernorm)\.", r"layers.\1.norm1."),
    (r"layers\.(\d+)\.(?:ln_2|post_attention_layernorm)\.", r"layers.\1.norm2."),
    (r"layers\.(\d+)\.attn\.c_attn\.", r"layers.\1.attention.in_proj."),
    (r"layers\.(\d+)\.(?:attn\.c_proj|self_attn\.o_proj)\.", r"layers.\1.attention.out_proj."),
    (r"layers\.(\d+)\.self_attn\.(q|k)_norm\.", r"layers.\1.attention.\2_norm."),
    (r"layers\.(\d+)\.self_attn\.(q|k|v)_proj\.", r"layers.\1.attention.\2."),
    (r"layers\.(\d+)\.mlp\.c_fc\.", r"layers.\1.feed.up."),
    (r"layers\.(\d+)\.mlp\.(?:c_proj|down_proj)\.", r"layers.\1.feed.down."),
    (r"layers\.(\d+)\.mlp\.(gate|up)_proj\.", r"layers.\1.\2."),
]
_NUMBERS = re.compile(r"layers\.\d+\.(attn\.(bias|masked_bias)|self_attn\.rotary_emb\.inv_freq)|rotary_emb\.inv_freq")
_JOINED = {"attention.in_proj": ("attention.q", "attention.k", "attention.v"), "feed.up": ("gate", "up")}


def remap(model: GPT, state: Mapping[str, Any]) -> dict[str, Any]:
    """A state dict (arrays by name) of HF's GPT-2, Llama, Mistral or Qwen in pdl's names and layouts. GPT-2's matrices
    are [in, out], as pdl's are; those of the others are PyTorch's."""
    turned = any(re.match(r"(?:transformer\.)?h\.\d+\.", name) for name in state)
    renamed = {_renamed(name): value for name, value in state.items()}
    for number in range(len(model.layers)):
        for to, parts in _JOINED.items():
            for end in ("weight", "bias"):
                names = [f"layers.{number}.{part}.{end}" for part in parts]
                if all(name in renamed for name in names):
                    arrays = [np.asarray(renamed.pop(name)) for name in names]
                    renamed[f"layers.{number}.{to}.{end}"] = np.concatenate(arrays)
    kept = {name: value for name, value in renamed.items() if not _NUMBERS.fullmatch(name)}
    if model.lm_head is None:
        kept.pop("lm_head.weight", None)  # a copy of the table
    return {name: np.asarray(value) for name, value in kept.items()} if turned else nn.from_torch(model, kept)


def _renamed(name: str) -> str:
    for pattern, to in _RENAMED:
        name = re.sub(f"^{pattern}", to, name)
    return name
