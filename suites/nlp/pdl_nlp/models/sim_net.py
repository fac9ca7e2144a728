"""Siamese nets: one encoder reads both texts, and their vectors are compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import pdl
from pdl.errors import ConfigError
from pdl.hints import Range
from pdl.nn import GRU, LSTM, Conv1d, Dropout, Linear, ModuleList, Parameter
from pdl.tensor import Tensor
from pdl_nlp.models.base import MatchingModel, Rate, Width, embedding, highest, lengths_of, real
from pdl_nlp.models.bow import bag

SCALE = 5.0  # of cosines as logits, at first


class SimNet(MatchingModel):
    """An encoder makes a vector u of the one text and, with the same weights, v of the other, and they are compared, as
    in Baidu's SimNet. Vectors: tanh of a linear layer on the encoder's

        bow        tanh of the sum of the vectors of tokens and hashed n-grams
        cnn        highest activations of convolutions (as in `pdl_nlp.TextCNN`)
        gru, lstm  highest states of a bidirectional layer

    and compared by their cosine, or by an MLP that reads [u, v, |u - v|, u v] (Conneau et al., arXiv 1705.02364).

    vocab_size     tokens, padding and the unknown one among them; by default those of the training data
    num_classes    answers, 1 for a score; by default as the task has them
    encoder        "bow", "cnn", "gru" or "lstm"
    compare        "mlp"; or "cosine", which is the score, or of two classes, scaled and shifted, the second's logit
    dim            of the vectors of tokens
    hidden         numbers of u and v, of each window's filters, of the states in each direction, of the MLP's layer
    ngrams         of "bow": n-grams up to this many tokens, hashed; 1: tokens alone
    buckets        rows of the table of each n
    windows        of "cnn": tokens that a filter sees
    dropout        of the MLP's inputs, and of its layer
    embed_dropout  of the vectors of tokens; not of "bow"
    """

    def __init__(
        self,
        vocab_size: Width | None = None,
        num_classes: Annotated[int, Range(1)] | None = None,
        *,
        encoder: Literal["bow", "cnn", "gru", "lstm"] = "bow",
        compare: Literal["mlp", "cosine"] = "mlp",
        dim: Width = 128,
        hidden: Width = 128,
        ngrams: Annotated[int, Range(1, 5)] = 1,
        buckets: Annotated[int, Range(2, 1 << 24)] = 1 << 17,
        windows: Sequence[Width] = (2, 3, 4),
        dropout: Rate = 0.2,
        embed_dropout: Rate = 0.0,
    ) -> None:
        super().__init__(vocab_size, num_classes)
        if compare == "cosine" and self.num_classes > 2:
            raise ConfigError(f"SimNet: a cosine tells two classes apart, not {self.num_classes}; give compare=mlp")
        self.embed = embedding(self.vocab_size, dim)
        self.embed_dropout, self.dropout = Dropout(embed_dropout), Dropout(dropout)
        self.encoder, self.compare, self.buckets = encoder, compare, buckets
        width = {"bow": dim, "cnn": hidden * len(windows)}.get(encoder, 2 * hidden)
        grams, sizes = range(ngrams - 1 if encoder == "bow" else 0), windows if encoder == "cnn" else ()
        self.grams = ModuleList(embedding(buckets, dim, sparse=True) for _ in grams)
        self.convs = ModuleList(Conv1d(dim, hidden, size, padding=size // 2) for size in sizes)
        kind = {"gru": GRU, "lstm": LSTM}.get(encoder)
        self.rnn = None if kind is None else kind(dim, hidden, bidirectional=True)
        self.project = Linear(width, hidden)
        if compare == "mlp":
            self.hidden: Linear | None = Linear(4 * hidden, hidden)
            self.head: Linear | None = Linear(hidden, self.num_classes)
        else:
            self.hidden = self.head = None
            two = self.num_classes == 2
            self.scale = Parameter(pdl.full((1,), SCALE)) if two else None
            self.shift = Parameter(pdl.zeros((1,))) if two else None

    def vectors(self, tokens: Tensor) -> Tensor:
        """tokens int64 [N, T] -> [N, hidden]."""
        return pdl.tanh(self.project(self._encoded(tokens)))

    def _encoded(self, tokens: Tensor) -> Tensor:
        if self.encoder == "bow":
            return pdl.tanh(bag(tokens, self.embed, self.grams, self.buckets)[0])
        there, x = real(tokens), self.embed_dropout(self.embed(tokens))
        if self.rnn is not None:
            return highest(self.rnn(x, lengths=lengths_of(there))[0], there)
        # ReLU leaves nothing below 0, so positions behind the text never have the maximum once they are 0
        maxima = [pdl.max(pdl.relu(conv(x)[:, : tokens.shape[1]]) * there, axis=1) for conv in self.convs]
        return pdl.concat(maxima, axis=-1)

    def forward(self, tokens: Tensor, pair: Tensor) -> Tensor:
        u, v = self.vectors(tokens), self.vectors(pair)
        if self.head is not None and self.hidden is not None:
            both = self.dropout(pdl.concat([u, v, pdl.abs(u - v), u * v], axis=-1))
            made: Tensor = self.head(self.dropout(pdl.relu(self.hidden(both))))
            return made
        lengths = pdl.norm(u, axis=-1, keepdims=True) * pdl.norm(v, axis=-1, keepdims=True)
        cosine = (u * v).sum(axis=-1, keepdims=True) / pdl.maximum(lengths, 1e-12)
        if self.scale is None or self.shift is None:
            return cosine
        found = cosine * self.scale + self.shift
        return pdl.concat([found * 0.0, found], axis=-1)


TASK = "matching"
VARIANTS = {
    "text_sim_net_bow": {"_target_": "pdl_nlp.SimNet"},
    "text_sim_net_cnn": {"_target_": "pdl_nlp.SimNet", "encoder": "cnn"},
    "text_sim_net_gru": {"_target_": "pdl_nlp.SimNet", "encoder": "gru"},
    "text_sim_net_lstm": {"_target_": "pdl_nlp.SimNet", "encoder": "lstm"},
}
