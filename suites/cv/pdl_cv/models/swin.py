"""Swin transformers: Liu et al., Hierarchical vision transformer using shifted windows, ICCV 2021 (arXiv 2103.14030).

Names are torchvision's, but for the last layer, which is `classifier` (there `head`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Annotated, Any, ClassVar

import numpy as np

import pdl
from pdl import nn
from pdl.errors import ShapeError, UsageError
from pdl.hints import Range
from pdl_cv.models.blocks import take_pretrained

Width = Annotated[int, Range(1)]
Rate = Annotated[float, Range(0, below=1)]


@lru_cache(maxsize=8)
def relative_positions(window: int) -> np.ndarray:
    """Row of the table of biases for each pair of a window's places: int64 [window^4]."""
    at = np.stack(np.meshgrid(*[np.arange(window)] * 2, indexing="ij")).reshape(2, -1)
    rows, columns = at[:, :, None] - at[:, None, :] + window - 1
    return (rows * (2 * window - 1) + columns).reshape(-1)  # type: ignore[no-any-return]


@lru_cache(maxsize=64)
def shift_mask(size: tuple[int, int], window: int, shift: tuple[int, int]) -> np.ndarray:
    """0 where two places of a window lie together in the image too, -100 where only the shift has brought them there:
    float32 [windows, 1, window^2, window^2], for images of `size`.
    """
    region = np.zeros(size, np.int64)
    for axis in (0, 1):  # the parts that a roll has not moved, moved, and carried over the edge
        edges = [0, size[axis] - window, size[axis] - shift[axis], size[axis]] if shift[axis] else [0, size[axis]]
        for number, (start, end) in enumerate(pairwise(edges)):
            region[(slice(None),) * axis + (slice(start, end),)] += number * 3**axis
    apart = region.reshape(size[0] // window, window, size[1] // window, window).swapaxes(1, 2).reshape(-1, window**2)
    return np.where(apart[:, None, :, None] == apart[:, None, None, :], 0, -100).astype(np.float32)


class WindowAttention(nn.Module):
    """Attention among the places of each window of `window` x `window`, plus a learned bias for each offset between two
    places and head; with `shift`, windows lie half a window further down and right, and wrap around.
    """

    def __init__(self, dim: int, heads: int, window: int, *, shift: bool, dropout: float) -> None:
        self.dim, self.heads, self.window, self.shift = dim, heads, window, window // 2 if shift else 0
        self.qkv, self.proj, self.drop = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim), nn.Dropout(dropout)
        self.relative_position_bias_table = nn.Parameter(pdl.zeros(((2 * window - 1) ** 2, heads)))

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, dim] -> [N, H, W, dim]; sizes are filled up to whole windows."""
        n, height, width, _ = x.shape
        w = self.window
        more = (-height % w, -width % w)
        size = (height + more[0], width + more[1])
        shift = (
            0 if size[0] <= w else self.shift,
            0 if size[1] <= w else self.shift,
        )  # one window has nothing to shift
        if any(more):
            x = pdl.pad(x, ((0, 0), (0, more[0]), (0, more[1]), (0, 0)))
        if any(shift):
            x = pdl.roll(x, (-shift[0], -shift[1]), axis=(1, 2))
        y = self._attend(self._windows(x, n, size), n, size, shift)
        if any(shift):
            y = pdl.roll(y, shift, axis=(1, 2))
        if any(more):
            y = y[:, :height, :width]
        return self.drop(self.proj(y))  # type: ignore[no-any-return]

    def _windows(self, x: pdl.Tensor, n: int, size: tuple[int, int]) -> pdl.Tensor:
        """[N, H, W, dim] -> [N windows, window^2, dim]."""
        w = self.window
        y = pdl.reshape(x, (n, size[0] // w, w, size[1] // w, w, self.dim))
        count = size[0] // w * (size[1] // w)
        return pdl.reshape(pdl.permute_dims(y, (0, 1, 3, 2, 4, 5)), (n * count, w * w, self.dim))

    def _attend(self, x: pdl.Tensor, n: int, size: tuple[int, int], shift: tuple[int, int]) -> pdl.Tensor:
        """Attention inside windows [N windows, window^2, dim], put together again as [N, H, W, dim]."""
        w, count, mask, qkv = self.window, size[0] // self.window * (size[1] // self.window), self.bias(), self.qkv(x)
        if any(shift):  # each window has a mask of its own
            mask = mask + pdl.tensor(shift_mask(size, w, shift))
            qkv = pdl.reshape(qkv, (n, count, w * w, 3 * self.dim))
        y = pdl.scaled_dot_product_attention(qkv, mask=mask, heads=self.heads)
        y = pdl.reshape(y, (n, size[0] // w, size[1] // w, w, w, self.dim))
        return pdl.reshape(pdl.permute_dims(y, (0, 1, 3, 2, 4, 5)), (n, *size, self.dim))

    def bias(self) -> pdl.Tensor:
        """The relative position bias: [heads, window^2, window^2]."""
        places = self.window**2
        rows = pdl.take(self.relative_position_bias_table, pdl.tensor(relative_positions(self.window)), axis=0)
        return pdl.permute_dims(pdl.reshape(rows, (places, places, self.heads)), (2, 0, 1))


class Block(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x)); in training each is dropped with probability `drop_path`."""

    def __init__(self, dim: int, heads: int, window: int, *, shift: bool, dropout: float, drop_path: float) -> None:
        self.norm1 = nn.LayerNorm(dim)
        self.attn = WindowAttention(dim, heads, window, shift=shift, dropout=dropout)
        self.stochastic_depth = nn.DropPath(drop_path)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(
            nn.Linear(dim, 4 * dim), nn.GELU(), nn.Dropout(dropout), nn.Linear(4 * dim, dim), nn.Dropout(dropout)
        )

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, dim] -> [N, H, W, dim]."""
        x = x + self.stochastic_depth(self.attn(self.norm1(x)))
        return x + self.stochastic_depth(self.mlp(self.norm2(x)))  # type: ignore[no-any-return]


class PatchMerging(nn.Module):
    """Four neighbours side by side, normed, and projected to twice the channels: [N, H, W, dim] -> [N, H / 2, W / 2, 2
    dim], odd sizes filled up.
    """

    def __init__(self, dim: int) -> None:
        self.dim, self.norm, self.reduction = dim, nn.LayerNorm(4 * dim), nn.Linear(4 * dim, 2 * dim, bias=False)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        n, height, width, _ = x.shape
        if height % 2 or width % 2:
            x = pdl.pad(x, ((0, 0), (0, height % 2), (0, width % 2), (0, 0)))
        h, w = (height + 1) // 2, (width + 1) // 2
        y = pdl.permute_dims(pdl.reshape(x, (n, h, 2, w, 2, self.dim)), (0, 1, 3, 4, 2, 5))
        return self.reduction(self.norm(pdl.reshape(y, (n, h, w, 4 * self.dim))))  # type: ignore[no-any-return]


class SwinTransformer(nn.Module):
    """x [N, H, W, in_channels] -> logits [N, num_classes].

    Four stages of `depths` blocks, `dim` channels in the first and twice as many in each further one. Any H and W that
    `patch` divides; windows are filled up. The probability that a branch is dropped in training grows from 0 in the
    first block to `drop_path` in the last. `pretrained`: a name of the hub or a file.
    """

    head: ClassVar[str] = "classifier"
    stem: ClassVar[str] = "features.0.0"

    def __init__(
        self,
        dim: Width = 96,
        depths: Sequence[Width] = (2, 2, 6, 2),
        heads: Sequence[Width] = (3, 6, 12, 24),
        *,
        window: Width = 7,
        patch: Width = 4,
        in_channels: Width = 3,
        num_classes: Width = 1000,
        dropout: Rate = 0.0,
        drop_path: Rate = 0.0,
        pretrained: str | None = None,
    ) -> None:
        if len(depths) != len(heads):
            raise UsageError(f"SwinTransformer: depths {list(depths)} and heads {list(heads)} name as many stages")
        self.patch = patch
        rates = iter(np.linspace(0, drop_path, sum(depths)))
        layers: list[nn.Module] = [
            nn.Sequential({"0": nn.Conv2d(in_channels, dim, patch, stride=patch), "2": nn.LayerNorm(dim)})
        ]
        for stage, (depth, count) in enumerate(zip(depths, heads, strict=True)):
            width = dim * 2**stage
            if width % count:
                raise ShapeError(
                    f"SwinTransformer: heads={count} of stage {stage + 1} must divide its {width} channels"
                )
            if stage:
                layers.append(PatchMerging(width // 2))
            blocks = (
                Block(width, count, window, shift=bool(i % 2), dropout=dropout, drop_path=float(next(rates)))
                for i in range(depth)
            )
            layers.append(nn.Sequential(*blocks))
        self.features = nn.Sequential(*layers)
        self.norm = nn.LayerNorm(dim * 2 ** (len(depths) - 1))
        self.classifier = nn.Linear(dim * 2 ** (len(depths) - 1), num_classes)
        _initialise(self)
        take_pretrained(self, pretrained)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C] -> logits [N, num_classes]."""
        if x.shape[1] % self.patch or x.shape[2] % self.patch:
            raise ShapeError(
                f"SwinTransformer: the images are {x.shape[1]} x {x.shape[2]}; sizes must be multiples of "
                f"patch={self.patch}"
            )
        return self.classifier(pdl.global_avg_pool(self.norm(self.features(x))))  # type: ignore[no-any-return]


def _initialise(net: nn.Module) -> None:
    """Linear layers and tables of biases N(0, 0.02^2), biases 0; the patches' convolution by its fan in."""
    for module in net.modules():
        if isinstance(module, WindowAttention):
            nn.init.trunc_normal_(module.relative_position_bias_table, std=0.02)
        elif isinstance(module, nn.Linear):
            nn.init.trunc_normal_(module.weight, std=0.02)
        elif isinstance(module, nn.Conv2d):
            nn.init.lecun_normal_(module.weight)
        if isinstance(module, nn.Linear | nn.Conv2d) and module.bias is not None:
            nn.init.zeros_(module.bias)


TASK = "classification"
VARIANTS: dict[str, dict[str, Any]] = {
    "swin_t": {"_target_": "pdl_cv.SwinTransformer", "drop_path": 0.2},
    "swin_s": {"_target_": "pdl_cv.SwinTransformer", "depths": (2, 2, 18, 2), "drop_path": 0.3},
    "swin_b": {
        "_target_": "pdl_cv.SwinTransformer", "dim": 128, "depths": (2, 2, 18, 2), "heads": (4, 8, 16, 32),
        "drop_path": 0.5,
    },
}  # fmt: skip

#: tables that others save and that are computed here
_COMPUTED = ("relative_position_index", "attn_mask")
_MLP = {"fc1": "0", "fc2": "3"}


def remap(model: SwinTransformer, state: Mapping[str, Any]) -> dict[str, Any]:
    """A state dict (arrays by name) of torchvision, of timm or of the authors in pdl's names and layouts.

    What makes the image smaller belongs to the stage before it in the authors' code, to the next in timm.
    """
    before = any(name.startswith("layers.0.downsample.") for name in state)
    kept = {name: value for name, value in state.items() if name.rpartition(".")[2] not in _COMPUTED}
    return nn.from_torch(model, {_renamed(name, before): value for name, value in kept.items()})


def _renamed(name: str, before: bool) -> str:
    if found := re.match(r"patch_embed\.(proj|norm)\.", name):
        return f"features.0.{'0' if found[1] == 'proj' else '2'}.{name[found.end() :]}"
    if found := re.match(r"layers\.(\d)\.downsample\.", name):
        return f"features.{2 * int(found[1]) + 2 * before}.{name[found.end() :]}"
    if found := re.match(r"layers\.(\d)\.blocks\.(\d+)\.(?:mlp\.(fc[12])\.)?", name):
        inner = f"mlp.{_MLP[found[3]]}." if found[3] else ""
        return f"features.{2 * int(found[1]) + 1}.{found[2]}.{inner}{name[found.end() :]}"
    if found := re.match(r"head\.(?:fc\.)?", name):
        return f"classifier.{name[found.end() :]}"
    return name
