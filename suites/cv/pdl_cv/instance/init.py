"""A recipe for people's own images with instance masks, as `pdl init cv.instance --data DIR` writes it."""

from __future__ import annotations

from pathlib import Path

from pdl_cv.data.survey import input_side, survey
from pdl_cv.detection.init import pretrained_backbone, recipe, transforms

SIDE, LEAST = 320, 20  # of the input, and of the median object there
BATCH, SEEN = 4, 4_000  # images of a step, and in all: a step takes several times as long as one of detection


def write_recipe(data: Path) -> str:
    """The text of a recipe that learns the masks in `data`: polygons, runs or label maps in any format that
    `pdl_cv.data.DetectionFolder` reads.

    The net is Mask R-CNN, on a MobileNetV2 with the weights of ImageNet where these are here or can be fetched, with
    anchors of half the usual sizes and few regions, for small inputs. DataError for data that cannot be used.
    """
    found = survey(data, masks=True)
    side = input_side(found, SIDE, LEAST)
    backbone, why = pretrained_backbone("NET")
    model = [
        "_target_: pdl_cv.MaskRCNN",
        f"backbone: {backbone or '{_target_: pdl_cv.MobileNetV2}'}",
        "channels: 128, norm: true, hidden: 512, mask_channels: 128",
        "anchor_sizes: [[16], [32], [64], [128], [256]], canonical: 112.0",
        "proposals: 300, training_proposals: 500, regions: 128",
    ]
    return recipe("instance", found, why, ", ".join(model), [], transforms(side), ", masks: true", BATCH, SEEN)
