"""PP-OCRv6's detector, as PaddleOCR publishes it, for going on with its training: a PP-LCNetV4 whose branches are
merged (Cui et al., arXiv 2109.15099), PP-OCRv3's RSE-FPN (Li et al., arXiv 2206.03001, section 2) with convolutions of
each channel over large windows (Ding et al., arXiv 2203.06717), and DB's head."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pdl
from pdl import nn
from pdl_ocr.models.detector import Head, TextDetector
from pdl_ocr.models.ppocr import squeezed, taken
from pdl_ocr.models.ppocr_detector import Excited, excited_pyramid, thresholds
from pdl_ocr.models.ppocr_v6 import Size, Stem, merged_convolutions, stages

#: channels and blocks of the stages
STAGES: dict[Size, list[tuple[int, int]]] = {
    "tiny": [(32, 2), (48, 2), (64, 4), (160, 2)],
    "small": [(48, 2), (96, 2), (192, 4), (384, 2)],
}
#: channels of the pyramid, and the windows of what leaves it
PYRAMID: dict[Size, tuple[int, int]] = {"tiny": (64, 5), "small": (96, 7)}


class PPOCRv6Detector(TextDetector):
    """Images [N, H, W, 3] (RGB, ImageNet's means), H and W multiples of 32 -> probabilities [N, H, W, 1].

    The merged convolutions have no norms: this is a net to begin with PaddleOCR's weights (`pretrained:
    ocr/ppocr_v6_det_small`, or `..._tiny` with `size: tiny`), not with random ones; for those there is `DB`. What is
    published does not hold the head of thresholds, which training alone needs: it is learned anew.
    """

    head: ClassVar[tuple[str, ...]] = ("border",)
    tolerance = 1e-4  # without norms between them, layers amplify roundings

    def __init__(self, size: Size = "small", *, pretrained: str | None = None) -> None:
        table, (channels, window) = STAGES[size], PYRAMID[size]
        self.stem, self.blocks = Stem(table[0][0]), nn.ModuleList(stages(table, 2))
        self.enter = nn.ModuleList(Excited(before, channels, 1) for before, _ in table)
        self.leave = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(channels, channels, window, padding=window // 2, groups=channels),
                Excited(channels, channels // 4, 1),
            )
            for _ in table
        )
        self.inside, self.border = Head(channels, merged=True), Head(channels)
        if pretrained is not None:
            from pdl.hub import load_pretrained

            load_pretrained(self, pretrained)

    def features(self, x: pdl.Tensor) -> pdl.Tensor:
        y, found = self.stem(x), list[pdl.Tensor]()
        for stage in self.blocks:
            y = stage(y)
            found.append(y)
        return excited_pyramid(found, list(self.enter), list(self.leave))


TASK = "text_detection"
VARIANTS: dict[str, dict[str, Any]] = {
    f"ppocr_v6_det_{size}": {"_target_": "pdl_ocr.PPOCRv6Detector", "size": size} for size in STAGES
}


def remap(model: PPOCRv6Detector, state: Mapping[str, Any]) -> dict[str, Any]:
    """The tensors of PP-OCRv6_small_det or PP-OCRv6_tiny_det, under Paddle's names, in pdl's names and layouts; the
    head of thresholds, which is not there, as it is.

    Paddle numbers layers of a kind in the order of their making: squeeze-and-excite, for each stride what enters and
    leaves the pyramid, and the merged convolutions last. Its images are BGR, so the stem's channels are turned.
    ShapeError for a file of another net.
    """
    numbers = range(len(model.enter))
    pyramid = [
        f"{side}.{name}" for i in numbers for side in (f"enter.{i}", f"leave.{i}.1")
        for name in ("conv", "se.fc1", "se.fc2")
    ]  # fmt: skip
    order = {
        "conv2d": [*squeezed(model), *pyramid, *merged_convolutions(model), *(f"leave.{i}.0" for i in numbers),
                   "inside.conv.0"],
        "conv2d_transpose": ["inside.first.conv", "inside.second.conv"],
    }  # fmt: skip
    return {**thresholds(model), **nn.from_torch(model, taken(model, order, state, stem="stem.first"))}
