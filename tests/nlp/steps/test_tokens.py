"""The step `tokens`: texts and pairs to numbers, and what it keeps for the answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdl.errors import DataError, UsageError
from pdl.runtime.pipeline import Pipeline
from pdl.runtime.steps import Resources, Sample
from pdl_nlp.steps.tokens import TokensInput, held
from pdl_nlp.tokenizers import Tokenizer
from tests.nlp.tokenizers.made import bpe, wordpiece


def bound(tokenizer: Tokenizer, **settings: Any) -> TokensInput:
    arguments, vocabularies, constants = held(tokenizer)
    step = TokensInput(**arguments, **settings)
    step.bind(Resources((), vocabularies, constants))
    return step


def test_a_text() -> None:
    sample = Sample()
    found = bound(wordpiece()).parse("UNwanted dog", sample)
    assert (found.tolist(), found.dtype) == ([2, 9, 6, 7, 1, 3], np.int64)
    assert sample.notes == {"unknown": ["dog"]}
    kept = sample.memo["tokens"]
    assert [kept.texts[0][b:e] for b, e in kept.encoding.offsets] == ["", "UN", "want", "ed", "dog", ""]


def test_a_pair_and_its_segments() -> None:
    steps = [bound(wordpiece(), pair="other", gives=gives) for gives in ("ids", "segments")]
    for item in (
        "want\tunwanted",
        ["want", "unwanted"],
        {"text": "want", "other": "unwanted"},
        "text=want,other=unwanted",
    ):
        sample = Sample()
        ids, segments = (step.parse(item, sample) for step in steps)
        assert ids.tolist() == [2, 5, 3, 9, 6, 7, 3]
        assert segments.tolist() == [0, 0, 0, 1, 1, 1, 1]
        assert sample.memo["tokens"].texts == ["want", "unwanted"]


def test_two_texts_one_by_one() -> None:
    parts = ["text", "other"]
    steps = [bound(wordpiece(), part=part, parts=parts) for part in parts]
    for item in ("want\tunwanted", ["want", "unwanted"], {"other": "unwanted", "text": "want"}):
        sample = Sample()
        first, second = (step.parse(item, sample) for step in steps)
        assert [each[each > 0].tolist() for each in (first, second)] == [[2, 5, 3], [2, 9, 6, 7, 3]]
        assert [sample.memo[key].texts for key in ("tokens", "tokens.other")] == [["want"], ["unwanted"]]
    with pytest.raises(DataError, match="is one text; the model reads two"):
        steps[0].parse("want", Sample())
    alone = [step.configured({"--search": ["lines.txt"]}) for step in steps]
    assert [step.parse("want", Sample())[:3].tolist() for step in alone] == [[2, 5, 3]] * 2
    assert steps[0].configured({}) is steps[0]


@pytest.mark.parametrize(
    ("words", "length"), [(1, 4), (6, 8), (7, 9), (19, 22), (30, 32), (40, 44), (46, 48), (60, 50)]
)
def test_few_lengths(words: int, length: int) -> None:
    assert bound(wordpiece(), max_length=50).parse("want " * words, Sample()).shape == (length,)


def test_it_is_said_where_a_text_is_cut() -> None:
    step = bound(wordpiece(), max_length=5)
    for text, notes in (("want " * 3, {}), ("want " * 4, {"cut": 14}), ("wanted unwanted", {"cut": 9})):
        sample = Sample()
        step.parse(text, sample)
        assert sample.notes == notes, text


def test_texts_of_about_one_length_go_together() -> None:
    """Not one position of padding where there are many texts; and no more tokens at once than are of use."""
    step = bound(wordpiece(), max_length=64)
    pipeline = Pipeline({"tokens": [step]}, {})
    counts = [1, 2, 3, 40, 5, 30, 6, 1, 44] * 20
    samples = [pipeline.parse("want " * count) for count in counts]
    seen = dict[int, Any]()
    for members, inputs in pipeline.batches(samples):
        assert inputs["tokens"].size <= 512
        assert (inputs["tokens"] == 0).mean() < 0.25
        seen |= dict(zip(members, inputs["tokens"], strict=True))
    assert sorted(seen) == list(range(len(counts)))
    for number, row in seen.items():
        assert row[row > 0].tolist() == [2, *[5] * counts[number], 3]
    assert len(list(pipeline.batches(samples, 1000))) == 5, "of 3 and 4 tokens, 5, 7 and 8, 32, 42 and 46"


def test_pairs_of_several_lengths_in_one_batch() -> None:
    steps = {name: bound(wordpiece(), pair="other", gives=name) for name in ("ids", "segments")}
    pipeline = Pipeline({name: [step] for name, step in steps.items()}, {})
    samples = [pipeline.parse(pair) for pair in ("want\twant", "want\twant want")]
    ((members, inputs),) = pipeline.batches(samples)
    assert members == [0, 1]
    assert inputs["ids"].tolist() == [[2, 5, 3, 5, 3, 0], [2, 5, 3, 5, 5, 3]]
    assert inputs["segments"].tolist() == [[0, 0, 0, 1, 1, 0], [0, 0, 0, 1, 1, 1]]


def test_arrays_of_a_tokenizer_are_constants() -> None:
    assert list(held(bpe(), "bytes")[2]) == ["bytes.merges"]
    with pytest.raises(UsageError, match="no token for padding"):
        bound(bpe())


@pytest.mark.parametrize(
    ("settings", "item", "said"),
    [
        ({}, " \n", "has no tokens"),
        ({"pair": "b"}, "want", "is one text; the model reads two"),
        ({"pair": "b"}, ["a", "b", "c"], "a pair is two texts, not 3"),
        ({"pair": "b"}, {"text": "a"}, "says nothing of 'b'"),
        ({"parts": ["text", "age"]}, {"age": 3}, "says nothing of 'text'"),
    ],
)
def test_items_that_say_nothing(settings: dict[str, Any], item: Any, said: str) -> None:
    with pytest.raises(DataError, match=said):
        bound(wordpiece(), **settings).parse(item, Sample())


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"tokenizer": 3}, "must be its settings"),
        ({"gives": "x"}, "gives='x' must be one of ids, segments"),
        ({"max_length": 0}, "max_length=0"),
        ({"pair": "b", "parts": ["text"]}, "must have text and b"),
    ],
)
def test_faults_of_settings(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        TokensInput(**{"vocabulary": "tokens", "tokenizer": {}, **settings})


def test_a_vocabulary_that_is_not_there() -> None:
    with pytest.raises(UsageError, match="no vocabulary 'tokens'; there are: none"):
        TokensInput("tokens", {}).bind(Resources())


def test_files(tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("want\n\nun want\n")
    (tmp_path / "rows.csv").write_text("text,other\nwant,un\n")
    assert [each.item for each in bound(wordpiece()).file(tmp_path / "lines.txt")] == ["want", "un want"]
    step = bound(wordpiece(), pair="other")
    assert [step.parse(each.item, Sample()).tolist() for each in step.file(tmp_path / "rows.csv")] == [[2, 5, 3, 9, 3]]
    alone = bound(wordpiece())
    assert [alone.parse(each.item, Sample())[1] for each in alone.file(tmp_path / "rows.csv")] == [5]


def test_made_up_batches_are_valid() -> None:
    step = bound(wordpiece())
    assert step.random((4, 8), np.random.default_rng(0), {}).min() > 0
    assert step.random((4, 8), np.random.default_rng(0), {}).max() < len(step.tokenizer.tokens)
    assert not bound(wordpiece(), gives="segments").random((2, 8), np.random.default_rng(0), {}).any()
