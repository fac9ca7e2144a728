"""Which characters a script has, from the Unicode data that Python carries: dictionaries of recognisers."""

from __future__ import annotations

import string
import unicodedata
from collections.abc import Iterator

from pdl.errors import UsageError
from pdl.runtime.bidi import has_right_to_left
from pdl.runtime.visual_order import logical as logical
from pdl.runtime.visual_order import visual as visual
from pdl.suites import suggest

#: first and last code points of the blocks whose letters and marks a script is made of (The Unicode Standard, chapter
#: "Code charts")
BLOCKS: dict[str, tuple[tuple[int, int], ...]] = {
    "latin": ((0x41, 0x5A), (0x61, 0x7A), (0xC0, 0x17F), (0x218, 0x21B), (0x1E9E, 0x1E9E)),
    "vietnamese": ((0x41, 0x5A), (0x61, 0x7A), (0xC0, 0xFF), (0x102, 0x103), (0x110, 0x111), (0x128, 0x129),
                   (0x168, 0x169), (0x1A0, 0x1A1), (0x1AF, 0x1B0), (0x1EA0, 0x1EF9)),
    "cyrillic": ((0x400, 0x45F), (0x490, 0x493), (0x49A, 0x49B), (0x4A2, 0x4A3), (0x4AE, 0x4B3), (0x4BA, 0x4BB),
                 (0x4D8, 0x4D9), (0x4E8, 0x4E9)),
    "greek": ((0x370, 0x3E1), (0x3F0, 0x3FF)),
    "armenian": ((0x530, 0x58F),),
    "georgian": ((0x10D0, 0x10FF),),
    "hebrew": ((0x5D0, 0x5EA),),
    "arabic": ((0x621, 0x655), (0x660, 0x671), (0x679, 0x67E), (0x686, 0x686), (0x688, 0x688), (0x691, 0x691),
               (0x698, 0x698), (0x6A9, 0x6AF), (0x6BA, 0x6BE), (0x6C1, 0x6C3), (0x6CC, 0x6CC), (0x6D2, 0x6D4)),
    "devanagari": ((0x900, 0x97F),),
    "bengali": ((0x980, 0x9FF),),
    "tamil": ((0xB80, 0xBFF),),
    "telugu": ((0xC00, 0xC7F),),
    "kannada": ((0xC80, 0xCFF),),
    "thai": ((0xE01, 0xE5B),),
    "kana": ((0x3041, 0x3096), (0x309D, 0x309E), (0x30A1, 0x30FA), (0x30FC, 0x30FE)),
}  # fmt: skip
#: scripts that are a part of a national standard: the codec of Python, and the names of the characters wanted
CODECS = {"han": ("gb2312", "CJK UNIFIED IDEOGRAPH"), "hangul": ("euc_kr", "HANGUL SYLLABLE")}
SHAPED = frozenset({"arabic", "devanagari", "bengali", "tamil", "telugu", "kannada", "thai"})
COMMON = string.digits + string.punctuation
PUNCTUATION = {
    "han": "，。、；：？！“”‘’（）《》—…·￥",  # noqa: RUF001
    "kana": "、。「」『』・〜",
    "arabic": "،؛؟",
    "devanagari": "।॥",
}
SCRIPTS = (*BLOCKS, *CODECS)


def characters_of(script: str) -> str:
    """The letters and marks of a script in Unicode's normal form C, sorted, behind digits and ASCII's punctuation.

    han has GB 2312's 6,763 characters, hangul the 2,350 syllables of KS X 1001. UsageError for a script that is not
    known.
    """
    if script not in SCRIPTS:
        raise UsageError(f"{script!r} is no script; known are {', '.join(SCRIPTS)}{suggest(script, SCRIPTS)}")
    found = set(_of_codec(*CODECS[script]) if script in CODECS else _of_blocks(BLOCKS[script]))
    found |= set(PUNCTUATION.get(script, ""))
    return COMMON + "".join(sorted(found - set(COMMON)))


def _of_blocks(blocks: tuple[tuple[int, int], ...]) -> Iterator[str]:
    for first, last in blocks:
        for code in range(first, last + 1):
            character = chr(code)
            kept = unicodedata.category(character)[0] in "LMNP" and unicodedata.normalize("NFC", character) == character
            if kept:
                yield character


def _of_codec(codec: str, name: str) -> Iterator[str]:
    """The characters of a two-byte national standard (rows and cells from 0xA1 to 0xFE) whose names begin so."""
    for row in range(0xA1, 0xFF):
        for cell in range(0xA1, 0xFF):
            character = bytes((row, cell)).decode(codec, errors="ignore")
            if len(character) == 1 and unicodedata.name(character, "").startswith(name):
                yield character


def needs_shaping(text: str) -> bool:
    """Whether a text has letters that join, stack or change places (`SHAPED`, and all that is written from right to
    left), so that it has to be drawn by HarfBuzz."""
    return any(_is_shaped(c) for c in set(text)) or has_right_to_left(text)


def _is_shaped(character: str) -> bool:
    code = ord(character)
    return any(first <= code <= last for script in SHAPED for first, last in BLOCKS[script])


def direction(text: str) -> str:
    """ "rtl" for a line with letters that are written from right to left, as `visual` reads it; else "ltr"."""
    return "rtl" if has_right_to_left(text) else "ltr"


def is_right_to_left(text: str) -> bool:
    """Whether the first letter with a direction is written from right to left (the Unicode Bidirectional Algorithm's
    rule P2)."""
    strong = (unicodedata.bidirectional(c) for c in text)
    return next((kind in ("R", "AL") for kind in strong if kind in ("L", "R", "AL")), False)
