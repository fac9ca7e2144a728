"""Feature pyramids: what stands between a backbone's maps and the heads of a detector, and regions read from them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pdl
from pdl import nn
from pdl.errors import UsageError
from pdl.nn.blocks import ConvNorm
from pdl.nn.module import evaluating
from pdl.ops.base import Spec
from pdl.program import trace
from pdl_cv.models.detector import LOOKED_AT, without_classifier


class FeaturePyramid(nn.Module):
    """Maps [N, H / s, W / s, c] of ascending strides -> as many of `channels`, and `extra` ones of every second cell.

    Each map is brought to `channels` by 1 x 1, added to the next coarser one, enlarged, and smoothed by 3 x 3: Lin et
    al., Feature pyramid networks for object detection, CVPR 2017 (arXiv 1612.03144). `norm`: a batch norm behind every
    convolution, as in Li et al., arXiv 2111.11429. Names are torchvision's.
    """

    def __init__(self, in_channels: Sequence[int], channels: int = 256, *, extra: int = 1, norm: bool = False) -> None:
        self.channels, self.extra, self.norm = channels, extra, norm
        self.inner_blocks = nn.ModuleList([_conv(c, channels, 1, norm) for c in in_channels])
        self.layer_blocks = nn.ModuleList([_conv(channels, channels, 3, norm) for _ in in_channels])
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_uniform_(module.weight, 1.0)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    def forward(self, maps: Sequence[pdl.Tensor]) -> list[pdl.Tensor]:
        """Maps of ascending strides -> maps of the same and further strides."""
        inner = [block(x) for block, x in zip(self.inner_blocks, maps, strict=True)]
        for i in reversed(range(len(inner) - 1)):
            inner[i] = inner[i] + pdl.resize(inner[i + 1], inner[i].shape[1:3], mode="nearest")
        found = [block(x) for block, x in zip(self.layer_blocks, inner, strict=True)]
        for _ in range(self.extra):
            found.append(found[-1][:, ::2, ::2])
        return found


def _conv(in_channels: int, channels: int, kernel: int, norm: bool) -> nn.Module:
    if norm:
        return ConvNorm(in_channels, channels, kernel, activation=None)
    return nn.Sequential(nn.Conv2d(in_channels, channels, kernel, padding=kernel // 2))


class Taps(nn.Module):
    """The feature maps behind some modules of a classification net: x [N, H, W, C] -> a list of [N, H / s, W / s, c].

    net        its head is left out
    after      names of the modules, in the order in which they run
    last_conv  keep what a net names so, behind all its maps

    strides   of the maps
    channels  of each
    """

    def __init__(self, net: nn.Module, after: tuple[str, ...], *, last_conv: bool = True) -> None:
        self.net = without_classifier(net, last_conv=last_conv)
        self._maps: list[pdl.Tensor] = []
        for path in after:
            net.get_submodule(path).register_forward_hook(self._keep)
        with evaluating(self):
            maps = self.forward(pdl.zeros(1, LOOKED_AT, LOOKED_AT, 3))
        self.strides = tuple(LOOKED_AT // each.shape[1] for each in maps)
        self.channels = tuple(each.shape[3] for each in maps)

    def _keep(self, module: nn.Module, args: Any, output: Any) -> None:
        self._maps.append(output)

    def forward(self, x: pdl.Tensor) -> list[pdl.Tensor]:
        """x [N, H, W, C] -> the maps."""
        self._maps = []
        self.net(x)
        maps, self._maps = self._maps, []
        return maps


def dilated(net: nn.Module, stride: int) -> nn.Module:
    """A classification net for images of three channels whose last maps have the stride `stride` in place of a larger
    one: convolutions beyond it do not step, and those behind them look as far apart as before (Chen et al., arXiv
    1706.05587, section 3.1). UsageError where a pooling steps beyond it."""
    with evaluating(net):
        program = trace(net, Spec((1, LOOKED_AT, LOOKED_AT, 3), pdl.float32))
    convs = {id(module.weight): module for module in net.modules() if isinstance(module, nn.Conv2d)}
    for node in program.nodes:
        steps = getattr(node.op, "stride", ())
        image = node.inputs[0]
        if not steps or image is None or len(image.spec.shape) != 4:
            continue
        at = LOOKED_AT // image.spec.shape[1]
        own = [convs[id(value.tensor)] for value in node.inputs[1:] if value is not None and id(value.tensor) in convs]
        if at * max(steps) > stride and not own and max(steps) > 1:
            raise UsageError(f"{type(net).__name__}: a pooling goes beyond a stride of {stride}")
        for conv in own:
            if at * max(steps) > stride:
                conv.stride = (1, 1)
            if at > stride:
                rate = at // stride
                conv.dilation = (rate, rate)
                conv.padding = tuple(rate * (size // 2) for size in conv.kernel_size)
    return net


def pyramid_level(regions: pdl.Tensor, *, strides: Sequence[int], canonical: float = 224.0) -> pdl.Tensor:
    """Which map of a feature pyramid a region is read from.    regions [..., 4] (x1, y1, x2, y2) -> int64 [...]

    k = floor(4 + log2(sqrt(width height) / canonical)), no lower than log2(strides[0]) and no higher than
    log2(strides[-1]), counted from the first (Lin et al., arXiv 1612.03144, equation 1): a region of 224 pixels a side
    is read from the map of stride 16.
    """
    lowest, highest = round(math.log2(strides[0])), round(math.log2(strides[-1]))
    sides = pdl.maximum(regions[..., 2:] - regions[..., :2], 0.0)
    area = pdl.maximum(sides[..., 0] * sides[..., 1], 1e-6)
    level = pdl.floor(4 + 1e-6 + pdl.log2(pdl.sqrt(area) / canonical))
    return pdl.clip(level, lowest, highest).astype(pdl.int64) - lowest


def multiscale_roi_align(
    maps: Sequence[pdl.Tensor],
    regions: pdl.Tensor,
    used: pdl.Tensor,
    *,
    strides: Sequence[int],
    size: int,
    ratio: int = 2,
    canonical: float = 224.0,
) -> pdl.Tensor:
    """Features of regions of images, each read from the map of a pyramid that fits its size (`pyramid_level`).
    maps [N, H / stride, W / stride, C], regions [N, R, 4] in pixels of the images -> [N R, size, size, C]

    used     bool [N, R]: the other regions are zeros, and cost nothing
    ratio    samples along each axis of a bin; 0: about one a cell
    Coordinates are those of torchvision's nets: cells have their centres at whole numbers, and regions are at least one
    cell wide.
    """
    n, r = used.shape
    level = pdl.reshape(pyramid_level(regions, strides=strides, canonical=canonical), (n * r,))
    image = pdl.reshape(pdl.where(used, image_numbers(used), -1), (n * r,))
    rois = pdl.reshape(regions, (n * r, 4))
    total: Any = None
    for number, (x, stride) in enumerate(zip(maps, strides, strict=True)):
        index = pdl.where(pdl.equal(level, number), image, -1)  # regions of -1 are zeros
        part = pdl.roi_align(x, rois, index, size=(size, size), scale=1 / stride, ratio=ratio, half_pixel=False)
        total = part if total is None else total + part
    return total  # type: ignore[no-any-return]


def image_numbers(like: pdl.Tensor) -> pdl.Tensor:
    """int64 [N, R] whose row n is n everywhere; summed up, so that programs of any N have it."""
    return pdl.cumulative_sum(pdl.where(pdl.equal(like, like), 1, 0).astype(pdl.int64), axis=0) - 1


def rows_at(x: pdl.Tensor, index: pdl.Tensor) -> pdl.Tensor:
    """y[n, i] = x[n, index[n, i]], zeros where the index is negative.    x [N, M, ...], index [N, I] -> [N, I, ...]"""
    n, m = x.shape[:2]
    rows = pdl.reshape(pdl.where(index < 0, -1, index + m * image_numbers(index)), (index.size,))
    return pdl.reshape(pdl.segment_take(pdl.reshape(x, (n * m, *x.shape[2:])), rows), (*index.shape, *x.shape[2:]))
