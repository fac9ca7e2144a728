"""A data set of objects in one format, written in another: what `pdl convert` calls."""

from __future__ import annotations

import errno
import os
import shutil
from collections import Counter
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import numpy as np

from pdl.data.checks import raise_faults
from pdl.data.faults import Fault, fault, unreadable
from pdl.errors import UsageError
from pdl_cv.data.boxes.formats import FORMATS, WHAT, layout
from pdl_cv.data.boxes.tree import SKIP, Tree
from pdl_cv.data.boxes.writing import WRITERS, Part
from pdl_cv.data.detection import DetectionFolder


def convert(
    source: Path,
    folder: Path,
    to: str,
    *,
    given: str | None = None,
    copy: bool = False,
    on_error: Literal["error", "skip"] = "error",
) -> dict[str, Any]:
    """Write the data set in `source` (of the format `given`, else of that which is recognised) into the empty `folder`
    in the format `to`, split by split; images are hard links to the old ones, or copies. All image files are looked at
    first (`Dataset.fault_of`).

    Facts about it: formats, images and objects of each split, classes, what the new format cannot hold, and what was
    left out.
    """
    if given is not None and given not in FORMATS:
        raise UsageError(f"format {given!r} is none of {', '.join(FORMATS)}")
    tree = Tree(source, on_error)
    form, splits = layout(tree, given or "auto")
    parts: dict[str, DetectionFolder] = {split: _opened(source, split, form, on_error) for split in splits}
    bad = {split: [each for i in range(len(data)) if (each := data.fault_of(i))] for split, data in parts.items()}
    if on_error == "error":
        raise_faults([*chain(*bad.values())], sum(map(len, parts.values())), SKIP)
    wrong = [each for data in parts.values() for each in data.faults if each.severity == "error"]
    left_out = {str(each).removesuffix(f"; {each.advice}") for each in (*wrong, *chain(*bad.values()))}
    parts = {split: _without(data, bad[split]) for split, data in parts.items()}
    classes = [data.classes for data in parts.values()]
    if any(each != classes[0] for each in classes):
        raise fault(source, "the splits have different classes", "give all of them one list of classes")
    write, place = WRITERS[to]
    planned = _planned(parts, place, apart="{split}" in place)
    for part in planned:
        for index, path in enumerate(part.paths):
            _put(Path(part.data.path_of(index)), folder / path, copy)
    lost = write(folder, planned, classes[0], next(iter(parts.values())).table.skeleton)
    counts = {split or "all": {"images": len(each), "objects": len(each.table.boxes)} for split, each in parts.items()}
    return {"from": WHAT[form], "to": WHAT[to], "classes": classes[0], "splits": counts, "lost": sorted(lost),
            "left_out": sorted(left_out)}  # fmt: skip


def _without(data: DetectionFolder, faults: list[Fault]) -> DetectionFolder:
    """The data set without the images that these faults are of."""
    return data.only(np.setdiff1d(np.arange(len(data)), [each.index for each in faults])) if faults else data


def _opened(source: Path, split: str, form: str, on_error: Any) -> DetectionFolder:
    data = DetectionFolder(source, split=split or None, format=form, on_error=on_error)  # type: ignore[arg-type]
    data.has_keypoints = data.table.keypoints is not None
    return data


def _planned(parts: dict[str, DetectionFolder], place: str, *, apart: bool) -> list[Part]:
    """The new path of every image: its name, with its folders where others of the split (of all splits, unless they are
    kept `apart`) have the same name without ending."""
    stems = Counter((split if apart else "", PurePosixPath(path).stem) for split, data in parts.items()
                    for path in data.table.paths)  # fmt: skip
    found = []
    for split, data in parts.items():
        base = place.format(split=split).rstrip("/")
        names = [path.replace("/", "__") if stems[split if apart else "", PurePosixPath(path).stem] > 1
                 else PurePosixPath(path).name for path in data.table.paths]  # fmt: skip
        if len({PurePosixPath(name).stem for name in names}) < len(names):
            again = next(name for name, count in Counter(PurePosixPath(n).stem for n in names).items() if count > 1)
            raise fault(data.root, f"two images are called {again}, with different endings", "rename one of them")
        found.append(Part(split, data, [f"{base}/{name}".lstrip("/") for name in names]))
    return found


def _put(source: Path, target: Path, copy: bool) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        if copy:
            shutil.copyfile(source, target)
        else:
            os.link(os.path.realpath(source), target)
    except OSError as error:
        if error.errno in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP):
            what = f"{source} cannot be linked to from {target.parent} ({error.strerror})"
            raise UsageError(f"{what}; copy with --copy") from None
        raise unreadable(source, error) from error
