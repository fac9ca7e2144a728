"""Texts with mistakes: lines of two texts, and SIGHAN's two files."""

from __future__ import annotations

from pathlib import Path

import pytest

from pdl.errors import DataError
from pdl_nlp.data import CorrectionFile


def test_both_forms_have_the_same_texts(tmp_path: Path) -> None:
    (tmp_path / "lines.tsv").write_text("措折地\t挫折地\n好\t好\n", encoding="utf-8")
    (tmp_path / "in.txt").write_text("(NID=007)\t措折地\n(NID=8)\t好\n", encoding="utf-8")
    (tmp_path / "truth.txt").write_text("007, 1, 挫\n8, 0\n", encoding="utf-8")
    expected = [{"text": "措折地", "right": "挫折地"}, {"text": "好", "right": "好"}]
    for data in (
        CorrectionFile(tmp_path / "lines.tsv"),
        CorrectionFile(tmp_path / "in.txt", truth=tmp_path / "truth.txt"),
    ):
        assert [data[i] for i in range(2)] == expected
        assert data.line_of(1) == 2


@pytest.mark.parametrize(
    ("text", "truth", "message"),
    [
        ("ab\tabc\n", None, r"in\.txt:1: 2 characters, corrected 3"),
        ("ab\tab\nab\n", None, r"in\.txt:2: one text, expected two"),
        ("(1)\tab\n", "2, 0\n", r"in\.txt:1: text '\(1\)', but '2' in truth\.txt"),
        ("(1)\tab\n(2)\tab\n", "1, 0\n", r"in\.txt:2: text '\(2\)', but ''"),
        ("(1)\tab\n", "1, 3, c\n", r"truth\.txt:1: '3', 'c' is no place in a text of 2"),
        ("(1)\tab\n", "1, 1\n", r"truth\.txt:1: '1' without a character"),
        ("\n", None, "has no texts"),
    ],
)
def test_faults_say_where(text: str, truth: str | None, message: str, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text(text)
    if truth is not None:
        (tmp_path / "truth.txt").write_text(truth)
    with pytest.raises(DataError, match=message):
        CorrectionFile(tmp_path / "in.txt", truth=None if truth is None else tmp_path / "truth.txt")


@pytest.mark.parametrize("truth", [None, "t.txt"])
def test_stand_ins_are_read_and_cut(truth: str | None, tmp_path: Path) -> None:
    made = CorrectionFile.stand_in(tmp_path, {"path": "a.txt", **({} if truth is None else {"truth": truth})}).settings
    whole = CorrectionFile(**made)
    assert 0.65 < sum(text != right for _, text, right in whole.found) / len(whole) < 0.85
    parts = [CorrectionFile(**made, split=split, ratios={"train": 0.8, "val": 0.2}) for split in ("train", "val")]
    assert sum(map(len, parts)) == len(whole)
    rights = [{right for _, _, right in each.found} for each in parts]
    assert not rights[0] & rights[1]
