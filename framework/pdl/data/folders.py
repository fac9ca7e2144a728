"""Files in folders, a folder a class."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pdl.data.faults import fault, unreadable
from pdl.data.splits import check_ratios, stratified_split
from pdl.data.store import locate
from pdl.errors import ConfigError

SPLIT_FOLDERS = {"train": ("train", "training"), "val": ("val", "valid", "validation"), "test": ("test", "testing")}


CUT = {"train": 0.8, "val": 0.1, "test": 0.1}


def splits_there(top: Path) -> dict[str, bool]:
    """Which of train, val and test have a folder below `top`."""
    return {split: split_folder(top, split) is not None for split in SPLIT_FOLDERS}


def ratios_for(have: Mapping[str, bool]) -> dict[str, float]:
    """The ratios to cut train by where only some splits have folders; none where nothing must be cut."""
    if have["train"] and have["val"]:
        return {}
    return {"train": 0.9, "val": 0.1} if have["train"] and have["test"] else dict(CUT)


class Labelled(NamedTuple):
    """Files and the classes that they belong to: paths relative to `root`, labels int64 [N], and the classes' names."""

    root: Path
    paths: list[str]
    labels: np.ndarray
    classes: list[str]


def class_folders(
    owner: str,
    root: str | Path,
    extensions: Sequence[str],
    *,
    what: str,
    split: str | None = None,
    ratios: Mapping[str, float] | None = None,
    seed: int = 0,
    classes: Sequence[str] | None = None,
    allow_empty: bool = False,
    depth: int = 1,
    joined: Callable[[Sequence[str]], list[str]] | None = None,
) -> Labelled:
    """The files of a split of a folder that has a folder for each class, at any depth, sorted by name so that the order
    never changes; `what` they are ("images"), for messages of the data set `owner`.

    split       None: the classes lie in `root`. Otherwise train, val or test (or a folder of your own):
                the classes lie in root/<split>; or, where `ratios` name the split, it is cut out of root/train (of
                `root` itself if that has no train folder)
    ratios      such as {train: 0.8, val: 0.1, test: 0.1}: every class is cut at these shares, in the order of a hash of
                the files' paths and `seed`
    classes     the class list; by default the folders of train (or of the only level), sorted by name
    extensions  which files count, lower case
    allow_empty  accept classes without files
    depth       how deep class folders lie: 2 of ALPHABET/CHARACTER, which is then the name of a class
    joined      of the files of a class to what counts as one, such as a folder of frames
    """
    endings = tuple(e.lower() for e in extensions)
    top = locate(root)
    base, cutting = _base(owner, top, split, ratios)
    names = list(classes) if classes is not None else _classes(split_folder(top, "train") or base, what, depth)
    empty = allow_empty or (split is not None and split != "train" and not cutting)
    paths, labels = _scan(base, names, endings, what, empty, depth, joined)
    if cutting and ratios is not None and split is not None:
        keys = [Path(p).as_posix() for p in paths]
        rows = stratified_split(labels, ratios, split, seed=seed, keys=keys)
        paths, labels = [paths[i] for i in rows], labels[rows]
    if not paths:
        raise fault(
            base,
            f"no {what} for split {split!r} (files ending in {', '.join(endings)})",
            f"add {what}, or choose other ratios or extensions",
        )
    return Labelled(base, paths, labels, names)


def _base(owner: str, top: Path, split: str | None, ratios: Mapping[str, float] | None) -> tuple[Path, bool]:
    """The folder that holds the class folders, and whether the split is cut out of it by ratio."""
    if not top.is_dir():
        raise fault(
            top,
            "no such folder" if not top.exists() else "not a folder",
            "name the folder that holds the class folders (root=)",
        )
    if ratios is not None:
        check_ratios(owner, ratios)
        if split is None:
            raise ConfigError(f"{owner}: ratios are given but no split; add split=train (or val, test)")
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


def _scan(
    base: Path,
    names: list[str],
    endings: tuple[str, ...],
    what: str,
    allow_empty: bool,
    depth: int,
    joined: Callable[[Sequence[str]], list[str]] | None,
) -> tuple[list[str], np.ndarray]:
    """Relative paths and labels, class by class."""
    unknown = sorted(set(_folders(base, depth)) - set(names))
    if unknown:
        raise fault(
            base / unknown[0],
            f"a class folder outside of the class list ({', '.join(names[:5])}, ...)",
            "remove it, or add the class to train",
        )
    paths: list[str] = []
    labels: list[int] = []
    for label, name in enumerate(names):
        found = [p for p in _files(base, name) if p.lower().endswith(endings)]
        if not found and not allow_empty:
            others = sum(1 for _ in _files(base, name))
            raise fault(
                base / name,
                f"class {name!r} has no {what} ({others} files, none ending in {', '.join(endings)})",
                "add some, remove the folder, or set allow_empty=true",
            )
        found = found if joined is None else joined(found)
        paths += found
        labels += [label] * len(found)
    return paths, np.array(labels, np.int64)


def split_folder(top: Path, split: str) -> Path | None:
    """The folder of a split below `top`, whatever it is called; None where there is none."""
    for name in SPLIT_FOLDERS.get(split, (split,)):
        if (top / name).is_dir():
            return top / name
    return None


def _folders(base: Path, depth: int = 1) -> list[str]:
    """Folders that lie so deep below `base`, relative to it, sorted."""
    try:
        names = sorted(e.name for e in os.scandir(base) if e.is_dir() and not e.name.startswith("."))
    except OSError as error:
        raise unreadable(base, error) from error
    if depth == 1:
        return names
    return [f"{name}/{below}" for name in names for below in _folders(base / name, depth - 1)]


def _classes(base: Path, what: str, depth: int) -> list[str]:
    names = _folders(base, depth)
    if not names:
        where = "" if depth == 1 else f" {depth} folders deep"
        raise fault(base, f"holds no class folders{where}", f"make a folder for each class and put its {what} there")
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
