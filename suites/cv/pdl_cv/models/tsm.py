"""TSM: Lin, Gan, Han, Temporal shift module for efficient video understanding, ICCV 2019 (arXiv 1811.08383).

In every residual branch of a classification net an eighth of the channels comes from the next frame and an eighth from
the one before: the net sees motion, with as many parameters and products as without.
"""

from __future__ import annotations

from typing import Annotated, Any

import pdl
from pdl import nn
from pdl.errors import ShapeError, UsageError
from pdl.hints import Range
from pdl.nn.fused import Raw, finish
from pdl_cv.models.mobilenet_v2 import InvertedResidual
from pdl_cv.models.resnet import BasicBlock, Bottleneck
from pdl_cv.models.tsn import TSN


class TemporalShift(nn.Module):
    """`net` behind a shift: of `frames` images that follow each other, 1 / `share` of the channels comes from the next
    one, as much from the one before, zeros at the ends."""

    shown = ("frames", "share")

    def __init__(self, net: nn.Module, frames: int, share: int) -> None:
        self.net, self.frames, self.share = net, frames, share

    def shift(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N frames, H, W, C], shifted."""
        fold = x.shape[3] // self.share
        y = x.reshape((-1, self.frames, *x.shape[1:]))
        still = ((0, 0),) * 3
        later = pdl.pad(y[:, 1:, :, :, :fold], ((0, 0), (0, 1), *still))
        earlier = pdl.pad(y[:, :-1, :, :, fold : 2 * fold], ((0, 0), (1, 0), *still))
        return pdl.concat([later, earlier, y[:, :, :, :, 2 * fold :]], axis=4).reshape(x.shape)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N frames, H, W, C] through the shift and the net."""
        return self.net(self.shift(x))  # type: ignore[no-any-return]

    def raw(self, x: pdl.Tensor | Raw) -> Raw:
        """The same, norm and activation of the net left to the next layer."""
        net: Any = self.net
        return net.raw(self.shift(finish(x) if isinstance(x, Raw) else x))  # type: ignore[no-any-return]


class TSM(TSN):
    """Clips [N, frames, H, W, in_channels] -> logits [N, num_classes].

    net         a classification net of residual blocks: ResNet, CifarResNet or MobileNetV2; by default ResNet-18 with
                fresh weights. A head for another number of classes is replaced by a fresh one
    frames      of a clip
    share       1 / share of the channels comes from the next frame, as much from the one before
    in_channels  of the default net
    pretrained  a name of the hub or a file, with weights of the whole net; those of `net` are told there
    """

    def __init__(
        self,
        net: nn.Module | None = None,
        *,
        frames: Annotated[int, Range(1)] = 8,
        share: Annotated[int, Range(2)] = 8,
        in_channels: Annotated[int, Range(1)] = 3,
        num_classes: Annotated[int, Range(1)] = 400,
        pretrained: str | None = None,
    ) -> None:
        self.frames, self.share = frames, share
        super().__init__(net, in_channels=in_channels, num_classes=num_classes, pretrained=pretrained)

    def _complete(self) -> None:
        count = 0
        for block in list(self.net.modules()):
            if isinstance(block, BasicBlock | Bottleneck):
                block.conv1 = TemporalShift(block.conv1, self.frames, self.share)  # type: ignore[assignment]
            elif isinstance(block, InvertedResidual) and block.residual:
                setattr(block.conv, "0", TemporalShift(block.conv[0], self.frames, self.share))
            else:
                continue
            count += 1
        if not count:
            raise UsageError(f"TSM: {type(self.net).__name__} has no residual blocks; take ResNet or MobileNetV2")

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, frames, H, W, C] -> logits [N, num_classes]."""
        if x.ndim != 5 or x.shape[1] != self.frames:
            raise ShapeError(f"TSM: x {x.shape} must be clips [N, T, H, W, C] of model.frames={self.frames} frames")
        return super().forward(x)


TASK = "video"
VARIANTS: dict[str, dict[str, Any]] = {
    "tsm_resnet18": {"_target_": "pdl_cv.TSM"},
    "tsm_resnet50": {"_target_": "pdl_cv.TSM", "net": {"_target_": "pdl_cv.ResNet", "depth": 50}},
    "tsm_mobilenet_v2": {"_target_": "pdl_cv.TSM", "net": {"_target_": "pdl_cv.MobileNetV2"}},
}
