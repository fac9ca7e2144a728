"""Images with their objects as training sees them: the original, versions of it, and what evaluation sees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from pdl.data import DataLoader, Sample
from pdl.data.transforms.numeric import displayed
from pdl.report import Image, Section, charts, escape, figure, table
from pdl.train import SamplePreviewer
from pdl_cv.detection.drawing import drawn

BATCHES = 1  # whole batches that are shown of a training that mixes images
MIXED = 8  # images of each
WIDE = 12.0  # rem of an image on the page
OBJECTS = ("boxes", "labels", "masks", "keypoints")


class DetectionPreviewer(SamplePreviewer):
    """Images with boxes, masks and keypoints; then whole batches where training mixes them; then how many objects each
    class has."""

    note = "Normalize and ToFloat are undone. Objects that a transform moves out of the image are gone."

    def drawn(self, sample: Sample, dataset: Any, steps: Sequence[Any]) -> str:
        image, objects = displayed(sample["image"], steps), {k: sample[k] for k in OBJECTS if k in sample}
        return drawn(image, objects, self.task.classes, skeleton=getattr(self.task, "skeleton", ()), wide=WIDE)

    def about(self, sample: Sample, dataset: Any) -> str:
        counts = np.bincount(sample["labels"], minlength=len(self.task.classes))
        return ", ".join(f"{counts[k]} {self.task.classes[k]}" for k in np.flatnonzero(counts)) or "no objects"

    def arranged(self, rows: Sequence[tuple[str, Mapping[str, Image]]], versions: Sequence[str]) -> str:
        """Pictures large enough for names: as many beside each other as a page is wide."""
        return "".join(
            f"<p>{escape(said)}</p>{charts([figure(str(seen[each]), each) for each in versions if each in seen])}"
            for said, seen in rows
        )

    def others(self, dataset: Any, training: DataLoader | None) -> list[Section]:
        mixed = [] if training is None or not training.pipeline.mixers else self._mixed(dataset, training)
        return [*mixed, *self._counts(dataset)]

    def _mixed(self, dataset: Any, loader: DataLoader) -> list[Section]:
        """Batches whose images are mixed."""
        made = []
        for number, batch in enumerate(islice(loader, BATCHES)):
            rows = ({name: values[k] for name, values in batch.items()} for k in range(len(batch["image"])))
            shown = [self.drawn(row, dataset, loader.pipeline.steps) for row in islice(rows, MIXED)]
            made.append(f"<p>Batch {number} of epoch 0</p>{charts(shown)}")
        return [Section("Mixed batches", "".join(made))]

    def _counts(self, dataset: Any) -> list[Section]:
        """Objects and images of each class, where these are known without reading images."""
        find = getattr(dataset, "annotation", None)
        if find is None:
            return []
        counts = np.zeros((len(self.task.classes), 2), np.int64)
        for index in range(len(dataset)):
            labels = np.asarray(find(index)["labels"])
            np.add.at(counts[:, 0], labels, 1)
            counts[np.unique(labels), 1] += 1
        rows = [(name, *counts[k].tolist()) for k, name in enumerate(self.task.classes)]
        return [Section("Classes", table(rows, head=("class", "objects", "images"), fold=30))]
