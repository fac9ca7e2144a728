"""Tokenizers made of training texts, or taken from files and checkpoints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from pdl.vocabulary import Vocabulary
from pdl_nlp.tokenizers import BERT, Characters, Tokenizer, Words
from pdl_nlp.tokenizers.words import SPLITS

Kind: TypeAlias = Literal["words", "space", "characters"]
KINDS: tuple[Kind, ...] = ("words", "space", "characters")
"""What tokenizers are made of training texts. words: letters in a row, and every sign alone; space: what stands between
white space."""
SPECIAL = {part: BERT[part] for part in ("pad", "unknown")}


def counted(texts: Sequence[str], kind: Kind, *, lower: bool) -> Counter[str]:
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


def vocabulary_of(counts: Mapping[str, int], *, min_count: int = 1, most: int | None = None) -> Vocabulary:
    """Padding (number 0), the unknown token (1), and what occurs at least `min_count` times, the most frequent first
    (of equally frequent ones by their letters); at most `most` in all."""
    frequent = (name for name, count in counts.items() if count >= min_count and name not in SPECIAL.values())
    return Vocabulary([*SPECIAL.values(), *sorted(frequent, key=lambda name: (-counts[name], name))][:most])


def tokenizer_of(vocabulary: Vocabulary, kind: Kind, *, lower: bool) -> Tokenizer:
    """The tokenizer of a kind with a vocabulary of `vocabulary_of`."""
    if kind == "characters":
        return Characters(vocabulary, lower=lower, special=SPECIAL)
    return Words(vocabulary, lower=lower, split=_split(kind), special=SPECIAL)


def _split(kind: Kind) -> str:
    return "space" if kind == "space" else "signs"


def unknown_share(tokenizer: Tokenizer, texts: Sequence[str]) -> float:
    """The share of the tokens of texts that the vocabulary lacks."""
    ids = tokenizer.encode_many(texts).ids
    return float((ids == tokenizer.unknown).mean()) if len(ids) else 0.0
