"""The suite as it is in the checkout, found as an installed one where the environment has none."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pdl import packages

SUITE = Path(__file__).parents[2] / "suites" / "ocr"


@pytest.fixture(scope="session", autouse=True)
def suite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    if "ocr" in packages.installed(packages.SUITES):
        yield
        return
    info = tmp_path_factory.mktemp("site") / "pdl_ocr-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: pdl-ocr\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text("[pdl.suites]\nocr = pdl_ocr\n")
    sys.path[:0] = [str(SUITE), str(info.parent)]
    packages.read.cache_clear()
    yield
    del sys.path[:2]
    packages.read.cache_clear()
