"""N-gram language models: learned from texts, read and written as ARPA files, and what they say of other texts."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from pdl.dtype import Array
from pdl.errors import DataError, UsageError
from pdl.files import DAMAGED, open_file, unpacked, write_atomic
from pdl.kernels import ctc_beam
from pdl.vocabulary import Vocabulary

UNKNOWN, BEGIN, END = "<unk>", "<s>", "</s>"
"""Tokens 0, 1 and 2 of every model: any other one, and what stands before and behind a text."""

SPACE = "▁"
"""A space as a token of a model of characters."""

MOST_ORDER, MOST_NGRAMS, MOST_TOKENS, MOST_LINE = 10, 1 << 27, 1 << 28, 1 << 16
NEVER = -99.0  # log10 p of what cannot be, as ARPA files write it
ABSENT = -100.0  # log10 p of the unknown, of models that say nothing of it
FALLBACK = (0.5, 1.0, 1.5)  # discounts where counts of counts give none
ARRAYS = ("first", "symbol", "log_p", "backoff")


class BackOff:
    """A back-off model: p(w | h) = 10^log_p of the n-gram h w, or where there is none 10^backoff(h) p(w | h'), h'
    being h without its first token.

    n-grams are the nodes of a tree, numbered by length, then by the n-gram without its last token, then by that token.
    Node 0 is the empty one, node 1 + i is token i.

    first    int32 [K + 1]: n-grams [first[i], first[i + 1]) are one longer than n-gram i
    symbol   int32 [K]: their last tokens
    log_p, backoff  float32 [K]
    size     how many tokens there are

    DataError where the arrays are no such model.
    """

    def __init__(self, first: Array, symbol: Array, log_p: Array, backoff: Array, size: int) -> None:
        self.first, self.symbol = np.ascontiguousarray(first, np.int32), np.ascontiguousarray(symbol, np.int32)
        self.log_p, self.backoff = np.ascontiguousarray(log_p, np.float32), np.ascontiguousarray(backoff, np.float32)
        if not (np.isfinite(self.log_p).all() and np.isfinite(self.backoff).all()):
            raise DataError("a language model with logarithms that are no numbers")
        ctc_beam.Words(self.first, self.symbol, np.zeros(len(self.symbol), np.int32), size)  # it is a tree
        self.ends = [1]  # of the nodes of each length
        while self.ends[-1] < len(self.symbol):
            self.ends.append(int(self.first[self.ends[-1]]))
        if not 1 <= self.order <= MOST_ORDER or self.ends[1] != 1 + size:
            raise DataError(f"a language model of order {self.order}, with {self.first[1] - 1} of {size} tokens")
        suffix = _suffixes(self.first, self.symbol, self.ends, size)
        self.kernel = ctc_beam.NGrams(self.first, self.symbol, suffix, self.log_p, self.backoff, size)

    @property
    def order(self) -> int:
        """The length of the longest n-grams."""
        return len(self.ends) - 1

    @property
    def counts(self) -> list[int]:
        """How many n-grams of each length there are."""
        return [int(n) for n in np.diff(self.ends)]

    def arrays(self) -> dict[str, Array]:
        """The arrays by name."""
        return {name: getattr(self, name) for name in ARRAYS}

    def read(self, ids: Array, behind: int = 0) -> Array:
        """ln p of tokens, one behind the other from the n-gram `behind` on: float64 [M] of int [M]."""
        out = np.empty(len(ids))
        self.kernel.read(out, np.ascontiguousarray(ids, np.int64), behind)
        return out * math.log(10)


class NGrams(BackOff):
    """A back-off model of texts.

    tokens   names of the tokens from number 1 on, the first of which are <s> and </s>; 0 is <unk>
    first, symbol, log_p, backoff  as `BackOff` has them
    """

    def __init__(self, tokens: Vocabulary, first: Array, symbol: Array, log_p: Array, backoff: Array) -> None:
        self.tokens = tokens
        if list(tokens[:2]) != [BEGIN, END]:
            raise DataError(f"a language model whose tokens do not begin with {BEGIN} and {END}")
        super().__init__(first, symbol, log_p, backoff, len(tokens) + 1)

    @cached_property
    def characters(self) -> bool:
        """Whether its tokens are characters, a space as `SPACE`, and not words."""
        return all(len(token) == 1 for token in self.tokens.names[2:])

    @property
    def closed(self) -> bool:
        """Whether its tokens are all that there are: log10 p of <unk> is `NEVER`."""
        return float(self.log_p[1]) == NEVER

    @classmethod
    def of_constants(cls, name: str, tokens: Vocabulary, constants: Mapping[str, Array]) -> NGrams:
        """Out of constants NAME.first, NAME.symbol, ... of a bundle; DataError where they are damaged."""
        given = [constants.get(f"{name}.{each}") for each in ARRAYS]
        kinds = [None if each is None else (each.dtype.kind, each.ndim) for each in given]
        if kinds != [("i", 1), ("i", 1), ("f", 1), ("f", 1)]:
            raise DataError(f"the language model {name!r:.60} among the constants is damaged; export the model again")
        return cls(tokens, *(each for each in given if each is not None))

    def split(self, text: str) -> list[str]:
        """A text as tokens: its words, or its characters."""
        return characters(text) if self.characters else text.split()

    def log_probabilities(self, tokens: Sequence[str]) -> Array:
        """ln p of each token of a text, and of its end: float64 [M + 1]."""
        return self.read(np.append(self.tokens.encode(tokens), 2), behind=2)

    def perplexity(self, texts: Iterable[Sequence[str]]) -> Perplexity:
        """Of texts of tokens, their ends among them."""
        total, count, unknown = 0.0, 0, 0
        for tokens in texts:
            total -= float(self.log_probabilities(tokens).sum())
            count += len(tokens) + 1
            unknown += sum(token not in self.tokens for token in tokens)
        return Perplexity(math.exp(total / count) if count else math.nan, count, unknown)

    def write(self, path: str | Path) -> None:
        """As an ARPA file."""
        write_atomic(path, (text.encode() for text in self._arpa()))

    def _arpa(self) -> Iterator[str]:
        yield "\\data\\\n" + "".join(f"ngram {n}={count}\n" for n, count in enumerate(self.counts, 1))
        names = [UNKNOWN, *self.tokens]
        parent = np.repeat(np.arange(len(self.symbol)), np.diff(self.first))
        for n in range(1, self.order + 1):
            yield f"\n\\{n}-grams:\n"
            for begin in range(self.ends[n - 1], self.ends[n], 1 << 16):
                nodes = np.arange(begin, min(begin + (1 << 16), self.ends[n]))
                columns = [self.log_p[nodes].astype(str)]
                back = self.backoff[nodes].astype(str)
                words = list[list[str]]()
                for _ in range(n):
                    words.append([names[i] for i in self.symbol[nodes]])
                    nodes = parent[nodes - 1]
                columns.append(np.array([" ".join(each) for each in zip(*reversed(words), strict=True)], object))
                columns += [back] if n < self.order else []
                yield "".join("\t".join(line) + "\n" for line in zip(*columns, strict=True))
        yield "\n\\end\\\n"


class Perplexity(NamedTuple):
    """e^(-mean ln p), of how many tokens, and how many of them the model does not know."""

    perplexity: float
    tokens: int
    unknown: int


def characters(text: str) -> list[str]:
    """The tokens of a text for a model of characters: white space as one `SPACE`."""
    return list(SPACE.join(text.split()))


def _suffixes(first: Array, symbol: Array, ends: Sequence[int], size: int) -> Array:
    """int32 [K]: of every n-gram the longest end, but itself, that is one."""
    parent = np.repeat(np.arange(len(symbol), dtype=np.int64), np.diff(first))  # of nodes from 1 on
    keys = parent * size + symbol[1:]
    suffix = np.zeros(len(symbol), np.int32)
    for begin, end in pairwise(ends[1:]):
        nodes = np.arange(begin, end)
        context = suffix[parent[nodes - 1]]
        while len(nodes):
            wanted = context.astype(np.int64) * size + symbol[nodes]
            at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
            met = keys[at] == wanted  # that of the empty context, in the end
            suffix[nodes[met]] = at[met] + 1
            nodes, context = nodes[~met], suffix[context[~met]]
    return suffix


# -- learning ----------------------------------------------------------------------------------------------------------
def train(texts: Iterable[Sequence[str]], order: int = 3, words: Iterable[str] | None = None) -> NGrams:
    """A model of texts of tokens, by Kneser and Ney's smoothing with three discounts at each order (`kneser_ney`).

    words   the tokens that there are; the model is `NGrams.closed`. Without texts all of them are equally probable at
            any place, and so is the end

    DataError where there is no token, or one that a model has for itself, or that is none of the words.
    """
    if not 1 <= order <= MOST_ORDER:
        raise UsageError(f"order={order}: n-grams of 1 to {MOST_ORDER} tokens are learned")
    numbers: dict[str, int] = {UNKNOWN: 0, BEGIN: 1, END: 2}
    ids, places, known = array("i"), array("i"), None if words is None else set(words)
    if known is not None:
        if own := known & numbers.keys():
            raise DataError(f"{own.pop()} is no word; a model has it for itself")
        numbers |= {word: i for i, word in enumerate(sorted(known), 3)}
    for line, tokens in enumerate(texts, 1):
        if own := {BEGIN, END}.intersection(tokens):
            raise DataError(f"text {line}: {own.pop()} is no token of texts; it stands for their begin or end")
        if known is not None and (other := next((token for token in tokens if token not in known), None)) is not None:
            raise DataError(f"text {line}: {other!r:.60} is none of the words; leave the text out, or add the word")
        ids.append(1)
        ids.extend(numbers.setdefault(token, len(numbers)) for token in tokens)
        ids.append(2)
        places.extend(range(len(tokens) + 2))
        if len(ids) > MOST_TOKENS:
            raise DataError(f"text {line}: more than {MOST_TOKENS:,} tokens; learn from a part of the texts")
    if len(numbers) == 3:
        raise DataError("there is no token in the texts" if known is None else "there is no word")
    arrays = kneser_ney(np.array(ids), np.array(places), len(numbers), order, marks=True, closed=known is not None)
    return NGrams(Vocabulary(list(numbers)[1:]), *arrays)


def kneser_ney(
    ids: Array, places: Array, tokens: int, order: int, *, marks: bool, closed: bool = False
) -> tuple[Array, Array, Array, Array]:
    """first, symbol, log_p and backoff of `BackOff`, by interpolated, modified Kneser-Ney smoothing (Chen & Goodman,
    "An empirical study of smoothing techniques for language modeling", 1999, section 4.1.6):

        p_n(w | h) = (c(h w) - D(c(h w))) / c(h) + gamma(h) p_{n-1}(w | h'),  h' without its first token

    where c counts n-grams at the highest order, and at any if they begin with <s>; else the tokens that an n-gram
    follows. p_0 is uniform. D(1), D(2) and D(3 or more) are those of equation 26, or `FALLBACK` at an order whose
    counts of counts give none (Heafield et al., ACL 2013). An order above the length of all texts is left out.

    ids     int [M]: the texts, one behind the other
    places  int [M]: of tokens in their text, from 0 on
    marks   <s> (1) begins and </s> (2) ends every text; p(<s>) is 0
    closed  token 0 is none of a text; its p is 0
    """
    ids, places = np.asarray(ids, np.int64), np.asarray(places)
    levels = list[_Level]()
    ending = ids  # of the n-gram that ends at each place, by its number among those of its length
    for size in range(1, min(order, int(places.max(initial=0)) + 1) + 1):
        at = np.flatnonzero(places >= size - 1)
        key = ids[at] if size == 1 else ending[at - 1] * tokens + ids[at]
        found, first, inverse, counts = np.unique(key, return_index=True, return_inverse=True, return_counts=True)
        first = at[first]
        if size == 1:
            raw = np.zeros(tokens, np.int64)
            raw[found] = counts
            levels.append(
                _Level(
                    np.zeros(tokens, np.int64),
                    np.arange(tokens),
                    raw,
                    np.zeros(tokens, bool),
                    np.zeros(tokens, np.int64),
                )
            )
            continue
        begins = places[first] == size - 1
        levels.append(_Level(found // tokens, found % tokens, counts, begins & marks, ending[first]))
        ending = np.full(len(ids), -1, np.int64)
        ending[at] = inverse
    p: Array = np.full(1, 1 / (tokens - marks - closed))
    log_p, backoff, parents, base = [np.zeros(1)], list[Array](), list[Array](), 0
    for size, level in enumerate(levels, 1):
        counts = level.counts
        if size < len(levels):  # each longer n-gram is a token that it follows
            following = np.bincount(levels[size].suffix, minlength=len(counts))
            counts = np.where(level.begins, counts, following)
        if size == 1 and marks:
            counts = np.where(level.symbol == 1, 0, counts)
        taken = np.array([0.0, *_discounts(counts)])[np.minimum(counts, 3)]
        total = np.bincount(level.parent, counts, minlength=len(p))
        left = np.bincount(level.parent, taken, minlength=len(total))
        gamma = np.divide(left, total, out=np.ones(len(total)), where=total > 0)
        own = np.divide(counts - taken, total[level.parent], out=np.zeros(len(counts)), where=total[level.parent] > 0)
        p = own + gamma[level.parent] * p[level.suffix]
        backoff.append(_log10(gamma))
        log_p.append(_log10(p))
        parents.append(level.parent + base)
        base += len(total)
    log_p[1][1] = NEVER if marks else log_p[1][1]
    log_p[1][0] = NEVER if closed else log_p[1][0]
    backoff.append(np.zeros(len(p)))
    backoff[0] = np.zeros(1)  # p_0 is in p_1: all tokens are there
    symbol = np.concatenate([np.zeros(1, np.int64), *(level.symbol for level in levels)])
    children = np.bincount(np.concatenate(parents), minlength=len(symbol))
    first = np.concatenate([[1], 1 + np.cumsum(children)])
    return first, symbol, np.concatenate(log_p), np.concatenate(backoff)


class _Level(NamedTuple):
    """n-grams of one length, in the order of the tree: numbers of those without the last token and without the first
    one, the last token, counts, and whether <s> begins them."""

    parent: Array
    symbol: Array
    counts: Array
    begins: Array
    suffix: Array


def _discounts(counts: Array) -> Sequence[float]:
    n = [int((counts == i).sum()) for i in range(1, 5)]
    if not all(n[:3]):
        return FALLBACK
    y = n[0] / (n[0] + 2 * n[1])
    found = [i - (i + 1) * y * n[i] / n[i - 1] for i in (1, 2, 3)]
    return found if all(0 <= d <= i for i, d in enumerate(found, 1)) else FALLBACK


def _log10(p: Array) -> Array:
    return np.log10(np.maximum(p, 10.0**NEVER))


# -- ARPA files --------------------------------------------------------------------------------------------------------
def read_arpa(path: str | Path) -> NGrams:
    """A model out of an ARPA file (also .gz, .bz2 and .xz); DataError, with the line, where it is none."""
    try:
        with open_file(path) as file, unpacked(file, path) as stream:
            return _Arpa(path, stream).read()
    except (OSError, *DAMAGED) as error:
        raise DataError(f"{path}: cannot be read: {error}; give an ARPA file of a language model") from None


class _Arpa:
    """A reader of one file."""

    def __init__(self, path: str | Path, stream: BinaryIO) -> None:
        self.path, self.stream, self.line, self.text = path, stream, 0, b""

    def wrong(self, what: str, line: int | None = None) -> DataError:
        return DataError(f"{self.path}:{self.line if line is None else line}: {what}")

    def next(self, *, blank: bool = True) -> bytes:
        """The next line, without blanks around it; with `blank` the next one that is not empty."""
        while True:
            line = self.stream.readline(MOST_LINE)
            self.line += 1
            if not line:
                raise self.wrong("the file ends before \\end\\; is it cut off?")
            if len(line) == MOST_LINE:
                raise self.wrong(f"a line of more than {MOST_LINE} bytes; is this an ARPA file?")
            self.text = line.strip(b" \t\r\n")
            if self.text or not blank:
                return self.text

    def read(self) -> NGrams:
        while self.next() != b"\\data\\":
            if self.line > 1000:
                raise self.wrong("no \\data\\ so far; is this an ARPA file?")
        counts = list[int]()
        while self.next().startswith(b"ngram"):
            name, _, number = self.text[5:].decode("latin-1").partition("=")
            if name.strip() != str(len(counts) + 1) or not (number.strip().isdecimal() and len(number) < 16):
                raise self.wrong(f"expected `ngram {len(counts) + 1}=COUNT`, got {self.text[:60]!r}")
            counts.append(int(number))
        if not 1 <= len(counts) <= MOST_ORDER or sum(counts) > MOST_NGRAMS:
            most = f"1 to {MOST_ORDER} with at most {MOST_NGRAMS:,} are read"
            raise self.wrong(f"{len(counts)} orders with {sum(counts):,} n-grams; {most}")
        numbers = {UNKNOWN.encode(): 0, BEGIN.encode(): 1, END.encode(): 2, b"<UNK>": 0}
        parents, symbols = list[Array](), [np.zeros(1, np.int64)]
        log_p, backoff = [np.zeros(1)], [np.zeros(1)]
        keys = list[Array]()  # of each length: (number of the n-gram before the last token) tokens + that token
        size, base = 0, 0
        for n, count in enumerate(counts, 1):
            start = self.line + 1
            ids, p, back = self.section(n, count, numbers, last=n == len(counts))
            if n == 1:
                size = max(numbers.values()) + 1
                ids, p, back = self.unigrams(ids[:, 0], p, back, size, numbers, start)
            node = np.zeros(len(ids), np.int64)
            for length in range(1, n):
                wanted = node * size + ids[:, length - 1]
                found = keys[length - 1]
                at = np.minimum(np.searchsorted(found, wanted), max(len(found) - 1, 0))
                missing = np.flatnonzero(found[at] != wanted) if len(found) else np.arange(len(ids))
                if len(missing):
                    row = int(missing[0])
                    said = self.said(ids[row, :length], numbers)
                    raise self.wrong(f"{said!r:.80}, with which this {n}-gram begins, is no {length}-gram", start + row)
                node = at + 1 + sum(map(len, keys[: length - 1]))
            key = node * size + ids[:, -1]
            order = np.argsort(key, kind="stable")
            key = key[order]
            if len(twice := np.flatnonzero(key[1:] == key[:-1])):
                row = order[int(twice[0]) + 1]
                raise self.wrong(f"{self.said(ids[row], numbers)!r:.80} is there twice", start + int(row))
            keys.append(key)
            parents.append(node[order])
            symbols.append(ids[order, -1])
            log_p.append(p[order])
            backoff.append(back[order])
            base += len(ids)
        if self.text != b"\\end\\":
            raise self.wrong(f"expected \\end\\, got {self.text[:60]!r}")
        try:
            tokens = Vocabulary([name.decode() for name in numbers if name not in (b"<unk>", b"<UNK>")])
        except UnicodeDecodeError as error:
            raise DataError(f"{self.path}: a token is no UTF-8: {error.object[:60]!r}") from None
        symbol = np.concatenate(symbols)
        first = np.concatenate([[1], 1 + np.cumsum(np.bincount(np.concatenate(parents), minlength=len(symbol)))])
        return NGrams(tokens, first, symbol, np.concatenate(log_p), np.concatenate(backoff))

    def section(self, n: int, count: int, numbers: dict[bytes, int], *, last: bool) -> tuple[Array, Array, Array]:
        """ids [count, n], log_p and backoff [count] of the n-grams of one length; then `text` is what follows them."""
        if self.text != f"\\{n}-grams:".encode():
            raise self.wrong(f"expected \\{n}-grams:, got {self.text[:60]!r}")
        ids, values, readline = array("i"), array("f"), self.stream.readline
        for row in range(count):
            line = readline(MOST_LINE)
            fields = line.split()
            try:
                back = float(fields.pop()) if len(fields) == n + 2 and not last else 0.0
                p, *tokens = fields
                if n == 1:
                    numbers.setdefault(tokens[0], len(numbers) - 1)
                values.append(float(p))
                values.append(back)
                ids.extend([numbers[token] for token in tokens])
                if len(line) == MOST_LINE or len(tokens) != n or not (-1e30 < values[-2] <= 0 and abs(back) < 1e30):
                    raise ValueError
            except (ValueError, LookupError):
                self.line += row + 1
                raise self.fault(line, n, count, row, numbers, last=last) from None
        self.line += count
        self.next()
        if not self.text.startswith(b"\\"):
            raise self.wrong(f"more {n}-grams than the {count} of \\data\\, or no \\ before what follows them")
        pairs = np.frombuffer(values, np.float32).reshape(-1, 2)
        return np.array(ids, np.int64).reshape(-1, n), pairs[:, 0], pairs[:, 1]

    def fault(
        self, line: bytes, n: int, count: int, row: int, numbers: Mapping[bytes, int], *, last: bool
    ) -> DataError:
        """What is wrong with a line among n-grams."""
        fields, said = line.split(), repr(line.strip()[:60])
        if not line:
            return self.wrong("the file ends before \\end\\; is it cut off?")
        if len(line) == MOST_LINE:
            return self.wrong(f"a line of more than {MOST_LINE} bytes; is this an ARPA file?")
        if not fields or fields[0].startswith(b"\\"):
            return self.wrong(f"{row} {n}-grams, but \\data\\ says {count}")
        if len(fields) not in (n + 1, n + 2 - last):
            weight = "" if last else ", and a weight if any"
            return self.wrong(f"expected log10 p and {n} tokens{weight}, got {len(fields)} fields: {said}")
        for token in fields[1 : n + 1]:
            if n > 1 and token not in numbers:
                return self.wrong(f"{token.decode(errors='replace')!r:.60} is no 1-gram")
        return self.wrong(f"log10 p and the weight must be finite numbers, and p at most 1, got {said}")

    def unigrams(
        self, ids: Array, p: Array, back: Array, size: int, numbers: Mapping[bytes, int], start: int
    ) -> tuple[Array, Array, Array]:
        """All tokens in order: those of the file, and the unknown one."""
        for name, number in ((BEGIN, 1), (END, 2)):
            if number not in ids:
                raise self.wrong(f"{name} is no 1-gram; models of texts with begin and end are read", start)
        found, first = np.unique(ids, return_index=True)
        if len(found) < len(ids):
            row = int(np.setdiff1d(np.arange(len(ids)), first)[0])
            raise self.wrong(f"{self.said(ids[row : row + 1], numbers)!r:.80} is there twice", start + row)
        all_p, all_back = np.full(size, ABSENT, np.float32), np.zeros(size, np.float32)
        all_p[ids], all_back[ids] = p, back
        return np.arange(size)[:, None], all_p, all_back

    @staticmethod
    def said(ids: Array, numbers: Mapping[bytes, int]) -> str:
        names = {number: name for name, number in numbers.items()}
        return b" ".join(names[int(i)] for i in ids).decode(errors="replace")
