"""Scores of candidates as answers, and the best of other texts for a query: search by a model that reads pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pdl.errors import DataError
from pdl.ranking import top_k
from pdl.runtime.sample import Sample
from pdl.runtime.steps.arguments import check, text
from pdl.runtime.steps.inputs import Flag
from pdl.runtime.steps.outputs import PostStep, Ranking, ranked_alike
from pdl_nlp.steps.passages import WINDOW, Passage, passages_in
from pdl_nlp.steps.vectors import FOUND, SEARCH


class TextScore(PostStep):
    """{"score": x} of a score [1] of a pair of texts. With `--search` the best of other texts for one text, or for the
    first of a pair: {"found": [each {"score", "place", "text"}]}.

    vocabulary  that of the step `tokens` which reads the first text
    """

    name = "text_score"

    def __init__(self, vocabulary: str = "tokens") -> None:
        self.vocabulary = text("vocabulary", vocabulary)

    def __call__(self, value: Any, sample: Sample) -> Any:
        check(value.size == 1, f"text_score: {value.shape} is no score")
        return {"score": float(value.reshape(-1)[0])}

    @property
    def flags(self) -> Sequence[Flag]:
        return (SEARCH,)

    def configured(self, values: Mapping[str, Sequence[str]], predictor: Any) -> PostStep:
        places = values.get(SEARCH.name, ())
        if not places:
            return self
        step = predictor.pipeline.input
        window = max(1, min(WINDOW, step.max_length - 2))
        found = [each for place in places for each in passages_in(place, step.tokenizer, window)]
        if not found:
            raise DataError("--search: no text there has a token that the model knows; give lines of text")
        return Candidates(found, predictor, self.vocabulary)


class Candidates(Ranking):
    """{"found": [the k candidates with the highest score for a text, each {"score", "place", "text"}]}.

    predictor   gives the score of a pair
    """

    name = "best_candidates"
    finds_text = True

    def __init__(self, passages: Sequence[Passage], predictor: Any, vocabulary: str = "tokens", k: int = FOUND) -> None:
        self.passages, self.predictor, self.vocabulary, self.k = passages, predictor, vocabulary, k

    def __call__(self, value: Any, sample: Sample) -> Any:
        query = sample.memo[self.vocabulary].texts[0]
        pairs = [[query, each.text] for each in self.passages]
        answers = self.predictor.pipeline.answers(pairs, self.predictor.run)
        scores = np.array([answer.value["score"] for answer in answers])
        best, numbers = top_k(scores[None], min(self.k, len(scores)), first=0)
        ranked = zip(best[0].tolist(), (self.passages[at] for at in numbers[0].tolist()), strict=True)
        return {"found": [{"score": score, "place": place, "text": text} for score, (text, place) in ranked]}

    def rows(self, answer: Any) -> list[dict[str, Any]]:
        return list(answer["found"])

    def agrees(self, ours: Any, theirs: Any, tolerance: float, sample: Sample) -> bool:
        return ranked_alike(ours["found"], theirs["found"], "place", tolerance)
