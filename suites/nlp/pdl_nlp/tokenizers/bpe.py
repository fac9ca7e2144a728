"""Byte-level BPE, as GPT-2, RoBERTa, Llama 3 and Qwen have it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, Literal
from unicodedata import is_normalized

import numpy as np

from pdl.dtype import Array
from pdl.errors import DataError, UsageError
from pdl.kernels import tokens as kernels
from pdl_nlp.tokenizers.base import Encoding, Encodings, Tokenizer, added_tokens
from pdl_nlp.tokenizers.normal import FORMS, Form, normalised
from pdl_nlp.tokenizers.unicode import classes

_SHOWN = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_HIDDEN = [byte for byte in range(256) if byte not in set(_SHOWN)]
ALPHABET = {**{byte: chr(byte) for byte in _SHOWN}, **{byte: chr(256 + i) for i, byte in enumerate(_HIDDEN)}}
"""How tokens write a byte: printable ones as themselves, others as letters from U+0100 on (the space as U+0120)."""
BYTES = {letter: byte for byte, letter in ALPHABET.items()}
Split = Literal["gpt2", "llama3", "qwen2"]
_LLAMA = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SPLITS: dict[str, Split] = {_LLAMA % "{1,3}": "llama3", _LLAMA % "": "qwen2"}
"""Regular expressions in files of HF's, and their names here; GPT-2's is part of HF's ByteLevel."""
_NUMBERS = {"gpt2": 0, "llama3": 3, "qwen2": 1}
"""How many numbers may stand together in a part; 0: any number, in GPT-2's expression."""


class ByteLevelBPE(Tokenizer):
    """Pairs of bytes merged in the order of training (Radford et al., "Language models are unsupervised multitask
    learners", 2019); equal to HF `tokenizers`.

    Texts are split by a regular expression, and each part, in UTF-8, is put together by rank. Nothing is unknown.
    A token that is part of a character has the position of the whole character.

    merges        int32 [M, 2]: the numbers of two tokens that are merged, in order of rank
    space_before  a space is put before a text that begins with none
    split         the regular expression by its name, one of `Split`, true for "gpt2"; false: each text is one part
    whole         a part that is a token is that token, whatever its merges make of it (HF's ignore_merges)
    trim          offsets leave out the spaces of tokens
    keep_first    but not the one space that the first token begins with
    normal        a form of Unicode that texts are brought into first, added tokens apart: one of `normal.FORMS`
    added         as of `pdl_nlp.tokenizers.WordPiece`
    """

    kind = "bpe"

    def __init__(
        self,
        tokens: Iterable[str],
        merges: Array,
        *,
        space_before: bool = False,
        split: Split | bool = True,
        whole: bool = False,
        trim: bool = True,
        keep_first: bool = False,
        normal: Form | None = None,
        added: Sequence[Sequence[Any]] | None = None,
        **common: Any,
    ) -> None:
        super().__init__(tokens, **common)
        if split not in (True, False, *_NUMBERS):
            raise UsageError(f"bpe: split={split!r:.40} must be true, false or one of {', '.join(_NUMBERS)}")
        self.space_before, self.split, self.whole = bool(space_before), split, bool(whole)
        self.trim, self.keep_first = bool(trim), bool(keep_first)
        self.added = added_tokens(self, added)
        if normal not in (None, *FORMS):
            raise UsageError(f"bpe: normal={normal!r:.40} must be one of {', '.join(FORMS)}")
        self.normal = normal
        self.merges = np.ascontiguousarray(merges, np.int32).reshape(-1, 2)
        n, find = len(self.tokens), {token: number for number, token in enumerate(self.tokens)}
        if self.merges.size and not 0 <= self.merges.min() <= self.merges.max() < n:
            raise UsageError(f"bpe: merges of tokens {self.merges.min()} to {self.merges.max()}; there are {n:,}")
        made = [find.get(self.tokens[a] + self.tokens[b], -1) for a, b in self.merges.tolist()]
        if -1 in made:
            a, b = self.merges[made.index(-1)]
            raise UsageError(f"bpe: {self.tokens[a]!r} and {self.tokens[b]!r} are merged to what is no token")
        absent = -1 if self.unknown is None else self.unknown
        space = ALPHABET[ord(" ")]
        strips = (str.lstrip, str.rstrip)
        left, right = ([len(token) - len(strip(token, space)) for token in self.tokens] for strip in strips)
        self._spaces = np.array(left, np.int32), np.array(right, np.int32)
        self._kernel = kernels.BytePair(
            classes(),
            np.array([find.get(ALPHABET[byte], absent) for byte in range(256)], np.int32),
            np.column_stack([self.merges, np.array(made, np.int32)]).astype(np.int32),
            *self._spaces,
            prefix=self.space_before,
            split=bool(self.split),
            numbers=_NUMBERS.get(str(self.split), 0),
            trim=self.trim and normal is None,
            keep=self.keep_first,
            added=[(token, find[token], left, right) for token, left, right in self.added],
            whole=self._parts(find) if self.whole else [],
        )

    @classmethod
    def read(cls, tokens: Sequence[str], merges: Iterable[Sequence[str]], **settings: Any) -> ByteLevelBPE:
        """From merges as pairs of tokens; DataError for one that names none."""
        find = {token: number for number, token in enumerate(tokens)}
        numbers: list[tuple[int, int]] = []
        for pair in merges:
            if len(pair) != 2 or pair[0] not in find or pair[1] not in find:
                raise DataError(f"merge {len(numbers)}, {' '.join(pair)!r:.60}, is not a pair of tokens")
            numbers.append((find[pair[0]], find[pair[1]]))
        return cls(tokens, np.array(numbers, np.int32).reshape(-1, 2), **settings)

    def encode_dropping(self, texts: Sequence[str], share: float, seeds: Array) -> Encodings:
        """`encode_many` with merges left out, each with probability `share` whenever it could be made: BPE-dropout
        (Provilkov, Emelianenko & Voita, arXiv 1910.13267), which shows a net in training the parts of words, too. A
        text has the same tokens whenever its seed, of uint64 [N], is the same. UsageError where texts are normalised.
        """
        if self.normal is not None:
            raise UsageError("bpe: merges are left out only of texts that are not normalised (normal=null)")
        return Encodings(*self._kernel.encode_dropping(texts, share, seeds))

    def encode_many(self, texts: Sequence[str]) -> Encodings:
        if self.normal is None:
            return Encodings(*self._kernel.encode(texts))
        given = [self._normalised(text) for text in texts]
        made = Encodings(*self._kernel.encode([text for text, _ in given]))
        for number, (_, places) in enumerate(given):
            own = made.text(number)
            if places is not None and len(places):
                begins, ends = np.minimum(own.offsets[:, 0], len(places) - 1), np.maximum(own.offsets[:, 1], 1) - 1
                own.offsets[:] = np.stack([places[begins, 0], places[ends, 1]], axis=1)
            if self.trim:
                self._trim(own)
        return made

    def _trim(self, found: Encoding) -> None:
        """Leave the spaces of tokens out of their offsets in the text as it was given, as the kernel does where nothing
        is normalised."""
        begins, ends = found.offsets.T
        left, right = (each[found.ids] for each in self._spaces)
        if self.keep_first:
            left = left - ((left > 0) & ((np.arange(len(left)) == 0) | (begins == 0)))
        begins = np.minimum(begins + left, ends)
        found.offsets[:] = np.stack([begins, np.maximum(ends - right, begins)], axis=1)

    def _normalised(self, text: str) -> tuple[str, Array | None]:
        """A text in the normal form, what stands between added tokens by itself; see `normal.normalised`."""
        assert self.normal is not None
        if is_normalized(self.normal, text):
            return text, None
        parts, places, at = list[str](), list[Array](), 0
        for part in self._apart.split(text):
            made, own = (part, None) if part in self._names else normalised(part, self.normal)
            begins = np.arange(len(made), dtype=np.int32)
            parts.append(made)
            places.append(at + (np.stack([begins, begins + 1], axis=1) if own is None else own))
            at += len(part)
        return "".join(parts), np.concatenate(places)

    def _parts(self, find: dict[str, int]) -> list[tuple[bytes, int]]:
        """The bytes of the tokens that parts of texts may be, all but the added ones."""
        own = (token for token in find.keys() - self._names if all(letter in BYTES for letter in token))
        return [(bytes(BYTES[letter] for letter in token), find[token]) for token in own]

    @cached_property
    def _names(self) -> set[str]:
        return {token for token, _, _ in self.added}

    @cached_property
    def _apart(self) -> re.Pattern[str]:
        """What splits a text at its added tokens, the longest first, and keeps them."""
        names = sorted(filter(None, self._names), key=len, reverse=True)
        return re.compile(f"({'|'.join(map(re.escape, names))})" if names else "(?!)")

    def joined(self, tokens: Sequence[str]) -> str:
        parts = (
            bytes(BYTES[letter] for letter in token) if all(letter in BYTES for letter in token) else token.encode()
            for token in tokens
        )
        return b"".join(parts).decode("utf-8", "replace")

    def settings(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in ("space_before", "split", "whole", "trim", "keep_first", "normal")}
        return {**own, "added": [list(each) for each in self.added], **super().settings()}

    def arrays(self) -> dict[str, Array]:
        return {"merges": self.merges}
