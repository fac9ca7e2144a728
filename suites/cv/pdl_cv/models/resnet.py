"""Residual networks: He, Zhang, Ren, Sun, Deep residual learning for image recognition, CVPR 2016 (arXiv 1512.03385).

`ResNet` is the ImageNet family with torchvision's names and its stride in the 3 x 3 convolution of a bottleneck;
`CifarResNet` is the family of section 4.2 for 32 x 32 images.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import pdl
from pdl import nn
from pdl.errors import UsageError
from pdl.hints import Range
from pdl_cv.models.blocks import take_pretrained

Width = Annotated[int, Range(1)]


def conv(in_channels: int, channels: int, kernel: int, stride: int = 1) -> nn.Conv2d:
    """A convolution without bias that keeps the size at stride 1."""
    return nn.Conv2d(in_channels, channels, kernel, stride=stride, padding=kernel // 2, bias=False)


class BasicBlock(nn.Module):
    """relu(shortcut(x) + bn(conv3(relu(bn(conv3(x)))))) of `width` channels."""

    expansion: ClassVar[int] = 1

    def __init__(self, in_channels: int, width: int, stride: int, downsample: nn.Module | None) -> None:
        self.conv1, self.bn1 = conv(in_channels, width, 3, stride), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = conv(width, width, 3), nn.BatchNorm2d(width)
        self.downsample = downsample

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C] -> [N, H / stride, W / stride, width]."""
        y = self.bn1(self.conv1(x), activation="relu")
        shortcut = x if self.downsample is None else self.downsample(x)
        return self.bn2(self.conv2(y), activation="relu", residual=shortcut)  # type: ignore[no-any-return]

    def last_norm(self) -> nn.BatchNorm2d:
        """The norm whose scale `zero_init_residual` clears."""
        return self.bn2


class Bottleneck(nn.Module):
    """relu(shortcut(x) + conv1(conv3(conv1(x)))), each with its norm, of 4 `width` channels."""

    expansion: ClassVar[int] = 4

    def __init__(self, in_channels: int, width: int, stride: int, downsample: nn.Module | None) -> None:
        self.conv1, self.bn1 = conv(in_channels, width, 1), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = conv(width, width, 3, stride), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = conv(width, 4 * width, 1), nn.BatchNorm2d(4 * width)
        self.downsample = downsample

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C] -> [N, H / stride, W / stride, 4 width]."""
        y = self.bn1(self.conv1(x), activation="relu")
        y = self.bn2(self.conv2(y), activation="relu")
        shortcut = x if self.downsample is None else self.downsample(x)
        return self.bn3(self.conv3(y), activation="relu", residual=shortcut)  # type: ignore[no-any-return]

    def last_norm(self) -> nn.BatchNorm2d:
        """The norm whose scale `zero_init_residual` clears."""
        return self.bn3


Block = BasicBlock | Bottleneck

DEPTHS: dict[int, tuple[type[Block], tuple[int, int, int, int]]] = {
    18: (BasicBlock, (2, 2, 2, 2)),
    34: (BasicBlock, (3, 4, 6, 3)),
    50: (Bottleneck, (3, 4, 6, 3)),
    101: (Bottleneck, (3, 4, 23, 3)),
    152: (Bottleneck, (3, 8, 36, 3)),
}


class ResNet(nn.Module):
    """x [N, H, W, in_channels] -> logits [N, num_classes]; table 1 of the paper.

    `zero_init_residual` starts every block as the identity (Goyal et al., arXiv 1706.02677). `small_images` replaces
    the stem (7 x 7 stride 2, max pool) by one 3 x 3 convolution, for images of about 32 pixels. `pretrained`: a name of
    the hub or a file.
    """

    head: ClassVar[str] = "fc"
    stem: ClassVar[str] = "conv1"

    def __init__(
        self,
        depth: Literal[18, 34, 50, 101, 152] = 18,
        *,
        in_channels: Width = 3,
        num_classes: Width = 1000,
        small_images: bool = False,
        zero_init_residual: bool = False,
        pretrained: str | None = None,
    ) -> None:
        block, counts = DEPTHS[depth]
        self.small_images = small_images
        self.conv1 = conv(in_channels, 64, 3) if small_images else conv(in_channels, 64, 7, 2)
        self.bn1 = nn.BatchNorm2d(64)
        channels = 64
        for number, count in enumerate(counts):
            width = 64 * 2**number
            setattr(self, f"layer{number + 1}", _stage(block, channels, width, count, stride=1 if number == 0 else 2))
            channels = width * block.expansion
        self.fc = nn.Linear(channels, num_classes)
        _initialise(self, zero_init_residual)
        take_pretrained(self, pretrained)

    layer1: nn.Sequential
    layer2: nn.Sequential
    layer3: nn.Sequential
    layer4: nn.Sequential

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C] -> logits [N, num_classes]."""
        x = self.bn1(self.conv1(x), activation="relu")
        if not self.small_images:
            x = pdl.max_pool(x, 3, stride=2, padding=1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(pdl.global_avg_pool(x))  # type: ignore[no-any-return]


def _stage(block: type[Block], channels: int, width: int, count: int, stride: int) -> nn.Sequential:
    """`count` blocks; the first changes size and channels, with a projection in its shortcut (option B)."""
    out = width * block.expansion
    project = (
        nn.Sequential(conv(channels, out, 1, stride), nn.BatchNorm2d(out)) if stride != 1 or channels != out else None
    )
    return nn.Sequential(
        block(channels, width, stride, project), *(block(out, width, 1, None) for _ in range(count - 1))
    )


def _initialise(net: nn.Module, zero_init_residual: bool) -> None:
    """He et al., ICCV 2015, by fan out; norms start as the identity."""
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        elif zero_init_residual and isinstance(module, BasicBlock | Bottleneck):
            nn.init.zeros_(module.last_norm().get_parameter("weight"))


# -- CIFAR -------------------------------------------------------------------------------------------------------------
class PadShortcut(nn.Module):
    """Every second pixel, with zero channels added on both sides: shortcut A of the paper, without parameters."""

    shown = ("channels",)

    def __init__(self, channels: int) -> None:
        self.channels = channels

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C] -> [N, H / 2, W / 2, channels]."""
        more = self.channels - x.shape[-1]
        return pdl.pad(x[:, ::2, ::2], ((0, 0), (0, 0), (0, 0), (more // 2, more - more // 2)))


class CifarResNet(nn.Module):
    """6 n + 2 layers in three stages of 16, 32 and 64 channels for 32 x 32 images: x [N, H, W, in_channels] -> logits
    [N, num_classes].

    `depth` is 20, 32, 44, 56 or 110 in the paper, any 6 n + 2 here. `shortcut` is A (zero padding, no parameters) or B
    (projection).
    """

    head: ClassVar[str] = "fc"
    stem: ClassVar[str] = "conv1"

    def __init__(
        self,
        depth: Annotated[int, Range(8)] = 20,
        *,
        in_channels: Width = 3,
        num_classes: Width = 10,
        width: Width = 16,
        shortcut: Literal["A", "B"] = "A",
        zero_init_residual: bool = False,
        pretrained: str | None = None,
    ) -> None:
        if (depth - 2) % 6:
            raise UsageError(f"CifarResNet: depth {depth} is not 6 n + 2 (20, 32, 44, 56, 110, ...)")
        self.conv1, self.bn1 = conv(in_channels, width, 3), nn.BatchNorm2d(width)
        n = (depth - 2) // 6
        self.layer1 = _stage(BasicBlock, width, width, n, 1)
        self.layer2 = _stage(BasicBlock, width, 2 * width, n, 2)
        self.layer3 = _stage(BasicBlock, 2 * width, 4 * width, n, 2)
        if shortcut == "A":
            self.layer2[0].downsample = PadShortcut(2 * width)  # type: ignore[assignment]
            self.layer3[0].downsample = PadShortcut(4 * width)  # type: ignore[assignment]
        self.fc = nn.Linear(4 * width, num_classes)
        _initialise(self, zero_init_residual)
        take_pretrained(self, pretrained)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C] -> logits [N, num_classes]."""
        x = self.bn1(self.conv1(x), activation="relu")
        return self.fc(pdl.global_avg_pool(self.layer3(self.layer2(self.layer1(x)))))  # type: ignore[no-any-return]


TASK = "classification"
VARIANTS: dict[str, dict[str, Any]] = {
    **{f"resnet{depth}": {"_target_": "pdl_cv.ResNet", "depth": depth} for depth in DEPTHS},
    **{f"resnet{depth}_cifar": {"_target_": "pdl_cv.CifarResNet", "depth": depth} for depth in (20, 32, 44, 56, 110)},
}


def remap(model: ResNet, state: Mapping[str, Any]) -> dict[str, Any]:
    """A torchvision state dict (arrays by name) in pdl's layouts; the names are the same."""
    return nn.from_torch(model, state)
