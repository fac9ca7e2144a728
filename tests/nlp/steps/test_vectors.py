"""Vectors of texts, and the nearest of other texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdl.errors import DataError, UsageError
from pdl.runtime.pipeline import Pipeline
from pdl.runtime.predict import Configured, predict
from pdl.workflow.prediction import options_of, parse_options, predict_words
from pdl_nlp.steps.tokens import held
from pdl_nlp.steps.vectors import vectors_of
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
        ("running", "two.md"),
        ("want unwanted", "a/one.txt"),
    ]


def test_texts_of_one_length_go_together() -> None:
    model = Counts()
    texts = ["want " * (1 + number % 3 * 8) for number in range(150)]
    found = vectors_of([*texts, " "], model)
    assert found[-1] is None
    assert [int(each[0]) for each in found[:-1] if each is not None] == [text.count("want") for text in texts]
    assert max(model.sizes) <= 64
    assert len(model.sizes) <= 5


def test_faults(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nowhere: no such file or folder"):
        Configured.of(Counts(), {"--search": ["nowhere"]})
    with pytest.raises(UsageError, match=r"no option --find; it has --search"):
        Configured.of(Counts(), {"--find": ["x"]})
    (tmp_path / "blank.txt").write_text(" \n\n")
    with pytest.raises(DataError, match="no text there has a token"):
        Configured.of(Counts(), {"--search": [str(tmp_path / "blank.txt")]})
