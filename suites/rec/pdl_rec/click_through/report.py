"""What the report says of probabilities of clicks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.report import Section
from pdl.train import Evaluation, Reporter
from pdl.train.sections import headed, of_label
from pdl_rec.click_through.metrics import AUC

if TYPE_CHECKING:
    from pdl_rec.click_through.task import ClickThrough


class ClickThroughReporter(Reporter):
    """Curves over all thresholds, and calibration, of each label."""

    task: ClickThrough

    def sections(self, evaluation: Evaluation, dataset: Any) -> list[Section]:
        made, names = list[Section](), list(self.task.labels)
        for name in names:
            kept = evaluation.observers["auc" if len(names) == 1 else f"auc_{name}"]
            if not isinstance(kept, AUC) or not kept.scores:
                continue
            found = of_label(np.concatenate(kept.scores), np.concatenate(kept.labels), name, evaluation.split)
            made += headed(found, name) if len(names) > 1 else found
        return made
