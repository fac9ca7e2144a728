"""ICNet: Zhao et al., ICNet for real-time semantic segmentation on high-resolution images, ECCV 2018 (arXiv
1704.08545).

The deep part of a net sees the image at a quarter of its size, the first part at half, and three convolutions the whole
of it; the coarser is enlarged and joined with the finer, twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, cast

import pdl
from pdl import nn
from pdl.errors import ConfigError, ShapeError
from pdl.hints import Range
from pdl.nn.blocks import ConvNorm, initialise
from pdl.nn.fused import Raw
from pdl.nn.module import evaluating
from pdl_cv.models.blocks import Auxiliary, take_pretrained
from pdl_cv.models.detector import LOOKED_AT, without_classifier
from pdl_cv.models.pyramids import dilated
from pdl_cv.models.resnet import ResNet

Width = Annotated[int, Range(1)]
STRIDE = 32
BINS = (1, 2, 3, 6)
AUXILIARY = 0.4


def _half(x: pdl.Tensor) -> pdl.Tensor:
    return pdl.resize(x, (x.shape[1] // 2, x.shape[2] // 2), mode="bilinear")


def _twice(x: pdl.Tensor) -> pdl.Tensor:
    return pdl.resize(x, (x.shape[1] * 2, x.shape[2] * 2), mode="bilinear")


class CascadeFusion(nn.Module):
    """relu(norm(conv3(enlarged low)) + norm(conv1(high))), the first with a rate of 2: figure 4."""

    def __init__(self, low: int, high: int, channels: int) -> None:
        self.low = nn.Conv2d(low, channels, 3, padding=2, dilation=2, bias=False)
        self.low_norm = nn.BatchNorm2d(channels)
        self.high = ConvNorm(high, channels, 1, activation=None)

    def forward(self, low: pdl.Tensor, high: pdl.Tensor) -> pdl.Tensor:
        """low [N, 2 h, 2 w, low], enlarged already, and high [N, 2 h, 2 w, high] -> [N, 2 h, 2 w, channels]."""
        return self.low_norm(self.low(low), activation="relu", residual=self.high(high))  # type: ignore[no-any-return]


class ICNet(nn.Module):
    """Images [N, H, W, 3] -> logits [N, H / 4, W / 4, num_classes]; H and W are multiples of 32. In training the two
    coarser maps have heads of their own (`Auxiliary`).

    backbone    a classification net with `blocks()`: ResNet or MobileNetV2; by default ResNet-50 with fresh weights.
                (The paper's is one of half its channels, which it gets by pruning.)
    channels    of the joined maps; the deep part gives twice as many
    pretrained  a name of the hub or a file, with weights of the whole net
    """

    head: ClassVar[str] = "classifier"

    def __init__(
        self,
        *,
        backbone: nn.Module | None = None,
        channels: Width = 128,
        num_classes: Width = 19,
        pretrained: str | None = None,
    ) -> None:
        net = ResNet(50) if backbone is None else backbone
        if not hasattr(net, "blocks"):
            raise ConfigError(f"model.backbone: ICNet takes ResNet or MobileNetV2, not {type(net).__name__}")
        self.backbone = without_classifier(dilated(net, STRIDE // 4))
        self.shared, middle, high = self._split()
        self.small = nn.Sequential(
            ConvNorm(3, 32, 3, stride=2), ConvNorm(32, 32, 3, stride=2), ConvNorm(32, 64, 3, stride=2)
        )
        self.project = ConvNorm(high, 2 * channels, 1)
        self.fuse16 = CascadeFusion(2 * channels, middle, channels)
        self.fuse8 = CascadeFusion(channels, 64, channels)
        self.classifier = nn.Conv2d(channels, num_classes, 1)
        self.auxiliary = nn.ModuleList([nn.Conv2d(width, num_classes, 1) for width in (2 * channels, channels)])
        for module in (self.small, self.project, self.fuse16, self.fuse8, self.classifier, self.auxiliary):
            initialise(module)  # the backbone keeps its weights
        take_pretrained(self, pretrained)

    def _split(self) -> tuple[int, int, int]:
        """How many blocks of the backbone lead to a stride of 8, and the channels there and at its end."""
        with evaluating(self.backbone):
            x: Any = pdl.zeros((1, LOOKED_AT, LOOKED_AT, 3))
            maps = []
            for block in cast(Any, self.backbone).blocks():
                x = block(x)
                maps.append(x.value if isinstance(x, Raw) else x)
        shared = next(k for k, y in enumerate(maps, 1) if LOOKED_AT // y.shape[1] == STRIDE // 4)
        return shared, maps[shared - 1].shape[3], maps[-1].shape[3]

    def forward(self, x: pdl.Tensor) -> pdl.Tensor | Auxiliary:
        """x [N, H, W, 3] -> logits [N, H / 4, W / 4, num_classes], or in training `Auxiliary`."""
        if x.ndim != 4 or x.shape[1] % STRIDE or x.shape[2] % STRIDE:
            raise ShapeError(f"ICNet: x {x.shape} must be [N, H, W, C] with H and W multiples of {STRIDE}")
        blocks = cast(Any, self.backbone).blocks()
        middle = _run(blocks[: self.shared], _half(x))
        high = _run(blocks[self.shared :], _half(middle))
        size = high.shape[1:3]
        for cells in BINS:
            high = high + pdl.resize(pdl.adaptive_avg_pool(high, (cells, cells)), size, mode="bilinear")
        y16 = _twice(self.project(high))
        y8 = _twice(self.fuse16(y16, middle))
        logits = self.classifier(_twice(self.fuse8(y8, self.small(x))))
        if not self.training:
            return logits  # type: ignore[no-any-return]
        others = tuple(head(y) for head, y in zip(self.auxiliary, (y16, y8), strict=True))
        return Auxiliary(logits, others, AUXILIARY)


def _run(blocks: Sequence[Any], x: pdl.Tensor) -> pdl.Tensor:
    y: Any = x
    for block in blocks:
        y = block(y)
    return y  # type: ignore[no-any-return]


TASK = "segmentation"
VARIANTS: dict[str, dict[str, Any]] = {
    "icnet_resnet50": {"_target_": "pdl_cv.ICNet"},
    "icnet_mobilenet_v2": {"_target_": "pdl_cv.ICNet", "backbone": {"_target_": "pdl_cv.MobileNetV2"}},
}
