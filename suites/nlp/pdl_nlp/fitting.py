"""Tokenizers made of training texts, or taken from files and checkpoints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pdl.dtype import Array
from pdl.errors import ConfigError
from pdl.hub.pretrained import Report, report, skipped
from pdl.nn import Module
from pdl.vocabulary import Vocabulary
from pdl_nlp import checkpoints
from pdl_nlp.tokenizers import BERT, Characters, Tokenizer, Words, read
from pdl_nlp.tokenizers.base import BERT_PAIR, BERT_SINGLE
from pdl_nlp.tokenizers.words import SPLITS
from pdl_nlp.vectors import Vectors, fill

if TYPE_CHECKING:
    from pdl.train import Recipe

Kind: TypeAlias = Literal["words", "space", "characters"]
KINDS: tuple[Kind, ...] = ("words", "space", "characters")
"""What tokenizers are made of training texts. words: letters in a row, and every sign alone; space: what stands between
white space."""
SPECIAL = {part: BERT[part] for part in ("pad", "unknown")}


def counted(texts: Iterable[str], kind: Kind, *, lower: bool) -> Counter[str]:
    """How often each token occurs that `tokenizer_of` finds in texts."""
    found = Counter[str]()
    for text in texts:
        found.update(text if kind == "characters" else SPLITS[_split(kind)].findall(text))
    lowered = Counter[str]()
    for token, count in found.items():
        low = token.lower() if lower else token
        if not token.isspace():
            lowered[low if kind != "characters" or len(low) == 1 else token] += count
    return lowered


def vocabulary_of(
    counts: Mapping[str, int],
    *,
    min_count: int = 1,
    most: int | None = None,
    special: Mapping[str, str] = SPECIAL,
) -> Vocabulary:
    """The special tokens (padding is number 0, the unknown token 1), and what occurs at least `min_count` times, the
    most frequent first (of equally frequent ones by their letters); at most `most` in all."""
    frequent = (name for name, count in counts.items() if count >= min_count and name not in special.values())
    return Vocabulary([*special.values(), *sorted(frequent, key=lambda name: (-counts[name], name))][:most])


def tokenizer_of(vocabulary: Vocabulary, kind: Kind, *, lower: bool, framed: bool = True) -> Tokenizer:
    """The tokenizer of a kind with a vocabulary of `vocabulary_of`. Where that begins with all of BERT's special tokens
    they stand around texts and pairs as BERT has them, if it is `framed`; else none do."""
    whole = framed and list(vocabulary.names[: len(BERT)]) == list(BERT.values())
    around: dict[str, Any] = (
        {"special": BERT, "single": BERT_SINGLE, "pair": BERT_PAIR} if whole else {"special": SPECIAL}
    )
    if kind == "characters":
        return Characters(vocabulary, lower=lower, **around)
    return Words(vocabulary, lower=lower, split=_split(kind), **around)


def _split(kind: Kind) -> str:
    return "space" if kind == "space" else "signs"


def letters_of(words: Iterable[str]) -> Vocabulary:
    """The letters of words, for `pdl_nlp.steps.letters`: those that two of them have at least."""
    counts = Counter[str]()
    for word in words:
        counts.update(set(word))
    return vocabulary_of(counts, min_count=2)


def unknown_share(tokenizer: Tokenizer, texts: Sequence[str]) -> float:
    """The share of the tokens of texts that the vocabulary lacks."""
    ids = tokenizer.encode_many(texts).ids
    return float((ids == tokenizer.unknown).mean()) if len(ids) else 0.0


class WithTokenizer:
    """What tasks on texts share: a tokenizer made of training texts, read from a file, or that of a checkpoint that the
    model begins with; and what it says of the model.

    kind     one of `KINDS`, a path, settings of a tokenizer that a run keeps; None: that of the checkpoint, or words
    vectors  what `pdl_nlp.vectors.Vectors` reads, with which the model's table of tokens begins; None: random ones
    """

    kind: Any
    vectors: str | None = None
    lower: bool
    min_count: int
    vocabulary_size: int | None
    max_length: int
    vocabularies: dict[str, Vocabulary]
    constants: dict[str, Array]

    def fit_tokenizer(self, recipe: Recipe, texts: Iterable[str], *, special: Mapping[str, str] = SPECIAL) -> None:
        """Make the tokenizer of training texts, with these special tokens, or read it; that of a run is there
        already."""
        if "tokens" in self.vocabularies:
            return
        begin = recipe.model.get("pretrained")
        given = self.asked(begin, KINDS)
        self.kind = "words" if given is None else given
        if self.kind in KINDS and (given is not None or begin is None):
            self._same_tokens(begin, given, None)
            self.fit_vocabulary(counted(texts, self.kind, lower=self.lower), special=special)
            return
        made = checkpoints.tokenizer(begin) if given is None else read(given)
        self._same_tokens(begin, given, made)
        self.kind, vocabularies, arrays = made.state()
        self.vocabularies |= vocabularies
        self.constants |= {f"tokens.{name}": array for name, array in arrays.items()}

    def asked(self, begin: str | None, learned: Sequence[str]) -> Any:
        """The `kind` that tokens are made by where there are none yet. The config of a run has the settings of its
        tokenizer, and not the tokens: begun anew, it takes those of the checkpoint `begin`, or learns such as are
        `learned`; ConfigError for what is neither."""
        if not isinstance(self.kind, Mapping):
            return self.kind
        if begin is not None and checkpoints.has_tokenizer(begin):
            return None
        kind = self.kind.get("kind")
        if kind not in learned:
            lacks = f"task.tokenizer has the settings of a tokenizer ({kind}) without its tokens, which are in its run"
            raise ConfigError(f"{lacks}; name a file or folder: task.tokenizer=PATH (such as tokenizer.json)")
        return kind

    def _same_tokens(self, begin: str | None, given: Any, made: Tokenizer | None) -> None:
        """ConfigError where a tokenizer that is given numbers tokens otherwise than that of the checkpoint; None: one
        that is made of training texts."""
        if begin is None or given is None or skipped() or not checkpoints.has_tokenizer(begin):
            return
        known = checkpoints.tokenizer(begin).tokens
        if made is None or list(known) != list(made.tokens):
            own = f"the weights of model.pretrained={begin} are for the {len(known):,} of its own tokenizer"
            raise ConfigError(f"task.tokenizer={given} numbers tokens otherwise: {own}; task.tokenizer=null takes it")

    def fit_vocabulary(self, counts: Counter[str], *, special: Mapping[str, str] = SPECIAL) -> None:
        """Number the tokens of training, behind these special ones."""
        if self.word_vectors is not None:  # words that training lacks have vectors, too
            counts.update(dict.fromkeys(self.word_vectors.names, self.min_count))
        size: dict[str, Any] = {"min_count": self.min_count, "most": self.vocabulary_size}
        self.vocabularies["tokens"] = vocabulary_of(counts, **size, special=special)

    @cached_property
    def word_vectors(self) -> Vectors | None:
        """The vectors that the model begins with."""
        return None if self.vectors is None else Vectors(self.vectors)

    def model(self, recipe: Recipe) -> Module:
        """The recipe's model, its table of tokens filled with `vectors` (of a run it has its own weights)."""
        made: Module = super().model(recipe)  # type: ignore[misc]
        source = None if skipped() else self.word_vectors
        if source is not None:
            names = self.tokenizer.tokens
            shown = f"vectors of {fill(made, names, source):,} of {len(names):,} tokens"
            report(Report(source.source, type(made).__name__, 0, {"embed": shown}))
        return made

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer, once the vocabulary is known."""
        if self.kind in KINDS:
            return tokenizer_of(self.vocabularies["tokens"], self.kind, lower=self.lower)
        arrays = {name.removeprefix("tokens."): array for name, array in self.constants.items()}
        return Tokenizer.of(self.kind, self.vocabularies, arrays)

    @property
    def unit(self) -> str:
        """What its tokens are called."""
        return str(self.kind) if self.kind in KINDS else f"tokens ({self.kind['kind']})"

    def token_facts(self, recipe: Recipe) -> dict[str, Any]:
        """The number of tokens, and those of padding and of [MASK], with which ERNIE-GEN asks for the next one; sizes
        of a pretrained encoder where the recipe leaves them out."""
        own = {"vocab_size": len(self.vocabularies["tokens"]), "pad": self.tokenizer.pad}
        if self.tokenizer.mask is not None:
            own["attn"] = self.tokenizer.mask
        source = None if skipped() else self.word_vectors
        if source is not None:
            own["dim"] = source.dim
        return {**own, **pretrained_sizes(recipe)}

    def check_reader(self, model: Module, recipe: Recipe) -> None:
        """ConfigError where the model does not take these tokens."""
        own, given = len(self.vocabularies["tokens"]), int(getattr(model, "vocab_size"))  # noqa: B009
        # tables of checkpoints may have rows that no token uses
        if given < own or (given > own and recipe.model.get("pretrained") is None):
            raise ConfigError(f"model.vocab_size={given}, but the data has {own}; correct it, or leave it out")
        if self.tokenizer.pad != getattr(model, "pad", 0):
            of = f"{type(model).__name__} takes {getattr(model, 'pad', 0)} for padding"
            raise ConfigError(f"task.tokenizer: its token for padding has number {self.tokenizer.pad}, {of}")
        check_length(model, self.max_length)


def check_length(model: Module, max_length: int) -> None:
    """ConfigError where a model has vectors for fewer positions."""
    positions = getattr(model, "max_length", max_length)
    if max_length > positions:
        most = f"the model has vectors for {positions} positions"
        raise ConfigError(f"task.max_length={max_length}, but {most}; lower it")


def pretrained_sizes(recipe: Recipe) -> dict[str, Any]:
    """Sizes of the encoder that the model begins with, where the recipe leaves some out; none of a run, which has
    weights of its own and does not need what it began with."""
    begin, model = None if skipped() else recipe.model.get("pretrained"), recipe.model
    left_out = [name for name in checkpoints.SIZES if name in model.takes and name not in model]
    return checkpoints.sizes(begin) if begin is not None and left_out else {}


def small_encoder(recipe: Recipe) -> dict[str, Any]:
    """Settings of a self-test: random weights, and a small encoder where the model is one."""
    if "heads" not in recipe.model.takes:
        return {"model.pretrained": None} if "pretrained" in recipe.model else {}
    small = {"dim": 32, "layers": 2, "heads": 2, "hidden": 64, "pretrained": None}
    return {f"model.{name}": value for name, value in small.items()}


def small_tables(recipe: Recipe) -> dict[str, Any]:
    """Settings of a self-test: few rows of hashed n-grams, where the model has such a table."""
    return {"model.buckets": 1 << 12} if "buckets" in recipe.model.takes else {}
