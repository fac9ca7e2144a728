"""What the report says of predicted classes of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pdl.report import Section, class_sections
from pdl.train import Evaluation, Reporter

if TYPE_CHECKING:
    from pdl_rec.rows.task import RowPrediction


class RowReporter(Reporter):
    """Accuracy by class and confusions."""

    task: RowPrediction

    def sections(self, evaluation: Evaluation, dataset: Any) -> list[Section]:
        if self.task.kind == "number":
            return []
        return class_sections(evaluation.details["confusion"], self.task.classes, evaluation.split)
