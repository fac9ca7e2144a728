"""Cross nets: each token of a text is compared with those of the other one that it fits."""

from __future__ import annotations

from typing import Annotated

import pdl
from pdl.hints import Range
from pdl.nn import LSTM, Dropout, Linear
from pdl.tensor import Tensor
from pdl_nlp.models.base import HUGE, MatchingModel, Rate, Width, average, embedding, highest, lengths_of, real


class ESIM(MatchingModel):
    """Chen et al., "Enhanced LSTM for natural language inference", arXiv 1609.06038 (without the syntactic trees).

    A bidirectional LSTM reads both texts: states a [T, 2h], b [U, 2h]. With e = a b^T, each state finds what it fits in
    the other text: a' = softmax(e) b over the tokens of b, b' = softmax(e^T) a. A second bidirectional LSTM composes
    ReLU(W [a, a', a - a', a a']), and the same of b; the means and maxima of both go through a layer with tanh and a
    linear one. Padding is attended to by none of them.

    vocab_size   tokens, padding and the unknown one among them; by default those of the training data
    num_classes  answers, 1 for a score; by default as the task has them
    dim          of the vectors of tokens; 300 in the paper
    hidden       numbers of the states in each direction, and of the layers between; 300 in the paper
    dropout      of the vectors of tokens, and of what every layer but the first one reads
    """

    def __init__(
        self,
        vocab_size: Width | None = None,
        num_classes: Annotated[int, Range(1)] | None = None,
        *,
        dim: Width = 128,
        hidden: Width = 128,
        dropout: Rate = 0.5,
    ) -> None:
        super().__init__(vocab_size, num_classes)
        self.embed, self.dropout = embedding(self.vocab_size, dim), Dropout(dropout)
        self.encoder = LSTM(dim, hidden, bidirectional=True)
        self.project = Linear(8 * hidden, hidden)
        self.composition = LSTM(hidden, hidden, bidirectional=True)
        self.hidden, self.head = Linear(8 * hidden, hidden), Linear(hidden, self.num_classes)

    def forward(self, tokens: Tensor, pair: Tensor) -> Tensor:
        there, other = real(tokens), real(pair)
        a, b = self._encoded(tokens, there), self._encoded(pair, other)
        fits = pdl.matmul(a, pdl.swapaxes(b, 1, 2))
        found = [
            *self._composed(a, b, fits, there, other),
            *self._composed(b, a, pdl.swapaxes(fits, 1, 2), other, there),
        ]
        joined = pdl.tanh(self.hidden(self.dropout(pdl.concat(found, axis=-1))))
        made: Tensor = self.head(self.dropout(joined))
        return made

    def _encoded(self, tokens: Tensor, there: Tensor) -> Tensor:
        made: Tensor = self.encoder(self.dropout(self.embed(tokens)), lengths=lengths_of(there))[0]
        return made

    def _composed(
        self, own: Tensor, others: Tensor, fits: Tensor, there: Tensor, other: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Mean and maximum [N, 2h] of a text with what it fits in the other: own [N, T, 2h], others [N, U, 2h], fits
        [N, T, U]; there, other [N, T or U, 1] of 0 and 1."""
        weights = pdl.softmax(fits + (pdl.swapaxes(other, 1, 2) - 1.0) * HUGE, axis=-1)
        aligned = pdl.matmul(weights, others)
        local = pdl.concat([own, aligned, own - aligned, own * aligned], axis=-1)
        x = self.dropout(pdl.relu(self.project(local)))
        states = self.composition(x, lengths=lengths_of(there))[0]
        return average(states, there), highest(states, there)


TASK = "matching"
VARIANTS = {"esim": {"_target_": "pdl_nlp.ESIM"}}
