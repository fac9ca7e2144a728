"""Damaged and hostile bundles end in a clear error or a correct run: no crash, no hang, no runaway memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.framework.runtime.damage import NETS, attempt, good
from tests.fuzzing import PARTS, require_clean, said_by

MODULE = "tests.framework.runtime.damage"


@pytest.mark.parametrize("name", NETS)
def test_good_bundles_run(name: str) -> None:
    assert attempt(good(name)) == "ran"


@pytest.mark.parametrize(("words", "count", "least"), [((), 90, 45), (("chains",), 30, 3)])
def test_some_damaged_bundles(words: tuple[str, ...], count: int, least: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PDL_FUZZ_SEED", "0")
    found = require_clean(MODULE, count, 0, *words)
    assert found["refused"] > least
    assert found["ran"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("words", [(), ("chains",)])
def test_many_damaged_bundles(words: tuple[str, ...], part: int) -> None:
    """Other numbers every day."""
    assert require_clean(MODULE, 2000, part, *words)["ran"] > 100


@pytest.fixture(scope="session")
def suites_bundles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundles")
    said_by("tests.framework.runtime.exported", str(folder), patience=1800)
    return folder


@pytest.mark.slow
def test_damaged_bundles_of_every_suite(suites_bundles: Path) -> None:
    """Other numbers every day."""
    assert require_clean(MODULE, 5000, 0, str(suites_bundles))["refused"] > 2500
