"""Sections of reports that tasks share whose answers are classes or numbers, or whose nets embed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pdl.data import Dataset
from pdl.dtype import Array
from pdl.ranking import equal_error_rate
from pdl.report import (
    Section,
    charts,
    class_sections,
    curve_sections,
    detection_sections,
    figure,
    image_table,
    line_chart,
    number_sections,
    table,
)
from pdl.runtime.steps.labels import sigmoid
from pdl.train.embeddings import Scored
from pdl.train.loop import Evaluation
from pdl.train.metrics import AUC, R2, softmax
from pdl.train.open_set import Called

BINS = np.linspace(-1, 1, 81)  # of cosines


def of_classes(evaluation: Evaluation, classes: Sequence[str]) -> list[Section]:
    """Each class, confusions, and where scores were kept the curves over all thresholds and the calibration: of what
    `pdl.train.metrics.class_metrics` has seen."""
    made = class_sections(evaluation.details["confusion"], classes, evaluation.split)
    kept = evaluation.observers.get("auc")
    if isinstance(kept, AUC) and kept.outputs:
        scores, labels = kept.seen
        made += curve_sections(softmax(scores), labels, classes, evaluation.split)
    return made


def of_label(logits: Array, labels: Array, name: str, split: str) -> list[Section]:
    """Curves over all thresholds and calibration of a label that samples have or lack: logits float [N], labels [N] of
    0 and 1."""
    yes = sigmoid(logits)
    return curve_sections(np.stack([1 - yes, yes], axis=1), labels.astype(np.int64), [f"no {name}", name], split)


def of_numbers(evaluation: Evaluation, name: str) -> list[Section]:
    """Predicted against true numbers, of what the metric r2 has seen; `name` is what is predicted."""
    kept = evaluation.observers.get("r2")
    return number_sections(*kept.seen, name, evaluation.split) if isinstance(kept, R2) and kept.outputs else []


def headed(sections: Iterable[Section], name: str) -> list[Section]:
    """The same sections with a name before each title: that of one of several targets."""
    return [replace(each, title=f"{name}: {each.title}") for each in sections]


# -- of trials: whether two samples are of one class -------------------------------------------------------------------
def of_trials(
    evaluation: Evaluation, dataset: Any, called: Called, drawn: Callable[[Dataset, int], Array], worst: int
) -> list[Section]:
    """ROC and DET curves, the scores of both kinds of trials, the hardest classes, and the `worst` trials, of
    evaluation.details["trials"] (`pdl.train.embeddings.Scored`); [] without trials of both kinds.

    called  words for classes and samples
    drawn   the picture of a sample of the data set
    """
    scored, split = evaluation.details["trials"], evaluation.split
    if not 0 < scored.same.sum() < len(scored.same):
        return []
    made = [*detection_sections({"cosine": (scored.scores, scored.same)}, split), _scores(scored, called, split)]
    if isinstance(dataset, Dataset) and dataset.classes:
        made.append(_hardest(scored, dataset.classes, called, split))
        if worst:
            made.append(_worst_trials(scored, dataset, called, drawn, worst))
    return made


def _scores(scored: Scored, called: Called, split: str) -> Section:
    """How often which cosine is reached."""
    series = {}
    for name, kind in ((f"one {called.one}", 1), (f"two {called.several}", 0)):
        own = scored.scores[scored.same == kind]
        shares = np.histogram(np.clip(own, -1, 1), BINS)[0] / len(own)
        name = f"{name} ({len(own):,} trials)"
        series[name] = list(zip(((BINS[1:] + BINS[:-1]) / 2).tolist(), shares.tolist(), strict=True))
    chart = line_chart(series, x_label="cosine", y_label="share of the trials")
    note = f"EER at a cosine of {scored.threshold():.3f}"
    return Section(f"Scores ({split})", charts([figure(chart, note)]))


def _hardest(scored: Scored, classes: Sequence[str], called: Called, split: str) -> Section:
    """A row for each class, the hardest first: the EER of trials with a sample of it."""
    sides, rows = scored.labels[scored.pairs], []
    for label in np.unique(scored.labels).tolist():
        own = (sides == label).any(axis=1)
        scores, same = scored.scores[own], scored.same[own]
        rate = equal_error_rate(scores, same)[0]
        ends = (f(scores[same == kind], initial=start) for f, kind, start in ((np.min, 1, 1.0), (np.max, 0, -1.0)))
        rows.append((classes[label], int((scored.labels == label).sum()), rate, *map(float, ends)))
    rows.sort(key=lambda row: -np.nan_to_num(row[2], nan=-1.0))
    head = (called.one, f"{called.sample}s", "EER", "least cosine to themselves", "largest to another")
    return Section(f"{called.several.capitalize()} ({split})", table(rows, head=head, fold=20))


def _worst_trials(
    scored: Scored, dataset: Dataset, called: Called, drawn: Callable[[Dataset, int], Array], most: int
) -> Section:
    """Trials whose scores are farthest on the wrong side of the threshold."""
    threshold = scored.threshold()
    wrong = np.where(scored.same > 0, threshold - scored.scores, scored.scores - threshold)
    rows = []
    for t in np.argsort(-wrong, kind="stable")[:most].tolist():
        if wrong[t] > 0:
            kind = f"one {called.one}" if scored.same[t] else f"two {called.several}"
            colour = (200, 60, 60) if scored.same[t] else (60, 90, 200)
            mark = np.full((24, 24, 3), colour, np.uint8), f"{kind}, cosine {scored.scores[t]:.3f}"
            names = {i: dataset.classes[int(scored.labels[i])] for i in scored.pairs[t].tolist()}
            cells = [(drawn(dataset, i), f"{name}, {scored.names[i]}") for i, name in names.items()]
            rows.append([mark, *cells])
    if not rows:
        return Section("Worst trials", "<p>none is on the wrong side of the threshold</p>")
    return Section("Worst trials", image_table(rows, head=["", called.sample, called.sample]))
