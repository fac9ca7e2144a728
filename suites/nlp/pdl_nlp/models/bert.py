"""Transformer encoders of texts: BERT (Devlin et al., NAACL 2019, arXiv 1810.04805) and those of its form: RoBERTa
(arXiv 1907.11692), ERNIE (arXiv 1904.09223), ERNIE 2.0 with its embeddings of tasks (arXiv 1907.12412), MiniLM (arXiv
2002.10957). Sizes are the published ones (small BERTs: Turc et al., arXiv 1908.08962).
"""

from __future__ import annotations

import functools
import operator
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

import pdl
from pdl import nn
from pdl.errors import ConfigError, ShapeError
from pdl.hints import Inherited, Range
from pdl.tensor import Tensor
from pdl_nlp.models.base import HUGE, CorrectionModel, Rate, ReadingModel, TextModel, Width
from pdl_nlp.models.rnn_tagger import TaggingModel

STD = 0.02
BASE = 10000.0  # of rotary positions
Pooling = Literal["mean", "cls"]
Positions = Literal["learned", "rotary"]


class Embeddings(nn.Module):
    """The sum of the vectors of tokens, positions (where there are any), segments and the task, normed."""

    def __init__(self, dim: int, *, vocab_size: int, positions: int, first: int, segments: int, tasks: int,
                 dropout: float, eps: float) -> None:  # fmt: skip
        self.words, self.first = nn.Embedding(vocab_size, dim), first
        self.positions = nn.Parameter(pdl.zeros((first + positions, dim))) if positions else None
        self.segments = nn.Embedding(segments, dim) if segments else None
        self.tasks = nn.Embedding(tasks, dim) if tasks else None
        self.norm, self.dropout = nn.LayerNorm(dim, eps=eps), nn.Dropout(dropout)

    def forward(self, tokens: Tensor, segments: Tensor | None, task: int, at: Tensor | None = None) -> Tensor:
        """tokens, segments int64 [N, T], and `at` their positions int64 [N, T], by default 0, 1, ... -> [N, T, dim]."""
        # positions, and what is the same at all of them, are added up first: of these there are T rows and not N T
        same = []
        if self.positions is not None:
            of = slice(self.first, self.first + tokens.shape[1])
            same.append(self.positions[of] if at is None else pdl.embedding(self.positions, at + self.first))
        if self.tasks is not None:
            same.append(self.tasks.weight[task])
        if self.segments is not None and segments is None:
            same.append(self.segments.weight[0])
        x = self.words(tokens)
        if same:
            x = x + functools.reduce(operator.add, same)
        if self.segments is not None and segments is not None:
            x = x + self.segments(segments)
        return self.dropout(self.norm(x))  # type: ignore[no-any-return]


class BERT(nn.Module):
    """Tokens int64 [N, T], and segments int64 [N, T] of pairs, -> states [N, T, dim]. Padding is not attended to: what
    stands behind a text does not change the states of its tokens (those of padding mean nothing).

    vocab_size   tokens; by default those of the tokenizer
    dim          numbers of a token's vector
    layers       of attention and feed-forward
    heads        of each attention
    hidden       numbers inside of the feed-forward part; by default 4 dim
    max_length   positions that there are vectors for; longer texts are a ShapeError (rotary ones have no limit)
    positions    "learned": a vector for each, BERT's; "rotary": queries and keys turn by them (Su et al., arXiv
                 2104.09864), from which small nets learn far sooner what stands beside what
    segments     kinds of segments; 0: none
    tasks        kinds of tasks that ERNIE 2.0 and 3.0 tell apart; 0: none
    task         the one that this net is for
    activation   "gelu" or "relu"
    dropout      of embeddings, attention and branches
    eps          of the norms
    pad          number of the token for padding
    first        the position of a text's first token: RoBERTa's is 2
    pretrained   weights to begin with: the folder of an HF checkpoint, a name of the hub, a file or a run. A task takes
                 sizes and tokenizer from there, too, where the recipe leaves them open
    """

    head: ClassVar[tuple[str, ...]] = (
        *("pooler", "classifier", "masked", "transitions", "starts", "ends"),
        *("objectives", "cls", "lm_head", "qa_outputs"),
    )
    """Layers behind the encoder, here (pooler, classifier, masked words, CRF) or in files of others (next sentence,
    masked words, spans)."""

    def __init__(
        self,
        vocab_size: Width | None = None,
        *,
        dim: Width = 768,
        layers: Width = 12,
        heads: Width = 12,
        hidden: Width | None = None,
        max_length: Width = 512,
        positions: Positions = "learned",
        segments: Annotated[int, Range(0)] = 2,
        tasks: Annotated[int, Range(0)] = 0,
        task: Annotated[int, Range(0)] = 0,
        activation: Literal["gelu", "relu"] = "gelu",
        dropout: Rate = 0.1,
        eps: Annotated[float, Range(0)] = 1e-12,
        pad: Annotated[int, Range(0)] = 0,
        first: Annotated[int, Range(0)] = 0,
        pretrained: str | None = None,
    ) -> None:
        name = type(self).__name__
        if vocab_size is None:
            raise ConfigError(f"{name} needs vocab_size, which a task takes from its tokenizer")
        if dim % heads:
            raise ConfigError(f"{name}: heads={heads} must divide dim={dim}")
        if task >= max(tasks, 1):
            raise ConfigError(f"{name}: task={task} is none of the {tasks} tasks; they count from 0")
        self.vocab_size, self.dim, self.pad, self.task = vocab_size, dim, pad, task
        self.max_length = max_length if positions == "learned" else sys.maxsize
        self.embeddings = Embeddings(
            dim, vocab_size=vocab_size, positions=max_length if positions == "learned" else 0, first=first,
            segments=segments, tasks=tasks, dropout=dropout, eps=eps,
        )  # fmt: skip
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                dim,
                heads,
                dim_feedforward=hidden or 4 * dim,
                dropout=dropout,
                activation=activation,
                eps=eps,
                rotary=BASE if positions == "rotary" else None,
            )
            for _ in range(layers)
        )
        self.behind()
        for key, p in self.named_parameters():
            if p.ndim == 2:
                nn.init.trunc_normal_(p, std=STD)
            elif key.endswith("bias"):
                nn.init.zeros_(p)
        if pretrained is not None:
            from pdl_nlp.checkpoints import load

            load(self, pretrained)

    def behind(self) -> None:
        """Make the layers behind the encoder, before weights are drawn or loaded."""

    def forward(self, tokens: Tensor, segments: Tensor | None = None) -> Tensor:
        """tokens int64 [N, T] -> states [N, T, dim]."""
        return self.states(tokens, segments)[0]

    def states(self, tokens: Tensor, segments: Tensor | None = None, task: int | None = None) -> tuple[Tensor, Tensor]:
        """States [N, T, dim], and bool [N, T]: where a token stands. The first position always counts, also in a text
        without tokens. `task` is by default the net's."""
        if int(tokens.shape[1]) > self.max_length:
            raise ShapeError(
                f"{type(self).__name__}: {tokens.shape[1]} tokens, there are vectors for {self.max_length} positions; "
                f"cut texts (max_length={self.max_length})"
            )
        first = pdl.greater_equal(tokens[:, :1], 0)
        there = pdl.concat([first, pdl.not_equal(tokens[:, 1:], self.pad)], axis=1)
        mask = pdl.expand_dims(there, axis=(1, 2))
        x = self.embeddings(tokens, segments, self.task if task is None else task)
        for layer in self.layers:
            x = layer(x, mask=mask)
        return x, there


class BERTClassifier(BERT, TextModel):
    """Texts into classes: a linear layer with tanh on the first token's state, dropout, a linear layer; as BERT's for
    sequence classification.

    num_classes  answers; by default the data's classes
    options      those of `BERT`
    """

    def __init__(
        self, vocab_size: Width | None = None, num_classes: Annotated[int, Range(1)] | None = None, **options: Inherited
    ) -> None:
        if num_classes is None:
            raise ConfigError("BERTClassifier needs num_classes, which the task takes from the data")
        self.num_classes = num_classes
        BERT.__init__(self, vocab_size, **options)

    def behind(self) -> None:
        self.pooler, self.drop = nn.Linear(self.dim, self.dim), nn.Dropout(self.embeddings.dropout.p)
        self.classifier = nn.Linear(self.dim, self.num_classes)

    def forward(self, tokens: Tensor, segments: Tensor | None = None) -> Tensor:
        """tokens int64 [N, T] -> logits [N, num_classes]."""
        first = self.states(tokens, segments)[0][:, 0]
        return self.classifier(self.drop(pdl.tanh(self.pooler(first))))  # type: ignore[no-any-return]


class BERTTagger(BERT, TaggingModel):
    """Tags of tokens: a linear layer on each token's state, and a CRF over them or none; as BERT's for tagging.

    num_classes  tags; by default the data's
    letters      letters of words, which this net does not read: 0
    crf          whether tags are scored together
    options      those of `BERT`
    """

    def __init__(
        self,
        vocab_size: Width | None = None,
        num_classes: Width | None = None,
        letters: Annotated[int, Range(0)] | None = None,
        *,
        crf: bool = True,
        **options: Inherited,
    ) -> None:
        TaggingModel.__init__(self, vocab_size, num_classes, letters, crf=crf)
        if letters:
            raise ConfigError("BERTTagger reads no letters of words: task.letters=0")
        BERT.__init__(self, vocab_size, **options)

    def behind(self) -> None:
        self.drop = nn.Dropout(self.embeddings.dropout.p)
        self.classifier = nn.Linear(self.dim, self.num_classes)

    def forward(self, tokens: Tensor, letters: Tensor | None = None) -> Tensor:
        """tokens int64 [N, T] -> emissions [N, T, num_classes]."""
        return self.classifier(self.drop(self.states(tokens)[0]))  # type: ignore[no-any-return]


class MaskedWords(nn.Module):
    """Scores of all tokens for a state: h = norm(gelu(W x + c)), scores = E h + b with the table E of the embeddings,
    as BERT's."""

    def __init__(self, dim: int, *, vocab_size: int, eps: float) -> None:
        self.transform, self.norm = nn.Linear(dim, dim), nn.LayerNorm(dim, eps=eps)
        self.bias = nn.Parameter(pdl.zeros((vocab_size,)))

    def forward(self, x: Tensor) -> Tensor:
        """x [..., dim] -> h [..., dim]."""
        return self.norm(pdl.gelu(self.transform(x)))  # type: ignore[no-any-return]


class BERTForPretraining(BERT):
    """Masked tokens are found from those around them: a layer on the states at their positions, and scores of all
    tokens by the table of the embeddings (Devlin et al., arXiv 1810.04805, section 3.1).

    objectives  what else is to be found, and its classes: of sequences by the first token's state, as `BERTClassifier`
                has it, of those in `tokenwise` by each token's. Where there are embeddings of `tasks`, objective i has
                that of task i + 1, masks alone that of `task`
    tokenwise   objectives whose classes are of tokens
    options     those of `BERT`
    """

    def __init__(
        self,
        vocab_size: Width | None = None,
        *,
        objectives: Mapping[str, int] | None = None,
        tokenwise: Sequence[str] = (),
        **options: Inherited,
    ) -> None:
        self.numbers = {name: number for number, name in enumerate(objectives or {}, 1)}
        self._classes, self.tokenwise = dict(objectives or {}), frozenset(tokenwise)
        super().__init__(vocab_size, **options)

    def behind(self) -> None:
        self.masked = MaskedWords(self.dim, vocab_size=self.vocab_size, eps=self.embeddings.norm.eps)
        if self._classes:
            made = {name: nn.Linear(self.dim, classes) for name, classes in self._classes.items()}
            self.pooler, self.objectives = nn.Linear(self.dim, self.dim), nn.ModuleDict(made)

    def forward(  # type: ignore[override]
        self, tokens: Tensor, positions: Tensor, segments: Tensor | None = None
    ) -> Tensor:
        """tokens int64 [N, T], positions int64 [N, M] in them -> scores [N, M, vocab_size]."""
        h = self.hidden(tokens, positions, segments)
        return pdl.matmul(h, pdl.swapaxes(self.embeddings.words.weight, 0, 1)) + self.masked.bias

    def hidden(self, tokens: Tensor, positions: Tensor, segments: Tensor | None = None) -> Tensor:
        """h [N, M, dim] of `MaskedWords` at the positions."""
        return self._at(self.states(tokens, segments)[0], positions)

    def _at(self, states: Tensor, positions: Tensor) -> Tensor:
        made: Tensor = self.masked(pdl.take_along_axis(states, pdl.expand_dims(positions, axis=-1), axis=1))
        return made

    def loss(self, tokens: Tensor, positions: Tensor, targets: Tensor, segments: Tensor | None = None) -> Tensor:
        """The mean over positions of -log p(target): targets int64 [N, M], -1 where there is none. The same as the
        cross-entropy of the scores, which never exist as a whole."""
        return self._cross_entropy(self.hidden(tokens, positions, segments), targets)

    def _cross_entropy(self, h: Tensor, targets: Tensor) -> Tensor:
        table, bias = self.embeddings.words.weight, self.masked.bias
        return pdl.linear_cross_entropy(h, table, bias, targets, ignore_index=-1, transposed=True)

    def losses(
        self, tokens: Tensor, positions: Tensor, targets: Tensor, segments: Tensor | None, objective: str
    ) -> tuple[Tensor, Tensor]:
        """`loss` of a batch of an objective, and its logits: [N, classes], or [N, T, classes] of one in `tokenwise`."""
        states, logits = self._answered(tokens, segments, objective)
        return self._cross_entropy(self._at(states, positions), targets), logits

    def logits(self, tokens: Tensor, segments: Tensor | None, objective: str) -> Tensor:
        """The logits of an objective, as `losses` has them."""
        return self._answered(tokens, segments, objective)[1]

    def _answered(self, tokens: Tensor, segments: Tensor | None, objective: str) -> tuple[Tensor, Tensor]:
        """States, and the logits of an objective."""
        number = self.numbers[objective] if self.embeddings.tasks is not None else self.task
        states = self.states(tokens, segments, number)[0]
        found = states if objective in self.tokenwise else pdl.tanh(self.pooler(states[:, 0]))
        return states, self.objectives[objective](found)


class SentenceEncoder(BERT):
    """A vector for each text: the mean of its tokens' states, or the first one's; of length 1 unless `normalised` is
    false. Reimers & Gurevych, Sentence-BERT, EMNLP 2019, arXiv 1908.10084.

    pooling     "mean" or "cls"
    normalised  whether vectors have the length 1, so that their products are cosines
    options     those of `BERT`
    """

    def __init__(
        self,
        vocab_size: Width | None = None,
        *,
        pooling: Pooling = "mean",
        normalised: bool = True,
        **options: Inherited,
    ) -> None:
        self.pooling, self.normalised = pooling, normalised
        super().__init__(vocab_size, **options)

    def forward(self, tokens: Tensor, segments: Tensor | None = None) -> Tensor:
        """tokens int64 [N, T] -> [N, dim]."""
        x, there = self.states(tokens, segments)
        if self.pooling == "cls":
            found = x[:, 0]
        else:
            counted = pdl.expand_dims(pdl.astype(there, x.dtype), axis=-1)
            found = (x * counted).sum(axis=1) / counted.sum(axis=1)
        if not self.normalised:
            return found
        return found / pdl.maximum(pdl.norm(found, axis=-1, keepdims=True), 1e-12)


class BERTReader(BERT, ReadingModel):
    """Where the answer begins and where it ends: a linear layer on the state of each token, as BERT's for questions
    about paragraphs (Devlin et al., arXiv 1810.04805, section 4.2). Logits of padding are below -1000.

    options  those of `BERT`
    """

    together = True

    def behind(self) -> None:
        self.qa_outputs = nn.Linear(self.dim, 2)

    def forward(self, tokens: Tensor, other: Tensor | None = None) -> Tensor:
        """tokens, segments int64 [N, T] -> logits [N, T, 2]."""
        x, there = self.states(tokens, other)
        counted = pdl.expand_dims(pdl.astype(there, x.dtype), axis=-1)
        made: Tensor = self.qa_outputs(x) * counted + (counted - 1.0) * HUGE
        return made


class BERTCorrector(BERT, CorrectionModel):
    """Whether a token is wrong: a linear layer on its state; what it should be: scores of all tokens by the table of
    the embeddings, as masked words are found (Devlin et al., arXiv 1810.04805, section 3.1).

    options  those of `BERT`
    """

    def behind(self) -> None:
        self.masked = MaskedWords(self.dim, vocab_size=self.vocab_size, eps=self.embeddings.norm.eps)
        self.detect = nn.Linear(self.dim, 1)

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        """tokens int64 [N, T] -> scores [N, T, vocab_size], logits [N, T]."""
        x = self.states(tokens)[0]
        table = pdl.swapaxes(self.embeddings.words.weight, 0, 1)
        return pdl.matmul(self.masked(x), table) + self.masked.bias, self.detect(x)[..., 0]


TASK = "classification"
_SIZES: dict[str, dict[str, Any]] = {
    "tiny": {"dim": 128, "layers": 2, "heads": 2},
    "mini": {"dim": 256, "layers": 4, "heads": 4},
    "small": {"dim": 512, "layers": 4, "heads": 8},
    "medium": {"dim": 512, "layers": 8, "heads": 8},
    "base": {"dim": 768, "layers": 12, "heads": 12},
    "large": {"dim": 1024, "layers": 24, "heads": 16},
}
_ERNIE: dict[str, dict[str, Any]] = {
    "base": {"dim": 768, "layers": 12, "heads": 12, "hidden": 3072},
    "medium": {"dim": 768, "layers": 6, "heads": 12, "hidden": 3072},
    "mini": {"dim": 384, "layers": 6, "heads": 12, "hidden": 1536},
    "micro": {"dim": 384, "layers": 4, "heads": 12, "hidden": 1536},
    "nano": {"dim": 312, "layers": 4, "heads": 12, "hidden": 1248},
}
VARIANTS: dict[str, dict[str, Any]] = {
    **{f"bert_{name}": {"_target_": "pdl_nlp.BERTClassifier", **size} for name, size in _SIZES.items()},
    **{
        f"ernie_3_{name}": {"_target_": "pdl_nlp.BERTClassifier", "max_length": 2048, "segments": 4, "tasks": 3, **size}
        for name, size in _ERNIE.items()
    },
    "minilm_l6": {"_target_": "pdl_nlp.SentenceEncoder", "dim": 384, "layers": 6, "heads": 12},
}

#: (pattern, name here) of HF's checkpoints
_RENAMED = [
    (r"(?:bert|ernie|roberta|model)\.(?=embeddings\.|encoder\.|pooler\.)", ""),
    (r"embeddings\.word_embeddings\.", "embeddings.words."),
    (r"embeddings\.position_embeddings\.weight", "embeddings.positions"),
    (r"embeddings\.token_type_embeddings\.", "embeddings.segments."),
    (r"embeddings\.task_type_embeddings\.", "embeddings.tasks."),
    (r"embeddings\.LayerNorm\.", "embeddings.norm."),
    (r"encoder\.layer\.(\d+)\.attention\.output\.dense\.", r"layers.\1.self_attn.out_proj."),
    (r"encoder\.layer\.(\d+)\.attention\.output\.LayerNorm\.", r"layers.\1.norm1."),
    (r"encoder\.layer\.(\d+)\.attention\.self\.(query|key|value)\.", r"layers.\1.\2."),
    (r"encoder\.layer\.(\d+)\.intermediate\.dense\.", r"layers.\1.linear1."),
    (r"encoder\.layer\.(\d+)\.output\.dense\.", r"layers.\1.linear2."),
    (r"encoder\.layer\.(\d+)\.output\.LayerNorm\.", r"layers.\1.norm2."),
    (r"pooler\.dense\.", "pooler."),
    (r"cls\.predictions\.transform\.dense\.", "masked.transform."),
    (r"cls\.predictions\.transform\.LayerNorm\.", "masked.norm."),
    (r"cls\.predictions\.bias", "masked.bias"),
]
_ENDS = {"gamma": "weight", "beta": "bias"}  # of norms in files made of TensorFlow's
_NUMBERS = ("embeddings.position_ids", "embeddings.token_type_ids")  # buffers that count


def remap(model: BERT, state: Mapping[str, Any]) -> dict[str, Any]:
    """A state dict (arrays by name) of HF's BERT, RoBERTa or ERNIE in pdl's names and layouts."""
    renamed = {_renamed(name): value for name, value in state.items()}
    for number in range(len(model.layers)):
        for end in ("weight", "bias"):
            names = [f"layers.{number}.{part}.{end}" for part in ("query", "key", "value")]
            if all(name in renamed for name in names):
                parts = [np.asarray(renamed.pop(name)) for name in names]
                renamed[f"layers.{number}.self_attn.in_proj_{end}"] = np.concatenate(parts)
    return nn.from_torch(model, {name: value for name, value in renamed.items() if name not in _NUMBERS})


def adapt(model: BERT, arrays: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Weights for a net with another number of positions: vectors of the first ones, or, where there are more, copies
    of theirs, from the first on (as Longformer's begin: Beltagy et al., arXiv 2004.05150, section 5)."""
    name, first, made = "embeddings.positions", model.embeddings.first, dict(arrays)
    given, own = made.get(name), model.embeddings.positions
    if given is None or own is None or len(given) == len(own) or len(given) <= first:
        return made, {}
    rows = len(own)
    given = np.asarray(given)
    again = first + np.arange(rows - first) % (len(given) - first)
    made[name] = given[np.concatenate([np.arange(first), again])]
    how = "the first ones" if rows < len(given) else "those behind the last one are copies, from the first on"
    return made, {name: f"{len(given) - first} -> {rows - first} positions: {how}"}


def _renamed(name: str) -> str:
    for pattern, to in _RENAMED:
        name = re.sub(f"^{pattern}", to, name)
    start, _, end = name.rpartition(".")
    return f"{start}.{_ENDS[end]}" if end in _ENDS else name
