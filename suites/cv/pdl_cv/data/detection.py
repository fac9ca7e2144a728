"""People's own images with boxes, instance masks and keypoints, in any of the usual formats."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from pdl.data.dataset import Dataset, Dealing, Sample, StandIn, digest
from pdl.data.faults import DataFault, Fault, fault
from pdl.data.image import Mode, check_mode, fault_of, read_image
from pdl.data.splits import stratified_split
from pdl.data.transforms.annotations import scaled
from pdl.errors import ConfigError
from pdl.hints import Range
from pdl.suites import suggest
from pdl_cv.data import standin
from pdl_cv.data.boxes.formats import layout
from pdl_cv.data.boxes.sizes import header_size, image_size
from pdl_cv.data.boxes.table import Table
from pdl_cv.data.boxes.tree import Tree


class DetectionFolder(Dataset):
    """Images with the objects in them: COCO JSON, Pascal VOC XML, YOLO text files, LabelMe JSON, CSV, or instance
    masks as PNG (`pdl_cv.data.boxes` has a module for each).

    Sample i is {"image": uint8 [H, W, C], "boxes": float32 [n, 4], "labels": int64 [n]}: boxes are x1, y1, x2, y2 in
    pixels, where the first pixel covers 0 to 1; labels number `classes`. Where the annotations have them, there are
    also "crowd" and "difficult" (bool [n]) and "area" (float32 [n], pixels). With
    keypoints, "flip_pairs" (int64 [k, 2]) are those that change places when the image is mirrored.

    root       the folder with images and annotations, or one file of annotations among its images (COCO, CSV, the
               YAML file of YOLO); a relative one is also looked for under PDL_DATA
    split      train, val or test where the data has splits, by files, folders or lists of names, or where `ratios` name
               it; None: all there is
    ratios     such as {train: 0.8, val: 0.1, test: 0.1}: train (all there is, where there are no splits) is cut at
               these shares, of the images with each class alike (an image counts for the rarest of its classes), in the
               order of a hash of the files' paths and `seed`; give all splits the same ratios
    format     which of the formats it is; auto: the first that is found, in the order above
    classes    only these classes, by name, numbered in this order; by default all of the data set. Of instance masks,
               which have no classes, the name of the only one
    mode       rgb or gray
    difficult  False leaves out objects that are marked as difficult (VOC)
    masks      adds "masks", uint8 [n, H, W], 0 or 1, from polygons, runs or label maps
    keypoints  adds "keypoints", float32 [n, P, 3]: x, y, and 0 (not known), 1 (hidden) or 2 (visible)
    empty      False leaves out images without objects
    on_error   what a wrong annotation does: end the reading ("error"), or have its image left out ("skip"), and what is
               wrong kept in `faults`; by default as data.on_error in a recipe
    allow_empty  accept names in `classes` that no object has, if some have one
    images     False where annotations alone are looked at (`annotation`), and the images of COCO's may be elsewhere
    """

    foldable = True

    def __init__(
        self,
        root: str | Path,
        *,
        split: str | None = None,
        ratios: Mapping[str, float] | None = None,
        seed: Annotated[int, Range(0)] = 0,
        format: Literal["auto", "coco", "voc", "yolo", "labelme", "csv", "masks"] = "auto",
        classes: Sequence[str] | None = None,
        mode: Mode = "rgb",
        difficult: bool = True,
        masks: bool = False,
        keypoints: bool = False,
        empty: bool = True,
        on_error: Literal["error", "skip"] = "error",
        allow_empty: bool = False,
        images: bool = True,
    ) -> None:
        self.mode, self.split = check_mode("DetectionFolder", mode), split
        self.has_masks, self.has_keypoints = masks, keypoints
        tree = Tree(root, on_error, elsewhere=not images)
        self.format, splits = layout(tree, format, keypoints=keypoints)

        def cut(whole: Table, ratios: Mapping[str, float], split: str) -> Table:
            return whole.of_images(stratified_split(whole.rarest(), ratios, split, seed=seed, keys=whole.paths))

        own = tree.part("DetectionFolder", splits, split, ratios, cut)
        table = _named(own, classes, self.format, allow_empty)
        if not difficult:
            table = table.of_objects(~table.difficult)
        if not empty:
            table = table.of_images(np.flatnonzero(np.diff(table.starts)))
        if not len(table):
            tree.require_some()
            raise fault(tree.given, f"no images for split {split!r}", "add images, or choose other ratios")
        _check_wanted(table, masks, keypoints)
        self.table, self.classes, self.faults = table, table.classes, tree.faults

    @classmethod
    def stand_in(cls, folder: Path, settings: Mapping[str, Any]) -> StandIn:
        names = list(settings.get("classes") or ("zero", "one", "two"))
        standin.write_objects(folder, names, splits=settings.get("split") is not None)
        return StandIn({"root": str(folder), "format": "coco"}, "digits in images, with boxes, outlines and corners")

    @property
    def root(self) -> Path:
        """The folder that holds it all."""
        return self.table.root

    @property
    def keypoint_names(self) -> tuple[str, ...]:
        """The names of the P keypoints of an object."""
        return self.table.skeleton.names if self.table.skeleton else ()

    @property
    def skeleton(self) -> tuple[tuple[int, int], ...]:
        """The pairs of keypoints (from 0) that lines join."""
        return self.table.skeleton.edges if self.table.skeleton else ()

    @property
    def flip_pairs(self) -> tuple[tuple[int, int], ...]:
        """The pairs of keypoints (from 0) that change places when the image is mirrored."""
        return self.table.skeleton.flips if self.table.skeleton else ()

    @property
    def counts(self) -> np.ndarray:
        """int64 [classes]: how many objects of each class there are."""
        return self.table.counts()

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, index: int) -> Sample:
        image = read_image(self.path_of(index), mode=self.mode, index=index)
        height, width = image.shape[:2]
        if (other := self._other_size(index, (height, width))) is not None:
            raise other
        return {"image": image, **self._annotation(index, height, width), **self._pairs}

    def reduced(self, index: int, factor: int) -> Sample:
        """Sample `index` with its image, and what is annotated on it, at 1/factor of its size: 2, 4 or 8."""
        before = self.size_of(index)
        image = read_image(self.path_of(index), mode=self.mode, index=index, reduce=factor)
        if any(abs(now * factor - size) >= factor for now, size in zip(image.shape, before, strict=False)):
            return self[index]  # which tells that it has another size than annotated
        return {"image": image, **scaled(self._annotation(index, *before), before, image.shape), **self._pairs}

    def annotation(self, index: int) -> Sample:
        """All of sample `index` but the image, which is not decoded."""
        return self._annotation(index, *self.size_of(index))

    def size_of(self, index: int) -> tuple[int, int]:
        """(height, width) of an image: as annotated, or as its file's header says."""
        height, width = self.table.sizes[index].tolist()
        return (height, width) if height and width else image_size(Path(self.path_of(index)))

    def path_of(self, index: int) -> str:
        return str(self.table.root / self.table.paths[index])

    def fault_of(self, index: int) -> Fault | None:
        found = fault_of(path := self.path_of(index), index=index)
        if found is not None or (size := header_size(Path(path))) is None:
            return found
        other = self._other_size(index, size)
        return None if other is None else other.fault

    def _other_size(self, index: int, size: tuple[int, int]) -> DataFault | None:
        """The error about an image whose (height, width) is not what is annotated."""
        said = tuple(self.table.sizes[index].tolist())
        if said == size or 0 in said:
            return None
        what = f"the image has {size[1]} x {size[0]} pixels, its annotation says {said[1]} x {said[0]}"
        advice = f"was it scaled, or turned by EXIF data? correct {self.source_of(index)}"
        return fault(self.path_of(index), what, advice, index=index)

    def source_of(self, index: int) -> str:
        """The file that the annotation of an image is in."""
        return str(self.table.root / self.table.sources[index])

    def place_of(self, index: int, number: int) -> tuple[str, int | None]:
        """Where object `number` of an image is annotated: the file (and what it is called in it), and the line."""
        where = int(self.table.where[self.table.starts[index] + number])
        named = {"coco": "annotation", "labelme": "shape", "masks": "value"}.get(self.format)
        source = self.source_of(index)
        return (f"{source}: {named} {where}", None) if named else (source, where or None)

    def outlines(self, index: int) -> list[list[np.ndarray] | None]:
        """Of each object the polygons that it was annotated with, each float64 [P, 2] in pixels; None for others."""
        table, scale = self.table, self._scale(*self.size_of(index))
        shapes = table.shape[table.starts[index] : table.starts[index + 1]].tolist()
        return [table.shapes.polygons(shape, scale) if shape >= 0 else None for shape in shapes]

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the files' relative paths and sizes, the class names, boxes, labels, keypoints and outlines; the
        pixels are not read."""
        table, shapes = self.table, self.table.shapes
        sizes = np.array([self._bytes(path) for path in table.paths], np.int64)
        points = b"" if table.keypoints is None else table.keypoints
        outlines = [np.frombuffer(each, each.typecode) if each else b"" for each in (shapes.points, shapes.counts)]
        return digest(*self.classes, *table.paths, sizes, table.starts, table.boxes, table.labels, points, table.shape,
                      *outlines, f"{self.mode} {self.has_masks} {self.has_keypoints}")  # fmt: skip

    # -- folds ---------------------------------------------------------------------------------------------------------
    def dealing(self, by: str | None = None) -> Dealing:
        return Dealing(f"stratified by the rarest of the {len(self.classes)} classes in an image", self.table.rarest())

    def dealt(self, rows: np.ndarray, before: np.ndarray) -> Dataset:
        return self.only(rows)

    def only(self, rows: np.ndarray) -> DetectionFolder:
        """The data set of these images (numbers, in this order)."""
        found = copy.copy(self)
        found.__dict__.pop("fingerprint", None)
        found.table = self.table.of_images(np.asarray(rows, np.int64))
        return found

    # -- one sample ----------------------------------------------------------------------------------------------------
    def _annotation(self, index: int, height: int, width: int) -> Sample:
        table, scale = self.table, self._scale(height, width)
        own = slice(table.starts[index], table.starts[index + 1])
        found = np.tile(scale, 2).astype(np.float32) * table.boxes[own]
        sample: Sample = {"boxes": found, "labels": table.labels[own].astype(np.int64)}
        for name, has in self._flags.items():
            if has:
                sample[name] = getattr(table, name)[own]
        if self._has_area:
            sides = np.clip(found[:, 2:] - found[:, :2], 0, None)
            sample["area"] = np.where(np.isnan(table.area[own]), sides[:, 0] * sides[:, 1], table.area[own])
        if self.has_masks:
            source = self.source_of(index)
            sample["masks"] = table.shapes.masks(table.shape[own], height, width, scale, source)
        if self.has_keypoints and table.keypoints is not None:
            sample["keypoints"] = table.keypoints[own] * np.array([*scale, 1], np.float32)
        return sample

    def _scale(self, height: int, width: int) -> np.ndarray:
        return np.array([width, height], np.float64) if self.table.relative else np.ones(2)

    @cached_property
    def _pairs(self) -> Sample:
        """What a sample says of keypoints that change places when the image is mirrored, where that is known."""
        known = self.has_keypoints and self.table.skeleton is not None
        return {"flip_pairs": np.array(self.flip_pairs, np.int64).reshape(-1, 2)} if known else {}

    @cached_property
    def _flags(self) -> dict[str, bool]:
        return {"crowd": bool(self.table.crowd.any()), "difficult": bool(self.table.difficult.any())}

    @cached_property
    def _has_area(self) -> bool:
        return not bool(np.isnan(self.table.area).all())

    def _bytes(self, path: str) -> int:
        try:
            return (self.table.root / path).stat().st_size
        except OSError:  # reported when the sample is read
            return -1


def _named(table: Table, classes: Sequence[str] | None, form: str, allow_empty: bool) -> Table:
    if classes is None:
        return table
    names = [str(name) for name in classes]
    if len(set(names)) < len(names) or not names:
        raise ConfigError(f"DetectionFolder: classes {names} must be one name or more, each once")
    if form == "masks":
        if len(names) != 1:
            raise ConfigError(f"DetectionFolder: instance masks have one class, classes names {len(names)}")
        table.classes[:] = names
        return table
    unknown = [name for name in names if name not in table.classes]
    if unknown and (len(unknown) == len(names) or not allow_empty):
        shown = ", ".join(table.classes[:20]) + (", ..." if len(table.classes) > 20 else "")
        raise ConfigError(f"DetectionFolder: classes: {unknown[0]!r} is none of {shown}"
                          f"{suggest(unknown[0], table.classes)}")  # fmt: skip
    return table.with_classes(names)


def _check_wanted(table: Table, masks: bool, keypoints: bool) -> None:
    """DataFault where objects have no outline or the data no keypoints, and these are wanted."""
    bare = np.flatnonzero(table.shape < 0)
    if masks and len(bare):
        image = int(np.searchsorted(table.starts, bare[0], side="right")) - 1
        what = f"{len(bare)} of {len(table.shape)} objects have no mask, the first in {table.paths[image]}"
        raise fault(table.root / table.sources[image], what, "outline them, or leave masks=true out")
    if keypoints and table.keypoints is None:
        raise fault(table.root, "its annotations have no keypoints", "leave keypoints=true out")


def annotated_at(path: Path, split: str, *, keypoints: bool = False) -> dict[str, Any]:
    """The data set, as a recipe writes it, of annotated images at a path: of their `split` where they have that.
    DataError where there are none."""
    _, splits = layout(Tree(path), keypoints=keypoints)
    return {"_target_": "pdl_cv.data.DetectionFolder", "root": str(path), "split": split if split in splits else None,
            "ratios": None, "format": "auto"}  # fmt: skip
