"""How right answers are: exact match and F1, as the evaluation scripts of SQuAD and of CMRC 2018 count them."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from pdl.dtype import Array
from pdl.train.metrics import Metric
from pdl_nlp.steps.answers import BestSpans

Scoring: TypeAlias = Literal["squad", "cmrc"]
"""squad: of words, without articles and punctuation (the script of SQuAD 2.0); cmrc: of Chinese characters, and words
of other scripts, without punctuation, F1 by the longest piece that two answers share (that of CMRC 2018)."""

ARTICLES = re.compile(r"\b(a|an|the)\b")
SIGNS = set("-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』")  # noqa: RUF001  what CMRC's script leaves out
CHINESE = re.compile(r"[\u4e00-\u9fa5]")
PIECES = re.compile(r"[\u4e00-\u9fa5]|(?:(?![\u4e00-\u9fa5])\w)+|[^\w\s]")


def mostly_chinese(texts: Sequence[str]) -> bool:
    """Whether more than half of the letters of texts are Chinese."""
    return sum(len(CHINESE.findall(text)) for text in texts) * 2 > sum(
        each.isalpha() for text in texts for each in text
    )


def normalised(answer: str, scoring: Scoring) -> str:
    """What is compared for an exact match."""
    if scoring == "cmrc":
        return "".join(letter for letter in answer.lower().strip() if letter not in SIGNS)
    plain = "".join(letter for letter in answer.lower() if letter not in string.punctuation)
    return " ".join(ARTICLES.sub(" ", plain).split())


def pieces(answer: str, scoring: Scoring) -> list[str]:
    """What is counted for F1. Of other scripts than Chinese CMRC's script takes the words that NLTK finds, here letters
    in a row and every other sign alone."""
    return PIECES.findall(normalised(answer, scoring)) if scoring == "cmrc" else normalised(answer, scoring).split()


def exact_match(found: str, answers: Sequence[str], scoring: Scoring) -> float:
    """1 where an answer is one of those given, else 0; of none given, the empty one is right."""
    return float(any(normalised(found, scoring) == normalised(each, scoring) for each in answers or [""]))


def f1(found: str, answers: Sequence[str], scoring: Scoring) -> float:
    """The highest F1 = 2 shared / (found + given) with one of the answers. squad: shared words, however often both have
    each; where one has no words, 1 if the other has none. cmrc: the longest pieces in a row that both have."""
    return max(_f1(pieces(found, scoring), pieces(each, scoring), scoring) for each in answers or [""])


def _f1(found: list[str], given: list[str], scoring: Scoring) -> float:
    if not found or not given:
        return float(found == given)
    shared = _longest(found, given) if scoring == "cmrc" else sum((Counter(found) & Counter(given)).values())
    return 2 * shared / (len(found) + len(given))


def _longest(a: list[str], b: list[str]) -> int:
    """The length of the longest run that both have."""
    best, before = 0, [0] * (len(b) + 1)
    for mine in a:
        row = [0] * (len(b) + 1)
        for at, other in enumerate(b, 1):
            if mine == other:
                row[at] = before[at - 1] + 1
        best, before = max(best, *row), row
    return best


class Answered(NamedTuple):
    """The answer found for a question: its number, the answer, where it is in the paragraph, p within its window, the
    answers given, F1 and exact match."""

    row: int
    text: str
    start: int
    end: int
    p: float
    answers: Sequence[str]
    f1: float
    exact: float


class Candidate(NamedTuple):
    """The best span of the windows of a paragraph seen so far: log p(span) - log p(no answer), p, and where it is."""

    odds: float
    p: float
    start: int
    end: int
    paragraph: str
    answers: Sequence[str]


class Answers(Metric):
    """The answers found for the questions of a data set, windows of a paragraph taken together.

    unanswerable  whether a question may have no answer: then "" is the answer where no span is more likely than none
    """

    def __init__(self, scoring: Scoring, *, unanswerable: bool) -> None:
        self.scoring, self.unanswerable = scoring, unanswerable
        self.best: dict[int, Candidate] = {}

    def update(self, best: BestSpans, offsets: Array, rows: Array, paragraphs: Array, answers: Array) -> None:
        """The best spans of M windows: offsets int [M, T, 2]; rows int [M], the number of the question; its paragraph,
        and the answers given."""
        for window, row in enumerate(rows.tolist()):
            odds = float(best.odds[window])
            if row not in self.best or odds > self.best[row].odds:
                start, end = offsets[window, best.begin[window], 0], offsets[window, best.end[window], 1]
                place = (int(start), int(end), paragraphs[window], answers[window])
                self.best[row] = Candidate(odds, float(best.p[window]), *place)

    def compute(self) -> Any:
        """A list of `Answered`, by the number of the question."""
        made = list[Answered]()
        for row, (odds, p, start, end, paragraph, answers) in sorted(self.best.items()):
            if self.unanswerable and odds <= 0:
                start, end, p = 0, 0, float(np.exp(np.log(p) - odds))
            text = paragraph[start:end]
            scores = (f1(text, answers, self.scoring), exact_match(text, answers, self.scoring))
            made.append(Answered(row, text, start, end, p, answers, *scores))
        return made


class AnswerScore(Metric):
    """The mean F1 or exact match of what `Answers` has found; of all questions, or of those that have an answer, or
    have none."""

    def __init__(self, found: Answers, what: Literal["f1", "exact"], answerable: bool | None = None) -> None:
        self.found, self.what, self.answerable = found, what, answerable

    def update(self, *batch: Any) -> None:
        """`Answers` sees the batch itself."""

    def compute(self) -> float:
        scores = [
            getattr(each, self.what)
            for each in self.found.compute()
            if self.answerable is None or bool(each.answers) == self.answerable
        ]
        return float(np.mean(scores)) if scores else float("nan")


def answer_metrics(scoring: Scoring, *, unanswerable: bool) -> dict[str, Metric]:
    """Exact match and F1; of data with questions that have no answer also the F1 of those, and of the others."""
    answers = Answers(scoring, unanswerable=unanswerable)
    made: dict[str, Metric] = {"answers": answers}
    made |= {"exact_match": AnswerScore(answers, "exact"), "f1": AnswerScore(answers, "f1")}
    if unanswerable:
        made["has_answer_f1"] = AnswerScore(answers, "f1", answerable=True)
        made["no_answer_f1"] = AnswerScore(answers, "f1", answerable=False)
    return made
