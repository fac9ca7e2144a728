"""Sections of reports that tasks share whose answers are classes or numbers."""

from __future__ import annotations

from collections.abc import Sequence

from pdl.report import Section, class_sections, curve_sections, number_sections
from pdl.train.loop import Evaluation
from pdl.train.metrics import AUC, R2, softmax


def of_classes(evaluation: Evaluation, classes: Sequence[str]) -> list[Section]:
    """Each class, confusions, and where scores were kept the curves over all thresholds and the calibration: of what
    `pdl.train.metrics.class_metrics` has seen."""
    made = class_sections(evaluation.details["confusion"], classes, evaluation.split)
    kept = evaluation.observers.get("auc")
    if isinstance(kept, AUC) and kept.scores:
        scores, labels = kept.seen
        made += curve_sections(softmax(scores), labels, classes, evaluation.split)
    return made


def of_numbers(evaluation: Evaluation, name: str) -> list[Section]:
    """Predicted against true numbers, of what the metric r2 has seen; `name` is what is predicted."""
    kept = evaluation.observers.get("r2")
    return number_sections(*kept.seen, name, evaluation.split) if isinstance(kept, R2) and kept.predictions else []
