"""What training data tells of fields, and how their columns become numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdl.errors import ConfigError, DataError
from pdl.runtime.fields import Category, Names, Number, as_row
from pdl.vocabulary import Vocabulary
from pdl_rec.click_through.fields import Encoding, FieldSpec, LabelSpec, Learned, expanded, learn
from pdl_rec.data.columns import Text


def text(values: list[str]) -> Text:
    names = sorted({*values} - {""})
    return Text(np.array([names.index(v) if v else -1 for v in values]), names)


def learned(fields: dict[str, Any], columns: dict[str, Any], parts: int = 2) -> Learned:
    """Of the columns in so many blocks."""
    size = len(next(iter(columns.values())))
    cuts = np.array_split(np.arange(size), parts)
    blocks = [
        {n: text([c[i] for i in cut]) if isinstance(c[0], str) else np.array(c)[cut] for n, c in columns.items()}
        for cut in cuts
    ]
    return learn(expanded(fields, list(columns)), lambda names, numbers: iter(blocks), Learned())


def test_vocabularies_by_falling_count_and_threshold() -> None:
    found = learned({"u": {"min_count": 2}}, {"u": ["b", "a", "c", "a", "b", "b", "", "d"]})
    assert list(found.vocabularies["u"]) == ["b", "a"]


def test_sequences_share_the_vocabulary_of_the_field_they_are_like() -> None:
    fields = {"item": {}, "seen": {"kind": "sequence", "like": "item", "length": 2, "separator": "^"}}
    found = learned(fields, {"item": ["x", "y", "x"], "seen": ["y^z", "", "y^y^x"]})
    assert list(found.vocabularies["item"]) == ["y", "x", "z"]
    made = Encoding(expanded(fields, []), {}, found)
    assert made.schema.tables == {"item": 4}
    assert made.schema.ids == {"item": ["item", 0], "seen": ["item", 2]}
    assert made.fields.encode([{"item": "x", "seen": ["z", "x"]}])["ids"].tolist() == [[2, 3, 2]]


@given(st.lists(st.floats(-1e6, 1e6) | st.just(float("nan")), min_size=3, max_size=60), st.integers(1, 4))
def test_means_do_not_depend_on_blocks(values: list[float], parts: int) -> None:
    found = learned({"x": {"kind": "number", "scale": "standard"}}, {"x": values}, parts).numbers["x"]
    there = np.array(values)[~np.isnan(values)]
    mean = there.mean() if len(there) else 0.0
    np.testing.assert_allclose(found["mean"], mean, rtol=1e-9, atol=1e-6)
    if len(there) and there.std() > 1e-3 * max(1, abs(mean)):
        np.testing.assert_allclose(found["std"], there.std(), rtol=1e-3)
        scaled = Number(mean=found["mean"], std=found["std"]).encode(there)
        assert abs(scaled.mean()) < 1e-3


def test_buckets_hold_equally_many() -> None:
    values = np.random.default_rng(0).exponential(size=10_000)
    found = learned({"x": {"kind": "number", "buckets": 5}}, {"x": values.tolist()}, 3).numbers["x"]
    codes = Number(edges=tuple(found["edges"])).encode(np.append(values, np.nan))
    assert np.abs(np.bincount(codes) - [1, *[2000] * 5]).max() <= 2
    assert Number(edges=tuple(found["edges"])).rows == 6


@pytest.mark.parametrize(
    ("encoder", "values", "expected"),
    [
        (Number(), [1.5, np.nan], [1.5, 0.0]),
        (Number("log"), [np.e - 1, 1 - np.e, np.nan], [1.0, -1.0, 0.0]),
        (Number("log", 1.0, 2.0), [np.e - 1, 0.0, np.nan], [0.0, -0.5, 0.0]),
        (Number(edges=(0.0, 2.0)), [-1, 0, 1, 2, 3, np.nan], [1, 2, 2, 3, 3, 0]),
    ],
)
def test_numbers(encoder: Number, values: list[float], expected: list[float]) -> None:
    np.testing.assert_allclose(encoder.encode(np.array(values, np.float64)), expected, rtol=1e-6)


def test_hashes_fill_all_buckets_evenly() -> None:
    numbers = Category(hash=50, seed=7).encode([f"name {i}" for i in range(20_000)])
    counts = np.bincount(numbers, minlength=51)
    assert counts[0] == 0
    assert counts[1:].min() > 300  # 400 on average, deviation 20
    assert Category(hash=50).rows == 51


def test_names_keep_the_last_ones() -> None:
    names = Names(Category(Vocabulary(["a", "b", "c"])), 2, "|")
    assert names.encode(["a|b|c", "c", "", "x|a"]).tolist() == [[2, 3], [3, 0], [0, 0], [0, 1]]


@pytest.mark.parametrize(
    ("rule", "column", "expected"),
    [
        ({"at_least": 4}, np.array([3.0, 4.0, 5.0]), [0, 1, 1]),
        ({"equals": ">50K"}, text([">50K", "<=50K", ""]), [1, 0, 0]),
        ({}, np.array([0.0, 1.0, 1.0]), [0, 1, 1]),
        ({}, text(["0", "1", "1"]), [0, 1, 1]),
    ],
)
def test_labels(rule: Any, column: Any, expected: list[float]) -> None:
    made = Encoding({}, {"y": LabelSpec("c", **rule)}, Learned(), group="c" if isinstance(column, Text) else None)
    found = made({"c": column})
    assert found["label"][:, 0].tolist() == expected
    assert found["label"].dtype == np.float32
    if isinstance(column, Text):
        groups = found["group"]
        assert (groups[:, None] == groups).tolist() == [[a == b for b in column.texts()] for a in column.texts()]


def test_labels_that_are_none() -> None:
    with pytest.raises(DataError, match="label 'y' is 5 in row 1 of 2; labels are 0 and 1"):
        Encoding({}, {"y": LabelSpec()}, Learned())({"y": np.array([1.0, 5.0])})


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"a": {"kind": "number", "hash": 10}}, "numbers are not hashed"),
        ({"a": {"buckets": 4}}, "only numbers are cut"),
        ({"a": {"kind": "number", "buckets": 4, "edges": [1.0]}}, "buckets or edges, not both"),
        ({"a": {"kind": "number", "buckets": 4, "scale": "log"}}, "leave out scale"),
        ({"a": {"like": "b"}}, "has no names of its own"),
        ({"a/b": {}}, "names of fields are"),
        ({"Z*": {}}, r"no column fits 'Z\*'; the data has a, b"),
    ],
)
def test_contradictions_are_told(fields: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        expanded(fields, ["a", "b"])


def test_patterns_stand_for_columns_and_names_go_before_them() -> None:
    found = expanded({"C*": {"hash": 10}, "C2": {"hash": 20}}, ["label", "C1", "C2", "C3"])
    assert {name: spec.hash for name, spec in found.items()} == {"C1": 10, "C3": 10, "C2": 20}
    assert isinstance(found["C1"], FieldSpec)


@pytest.mark.parametrize(
    ("item", "row"),
    [
        ("age=39, job=Private", {"age": "39", "job": "Private"}),
        ('age=39,"job=a, b"', {"age": "39", "job": "a, b"}),
        ('{"age": 39, "seen": ["a", "b"]}', {"age": 39, "seen": ["a", "b"]}),
        ({"age": 1}, {"age": 1}),
    ],
)
def test_rows_as_people_give_them(item: Any, row: Any) -> None:
    assert as_row(item) == row


@pytest.mark.parametrize("item", ["39", "age=1,39", "{broken", "[1, 2]", 7, ""])
def test_what_is_no_row(item: Any) -> None:
    with pytest.raises(DataError, match=r"a row is|the row"):
        as_row(item)
