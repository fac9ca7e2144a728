"""What nets that find lines of text have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

import pdl
from pdl import nn
from pdl.errors import ShapeError
from pdl.nn.blocks import ConvNorm
from pdl_ocr.data.maps import text_maps
from pdl_ocr.steps.boxes import DbBoxes, LineBoxes

STEEPNESS = 50.0  # k of differentiable binarization
INSIDE, BORDER, BINARY = 5.0, 10.0, 1.0  # weights of its losses


class Coding:
    """How lines are told by the maps of a net, and how these are learned.

    step      the step that makes lines of what the net answers, in bundles too
    cell      pixels of the image a side of a cell of the maps
    channels  of what the net answers for each cell
    told      these in words
    """

    step: ClassVar[type[LineBoxes]]
    cell: ClassVar[int]
    channels: ClassVar[int]
    told: ClassVar[str]

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def targets(
        self, polygons: list[np.ndarray], ignored: np.ndarray, size: tuple[int, int], ratio: float
    ) -> np.ndarray:
        """float32 [H / cell, W / cell, K]: what is learned of lines, polygons [P, 2] on an image of `size` (height,
        width), of which some are `ignored` (bool). Map 0 is 1 inside of lines, and map 1 where that is taught.

        ratio  r of DB's shrinking
        """
        raise NotImplementedError(f"{type(self).__name__} must define targets")

    def losses(self, maps: Any, wanted: pdl.Tensor) -> dict[str, pdl.Tensor]:
        """The weighted parts of the loss of a net's `maps`, for targets [N, H / cell, W / cell, K]."""
        raise NotImplementedError(f"{type(self).__name__} must define losses")

    def answer(self, maps: Any) -> pdl.Tensor:
        """[N, H / cell, W / cell, channels]: what the net answers where these are its `maps`."""
        raise NotImplementedError(f"{type(self).__name__} must define answer")

    def arguments(self, settings: Mapping[str, float]) -> dict[str, Any]:
        """The arguments of the step by the settings threshold, score and grow of the task."""
        raise NotImplementedError(f"{type(self).__name__} must define arguments")


class Maps(NamedTuple):
    """Logits [N, H, W, 1]: of being inside of a shrunk line, and of the threshold there."""

    inside: pdl.Tensor
    threshold: pdl.Tensor


class DbCoding(Coding):
    """Shrunk lines, and thresholds around their borders (M. Liao et al., AAAI 2020, arXiv 1911.08947).

    The loss is 5 (BCE(inside) + Dice(inside)) + 10 L1(threshold) + Dice(binary), where binary = sigmoid(50 (inside -
    threshold)): the paper's weights. In place of its search for the hardest pixels all of the page weigh three times as
    much as all of the lines in BCE, and Dice(p, y) = 1 - 2 sum(p y) / (sum(p) + sum(y)) joins it.
    """

    step = DbBoxes
    cell, channels, told = 1, 1, "a probability for each pixel"

    def targets(
        self, polygons: list[np.ndarray], ignored: np.ndarray, size: tuple[int, int], ratio: float
    ) -> np.ndarray:
        return text_maps(polygons, ignored, size, ratio)

    def losses(self, maps: Maps, wanted: pdl.Tensor) -> dict[str, pdl.Tensor]:
        inside, taught, border, near = (wanted[..., i : i + 1] for i in range(4))
        probability, threshold = pdl.sigmoid(maps.inside), pdl.sigmoid(maps.threshold)
        binary = pdl.sigmoid(STEEPNESS * (probability - threshold))
        return {
            "inside": INSIDE * (balanced(maps.inside, inside, taught) + dice(probability, inside, taught)),
            "border": BORDER * (pdl.abs(threshold - border) * near).sum() / (near.sum() + 1.0),
            "binary": BINARY * dice(binary, inside, taught),
        }

    def answer(self, maps: Maps) -> pdl.Tensor:
        return pdl.sigmoid(maps.inside)  # type: ignore[no-any-return]

    def arguments(self, settings: Mapping[str, float]) -> dict[str, Any]:
        return {"threshold": settings["threshold"], "score": settings["score"], "ratio": settings["grow"]}


class TextDetector(nn.Module):
    """Images [N, H, W, C] -> what tells lines of text; `coding` says how it becomes lines and how it is learned: by
    default the probability of each pixel to be inside of a shrunk line, [N, H, W, 1], by differentiable binarization.

    A subclass has `features(x)`, [N, H / 4, W / 4, channels], and two `Head`s: `inside`, and `border`, which training
    alone needs; or it has `maps` and `forward` of its own.
    """

    coding: ClassVar[Coding] = DbCoding()
    inside: nn.Module
    border: nn.Module
    stride: ClassVar[int] = 32
    """Heights and widths of images are multiples of it."""
    tolerance: ClassVar[float] = 1e-5
    """How far a bundle may be from the net, as a share of the largest output."""

    def features(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C] -> [N, H / 4, W / 4, channels]."""
        raise NotImplementedError(f"{type(self).__name__} must define features")

    def check(self, x: pdl.Tensor) -> None:
        """ShapeError for images that the net does not take."""
        name = type(self).__name__
        if x.ndim != 4:
            raise ShapeError(f"{name}: x {x.shape} has {x.ndim} dimensions, expected 4: [N, H, W, C]")
        height, width = x.shape[1:3]
        if height % self.stride or width % self.stride:
            raise ShapeError(
                f"{name}: images are {height} x {width}, expected multiples of {self.stride}: set multiple of "
                "ResizeWithin, or size of the crop"
            )

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C] -> probabilities [N, H, W, 1]."""
        self.check(x)
        return pdl.sigmoid(self.inside(self.features(x)))  # type: ignore[no-any-return]

    def maps(self, x: pdl.Tensor) -> Any:
        """x [N, H, W, C] -> what the loss is of: here the logits of both maps, `Maps`."""
        self.check(x)
        y = self.features(x)
        return Maps(self.inside(y), self.border(y))


class Doubled(nn.Module):
    """A transposed convolution of 2 x 2 with stride 2: x [N, H, W, before] -> [N, 2 H, 2 W, channels]. Its windows do
    not overlap, so it is a product, and numbers put in their places."""

    def __init__(self, before: int, channels: int) -> None:
        self.conv = nn.Conv2d(before, 4 * channels, 1)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, before] -> [N, 2 H, 2 W, channels]."""
        return pdl.depth_to_space(self.conv(x), 2)  # type: ignore[no-any-return]


class Head(nn.Module):
    """A convolution of 3 x 3 to a quarter of the channels, and twice double the size: x [N, H, W, C] -> logits
    [N, 4 H, 4 W, 1].

    merged  whether its norms are part of the convolutions, as in published weights
    """

    def __init__(self, channels: int, *, merged: bool = False) -> None:
        narrow = channels // 4
        plain = nn.Sequential(nn.Conv2d(channels, narrow, 3, padding=1), nn.ReLU())
        self.conv = plain if merged else ConvNorm(channels, narrow, 3)
        self.first, self.second = Doubled(narrow, narrow), Doubled(narrow, 1)
        self.norm = nn.Identity() if merged else nn.BatchNorm2d(narrow)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C] -> logits [N, 4 H, 4 W, 1]."""
        return self.second(pdl.relu(self.norm(self.first(self.conv(x)))))  # type: ignore[no-any-return]


class Pyramid(nn.Module):
    """Features of strides 4, 8, 16 and 32 joined at stride 4 (T.-Y. Lin et al., arXiv 1612.03144, as DB has it): each
    is brought to `channels`, the coarser ones are added to the finer ones, and a quarter of the channels of each is
    laid side by side.

    adaptive  DB++'s fusion (M. Liao et al., arXiv 2202.10304): each scale counts as attention over all of them says
    """

    def __init__(self, before: tuple[int, ...], channels: int, *, adaptive: bool = False) -> None:
        self.lateral = nn.ModuleList(ConvNorm(each, channels, 1) for each in before)
        self.smooth = nn.ModuleList(ConvNorm(channels, channels // 4, 3) for _ in before)
        self.weighing = Weighing(channels) if adaptive else None

    def forward(self, features: tuple[pdl.Tensor, ...]) -> pdl.Tensor:
        """[N, H / 4, W / 4, C4], [N, H / 8, W / 8, C8], ... -> [N, H / 4, W / 4, channels]."""
        joined: list[pdl.Tensor] = []
        for x, lateral in zip(reversed(features), reversed(list(self.lateral)), strict=True):
            y = lateral(x)
            joined.append(y + pdl.resize(joined[-1], scale=2, mode="nearest") if joined else y)
        scales = [
            pdl.resize(smooth(y), scale=2**i, mode="nearest") if i else smooth(y)
            for i, (y, smooth) in enumerate(zip(reversed(joined), self.smooth, strict=True))
        ]
        y = pdl.concat(scales, axis=3)
        return y if self.weighing is None else self.weighing(y)  # type: ignore[no-any-return]


class Weighing(nn.Module):
    """DB++'s adaptive scale fusion: x [N, H, W, 4 c], of four scales, each times its share at each place."""

    def __init__(self, channels: int) -> None:
        narrow = channels // 4
        self.squeeze = nn.Conv2d(channels, narrow, 3, padding=1)
        self.spatial = nn.Sequential(
            nn.Conv2d(1, 1, 3, padding=1, bias=False), nn.ReLU(), nn.Conv2d(1, 1, 1, bias=False), nn.Sigmoid()
        )
        self.share = nn.Sequential(nn.Conv2d(narrow, 4, 1, bias=False), nn.Sigmoid())

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, 4 c] -> the same shape."""
        y = self.squeeze(x)
        shares = self.share(y + self.spatial(y.mean(axis=3, keepdims=True)))
        n, height, width, channels = x.shape
        parts = x.reshape(n, height, width, 4, channels // 4) * pdl.expand_dims(shares, axis=4)
        return parts.reshape(n, height, width, channels)  # type: ignore[no-any-return]


def balanced(logits: pdl.Tensor, wanted: pdl.Tensor, counted: pdl.Tensor) -> pdl.Tensor:
    """The binary cross-entropy of all that counts, of which what is 0 weighs three times as much as what is 1."""
    losses = pdl.softplus(logits) - logits * wanted
    ones, zeros = wanted * counted, (1.0 - wanted) * counted
    return 0.25 * (losses * ones).sum() / (ones.sum() + 1.0) + 0.75 * (losses * zeros).sum() / (zeros.sum() + 1.0)


def dice(probability: pdl.Tensor, wanted: pdl.Tensor, counted: pdl.Tensor) -> pdl.Tensor:
    """1 - 2 sum(p y) / (sum(p) + sum(y)) over all that counts."""
    p, y = probability * counted, wanted * counted
    return 1.0 - 2.0 * (p * y).sum() / (p.sum() + y.sum() + 1e-6)
