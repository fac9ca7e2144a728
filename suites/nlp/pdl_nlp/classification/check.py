"""Look texts over before training: what cannot be read, empty and repeated texts, classes that only a test has, tokens
that training does not know, texts that are cut."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.data.checks import Progress, open_all, shorten
from pdl.data.faults import Fault
from pdl.errors import DataError, listed
from pdl.train import Recipe
from pdl_nlp.data.base import Texts
from pdl_nlp.fitting import KINDS, unknown_share

if TYPE_CHECKING:
    from pdl_nlp.classification.task import TextClassification

SHOWN = 5  # faults of a kind and split
UNKNOWN = 0.05  # of the tokens of a split: more make the vocabulary of training too small for it
CUT = 0.05  # of the texts of a split that are longer than max_length
OTHER = "choose a tokenizer of the language of these texts"
QUANTILES = (0.5, 0.9, 0.99, 1.0)


def check(task: TextClassification, recipe: Recipe, progress: Progress | None = None) -> list[Fault]:
    """Faults of the texts of a recipe."""
    faults: list[Fault] = []
    found = open_all({split: part.build for split, part in recipe.data.splits.items()}, faults)
    texts = {split: data for split, data in found.items() if isinstance(data, Texts) and len(data)}
    for split, data in texts.items():
        faults += shorten(list(empty(split, data)), SHOWN, split)
        faults += shorten(list(contradictions(split, data)), SHOWN, split)
        if progress is not None:
            progress(split, len(data), len(data))
    if "train" in texts:
        train = texts["train"]
        for split, data in texts.items():
            faults += labels(task, split, train, data)
            if split != "train":
                faults += again(split, train, data)
        task.fit_tokenizer(recipe, train.texts)
        faults += tokens(task, texts)
    try:
        task.agree(found)
    except DataError as error:
        if not faults:
            faults.append(Fault(None, None, str(error), "see above"))
    return faults


def empty(split: str, data: Texts) -> Iterator[Fault]:
    """Texts, or one of a pair, without a letter."""
    for index in range(len(data)):
        if not all(text.strip() for text in _key(data, index)):
            where: dict[str, Any] = {"line": data.line_of(index), "split": split}
            yield Fault(data.path_of(index), index, "an empty text", "take it out, or write one", **where)


def contradictions(split: str, data: Texts) -> Iterator[Fault]:
    """Texts that are there several times, with different classes."""
    places = defaultdict[tuple[str, ...], list[int]](list)
    for index in range(len(data)):
        places[_key(data, index)].append(index)
    for rows in places.values():
        names = {str(data.names[row]) for row in rows}
        if len(names) > 1:
            what = f"the same text is there {len(rows)} times, with the classes {listed(sorted(names))}"
            yield Fault(data.path_of(rows[1]), rows[1], what, "decide for one", data.line_of(rows[1]), split, "warning")


def labels(task: Any, split: str, train: Texts, data: Texts) -> Iterator[Fault]:
    """Classes that training lacks, or that no text has."""
    known = set(task.classes or train.classes)
    used = {name for each in data.names for name in (each if data.several else (each,))}
    if more := sorted(used - known - {*task.unlearned}):
        what = f"classes that training does not have: {listed(more, 5)}"
        yield Fault(None, None, what, "correct them, add such texts to train, or name all in task.classes", split=split)
    if split == "train" and (absent := sorted(known - used - {*task.unlearned})):
        yield Fault(None, None, f"classes without a text: {listed(absent, 5)}", "add some, or drop them", split=split)


def again(split: str, train: Texts, data: Texts) -> Iterator[Fault]:
    """Texts of another split that are in training, too."""
    seen = {_key(train, index): index for index in reversed(range(len(train)))}
    twins = [(index, seen[key]) for index in range(len(data)) if (key := _key(data, index)) in seen]
    if twins:
        index, first = twins[0]
        place = f"{train.path_of(first)}:{train.line_of(first)}".removesuffix(":None")
        what = f"{len(twins):,} of {len(data):,} texts are in train, too; the first is that of {place}"
        advice = f"take them out of one of the two, or {split} measures memory; or state it with the results"
        yield Fault(data.path_of(index), index, what, advice, data.line_of(index), split, "warning")


def _key(data: Texts, index: int) -> tuple[str, ...]:
    return (data.texts[index], *(() if data.pairs is None else (data.pairs[index],)))


def tokens(task: Any, texts: dict[str, Texts], *, joined: bool = False) -> Iterator[Fault]:
    """Unknown tokens, and texts that are cut; with `joined` pairs are cut as one text."""
    tokenizer = task.tokenizer
    for split, data in texts.items():
        columns = [data.texts, *([] if data.pairs is None else [data.pairs])]
        share = unknown_share(tokenizer, [text for column in columns for text in column])
        if share > UNKNOWN:
            what = f"{share:.1%} of the tokens are unknown (a vocabulary of {len(tokenizer.tokens):,} {task.unit})"
            learned = task.kind in KINDS
            advice = "lower task.min_count, raise task.vocabulary_size, or read characters" if learned else OTHER
            yield Fault(None, None, what, advice, split=split, severity="warning")
        each = [np.diff(tokenizer.framed(column).starts) for column in columns]
        lengths = np.sum(each, axis=0) if joined else np.concatenate(each)
        cut = float((lengths > task.max_length).mean())
        if cut > CUT:
            sizes = ", ".join(f"{q:.0%}: {int(np.quantile(lengths, q))}" for q in QUANTILES)
            what = f"{cut:.1%} of the texts have more than {task.max_length} tokens, the rest of them is cut ({sizes})"
            yield Fault(None, None, what, "raise task.max_length", split=split, severity="warning")
