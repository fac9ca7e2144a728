"""What the report says of predictions for whole graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.report import Section, number_sections
from pdl.train import Evaluation, Reporter
from pdl.train.sections import headed, of_classes, of_label
from pdl_graph.graphs.metrics import PerTarget

if TYPE_CHECKING:
    from pdl_graph.graphs.task import GraphPrediction

TARGETS = 6  # of the first ones there are curves


class GraphReporter(Reporter):
    """Classes, confusions, curves over all thresholds and calibration; or predicted against true numbers."""

    task: GraphPrediction

    def sections(self, evaluation: Evaluation, dataset: Any) -> list[Section]:
        task = self.task
        if task.kind == "classification":
            return of_classes(evaluation, task.classes)
        kept, made = evaluation.observers["auc" if task.kind == "binary" else "rmse"], list[Section]()
        if not isinstance(kept, PerTarget) or not kept.targets:
            return made
        predictions, targets = np.concatenate(kept.predictions), np.concatenate(kept.targets)
        for name, p, t in zip(task.targets[:TARGETS], predictions.T, targets.T, strict=False):
            p, t = p[~np.isnan(t)], t[~np.isnan(t)]
            if task.kind == "regression":
                found = number_sections(p, t, name, evaluation.split)
            else:
                found = of_label(p, t, name, evaluation.split)
            made += headed(found, name) if len(task.targets) > 1 else found
        return made
