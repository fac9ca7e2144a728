"""Look pairs of texts over before training: what cannot be read, empty and repeated texts, classes that only a test
has, queries without a relevant candidate, tokens that training does not know, texts that are cut."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from pdl.data.checks import Progress, open_all, shorten
from pdl.data.faults import Fault
from pdl.errors import DataError
from pdl.train import Recipe
from pdl_nlp.classification.check import SHOWN, again, contradictions, empty, labels, tokens
from pdl_nlp.data.base import Texts
from pdl_nlp.fitting import SPECIAL
from pdl_nlp.loader import scores_of
from pdl_nlp.matching.loader import joined
from pdl_nlp.tokenizers import BERT

if TYPE_CHECKING:
    from pdl_nlp.matching.task import Matching

UNANSWERED = 0.05  # of the queries of a split: more make a ranking of little use


def check(task: Matching, recipe: Recipe, progress: Progress | None = None) -> list[Fault]:
    """Faults of the pairs of a recipe."""
    faults: list[Fault] = []
    found = open_all({split: part.build for split, part in recipe.data.splits.items()}, faults)
    texts = {split: data for split, data in found.items() if isinstance(data, Texts) and len(data)}
    without = [split for split, data in texts.items() if data.pairs is None]
    if without or "train" not in texts:
        what, advice = "has no pairs of texts", "name the column of the second ones (pair=)"
        return faults or [Fault(None, None, what, advice, split=split) for split in without]
    train = texts["train"]
    for split, data in texts.items():
        faults += shorten(list(empty(split, data)), SHOWN, split)
        faults += shorten(list(contradictions(split, data)), SHOWN, split)
        faults += list(_unanswered(split, data)) if task.ranked else list(labels(task, split, train, data))
        if split != "train":
            faults += again(split, train, data)
        if progress is not None:
            progress(split, len(data), len(data))
    whole = joined(recipe)
    task.fit_tokenizer(recipe, [*train.texts, *(train.pairs or ())], special=BERT if whole else SPECIAL)
    faults += tokens(task, texts, joined=whole)
    try:
        task.agree(found)
    except DataError as error:
        if not faults:
            faults.append(Fault(None, None, str(error), "see above"))
    return faults


def _unanswered(split: str, data: Texts) -> Iterator[Fault]:
    """Queries without a relevant candidate."""
    try:
        relevance = scores_of(data)
    except DataError as error:
        yield Fault(None, None, str(error), "see above", split=split)
        return
    best = dict.fromkeys(data.texts, -np.inf)
    for text, score in zip(data.texts, relevance.tolist(), strict=True):
        best[text] = max(best[text], score)
    count = sum(score <= 0 for score in best.values())
    if count > UNANSWERED * len(best):
        what = f"{count:,} of {len(best):,} queries have no relevant candidate (a label above 0); they are not measured"
        yield Fault(None, None, what, "add such candidates, or drop these queries", split=split, severity="warning")
