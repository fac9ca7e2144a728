"""The files below a folder: found once, told apart by what they are, and never left."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path, PurePosixPath
from typing import Any, Literal, TypeVar

import numpy as np

from pdl.data.faults import DataFault, Fault, fault, unreadable
from pdl.data.folders import SPLIT_FOLDERS
from pdl.data.image import EXTENSIONS
from pdl.data.splits import check_ratios
from pdl.data.store import locate
from pdl.errors import ConfigError
from pdl.files import MOST_TEXT, read_bytes
from pdl_cv.data.boxes.table import Table

T = TypeVar("T")
MAX_FILES = 4_000_000
SKIP = "leave such images out: data.on_error=skip in a recipe, pdl convert --on-error skip"
#: folders of masks: their images are not samples
MASK_FOLDERS = ("masks", "labels", "mask", "label", "instances", "segmentationobject", "segmentationclass")
LISTS = ("", "ImageSets/Main/", "ImageSets/Segmentation/")
_WORDS = {word: split for split, words in SPLIT_FOLDERS.items() for word in words}
_IN_NAME = re.compile(rf"(?:^|[_.\-\s])({'|'.join(sorted(_WORDS, key=len, reverse=True))})\d*(?=$|[_.\-\s])")

Layout = Mapping[str, Callable[[], Table]]
"""The splits of a data set and what reads each; the only one is "" where the data has none."""


class Tree:
    """The files below `root` (a folder, or the one file to read), as paths relative to it with /, sorted; hidden ones
    are left out, links to folders are followed.

    What readers find wrong with an image or its annotation is raised, or, with on_error="skip", kept in `faults`, and
    the image left out. Warnings are kept there in any case. `elsewhere` says that images
    may be anywhere: annotations alone are looked at.

    Raises DataFault for a root that is not there, and for more files than any data set has.
    """

    def __init__(
        self, root: str | Path, on_error: Literal["error", "skip"] = "error", *, elsewhere: bool = False
    ) -> None:
        place = locate(root)
        if not place.exists():
            what = "no such file" if place.suffix else "no such folder"
            raise fault(place, what, "name the folder that holds images and annotations (root=)")
        self.given = place
        self.root = (place if place.is_dir() else place.parent).absolute()
        self.files = sorted(_walk(self.root))
        self.only = None if place.is_dir() else place.name
        self.on_error, self.elsewhere = on_error, elsewhere
        self.faults: list[Fault] = []

    def wrong(self, error: DataFault) -> None:
        """Raise what is wrong with an image or its annotation, or keep it."""
        if self.on_error == "error":
            advice = error.fault.advice
            raise DataFault(replace(error.fault, advice=f"{advice}, or {SKIP}")) from error.__cause__
        self.faults.append(error.fault)

    def warn(self, path: str, what: str, advice: str) -> None:
        """Keep what may be a mistake and costs nothing."""
        self.faults.append(Fault(str(self.root / path), None, what, advice, severity="warning"))

    def part(
        self, owner: str, splits: Mapping[str, Callable[[], T]], split: str | None, ratios: Mapping[str, float] | None,
        cut: Callable[[T, Mapping[str, float], str], T],
    ) -> T:  # fmt: skip
        """What the `splits` of a data set, of class `owner`, have for `split`: what is read for it, or `cut` out of
        train, or of all there is, where `ratios` name it."""
        have = ", ".join(name for name in splits if name)
        if ratios is not None:
            check_ratios(owner, ratios)
            if split is None:
                raise ConfigError(f"{owner}: ratios are given but no split; add split=train (or val, test)")
            if split in ratios:
                return cut(splits["train" if "train" in splits else next(iter(splits))](), ratios, split)
        if split is None and len(splits) > 1:
            raise fault(self.given, f"it has the splits {have}", "add split=train (or another)")
        if split is None:
            return next(iter(splits.values()))()
        if split not in splits:
            self.require_some()
            what, more = f"has no split {split!r}{f', only {have}' if have else ''}", f"{{train: 0.9, {split}: 0.1}}"
            raise fault(self.given, what, f"cut it: give every split the same ratios, such as {more}")
        return splits[split]()

    def require_some(self) -> None:
        """Raise the first thing that is wrong: to be called where all images are left out."""
        for each in self.faults:
            if each.severity == "error":
                raise DataFault(each)

    def without_annotation(self, paths: Sequence[str], sources: Sequence[str] = ()) -> None:
        """Warn of images that are none of these, have no file of annotations of their name, and so are not used."""
        known, stems = set(paths), {PurePosixPath(name).stem for name in sources}
        unused = [name for name in self.images
                  if name not in known and PurePosixPath(name).stem not in stems and not _is_mask(name)]  # fmt: skip
        if unused:
            what = f"{len(unused):,} of {len(self.images):,} images have no annotation, the first is this"
            self.warn(unused[0], what, "they are not used; annotate them, or add empty annotations where nothing is")

    @cached_property
    def images(self) -> list[str]:
        """The image files."""
        return [name for name in self.files if name.lower().endswith(EXTENSIONS)]

    @cached_property
    def names(self) -> frozenset[str]:
        """The same, to look one up."""
        return frozenset(self.images)

    @cached_property
    def by_stem(self) -> dict[str, list[str]]:
        """Image files by their name without folder and ending; those in folders of masks come last."""
        found: dict[str, list[str]] = {}
        for name in sorted(self.images, key=_is_mask):
            found.setdefault(PurePosixPath(name).stem, []).append(name)
        return found

    def ending(self, *endings: str) -> list[str]:
        """The files with such an ending, those near the top first; the file alone where the root is one."""
        found = [name for name in self.files if name.lower().endswith(endings)]
        if self.only is not None:
            found = [name for name in found if name == self.only]
        return sorted(found, key=lambda name: (name.count("/"), name))

    def image(self, stem: str, near: str) -> str | None:
        """The image of this name without ending: of several, the one whose folders are most like those of `near`."""
        found = self.by_stem.get(stem, ())
        masks = [name for name in found if not _is_mask(name)] or found
        return max(masks, key=lambda name: _alike(name, near), default=None)

    def inside(self, name: str, base: str, source: str, line: int | None = None) -> str:
        """The path, relative to the root, that `name` (of a file in the folder `base`) is. DataFault where it leads out
        of the root, or is no path."""
        plain = name.replace("\\", "/")
        joined = os.path.normpath(os.path.join(self.root, base, plain)) if "\0" not in plain else ""
        path = os.path.relpath(joined, self.root).replace(os.sep, "/") if joined else ".."
        if path == ".." or path.startswith("../") or not plain.strip():
            what = f"{name[:200]!r} leads out of {self.root}" if plain.strip() else "a name of a file is empty"
            raise fault(self.root / source, what, "name files below the data set's own folder (root=)", line=line)
        return path

    def text(self, name: str, most: int = MOST_TEXT) -> str:
        """The text of a file in UTF-8."""
        data = self.bytes(name, most)
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise fault(self.root / name, "not UTF-8 text", "save it as UTF-8", line=line) from error

    def bytes(self, name: str, most: int = MOST_TEXT) -> bytes:
        """The bytes of a file, at most `most`."""
        try:
            return read_bytes(self.root / name, most)
        except OSError as error:
            raise unreadable(self.root / name, error) from error

    def json(self, name: str, most: int = MOST_TEXT) -> Any:
        """What a JSON file holds."""
        try:
            return json.loads(self.text(name, most))
        except (ValueError, RecursionError) as error:
            raise damaged(self.root / name, error) from error

    def lists(self) -> dict[str, list[str]]:
        """The text files that list the images of splits, by split: lines of train.txt, val.txt, ... of the first folder
        of LISTS (below the root, or up to two folders down) that has any."""
        names = set(self.files)
        parts = [name.split("/") for name in self.files if name.endswith(".txt")]
        tops = ["", *sorted({"/".join(each[:deep]) + "/" for each in parts for deep in (1, 2) if len(each) > deep})]
        for folder in (top + inner for inner in LISTS for top in tops):
            found = {split: f"{folder}{word}.txt" for word, split in _WORDS.items() if f"{folder}{word}.txt" in names}
            if found:
                return {split: self.text(file).splitlines() for split, file in found.items()}
        return {}


def split_of(name: str) -> str:
    """The split that the folders or the name of a file speak of: train/a.jpg, instances_val2017.json; else ""."""
    path = PurePosixPath(name)
    for part in path.parts[:-1]:
        word = part.lower().rstrip("0123456789")
        if word in _WORDS:
            return _WORDS[word]
    found = _IN_NAME.search(path.stem.lower())
    return _WORDS[found[1]] if found else ""


def split_folder(name: str) -> str:
    """The split that the folders of a file speak of; else ""."""
    return split_of(f"{PurePosixPath(name).parent}/-")


def by_split(splits: Iterable[str]) -> dict[str, list[int]]:
    """The rows of each split, given that of every row; all are "" where none is train."""
    found: dict[str, list[int]] = {}
    for row, split in enumerate(splits):
        found.setdefault(split, []).append(row)
    if "train" in found:
        return {split: rows for split, rows in found.items() if split}
    return {"": sorted(row for rows in found.values() for row in rows)} if found else {}


def listed(tree: Tree, paths: list[str]) -> dict[str, list[int]]:
    """The rows of `paths` in each split that list files name (`Tree.lists`): by path, or by name without ending. Behind
    a name there may be a mark of VOC's lists of a class (-1: an image without it), or other words."""
    stems = {PurePosixPath(path).stem: row for row, path in enumerate(paths)}
    exact = {path: row for row, path in enumerate(paths)}

    def row_of(text: str) -> int | None:
        name = PurePosixPath(text.replace("\\", "/"))
        plain = name.name if len(name.suffix) < 2 else name.stem
        return exact.get(str(name), stems.get(plain, stems.get(name.name)))

    found = {}
    for split, lines in tree.lists().items():
        rows = []
        for number, line in enumerate(lines, 1):
            if not (words := line.split()):
                continue
            whole = row_of(line.strip())
            if whole is None and words[-1] == "-1":
                continue
            tried = whole, row_of(line.rsplit(None, 1)[0].strip()), row_of(words[0])
            row = next((each for each in tried if each is not None), None)
            if row is None:
                tree.wrong(fault(tree.root, f"line {number} of its list of {split} names {line.strip()[:80]!r}, which "
                                 "has no image or no annotation", "add them, or take the line out"))  # fmt: skip
                continue
            rows.append(row)
        found[split] = rows
    return found


def chosen(table: Table, rows: Mapping[str, Sequence[int]]) -> Layout:
    """The splits that are these rows of a table."""
    return {split: partial(table.of_images, np.array(own, np.int64)) for split, own in rows.items()}


def damaged(path: Path, error: Exception) -> DataFault:
    """The error about a JSON file that is none."""
    line = error.lineno if isinstance(error, json.JSONDecodeError) else None
    what = error.msg if isinstance(error, json.JSONDecodeError) else "nested too deep" if isinstance(
        error, RecursionError) else str(error)  # fmt: skip
    return fault(path, f"not JSON: {what}", "export the annotations again", line=line)


def _walk(root: Path) -> Iterator[str]:
    seen: set[str] = set()
    count = 0

    def stop(error: OSError) -> None:
        raise unreadable(error.filename or root, error) from error

    for folder, folders, files in os.walk(root, onerror=stop, followlinks=True):
        real = os.path.realpath(folder)
        if real in seen:  # a link to a folder that holds it
            folders.clear()
            continue
        seen.add(real)
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__MACOSX")))
        base = os.path.relpath(folder, root).replace(os.sep, "/")
        count += len(files)
        if count > MAX_FILES:
            raise fault(root, f"more than {MAX_FILES} files", "name the folder of one data set (root=)")
        yield from (name if base == "." else f"{base}/{name}" for name in files if not name.startswith("."))


def _is_mask(name: str) -> bool:
    return any(part.lower() in MASK_FOLDERS for part in PurePosixPath(name).parts[:-1])


def _alike(name: str, near: str) -> int:
    """How many folders of one are also in the other."""
    return len(set(PurePosixPath(name).parts[:-1]) & set(PurePosixPath(near).parts[:-1]))
