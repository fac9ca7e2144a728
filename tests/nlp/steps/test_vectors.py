"""Vectors of texts, and the nearest of other texts."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pdl import watch
from pdl.errors import DataError, UsageError
from pdl.runtime.pipeline import Pipeline
from pdl.runtime.predict import Configured, predict
from pdl.workflow.prediction import options_of, parse_options, predict_words
from pdl_nlp.steps.passages import cut, vectors_of
from pdl_nlp.steps.tokens import held
from tests.nlp.tokenizers.made import wordpiece
from tests.pipelines import pipeline


class Counts:
    """How often each token occurs, as a vector; and how many texts went through together."""

    def __init__(self) -> None:
        arguments, vocabularies, constants = held(wordpiece())
        steps: list[dict[str, Any]] = [{"step": "tokens", **arguments}]
        self.pipeline: Pipeline = pipeline(
            {"tokens": steps}, {"vector": [{"step": "text_vector"}]}, vocabularies=vocabularies, constants=constants
        )
        self.sizes: list[int] = []

    def run(self, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        tokens = inputs["tokens"]
        self.sizes.append(len(tokens))
        return {"vector": np.stack([np.bincount(row, minlength=13)[5:] for row in tokens]).astype(np.float32)}


LINES = ["want , want", "runn", "", "unwanted , running", "want"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "lines.txt").write_text("".join(f"{line}\n" for line in LINES))
    return tmp_path / "lines.txt"


def test_a_vector() -> None:
    (found,) = predict(Counts(), ["want"])
    assert found.to_dict() == {"input": "want", "vector": [1.0, 0, 0, 0, 0, 0, 0, 0]}


def test_the_nearest_lines(file: Path) -> None:
    model = Counts()
    assert [flag.name for flag in options_of(model.pipeline)] == ["--text", "--search"]
    words, values = parse_options(model.pipeline, ["want", "running", "--search", str(file)])
    assert not model.pipeline.ranks
    answers = [each.to_dict() for each in predict_words(model, words, values, topk=2)]
    first, second = (answer["found"] for answer in answers)
    assert [(each["text"], each["place"]) for each in first] == [("want", f"{file}:5"), ("want , want", f"{file}:1")]
    assert [each["score"] for each in first] == pytest.approx([1.0, 2 / 5**0.5])
    assert [each["text"] for each in second] == ["runn", "unwanted , running"]


def test_files_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "one.txt").write_text("want\nunwanted\n")
    (tmp_path / "two.md").write_text("running")
    (tmp_path / "empty.txt").write_text("\n")
    model = Configured.of(Counts(), {"--search": [str(tmp_path)]})
    assert model.pipeline.ranks
    (found,) = predict(model, ["runn"])
    assert [(each["text"], each["place"]) for each in found.rows()] == [
        ("running", "two.md:1"),
        ("want unwanted", "a/one.txt:1-2"),
    ]


def test_files_of_a_folder_that_are_no_texts(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"\x89PNG\0\0")
    (tmp_path / "b.txt").write_text("want", encoding="utf-16")
    with pytest.warns(RuntimeWarning, match=r"1 of 2 files are no texts: a.png"):
        (found,) = predict(Configured.of(Counts(), {"--search": [str(tmp_path)]}), ["want"])
    assert [each["place"] for each in found.rows()] == ["b.txt:1"]


def test_long_texts_are_cut_into_passages_of_whole_words() -> None:
    text = "want unwanted\n" * 3 + "\n  running ,\t want"
    assert list(cut(text, wordpiece(), 5)) == [
        ("want unwanted want", 1, 2),
        ("want unwanted want", 2, 3),
        ("want unwanted", 3, 3),
        ("unwanted running", 3, 5),
        ("running , want", 5, 5),
    ]
    assert [part for part, *_ in cut(text, wordpiece(), 8)] == [
        "want unwanted want unwanted",
        "unwanted want unwanted",
        "unwanted running , want",
    ]
    assert list(cut(" \n ", wordpiece(), 5)) == []
    assert list(cut("\n want", wordpiece(), 5)) == [("want", 2, 2)]


def test_a_word_longer_than_a_passage_is_cut() -> None:
    assert [part for part, *_ in cut("unwanted want", wordpiece(), 2)] == ["unwant", "ed want"]


def test_an_index_is_kept_and_brought_up_to_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PDL_CACHE", str(tmp_path / "cache"))
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts/a.txt").write_text("want\n")
    (tmp_path / "texts/b.txt").write_text("running\n")

    def found(members: str = "1") -> tuple[list[str], int]:
        model: Any = Counts()
        model.bundle = SimpleNamespace(meta={"members": members})
        (answer,) = predict(Configured.of(model, {"--search": [str(tmp_path / "texts")]}), ["want"])
        return [each["place"] for each in answer.rows()], sum(model.sizes) - 1

    assert found() == (["a.txt:1", "b.txt:1"], 2)
    (index,) = (tmp_path / "cache/search").iterdir()
    assert found() == (["a.txt:1", "b.txt:1"], 0)
    (tmp_path / "texts/c.txt").write_text("want want\n")
    (tmp_path / "texts/b.txt").unlink()
    assert found() == (["a.txt:1", "c.txt:1"], 1)
    with np.load(index) as held:
        assert held["vectors"].shape == (2, 8), "what is gone is left out"
    times = (tmp_path / "texts/c.txt").stat()
    (tmp_path / "texts/c.txt").write_text("runs want\n")
    os.utime(tmp_path / "texts/c.txt", ns=(times.st_atime_ns, times.st_mtime_ns))
    assert found() == (["a.txt:1", "c.txt:1"], 1), "a text counts by what it is, not by size and time of its file"
    (tmp_path / "texts/c.txt").rename(tmp_path / "texts/e.txt")
    assert found() == (["a.txt:1", "e.txt:1"], 0), "a file with another name is the same text"
    assert found("another model")[1] == 2
    index.write_bytes(index.read_bytes()[:-30])
    with pytest.warns(RuntimeWarning, match="is damaged and made anew"):
        assert found()[1] == 2
    monkeypatch.setenv("PDL_CACHE", str(index))
    (tmp_path / "texts/d.txt").write_text("runn\n")
    with pytest.warns(RuntimeWarning, match="the index is not kept"):
        assert found()[1] == 3


def test_texts_of_one_length_go_together(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Counts()
    texts = ["want " * (1 + number % 3 * 8) for number in range(150)]
    heard: list[tuple[str, int, int]] = []
    monkeypatch.setattr(watch, "steps", lambda *told: heard.append(told))
    found = vectors_of([*texts, " "], model)
    assert [done for _, done, _ in heard] == np.cumsum(model.sizes).tolist()
    assert heard[-1] == ("vectors of texts", 150, 150)
    assert found[-1] is None
    assert [int(each[0]) for each in found[:-1] if each is not None] == [text.count("want") for text in texts]
    assert sorted(model.sizes) == [4, 25, 25, 46, 50]


def test_faults(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nowhere: no such file or folder"):
        Configured.of(Counts(), {"--search": ["nowhere"]})
    with pytest.raises(UsageError, match=r"no option --find; it has --search"):
        Configured.of(Counts(), {"--find": ["x"]})
    (tmp_path / "blank.txt").write_text(" \n\n")
    with pytest.raises(DataError, match="no text there has a token"):
        Configured.of(Counts(), {"--search": [str(tmp_path / "blank.txt")]})
