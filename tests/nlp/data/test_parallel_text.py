"""Texts with their translations: two files, tables, splits, and what is wrong with files."""

from __future__ import annotations

import gzip

import pytest

from pdl.errors import ConfigError, DataError
from pdl_nlp.data import ParallelText


def test_two_files(tmp_path):
    (tmp_path / "a.en").write_text("a dog\n\n  a cat \n", encoding="utf-8")
    (tmp_path / "a.de.gz").write_bytes(gzip.compress(b"ein Hund\n\neine Katze\n"))
    data = ParallelText(tmp_path / "a.en", target=tmp_path / "a.de.gz")
    assert [data[i] for i in range(len(data))] == [
        {"text": "a dog", "target": "ein Hund"},
        {"text": "a cat", "target": "eine Katze"},
    ]
    assert (data.line_of(1), data.path_of(1)) == (3, str(tmp_path / "a.en"))
    (tmp_path / "a.de").write_text("ein Hund\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"a\.de:2: ends after 1 lines, a\.en goes on"):
        ParallelText(tmp_path / "a.en", target=tmp_path / "a.de")
    with pytest.raises(ConfigError, match="two files"):
        ParallelText(tmp_path / "a.en", target=tmp_path / "a.de", columns=["text", "target"])


def test_tables(tmp_path):
    (tmp_path / "a.csv").write_text('en,de\n"a dog, a cat",ein Hund\n', encoding="utf-8")
    assert ParallelText(tmp_path / "a.csv", text="en", to="de")[0] == {"text": "a dog, a cat", "target": "ein Hund"}
    (tmp_path / "a.jsonl").write_text('{"text": "a", "target": "b"}\n', encoding="utf-8")
    assert ParallelText(tmp_path / "a.jsonl")[0] == {"text": "a", "target": "b"}
    (tmp_path / "cmn.txt").write_text("Hi.\t嗨。\tCC-BY\t#1\n", encoding="utf-8")
    assert ParallelText(tmp_path / "cmn.txt", columns=["text", "target", "about"])[0] == {
        "text": "Hi.",
        "target": "嗨。",
    }
    with pytest.raises(DataError, match="has no column 'target'"):
        ParallelText(tmp_path / "a.csv", text="en")


def test_splits_keep_a_text_together(tmp_path):
    (tmp_path / "a.tsv").write_text("".join(f"text {i // 3}\tto {i}\n" for i in range(300)), encoding="utf-8")
    ratios = {"train": 0.8, "val": 0.1, "test": 0.1}
    columns = ["text", "target"]
    parts = [ParallelText(tmp_path / "a.tsv", columns=columns, split=split, ratios=ratios) for split in ratios]
    assert sum(map(len, parts)) == 300
    texts = [set(part.texts) for part in parts]
    assert not texts[0] & texts[1] | texts[0] & texts[2] | texts[1] & texts[2]
    assert all(len(part) == 3 * len(own) for part, own in zip(parts, texts, strict=True))
    assert parts[0].fingerprint != parts[1].fingerprint


def test_normal_form(tmp_path):
    (tmp_path / "a.tsv").write_text("text\ttarget\n\uff21\te\u0301\n", encoding="utf-8")
    assert ParallelText(tmp_path / "a.tsv", normalise="NFKC")[0] == {"text": "A", "target": "\u00e9"}


@pytest.mark.parametrize(
    "settings",
    [
        {"path": "a/train.en", "target": "a/train.de"},
        {"path": "cmn.txt", "columns": ["text", "target", "about"]},
        {"path": "x.csv", "text": "en", "to": "zh"},
        {"path": "x.jsonl"},
    ],
)
def test_stand_in(tmp_path, settings):
    made = ParallelText.stand_in(tmp_path, settings)
    data = ParallelText(**{**settings, **made.settings})
    assert len(data) > 100
    assert "was" in data[0]["text"]
    assert data[0]["text"] != data[0]["target"]
