"""Images as training sees them: each with its label, its file, and versions of it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.data import Batch, DataLoader, Dataset, Few, sample_name
from pdl.data.transforms.numeric import displayed
from pdl.report import Section, escape, figure_grid, table
from pdl.train import Look, Previewer
from pdl_cv.classification.report import small

if TYPE_CHECKING:
    from pdl_cv.classification.task import Classification

BATCHES = 2  # whole batches that are shown of a training that mixes images
MIXED = 16  # images of each
UNDONE = "Normalize and ToFloat are undone."
SEEN = "Epoch by epoch, a training with this seed sees what is shown."
SHARE = 0.005  # of a class in a mixed label, from which on it is named

Cell = tuple[np.ndarray, str] | None


class ClassificationPreviewer(Previewer):
    """A row for each image: the original, as the first epochs see it, and as evaluation sees it; then whole batches
    where MixUp or CutMix mix them."""

    task: Classification
    needs_model = False

    def sections(self, dataset: Any, look: Look) -> list[Section]:
        if not isinstance(dataset, Dataset):  # a stream: samples have no numbers, so only batches can be shown
            return super().sections(dataset, look)
        rows = Few(dataset, look.samples).indices
        loaders = training, evaluation = self.loaders(dataset, look)
        said = f"{UNDONE} {SEEN}" if look.training else UNDONE
        shown = self.versions(look, rows, loaders, partial(self._original, dataset), _shown)
        samples = Section("Samples", f"<p>{said}</p>{shown}")
        mixed = [] if training is None else self._mixed(training)
        return [samples, *mixed, transforms(training, evaluation)]

    def _original(self, dataset: Dataset, index: int) -> Cell:
        sample = dataset[index]
        image = sample["image"]
        size = f"{image.shape[1]}x{image.shape[0]}"
        return small(displayed(image, ())), f"{self._label(sample['label'])}, {sample_name(dataset, index)}, {size}"

    def _mixed(self, loader: DataLoader) -> list[Section]:
        """Batches whose images and labels are mixed."""
        if not loader.pipeline.mixers:
            return []
        grids = []
        for number, batch in enumerate(islice(loader, BATCHES)):
            pairs = zip(batch["image"][:MIXED], batch["label"][:MIXED], strict=True)
            shown = figure_grid(
                (small(displayed(image, loader.pipeline.steps)), self._label(label)) for image, label in pairs
            )
            grids.append(f"<p>{escape(f'Batch {number} of epoch 0')}</p>{shown}")
        return [Section("Mixed batches", "".join(grids))]

    def _label(self, label: Any) -> str:
        """The name of a class; of a soft label the shares, largest first."""
        shares = np.asarray(label)
        if shares.ndim == 0:
            return self.task.classes[int(shares)]
        named = [int(c) for c in np.argsort(-shares, kind="stable") if shares[c] > SHARE]
        return " + ".join(self.task.classes[c] if shares[c] > 1 - SHARE else f"{shares[c]:.2f} {self.task.classes[c]}"
                          for c in named)  # fmt: skip


def _shown(loader: DataLoader, rows: Sequence[int] | np.ndarray, epoch: int) -> dict[int, Cell]:
    """Index -> the image of an epoch."""
    batch: Batch = loader.samples(rows, epoch)
    pairs = zip(np.asarray(batch["index"]).tolist(), batch["image"], strict=True)
    return {index: (small(displayed(image, loader.pipeline.steps)), "") for index, image in pairs}


def transforms(training: DataLoader | None, evaluation: DataLoader) -> Section:
    """The transforms of each stage, in order."""
    stages = [] if training is None else [("train", training.pipeline.steps), ("batch", training.pipeline.mixers)]
    rows = [(name, repr(step)) for name, steps in [*stages, ("eval", evaluation.pipeline.steps)] for step in steps]
    return Section("Transforms", table(rows, head=("", "in this order")))
