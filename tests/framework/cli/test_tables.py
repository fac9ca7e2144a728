"""Tables on terminals of any width keep names and numbers whole, and lose nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pdl.cli import main, style

COLUMNS = ["run", "status", "test/accuracy", "parameters", "started", "what it is"]
ROWS = [
    ["runs/cifar10_resnet20-1", "finished", "0.9183 ± 0.0021", 269_722, "2026-11-23 02:08", "twenty layers " * 7],
    ["runs/digits", "stopped early", 0.98, 31_294, "2026-11-22 17:30", "short"],
]  # fmt: skip


@pytest.mark.parametrize("columns", [60, 80, 120, 200])
def test_a_table_fits(columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    style.table(COLUMNS, ROWS, title="runs")
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= columns
    said = "\n".join(lines)
    assert all(str(cell) in said for row in ROWS for cell in row[:5] if not isinstance(cell, float))
    assert said.count("twenty") == 7
    assert all(name in said for name in COLUMNS)
    if columns == 200:
        assert len(lines) == 4
    style.pairs([("next", "pdl predict " + "word " * 40), ("n", 1)])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= columns
    assert "\n".join(lines).count("word") == 40


LISTS = (
    "help", "config list", "config keys train", "models", "models net", "list models", "list optimizers",
    "list transforms", "list datasets", "list metrics", "data list", "hub list", "info",
)  # fmt: skip


@pytest.mark.parametrize("columns", [60, 80, 200])
@pytest.mark.parametrize("words", LISTS)
def test_every_list_fits_and_breaks_no_name(
    words: str, columns: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PDL_CACHE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert main(words.split()) == 0
    whole = {word for line in capsys.readouterr().out.splitlines() for word in line.split()}
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert main(words.split()) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {word for line in lines for word in line.split()} == whole
    # one name behind the first column may be longer than the terminal is wide
    assert [line for line in lines if len(line) > columns and len(re.split(r"\S  +", line)) > 2] == []


def test_what_cannot_fit_is_whole_all_the_same(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "10")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    style.table(["name", "n"], [["a_long_name_without_spaces", 1]])
    assert capsys.readouterr().out == "name                        n\na_long_name_without_spaces  1\n"


def test_a_column_of_pixels_has_one_place(capsys: pytest.CaptureFixture[str]) -> None:
    style.table(["score", "x"], [[0.98765, 231.4567], [0.5, 0.0], [0.25, 0.001]])
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["score", "x"], ["0.9877", "231.5"], ["0.5000", "0.0"], ["0.2500", "0.0010"],
    ]  # fmt: skip
