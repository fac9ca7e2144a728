"""PP-TinyPose of PaddleDetection: the wider naive net of Lite-HRNet (arXiv 2104.06403) on crops of 128 x 96 or 256 x
192 pixels, whose points are found by DARK (arXiv 1910.06278).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pdl import nn
from pdl_cv.models.blocks import from_paddle, substituted
from pdl_cv.models.lite_hrnet import LiteHRNet, Width


class PPTinyPose(LiteHRNet):
    """Images [N, H, W, 3] -> heatmaps [N, H / 4, W / 4, num_keypoints]; H and W are multiples of 32.

    `pretrained`: a name of the hub or a file.

    num_keypoints  points of each object
    """

    def __init__(self, *, num_keypoints: Width = 17, pretrained: str | None = None) -> None:
        super().__init__("wider_naive_18", num_keypoints=num_keypoints, pretrained=pretrained)


TASK = "keypoints"
VARIANTS: dict[str, dict[str, Any]] = {"pp_tinypose": {"_target_": "pdl_cv.PPTinyPose"}}


def remap(model: PPTinyPose, state: Mapping[str, Any]) -> dict[str, Any]:
    """A state dict (arrays by name) of PaddleDetection in pdl's names and layouts."""
    names = ((r"^backbone\.", ""), (r"\.norm\.", ".bn."), (r"^final_conv\.", "final_layer."))
    return nn.from_torch(model, substituted(from_paddle(state), names))
