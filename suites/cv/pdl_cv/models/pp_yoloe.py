"""PP-YOLOE+: Xu et al., PP-YOLOE: an evolved version of YOLO, 2022 (arXiv 2203.16250), in the authors' later form,
whose residual blocks weight their small windows. Names are PaddleDetection's (ppyoloe_plus_crn_*).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, cast

import pdl
from pdl import nn
from pdl.hints import Range
from pdl.nn.blocks import NamedConvNorm
from pdl.nn.fused import finish
from pdl_cv.models.blocks import from_paddle, maxima, merged, substituted, take_pretrained
from pdl_cv.models.detector import Backbone, Selection
from pdl_cv.models.distances import DistanceDetector, Distances, Predictions
from pdl_cv.models.points import flat, points_of, prior_bias

Width = Annotated[int, Range(1)]
Size = Literal["s", "m", "l", "x"]

#: factors of depth and width
SIZES: dict[str, tuple[float, float]] = {"s": (0.33, 0.5), "m": (0.67, 0.75), "l": (1.0, 1.0), "x": (1.33, 1.25)}
#: of the maps, from the top as in PaddleDetection
STRIDES = (32, 16, 8)
#: distances are distributions over 0..16 strides
DISTANCES = Distances(bins=17, margin=0.01)


def conv(in_channels: int, channels: int, kernel: int = 1, *, stride: int = 1) -> NamedConvNorm:
    """Convolution, batch norm and SiLU."""
    return NamedConvNorm(in_channels, channels, kernel, stride=stride, padding=kernel // 2, activation="silu")


class RepVGGBlock(nn.Module):
    """silu(norm(3 x 3) + alpha norm(1 x 1)); alpha is learned where there is one, else 1."""

    def __init__(self, channels: int, *, weighted: bool) -> None:
        self.conv1 = NamedConvNorm(channels, channels, 3, padding=1, activation=None)
        self.conv2 = NamedConvNorm(channels, channels, 1, activation=None)
        self.alpha = nn.Parameter(pdl.ones((1,))) if weighted else None

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C] -> the same shape."""
        small = self.conv2.raw(x)
        if self.alpha is not None:  # in the scale and shift of its norm
            mean, var, scale, shift = small.norm
            assert scale is not None
            assert shift is not None
            small = small._replace(norm=(mean, var, scale * self.alpha, shift * self.alpha))
        return pdl.silu(finish(self.conv1.raw(x), residual=finish(small)))

    def deployed(self) -> PlainBlock:
        """One 3 x 3 convolution that gives what the block gives in evaluation, summed in float64."""
        (weight, bias), (small, more) = (merged(each.conv.weight.data, each.bn) for each in (self.conv1, self.conv2))
        alpha = 1.0 if self.alpha is None else float(self.alpha.data[0])
        weight[1, 1] += alpha * small[0, 0]
        with nn.init.skipped():
            layer = nn.Conv2d(weight.shape[2], weight.shape[3], 3, padding=1)
        layer.load_state_dict({"weight": weight, "bias": bias + alpha * more})
        return PlainBlock(layer)


class PlainBlock(nn.Module):
    """silu(conv(x)): what a block is deployed as."""

    def __init__(self, layer: nn.Conv2d) -> None:
        self.conv = layer

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C] -> the same shape."""
        return pdl.silu(self.conv(x))


class BasicBlock(nn.Module):
    """3 x 3, then a block of 3 x 3 and 1 x 1; plus x with `shortcut`."""

    def __init__(self, channels: int, *, shortcut: bool) -> None:
        self.conv1, self.conv2 = conv(channels, channels, 3), RepVGGBlock(channels, weighted=shortcut)
        self.shortcut = shortcut

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C] -> the same shape."""
        y = self.conv2(self.conv1(x))
        return x + y if self.shortcut else y


class EffectiveSE(nn.Module):
    """Channels scaled by what their means over space say. Lee & Park, arXiv 1911.06667."""

    def __init__(self, channels: int) -> None:
        self.fc = nn.Conv2d(channels, channels, 1)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C] -> the same shape."""
        return x * pdl.hardsigmoid(self.fc(pdl.global_avg_pool(x, keepdims=True)))


class CSPResStage(nn.Module):
    """Half the resolution, then half of the channels through residual blocks."""

    def __init__(self, in_channels: int, channels: int, count: int) -> None:
        middle = (in_channels + channels) // 2
        half = middle // 2
        self.conv_down = conv(in_channels, middle, 3, stride=2)
        self.conv1, self.conv2 = conv(middle, half), conv(middle, half)
        self.blocks = nn.Sequential(*(BasicBlock(half, shortcut=True) for _ in range(count)))
        self.attn, self.conv3 = EffectiveSE(middle), conv(middle, channels)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C] -> [N, H / 2, W / 2, channels]."""
        x = self.conv_down(x)
        both = pdl.concat([self.conv1(x), self.blocks(self.conv2(x))], axis=3)
        return self.conv3(self.attn(both))  # type: ignore[no-any-return]


class CSPRepResNet(nn.Module):
    """The paper's backbone: x [N, H, W, 3] -> maps of strides 8, 16 and 32."""

    strides = (8, 16, 32)

    def __init__(self, depth: float, width: float) -> None:
        channels = [round(base * width) for base in (64, 128, 256, 512, 1024)]
        first = channels[0]
        layers = {
            "conv1": conv(3, first // 2, 3, stride=2),
            "conv2": conv(first // 2, first // 2, 3),
            "conv3": conv(first // 2, first, 3),
        }
        self.stem = nn.Sequential(cast(Any, layers))
        counts = [max(round(base * depth), 1) for base in (3, 6, 6, 3)]
        self.stages = nn.Sequential(
            *(CSPResStage(*sizes) for sizes in zip(channels[:-1], channels[1:], counts, strict=True))
        )
        self.channels = tuple(channels[2:])

    def forward(self, x: pdl.Tensor) -> list[pdl.Tensor]:
        """x [N, H, W, 3] -> maps of strides 8, 16 and 32."""
        maps = [self.stem(x)]
        for stage in self.stages:
            maps.append(stage(maps[-1]))
        return maps[2:]


class SPP(nn.Module):
    """The input and its maxima over windows of 5, 9 and 13 cells."""

    def __init__(self, channels: int) -> None:
        self.conv = conv(4 * channels, channels)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C] -> the same shape."""
        return self.conv(maxima(x))  # type: ignore[no-any-return]


class CSPStage(nn.Module):
    """Half of the channels through blocks, in the middle of which `spp` looks around."""

    def __init__(self, in_channels: int, channels: int, count: int, *, spp: bool = False) -> None:
        half = channels // 2
        layers: dict[str, nn.Module] = {}
        for number in range(count):
            layers[str(number)] = BasicBlock(half, shortcut=False)
            if spp and number == (count - 1) // 2:
                layers["spp"] = SPP(half)
        self.conv1, self.conv2, self.conv3 = conv(in_channels, half), conv(in_channels, half), conv(2 * half, channels)
        self.convs = nn.Sequential(cast(Any, layers))

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C] -> [N, H, W, channels]."""
        return self.conv3(pdl.concat([self.conv1(x), self.convs(self.conv2(x))], axis=3))  # type: ignore[no-any-return]


class CustomCSPPAN(nn.Module):
    """Maps of a backbone at strides 8, 16 and 32 -> maps of strides 32, 16 and 8, down and up again."""

    def __init__(self, in_channels: tuple[int, ...], depth: float, width: float) -> None:
        large, middle, small = self.channels = tuple(round(base * width) for base in (768, 384, 192))
        c3, c4, c5 = in_channels
        count = max(round(3 * depth), 1)
        wide = [(c5, large), (c4 + large // 2, middle), (c3 + middle // 2, small)]
        self.fpn_stages = nn.ModuleList(
            nn.Sequential(CSPStage(*sizes, count, spp=level == 0)) for level, sizes in enumerate(wide)
        )
        self.fpn_routes = nn.ModuleList(conv(channels, channels // 2) for channels in (large, middle))
        self.pan_stages = nn.ModuleList(
            nn.Sequential(CSPStage(*sizes, count)) for sizes in [(large + middle, large), (middle + small, middle)]
        )
        self.pan_routes = nn.ModuleList(conv(channels, channels, 3, stride=2) for channels in (middle, small))

    def forward(self, maps: list[pdl.Tensor]) -> list[pdl.Tensor]:
        """Maps of strides 8, 16 and 32 -> maps of strides 32, 16 and 8."""
        found = [self.fpn_stages[0](maps[2])]
        for level in (1, 2):
            route = pdl.upsample_nearest(self.fpn_routes[level - 1](found[-1]), 2)
            found.append(self.fpn_stages[level](pdl.concat([route, maps[2 - level]], axis=3)))
        for level in (1, 0):
            route = self.pan_routes[level](found[level + 1])
            found[level] = self.pan_stages[level](pdl.concat([route, found[level]], axis=3))
        return found


class Gate(nn.Module):
    """Channels scaled by what their means over space say, then 1 x 1 with norm and SiLU."""

    def __init__(self, channels: int) -> None:
        self.fc, self.conv = nn.Conv2d(channels, channels, 1), conv(channels, channels)
        nn.init.normal_(self.fc.weight, std=0.001)

    def forward(self, x: pdl.Tensor, mean: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C], its mean over space [N, 1, 1, C] -> the shape of x."""
        return self.conv(x * pdl.sigmoid(self.fc(mean)))  # type: ignore[no-any-return]


class PPYOLOE(DistanceDetector):
    """Images [N, H, W, 3] -> detections.

    size        s, m, l or x
    backbone    a net of pdl_cv's within `Backbone`, with maps of strides 8, 16 and 32; the paper's where there is none
    pretrained  a name of the hub or a file
    """

    head: ClassVar[tuple[str, ...]] = ("pred_cls.0", "pred_cls.1", "pred_cls.2")
    selection = Selection(iou=0.7, score=0.01)
    distances = DISTANCES

    def __init__(
        self,
        size: Size = "s",
        *,
        num_classes: Width = 80,
        backbone: Backbone | None = None,
        pretrained: str | None = None,
    ) -> None:
        depth, width = SIZES[size]
        self.num_classes = num_classes
        self.backbone = backbone or CSPRepResNet(depth, width)
        self.neck = CustomCSPPAN(self.backbone.channels, depth, width)
        channels = self.neck.channels
        self.stem_cls, self.stem_reg = (nn.ModuleList(map(Gate, channels)) for _ in range(2))
        self.pred_cls = nn.ModuleList(_last(width, num_classes, prior_bias()) for width in channels)
        self.pred_reg = nn.ModuleList(_last(width, 4 * DISTANCES.bins, 1.0) for width in channels)
        take_pretrained(self, pretrained)

    def predictions(self, images: pdl.Tensor) -> Predictions:
        """Images [N, H, W, 3] -> what the last layers say."""
        classes, distances = [], []
        for level, x in enumerate(self.neck(self.backbone(images))):
            mean = pdl.global_avg_pool(x, keepdims=True)
            classes.append(self.pred_cls[level](self.stem_cls[level](x, mean) + x))
            distances.append(self.pred_reg[level](self.stem_reg[level](x, mean)))
        logits, points = flat(classes), points_of(classes, STRIDES)
        return Predictions(pdl.sigmoid(logits), flat(distances), points, partial(pdl.varifocal_loss, logits))


def _last(in_channels: int, channels: int, bias: float) -> nn.Conv2d:
    """A last layer that says the same everywhere until it is trained."""
    layer = nn.Conv2d(in_channels, channels, 3, padding=1)
    nn.init.zeros_(layer.weight)
    nn.init.constant_(cast(pdl.Tensor, layer.bias), bias)
    return layer


TASK = "detection"
VARIANTS: dict[str, dict[str, Any]] = {
    f"ppyoloe_plus_{size}": {"_target_": "pdl_cv.PPYOLOE", "size": size} for size in SIZES
}


def remap(model: PPYOLOE, state: Mapping[str, Any]) -> dict[str, Any]:
    """A state dict (arrays by name) of PaddleDetection in pdl's names and layouts."""
    kept = {name: value for name, value in state.items() if "proj_conv" not in name}
    return nn.from_torch(model, substituted(from_paddle(kept), [(r"^yolo_head\.", "")]))
