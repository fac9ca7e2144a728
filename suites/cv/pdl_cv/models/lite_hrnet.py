"""Lite-HRNet: Yu et al., Lite-HRNet: a lightweight high-resolution network, CVPR 2021 (arXiv 2104.06403).

Branches of 1/4 to 1/32 of the input's resolution run side by side and exchange what they know after every two blocks.
The names of layers are the authors'.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, cast

import pdl
from pdl import nn
from pdl.errors import ShapeError
from pdl.hints import Range
from pdl.nn.blocks import Chain, NamedConvNorm
from pdl_cv.models.blocks import take_pretrained
from pdl_cv.models.shufflenet_v2 import Layers

Width = Annotated[int, Range(1)]


class Plan(NamedTuple):
    """Modules of the three stages, whether their blocks weight channels (or are plain shuffle units), and channels of
    the four branches.
    """

    modules: tuple[int, int, int]
    weighting: bool
    channels: tuple[int, int, int, int]


PLANS = {
    "18": Plan((2, 4, 2), True, (40, 80, 160, 320)),
    "30": Plan((3, 8, 3), True, (40, 80, 160, 320)),
    "naive_18": Plan((2, 4, 2), False, (30, 60, 120, 240)),
    "wider_naive_18": Plan((2, 4, 2), False, (40, 80, 160, 320)),
}
BLOCKS = 2  # of each module
STRIDE = 32  # of the lowest resolution


def pointwise(in_channels: int, channels: int, activation: Literal["relu"] | None = "relu") -> NamedConvNorm:
    """A 1 x 1 convolution, norm and rectifier."""
    return NamedConvNorm(in_channels, channels, 1, activation=activation)


def depthwise(channels: int, stride: int = 1) -> NamedConvNorm:
    """A depthwise 3 x 3 convolution and norm."""
    return NamedConvNorm(channels, channels, 3, stride=stride, padding=1, groups=channels, activation=None)


def halves(x: pdl.Tensor) -> tuple[pdl.Tensor, pdl.Tensor]:
    """The first and the second half of the channels."""
    half = x.shape[-1] // 2
    return x[..., :half], x[..., half:]


def shuffled(left: pdl.Tensor, right: pdl.Tensor) -> pdl.Tensor:
    """Channels that alternate between both."""
    both = pdl.stack([left, right], axis=-1)
    return both.reshape((*both.shape[:-2], 2 * both.shape[-2]))


class Stem(nn.Module):
    """A convolution of stride 2 and a shuffle block of stride 2."""

    def __init__(self, channels: int) -> None:
        half = channels // 2
        self.conv1 = NamedConvNorm(3, channels, 3, stride=2, padding=1)
        self.branch1 = Chain(depthwise(half, 2), pointwise(half, channels - half))
        self.expand_conv, self.depthwise_conv = pointwise(half, channels), depthwise(channels, 2)
        self.linear_conv = pointwise(channels, half)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, 3] -> [N, H / 4, W / 4, channels]."""
        left, right = halves(self.conv1(x))
        return shuffled(self.branch1(left), self.linear_conv(self.depthwise_conv.raw(self.expand_conv.raw(right))))


class Bias(nn.Module):
    """A 1 x 1 convolution with bias under the name `conv`."""

    def __init__(self, in_channels: int, channels: int) -> None:
        self.conv = nn.Conv2d(in_channels, channels, 1)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, in_channels] -> [N, H, W, channels]."""
        return self.conv(x)  # type: ignore[no-any-return]


class SpatialWeighting(nn.Module):
    """x times weights of its channels, computed from their means over space: section 3.3."""

    def __init__(self, channels: int) -> None:
        self.conv1, self.conv2 = Bias(channels, channels // 4), Bias(channels // 4, channels)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, channels] -> the same shape."""
        weights = self.conv2(pdl.relu(self.conv1(pdl.global_avg_pool(x, keepdims=True))))
        return x * pdl.sigmoid(weights)


class CrossResolutionWeighting(nn.Module):
    """Each branch times weights of its channels and places, computed from all branches at the lowest resolution:
    section 3.3.
    """

    def __init__(self, channels: Sequence[int]) -> None:
        total = sum(channels)
        self.channels = tuple(channels)
        self.conv1, self.conv2 = pointwise(total, total // 8), pointwise(total // 8, total, None)

    def forward(self, xs: Sequence[pdl.Tensor]) -> list[pdl.Tensor]:
        """xs, each [N, H / 2^i, W / 2^i, channels[i]] -> the same shapes."""
        lowest = xs[-1].shape[1:3]
        pooled = pdl.concat([*(pdl.adaptive_avg_pool(x, lowest) for x in xs[:-1]), xs[-1]], axis=-1)
        weights = pdl.sigmoid(self.conv2(self.conv1.raw(pooled)))
        parts = pdl.split(weights, self.channels, axis=-1)
        return [
            x * (part if x.shape[1:3] == lowest else pdl.resize(part, x.shape[1:3], mode="nearest"))
            for x, part in zip(xs, parts, strict=True)
        ]


class ConditionalChannelWeighting(nn.Module):
    """A shuffle block without 1 x 1 convolutions: weights take their place. Figure 3 (b)."""

    def __init__(self, channels: Sequence[int]) -> None:
        half = [c // 2 for c in channels]
        self.cross_resolution_weighting = CrossResolutionWeighting(half)
        self.depthwise_convs = nn.ModuleList([depthwise(c) for c in half])
        self.spatial_weighting = nn.ModuleList([SpatialWeighting(c) for c in half])

    def forward(self, xs: Sequence[pdl.Tensor]) -> list[pdl.Tensor]:
        """The branches, in the same shapes."""
        left, right = zip(*map(halves, xs), strict=True)
        weighted = self.cross_resolution_weighting(right)
        layers = zip(left, weighted, self.depthwise_convs, self.spatial_weighting, strict=True)
        return [shuffled(kept, spatial(conv(y))) for kept, y, conv, spatial in layers]


class ShuffleUnit(nn.Module):
    """The block of ShuffleNetV2 at stride 1, whose second half passes 1 x 1, depthwise and 1 x 1: figure 3 (a)."""

    def __init__(self, channels: int) -> None:
        half = channels // 2
        self.branch2 = Chain(pointwise(half, half), depthwise(half), pointwise(half, half))

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, channels] -> the same shape."""
        left, right = halves(x)
        return shuffled(left, self.branch2(right))


def separable(in_channels: int, channels: int, stride: int, *, rectified: bool) -> Layers:
    """A depthwise 3 x 3 and a 1 x 1 convolution, each with its norm, in one flat row."""
    wide = nn.Conv2d(in_channels, in_channels, 3, stride=stride, padding=1, groups=in_channels, bias=False)
    last = [nn.ReLU()] if rectified else []
    return Layers(
        wide,
        nn.BatchNorm2d(in_channels),
        nn.Conv2d(in_channels, channels, 1, bias=False),
        nn.BatchNorm2d(channels),
        *last,
    )


class Module(nn.Module):
    """Two blocks on every branch, then sums over all branches."""

    def __init__(self, channels: Sequence[int], *, weighting: bool) -> None:
        self.weighting = weighting
        if weighting:
            self.layers: nn.ModuleList = nn.ModuleList([ConditionalChannelWeighting(channels) for _ in range(BLOCKS)])
        else:
            self.layers = nn.ModuleList([nn.Sequential(*(ShuffleUnit(c) for _ in range(BLOCKS))) for c in channels])
        count = range(len(channels))
        self.fuse_layers = nn.ModuleList([nn.ModuleList([_fuse(channels, i, j) for j in count]) for i in count])

    def forward(self, xs: Sequence[pdl.Tensor]) -> list[pdl.Tensor]:
        """The branches, in the same shapes."""
        if self.weighting:
            for block in self.layers:
                xs = block(xs)
        else:
            xs = [branch(x) for branch, x in zip(self.layers, xs, strict=True)]
        return self.fused(list(xs))

    def fused(self, xs: list[pdl.Tensor]) -> list[pdl.Tensor]:
        """relu of the sums, as the authors' code computes them, whose weights are published: the highest resolution
        counts twice in every sum, and where it goes to lower ones it is the sum made for it.
        """
        found = []
        for i, row in enumerate(self.fuse_layers):
            layers = list(cast(nn.ModuleList, row))
            total = 2 * layers[0](xs[0])
            for j in range(1, len(xs)):
                y = layers[j](xs[j])
                total = total + (pdl.upsample_nearest(y, 2 ** (j - i)) if j > i else y)
            if i == 0:
                xs[0] = total
            found.append(pdl.relu(total))
        return found


def _fuse(channels: Sequence[int], to: int, source: int) -> nn.Module:
    """What takes branch `source` to the channels (and, from above, to the resolution) of branch `to`."""
    if source == to:
        return nn.Identity()
    ours, theirs = channels[to], channels[source]
    if source > to:
        return Layers(nn.Conv2d(theirs, ours, 1, bias=False), nn.BatchNorm2d(ours))
    first = [separable(theirs, theirs, 2, rectified=True) for _ in range(to - source - 1)]
    return nn.Sequential(*first, separable(theirs, ours, 2, rectified=False))


def _transition(before: Sequence[int], channels: Sequence[int]) -> nn.ModuleList:
    """What takes the branches of one stage to those of the next, which has one more."""
    same = [
        nn.Identity() if c == b else separable(b, c, 1, rectified=True) for b, c in zip(before, channels, strict=False)
    ]
    return nn.ModuleList([*same, nn.Sequential(separable(before[-1], channels[-1], 2, rectified=True))])


class Separable(nn.Module):
    """A depthwise 3 x 3 and a 1 x 1 convolution, as mmcv names them."""

    def __init__(self, in_channels: int, channels: int) -> None:
        self.depthwise_conv, self.pointwise_conv = depthwise(in_channels), pointwise(in_channels, channels)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, in_channels] -> [N, H, W, channels]."""
        return self.pointwise_conv(self.depthwise_conv.raw(x))  # type: ignore[no-any-return]


class IterativeHead(nn.Module):
    """From the lowest resolution upwards: enlarge, add to the next, and convolve."""

    def __init__(self, channels: Sequence[int]) -> None:
        up = list(channels)[::-1]
        self.projects = nn.ModuleList([Separable(c, d) for c, d in zip(up, [*up[1:], up[-1]], strict=True)])

    def forward(self, xs: Sequence[pdl.Tensor]) -> pdl.Tensor:
        """The branches -> [N, H, W, channels[0]], at the highest resolution."""
        y: pdl.Tensor | None = None
        for x, project in zip(reversed(xs), self.projects, strict=True):
            if y is not None:
                x = x + pdl.resize(y, x.shape[1:3], mode="bilinear", align_corners=True)
            y = project(x)
        assert y is not None
        return y


class LiteHRNet(nn.Module):
    """Images [N, H, W, 3] -> heatmaps [N, H / 4, W / 4, num_keypoints]; H and W are multiples of 32.

    `size`: 18 or 30 layers, or the naive nets of table 4, whose blocks are those of ShuffleNetV2. `pretrained`: a name
    of the hub or a file.

    num_keypoints  points of each object
    """

    head: ClassVar[str] = "final_layer"

    def __init__(
        self,
        size: Literal["18", "30", "naive_18", "wider_naive_18"] = "18",
        *,
        num_keypoints: Width = 17,
        pretrained: str | None = None,
    ) -> None:
        plan = PLANS[size]
        self.stem = Stem(32)
        before: Sequence[int] = (32,)
        for stage, count in enumerate(plan.modules):
            channels = plan.channels[: stage + 2]
            setattr(self, f"transition{stage}", _transition(before, channels))
            modules = [Module(channels, weighting=plan.weighting) for _ in range(count)]
            setattr(self, f"stage{stage}", nn.Sequential(*modules))
            before = channels
        self.head_layer = IterativeHead(plan.channels)
        self.final_layer = nn.Conv2d(plan.channels[0], num_keypoints, 1)
        self._initialise()
        take_pretrained(self, pretrained)

    def _initialise(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        nn.init.normal_(self.final_layer.weight, std=0.001)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, 3] -> heatmaps [N, H / 4, W / 4, num_keypoints]."""
        if x.ndim != 4 or x.shape[1] % STRIDE or x.shape[2] % STRIDE:
            raise ShapeError(
                f"{type(self).__name__}: x {x.shape} must be [N, H, W, C] with H and W multiples of {STRIDE}"
            )
        xs: list[pdl.Tensor] = [self.stem(x)]
        for stage in range(3):
            layers = list(getattr(self, f"transition{stage}"))
            inputs = [*xs, xs[-1]]
            xs = [layer(y) for layer, y in zip(layers, inputs, strict=True)]
            xs = getattr(self, f"stage{stage}")(xs)
        return self.final_layer(self.head_layer(xs))  # type: ignore[no-any-return]


TASK = "keypoints"
VARIANTS: dict[str, dict[str, Any]] = {
    f"lite_hrnet_{size}": {"_target_": "pdl_cv.LiteHRNet", "size": size} for size in PLANS
}


def remap(model: LiteHRNet, state: Mapping[str, Any]) -> dict[str, Any]:
    """A state dict (arrays by name) of the authors or of mmpose in pdl's names and layouts."""
    prefix = re.compile(r"^(backbone|keypoint_head|head)\.")
    return nn.from_torch(model, {prefix.sub("", name): value for name, value in state.items()})
