"""Look tagged sentences over before training: tags that cannot follow one another or that only a test has, repeated
sentences, tokens that training does not know, texts that are cut."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.data.checks import Progress, open_all, shorten
from pdl.data.faults import Fault
from pdl.errors import DataError, listed
from pdl.train import Recipe
from pdl_nlp.data.tagged_file import TaggedFile

if TYPE_CHECKING:
    from pdl_nlp.tagging.task import Tagging

SHOWN = 5  # faults of a kind and split
UNKNOWN_SHARE = 0.1  # of the tokens of a split: more make the vocabulary of training too small for it
CUT = 0.01  # of the texts of a split that are longer than max_length
QUANTILES = (0.5, 0.9, 0.99, 1.0)


def check(task: Tagging, recipe: Recipe, progress: Progress | None = None) -> list[Fault]:
    """Faults of the tagged sentences of a recipe."""
    faults: list[Fault] = []
    found = open_all({split: part.build for split, part in recipe.data.splits.items()}, faults)
    texts = {split: data for split, data in found.items() if isinstance(data, TaggedFile) and len(data)}
    if not texts:
        return faults
    try:
        task.prepare(recipe, texts)
        scheme = task.tags.scheme
    except DataError as error:
        return [*faults, Fault(None, None, str(error), "see above")]
    for split, data in texts.items():
        if task.segment is None and scheme not in ("none", "IO"):
            faults += shorten(list(islice(_impossible(task, split, data), 1000)), SHOWN, split)
        faults += shorten(list(_empty(split, data)), SHOWN, split)
        if split != "train" and "train" in texts:
            faults += _labels(split, texts["train"], data)
            faults += _again(split, texts["train"], data)
        faults += _tokens(task, split, data)
        if progress is not None:
            progress(split, len(data), len(data))
    return faults


def _impossible(task: Tagging, split: str, data: TaggedFile) -> Iterator[Fault]:
    numbers = {name: number for number, name in enumerate(task.classes)}
    for index, names in enumerate(data.names):
        bad = task.tags.wrong(np.array([numbers[name] for name in names]))
        if len(bad):
            at = int(bad[0])
            before = names[at - 1] if at else "the beginning"
            after = names[at + 1] if at + 1 < len(names) else "the end"
            where = f"{names[at]} at word {at + 1} ({data.tokens[index][at]!r:.40}), between {before} and {after},"
            what = f"{where} is no {task.tags.scheme}"
            advice = "correct the tags, or task.scheme; training takes them as they are, answers hold to the scheme"
            yield Fault(data.path_of(index), index, what, advice, data.line_of(index), split, "warning")


def _empty(split: str, data: TaggedFile) -> Iterator[Fault]:
    for index, words in enumerate(data.tokens):
        if blank := next((at for at, word in enumerate(words, 1) if not word.strip()), None):
            advice = "write the word, or take it out"
            yield Fault(data.path_of(index), index, f"word {blank} is empty", advice, data.line_of(index), split)


def _labels(split: str, train: TaggedFile, data: TaggedFile) -> Iterator[Fault]:
    known = {name for names in train.names for name in names}
    used = {name for names in data.names for name in names}
    if more := sorted(used - known):
        count = sum(name not in known for names in data.names for name in names)
        what = f"tags that training does not have: {listed(more, 5)} ({count} words)"
        advice = "correct them, or add such sentences to train; none of them will be found"
        yield Fault(None, None, what, advice, split=split, severity="warning")


def _again(split: str, train: TaggedFile, data: TaggedFile) -> Iterator[Fault]:
    seen = {tuple(words) for words in train.tokens}
    twins = [index for index, words in enumerate(data.tokens) if tuple(words) in seen]
    if twins:
        what = f"{len(twins):,} of {len(data):,} sentences are in train, too; this is the first"
        advice = f"take them out of one of the two, or {split} measures memory; or state it with the results"
        yield Fault(data.path_of(twins[0]), twins[0], what, advice, data.line_of(twins[0]), split, "warning")


def _tokens(task: Tagging, split: str, data: Any) -> Iterator[Fault]:
    made = task.numbers(data)
    share = float((made.ids[:-1] == task.tokenizer.unknown).mean()) if len(made.ids) > 1 else 0.0
    if share > UNKNOWN_SHARE:
        what = f"{share:.1%} of the tokens are unknown (a vocabulary of {len(task.vocabularies['tokens']):,})"
        advice = "lower task.min_count, raise task.vocabulary_size, or read letters"
        yield Fault(None, None, what, advice, split=split, severity="warning")
    lengths = np.diff(made.starts)
    cut = float((lengths > task.max_length).mean())
    if cut > CUT:
        sizes = ", ".join(f"{q:.0%}: {int(np.quantile(lengths, q))}" for q in QUANTILES)
        what = f"{cut:.1%} of the texts have more than {task.max_length} tokens, the rest of them is cut ({sizes})"
        yield Fault(None, None, what, "raise task.max_length", split=split, severity="warning")
