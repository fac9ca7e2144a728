"""A recipe for a folder of pairs of pictures, as `pdl init cv.image_to_image --data DIR` writes it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pdl.config.text import quoted
from pdl.data.faults import DataFault
from pdl.data.folders import CUT
from pdl_cv.data.boxes.sizes import image_size
from pdl_cv.data.boxes.tree import Tree, by_split, listed, split_folder
from pdl_cv.data.paired import PairedFolder, Side, pairs

MOST, STEP = 256, 32  # sides are multiples of STEP, the longer one at most about MOST
SEEN, EPOCHS = 40_000, (20, 200)  # pairs in all, and the fewest and most epochs
LOOKED_AT = 64  # images whose size is looked at
ROOT = '"${data.train.root}"'


def write_recipe(data: Path) -> str:
    """The text of a recipe that learns to make the pictures of `data` of its images: two folders of files of the same
    names (`pdl_cv.data.PairedFolder` has the names), or files that hold both side by side, the image on the left.

    DataError for data that cannot be used.
    """
    tree = Tree(data, "skip")
    found = [each.image for each in pairs(tree)]
    joined = not found
    found = found or tree.images
    have = set(listed(tree, found) or by_split(map(split_folder, found)))
    ratios = {} if {"train", "val"} <= have else {"train": 0.9, "val": 0.1} if {"train", "test"} <= have else CUT
    names = [name for name in ("train", "val", "test") if name in ratios or name in have]
    side: Side | None = "left" if joined else None
    parts = {
        name: PairedFolder(data, split=name, ratios=ratios if name in ratios else None, joined=side, on_error="skip")
        for name in names
    }
    train = parts["train"]
    height, width = _size(train, 2 if joined else 1)
    scale = min(1.0, MOST / max(height, width))
    size = [max(STEP, round(n * scale / STEP) * STEP) for n in (height, width)]
    larger = [round(n * 1.12 / 2) * 2 for n in size]
    depth = _halvings(size)
    epochs = int(np.clip(round(SEEN / len(train)), *EPOCHS))
    shares = ", ".join(f"{name}: {share:g}" for name, share in ratios.items())
    root = quoted(data.resolve())
    how = ", joined: left" if joined else ""
    said = ", ".join(f"{len(part)} of {name}{' (cut)' if name in ratios else ''}" for name, part in parts.items())
    prepared = "{_target_: pdl.data.transforms.Normalize, mean: 0.5, std: 0.5}"
    lines = [
        f"# Pairs of pictures: {said}; mostly about {width} x {height} pixels.",
        *(["# Each file holds both side by side; joined: right if the left one is to be made."] if joined else []),
        "defaults:",
        "  - /cv/image_to_image",
        "  - _self_",
        f"model: {{_target_: pdl_cv.Pix2Pix, width: 32, depth: {depth}}}",
        "data:",
        *(f"  {name}: {{_target_: pdl_cv.data.PairedFolder, root: {root if name == 'train' else ROOT}, "
          f"split: {name}{f', ratios: {{{shares}}}' if name in ratios else ''}{how}}}" for name in names),
        "  transforms:",
        "    train:",
        "      - {_target_: pdl.data.transforms.RandomHorizontalFlip}",
        f"      - {{_target_: pdl.data.transforms.Letterbox, size: {larger}}}",
        f"      - {{_target_: pdl.data.transforms.RandomCrop, size: {size}}}",
        f"      - {prepared}",
        "    eval:",
        f"      - {{_target_: pdl.data.transforms.Letterbox, size: {size}}}",
        f"      - {prepared}",
        f"train: {{epochs: {epochs}, eval_every: {max(1, epochs // 10)}}}",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _halvings(size: list[int]) -> int:
    """How often both sides can be halved, eight times at most."""
    return min(8, *((n & -n).bit_length() - 1 for n in size))


def _size(train: PairedFolder, halves: int) -> tuple[int, int]:
    """The medians of height and width."""
    sides = []
    for index in np.unique(np.linspace(0, len(train) - 1, LOOKED_AT).astype(int)).tolist():
        try:
            height, width = image_size(Path(train.path_of(index)))
        except DataFault:  # `pdl check` and training report it, with its path
            continue
        sides.append((height, width // halves))
    found, across = np.median(sides or [(MOST, MOST)], axis=0).astype(int).tolist()
    return found, across
