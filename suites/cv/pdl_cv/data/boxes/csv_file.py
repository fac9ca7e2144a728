"""Objects in a table, a line for each, in CSV files.

    file,x1,y1,x2,y2,class              corners; also file,xmin,ymin,xmax,ymax,label, in any order of the columns
    file,x,y,width,height,class         the upper left corner and the sides; also x,y,w,h
    file,nose_x,nose_y,nose_v,...       keypoints; without a box, they span it; without a class there is one, "object"

Columns are separated by commas, semicolons or tabs. Without a header they are file, x1, y1, x2, y2, class. A line whose
box is empty is an image without objects. A keypoint's v is 0 where it is not known, 1 where it is hidden, 2 where it is
visible; 2 where there is no such column.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

import numpy as np

from pdl.data.faults import DataFault, fault
from pdl.data.image import EXTENSIONS
from pdl_cv.data.boxes.table import MOST_POINTS, Rows, Skeleton, Table
from pdl_cv.data.boxes.tree import Layout, Tree, by_split, chosen, listed, split_of
from pdl_cv.data.boxes.voc import names_file

MAX_BYTES = 1 << 30
FILE = ("file", "filename", "file_name", "image", "image_path", "path", "img", "image_id", "imageid")
CLASS = ("class", "label", "name", "class_name", "category", "labelname")
CORNERS = (("xmin", "ymin", "xmax", "ymax"), ("x1", "y1", "x2", "y2"), ("x_min", "y_min", "x_max", "y_max"),
           ("left", "top", "right", "bottom"))  # fmt: skip
SIDES = (("x", "y", "w", "h"), ("x", "y", "width", "height"), ("left", "top", "width", "height"),
         ("bbox_x", "bbox_y", "bbox_width", "bbox_height"))  # fmt: skip
PLAIN = ("file", "x1", "y1", "x2", "y2", "class")


def layout(tree: Tree) -> Layout:
    """The splits: files for them (train.csv, train/_annotations.csv), a column `split`, lists (train.txt), or none."""
    files = [name for name in tree.ending(".csv") if _columns(tree, name)]
    if not files:
        return {}
    table, split = read(tree, files)
    rows = listed(tree, table.paths) or by_split(split if any(split) else map(split_of, table.sources))
    return chosen(table, rows)


def _columns(tree: Tree, name: str) -> dict[str, int]:
    """The columns of a file by their names in lower case; none where it is no such table."""
    try:
        with (tree.root / name).open(encoding="utf-8-sig", newline="") as file:
            line = file.readline(1 << 16)
            first = next(csv.reader([line], delimiter=_separator(line)), [])
    except (OSError, UnicodeDecodeError, csv.Error):
        return {}
    found = {word.strip().lower(): i for i, word in enumerate(first)}
    if any(word in found for word in FILE):
        return found if _box_columns(found) or _points(found) else {}
    numbers = len(first) == len(PLAIN) and all(_is_number(word) or not word.strip() for word in first[1:5])
    return {word: i for i, word in enumerate(PLAIN)} | {"": -1} if numbers else {}


def _separator(line: str) -> str:
    """What separates the columns of a line."""
    return max(",;\t", key=line.count)


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _box_columns(columns: Mapping[str, int]) -> tuple[list[int], bool] | None:
    """The four columns of boxes, and whether they are corners."""
    for groups, corners in ((CORNERS, True), (SIDES, False)):
        for words in groups:
            if all(word in columns for word in words):
                return [columns[word] for word in words], corners
    return None


def _points(columns: Mapping[str, int]) -> list[str]:
    """Names of keypoints: <name>_x and <name>_y, of which there are two at least."""
    names = [word[:-2] for word in columns if word.endswith("_x") and f"{word[:-2]}_y" in columns and word != "bbox_x"]
    return names if 2 <= len(names) <= MOST_POINTS else []


def read(tree: Tree, files: Sequence[str]) -> tuple[Table, list[str]]:
    """The objects of all files, and the split of each image as a column says it ("" without). Classes are those of a
    list (labels.txt), or all names found, sorted."""
    rows, known = Rows(tree), names_file(tree)
    reader = _Reader(tree, rows, {name: label for label, name in enumerate(known or ())}, closed=known is not None)
    for name in files:
        reader.file(name)
    if not rows.paths:
        tree.require_some()
        raise fault(tree.root / files[0], "it has no lines", "write a line for each object")
    tree.without_annotation(rows.paths)
    table = rows.table(list(reader.classes), reader.skeleton)
    table = table if known is not None else table.with_classes(sorted(table.classes, key=_natural))
    return table, [reader.splits[image] for image in rows.kept]


def _natural(name: str) -> tuple[int, str]:
    return (int(name), "") if name.isascii() and name.isdigit() and len(name) < 10 else (1 << 40, name)


class _Reader:
    def __init__(self, tree: Tree, rows: Rows, classes: dict[str, int], *, closed: bool) -> None:
        self.tree, self.rows, self.classes, self.closed = tree, rows, classes, closed
        self.images: dict[str, int] = {}
        self.places: dict[str, str] = {}
        self.splits: list[str] = []
        self.skeleton: Skeleton | None = None
        self.image: int | None = None  # of the line that is read
        self.known = tree.names

    def file(self, name: str) -> None:
        columns = _columns(self.tree, name)
        points = _points(columns)
        if points:
            skeleton = Skeleton.of(points)
            if self.skeleton not in (None, skeleton):
                raise fault(self.tree.root / name, "it has other keypoints than the files before it", "use one list")
            self.skeleton = skeleton
        text = self.tree.text(name, MAX_BYTES).splitlines()
        lines = csv.reader(text, delimiter=_separator(text[0] if text else ""))
        try:
            for words in lines:
                if lines.line_num == 1 and "" not in columns:
                    continue
                if any(word.strip() for word in words):
                    self._try(name, lines.line_num, words, columns, points)
        except csv.Error as error:
            raise self._fault(name, lines.line_num, f"not a line of CSV: {error}") from None

    def _try(self, name: str, line: int, words: list[str], columns: Mapping[str, int], points: list[str]) -> None:
        """Read a line; what is wrong with it costs its image."""
        self.image = None
        try:
            self._line(name, line, words, columns, points)
        except DataFault as error:
            self.rows.leave_out(error, [] if self.image is None else [self.image])

    def _fault(self, name: str, line: int, what: str, advice: str = "correct the line") -> DataFault:
        return fault(self.tree.root / name, what, advice, line=line)

    def _line(self, name: str, line: int, words: list[str], columns: Mapping[str, int], points: list[str]) -> None:
        def word(*names: str) -> str:
            at = next((columns[each] for each in names if each in columns), None)
            return words[at].strip() if at is not None and at < len(words) else ""

        def number(column: int) -> float:
            text = words[column].strip() if column < len(words) else ""
            if not _is_number(text):
                raise self._fault(name, line, f"{text[:40]!r} is no coordinate")
            return float(text)

        sides = word("height"), word("width")
        image = self.image = self._image(name, line, word(*FILE), word("split"), sides, columns)
        flat: list[float] = []
        for each in points:
            blank = not word(f"{each}_x") and not word(f"{each}_y")
            seen = number(columns[f"{each}_v"]) if f"{each}_v" in columns and not blank else 2.0
            flat += [0.0] * 3 if blank else [number(columns[f"{each}_x"]), number(columns[f"{each}_y"]), seen]
        box_columns = _box_columns(columns)
        if box_columns is None:
            known = np.array(flat).reshape(-1, 3)
            known = known[known[:, 2] > 0]
            if not len(known):
                return
            box = [*known[:, :2].min(axis=0), *known[:, :2].max(axis=0)]
        else:
            if not any(words[at].strip() for at in box_columns[0] if at < len(words)):
                return
            box = [number(at) for at in box_columns[0]]
            if not box_columns[1]:
                box[2:] = box[0] + box[2], box[1] + box[3]
        label = word(*CLASS) or ("object" if not any(each in columns for each in CLASS) else "")
        if not label or (self.closed and label not in self.classes):
            raise self._fault(name, line, f"{label!r} is none of the classes" if label else "it has no class")
        self.rows.add(image, box, self.classes.setdefault(label, len(self.classes)), where=line,
                      keypoints=flat if points else None)  # fmt: skip

    def _image(self, name: str, line: int, given: str, split: str, size: tuple[str, str],
               columns: Mapping[str, int]) -> int:  # fmt: skip
        if not given:
            raise self._fault(name, line, "it names no image")
        path = self.places.get(f"{name}\0{given}") or self._path(name, line, given)
        self.places[f"{name}\0{given}"] = path
        if path not in self.images:
            own = "x" not in columns or "width" not in columns  # else width is that of the box
            sides = tuple(int(float(s)) if own and _is_number(s) and 0 <= float(s) < 1 << 28 else 0 for s in size)
            self.images[path] = self.rows.image(path, name, sides)  # type: ignore[arg-type]
            self.splits.append(split_of(f"{split}/-") if split else "")
        return self.images[path]

    def _path(self, name: str, line: int, given: str) -> str:
        """The image: relative to the file, to the root, or to a folder of images; its ending may be left out."""
        own = str(PurePosixPath(name).parent)
        for base in (own, "", f"{own}/images", "images"):
            path = self.tree.inside(given, base, name, line)
            if path in self.known:
                return path
        stem = PurePosixPath(given.replace("\\", "/"))
        found = self.tree.image(stem.stem if stem.suffix.lower() in EXTENSIONS else stem.name, name)
        if found is None:
            raise self._fault(name, line, f"its image {given[:200]!r} is not there", "add it, or take the line out")
        return found
