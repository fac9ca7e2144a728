"""Clips as training sees them: each with its label, its file, and versions of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.data import Sample
from pdl.report import Section
from pdl.train import Look, SamplePreviewer
from pdl_cv.video.clips import kind_of, picture

if TYPE_CHECKING:
    from pdl_cv.video.task import VideoClassification

VERSIONS = 2  # epochs, as frames of a clip take room


class VideoPreviewer(SamplePreviewer):
    """Frames of clips with their classes."""

    task: VideoClassification
    note = "Frames from left to right, line by line. Normalize and ToFloat are undone."

    def sections(self, dataset: Any, look: Look) -> list[Section]:
        return super().sections(dataset, replace(look, versions=min(look.versions, VERSIONS)))

    def drawn(self, sample: Sample, dataset: Any, steps: Sequence[Any]) -> np.ndarray:
        return picture(sample, dataset, steps)

    def about(self, sample: Sample, dataset: Any) -> str:
        return self.task.classes[int(sample["label"])]

    def extent(self, sample: Sample, dataset: Any) -> str:
        held = sample[kind_of(sample)]
        return f"{held.shape[-4 if kind_of(sample) == 'clip' else 0]} frames" if isinstance(held, np.ndarray) else ""
