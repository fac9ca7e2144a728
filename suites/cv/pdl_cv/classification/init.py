"""A recipe for a folder of images, as `pdl init cv.classification --data DIR` writes it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pdl.config.text import quoted
from pdl.data.faults import DataFault
from pdl.data.image import read_image
from pdl.errors import DataError, UsageError
from pdl_cv.data.folder import SPLIT_FOLDERS, ImageFolder

LOOKED_AT = 64  # pictures whose size is looked at
SMALL = 48  # pixels: up to here a network for small pictures is chosen
SPLITS = ("train", "val", "test")
CUT = "{train: 0.8, val: 0.1, test: 0.1}"


def write_recipe(data: Path) -> str:
    """The text of a recipe that trains on the class folders in `data`.

    Split folders are used as they are, the rest is cut by ratio; the model and the size of its input follow from how
    large the pictures are. Raises DataError for a folder that cannot be used.
    """
    have = {split: any((data / name).is_dir() for name in SPLIT_FOLDERS[split]) for split in SPLITS}
    ratios = _ratios(have)
    train = ImageFolder(data, split="train" if have["train"] or ratios else None, ratios=_parsed(ratios))
    if len(train.classes) < 2:
        raise UsageError(
            f"{data}: {len(train.classes)} class folder ({', '.join(train.classes)}); at least 2 are needed"
        )
    side, gray = _looks(train)
    lines = [
        f"# {len(train.classes)} classes, {len(train)} pictures for training, mostly about {side} pixels a side.",
        "defaults:",
        "  - /cv/classification",
        "  - _self_",
        *_model(side, gray),
        "data:",
        *(line for split in SPLITS for line in _split(data, split, have, ratios, gray)),
        *_transforms(side, gray),
        f"  batch_size: {batch_size(len(train))}",
        "  workers: 2",
        f"train: {{epochs: {epochs(len(train))}, ema: 0.99}}",
    ]
    return "\n".join(lines) + "\n"


def epochs(samples: int) -> int:
    """Enough for about 60,000 training samples, from 10 to 100."""
    return int(np.clip(round(60_000 / max(samples, 1)), 10, 100))


def batch_size(samples: int) -> int:
    """At least about ten steps an epoch, from 8 to 64 images each."""
    return next((size for size in (64, 32, 16) if samples >= 10 * size), 8)


def _ratios(have: dict[str, bool]) -> str:
    """The ratios to cut train by, as YAML; empty where nothing must be cut."""
    if have["train"] and have["val"]:
        return ""
    if have["train"] and have["test"]:
        return "{train: 0.9, val: 0.1}"
    return CUT


def _parsed(ratios: str) -> dict[str, float] | None:
    pairs = (part.split(":") for part in ratios.strip("{}").split(",") if part)
    return {name.strip(): float(value) for name, value in pairs} or None


def _split(data: Path, split: str, have: dict[str, bool], ratios: str, gray: bool) -> Sequence[str]:
    cut = split in (_parsed(ratios) or {})
    if not cut and not have[split]:
        return ()
    root = f"root: {quoted(data.resolve())}" if split == "train" else 'root: "${data.train.root}"'
    more = (f", ratios: {ratios}" if cut else "") + (", mode: gray" if gray else "")
    return (f"  {split}: {{_target_: pdl_cv.data.ImageFolder, {root}, split: {split}{more}}}",)


def _looks(train: ImageFolder) -> tuple[int, bool]:
    """(the median of the shorter side, whether all images are gray) of a few images."""
    sides, gray = [], True
    for index in np.unique(np.linspace(0, len(train) - 1, LOOKED_AT).astype(int)):
        try:
            image = read_image(train.path_of(int(index)))
        except DataFault:  # `pdl check` and training report it, with its path
            continue
        sides.append(min(image.shape[:2]))
        gray = gray and bool((image[..., 0] == image[..., 1]).all() and (image[..., 1] == image[..., 2]).all())
    if not sides:
        raise DataError(f"{train.root}: none of the pictures looked at can be read; see pdl check")
    return int(np.median(sides)), gray


def _model(side: int, gray: bool) -> Sequence[str]:
    channels = ", in_channels: 1" if gray else ""
    name = "CifarResNet, depth: 20" if side <= SMALL else "MobileNetV3, size: small"
    return (f"model: {{_target_: pdl_cv.{name}{channels}}}",)


def _transforms(side: int, gray: bool) -> Sequence[str]:
    t = "_target_: pdl.data.transforms."
    mean, std = ("0.5", "0.25") if gray else ("[0.485, 0.456, 0.406]", "[0.229, 0.224, 0.225]")
    normalize = f"      - {{{t}Normalize, mean: {mean}, std: {std}}}"
    shapes: tuple[str, ...]
    if side <= SMALL:
        size = 32 if side > 24 else 28
        first, shapes = f"{t}RandomCrop, size: {size}, padding: 3", (f"{t}Resize, size: {size}",)
        train = (f"{t}Resize, size: {size}", first)
    else:
        size = 160 if side >= 160 else 96
        train = (f"{t}RandomResizedCrop, size: {size}, scale: [0.35, 1.0]", f"{t}RandomHorizontalFlip")
        shapes = (f"{t}ResizeShort, size: {size * 23 // 20}", f"{t}CenterCrop, size: {size}")
    parts = [f"      - {{{each}}}" for each in train], [f"      - {{{each}}}" for each in shapes]
    return ("  transforms:", "    train:", *parts[0], normalize, "    eval:", *parts[1], normalize)
