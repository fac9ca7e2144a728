"""Exact match and F1 by cases counted by hand from the definitions of SQuAD's and CMRC's scripts; the best spans of
windows against all spans."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from pdl_nlp.span_extraction.metrics import Answers, AnswerScore, Scoring, exact_match, f1, normalised, pieces
from pdl_nlp.steps.answers import BestSpans, best_spans

#: answer found, answers given, exact match, F1
SQUAD = [
    ("The Eiffel Tower!", ["eiffel tower"], 1, 1),  # articles, signs, case
    ("a  tower", ["tower, the"], 1, 1),
    ("in Paris", ["Paris", "the city of Paris"], 0, 2 / 3),  # the better of 2/3 and 2/5
    ("Paris Paris", ["Paris"], 0, 2 / 3),  # a word counts as often as both have it
    ("well-known", ["well known"], 0, 0),  # signs are taken out, not replaced
    ("theory", ["the theory"], 1, 1),
    ("Rome", ["Paris"], 0, 0),
    ("the", ["a"], 1, 1),  # nothing is left of both
    ("", [], 1, 1),
    ("Rome", [], 0, 0),
    ("", ["Rome"], 0, 0),
    ("Zürich 1848", ["zürich"], 0, 2 / 3),
]
CMRC = [
    ("北京大学。", ["北京大学"], 1, 1),  # signs
    ("在北京", ["北京大学"], 0, 4 / 7),  # two in a row of 3 and 4
    ("大学北京", ["北京大学"], 0, 4 / 8),  # not the four that both have, but two in a row
    ("约 1995 年", ["1995年"], 0, 2 * 2 / 5),  # 约 1995 年 against 1995 年: two in a row
    ("MacBook Air", ["macbook air"], 1, 1),
    ("the end", ["end"], 0, 2 / 3),  # articles count
    ("上海", ["北京", "上海市"], 0, 4 / 5),
    ("《红楼梦》", ["红楼梦"], 1, 1),
    ("", ["北京"], 0, 0),
]


@pytest.mark.parametrize(
    ("scoring", "case"), [*(("squad", case) for case in SQUAD), *(("cmrc", case) for case in CMRC)], ids=str
)
def test_by_hand(scoring: Scoring, case: tuple[str, list[str], int, float]) -> None:
    found, given, exact, score = case
    assert exact_match(found, given, scoring) == exact
    assert f1(found, given, scoring) == pytest.approx(score)


def test_what_is_compared() -> None:
    assert (
        normalised("An  Apple—the best, a.b", "squad") == "apple— best ab"
    )  # a dash is a word boundary, and no ASCII sign
    assert (
        normalised(" 「A-B」是…… ", "cmrc") == "ab是……"
    )  # CMRC's list has …… as one sign, so it never matches a letter
    assert pieces("约3.5米", "cmrc") == ["约", "3", ".", "5", "米"]


def test_the_best_span_is_the_best_of_all() -> None:
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((6, 9, 2)) * 3
    allowed = rng.random((6, 9)) < 0.7
    allowed[:, 0], allowed[:, 4] = False, True
    for most in (1, 3, 40):
        best = best_spans(logits.astype(np.float32), allowed, most)
        for row in range(6):
            p = np.exp(logits[row]) / np.exp(logits[row]).sum(axis=0)
            spans = {(i, j): p[i, 0] * p[j, 1] for i, j in product(range(9), repeat=2)
                     if i <= j < i + most and allowed[row, i] and allowed[row, j]}  # fmt: skip
            top = max(spans, key=lambda span: spans[span])
            assert (best.begin[row], best.end[row]) == top
            assert best.p[row] == pytest.approx(spans[top], rel=1e-5)
            assert best.odds[row] == pytest.approx(np.log(spans[top] / (p[0, 0] * p[0, 1])), abs=1e-5)


def test_windows_are_taken_together() -> None:
    """Two windows of question 0, whose second is the surer one; question 1 has no answer, and none is found."""
    texts, given = np.array(["ab cd", "ab cd", "ef"], object), np.empty(3, object)
    given[:] = [["cd"], ["cd"], []]
    offsets = np.array([[[0, 0], [0, 2]], [[0, 0], [3, 5]], [[0, 0], [0, 2]]])
    best = BestSpans(np.ones(3, int), np.ones(3, int), np.array([0.5, 2.0, -1.0]), np.array([0.6, 0.4, 0.2]))
    answers = Answers("squad", unanswerable=True)
    for part in (slice(0, 1), slice(1, 3)):
        of = BestSpans(*(each[part] for each in best))
        answers.update(of, offsets[part], np.array([0, 0, 1])[part], texts[part], given[part])
    found = answers.compute()
    assert [(each.text, each.start, each.end) for each in found] == [("cd", 3, 5), ("", 0, 0)]
    assert found[1].p == pytest.approx(0.2 * np.e)
    assert [AnswerScore(answers, "exact", kind).compute() for kind in (None, True, False)] == [1, 1, 1]
    sure = Answers("squad", unanswerable=False)
    sure.update(best, offsets, np.array([0, 0, 1]), texts, given)
    assert [each.text for each in sure.compute()] == ["cd", "ef"]
    assert AnswerScore(sure, "f1", answerable=False).compute() == 0
