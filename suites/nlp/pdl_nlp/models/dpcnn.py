"""A deep convolutional net whose cost is bounded by twice that of its first block."""

from __future__ import annotations

from typing import Annotated

import pdl
from pdl.hints import Range
from pdl.nn import Conv1d, Dropout, Linear, MaxPool1d, Module, ModuleList
from pdl.tensor import Tensor
from pdl_nlp.models.base import HUGE, Rate, TextModel, Width, embedding, highest, real


class DPCNN(TextModel):
    """Deep pyramid CNN (Johnson & Zhang, "Deep pyramid convolutional neural networks for text categorization", ACL
    2017): a region embedding, then blocks of two pre-activated convolutions of three positions with a shortcut, between
    which maxima of three positions at stride 2 halve the text; the maximum over what is left; a linear layer.

    vocab_size   tokens, padding and the unknown one among them; by default those of the training data
    num_classes  answers; by default the data's classes
    dim          of the vectors of tokens
    filters      of every convolution; 250 in the paper
    window       tokens of the region embedding
    blocks       15 layers of weights are 7 blocks, as in the paper; a text of one position left is halved no more
    dropout      of what the last layer reads
    embed_dropout  of the vectors of tokens
    """

    def __init__(
        self,
        vocab_size: Width | None = None,
        num_classes: Annotated[int, Range(2)] | None = None,
        *,
        dim: Width = 128,
        filters: Width = 250,
        window: Annotated[int, Range(1)] = 3,
        blocks: Annotated[int, Range(1, 12)] = 7,
        dropout: Rate = 0.5,
        embed_dropout: Rate = 0.2,
    ) -> None:
        super().__init__(vocab_size, num_classes)
        self.embed, self.embed_dropout = embedding(self.vocab_size, dim), Dropout(embed_dropout)
        self.region = Conv1d(dim, filters, window, padding=window // 2)
        self.blocks = ModuleList(_Block(filters) for _ in range(blocks))
        self.halved = MaxPool1d(3, stride=2, padding=1)
        self.dropout = Dropout(dropout)
        self.head = Linear(filters, self.num_classes)

    def forward(self, tokens: Tensor) -> Tensor:
        there = real(tokens)
        x = self.region(self.embed_dropout(self.embed(tokens)))[:, : tokens.shape[1]] * there
        for number, block in enumerate(self.blocks):
            if number:
                x, there = self.halved(x + (there - 1.0) * HUGE), there[:, ::2]
                x = x * there
            x = block(x, there)
        made: Tensor = self.head(self.dropout(highest(x, there)))
        return made


class _Block(Module):
    """x + W2 relu(W1 relu(x)), positions that do not count kept at 0: [N, T, C] -> [N, T, C]."""

    def __init__(self, filters: int) -> None:
        self.first, self.second = (Conv1d(filters, filters, 3, padding=1) for _ in range(2))

    def forward(self, x: Tensor, there: Tensor) -> Tensor:
        y = self.first(pdl.relu(x)) * there
        return x + self.second(pdl.relu(y)) * there


TASK = "classification"
VARIANTS = {"dpcnn": {"_target_": "pdl_nlp.DPCNN"}}
