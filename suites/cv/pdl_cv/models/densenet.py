"""DenseNet: Huang, Liu, van der Maaten, Weinberger, Densely connected convolutional networks, CVPR 2017 (arXiv
1608.06993), with bottlenecks and compression (DenseNet-BC). Names are torchvision's.

Every layer reads all maps made before it in its block, so what each of them costs is paid as many times as there are
layers behind it. Here the statistics of a map are taken once, while the convolution that makes it stores it, and every
norm that reads it puts those of its inputs together; the norms themselves happen while the next convolution loads
(`pdl.nn.fused`), so nothing normalised is kept for the gradient (Pleiss et al., arXiv 1707.06990). What remains per
layer is one copy of the maps behind one another.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import pdl
from pdl import nn
from pdl.hints import Range
from pdl.nn.blocks import require_size
from pdl.nn.fused import Raw, conv_norm, finish
from pdl_cv.models.blocks import take_pretrained

Width = Annotated[int, Range(1)]

#: growth, layers of the four blocks, and channels of the stem; table 1
DEPTHS: dict[int, tuple[int, tuple[int, int, int, int], int]] = {
    121: (32, (6, 12, 24, 16), 64),
    161: (48, (6, 12, 36, 24), 96),
    169: (32, (6, 12, 32, 32), 64),
    201: (32, (6, 12, 48, 32), 64),
}
BOTTLENECK = 4


class Maps(NamedTuple):
    """Maps [N, H, W, C], with the mean and the biased variance of each channel where they are known."""

    value: pdl.Tensor
    mean: pdl.Tensor | None = None
    var: pdl.Tensor | None = None


def normed(maps: Sequence[Maps], norm: nn.BatchNorm2d) -> Raw:
    """All maps one after the other, with a norm and a rectifier left to the reader."""
    value = maps[0].value if len(maps) == 1 else pdl.concat([each.value for each in maps], axis=-1)
    mean: pdl.Tensor
    var: pdl.Tensor
    if not norm.training and norm.running_mean is not None and norm.running_var is not None:
        mean, var = norm.running_mean, norm.running_var
    else:
        moments = [_moments(each) for each in maps]
        mean, var = (pdl.concat(list(each)) for each in zip(*moments, strict=True))
        if norm.training:
            mean, var = norm.track(mean, var, value.size // value.shape[-1])
    return Raw(value, (mean, var, norm.weight, norm.bias), norm.eps, "relu")


def _moments(maps: Maps) -> tuple[pdl.Tensor, pdl.Tensor]:
    if maps.mean is not None and maps.var is not None:
        return maps.mean, maps.var
    wide = pdl.astype(maps.value, pdl.float32) if maps.value.dtype == pdl.bfloat16 else maps.value
    return pdl.mean(wide, axis=(0, 1, 2)), pdl.var(wide, axis=(0, 1, 2))


class DenseLayer(nn.Module):
    """`growth` new maps from all before: norm, 1 x 1 to 4 growth channels, norm, 3 x 3."""

    def __init__(self, in_channels: int, growth: int, dropout: float) -> None:
        width = BOTTLENECK * growth
        self.norm1, self.conv1 = nn.BatchNorm2d(in_channels), nn.Conv2d(in_channels, width, 1, bias=False)
        self.norm2, self.conv2 = nn.BatchNorm2d(width), nn.Conv2d(width, growth, 3, padding=1, bias=False)
        self.dropout = nn.Dropout(dropout)

    def forward(self, maps: Sequence[Maps]) -> Maps:
        """Maps of one size -> `growth` maps of that size."""
        raw = conv_norm(normed(maps, self.norm1), self.conv1, self.norm2, "relu")
        live = self.training
        made = pdl.norm_conv(
            raw.value,
            self.conv2.weight,
            norm=raw.norm,
            eps=raw.eps,
            activation=raw.activation,
            padding=1,
            statistics=live,
        )
        if self.dropout.p > 0:
            return Maps(self.dropout(made[0] if live else made))
        return Maps(*made) if live else Maps(made)


class DenseBlock(nn.Module):
    """Layers denselayer1, denselayer2, ..., each of which reads the input and what all before it made."""

    def __init__(self, in_channels: int, layers: int, growth: int, dropout: float) -> None:
        for number in range(layers):
            self.add_module(f"denselayer{number + 1}", DenseLayer(in_channels + number * growth, growth, dropout))

    def forward(self, x: pdl.Tensor) -> list[Maps]:
        """x [N, H, W, C] -> maps of C + layers growth channels in all."""
        first = Maps(x)
        maps = [Maps(x, *_moments(first)) if self.training else first]
        for layer in self.children():
            maps.append(layer(maps))
        return maps


class Transition(nn.Module):
    """Norm, 1 x 1 to half of the channels, and the mean over 2 x 2."""

    def __init__(self, in_channels: int) -> None:
        self.norm, self.conv = nn.BatchNorm2d(in_channels), nn.Conv2d(in_channels, in_channels // 2, 1, bias=False)

    def forward(self, maps: Sequence[Maps]) -> pdl.Tensor:
        """Maps of C channels in all -> [N, H / 2, W / 2, C / 2]."""
        raw = normed(maps, self.norm)
        y = pdl.norm_conv(
            raw.value, self.conv.weight, norm=raw.norm, eps=raw.eps, activation=raw.activation, statistics=False
        )
        return pdl.avg_pool(y, 2)


class Features(nn.Module):
    """x [N, H, W, in_channels] -> the maps of the last block, with the last norm left to the reader."""

    def __init__(
        self, growth: int, layers: Sequence[int], channels: int, in_channels: int, dropout: float, small: bool
    ) -> None:
        self.small = small
        self.conv0 = nn.Conv2d(
            in_channels, channels, 3 if small else 7, stride=1 if small else 2, padding=1 if small else 3, bias=False
        )
        self.norm0 = nn.BatchNorm2d(channels)
        for number, count in enumerate(layers, start=1):
            self.add_module(f"denseblock{number}", DenseBlock(channels, count, growth, dropout))
            channels += count * growth
            if number < len(layers):
                self.add_module(f"transition{number}", Transition(channels))
                channels //= 2
        self.norm5 = nn.BatchNorm2d(channels)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C] -> rectified maps [N, H', W', C']."""
        x = finish(conv_norm(x, self.conv0, self.norm0, "relu"))
        if not self.small:
            x = pdl.max_pool(x, 3, stride=2, padding=1)
        maps: list[Maps] = []
        for name, module in self.named_children():
            if name.startswith("denseblock"):
                maps = module(x)
            elif name.startswith("transition"):
                x = module(maps)
        return finish(normed(maps, self.norm5))


class DenseNet(nn.Module):
    """x [N, H, W, in_channels] -> logits [N, num_classes]; table 1 of the paper.

    `small_images` replaces the stem (7 x 7 stride 2, max pool) by one 3 x 3 convolution, for images of about 32 pixels;
    otherwise H and W are at least 29. `dropout` is applied to the new maps of every layer. `pretrained`: a name of the
    hub or a file.
    """

    head: ClassVar[str] = "classifier"
    stem: ClassVar[str] = "features.conv0"

    def __init__(
        self,
        depth: Literal[121, 161, 169, 201] = 121,
        *,
        in_channels: Width = 3,
        num_classes: Width = 1000,
        small_images: bool = False,
        dropout: Annotated[float, Range(0, below=1)] = 0.0,
        pretrained: str | None = None,
    ) -> None:
        growth, layers, channels = DEPTHS[depth]
        self.least = 8 if small_images else 29
        self.features = Features(growth, layers, channels, in_channels, dropout, small_images)
        self.classifier = nn.Linear(self.features.norm5.num_features, num_classes)
        _initialise(self)
        take_pretrained(self, pretrained)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C] -> logits [N, num_classes]."""
        require_size(self, x, self.least)
        return self.classifier(pdl.global_avg_pool(self.features(x)))  # type: ignore[no-any-return]


def _initialise(net: DenseNet) -> None:
    """He et al., ICCV 2015, by fan in; the classifier's bias 0."""
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight)
    if net.classifier.bias is not None:
        nn.init.zeros_(net.classifier.bias)


TASK = "classification"
VARIANTS: dict[str, dict[str, Any]] = {
    f"densenet{depth}": {"_target_": "pdl_cv.DenseNet", "depth": depth} for depth in DEPTHS
}

#: names of the layers in the published checkpoints, which have dots that module names no longer take
OLD = re.compile(r"(.*denselayer\d+\.(?:norm|conv))\.([12]\..*)")


def remap(model: DenseNet, state: Mapping[str, Any]) -> dict[str, Any]:
    """A torchvision state dict (arrays by name) in pdl's layouts, of the published files too, whose names are older."""
    return nn.from_torch(model, {OLD.sub(r"\1\2", name): value for name, value in state.items()})
