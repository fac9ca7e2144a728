"""A recipe for people's own images with masks, as `pdl init cv.segmentation --data DIR` writes it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from pdl.config.text import quoted
from pdl.data.faults import DataFault
from pdl.data.folders import CUT
from pdl_cv.data.boxes.formats import layout
from pdl_cv.data.boxes.sizes import image_size
from pdl_cv.data.boxes.tree import Tree
from pdl_cv.data.mask_pairs import pairs, splits
from pdl_cv.data.segmentation import SegmentationFolder
from pdl_cv.detection.init import NORMALIZE, T, pretrained_backbone, stages

LOOKED_AT = 64  # images whose size is looked at
STEP, MOST = 32, 320  # sides of the input are multiples of, and at most about
BATCH = 8
SEEN, EPOCHS = 12_000, (20, 200)  # images in all, and the fewest and most epochs
ROOT = '"${data.train.root}"'


def write_recipe(data: Path) -> str:
    """The text of a recipe that learns the masks in `data`, in any layout of `pdl_cv.data.SegmentationFolder`.

    The net is DeepLabV3+ on a MobileNetV2 with the weights of ImageNet, or, where these are not to be had, a small
    U-Net. DataError for data that cannot be used.
    """
    tree = Tree(data, "skip")
    found = pairs(tree)[1]
    have = set(splits(tree, found) if found else layout(tree)[1])
    ratios = {} if {"train", "val"} <= have else {"train": 0.9, "val": 0.1} if {"train", "test"} <= have else CUT
    names = [name for name in ("train", "val", "test") if name in ratios or name in have]
    parts = {name: SegmentationFolder(data, split=name, ratios=ratios if name in ratios else None, on_error="skip")
             for name in names}  # fmt: skip
    train = parts["train"]
    height, width = _size(train)
    backbone, why = pretrained_backbone("NET")
    model = f"_target_: pdl_cv.DeepLabV3Plus, backbone: {backbone}" if backbone else "_target_: pdl_cv.UNet, width: 32"
    sizes = ", ".join(f"{len(part)} of {name}{' (cut)' if name in ratios else ''}" for name, part in parts.items())
    epochs = int(np.clip(round(SEEN / len(train)), *EPOCHS))
    warned = [str(each) for each in train.faults if each.severity == "error"]
    root = quoted(data.resolve())
    said = [
        f"Images with masks: {sizes}; mostly about {width} x {height} pixels.",
        f"{len(train.classes)} classes: {', '.join(train.classes[:30])}{', ...' if len(train.classes) > 30 else ''}.",
        *(["Masks do not say what their numbers mean: give them names (values)."] if train.seen else []),
        *([f"{len(warned)} of them cannot be used (pdl check lists all): {warned[0]}"] if warned else []),
        why,
    ]
    shares = ", ".join(f"{name}: {share:g}" for name, share in ratios.items())
    values = f", values: {{{', '.join(f'{quoted(k)}: {v}' for k, v in train.seen.items())}}}" if train.seen else ""
    lines = [
        *(f"# {' '.join(line.split())}" for line in said),
        "defaults:",
        "  - /cv/segmentation",
        "  - _self_",
        f"model: {{{model}}}",
        "data:",
        *(f"  {name}: {{_target_: pdl_cv.data.SegmentationFolder, root: {root if name == 'train' else ROOT}, "
          f"split: {name}{f', ratios: {{{shares}}}' if name in ratios else ''}{values}}}" for name in names),
        *_transforms(height, width),
        f"  batch_size: {BATCH if len(train) >= 80 else 4}",
        f"train: {{epochs: {epochs}}}",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _transforms(height: int, width: int) -> Iterator[str]:
    scale = min(1.0, MOST / max(height, width))
    size = [max(STEP, round(side * scale / STEP) * STEP) for side in (height, width)]
    train = [
        f"{{{T}ColorJitter, brightness: 0.3, contrast: 0.3, saturation: 0.3}}",
        f"{{{T}RandomHorizontalFlip}}",
        f"{{{T}Letterbox, size: {size}}}",
        f"{{{T}RandomAffine, degrees: 10, scale: [0.75, 1.5], translate: 0.1}}",
        NORMALIZE,
    ]
    return stages(train, [f"{{{T}Letterbox, size: {size}}}", NORMALIZE])


def _size(train: SegmentationFolder) -> tuple[int, int]:
    """The medians of height and width."""
    sides = []
    for index in np.unique(np.linspace(0, len(train) - 1, LOOKED_AT).astype(int)).tolist():
        try:
            sides.append(image_size(Path(train.path_of(index))))
        except DataFault:  # `pdl check` and training report it, with its path
            continue
    height, width = np.median(sides or [(224, 224)], axis=0).astype(int).tolist()
    return height, width
