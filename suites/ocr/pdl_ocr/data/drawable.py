"""What can be drawn of a script with fonts and texts, for the recipes that `pdl init` writes."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pdl.data.faults import fault, unreadable
from pdl.data.splits import stable_split
from pdl.errors import DataError, UsageError, listed
from pdl.files import read_bytes
from pdl_ocr.data.drawn import MOST_BYTES
from pdl_ocr.data.fonts import able_to_write, covered, family, font_files, letters_of
from pdl_ocr.scripts import characters_of

USUAL = 0.9  # of the letters that the best font has: with less, a font is taken for one of another script
LEAST = 0.5  # of the letters that the best font must have


@dataclass(frozen=True)
class Drawable:
    """The fonts that have the letters of a script.

    given       the folder or pattern, absolute
    characters  of the script, and which of them are letters
    files       all fonts that are there, and those of them that are able
    complete    the share of the letters that these have at least
    unseen      the share of these that is kept for validation
    """

    script: str
    given: Path
    characters: str
    letters: frozenset[str]
    files: list[Path]
    able: list[Path]
    complete: float
    unseen: float

    @property
    def said(self) -> list[str]:
        """Comments for a recipe: how many letters and fonts there are, and which characters no font has."""
        known = frozenset().union(*(covered(path, frozenset(self.characters)) for path in self.able))
        lost = [c for c in self.characters if c not in known]
        first = (
            f"# {self.script}: {len(self.letters)} letters, {len(self.characters)} characters with digits and signs. "
            f"{len(self.able):,} of {len(self.files):,} fonts have {self.complete:.0%} of the letters or more."
        )
        return [first, *([f"# No font has {listed(lost, 40)}, so these are not learned."] if lost else [])]

    @property
    def kept(self) -> str:
        """How many fonts are kept for validation, and so what metrics mean."""
        families = [family(path) for path in self.able]
        if not self.unseen:
            return (
                f"{len(self.able)} fonts of {len(set(families))} families are too few to keep some for validation: "
                "metrics are those on fonts that are learned."
            )
        kept = _unseen(families, self.unseen)
        many = len({families[i] for i in kept})
        return (
            f"{len(kept)} fonts of {many} families are kept for validation and test (unseen): metrics are those on "
            "fonts never seen."
        )


def drawable(script: str, fonts: str | None) -> Drawable:
    """The fonts of a folder (or a pattern) that have the letters of a script, nearly as many as the best of them.
    UsageError where no folder is given or no font is there, DataError where none has half of the letters."""
    characters = characters_of(script)
    letters = letters_of(characters)
    if fonts is None:
        raise UsageError(f"which fonts? --fonts DIR names a folder of font files that have the letters of {script}")
    given = Path(fonts).expanduser().absolute()
    try:
        files = font_files(given)
    except DataError as error:
        raise UsageError(f"{error}; --fonts names a folder of them, or a pattern") from None
    most = max(len(covered(path, letters)) for path in files) / len(letters)
    complete = max(LEAST, int(most * USUAL * 100) / 100)
    able = able_to_write(files, characters, complete)
    unseen = _share([family(path) for path in able])
    return Drawable(script, given, characters, letters, files, able, complete, unseen)


def counted(path: Path, found: Drawable, longest: int) -> str:
    """How many words of a text can be drawn; DataError where none has letters of the script."""
    script, letters = found.script, found.letters
    try:
        text = read_bytes(path, MOST_BYTES).decode("utf-8-sig")
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file; --texts names a text whose words are drawn") from None
    except OSError as error:
        raise unreadable(path, error) from error
    except UnicodeDecodeError as error:
        raise fault(path, "not UTF-8 text", "save it as UTF-8") from error
    words = dict.fromkeys(unicodedata.normalize("NFC", text).split())
    allowed = frozenset(found.characters)
    good = sum(len(word) <= longest and allowed.issuperset(word) and not letters.isdisjoint(word) for word in words)
    if not good:
        what = f"none of its {len(words):,} words has letters of {script} and no others, and at most {longest} of them"
        raise fault(path, what, f"give a text in a language that is written in {script}, white space between words")
    return f"{good:,} of {len(words):,} different words of {path.name} are written in {script} alone and are drawn."


def _share(families: list[str]) -> float:
    """The share of families that is kept for validation: a tenth of many, a fifth of some, none of few."""
    for share, fewest in ((0.1, 30), (0.2, 8)):
        if len(set(families)) >= fewest and 0 < len(_unseen(families, share)) < len(families):
            return share
    return 0.0


def _unseen(families: list[str], share: float) -> np.ndarray:
    """The places of the fonts whose families, by a hash of their names, are kept."""
    return stable_split(families, {"train": 1 - share, "unseen": share}, "unseen")
