"""Bags of words, and of their n-grams."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import pdl
from pdl.hints import Range
from pdl.nn import Dropout, Linear, Module, ModuleList
from pdl.tensor import Tensor
from pdl_nlp.models.base import Rate, TextModel, Width, embedding, real

FACTOR = 1_000_003  # of a token's number in the hash of an n-gram


def bag(tokens: Tensor, embed: Module, grams: Iterable[Module], buckets: int) -> tuple[Tensor, Tensor]:
    """The sum of the vectors of a text's tokens, and of its n-grams from 2 on by a table each: [N, C]; and how many
    these are, [N, 1]."""
    total, count = embed(tokens).sum(axis=1), real(tokens).sum(axis=1)
    gram, begins = tokens, tokens
    for n, table in enumerate(grams, 1):
        following = pdl.concat([tokens[:, n:], tokens[:, :n] * 0], axis=1)
        gram = pdl.remainder(gram * FACTOR + following, buckets - 1) + 1
        begins = begins * pdl.astype(pdl.not_equal(following, 0), pdl.int64)
        whole = pdl.astype(pdl.not_equal(begins, 0), pdl.int64)
        total = total + table(gram * whole).sum(axis=1)
        count = count + pdl.expand_dims(pdl.astype(whole, pdl.float32).sum(axis=1), axis=-1)
    return total, count


class BoW(TextModel):
    """The mean of the vectors of a text's tokens, and of its n-grams, then a linear layer: fastText (Joulin et al.,
    "Bag of tricks for efficient text classification", arXiv 1607.01759); with `hidden` a layer with tanh between them,
    as PaddleNLP's BoW has two.

    vocab_size   tokens, padding and the unknown one among them; by default those of the training data
    num_classes  answers; by default the data's classes
    dim          of the vectors of tokens
    ngrams       n-grams up to this many tokens; 1: tokens alone. Those from 2 on are hashed: the number of tokens a, b
                 is 1 + (1000003 a + b) mod (buckets - 1)
    buckets      rows of the table of each n
    hidden       numbers of the layer between; 0: none
    dropout      of what the last layer reads
    """

    def __init__(
        self,
        vocab_size: Width | None = None,
        num_classes: Annotated[int, Range(2)] | None = None,
        *,
        dim: Width = 128,
        ngrams: Annotated[int, Range(1, 5)] = 1,
        buckets: Annotated[int, Range(2, 1 << 24)] = 1 << 17,
        hidden: Annotated[int, Range(0)] = 0,
        dropout: Rate = 0.5,
    ) -> None:
        super().__init__(vocab_size, num_classes)
        self.embed = embedding(self.vocab_size, dim)
        self.grams = ModuleList(embedding(buckets, dim, sparse=True) for _ in range(ngrams - 1))
        self.buckets = buckets
        self.hidden = Linear(dim, hidden) if hidden else None
        self.dropout = Dropout(dropout)
        self.head = Linear(hidden or dim, self.num_classes)

    def forward(self, tokens: Tensor) -> Tensor:
        total, count = bag(tokens, self.embed, self.grams, self.buckets)
        found = total / count
        if self.hidden is not None:
            found = pdl.tanh(self.hidden(found))
        made: Tensor = self.head(self.dropout(found))
        return made


TASK = "classification"
VARIANTS = {
    "bow": {"_target_": "pdl_nlp.BoW"},
    "bow_bigrams": {"_target_": "pdl_nlp.BoW", "ngrams": 2},
}
