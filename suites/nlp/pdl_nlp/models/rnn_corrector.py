"""Recurrent nets that correct spelling: whether a character is wrong, and what it should be."""

from __future__ import annotations

from typing import Annotated, Literal

import pdl
from pdl.errors import ConfigError
from pdl.hints import Range
from pdl.nn import GRU, LSTM, Dropout, Linear, Parameter
from pdl.tensor import Tensor
from pdl_nlp.models.base import CorrectionModel, Grams, NGrams, Rate, Width, embedding, real, vectors


class RNNCorrector(CorrectionModel):
    """A bidirectional LSTM or GRU over characters. Whether one is wrong is a linear layer of its state h (the detector
    of Zhang et al., Soft-Masked BERT, arXiv 2005.07421); what it should be are scores E W h + b, with E the vectors of
    characters that the net reads, too.

    vocab_size  characters, padding and the unknown one among them; by default those of the training data
    dim         of their vectors
    hidden      numbers of the state, in each direction
    layers      one above another
    cell        "lstm" or "gru"
    ngrams      2: the net also reads hashed pairs of characters; 3: and threes (`pdl_nlp.models.base.NGrams`)
    buckets     rows of the table of n-grams
    ngram_dim   of their vectors
    ngram_unknown  share of n-grams whose vector is 0 in training
    dropout     of what the recurrent net reads, between its layers, and of its states
    """

    def __init__(
        self,
        vocab_size: Width | None = None,
        *,
        dim: Width = 128,
        hidden: Width = 192,
        layers: Width = 1,
        cell: Literal["lstm", "gru"] = "gru",
        ngrams: Grams = 1,
        buckets: Annotated[int, Range(2, 1 << 24)] = 1 << 18,
        ngram_dim: Width = 32,
        ngram_unknown: Rate = 0.0,
        dropout: Rate = 0.3,
    ) -> None:
        if vocab_size is None:
            raise ConfigError("RNNCorrector needs vocab_size, which the task takes from the data")
        self.vocab_size = vocab_size
        self.embed, self.dropout = embedding(vocab_size, dim), Dropout(dropout)
        self.grams = NGrams(buckets, ngram_dim, ngrams, unknown=ngram_unknown) if ngrams > 1 else None
        width = dim + (self.grams.width if self.grams is not None else 0)
        self.rnn = (LSTM if cell == "lstm" else GRU)(
            width, hidden, num_layers=layers, dropout=dropout if layers > 1 else 0.0, bidirectional=True
        )
        self.detect, self.correct = Linear(2 * hidden, 1), Linear(2 * hidden, dim)
        self.bias = Parameter(pdl.zeros((vocab_size,)))

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        lengths = pdl.astype(real(tokens).sum(axis=(1, 2)), pdl.int64)
        x = self.dropout(self.rnn(self.dropout(vectors(self.embed, self.grams, tokens)), lengths=lengths)[0])
        scores = pdl.matmul(self.correct(x), pdl.swapaxes(self.embed.weight, 0, 1)) + self.bias
        return scores, self.detect(x)[..., 0]


TASK = "correction"
VARIANTS = {
    "bigru_corrector": {"_target_": "pdl_nlp.RNNCorrector"},
    "bilstm_corrector": {"_target_": "pdl_nlp.RNNCorrector", "cell": "lstm"},
}
