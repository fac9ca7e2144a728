"""What the image classification data sets share: images in memory and images in files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated

import numpy as np

from pdl.data.dataset import ArrayDataset, Sample
from pdl.data.faults import Fault
from pdl.data.image import Mode, change_mode, check_mode, fault_of, read_image
from pdl.data.labelled import LabelledFiles, PerClass, choose, cut, official_split
from pdl.data.splits import check_ratios
from pdl.errors import ConfigError
from pdl.hints import Range


class ImageArrays(ArrayDataset):
    """Images that lie in memory: uint8 [N, H, W, C] and labels int64 [N]. Data sets of this kind give `names` (of the
    classes), `read` (an official split as images, labels, and the file they are from) and the names of the `official`
    splits (None: there are none, and `ratios` cut the whole, which is "all"); recipes give the rest:

    split      an official split; others (val) where `ratios` cut them out of train
    ratios     {train: 0.9, val: 0.1}: shares of train, of each class alike, in an order drawn with `seed`
    seed       of that cut, and of `per_class`
    mode       rgb or gray; by default as the images are
    classes    only these classes, by name, numbered in this order; by default all
    per_class  only so many images of each class, drawn with `seed`
    """

    def __init__(
        self,
        names: Sequence[str],
        read: Callable[[str], tuple[np.ndarray, np.ndarray, str | Path]],
        official: Sequence[str] | None = ("train", "test"),
        *,
        split: str = "train",
        ratios: Mapping[str, float] | None = None,
        seed: Annotated[int, Range(0)] = 0,
        mode: Mode | None = None,
        classes: Sequence[str] | None = None,
        per_class: PerClass = None,
    ) -> None:
        owner = type(self).__name__
        if mode is not None:
            check_mode(owner, mode)
        part = _whole(owner, split, ratios) if official is None else official_split(owner, split, ratios, official)
        images, labels, source = read(part)
        images, labels = cut(images, labels, split, ratios, seed)
        if classes is not None or per_class is not None:
            rows, labels, names = choose(owner, labels, names, only=classes, per_class=per_class, seed=seed)
            images = images[rows]
        own: Mode = "gray" if images.shape[3] == 1 else "rgb"
        super().__init__(image=change_mode(images, mode or own), label=labels.astype(np.int64), classes=names)
        self.source, self.mode, self.split = str(source), mode or own, split

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


class ImageFiles(LabelledFiles):
    """Images that are read from their files on access: sample i is {"image": uint8 [H, W, C], "label": int}. Recipes
    give

    mode       rgb or gray
    per_class  only so many images of each class (of this split), drawn with `seed`
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
        check_mode(type(self).__name__, mode)
        self.mode = mode
        super().__init__(root, paths, labels, classes, per_class=per_class, seed=seed)

    def __getitem__(self, index: int) -> Sample:
        image = read_image(self.root / self.paths[index], mode=self.mode, index=index)
        return {"image": image, "label": int(self._labels[index])}

    def fault_of(self, index: int) -> Fault | None:
        return fault_of(self.path_of(index), index=index)


def _whole(owner: str, split: str, ratios: Mapping[str, float] | None) -> str:
    """ "all", of which `ratios` are to cut `split`."""
    parts = check_ratios(owner, ratios or {})
    if split not in (*parts, "all"):
        raise ConfigError(f"{owner}: split={split!r} is none of {', '.join([*parts, 'all'])}")
    return "all"
