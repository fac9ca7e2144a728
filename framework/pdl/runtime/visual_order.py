"""Lines in logical order, as they are typed, stored and searched, and in visual order, as they are seen from left to
right, which is how nets read images: scripts from right to left (`pdl.runtime.bidi`), and vowels that are written to
the left of what they follow (`pdl.runtime.indic`)."""

from __future__ import annotations

from pdl.runtime import bidi, indic


def differs(characters: str) -> bool:
    """Whether lines of these characters may have another visual than logical order."""
    return bidi.has_right_to_left(characters) or indic.has_left_vowels(characters)


def visual(text: str) -> str:
    """The characters of a line in logical order as they are seen from left to right."""
    return indic.visual(bidi.visual(text))


def logical(text: str) -> str:
    """The line in logical order that `visual` makes this one of, such as the answer of a net that reads images."""
    return bidi.logical(indic.logical(text))
