"""What the image classification data sets share: images in memory, images in files, and splits cut by ratio."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from pdl.data.dataset import ArrayDataset, Dataset, Sample, digest
from pdl.data.image import Mode, change_mode, read_image
from pdl.data.splits import check_ratios, stratified_split
from pdl.data.store import data_root
from pdl.errors import ConfigError


class ImageArrays(ArrayDataset):
    """Images that lie in memory: uint8 [N, H, W, C] and labels int64 [N], read from `source`."""

    def __init__(self, images: np.ndarray, labels: np.ndarray, classes: Sequence[str], *, source: str | Path,
                 mode: Mode) -> None:
        super().__init__(image=change_mode(images, mode), label=labels.astype(np.int64), classes=classes)
        self.source, self.mode = str(source), mode

    @property
    def images(self) -> np.ndarray:
        """All images: uint8 [N, H, W, C]."""
        return self.arrays["image"]

    @cached_property
    def fingerprint(self) -> str:
        """A hash of all pixels, labels and class names."""
        return super().fingerprint

    def path_of(self, index: int) -> str | None:
        return self.source


class ImageFiles(Dataset):
    """Images that are read from their files when asked for: sample i is {"image": uint8 [H, W, C], "label": int}."""

    def __init__(self, root: Path, paths: Sequence[str], labels: Sequence[int], classes: Sequence[str], *,
                 mode: Mode) -> None:
        self.root, self.paths, self.mode = root, list(paths), mode
        self.classes = list(classes)
        self._labels = np.asarray(labels, np.int64)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Sample:
        image = read_image(self.root / self.paths[index], mode=self.mode, index=index)
        return {"image": image, "label": int(self._labels[index])}

    @property
    def labels(self) -> np.ndarray:
        return self._labels

    @cached_property
    def fingerprint(self) -> str:
        """A hash of relative paths, file sizes, labels and class names; the pixels are not read."""
        return digest(*self.classes, *self.paths, self._labels, np.array([self._size(p) for p in self.paths], np.int64))

    def _size(self, path: str) -> int:
        try:
            return (self.root / path).stat().st_size
        except OSError:  # reported when the sample is read
            return -1

    def path_of(self, index: int) -> str:
        return str(self.root / self.paths[index])


def official_split(owner: str, split: str, ratios: Mapping[str, float] | None, official: Sequence[str]) -> str:
    """The official split that holds `split`: the one of its name, or train where `ratios` cut `split` out of it."""
    if ratios is not None:
        check_ratios(owner, ratios)
        if "train" not in ratios:
            raise ConfigError(f"{owner}: ratios {dict(ratios)} cut up the official train split; they must name train")
        if split in ratios:
            return "train"
    if split not in official:
        raise ConfigError(f"{owner}: split={split!r} is none of {', '.join(official)}; to cut it out of train, give "
                          f"both the same ratios, such as {{train: 0.9, {split}: 0.1}}")
    return split


def cut(images: np.ndarray, labels: np.ndarray, split: str, ratios: Mapping[str, float] | None,
        seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The rows of `split` if `ratios` name it (see `stratified_split`), else all."""
    if ratios is None or split not in ratios:
        return images, labels
    rows = stratified_split(labels, ratios, split, seed=seed)
    return images[rows], labels[rows]


def locate(root: str | Path) -> Path:
    """`root` as given; if it is relative and not there, the same under PDL_DATA when that exists."""
    path = Path(root).expanduser()
    under = data_root() / path
    return under if not path.exists() and under.exists() else path


