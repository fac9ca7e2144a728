"""Clips as training sees them: each with its label, its file, and versions of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.data import DataLoader, Dataset, Few, sample_name
from pdl.report import Section
from pdl.train import Look, Previewer
from pdl_cv.classification.preview import SEEN, UNDONE, Cell, transforms
from pdl_cv.video.clips import kind_of, picture

if TYPE_CHECKING:
    from pdl_cv.video.task import VideoClassification

VERSIONS = 2  # epochs, as frames of a clip take room


class VideoPreviewer(Previewer):
    """A row for each clip: frames of the original, as the first epochs see it, and as evaluation sees it."""

    task: VideoClassification
    needs_model = False

    def sections(self, dataset: Any, look: Look) -> list[Section]:
        if not isinstance(dataset, Dataset):
            return super().sections(dataset, look)
        rows, few = Few(dataset, look.samples).indices, replace(look, versions=min(look.versions, VERSIONS))
        loaders = self.loaders(dataset, look)
        shown = self.versions(few, rows, loaders, partial(self._original, dataset), _shown)
        said = f"Frames from left to right, line by line. {UNDONE} {SEEN if look.training else ''}"
        return [Section("Samples", f"<p>{said}</p>{shown}"), transforms(*loaders)]

    def _original(self, dataset: Dataset, index: int) -> Cell:
        sample = dataset[index]
        held = sample[kind_of(sample)]
        length = f", {len(held)} frames" if isinstance(held, np.ndarray) else ""
        said = f"{self.task.classes[int(sample['label'])]}, {sample_name(dataset, index)}{length}"
        return picture(sample, dataset), said


def _shown(loader: DataLoader, rows: Sequence[int] | np.ndarray, epoch: int) -> dict[int, Cell]:
    """Index -> the clip of an epoch."""
    batch: Any = loader.samples(rows, epoch)
    kind = kind_of(batch)
    pairs = zip(np.asarray(batch["index"]).tolist(), batch[kind], strict=True)
    return {index: (picture({kind: x}, loader.dataset, loader.pipeline.steps), "") for index, x in pairs}
