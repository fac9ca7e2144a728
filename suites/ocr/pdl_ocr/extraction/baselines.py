"""What finds fields without learning."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl_ocr.extraction.alignment import spans_of
from pdl_ocr.steps.fields import PageText

if TYPE_CHECKING:
    from pdl_ocr.extraction.task import InformationExtraction

_DIGIT, _LETTERS = re.compile(r"\d"), re.compile(r"[^\W\d_]+")


def baselines(task: InformationExtraction, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
    """Of all words and lines of a page the one whose form (digits are 9, words a) most values in training have; of
    several the one that stands nearest to where these do on average, as a share of the lines of their page."""
    train, test = datasets["train"], datasets[split]
    usual = {name: _usual(task, train, name) for name in task.fields}
    measured = {name: metric for name, metric in task.metrics().items() if name != "answers"}
    for index in range(len(test)):
        sample = test[index]
        candidates = list(_candidates(PageText.of(sample["lines"], task.width)))
        found = {}
        for name, (forms, place) in usual.items():
            best = max(candidates, key=lambda each: (forms[_form(each[0])], -abs(each[1] - place)), default=("", 0.0))
            if forms[_form(best[0])]:
                found[name] = {"text": best[0], "score": 1.0}
        for metric in measured.values():
            metric.update([found], [sample["fields"]], [index])
    return {"form and place": {name: float(each.compute()) for name, each in measured.items()}}


def _usual(task: InformationExtraction, train: Any, name: str) -> tuple[Counter[str], float]:
    """How often values of a field have each form, and the mean of where they first stand."""
    forms, places = Counter[str](), []
    for index in range(len(train)):
        sample = train[index]
        page = PageText.of(sample["lines"], task.width)
        spans = spans_of(sample["fields"].get(name, ""), page.lines)
        if spans:
            forms[_form(spans[0].text(page.lines))] += 1
            places.append(spans[0].first.line / len(page.lines))
    return forms, float(np.mean(places)) if places else 0.0


def _candidates(page: PageText) -> Iterator[tuple[str, float]]:
    """Lines and words, with the share of the page's lines that stand before."""
    for number, line in enumerate(page.lines):
        for each in dict.fromkeys([line, *line.split()]):
            yield each, number / len(page.lines)


def _form(text: str) -> str:
    return _LETTERS.sub("a", _DIGIT.sub("9", text))
