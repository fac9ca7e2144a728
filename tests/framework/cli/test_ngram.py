"""`pdl ngram`: from texts to an ARPA file."""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import pytest

from pdl.cli import main
from pdl.ngram import read_arpa


def test_words_and_characters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts, out = tmp_path / "texts.txt.xz", tmp_path / "words.arpa"
    texts.write_bytes(lzma.compress(b"one Two\n\nTwo  three one\n"))
    (tmp_path / "test.txt").write_text("two one\nfour\n")
    words = ["ngram", str(texts), "--out", str(out), "--order", "2", "--lower", "--test", str(tmp_path / "test.txt")]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "6 1-grams, 7 2-grams" in said
    assert "(1 of 5 tokens unknown)" in said
    assert read_arpa(out).tokens.names == ["<s>", "</s>", "one", "two", "three"]
    assert main(["ngram", str(texts), "--out", str(out), "--characters", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["order"], facts["tokens"]) == (3, len(set("oneTwothree")) + 1)
    model = read_arpa(out)
    assert model.characters
    assert model.counts == facts["ngrams"]


def test_words_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words, texts, out = tmp_path / "words.txt", tmp_path / "texts.txt", tmp_path / "words.arpa"
    words.write_text("one two")
    texts.write_text("two One\nthree one\n")
    assert main(["ngram", "--words", str(words), "--out", str(out)]) == 0
    assert read_arpa(out).counts == [5]
    assert "left out" not in capsys.readouterr().out
    assert main(["ngram", str(texts), "--words", str(words), "--lower", "--out", str(out)]) == 0
    assert "1 texts with other words" in capsys.readouterr().out
    assert read_arpa(out).closed
    assert main(["ngram", "--out", str(out)]) == 2
    assert main(["ngram", "--words", str(words), "--characters", "--out", str(out)]) == 2


def test_what_is_no_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.txt").write_bytes(b"one\n\xff\xfe\xff\n")
    out = ["--out", str(tmp_path / "x.arpa")]
    assert main(["ngram", str(tmp_path / "bad.txt"), *out]) == 3
    assert "bad.txt" in capsys.readouterr().err
    (tmp_path / "empty.txt").write_text("\n")
    assert main(["ngram", str(tmp_path / "empty.txt"), *out]) == 3
    assert "there is no token in the texts" in capsys.readouterr().err
    assert main(["ngram", str(tmp_path / "none.txt"), *out]) == 3
    assert "none.txt" in capsys.readouterr().err
    assert main(["ngram", str(tmp_path / "bad.txt"), *out, "--order", "0"]) == 2
    assert not (tmp_path / "x.arpa").exists()
