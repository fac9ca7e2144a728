"""What a tagger should beat: the most frequent tag, and a dictionary of the training words."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.train.classical import scored
from pdl_nlp.schemes import segmented
from pdl_nlp.tagging.loader import pieces
from pdl_nlp.tagging.metrics import tag_metrics

if TYPE_CHECKING:
    from pdl_nlp.tagging.task import Tagging

LONGEST = 12  # characters of a word of the dictionary


def baselines(task: Tagging, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
    """The most frequent tag for every token; the tag that each has most often in training, of unknown ones the most
    frequent; where words are to be found, the longest that the training data has, and its most frequent tag."""
    train, test = datasets["train"], datasets[split]
    gold = [pieces(test[i], test.classes, task.segment) for i in range(len(test))]
    known, usual = _counted(train)
    tokens, most = _counted(train, task)
    made = {"majority": [[most] * len(words) for words, _ in gold]}
    if task.segment is None:
        made["dictionary"] = [[tokens.get(word, most) for word in words] for words, _ in gold]
    else:
        made["longest match"] = [_matched("".join(words), known, usual, task) for words, _ in gold]
    numbers = {name: number for number, name in enumerate(task.classes)}
    width = max(len(words) for words, _ in gold)

    def padded(rows: Sequence[Sequence[str]]) -> np.ndarray:
        found = np.full((len(rows), width), -1)
        for to, row in zip(found, rows, strict=True):
            to[: len(row)] = [numbers.get(name, 0) for name in row]
        return found

    tags = padded([names for _, names in gold])

    def measured(found: np.ndarray) -> dict[str, float]:
        return scored(tag_metrics(task.tags, segment=task.segment is not None, entities=task.entities), found, tags)

    return {name: measured(padded(rows)) for name, rows in made.items()}


def _counted(data: Any, task: Tagging | None = None) -> tuple[dict[str, str], str]:
    """The most frequent tag of each token, or, without a task, of each word; and that of all."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    total = Counter[str]()
    for i in range(len(data)):
        for word, name in zip(*pieces(data[i], data.classes, None if task is None else task.segment), strict=True):
            counts[word][name] += 1
            total[name] += 1
    return {word: _first(each) for word, each in counts.items()}, _first(total)


def _first(counts: Counter[str]) -> str:
    return min(counts, key=lambda name: (-counts[name], name))


def _matched(text: str, known: Mapping[str, str], usual: str, task: Tagging) -> list[str]:
    """The tags of the words that are found from left to right, the longest known one at each position."""
    assert task.segment is not None
    lengths, tags, at = [], [], 0
    while at < len(text):
        length = next((n for n in range(min(LONGEST, len(text) - at), 1, -1) if text[at : at + n] in known), 1)
        lengths.append(length)
        tags.append(known.get(text[at : at + length], usual))
        at += length
    return segmented(lengths, tags, task.segment)
