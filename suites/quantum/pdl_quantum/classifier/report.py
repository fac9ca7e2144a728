"""What the report says of a classifier: classes, the plane it divides, its circuit."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

import pdl
from pdl.nn import Module
from pdl.report import Section
from pdl.train import Evaluation, Reporter
from pdl.train.sections import of_classes
from pdl_quantum.classifier.plane import divided
from pdl_quantum.classifier.scaling import rows_of
from pdl_quantum.drawing import svg
from pdl_quantum.models.base import Classifier

if TYPE_CHECKING:
    from pdl_quantum.classifier.task import QuantumClassifier

Array = np.ndarray
SIDE = 96


class ClassifierReporter(Reporter):
    """Classes, the plane that the model divides, and its circuit."""

    task: QuantumClassifier

    def sections(self, evaluation: Evaluation, dataset: Any) -> list[Section]:
        task = self.task
        made = of_classes(evaluation, task.classes)
        model = task.evaluated
        if not isinstance(model, Classifier):  # a bundle was measured
            return made
        if len(task.columns) == 2:
            made.append(_plane(task, model, dataset))
        return [*made, Section("Circuit", f'<div class="charts">{svg(model.diagram())}</div>')]


def _plane(task: QuantumClassifier, model: Module, dataset: Any) -> Section:
    """The probability of each class over the plane of two columns, and the samples in it."""
    points = rows_of(dataset)
    labels = np.array([int(dataset[i]["label"]) for i in range(len(dataset))])
    low, high = points.min(axis=0), points.max(axis=0)
    room = 0.08 * (high - low)
    x, y = (np.linspace(a, b, SIDE) for a, b in zip(low - room, high + room, strict=True))
    grid = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    model.eval()
    with pdl.no_grad():
        probabilities = pdl.softmax(model(pdl.as_tensor(task.scaling(grid))), axis=-1).numpy()
    diagram = divided((x, y), probabilities.reshape(SIDE, SIDE, -1), points, labels, task.classes, task.columns)
    said = escape("The colour is the class that the model gives there, paler where it is less sure; dots are samples.")
    return Section("The plane", f'<div class="charts">{diagram}</div><p>{said}</p>')
