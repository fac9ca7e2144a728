"""Texts in a pipeline: words and letter trigrams by number, alone or as one part of an item."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdl.errors import DataError
from pdl.runtime.pipeline import Pipeline
from pdl.runtime.steps import Input
from pdl.vocabulary import Vocabulary
from pdl_rec.steps.words import spelled, trigrams
from tests.pipelines import pipeline as made

NAMES = {"job": Vocabulary(["doctor", "none", "sales clerk"]), "items": Vocabulary(["a", "b, c"])}
WORDS = {"step": "words", "vocabulary": "job", "length": 3, "part": "job"}
PARTS = ["history", "job"]
BOTH = {
    "history": [
        {
            "step": "session",
            "vocabulary": "items",
            "max_length": 4,
            "lengths": [4],
            "part": "history",
            "parts": PARTS,
        }
    ],
    "job": [{**WORDS, "parts": PARTS}],
}


def read(pre: Any) -> Pipeline:
    return made(pre, vocabularies=NAMES)


@pytest.mark.parametrize(
    ("item", "numbers", "unknown"),
    [
        ("doctor", [1, 0, 0], []),
        (" none  doctor\tnone", [2, 1, 2], []),
        ("sales clerk", [3, 0, 0], []),
        ("sales doctor", [1, 0, 0], ["sales"]),
        (["sales clerk", "none", "none", "doctor"], [3, 2, 2], []),
        ({"job": "doctor", "else": 1}, [1, 0, 0], []),
        ('{"job": ["none"]}', [2, 0, 0], []),
    ],
)
def test_a_text_becomes_the_numbers_of_its_words(item: Any, numbers: list[int], unknown: list[str]) -> None:
    pipeline = read({"job": [WORDS]})
    sample = pipeline.parse(item)
    assert sample.inputs["job"].dtype == np.int64
    assert (sample.inputs["job"].tolist(), sample.notes.get("unknown", [])) == (numbers, unknown)
    assert pipeline.input.takes == "text"


def test_letters_of_any_word_are_read_as_training_does() -> None:
    pipeline = read({"job": [{**WORDS, "length": 12, "trigrams": 50}]})
    for text in ("doctor", "none doctor", "unheard of"):
        words = text.split()
        wanted = spelled(np.arange(1, len(words) + 1)[None], trigrams(words, 50))[0][:12]
        sample = pipeline.parse(text)
        assert sample.notes == {}
        assert sample.inputs["job"].tolist() == [*wanted, *[0] * (12 - len(wanted))]


@pytest.mark.parametrize(
    ("item", "history", "job", "unknown"),
    [
        ({"history": ["a", "b, c"], "job": "none"}, [1, 2, 0, 0], [2, 0, 0], []),
        ('{"history": "\\"b, c\\",a", "job": "none", "age": 3}', [2, 1, 0, 0], [2, 0, 0], []),
        ("history=a,job=sales clerk", [1, 0, 0, 0], [3, 0, 0], []),
        ({"history": [], "job": ""}, [0, 0, 0, 0], [0, 0, 0], []),
        ({"history": "z,a", "job": "y"}, [1, 0, 0, 0], [0, 0, 0], ["z", "y"]),
    ],
)
def test_several_inputs_read_the_parts_of_one_item(
    item: Any, history: list[int], job: list[int], unknown: list[str]
) -> None:
    pipeline = read(BOTH)
    sample = pipeline.parse(item)
    assert {name: array.tolist() for name, array in sample.inputs.items()} == {"history": history, "job": job}
    assert sample.notes.get("unknown", []) == unknown
    assert pipeline.input.takes == "row"
    assert [flag.name for flag in pipeline.input.flags] == ["--row"]


@pytest.mark.parametrize(
    ("pre", "item", "fault"),
    [
        ({"job": [WORDS]}, "", "a text without words"),
        ({"job": [WORDS]}, "docter", "no word of 'docter' is among the 3 that the model knows; did you mean 'doctor'"),
        ({"job": [WORDS]}, "{not json", "is not JSON"),
        (BOTH, {"history": "a"}, "says nothing of 'job'; the model reads history, job"),
        (BOTH, {"age": 3}, "none of the columns history, job"),
        (BOTH, "a", "is not column=value"),
        ({"job": [{**WORDS, "length": 0}]}, "doctor", "length=0 must be a number from 1"),
        ({"job": [{**WORDS, "trigrams": 1}]}, "doctor", "trigrams=1 must be a number from 2"),
        ({"job": [{**WORDS, "vocabulary": "jobs"}]}, "doctor", "no vocabulary 'jobs'"),
        ({"job": [{**WORDS, "part": 3}]}, "doctor", "part=3 must be a text"),
    ],
)
def test_what_no_text_is_read_of(pre: Any, item: Any, fault: str) -> None:
    with pytest.raises(DataError, match=fault):
        read(pre).parse(item)


def test_one_name_alone_is_called_what_it_is(tmp_path: Path) -> None:
    one = {"step": "session", "vocabulary": "items", "max_length": 1, "part": "user", "parts": ["user"]}
    pipeline = read({"user": [one]})
    assert pipeline.input.takes == "user"
    (tmp_path / "users.txt").write_text("a\n")
    (tmp_path / "users.tsv").write_text("user\tage\na\t3\n")
    for file in ("users.txt", "users.tsv"):
        (found,) = pipeline.input.file(tmp_path / file)
        assert (found.name, pipeline.prepare(found.item)["user"].tolist()) == ("a", [1])
    with pytest.raises(DataError, match="the user z is not among the 2 that the model knows"):
        pipeline.parse("z")


def test_files_of_many(tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("doctor\n\nnone doctor\n")
    (tmp_path / "rows.csv").write_text('id,history,job\n7,"a,a",none\n')
    texts, rows = read({"job": [WORDS]}).input, read(BOTH).input
    found = [Input("doctor", "doctor"), Input("none doctor", "none doctor")]
    assert list(texts.file(tmp_path / "texts.txt")) == found
    for step, name in ((texts, "none"), (rows, "2")):
        assert list(step.file(tmp_path / "rows.csv")) == [Input(name, {"id": "7", "history": "a,a", "job": "none"})]
    with pytest.raises(DataError, match=r"gone\.txt: cannot be read"):
        list(texts.file(tmp_path / "gone.txt"))
