"""What the image classification data sets share: images in memory, images in files, and splits cut by ratio."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated

import numpy as np

from pdl.data.dataset import ArrayDataset, Dataset, Sample, digest
from pdl.data.faults import Fault
from pdl.data.image import Mode, change_mode, check_mode, fault_of, read_image
from pdl.data.randomness import BatchRandom
from pdl.data.splits import check_ratios, stratified_split
from pdl.data.store import under_roots
from pdl.errors import ConfigError
from pdl.hints import Range
from pdl.suites import suggest

PerClass = Annotated[int, Range(1)] | None


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


class ImageFiles(Dataset):
    """Images that are read from their files on access: sample i is {"image": uint8 [H, W, C], "label": int}. Recipes
    give

    mode       rgb or gray
    per_class  only so many images of each class (of this split), drawn with `seed`
    """

    foldable = True

    def __init__(
        self,
        root: Path,
        paths: Sequence[str],
        labels: Sequence[int],
        classes: Sequence[str],
        *,
        mode: Mode = "rgb",
        per_class: PerClass = None,
        seed: Annotated[int, Range(0)] = 0,
    ) -> None:
        check_mode(type(self).__name__, mode)
        self.root, self.paths, self.mode = root, list(paths), mode
        self.classes = list(classes)
        self._labels = np.asarray(labels, np.int64)
        if per_class is not None:
            owner = type(self).__name__
            rows, self._labels, _ = choose(owner, self._labels, classes, only=None, per_class=per_class, seed=seed)
            self.paths = [self.paths[row] for row in rows]

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

    def fault_of(self, index: int) -> Fault | None:
        return fault_of(self.path_of(index), index=index)


def _whole(owner: str, split: str, ratios: Mapping[str, float] | None) -> str:
    """ "all", of which `ratios` are to cut `split`."""
    parts = check_ratios(owner, ratios or {})
    if split not in (*parts, "all"):
        raise ConfigError(f"{owner}: split={split!r} is none of {', '.join([*parts, 'all'])}")
    return "all"


def official_split(owner: str, split: str, ratios: Mapping[str, float] | None, official: Sequence[str]) -> str:
    """The official split that holds `split`: the one of its name, or train where `ratios` cut `split` out of it."""
    if ratios is not None:
        check_ratios(owner, ratios)
        if "train" not in ratios:
            raise ConfigError(f"{owner}: ratios {dict(ratios)} cut up the official train split; they must name train")
        if split in ratios:
            return "train"
    if split not in official:
        raise ConfigError(
            f"{owner}: split={split!r} is none of {', '.join(official)}; to cut it out of train, give "
            f"both the same ratios, such as {{train: 0.9, {split}: 0.1}}"
        )
    return split


def cut(
    images: np.ndarray, labels: np.ndarray, split: str, ratios: Mapping[str, float] | None, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """The rows of `split` if `ratios` name it (see `stratified_split`), else all."""
    if ratios is None or split not in ratios:
        return images, labels
    rows = stratified_split(labels, ratios, split, seed=seed)
    return images[rows], labels[rows]


def choose(
    owner: str,
    labels: np.ndarray,
    names: Sequence[str],
    *,
    only: Sequence[str] | None,
    per_class: int | None,
    seed: int,
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """A smaller problem out of a data set: (rows, ascending; their labels; the class names).

    Only the classes of these names, numbered in the order given; and of each, `per_class` images drawn with `seed`. A
    draw of fewer is part of a draw of more. Raises ConfigError for a name that is none, and for too few images.
    """
    names = list(names)
    kept = names if only is None else [str(name) for name in only]
    _check_names(owner, kept, names)
    number = np.full(len(names), -1, np.int64)
    number[[names.index(name) for name in kept]] = np.arange(len(kept))
    rows = np.flatnonzero(number[labels] >= 0)
    if per_class is not None:
        place = BatchRandom(seed, 0, np.arange(len(labels))).fork("per_class").uniform()
        shuffled = rows[np.argsort(place[rows], kind="stable")]
        groups = [shuffled[number[labels[shuffled]] == label] for label in range(len(kept))]
        few = next((label for label, group in enumerate(groups) if len(group) < per_class), None)
        if few is not None:
            raise ConfigError(
                f"{owner}: per_class={per_class}, but class {kept[few]!r} has {len(groups[few])} images in this split"
            )
        rows = np.sort(np.concatenate([group[:per_class] for group in groups]))
    return rows, number[labels[rows]], kept


def _check_names(owner: str, kept: list[str], names: list[str]) -> None:
    unknown = [name for name in kept if name not in names]
    if unknown:
        raise ConfigError(
            f"{owner}: classes: {unknown[0]!r} is none of {', '.join(names[:20])}"
            f"{', ...' if len(names) > 20 else ''}{suggest(unknown[0], names)}"
        )
    if len(set(kept)) < len(kept) or not kept:
        raise ConfigError(f"{owner}: classes {kept} must be one name or more, each once")


def locate(root: str | Path) -> Path:
    """`root` as given; if it is relative and not there, the same under PDL_DATA when that exists."""
    path = Path(root).expanduser()
    return next((place for place in (path, *under_roots(path)) if place.exists()), path)
