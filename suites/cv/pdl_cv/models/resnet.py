"""Residual networks: He, Zhang, Ren, Sun, Deep residual learning for image recognition, CVPR 2016 (arXiv 1512.03385).

`ResNet` is the ImageNet family with torchvision's names and its stride in the 3 x 3 convolution of a bottleneck, and
what came of it: ResNeXt (Xie et al., CVPR 2017, arXiv 1611.05431), wide ResNets (Zagoruyko & Komodakis, BMVC 2016,
arXiv 1605.07146), and with timm's names squeeze-and-excitation (Hu et al., CVPR 2018, arXiv 1709.01507) and ResNet-D or
"vd" (He et al., Bag of tricks for image classification, CVPR 2019, arXiv 1812.01187). `CifarResNet` is the family of
section 4.2 for 32 x 32 images.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import pdl
from pdl import nn
from pdl.errors import UsageError
from pdl.hints import Range
from pdl.nn.blocks import SqueezeExcite, divisible
from pdl_cv.models.blocks import take_pretrained

Width = Annotated[int, Range(1)]


def conv(in_channels: int, channels: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Conv2d:
    """A convolution without bias that keeps the size at stride 1."""
    padding = kernel // 2
    return nn.Conv2d(in_channels, channels, kernel, stride=stride, padding=padding, groups=groups, bias=False)


def squeezed(channels: int) -> SqueezeExcite:
    """The gate of an SE-ResNet, of a sixteenth of the channels inside."""
    return SqueezeExcite(channels, divisible(channels / 16), gate=nn.Sigmoid)


class Style(NamedTuple):
    """What the blocks of a net have in common: groups of the 3 x 3 convolution, channels of each where `width` is 64,
    squeeze-and-excite?, and an average pool instead of a stride in the shortcut?
    """

    groups: int = 1
    width_per_group: int = 64
    squeeze: bool = False
    average: bool = False


PLAIN = Style()


class BasicBlock(nn.Module):
    """relu(shortcut(x) + bn(conv3(relu(bn(conv3(x)))))) of `width` channels."""

    expansion: ClassVar[int] = 1

    def __init__(self, in_channels: int, width: int, stride: int, downsample: nn.Module | None, style: Style) -> None:
        if style.groups != 1 or style.width_per_group != 64:
            raise UsageError("ResNet: groups and width_per_group belong to bottlenecks, to depths of 50 and more")
        self.conv1, self.bn1 = conv(in_channels, width, 3, stride), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = conv(width, width, 3), nn.BatchNorm2d(width)
        self.se = squeezed(width) if style.squeeze else None
        self.downsample = downsample

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C] -> [N, H / stride, W / stride, width]."""
        y = self.conv2(self.bn1(self.conv1(x), activation="relu"))
        return _added(y, self.bn2, self.se, x if self.downsample is None else self.downsample(x))

    def last_norm(self) -> nn.BatchNorm2d:
        """The norm whose scale `zero_init_residual` clears."""
        return self.bn2


class Bottleneck(nn.Module):
    """relu(shortcut(x) + conv1(conv3(conv1(x)))), each with its norm, of 4 `width` channels."""

    expansion: ClassVar[int] = 4

    def __init__(self, in_channels: int, width: int, stride: int, downsample: nn.Module | None, style: Style) -> None:
        inner = width * style.width_per_group // 64 * style.groups
        self.conv1, self.bn1 = conv(in_channels, inner, 1), nn.BatchNorm2d(inner)
        self.conv2, self.bn2 = conv(inner, inner, 3, stride, style.groups), nn.BatchNorm2d(inner)
        self.conv3, self.bn3 = conv(inner, 4 * width, 1), nn.BatchNorm2d(4 * width)
        self.se = squeezed(4 * width) if style.squeeze else None
        self.downsample = downsample

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C] -> [N, H / stride, W / stride, 4 width]."""
        y = self.bn1(self.conv1(x), activation="relu")
        y = self.conv3(self.bn2(self.conv2(y), activation="relu"))
        return _added(y, self.bn3, self.se, x if self.downsample is None else self.downsample(x))

    def last_norm(self) -> nn.BatchNorm2d:
        """The norm whose scale `zero_init_residual` clears."""
        return self.bn3


def _added(y: pdl.Tensor, norm: nn.BatchNorm2d, gate: SqueezeExcite | None, shortcut: pdl.Tensor) -> pdl.Tensor:
    """relu(gate(norm(y)) + shortcut); without a gate in one pass over memory."""
    if gate is None:
        return norm(y, activation="relu", residual=shortcut)  # type: ignore[no-any-return]
    return pdl.relu(gate(norm(y)) + shortcut)


Block = BasicBlock | Bottleneck

DEPTHS: dict[int, tuple[type[Block], tuple[int, int, int, int]]] = {
    18: (BasicBlock, (2, 2, 2, 2)),
    34: (BasicBlock, (3, 4, 6, 3)),
    50: (Bottleneck, (3, 4, 6, 3)),
    101: (Bottleneck, (3, 4, 23, 3)),
    152: (Bottleneck, (3, 8, 36, 3)),
}


class DeepStem(nn.Sequential):
    """Three 3 x 3 convolutions for one 7 x 7: model C of the bag of tricks. The last one's norm stands behind it."""

    def __init__(self, in_channels: int, channels: int, stride: int) -> None:
        half = channels // 2
        first = [conv(in_channels, half, 3, stride), nn.BatchNorm2d(half), nn.ReLU()]
        second = [conv(half, half, 3), nn.BatchNorm2d(half), nn.ReLU()]
        super().__init__(*first, *second, conv(half, channels, 3))

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C] -> [N, H / stride, W / stride, channels]."""
        conv1, norm1, _, conv2, norm2, _, conv3 = self
        return conv3(norm2(conv2(norm1(conv1(x), activation="relu")), activation="relu"))  # type: ignore[no-any-return]


class ResNet(nn.Module):
    """x [N, H, W, in_channels] -> logits [N, num_classes]; table 1 of the paper.

    `groups` and `width_per_group` make ResNeXt of 32 and 4, say, and wide nets of 1 and 128. `squeeze` puts a
    squeeze-and-excite gate behind every block. ResNet-D has a `deep_stem` (three 3 x 3 convolutions) and an
    `average_shortcut` (a pool where the shortcut has a stride). `zero_init_residual` starts every block as the identity
    (Goyal et al., arXiv 1706.02677). `small_images` takes a 3 x 3 stem without stride and without the max pool, for
    images of about 32 pixels. `pretrained`: a name of the hub or a file.
    """

    head: ClassVar[str] = "fc"
    stem: str = "conv1"

    def __init__(
        self,
        depth: Literal[18, 34, 50, 101, 152] = 18,
        *,
        groups: Width = 1,
        width_per_group: Width = 64,
        squeeze: bool = False,
        deep_stem: bool = False,
        average_shortcut: bool = False,
        in_channels: Width = 3,
        num_classes: Width = 1000,
        dropout: Annotated[float, Range(0, below=1)] = 0.0,
        small_images: bool = False,
        zero_init_residual: bool = False,
        pretrained: str | None = None,
    ) -> None:
        block, counts = DEPTHS[depth]
        self.small_images = small_images
        if deep_stem:
            self.stem = "conv1.0"
            self.conv1: nn.Module = DeepStem(in_channels, 64, 1 if small_images else 2)
        else:
            self.conv1 = conv(in_channels, 64, 3) if small_images else conv(in_channels, 64, 7, 2)
        self.bn1 = nn.BatchNorm2d(64)
        channels, style = 64, Style(groups, width_per_group, squeeze, average_shortcut)
        for number, count in enumerate(counts):
            width, stride = 64 * 2**number, 1 if number == 0 else 2
            setattr(self, f"layer{number + 1}", _stage(block, channels, width, count, stride, style))
            channels = width * block.expansion
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(channels, num_classes)
        _initialise(self, zero_init_residual)
        take_pretrained(self, pretrained)

    layer1: nn.Sequential
    layer2: nn.Sequential
    layer3: nn.Sequential
    layer4: nn.Sequential

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C] -> logits [N, num_classes]."""
        x = self.layer4(self.layer3(self.layer2(self.layer1(self._stem(x)))))
        return self.fc(self.dropout(pdl.global_avg_pool(x)))  # type: ignore[no-any-return]

    def blocks(self) -> list[Callable[..., Any]]:
        """What images run through, one after the other, up to the mean over places, each by itself."""
        return [self._stem, *self.layer1, *self.layer2, *self.layer3, *self.layer4]

    def _stem(self, x: pdl.Tensor) -> pdl.Tensor:
        x = self.bn1(self.conv1(x), activation="relu")
        return x if self.small_images else pdl.max_pool(x, 3, stride=2, padding=1)


def _stage(
    block: type[Block], channels: int, width: int, count: int, stride: int, style: Style = PLAIN
) -> nn.Sequential:
    """`count` blocks; the first changes size and channels, with a projection in its shortcut (option B)."""
    out = width * block.expansion
    project = _projection(channels, out, stride, style.average) if stride != 1 or channels != out else None
    first = block(channels, width, stride, project, style)
    return nn.Sequential(first, *(block(out, width, 1, None, style) for _ in range(count - 1)))


def _projection(channels: int, out: int, stride: int, average: bool) -> nn.Sequential:
    """1 x 1 convolution and norm; the stride is the convolution's, or, model D of the bag of tricks, an average's."""
    if not average:
        return nn.Sequential(conv(channels, out, 1, stride), nn.BatchNorm2d(out))
    pool = nn.AvgPool2d(2, ceil_mode=True, count_include_pad=False) if stride == 2 else nn.Identity()
    return nn.Sequential(pool, conv(channels, out, 1), nn.BatchNorm2d(out))


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


def _net(depth: int, **options: Any) -> dict[str, Any]:
    return {"_target_": "pdl_cv.ResNet", "depth": depth, **options}


_D = {"deep_stem": True, "average_shortcut": True}
VARIANTS: dict[str, dict[str, Any]] = {
    **{f"resnet{depth}": _net(depth) for depth in DEPTHS},
    "resnext50_32x4d": _net(50, groups=32, width_per_group=4),
    "resnext101_32x4d": _net(101, groups=32, width_per_group=4),
    "resnext101_32x8d": _net(101, groups=32, width_per_group=8),
    "resnext101_64x4d": _net(101, groups=64, width_per_group=4),
    "wide_resnet50_2": _net(50, width_per_group=128),
    "wide_resnet101_2": _net(101, width_per_group=128),
    **{f"seresnet{depth}": _net(depth, squeeze=True) for depth in DEPTHS},
    "seresnext50_32x4d": _net(50, groups=32, width_per_group=4, squeeze=True),
    "seresnext101_32x4d": _net(101, groups=32, width_per_group=4, squeeze=True),
    "seresnext101_32x8d": _net(101, groups=32, width_per_group=8, squeeze=True),
    **{f"resnet{depth}d": _net(depth, **_D) for depth in DEPTHS},
    **{f"resnet{depth}_vd": _net(depth, **_D) for depth in DEPTHS},  # the name that Paddle's users know
    **{f"resnet{depth}_cifar": {"_target_": "pdl_cv.CifarResNet", "depth": depth} for depth in (20, 32, 44, 56, 110)},
}


def remap(model: ResNet, state: Mapping[str, Any]) -> dict[str, Any]:
    """A state dict (arrays by name) of torchvision or timm in pdl's layouts; the names are the same."""
    return nn.from_torch(model, state)
