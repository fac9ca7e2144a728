"""Look pairs of texts over before training: what cannot be read, empty texts, scores that are no numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pdl.data.checks import Progress, open_all, shorten
from pdl.data.faults import Fault
from pdl.errors import DataError
from pdl.train import Recipe
from pdl_nlp.loader import pairs_of, scores_of

SHOWN = 5  # faults of a kind and split


def check(recipe: Recipe, progress: Progress | None = None) -> list[Fault]:
    """Faults of the pairs of a recipe."""
    faults: list[Fault] = []
    found = open_all({split: part.build for split, part in recipe.data.splits.items()}, faults)
    for split, data in found.items():
        try:
            (texts, pairs), _ = pairs_of(data), scores_of(data)
        except DataError as error:
            faults.append(Fault(None, None, str(error), "see above", split=split))
            continue
        faults += shorten(list(_empty(split, data, texts, pairs)), SHOWN, split)
        if progress is not None:
            progress(split, len(texts), len(texts))
    return faults


def _empty(split: str, data: Any, texts: list[str], pairs: list[str]) -> Iterator[Fault]:
    for index, pair in enumerate(zip(texts, pairs, strict=True)):
        if not all(text.strip() for text in pair):
            where: dict[str, Any] = {"line": data.line_of(index), "split": split}
            yield Fault(data.path_of(index), index, "an empty text in a pair", "take the pair out", **where)
