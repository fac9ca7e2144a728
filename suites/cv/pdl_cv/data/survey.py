"""What is in a folder with objects, for people and for those who write recipes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from pdl.config.text import quoted
from pdl.data.faults import DataFault
from pdl.errors import DataError
from pdl_cv.data.boxes.formats import WHAT, layout
from pdl_cv.data.boxes.tree import Tree
from pdl_cv.data.detection import DetectionFolder

LOOKED_AT = 64  # images whose size is looked at
SMALLEST = 256  # pixels: small images are enlarged to it, so that the maps of nets have cells for their objects
SHOWN = 20  # classes that are listed
CUT = {"train": 0.8, "val": 0.1, "test": 0.1}
ROOT = '"${data.train.root}"'


@dataclass(frozen=True)
class Survey:
    """The splits of a data set of objects; those in `ratios` are cut, from train or from all there is.

    height, width  the medians of images' sides
    span           the median of objects' sizes, the roots of their areas, through the longer side of the image
    """

    root: Path
    parts: Mapping[str, DetectionFolder]
    ratios: Mapping[str, float]
    height: int
    width: int
    span: float

    @property
    def train(self) -> DetectionFolder:
        """The split that is learned from."""
        return self.parts["train"]

    def found(self) -> Iterator[str]:
        """What there is, in lines of text."""
        sizes = [f"{len(part)} images of {name}{' (cut)' if name in self.ratios else ''}"
                 for name, part in self.parts.items()]  # fmt: skip
        yield f"{WHAT[self.train.format]}: {', '.join(sizes)}; mostly about {self.width} x {self.height} pixels."
        counts = np.sum([part.counts for part in self.parts.values()], axis=0)
        named = [f"{name} {count}" for name, count in zip(self.train.classes, counts, strict=True)]
        more = f", and {len(named) - SHOWN} more" if len(named) > SHOWN else ""
        size = round(self.span * max(self.height, self.width))
        yield f"{counts.sum()} objects, mostly about {size} pixels a side: {', '.join(named[:SHOWN])}{more}."
        faults = chain.from_iterable(part.faults for part in self.parts.values())
        wrong = list(dict.fromkeys(str(each) for each in faults if each.severity == "error"))
        if wrong:
            count = f"{len(wrong)} annotation{'s are' if len(wrong) > 1 else ' is'} wrong"
            yield f"{count} and not counted (pdl check lists all): {wrong[0]}"

    def lines(self, options: str = "") -> Iterator[str]:
        """The lines of a recipe's data section that name the splits; `options` are further arguments."""
        shares = ", ".join(f"{name}: {share:g}" for name, share in self.ratios.items())
        for name in self.parts:
            root = quoted(self.root) if name == "train" else ROOT
            cut = f", ratios: {{{shares}}}" if name in self.ratios else ""
            yield f"  {name}: {{_target_: pdl_cv.data.DetectionFolder, root: {root}, split: {name}{cut}{options}}}"


def survey(data: Path, *, masks: bool = False, keypoints: bool = False) -> Survey:
    """Look at a data set; splits that are there are used as they are, others cut by ratio. Images that are annotated
    wrongly are left out. DataError where it cannot be used, or has no objects."""
    form, splits = layout(Tree(data, "skip"), keypoints=keypoints)
    ratios = _ratios(set(splits))
    names = [name for name in ("train", "val", "test") if name in ratios or name in splits]
    options: dict[str, Any] = {"format": form, "masks": masks, "keypoints": keypoints, "on_error": "skip"}
    parts = {name: DetectionFolder(data, split=name, ratios=ratios if name in ratios else None, **options)
             for name in names}  # fmt: skip
    train = parts["train"]
    if not len(train.table.boxes):
        raise DataError(
            f"{data}: read as {WHAT[form]}, no objects are marked in {len(train)} images for training; give the "
            "folder that holds images and their annotations, as labels/a/1.txt beside images/a/1.jpg"
        )
    height, width, span = _sizes(train)
    return Survey(data.resolve(), parts, ratios, height, width, span)


def _ratios(have: set[str]) -> dict[str, float]:
    if {"train", "val"} <= have:
        return {}
    return {"train": 0.9, "val": 0.1} if {"train", "test"} <= have else CUT


def _sizes(train: DetectionFolder) -> tuple[int, int, float]:
    sides: list[tuple[int, int]] = []
    spans: list[np.ndarray] = []
    for index in np.unique(np.linspace(0, len(train) - 1, LOOKED_AT).astype(int)).tolist():
        try:
            height, width = train.size_of(index)
        except DataFault:  # `pdl check` and training report it, with its path
            continue
        boxes = train.annotation(index)["boxes"]
        sides.append((height, width))
        spans.append(np.sqrt(np.clip(boxes[:, 2:] - boxes[:, :2], 0, None).prod(axis=1)) / max(height, width))
    if not sides:
        raise DataError(f"{train.root}: none of the images looked at can be read; see pdl check")
    height, width = np.median(sides, axis=0).astype(int).tolist()
    every = np.concatenate(spans)
    return height, width, float(np.median(every)) if len(every) else 0.0


def input_side(found: Survey, usual: int, least: int) -> int:
    """The side of a net's input, a multiple of 32: `usual`, where images are smaller as large as they are, but
    SMALLEST at least; and half as much again where the median object would have fewer than `least` pixels a side."""
    own = -(-max(found.height, found.width) // 32) * 32
    side = max(min(own, usual), SMALLEST)
    return side if found.span * side >= least else side * 3 // 2 // 32 * 32
