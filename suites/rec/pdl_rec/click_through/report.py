"""What the report says of probabilities of clicks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.report import Section, curve_sections
from pdl.runtime.steps.labels import sigmoid
from pdl.train import Evaluation, Reporter
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
            yes = sigmoid(np.concatenate(kept.scores))
            found = curve_sections(
                np.stack([1 - yes, yes], axis=1),
                np.concatenate(kept.labels).astype(np.int64),
                [f"no {name}", name],
                evaluation.split,
            )
            made += found if len(names) == 1 else [replace(each, title=f"{name}: {each.title}") for each in found]
        return made
