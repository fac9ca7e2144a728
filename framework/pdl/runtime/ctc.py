"""Texts out of probabilities by step, by prefix beam search: of connectionist temporal classification (Graves et al.,
ICML 2006), and of nets with a step for each character and a class for the end; of words of a list, and with n-grams."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pdl.dtype import Array
from pdl.errors import DataError
from pdl.files import read_bytes
from pdl.kernels import ctc_beam
from pdl.ngram import SPACE, NGrams

BEAM, WIDE = 16, 100  # prefixes that are kept from step to step: of words of a list, and with a language model
LIKELY = 1e-5  # classes with less are not looked at in a step
ALPHA, BETA, UNKNOWN = 0.5, 1.0, -23.0  # the last of words
MOST_WORDS, MOST_BYTES = 1_000_000, 1 << 26


class Lexicon:
    """A tree of words as classes; `space`, a class, leads from the end of a word to the next one.

    Nodes are numbered by depth, then by parent, then by class: those behind node i are [first[i], first[i + 1]), with
    the classes `symbol`. Node 0 is the beginning of a word. A word with characters that are no classes is left out.

    number  of each word in a language model; by default 0, as of a word that it lacks
    """

    def __init__(
        self,
        words: Iterable[str],
        numbers: Mapping[str, int],
        space: int | None = None,
        *,
        number: Mapping[str, int] | None = None,
    ) -> None:
        words = list(dict.fromkeys(words))
        spelled = [[numbers[c] for c in word] if all(c in numbers for c in word) else None for word in words]
        self.left_out = [word for word, each in zip(words, spelled, strict=True) if each is None]
        kept = [(each, word) for word, each in zip(words, spelled, strict=True) if each]
        self.size, self.space = len(kept), space
        self._build([each for each, _ in kept], [0 if number is None else number.get(word, 0) for _, word in kept])

    def _build(self, words: Sequence[Sequence[int]], ids: Sequence[int]) -> None:
        lengths = np.array([len(word) for word in words], np.int64)
        classes = np.concatenate([np.array(word, np.int64) for word in words] or [np.zeros(0, np.int64)])
        starts, node = np.cumsum(lengths) - lengths, np.zeros(len(words), np.int64)  # where each word is by now
        width = int(classes.max(initial=0)) + 1
        parents, symbols, token = list[Array](), [np.zeros(1, np.int64)], [np.full(1, -1)]
        own, going, base = np.array(ids, np.int64), np.arange(len(words)), 1
        while len(going):
            depth = len(parents)
            found, inverse = np.unique(node * width + classes[starts[going] + depth], return_inverse=True)
            parents.append(found // width)
            symbols.append(found % width)
            node = base + inverse
            ends = lengths[going] == depth + 1
            at = np.full(len(found), -1)
            at[inverse[ends]] = own[going[ends]]
            token.append(at)
            base += len(found)
            going, node = going[~ends], node[~ends]
        self.symbol = np.concatenate(symbols).astype(np.int32)
        counts = np.bincount(np.concatenate(parents or [np.zeros(0, np.int64)]), minlength=len(self.symbol))
        self.first = np.concatenate([[1], 1 + np.cumsum(counts)]).astype(np.int32)
        self.word = np.concatenate(token).astype(np.int32)  # number of the word that ends at a node; -1: none does


def word_list(path: Path) -> list[str]:
    """The words of a UTF-8 file, separated by white space, each once; DataError for a file that cannot be read, or is
    too long."""
    try:
        words = list(dict.fromkeys(read_bytes(path.expanduser(), MOST_BYTES).decode("utf-8-sig").split()))
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read as UTF-8 text: {error}; give a file of words") from None
    if not 1 <= len(words) <= MOST_WORDS:
        raise DataError(f"{path}: {len(words):,} words; give 1 to {MOST_WORDS:,}")
    return words


def read_words(path: Path) -> list[str]:
    """`word_list`, each also with a capital first and in capitals."""
    return list(dict.fromkeys(form for word in word_list(path) for form in (word, word.capitalize(), word.upper())))


class Found(NamedTuple):
    """The classes of a text; the step of each on the best path that writes it; ln of its probability, the sum over all
    paths that write it and were kept, with what a language model adds; and without."""

    classes: list[int]
    steps: list[int]
    score: float
    log_p: float

    @property
    def probability(self) -> float:
        """Without the language model."""
        return math.exp(self.log_p)


NOTHING = Found([], [], -math.inf, -math.inf)


class Search:
    """How the most probable texts are found by prefix beam search (Hannun et al., arXiv 1408.2873): those with the
    largest

        ln p(text) + alpha (ln p_model(text) + unknown (tokens that the model lacks)) + beta tokens

    numbers  characters to classes; a space, where there is one, stands between words
    blank    the class of no character; or in its place
    end      of nets with a step for each character: the class behind the last one
    words    the text is made of these alone
    model    of words, or of characters (`NGrams.characters`); without one nothing is added to ln p(text). Of the words
             of one that is `NGrams.closed` alone the text is made
    unknown  by default `UNKNOWN` for words, which is e^-23, and 0 for characters
    width    prefixes that are kept from step to step
    likely   classes with less are not looked at in a step
    margin   a prefix is dropped that has less than this times the probability of the best one
    spaces   spaces in front, at the end and beside another one are no characters, as of speech: so paths that write
             them are paths of the text without. Otherwise they are none of a text of words.
    logs     what is searched are logarithms
    """

    def __init__(
        self,
        classes: int,
        numbers: Mapping[str, int],
        *,
        blank: int | None = None,
        end: int | None = None,
        words: Iterable[str] | None = None,
        model: NGrams | None = None,
        alpha: float = ALPHA,
        beta: float = BETA,
        unknown: float | None = None,
        width: int | None = None,
        likely: float = LIKELY,
        margin: float = 0.0,
        spaces: bool = False,
        logs: bool = False,
    ) -> None:
        self.classes = classes
        numbers = {letter: c for letter, c in numbers.items() if c < classes}
        self.lexicon: Lexicon | None = None
        space, ids, tokens = numbers.get(" "), dict[str, int](), None
        if model is not None:
            ids = {token: i for i, token in enumerate(model.tokens, 1) if i > 2}
            if model.characters:
                tokens = np.zeros(classes, np.int32)
                for letter, c in numbers.items():
                    tokens[c] = ids.get(SPACE if letter == " " else letter, 0)
            elif words is None:
                self.lexicon = Lexicon(ids, numbers, space, number=ids)
        if words is not None:
            self.lexicon = Lexicon(words, numbers, space, number=ids)
        lexicon = self.lexicon
        if unknown is None:
            unknown = UNKNOWN if tokens is None else 0.0
        self._options = {
            "width": (BEAM if model is None else WIDE) if width is None else width,
            "blank": -1 if blank is None else blank,
            "end": -1 if end is None else end,
            "space": -1 if space is None else space,
            "logs": logs, "spaces": spaces, "least": likely, "margin": margin,
            "closed": words is not None or (model is not None and model.closed and not model.characters),
            "words": lexicon and ctc_beam.Words(lexicon.first, lexicon.symbol, lexicon.word, classes),
            "model": model and model.kernel,
            "tokens": tokens, "sentence": 2, "alpha": alpha, "beta": beta, "unknown": alpha * unknown,
        }  # fmt: skip

    def begin(self) -> ctc_beam.BeamSearch:
        """A search to `feed` with steps [T, classes], in pieces of any length, that says the `best` texts so far."""
        return ctc_beam.BeamSearch(self.classes, **self._options)

    def best(self, steps: Array, n: int = 1) -> Iterator[Found]:
        """The n best texts of steps [T, classes], best first; none where no text is among the prefixes kept."""
        search = self.begin()
        search.feed(np.ascontiguousarray(steps))
        yield from map(Found._make, search.best(n))

    def __call__(self, steps: Array) -> Found:
        """The best text of steps [T, classes]; no classes and probability 0 where there is none."""
        return next(self.best(steps), NOTHING)
