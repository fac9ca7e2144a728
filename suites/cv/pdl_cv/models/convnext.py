"""ConvNeXt: Liu et al., A ConvNet for the 2020s, CVPR 2022 (arXiv 2201.03545). Names are torchvision's."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

import numpy as np

import pdl
from pdl import nn
from pdl.errors import UsageError
from pdl.hints import Range
from pdl_cv.models.blocks import take_pretrained

Width = Annotated[int, Range(1)]
EPS = 1e-6


class Block(nn.Module):
    """x + scale mlp(norm(depthwise(x))), 7 x 7 and four times as wide; in training the branch is dropped with
    probability `drop_path`. A vector, `layer_scale`, starts near 0 (Touvron et al., arXiv 2103.17239).
    """

    def __init__(self, dim: int, scale: float, drop_path: float) -> None:
        self.block = nn.Sequential({
            "0": nn.Conv2d(dim, dim, 7, padding=3, groups=dim), "2": nn.LayerNorm(dim, eps=EPS),
            "3": nn.Linear(dim, 4 * dim), "4": nn.GELU(), "5": nn.Linear(4 * dim, dim),
        })  # fmt: skip  # torchvision turns channels last and back at 1 and 6
        self.layer_scale = nn.Parameter(pdl.full((dim,), scale))
        self.stochastic_depth = nn.DropPath(drop_path)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, dim] -> [N, H, W, dim]."""
        return x + self.stochastic_depth(self.block(x) * self.layer_scale)  # type: ignore[no-any-return]


class ConvNeXt(nn.Module):
    """x [N, H, W, in_channels] -> logits [N, num_classes], H and W at least 32.

    `depths` blocks of `dims` channels in four stages, each at half the size of the one before. The probability that a
    branch is dropped in training grows from 0 in the first block to `drop_path` in the last. `pretrained`: a name of
    the hub or a file.
    """

    head: ClassVar[str] = "classifier.2"
    stem: ClassVar[str] = "features.0.0"

    def __init__(
        self,
        depths: Sequence[Width] = (3, 3, 9, 3),
        dims: Sequence[Width] = (96, 192, 384, 768),
        *,
        in_channels: Width = 3,
        num_classes: Width = 1000,
        layer_scale: Annotated[float, Range(0)] = 1e-6,
        drop_path: Annotated[float, Range(0, below=1)] = 0.0,
        pretrained: str | None = None,
    ) -> None:
        if len(depths) != 4 or len(dims) != 4:
            raise UsageError(f"ConvNeXt: depths {list(depths)} and dims {list(dims)} must name four stages each")
        rates = iter(np.linspace(0, drop_path, sum(depths)))
        layers: list[nn.Module] = []
        for number, (depth, dim) in enumerate(zip(depths, dims, strict=True)):
            if number == 0:
                shrink = [nn.Conv2d(in_channels, dim, 4, stride=4), nn.LayerNorm(dim, eps=EPS)]
            else:
                before = dims[number - 1]
                shrink = [nn.LayerNorm(before, eps=EPS), nn.Conv2d(before, dim, 2, stride=2)]
            blocks = (Block(dim, layer_scale, float(next(rates))) for _ in range(depth))
            layers += [nn.Sequential(*shrink), nn.Sequential(*blocks)]
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential({"0": nn.LayerNorm(dims[-1], eps=EPS), "2": nn.Linear(dims[-1], num_classes)})
        _initialise(self)
        take_pretrained(self, pretrained)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C] -> logits [N, num_classes]."""
        return self.classifier(pdl.global_avg_pool(self.features(x)))  # type: ignore[no-any-return]


def _initialise(net: nn.Module) -> None:
    """Weights N(0, 0.02^2), biases 0."""
    for module in net.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.trunc_normal_(module.weight, std=0.02)
            if module.bias is not None:
                nn.init.zeros_(module.bias)


TASK = "classification"
#: depths, dims, and the rate of the paper's training on ImageNet
SIZES: dict[str, tuple[tuple[int, ...], tuple[int, ...], float]] = {
    "tiny": ((3, 3, 9, 3), (96, 192, 384, 768), 0.1),
    "small": ((3, 3, 27, 3), (96, 192, 384, 768), 0.4),
    "base": ((3, 3, 27, 3), (128, 256, 512, 1024), 0.5),
    "large": ((3, 3, 27, 3), (192, 384, 768, 1536), 0.5),
}
VARIANTS: dict[str, dict[str, Any]] = {
    f"convnext_{size}": {"_target_": "pdl_cv.ConvNeXt", "depths": depths, "dims": dims, "drop_path": rate}
    for size, (depths, dims, rate) in SIZES.items()
}

#: layers of a block in timm and in the authors' code: what they are here
_BLOCK = {
    "gamma": "layer_scale", "conv_dw": "block.0", "dwconv": "block.0", "norm": "block.2", "mlp.fc1": "block.3",
    "pwconv1": "block.3", "mlp.fc2": "block.5", "pwconv2": "block.5",
}  # fmt: skip


def remap(model: ConvNeXt, state: Mapping[str, Any]) -> dict[str, Any]:
    """A state dict (arrays by name) of torchvision, of timm or of the authors in pdl's names and layouts."""
    renamed = {_renamed(name): value for name, value in state.items()}
    flat = {n: np.reshape(v, -1) if n.endswith("layer_scale") else v for n, v in renamed.items()}  # [dim, 1, 1] there
    return nn.from_torch(model, flat)


def _renamed(name: str) -> str:
    if found := re.match(r"(?:stem|downsample_layers\.0)\.([01])\.", name):
        return f"features.0.{found[1]}.{name[found.end() :]}"
    if found := re.match(r"(?:stages\.(\d)\.downsample|downsample_layers\.(\d))\.([01])\.", name):
        return f"features.{2 * int(found[1] or found[2])}.{found[3]}.{name[found.end() :]}"
    if found := re.match(rf"stages\.(\d)\.(?:blocks\.)?(\d+)\.({'|'.join(map(re.escape, _BLOCK))})", name):
        return f"features.{2 * int(found[1]) + 1}.{found[2]}.{_BLOCK[found[3]]}{name[found.end() :]}"
    if found := re.match(r"(?:head\.)?norm\.", name):
        return f"classifier.0.{name[found.end() :]}"
    if found := re.match(r"head\.(?:fc\.)?", name):
        return f"classifier.2.{name[found.end() :]}"
    return name
