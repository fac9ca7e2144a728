"""What drawn lines and drawn pages share: fonts, words, characters, and which of them a split is drawn of."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pdl.data.dataset import Dataset, digest
from pdl.data.faults import Fault, fault, unreadable
from pdl.data.randomness import SampleRandom
from pdl.data.splits import stable_split
from pdl.errors import ConfigError, DataError, UsageError
from pdl.files import read_bytes
from pdl_ocr.data.fonts import able_to_write, by_family, covered, covering, family, font_files, has_one_case
from pdl_ocr.data.lines import located
from pdl_ocr.data.paper import Backgrounds
from pdl_ocr.data.strings import Strings
from pdl_ocr.scripts import SCRIPTS, characters_of, needs_shaping

Split = Literal["train", "val", "test"]
MOST_BYTES = 1 << 28
TRIES = 20  # draws of a text with a font that has its characters
DIGITS = "0123456789"
MARKS = ".,:;!?-'&/()%#@"
CASES: tuple[Callable[[str], str], ...] = (str.upper, str.capitalize, str.lower)


class Drawn(Dataset):
    """Images of text that is drawn: sample i is a function of (seed, split, i). Arguments are those of `SyntheticLines`
    and `SyntheticPages`; `lengths` are the fewest and the most characters of a word of the texts."""

    generated = True
    unfoldable = "its samples are drawn, of each split others; give other seeds instead"

    def __init__(
        self,
        fonts: str | Path | Sequence[str],
        *,
        texts: str | Path | None,
        characters: str | None,
        count: int,
        split: Split,
        complete: float,
        unseen: float,
        lengths: tuple[int, int],
        spaced: bool,
        cases: float,
        numbers: float,
        marks: float,
        height: Sequence[int],
        backgrounds: str | Path | None,
        seed: int,
    ) -> None:
        owner = type(self).__name__
        self.count, self.split, self.seed = count, split, seed
        self.height = self._span("height", height)
        self.cases, self.numbers, self.marks = cases, numbers, marks
        self.characters = characters_of(characters) if characters in SCRIPTS else characters
        self.vocabulary = [] if texts is None else self._vocabulary(located(texts), lengths)
        if not self.vocabulary and self.characters is None:
            raise ConfigError(f"{owner}: give texts (a file of words), characters, or both")
        if self.characters is None:
            self.characters = "".join(sorted({*"".join(self.vocabulary), *(" " if spaced else "")}))
        self.shaped = needs_shaping(self.characters)
        files = font_files([located(each) for each in ([fonts] if isinstance(fonts, str | Path) else fonts)])
        able = able_to_write(files, self.characters, complete) if complete else files
        self.fonts = self._fonts(able, unseen)
        self._families = by_family(self.fonts)
        self._covered = {path: covered(path, self._set) for path in self.fonts}
        self.pool = self._pool()
        self.backgrounds = None if backgrounds is None else Backgrounds(backgrounds)
        self._stream = {"train": 0, "val": 1, "test": 2}[split]

    def _span(self, name: str, pair: Sequence[int]) -> tuple[int, int]:
        if len(pair) != 2 or not 1 <= pair[0] <= pair[1]:
            raise ConfigError(f"{type(self).__name__}: {name}={list(pair)} must be the fewest and the most")
        return pair[0], pair[1]

    def _vocabulary(self, path: Path, lengths: tuple[int, int]) -> list[str]:
        try:
            text = read_bytes(path, MOST_BYTES).decode("utf-8-sig")
        except OSError as error:
            raise unreadable(path, error) from error
        except UnicodeDecodeError as error:
            raise fault(path, "not UTF-8 text", "save it as UTF-8") from error
        allowed = None if self.characters is None else frozenset(self.characters)
        words = dict.fromkeys(unicodedata.normalize("NFC", text).split())
        least, most = lengths
        found = [w for w in words if least <= len(w) <= most and (allowed is None or allowed.issuperset(w))]
        if not found:
            raise fault(path, f"none of its {len(words)} words fits the characters and the length", "give others")
        return found

    def _fonts(self, files: list[Path], unseen: float) -> list[Path]:
        if not unseen:
            return files
        part = "train" if self.split == "train" else "unseen"
        families = [family(path) for path in files]  # weights of one family look alike
        rows = stable_split(families, {"train": 1 - unseen, "unseen": unseen}, part)
        if not len(rows):
            what = f"unseen={unseen} of {len(files)} fonts leaves none for {self.split}"
            raise DataError(f"{type(self).__name__}: {what}")
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
            raise UsageError(f"{type(self).__name__}: characters has nothing to draw but spaces and marks")
        return found

    def __len__(self) -> int:
        return self.count

    def _random(self, index: int) -> SampleRandom:
        if not 0 <= index < self.count:
            raise IndexError(f"sample {index} is outside of {self.count}")
        return SampleRandom(self.seed, self._stream, index)

    def _with_font(self, text: Callable[[SampleRandom], str], rng: SampleRandom) -> tuple[str, Path]:
        """A text, and a font that has its characters and tells its case."""
        for _ in range(TRIES):
            found, fonts = text(rng), self._families[rng.integers(0, len(self._families))]
            path = fonts[rng.integers(0, len(fonts))]
            if self._writes(path, found) and self._tells_case(path, found):
                return found, path
        able = [path for path in self.fonts if self._writes(path, found)]
        if not able:
            covering(self.fonts, found)
        able = [path for path in able if self._tells_case(path, found)] or able
        return found, able[rng.integers(0, len(able))]

    def _writes(self, path: Path, text: str) -> bool:
        return all(c.isspace() or c in self._covered[path] for c in text)

    def _tells_case(self, path: Path, text: str) -> bool:
        """Whether an image of the text can only be of the text as it stands: not so in a font of small capitals, where
        both cases of the text are to be told apart."""
        both = {c for c in (text.lower(), text.upper()) if self._allowed(c)}
        return len(both) < 2 or not has_one_case(path)

    def _word(self, rng: SampleRandom) -> str:
        """A word of the texts, changed as `cases`, `numbers` and `marks` say."""
        if rng.chance(self.numbers) and self._allowed(DIGITS):
            return "".join(DIGITS[rng.integers(0, 10)] for _ in range(rng.integers(1, 6)))
        word = self.vocabulary[rng.integers(0, len(self.vocabulary))]
        if rng.chance(self.cases):
            changed = CASES[rng.integers(0, len(CASES))](word)
            word = changed if self._allowed(changed) else word
        if rng.chance(self.marks):
            mark = MARKS[rng.integers(0, len(MARKS))]
            word += mark if self._allowed(mark) else ""
        return word

    def _allowed(self, text: str) -> bool:
        return self._set.issuperset(text)

    @cached_property
    def _set(self) -> frozenset[str]:
        return frozenset(self.characters or "")

    @property
    def _settings(self) -> list[Any]:
        """The arguments that samples depend on, beside files."""
        raise NotImplementedError(f"{type(self).__name__} must define _settings")

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the arguments, the words and the names and sizes of the fonts and of the pictures behind."""
        files = [f"{path.name} {path.stat().st_size}" for path in self.fonts]
        behind = self.backgrounds.names if self.backgrounds else []
        return digest(type(self).__name__, str(self._settings), *files, *self.vocabulary, *behind)
