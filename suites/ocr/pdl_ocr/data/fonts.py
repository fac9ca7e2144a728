"""Fonts by file: which characters they have, and texts drawn with them."""

from __future__ import annotations

import glob
import importlib
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from pdl.errors import DataError, UsageError
from pdl_ocr.scripts import direction

ENDINGS = (".ttf", ".otf", ".ttc")
OPENED = 256  # fonts of a size that stay open, each with its file mapped; to open one takes a third of drawing a line
MEASURED = 32  # the size at which characters are measured
BITMAPS = ("EBLC", "CBLC", "sbix")  # OpenType's tables of glyphs made of pixels
BASIC, RAQM = 0, 1  # Pillow's engines of layout
#: small letters of scripts whose shapes are others than their capitals', in nearly all fonts of two cases
TWO_SHAPES = ("abegqr", "аберуф", "αγηλσω")
CASES = frozenset("".join((*TWO_SHAPES, *map(str.upper, TWO_SHAPES))))
ALIKE = 0.22  # of a letter's ink: shapes that differ by less are one (small capitals up to .19, other fonts from .33)


def _library(name: str, what: str) -> Any:
    """A library that draws texts, or an error that says how to get it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UsageError(f"synthetic text: {what} needs {name.split('.')[0]}; install pdl-ocr[train]") from error


def font_files(fonts: str | Path | Sequence[str | Path]) -> list[Path]:
    """The font files of folders (at any depth), patterns and paths, sorted by name; DataError where there are none."""
    found: set[Path] = set()
    for each in [fonts] if isinstance(fonts, str | Path) else fonts:
        path = Path(each).expanduser()
        if path.is_dir():
            found.update(p for p in path.rglob("*") if p.suffix.lower() in ENDINGS)
        else:
            found.update(Path(p) for p in glob.glob(str(path)) if Path(p).suffix.lower() in ENDINGS)
    if not found:
        raise DataError(f"fonts={str(fonts)!r:.200}: no font files ({', '.join(ENDINGS)}) are there")
    return sorted(found, key=lambda p: (p.name, str(p)))


@lru_cache(maxsize=1024)
def coverage(path: Path) -> frozenset[str]:
    """The characters that a font has glyphs for; DataError for a file that is no font."""
    library = _library("fontTools.ttLib", "to know which characters a font has")
    try:
        with path.open("rb") as file, library.TTFont(file, fontNumber=0, lazy=True) as font:
            if any(table in font for table in BITMAPS) and not _scales(path):
                return frozenset()
            font.setGlyphOrder([f"glyph{i}" for i in range(font["maxp"].numGlyphs)])  # real names would be read first
            return frozenset(map(chr, font.getBestCmap() or ()))
    except Exception as error:
        raise DataError(f"{path}: cannot be read as a font: {error}") from error


def _scales(path: Path) -> bool:
    """Whether a font has more than pixels of a few sizes."""
    try:
        opened.__wrapped__(path, MEASURED, False)
    except OSError:
        return False
    return True


@lru_cache(maxsize=1 << 14)
def covered(path: Path, characters: frozenset[str]) -> frozenset[str]:
    """Those of the characters that a font has glyphs for: less to keep than all that it has."""
    return characters & coverage.__wrapped__(path)


@lru_cache(maxsize=1 << 14)
def family(path: Path) -> str:
    """The family that a font belongs to ("DejaVu Sans" of its Bold Oblique), by its table of names (OpenType, name IDs
    16 and 1); where it tells none, the name of the file."""
    library = _library("fontTools.ttLib", "to know which family a font belongs to")
    try:
        with path.open("rb") as file, library.TTFont(file, fontNumber=0, lazy=True) as font:
            names = font["name"]
            return str(names.getDebugName(16) or names.getDebugName(1) or path.stem)
    except Exception as error:
        raise DataError(f"{path}: cannot be read as a font: {error}") from error


def by_family(files: Sequence[Path]) -> list[list[Path]]:
    """The fonts of each family, so that one of seventy weights can be drawn with no more often than one of a single."""
    found = dict[str, list[Path]]()
    for path in files:
        found.setdefault(family(path), []).append(path)
    return list(found.values())


def covering(files: Sequence[Path], characters: str) -> list[Path]:
    """The fonts that have all the characters, white space aside; DataError where none has."""
    wanted = {c for c in characters if not c.isspace()}
    found = [path for path in files if wanted <= coverage(path)]
    if not found:
        best = max(files, key=lambda path: len(wanted & coverage(path)))
        missing = sorted(wanted - coverage(best))
        raise DataError(
            f"none of {len(files)} fonts has all {len(wanted)} characters; {best.name} has the most and lacks "
            f"{''.join(missing[:40])!r}{' and others' if len(missing) > 40 else ''} ({len(missing)}): give other "
            "fonts, or fewer characters"
        )
    return found


def letters_of(characters: str) -> frozenset[str]:
    """The letters and marks among characters: what fonts of a script differ in."""
    return frozenset(c for c in characters if unicodedata.category(c)[0] in "LM")


def able_to_write(files: Sequence[Path], characters: str, least: float) -> list[Path]:
    """The fonts that have at least this share of the letters among characters; DataError where none has."""
    wanted = letters_of(characters)
    counts = {path: len(covered(path, wanted)) for path in files}
    found = [path for path, count in counts.items() if count >= least * len(wanted)]
    if not found:
        best = max(files, key=lambda path: counts[path])
        raise DataError(
            f"none of {len(files)} fonts has {least:.0%} of the {len(wanted)} letters ({''.join(sorted(wanted)[:12])}"
            f"...); {best.name} has the most, {counts[best]}: give fonts of the script"
        )
    return found


@lru_cache(maxsize=OPENED)
def opened(path: Path, size: int, shaped: bool) -> Any:
    """A Pillow font. Scripts whose letters join or change places are shaped by Raqm (HarfBuzz, FriBiDi)."""
    fonts = _library("PIL.ImageFont", "drawing")
    if shaped and not _library("PIL.features", "drawing").check("raqm"):
        raise UsageError(
            "synthetic text: this script needs shaping, and this Pillow cannot do it (PIL.features.check('raqm')); "
            "install FriBiDi (apt install libfribidi0)"
        )
    return fonts.truetype(str(path), size, layout_engine=RAQM if shaped else BASIC)


@lru_cache(maxsize=1 << 14)
def has_one_case(path: Path) -> bool:
    """Whether a font's small letters look like its capitals (a font of small capitals, a title font), so that nobody
    can tell from an image which of them was written: in a script of `TWO_SHAPES`, the median difference between both
    shapes, each brought to one size, is below `ALIKE`. False for a font without cases."""
    known = covered(path, CASES)
    if not known:
        return False
    font = opened.__wrapped__(path, MEASURED, False)
    for letters in TWO_SHAPES:
        pairs = [(c, c.upper()) for c in letters if {c, c.upper()} <= known]
        if pairs and np.median([_difference(font, *pair) for pair in pairs]) < ALIKE:
            return True
    return False


def _difference(font: Any, one: str, other: str) -> float:
    """The mean difference of two characters' ink, each as large as the em, by the ink of the one that has more; 1 where
    the font draws neither."""
    from cv2 import INTER_AREA, resize

    size = (MEASURED, MEASURED)
    a, b = (resize(ink(font, c).astype(np.float32), size, interpolation=INTER_AREA) for c in (one, other))
    return float(np.abs(a - b).mean() / max(a.mean(), b.mean())) if a.any() or b.any() else 1.0


def extent(font: Any, text: str) -> tuple[int, int, int, int]:
    """Left, top, right and bottom of a text's ink, in pixels from the pen."""
    left, top, right, bottom = font.getbbox(text, **_direction(font, text))
    return int(left), int(top), max(int(right), int(left) + 1), max(int(bottom), int(top) + 1)


def advance(font: Any, text: str) -> float:
    """How far the pen goes while a text is written, in pixels."""
    return float(font.getlength(text, **_direction(font, text)))


def estimated(path: Path, size: int, text: str) -> tuple[float, float]:
    """About the width and height of a text's ink in a font that needs no shaping: from its characters, each measured
    once, kerning left aside."""
    boxes = [_measured(path, c) for c in text]
    width, height = sum(box[0] for box in boxes), max(box[2] for box in boxes) - min(box[1] for box in boxes)
    return max(1.0, width * size / MEASURED), max(1.0, height * size / MEASURED)


@lru_cache(maxsize=1 << 18)
def _measured(path: Path, character: str) -> tuple[float, int, int]:
    """The advance of a character, and top and bottom of its ink."""
    font = opened(path, MEASURED, False)
    _, top, _, bottom = extent(font, character)
    return float(font.getlength(character)), top, bottom


def ink(font: Any, text: str) -> np.ndarray:
    """uint8 [h, w]: how much of each pixel a text covers, cut to its extent."""
    image = _library("PIL.Image", "drawing")
    cover = font.getmask(text, mode="L", **_direction(font, text))  # laid out once; ImageDraw would do it twice more
    if not all(cover.size):  # white space
        return np.zeros((max(1, cover.size[1]), max(1, cover.size[0])), np.uint8)
    canvas = image.new("L", cover.size)
    canvas.im.paste(cover, (0, 0, *cover.size))
    return np.asarray(canvas)


def _direction(font: Any, text: str) -> dict[str, str]:
    return {"direction": direction(text)} if font.layout_engine == RAQM else {}
