"""Names by number in a pipeline: sessions in, ranked items out, vocabularies in the bundle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdl
from pdl.cli import main
from pdl.errors import DataError, PdlError, UsageError
from pdl.runtime.bench import bench, random_inputs
from pdl.runtime.info import info
from pdl.runtime.pipeline import Pipeline
from pdl.runtime.predict import predict, write_answers
from pdl.runtime.steps import Sample
from pdl.runtime.tables import split_names
from pdl.vocabulary import Vocabulary
from tests.framework.runtime import made
from tests.pipelines import pipeline as made_pipeline


def read(pre: Any, post: Any = ()) -> Pipeline:
    return made_pipeline({"items": pre}, {"scores": post} if post else {}, vocabularies={"items": made.ITEMS})


SESSION = {"step": "session", "vocabulary": "items", "max_length": 5}


@pytest.mark.parametrize(
    ("item", "numbers", "match"),
    [
        ("apple", [1], {}),
        (" apple , dates,apple", [1, 4, 1, 0], {}),
        ('eggs,"cheese, ""old""",figs', [5, 3, 6, 0], {}),
        (['cheese, "old"', "apple"], [3, 1], {}),
        ("apple,bread,dates,eggs,figs,apple", [2, 4, 5, 6, 1], {}),
        ("apple,pear,bread,plum", [1, 2], {"unknown": ["pear", "plum"]}),
    ],
)
def test_a_session_becomes_numbers(item: Any, numbers: list[int], match: dict[str, Any]) -> None:
    sample = read([SESSION]).parse(item)
    assert sample.inputs["items"].dtype == np.int64
    assert (sample.inputs["items"].tolist(), sample.notes) == (numbers, match)


def test_names_may_be_whole_numbers() -> None:
    pipeline = made_pipeline({"x": [SESSION]}, vocabularies={"items": Vocabulary(["7", "214"])})
    for item in ("214,7", [214, 7], np.array([214, 7])):
        assert pipeline.prepare(item)["x"].tolist() == [2, 1]


@pytest.mark.parametrize(
    ("item", "error", "message"),
    [
        ("", DataError, "without items"),
        ([], DataError, "without items"),
        ("aple", DataError, r"the item aple is not among the 6 that the model knows; did you mean 'apple'\?"),
        ("pear,plum", DataError, "none of the items pear, plum is among the 6"),
        ("apple,,eggs", DataError, "name 2 of the session 'apple,,eggs' is empty"),
        ('"apple', DataError, "not one line of csv"),
        ("apple\neggs", DataError, "not one line of csv"),
        (7, UsageError, "a list of names, not int"),
        ([1.5], UsageError, "a list of names, not list"),
    ],
)
def test_sessions_that_are_none(item: Any, error: type[PdlError], message: str) -> None:
    with pytest.raises(error, match=message):
        read([SESSION]).parse(item)


def test_sessions_of_different_lengths_go_together() -> None:
    pipeline = read([SESSION])
    samples = [pipeline.parse(item) for item in ("apple", "apple,bread,dates", "eggs,figs")]
    ((members, inputs),) = pipeline.batches(samples)
    assert members == [0, 2, 1], "from the shortest one on"
    assert inputs["items"].tolist() == [[1, 0, 0, 0], [5, 6, 0, 0], [1, 2, 4, 0]]


TOP = {"step": "top_names", "vocabulary": "items", "k": 2, "one": "item", "many": "items"}


def test_what_is_no_number_is_not_ranked() -> None:
    scores = np.array([9, np.nan, -np.inf, 2, np.inf, 2, np.nan], np.float32)
    found = read([SESSION], [{**TOP, "k": 9}]).finish({"scores": scores}, Sample())
    assert [each["item"] for each in found["items"]] == ["dates", 'cheese, "old"', "eggs"]


def test_items_are_ranked_by_name() -> None:
    scores = np.array([9, 1, 5, 2, 4, 5, 3], np.float32)
    found = read([SESSION], [TOP]).finish({"scores": scores}, Sample())
    assert found == {"items": [{"item": "bread", "score": 5.0}, {"item": "eggs", "score": 5.0}]}
    pipeline = read([SESSION], [{**TOP, "exclude": "items"}])
    sample = pipeline.parse("eggs,bread,kiwi")
    found = pipeline.finish({"scores": scores}, sample)
    assert [each["item"] for each in found["items"]] == ["dates", "figs"]
    assert sample.notes == {"unknown": ["kiwi"]}
    sample.excluded = np.array([4])
    assert [each["item"] for each in pipeline.finish({"scores": scores}, sample)["items"]] == ["figs", 'cheese, "old"']
    assert scores[0] == 9, "the net's output is not written into"
    for value in (scores[:-1], scores[None]):
        with pytest.raises(UsageError, match=r"expected scores \[7\]"):
            pipeline.finish({"scores": value}, Sample())


@pytest.mark.parametrize(
    ("pre", "post", "message"),
    [
        ([{**SESSION, "vocabulary": "users"}], [], "session: no vocabulary 'users'; there are: items"),
        ([SESSION], [{**TOP, "vocabulary": "users"}], "top_names: no vocabulary 'users'"),
        ([SESSION, SESSION], [], "session cannot be step 2: the steps behind the first"),
        ([{**SESSION, "max_length": 0}], [], "max_length=0 must be a number from 1"),
        ([{**SESSION, "lengths": [1, 4]}], [], "must reach max_length=5"),
        ([{**SESSION, "columns": ["a"]}], [], "must be the names of the columns"),
        ([{**SESSION, "vocabulary": 3}], [], "vocabulary=3 must be a text"),
        ([SESSION], [{**TOP, "k": 2**40}], "must be a number from 1 to"),
    ],
)
def test_wrong_steps(pre: Any, post: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(pre, post)


SESSIONS = made.ranking(SESSION, {**TOP, "k": 3})


def test_a_bundle_from_session_to_items(tmp_path: Path) -> None:
    (tmp_path / "model.pdl").write_bytes(SESSIONS)
    session = pdl.runtime.load(tmp_path / "model.pdl")
    assert session.bundle is not None
    assert list(session.bundle.vocabularies) == ["items"]
    assert list(session.bundle.vocabularies["items"]) == list(made.ITEMS)
    given = ["apple", "apple,bread,dates", ["eggs", "figs", "kiwi"]]
    together, alone = session.batch(given), [session(item) for item in given]
    for a, b, item in zip(together, alone, given, strict=True):
        numbers = made.ITEMS.encode(split_names(item, "session"))
        table = made._item_table()
        scores = table @ table[numbers[numbers > 0]].mean(axis=0)
        order = 1 + np.argsort(-scores[1:], kind="stable")[:3]
        for found in (a, b):
            assert [each["item"] for each in found["items"]] == [made.ITEMS.decode(int(n)) for n in order]
            assert [each["score"] for each in found["items"]] == pytest.approx(scores[order].tolist(), abs=1e-5)
    assert together[2]["unknown"] == ["kiwi"]
    facts = info(tmp_path / "model.pdl")
    assert facts["vocabularies"] == {"items": '6: apple, bread, cheese, "old", dates, eggs, figs'}
    assert facts["before"]["items"].startswith("session(vocabulary=items")
    measured = bench(tmp_path / "model.pdl", batch=3, threads=1, seconds=0.01, sizes={"t": 9})
    assert measured.inputs == {"items": (3, 9)}
    inputs = random_inputs(session, 500, {})["items"]
    assert (inputs.min(), inputs.max()) == (1, len(made.ITEMS))


def test_from_file_to_file(tmp_path: Path) -> None:
    (tmp_path / "model.pdl").write_bytes(SESSIONS)
    rows = [("s2", "apple"), ("s1", "eggs"), ("s2", "dates"), ("s3", "kiwi"), ("s4", "figs"), ("s4", "kiwi")]
    (tmp_path / "in.csv").write_text("session,item\n" + "".join(f"{s},{i}\n" for s, i in rows))
    given = [tmp_path / "in.csv", "figs", ["apple", "dates"]]
    found = list(predict(tmp_path / "model.pdl", given, topk=2, batch_size=2, skip_errors=True))
    assert [each.name for each in found] == ["s2", "s1", "s3", "s4", "figs", "apple,dates"]
    assert "the item kiwi is not among the 6" in str(found[2].error)
    assert found[3].unknown == ["kiwi"]
    assert found[0].rows() == [each | {"score": pytest.approx(each["score"])} for each in found[5].rows()]
    assert write_answers(tmp_path / "out.csv", found, "session") == (6, 10)
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert lines[0] == "session,rank,item,score"
    assert [line.split(",")[:2] for line in lines[1:5]] == [["s2", "1"], ["s2", "2"], ["s1", "1"], ["s1", "2"]]
    with pytest.raises(DataError, match="the item kiwi is not among"):
        list(predict(tmp_path / "model.pdl", ["kiwi"]))


def test_sessions_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("shop.pdl").write_bytes(SESSIONS)
    Path("in.txt").write_text("apple,dates\nkiwi\nfigs,aple\n")
    assert main(["predict", "shop.pdl", "--session", "apple,dates", "--session", "figs,aple", "--json"]) == 0
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert [each["input"] for each in found] == ["apple,dates", "figs,aple"]
    assert [len(each["items"]) for each in found] == [3, 3]
    assert said.err == "figs,aple: aple is not known, and left out; did you mean 'apple'?\n"
    assert main(["predict", "shop.pdl", "--session", "apple,dates", "--topk", "2"]) == 0
    table = capsys.readouterr().out.splitlines()
    best = [each["item"].split()[-1] for each in found[0]["items"][:2]]
    assert [line.split()[-2] for line in table] == ["item", *best]
    assert main(["predict", "shop.pdl", "in.txt", "--out", "answers.csv"]) == 0
    said = capsys.readouterr()
    assert "1 of 3 inputs have no answer" in said.err
    assert "1 names are not known" in said.err
    assert said.out.split() == ["answers", "answers.csv", "inputs", "3", "rows", "6"]
    assert Path("answers.csv").read_text().startswith("session,rank,item,score\n1,1,")
    assert main(["predict", "shop.pdl", "apple,dates", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == found[:1], "a word that is no file is a session"
    assert main(["predict", "shop.pdl", "gone.csv"]) == 3
    assert "gone.csv: cannot be read" in capsys.readouterr().err
    assert main(["predict", "shop.pdl", "--session", "kiwi,plum"]) == 3
    assert "none of the items kiwi, plum is among the 6 that the model knows" in capsys.readouterr().err
    assert main(["predict", "shop.pdl", "in.txt", "--out", "answers.csv", "--json"]) == 2
    Path("conv.pdl").write_bytes(made.whole("conv"))
    assert main(["predict", "conv.pdl", "--session", "apple"]) == 2
    assert "this model has no option --session; it takes an image" in capsys.readouterr().err
