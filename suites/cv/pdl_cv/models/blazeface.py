"""BlazeFace: Bazarevsky et al., BlazeFace: sub-millisecond neural face detection on mobile GPUs, CVPR workshop 2019
(arXiv 1907.05047), as PaddleDetection defines it: its blocks with norms, square boxes of fixed sides on the maps of
strides 8 and 16, and the losses of SSD.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np

import pdl
from pdl import nn
from pdl.dtype import Array
from pdl.hints import Range
from pdl.nn.blocks import NamedConvNorm, chain
from pdl_cv.models.blocks import from_paddle, substituted, take_pretrained
from pdl_cv.models.detector import Selection
from pdl_cv.models.ssd import SSD, Predictions

Width = Annotated[int, Range(1)]
Above = Annotated[float, Range(above=0)]
STRIDES = (8, 16)
SELECTION = Selection(iou=0.3, score=0.01, most=750)
#: channels within and behind the single blocks, and those of the double ones, with their strides: section 3.2
SINGLE = ((24, 1), (24, 1), (48, 2), (48, 1), (48, 1))
DOUBLE = ((24, 96, 2), (24, 96, 1), (24, 96, 1), (24, 96, 2), (24, 96, 1), (24, 96, 1))


def depthwise(channels: int, stride: int = 1) -> NamedConvNorm:
    """5 x 5 of each channel, norm and rectifier."""
    return NamedConvNorm(channels, channels, 5, stride=stride, padding=2, groups=channels)


class BlazeBlock(nn.Module):
    """relu(shortcut(x) + pointwise(depthwise(x))), once or, with `inner` channels between, twice; figure 1."""

    def __init__(self, in_channels: int, channels: int, stride: int, inner: int | None = None) -> None:
        self.dw = depthwise(in_channels, stride)
        self.pw = NamedConvNorm(in_channels, inner or channels, 1, activation=None)
        self.dw2 = None if inner is None else depthwise(inner)
        self.pw2 = None if inner is None else NamedConvNorm(inner, channels, 1)
        self.shortcut = NamedConvNorm(in_channels, channels, 1) if stride > 1 else None

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C] -> [N, H / stride, W / stride, channels]."""
        layers = [layer for layer in (self.dw, self.pw, self.dw2, self.pw2) if layer is not None]
        short = x if self.shortcut is None else self.shortcut(pdl.max_pool(x, 2, stride=2, ceil_mode=True))
        return pdl.relu(chain(layers, x) + short)


class BlazeNet(nn.Module):
    """Images -> maps of strides 8 and 16, 96 channels each."""

    channels = (96, 96)

    def __init__(self) -> None:
        self.conv1 = NamedConvNorm(3, 24, 3, stride=2, padding=1)
        width, blocks = 24, []
        for channels, stride in SINGLE:
            blocks.append(BlazeBlock(width, channels, stride))
            width = channels
        for inner, channels, stride in DOUBLE:
            blocks.append(BlazeBlock(width, channels, stride, inner))
            width = channels
        self.blocks = nn.ModuleList(blocks)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: pdl.Tensor) -> list[pdl.Tensor]:
        """x [N, H, W, 3] -> [N, H / 8, W / 8, 96] and [N, H / 16, W / 16, 96]."""
        x, found = self.conv1(x), []
        for block in self.blocks:
            x = block(x)
            found.append(x)
        return [found[-4], found[-1]]


class BlazeFace(SSD):
    """Images [N, H, W, 3] -> boxes of faces (or of `num_classes` classes); H and W are multiples of 16.

    sides   of the square boxes around each cell of both maps, in pixels of the net's input
    """

    stride = 16

    def __init__(
        self,
        *,
        num_classes: Width = 1,
        sides: tuple[tuple[Above, ...], tuple[Above, ...]] = ((16, 24), (32, 48, 64, 80, 96, 128)),
        selection: Selection = SELECTION,
        pretrained: str | None = None,
    ) -> None:
        self.backbone = BlazeNet()
        self.num_classes, self.sides, self.selection = num_classes, sides, selection
        widths = list(zip(self.backbone.channels, map(len, sides), strict=True))
        self.classes = nn.ModuleList([nn.Conv2d(c, a * (num_classes + 1), 3, padding=1) for c, a in widths])
        self.boxes = nn.ModuleList([nn.Conv2d(c, 4 * a, 3, padding=1) for c, a in widths])
        for layer in (*self.classes, *self.boxes):
            nn.init.xavier_uniform_(layer.weight)  # type: ignore[arg-type]
            nn.init.zeros_(layer.get_parameter("bias"))
        self.head = tuple(f"classes.{i}" for i in range(len(sides)))
        take_pretrained(self, pretrained)

    def predictions(self, images: pdl.Tensor) -> Predictions:
        """Images [N, H, W, 3] -> what the last layers say; the default boxes are squares."""
        maps, n = self.backbone(images), images.shape[0]
        logits = [layer(x).reshape((n, -1, self.num_classes + 1)) for layer, x in zip(self.classes, maps, strict=True)]
        shifts = [layer(x).reshape((n, -1, 4)) for layer, x in zip(self.boxes, maps, strict=True)]
        cells = [(int(x.shape[1]), int(x.shape[2])) for x in maps]
        anchors = squares(cells, STRIDES, self.sides)
        return Predictions(anchors, pdl.concat(logits, axis=1), pdl.concat(shifts, axis=1))


def squares(cells: Sequence[tuple[int, int]], strides: Sequence[int], sides: Sequence[Sequence[float]]) -> Array:
    """Squares around the middles of the cells of maps: float32 [A, 4], in order of maps, rows, columns and sides."""
    found = []
    for (rows, columns), stride, each in zip(cells, strides, sides, strict=True):
        x, y = np.meshgrid((np.arange(columns) + 0.5) * stride, (np.arange(rows) + 0.5) * stride)
        middle, half = np.stack([x, y], axis=-1)[..., None, :], np.array(each)[:, None] / 2
        found.append(np.concatenate([middle - half, middle + half], axis=-1).reshape(-1, 4))
    return np.concatenate(found).astype(np.float32)


TASK = "detection"
VARIANTS: dict[str, dict[str, Any]] = {"blazeface": {"_target_": "pdl_cv.BlazeFace"}}


def remap(model: BlazeFace, state: Mapping[str, Any]) -> dict[str, Any]:
    """A state dict (arrays by name) of PaddleDetection in pdl's names and layouts; its background is the last class."""
    names = [
        (r"^backbone\.blaze_(\d+)\.", lambda found: f"backbone.blocks.{found[1]}."),
        (r"^backbone\.double_blaze_(\d+)\.", lambda found: f"backbone.blocks.{int(found[1]) + len(SINGLE)}."),
        (r"\.(?:double_)?blaze_\d+1_dw\.", ".dw."), (r"\.(?:double_)?blaze_\d+2_dw\.", ".dw2."),
        (r"\.(?:double_)?blaze_\d+_shortcut_conv\.", ".shortcut."),
        (r"\.conv_pw(2?)\.", r".pw\1."), (r"\._conv\.", ".conv."), (r"\._batch_norm\.", ".bn."),
        (r"^blaze_head\.scores(\d)\.", r"classes.\1."), (r"^blaze_head\.boxes(\d)\.", r"boxes.\1."),
    ]  # fmt: skip
    renamed = substituted(from_paddle(state), names)
    for name in [each for each in renamed if each.startswith("classes.")]:
        value = np.asarray(renamed[name])
        by_class = value.reshape(-1, model.num_classes + 1, *value.shape[1:])
        renamed[name] = np.roll(by_class, 1, axis=1).reshape(value.shape)
    return nn.from_torch(model, renamed)
