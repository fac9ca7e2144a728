"""RepVGG: Ding et al., RepVGG: making VGG-style ConvNets great again, CVPR 2021 (arXiv 2101.03697). Names are the
authors'.

Trained, a block is a 3 x 3 convolution, a 1 x 1 convolution and the identity side by side, each with its norm. All
three are linear in evaluation, so `deployed()` adds them up to one 3 x 3 convolution, and that is what exports write.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

import pdl
from pdl import nn
from pdl.hints import Range
from pdl.nn.blocks import initialise
from pdl_cv.models.blocks import merged, take_pretrained

Width = Annotated[int, Range(1)]
Size = Literal["a0", "a1", "a2", "b0", "b1", "b2", "b3", "b1g4", "b2g4", "b3g4"]

#: blocks of the four stages, factors of their widths 64, 128, 256 and 512, and groups of every second layer; table 2
A, B = (2, 4, 14, 1), (4, 6, 16, 1)
SIZES: dict[str, tuple[tuple[int, ...], tuple[float, ...], int]] = {
    "a0": (A, (0.75, 0.75, 0.75, 2.5), 1),
    "a1": (A, (1.0, 1.0, 1.0, 2.5), 1),
    "a2": (A, (1.5, 1.5, 1.5, 2.75), 1),
    "b0": (B, (1.0, 1.0, 1.0, 2.5), 1),
    "b1": (B, (2.0, 2.0, 2.0, 4.0), 1),
    "b1g4": (B, (2.0, 2.0, 2.0, 4.0), 4),
    "b2": (B, (2.5, 2.5, 2.5, 5.0), 1),
    "b2g4": (B, (2.5, 2.5, 2.5, 5.0), 4),
    "b3": (B, (3.0, 3.0, 3.0, 5.0), 1),
    "b3g4": (B, (3.0, 3.0, 3.0, 5.0), 4),
}


class Branch(nn.Module):
    """A convolution and its norm."""

    def __init__(self, in_channels: int, channels: int, kernel: int, *, stride: int, groups: int) -> None:
        padding = kernel // 2
        self.conv = nn.Conv2d(in_channels, channels, kernel, stride=stride, padding=padding, groups=groups, bias=False)
        self.bn = nn.BatchNorm2d(channels)

    def forward(self, x: pdl.Tensor, **fused: Any) -> pdl.Tensor:
        """bn(conv(x)); `fused`: residual and activation, see `BatchNorm2d`."""
        return self.bn(self.conv(x), **fused)  # type: ignore[no-any-return]


class Plain(nn.Module):
    """relu(conv(x)): what a block is deployed as."""

    def __init__(self, conv: nn.Conv2d) -> None:
        self.conv = conv

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C] -> [N, H / stride, W / stride, channels]."""
        return pdl.relu(self.conv(x))


class RepVGGBlock(nn.Module):
    """relu(bn(conv3(x)) + bn(conv1(x)) + bn(x)), the last where shapes allow."""

    def __init__(self, in_channels: int, channels: int, *, stride: int, groups: int) -> None:
        self.rbr_identity = nn.BatchNorm2d(channels) if stride == 1 and in_channels == channels else None
        self.rbr_dense = Branch(in_channels, channels, 3, stride=stride, groups=groups)
        self.rbr_1x1 = Branch(in_channels, channels, 1, stride=stride, groups=groups)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C] -> [N, H / stride, W / stride, channels]."""
        passed = None if self.rbr_identity is None else self.rbr_identity(x)
        small = self.rbr_1x1(x, residual=passed)
        return self.rbr_dense(x, residual=small, activation="relu")  # type: ignore[no-any-return]

    def deployed(self) -> Plain:
        """One 3 x 3 convolution that gives what the block gives in evaluation, summed in float64."""
        dense = self.rbr_dense.conv
        kernel, bias = merged(dense.weight.data, self.rbr_dense.bn)
        small, more = merged(self.rbr_1x1.conv.weight.data, self.rbr_1x1.bn)
        kernel[1, 1] += small[0, 0]
        bias += more
        if self.rbr_identity is not None:
            inside, outputs = kernel.shape[2:]
            identity = np.zeros((inside, outputs))
            identity[np.arange(outputs) % inside, np.arange(outputs)] = 1
            scaled, more = merged(identity, self.rbr_identity)
            kernel[1, 1] += scaled
            bias += more
        sizes = {"stride": dense.stride, "padding": dense.padding, "groups": dense.groups}
        with nn.init.skipped():
            conv = nn.Conv2d(dense.in_channels, dense.out_channels, 3, **sizes)
        conv.load_state_dict({"weight": kernel, "bias": bias})
        return Plain(conv)


class RepVGG(nn.Module):
    """x [N, H, W, in_channels] -> logits [N, num_classes]; table 2.

    `stride` is that of the first block, 2 in the paper, 1 for images of about 32 pixels. `pretrained`: a name of the
    hub or a file.
    """

    head: ClassVar[str] = "linear"
    stem: ClassVar[tuple[str, ...]] = ("stage0.rbr_dense.conv", "stage0.rbr_1x1.conv")

    def __init__(
        self,
        size: Size = "a0",
        *,
        stride: Literal[1, 2] = 2,
        in_channels: Width = 3,
        num_classes: Width = 1000,
        dropout: Annotated[float, Range(0, below=1)] = 0.0,
        pretrained: str | None = None,
    ) -> None:
        counts, widths, groups = SIZES[size]
        channels = min(64, int(64 * widths[0]))
        self.stage0 = RepVGGBlock(in_channels, channels, stride=stride, groups=1)
        number = 1
        for stage, (count, width) in enumerate(zip(counts, widths, strict=True)):
            out, blocks = int(64 * 2**stage * width), []
            for index in range(count):
                split = groups if number % 2 == 0 else 1
                blocks.append(RepVGGBlock(channels, out, stride=1 if index else 2, groups=split))
                channels, number = out, number + 1
            setattr(self, f"stage{stage + 1}", nn.Sequential(*blocks))
        self.dropout = nn.Dropout(dropout)
        self.linear = nn.Linear(channels, num_classes)
        initialise(self)
        take_pretrained(self, pretrained)

    stage1: nn.Sequential
    stage2: nn.Sequential
    stage3: nn.Sequential
    stage4: nn.Sequential

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C] -> logits [N, num_classes]."""
        x = self.stage4(self.stage3(self.stage2(self.stage1(self.stage0(x)))))
        return self.linear(self.dropout(pdl.global_avg_pool(x)))  # type: ignore[no-any-return]


TASK = "classification"
VARIANTS: dict[str, dict[str, Any]] = {f"repvgg_{size}": {"_target_": "pdl_cv.RepVGG", "size": size} for size in SIZES}


def remap(model: RepVGG, state: Mapping[str, Any]) -> dict[str, Any]:
    """A state dict (arrays by name) of the authors' code or of timm, in the form of training, as pdl's."""
    return nn.from_torch(model, {_renamed(name): value for name, value in state.items()})


def _renamed(name: str) -> str:
    """A name of timm's in the authors'; theirs stay as they are."""
    name = re.sub(r"^stages\.(\d+)\.", lambda found: f"stage{int(found[1]) + 1}.", name)
    name = re.sub(r"^stem\.", "stage0.", name)
    name = re.sub(r"\.conv_kxk\.", ".rbr_dense.", name)
    name = re.sub(r"\.conv_1x1\.", ".rbr_1x1.", name)
    name = re.sub(r"\.identity\.", ".rbr_identity.", name)
    return re.sub(r"^head\.fc\.", "linear.", name)
