"""Fonts of this machine, for data sets that draw."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from pdl.errors import DataError
from pdl_ocr.data.fonts import coverage, font_files

PLACES = ("/usr/share/fonts", "/Library/Fonts", "C:/Windows/Fonts")


@pytest.fixture(scope="session")
def fonts() -> list[str]:
    """Fonts of this machine with Latin letters."""
    try:
        files = font_files([place for place in PLACES if Path(place).is_dir()])
    except DataError:
        pytest.skip("no fonts are installed here")
    able = (str(path) for path in files if {*"abcdefghijklmnopqrstuvwxyz0123456789"} <= coverage(path))
    found = list(islice(able, 8))
    if len(found) < 4:
        pytest.skip("fewer than four fonts with Latin letters are installed here")
    return found


@pytest.fixture
def words(tmp_path: Path) -> str:
    (tmp_path / "words.txt").write_text("apple Berry cherry\ndate naïve\n", encoding="utf-8")
    return str(tmp_path / "words.txt")
