"""The mobile detector of PP-OCRv4 and v5, as PaddleOCR publishes it, for going on with its training: a PP-LCNetV3 whose
branches are merged (Cui et al., arXiv 2109.15099), PP-OCRv3's RSE-FPN (Li et al., arXiv 2206.03001, section 2) and DB's
head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pdl
from pdl import nn
from pdl.nn.blocks import ConvNorm, SqueezeExcite
from pdl_ocr.models.detector import Head, TextDetector
from pdl_ocr.models.ppocr import Merged, merged_of, squeezed, taken
from pdl_ocr.models.svtr_lcnet import pages

BLOCKS, ENDS = pages(0.75)
LATERAL = (12, 18, 42, 360)
STEM, CHANNELS = 16, 96


class Gate(nn.Module):
    """min(max(0.2 x + 0.5, 0), 1), steeper than the usual hard sigmoid of x / 6."""

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """The shape stays."""
        return pdl.hardsigmoid(1.2 * x)


class Excited(nn.Module):
    """A convolution without bias, plus itself squeezed and excited."""

    def __init__(self, before: int, channels: int, kernel: int) -> None:
        self.conv = nn.Conv2d(before, channels, kernel, padding=kernel // 2, bias=False)
        self.se = SqueezeExcite(channels, channels // 4, gate=Gate)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, before] -> [N, H, W, channels]."""
        y = self.conv(x)
        return y + self.se(y)  # type: ignore[no-any-return]


class PPOCRDetector(TextDetector):
    """Images [N, H, W, 3] (RGB, ImageNet's means), H and W multiples of 32 -> probabilities [N, H, W, 1].

    The merged convolutions have no norms: this is a net to begin with PaddleOCR's weights (`pretrained:
    ocr/ppocr_v4_det` or `ocr/ppocr_v5_det`), not with random ones; for those there is `DB`. What is published does not
    hold the head of thresholds, which training alone needs: it is learned anew.
    """

    head: ClassVar[tuple[str, ...]] = ("border",)
    tolerance = 1e-4  # without norms between them, layers amplify roundings

    def __init__(self, *, pretrained: str | None = None) -> None:
        self.stem = ConvNorm(3, STEM, 3, stride=2, activation=None)
        rows, channels = list[nn.Module](), STEM
        for kernel, out, step, squeeze in BLOCKS:
            depth = Merged(channels, channels, kernel, step, channels, activated=step == 1)
            between = [SqueezeExcite(channels, channels // 4)] if squeeze else []
            rows.append(nn.Sequential(depth, *between, Merged(channels, out, 1)))
            channels = out
        self.blocks = nn.ModuleList(rows)
        ends = [BLOCKS[end][1] for end in ENDS]
        self.lateral = nn.ModuleList(nn.Conv2d(a, b, 1) for a, b in zip(ends, LATERAL, strict=True))
        self.enter = nn.ModuleList(Excited(each, CHANNELS, 1) for each in LATERAL)
        self.leave = nn.ModuleList(Excited(CHANNELS, CHANNELS // 4, 3) for _ in LATERAL)
        self.inside, self.border = Head(CHANNELS), Head(CHANNELS)
        if pretrained is not None:
            from pdl.hub import load_pretrained

            load_pretrained(self, pretrained)

    def features(self, x: pdl.Tensor) -> pdl.Tensor:
        y, found = self.stem(x), list[pdl.Tensor]()
        for number, block in enumerate(self.blocks):
            y = block(y)
            if number in ENDS:
                found.append(self.lateral[len(found)](y))
        return excited_pyramid(found, list(self.enter), list(self.leave))


def excited_pyramid(found: Sequence[pdl.Tensor], enter: Sequence[nn.Module], leave: Sequence[nn.Module]) -> pdl.Tensor:
    """RSE-FPN: features of strides 4, 8, ... -> [N, H / 4, W / 4, channels]. Each enters, the coarser ones are added to
    the finer ones, and what leaves, the coarsest first, is laid side by side."""
    joined: list[pdl.Tensor] = []
    for each, layer in zip(reversed(found), reversed(enter), strict=True):
        y = layer(each)
        joined.append(y + pdl.resize(joined[-1], scale=2, mode="nearest") if joined else y)
    scales = []
    for number in reversed(range(len(found))):
        y = leave[number](joined[len(found) - 1 - number])
        scales.append(pdl.resize(y, scale=2**number, mode="nearest") if number else y)
    return pdl.concat(scales, axis=3)


TASK = "text_detection"
VARIANTS: dict[str, dict[str, Any]] = {
    name: {"_target_": "pdl_ocr.PPOCRDetector"} for name in ("ppocr_v4_det", "ppocr_v5_det")
}


def remap(model: PPOCRDetector, state: Mapping[str, Any]) -> dict[str, Any]:
    """The tensors of ch_PP-OCRv4_det_infer or PP-OCRv5_mobile_det_infer, under Paddle's names, in pdl's names and
    layouts; the head of thresholds, which is not there, as it is.

    Paddle numbers layers of a kind in the order of their making: stem, squeeze-and-excite, lateral convolutions, then
    for each stride those that enter and leave the pyramid, the head, and the merged convolutions last. Its images are
    BGR, so the stem's channels are turned. ShapeError for a file of another net.
    """
    merged, affine = merged_of(model, state)
    pyramid = [
        f"{side}.{i}.{name}" for i in range(len(LATERAL)) for side in ("enter", "leave")
        for name in ("conv", "se.fc1", "se.fc2")
    ]  # fmt: skip
    order = {
        "conv2d": ["stem.0", *squeezed(model), *(f"lateral.{i}" for i in range(len(LATERAL))), *pyramid,
                   "inside.conv.0", *merged],
        "batch_norm2d": ["stem.1"],
        "batch_norm": ["inside.conv.1", "inside.norm"],
        "conv2d_transpose": ["inside.first.conv", "inside.second.conv"],
        **affine,
    }  # fmt: skip
    return {**thresholds(model), **nn.from_torch(model, taken(model, order, state))}


def thresholds(model: TextDetector) -> dict[str, Any]:
    """The head of thresholds as it is in a net: what is published has none."""
    return {name: value.data for name, value in model.state_dict().items() if name.startswith("border.")}
