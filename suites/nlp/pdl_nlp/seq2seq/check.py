"""Look pairs of texts over before training: empty ones, pairs whose lengths do not fit, texts that are their own
targets, texts of a test that training has, unknown tokens, texts that are cut."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.data.checks import Progress, open_all, shorten
from pdl.data.faults import Fault
from pdl.errors import DataError
from pdl.train import Recipe
from pdl_nlp.classification.check import CUT, QUANTILES, UNKNOWN
from pdl_nlp.data.parallel_text import ParallelText
from pdl_nlp.fitting import unknown_share

if TYPE_CHECKING:
    from pdl_nlp.seq2seq.task import Seq2Seq

SHOWN = 5  # faults of a kind and split
RATIO = 4.0  # times as long, for what is usual in the data, as a translation hardly is
SHORT = 10  # tokens: of shorter texts any ratio is possible
SAME = 0.01  # of the pairs whose texts are the same


def check(task: Seq2Seq, recipe: Recipe, progress: Progress | None = None) -> list[Fault]:
    """Faults of the pairs of a recipe."""
    faults: list[Fault] = []
    found = open_all({split: part.build for split, part in recipe.data.splits.items()}, faults)
    pairs = {split: data for split, data in found.items() if isinstance(data, ParallelText)}
    if "train" not in pairs:
        return faults
    try:
        task.prepare(recipe, pairs)
    except DataError as error:
        return [*faults, Fault(None, None, str(error), "see above")]
    train = pairs["train"]
    usual = _usual(task, train)
    for split, data in pairs.items():
        faults += shorten(list(_empty(split, data)), SHOWN, split)
        faults += shorten(list(_lengths(task, split, data, usual)), SHOWN, split)
        faults += _same(split, data)
        if split != "train":
            faults += _again(split, train, data)
        faults += _tokens(task, split, data)
        if progress is not None:
            progress(split, len(data), len(data))
    return faults


def _empty(split: str, data: ParallelText) -> Iterator[Fault]:
    for index, (line, text, target) in enumerate(data.found):
        for name, each in (("text", text), ("target", target)):
            if not each.strip():
                advice = "take the pair out, or write one"
                yield Fault(data.path_of(index), index, f"an empty {name}", advice, line, split)


def _counts(task: Seq2Seq, data: ParallelText) -> tuple[np.ndarray, np.ndarray]:
    """Tokens of each text, and of each target."""
    text, target = (np.diff(task.tokenizer.encode_many(column).starts) for column in (data.texts, data.targets))
    return text, target


def _usual(task: Seq2Seq, train: ParallelText) -> float:
    """The median of tokens of a target for each of its text."""
    text, target = _counts(task, train)
    kept = (text > 0) & (target > 0)
    return float(np.median(target[kept] / text[kept])) if kept.any() else 1.0


def _lengths(task: Seq2Seq, split: str, data: ParallelText, usual: float) -> Iterator[Fault]:
    """Pairs of which one text is much longer than the other, for what is usual: they hardly mean the same."""
    text, target = _counts(task, data)
    ratio = np.maximum(target, 1) / np.maximum(text, 1) / usual
    odd = (np.maximum(ratio, 1 / ratio) > RATIO) & (np.maximum(text, target) >= SHORT) & (np.minimum(text, target) > 0)
    for index in np.flatnonzero(odd).tolist():
        what = f"{text[index]} tokens, but {target[index]} of the target: such a pair hardly means the same"
        where: dict[str, Any] = {"line": data.line_of(index), "split": split, "severity": "warning"}
        yield Fault(data.path_of(index), index, what, "correct it, or take it out", **where)


def _same(split: str, data: ParallelText) -> Iterator[Fault]:
    same = [index for index, (_, text, target) in enumerate(data.found) if text and text == target]
    if len(same) > SAME * len(data):
        what = f"{len(same):,} of {len(data):,} texts are their own targets; this is the first"
        advice = "take those out that are not translated: what training has of them is copied"
        yield Fault(data.path_of(same[0]), same[0], what, advice, data.line_of(same[0]), split, "warning")


def _again(split: str, train: ParallelText, data: ParallelText) -> Iterator[Fault]:
    known = {text: index for index, (_, text, _) in reversed(list(enumerate(train.found)))}
    twins = [index for index, (_, text, _) in enumerate(data.found) if text in known]
    if twins:
        first = f"{train.path_of(known[data.found[twins[0]][1]])}:{train.line_of(known[data.found[twins[0]][1]])}"
        what = f"{len(twins):,} of {len(data):,} texts are in train, too; the first is that of {first}"
        advice = f"take them out of one of the two, or {split} measures memory; or state it with the results"
        yield Fault(data.path_of(twins[0]), twins[0], what, advice, data.line_of(twins[0]), split, "warning")


def _tokens(task: Seq2Seq, split: str, data: ParallelText) -> Iterator[Fault]:
    where: dict[str, Any] = {"split": split, "severity": "warning"}
    share = unknown_share(task.tokenizer, [*data.texts, *data.targets])
    if share > UNKNOWN:
        what = f"{share:.1%} of the tokens are unknown (a vocabulary of {len(task.tokenizer.tokens):,} {task.unit})"
        yield Fault(None, None, what, "take task.tokenizer=bpe, which knows all, or raise vocabulary_size", **where)
    lengths = np.concatenate(_counts(task, data)) + 1
    cut = float((lengths > task.max_length).mean())
    if cut > CUT:
        sizes = ", ".join(f"{q:.0%}: {int(np.quantile(lengths, q))}" for q in QUANTILES)
        what = f"{cut:.1%} of the texts have more than {task.max_length} tokens, the rest of them is cut ({sizes})"
        yield Fault(None, None, what, "raise task.max_length", **where)
