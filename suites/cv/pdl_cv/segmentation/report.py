"""What the report says of a segmentation net: each class, what is taken for what, and the weakest images drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.data import Dataset, sample_name
from pdl.data.transforms.numeric import displayed
from pdl.report import Section, escape, image_table, table
from pdl.train import Evaluation, Reporter
from pdl_cv.classification.report import small
from pdl_cv.data.index_maps import IGNORED
from pdl_cv.palette import palette
from pdl_cv.segmentation.metrics import Overlap
from pdl_cv.steps.segmentation import tinted

if TYPE_CHECKING:
    from pdl_cv.segmentation.task import Segmentation

SIDE = 240  # pixels of an image on the page, at most about so many
FOLD = 30  # rows of a table that are shown at once
TAKEN = 12  # pairs of classes that are taken for each other


class SegmentationReporter(Reporter):
    """Classes, weakest first; what is most often taken for what; the images with the least right pixels."""

    task: Segmentation

    def sections(self, evaluation: Evaluation, dataset: Any) -> list[Section]:
        measured = next((each for each in evaluation.observers.values() if isinstance(each, Overlap)), None)
        if measured is None or not measured.counts.any():
            return []
        rows = sorted(measured.table(), key=lambda row: (np.isnan(row.iou), row.iou))
        lines = [(row.name, row.iou, row.dice, row.precision, row.recall, f"{row.share:.1%}") for row in rows]
        head = ("class", "IoU", "Dice", "precision", "recall", "of all pixels")
        made = [Section(f"Classes ({evaluation.split})", table(lines, head=head, fold=FOLD))]
        taken = _taken(measured)
        if taken:
            made.append(Section("Taken for another class", table(taken, head=("class", "taken for", "of its pixels"))))
        if isinstance(dataset, Dataset) and evaluation.details.get("weakest"):
            made.append(self._weakest(evaluation.details["weakest"], dataset))
        return made

    def _weakest(self, found: Any, dataset: Dataset) -> Section:
        lines, shown = [], set[int]()
        for weak, mask in found:
            sample = dataset[weak.index]
            image, truth = displayed(sample["image"], ()), sample["mask"]
            shown |= set(np.unique(truth).tolist()) | set(np.unique(mask).tolist())
            wrong = np.where((mask != truth) & (truth != IGNORED), 1, 0).astype(np.uint8)
            name = f"{sample_name(dataset, weak.index)}: {weak.accuracy:.1%} right"
            lines.append([(_small(image), name), (_small(tinted(image, truth)), ""), (_small(tinted(image, mask)), ""),
                          (_small(tinted(image, wrong)), "")])  # fmt: skip
        legend = _legend(self.task.classes, sorted(shown - {IGNORED}))
        head = ["image", "annotated", "found", "wrong"]
        return Section("Weakest images", f"<p>{legend}</p>{image_table(lines, head=head)}")


def _small(image: np.ndarray) -> np.ndarray:
    return small(np.ascontiguousarray(image), SIDE)


def _legend(classes: Any, numbers: Any) -> str:
    """The colours of classes; the first has none."""
    colours = palette()
    square = '<span style="color:#{}">&#9632;</span> {}'
    marks = [square.format(bytes(colours[k]).hex(), escape(classes[k])) for k in numbers if k]
    return " &nbsp; ".join(marks) + (f" &nbsp; not tinted: {escape(classes[0])}" if 0 in numbers else "")


def _taken(measured: Overlap) -> list[tuple[str, str, str]]:
    """The pairs of classes with the most wrong pixels, and which share of the true class these are."""
    counts = measured.counts.copy()
    np.fill_diagonal(counts, 0)
    order = np.argsort(-counts, axis=None)[:TAKEN]
    pairs = [divmod(int(each), len(counts)) for each in order]
    present = np.maximum(measured.counts.sum(axis=1), 1)
    names = measured.classes
    return [(names[a], names[b], f"{counts[a, b] / present[a]:.1%}") for a, b in pairs if counts[a, b]]
