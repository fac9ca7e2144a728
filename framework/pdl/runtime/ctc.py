"""Texts of words of a list out of probabilities by step: of connectionist temporal classification (Graves et al., ICML
2006), by prefix beam search; and of nets with a step for each character and a class for the end."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pdl.dtype import Array
from pdl.errors import DataError
from pdl.files import read_bytes

BEAM = 16  # prefixes that are kept from step to step
LIKELY = 1e-5  # classes with less are not looked at in a step
MOST_WORDS, MOST_BYTES = 1_000_000, 1 << 26


class Lexicon:
    """A trie of words as classes; `space`, a class, leads from the end of a word to the next one.

    Node 0 is the beginning of a word. A word with characters that are no classes is left out.
    """

    def __init__(self, words: Iterable[str], numbers: Mapping[str, int], space: int | None = None) -> None:
        self.children: list[dict[int, int]] = [{}]
        self.ends: list[bool] = [False]
        self.size, self.left_out = 0, list[str]()
        for word in words:
            if all(c in numbers for c in word):
                self._add([numbers[c] for c in word])
            else:
                self.left_out.append(word)
        self.space = space

    def _add(self, classes: Sequence[int]) -> None:
        node = 0
        for c in classes:
            following = self.children[node]
            if c not in following:
                following[c] = len(self.children)
                self.children.append({})
                self.ends.append(False)
            node = following[c]
        self.size += not self.ends[node]
        self.ends[node] = True

    def after(self, node: int, c: int) -> int | None:
        """The node behind a class; None where no word goes on so."""
        if c == self.space and self.ends[node]:
            return 0
        return self.children[node].get(c)


def read_words(path: Path) -> list[str]:
    """The words of a UTF-8 file, separated by white space, each also with a capital first and in capitals; DataError
    for a file that cannot be read, or is too long."""
    try:
        words = list(dict.fromkeys(read_bytes(path.expanduser(), MOST_BYTES).decode("utf-8-sig").split()))
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read as UTF-8 text: {error}; give a file of words") from None
    if not 1 <= len(words) <= MOST_WORDS:
        raise DataError(f"{path}: {len(words):,} words; give 1 to {MOST_WORDS:,}")
    return list(dict.fromkeys(form for word in words for form in (word, word.capitalize(), word.upper())))


class Found(NamedTuple):
    """The classes of a text, and its probability: the sum over all paths that write it and were kept."""

    classes: list[int]
    probability: float


def beam_search(probabilities: Array, lexicon: Lexicon, *, blank: int = 0, width: int = BEAM) -> Found:
    """The most probable text of words of a lexicon for probabilities [T, C], by prefix beam search (Hannun et al.,
    arXiv 1408.2873, algorithm 1, with prefixes of words in place of a language model); no classes and probability 0
    where there is none among the `width` prefixes that are kept.
    """
    # prefix -> [probability of paths that end in a blank, and of others]; they are scaled to a sum of 1 in each step,
    # and the logarithm of the scale is kept
    beams: dict[tuple[int, ...], list[float]] = {(): [1.0, 0.0]}
    nodes: dict[tuple[int, ...], int] = {(): 0}
    scale = 0.0
    for row in np.asarray(probabilities, np.float64):
        likely = [int(c) for c in np.flatnonzero(row > LIKELY) if c != blank]
        made: dict[tuple[int, ...], list[float]] = {}
        for prefix, (ended, open_) in beams.items():
            both, node = ended + open_, nodes[prefix]
            own = made.setdefault(prefix, [0.0, 0.0])
            own[0] += both * row[blank]
            if prefix:
                own[1] += open_ * row[prefix[-1]]
            for c in likely:
                following = lexicon.after(node, c)
                if following is None:
                    continue
                longer = (*prefix, c)
                gained = (ended if prefix and prefix[-1] == c else both) * row[c]
                if gained:
                    made.setdefault(longer, [0.0, 0.0])[1] += gained
                    nodes[longer] = following
        best = sorted(made.items(), key=lambda each: -sum(each[1]))[:width]
        total = sum(map(sum, (each for _, each in best)))
        if total <= 0:
            return Found([], 0.0)
        scale += math.log(total)
        beams = {prefix: [p / total for p in both] for prefix, both in best}
        nodes = {prefix: nodes[prefix] for prefix in beams}
    whole = {p: sum(both) for p, both in beams.items() if not p or lexicon.ends[nodes[p]]}
    if not whole:
        return Found([], 0.0)
    prefix = max(whole, key=whole.__getitem__)
    return Found(list(prefix), whole[prefix] * math.exp(scale))


def search_until_end(probabilities: Array, lexicon: Lexicon, *, end: int = 0, width: int = BEAM) -> Found:
    """The most probable text of words of a lexicon for probabilities [T, C] of the characters one behind the other and
    of the `end` behind them: the product of those of its steps, the end's among them. No classes and probability 0
    where there is none among the `width` prefixes that are kept at each step.
    """
    rows = np.asarray(probabilities, np.float64)
    if not 0 <= end < rows.shape[1]:
        return Found([], 0.0)
    best = Found([], 0.0)
    prefixes: list[tuple[tuple[int, ...], int, float]] = [((), 0, 1.0)]  # classes, node, probability
    for row in rows:
        made = list[tuple[tuple[int, ...], int, float]]()
        for prefix, node, before in prefixes:
            whole = before * float(row[end])
            if (not prefix or lexicon.ends[node]) and whole > best.probability:
                best = Found(list(prefix), whole)
            following = dict(lexicon.children[node])
            if lexicon.space is not None and lexicon.ends[node]:
                following[lexicon.space] = 0
            made += [((*prefix, c), to, before * float(row[c])) for c, to in following.items()]
        prefixes = sorted(made, key=lambda each: -each[2])[:width]
    return best
