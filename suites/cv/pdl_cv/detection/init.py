"""A recipe for people's own images with boxes, as `pdl init cv.detection --data DIR` writes it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from pdl.hub import obtainable
from pdl_cv.data.survey import Survey, input_side, survey

PRETRAINED = "cv/mobilenet_v2_imagenet"  # of photographs
SIDE, LEAST = 320, 20  # of the input, and of the median object there
SEEN, EPOCHS = 16_000, (10, 150)  # images in all, and the fewest and most epochs
T = "_target_: pdl.data.transforms."
NORMALIZE = f"{{{T}Normalize, mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225]}}"
TRANSFORMS = (
    f"{{{T}ColorJitter, brightness: 0.2, contrast: 0.2, saturation: 0.3, hue: 0.02}}",
    f"{{{T}RandomZoomOut, side: [1.0, 2.0], p: 0.3}}",
    f"{{{T}RandomIoUCrop}}",
    f"{{{T}RandomHorizontalFlip}}",
)


def write_recipe(data: Path) -> str:
    """The text of a recipe that learns the boxes in `data`, of any format that `pdl_cv.data.DetectionFolder` reads.

    The comment at its head says what was found. The net is PicoDet, on a MobileNetV2 with the weights of ImageNet where
    these are here or can be fetched; the size of its input follows from images and objects. DataError for data that
    cannot be used.
    """
    found = survey(data)
    side = input_side(found, SIDE, LEAST)
    backbone, why = pretrained_backbone("{_target_: pdl_cv.Backbone, net: NET}")
    model = "_target_: pdl_cv.PicoDet, size: s" + (f", backbone: {backbone}" if backbone else "")
    protocol = ["task: {protocol: voc}"] if found.train.format == "voc" else []
    return recipe("detection", found, why, model, protocol, transforms(side), "", batch_size(len(found.train)))


def pretrained_backbone(form: str) -> tuple[str, str]:
    """The backbone with the weights of ImageNet in place of NET, "" where these are not to be had; and a sentence."""
    problem = obtainable(PRETRAINED)
    if problem is not None:
        return "", f"From random weights: {problem}. Then `pdl init` again: far fewer images are enough."
    net = f"{{_target_: pdl_cv.MobileNetV2, pretrained: {PRETRAINED}}}"
    return form.replace("NET", net), f"The backbone begins with the weights of {PRETRAINED}."


def batch_size(count: int) -> int:
    """At least about ten steps an epoch."""
    return 16 if count >= 160 else 8 if count >= 40 else 4


def transforms(side: int) -> Iterator[str]:
    """The lines of the data section with what is done to images, boxes and masks."""
    resize = f"{{{T}Letterbox, size: {side}}}"
    return stages([*TRANSFORMS, resize, NORMALIZE], [resize, NORMALIZE])


def stages(train: Iterable[str], evaluation: Iterable[str]) -> Iterator[str]:
    """The lines with the transforms of training and of evaluation."""
    yield "  transforms:"
    for name, steps in (("train", train), ("eval", evaluation)):
        yield f"    {name}:"
        yield from (f"      - {step}" for step in steps)


def recipe(
    task: str,
    found: Survey,
    why: str,
    model: str,
    settings: list[str],
    prepared: Iterator[str],
    options: str,
    batch: int,
    seen: int = SEEN,
) -> str:
    """The whole text: `settings` are lines before the model, `prepared` those of the data section behind the splits;
    training ends when about `seen` images were seen."""
    epochs = int(np.clip(round(seen / len(found.train)), *EPOCHS))
    lines = [
        *(f"# {' '.join(line.split())}" for line in (*found.found(), why)),  # names of classes may have line breaks
        "defaults:",
        f"  - /cv/{task}",
        "  - _self_",
        *settings,
        f"model: {{{model}}}",
        "data:",
        *found.lines(options),
        *prepared,
        f"  batch_size: {batch}",
        f"train: {{epochs: {epochs}}}",
    ]
    return "\n".join(lines) + "\n"
