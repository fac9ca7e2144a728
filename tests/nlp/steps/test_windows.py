"""The step `windows`: every token of a paragraph is in a window; answers are pieces of the text, letter by letter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pdl.errors import DataError, UsageError
from pdl.runtime.steps import Resources, Sample
from pdl_nlp.steps.answers import AnswerSpan
from pdl_nlp.steps.tokens import held
from pdl_nlp.steps.windows import GIVES, WindowsInput, begins
from pdl_nlp.tokenizers import Characters, Tokenizer
from tests.nlp.tokenizers.made import wordpiece

CHARACTERS = Characters(["[PAD]", "[UNK]", *"abcdefgh"], special={"pad": "[PAD]", "unknown": "[UNK]"})


def bound(tokenizer: Tokenizer, **settings: Any) -> list[WindowsInput]:
    arguments, vocabularies, constants = held(tokenizer)
    steps = [WindowsInput(**arguments, **settings, gives=gives) for gives in GIVES]
    for step in steps:
        step.bind(Resources((), vocabularies, constants))
    return steps


@pytest.mark.parametrize(("room", "overlap"), [(7, 3), (5, 0), (9, 8), (100, 40)])
def test_windows_hold_every_token(room: int, overlap: int) -> None:
    for count in range(1, 40):
        first = begins(count, room, overlap)
        seen = {at for begin in first for at in range(begin, min(begin + room, count))}
        assert seen == set(range(count))
        assert all(min(begin + room, count) - (begin + room - overlap) >= min(overlap, 1) for begin in first[:-1])
        assert len(first) == 1 or count > room


def test_nets_that_read_them_apart() -> None:
    sample = Sample()
    tokens, _, question = (step.parse("ab\tabc dexfg", sample) for step in bound(CHARACTERS, max_length=5, overlap=2))
    assert question.tolist() == [[2, 3, 0, 0]] * 3
    assert tokens.tolist() == [[1, 2, 3, 4, 5], [1, 4, 5, 6, 1], [1, 6, 1, 7, 8]]
    assert sample.memo["tokens"].windows[1].offsets.tolist() == [[0, 0], [2, 3], [4, 5], [5, 6], [6, 7]]
    step = bound(CHARACTERS, max_length=50)[0]
    short, other = (step.parse(["ab", text], Sample()) for text in ("abc", "abcdefg"))
    assert step.group(short) != step.group(np.concatenate([short, short]))
    assert step.collate([short, other]).tolist() == [[[1, 2, 3, 4, 0, 0, 0, 0]], [[1, *range(2, 9)]]]
    short = bound(CHARACTERS, max_length=50)[0].parse(["ab", "abc"], Sample())
    assert short.tolist() == [[1, 2, 3, 4]]


def test_nets_that_read_them_together() -> None:
    sample = Sample()
    settings = {"max_length": 8, "overlap": 1, "question_length": 1, "together": True}
    tokens, segments, _ = (step.parse("want want\twant unwanted", sample) for step in bound(wordpiece(), **settings))
    assert tokens.tolist() == [[2, 5, 3, 5, 9, 6, 7, 3]]  # [CLS] want [SEP] want un ##want ##ed [SEP]
    assert segments.tolist() == [[0, 0, 0, 1, 1, 1, 1, 1]]
    assert sample.memo["tokens"].windows[0].offsets[3:7].tolist() == [[0, 4], [5, 7], [7, 11], [11, 13]]


@pytest.mark.parametrize(
    "text", ["a\U0001f600b\u0301 c\u200dd efgh", "  ab\U0001f1e9\U0001f1ea gh ", "cafe\u0301 bad\n"]
)
def test_answers_are_pieces_of_the_text(text: str) -> None:
    """Emoji and combining marks are code points, as Python counts them."""
    for begin, end in ((0, 1), (1, 4), (2, 2), (0, 5)):
        sample = Sample()
        tokens = bound(CHARACTERS, max_length=8, overlap=2)[0].parse(["a", text], sample)
        windows = sample.memo["tokens"].windows
        at = len(windows) - 1
        last = len(windows[at].tokens) - 1
        begin, end = min(begin, last - 1) + 1, min(end, last - 1) + 1
        logits = np.zeros((*tokens.shape, 2), np.float32)
        logits[at, begin, 0], logits[at, end, 1] = 9, 9
        answer = AnswerSpan(30)(logits, sample)
        offsets = windows[at].offsets
        assert (answer["start"], answer["end"]) == (offsets[begin, 0], offsets[end, 1])
        assert answer["answer"] == text[answer["start"] : answer["end"]]
        assert not answer["answer"].isspace()


def test_no_answer_where_none_is_likelier() -> None:
    sample = Sample()
    tokens = bound(CHARACTERS, max_length=8)[0].parse("a\tbcd", sample)
    logits = np.zeros((*tokens.shape, 2), np.float32)
    logits[0, 0] = 1
    p = np.exp(1) / (np.exp(1) + 3)  # padding has no part in it
    found = AnswerSpan(30, unanswerable=True)(logits, sample)
    assert (found["answer"], found["start"], found["end"]) == ("", 0, 0)
    assert found["score"] == pytest.approx(p * p)
    assert AnswerSpan(30, unanswerable=True).caption(found) == "no answer"
    assert AnswerSpan(30)(logits, sample)["answer"] == "b"


def test_faults() -> None:
    step = bound(CHARACTERS, max_length=8)[0]
    for item, says in (("a\t ", "the paragraph has no tokens"), (" \tabc", "the question has no tokens")):
        with pytest.raises(DataError, match=says):
            step.parse(item, Sample())
    with pytest.raises(DataError, match="is one text; the model reads two"):
        step.parse("abc", Sample())
    with pytest.raises(UsageError, match="max_length=8: no room for the paragraph"):
        bound(wordpiece(), max_length=8, overlap=4, together=True)[0].parse("want want\twant", Sample())
    with pytest.raises(UsageError, match="overlap=9 must be in"):
        bound(CHARACTERS, max_length=8, overlap=9)
    with pytest.raises(UsageError, match="behind the step windows"):
        AnswerSpan(3)(np.zeros((1, 3, 2)), Sample())
