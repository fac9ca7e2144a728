"""Questions about facts: rows by name in, the numbers of an entity, a relation and a direction out; files of them."""

from __future__ import annotations

import gzip
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdl.errors import DataError, UsageError
from pdl.runtime.pipeline import Pipeline
from pdl.runtime.steps import InputStep
from pdl.vocabulary import Vocabulary
from pdl_graph.steps.triples import PARTS
from tests.pipelines import pipeline as made

NAMES = {"entities": Vocabulary(["ant", "bee, queen", "12"]), "relations": Vocabulary(["eats", "is"])}
PRE = {part: [{"step": "triple_query", "part": part}] for part in PARTS}


def pipeline(pre: Any = PRE) -> Pipeline:
    return made(pre, vocabularies=NAMES)


def step() -> InputStep:
    return pipeline().input


@pytest.mark.parametrize(
    ("item", "numbers", "called"),
    [
        ({"head": "ant", "relation": "is"}, [1, 2, 0], "ant,is,?"),
        ({"relation": "eats", "tail": "bee, queen"}, [2, 1, 1], '?,eats,"bee, queen"'),
        ({"head": "", "relation": "eats", "tail": 12, "note": ["x"]}, [3, 1, 1], "?,eats,12"),
        ({"head": "12", "relation": " is ", "tail": "?"}, [3, 2, 0], "12,is,?"),
        ('{"head": "ant", "relation": "is", "tail": null}', [1, 2, 0], "ant,is,?"),
        ("relation=eats,tail=ant", [1, 1, 1], "?,eats,ant"),
        ('"head=bee, queen",relation=is', [2, 2, 0], '"bee, queen",is,?'),
    ],
)
def test_a_query_becomes_numbers(item: Any, numbers: list[int], called: str) -> None:
    found = pipeline().prepare(item)
    assert [(array.dtype, array.shape) for array in found.values()] == [(np.int64, ())] * 3
    assert [int(found[part]) for part in PARTS] == numbers
    assert step().title(item) == called


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({"head": "aunt", "relation": "is"}, r"entity 'aunt' is not among the 3 that .* did you mean 'ant'"),
        ({"head": "ant", "relation": "eat"}, r"relation 'eat' is not among the 2 .*did you mean 'eats'"),
        ({"head": "ant", "relation": "is", "tail": "12"}, "names both head and tail, so nothing is asked"),
        ({"relation": "is", "tail": " "}, "names neither head nor tail"),
        ({"head": "ant", "relatoin": "is"}, "names no relation, but 'relatoin'; did you mean 'relation'"),
        ({"haed": "ant", "relation": "is"}, "names neither head nor tail, but 'haed'; did you mean 'head'"),
        ({"head": ["ant"], "relation": "is"}, "the head .* is no name: expected a text, not list"),
        ({"head": True, "relation": "is"}, "not bool"),
        ("ant is what", "is no file and no row"),
        ('{"head": ', "is not JSON"),
        (7, "a row is a mapping"),
    ],
)
def test_what_is_no_query_is_told(item: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        pipeline().parse(item)


TABLE = 'head,relation,tail\nant,is,\n,eats,"bee, queen"\nant,is,12\n'
LINES = '{"head": "ant", "relation": "is"}\n\n{"relation": "eats", "tail": "bee, queen"}\n'


@pytest.mark.parametrize(
    ("file", "text", "names"),
    [
        ("a.csv", TABLE, ["ant,is,?", '?,eats,"bee, queen"', "4"]),
        ("a.csv.gz", TABLE, ["ant,is,?", '?,eats,"bee, queen"', "4"]),
        ("a.tsv", "relation\thead\nis\tant\n", ["ant,is,?"]),
        ("a.jsonl", LINES, ["ant,is,?", '?,eats,"bee, queen"']),
        ("a.jsonl.gz", LINES, ["ant,is,?", '?,eats,"bee, queen"']),
    ],
)
def test_queries_of_a_file(file: str, text: str, names: list[str], tmp_path: Path) -> None:
    data = text.encode()
    (tmp_path / file).write_bytes(gzip.compress(data) if file.endswith(".gz") else data)
    found = list(step().file(tmp_path / file))
    assert [each.name for each in found] == names
    assert pipeline().prepare(found[0].item) == {"entity": 1, "relation": 2, "inverse": 0}


def test_queries_of_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", type("In", (), {"buffer": io.BytesIO(LINES.encode())}))
    assert [each.name for each in step().file("-")] == ["ant,is,?", '?,eats,"bee, queen"']


@pytest.mark.parametrize(
    ("file", "data", "message"),
    [
        ("a.jsonl", b'{"head": "ant"}\nant is\n', r"a.jsonl:2: 'ant is' is not JSON"),
        ("a.jsonl", b"[1, 2]\n", r"a.jsonl:1: '\[1, 2\]' is no object"),
        ("a.jsonl", b"{}\n\xff\n", r"a.jsonl:2: not UTF-8 text"),
        ("a.jsonl", b"[" * 100_000 + b"\n", r"a.jsonl:1: .* is not JSON"),
        ("a.csv", b"head,relation\nant\n", r"a.csv:2: 1 columns, expected 2"),
        ("b.csv", None, "cannot be read"),
    ],
)
def test_damaged_files_are_told(file: str, data: bytes | None, message: str, tmp_path: Path) -> None:
    if data is not None:
        (tmp_path / file).write_bytes(data)
    with pytest.raises(DataError, match=message):
        list(step().file(tmp_path / file))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"part": "tail"}, "part='tail' must be one of entity, relation, inverse"),
        ({"part": 3}, "part=3"),
        ({"part": "entity", "entities": "items"}, "no vocabulary 'items'; there are: entities, relations"),
        ({"part": "entity", "relations": 5}, "relations=5 must be a text"),
    ],
)
def test_wrong_steps_are_told(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises((UsageError, DataError), match=message):
        pipeline({"x": [{"step": "triple_query", **arguments}]})


def test_made_up_queries_are_valid() -> None:
    steps, rng = pipeline(), np.random.default_rng(0)
    for part, allowed in (("entity", {1, 2, 3}), ("relation", {1, 2}), ("inverse", {0, 1})):
        made = steps.random(part, (200,), rng, {"n": 200})
        assert made is not None
        assert set(made.tolist()) == allowed
