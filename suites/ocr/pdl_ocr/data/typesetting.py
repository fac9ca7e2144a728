"""Words set on pages: where each stands, in which order it is read, before anything is drawn."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Literal, Protocol

import numpy as np

from pdl.data.randomness import SampleRandom
from pdl_ocr.data.fonts import advance, extent, opened
from pdl_ocr.scripts import visual

Align = Literal["start", "middle", "end", "justified"]
Box = tuple[int, int, int, int]

INK, ACCENT, REVERSED = range(3)  # tones: of most letters, of some headings, and that of paper on a panel of ink
MEASURES = 4096  # of words that are kept
PAD = 0.06  # of the letters' size between ink and the polygon around it
WIDEST = 2.5  # spaces of a justified line, in usual ones
ALIKE = str.maketrans(")]}>", "([{<")  # brackets are mirrored where lines are written from right to left


@dataclass(frozen=True)
class Style:
    """A font, the size of its letters in pixels, and their tone."""

    path: Path
    size: int
    tone: int = INK


@dataclass(frozen=True)
class Word:
    """A word and the box of its ink: left, top, right, bottom in pixels of the line before it is turned."""

    text: str
    style: Style
    box: Box


@dataclass(frozen=True)
class Line:
    """Words in the order in which they are read, turned by `angle` (radians, clockwise as seen) about the middle."""

    words: tuple[Word, ...]
    spaced: bool
    angle: float = 0.0

    @property
    def text(self) -> str:
        """What it says."""
        return (" " if self.spaced else "").join(word.text for word in self.words)

    @property
    def box(self) -> Box:
        """Around the ink of all words, before the line is turned."""
        return hull([word.box for word in self.words])

    def polygon(self, word: Word | None = None) -> np.ndarray:
        """float64 [4, 2]: around the line, or one of its words, clockwise from the upper left corner."""
        left, top, right, bottom = self.box if word is None else word.box
        pad = max(1.0, PAD * max(each.style.size for each in (self.words if word is None else [word])))
        corners = np.array([[left, top], [right, top], [right, bottom], [left, bottom]], np.float64)
        corners += pad * np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]])
        return corners if not self.angle else (corners - self.middle) @ turn(self.angle).T + self.middle

    def moved(self, right: int, down: int) -> Line:
        """The line so many pixels further right and down."""
        return replace(self, words=tuple(replace(word, box=shifted(word.box, right, down)) for word in self.words))

    @property
    def middle(self) -> np.ndarray:
        """float64 [2]: what the line is turned about."""
        left, top, right, bottom = self.box
        return np.array([left + right, top + bottom]) / 2


@dataclass(frozen=True)
class Rule:
    """A rectangle of ink: a stroke, dashed with a period of `dash` pixels where that is not 0, or a panel."""

    box: Box
    dash: int = 0


class Source(Protocol):
    """Where words come from."""

    shaped: bool

    def writes(self, path: Path, text: str) -> bool:
        """Whether a font has the characters of a text, and all of them are wanted."""

    def word(self, path: Path, rng: SampleRandom) -> str:
        """A word that a font can write."""

    def number(self, path: Path, rng: SampleRandom) -> str:
        """An amount, a date or the like; a word where the font or the characters have no digits."""

    def font(self, rng: SampleRandom) -> Path:
        """A font."""


@dataclass
class Sheet:
    """A page of `height` x `width` pixels while words are set on it.

    Places are given from the side on which lines begin: on pages that are read from right to left they are mirrored.
    Words of scripts without spaces are set without a gap, as one.
    """

    source: Source
    rng: SampleRandom
    height: int
    width: int
    right_to_left: bool = False
    spaced: bool = True
    lines: list[Line] = field(default_factory=list)
    rules: list[Rule] = field(default_factory=list)

    def row(
        self, words: Sequence[str], style: Style, span: tuple[float, float], top: float, align: Align = "start"
    ) -> Line | None:
        """Set words on one line below `top` within a span of the page; None (and nothing is set) where ink would leave
        the page or the words do not fit the span."""
        line = self.laid(words, style, span, top, align)
        if line is None or not self.holds(line):
            return None
        self.lines.append(line)
        return line

    def laid(
        self, words: Sequence[str], style: Style, span: tuple[float, float], top: float, align: Align = "start"
    ) -> Line | None:
        """As `row`, but not set on the page, and wherever it is."""
        measures = [self.measured(word, style) for word in words]
        lengths = [length for length, _ in measures]
        free, gap = span[1] - span[0] - sum(lengths), self.gap(style)
        loose = free / max(len(words) - 1, 1)
        gap = loose if align == "justified" and len(words) > 1 and gap <= loose <= WIDEST * gap else gap
        free -= gap * (len(words) - 1)
        if not words or free < -1:
            return None
        at = span[0] + free * {"middle": 0.5, "end": 1.0}.get(align, 0.0)
        order = _seen(words) if self.right_to_left else range(len(words))
        set_ = dict[int, Word]()
        for number in order:
            x = self.width - at - lengths[number] if self.right_to_left else at
            box = measures[number][1]
            left, high = round(x), round(top)
            set_[number] = Word(words[number], style, shifted(box, left, high))
            at += lengths[number] + gap
        return Line(tuple(set_[number] for number in range(len(words))), self.spaced)

    def holds(self, line: Line) -> bool:
        """Whether all of a line is on the page."""
        corners = line.polygon()
        return bool((corners >= 0).all() and (corners <= (self.width, self.height)).all())

    def block(
        self,
        style: Style,
        span: tuple[float, float],
        top: float,
        bottom: float,
        *,
        rows: int,
        pitch: float,
        align: Align = "start",
        indent: float = 0.0,
    ) -> float:
        """Set a paragraph of up to so many rows between `top` and `bottom`, the last one shorter; where the next
        begins.

        pitch  from a row to the next, in heights of the font
        """
        step = pitch * self.line_height(style)
        for row in range(rows):
            if top + step > bottom:
                break
            inner = (span[0] + (indent if row == 0 else 0), span[1])
            last = row == rows - 1
            words = self.filled(style, (inner[1] - inner[0]) * (self.rng.uniform(0.3, 1) if last and rows > 1 else 1))
            self.row(words, style, inner, top, "start" if last and align == "justified" else align)
            top += step
        return top

    def filled(self, style: Style, width: float, most: int = 99) -> list[str]:
        """As many words as fit a width, at most `most`; at least one, cut off where it has to be."""
        gap, made, used = self.gap(style), list[str](), 0.0
        while len(made) < most:
            word = self.source.word(style.path, self.rng)
            length = self.measured(word, style)[0]
            if made and used + gap + length > width:
                break
            made.append(word)
            used += length + gap
        if not self.spaced:
            made = ["".join(made)]
        while len(made[0]) > 1 and len(made) == 1 and self.measured(made[0], style)[0] > width:
            made[0] = made[0][:-1]
        return made

    def measured(self, word: str, style: Style) -> tuple[float, Box]:
        """How far the pen goes while a word is written, and the box of its ink from the pen on."""
        return _measured(word, style.path, style.size, self.source.shaped)

    def gap(self, style: Style) -> float:
        """Pixels between words."""
        return 0.28 * style.size if self.spaced else 0.0

    def line_height(self, style: Style) -> int:
        """Pixels from the tops of a font's letters to the feet of its letters."""
        return int(sum(opened(style.path, style.size, self.source.shaped).getmetrics()))

    def style(self, path: Path, size: float, tone: int = INK) -> Style:
        """A style, of an even size: fonts are opened once for each."""
        return Style(path, max(8, int(size) // 2 * 2), tone)

    def stroke(self, span: tuple[float, float], top: float, thick: int, dash: int = 0) -> None:
        """A rule across a span of the page, or a panel."""
        left, right = (self.width - span[1], self.width - span[0]) if self.right_to_left else span
        high = round(top)
        box = (max(0, round(left)), max(0, high), min(self.width, round(right)), min(self.height, high + thick))
        if box[0] < box[2] and box[1] < box[3]:
            self.rules.append(Rule(box, dash))


@lru_cache(maxsize=MEASURES)
def _measured(word: str, path: Path, size: int, shaped: bool) -> tuple[float, Box]:
    font = opened(path, size, shaped)
    return advance(font, word), extent(font, word)


def shifted(box: Box, right: int, down: int) -> Box:
    """A box so many pixels further right and down."""
    return box[0] + right, box[1] + down, box[2] + right, box[3] + down


def hull(boxes: Sequence[Box]) -> Box:
    """The box around boxes."""
    left, top, right, bottom = zip(*boxes, strict=True)
    return min(left), min(top), max(right), max(bottom)


def turn(angle: float) -> np.ndarray:
    """float64 [2, 2]: the matrix that turns points by an angle in radians, clockwise as seen (y points down)."""
    return np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])


def _seen(words: Sequence[str]) -> list[int]:
    """The numbers of the words of a line from right to left, from its right end to its left one, by the Unicode
    Bidirectional Algorithm: words from left to right that follow each other keep their order."""
    waiting = dict[str, list[int]]()
    for number, word in enumerate(words):
        waiting.setdefault(_letters(word), []).append(number)
    seen = [waiting.get(_letters(word)) for word in reversed(visual(" ".join(words)).split(" "))]
    found = [numbers.pop(0) for numbers in seen if numbers]
    return found if len(found) == len(words) and len(seen) == len(words) else list(range(len(words)))


def _letters(word: str) -> str:
    return "".join(sorted(word.translate(ALIKE)))


Layout = Callable[[Sheet, tuple[int, int]], None]
"""Sets a page with words, of sizes from a least to a most."""
