"""What the report says of a net that reads: answers by their length, and the worst mistakes in their paragraphs."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.report import Section, escape, table
from pdl.train import Evaluation, Reporter
from pdl_nlp.span_extraction.loader import Windows
from pdl_nlp.span_extraction.metrics import Answered, pieces

if TYPE_CHECKING:
    from pdl_nlp.span_extraction.task import SpanExtraction

EDGES = (1, 2, 4, 8, 16, 1 << 30)
AROUND = 160  # letters of a paragraph that are shown before and behind


class SpanExtractionReporter(Reporter):
    """How right answers are by their length, and the wrong ones that the net was the surest of."""

    task: SpanExtraction

    def sections(self, evaluation: Evaluation, dataset: Any) -> list[Section]:
        found: list[Answered] = evaluation.details["answers"]
        made = [Section(f"Answers by their length ({evaluation.split})", self._lengths(found))]
        if not isinstance(dataset, Windows):
            return made
        wrong = sorted((each for each in found if not each.f1), key=lambda each: (-each.p, each.row))
        if wrong := wrong[: self.task.mistakes]:
            how = "What was found is red, the answers given are green."
            shown = "".join(_mistake(each, dataset.dataset[each.row]) for each in wrong)
            made.append(Section("Worst mistakes", f"<p>{how}</p>{shown}"))
        return made

    def _lengths(self, found: list[Answered]) -> str:
        scoring = self.task.scoring or "squad"
        sizes = np.array([len(pieces(each.answers[0], scoring)) if each.answers else 0 for each in found])
        rows = []
        for first, stop in pairwise((0, *EDGES)):
            kept = [each for each, size in zip(found, sizes, strict=True) if first <= size < stop]
            name = "none" if not first else str(first) if stop == first + 1 else f"{first} to {stop - 1}"
            if kept:
                name = f"{first} and more" if stop == EDGES[-1] else name
                scores = ([getattr(each, what) for each in kept] for what in ("exact", "f1"))
                rows.append((name, len(kept), *(float(np.mean(each)) for each in scores)))
        return table(rows, head=("words or characters", "questions", "exact match", "F1"))


def _mistake(found: Answered, sample: Any) -> str:
    gold = [
        (start, start + len(text)) for text, start in zip(sample["answers"], sample["starts"].tolist(), strict=True)
    ]
    given = ", ".join(dict.fromkeys(sample["answers"])) or "no answer"
    said = f"{found.text or 'no answer'} ({found.p:.0%}) in place of {given}"
    shown = highlighted(sample["paragraph"], [(found.start, found.end)], gold)
    return f"<p><b>{escape(sample['question'])}</b><br>{escape(said)}, question {found.row}<br>{shown}</p>"


def highlighted(text: str, found: list[tuple[int, int]], gold: list[tuple[int, int]]) -> str:
    """The text around these pieces as HTML, those found red, those given green, what is both brown."""
    colour = np.zeros(len(text) + 1, np.int64)
    for bit, spans in ((1, found), (2, gold)):
        for start, end in spans:
            colour[start:end] |= bit
    marked = np.flatnonzero(colour)
    first, stop = (max(int(marked[0]) - AROUND, 0), int(marked[-1]) + AROUND) if len(marked) else (0, 2 * AROUND)
    edges = [first, *(np.flatnonzero(np.diff(colour[first:stop])) + first + 1).tolist(), min(stop, len(text))]
    tints = ("", "200,30,30,0.35", "0,140,60,0.3", "150,110,0,0.4")
    made = []
    for begin, end in pairwise(edges):
        piece = escape(text[begin:end])
        tint = tints[int(colour[begin])]
        made.append(f'<span style="background:rgba({tint})">{piece}</span>' if tint else piece)
    return ("... " if first else "") + "".join(made) + (" ..." if stop < len(text) else "")
