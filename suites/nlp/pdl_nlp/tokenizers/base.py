"""What all tokenizers have in common: special tokens, pairs, cutting, and how bundles hold them."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from pdl.dtype import Array
from pdl.errors import DataError, UsageError, listed
from pdl.vocabulary import Vocabulary

KINDS = {
    "characters": "pdl_nlp.tokenizers.characters:Characters",
    "words": "pdl_nlp.tokenizers.words:Words",
    "wordpiece": "pdl_nlp.tokenizers.wordpiece:WordPiece",
    "bpe": "pdl_nlp.tokenizers.bpe:ByteLevelBPE",
    "unigram": "pdl_nlp.tokenizers.unigram:Unigram",
    "sentencepiece": "pdl_nlp.tokenizers.sentencepiece:SentencePiece",
}
"""Where the class of a kind of tokenizer is: `module:class`."""
SPECIAL = ("pad", "unknown", "cls", "sep", "mask")
"""The parts that special tokens play."""
BERT = {"pad": "[PAD]", "unknown": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
"""The special tokens of vocabularies made here, in their order from number 0: those of BERT."""
FIRST, SECOND = "$A", "$B"  # the texts in a template
BERT_SINGLE = (("[CLS]", 0), (FIRST, 0), ("[SEP]", 0))
BERT_PAIR = (*BERT_SINGLE, (SECOND, 1), ("[SEP]", 1))


class Encoding(NamedTuple):
    """The tokens of one text, or of a pair.

    ids       int32 [T]: their numbers, from 0, as in vocab.txt
    offsets   int32 [T, 2]: where each begins and ends in its original text, in code points; (0, 0) of special tokens
    words     int32 [T]: the number of the word, in its text, that each is part of; -1 of special tokens
    """

    ids: Array
    offsets: Array
    words: Array


class Encodings(NamedTuple):
    """The tokens of several texts, one behind the other: those of text i are at [starts[i], starts[i + 1]).

    ids       int32 [sum]
    offsets   int32 [sum, 2]
    words     int32 [sum]
    starts    int64 [n + 1]
    """

    ids: Array
    offsets: Array
    words: Array
    starts: Array

    def text(self, index: int) -> Encoding:
        """The tokens of one text, as views."""
        begin, end = self.starts[index], self.starts[index + 1]
        return Encoding(self.ids[begin:end], self.offsets[begin:end], self.words[begin:end])


class Tokenizer:
    """A tokenizer: tokens by number, and how texts become them.

    tokens    by number, from 0; each once
    special   the tokens that play a part, as far as there are any: {"pad": "[PAD]", "unknown": ..., "cls": ...,
              "sep": ..., "mask": ...}
    single    what `encode` makes of a text: pairs of a token (or "$A", the text) and the number of its segment
    pair      the same of two texts, "$A" and "$B"
    """

    kind: ClassVar[str] = ""
    pad: int | None
    unknown: int | None
    cls: int | None
    sep: int | None
    mask: int | None

    def __init__(
        self,
        tokens: Iterable[str],
        *,
        special: Mapping[str, str] | None = None,
        single: Sequence[Sequence[Any]] = ((FIRST, 0),),
        pair: Sequence[Sequence[Any]] = ((FIRST, 0), (SECOND, 1)),
    ) -> None:
        self.vocabulary = tokens if isinstance(tokens, Vocabulary) else Vocabulary(tokens)
        self.tokens: Sequence[str] = self.vocabulary.names
        self.special = dict(special or {})
        if set(self.special) - set(SPECIAL):
            raise UsageError(f"special: {listed(set(self.special) - set(SPECIAL))}; parts are {', '.join(SPECIAL)}")
        for part in SPECIAL:
            setattr(self, part, self.number(self.special[part]) if part in self.special else None)
        self.single, self.pair = self._template(single, [FIRST]), self._template(pair, [FIRST, SECOND])

    def silent(self, ends: Sequence[int] = ()) -> tuple[int, ...]:
        """The numbers of the special tokens that are none of these ends, in order: no text has them, so none is written
        with them."""
        return tuple(sorted({self.number(token) for token in self.special.values()} - set(ends)))

    def number(self, token: str) -> int:
        """The number of a token; UsageError where it has none."""
        found = int(self.vocabulary.encode([token])[0]) - 1
        if found < 0:
            raise UsageError(f"the vocabulary of {len(self.tokens):,} tokens has no {token!r:.60}")
        return found

    def _needed(self, part: str, what: str) -> int:
        """The number of a special token; UsageError where it has none for `what`."""
        number: int | None = getattr(self, part)
        if number is None:
            raise UsageError(f"{self.kind}: special={{{part!r}: TOKEN}} says which token stands for {what}")
        return number

    def _template(self, given: Sequence[Sequence[Any]], texts: list[str]) -> tuple[tuple[str, int], ...]:
        found = tuple((str(token), int(segment)) for token, segment in given)
        if [token for token, _ in found if token in (FIRST, SECOND)] != texts:
            raise UsageError(f"the template {given!r:.200} must have {' and '.join(texts)} once each, in this order")
        for token, _ in found:
            if token not in texts:
                self.number(token)
        return found

    # -- texts to numbers ----------------------------------------------------------------------------------------------
    def encode_many(self, texts: Sequence[str]) -> Encodings:
        """The tokens of each text, without special tokens around them: the fast way."""
        raise NotImplementedError

    def encode(self, text: str, pair: str | None = None, *, max_length: int | None = None) -> tuple[Encoding, Array]:
        """The tokens of a text, or of two, with the special tokens that belong around them, and int32 [T]: the segment
        of each. With `max_length`, tokens are dropped from the end of the longer text first, until T is no more.
        """
        texts = [text] if pair is None else [text, pair]
        return self._framed(self.encode_many(texts), pair is not None, max_length)

    def encode_masked(self, text: str, *, max_length: int | None = None) -> tuple[Encoding, Array]:
        """`encode` of one text in which the token for masks may stand: each is one token, and a word."""
        mask = self._needed("mask", "a mask")
        sign = self.special["mask"]
        pieces = text.split(sign)
        made = self.encode_many(pieces)
        ids, offsets, words = list[Array](), list[Array](), list[Array]()
        place = word = 0
        for number, piece in enumerate(pieces):
            if number:
                ids.append(np.array([mask], np.int32))
                offsets.append(np.array([[place, place + len(sign)]], np.int32))
                words.append(np.array([word], np.int32))
                place, word = place + len(sign), word + 1
            own = made.text(number)
            ids.append(own.ids)
            offsets.append(own.offsets + np.int32(place))
            words.append(own.words + np.int32(word))
            place, word = place + len(piece), int(words[-1].max(initial=word - 1)) + 1
        starts = np.array([0, sum(map(len, ids))])
        joint = Encodings(np.concatenate(ids), np.concatenate(offsets), np.concatenate(words), starts)
        return self._framed(joint, False, max_length)

    def _framed(self, made: Encodings, is_pair: bool, max_length: int | None) -> tuple[Encoding, Array]:
        """The tokens of one text or two with the special ones around them, and the segment of each."""
        template = self.pair if is_pair else self.single
        counts = np.diff(made.starts).tolist()
        if max_length is not None:
            counts = cut(counts, max_length - (len(template) - len(counts)), max_length)
        parts: list[Encoding] = []
        segments = []
        for token, segment in template:
            if token in (FIRST, SECOND):
                which = int(token == SECOND)
                parts.append(Encoding(*(each[: counts[which]] for each in made.text(which))))
            else:
                parts.append(Encoding(*_special(self.number(token))))
            segments.append(np.full(len(parts[-1].ids), segment, np.int32))
        return Encoding(*(np.concatenate(each) for each in zip(*parts, strict=True))), np.concatenate(segments)

    def framed(self, texts: Sequence[str], *, max_length: int | None = None) -> Encodings:
        """The tokens of each text with the special tokens that belong around it; of longer ones than `max_length`,
        these included, the end is left out: `encode` for many texts."""
        made, names = self.encode_many(texts), [token for token, _ in self.single]
        first = names.index(FIRST)
        before, after = ([self.number(token) for token in part] for part in (names[:first], names[first + 1 :]))
        around, counts = len(before) + len(after), np.diff(made.starts)
        if max_length is not None:
            counts = np.minimum(counts, cut([max_length], max_length - around, max_length)[0])
        starts = np.concatenate([[0], np.cumsum(counts + around)])
        owner = np.repeat(np.arange(len(texts)), counts + around)
        place = np.arange(starts[-1]) - starts[owner] - len(before)
        inside = (place >= 0) & (place < counts[owner])
        at = (made.starts[owner] + place)[inside]
        ids, offsets = np.zeros(starts[-1], np.int32), np.zeros((starts[-1], 2), np.int32)
        words = np.full(starts[-1], -1, np.int32)
        ids[inside], offsets[inside], words[inside] = made.ids[at], made.offsets[at], made.words[at]
        for number, token in enumerate(before):
            ids[starts[:-1] + number] = token
        for number, token in enumerate(reversed(after), 1):
            ids[starts[1:] - number] = token
        return Encodings(ids, offsets, words, starts)

    def tokenize(self, text: str) -> list[str]:
        """The tokens of a text, without special tokens around them."""
        return [self.tokens[number] for number in self.encode_many([text]).ids.tolist()]

    # -- and back ------------------------------------------------------------------------------------------------------
    def decode(self, ids: Iterable[int]) -> str:
        """The text that these tokens stand for, as far as they tell; of special tokens with the unknown one alone."""
        left_out = self._left_out
        numbers = [int(number) for number in ids]
        for number in numbers:
            if not 0 <= number < len(self.tokens):
                raise DataError(f"number {number} is no token; they run from 0 to {len(self.tokens) - 1}")
        return self.joined([self.tokens[number] for number in numbers if number not in left_out])

    @cached_property
    def _left_out(self) -> set[int]:
        return {number for part in SPECIAL if part != "unknown" and (number := getattr(self, part)) is not None}

    def joined(self, tokens: Sequence[str]) -> str:
        """The text of these tokens."""
        raise NotImplementedError

    # -- bundles -------------------------------------------------------------------------------------------------------
    def settings(self) -> dict[str, Any]:
        """Plain settings of this kind: the arguments of its class besides tokens and arrays."""
        templates = {name: [list(each) for each in getattr(self, name)] for name in ("single", "pair")}
        return {"special": dict(self.special), **templates}

    def arrays(self) -> dict[str, Array]:
        """What of it is arrays, by the name of the argument."""
        return {}

    def state(self) -> tuple[dict[str, Any], dict[str, Vocabulary], dict[str, Array]]:
        """What `of` makes it again from: plain settings, vocabularies by name, constants by name."""
        return {"kind": self.kind, **self.settings()}, {"tokens": self.vocabulary}, self.arrays()

    @staticmethod
    def of(
        settings: Mapping[str, Any], vocabularies: Mapping[str, Vocabulary], constants: Mapping[str, Array]
    ) -> Tokenizer:
        """The tokenizer with this `state`; UsageError for what `state` never gives."""
        given = dict(settings)
        kind = given.pop("kind", None)
        if kind not in KINDS:
            raise UsageError(f"kind={kind!r:.60} is no tokenizer; there are {', '.join(KINDS)}")
        if "tokens" not in vocabularies:
            raise UsageError(f"a tokenizer needs the vocabulary 'tokens'; there are: {listed(vocabularies) or 'none'}")
        module, _, name = KINDS[kind].partition(":")
        found: type[Tokenizer] = getattr(importlib.import_module(module), name)
        try:
            return found(vocabularies["tokens"], **{**given, **constants})
        except TypeError as error:
            raise UsageError(f"tokenizer {kind}: {error}") from None


def cut(counts: Sequence[int], room: int, max_length: int) -> list[int]:
    """How many tokens of one or two texts stay, so that there are at most `room`: the longer one is cut first; of two
    of the same length the second keeps one more."""
    if room < 0:
        raise UsageError(f"max_length={max_length} is less than the special tokens need ({max_length - room})")
    if sum(counts) <= room:
        return list(counts)
    if len(counts) == 1:
        return [room]
    short = min(*counts, room // 2)
    return [room - short, short] if counts[0] > counts[1] else [short, room - short]


def added_tokens(tokenizer: Tokenizer, given: Sequence[Sequence[Any]] | None) -> list[tuple[str, bool, bool]]:
    """Tokens that are found in a text before all else, and whether each takes the white space before it and behind it;
    None: the special tokens, which take none."""
    if given is None:
        return [(token, False, False) for token in dict.fromkeys(tokenizer.special.values())]
    return [(str(token), bool(left), bool(right)) for token, left, right in given]


def joined(encodings: Sequence[tuple[Sequence[int], Sequence[Sequence[int]], Sequence[int]]]) -> Encodings:
    """`Encodings` of lists of numbers, offsets and words of each text."""
    starts = np.cumsum([0, *(len(ids) for ids, _, _ in encodings)], dtype=np.int64)
    ids, offsets, words = (
        np.array([value for each in encodings for value in each[part]], np.int32) for part in range(3)
    )
    return Encodings(ids, offsets.reshape(-1, 2), words, starts)


def _special(number: int) -> tuple[Array, Array, Array]:
    return np.array([number], np.int32), np.zeros((1, 2), np.int32), np.array([-1], np.int32)
