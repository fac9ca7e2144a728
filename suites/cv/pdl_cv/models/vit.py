"""Vision transformers: Dosovitskiy et al., An image is worth 16x16 words, ICLR 2021 (arXiv 2010.11929), and DeiT:
Touvron et al., Training data-efficient image transformers and distillation through attention, ICML 2021 (arXiv
2012.12877).

Variants and layers are called as in timm, but for the last layer, which is `classifier` (there `head`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import numpy as np

import pdl
from pdl import nn
from pdl.errors import ShapeError
from pdl.hints import Range
from pdl_cv.models.blocks import take_pretrained

Width = Annotated[int, Range(1)]
Rate = Annotated[float, Range(0, below=1)]
EPS = 1e-6


class PatchEmbed(nn.Module):
    """Cut the image into squares and project each: x [N, H, W, C] -> [N, H W / patch^2, dim], row by row."""

    def __init__(self, in_channels: int, dim: int, patch: int) -> None:
        self.dim, self.proj = dim, nn.Conv2d(in_channels, dim, patch, stride=patch)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        y = self.proj(x)
        return pdl.reshape(y, (y.shape[0], y.shape[1] * y.shape[2], self.dim))


class Attention(nn.Module):
    """Every token looks at every token, in several heads; one product makes queries, keys and values."""

    def __init__(self, dim: int, heads: int, dropout: float) -> None:
        self.heads = heads
        self.qkv, self.proj, self.drop = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim), nn.Dropout(dropout)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, L, dim] -> [N, L, dim]."""
        y = pdl.scaled_dot_product_attention(self.qkv(x), heads=self.heads)
        return self.drop(self.proj(y))  # type: ignore[no-any-return]


class Mlp(nn.Module):
    """Two linear layers with GELU between: x [..., dim] -> [..., dim]."""

    def __init__(self, dim: int, hidden: int, dropout: float) -> None:
        self.fc1, self.fc2, self.drop = nn.Linear(dim, hidden), nn.Linear(hidden, dim), nn.Dropout(dropout)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        return self.drop(self.fc2(self.drop(pdl.gelu(self.fc1(x)))))  # type: ignore[no-any-return]


class Block(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x)); in training each is dropped with probability `drop_path`."""

    def __init__(self, dim: int, heads: int, *, dropout: float, drop_path: float) -> None:
        self.norm1, self.attn = nn.LayerNorm(dim, eps=EPS), Attention(dim, heads, dropout)
        self.norm2, self.mlp = nn.LayerNorm(dim, eps=EPS), Mlp(dim, 4 * dim, dropout)
        self.drop_path = nn.DropPath(drop_path)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, L, dim] -> [N, L, dim]."""
        x = x + self.drop_path(self.attn(self.norm1(x)))
        return x + self.drop_path(self.mlp(self.norm2(x)))  # type: ignore[no-any-return]


class VisionTransformer(nn.Module):
    """x [N, image_size, image_size, in_channels] -> logits [N, num_classes].

    `image_size` is what the table of positions is made for: images of another size are a ShapeError, and positions
    of another size are interpolated when weights are loaded (`adapt`). The probability that a branch is dropped in
    training grows from 0 in the first block to `drop_path` in the last. `pretrained`: a name of the hub or a file.
    """

    head: ClassVar[str | tuple[str, ...]] = "classifier"
    stem: ClassVar[str] = "patch_embed.proj"
    #: learned tokens before those of the image
    tokens: ClassVar[int] = 1

    def __init__(
        self,
        dim: Width = 192,
        depth: Width = 12,
        heads: Width = 3,
        *,
        patch: Width = 16,
        image_size: Width = 224,
        in_channels: Width = 3,
        num_classes: Width = 1000,
        dropout: Rate = 0.0,
        drop_path: Rate = 0.0,
        pretrained: str | None = None,
    ) -> None:
        if image_size % patch:
            raise ShapeError(f"{type(self).__name__}: image_size={image_size} is no multiple of patch={patch}")
        if dim % heads:
            raise ShapeError(f"{type(self).__name__}: heads={heads} must divide dim={dim}")
        self.image_size, self.grid = image_size, image_size // patch
        self.patch_embed = PatchEmbed(in_channels, dim, patch)
        self.cls_token = nn.Parameter(pdl.zeros((1, 1, dim)))
        if self.tokens == 2:
            self.dist_token = nn.Parameter(pdl.zeros((1, 1, dim)))
        self.pos_embed = nn.Parameter(pdl.zeros((1, self.grid**2 + self.tokens, dim)))
        self.drop = nn.Dropout(dropout)
        rates = np.linspace(0, drop_path, depth)
        self.blocks = nn.Sequential(*(Block(dim, heads, dropout=dropout, drop_path=float(p)) for p in rates))
        self.norm = nn.LayerNorm(dim, eps=EPS)
        self.classifier = nn.Linear(dim, num_classes)
        if self.tokens == 2:
            self.classifier_dist = nn.Linear(dim, num_classes)
        _initialise(self)
        take_pretrained(self, pretrained)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, image_size, image_size, in_channels] -> logits [N, num_classes]."""
        return self.classifier(self.features(x)[:, 0])  # type: ignore[no-any-return]

    def features(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, image_size, image_size, in_channels] -> normed tokens [N, tokens + grid^2, dim]."""
        if x.shape[1:3] != (self.image_size, self.image_size):
            raise ShapeError(
                f"{type(self).__name__}: built for image_size={self.image_size}, the images are "
                f"{x.shape[1]} x {x.shape[2]}; give model.image_size, or resize them"
            )
        patches, before = self.grid**2, self.tokens
        learned = pdl.concat([self.cls_token, self.dist_token], axis=1) if before == 2 else self.cls_token
        place = self.pos_embed + pdl.pad(learned, ((0, 0), (0, patches), (0, 0)))
        y = pdl.pad(self.patch_embed(x), ((0, 0), (before, 0), (0, 0))) + place
        return self.norm(self.blocks(self.drop(y)))  # type: ignore[no-any-return]


class DistilledVisionTransformer(VisionTransformer):
    """A DeiT with a second token, whose classifier learned from a teacher; the logits are the mean of the two."""

    head = ("classifier", "classifier_dist")
    tokens = 2

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, image_size, image_size, in_channels] -> logits [N, num_classes]."""
        y = self.features(x)
        return (self.classifier(y[:, 0]) + self.classifier_dist(y[:, 1])) * 0.5  # type: ignore[no-any-return]


def _initialise(net: VisionTransformer) -> None:
    """Tokens, positions and linear layers N(0, 0.02^2), biases 0; the patches' convolution by its fan in."""
    for name, p in net.named_parameters():
        if name.endswith(("token", "pos_embed")) or (p.ndim == 2 and name.endswith("weight")):
            nn.init.trunc_normal_(p, std=0.02)
        elif name.endswith("bias"):
            nn.init.zeros_(p)
    nn.init.lecun_normal_(net.patch_embed.proj.weight)


TASK = "classification"
#: dim, depth, heads
SIZES = {"tiny": (192, 12, 3), "small": (384, 12, 6), "base": (768, 12, 12), "large": (1024, 24, 16)}


def _variant(target: str, size: str, patch: int) -> dict[str, Any]:
    dim, depth, heads = SIZES[size]
    return {"_target_": f"pdl_cv.{target}", "dim": dim, "depth": depth, "heads": heads, "patch": patch}


VARIANTS: dict[str, dict[str, Any]] = {
    **{f"vit_{size}_patch16_224": _variant("VisionTransformer", size, 16) for size in SIZES},
    **{f"vit_{size}_patch32_224": _variant("VisionTransformer", size, 32) for size in ("small", "base", "large")},
    **{f"deit_{size}_patch16_224": _variant("VisionTransformer", size, 16) for size in ("tiny", "small", "base")},
    **{
        f"deit_{size}_distilled_patch16_224": _variant("DistilledVisionTransformer", size, 16)
        for size in ("tiny", "small", "base")
    },
}

#: (pattern, name here) of torchvision's VisionTransformer, then of timm's
_RENAMED = [
    (r"class_token", "cls_token"),
    (r"conv_proj\.", "patch_embed.proj."),
    (r"encoder\.pos_embedding", "pos_embed"),
    (r"encoder\.layers\.encoder_layer_(\d+)\.ln_", r"blocks.\1.norm"),
    (r"encoder\.layers\.encoder_layer_(\d+)\.self_attention\.in_proj_", r"blocks.\1.attn.qkv."),
    (r"encoder\.layers\.encoder_layer_(\d+)\.self_attention\.out_proj", r"blocks.\1.attn.proj"),
    (r"encoder\.layers\.encoder_layer_(\d+)\.mlp\.(?:0|linear_1)\.", r"blocks.\1.mlp.fc1."),
    (r"encoder\.layers\.encoder_layer_(\d+)\.mlp\.(?:3|linear_2)\.", r"blocks.\1.mlp.fc2."),
    (r"encoder\.ln\.", "norm."),
    (r"heads\.head\.", "classifier."),
    (r"head_dist\.", "classifier_dist."),
    (r"head\.", "classifier."),
]


def remap(model: VisionTransformer, state: Mapping[str, Any]) -> dict[str, Any]:
    """A state dict (arrays by name) of timm, of the DeiT authors or of torchvision, in pdl's names and layouts."""
    return nn.from_torch(model, {_renamed(name): value for name, value in state.items()})


def _renamed(name: str) -> str:
    for pattern, to in _RENAMED:
        found = re.match(pattern, name)
        if found:
            return found.expand(to) + name[found.end() :]
    return name


def adapt(model: VisionTransformer, state: Mapping[str, Any]) -> tuple[Mapping[str, Any], dict[str, str]]:
    """Weights of pdl with their positions interpolated to the model's image size (cubic) where they are of another, and
    what was changed, by name.
    """
    given, tokens = state.get("pos_embed"), model.tokens
    count = 0 if given is None else np.shape(given)[1] - tokens
    side = int(np.sqrt(max(count, 0)))
    if given is None or side**2 != count or side in (0, model.grid):
        return state, {}
    table = np.asarray(given, np.float32)
    image = pdl.tensor(table[:, tokens:].reshape(1, side, side, -1))
    resized = pdl.resize(image, size=(model.grid, model.grid), mode="bicubic", antialias=True)
    flat = resized.data.reshape(1, model.grid**2, -1)
    how = f"positions interpolated from {side} x {side} to {model.grid} x {model.grid}"
    return {**state, "pos_embed": np.concatenate([table[:, :tokens], flat], axis=1)}, {"pos_embed": how}
