"""What the report says of predicted classes and numbers of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pdl.report import Section
from pdl.train import Evaluation, Reporter
from pdl.train.sections import of_classes, of_numbers

if TYPE_CHECKING:
    from pdl_rec.rows.task import RowPrediction


class RowReporter(Reporter):
    """Classes, confusions, curves over all thresholds and calibration; or predicted against true numbers."""

    task: RowPrediction

    def sections(self, evaluation: Evaluation, dataset: Any) -> list[Section]:
        if self.task.kind == "number":
            return of_numbers(evaluation, self.task.target)
        return of_classes(evaluation, self.task.classes)
