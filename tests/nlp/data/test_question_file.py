"""Files of SQuAD's form: answers where they are, and what is wrong with a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pdl.errors import DataError
from pdl_nlp.data import QuestionFile


def write(folder: Path, *questions: dict[str, Any], context: str = "Rome is old. Rome is \U0001f600 big.") -> Path:
    path = folder / "a.json"
    path.write_text(json.dumps({"data": [{"paragraphs": [{"context": context, "qas": list(questions)}]}]}))
    return path


def asked(*answers: tuple[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": "q7", "question": "What?", "answers": [{"text": a, "answer_start": s} for a, s in answers], **more}


def test_answers_and_questions_without(tmp_path: Path) -> None:
    unanswerable = asked(("Rome", 0), is_impossible=True)
    data = QuestionFile(write(tmp_path, asked(("big", 23), ("Rome", 13)), asked(), unanswerable))
    assert data[0]["answers"] == ["big", "Rome"]
    assert [data[0]["paragraph"][s:][:3] for s in data[0]["starts"]] == ["big", "Rom"]
    assert [data[i]["answers"] for i in (1, 2)] == [[], []]
    assert not data.questions[0].moved


def test_an_answer_elsewhere_is_taken_from_the_nearest_place(tmp_path: Path) -> None:
    data = QuestionFile(write(tmp_path, asked(("Rome", 10)), asked(("Rome", 3)), asked(("Rome", -1))))
    assert [int(data[i]["starts"][0]) for i in range(3)] == [13, 0, 0]
    assert data.questions[0].moved == [("Rome", 10, 13)]


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (asked(("Paris", 0)), r"a\.json.*question q7: its paragraph does not have the answer 'Paris'"),
        (asked(("", 0)), r"question q7: an empty answer"),
        ({"id": "q7", "answers": []}, r"question q7: 'question' is missing, expected str"),
        ({"id": "q7", "question": "What?"}, r"question q7: 'answers' is missing, expected list"),
        (asked(("Rome", "0")), r"question q7: 'answer_start' is '0', expected int"),
    ],
)
def test_faults_name_the_question(question: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        QuestionFile(write(tmp_path, question))


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("[1")
    with pytest.raises(DataError, match=r"a\.json: no JSON"):
        QuestionFile(tmp_path / "a.json")
    (tmp_path / "a.json").write_text('{"rows": []}')
    with pytest.raises(DataError, match=r"'data' is missing, expected list.*SQuAD's form"):
        QuestionFile(tmp_path / "a.json")
    (tmp_path / "a.json").write_text('{"data": []}')
    with pytest.raises(DataError, match="has no texts"):
        QuestionFile(tmp_path / "a.json")


def test_a_paragraph_is_in_one_split(tmp_path: Path) -> None:
    path = tmp_path / QuestionFile.stand_in(tmp_path, {"path": "b.json"}).settings["path"]
    parts = [QuestionFile(path, split=split, ratios={"train": 0.7, "val": 0.3}) for split in ("train", "val")]
    texts = [{each[i]["paragraph"] for i in range(len(each))} for each in parts]
    assert not texts[0] & texts[1]
    assert sum(map(len, parts)) == len(QuestionFile(path))
    assert parts[0].fingerprint != parts[1].fingerprint
