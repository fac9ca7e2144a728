"""Images with their objects as training sees them: the original, versions of it, and what evaluation sees."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

import numpy as np

from pdl.data import Batch, DataLoader, Dataset, Few, sample_name
from pdl.data.transforms.numeric import displayed
from pdl.report import Section, charts, escape, figure, table
from pdl.train import Look, Previewer
from pdl_cv.detection.drawing import drawn

BATCHES = 1  # whole batches that are shown of a training that mixes images
MIXED = 8  # images of each
WIDE = 12.0  # rem of an image on the page
NOTE = "Normalize and ToFloat are undone. Objects that a transform moves out of the image are gone."
OBJECTS = ("boxes", "labels", "masks", "keypoints")


class DetectionPreviewer(Previewer):
    """Each image as it is, as the first epochs see it and as evaluation sees it, with boxes, masks and keypoints;
    then whole batches where training mixes them; then how many objects each class has."""

    needs_model = False

    def sections(self, dataset: Any, look: Look) -> list[Section]:
        if not isinstance(dataset, Dataset):  # a stream: samples have no numbers, so only batches can be shown
            return super().sections(dataset, look)
        rows = Few(dataset, look.samples).indices
        training, evaluation = self.loaders(dataset, look)
        columns = [] if training is None else [
            (f"epoch {epoch}", self._seen(training, rows, epoch)) for epoch in range(look.versions)
        ]  # fmt: skip
        columns.append(("evaluation", self._seen(evaluation, rows, 0)))
        shown = [self._row(dataset, row, columns) for row in rows.tolist() if row in columns[-1][1]]
        mixed = [] if training is None else self._mixed(training)
        return [Section("Samples", f"<p>{escape(NOTE)}</p>{''.join(shown)}"), *mixed, *self._counts(dataset)]

    def _row(self, dataset: Dataset, index: int, columns: list[tuple[str, dict[int, str]]]) -> str:
        sample = dataset[index]
        image = sample["image"]
        counts = np.bincount(sample["labels"], minlength=len(self.task.classes))
        said = ", ".join(f"{counts[k]} {self.task.classes[k]}" for k in np.flatnonzero(counts)) or "no objects"
        original = figure(self._drawn(displayed(image, ()), sample), "original")
        versions = (figure(drawings[index], name) for name, drawings in columns if index in drawings)
        name = f"{sample_name(dataset, index)}, {image.shape[1]} x {image.shape[0]}: {said}"
        return f"<p>{escape(name)}</p>{charts([original, *versions])}"

    def _drawn(self, image: np.ndarray, objects: Mapping[str, Any]) -> str:
        return drawn(image, objects, self.task.classes, skeleton=getattr(self.task, "skeleton", ()), wide=WIDE)

    def _seen(self, loader: DataLoader, rows: np.ndarray, epoch: int) -> dict[int, str]:
        """Index -> the image of an epoch."""
        batch = loader.samples(rows, epoch)
        drawings = self._drawings(batch, loader, len(batch["index"]))
        return dict(zip(np.asarray(batch["index"]).tolist(), drawings, strict=True))

    def _drawings(self, batch: Batch, loader: DataLoader, count: int) -> list[str]:
        made = []
        for k in range(count):
            objects = {name: batch[name][k] for name in OBJECTS if name in batch}
            made.append(self._drawn(displayed(np.asarray(batch["image"][k]), loader.pipeline.steps), objects))
        return made

    def _mixed(self, loader: DataLoader) -> list[Section]:
        """Batches whose images are mixed."""
        if not loader.pipeline.mixers:
            return []
        made = [
            f"<p>Batch {number} of epoch 0</p>{charts(self._drawings(batch, loader, min(MIXED, len(batch['image']))))}"
            for number, batch in enumerate(islice(loader, BATCHES))
        ]
        return [Section("Mixed batches", "".join(made))]

    def _counts(self, dataset: Dataset) -> list[Section]:
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
