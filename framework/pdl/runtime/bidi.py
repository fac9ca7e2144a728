"""Lines with letters that are written from right to left: in logical order, as they are typed, stored and searched, and
in visual order, as they are seen from left to right, which is how nets read images.

The Unicode Bidirectional Algorithm (UAX #9) of one line in a paragraph from right to left. Directional formatting
characters have no effect: they and all that is invisible stay behind the character that they follow.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from itertools import combinations, groupby
from unicodedata import bidirectional, mirrored

RIGHT_TO_LEFT = frozenset({"R", "AL"})
INVISIBLE = frozenset({"BN", "LRE", "LRO", "RLE", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"})
NEUTRAL = frozenset({"B", "S", "WS", "ON"})
NUMBERS = frozenset({"EN", "AN"})
SIDES = (("LEFT", "RIGHT"), ("LESS-THAN", "GREATER-THAN"))
MOST_OPEN = 63  # brackets within brackets (BD16)
NUMBER = re.compile(r"[^\w\s()\[\]{}<>]*(?:\d+[^\w\s()\[\]{}<>]*)+")
DIGITS = re.compile(r"\d+(?:[.,:/]\d+)*|.")
MOST_TURNED = 6  # numbers of a line, so at most 64 orders


def has_right_to_left(text: str) -> bool:
    """Whether a text has letters that are written from right to left."""
    return not text.isascii() and any(bidirectional(c) in RIGHT_TO_LEFT for c in text)


def visual(text: str) -> str:
    """The characters of a line in logical order as they are seen from left to right, brackets mirrored, each mark
    behind the letter that it stands on. Texts without letters from right to left stay as they are."""
    if not has_right_to_left(text):
        return text
    seen = list[str]()
    for forward, group in groupby(_placed(text), key=lambda piece: piece[1]):
        pieces = [piece for piece, _ in group]
        seen += reversed(pieces) if forward else map(_mirrored, pieces)
    return "".join(reversed(seen))


def logical(text: str) -> str:
    """The line in logical order that `visual` makes this one of, such as the answer of a net that reads images.

    Reordering undoes itself, but for numbers with signs ("50%", "3-4"): these are turned around behind Arabic letters
    and not behind Hebrew ones or at the beginning. So the first few are tried both ways, and what leads back is taken.
    Some lines look alike and cannot be told apart: a number before a Latin word, and the same number behind it.
    """
    straight = visual(text)
    if visual(straight) == text:
        return straight
    numbers = [m.span() for m in NUMBER.finditer(straight)][:MOST_TURNED]
    tried = (_turned(straight, chosen) for n in range(1, len(numbers) + 1) for chosen in combinations(numbers, n))
    return next((each for each in tried if visual(each) == text), straight)


def _turned(text: str, spans: tuple[tuple[int, int], ...]) -> str:
    """The text with the digits and signs of these numbers in reverse order, each run of digits as it is."""
    for begin, end in spans:
        text = text[:begin] + "".join(reversed(DIGITS.findall(text[begin:end]))) + text[end:]
    return text


# -- the algorithm -----------------------------------------------------------------------------------------------------
def _placed(text: str) -> Iterator[tuple[str, bool]]:
    """Each character with what stands on it or follows it unseen, and whether it goes from left to right (level 2)."""
    shown = [c for c in text if bidirectional(c) not in INVISIBLE]
    kinds = _resolved(shown)
    levels = iter([kind != "R" for kind in kinds])
    piece, forward = "", False
    for c in text:
        if bidirectional(c) in INVISIBLE:
            piece += c
            continue
        level = next(levels)
        if piece and bidirectional(c) == "NSM" and level == forward:
            piece += c
            continue
        if piece:
            yield piece, forward
        piece, forward = c, level
    yield piece, forward


def _resolved(text: list[str]) -> list[str]:
    """The direction of each character: R, or one of L, EN and AN, which go from left to right."""
    kinds = [bidirectional(c) or "L" for c in text]
    given = kinds.copy()
    _weak(kinds)
    _brackets(text, kinds, given)
    _neutral(kinds)
    for i in range(len(kinds) - 1, -1, -1):  # L1: white space at the end, and in front of tabs
        if given[i] in ("S", "B") or (given[i] == "WS" and (i + 1 == len(kinds) or given[i + 1] in ("S", "B", "end"))):
            kinds[i], given[i] = "R", "end"
    return kinds


def _weak(kinds: list[str]) -> None:
    """Rules W1 to W7: marks, numbers, and the signs in and around these."""
    for i, kind in enumerate(kinds):
        if kind == "NSM":
            kinds[i] = kinds[i - 1] if i else "R"
    strong = "R"
    for i, kind in enumerate(kinds):
        if kind in ("L", "R", "AL"):
            strong = kind
        elif kind == "EN" and strong == "AL":
            kinds[i] = "AN"
    kinds[:] = ["R" if kind == "AL" else kind for kind in kinds]
    for i in range(1, len(kinds) - 1):
        before, kind, after = kinds[i - 1 : i + 2]
        if before == after and ((kind == "ES" and before == "EN") or (kind == "CS" and before in NUMBERS)):
            kinds[i] = before
    at = 0
    for kind, group in groupby(kinds.copy()):
        end = at + len(list(group))
        if kind == "ET":
            near = "EN" in (kinds[at - 1] if at else "", kinds[end] if end < len(kinds) else "")
            kinds[at:end] = ["EN" if near else "ON"] * (end - at)
        at = end
    strong = "R"
    for i, kind in enumerate(kinds):
        if kind in ("ES", "CS"):
            kinds[i] = "ON"
        elif kind in ("L", "R"):
            strong = kind
        elif kind == "EN" and strong == "L":
            kinds[i] = "L"


def _brackets(text: list[str], kinds: list[str], given: list[str]) -> None:
    """Rule N0: both brackets of a pair go one way."""
    for begin, end in _pairs(text, kinds):
        inside = {"R" if kind in NUMBERS else kind for kind in kinds[begin + 1 : end]} & {"L", "R"}
        if not inside:
            continue
        way = "R"
        if inside == {"L"}:
            before = (kind for kind in reversed(kinds[:begin]) if kind in ("L", "R", "EN", "AN"))
            way = "L" if next(before, "R") == "L" else "R"
        for at in (begin, end):
            kinds[at] = way
            while (at := at + 1) < len(kinds) and given[at] == "NSM":
                kinds[at] = way


def _pairs(text: list[str], kinds: list[str]) -> list[tuple[int, int]]:
    """The places of the brackets that belong together (BD16), in the order of their beginnings."""
    found, opened = list[tuple[int, int]](), list[tuple[str, int]]()
    for i, (c, kind) in enumerate(zip(text, kinds, strict=True)):
        category = unicodedata.category(c)
        if kind != "ON" or category not in ("Ps", "Pe") or _mirrored(c) == c:
            continue
        if category == "Ps":
            if len(opened) == MOST_OPEN:
                return []
            opened.append((_mirrored(c), i))
            continue
        places = [place for place, (closing, _) in enumerate(opened) if closing == c]
        if places:
            found.append((opened[places[-1]][1], i))
            del opened[places[-1] :]
    return sorted(found)


def _neutral(kinds: list[str]) -> None:
    """Rules N1 and N2: what has no direction goes from left to right only between letters that do."""
    at, before = 0, "R"
    for neutral, group in groupby([kind in NEUTRAL for kind in kinds]):
        end = at + len(list(group))
        if neutral:
            after = kinds[end] if end < len(kinds) else "R"
            kinds[at:end] = ["L" if before == after == "L" else "R"] * (end - at)
        before, at = kinds[end - 1], end


@lru_cache(maxsize=4096)
def _mirrored(character: str) -> str:
    """The character that looks like this one in a mirror, known by its name (LEFT PARENTHESIS, RIGHT PARENTHESIS);
    itself where there is none, and of a piece with marks the same of its first character."""
    first = character[:1]
    if not first or not mirrored(first):
        return character
    name = unicodedata.name(first, "")
    for one, other in SIDES:
        swapped = name.replace(one, "\0").replace(other, one).replace("\0", other)
        if swapped != name:
            try:
                return unicodedata.lookup(swapped) + character[1:]
            except KeyError:
                continue
    return character
