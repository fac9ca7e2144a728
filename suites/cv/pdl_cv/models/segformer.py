"""SegFormer: Xie et al., SegFormer: simple and efficient design for semantic segmentation with transformers, NeurIPS
2021 (arXiv 2105.15203).

Four stages of transformer blocks on overlapping patches of 1/4 to 1/32 of the resolution, without positions, and a
decoder of linear layers. Attention is to keys and values of a coarser grid.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import pdl
from pdl import nn
from pdl.errors import ShapeError
from pdl.hints import Range
from pdl_cv.models.blocks import take_pretrained

Width = Annotated[int, Range(1)]
Rate = Annotated[float, Range(0, below=1)]
STRIDE = 32
EPS = 1e-6


class Plan(NamedTuple):
    """Channels and blocks of the four stages, and channels of the decoder; table 6."""

    channels: tuple[int, int, int, int]
    blocks: tuple[int, int, int, int]
    decoder: int


PLANS = {
    "b0": Plan((32, 64, 160, 256), (2, 2, 2, 2), 256),
    "b1": Plan((64, 128, 320, 512), (2, 2, 2, 2), 256),
    "b2": Plan((64, 128, 320, 512), (3, 4, 6, 3), 768),
}
HEADS, REDUCTIONS = (1, 2, 5, 8), (8, 4, 2, 1)


class Attention(nn.Module):
    """Every place looks at every place of a grid that is `reduction` times as coarse: section 3.1."""

    def __init__(self, dim: int, heads: int, reduction: int) -> None:
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(dim, dim) for _ in range(3))
        self.proj = nn.Linear(dim, dim)
        self.reduction = nn.Conv2d(dim, dim, reduction, stride=reduction) if reduction > 1 else None
        self.norm = nn.LayerNorm(dim, eps=EPS) if reduction > 1 else None

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, dim] -> the same shape."""
        n, h, w, dim = x.shape
        coarse = x if self.reduction is None or self.norm is None else self.norm(self.reduction(x))
        coarse = pdl.reshape(coarse, (n, coarse.shape[1] * coarse.shape[2], dim))
        q = self.query(pdl.reshape(x, (n, h * w, dim)))
        y = pdl.scaled_dot_product_attention(q, self.key(coarse), self.value(coarse), heads=self.heads)
        return self.proj(pdl.reshape(y, (n, h, w, dim)))  # type: ignore[no-any-return]


class MixFFN(nn.Module):
    """Two linear layers with a depthwise 3 x 3 convolution and GELU between, which tell places apart."""

    def __init__(self, dim: int, hidden: int) -> None:
        self.fc1, self.fc2 = nn.Linear(dim, hidden), nn.Linear(hidden, dim)
        self.conv = nn.Conv2d(hidden, hidden, 3, padding=1, groups=hidden)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, dim] -> the same shape."""
        return self.fc2(pdl.gelu(self.conv(self.fc1(x))))  # type: ignore[no-any-return]


class Block(nn.Module):
    """x + attention(norm(x)), then x + ffn(norm(x)); in training each is dropped with probability `drop_path`."""

    def __init__(self, dim: int, heads: int, reduction: int, drop_path: float) -> None:
        self.norm1, self.attn = nn.LayerNorm(dim, eps=EPS), Attention(dim, heads, reduction)
        self.norm2, self.ffn = nn.LayerNorm(dim, eps=EPS), MixFFN(dim, 4 * dim)
        self.drop_path = nn.DropPath(drop_path)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, dim] -> the same shape."""
        x = x + self.drop_path(self.attn(self.norm1(x)))
        return x + self.drop_path(self.ffn(self.norm2(x)))  # type: ignore[no-any-return]


class Stage(nn.Module):
    """Patches that overlap, and blocks on them."""

    def __init__(
        self, in_channels: int, dim: int, heads: int, reduction: int, drops: Sequence[float], kernel: int
    ) -> None:
        stride = (kernel + 1) // 2
        self.patches = nn.Conv2d(in_channels, dim, kernel, stride=stride, padding=kernel // 2)
        self.patch_norm = nn.LayerNorm(dim, eps=EPS)
        self.blocks = nn.Sequential(*(Block(dim, heads, reduction, drop) for drop in drops))
        self.norm = nn.LayerNorm(dim, eps=EPS)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C] -> [N, H / s, W / s, dim], s 4 in the first stage and 2 in the others."""
        return self.norm(self.blocks(self.patch_norm(self.patches(x))))  # type: ignore[no-any-return]


class SegFormer(nn.Module):
    """Images [N, H, W, 3] -> logits [N, H / 4, W / 4, num_classes]; H and W are multiples of 32.

    drop_path   probability that a branch is dropped in training, in the last block; it grows from 0
    pretrained  a name of the hub or a file, with weights of the whole net
    """

    head: ClassVar[str] = "classifier"

    def __init__(
        self,
        size: Literal["b0", "b1", "b2"] = "b0",
        *,
        in_channels: Width = 3,
        num_classes: Width = 150,
        drop_path: Rate = 0.1,
        dropout: Rate = 0.1,
        pretrained: str | None = None,
    ) -> None:
        plan, total = PLANS[size], sum(PLANS[size].blocks)
        drops = [drop_path * i / (total - 1) for i in range(total)]
        stages, before, at = [], in_channels, 0
        for i, (dim, count) in enumerate(zip(plan.channels, plan.blocks, strict=True)):
            stages.append(Stage(before, dim, HEADS[i], REDUCTIONS[i], drops[at : at + count], 3 if i else 7))
            before, at = dim, at + count
        self.stages = nn.ModuleList(stages)
        self.linear = nn.ModuleList([nn.Linear(dim, plan.decoder) for dim in plan.channels])
        self.fuse = nn.Conv2d(len(plan.channels) * plan.decoder, plan.decoder, 1, bias=False)
        self.norm, self.dropout = nn.BatchNorm2d(plan.decoder), nn.Dropout(dropout)
        self.classifier = nn.Conv2d(plan.decoder, num_classes, 1)
        self._initialise()
        take_pretrained(self, pretrained)

    def _initialise(self) -> None:
        """Linear layers N(0, 0.02^2), cut off; convolutions by fan out, as the authors'."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.trunc_normal_(module.weight, std=0.02)
            elif isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            if isinstance(module, nn.Linear | nn.Conv2d) and module.bias is not None:
                nn.init.zeros_(module.bias)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, 3] -> logits [N, H / 4, W / 4, num_classes]."""
        if x.ndim != 4 or x.shape[1] % STRIDE or x.shape[2] % STRIDE:
            raise ShapeError(f"SegFormer: x {x.shape} must be [N, H, W, C] with H and W multiples of {STRIDE}")
        maps = []
        for stage in self.stages:
            x = stage(x)
            maps.append(x)
        size = maps[0].shape[1:3]
        made = [layer(y) for layer, y in zip(self.linear, maps, strict=True)]
        large = [y if y.shape[1:3] == size else pdl.resize(y, size, mode="bilinear") for y in reversed(made)]
        return self.classifier(self.dropout(pdl.relu(self.norm(self.fuse(pdl.concat(large, axis=-1))))))  # type: ignore[no-any-return]


TASK = "segmentation"
VARIANTS: dict[str, dict[str, Any]] = {
    f"segformer_{size}": {"_target_": "pdl_cv.SegFormer", "size": size} for size in PLANS
}
