"""Lines of text that are drawn: any fonts, any words, as many as are wanted."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from pdl.data.dataset import Sample
from pdl.data.randomness import SampleRandom
from pdl.hints import Range
from pdl_ocr.data.drawn import TRIES, Drawn, Split
from pdl_ocr.data.fonts import estimated, extent, ink, opened
from pdl_ocr.data.paper import BEHIND, Backgrounds, colours, legible

SPACE = 0.35  # of the heights of small letters around a line, at most


class SyntheticLines(Drawn):
    """Lines drawn with fonts: sample i is {"image": uint8 [H, W, 3], "text": str}, a function of (seed, split, i). Ink
    and paper have colours of their own; distortions are left to `pdl_ocr.data.transforms`, which draw anew each epoch.

    fonts        font files: a folder (at any depth), a pattern, a path, or several of them; each family is drawn with
                 as often, however many fonts it has
    texts        a text file, UTF-8: a list of words or a corpus, out of whose words lines are drawn; None: words of
                 random characters
    characters   that lines may have, or the name of a script (`pdl_ocr.scripts`): words with others are left out; None:
                 those of the texts
    count        lines of the split
    split        train, val or test: other lines of the same kind
    complete     the least share of the letters (and marks) among `characters` that a font must have; a folder may hold
                 fonts of other scripts, too; 0: any
    unseen       the share of the families of fonts, by a hash of their names, with which val and test are drawn and
                 train is not, so that accuracy is that on fonts never seen; 0: all fonts for all splits
    words        the fewest and the most words of a line
    length       the fewest and the most characters of a line; where words are too short, they become more than `words`
    cases        the share of words that are written in capitals, with a capital first, or in small letters, rather than
                 as they stand
    numbers      the share of words that a number takes the place of
    marks        the share of words that a punctuation mark follows
    height       pixels of the letters' size, from a least to a most
    backgrounds  a folder of pictures without text, parts of which lie behind half of the lines, their grey levels drawn
                 together as far as ink needs it to be read
    seed         of all draws
    """

    def __init__(
        self,
        fonts: str | Path | Sequence[str],
        *,
        texts: str | Path | None = None,
        characters: str | None = None,
        count: Annotated[int, Range(1)] = 100_000,
        split: Split = "train",
        complete: Annotated[float, Range(0, 1)] = 0.0,
        unseen: Annotated[float, Range(0, below=1)] = 0.0,
        words: Sequence[Annotated[int, Range(1)]] = (1, 1),
        length: Sequence[Annotated[int, Range(1)]] = (1, 25),
        cases: Annotated[float, Range(0, 1)] = 0.5,
        numbers: Annotated[float, Range(0, 1)] = 0.1,
        marks: Annotated[float, Range(0, 1)] = 0.1,
        height: Sequence[Annotated[int, Range(8)]] = (24, 40),
        backgrounds: str | Path | None = None,
        seed: Annotated[int, Range(0)] = 0,
    ) -> None:
        self.words, self.length = self._span("words", words), self._span("length", length)
        super().__init__(
            fonts,
            texts=texts,
            characters=characters,
            count=count,
            split=split,
            complete=complete,
            unseen=unseen,
            lengths=(self.length[0] if self.words[1] == 1 else 1, self.length[1]),
            spaced=self.words[1] > 1,
            cases=cases,
            numbers=numbers,
            marks=marks,
            height=height,
            backgrounds=backgrounds,
            seed=seed,
        )

    def __getitem__(self, index: int) -> Sample:
        rng = self._random(index)
        text, path, size, margins = self._laid_out(rng)
        cover = ink(opened(path, size, self.shaped), text)
        return {"image": painted(cover, margins, rng.fork("paint"), self.backgrounds), "text": text}

    def _laid_out(self, rng: SampleRandom) -> tuple[str, Path, int, tuple[int, int, int, int]]:
        """The text of a line, its font and size, and the paper around its ink: left, top, right, bottom."""
        text, path = self._with_font(self._text, rng)
        size = max(self.height[0], rng.integers(self.height[0], self.height[1] + 1) // 4 * 4)
        most = max(2, int(SPACE * size))
        left, top, right, bottom = (rng.integers(1, most) for _ in range(4))
        return text, path, size, (left, top, right, bottom)

    def _text(self, rng: SampleRandom) -> str:
        if not self.vocabulary:
            return self._random_text(rng)
        for _ in range(TRIES):
            words = [self._word(rng) for _ in range(rng.integers(self.words[0], self.words[1] + 1))]
            text = " ".join(words)
            while len(text) > self.length[1] and len(words) > 1:
                words.pop()
                text = " ".join(words)
            if self.length[0] <= len(text) <= self.length[1]:
                return text
        while len(text) < self.length[0]:
            text += (" " if self._allowed(" ") else "") + self._word(rng)
        return text[: self.length[1]].rstrip()

    def _random_text(self, rng: SampleRandom) -> str:
        """Words of random characters, a space between."""
        length = rng.integers(self.length[0], self.length[1] + 1)
        words = rng.integers(self.words[0], self.words[1] + 1) if self.words[1] > 1 else 1
        made = list[str]()
        for rest in range(min(words, (length + 1) // 2), 0, -1):
            most = length - 2 * (rest - 1)  # each further word takes a space and a character
            made.append(self.pool.draw(rng.integers(1, most + 1) if rest > 1 else most, rng))
            length -= len(made[-1]) + 1
        return " ".join(made)

    # -- without drawing -----------------------------------------------------------------------------------------------
    @cached_property
    def _plans(self) -> tuple[list[str], np.ndarray]:
        """The texts of all lines, and about the width / height of their images, from the measures of characters."""
        texts, ratios = [], np.empty(self.count)
        for index in range(self.count):
            text, path, size, (left, top, right, bottom) = self._laid_out(self._random(index))
            texts.append(text)
            if self.shaped:
                box = extent(opened(path, size, True), text)
                width, height = float(box[2] - box[0]), float(box[3] - box[1])
            else:
                width, height = estimated(path, size, text)
            ratios[index] = (width + left + right) / (height + top + bottom)
        return texts, ratios

    @property
    def texts(self) -> list[str]:
        """The texts of all lines."""
        return self._plans[0]

    @property
    def widths(self) -> np.ndarray:
        """float64 [N]: width / height of each image, within a few per cent."""
        return self._plans[1]

    @property
    def _settings(self) -> list[Any]:
        return [self.count, self.split, self.seed, self.words, self.length, self.height, self.cases, self.numbers,
                self.marks, self.characters]  # fmt: skip


def painted(
    cover: np.ndarray,
    margins: tuple[int, int, int, int],
    rng: SampleRandom,
    backgrounds: Backgrounds | None = None,
) -> np.ndarray:
    """uint8 [H, W, 3]: ink that covers `cover` [h, w] on paper, with `margins` (left, top, right, bottom) around it.

    Paper is plain, shaded or grained, or a part of a picture; now and then there is a shadow of the letters, or a line
    below them.
    """
    left, top, right, bottom = margins
    height, width = cover.shape[0] + top + bottom, cover.shape[1] + left + right
    alpha = np.zeros((height, width), np.float32)
    np.divide(cover, np.float32(255), out=alpha[top : height - bottom, left : width - right])
    paper, colour = colours(rng)
    ground = np.empty((height, width, 3), np.float32)
    ground[:] = paper
    if rng.chance(0.4):
        ground += np.linspace(0, rng.uniform(-50, 50), width, dtype=np.float32)[None, :, None]
    if rng.chance(0.3):
        ground += np.linspace(rng.uniform(-40, 40), 0, height, dtype=np.float32)[:, None, None]
    if rng.chance(0.4):
        grain = rng.generator().standard_normal((-(-height // 4), -(-width // 4)), np.float32)
        coarse = np.repeat(np.repeat(grain, 4, axis=0), 4, axis=1)[:height, :width]
        ground += coarse[:, :, None] * rng.uniform(1, 10)
    behind = rng.fork("behind")
    if backgrounds is not None and behind.chance(BEHIND):
        ground = legible(backgrounds.cut(height, width, behind), [colour])
    elif rng.chance(0.15):
        dark = np.roll(alpha, (rng.integers(1, 3), rng.integers(1, 3)), axis=(0, 1))[:, :, None]
        ground *= 1 - 0.5 * dark
    if rng.chance(0.04):
        alpha[height - bottom - rng.integers(0, 2) :][:1] = 1
    mixed = colour - ground  # in place: memory of this size is slow to come by
    mixed *= alpha[:, :, None]
    mixed += ground
    return np.clip(mixed, 0, 255, out=mixed).astype(np.uint8)
