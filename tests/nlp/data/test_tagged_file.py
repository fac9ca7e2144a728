"""Words with tags, and streams of plain text."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from pdl.errors import DataError
from pdl_nlp.data import PlainText, TaggedFile, standin

FORMS: dict[str, tuple[str, dict[str, Any]]] = {
    "CoNLL": ("-DOCSTART- O\n\nAda B-PER\nsees O\n\n# O\nRome B-LOC\n", {}),
    "CoNLL-U": (
        "# text = Ada sees\n1\tAda\t_\tB-PER\n2-3\tsees\t_\t_\n2\tsees\t_\tO\n2.1\tx\t_\tO\n\n"
        "1\t#\t_\tO\n2\tRome\t_\tB-LOC\n",
        {"token": 1, "tag": 3},
    ),
    "words": ("Ada/B-PER sees/O\n\n#/O Rome/B-LOC\n", {"form": "words"}),
    "underscores": ("Ada_B-PER sees_O\n#_O Rome_B-LOC\n", {"form": "words", "separator": "_"}),
}


@pytest.mark.parametrize("name", FORMS)
def test_all_forms_have_the_same_sentences(name: str, tmp_path: Path) -> None:
    text, settings = FORMS[name]
    (tmp_path / "a.txt").write_text(text)
    data = TaggedFile(tmp_path / "a.txt", **settings)
    assert data.classes == ["B-LOC", "B-PER", "O"]
    found = [(each["tokens"], each["tags"].tolist()) for each in (data[i] for i in range(len(data)))]
    assert found == [(["Ada", "sees"], [1, 2]), (["#", "Rome"], [2, 0])]


def test_a_slash_is_a_word(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("//w 1/2/m\n")
    assert TaggedFile(tmp_path / "a.txt", form="words").tokens == [["/", "1/2"]]


@pytest.mark.parametrize("form", ["columns", "words"])
def test_long_sentences_are_cut_into_windows(form: str, tmp_path: Path) -> None:
    words = [(f"w{n}", "AB"[n % 2]) for n in range(7)]
    lines = ["x A", "", *(f"{word} {tag}" for word, tag in words)]
    text = "x/A\n" + " ".join(f"{word}/{tag}" for word, tag in words) if form == "words" else "\n".join(lines)
    (tmp_path / "a.txt").write_text(text)
    data = TaggedFile(tmp_path / "a.txt", form=form, window=3)  # type: ignore[arg-type]
    assert [len(tokens) for tokens in data.tokens] == [1, 3, 3, 1]
    assert [pair for each in range(1, 4) for pair in zip(data.tokens[each], data.names[each], strict=True)] == words
    assert [data.line_of(each) for each in range(4)] == ([1, 2, 2, 2] if form == "words" else [1, 3, 6, 9])


@pytest.mark.parametrize(
    ("text", "settings", "message"),
    [
        ("a\n", {}, r"a\.txt:1: a word without a tag"),
        ("a b\n", {"tag": 3}, r"a\.txt:1: 2 columns; word and tag are columns 0 and 3"),
        ("x/A y\n", {"form": "words"}, r"a\.txt:1: 'y' is not word/TAG"),
        ("\n", {}, r"a\.txt: has no texts"),
        ("x A\n\ny B\n", {"classes": ["A"]}, r"a\.txt:3 \(index 1\): tag 'B' is none of A"),
    ],
)
def test_faults_say_where(text: str, settings: Any, message: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(text)
    with pytest.raises(DataError, match=message):
        TaggedFile(tmp_path / "a.txt", **settings)


@pytest.mark.parametrize("settings", [{}, {"form": "words"}, {"token": 1, "tag": 3, "path": "a.conllu.gz"}], ids=str)
def test_stand_ins_are_read_by_the_same_settings(settings: dict[str, Any], tmp_path: Path) -> None:
    made = TaggedFile.stand_in(tmp_path, settings)
    data = TaggedFile(**{**settings, **made.settings})
    assert data.classes == ["B-BAD", "B-GOOD", "B-THING", "O"]
    assert len(data) == 240


def test_a_stream_of_lines_and_documents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "a.txt").write_text("one\ntwo\n\n three \n")
    (tmp_path / "deep/b.txt.gz").write_bytes(gzip.compress(b"four\n"))
    (tmp_path / "deep/c.jsonl").write_text('{"text": "five"}\n')
    assert [each["text"] for each in PlainText(tmp_path)] == ["one", "two", "three", "four", "five"]
    found = [each["text"] for each in PlainText([tmp_path / "a.txt"], documents=True)]
    assert found == ["one\ntwo", "three"]
    standin.write(tmp_path / "deep/d.txt.xz", ["six", "", "seven"])
    standin.write(tmp_path / "deep/d.txt.bz2", ["eight"])
    pattern = PlainText([tmp_path / "a.txt", str(tmp_path / "deep/*.txt.?z*")], documents=True)
    assert [each["text"] for each in pattern] == [*found, "four", "eight", "six", "seven"]
    monkeypatch.setenv("PDL_DATA", str(tmp_path))
    assert [each["text"] for each in PlainText("**/*.xz")] == ["six", "seven"]
    with pytest.raises(DataError, match=r"\*.xml is not there"):
        PlainText("deep/*.xml")
    (tmp_path / "none").mkdir()
    with pytest.raises(DataError, match="holds no texts"):
        PlainText(tmp_path / "none")


def test_the_order_of_a_stream_is_a_function_of_seed_and_epoch(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("".join(f"{i}\n" for i in range(500)))

    def order(epoch: int, **settings: Any) -> list[str]:
        stream = PlainText(tmp_path / "a.txt", buffer=50, **settings)
        stream.set_epoch(epoch)
        return [each["text"] for each in stream]

    assert sorted(order(0), key=int) == [str(i) for i in range(500)]
    assert order(0) == order(0)
    assert order(0) != order(1)
    assert order(0) != order(0, seed=1)
    ratios = {"train": 0.8, "val": 0.2}
    train, val = (order(0, ratios=ratios, split=split) for split in ratios)
    assert not set(train) & set(val)
    assert len(train) + len(val) == 500
