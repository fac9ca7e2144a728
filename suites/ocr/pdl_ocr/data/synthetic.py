"""Lines of text that are drawn: any fonts, any words, as many as are wanted."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

import numpy as np

from pdl.data.dataset import Dataset, Sample, digest
from pdl.data.faults import Fault, fault, unreadable
from pdl.data.randomness import SampleRandom
from pdl.data.splits import stable_split
from pdl.data.store import under_roots
from pdl.errors import ConfigError, DataError, UsageError
from pdl.files import read_bytes
from pdl.hints import Range
from pdl_ocr.data.fonts import able_to_write, covered, covering, estimated, extent, font_files, ink, opened
from pdl_ocr.data.strings import Strings
from pdl_ocr.scripts import SCRIPTS, characters_of, needs_shaping

Split = Literal["train", "val", "test"]
MOST_BYTES = 1 << 28
TRIES = 20  # draws of a text with a font that has its characters
SPACE = 0.35  # of the heights of small letters around a line, at most
CONTRAST = 70  # grey levels between ink and paper, at least
DIGITS = "0123456789"
LUMA = np.array([0.299, 0.587, 0.114], np.float32)  # of ITU-R BT.601
MARKS = ".,:;!?-'&/()%#@"


class SyntheticLines(Dataset):
    """Lines drawn with fonts: sample i is {"image": uint8 [H, W, 3], "text": str}, a function of (seed, split, i). Ink
    and paper have colours of their own; distortions are left to `pdl_ocr.data.transforms`, which draw anew each epoch.

    fonts       font files: a folder (at any depth), a pattern, a path, or several of them
    texts       a text file, UTF-8: a list of words or a corpus, out of whose words lines are drawn; None: words of
                random characters
    characters  that lines may have, or the name of a script (`pdl_ocr.scripts`): words with others are left out; None:
                those of the texts
    count       lines of the split
    split       train, val or test: other lines of the same kind
    complete    the least share of the letters (and marks) among `characters` that a font must have; a folder may hold
                fonts of other scripts, too; 0: any
    unseen      the share of the fonts, by a hash of their names, with which val and test are drawn and train is not, so
                that accuracy is that on fonts never seen; 0: all fonts for all splits
    words       the fewest and the most words of a line
    length      the fewest and the most characters of a line; where words are too short, they become more than `words`
    cases       the share of words that are written in capitals, with a capital first, or in small letters, rather than
                as they stand
    numbers     the share of words that a number takes the place of
    marks       the share of words that a punctuation mark follows
    height      pixels of the letters' size, from a least to a most
    seed        of all draws
    """

    unfoldable = "its samples are drawn, of each split others; give other seeds instead"

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
        seed: Annotated[int, Range(0)] = 0,
    ) -> None:
        for name, pair in (("words", words), ("length", length), ("height", height)):
            if len(pair) != 2 or not 1 <= pair[0] <= pair[1]:
                raise ConfigError(f"SyntheticLines: {name}={list(pair)} must be the fewest and the most")
        self.count, self.split, self.seed = count, split, seed
        self.words, self.length, self.height = tuple(words), tuple(length), tuple(height)
        self.cases, self.numbers, self.marks = cases, numbers, marks
        self.characters = characters_of(characters) if characters in SCRIPTS else characters
        self.vocabulary = [] if texts is None else self._vocabulary(_located(texts))
        if not self.vocabulary and self.characters is None:
            raise ConfigError("SyntheticLines: give texts (a file of words), characters, or both")
        if self.characters is None:
            self.characters = "".join(sorted({*"".join(self.vocabulary), *(" " if words[1] > 1 else "")}))
        self.shaped = needs_shaping(self.characters)
        files = font_files([_located(each) for each in ([fonts] if isinstance(fonts, str | Path) else fonts)])
        able = able_to_write(files, self.characters, complete) if complete else files
        self.fonts = self._fonts(able, unseen)
        self._covered = {path: covered(path, self._set) for path in self.fonts}
        self.pool = self._pool()
        self._stream = {"train": 0, "val": 1, "test": 2}[split]

    def _vocabulary(self, path: Path) -> list[str]:
        try:
            text = read_bytes(path, MOST_BYTES).decode("utf-8-sig")
        except OSError as error:
            raise unreadable(path, error) from error
        except UnicodeDecodeError as error:
            raise fault(path, "not UTF-8 text", "save it as UTF-8") from error
        allowed = None if self.characters is None else frozenset(self.characters)
        words = dict.fromkeys(unicodedata.normalize("NFC", text).split())
        least = self.length[0] if self.words[1] == 1 else 1
        found = [w for w in words if least <= len(w) <= self.length[1] and (allowed is None or allowed.issuperset(w))]
        if not found:
            raise fault(path, f"none of its {len(words)} words fits the characters and the length", "give others")
        return found

    def _fonts(self, files: list[Path], unseen: float) -> list[Path]:
        if not unseen:
            return files
        part = "train" if self.split == "train" else "unseen"
        names = [path.name for path in files]
        rows = stable_split(names, {"train": 1 - unseen, "unseen": unseen}, part)
        if not len(rows):
            raise DataError(f"SyntheticLines: unseen={unseen} of {len(files)} fonts leaves none for {self.split}")
        return [files[row] for row in rows]

    def _pool(self) -> Strings:
        """What is drawn at random where there are no words."""
        if self.vocabulary:
            return Strings("")
        known = frozenset().union(*self._covered.values())
        found = Strings("".join(c for c in self.characters or "" if c in known and c != " "))
        if lost := [c for c in self.characters or "" if c not in known and not c.isspace()]:
            what = f"no font has {len(lost)} of the characters ({''.join(lost[:40])!r}), which are never drawn"
            self.faults = [Fault(None, None, what, "add fonts that have them", split=self.split, severity="warning")]
        if not found.starts:
            covering(self.fonts, self.characters or "")  # says what is missing
            raise UsageError("SyntheticLines: characters has nothing to draw but spaces and marks")
        return found

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Sample:
        if not 0 <= index < self.count:
            raise IndexError(f"line {index} is outside of {self.count}")
        rng = self._random(index)
        text, path, size, margins = self._laid_out(rng)
        return {"image": painted(ink(opened(path, size, self.shaped), text), margins, rng.fork("paint")), "text": text}

    def _random(self, index: int) -> SampleRandom:
        return SampleRandom(self.seed, self._stream, index)

    def _laid_out(self, rng: SampleRandom) -> tuple[str, Path, int, tuple[int, int, int, int]]:
        """The text of a line, its font and size, and the paper around its ink: left, top, right, bottom."""
        text, path = self._text_and_font(rng)
        size = max(self.height[0], rng.integers(self.height[0], self.height[1] + 1) // 4 * 4)
        most = max(2, int(SPACE * size))
        left, top, right, bottom = (rng.integers(1, most) for _ in range(4))
        return text, path, size, (left, top, right, bottom)

    def _text_and_font(self, rng: SampleRandom) -> tuple[str, Path]:
        for _ in range(TRIES):
            text, path = self._text(rng), self.fonts[rng.integers(0, len(self.fonts))]
            if all(c.isspace() or c in self._covered[path] for c in text):
                return text, path
        able = [path for path, known in self._covered.items() if all(c.isspace() or c in known for c in text)]
        if not able:
            covering(self.fonts, text)
        return text, able[rng.integers(0, len(able))]

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

    def _word(self, rng: SampleRandom) -> str:
        allowed = self._allowed
        if rng.chance(self.numbers) and allowed(DIGITS):
            return "".join(DIGITS[rng.integers(0, 10)] for _ in range(rng.integers(1, 6)))
        word = self.vocabulary[rng.integers(0, len(self.vocabulary))]
        if rng.chance(self.cases):
            changed = CASES[rng.integers(0, len(CASES))](word)
            word = changed if allowed(changed) else word
        if rng.chance(self.marks):
            mark = MARKS[rng.integers(0, len(MARKS))]
            word += mark if allowed(mark) else ""
        return word

    def _allowed(self, text: str) -> bool:
        return self._set.issuperset(text)

    @cached_property
    def _set(self) -> frozenset[str]:
        return frozenset(self.characters or "")

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

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the arguments, the words and the names and sizes of the fonts."""
        settings = [self.count, self.split, self.seed, self.words, self.length, self.height, self.cases, self.numbers,
                    self.marks, self.characters]  # fmt: skip
        files = [f"{path.name} {path.stat().st_size}" for path in self.fonts]
        return digest(type(self).__name__, str(settings), *files, *self.vocabulary)


CASES: tuple[Callable[[str], str], ...] = (str.upper, str.capitalize, str.lower)


def _located(path: str | Path) -> Path:
    """A path as given, or below PDL_DATA, where it is relative and not here."""
    given = Path(path).expanduser()
    return next((place for place in (given, *under_roots(given)) if place.exists()), given)


def painted(cover: np.ndarray, margins: tuple[int, int, int, int], rng: SampleRandom) -> np.ndarray:
    """uint8 [H, W, 3]: ink that covers `cover` [h, w] on paper, with `margins` (left, top, right, bottom) around it.

    Paper is plain, shaded or grained; now and then there is a shadow of the letters, or a line below them.
    """
    left, top, right, bottom = margins
    height, width = cover.shape[0] + top + bottom, cover.shape[1] + left + right
    alpha = np.zeros((height, width), np.float32)
    np.divide(cover, np.float32(255), out=alpha[top : height - bottom, left : width - right])
    paper, colour = _colours(rng)
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
    if rng.chance(0.15):
        dark = np.roll(alpha, (rng.integers(1, 3), rng.integers(1, 3)), axis=(0, 1))[:, :, None]
        ground *= 1 - 0.5 * dark
    if rng.chance(0.04):
        alpha[height - bottom - rng.integers(0, 2) :][:1] = 1
    mixed = colour - ground  # in place: memory of this size is slow to come by
    mixed *= alpha[:, :, None]
    mixed += ground
    return np.clip(mixed, 0, 255, out=mixed).astype(np.uint8)


def _colours(rng: SampleRandom) -> tuple[np.ndarray, np.ndarray]:
    """Paper and ink, float32 [3] each, far enough apart to be read; half of them without colour."""
    while True:
        if rng.chance(0.5):
            both = [np.full(3, rng.uniform(0, 255), np.float32) for _ in range(2)]
        else:
            both = [np.array([rng.uniform(0, 255) for _ in range(3)], np.float32) for _ in range(2)]
        if abs(float(LUMA @ (both[0] - both[1]))) >= CONTRAST:
            return both[0], both[1]
