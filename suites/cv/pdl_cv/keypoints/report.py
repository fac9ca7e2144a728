"""What the report says of keypoints: the share of each point in place, and the worst misses drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.data import sample_name
from pdl.report import Section, figure_grid, table
from pdl.report.answers import rendered
from pdl.runtime.drawing import Drawing
from pdl.train import Evaluation, Reporter
from pdl_cv.classification.report import small
from pdl_cv.keypoints.metrics import Miss
from pdl_cv.steps.keypoints import posed

if TYPE_CHECKING:
    from pdl_cv.keypoints.task import Keypoints

FOUND, TRUTH = 1, 0  # colours


class KeypointReporter(Reporter):
    """Each point's share in place, and the objects whose points are furthest from where they are."""

    task: Keypoints

    def sections(self, evaluation: Evaluation, dataset: Any) -> list[Section]:
        shares: dict[str, float] = evaluation.details["points"]
        rows = [(name, "" if np.isnan(share) else f"{share:.1%}") for name, share in shares.items()]
        made = [Section("Points", table(rows, head=("point", "pck@0.2")))]
        misses: list[Miss] = evaluation.details["misses"]
        objects = getattr(dataset, "instances", None)  # of the loader's data set
        if misses and objects is not None:
            shown = (self._figure(miss, objects) for miss in misses)
            made.append(Section("Worst misses", f"<p>Red: found; blue: annotated.</p>{figure_grid(shown)}"))
        return made

    def _figure(self, miss: Miss, objects: Any) -> tuple[np.ndarray, str]:
        sample = objects[miss.index]
        crop, truth = sample["original"]["crop"], sample["keypoints"][0]
        found = miss.found - np.array([crop.left, crop.top, 0])
        skeleton = [(int(a), int(b)) for a, b in self.task.skeleton or ()]
        marks = [
            *posed(as_answer(truth), skeleton, 0.5, colour=TRUTH),
            *posed(as_answer(found), skeleton, -np.inf, colour=FOUND),
        ]
        name = f"{sample_name(objects, miss.index)}: {miss.distance:.2f} of its size"
        return small(rendered(Drawing(sample["image"], marks=marks)), 240), name


def as_answer(points: np.ndarray) -> Sequence[dict[str, float]]:
    """[P, 3] as points of an answer."""
    return [{"x": float(x), "y": float(y), "score": float(score)} for x, y, score in points]
