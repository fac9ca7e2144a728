"""Recurrent nets that write a text for one that they read, with attention (Luong et al., arXiv 1508.04025; Bahdanau et
al., arXiv 1409.0473), and may copy its tokens (See et al., arXiv 1704.04368)."""

from __future__ import annotations

from collections.abc import Sequence
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
FLOOR = 1e-30  # added to the probability that a token is copied, so that its logarithm is finite in float32


class RNNSeq2Seq(Seq2SeqModel):
    """A bidirectional LSTM or GRU reads, another one writes. Its first state is tanh of a linear layer of the last ones
    of the reader, layer by layer. Of each state h of the upper layer the weights of what was read are the softmax of

        dot       h m            general    h W m            additive   v tanh(W h + U m)   (Bahdanau et al.)

    with m the states of the reader; of their mean c comes tanh(W [c, h]), and scores are its products with the vectors
    of tokens. As Luong et al. have it (their section 3.1), without feeding it to the next step: so training takes
    all steps in one call.

    With `copies` it is the pointer-generator of See et al. (arXiv 1704.04368, equations 8 and 9): scores are log P(w),

        P(w) = p P_vocab(w) + (1 - p) sum_{i: x_i = w} a_i        p = sigmoid(w [c, h, y] + b)

    P_vocab being the softmax of the scores above, a the attention to the tokens x that are read, y the vector of the
    last token written. Reader and writer have one vocabulary, of bytes' pairs, characters or words, so each x_i is one
    of it and the extended vocabulary of the paper (section 2.2) is not needed; what the tokenizer does not know is
    copied as its token for the unknown. Coverage (section 2.3) is left out: it feeds attention the sum of what
    earlier steps attended to, so steps of training would have to wait for each other.

    vocab_size  tokens of both languages; by default those of the tokenizer
    dim         numbers of a token's vector
    hidden      numbers of the state of the writer; half of it in each direction of the reader
    layers      of both, one above another
    cell        "lstm" or "gru"
    scoring     "dot", "general" or "additive"
    copies      tokens of what is read may be copied (See et al.)
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
        copies: bool = False,
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
        self.copies, self.gate = copies, Linear(2 * hidden + dim, 1) if copies else None

    @property
    def _parts(self) -> int:
        """Arrays of a state: h, and c of an LSTM."""
        return 2 if self.cell == "lstm" else 1

    # -- training ------------------------------------------------------------------------------------------------------
    def states(self, tokens: Tensor, given: Tensor) -> Tensor:
        """With `copies` those of P_vocab."""
        memory = self.encode(tokens)
        h, _, _ = self._written(given, memory[3 : 3 + self._parts], None)
        return self._combined(h, self._context(h, memory))

    def table(self) -> tuple[Tensor, Tensor | None]:
        return self.embed.weight, self.bias

    def forward(self, tokens: Tensor, given: Tensor) -> Tensor:
        """tokens int64 [N, S], given int64 [N, T] -> scores [N, T, vocab_size]; with `copies` log P, float32."""
        if not self.copies:
            return super().forward(tokens, given)
        memory = self.encode(tokens)
        h, x, _ = self._written(given, memory[3 : 3 + self._parts], None)
        return self._log_p(h, x, memory)

    def loss(self, tokens: Tensor, given: Tensor, labels: Tensor, *, label_smoothing: float = 0.0) -> Tensor:
        """As of `Seq2SeqModel`. With `copies` of log P, which is there as a whole: softmax(log P) = P."""
        if not self.copies:
            return super().loss(tokens, given, labels, label_smoothing=label_smoothing)
        scores = self.forward(tokens, given)
        return pdl.cross_entropy(scores, labels, label_smoothing=label_smoothing, ignore_index=-1)

    def attention(self, tokens: Tensor, given: Tensor) -> Tensor:
        """What each token that is written attends to, [N, T, S]."""
        there, _, keys, *rest = self.encode(tokens)
        h, _, _ = self._written(given, rest[: self._parts], None)
        return pdl.softmax(self._attending(h, keys, there), axis=-1)

    # -- decoding ------------------------------------------------------------------------------------------------------
    def kinds(self) -> tuple[Kept, ...]:
        return tuple(Carried((self.layers, self.hidden), memory=3 + part) for part in range(self._parts))

    def encode(self, tokens: Tensor) -> tuple[Tensor, ...]:  # type: ignore[override]
        """tokens int64 [N, S] -> bool [N, S], where a token stands; the states of the reader [N, S, hidden], and what
        of them scores are made of, of the same shape; the first state of the writer, h (and c) [N, layers, hidden];
        with `copies` the tokens themselves."""
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
        copied = (tokens,) if self.copies else ()
        return there, memory, memory if self.key is None else self.key(memory), *first, *copied

    def step(
        self, tokens: Tensor, counts: Tensor, lengths: Tensor, state: tuple[Tensor, ...], *memory: Tensor
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        y, x, after = self._written(tokens, state, counts)
        h = pdl.expand_dims(last_real(y, counts), axis=1)
        if self.copies:
            return self._log_p(h, pdl.expand_dims(last_real(x, counts), axis=1), memory)[:, 0], after
        return self.scores(self._combined(h, self._context(h, memory)))[:, 0], after

    def _written(
        self, given: Tensor, first: Sequence[Tensor], counts: Tensor | None
    ) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
        """States of the upper layer [R, T, hidden], the vectors of given [R, T, dim], and the last states of all
        layers, each [R, layers, hidden]."""
        before: Any = tuple(pdl.swapaxes(each, 0, 1) for each in first)
        x = self.dropout(self.embed(given))
        y, last = self.writer(x, before if self.cell == "lstm" else before[0], lengths=counts)
        return y, x, tuple(pdl.swapaxes(each, 0, 1) for each in (last if self.cell == "lstm" else (last,)))

    # -- attention and copying -----------------------------------------------------------------------------------------
    def _attending(self, h: Tensor, keys: Tensor, there: Tensor) -> Tensor:
        """Scores [N, R / N * T, S] of states [R, T, hidden], rows of a source side by side; -inf where none stands."""
        asked = pdl.reshape(h if self.query is None else self.query(h), (keys.shape[0], -1, self.hidden))
        if self.v is None:
            scores = pdl.matmul(asked, pdl.swapaxes(keys, 1, 2))
        else:
            scores = pdl.matmul(pdl.tanh(pdl.expand_dims(asked, axis=2) + pdl.expand_dims(keys, axis=1)), self.v)
        return pdl.where(pdl.expand_dims(there, axis=1), scores, float("-inf"))

    def _context(self, h: Tensor, memory: Sequence[Tensor]) -> Tensor:
        """The mean c [R, T, hidden] of what was read by the attention of states h [R, T, hidden]."""
        there, read, keys = memory[:3]
        if self.scoring == "additive":
            return self._mean(pdl.softmax(self._attending(h, keys, there), axis=-1), read, h)
        asked = h if self.query is None else self.query(h)
        return attend_to_memory(asked, keys, read, heads=1, mask=there, scale=1.0)

    def _mean(self, weights: Tensor, read: Tensor, h: Tensor) -> Tensor:
        """c [R, T, hidden] by weights [N, R / N * T, S] of read [N, S, hidden]."""
        return pdl.reshape(pdl.matmul(weights, read), (h.shape[0], h.shape[1], -1))

    def _combined(self, h: Tensor, c: Tensor) -> Tensor:
        """tanh(W [c, h]) [R, T, dim]."""
        return self.dropout(pdl.tanh(self.combine(pdl.concat([c, h], axis=-1))))  # type: ignore[no-any-return]

    def _log_p(self, h: Tensor, x: Tensor, memory: Sequence[Tensor]) -> Tensor:
        """log P [R, T, vocab_size] of states h [R, T, hidden] and vectors x [R, T, dim] of what was written.

        log(e^m + s + FLOOR), m = log p + log P_vocab and s the sum of e^(log(1 - p) + log a): logarithms, which
        autocast keeps in float32, so that neither p near 0 or 1 nor bfloat16 costs digits. No P is below FLOOR.
        """
        assert self.gate is not None
        there, read, keys, tokens = *memory[:3], memory[-1]
        log_a = pdl.log_softmax(self._attending(h, keys, there), axis=-1)
        c = self._mean(pdl.exp(log_a), read, h)
        gate = self.gate(pdl.concat([c, h, x], axis=-1))
        m = pdl.log_softmax(self.scores(self._combined(h, c)), axis=-1) + pdl.log_sigmoid(gate)
        rows, sources = pdl.reshape(m, (tokens.shape[0], -1, self.vocab_size)), pdl.expand_dims(tokens, axis=1)
        share = pdl.exp(log_a + pdl.reshape(pdl.log_sigmoid(-gate), (tokens.shape[0], -1, 1)))
        floor = pdl.astype(sources[:, :, :1] * 0, share.dtype) + FLOOR  # computed of an input: sizes stay symbolic
        start = pdl.broadcast_to(floor, rows.shape)
        copied = pdl.scatter_add(start, pdl.broadcast_to(sources, share.shape), share)
        return pdl.reshape(pdl.logaddexp(rows, pdl.log(copied)), m.shape)  # type: ignore[no-any-return]


TASK = "seq2seq"
VARIANTS = {
    "lstm_seq2seq": {"_target_": "pdl_nlp.RNNSeq2Seq"},
    "gru_seq2seq": {"_target_": "pdl_nlp.RNNSeq2Seq", "cell": "gru"},
    "pointer_generator": {"_target_": "pdl_nlp.RNNSeq2Seq", "scoring": "additive", "copies": True},
}
