"""ERNIE-GEN (Xiao et al., arXiv 2001.11314): an encoder such as BERT or ERNIE that writes, by infilling."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Annotated

import numpy as np

import pdl
from pdl import nn
from pdl.decoder_state import Kept, KeyValues
from pdl.errors import ConfigError, ShapeError
from pdl.hints import Inherited, Range
from pdl.nn.decoder import last_real
from pdl.nn.decoder import positions as standing
from pdl.tensor import Tensor
from pdl_nlp.models import bert
from pdl_nlp.models.base import Seq2SeqModel, Width
from pdl_nlp.models.bert import BERT, MaskedWords

remap, adapt = bert.remap, bert.adapt  # files of these nets are files of encoders
Attend = Callable[[nn.MultiHeadAttention, Tensor], Tensor]


class ERNIEGen(Seq2SeqModel, BERT):  # type: ignore[misc]  # its inputs are those of what writes
    """One encoder reads a text and writes another: tokens that are read see each other, those that are written see them
    and what stands before, as UniLM has it (Dong et al., arXiv 1905.03197). What follows is not told by the state of
    the last token but by that of a symbol [ATTN] in the next one's place, which sees all tokens so far and itself, in
    training and in writing (word-by-word infilling generation): so that an error in the last
    token counts less. Where training replaces some of the tokens that are given (`pdl_nlp.Seq2Seq(noise=)`), this is
    the paper's noise-aware generation; its flow of spans, of which all tokens are predicted at once, is for
    pretraining and left out.

    Scores are those of a masked word: h = norm(gelu(W x + c)), scores = E h + b. So a pretrained encoder with [MASK]
    for [ATTN] begins with what it knows of words that are missing.

    attn     number of the token [ATTN]; by default that of the tokenizer's [MASK]
    options  those of `BERT`; of `max_length` positions a text and what is written for it have half each
    """

    def __init__(
        self, vocab_size: Width | None = None, *, attn: Annotated[int, Range(0)] | None = None, **options: Inherited
    ) -> None:
        if attn is None:
            raise ConfigError("ERNIEGen needs attn, the number of a token, which the task takes from its tokenizer")
        self.attn = attn
        BERT.__init__(self, vocab_size, **options)
        self.positions, self.max_length = self.max_length, (self.max_length - 1) // 2

    def behind(self) -> None:
        self.masked = MaskedWords(self.dim, vocab_size=self.vocab_size, eps=self.embeddings.norm.eps)

    # -- training ------------------------------------------------------------------------------------------------------
    def states(self, tokens: Tensor, given: Tensor) -> Tensor:  # type: ignore[override]
        return self.masked(self._flows(tokens, given)[:, -given.shape[1] :])  # type: ignore[no-any-return]

    def table(self) -> tuple[Tensor, Tensor | None]:
        return self.embeddings.words.weight, self.masked.bias

    def attention(self, tokens: Tensor, given: Tensor) -> Tensor:
        """What each token that is written attends to in the last layer among those that are read, the mean over heads,
        [N, T, S]."""
        seen: list[Tensor] = []
        self._flows(tokens, given, seen)
        read = seen[-1][:, :, -given.shape[1] :, : tokens.shape[1]].mean(axis=1)
        return read / read.sum(axis=-1, keepdims=True)

    def _flows(self, tokens: Tensor, given: Tensor, seen: list[Tensor] | None = None) -> Tensor:
        """States [N, S + 2 T, dim] of what is read, what is given, and a symbol behind each of the latter. `seen` gets
        the weights [N, heads, S + 2 T, S + 2 T] of each layer."""
        read, written = int(tokens.shape[1]), int(given.shape[1])
        if read + written >= self.positions:
            have = f"there are vectors for {self.positions} positions"
            raise ShapeError(f"ERNIEGen: {read} tokens read and {written} written, {have}; cut texts (max_length=)")
        there, steps = self.there(tokens), np.arange(written)
        ids = pdl.concat([tokens, given, given * 0 + self.attn], axis=1)
        own = pdl.expand_dims(pdl.astype(there, pdl.int64).sum(axis=1), axis=1) + steps
        at = pdl.concat([tokens * 0 + np.arange(read), own, own + 1], axis=1)
        # what is read sees all of itself, token t what is read and tokens 0 ... t, its symbol the same and itself
        stands = np.concatenate([np.full(read, -1), steps, np.full(written, written)])
        sees = stands <= np.concatenate([np.full(read, -1), steps, steps])[:, None]
        np.fill_diagonal(sees, True)
        real = pdl.concat([there, *[pdl.equal(given, given)] * 2], axis=1)  # what stands behind is told by the labels
        mask = pdl.logical_and(pdl.expand_dims(real, axis=(1, 2)), pdl.tensor(sees))

        def attend(of: nn.MultiHeadAttention, three: Tensor) -> Tensor:
            if seen is not None:
                seen.append(_weights(of, three, mask))
            rate = of.dropout if of.training else 0.0
            return pdl.scaled_dot_product_attention(three, mask=mask, dropout_p=rate, heads=of.num_heads)

        segments = pdl.concat([tokens * 0, given * 0 + 1, given * 0 + 1], axis=1)
        return self._through(ids, segments, at, attend)

    # -- decoding ------------------------------------------------------------------------------------------------------
    def kinds(self) -> tuple[Kept, ...]:
        kind = self.embeddings.words.weight.dtype
        return tuple(KeyValues(self.dim, kind, memory=1 + i, lengths=0, ahead=1) for i in range(2 * len(self.layers)))

    def encode(self, tokens: Tensor) -> tuple[Tensor, ...]:  # type: ignore[override]
        """tokens int64 [N, S] -> how many of them stand, int64 [N], and keys and values [N, S, dim] of each layer."""
        there = self.there(tokens)
        mask, kept = pdl.expand_dims(there, axis=(1, 2)), list[Tensor]()

        def attend(of: nn.MultiHeadAttention, three: Tensor) -> Tensor:
            kept.extend(pdl.split(three, self.dim, axis=-1)[1:])
            return pdl.scaled_dot_product_attention(three, mask=mask, heads=of.num_heads)

        at = pdl.cumsum(tokens * 0 + 1, axis=1) - 1
        self._through(tokens, tokens * 0, at, attend)
        return pdl.astype(there, pdl.int64).sum(axis=1), *kept

    def step(
        self, tokens: Tensor, counts: Tensor, lengths: Tensor, state: tuple[Tensor, ...], *memory: Tensor
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        wide = pdl.concat([tokens, tokens[:, :1]], axis=1)
        at = standing(wide, lengths)
        behind = pdl.equal(at, pdl.expand_dims(lengths + counts, axis=1))
        ids, after = pdl.where(behind, self.attn, wide), list[Tensor]()

        def attend(of: nn.MultiHeadAttention, three: Tensor) -> Tensor:
            q, k, v = pdl.split(three, self.dim, axis=-1)
            keys, values = state[len(after) : len(after) + 2]
            y, *joined = pdl.cached_attention(q, k, v, keys, values, lengths, counts + 1, heads=of.num_heads)
            after.extend(joined)
            return y

        if self.embeddings.positions is not None:
            at = pdl.minimum(at, self.positions - 1)  # padding of a prompt may lie behind
        x = self._through(ids, ids * 0 + 1, at, attend)
        return self.scores(self.masked(last_real(x, counts + 1))), tuple(after)

    # -- both ----------------------------------------------------------------------------------------------------------
    def _through(self, ids: Tensor, segments: Tensor, at: Tensor, attend: Attend) -> Tensor:
        """States [N, L, dim] of ids, their segments and positions int64 [N, L]; `attend` gives [N, L, dim] for a
        layer's attention and its queries, keys and values [N, L, 3 dim]."""
        kinds = 0 if self.embeddings.segments is None else self.embeddings.segments.weight.shape[0]
        x = self.embeddings(ids, segments if kinds > 1 else None, self.task, at)
        for layer in self.layers:
            x = layer(x, attend=partial(_attended, layer.self_attn, at, attend))  # type: ignore[attr-defined]
        return x  # type: ignore[no-any-return]


def _attended(of: nn.MultiHeadAttention, at: Tensor, attend: Attend, x: Tensor) -> Tensor:
    """What self-attention gives for x [N, L, dim]."""
    return of.out_proj(attend(of, of.project(x, at)))  # type: ignore[no-any-return]


def _weights(of: nn.MultiHeadAttention, three: Tensor, mask: Tensor) -> Tensor:
    """How much each position attends to each, [N, heads, L, L], of queries, keys and values [N, L, 3 dim]."""
    q, k = (
        pdl.swapaxes(pdl.reshape(each, (each.shape[0], each.shape[1], of.num_heads, -1)), 1, 2)
        for each in pdl.split(three, of.embed_dim, axis=-1)[:2]
    )
    scores = pdl.matmul(q, pdl.swapaxes(k, 2, 3)) * (1 / math.sqrt(q.shape[-1]))
    return pdl.softmax(pdl.where(mask, scores, -math.inf), axis=-1)


TASK = "seq2seq"
VARIANTS = {"ernie_gen_base": {"_target_": "pdl_nlp.ERNIEGen", "dim": 768, "layers": 12, "heads": 12}}
"""Published sizes: those of ERNIE-GEN base; vocab_size is the tokenizer's."""
