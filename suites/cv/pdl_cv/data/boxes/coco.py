"""COCO's JSON (https://cocodataset.org/#format-data): boxes, polygons, runs, crowds, keypoints."""

from __future__ import annotations

import json
import math
import re
from array import array
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from pdl.data.faults import DataFault, fault
from pdl_cv import rle
from pdl_cv.data.boxes.shapes import Rings, Runs, Shape
from pdl_cv.data.boxes.table import Rows, Skeleton, Table
from pdl_cv.data.boxes.tree import Layout, Tree, damaged, split_of

MAX_BYTES = 2 << 30
HEAD = 1 << 16
OTHER = ("captions_", "image_info_", "panoptic_", "stuff_")  # COCO's files of other tasks
_KEYS = {"images", "annotations", "categories", "licenses"}
_PLAIN = re.compile(r"\w[\w.-]*")  # a name without folders
_SPACES = (" ", "\t", "\n", "\r")
_SPACE = re.compile(r"[ \t\n\r]*")


def layout(tree: Tree, *, keypoints: bool = False) -> Layout:
    """The splits of the JSON files of this form, told by the names of files or folders. Of several for a split that of
    keypoints is taken where they are wanted (person_keypoints_val2017.json), else that of instances."""
    files = [name for name in tree.ending(".json")
             if not PurePosixPath(name).name.startswith(OTHER) and is_coco(tree, name)]  # fmt: skip
    found: dict[str, str] = {}
    for name in sorted(files, key=lambda name: (("keypoints" in name) != keypoints, name.count("/"), name)):
        found.setdefault(split_of(name), name)
    if "train" in found or (len(found) == 1 and "" not in found and "annotations/" in next(iter(found.values()))):
        found.pop("", None)
    elif found:
        found = {"": next(iter(found.values()))}
    return {split: partial(read, tree, name) for split, name in found.items()}


def is_coco(tree: Tree, name: str) -> bool:
    """Whether a JSON file begins with one of COCO's keys, and is none of LabelMe."""
    try:
        with (tree.root / name).open("rb") as file:
            head = file.read(HEAD).decode("utf-8", "replace")
    except OSError:
        return False
    first = re.match(r'\s*\{\s*"([^"]*)"', head)
    return first is not None and (first[1] in _KEYS or (first[1] in ("info", "type") and '"shapes"' not in head))


def read(tree: Tree, name: str) -> Table:
    """The objects of a file. It is parsed piece by piece: at no time are all its annotations Python objects."""
    return _Reader(tree, name).table()


class _Reader:
    def __init__(self, tree: Tree, name: str) -> None:
        self.tree, self.name, self.path = tree, name, tree.root / name
        self.rows = Rows(tree, lines=False)
        self.images: dict[Any, int] = {}
        self.early: list[dict[str, Any]] = []  # annotations that come before their images
        self.categories: dict[int, Mapping[str, Any]] = {}
        self.used: dict[int, tuple[int, Any]] = {}  # a category's number in `rows`, and the first annotation of it
        self.lengths: dict[int, Any] = {}  # how many keypoints there are, and an annotation that has so many
        self.folder: str | None = None

    def table(self) -> Table:
        text = self.tree.text(self.name, MAX_BYTES)
        try:
            for key, item in _items(text, ("images", "annotations", "categories")):
                self._take(key, item)
        except (ValueError, RecursionError) as error:
            raise damaged(self.path, error) from error
        for item in self.early:
            if item.get("image_id") in self.images:
                self._annotation(item)
            else:
                what = f"image_id {item.get('image_id')!r} is no image's id"
                self.rows.leave_out(
                    self._fault(f"annotation {item.get('id')}", what, "correct the id, or add the image")
                )
        if not self.rows.paths:
            self.tree.require_some()
            raise fault(self.path, "it has no images", "name a file with the lists images and annotations")
        paths = self.rows.paths
        there = self.tree.elsewhere or (self.tree.root / paths[0]).is_file()
        if not there and not any(path in self.tree.names for path in paths):
            what = f"none of its {len(paths):,} images is below {self.tree.root}, the first is {paths[0]}"
            raise fault(self.path, what, "put the file beside its images, or beside the folder that holds them")
        skeleton = self._skeleton()
        return self._numbered().table([str(each["name"]) for each in self._listed().values()], skeleton)

    def _take(self, key: str, item: Any) -> None:
        if not isinstance(item, dict):
            raise self._fault(key, f"{str(item)[:60]!r} is no object", "export the annotations again")
        if key == "categories":
            self._category(item)
        elif key == "images":
            with self.rows.whole():
                self._image(item)
        elif isinstance(item.get("image_id"), (int, str)) and item["image_id"] in self.images:
            self._annotation(item)
        else:
            self.early.append({**item, "image_id": str(item.get("image_id"))[:80]}
                              if isinstance(item.get("image_id"), (list, dict)) else item)  # fmt: skip

    def _listed(self) -> dict[int, Mapping[str, Any]]:
        """The categories by id, ascending; without one that only groups the others (its supercategory is "none") and
        has no objects, as Roboflow writes it."""
        groups = {each.get("supercategory") for each in self.categories.values()} - {"none"}
        grouping = {number for number, each in self.categories.items() if number not in self.used
                    and each.get("supercategory") == "none" and each["name"] in groups}  # fmt: skip
        return {number: each for number, each in sorted(self.categories.items()) if number not in grouping}

    def _numbered(self) -> Rows:
        """The rows with the numbers of `_listed` for labels."""
        place = {number: label for label, number in enumerate(self._listed())}
        labels = np.asarray(self.rows.label_of, np.int64)
        for number, (own, where) in self.used.items():
            if number not in place:
                what = f"category_id {number!r} is no category's id"
                error = self._fault(f"annotation {where}", what, "correct the id, or add the category")
                self.rows.leave_out(error, np.asarray(self.rows.image_of, np.int64)[labels == own].tolist())
        label = np.array([place.get(number, 0) for number in self.used], np.int64)  # in the order of their first use
        self.rows.label_of = array("q", label[labels].tobytes())
        return self.rows

    def _skeleton(self) -> Skeleton | None:
        """The keypoints that all categories with some have."""
        found = {self._points_of(each) for each in self.categories.values() if each.get("keypoints")}
        if len(found) > 1:
            raise self._fault("categories", "two of them have different keypoints",
                              "one data set has one list of keypoints; split the file")  # fmt: skip
        skeleton = next(iter(found), None)
        count = 0 if skeleton is None else len(skeleton.names)
        for length, where in self.lengths.items():
            if length != count:
                raise self._fault(f"annotation {where}", f"{length} keypoints, its category has {count}",
                                  "give x, y and visibility of each keypoint of the category")  # fmt: skip
        return skeleton

    def _points_of(self, category: Mapping[str, Any]) -> Skeleton:
        name = category["name"]
        try:
            edges = [(int(a) - 1, int(b) - 1) for a, b in category.get("skeleton") or ()]
            skeleton = Skeleton.of([str(each) for each in category["keypoints"]], edges)
        except (TypeError, ValueError):
            raise self._fault("categories", f"{name} has keypoints or a skeleton of another form",
                              "keypoints: names; skeleton: pairs of numbers from 1") from None  # fmt: skip
        count = len(skeleton.names)
        if any(not 0 <= end < count for edge in edges for end in edge):
            raise self._fault("categories", f"the skeleton of {name} names a keypoint outside of 1..{count}",
                              "correct its pairs")  # fmt: skip
        return skeleton

    def _fault(self, key: str, what: str, advice: str) -> DataFault:
        return fault(f"{self.path}: {key}", what, advice)

    def _image(self, item: Mapping[str, Any]) -> None:
        number, name = item.get("id"), item.get("file_name")
        if not isinstance(name, str) or isinstance(number, (list, dict)) or number is None:
            raise self._fault("images", f"image {number!r} has no id or no file_name", "export the annotations again")
        if number in self.images:
            raise self._fault("images", f"two images have the id {number!r}", "number them anew")
        size = tuple(item.get(side) or 0 for side in ("height", "width"))
        if not all(isinstance(side, (int, float)) and 0 <= side < 1 << 28 and side == int(side) for side in size):
            raise self._fault("images", f"image {number!r} has the size {size}", "give height and width in pixels")
        self.images[number] = self.rows.image(self._found(name), self.name, (int(size[0]), int(size[1])))

    def _found(self, name: str) -> str:
        """The path of an image; of one that leads out of the root, which another machine had, the only one of that
        name."""
        try:
            return self._placed(name)
        except DataFault:
            found = self.tree.by_stem.get(PurePosixPath(name.replace("\\", "/")).stem, [])
            if len(found) != 1:
                raise
            return found[0]

    def _placed(self, name: str) -> str:
        """All images lie in the folder where the first one is."""
        if self.folder is None:
            paths = {folder: self.tree.inside(name, folder, self.name) for folder in self._folders(name)}
            self.folder = next((folder for folder, path in paths.items() if (self.tree.root / path).is_file()), None)
            if self.folder is None:
                near = self.tree.image(PurePosixPath(name.replace("\\", "/")).stem, self.name)
                self.folder = "" if near is None else str(PurePosixPath(near).parent)
        if _PLAIN.fullmatch(name):  # most are, and there may be 100,000 of them
            return f"{self.folder}/{name}" if self.folder not in ("", ".") else name
        return self.tree.inside(name, self.folder, self.name)

    def _folders(self, name: str) -> Iterator[str]:
        own = str(PurePosixPath(self.name).parent)
        stem = PurePosixPath(self.name).stem
        words = dict.fromkeys([stem.rpartition("_")[2], split_of(self.name), stem])
        for base in ("", own, str(PurePosixPath(own).parent)):
            yield from (f"{base}/{inner}{word}".strip("/") for inner in ("", "images/") for word in words)
            yield from (f"{base}/{inner}".strip("/") for inner in ("images", ""))

    def _category(self, item: Mapping[str, Any]) -> None:
        number, name = item.get("id"), item.get("name")
        if not isinstance(name, str) or not isinstance(number, int) or number in self.categories:
            raise self._fault("categories", f"{str(dict(item))[:80]} needs an id of its own and a name",
                              "number the categories, each once")  # fmt: skip
        self.categories[number] = item

    def _annotation(self, item: Mapping[str, Any]) -> None:
        image, number, category = self.images[item["image_id"]], item.get("id"), item.get("category_id")
        where = number if isinstance(number, int) and abs(number) < 1 << 62 else 0
        try:
            if not isinstance(category, int):
                raise ValueError(f"category_id {str(category)[:40]!r} is no number")
            label, _ = self.used.setdefault(category, (len(self.used), number))
            keypoints = [_number(value) for value in item.get("keypoints") or ()] or None
            if keypoints is not None:
                if len(keypoints) % 3:
                    raise ValueError(f"{len(keypoints)} numbers for keypoints, not three for each")
                self.lengths.setdefault(len(keypoints) // 3, number)
            shape = _shape(item.get("segmentation"), (self.rows.sizes[2 * image], self.rows.sizes[2 * image + 1]))
            self.rows.add(
                image, _corners(item, shape, keypoints), label, where=where, crowd=bool(item.get("iscrowd")),
                difficult=bool(item.get("ignore")), area=_number(item.get("area"), math.nan), keypoints=keypoints,
                shape=shape,
            )  # fmt: skip
        except (TypeError, ValueError, KeyError, OverflowError) as error:
            said = f"no {error}" if isinstance(error, KeyError) else str(error) or type(error).__name__
            again = "correct it, or export the annotations again"
            self.rows.leave_out(self.rows.fault(image, where, said, again), [image])


def _number(value: Any, missing: float | None = None) -> float:
    if value is None and missing is not None:
        return missing
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{str(value)[:40]!r} is no number")
    return float(value)


def _corners(item: Mapping[str, Any], shape: Shape | None, keypoints: list[float] | None) -> tuple[float, ...]:
    """x1, y1, x2, y2 of `bbox` (x, y, width, height); where there is none, what holds the polygons or keypoints."""
    box = item.get("bbox")
    if box is not None and len(box) > 0:
        if len(box) != 4:
            raise ValueError(f"bbox has {len(box)} numbers, not x, y, width, height")
        x, y, width, height = map(_number, box)
        return x, y, x + width, y + height
    if isinstance(shape, Rings):
        xs, ys = ([_number(v) for ring in shape.flat for v in ring[axis::2]] for axis in (0, 1))
    elif keypoints:
        seen = [i for i in range(0, len(keypoints), 3) if keypoints[i + 2] > 0]
        xs, ys = [keypoints[i] for i in seen], [keypoints[i + 1] for i in seen]
    else:
        xs = ys = []
    if not xs:
        raise ValueError("no bbox")
    return min(xs), min(ys), max(xs), max(ys)


def _shape(found: Any, size: tuple[int, int]) -> Shape | None:
    if not found:
        return None
    if isinstance(found, list):
        if any(len(ring) % 2 or len(ring) < 6 for ring in found):
            raise ValueError("a polygon with fewer than three points, or an odd number of coordinates")
        return Rings(found)
    counts, (height, width) = found["counts"], found["size"]
    if (height, width) != size and 0 not in size:
        raise ValueError(f"a mask of {width} x {height} pixels, its image has {size[1]} x {size[0]}")
    values = rle.from_text(counts) if isinstance(counts, str) else counts
    if sum(values if isinstance(values, list) else values.tolist()) != height * width:
        raise ValueError(f"the runs of its mask do not sum to {height} x {width} pixels")
    if min(values, default=0) < 0:
        raise ValueError("a run of its mask is below 0")
    return Runs(values)


def _items(text: str, wanted: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """(key, item) of the lists `wanted` at the top of a JSON object, one after the other; other values are passed
    over. ValueError for what is no JSON."""
    scan = json.JSONDecoder().raw_decode

    def skip(at: int) -> int:
        return _SPACE.match(text, at).end() if text[at : at + 1] in _SPACES else at  # type: ignore[union-attr]

    def expect(at: int, signs: str) -> int:
        if text[at : at + 1] not in signs or at >= len(text):
            raise json.JSONDecodeError(f"expected {' or '.join(signs)}", text, at)
        return at

    at = skip(expect(skip(0), "{") + 1)
    while text[at : at + 1] != "}":
        expect(at, '"')
        key, at = scan(text, at)
        at = skip(expect(skip(at), ":") + 1)
        if key in wanted and text[at : at + 1] == "[":
            at = skip(at + 1)
            while text[at : at + 1] != "]":
                item, at = scan(text, at)
                yield key, item
                at = expect(skip(at), ",]")
                at = skip(at + 1) if text[at] == "," else at
            at += 1
        else:
            _, at = scan(text, at)
        at = expect(skip(at), ",}")
        at = skip(at + 1) if text[at] == "," else at
