"""Convolutions over a few tokens at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import pdl
from pdl.hints import Range
from pdl.nn import Conv1d, Dropout, Linear, ModuleList
from pdl.tensor import Tensor
from pdl_nlp.models.base import Buckets, Grams, NGrams, Rate, TextModel, Width, embedding, real, vectors


class TextCNN(TextModel):
    """Convolutions with windows of several sizes, the highest activation of each filter over the text, dropout, a
    linear layer: Kim, "Convolutional neural networks for sentence classification", arXiv 1408.5882 (CNN-rand).

    vocab_size   tokens, padding and the unknown one among them; by default those of the training data
    num_classes  answers; by default the data's classes
    dim          of the vectors of tokens; 300 in the paper
    windows      tokens that a filter sees. Texts are padded on both sides, so that all have positions
    filters      of each window
    dropout      of what the last layer reads
    embed_dropout  of the vectors of tokens
    hidden       numbers of a layer with ReLU behind the maxima; 0: none, as in the paper
    ngrams       2: filters also read hashed pairs of tokens; 3: and threes (`pdl_nlp.models.base.NGrams`)
    buckets      rows of the table of n-grams
    ngram_dim    of their vectors
    """

    def __init__(
        self,
        vocab_size: Width | None = None,
        num_classes: Annotated[int, Range(2)] | None = None,
        *,
        dim: Width = 128,
        windows: Sequence[Width] = (3, 4, 5),
        filters: Width = 100,
        dropout: Rate = 0.5,
        embed_dropout: Rate = 0.0,
        hidden: Annotated[int, Range(0)] = 0,
        ngrams: Grams = 1,
        buckets: Buckets = 1 << 17,
        ngram_dim: Width = 32,
    ) -> None:
        super().__init__(vocab_size, num_classes)
        self.embed, self.embed_dropout = embedding(self.vocab_size, dim), Dropout(embed_dropout)
        self.grams = NGrams(buckets, ngram_dim, ngrams) if ngrams > 1 else None
        width = dim + (self.grams.width if self.grams is not None else 0)
        self.convs = ModuleList(Conv1d(width, filters, size, padding=size // 2) for size in windows)
        self.hidden = Linear(filters * len(windows), hidden) if hidden else None
        self.dropout = Dropout(dropout)
        self.head = Linear(hidden or filters * len(windows), self.num_classes)

    def forward(self, tokens: Tensor) -> Tensor:
        there, x = real(tokens), self.embed_dropout(vectors(self.embed, self.grams, tokens))
        # ReLU leaves nothing below 0, so positions behind the text never have the maximum once they are 0
        maxima = [pdl.max(pdl.relu(conv(x)[:, : tokens.shape[1]]) * there, axis=1) for conv in self.convs]
        found = self.dropout(pdl.concat(maxima, axis=-1))
        if self.hidden is not None:
            found = pdl.relu(self.hidden(found))
        made: Tensor = self.head(found)
        return made


TASK = "classification"
VARIANTS = {"text_cnn": {"_target_": "pdl_nlp.TextCNN"}}
