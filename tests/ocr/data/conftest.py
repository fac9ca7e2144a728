"""Fonts of this machine, for data sets that draw."""

from __future__ import annotations

from pathlib import Path

import pytest

from pdl.data.splits import stable_split
from pdl.errors import DataError
from pdl_ocr.data.fonts import coverage, family, font_files

PLACES = ("/usr/share/fonts", "/Library/Fonts", "C:/Windows/Fonts")


@pytest.fixture(scope="session")
def fonts() -> list[str]:
    """Fonts of this machine with Latin letters, of several families if there are."""
    try:
        files = font_files([place for place in PLACES if Path(place).is_dir()])
    except DataError:
        pytest.skip("no fonts are installed here")
    able = [str(path) for path in files if {*"abcdefghijklmnopqrstuvwxyz0123456789"} <= coverage(path)]
    found = able[:: max(1, len(able) // 8)][:8]
    if len(found) < 4:
        pytest.skip("fewer than four fonts with Latin letters are installed here")
    return found


@pytest.fixture(scope="session")
def unseen(fonts: list[str]) -> float:
    """A share of the fonts' families that keeps some for validation, and some for training."""
    families = [family(Path(path)) for path in fonts]
    for tenths in range(1, 10):
        parts = {"train": 1 - tenths / 10, "unseen": tenths / 10}
        if 0 < len(stable_split(families, parts, "unseen")) < len(families):
            return tenths / 10
    pytest.skip("all fonts here are of one family")


@pytest.fixture
def words(tmp_path: Path) -> str:
    (tmp_path / "words.txt").write_text("apple Berry cherry\ndate naïve\n", encoding="utf-8")
    return str(tmp_path / "words.txt")
