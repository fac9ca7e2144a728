"""The answer step of reading comprehension: from the logits of where an answer begins and ends to a piece of text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from pdl.dtype import Array
from pdl.errors import DataError, UsageError
from pdl.runtime.steps import Sample
from pdl.runtime.steps.arguments import check, count, text
from pdl.runtime.steps.inputs import Flag
from pdl.runtime.steps.outputs import PostStep
from pdl_nlp.steps.evidence import WINDOW, Evidence, NearestPassages, TermIndex
from pdl_nlp.steps.passages import passages_in

SEARCH = Flag("--search", "FILE|FOLDER", "Find the answer in these lines, or in passages of files.")
RETRIEVER = Flag("--retriever", "MODEL", "Find passages by this model's vectors; by default by BM25.")


class BestSpans(NamedTuple):
    """The best span of each window, [M] each.

    begin, end  int64: its first and its last token
    odds        float64: log p(span) - log p(no answer), where p(i, j) is p(begins at i) p(ends at j), and no answer is
                (0, 0): comparable between the windows of a paragraph
    p           float64: p(span)
    """

    begin: Array
    end: Array
    odds: Array
    p: Array


def best_spans(logits: Array, allowed: Array, max_answer: int) -> BestSpans:
    """The spans with the highest p(begins at i) p(ends at j) of all with i <= j < i + max_answer and both allowed; of
    equal ones the shortest, of these the first.

    logits   float [M, T, 2]: of the first token of an answer and of the last, over all T
    allowed  bool [M, T]: the tokens of the paragraph, of which every window has one
    """
    logits = logits.astype(np.float64)
    scores = logits - np.log(np.exp(logits - logits.max(axis=1, keepdims=True)).sum(axis=1, keepdims=True))
    scores -= logits.max(axis=1, keepdims=True)
    begin, end = (np.where(allowed, scores[..., side], -np.inf) for side in (0, 1))
    rows, count = np.arange(len(logits)), logits.shape[1]
    found, first, length = (
        np.full(len(logits), -np.inf),
        np.zeros(len(logits), np.int64),
        np.zeros(len(logits), np.int64),
    )
    for more in range(min(max_answer, count)):
        both = begin[:, : count - more] + end[:, more:]
        at = both.argmax(axis=1)
        value = both[rows, at]
        better = value > found
        found[better], first[better], length[better] = value[better], at[better], more
    return BestSpans(first, first + length, found - scores[:, 0].sum(axis=1), np.exp(found))


class AnswerSpan(PostStep):
    """{"answer": a piece of the paragraph, "start", "end": where it is in it, in code points, "score": p of it within
    its window} of logits [W, T, 2] of the windows of a paragraph: of the best span of each the one that is the most
    likely compared with no answer. With `--search` a question is enough, whose answers are found in files: see
    `pdl_nlp.steps.evidence.Evidence`.

    max_answer    tokens of the longest answer
    unanswerable  whether there may be no answer: then the answer is "", start and end are 0, and score is p of that,
                  where no window has a span that is more likely
    vocabulary    under which the step `windows` keeps the text
    """

    name = "answer_span"
    any_script = True

    def __init__(self, max_answer: int, unanswerable: bool = False, vocabulary: str = "tokens") -> None:
        check(isinstance(unanswerable, bool), f"unanswerable={unanswerable!r:.60} must be true or false")
        self.max_answer, self.unanswerable = count("max_answer", max_answer), unanswerable
        self.vocabulary = text("vocabulary", vocabulary)

    def __call__(self, value: Any, sample: Sample) -> Any:
        read = sample.memo.get(self.vocabulary)
        if read is None or value.ndim != 3 or value.shape[2] != 2:
            shape = f"logits {value.shape} must be [windows, T, 2]"
            raise UsageError(f"answer_span: {shape}, behind the step windows ({self.vocabulary!r})")
        offsets = np.zeros((*value.shape[:2], 2), np.int64)
        for row, window in zip(offsets, read.windows, strict=True):
            row[: len(window.offsets)] = window.offsets
        # padding has no part in the probabilities
        real = np.arange(value.shape[1]) < np.array([[len(window.tokens)] for window in read.windows])
        best = best_spans(np.where(real[..., None], value, -1e9), offsets[..., 1] > 0, self.max_answer)
        at = int(best.odds.argmax())
        if self.unanswerable and best.odds[at] <= 0:
            return {"answer": "", "start": 0, "end": 0, "score": float(np.exp(np.log(best.p[at]) - best.odds[at]))}
        start, end = int(offsets[at, best.begin[at], 0]), int(offsets[at, best.end[at], 1])
        return {"answer": read.paragraph[start:end], "start": start, "end": end, "score": float(best.p[at])}

    def caption(self, answer: Any) -> str:
        return str(answer["answer"]) or "no answer"

    @property
    def flags(self) -> Sequence[Flag]:
        return SEARCH, RETRIEVER

    def configured(self, values: Mapping[str, Sequence[str]], predictor: Any) -> PostStep:
        places, others = values.get(SEARCH.name, ()), values.get(RETRIEVER.name, ())
        if not places and others:
            raise UsageError(
                f"{RETRIEVER.name} {others[0]}: it finds passages; say where: {SEARCH.name} FILE or FOLDER"
            )
        if not places:
            return self
        if others:
            from pdl.workflow.prediction import open_model

            retriever: Any = NearestPassages(places, open_model(others[-1]))
        else:
            tokenizer = predictor.pipeline.input.tokenizer
            passages = [each for place in places for each in passages_in(place, tokenizer, WINDOW)]
            if not passages:
                raise DataError(f"{SEARCH.name}: no text there has a token that the model knows; give lines of text")
            retriever = TermIndex(passages, tokenizer)
        return Evidence(retriever, predictor, self.vocabulary)
