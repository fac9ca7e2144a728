"""Sections of reports that tasks share whose answers are classes or numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from pdl.dtype import Array
from pdl.report import Section, class_sections, curve_sections, number_sections
from pdl.runtime.steps.labels import sigmoid
from pdl.train.loop import Evaluation
from pdl.train.metrics import AUC, R2, softmax


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
