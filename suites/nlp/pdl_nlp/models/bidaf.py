"""Bidirectional attention flow between a paragraph and a question (Seo et al., ICLR 2017, arXiv 1611.01603)."""

from __future__ import annotations

from typing import Annotated

import pdl
from pdl.errors import ConfigError
from pdl.hints import Range
from pdl.nn import LSTM, Dropout, Linear, Module, ModuleList
from pdl.tensor import Tensor
from pdl_nlp.models.base import HUGE, Rate, ReadingModel, Width, embedding, real


class Highway(Module):
    """g * relu(W x + b) + (1 - g) * x, with g = sigmoid(V x + c) (Srivastava et al., arXiv 1505.00387)."""

    def __init__(self, dim: int) -> None:
        self.change, self.gate = Linear(dim, dim), Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        """[..., dim] -> [..., dim]."""
        g = pdl.sigmoid(self.gate(x))
        made: Tensor = g * pdl.relu(self.change(x)) + (1.0 - g) * x
        return made


class BiDAF(ReadingModel):
    """Vectors of tokens through two highway layers; a bidirectional LSTM over the paragraph, H [T, 2 hidden], and over
    the question, U [Q, 2 hidden]; likeness S_tj = w [h_t; u_j; h_t * u_j]. Each token of the paragraph reads the
    question, u~_t = sum_j softmax_j(S_tj) u_j, and the question reads the paragraph, h~ = sum_t softmax_t(max_j S_tj)
    h_t. Two more LSTMs over G = [h; u~; h * u~; h * h~] give M, one over M gives M2; where the answer begins is a
    linear layer of [G; M], where it ends one of [G; M2]. Words are read as they are, without a net over their letters.

    vocab_size  tokens, padding and the unknown one among them; by default those of the training data
    dim         of the vectors of tokens
    hidden      numbers of the state of each LSTM, in each direction
    highways    layers of that kind
    matches     n: each token is also marked where a run of 1, 2, ... n tokens that it is part of is in the other text,
                too (exact match; Chen et al., arXiv 1704.00051), without which few questions teach little
    dropout     of what each LSTM and each last layer reads
    """

    def __init__(
        self,
        vocab_size: Width | None = None,
        *,
        dim: Width = 100,
        hidden: Width = 100,
        highways: Annotated[int, Range(0)] = 2,
        matches: Annotated[int, Range(0, 3)] = 0,
        dropout: Rate = 0.2,
    ) -> None:
        if vocab_size is None:
            raise ConfigError("BiDAF needs vocab_size, which the task takes from the data")
        self.vocab_size = vocab_size
        self.embed, self.dropout = embedding(vocab_size, dim), Dropout(dropout)
        self.highways = ModuleList(Highway(dim) for _ in range(highways))
        self.matches = matches
        self.contextual = LSTM(dim + matches, hidden, bidirectional=True)
        self.of_paragraph, self.of_question = Linear(2 * hidden, 1, bias=False), Linear(2 * hidden, 1, bias=False)
        self.of_both = Linear(2 * hidden, 1, bias=False)
        self.modeling = LSTM(8 * hidden, hidden, num_layers=2, dropout=dropout, bidirectional=True)
        self.ending = LSTM(2 * hidden, hidden, bidirectional=True)
        self.begin, self.end = (Linear(10 * hidden, 1, bias=False) for _ in range(2))  # a bias would add to all scores

    def forward(self, tokens: Tensor, other: Tensor) -> Tensor:
        there, asked = real(tokens), real(other)
        lengths = pdl.astype(there.sum(axis=(1, 2)), pdl.int64)
        marks = [self._marked(tokens, other, n) for n in range(1, self.matches + 1)]
        h = self._read(tokens, lengths, [mine for mine, _ in marks])
        u = self._read(other, pdl.astype(asked.sum(axis=(1, 2)), pdl.int64), [theirs for _, theirs in marks])
        g = self._attended(h, u, there, asked)
        m = self.modeling(self.dropout(g), lengths=lengths)[0]
        m2 = self.ending(self.dropout(m), lengths=lengths)[0]
        ends = [layer(self.dropout(pdl.concat([g, each], axis=-1)))
                for layer, each in ((self.begin, m), (self.end, m2))]  # fmt: skip
        return pdl.concat(ends, axis=-1) + (there - 1.0) * HUGE

    def _read(self, tokens: Tensor, lengths: Tensor, marks: list[Tensor]) -> Tensor:
        x = self.embed(tokens)
        for layer in self.highways:
            x = layer(x)
        x = pdl.concat([x, *marks], axis=-1) if marks else x
        made: Tensor = self.contextual(self.dropout(x), lengths=lengths)[0]
        return made

    def _marked(self, tokens: Tensor, question: Tensor, n: int) -> tuple[Tensor, Tensor]:
        """float32 [N, T, 1], [N, Q, 1]: 1 where a token is part of a run of n that the other text has, too."""
        mine, theirs = (self._runs(each, n) for each in (tokens, question))
        same = pdl.equal(pdl.expand_dims(mine, axis=2), pdl.expand_dims(theirs, axis=1))
        both = pdl.astype(same, pdl.float32) * pdl.expand_dims(pdl.astype(mine >= 0, pdl.float32), axis=2)
        return self._covered(pdl.max(both, axis=2), n), self._covered(pdl.max(both, axis=1), n)

    def _runs(self, tokens: Tensor, n: int) -> Tensor:
        """int64 [N, T]: a number of the n tokens from each on, -1 where there are fewer."""
        runs = tokens
        for _ in range(n - 1):
            tokens = _later(tokens)
            runs = pdl.where(tokens > 0, runs * self.vocab_size + tokens, -1)
        return pdl.where(runs > 0, runs, -1)

    @staticmethod
    def _covered(starts: Tensor, n: int) -> Tensor:
        """float32 [N, T] of the first tokens of runs to [N, T, 1] of all of their tokens."""
        made = starts
        for _ in range(n - 1):
            starts = pdl.concat([starts[:, :1] * 0.0, starts[:, :-1]], axis=1)
            made = pdl.maximum(made, starts)
        return pdl.expand_dims(made, axis=-1)

    def _attended(self, h: Tensor, u: Tensor, there: Tensor, asked: Tensor) -> Tensor:
        """[N, T, 2 hidden], [N, Q, 2 hidden] -> [N, T, 8 hidden]."""
        weighted = pdl.matmul(h * self.of_both.weight[:, 0], pdl.swapaxes(u, 1, 2))
        scores = self.of_paragraph(h) + pdl.swapaxes(self.of_question(u), 1, 2) + weighted
        scores = scores + (pdl.swapaxes(asked, 1, 2) - 1.0) * HUGE
        read = pdl.matmul(pdl.softmax(scores, axis=-1), u)
        weights = pdl.softmax(pdl.max(scores, axis=-1, keepdims=True) + (there - 1.0) * HUGE, axis=1)
        whole = (h * weights).sum(axis=1, keepdims=True)
        return pdl.concat([h, read, h * read, h * whole], axis=-1)


def _later(tokens: Tensor) -> Tensor:
    """int64 [N, T]: the next token of each, 0 of the last one."""
    return pdl.concat([tokens[:, 1:], tokens[:, :1] * 0], axis=1)


TASK = "span_extraction"
VARIANTS = {"bidaf": {"_target_": "pdl_nlp.BiDAF"}}
