"""What the data sets of clips share: clips in memory and clips in files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from pdl.data.dataset import Dataset, Sample, digest
from pdl.data.faults import Fault, fault
from pdl.data.image import Mode, change_mode, check_mode
from pdl.data.labelled import LabelledFiles, PerClass
from pdl.dtype import Array
from pdl.errors import DataError
from pdl.hints import Range
from pdl_cv.steps.clips import Choose, frames_in, frames_of, mapped, places, read_clip

REPAIR = "replace or remove the clip"
GLIMPSED = 4  # frames of a clip that `pdl check` reads


@dataclass(frozen=True)
class Clip:
    """A clip whose frames are read when they are chosen: a video file, a folder of frames, or *.npy, as sample `index`
    of a data set."""

    path: str
    mode: Mode
    index: int | None = None

    def read(self, choose: Choose) -> Array:
        """Frames uint8 [..., H, W, C] (`pdl_cv.steps.clips.read_clip`); DataFault where they cannot be read."""
        try:
            return read_clip(self.path, self.mode, choose)
        except DataError as error:
            raise fault(self.path, _without(self.path, error), REPAIR, index=self.index) from error


def chosen(clip: Any, choose: Choose) -> Array:
    """Frames of sample["clip"], which is a `Clip` or an array [T, H, W, C]."""
    return clip.read(choose) if isinstance(clip, Clip) else np.asarray(clip[choose(len(clip))])


class ClipArrays(Dataset):
    """Clips that lie in memory, uint8 [N, T, H, W, C], with labels int64 [N]: sample i is {"clip": uint8 [T, H, W, C],
    "label": int}."""

    foldable = True

    def __init__(
        self,
        clips: Array,
        labels: Array,
        classes: Sequence[str],
        *,
        mode: Mode | None = None,
        source: str | None = None,
    ) -> None:
        own: Mode = "gray" if clips.shape[-1] == 1 else "rgb"
        self.mode = own if mode is None else check_mode(type(self).__name__, mode)
        self.clips = np.stack([change_mode(clip, self.mode) for clip in clips]) if self.mode != own else clips
        self.classes, self._labels, self.source = list(classes), np.asarray(labels, np.int64), source

    def __len__(self) -> int:
        return len(self.clips)

    def __getitem__(self, index: int) -> Sample:
        return {"clip": self.clips[index], "label": int(self._labels[index])}

    @property
    def labels(self) -> Array:
        return self._labels

    @cached_property
    def fingerprint(self) -> str:
        """A hash of all pixels, labels and class names."""
        return digest(*self.classes, str(self.clips.shape), self.clips, self._labels)

    def path_of(self, index: int) -> str | None:
        return self.source


class ClipFiles(LabelledFiles):
    """Clips of which frames are read from their files when they are chosen: sample i is {"clip": `Clip`, "label": int}.
    Transforms begin with one that chooses, such as `pdl_cv.data.transforms.Segments`. Recipes give

    mode       rgb or gray
    per_class  only so many clips of each class (of this split), drawn with `seed`
    """

    def __init__(
        self,
        root: Path,
        paths: Sequence[str],
        labels: Sequence[int] | np.ndarray,
        classes: Sequence[str],
        *,
        mode: Mode = "rgb",
        per_class: PerClass = None,
        seed: Annotated[int, Range(0)] = 0,
    ) -> None:
        self.mode = check_mode(type(self).__name__, mode)
        super().__init__(root, paths, labels, classes, per_class=per_class, seed=seed)

    def __getitem__(self, index: int) -> Sample:
        return {"clip": Clip(self.path_of(index), self.mode, index), "label": int(self._labels[index])}

    def _size(self, path: str) -> int:
        """Bytes of a file; of a folder those of its frames, and how many they are."""
        place = self.root / path
        if place.is_dir():
            return sum(each.stat().st_size + 1 for each in frames_in(place))
        return super()._size(path)

    def fault_of(self, index: int) -> Fault | None:
        """What is wrong with a clip, by the header of its file or the list of its frames."""
        path = Path(self.path_of(index))
        try:
            if path.is_dir():
                have = len(frames_in(path))
            else:
                have = len(mapped(path)) if path.suffix.lower() == ".npy" else frames_of(path, str(path))
        except DataError as error:
            return Fault(str(path), index, _without(str(path), error), REPAIR)
        return None if have else Fault(str(path), index, "no frames in it", REPAIR)


class Glimpses(Dataset):
    """The clips of a data set by a few of their frames: {"clip": uint8 [4, H, W, C], "label": int}."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset, self.classes, self.faults = dataset, dataset.classes, dataset.faults

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Sample:
        sample = self.dataset[index]
        if "clip" not in sample:
            return sample
        return {**sample, "clip": chosen(sample["clip"], lambda have: places(have, GLIMPSED)[0])}

    @property
    def labels(self) -> Array | None:
        return self.dataset.labels

    def path_of(self, index: int) -> str | None:
        return self.dataset.path_of(index)


def _without(path: str, error: DataError) -> str:
    return str(error).removeprefix(f"{path}: ")
