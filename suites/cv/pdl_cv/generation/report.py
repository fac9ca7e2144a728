"""Drawn pictures for the report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.report import Section, escape, picture
from pdl.train import Evaluation, Reporter

if TYPE_CHECKING:
    from pdl_cv.generation.task import Generation

LEAST = 560  # pixels of a grid on the page, at least


class GenerationReporter(Reporter):
    """A grid of pictures that the model has drawn, a row for each class."""

    task: Generation

    def sections(self, evaluation: Evaluation, dataset: Any) -> list[Section]:
        drawn = evaluation.details.get("pictures")
        if drawn is None or not drawn.size:
            return []
        rows = f", by row: {', '.join(self.task.classes)}" if self.task.classes else ""
        said = f"<p>{escape(f'The first pictures drawn for {evaluation.split}, not chosen{rows}.')}</p>"
        factor = max(1, round(LEAST / drawn.shape[1]))
        large = np.repeat(np.repeat(drawn, factor, axis=0), factor, axis=1)
        return [Section(f"Drawn pictures ({evaluation.split})", said + picture(large))]
