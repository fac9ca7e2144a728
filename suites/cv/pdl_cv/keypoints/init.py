"""A recipe for people's own images with keypoints, as `pdl init cv.keypoints --data DIR` writes it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from pdl_cv.data.survey import Survey, survey
from pdl_cv.detection.init import NORMALIZE, T, batch_size, pretrained_backbone, recipe, stages

LONG, SHORT = 256, 192  # sides of the input
OBLONG = 1.2  # from which on objects are higher than wide, or wider than high


def write_recipe(data: Path) -> str:
    """The text of a recipe that learns the keypoints of the objects in `data`, of any format with keypoints that
    `pdl_cv.data.DetectionFolder` reads.

    The net is that of Simple Baselines, on a MobileNetV2 with the weights of ImageNet where these are here or can be
    fetched. Images are mirrored where the names of keypoints say which are left and right. DataError for data that
    cannot be used.
    """
    found = survey(data, keypoints=True)
    backbone, why = pretrained_backbone("NET")
    model = "_target_: pdl_cv.SimpleBaseline, " + (f"backbone: {backbone}" if backbone else "size: mobilenet_v2")
    mirrored = bool(found.train.flip_pairs)
    said = f"{len(found.train.keypoint_names)} keypoints{'' if mirrored else ', none of them left or right'}. {why}"
    return recipe("keypoints", found, said, model, [], _transforms(_size(found), mirrored), ", keypoints: true",
                  2 * batch_size(len(found.train)))  # fmt: skip


def _size(found: Survey) -> list[int]:
    """Height and width of the input, by the proportions of the median object."""
    sides = found.train.table.boxes[:, 2:] - found.train.table.boxes[:, :2]
    scale = np.array([found.width, found.height]) if found.train.table.relative else np.ones(2)
    across, down = np.median(sides, axis=0) * scale
    return [LONG, SHORT] if down > OBLONG * across else [SHORT, LONG] if across > OBLONG * down else [LONG, LONG]


def _transforms(size: list[int], mirrored: bool) -> Iterator[str]:
    resize = f"{{{T}Letterbox, size: {size}}}"
    train = [
        f"{{{T}ColorJitter, brightness: 0.3, contrast: 0.3, saturation: 0.3}}",
        *([f"{{{T}RandomHorizontalFlip}}"] if mirrored else []),
        resize,
        f"{{{T}RandomAffine, degrees: 30, scale: [0.75, 1.25], fill: 114}}",
        NORMALIZE,
    ]
    return stages(train, [resize, NORMALIZE])
