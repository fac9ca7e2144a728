"""Vectors of texts as answers, and what lies near them: semantic search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pdl.runtime.sample import Sample
from pdl.runtime.steps.arguments import check
from pdl.runtime.steps.inputs import Flag
from pdl.runtime.steps.outputs import PostStep, Ranking, ranked_alike
from pdl_nlp.steps.passages import TextIndex

SEARCH = Flag("--search", "FILE|FOLDER", "Answer with the nearest of these lines, or passages of files.")
FOUND = 5  # answers of a search, unless one asks for more


class TextVector(PostStep):
    """{"vector": float32 [C] as a list} of the vector of a text. With `--search` the nearest of other texts instead."""

    name = "text_vector"

    def __call__(self, value: Any, sample: Sample) -> Any:
        check(value.ndim == 1, f"text_vector: {value.shape} is no vector")
        return {"vector": value.tolist()}

    @property
    def flags(self) -> Sequence[Flag]:
        return (SEARCH,)

    def configured(self, values: Mapping[str, Sequence[str]], predictor: Any) -> PostStep:
        places = values.get(SEARCH.name, ())
        return Nearest(TextIndex.of(places, predictor)) if places else self


class Nearest(Ranking):
    """{"found": [the k nearest passages of an index, each {"score", "place", "text"}]} of the vector of a text; the
    score is the cosine."""

    name = "nearest_texts"
    finds_text = True

    def __init__(self, index: TextIndex, k: int = FOUND) -> None:
        self.index, self.k = index, k

    def __call__(self, value: Any, sample: Sample) -> Any:
        scores, numbers = self.index.search(value[None], self.k)
        nearest = (self.index.passages[number] for number in numbers[0].tolist())
        found = zip(scores[0].tolist(), nearest, strict=True)
        return {"found": [{"score": score, "place": place, "text": text} for score, (text, place) in found]}

    def rows(self, answer: Any) -> list[dict[str, Any]]:
        return list(answer["found"])

    def agrees(self, ours: Any, theirs: Any, tolerance: float, sample: Sample) -> bool:
        return ranked_alike(ours["found"], theirs["found"], "place", tolerance)
