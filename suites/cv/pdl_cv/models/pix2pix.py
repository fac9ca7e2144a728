"""pix2pix: Isola, Zhu, Zhou, Efros, Image-to-image translation with conditional adversarial networks, CVPR 2017 (arXiv
1611.07004).

A U-Net makes a picture of another one, and a discriminator looks at patches of both.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any, Literal

import pdl
from pdl import nn
from pdl.errors import ShapeError, UsageError
from pdl.hints import Range

Width = Annotated[int, Range(1)]
Norm = Literal["batch", "instance"]
WIDEST = 8  # times the width: the most channels of a level
STD = 0.02  # of the weights that nets begin with (section 6.2)
DROPPED, DROPOUT = 3, 0.5  # levels of the way up, from the lowest one, that have dropout
KERNEL: dict[str, Any] = {"stride": 2, "padding": 1}


def _norm(norm: Norm, channels: int) -> nn.Module:
    return nn.BatchNorm2d(channels) if norm == "batch" else nn.InstanceNorm(channels)


class Translator(nn.Module):
    """x [N, H, W, in_channels] -> pictures [N, H, W, out_channels] in [-1, 1]; H and W are multiples of 2^depth.

    4 x 4 convolutions of stride 2 on the way down and transposed ones on the way up, each level joined with that of its
    size (section 6.1.1)."""

    def __init__(self, in_channels: int, out_channels: int, width: int, depth: int, norm: Norm) -> None:
        channels = [in_channels, *(width * min(1 << level, WIDEST) for level in range(depth))]
        bias = norm == "instance"  # a norm with a shift of its own needs none
        inner = range(1, depth - 1)  # levels of the way down with a norm: not the first, and not the lowest
        self.down = nn.ModuleList(
            [nn.Conv2d(a, b, 4, bias=bias and i in inner, **KERNEL) for i, (a, b) in enumerate(pairwise(channels))]
        )
        self.down_norms = nn.ModuleList([_norm(norm, channels[i + 1]) for i in inner])
        up = [(channels[i + 1] * (1 if i == depth - 1 else 2), channels[i]) for i in reversed(range(1, depth))]
        self.up = nn.ModuleList([nn.ConvTranspose2d(a, b, 4, bias=bias, **KERNEL) for a, b in up])
        self.up_norms = nn.ModuleList([_norm(norm, b) for _, b in up])
        self.dropout = nn.Dropout(DROPOUT)
        self.last = nn.ConvTranspose2d(channels[1] * (2 if depth > 1 else 1), out_channels, 4, **KERNEL)
        _begin(self)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """See the class."""
        step = 1 << len(self.down)
        if x.ndim != 4 or x.shape[1] % step or x.shape[2] % step:
            raise ShapeError(f"Pix2Pix: x {x.shape} must be [N, H, W, C] with H and W multiples of {step} (2^depth)")
        maps: list[pdl.Tensor] = []
        norms = [None, *self.down_norms, None]
        for down, norm in zip(self.down, norms, strict=False):
            x = down(pdl.leaky_relu(x, negative_slope=0.2) if maps else x)
            x = x if norm is None else norm(x)
            maps.append(x)
        y = maps.pop()
        for level, (up, norm) in enumerate(zip(self.up, self.up_norms, strict=True)):
            y = norm(up(pdl.relu(y)))
            y = self.dropout(y) if level < min(DROPPED, len(self.up) - 1) else y
            y = pdl.concat([maps.pop(), y], axis=-1)
        return pdl.tanh(self.last(pdl.relu(y)))


class PatchDiscriminator(nn.Module):
    """How real patches of pictures [N, H, W, C] look: logits [N, h, w], one for each patch (PatchGAN, section 6.1.2; of
    70 x 70 pixels with three layers of stride 2)."""

    def __init__(self, in_channels: int, width: int, layers: int, norm: Norm) -> None:
        channels = [width * min(1 << level, WIDEST) for level in range(layers + 1)]
        bias = norm == "instance"
        self.first = nn.Conv2d(in_channels, width, 4, **KERNEL)
        pairs = list(pairwise(channels))
        self.convs = nn.ModuleList(
            [nn.Conv2d(a, b, 4, stride=1 if i == layers - 1 else 2, padding=1, bias=bias)
             for i, (a, b) in enumerate(pairs)]
        )  # fmt: skip
        self.norms = nn.ModuleList([_norm(norm, b) for _, b in pairs])
        self.last = nn.Conv2d(channels[-1], 1, 4, stride=1, padding=1)
        _begin(self)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """See the class."""
        x = pdl.leaky_relu(self.first(x), negative_slope=0.2)
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = pdl.leaky_relu(norm(conv(x)), negative_slope=0.2)
        return self.last(x)[..., 0]  # type: ignore[no-any-return]


def _begin(net: nn.Module) -> None:
    for module in net.modules():
        if isinstance(module, nn.Conv2d | nn.ConvTranspose2d):
            nn.init.normal_(module.weight, std=STD)


class Pix2Pix(nn.Module):
    """Pictures of pictures: x [N, H, W, in_channels] -> [N, H, W, out_channels] in [-1, 1]. Its players are
    `discriminator` and `generator`.

    width   channels of the first level of both nets; each below doubles them, up to eight times as many
    depth   halvings of the generator; H and W are multiples of 2^depth (8 in the paper, for 256 x 256)
    layers  of stride 2 in the discriminator: 3 make patches of 70 x 70 pixels, 2 of 34 x 34, 1 of 16 x 16
    norm    batch; or instance, which batches of the paper's (of one picture) come to, and which is the same in use
    l1      weight of the mean distance from the true picture, beside the discriminator's 1 (equation 4); 0: none

    Dropout is the only noise of the training, as in the paper; in use there is none, so that a picture has one answer.
    """

    players = ("discriminator", "generator")

    def __init__(
        self,
        *,
        in_channels: Width = 3,
        out_channels: Width = 3,
        width: Width = 64,
        depth: Annotated[int, Range(2, 10)] = 8,
        layers: Annotated[int, Range(1, 5)] = 3,
        norm: Norm = "batch",
        l1: Annotated[float, Range(0)] = 100.0,
    ) -> None:
        if norm not in ("batch", "instance"):
            raise UsageError(f"Pix2Pix: norm={norm!r} must be batch or instance")
        self.l1 = l1
        self.generator = Translator(in_channels, out_channels, width, depth, norm)
        self.discriminator = PatchDiscriminator(in_channels + out_channels, width, layers, norm)

    def turn(
        self, player: str, images: pdl.Tensor, pictures: pdl.Tensor
    ) -> tuple[pdl.Tensor, dict[str, float | pdl.Tensor]]:
        """The loss of a player for a batch of images [N, H, W, in_channels] and the pictures [N, H, W, out_channels] in
        [-1, 1] that are to be made of them, and its parts. The discriminator learns at half the rate (section 3.3)."""
        made = self.generator(images)
        if player == "generator":
            fooled = pdl.mean(pdl.softplus(-self.discriminator(pdl.concat([images, made], axis=-1))))
            distance = pdl.mean(pdl.abs(made - pictures))
            return fooled + self.l1 * distance, {"fooled": fooled.detach(), "distance": distance.detach()}
        fake = self.discriminator(pdl.concat([images, made.detach()], axis=-1))
        real = self.discriminator(pdl.concat([images, pictures], axis=-1))
        return 0.5 * (pdl.mean(pdl.softplus(-real)) + pdl.mean(pdl.softplus(fake))), {}

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """See the class."""
        return self.generator(x)  # type: ignore[no-any-return]

    def sampler(self) -> nn.Module:
        """What makes pictures."""
        return self.generator


TASK = "image_to_image"
VARIANTS: dict[str, dict[str, Any]] = {"pix2pix": {"_target_": "pdl_cv.Pix2Pix"}}
