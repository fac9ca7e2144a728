"""EfficientNet: Tan & Le, EfficientNet: rethinking model scaling for convolutional neural networks, ICML 2019 (arXiv
1905.11946), and its "lite" variants for integer hardware (no squeeze-and-excite, ReLU6; the authors' TensorFlow code,
tpu/models/official/efficientnet/lite). Names are torchvision's, for the lite variants too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, cast

import pdl
from pdl import nn
from pdl.hints import Range
from pdl.nn.blocks import FUSED, ConvNorm, SqueezeExcite, chain, divisible, initialise
from pdl.nn.fused import Raw, conv_norm
from pdl_cv.models.blocks import take_pretrained

Width = Annotated[int, Range(1)]
Size = Literal["b0", "b1", "b2", "b3", "b4", "b5", "b6", "b7", "lite0", "lite1", "lite2", "lite3", "lite4"]


class Stage(NamedTuple):
    """Blocks of one width: expansion, kernel, stride of the first block, channels and blocks before scaling."""

    expansion: int
    kernel: int
    stride: int
    channels: int
    blocks: int


#: table 1 of the paper
STAGES = [
    Stage(1, 3, 1, 16, 1),
    Stage(6, 3, 2, 24, 2),
    Stage(6, 5, 2, 40, 2),
    Stage(6, 3, 2, 80, 3),
    Stage(6, 5, 1, 112, 3),
    Stage(6, 5, 2, 192, 4),
    Stage(6, 3, 1, 320, 1),
]
#: factors of width and depth, and the dropout before the last layer
SCALES: dict[str, tuple[float, float, float]] = {
    "b0": (1.0, 1.0, 0.2), "b1": (1.0, 1.1, 0.2), "b2": (1.1, 1.2, 0.3), "b3": (1.2, 1.4, 0.3),
    "b4": (1.4, 1.8, 0.4), "b5": (1.6, 2.2, 0.4), "b6": (1.8, 2.6, 0.5), "b7": (2.0, 3.1, 0.5),
    "lite0": (1.0, 1.0, 0.2), "lite1": (1.0, 1.1, 0.2), "lite2": (1.1, 1.2, 0.3), "lite3": (1.2, 1.4, 0.3),
    "lite4": (1.4, 1.8, 0.3),
}  # fmt: skip


class SameConvNorm(ConvNorm):
    """A ConvNorm with TensorFlow's padding "SAME": ceil(n / stride) outputs; of an odd number of rows or columns to pad
    the larger part comes after the image.
    """

    def raw(self, x: pdl.Tensor | Raw) -> Raw:
        """x [N, H, W, C] -> [N, ceil(H / stride), ceil(W / stride), channels], norm and activation left to the next."""
        conv, norm, *rest = self
        assert isinstance(conv, nn.Conv2d)
        assert isinstance(norm, nn.BatchNorm2d)
        sizes = (x.value if isinstance(x, Raw) else x).shape[1:3]
        reach = (rate * (kernel - 1) + 1 for kernel, rate in zip(conv.kernel_size, conv.dilation, strict=True))
        padding = tuple(_same(*each) for each in zip(sizes, reach, conv.stride, strict=True))
        return conv_norm(x, conv, norm, FUSED[type(rest[0] if rest else None)], padding=padding)


def _same(size: int, reach: int, stride: int) -> tuple[int, int]:
    """(before, after) of TensorFlow's "SAME" for one axis, of a kernel over `reach` cells."""
    total = max((-(-size // stride) - 1) * stride + reach - size, 0)
    return total // 2, total - total // 2


class MBConv(nn.Module):
    """Expand by 1 x 1, filter by depthwise, squeeze and excite (not in a lite net), project by 1 x 1 without
    activation; plus x where shapes allow, and then, in training, the branch is dropped with probability `drop_path`.
    """

    def __init__(
        self, in_channels: int, stage: Stage, stride: int, layer: type[ConvNorm], norm: dict[str, Any],
        *, lite: bool, drop_path: float,
    ) -> None:  # fmt: skip
        hidden, act = in_channels * stage.expansion, nn.ReLU6 if lite else nn.SiLU
        parts: dict[str, nn.Module] = {}
        if stage.expansion != 1:
            parts["expand"] = layer(in_channels, hidden, 1, activation=act, **norm)
        parts["filter"] = layer(hidden, hidden, stage.kernel, stride=stride, groups=hidden, activation=act, **norm)
        if not lite:
            parts["squeeze"] = SqueezeExcite(hidden, max(1, in_channels // 4), activation=nn.SiLU, gate=nn.Sigmoid)
        parts["project"] = layer(hidden, stage.channels, 1, activation=None, **norm)
        self.block, self.roles = nn.Sequential(*parts.values()), tuple(parts)
        self.residual = stride == 1 and in_channels == stage.channels
        self.stochastic_depth = nn.DropPath(drop_path)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C] -> [N, H / stride, W / stride, channels]."""
        dropped = self.training and self.stochastic_depth.p > 0
        if self.residual and dropped:
            return x + self.stochastic_depth(chain(self.block, x))  # type: ignore[no-any-return]
        return chain(self.block, x, residual=x if self.residual else None)


class EfficientNet(nn.Module):
    """x [N, H, W, in_channels] -> logits [N, num_classes].

    Made for images of side 224, 240, 260, 300, 380, 456, 528 and 600 (b0 to b7), 224, 240, 260, 280 and 300 (lite0 to
    lite4); others work. `stride` is that of the first convolution, 2 in the paper, 1 for images of about 32 pixels.
    `tensorflow` pads as the authors' code does and takes its norms (eps 0.001), for weights that were trained there.
    `dropout` before the last layer is the paper's where it is None; the probability that a block is skipped in training
    grows from 0 at the first towards `drop_path`. `pretrained`: a name of the hub or a file.
    """

    head: ClassVar[str] = "classifier.1"
    stem: ClassVar[str] = "features.0.0"

    def __init__(
        self,
        size: Size = "b0",
        *,
        stride: Literal[1, 2] = 2,
        tensorflow: bool = False,
        in_channels: Width = 3,
        num_classes: Width = 1000,
        dropout: Annotated[float, Range(0, below=1)] | None = None,
        drop_path: Annotated[float, Range(0, below=1)] = 0.2,
        pretrained: str | None = None,
    ) -> None:
        width, _, usual = SCALES[size]
        lite = size.startswith("lite")
        large = {"eps": 1e-3, "momentum": 0.01}  # the authors' norms; torchvision and timm keep them for b5 to b7 alone
        norm: dict[str, Any] = large if tensorflow or size in ("b5", "b6", "b7") else {}
        layer, act = SameConvNorm if tensorflow else ConvNorm, nn.ReLU6 if lite else nn.SiLU
        stages = _scaled(size)
        channels = 32 if lite else divisible(32 * width)
        layers: list[nn.Module] = [layer(in_channels, channels, stride=stride, activation=act, **norm)]
        number, total = 0, sum(stage.blocks for stage in stages)
        for stage in stages:
            made: list[nn.Module] = []
            for index in range(stage.blocks):
                step, skipped = 1 if index else stage.stride, drop_path * number / total
                made.append(MBConv(channels, stage, step, layer, norm, lite=lite, drop_path=skipped))
                channels, number = stage.channels, number + 1
            layers.append(nn.Sequential(*made))
        last = 1280 if lite else 4 * channels
        self.features = nn.Sequential(*layers, layer(channels, last, 1, activation=act, **norm))
        self.last_conv = f"features.{len(layers)}"
        self.classifier = nn.Sequential(nn.Dropout(usual if dropout is None else dropout), nn.Linear(last, num_classes))
        initialise(self)
        take_pretrained(self, pretrained)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C] -> logits [N, num_classes]."""
        return self.classifier(pdl.global_avg_pool(self.features(x)))  # type: ignore[no-any-return]


def _scaled(size: str) -> list[Stage]:
    """The stages of a size; a lite net keeps the count of the first and last."""
    width, depth, _ = SCALES[size]
    kept = (0, len(STAGES) - 1) if size.startswith("lite") else ()
    counts = [stage.blocks if i in kept else math.ceil(stage.blocks * depth) for i, stage in enumerate(STAGES)]
    return [
        stage._replace(channels=divisible(stage.channels * width), blocks=count)
        for stage, count in zip(STAGES, counts, strict=True)
    ]


TASK = "classification"
VARIANTS: dict[str, dict[str, Any]] = {
    **{f"efficientnet_{size}": {"_target_": "pdl_cv.EfficientNet", "size": size} for size in SCALES},
    **{f"tf_efficientnet_{size}": {"_target_": "pdl_cv.EfficientNet", "size": size, "tensorflow": True}
       for size in SCALES},
}  # fmt: skip

#: names outside the blocks in timm and in the package efficientnet_pytorch: what they are here
_OUTSIDE = {
    "conv_stem": "features.0.0", "bn1": "features.0.1", "conv_head": "features.8.0", "bn2": "features.8.1",
    "classifier": "classifier.1",
    "_conv_stem": "features.0.0", "_bn0": "features.0.1", "_conv_head": "features.8.0", "_bn1": "features.8.1",
    "_fc": "classifier.1",
}  # fmt: skip
_SQUEEZE = ("se.conv_reduce", "se.conv_expand")
#: the two layers of each part of a block: in timm, with expansion and without, and in efficientnet_pytorch
_EXPANDED = {"expand": ("conv_pw", "bn1"), "filter": ("conv_dw", "bn2"), "squeeze": _SQUEEZE,
             "project": ("conv_pwl", "bn3")}  # fmt: skip
_PLAIN = {"filter": ("conv_dw", "bn1"), "squeeze": _SQUEEZE, "project": ("conv_pw", "bn2")}
_EARLY = {"expand": ("_expand_conv", "_bn0"), "filter": ("_depthwise_conv", "_bn1"),
          "squeeze": ("_se_reduce", "_se_expand"), "project": ("_project_conv", "_bn2")}  # fmt: skip


def remap(model: EfficientNet, state: Mapping[str, Any]) -> dict[str, Any]:
    """A state dict (arrays by name) of torchvision, of timm or of the package efficientnet_pytorch (and its like for
    lite nets, efficientnet_lite_pytorch), in pdl's names and layouts.
    """
    names = _foreign(model)
    owners = {name: name.rpartition(".") for name in state}
    renamed = {f"{names.get(owner, owner)}.{kind}": state[name] for name, (owner, _, kind) in owners.items()}
    return nn.from_torch(model, renamed)


def _foreign(model: EfficientNet) -> dict[str, str]:
    """Names of layers in timm and efficientnet_pytorch, and here."""
    names, number = dict(_OUTSIDE), 0
    for stage, blocks in enumerate(list(model.features)[1:-1]):
        for index, block in enumerate(cast(nn.Sequential, blocks)):
            assert isinstance(block, MBConv)
            timm = _EXPANDED if "expand" in block.roles else _PLAIN
            for place, role in enumerate(block.roles):
                own = f"features.{stage + 1}.{index}.block.{place}"
                layers = ("fc1", "fc2") if role == "squeeze" else ("0", "1")
                names |= {f"blocks.{stage}.{index}.{a}": f"{own}.{b}" for a, b in zip(timm[role], layers, strict=True)}
                names |= {f"_blocks.{number}.{a}": f"{own}.{b}" for a, b in zip(_EARLY[role], layers, strict=True)}
            number += 1
    return names
