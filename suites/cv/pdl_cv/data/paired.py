"""Pictures in pairs, such as a drawing and the photograph of it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np

from pdl.data.dataset import Dataset, Dealing, Sample, StandIn, digest
from pdl.data.faults import DataFault, Fault, fault
from pdl.data.image import Mode, check_mode, fault_of, read_image
from pdl.data.splits import stratified_split
from pdl.errors import ConfigError
from pdl.hints import Range
from pdl_cv.data import standin
from pdl_cv.data.boxes.tree import Tree, by_split, listed, split_folder
from pdl_cv.data.index_maps import index_map
from pdl_cv.palette import palette

NAMES = (("a", "b"), ("input", "target"), ("inputs", "targets"), ("source", "target"), ("x", "y"))
"""Folders of pairs by which they are known, in lower case: what pictures are made of, and what they are to become."""
Side = Literal["left", "right"]


class Pair(NamedTuple):
    """Two files, relative to the root; of one that holds both side by side, it twice."""

    image: str
    picture: str


class PairedFolder(Dataset):
    """Pictures in pairs. Sample i is {"image": uint8 [H, W, C], "picture": uint8 [H, W, C]}: what a picture is made of,
    and what it is to become, of the same size.

    root     the folder; a relative one is also looked for under PDL_DATA
    split    train, val or test where the data has splits, by lists of names or folders (A/train/x.png or
             train/A/x.png), or where `ratios` name it; None: all there is
    ratios   such as {train: 0.8, val: 0.1, test: 0.1}: train (all there is, where there are no splits) is cut at these
             shares, in the order of a hash of the files' paths and `seed`; give all splits the same ratios
    inputs   the folder of images, at any depth below the root; by default A, input, inputs, source or x
    targets  the folder of pictures, with files of the same names; B, target, targets or y
    joined   instead, each file holds both side by side, and its `left` or `right` half is the image
    classes  images hold the numbers of classes, as masks do, which are drawn in Pascal VOC's colours
    mode     rgb or gray
    on_error  what a wrong pair does: end the reading ("error"), or be left out ("skip"), and what is wrong kept in
             `faults`; by default as data.on_error in a recipe
    """

    foldable = True

    def __init__(
        self,
        root: str | Path,
        *,
        split: str | None = None,
        ratios: Mapping[str, float] | None = None,
        seed: Annotated[int, Range(0)] = 0,
        inputs: str | None = None,
        targets: str | None = None,
        joined: Side | None = None,
        classes: bool = False,
        mode: Mode = "rgb",
        on_error: Literal["error", "skip"] = "error",
    ) -> None:
        if joined is not None and (inputs, targets) != (None, None):
            raise ConfigError("PairedFolder: give inputs and targets, or joined where one file holds both")
        if (inputs is None) != (targets is None):
            raise ConfigError("PairedFolder: give both inputs and targets, or neither")
        self.mode, self.split, self.joined, self.drawn = check_mode("PairedFolder", mode), split, joined, classes
        tree = Tree(root, on_error)
        self.root, self.faults = tree.root, tree.faults
        found = pairs(tree, inputs, targets) if joined is None else [Pair(name, name) for name in tree.images]
        if not found:
            tree.require_some()
            names = ", ".join(f"{a} and {b}" for a, b in NAMES)
            what = f"no pairs found among {len(tree.files)} files ({len(tree.images)} images)"
            raise fault(tree.given, what, f"put them into two folders ({names}) under the same names, name these "
                        "folders (inputs=, targets=), or say which half of a file is the image (joined=)")  # fmt: skip
        rows = listed(tree, [each.image for each in found]) or by_split(split_folder(each.image) for each in found)
        have: dict[str, Callable[[], list[Pair]]] = {
            name: partial(lambda own: [found[row] for row in own], own) for name, own in rows.items()
        }

        def cut(whole: list[Pair], ratios: Mapping[str, float], split: str) -> list[Pair]:
            keys = [each.image for each in whole]
            chosen = stratified_split(np.zeros(len(whole), np.int64), ratios, split, seed=seed, keys=keys)
            return [whole[row] for row in chosen]

        self.pairs = tree.part("PairedFolder", have, split, ratios, cut)
        if not self.pairs:
            raise fault(tree.given, f"no pairs for split {split!r}", "add some, or choose other ratios")

    @classmethod
    def stand_in(cls, folder: Path, settings: Mapping[str, Any]) -> StandIn:
        split = settings.get("split")
        standin.write_pairs(folder, splits=split is not None)
        plain = {"inputs": None, "targets": None, "joined": None, "classes": False, "ratios": None}
        return StandIn({"root": str(folder), **plain}, "outlines of digits, and digits")

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, index: int) -> Sample:
        pair = self.pairs[index]
        if self.joined is not None:
            whole = read_image(self.path_of(index), mode=self.mode, index=index)
            half = whole.shape[1] // 2
            parts = [np.ascontiguousarray(each) for each in (whole[:, :half], whole[:, whole.shape[1] - half :])]
            image, picture = parts if self.joined == "left" else parts[::-1]
        else:
            image = self._drawn(index) if self.drawn else read_image(self.path_of(index), mode=self.mode, index=index)
            picture = read_image(str(self.root / pair.picture), mode=self.mode, index=index)
        if (wrong := self._other_size(index, image.shape, picture.shape)) is not None:
            raise wrong
        return {"image": image, "picture": picture}

    def path_of(self, index: int) -> str:
        return str(self.root / self.pairs[index].image)

    def fault_of(self, index: int) -> Fault | None:
        for path in dict.fromkeys(self.pairs[index]):
            if (found := fault_of(str(self.root / path), index=index)) is not None:
                return found
        try:
            self[index]
        except DataFault as error:
            return error.fault
        return None

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the files' relative paths and sizes, and of how they are read; the pixels are not."""
        sizes = np.array([(self.root / path).stat().st_size for pair in self.pairs for path in pair], np.int64)
        return digest(*(path for pair in self.pairs for path in pair), sizes, f"{self.joined} {self.drawn} {self.mode}")

    def dealing(self, by: str | None = None) -> Dealing:
        return Dealing("in the order of a hash of the files' paths", np.zeros(len(self), np.int64))

    def dealt(self, rows: np.ndarray, before: np.ndarray) -> Dataset:
        found = copy.copy(self)
        found.__dict__.pop("fingerprint", None)
        found.pairs = [self.pairs[row] for row in rows]
        return found

    def _drawn(self, index: int) -> np.ndarray:
        """The classes of a file in their colours."""
        path = self.path_of(index)
        numbers = index_map(path)
        if numbers.max(initial=0) > 255:
            raise fault(path, f"the number {numbers.max()} is no class", "write masks of 8 bits", index=index)
        image = palette()[numbers]
        return image if self.mode == "rgb" else image.mean(axis=2, keepdims=True).astype(np.uint8)

    def _other_size(self, index: int, image: Any, picture: Any) -> DataFault | None:
        if tuple(image[:2]) == tuple(picture[:2]):
            return None
        what = f"the picture has {picture[1]} x {picture[0]} pixels, the image {image[1]} x {image[0]}"
        other = self.path_of(index)
        return fault(str(self.root / self.pairs[index].picture), what, f"scale one of them (the other is {other})",
                     index=index)  # fmt: skip


def pairs(tree: Tree, inputs: str | None = None, targets: str | None = None) -> list[Pair]:
    """The pairs below a folder, sorted: files of the same name in two folders of these names, or, without names, of the
    first of `NAMES` that it has."""
    for a, b in NAMES if inputs is None or targets is None else [(inputs.lower(), targets.lower())]:
        first, second = (_by_place(tree, name) for name in (a, b))
        if first and second:
            for name in sorted(first.keys() ^ second.keys()):
                path = first.get(name) or second[name]
                tree.wrong(fault(tree.root / path, "it has no other of its name", "add it, or take this away"))
            return [Pair(first[name], second[name]) for name in sorted(first.keys() & second.keys())]
    return []


def _by_place(tree: Tree, folder: str) -> dict[tuple[str, str], str]:
    """The images below any folder of this name (in lower case), by the rest of their path and their name."""
    found = {}
    for name in tree.images:
        path = PurePosixPath(name)
        at = next((i for i, part in enumerate(path.parts[:-1]) if part.lower() == folder), None)
        if at is not None:
            found[str(PurePosixPath(*path.parts[:at], *path.parts[at + 1 : -1])), path.stem] = name
    return found


def paired_at(path: Path, split: str) -> dict[str, Any]:
    """The data set, as a recipe writes it, of pairs at a path: of their `split` where they have that."""
    tree = Tree(path)
    found = [each.image for each in pairs(tree)]
    have = listed(tree, found) or by_split(map(split_folder, found))
    return {"_target_": "pdl_cv.data.PairedFolder", "root": str(path), "split": split if split in have else None,
            "ratios": None, "inputs": None, "targets": None}  # fmt: skip
