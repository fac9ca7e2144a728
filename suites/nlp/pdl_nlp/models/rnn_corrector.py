"""Recurrent nets that correct spelling: whether a character is wrong, and what it should be."""

from __future__ import annotations

from typing import Literal

import pdl
from pdl.errors import ConfigError
from pdl.nn import GRU, LSTM, Dropout, Linear, Parameter
from pdl.tensor import Tensor
from pdl_nlp.models.base import CorrectionModel, Rate, Width, embedding, real


class RNNCorrector(CorrectionModel):
    """A bidirectional LSTM or GRU over characters. Whether one is wrong is a linear layer of its state h (the detector
    of Zhang et al., Soft-Masked BERT, arXiv 2005.07421); what it should be are scores E W h + b, with E the vectors of
    characters that the net reads, too.

    vocab_size  characters, padding and the unknown one among them; by default those of the training data
    dim         of their vectors
    hidden      numbers of the state, in each direction
    layers      one above another
    cell        "lstm" or "gru"
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
        dropout: Rate = 0.3,
    ) -> None:
        if vocab_size is None:
            raise ConfigError("RNNCorrector needs vocab_size, which the task takes from the data")
        self.vocab_size = vocab_size
        self.embed, self.dropout = embedding(vocab_size, dim), Dropout(dropout)
        self.rnn = (LSTM if cell == "lstm" else GRU)(
            dim, hidden, num_layers=layers, dropout=dropout if layers > 1 else 0.0, bidirectional=True
        )
        self.detect, self.correct = Linear(2 * hidden, 1), Linear(2 * hidden, dim)
        self.bias = Parameter(pdl.zeros((vocab_size,)))

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        lengths = pdl.astype(real(tokens).sum(axis=(1, 2)), pdl.int64)
        x = self.dropout(self.rnn(self.dropout(self.embed(tokens)), lengths=lengths)[0])
        scores = pdl.matmul(self.correct(x), pdl.swapaxes(self.embed.weight, 0, 1)) + self.bias
        return scores, self.detect(x)[..., 0]


TASK = "correction"
VARIANTS = {
    "bigru_corrector": {"_target_": "pdl_nlp.RNNCorrector"},
    "bilstm_corrector": {"_target_": "pdl_nlp.RNNCorrector", "cell": "lstm"},
}
