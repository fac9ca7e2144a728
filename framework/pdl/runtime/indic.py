"""Lines in scripts of India that write some vowels to the left of the consonants that they follow in speech and in
storage (क + ि is seen as ि + क): in logical order, as they are typed, stored and searched, and in visual order, as they
are seen from left to right, which is how nets read images.

After The Unicode Standard, chapters 12 and 13: such a vowel sign stands in front of its whole cluster of consonants,
which viramas join; in Tamil, and in Sinhala without a joiner, a virama is seen and joins nothing. A vowel that is
written on both sides has two parts.
"""

from __future__ import annotations

import re
import unicodedata

#: vowel signs to the left: Devanagari, Bengali, Gurmukhi, Gujarati, Oriya, Tamil, Malayalam, Sinhala
#: (Indic_Positional_Category=Left), all in the basic plane
LEFT = "\u093f\u094e\u09bf\u09c7\u09c8\u0a3f\u0abf\u0b47\u0bc6\u0bc7\u0bc8\u0d46\u0d47\u0d48\u0dd9\u0ddb"
#: vowel signs of two parts, the first of which stands to the left
SPLIT = "\u09cb\u09cc\u0b48\u0b4b\u0b4c\u0bca\u0bcb\u0bcc\u0d4a\u0d4b\u0d4c\u0dda\u0ddc\u0ddd\u0dde"
PARTS = {vowel: unicodedata.normalize("NFD", vowel) for vowel in SPLIT}

_CONSONANT = (
    "[\u0915-\u0939\u0958-\u095f\u0978-\u097f\u0995-\u09b9\u09dc-\u09df\u09f0\u09f1\u0a15-\u0a39\u0a59-\u0a5e"
    "\u0a95-\u0ab9\u0af9\u0b15-\u0b39\u0b5c-\u0b5f\u0b71\u0b95-\u0bb9\u0d15-\u0d3a\u0d7a-\u0d7f\u0d9a-\u0dc6]"
)
_NUKTA = "[\u093c\u09bc\u0a3c\u0abc\u0b3c]?"
_VIRAMA = "[\u094d\u09cd\u0a4d\u0acd\u0b4d\u0d4d][\u200c\u200d]?"
_TAMIL, _SINHALA = "(?<=\u0b95)\u0bcd(?=\u0bb7)", "\u0dca\u200d"  # in Tamil for kssa alone
_JOINED = f"(?:{_VIRAMA}|{_TAMIL}|{_SINHALA})"
_CLUSTER = f"{_CONSONANT}{_NUKTA}(?:{_JOINED}{_CONSONANT}{_NUKTA})*"
_TYPED = re.compile(f"({_CLUSTER})([{LEFT}{SPLIT}])")
_SEEN = re.compile(f"([{LEFT}])({_CLUSTER})")


def has_left_vowels(text: str) -> bool:
    """Whether a text has vowel signs that are written to the left of their consonants."""
    return not text.isascii() and any(c in LEFT or c in PARTS for c in text)


def visual(text: str) -> str:
    """The characters of a line in logical order as they are seen from left to right, as far as vowels go. Texts
    without such vowels stay as they are."""
    return _TYPED.sub(_to_the_left, text) if has_left_vowels(text) else text


def _to_the_left(found: re.Match[str]) -> str:
    cluster, vowel = found.groups()
    parts = PARTS.get(vowel, vowel)
    return parts[0] + cluster + parts[1:]


def logical(text: str) -> str:
    """The line in logical order that `visual` makes this one of, in Unicode's normal form C."""
    if not has_left_vowels(text):
        return text
    return unicodedata.normalize("NFC", _SEEN.sub(r"\2\1", text))
