"""Vectors of texts as answers, and what lies near them: semantic search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.errors import DataError, UsageError
from pdl.ranking import top_k
from pdl.runtime import tables
from pdl.runtime.sample import Sample
from pdl.runtime.steps.arguments import check
from pdl.runtime.steps.inputs import Flag
from pdl.runtime.steps.outputs import PostStep, Ranking, ranked_alike

SEARCH = Flag("--search", "FILE|FOLDER", "Answer with the nearest of these lines, or files of a folder.")
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
        return (
            Nearest(TextIndex.of([each for place in places for each in texts_in(place)], predictor)) if places else self
        )


class Nearest(Ranking):
    """{"found": [the k nearest texts of an index, each {"text", "place", "score"}]} of the vector of a text; the score
    is the cosine."""

    name = "nearest_texts"

    def __init__(self, index: TextIndex, k: int = FOUND) -> None:
        self.index, self.k = index, k

    def __call__(self, value: Any, sample: Sample) -> Any:
        scores, places = self.index.search(value[None], self.k)
        rows = zip(scores[0].tolist(), places[0].tolist(), strict=True)
        names, texts = self.index.places, self.index.texts
        return {"found": [{"text": texts[at], "place": names[at], "score": score} for score, at in rows]}

    def rows(self, answer: Any) -> list[dict[str, Any]]:
        return list(answer["found"])

    def agrees(self, ours: Any, theirs: Any, tolerance: float, sample: Sample) -> bool:
        return ranked_alike(ours["found"], theirs["found"], "place", tolerance)


@dataclass(frozen=True)
class TextIndex:
    """Texts, where each is from, and their vectors float32 [N, C] of length 1."""

    texts: Sequence[str]
    places: Sequence[str]
    vectors: Array

    @classmethod
    def of(cls, found: Sequence[tuple[str, str]], predictor: Any) -> TextIndex:
        """Of (place, text) pairs, by a model that gives vectors; texts without tokens are left out."""
        names, texts, vectors = list[str](), list[str](), vectors_of([text for _, text in found], predictor)
        for (place, text), vector in zip(found, vectors, strict=True):
            if vector is not None:
                names.append(place)
                texts.append(text)
        kept = [vector for vector in vectors if vector is not None]
        if not kept:
            raise DataError("--search: no text there has a token that the model knows; give lines of text")
        return cls(texts, names, unit(np.stack(kept)))

    def search(self, queries: Array, k: int) -> tuple[Array, Array]:
        """Cosines [Q, k] and numbers of the nearest texts int64 [Q, k] of vectors [Q, C], nearest first."""
        return top_k(unit(queries) @ self.vectors.T, min(k, len(self.texts)), first=0)


def vectors_of(texts: Sequence[str], predictor: Any) -> list[Array | None]:
    """The vector of each text by a model whose first output is one; None where a text has no token. Texts of about one
    length go through the net together."""
    pipeline, found, samples = predictor.pipeline, list[Array | None]([None] * len(texts)), dict[int, Sample]()
    for number, text in enumerate(texts):
        try:
            samples[number] = pipeline.parse(text)
        except DataError:
            continue
    numbers = list(samples)
    for members, inputs in pipeline.batches(list(samples.values())):
        for member, vector in zip(members, next(iter(predictor.run(inputs).values())), strict=True):
            found[numbers[member]] = vector
    return found


def texts_in(place: str) -> list[tuple[str, str]]:
    """(where it is from, text) of each line of a file, or of each file in a folder, by its path inside of that."""
    path = Path(place)
    if path.is_dir():
        files = sorted(each for each in path.rglob("*") if each.is_file() and not each.name.startswith("."))
        return [(str(each.relative_to(path)), _whole(each)) for each in files]
    if not path.is_file() and place != "-":
        raise UsageError(f"--search {place}: no such file or folder; name a file of lines, or a folder of text files")
    with tables.opened(place) as file:
        lines = ((number, line.strip()) for number, line in enumerate(tables.lines_of(file, place), 1))
        return [(f"{place}:{number}", line) for number, line in lines if line]


def _whole(path: Path) -> str:
    with tables.opened(path) as file:
        return " ".join(" ".join(tables.lines_of(file, str(path))).split())


def unit(vectors: Array) -> Array:
    """Vectors [N, C] with the length 1; one of zeros stays."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.ascontiguousarray(vectors / np.maximum(lengths, 1e-12), np.float32)
