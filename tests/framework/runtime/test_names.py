"""Names by number in a pipeline: sessions in, ranked items out, vocabularies in the bundle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pdl
from pdl.errors import DataError, PdlError, UsageError
from pdl.runtime import bundle, use
from pdl.runtime.names import split_names
from pdl.runtime.pipeline import Pipeline
from pdl.runtime.sample import Sample
from pdl.vocabulary import Vocabulary
from tests.framework.runtime import made
from tests.framework.runtime.test_bundle import contents, rehashed


def read(pre: Any, post: Any = ()) -> Pipeline:
    data = {"pre": {"items": list(pre)}, "post": {"scores": list(post)} if post else {}}
    found = Pipeline.read(json.loads(json.dumps(data)), (), "x.pdl", {"items": made.ITEMS})
    assert found is not None
    return found


SESSION = {"step": "session", "vocabulary": "items", "max_length": 5}


@pytest.mark.parametrize(
    ("item", "numbers", "told"),
    [
        ("apple", [1], {}),
        (" apple , dates,apple", [1, 4, 1, 0], {}),
        ('eggs,"cheese, ""old""",figs', [5, 3, 6, 0], {}),
        (['cheese, "old"', "apple"], [3, 1], {}),
        ("apple,bread,dates,eggs,figs,apple", [2, 4, 5, 6, 1], {}),
        ("apple,pear,bread,plum", [1, 2], {"unknown": ["pear", "plum"]}),
    ],
)
def test_a_session_becomes_numbers(item: Any, numbers: list[int], told: dict[str, Any]) -> None:
    sample = read([SESSION]).take(item)
    assert sample.inputs["items"].dtype == np.int64
    assert (sample.inputs["items"].tolist(), sample.told) == (numbers, told)


def test_names_may_be_whole_numbers() -> None:
    pipeline = Pipeline.read({"pre": {"x": [SESSION]}, "post": {}}, (), "x", {"items": Vocabulary(["7", "214"])})
    assert pipeline is not None
    for item in ("214,7", [214, 7], np.array([214, 7])):
        assert pipeline.prepare(item)["x"].tolist() == [2, 1]


@pytest.mark.parametrize(
    ("item", "error", "message"),
    [
        ("", DataError, "without items"),
        ([], DataError, "without items"),
        ("aple", DataError, r"the item aple is not among the 6 that the model knows; did you mean 'apple'\?"),
        ("pear,plum", DataError, "none of the items pear, plum is among the 6"),
        ("apple,,eggs", DataError, "item 2 of the session 'apple,,eggs' has no name"),
        ('"apple', DataError, "not one line of csv"),
        ("apple\neggs", DataError, "not one line of csv"),
        (7, UsageError, "a list of names, not int"),
        ([1.5], UsageError, "a list of names, not list"),
    ],
)
def test_sessions_that_are_none(item: Any, error: type[PdlError], message: str) -> None:
    with pytest.raises(error, match=message):
        read([SESSION]).take(item)


@given(st.lists(st.text("ab ,'\"\té7", max_size=6), min_size=1, max_size=5))
def test_any_names_survive_csv(names: list[str]) -> None:
    stripped = [name.strip() for name in names]
    text = ",".join('"' + name.replace('"', '""') + '"' for name in stripped)
    if "" in stripped:
        with pytest.raises(DataError, match="has no name"):
            split_names(text)
    else:
        assert split_names(text) == split_names(stripped) == stripped


def test_sessions_of_different_lengths_go_together() -> None:
    pipeline = read([SESSION])
    samples = [pipeline.take(item) for item in ("apple", "apple,bread,dates", "eggs,figs")]
    ((members, inputs),) = pipeline.batches(samples)
    assert members == [0, 1, 2]
    assert inputs["items"].tolist() == [[1, 0, 0, 0], [1, 2, 4, 0], [5, 6, 0, 0]]


def test_what_is_no_number_is_not_ranked() -> None:
    scores = np.array([9, np.nan, -np.inf, 2, np.inf, 2, np.nan], np.float32)
    found = read([SESSION], [{"step": "top_items", "vocabulary": "items", "k": 9}]).finish({"scores": scores})
    assert [each["item"] for each in found["items"]] == ["dates", 'cheese, "old"', "eggs"]


TOP = {"step": "top_items", "vocabulary": "items", "k": 2}


def test_items_are_ranked_by_name() -> None:
    scores = np.array([9, 1, 5, 2, 4, 5, 3], np.float32)
    found = read([SESSION], [TOP]).finish({"scores": scores})
    assert found == {"items": [{"item": "bread", "score": 5.0}, {"item": "eggs", "score": 5.0}]}
    pipeline = read([SESSION], [{**TOP, "exclude": "items"}])
    found = pipeline.finish({"scores": scores}, pipeline.take("eggs,bread,kiwi"))
    assert [each["item"] for each in found["items"]] == ["dates", "figs"]
    assert found["unknown"] == ["kiwi"]
    assert scores[0] == 9, "the net's output is not written into"
    for value in (scores[:-1], scores[None]):
        with pytest.raises(UsageError, match=r"expected scores \[7\]"):
            pipeline.finish({"scores": value}, Sample())


@pytest.mark.parametrize(
    ("pre", "post", "message"),
    [
        ([{**SESSION, "vocabulary": "users"}], [], "session: no vocabulary 'users'; there are: items"),
        ([SESSION], [{**TOP, "vocabulary": "users"}], "top_items: no vocabulary 'users'"),
        ([SESSION, SESSION], [], "session must be the first step"),
        ([{**SESSION, "max_length": 0}], [], "max_length=0 must be a number from 1"),
        ([{**SESSION, "lengths": [1, 4]}], [], "must reach max_length=5"),
        ([{**SESSION, "columns": ["a"]}], [], "must be the names of the columns"),
        ([{**SESSION, "vocabulary": 3}], [], "3 must be a name"),
        ([SESSION], [{**TOP, "k": 2**40}], "must be a number from 1 to"),
    ],
)
def test_wrong_steps(pre: Any, post: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(pre, post)


def test_a_bundle_from_session_to_items(tmp_path: Path) -> None:
    (tmp_path / "model.pdl").write_bytes(made.sessions())
    session = pdl.runtime.load(tmp_path / "model.pdl")
    assert session.bundle is not None
    assert list(session.bundle.vocabularies) == ["items"]
    assert list(session.bundle.vocabularies["items"]) == list(made.ITEMS)
    given = ["apple", "apple,bread,dates", ["eggs", "figs", "kiwi"]]
    together, alone = session.batch(given), [session(item) for item in given]
    for a, b, item in zip(together, alone, given, strict=True):
        numbers = made.ITEMS.numbers(split_names(item))
        table = made._item_table()
        scores = table @ table[numbers[numbers > 0]].mean(axis=0)
        order = 1 + np.argsort(-scores[1:], kind="stable")[:3]
        for found in (a, b):
            assert [each["item"] for each in found["items"]] == [made.ITEMS.name(int(n)) for n in order]
            assert [each["score"] for each in found["items"]] == pytest.approx(scores[order].tolist(), abs=1e-5)
    assert together[2]["unknown"] == ["kiwi"]
    facts = use.info(tmp_path / "model.pdl")
    assert facts["vocabularies"] == {"items": '6: apple, bread, cheese, "old", dates, eggs, figs'}
    assert facts["before"]["items"].startswith("session(vocabulary=items")
    measured = use.bench(tmp_path / "model.pdl", batch=3, threads=1, seconds=0.01, sizes={"t": 9})
    assert measured.inputs == {"items": (3, 9)}
    inputs = use.random_inputs(session, 500, {})["items"]
    assert (inputs.min(), inputs.max()) == (1, len(made.ITEMS))


def test_vocabularies_are_hashed_and_checked() -> None:
    members = contents(made.sessions())
    part = "vocabularies/items.txt"
    for changed, message in (
        ({**members, part: members[part] + b"kiwi\n"}, rf"{part}: \d+ bytes, meta.json says"),
        ({name: data for name, data in members.items() if name != part}, f"it lacks {part}, of which meta.json tells"),
        ({**members, "vocabularies/../x.txt": b""}, "no member of a bundle"),
        ({**members, "vocabularies/.txt": b""}, "no member of a bundle"),
    ):
        with pytest.raises(DataError, match=message):
            bundle.read(bundle.archive.pack(changed))
    with pytest.raises(DataError, match=f"{part}: the last line is cut off"):
        bundle.read(rehashed({**members, part: members[part][:-1]}))
    for text, message in ((b"a\na\n", "twice"), (b"\\x\n", "backslash"), (b"\xff\n", "not UTF-8")):
        damaged = bundle.read(rehashed({**members, part: text}))
        with pytest.raises(DataError, match=rf"bytes: {part}: .*{message}"):
            damaged.vocabularies["items"]
    program, weights = made.parts_of("conv")
    with pytest.raises(UsageError, match="a vocabulary's name is of letters"):
        bundle.pack(program, weights, vocabularies={"a/b": made.ITEMS})


def test_another_licence_keeps_the_vocabularies() -> None:
    read = bundle.read(bundle.restate(made.sessions(), licence="MIT", card="# Sessions\n"))
    assert list(read.vocabularies["items"]) == list(made.ITEMS)
