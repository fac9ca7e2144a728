"""A recipe for a folder of images, as `pdl init cv.classification --data DIR` writes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pdl.config.text import flow, quoted
from pdl.data.faults import DataFault
from pdl.data.folders import ratios_for, splits_there
from pdl.data.image import read_image
from pdl.errors import DataError, UsageError
from pdl.hub import obtainable
from pdl_cv.data.folder import ImageFolder

LOOKED_AT = 64  # images whose size and colours are looked at
SMALL = 48  # pixels: up to here images are small
MANY = 20  # classes: more of them are learned at three times the rate
PRETRAINED = "cv/mobilenet_v2_imagenet"  # of photographs
DRAWN = 0.9  # share of pixels near black or white, from which on gray images are drawings, not photographs


@dataclass(frozen=True)
class Looks:
    """What some images look like: the median of the shorter side, whether all are gray, whether they are drawings
    (writing, symbols), which mirroring would change."""

    side: int
    gray: bool
    drawn: bool


@dataclass(frozen=True)
class Plan:
    """How to learn them: the lines `model` and `optim`, the side of the net's input, images of a step at most (small
    steps for fine-tuning), how many images are seen in all, the fewest and most epochs, and a sentence on why."""

    model: str
    optim: str
    size: int
    batch: int
    seen: int
    epochs: tuple[int, int]
    gray: bool
    why: str


def write_recipe(data: Path) -> str:
    """The text of a recipe that trains on the class folders in `data`.

    Split folders are used as they are, the rest is cut by ratio. The net begins with the weights of ImageNet, where
    these are here or can be fetched; else it is one that learns from a few hundred images. Size of the input,
    augmentation, batch size and epochs follow from what the images are. Raises DataError for a folder that cannot be
    used.
    """
    have = splits_there(data)
    ratios = ratios_for(have)
    train = ImageFolder(data, split="train" if have["train"] or ratios else None, ratios=ratios or None)
    if len(train.classes) < 2:
        raise UsageError(
            f"{data}: {len(train.classes)} class folder ({', '.join(train.classes)}); at least 2 are needed"
        )
    looks = look(train)
    plan = planned(looks, len(train.classes))
    count = len(train)
    lines = [
        f"# {len(train.classes)} classes, {count} images for training, mostly about {looks.side} pixels a side"
        f"{', gray' if looks.gray else ''}.",
        f"# {plan.why}",
        "defaults:",
        "  - /cv/classification",
        "  - _self_",
        f"model: {{{plan.model}}}",
        "data:",
        *split_lines("pdl_cv.data.ImageFolder", data, have, ratios, plan.gray),
        *transforms(looks, plan),
        f"  batch_size: {min(batch_size(count), plan.batch)}",
        "  eval_batch_size: 64",
        "  workers: 2",
        f"optim: {{{plan.optim}}}",
        f"train: {{epochs: {int(np.clip(round(plan.seen / count), *plan.epochs))}}}",
    ]
    return "\n".join(lines) + "\n"


def batch_size(samples: int) -> int:
    """At least about ten steps an epoch, from 8 to 64 images each."""
    return next((size for size in (64, 32, 16) if samples >= 10 * size), 8)


def planned(looks: Looks, classes: int) -> Plan:
    """The net and its settings. Of 500 images of Fashion-MNIST, 28 pixels a side, MobileNetV2 from ImageNet learns more
    at 96 pixels (0.836 on others in 8 epochs) than ResNet-20 from random weights (0.760 in 20). On
    four folders of 2 to 10 classes neither three times the rate nor a third had more val/accuracy; on 40 faces and on
    60 letters three times the rate had (1.000 instead of 0.975, 0.917 instead of 0.900)."""
    small, kind = looks.side <= SMALL, "in_channels: 1, " if looks.gray else ""
    problem = obtainable(PRETRAINED)
    if problem is None:
        why = f"It begins with the weights of {PRETRAINED}; model.pretrained=null learns from random ones (longer)."
        model = f"_target_: pdl_cv.MobileNetV2, pretrained: {PRETRAINED}"
        size, seen = (96, 8_000) if small else (128, 7_000)
        return Plan(model, f"lr: {'9.0e-4' if classes > MANY else '3.0e-4'}", size, 16, seen, (8, 40), False, why)
    why = f"From random weights: {problem}. Then `pdl init` again: far fewer images are enough."
    if small:
        size = 32 if looks.side > 24 else 28
        return Plan(f"_target_: pdl_cv.CifarResNet, {kind}depth: 20", "lr: 2.0e-3", size, 64, 30_000, (10, 100),
                    looks.gray, why)  # fmt: skip
    return Plan(
        f"_target_: pdl_cv.MobileNetV3, {kind}size: small", "lr: 2.0e-3", 96, 64, 20_000, (10, 100), looks.gray, why
    )


def look(train: ImageFolder) -> Looks:
    """What a few images look like."""
    sides, gray, ends = [], True, []
    for index in np.unique(np.linspace(0, len(train) - 1, LOOKED_AT).astype(int)):
        try:
            image = read_image(train.path_of(int(index)))
        except DataFault:  # `pdl check` and training report it, with its path
            continue
        sides.append(min(image.shape[:2]))
        gray = gray and bool((image[..., 0] == image[..., 1]).all() and (image[..., 1] == image[..., 2]).all())
        ends.append(float(((image < 32) | (image > 223)).mean()))
    if not sides:
        raise DataError(f"{train.root}: none of the images looked at can be read; see pdl check")
    side = int(np.median(sides))
    return Looks(side, gray, gray and (side <= SMALL or float(np.median(ends)) > DRAWN))


def split_lines(target: str, data: Path, have: dict[str, bool], ratios: dict[str, float], gray: bool) -> list[str]:
    """The lines of `data` in a recipe for the splits that a folder has, or that `ratios` cut: data sets of class
    `target`, of which the others lie where train does."""
    lines = []
    for split in have:
        if split in ratios or have[split]:
            root = quoted(data.resolve()) if split == "train" else '"${data.train.root}"'
            more = (f", ratios: {flow(ratios)}" if split in ratios else "") + (", mode: gray" if gray else "")
            lines.append(f"  {split}: {{_target_: {target}, root: {root}, split: {split}{more}}}")
    return lines


def transforms(looks: Looks, plan: Plan) -> Sequence[str]:
    """The lines of the transforms."""
    t = "_target_: pdl.data.transforms."
    mean, std = ("0.5", "0.25") if plan.gray else ("[0.485, 0.456, 0.406]", "[0.229, 0.224, 0.225]")
    normalize, resize = f"{t}Normalize, mean: {mean}, std: {std}", f"{t}Resize, size: {plan.size}"
    if looks.side <= SMALL or looks.drawn:
        train = [resize, f"{t}RandomCrop, size: {plan.size}, padding: {plan.size // 10}"]
    else:
        train = [f"{t}RandomResizedCrop, size: {plan.size}, scale: [0.5, 1.0]"]
    train += [] if looks.drawn else [f"{t}RandomHorizontalFlip"]
    parts = [[f"      - {{{each}}}" for each in (*steps, normalize)] for steps in (train, [resize])]
    return ("  transforms:", "    train:", *parts[0], "    eval:", *parts[1])
