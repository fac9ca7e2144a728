"""Recurrent nets that write a text for one that they read, with attention (Luong et al., arXiv 1508.04025; Bahdanau et
al., arXiv 1409.0473)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pdl
from pdl.decoder_state import Carried, Kept
from pdl.errors import ConfigError
from pdl.hints import Range
from pdl.nn import GRU, LSTM, Dropout, Embedding, Linear, Parameter, init
from pdl.nn.decoder import attend_to_memory, last_real
from pdl.tensor import Tensor
from pdl_nlp.models.base import Rate, Seq2SeqModel, Width

Scoring = Literal["dot", "general", "additive"]


class RNNSeq2Seq(Seq2SeqModel):
    """A bidirectional LSTM or GRU reads, another one writes. Its first state is tanh of a linear layer of the last ones
    of the reader, layer by layer. Of each state h of the upper layer the weights of what was read are the softmax of

        dot       h m            general    h W m            additive   v tanh(W h + U m)   (Bahdanau et al.)

    with m the states of the reader; of their mean c comes tanh(W [c, h]), and scores are its products with the vectors
    of tokens. As Luong et al. have it (their section 3.1), without feeding it to the next step: so training takes
    all steps in one call.

    vocab_size  tokens of both languages; by default those of the tokenizer
    dim         numbers of a token's vector
    hidden      numbers of the state of the writer; half of it in each direction of the reader
    layers      of both, one above another
    cell        "lstm" or "gru"
    scoring     "dot", "general" or "additive"
    shared      one table of vectors for both texts; else one for each
    dropout     of vectors, between layers, and of what scores are made of
    pad         number of the token for padding
    """

    def __init__(
        self,
        vocab_size: Width | None = None,
        *,
        dim: Width = 256,
        hidden: Annotated[int, Range(2)] = 512,
        layers: Width = 1,
        cell: Literal["lstm", "gru"] = "lstm",
        scoring: Scoring = "general",
        shared: bool = True,
        dropout: Rate = 0.3,
        pad: Annotated[int, Range(0)] = 0,
    ) -> None:
        if vocab_size is None:
            raise ConfigError("RNNSeq2Seq needs vocab_size, which the task takes from its tokenizer")
        if hidden % 2:
            raise ConfigError(f"RNNSeq2Seq: hidden={hidden} must be even; each direction of the reader has half of it")
        self.vocab_size, self.dim, self.hidden, self.layers, self.pad = vocab_size, dim, hidden, layers, pad
        self.cell, self.scoring, self.dropout = cell, scoring, Dropout(dropout)
        self.embed = Embedding(vocab_size, dim)
        self.source_embed = None if shared else Embedding(vocab_size, dim)
        for table in filter(None, (self.embed, self.source_embed)):
            init.normal_(table.weight, std=dim**-0.5)
        kind, between = LSTM if cell == "lstm" else GRU, dropout if layers > 1 else 0.0
        self.reader = kind(dim, hidden // 2, num_layers=layers, dropout=between, bidirectional=True)
        self.writer = kind(dim, hidden, num_layers=layers, dropout=between)
        self.bridge = Linear(hidden, hidden * self._parts)
        self.query = None if scoring == "dot" else Linear(hidden, hidden, bias=False)
        self.key = Linear(hidden, hidden, bias=False) if scoring == "additive" else None
        self.v = Parameter(pdl.zeros((hidden,))) if scoring == "additive" else None
        if self.v is not None:
            init.uniform_(self.v, -(hidden**-0.5), hidden**-0.5)
        self.combine, self.bias = Linear(2 * hidden, dim), Parameter(pdl.zeros((vocab_size,)))

    @property
    def _parts(self) -> int:
        """Arrays of a state: h, and c of an LSTM."""
        return 2 if self.cell == "lstm" else 1

    # -- training ------------------------------------------------------------------------------------------------------
    def states(self, tokens: Tensor, given: Tensor) -> Tensor:
        there, memory, keys, *first = self.encode(tokens)
        h, _ = self._written(given, first, None)
        return self._combined(h, there, memory, keys)

    def table(self) -> tuple[Tensor, Tensor | None]:
        return self.embed.weight, self.bias

    def attention(self, tokens: Tensor, given: Tensor) -> Tensor:
        """What each token that is written attends to, [N, T, S]."""
        there, _, keys, *first = self.encode(tokens)
        h, _ = self._written(given, first, None)
        if self.scoring == "additive":
            return self._additive(h, keys, there)
        asked = h if self.query is None else self.query(h)
        scores = pdl.matmul(asked, pdl.swapaxes(keys, 1, 2))
        return pdl.softmax(pdl.where(pdl.expand_dims(there, axis=1), scores, float("-inf")), axis=-1)

    # -- decoding ------------------------------------------------------------------------------------------------------
    def kinds(self) -> tuple[Kept, ...]:
        return tuple(Carried((self.layers, self.hidden), memory=3 + part) for part in range(self._parts))

    def encode(self, tokens: Tensor) -> tuple[Tensor, ...]:  # type: ignore[override]
        """tokens int64 [N, S] -> bool [N, S], where a token stands; the states of the reader [N, S, hidden], and what
        of them scores are made of, of the same shape; the first state of the writer, h (and c) [N, layers, hidden]."""
        there = self.there(tokens)
        lengths = pdl.astype(there, pdl.int64).sum(axis=1)
        table = self.embed if self.source_embed is None else self.source_embed
        memory, last = self.reader(self.dropout(table(tokens)), lengths=lengths)
        h = (
            last[0] if isinstance(last, tuple) else last
        )  # [2 layers, N, hidden / 2], the directions of a layer together
        n = tokens.shape[0]
        h = pdl.reshape(pdl.permute_dims(pdl.reshape(h, (self.layers, 2, n, -1)), (2, 0, 1, 3)), (n, self.layers, -1))
        first = pdl.split(pdl.tanh(self.bridge(h)), self.hidden, axis=-1)
        return there, memory, memory if self.key is None else self.key(memory), *first

    def step(
        self, tokens: Tensor, counts: Tensor, lengths: Tensor, state: tuple[Tensor, ...], *memory: Tensor
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        y, after = self._written(tokens, list(state), counts)
        there, read, keys = memory[:3]
        h = pdl.expand_dims(last_real(y, counts), axis=1)
        return self.scores(self._combined(h, there, read, keys))[:, 0], after

    def _written(self, given: Tensor, first: list[Tensor], counts: Tensor | None) -> tuple[Tensor, tuple[Tensor, ...]]:
        """States of the upper layer [R, T, hidden], and the last ones of all, each [R, layers, hidden]."""
        before: Any = tuple(pdl.swapaxes(each, 0, 1) for each in first)
        x = self.dropout(self.embed(given))
        y, last = self.writer(x, before if self.cell == "lstm" else before[0], lengths=counts)
        return y, tuple(pdl.swapaxes(each, 0, 1) for each in (last if self.cell == "lstm" else (last,)))

    def _combined(self, h: Tensor, there: Tensor, memory: Tensor, keys: Tensor) -> Tensor:
        """tanh(W [c, h]) [R, T, dim] of states h [R, T, hidden], c the mean of memory by their attention."""
        if self.scoring == "additive":
            weights, (rows, steps, _) = self._additive(h, keys, there), h.shape
            sources = memory.shape[0]
            c = pdl.reshape(pdl.matmul(pdl.reshape(weights, (sources, -1, memory.shape[1])), memory), (rows, steps, -1))
        else:
            asked = h if self.query is None else self.query(h)
            c = attend_to_memory(asked, keys, memory, heads=1, mask=there, scale=1.0)
        return self.dropout(pdl.tanh(self.combine(pdl.concat([c, h], axis=-1))))  # type: ignore[no-any-return]

    def _additive(self, h: Tensor, keys: Tensor, there: Tensor) -> Tensor:
        """Weights [R, T, S] of states [R, T, hidden], rows of a source side by side."""
        assert self.query is not None
        assert self.v is not None
        rows, steps, _ = h.shape
        asked = pdl.expand_dims(pdl.reshape(self.query(h), (keys.shape[0], -1, self.hidden)), axis=2)
        scores = pdl.matmul(pdl.tanh(asked + pdl.expand_dims(keys, axis=1)), self.v)
        weights = pdl.softmax(pdl.where(pdl.expand_dims(there, axis=1), scores, float("-inf")), axis=-1)
        return pdl.reshape(weights, (rows, steps, -1))


TASK = "seq2seq"
VARIANTS = {
    "lstm_seq2seq": {"_target_": "pdl_nlp.RNNSeq2Seq"},
    "gru_seq2seq": {"_target_": "pdl_nlp.RNNSeq2Seq", "cell": "gru"},
}
