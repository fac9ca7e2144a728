"""YOLO's text files, one for each image with a line for each object, as Ultralytics, Roboflow and Darknet write them:

    class cx cy w h                         a box: its centre and sides, in shares of the image's
    class x1 y1 x2 y2 x3 y3 ...             an outline, of three points or more
    class cx cy w h x1 y1 v1 x2 y2 v2 ...   keypoints, where the data set's YAML file has kpt_shape

The file of images/a/1.jpg is labels/a/1.txt; where there is no folder images, it lies beside the image. An image
without one has no objects.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from pdl.config.source import MOST_BYTES, parsed
from pdl.data.faults import DataFault, Fault, fault
from pdl.data.folders import SPLIT_FOLDERS
from pdl.errors import ConfigError
from pdl_cv.data.boxes.shapes import Rings
from pdl_cv.data.boxes.table import MOST_POINTS, Rows, Skeleton, Table
from pdl_cv.data.boxes.tree import Layout, Tree, by_split, split_folder
from pdl_cv.data.boxes.voc import names_file

MAX_BYTES = 16 << 20
SPLITS = {word for words in SPLIT_FOLDERS.values() for word in words}
FARTHEST = 2.0  # in shares of a side: beyond are pixels, or no places at all
MOST_NAMES = 100_000
_LINE = re.compile(r"[\d\s.eE+\-]*\Z")


def layout(tree: Tree) -> Layout:
    """The splits that the YAML file names (data.yaml, dataset.yaml, ...); where it names none, or is not there,
    those of the folders."""
    data = _settings(tree)
    if data is None:
        return _of_folders(tree, names_file(tree), None)
    file, settings = data
    names, skeleton = _names(tree, file, settings), _skeleton(tree, file, settings)
    if not settings.keys() & SPLITS:
        return _of_folders(tree, names, skeleton)
    found: dict[str, Any] = {}
    for split, words in SPLIT_FOLDERS.items():
        entry = next((settings[word] for word in words if settings.get(word)), None)
        images = _images(tree, file, settings, split, entry) if entry is not None else []
        if images:
            found[split] = partial(read, tree, images, names, skeleton)
    for split in ("val", "test"):  # COCO8 and COCO128 validate on what they train on
        places = [_path(tree, file, settings, each) for each in ("train", split) if each in found]
        if len(places) == 2 and places[0] == places[1]:
            del found[split]
    _warn_of_labels_alone(tree)
    if not found:
        raise fault(tree.root / file, "none of its train, val and test leads to images below its folder",
                    "correct the paths; name the folder that holds them all (root=)")  # fmt: skip
    return found


def _of_folders(tree: Tree, names: Mapping[int, str] | Sequence[str] | None, skeleton: Skeleton | None) -> Layout:
    splits = by_split(map(split_folder, tree.images)) if _has_labels(tree) else {}
    if splits:
        _warn_of_labels_alone(tree)
    return {split: partial(read, tree, [tree.images[i] for i in rows], names, skeleton)
            for split, rows in splits.items()}  # fmt: skip


def label_file(image: str) -> str:
    """The file with the objects of an image."""
    path = PurePosixPath(image)
    parts = list(path.parts)
    at = next((i for i in range(len(parts) - 2, -1, -1) if parts[i] == "images"), None)
    if at is not None:
        parts[at] = "labels"
    return str(PurePosixPath(*parts).with_suffix(".txt"))


def _has_labels(tree: Tree) -> bool:
    """Whether the first text files that belong to images hold lines of numbers."""
    files = set(tree.files)
    own = [label for image in tree.images if (label := label_file(image)) in files]
    return bool(own) and all(_is_label(tree, label) for label in own[:20])


def _is_label(tree: Tree, name: str) -> bool:
    """Whether the first lines of a text file are numbers as those of objects; of an empty one they are."""
    lines = [line for line in tree.text(name, MAX_BYTES).splitlines()[:5] if line.strip()]
    return all(_LINE.match(line) and len(line.split()) >= 5 for line in lines)


def _warn_of_labels_alone(tree: Tree) -> None:
    """Warn of files of labels, in folders where others have an image, that have none."""
    own = set(map(label_file, tree.images))
    folders = {PurePosixPath(name).parent for name in own & set(tree.files)}
    for name in tree.files:
        alone = name.endswith(".txt") and name not in own and PurePosixPath(name).parent in folders
        if alone and _is_label(tree, name):
            tree.warn(name, "it has labels, and its image is missing", "add the image, or remove the file")


def read(tree: Tree, images: Sequence[str], names: Mapping[int, str] | Sequence[str] | None,
         skeleton: Skeleton | None) -> Table:  # fmt: skip
    """The objects of these images. Without names, classes are called by their numbers."""
    rows, files = Rows(tree, relative=True), set(tree.files)
    known = dict(names.items() if isinstance(names, Mapping) else enumerate(names or ()))
    largest = -1
    for path in images:
        label = label_file(path)
        with rows.whole():
            image = rows.image(path, label)
            for line, number, values in _lines(tree, label) if label in files else ():
                if (names is not None and number not in known) or not 0 <= number < MOST_NAMES:
                    what = f"class {number} is none of the {len(known)} names ({_range(known)})"
                    raise fault(tree.root / label, what, "correct the number, or the list of names", line=line)
                largest = max(largest, number)
                try:
                    rows.add(image, _box(values, skeleton), number, where=line, keypoints=_keypoints(values, skeleton),
                             shape=_outline(values, skeleton))  # fmt: skip
                except ValueError as error:
                    raise fault(tree.root / label, str(error), "correct the line", line=line) from None
    if names is None:
        known = {number: str(number) for number in range(largest + 1)}
    place = np.zeros(max(known, default=0) + 1, np.int64)
    place[sorted(known)] = np.arange(len(known))
    rows.label_of = type(rows.label_of)("q", place[np.asarray(rows.label_of, np.int64)].tobytes())
    return rows.table([known[number] for number in sorted(known)], skeleton)


def _range(known: Mapping[int, str]) -> str:
    return f"{min(known)}..{max(known)}" if known else "there are none"


def _lines(tree: Tree, label: str) -> Iterator[tuple[int, int, list[float]]]:
    """(line, class, the other numbers) of a file."""
    for line, text in enumerate(tree.text(label, MAX_BYTES).splitlines(), 1):
        words = text.split()
        if not words:
            continue
        try:
            numbers = [float(word) for word in words]
            number = int(numbers[0])
            if number != numbers[0]:
                raise ValueError
        except (ValueError, OverflowError):
            what = f"{text[:60]!r} is not a class number and coordinates"
            raise fault(tree.root / label, what, "write: class cx cy w h", line=line) from None
        far = [value for value in numbers[1:] if not abs(value) <= FARTHEST]
        if far:
            what = f"{far[0]:g} is no share of the image's sides"
            raise fault(tree.root / label, what, "divide x by the width and y by the height", line=line)
        yield line, number, numbers[1:]


def _box(values: list[float], skeleton: Skeleton | None) -> tuple[float, ...]:
    if _is_outline(values, skeleton):
        xs, ys = values[::2], values[1::2]
        return min(xs), min(ys), max(xs), max(ys)
    if len(values) < 4 or (skeleton is None and len(values) != 4):
        raise ValueError(f"{len(values)} numbers after the class: a box has 4, an outline 6 or more, an even count")
    cx, cy, width, height = values[:4]
    return cx - width / 2, cy - height / 2, cx + width / 2, cy + height / 2


def _is_outline(values: list[float], skeleton: Skeleton | None) -> bool:
    return skeleton is None and len(values) >= 6 and len(values) % 2 == 0


def _outline(values: list[float], skeleton: Skeleton | None) -> Rings | None:
    return Rings([values]) if _is_outline(values, skeleton) else None


def _keypoints(values: list[float], skeleton: Skeleton | None) -> list[float] | None:
    if skeleton is None or len(values) == 4:
        return None
    count, rest = len(skeleton.names), values[4:]
    if len(rest) == 3 * count:
        return rest
    if len(rest) != 2 * count:
        raise ValueError(f"{len(rest)} numbers for {count} keypoints; kpt_shape says how many there are")
    return [v for x, y in zip(rest[::2], rest[1::2], strict=True) for v in (x, y, 2.0 if x or y else 0.0)]


# -- the YAML file -----------------------------------------------------------------------------------------------------
def _settings(tree: Tree) -> tuple[str, dict[str, Any]] | None:
    """The first YAML file that has names of classes and of splits, and what it says; else the first with names."""
    bare = None
    for name in (each for each in tree.ending(".yaml", ".yml") if each.count("/") <= 1):
        try:
            found = parsed(tree.text(name, MOST_BYTES), tree.root / name)
        except ConfigError as error:
            raise DataFault(Fault(None, None, str(error), "correct the file")) from None
        if isinstance(found, dict) and "names" in found:
            if found.keys() & SPLITS:
                return name, found
            bare = bare or (name, found)
    return bare


def _names(tree: Tree, file: str, settings: Mapping[str, Any]) -> dict[int, str]:
    names = settings["names"]
    try:
        found = {int(k): str(v) for k, v in (names.items() if isinstance(names, dict) else enumerate(names))}
    except (TypeError, ValueError):
        raise fault(tree.root / file, "names is neither a list of names nor numbers with names", "names: [cat, dog]") \
            from None  # fmt: skip
    if not found or min(found) < 0 or max(found) >= MOST_NAMES:
        raise fault(tree.root / file, f"names has numbers outside of 0..{MOST_NAMES - 1}, or none", "number from 0 on")
    return found


def _skeleton(tree: Tree, file: str, settings: Mapping[str, Any]) -> Skeleton | None:
    """Of kpt_shape ([count, 2 or 3]), flip_idx and kpt_names, where there are any."""
    shape = settings.get("kpt_shape")
    if shape is None:
        return None
    try:
        count = int(shape[0])
        given = settings.get("kpt_names")
        names = [str(n) for n in (next(iter(given.values())) if isinstance(given, dict) else given or range(count))]
        flips = [int(other) for other in settings.get("flip_idx") or ()]
        if not 0 < count <= MOST_POINTS or len(names) != count or sorted(flips) not in ([], list(range(count))):
            raise ValueError
        pairs = tuple((i, other) for i, other in enumerate(flips) if i < other)
        edges = tuple((int(a), int(b)) for a, b in settings.get("skeleton") or ())
        return Skeleton(tuple(names), edges, pairs or Skeleton.of(names).flips)
    except (TypeError, ValueError, IndexError, StopIteration):
        raise fault(tree.root / file, "kpt_shape, flip_idx or kpt_names do not fit together",
                    "kpt_shape: [17, 3]; flip_idx: 17 numbers from 0; kpt_names: 17 names") from None  # fmt: skip


def _entry(tree: Tree, file: str, settings: Mapping[str, Any], entry: str) -> str | None:
    """The file or folder that a path of the YAML file means, below the root. Paths are relative to `path`, to the file,
    or to a folder beside it (../train/images, as Roboflow writes); of absolute ones, which another machine had, as much
    of the end counts as is there."""
    own, base = str(PurePosixPath(file).parent), str(settings.get("path") or "")
    plain = entry.replace("\\", "/")
    climbed = re.sub(r"^(\.\./)+", "", plain)
    tried = [(f"{own}/{base}", plain), (own, plain), ("", plain), (own, climbed), ("", climbed)]
    if re.match(r"([A-Za-z]:)?/", plain):
        parts = plain.split("/")
        tried += [("", "/".join(parts[at:])) for at in range(1, len(parts))]
    for start, name in tried:
        try:
            path = tree.inside(name, start, file)
        except DataFault:
            continue
        if (tree.root / path).exists():
            return path
    return None


def _images(tree: Tree, file: str, settings: Mapping[str, Any], split: str, entry: Any) -> list[str]:
    entries = entry if isinstance(entry, list) else [entry]
    found: list[str] = []
    for each in map(str, entries):
        path = _entry(tree, file, settings, each)
        if path is None:
            if split == "test":  # Roboflow names a folder that it does not always write
                continue
            what = f"{split}: {each!r} is not there, or not below {tree.root}"
            raise fault(tree.root / file, what, "correct the path; name the folder that holds it all (root=)")
        if path.endswith(".txt"):
            found += _listed(tree, path)
        else:
            found += [name for name in tree.images if path == "." or name.startswith(f"{path}/")]
    return found


def _listed(tree: Tree, path: str) -> list[str]:
    """The images that a text file lists, a line each, relative to its folder."""
    known, own = set(tree.images), str(PurePosixPath(path).parent)
    found = []
    for line, text in enumerate(tree.text(path).splitlines(), 1):
        if not text.strip():
            continue
        name = tree.inside(text.strip(), own, path, line)
        if name not in known:
            what = f"{text.strip()[:80]!r} is no image"
            raise fault(tree.root / path, what, "add it, or take the line out", line=line)
        found.append(name)
    return found


def _path(tree: Tree, file: str, settings: Mapping[str, Any], split: str) -> str | None:
    """Where the images of a split are."""
    word = next(word for word in SPLIT_FOLDERS[split] if settings.get(word))
    return _entry(tree, file, settings, str(settings[word]))
