"""Look questions over before training: answers that are elsewhere than the file says, or too long; paragraphs of a test
that training has; empty questions, unknown tokens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.data.checks import Progress, open_all, shorten
from pdl.data.faults import Fault
from pdl.errors import DataError
from pdl.train import Recipe
from pdl_nlp.classification.check import UNKNOWN
from pdl_nlp.data.question_file import QuestionFile
from pdl_nlp.fitting import unknown_share

if TYPE_CHECKING:
    from pdl_nlp.span_extraction.task import SpanExtraction

SHOWN = 5  # faults of a kind and split
LONG = 0.02  # of the answers of a split that are longer than max_answer


def check(task: SpanExtraction, recipe: Recipe, progress: Progress | None = None) -> list[Fault]:
    """Faults of the questions of a recipe."""
    faults: list[Fault] = []
    found = open_all({split: part.build for split, part in recipe.data.splits.items()}, faults)
    questions = {split: data for split, data in found.items() if isinstance(data, QuestionFile)}
    if "train" not in questions:
        return faults
    try:
        task.prepare(recipe, questions)
    except DataError as error:
        return [*faults, Fault(None, None, str(error), "see above")]
    for split, data in questions.items():
        faults += shorten(list(_empty(split, data)), SHOWN, split)
        faults += shorten(list(_moved(split, data)), SHOWN, split)
        if split != "train":
            faults += _again(split, questions["train"], data)
        faults += _tokens(task, split, data)
        if progress is not None:
            progress(split, len(data), len(data))
    return faults


def _empty(split: str, data: QuestionFile) -> Iterator[Fault]:
    for index, each in enumerate(data.questions):
        for what, text in (("question", each.text), ("paragraph", data.paragraphs[each.paragraph])):
            if not text.strip():
                yield Fault(data.path_of(index), index, f"an empty {what}", "write one, or take it out", split=split)


def _moved(split: str, data: QuestionFile) -> Iterator[Fault]:
    for index, each in enumerate(data.questions):
        for answer, said, start in each.moved:
            what = f"answer {answer!r:.40} is at {start}, not at answer_start={said}"
            advice = "correct the file; it is taken from where it is"
            yield Fault(data.path_of(index), index, what, advice, split=split, severity="warning")


def _again(split: str, train: QuestionFile, data: QuestionFile) -> Iterator[Fault]:
    known = {train.paragraphs[each.paragraph] for each in train.questions}
    twins = [index for index, each in enumerate(data.questions) if data.paragraphs[each.paragraph] in known]
    if twins:
        what = f"{len(twins):,} of {len(data):,} questions are about paragraphs that train has, too; this is the first"
        advice = f"take them out of one of the two, or {split} measures memory; or state it with the results"
        yield Fault(data.path_of(twins[0]), twins[0], what, advice, split=split, severity="warning")


def _tokens(task: SpanExtraction, split: str, data: QuestionFile) -> Iterator[Fault]:
    where: dict[str, Any] = {"split": split, "severity": "warning"}
    paragraphs = list(dict.fromkeys(data.paragraphs[each.paragraph] for each in data.questions))
    share = unknown_share(task.tokenizer, paragraphs)
    if share > UNKNOWN:
        what = f"{share:.1%} of the tokens are unknown (a vocabulary of {len(task.tokenizer.tokens):,} {task.unit})"
        yield Fault(None, None, what, "lower task.min_count, or take the tokenizer of this language", **where)
    answers = [each.answers[0] for each in data.questions if each.answers]
    lengths = np.diff(task.tokenizer.encode_many(answers).starts)
    long = float((lengths > task.max_answer).mean()) if answers else 0.0
    if long > LONG:
        what = f"{long:.1%} of the answers have more than {task.max_answer} tokens (the longest {int(lengths.max())})"
        yield Fault(None, None, what, "raise task.max_answer; none of them will be found", **where)
