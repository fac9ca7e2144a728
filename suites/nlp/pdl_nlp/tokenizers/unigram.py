"""Unigram models (Kudo, arXiv 1804.10959) with the parts that HF's tokenizer.json gives them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from pdl.dtype import Array
from pdl.errors import UsageError
from pdl_nlp.tokenizers.base import Encodings, Tokenizer, added_tokens, joined
from pdl_nlp.tokenizers.normal import FORMS, Form, normalised

Prepend: TypeAlias = Literal["always", "first", "never"]
SPACE = "\u2581"
"""How pieces write a space."""
WORSE = 10.0  # the score of what is unknown, below the least of a piece
KEPT = 1 << 16  # words whose pieces are kept
_SURROGATES = re.compile("[\ud800-\udfff]")
_WHITE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
"""Unicode's white space; Python counts U+001C to U+001F, too."""
_BYTE = re.compile("<0x([0-9A-F]{2})>")
Piece: TypeAlias = tuple[int, int, int]
"""The number of a token, and where it begins and ends in its word."""


class Unigram(Tokenizer):
    """The pieces of a word whose scores have the greatest sum, by Viterbi's algorithm; of equal sums that whose last
    piece begins first. Equal to HF `tokenizers`.

    Spaces become `space`, a word begins with one, and a text may get one before it. Characters that no piece has score
    10 less than the least piece; those in a row are one unknown token.

    scores         float64 [tokens]: log p of each; NaN of added ones, which are no pieces
    space          what stands for a space
    prepend        whether one is put before a text (and what follows an added token) that begins with none: "always",
                   "first" (a text alone) or "never"
    split          words are taken by themselves; else the text is one
    byte_fallback  unknown characters become their bytes, tokens <0x00> to <0xFF>, where there are all of these
    normal         a form of Unicode that texts are brought into first, added tokens apart: one of `normal.FORMS`
    added          as of `pdl_nlp.tokenizers.WordPiece`
    """

    kind = "unigram"

    def __init__(
        self,
        tokens: Iterable[str],
        scores: Array,
        *,
        space: str = SPACE,
        prepend: Prepend = "always",
        split: bool = True,
        byte_fallback: bool = False,
        normal: Form | None = None,
        added: Sequence[Sequence[Any]] | None = None,
        **common: Any,
    ) -> None:
        super().__init__(tokens, **common)
        self.scores = np.ascontiguousarray(scores, np.float64)
        if self.scores.shape != (len(self.tokens),) or not np.isfinite(self.scores[~np.isnan(self.scores)]).all():
            raise UsageError(f"unigram: {self.scores.shape} scores, expected one, finite, for each of the tokens")
        if prepend not in get_args(Prepend) or normal not in (None, *FORMS) or len(space) != 1:
            given = f"prepend={prepend!r:.20}, normal={normal!r:.20}, space={space!r:.20}"
            raise UsageError(f"unigram: {given}: one of these is not known")
        self.space, self.prepend, self.split, self.normal = space, prepend, bool(split), normal
        self.byte_fallback, self.added = bool(byte_fallback), added_tokens(self, added)
        self._unknown = self._needed("unknown", "what no piece has")
        self._find = {token: number for number, token in enumerate(self.tokens)}
        pieces = [number for number in np.flatnonzero(~np.isnan(self.scores)).tolist() if self.tokens[number]]
        self._pieces = {self.tokens[number]: (number, float(self.scores[number])) for number in pieces}
        self._longest = dict[str, int]()
        for token in self._pieces:
            self._longest[token[0]] = max(self._longest.get(token[0], 0), len(token))
        self._worst = min((score for _, score in self._pieces.values()), default=0.0) - WORSE
        self._kept = dict[str, list[Piece]]()
        self._bytes = [self._find.get(f"<0x{byte:02X}>", -1) for byte in range(256)]
        self._flags = {token: (left, right) for token, left, right in self.added if token}
        names = sorted(self._flags, key=len, reverse=True)
        self._apart = re.compile("|".join(map(re.escape, names)) if names else "(?!)")
        self._word = re.compile(f"{re.escape(space)}[^{re.escape(space)}]*|[^{re.escape(space)}]+")

    def encode_many(self, texts: Sequence[str]) -> Encodings:
        return joined([self._encoded(_SURROGATES.sub("\ufffd", text)) for text in texts])

    def _encoded(self, text: str) -> tuple[list[int], list[tuple[int, int]], list[int]]:
        ids, offsets, words, word = list[int](), list[tuple[int, int]](), list[int](), 0
        for begin, end, number in self._chunks(text):
            if number is not None:
                ids.append(number)
                offsets.append((begin, end))
                words.append(word)
                word += 1
                continue
            found, places = self._prepared(text[begin:end], begin)
            for match in self._word.finditer(found) if self.split else re.finditer("(?s).+", found):
                at = match.start()
                for one, first, last in self._of_word(match[0]):
                    ids.append(one)
                    offsets.append((places[at + first][0], places[at + last - 1][1]))
                    words.append(word)
                word += 1
        return ids, offsets, words

    def _chunks(self, text: str) -> Iterator[tuple[int, int, int | None]]:
        """Parts of a text, and the number of those that are added tokens."""
        at = 0
        for match in self._apart.finditer(text):
            left, right = self._flags[match[0]]
            begin, end = match.span()
            if begin < at:  # in the white space that the one before it took
                continue
            begin -= len(text[at:begin]) - len(text[at:begin].rstrip(_WHITE)) if left else 0
            end += len(text[end:]) - len(text[end:].lstrip(_WHITE)) if right else 0
            if at < begin:
                yield at, begin, None
            yield begin, end, self._find[match[0]]
            at = end
        if at < len(text):
            yield at, len(text), None

    def _prepared(self, text: str, begin: int) -> tuple[str, list[tuple[int, int]]]:
        """A part of a text that begins there: in its normal form with spaces as pieces write them, and where in the
        text each of its code points is from."""
        found, own = (text, None) if self.normal is None else normalised(text, self.normal)
        if own is None:
            places = [(at, at + 1) for at in range(begin, begin + len(found))]
        else:
            places = [(begin + first, begin + last) for first, last in own.tolist()]
        found = found.replace(" ", self.space)
        wanted = self.prepend == "always" or (self.prepend == "first" and begin == 0)
        if wanted and found and not found.startswith(self.space):
            return self.space + found, [places[0], *places]
        return found, places

    def _of_word(self, word: str) -> list[Piece]:
        """The tokens of a word."""
        found = self._kept.get(word)
        if found is None:
            found = list(self._tokens(word))
            if len(self._kept) < KEPT and len(word) < 64:
                self._kept[word] = found
        return found

    def _tokens(self, word: str) -> Iterator[Piece]:
        for begin, end in self._parts(word):
            number = self._find.get(word[begin:end])
            if number is not None:
                yield number, begin, end
                continue
            raw = [self._bytes[byte] for byte in word[begin:end].encode()] if self.byte_fallback else [-1]
            for each in raw if min(raw) >= 0 else [self._unknown]:
                yield each, begin, end

    def _parts(self, word: str) -> list[tuple[int, int]]:
        """Where the pieces of a word are; what is unknown in a row as one."""
        size, pieces, unknown = len(word), self._pieces, self._unknown
        best = [0.0] + [-np.inf] * size
        before, numbers = [-1] * (size + 1), [-1] * (size + 1)
        for begin in range(size):
            here, alone = best[begin], False
            for end in range(begin + 1, min(begin + self._longest.get(word[begin], 0), size) + 1):
                piece = pieces.get(word[begin:end])
                if piece is None:
                    continue
                alone = alone or end == begin + 1
                if before[end] < 0 or here + piece[1] > best[end]:
                    best[end], before[end], numbers[end] = here + piece[1], begin, piece[0]
            if not alone and (before[begin + 1] < 0 or here + self._worst > best[begin + 1]):
                best[begin + 1], before[begin + 1], numbers[begin + 1] = here + self._worst, begin, unknown
        found, end, run = list[tuple[int, int]](), size, False
        while end > 0:
            begin = before[end]
            if numbers[end] == unknown and run:
                found[-1] = begin, found[-1][1]
            else:
                found.append((begin, end))
            run, end = numbers[end] == unknown, begin
        return found[::-1]

    def joined(self, tokens: Sequence[str]) -> str:
        parts, raw = list[str](), bytearray()
        for number, token in enumerate([*tokens, ""]):
            if self.byte_fallback and (match := _BYTE.fullmatch(token)):
                raw.append(int(match[1], 16))
                continue
            try:
                parts.append(raw.decode())
            except UnicodeDecodeError:
                parts.append("\ufffd" * len(raw))
            raw.clear()
            first = number == 0 and self.prepend != "never"
            parts.append(token.replace(self.space, "" if first else " "))
        return "".join(parts)

    def settings(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in ("space", "prepend", "split", "byte_fallback", "normal")}
        return {**own, "added": [list(each) for each in self.added], **super().settings()}

    def arrays(self) -> dict[str, Array]:
        return {"scores": self.scores}
