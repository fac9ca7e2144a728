"""People's own images with the class of each pixel."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from pdl.data.dataset import Dataset, Dealing, Sample, StandIn, digest
from pdl.data.faults import DataFault, Fault, fault
from pdl.data.image import Mode, check_mode, fault_of, read_image
from pdl.data.splits import stratified_split
from pdl.errors import ConfigError
from pdl.hints import Range
from pdl_cv.data import standin
from pdl_cv.data.boxes.formats import layout
from pdl_cv.data.boxes.sizes import header_size
from pdl_cv.data.boxes.tree import Tree
from pdl_cv.data.detection import DetectionFolder
from pdl_cv.data.index_maps import IGNORED, MOST_CLASSES, ClassValues, Value, Values, index_map
from pdl_cv.data.mask_pairs import CITYSCAPES, pairs, splits

LOOKED_AT = 64  # masks whose numbers tell the classes, where nothing else does
NAME_FILES = ("classes.txt", "labels.txt", "names.txt", "label_names.txt")
BACKGROUND = "background"
Pairs = list[tuple[str, str]]
Splits = dict[str, Callable[[], Pairs]]
_NOTHING = re.compile(r"(void|ignored?|unlabell?ed)\b", re.IGNORECASE)


class SegmentationFolder(Dataset):
    """Images with the class of each pixel: masks as PNG beside them (`pdl_cv.data.mask_pairs` has the layouts:
    Cityscapes, CamVid, folders of images and masks, a_mask.png beside a.jpg), or outlined objects in any format of
    `pdl_cv.data.DetectionFolder`, of which the smaller ones cover the larger, on a "background".

    Sample i is {"image": uint8 [H, W, C], "mask": uint8 [H, W]}: the class of each pixel, 255 where it counts nothing.

    root      the folder with images and masks; a relative one is also looked for under PDL_DATA
    split     train, val or test where the data has splits, by lists of names or folders, or where `ratios` name it;
              None: all there is
    ratios    such as {train: 0.8, val: 0.1, test: 0.1}: train (all there is, where there are no splits) is cut at these
              shares, in the order of a hash of the files' paths and `seed`; give all splits the same ratios
    classes   their names, in the order of the numbers in the masks; of outlined objects, those to use, without the
              background. By default what classes.txt (also labels.txt, names.txt) in the root says, a name a line, of
              which "void" and "ignore" count nothing; the 19 classes of Cityscapes; or the numbers that masks have,
              where 0 and 255 alone are background and object
    values    in place of `classes`, the numbers or colours of each: {ground: 0, road: [3, 4], car: "#400080", cell:
              rest}, where "rest" is every other number, so that maps of instances are of one class
    ignore    further numbers or colours that count nothing; 255 never does, unless a class has it
    mode      rgb or gray
    on_error  what a wrong annotation does: end the reading ("error"), or have its image left out ("skip"), and what is
              wrong kept in `faults`; by default as data.on_error in a recipe
    """

    foldable = True

    def __init__(
        self,
        root: str | Path,
        *,
        split: str | None = None,
        ratios: Mapping[str, float] | None = None,
        seed: Annotated[int, Range(0)] = 0,
        classes: Sequence[str] | None = None,
        values: Values | None = None,
        ignore: Sequence[Value] = (),
        mode: Mode = "rgb",
        on_error: Literal["error", "skip"] = "error",
    ) -> None:
        self.mode, self.split = check_mode("SegmentationFolder", mode), split
        if classes is not None and values is not None:
            raise ConfigError("SegmentationFolder: give classes (the names alone) or values (names and numbers)")
        self.seen: dict[str, int] = {}  # the numbers in masks, where nothing says what they are
        tree = Tree(root, on_error)
        self.root, self.faults = tree.root, tree.faults
        self.layout, found = pairs(tree)
        self.outlined: DetectionFolder | None = None
        if found:
            have: Splits = {name: partial(list, each) for name, each in splits(tree, found).items()}

            def cut(whole: Pairs, ratios: Mapping[str, float], split: str) -> Pairs:
                keys = [image for image, _ in whole]
                rows = stratified_split(np.zeros(len(whole), np.int64), ratios, split, seed=seed, keys=keys)
                return [whole[row] for row in rows]

            own = tree.part("SegmentationFolder", have, split, ratios, cut)
            if not own:
                raise fault(tree.given, f"no images for split {split!r}", "add images, or choose other ratios")
            self.paths, self.masks = [image for image, _ in own], [mask for _, mask in own]
            named = values or self._named(classes, sorted(found.values()))
            self.values = ClassValues(*_without_void(named, [IGNORED, *ignore]))
            self.classes = self.values.names
        else:
            self._open_outlines(tree, classes, values, ratios, seed)

    def _open_outlines(self, tree: Tree, classes: Any, values: Any, ratios: Any, seed: int) -> None:
        """Objects with outlines, where there are no masks."""
        try:
            self.layout, _ = layout(Tree(tree.given, "skip"))
        except DataFault:
            raise fault(
                tree.given,
                f"no masks found among {len(tree.files)} files ({len(tree.images)} images)",
                "put masks into masks/ beside images/, with the same names, or name the folder that holds both (root=)",
            ) from None
        if values is not None:
            raise ConfigError("SegmentationFolder: values are of masks; outlined objects have names (classes=)")
        self.outlined = DetectionFolder(
            tree.given, split=self.split, ratios=ratios, seed=seed, classes=classes, mode=self.mode, masks=True,
            on_error=tree.on_error, allow_empty=True,
        )  # fmt: skip
        if not len(self.outlined.table.boxes):
            raise fault(tree.given, f"read as {self.layout}, no object is outlined", "outline some, or add masks/")
        self.root, self.faults = self.outlined.root, self.outlined.faults
        self.paths, self.masks = list(self.outlined.table.paths), []
        self.classes = [BACKGROUND, *self.outlined.classes]

    @classmethod
    def stand_in(cls, folder: Path, settings: Mapping[str, Any]) -> StandIn:
        names = [*(settings.get("values") or settings.get("classes") or ())][1:] or ["zero", "one", "two"]
        standin.write_objects(folder, names, splits=settings.get("split") is not None)
        taken: dict[str, Any] = {"root": str(folder), "values": None, "classes": None, "ignore": []}
        return StandIn(taken, "digits in images, with their outlines")

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Sample:
        image = read_image(self.path_of(index), mode=self.mode, index=index)
        if self.outlined is not None:
            return {"image": image, "mask": self._painted(self.outlined[index], image.shape)}
        mask = self._mask(index)
        if (other := self._other_size(index, image.shape, mask.shape)) is not None:
            raise other
        return {"image": image, "mask": mask}

    def annotation(self, index: int) -> Sample:
        """All of sample `index` but the image, which is not decoded."""
        if self.outlined is None:
            return {"mask": self._mask(index)}
        size = self.outlined.size_of(index)
        return {"mask": self._painted(self.outlined.annotation(index), size)}

    def path_of(self, index: int) -> str:
        return str(self.root / self.paths[index])

    def mask_of(self, index: int) -> str:
        """The file that the mask of an image is in."""
        return str(self.root / self.masks[index]) if self.outlined is None else self.outlined.source_of(index)

    def fault_of(self, index: int) -> Fault | None:
        if self.outlined is not None:
            return self.outlined.fault_of(index)
        found = fault_of(self.path_of(index), index=index) or fault_of(self.mask_of(index), index=index)
        if found is not None:
            return found
        sizes = header_size(Path(self.path_of(index))), header_size(Path(self.mask_of(index)))
        other = None if None in sizes else self._other_size(index, sizes[0], sizes[1])
        return None if other is None else other.fault

    @cached_property
    def pixels(self) -> np.ndarray:
        """int64 [classes]: how many pixels of each class there are; all masks are read."""
        return _counted(self)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the files' relative paths and sizes, and of classes and their values; the pixels are not read."""
        if self.outlined is not None:
            return digest(*self.classes, self.outlined.fingerprint)
        sizes = np.array([self._bytes(path) for path in [*self.paths, *self.masks]], np.int64)
        meaning = sorted((value, number) for value, number in self.values.known.items())
        return digest(*self.classes, *self.paths, *self.masks, sizes, f"{meaning} {self.values.rest} {self.mode}")

    # -- folds ---------------------------------------------------------------------------------------------------------
    def dealing(self, by: str | None = None) -> Dealing:
        return Dealing("in the order of a hash of the files' paths", np.zeros(len(self), np.int64))

    def dealt(self, rows: np.ndarray, before: np.ndarray) -> Dataset:
        found = copy.copy(self)
        for name in ("fingerprint", "pixels"):
            found.__dict__.pop(name, None)
        found.paths = [self.paths[row] for row in rows]
        if self.outlined is None:
            found.masks = [self.masks[row] for row in rows]
        else:
            found.outlined = self.outlined.only(rows)
        return found

    # -- one sample ----------------------------------------------------------------------------------------------------
    def _mask(self, index: int) -> np.ndarray:
        path = self.mask_of(index)
        return self.values.classes(index_map(path), path)

    def _painted(self, sample: Sample, shape: tuple[int, ...]) -> np.ndarray:
        """The objects of a sample as classes: the smaller ones over the larger; crowds count nothing."""
        out = np.zeros(shape[:2], np.uint8)
        areas = sample["masks"].sum((1, 2), dtype=np.int64)
        crowd = sample.get("crowd", np.zeros(len(areas), np.bool_))
        for row in np.lexsort((-areas, ~crowd)).tolist():
            out[sample["masks"][row] > 0] = IGNORED if crowd[row] else sample["labels"][row] + 1
        return out

    def _other_size(self, index: int, image: Any, mask: Any) -> DataFault | None:
        """The error about a mask of another size than its image; sizes begin with height and width."""
        if tuple(image[:2]) == tuple(mask[:2]):
            return None
        what = f"the mask has {mask[1]} x {mask[0]} pixels, the image {image[1]} x {image[0]}"
        return fault(self.mask_of(index), what, f"scale one of them (the other is {self.path_of(index)})", index=index)

    def _bytes(self, path: str) -> int:
        try:
            return (self.root / path).stat().st_size
        except OSError:  # reported when the sample is read
            return -1

    # -- classes -------------------------------------------------------------------------------------------------------
    def _named(self, classes: Sequence[str] | None, masks: Sequence[str]) -> Values:
        """The numbers of each class."""
        if classes is not None:
            return _numbered([str(name) for name in classes])
        for name in NAME_FILES:
            file = self.root / name
            if file.is_file():
                lines = file.read_text(encoding="utf-8-sig").splitlines()
                return _numbered([" ".join(line.split()) for line in lines if line.strip()])
        if self.layout == "cityscapes":
            trained = masks[0].endswith("labelTrainIds.png")
            return {name: (k if trained else number) for k, (name, number) in enumerate(CITYSCAPES.items())} | (
                {} if trained else {"void": "rest"}
            )
        return self._looked_up(masks)

    def _looked_up(self, masks: Sequence[str]) -> Values:
        """The numbers that some of the masks have, as names."""
        found: set[int] = set()
        for at in np.unique(np.linspace(0, len(masks) - 1, LOOKED_AT).astype(int)).tolist():
            found |= set(np.unique(index_map(self.root / masks[at])).tolist())
        if found == {0, IGNORED}:
            self.faults = [
                *self.faults,
                Fault(str(self.root / masks[0]), None, "masks have the values 0 and 255 alone, which are taken for "
                      "background and object", "say so: values={background: 0, object: 255}", severity="warning"),
            ]  # fmt: skip
            self.seen = {BACKGROUND: 0, "object": IGNORED}
            return self.seen
        if not found - {IGNORED} or max(found - {IGNORED}) >= MOST_CLASSES:
            shown = ", ".join(map(str, sorted(found)[:8]))
            raise fault(
                self.root / masks[0],
                f"masks have the values {shown}{', ...' if len(found) > 8 else ''}, which do not say their classes",
                'name them: values={road: "#804080", car: [3, 4]}; of maps of instances {ground: 0, cell: rest}',
            )
        self.seen = {str(value): value for value in range(max(found - {IGNORED}) + 1)}
        return self.seen


def _numbered(names: Sequence[str]) -> Values:
    if len(set(names)) < len(names):
        raise ConfigError(f"SegmentationFolder: classes {list(names)} must be names, each once")
    return {name: number for number, name in enumerate(names)}


def _without_void(values: Values, ignore: list[Value]) -> tuple[Values, list[Value]]:
    """Classes that are called void count nothing."""
    kept: dict[str, Any] = {}
    for name, value in values.items():
        if _NOTHING.match(str(name)):
            ignore += [value] if isinstance(value, int | str) else [*value]
        else:
            kept[name] = value
    return kept, ignore


def segmented_at(path: Path, split: str) -> dict[str, Any]:
    """The data set, as a recipe writes it, of images with masks at a path: of their `split` where they have that."""
    tree = Tree(path)
    found = pairs(tree)[1]
    have = splits(tree, found) if found else layout(tree)[1]
    return {"_target_": "pdl_cv.data.SegmentationFolder", "root": str(path), "split": split if split in have else None,
            "ratios": None}  # fmt: skip


def pixels_of(dataset: Any) -> np.ndarray:
    """int64 [classes]: how many pixels of each class a data set has, also one that is a part of another; all masks are
    read, and images where the data set has no `annotation`."""
    if isinstance(dataset, SegmentationFolder):
        return dataset.pixels
    return _counted(dataset)


def _counted(dataset: Any) -> np.ndarray:
    read, total = getattr(dataset, "annotation", dataset.__getitem__), np.zeros(256, np.int64)
    for index in range(len(dataset)):
        total += np.bincount(read(index)["mask"].reshape(-1), minlength=256)
    return total[: len(dataset.classes)]
