"""What the models of texts have in common: numbers of tokens become vectors, and padding changes nothing."""

from __future__ import annotations

from typing import Annotated, ClassVar, TypeAlias

import pdl
from pdl.errors import ConfigError
from pdl.hints import Range
from pdl.nn import Dropout, Embedding, Module, init
from pdl.nn.decoder import Decoder
from pdl.tensor import Tensor

FACTOR = 1_000_003  # of a token's number in the hash of an n-gram
UNSEEN = 0.01  # of the values that vectors of n-grams begin with; those of tokens have 0.25
Width: TypeAlias = Annotated[int, Range(1)]
Grams: TypeAlias = Annotated[int, Range(1, 3)]
Buckets: TypeAlias = Annotated[int, Range(2, 1 << 24)]
Rate: TypeAlias = Annotated[float, Range(0, below=1)]


class Sized(Module):
    """A model that knows how many tokens and answers there are; ConfigError where it is not told."""

    vocab_size: int
    num_classes: int

    def __init__(self, vocab_size: int | None, num_classes: int | None) -> None:
        for name, value in (("vocab_size", vocab_size), ("num_classes", num_classes)):
            if value is None:
                raise ConfigError(f"{type(self).__name__} needs {name}, which the task takes from the data")
            setattr(self, name, value)


class TextModel(Sized):
    """Base of the models that classify texts: tokens int64 [N, T], 0 behind the last one, -> logits [N, num_classes].

    What stands behind a text does not change its logits, so that it may be in any batch.
    """

    def forward(self, tokens: Tensor) -> Tensor:
        """tokens int64 [N, T] -> [N, num_classes]."""
        raise NotImplementedError(f"{type(self).__name__} must define forward")


class MatchingModel(Sized):
    """Base of the models that compare two texts: both int64, [N, T] and [N, U], 0 behind the last token, -> logits
    [N, num_classes]; with num_classes=1 a score, higher the better they fit.

    What stands behind a text does not change its logits, so that it may be in any batch.
    """

    def forward(self, tokens: Tensor, pair: Tensor) -> Tensor:
        """tokens int64 [N, T], pair int64 [N, U] -> [N, num_classes]."""
        raise NotImplementedError(f"{type(self).__name__} must define forward")


class ReadingModel(Module):
    """Base of the models that find answers: -> logits [N, T, 2] of where the answer begins and where it ends, of token
    0 that there is none. What stands behind a window changes nothing; logits of padding are below -1000.

    Where `together`, question and paragraph are one text: forward(tokens int64 [N, T], segments int64 [N, T]).
    Otherwise forward(tokens int64 [N, T], question int64 [N, Q]), padding behind both.
    """

    together: ClassVar[bool] = False
    vocab_size: int

    def forward(self, tokens: Tensor, other: Tensor) -> Tensor:
        """tokens int64 [N, T], and segments [N, T] or the question [N, Q] -> [N, T, 2]."""
        raise NotImplementedError(f"{type(self).__name__} must define forward")


class CorrectionModel(Module):
    """Base of the models that correct spelling: tokens int64 [N, T], 0 behind the last one, -> scores [N, T,
    vocab_size] of what a token should be if it is wrong, and logits [N, T] of that it is.

    What stands behind a text changes nothing.
    """

    vocab_size: int

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """tokens int64 [N, T] -> [N, T, vocab_size], [N, T]."""
        raise NotImplementedError(f"{type(self).__name__} must define forward")


class Seq2SeqModel(Decoder):
    """Base of the models that write a text for one that they read. In training they see the text that is right, shifted
    by one: forward(tokens int64 [N, S], given int64 [N, T]) -> scores [N, T, vocab_size] of the token behind each of
    `given`. Where they write, `encode` reads texts once and `step` scores what follows (`pdl.nn.Decoder`). What stands
    behind a text changes nothing.

    pad   number of the token for padding
    """

    vocab_size: int
    pad: int

    def there(self, tokens: Tensor) -> Tensor:
        """bool [N, S]: where a token stands. The first position always counts, also in a text without tokens."""
        first = pdl.less_equal(pdl.cumsum(tokens * 0 + 1, axis=1), 1)  # not a piece beside others: sizes stay S
        return pdl.logical_or(pdl.not_equal(tokens, self.pad), first)

    def states(self, tokens: Tensor, given: Tensor) -> Tensor:
        """tokens int64 [N, S], given int64 [N, T] -> [N, T, C], of which scores are products with `table`."""
        raise NotImplementedError(f"{type(self).__name__} must define states")

    def table(self) -> tuple[Tensor, Tensor | None]:
        """Weights [vocab_size, C] of the last layer, and its bias [vocab_size] or None."""
        raise NotImplementedError(f"{type(self).__name__} must define table")

    def attention(self, tokens: Tensor, given: Tensor) -> Tensor:
        """How much each token that is written attends to those that are read, [N, T, S], sums over S 1."""
        raise NotImplementedError(f"{type(self).__name__} must define attention")

    def scores(self, states: Tensor) -> Tensor:
        """[..., C] -> [..., vocab_size]."""
        weight, bias = self.table()
        return pdl.linear(states, pdl.swapaxes(weight, 0, 1), bias)

    def forward(self, tokens: Tensor, given: Tensor) -> Tensor:
        """tokens int64 [N, S], given int64 [N, T] -> scores [N, T, vocab_size]."""
        return self.scores(self.states(tokens, given))

    def loss(self, tokens: Tensor, given: Tensor, labels: Tensor, *, label_smoothing: float = 0.0) -> Tensor:
        """The mean over labels int64 [N, T] of -log p(label), or with label smoothing of -sum_k q_k log p_k, q being
        1 - e of the label and e spread evenly over all tokens (Szegedy et al., arXiv 1512.00567); labels below 0 count
        nothing. Scores are never there as a whole."""
        weight, bias = self.table()
        return pdl.linear_cross_entropy(
            self.states(tokens, given), weight, bias, labels,
            label_smoothing=label_smoothing, ignore_index=-1, transposed=True,
        )  # fmt: skip


def embedding(rows: int, dim: int, *, sparse: bool = False) -> Embedding:
    """A table whose row 0 is 0, its initial values U(-0.25, 0.25), as Kim (arXiv 1408.5882) draws them."""
    made = Embedding(rows, dim, padding_idx=0, sparse=sparse)
    init.uniform_(made.weight, -0.25, 0.25)
    made.weight.data[0] = 0
    return made


class NGrams(Embedding):
    """Vectors of the n-grams around each token, side by side: for `n` 2 of the pairs with the token before and with the
    one behind it, for 3 also of the three around it. They are hashed: the row of a, b is 1 + (1000003 a + b) mod
    (rows - 1).

    Vectors begin near 0, within `scale`, so that an n-gram that training has not seen says little; in training a share
    `unknown` of them is 0.
    """

    def __init__(self, rows: int, dim: int, n: int, *, scale: float = UNSEEN, unknown: float = 0.0) -> None:
        super().__init__(rows, dim, padding_idx=0, sparse=True)
        init.uniform_(self.weight, -scale, scale)
        self.weight.data[0] = 0
        self.n, self.rows, self.width = n, rows, dim * n
        self.unknown = Dropout(unknown) if unknown else None

    def forward(self, tokens: Tensor) -> Tensor:
        """tokens int64 [N, T], 0 behind the last one -> [N, T, width]."""
        none = tokens[:, :1] * 0
        before, after = pdl.concat([none, tokens[:, :-1]], axis=1), pdl.concat([tokens[:, 1:], none], axis=1)
        left = before * FACTOR + tokens
        grams = [left, tokens * FACTOR + after]
        if self.n > 2:
            grams.append(pdl.remainder(left, self.rows - 1) * FACTOR + after + 1)
        look, real = super().forward, pdl.not_equal(tokens, 0)
        found = []
        for gram in grams:
            kept = real if self.unknown is None else self.unknown(pdl.astype(real, pdl.float32)) > 0
            found.append(look((pdl.remainder(gram, self.rows - 1) + 1) * pdl.astype(kept, pdl.int64)))
        return pdl.concat(found, axis=-1)


def vectors(embed: Embedding, grams: NGrams | None, tokens: Tensor) -> Tensor:
    """Vectors of tokens [N, T, C], with those of their n-grams beside them."""
    return embed(tokens) if grams is None else pdl.concat([embed(tokens), grams(tokens)], axis=-1)


def real(tokens: Tensor) -> Tensor:
    """float32 [N, T, 1]: 1 where a token stands, 0 behind the last one. The first position always counts, also in a
    text without tokens."""
    there = pdl.astype(pdl.not_equal(tokens, 0), pdl.float32)
    first = there[:, :1] * 0.0 + 1.0  # as many as there are texts, however many these are
    return pdl.expand_dims(pdl.concat([first, there[:, 1:]], axis=1), axis=-1)


def lengths_of(there: Tensor) -> Tensor:
    """Tokens of each text, int64 [N], of what `real` gives."""
    found: Tensor = pdl.astype(there.sum(axis=(1, 2)), pdl.int64)
    return found


def average(x: Tensor, there: Tensor) -> Tensor:
    """The mean over the positions that count: x [N, T, C], there [N, T, 1] of 0 and 1 -> [N, C]."""
    found: Tensor = (x * there).sum(axis=1) / there.sum(axis=1)
    return found


def highest(x: Tensor, there: Tensor) -> Tensor:
    """The maximum over the positions that count: x [N, T, C], there [N, T, 1] of 0 and 1 -> [N, C]."""
    return pdl.max(x * there + (there - 1.0) * HUGE, axis=1)


HUGE = 1e4
"""More than any activation; float16 holds it."""
