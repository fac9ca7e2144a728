"""Pages of text that are drawn: any fonts, any words, and where each line or word is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

import cv2
import numpy as np

from pdl.data.dataset import Sample
from pdl.data.randomness import SampleRandom
from pdl.errors import ConfigError
from pdl.hints import Range
from pdl_ocr.data.drawn import DIGITS, TRIES, Drawn, Split
from pdl_ocr.data.fonts import ink, letters_of, opened
from pdl_ocr.data.layouts import LAYOUTS, shape_of
from pdl_ocr.data.paper import BEHIND, CONTRAST, LUMA, colours, legible, printed, textured
from pdl_ocr.data.strings import is_mark, script_of
from pdl_ocr.data.typesetting import Line, Rule, Sheet, turn
from pdl_ocr.scripts import has_right_to_left

PLANNED = 64  # pages whose lines are kept in memory
LENGTHS = (1, 30)  # characters of a word
PLAIN = 0.6  # the share of pages that are nearly black on nearly white
SPACELESS = frozenset({"CJK", "HIRAGANA", "KATAKANA", "THAI"})
#: a 9 stands for any digit
NUMBERS = ("9", "99", "999", "9.99", "99.99", "999.99", "9,999.99", "9.999,99", "99/99/9999", "9999-99-99", "99:99",
           "99%", "$9.99", "$99.99", "-9.99", "#99999", "(999)", "9 x 9.99", "9999999999")  # fmt: skip


@dataclass(frozen=True)
class Plan:
    """What stands on a page: lines in reading order, and rules."""

    height: int
    width: int
    lines: list[Line]
    rules: list[Rule]


class SyntheticPages(Drawn):
    """Pages drawn with fonts, samples as those of `TextPages` ({"image": uint8 [H, W, 3], "points": float32 [Q, 2],
    "corners": int64 [n], "ignored": bool [n]}), functions of (seed, split, i): articles of one to three columns with
    headings, forms and receipts with labels, amounts and tables, signs of a few large words that are turned. Polygons
    are rectangles a little larger than the ink; lines are in reading order. Distortions are left to
    `pdl_ocr.data.transforms`, which draw anew each epoch.

    fonts        font files: a folder (at any depth), a pattern, a path, or several of them; each family is drawn with
                 as often, however many fonts it has
    texts        a text file, UTF-8: a list of words or a corpus, whose words pages are filled with; None: words of
                 random characters
    characters   that pages may have, or the name of a script (`pdl_ocr.scripts`): words with others are left out; None:
                 those of the texts
    count        pages of the split
    split        train, val or test: other pages of the same kind
    boxes        lines: each cell or line of a column is one; words: each word is
    layouts      which there are, in equal shares: article, form, sign
    complete     the least share of the letters (and marks) among `characters` that a font must have; a folder may hold
                 fonts of other scripts, too; 0: any
    unseen       the share of the families of fonts, by a hash of their names, with which val and test are drawn and
                 train is not; 0: all fonts for all splits
    cases        the share of words that are written in capitals, with a capital first, or in small letters, rather than
                 as they stand
    numbers      the share of words that a number takes the place of
    marks        the share of words that a punctuation mark follows
    height       pixels of the letters' size in running text, from a least to a most; headings and signs are larger
    side         pixels of a page's longer side, from a least to a most
    backgrounds  a folder of pictures without text, parts of which lie behind half of the pages, their grey levels drawn
                 together as far as ink needs it to be read
    seed         of all draws
    """

    def __init__(
        self,
        fonts: str | Path | Sequence[str],
        *,
        texts: str | Path | None = None,
        characters: str | None = None,
        count: Annotated[int, Range(1)] = 10_000,
        split: Split = "train",
        boxes: Literal["lines", "words"] = "lines",
        layouts: Sequence[Literal["article", "form", "sign"]] = ("article", "form", "sign"),
        complete: Annotated[float, Range(0, 1)] = 0.0,
        unseen: Annotated[float, Range(0, below=1)] = 0.0,
        cases: Annotated[float, Range(0, 1)] = 0.3,
        numbers: Annotated[float, Range(0, 1)] = 0.05,
        marks: Annotated[float, Range(0, 1)] = 0.1,
        height: Sequence[Annotated[int, Range(8)]] = (12, 32),
        side: Sequence[Annotated[int, Range(64)]] = (640, 1280),
        backgrounds: str | Path | None = None,
        seed: Annotated[int, Range(0)] = 0,
    ) -> None:
        if boxes not in ("lines", "words"):
            raise ConfigError(f"SyntheticPages: boxes={boxes!r} must be 'lines' or 'words'")
        if not layouts or any(each not in LAYOUTS for each in layouts):
            raise ConfigError(f"SyntheticPages: layouts={list(layouts)} must be some of {', '.join(LAYOUTS)}")
        self.boxes, self.layouts, self.side = boxes, tuple(layouts), self._span("side", side)
        super().__init__(
            fonts,
            texts=texts,
            characters=characters,
            count=count,
            split=split,
            complete=complete,
            unseen=unseen,
            lengths=LENGTHS,
            spaced=True,
            cases=cases,
            numbers=numbers,
            marks=marks,
            height=height,
            backgrounds=backgrounds,
            seed=seed,
        )
        letters = letters_of(self.characters or "")
        self.spaced = 2 * sum(script_of(c) in SPACELESS for c in letters) <= len(letters)
        self.right_to_left = has_right_to_left(self.characters or "")
        self._plan = lru_cache(maxsize=PLANNED)(self._planned)

    # -- what is known without drawing ---------------------------------------------------------------------------------
    def annotation(self, index: int) -> Sample:
        """All of sample `index` but the image, which is not drawn."""
        polygons = [polygon for _, polygon in self._boxes(index)]
        return {
            "points": np.array(polygons, np.float32).reshape(-1, 2),
            "corners": np.full(len(polygons), 4, np.int64),
            "ignored": np.zeros(len(polygons), bool),
        }

    def texts(self, index: int) -> list[str]:
        """What the lines (or words) of a page say, in reading order."""
        return [text for text, _ in self._boxes(index)]

    def size_of(self, index: int) -> tuple[int, int]:
        """(height, width) of a page."""
        plan = self._plan(index)
        return plan.height, plan.width

    def _boxes(self, index: int) -> list[tuple[str, np.ndarray]]:
        lines = self._plan(index).lines
        if self.boxes == "lines":
            return [(line.text, line.polygon()) for line in lines]
        return [(word.text, line.polygon(word)) for line in lines for word in line.words]

    def _planned(self, index: int) -> Plan:
        rng = self._random(index).fork("layout")
        layout = self.layouts[rng.integers(0, len(self.layouts))]
        height, width = shape_of(layout, self.side, rng)
        sheet = Sheet(self, rng, height, width, self.right_to_left, self.spaced)
        LAYOUTS[layout](sheet, self.height)
        return Plan(height, width, sheet.lines, sheet.rules)

    @property
    def _settings(self) -> list[Any]:
        return [self.count, self.split, self.seed, self.boxes, self.layouts, self.height, self.side, self.cases,
                self.numbers, self.marks, self.characters]  # fmt: skip

    # -- words, as `pdl_ocr.data.typesetting.Source` has them ----------------------------------------------------------
    def font(self, rng: SampleRandom) -> Path:
        """A font that can write at least one of the words."""
        return self._with_font(self._any, rng)[1]

    def word(self, path: Path, rng: SampleRandom) -> str:
        """A word that a font can write; where draws bring none, what it can write of the last."""
        best = ""
        for _ in range(TRIES):
            drawn = self._any(rng)
            if self._writes(path, drawn):
                return drawn
            known = "".join(c for c in drawn if c in self._covered[path])
            best = max(best, known.lstrip("".join(filter(is_mark, known))), key=len)
        return best or next(iter(sorted(c for c in self._covered[path] if not is_mark(c) and not c.isspace())), "?")

    def number(self, path: Path, rng: SampleRandom) -> str:
        """An amount, a date or the like; a word where the font or the characters have no digits."""
        for _ in range(TRIES):
            pattern = NUMBERS[rng.integers(0, len(NUMBERS))]
            drawn = "".join(DIGITS[rng.integers(0, 10)] if c == "9" else c for c in pattern)
            if self.writes(path, drawn.replace(" ", "")):
                return drawn
        return self.word(path, rng)

    def writes(self, path: Path, text: str) -> bool:
        """Whether a font has the characters of a text, and all of them are wanted."""
        return self._allowed(text) and self._writes(path, text)

    def _any(self, rng: SampleRandom) -> str:
        return self._word(rng) if self.vocabulary else self.pool.draw(rng.integers(1, 11), rng)

    # -- drawing -------------------------------------------------------------------------------------------------------
    def __getitem__(self, index: int) -> Sample:
        return {"image": self._drawn(index), **self.annotation(index)}

    def _drawn(self, index: int) -> np.ndarray:
        """uint8 [H, W, 3]: a page."""
        plan, rng = self._plan(index), self._random(index).fork("paint")
        paper, body = printed(rng) if rng.chance(PLAIN) else colours(rng)
        inks = [body, _accent(paper, body, rng)]
        if self.backgrounds is not None and rng.chance(BEHIND):
            ground = self.backgrounds.cut(plan.height, plan.width, rng)
        else:
            ground = textured(paper, plan.height, plan.width, rng)
        ground = legible(ground, inks)
        inks.append(np.array(cv2.mean(ground)[:3], np.float32))
        for rule in plan.rules:
            _rule(ground, rule, body)
        for line in plan.lines:
            self._write(ground, line, inks)
        return np.asarray(cv2.convertScaleAbs(ground))

    def _write(self, ground: np.ndarray, line: Line, inks: Sequence[np.ndarray]) -> None:
        left, top, right, bottom = line.box
        cover = np.zeros((bottom - top, right - left), np.uint8)
        for word in line.words:
            mask = ink(opened(word.style.path, word.style.size, self.shaped), word.text)
            x, y = word.box[0] - left, word.box[1] - top
            part = cover[y : y + mask.shape[0], x : x + mask.shape[1]]
            np.maximum(part, mask[: part.shape[0], : part.shape[1]], out=part)
        if line.angle:
            cover, left, top = _turned(cover, line)
        part, colour = ground[top : top + cover.shape[0], left : left + cover.shape[1]], inks[line.words[0].style.tone]
        cover = cover[: part.shape[0], : part.shape[1]]
        part += (colour - part) * (cover[:, :, None] * np.float32(1 / 255))


def _accent(paper: np.ndarray, body: np.ndarray, rng: SampleRandom) -> np.ndarray:
    """A second colour of ink, float32 [3], as far from the paper as the first has to be, and on the same side."""
    level, sign = float(LUMA @ paper), np.sign(float(LUMA @ (body - paper)))
    for _ in range(10):
        found = np.array([rng.uniform(0, 255) for _ in range(3)], np.float32)
        if sign * (float(LUMA @ found) - level) >= CONTRAST:
            return found
    return body


def _rule(ground: np.ndarray, rule: Rule, colour: np.ndarray) -> None:
    left, top, right, bottom = rule.box
    part = ground[top:bottom, left:right]
    if rule.dash:
        part[:, np.arange(right - left) % rule.dash < rule.dash / 2] = colour
    else:
        part[:] = colour


def _turned(cover: np.ndarray, line: Line) -> tuple[np.ndarray, int, int]:
    """The cover of a line after it was turned about its middle, and where its upper left corner is on the page."""
    corners = line.polygon()
    left, top = np.floor(corners.min(axis=0)).astype(int).tolist()
    right, bottom = np.ceil(corners.max(axis=0)).astype(int).tolist()
    matrix, begin = turn(line.angle), np.array(line.box[:2]) + 0.5 - line.middle
    shift = matrix @ begin + line.middle - (left + 0.5, top + 0.5)  # of the centre of the first pixel
    made = cv2.warpAffine(cover, np.column_stack([matrix, shift]), (right - left, bottom - top))
    return made, left, top
