"""Look texts with mistakes over before training: empty texts, none with mistakes, texts of a test that training has,
characters that training does not know, texts that are cut."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.data.checks import Progress, open_all, shorten
from pdl.data.faults import Fault
from pdl.errors import DataError
from pdl.train import Recipe
from pdl_nlp.classification.check import CUT, UNKNOWN
from pdl_nlp.data.correction_file import CorrectionFile
from pdl_nlp.fitting import unknown_share

if TYPE_CHECKING:
    from pdl_nlp.correction.task import Correction

SHOWN = 5  # faults of a kind and split


def check(task: Correction, recipe: Recipe, progress: Progress | None = None) -> list[Fault]:
    """Faults of the texts of a recipe."""
    faults: list[Fault] = []
    found = open_all({split: part.build for split, part in recipe.data.splits.items()}, faults)
    texts = {split: data for split, data in found.items() if isinstance(data, CorrectionFile)}
    if "train" not in texts:
        return faults
    try:
        task.prepare(recipe, texts)
    except DataError as error:
        return [*faults, Fault(None, None, str(error), "see above")]
    known = {right for _, _, right in texts["train"].found}
    for split, data in texts.items():
        faults += shorten(list(_empty(split, data)), SHOWN, split)
        if all(text == right for _, text, right in data.found):
            faults.append(
                Fault(data.path_of(0), None, "no text has a mistake", "give the texts as written", split=split)
            )
        twins = [index for index, (_, _, right) in enumerate(data.found) if right in known]
        if split != "train" and twins:
            what = f"{len(twins):,} of {len(data):,} right texts are in train, too; this is the first"
            advice = f"take them out of one of the two, or {split} measures memory; or state it with the results"
            faults.append(
                Fault(data.path_of(twins[0]), twins[0], what, advice, data.line_of(twins[0]), split, "warning")
            )
        faults += _tokens(task, split, data)
        if progress is not None:
            progress(split, len(data), len(data))
    return faults


def _empty(split: str, data: CorrectionFile) -> Iterator[Fault]:
    for index, (line, text, _) in enumerate(data.found):
        if not text.strip():
            yield Fault(data.path_of(index), index, "an empty text", "take it out, or write one", line, split)


def _tokens(task: Correction, split: str, data: CorrectionFile) -> Iterator[Fault]:
    where: dict[str, Any] = {"split": split, "severity": "warning"}
    texts = [right for _, _, right in data.found]
    share = unknown_share(task.tokenizer, texts)
    if share > UNKNOWN:
        what = f"{share:.1%} of the tokens are unknown (a vocabulary of {len(task.tokenizer.tokens):,} {task.unit})"
        yield Fault(None, None, what, "lower task.min_count, or take the tokenizer of this language", **where)
    lengths = np.diff(task.tokenizer.encode_many(texts).starts)
    cut = float((lengths > task.max_length).mean())
    if cut > CUT:
        what = f"{cut:.1%} of the texts have more than {task.max_length} tokens, the rest of them stays as it is"
        yield Fault(None, None, what, "raise task.max_length", **where)
