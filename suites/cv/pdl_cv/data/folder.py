"""Images in folders, a folder a class."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pdl.data.dataset import StandIn
from pdl.data.faults import fault, unreadable
from pdl.data.image import EXTENSIONS
from pdl.data.splits import check_ratios, stratified_split
from pdl.errors import ConfigError
from pdl.hints import Inherited
from pdl_cv.data import standin
from pdl_cv.data.base import ImageFiles, locate

SPLIT_FOLDERS = {"train": ("train", "training"), "val": ("val", "valid", "validation"), "test": ("test", "testing")}


class ImageFolder(ImageFiles):
    """A folder for each class with its images at any depth; sorted by name, so the order never changes.

    root        the folder; a relative one is also looked for under PDL_DATA
    split       None: the classes lie in `root`. Otherwise train, val or test (or a folder of your own):
                the classes lie in root/<split>; or, where `ratios` name the split, it is cut out of root/train (of
                `root` itself if that has no train folder)
    ratios      such as {train: 0.8, val: 0.1, test: 0.1}: every class is cut at these shares, in the order of a hash of
                the files' paths and `seed`; give all splits the same ratios
    classes     the class list; by default the folders of train (or of the only level), sorted by name
    extensions  which files are images, lower case
    allow_empty  accept classes without images
    All else is as in `ImageFiles`.
    """

    def __init__(
        self,
        root: str | Path,
        *,
        split: str | None = None,
        ratios: Mapping[str, float] | None = None,
        seed: int = 0,
        classes: Sequence[str] | None = None,
        extensions: Sequence[str] = EXTENSIONS,
        allow_empty: bool = False,
        **options: Inherited,
    ) -> None:
        self.split, self.extensions = split, tuple(e.lower() for e in extensions)
        top = locate(root)
        base, cutting = self._base(top, split, ratios)
        names = list(classes) if classes is not None else _classes(split_folder(top, "train") or base)
        paths, labels = self._scan(base, names, allow_empty or (split is not None and split != "train" and not cutting))
        if cutting and ratios is not None and split is not None:
            keys = [Path(p).as_posix() for p in paths]
            rows = stratified_split(labels, ratios, split, seed=seed, keys=keys)
            paths, labels = [paths[i] for i in rows], labels[rows]
        if not paths:
            raise fault(
                base,
                f"no images for split {split!r} (files ending in {', '.join(self.extensions)})",
                "add images, or choose other ratios or extensions",
            )
        super().__init__(base, paths, labels.tolist(), names, seed=seed, **options)

    @classmethod
    def stand_in(cls, folder: Path, settings: Mapping[str, Any]) -> StandIn | None:
        names = list(settings.get("classes") or (f"digit {i}" for i in range(standin.CLASSES)))
        if len(names) > standin.CLASSES:
            return None
        standin.write_folders(
            folder, names, splits=settings.get("split") is not None, gray=settings.get("mode") == "gray"
        )
        return StandIn({"root": str(folder), **standin.whole(settings)}, "digits as folders of images")

    def _base(self, top: Path, split: str | None, ratios: Mapping[str, float] | None) -> tuple[Path, bool]:
        """The folder that holds the class folders, and whether the split is cut out of it by ratio."""
        if not top.is_dir():
            raise fault(
                top,
                "no such folder" if not top.exists() else "not a folder",
                "name the folder that holds the class folders (root=)",
            )
        if ratios is not None:
            check_ratios("ImageFolder", ratios)
            if split is None:
                raise ConfigError("ImageFolder: ratios are given but no split; add split=train (or val, test)")
            if split in ratios:
                return split_folder(top, "train") or top, True
        if split is None:
            if split_folder(top, "train") and (split_folder(top, "val") or split_folder(top, "test")):
                raise fault(top, "holds folders for splits, not classes", "add split=train (or val, test)")
            return top, False
        folder = split_folder(top, split)
        if folder is None:
            raise fault(
                top,
                f"has no folder for split {split!r}",
                f"make {top / split}, or cut it out of train: give "
                f"every split the same ratios, such as {{train: 0.9, {split}: 0.1}}",
            )
        return folder, False

    def _scan(self, base: Path, names: list[str], allow_empty: bool) -> tuple[list[str], np.ndarray]:
        """Relative paths and labels, class by class."""
        unknown = sorted(set(_folders(base)) - set(names))
        if unknown:
            raise fault(
                base / unknown[0],
                f"a class folder outside of the class list ({', '.join(names[:5])}, ...)",
                "remove it, or add the class to train",
            )
        paths: list[str] = []
        labels: list[int] = []
        for label, name in enumerate(names):
            found = [p for p in _files(base, name) if p.lower().endswith(self.extensions)]
            if not found and not allow_empty:
                others = sum(1 for _ in _files(base, name))
                raise fault(
                    base / name,
                    f"class {name!r} has no images ({others} files, none ending in {', '.join(self.extensions)})",
                    "add some, remove the folder, or set allow_empty=true",
                )
            paths += found
            labels += [label] * len(found)
        return paths, np.array(labels, np.int64)


def split_folder(top: Path, split: str) -> Path | None:
    """The folder of a split below `top`, whatever it is called; None where there is none."""
    for name in SPLIT_FOLDERS.get(split, (split,)):
        if (top / name).is_dir():
            return top / name
    return None


def _folders(base: Path) -> list[str]:
    try:
        return sorted(e.name for e in os.scandir(base) if e.is_dir() and not e.name.startswith("."))
    except OSError as error:
        raise unreadable(base, error) from error


def _classes(base: Path) -> list[str]:
    names = _folders(base)
    if not names:
        raise fault(base, "holds no class folders", "make a folder for each class and put its images there")
    return names


def _files(base: Path, name: str) -> Iterator[str]:
    """Files below base/name, relative to base, sorted; hidden ones are passed over."""

    def stop(error: OSError) -> None:
        raise unreadable(error.filename or base / name, error) from error

    if not (base / name).exists():
        return
    for folder, folders, files in os.walk(base / name, onerror=stop):
        folders[:] = sorted(f for f in folders if not f.startswith("."))
        for file in sorted(f for f in files if not f.startswith(".")):
            yield os.path.relpath(os.path.join(folder, file), base)
