"""Vectors of words by the words around them: word2vec (Mikolov et al., arXiv 1301.3781, arXiv 1310.4546) and fastText
(Bojanowski et al., arXiv 1607.04606)."""

from __future__ import annotations

from typing import Annotated

import numpy as np

import pdl
from pdl.dtype import Array
from pdl.errors import ConfigError
from pdl.hints import Inherited, Range
from pdl.nn import Embedding, Module, init
from pdl.tensor import Tensor
from pdl_nlp.models.base import FACTOR, Buckets, Width


class Word2Vec(Module):
    """A vector x of each word and a vector c of it as the context of others, by telling the contexts of a word from
    other words (negative sampling). Skip-gram, whose contexts v of a word u count one by one:

        - log s(x_u c_v) - k E_n log s(- x_u c_n)    n ~ (how often n occurs) ** 0.75

    or, with `cbow`, a word u told by the mean of the x of its context, in place of x_u, with c_u in place of c_v. The
    expectation is the mean over negatives that all words of a batch share. A context at distance d counts
    (window + 1 - d) / window: how often word2vec, which draws the window of each word, takes it.

    vocab_size  words, padding and the unknown one among them, which have no vectors; by default those of the data
    dim         of the vectors
    window      words before and behind that are contexts
    cbow        a word told by its context, and not the context by the word

    x begins with U(-1/2, 1/2) / dim and c with 0, as in word2vec.
    """

    letters = 0

    def __init__(
        self, vocab_size: Width | None = None, *, dim: Width = 100, window: Width = 5, cbow: bool = False
    ) -> None:
        if vocab_size is None:
            raise ConfigError(f"{type(self).__name__} needs vocab_size, which the task takes from the data")
        self.vocab_size, self.dim, self.window, self.cbow = vocab_size, dim, window, cbow
        self.words, self.contexts = self.table(vocab_size), self.table(vocab_size)
        self.contexts.weight.data[:] = 0

    def table(self, rows: int) -> Embedding:
        """Vectors by number; those of padding (0) and of the unknown word (1) are 0 and stay so."""
        made = Embedding(rows, self.dim, padding_idx=0, sparse=True)
        init.uniform_(made.weight, -0.5 / self.dim, 0.5 / self.dim)
        made.weight.data[0] = 0
        return made

    def forward(self, tokens: Tensor, letters: Tensor | None = None) -> Tensor:
        """tokens int64 [N, T] -> [N, T, dim], 0 for padding and unknown words."""
        return self.words(known(tokens))

    def scores(self, tokens: Tensor, letters: Tensor | None, negatives: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Of a batch of pieces of texts int64 [N, T], with 0 between texts, and negatives int64 [K]: the scores of the
        contexts [N, T, T] (with `cbow` [N, T, 1], of the words), how much each counts, and the scores of the negatives
        [N, T, K]."""
        x, c, n = self(tokens, letters), self.contexts(known(tokens)), self.contexts(negatives)
        there = pdl.astype(pdl.greater(tokens, 1), pdl.float32)
        weight = pdl.as_tensor(band(tokens.shape[1], self.window))
        weight = weight * pdl.expand_dims(there, axis=1) * pdl.expand_dims(there, axis=2)
        if self.cbow:
            around = weight.sum(axis=2, keepdims=True)
            x = pdl.matmul(weight, x) / pdl.maximum(around, 1e-6)
            weight = pdl.astype(pdl.greater(around, 0), pdl.float32)
            return (x * c).sum(axis=-1, keepdims=True), weight, pdl.matmul(x, pdl.swapaxes(n, 0, 1))
        return pdl.matmul(x, pdl.swapaxes(c, 1, 2)), weight, pdl.matmul(x, pdl.swapaxes(n, 0, 1))


class FastText(Word2Vec):
    """Word2Vec whose vector of a word is the mean of its own and those of its n-grams of letters, so that words which
    training has not seen have vectors, too. A word begins and ends with a mark of its own; n-grams are hashed.

    letters  letters that are told apart; by default the data's
    shortest, longest  letters of an n-gram, marks included
    buckets  rows of the table of n-grams
    All else is as in `Word2Vec`.
    """

    def __init__(
        self,
        vocab_size: Width | None = None,
        letters: Annotated[int, Range(0)] | None = None,
        *,
        shortest: Width = 3,
        longest: Width = 6,
        buckets: Buckets = 1 << 17,
        **options: Inherited,
    ) -> None:
        super().__init__(vocab_size, **options)
        if not letters:
            raise ConfigError("FastText reads letters of words: task.letters says how many of each, such as 16")
        if longest < shortest:
            raise ConfigError(f"FastText: longest={longest} is less than shortest={shortest}")
        self.letters, self.buckets, self.sizes = letters, buckets, range(shortest, longest + 1)
        self.grams = self.table(buckets)

    def forward(self, tokens: Tensor, letters: Tensor | None = None) -> Tensor:
        """tokens int64 [N, T], letters int64 [N, T, L], 0 behind the last one -> [N, T, dim]."""
        assert letters is not None
        rows = self._rows(letters)
        own = known(tokens)
        there = pdl.concat([pdl.greater(rows, 0), pdl.expand_dims(pdl.greater(own, 0), axis=-1)], axis=-1)
        count = pdl.astype(there, pdl.float32).sum(axis=-1)
        total = self.words(own) + self.grams(rows).sum(axis=-2)
        return total / pdl.expand_dims(pdl.maximum(count, 1.0), axis=-1)

    def _rows(self, letters: Tensor) -> Tensor:
        """Rows of the n-grams of words, int64 [N, T, G], 0 where there is none."""
        none = letters[..., :1] * 0
        before = pdl.concat([none + self.letters, letters], axis=-1)
        behind = pdl.concat([letters, none], axis=-1)
        ends = pdl.astype(pdl.equal(behind, 0), pdl.int64) * pdl.astype(pdl.greater(before, 0), pdl.int64)
        # padding has no letters, and so no marks
        there = pdl.astype(pdl.greater(letters[..., :1], 0), pdl.int64)
        spelled = pdl.concat([none + self.letters, behind + ends * (self.letters + 1)], axis=-1) * there
        found = []
        for size in self.sizes:
            places = spelled.shape[-1] - size + 1
            if places < 1:
                break
            gram = spelled[..., :places]
            for at in range(1, size):
                gram = pdl.remainder(gram * FACTOR + spelled[..., at : at + places], self.buckets - 1)
            whole = pdl.astype(pdl.greater(spelled[..., size - 1 :], 0), pdl.int64)
            found.append((gram + 1) * whole)
        return pdl.concat(found, axis=-1)


def band(length: int, window: int) -> Array:
    """How much each place counts as the context of each, float32 [length, length]."""
    place = np.arange(length)
    apart = np.abs(place[:, None] - place)
    return np.where((apart > 0) & (apart <= window), (window + 1 - apart) / window, 0).astype(np.float32)


def known(tokens: Tensor) -> Tensor:
    """Numbers of words int64, the unknown one (1) turned into padding (0)."""
    return tokens * pdl.astype(pdl.greater(tokens, 1), pdl.int64)


TASK = "word vectors"
VARIANTS = {
    "word2vec": {"_target_": "pdl_nlp.Word2Vec"},
    "word2vec_cbow": {"_target_": "pdl_nlp.Word2Vec", "cbow": True},
    "fasttext": {"_target_": "pdl_nlp.FastText"},
}
