"""The input step for rows of a table."""

from __future__ import annotations

from typing import Any

import pytest

from pdl.errors import UsageError
from pdl.runtime.fields import Category, Names, Number, to_plain
from pdl.runtime.steps import Resources, Sample
from pdl.runtime.steps.rows import RowInput
from pdl.vocabulary import Vocabulary

FIELD: dict[str, Any] = {"column": "a", "kind": "category", "hash": 5}


@pytest.mark.parametrize(
    "spec",
    [
        {"kind": "category", "hash": 5},
        {**FIELD, "kind": "image"},
        {**FIELD, "hash": 0},
        {**FIELD, "hash": 5.5},
        {**FIELD, "vocabulary": "v"},
        {"column": "a", "kind": "category"},
        {**FIELD, "kind": "names", "length": 0, "separator": " "},
        {**FIELD, "kind": "names", "length": 3},
        {"column": "a", "kind": "number", "edges": [2, 1]},
        {"column": "a", "kind": "number", "scale": "cubic"},
        {"column": "a", "kind": "number", "code": "1"},
        [],
    ],
)
def test_a_damaged_step_is_refused(spec: Any) -> None:
    with pytest.raises(UsageError, match=r"^fields: 'x'"):
        RowInput("ids", {"x": spec})


def test_the_step_reads_what_encoders_write() -> None:
    vocabulary = Vocabulary(["u", "v"])
    made = {"a": Category(vocabulary), "b": Names(Category(hash=9, seed=2), 3, "|"), "c": Number(edges=(0.0, 1.0))}
    step = RowInput("ids", {name: to_plain(each, name.upper(), "names") for name, each in made.items()})
    step.bind(Resources(vocabularies={"names": vocabulary}))
    assert step.fields.encoders == made
    ids = step.parse({"A": "v", "B": "x|y", "C": 0.5}, Sample())
    assert (ids[0], ids[3], ids[4]) == (2, 0, 2)
    with pytest.raises(UsageError, match="no vocabulary 'names'"):
        step.bind(Resources())


def test_values_that_say_nothing_are_warned_of_once() -> None:
    fields = {
        "degree": {"column": "education", "kind": "category", "vocabulary": "degree"},
        "age": {"column": "age", "kind": "number", "edges": [30.0]},
        "user": {"column": "user", "kind": "category", "vocabulary": "user"},
    }
    step = RowInput("ids", fields)
    vocabularies = {"degree": Vocabulary(["Bachelors", "Masters"]), "user": Vocabulary(map(str, range(1001)))}
    step.bind(Resources(vocabularies=vocabularies))
    row = {"education": "bachelor", "age": "old", "user": "a new one"}
    with pytest.warns(RuntimeWarning) as caught:
        step.parse(row, Sample())
    step.parse(row, Sample())  # a second time without a warning
    assert [str(each.message) for each in caught] == [
        "column 'education': 'bachelor' is none of the 2 names that the model knows, and counts as missing; did you "
        "mean 'Bachelors'?",
        "column 'age': 'old' is no number, and counts as missing",
    ]
    step.parse({"education": "Masters", "age": "", "user": None}, Sample())  # missing, and no warning
