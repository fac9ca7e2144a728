"""The objects of many images, in columns: what every reader makes, and what data sets and writers take."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pdl.data.faults import DataFault, fault
from pdl_cv.data.boxes.shapes import Shape, Shapes

if TYPE_CHECKING:
    from pdl_cv.data.boxes.tree import Tree

FARTHEST = 1 << 20  # pixels: a coordinate beyond is no place in an image
MOST_POINTS = 1024  # keypoints of an object
_SIDES = (("left", "right"), ("l_", "r_"), ("l-", "r-"), ("_l", "_r"), ("l", "r"))


@dataclass(frozen=True)
class Skeleton:
    """The keypoints of an object: their names, the pairs (numbers from 0) that lines join, and the pairs that mirroring
    the image exchanges."""

    names: tuple[str, ...]
    edges: tuple[tuple[int, int], ...] = ()
    flips: tuple[tuple[int, int], ...] = ()

    @staticmethod
    def of(names: Sequence[str], edges: Sequence[Sequence[int]] = ()) -> Skeleton:
        """The pairs to exchange follow from the names: left_eye and right_eye, l_hip and r_hip, lknee and rknee."""
        return Skeleton(tuple(names), tuple((int(a), int(b)) for a, b in edges), _flips(list(names)))


def _flips(names: list[str]) -> tuple[tuple[int, int], ...]:
    lower = [name.lower() for name in names]
    for left, right in _SIDES:
        at = {name: i for i, name in enumerate(lower)}
        edge = f"{re.escape(left)}$" if left[0] == "_" else f"^{re.escape(left)}" if len(left) < 3 else re.escape(left)
        pairs = [(i, at[other]) for i, name in enumerate(lower)
                 if (other := re.sub(edge, right, name)) != name and other in at]  # fmt: skip
        if pairs:
            return tuple(pairs)
    return ()


@dataclass(frozen=True)
class Table:
    """Image i has the objects starts[i]:starts[i + 1]. Of N images and K objects:

    root       what `paths` and `sources` are relative to
    paths      of the images; `sources`: the files that their annotations are in
    sizes      int32 [N, 2]: height and width as annotated, 0 where nothing is said of them
    boxes      float32 [K, 4]: x1, y1, x2, y2; in pixels, or in shares of the image's sides where `relative`
    labels     int32 [K], places in `classes`
    crowd, difficult  bool [K]; area float32 [K], NaN where it is not annotated
    keypoints  float32 [K, P, 3], of `skeleton`; None: there are none
    shape      int64 [K]: the number of its outline in `shapes`, or -1
    where      int64 [K]: the line of its source, or the id of the annotation
    """

    root: Path
    paths: list[str]
    sources: list[str]
    sizes: np.ndarray
    starts: np.ndarray
    boxes: np.ndarray
    labels: np.ndarray
    classes: list[str]
    crowd: np.ndarray
    difficult: np.ndarray
    area: np.ndarray
    keypoints: np.ndarray | None
    skeleton: Skeleton | None
    shape: np.ndarray
    shapes: Shapes
    where: np.ndarray
    relative: bool = False

    def __len__(self) -> int:
        return len(self.paths)

    @property
    def image_of(self) -> np.ndarray:
        """int64 [K]: the image of each object."""
        return np.repeat(np.arange(len(self)), np.diff(self.starts))

    def of_images(self, rows: np.ndarray) -> Table:
        """Only these images, in this order."""
        counts = np.diff(self.starts)[rows]
        starts = np.concatenate([[0], np.cumsum(counts)])
        objects = np.arange(starts[-1]) + np.repeat(self.starts[:-1][rows] - starts[:-1], counts)
        paths, sources = ([column[i] for i in rows.tolist()] for column in (self.paths, self.sources))
        return self._with(objects, starts, paths=paths, sources=sources, sizes=self.sizes[rows])

    def of_objects(self, kept: np.ndarray) -> Table:
        """Only the objects where `kept` (bool [K]) is true; all images."""
        counts = np.bincount(self.image_of[kept], minlength=len(self))
        return self._with(np.flatnonzero(kept), np.concatenate([[0], np.cumsum(counts)]))

    def _with(self, objects: np.ndarray, starts: np.ndarray, **changes: object) -> Table:
        columns = {name: getattr(self, name)[objects]
                   for name in ("boxes", "labels", "crowd", "difficult", "area", "shape", "where")}  # fmt: skip
        points = None if self.keypoints is None else self.keypoints[objects]
        return replace(self, starts=starts, keypoints=points, **columns, **changes)  # type: ignore[arg-type]

    def with_classes(self, names: Sequence[str]) -> Table:
        """Only objects of these classes, which are numbered in this order."""
        number = np.full(len(self.classes) + 1, -1, np.int32)
        for new, name in enumerate(names):
            if name in self.classes:
                number[self.classes.index(name)] = new
        kept = self.of_objects(number[self.labels] >= 0)
        return replace(kept, labels=number[kept.labels], classes=list(names))

    def counts(self) -> np.ndarray:
        """int64 [classes]: objects of each class."""
        return np.bincount(self.labels, minlength=len(self.classes))

    def rarest(self) -> np.ndarray:
        """int64 [N]: of the classes in an image, the one with the fewest objects in all; the number of classes where an
        image has none."""
        place = np.argsort(np.argsort(self.counts(), kind="stable"))
        found = np.full(len(self), len(self.classes), np.int64)
        rank = np.full(len(self), len(self.classes), np.int64)
        np.minimum.at(rank, self.image_of, place[self.labels])
        has = rank < len(self.classes)
        found[has] = np.argsort(place)[rank[has]]
        return found


class Rows:
    """Collects images and their objects of a tree, in any order. `lines`: objects are known by lines of their sources,
    not by ids of annotations. What is wrong ends the reading, or costs its image, as the tree says (`on_error`)."""

    def __init__(self, tree: Tree, *, lines: bool = True, relative: bool = False) -> None:
        self.tree, self.root, self.lines, self.relative = tree, tree.root, lines, relative
        self.left_out: set[int] = set()  # images
        self.paths: list[str] = []
        self.sources: list[str] = []
        self.sizes = array("l")
        self.image_of, self.label_of, self.where, self.shape = array("q"), array("q"), array("q"), array("q")
        self.flags = array("B")  # 1: crowd, 2: difficult
        self.boxes, self.area, self.points = array("d"), array("d"), array("d")
        self.points_of = array("q")  # the place of an object's keypoints in `points`, or -1
        self.shapes = Shapes(tree.root)

    def image(self, path: str, source: str, size: tuple[int, int] = (0, 0)) -> int:
        """Add an image of this (height, width), (0, 0) where that is not known; its number."""
        self.paths.append(path)
        self.sources.append(source)
        self.sizes.extend(size)
        return len(self.paths) - 1

    def add(
        self,
        image: int,
        box: Sequence[float],
        label: int,
        *,
        where: int,
        crowd: bool = False,
        difficult: bool = False,
        area: float = float("nan"),
        keypoints: Sequence[float] | None = None,
        shape: Shape | None = None,
    ) -> None:
        """Add an object: its box (x1, y1, x2, y2), keypoints flat (x, y, visibility of each)."""
        number = -1 if shape is None else self.shapes.add(shape)  # first, as it may refuse its coordinates
        self.image_of.append(image)
        self.boxes.extend(box)
        self.label_of.append(label)
        self.where.append(where)
        self.flags.append(crowd + 2 * difficult)
        self.area.append(area)
        self.points_of.append(-1 if keypoints is None else len(self.points))
        if keypoints is not None:
            self.points.extend(keypoints)
        self.shape.append(number)

    @contextmanager
    def whole(self) -> Iterator[None]:
        """What is wrong in the block costs the images that are added there, where faults are not raised."""
        first = len(self.paths)
        try:
            yield
        except DataFault as error:
            self.leave_out(error, range(first, len(self.paths)))

    def leave_out(self, error: DataFault, images: Iterable[int] = ()) -> None:
        """Keep what is wrong and leave these images out, or raise it."""
        self.tree.wrong(error)
        self.left_out.update(images)

    @property
    def kept(self) -> np.ndarray:
        """int64: the images that are not left out."""
        return np.array([i for i in range(len(self.paths)) if i not in self.left_out], np.int64)

    def place(self, image: int, where: int) -> str:
        """How an object is called in messages."""
        return f"{self.root / self.sources[image]}" + ("" if self.lines else f": annotation {where}")

    def fault(self, image: int, where: int, what: str, advice: str) -> DataFault:
        """An error about an object."""
        return fault(self.place(image, where), what, advice, line=where if self.lines and where else None)

    def table(self, classes: Sequence[str], skeleton: Skeleton | None = None) -> Table:
        """All of it that is not left out. DataFault for coordinates that are no numbers, or far from any image."""
        image_of = np.asarray(self.image_of, np.int64)
        order = np.argsort(image_of, kind="stable")
        boxes = np.asarray(self.boxes, np.float64).reshape(-1, 4)
        self._check(boxes)
        flags = np.asarray(self.flags, np.uint8)[order]
        starts = np.concatenate([[0], np.cumsum(np.bincount(image_of, minlength=len(self.paths)))])
        found = Table(
            self.root, self.paths, self.sources, np.asarray(self.sizes, np.int32).reshape(-1, 2), starts,
            boxes[order].astype(np.float32), np.asarray(self.label_of, np.int32)[order], [str(n) for n in classes],
            (flags & 1) > 0, (flags & 2) > 0, np.asarray(self.area, np.float32)[order],
            self._keypoints(skeleton, order), skeleton, np.asarray(self.shape, np.int64)[order], self.shapes,
            np.asarray(self.where, np.int64)[order], self.relative,
        )  # fmt: skip
        if not len(kept := self.kept):
            self.tree.require_some()
        return found.of_images(kept) if self.left_out else found

    def _check(self, boxes: np.ndarray) -> None:
        good = (np.abs(boxes) <= FARTHEST).all(axis=1)  # false for NaN, too
        for at in np.flatnonzero(~good).tolist():
            shown = ", ".join(f"{value:g}" for value in boxes[at])
            self._far(at, f"the box ({shown}) is in no image")
        for name, values in (("outline", self.shapes.points), ("keypoint", self.points)):
            numbers = np.frombuffer(values, values.typecode) if len(values) else np.empty(0)
            for at in np.flatnonzero(~(np.abs(numbers) <= FARTHEST)).tolist():
                self._far(self._owner(name, at), f"{numbers[at]:g} in its {name} is no place in an image")

    def _far(self, number: int, what: str) -> None:
        image = self.image_of[number]
        self.leave_out(self.fault(image, self.where[number], what, "correct its coordinates"), [image])

    def _owner(self, name: str, at: int) -> int:
        """The object that number `at` of the points belongs to."""
        if name == "keypoint":
            return int(np.flatnonzero((np.asarray(self.points_of) <= at) & (np.asarray(self.points_of) >= 0))[-1])
        ring = int(np.searchsorted(np.asarray(self.shapes.rings), at // 2, side="right")) - 1
        for number, (kind, first, last) in enumerate(
            zip(self.shapes.kind, self.shapes.first, self.shapes.last, strict=True)
        ):
            if kind == 1 and first <= ring < last:
                return self.shape.index(number)
        return 0

    def _keypoints(self, skeleton: Skeleton | None, order: np.ndarray) -> np.ndarray | None:
        if skeleton is None:
            return None
        count = 3 * len(skeleton.names)
        found = np.zeros((len(order), count), np.float32)
        starts = np.asarray(self.points_of, np.int64)
        has = np.flatnonzero(starts >= 0)
        if len(has):
            found[has] = np.asarray(self.points, np.float64)[starts[has][:, None] + np.arange(count)]
        return found[order].reshape(len(order), -1, 3)
