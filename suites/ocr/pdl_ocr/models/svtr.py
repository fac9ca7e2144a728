"""SVTR: Du et al., SVTR: scene text recognition with a single visual model, 2022 (arXiv 2205.00159)."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import numpy as np

import pdl
from pdl import nn
from pdl.errors import ConfigError
from pdl.hints import Range
from pdl.nn.blocks import ConvNorm, chain
from pdl_ocr.models.recogniser import Recogniser, columns

Width = Annotated[int, Range(1)]
Rate = Annotated[float, Range(0, below=1)]
HEIGHT = 32
WINDOW = (7, 11)  # rows and columns that local mixing sees

#: channels, blocks and heads of the three stages, how many of all blocks mix locally, and the width of the answer:
#: table 1 of the paper
SIZES: dict[str, dict[str, Any]] = {
    "tiny": {"dims": (64, 128, 256), "depths": (3, 6, 3), "heads": (2, 4, 8), "local": 6, "out": 192},
    "small": {"dims": (96, 192, 256), "depths": (3, 6, 6), "heads": (3, 6, 8), "local": 8, "out": 192},
    "base": {"dims": (128, 256, 384), "depths": (3, 6, 9), "heads": (4, 8, 12), "local": 8, "out": 256},
    "large": {"dims": (192, 256, 512), "depths": (3, 9, 9), "heads": (6, 8, 16), "local": 10, "out": 384},
}


def local(height: int, width: int) -> np.ndarray:
    """bool [height width, height width]: which cells of a grid, row by row, lie in the window around each."""
    rows, cols = np.divmod(np.arange(height * width), width)
    near = np.abs(rows[:, None] - rows) <= WINDOW[0] // 2
    found: np.ndarray = near & (np.abs(cols[:, None] - cols) <= WINDOW[1] // 2)
    return found


class Stage(nn.Module):
    """Mixing blocks over a grid of `height` rows, then half as many rows of `after` channels (None: the last stage)."""

    def __init__(
        self, dim: int, after: int | None, heads: int, kinds: list[bool], grid: tuple[int, int], dropout: float
    ) -> None:
        self.grid, self.kinds = grid, kinds
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(
                dim, heads, dim_feedforward=4 * dim, dropout=dropout, activation="gelu", norm_first=True
            )
            for _ in kinds
        )
        self.mask = nn.Buffer(local(*grid)) if any(kinds) else None
        self.merge = None if after is None else nn.Conv2d(dim, after, 3, stride=(2, 1), padding=1)
        self.norm = None if after is None else nn.LayerNorm(after)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, h, w, dim] -> [N, h / 2, w, after]."""
        n, (h, w) = x.shape[0], self.grid
        y = x.reshape(n, h * w, x.shape[3])
        for block, near in zip(self.blocks, self.kinds, strict=True):
            y = block(y, mask=self.mask if near else None)
        y = y.reshape(n, h, w, x.shape[3])
        return y if self.merge is None else self.norm(self.merge(y))  # type: ignore[misc,no-any-return]


class SVTR(Recogniser):
    """Images of lines [N, 32, image_width, in_channels] -> logits [N, image_width / 4, num_classes]: patches of 4 x 4
    pixels, blocks of local and global attention in three stages that each halve the height, the mean over the rows.

    size        tiny, small, base or large: table 1 of the paper
    image_width  the width that all images have: positions are learned
    pretrained  a run, a file or a name of the hub
    """

    head: ClassVar[str] = "classifier"
    stride = 4

    def __init__(
        self,
        size: Literal["tiny", "small", "base", "large"] = "tiny",
        *,
        image_width: Annotated[int, Range(16)] = 100,
        dropout: Rate = 0.1,
        in_channels: Width = 3,
        num_classes: Annotated[int, Range(2)] = 37,
        pretrained: str | None = None,
    ) -> None:
        if image_width % self.stride:
            raise ConfigError(f"SVTR: image_width={image_width} must be a multiple of {self.stride}")
        table = SIZES[size]
        dims, depths = table["dims"], table["depths"]
        self.width = image_width
        self.patches = nn.Sequential(
            ConvNorm(in_channels, dims[0] // 2, 3, stride=2, activation=None),
            nn.GELU(),
            ConvNorm(dims[0] // 2, dims[0], 3, stride=2, activation=None),
            nn.GELU(),
        )
        grid = (HEIGHT // 4, image_width // 4)
        self.positions = nn.Parameter(pdl.zeros((1, *grid, dims[0])))
        nn.init.trunc_normal_(self.positions, std=0.02)
        self.dropout = nn.Dropout(dropout)
        stages, done = [], 0
        for i, (dim, depth, heads) in enumerate(zip(dims, depths, table["heads"], strict=True)):
            kinds = [done + k < table["local"] for k in range(depth)]
            after = dims[i + 1] if i + 1 < len(dims) else None
            stages.append(Stage(dim, after, heads, kinds, (grid[0] >> i, grid[1]), dropout))
            done += depth
        self.stages = nn.ModuleList(stages)
        self.norm = nn.LayerNorm(dims[-1])
        self.last = nn.Linear(dims[-1], table["out"])
        self.classifier = nn.Linear(table["out"], num_classes)
        if pretrained is not None:
            from pdl.hub import load_pretrained

            load_pretrained(self, pretrained)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, 32, image_width, C] -> logits [N, image_width / 4, num_classes]."""
        self.check(x)
        y = self.dropout(chain(self.patches, x) + self.positions)
        for stage in self.stages:
            y = stage(y)
        y = self.dropout(pdl.hardswish(self.last(columns(self.norm(y)))))
        return self.classifier(y)  # type: ignore[no-any-return]


TASK = "text_recognition"
VARIANTS = {f"svtr_{size}": {"_target_": "pdl_ocr.SVTR", "size": size} for size in SIZES}
