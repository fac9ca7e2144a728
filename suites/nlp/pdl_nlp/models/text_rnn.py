"""Recurrent nets that read a text both ways, with attention over its positions."""

from __future__ import annotations

from typing import Annotated, Literal

import pdl
from pdl.hints import Range
from pdl.nn import GRU, LSTM, Dropout, Linear
from pdl.tensor import Tensor
from pdl_nlp.models.base import (
    HUGE,
    Buckets,
    Grams,
    NGrams,
    Rate,
    TextModel,
    Width,
    average,
    embedding,
    highest,
    lengths_of,
    real,
    vectors,
)


class TextRNN(TextModel):
    """A bidirectional LSTM or GRU whose states H [T, 2 hidden] become one vector by attention: H^T softmax(tanh(H) w)
    (Zhou et al., "Attention-based bidirectional long short-term memory networks for relation classification", ACL
    2016; the directions side by side), or by their mean or maximum.

    vocab_size   tokens, padding and the unknown one among them; by default those of the training data
    num_classes  answers; by default the data's classes
    dim          of the vectors of tokens
    hidden       numbers of the state, in each direction
    layers       one above another
    cell         "lstm" or "gru"
    pool         "attention", "mean" or "max"
    dropout      of the vectors of tokens, between layers, and of what the last layer reads
    ngrams       2: the net also reads hashed pairs of tokens; 3: and threes (`pdl_nlp.models.base.NGrams`)
    buckets      rows of the table of n-grams
    ngram_dim    of their vectors
    """

    def __init__(
        self,
        vocab_size: Width | None = None,
        num_classes: Annotated[int, Range(2)] | None = None,
        *,
        dim: Width = 128,
        hidden: Width = 128,
        layers: Width = 1,
        cell: Literal["lstm", "gru"] = "lstm",
        pool: Literal["attention", "mean", "max"] = "attention",
        dropout: Rate = 0.5,
        ngrams: Grams = 1,
        buckets: Buckets = 1 << 17,
        ngram_dim: Width = 32,
    ) -> None:
        super().__init__(vocab_size, num_classes)
        self.embed, self.dropout, self.pool = embedding(self.vocab_size, dim), Dropout(dropout), pool
        self.grams = NGrams(buckets, ngram_dim, ngrams) if ngrams > 1 else None
        width = dim + (self.grams.width if self.grams is not None else 0)
        kind = LSTM if cell == "lstm" else GRU
        self.rnn = kind(width, hidden, num_layers=layers, dropout=dropout, bidirectional=True)
        self.attend = Linear(2 * hidden, 1, bias=False) if pool == "attention" else None
        self.head = Linear(2 * hidden, self.num_classes)

    def forward(self, tokens: Tensor) -> Tensor:
        there = real(tokens)
        states = self.rnn(self.dropout(vectors(self.embed, self.grams, tokens)), lengths=lengths_of(there))[0]
        made: Tensor = self.head(self.dropout(self._pooled(states, there)))
        return made

    def _pooled(self, states: Tensor, there: Tensor) -> Tensor:
        if self.attend is not None:
            weights = pdl.softmax(self.attend(pdl.tanh(states)) + (there - 1.0) * HUGE, axis=1)
            return (states * weights).sum(axis=1)
        if self.pool == "max":
            return highest(states, there)
        return average(states, there)


TASK = "classification"
VARIANTS = {
    "text_bilstm": {"_target_": "pdl_nlp.TextRNN"},
    "text_bigru": {"_target_": "pdl_nlp.TextRNN", "cell": "gru"},
}
