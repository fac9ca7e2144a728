"""GoogLeNet: Szegedy et al., Going deeper with convolutions, CVPR 2015 (arXiv 1409.4842), with batch norm after every
convolution (Ioffe & Szegedy, arXiv 1502.03167). Names are torchvision's, and so is the 3 x 3 convolution where the
paper has 5 x 5.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import pdl
from pdl import nn
from pdl.hints import Range
from pdl.nn.blocks import Chain, NamedConvNorm, require_size
from pdl_cv.models.blocks import Auxiliary, flatten_as_torch, take_pretrained

Width = Annotated[int, Range(1)]
EPS = 1e-3

#: per block: 1 x 1, the 3 x 3 branch (reduced, out), the 5 x 5 branch (reduced, out), the pooled branch; table 1
BLOCKS: dict[str, tuple[int, int, int, int, int, int]] = {
    "3a": (64, 96, 128, 16, 32, 32),
    "3b": (128, 128, 192, 32, 96, 64),
    "4a": (192, 96, 208, 16, 48, 64),
    "4b": (160, 112, 224, 24, 64, 64),
    "4c": (128, 128, 256, 24, 64, 64),
    "4d": (112, 144, 288, 32, 64, 64),
    "4e": (256, 160, 320, 32, 128, 128),
    "5a": (256, 160, 320, 32, 128, 128),
    "5b": (384, 192, 384, 48, 128, 128),
}


def unit(in_channels: int, channels: int, kernel: int, *, stride: int = 1) -> NamedConvNorm:
    """A convolution that keeps the size at stride 1, with norm and rectifier."""
    return NamedConvNorm(in_channels, channels, kernel, stride=stride, padding=kernel // 2, eps=EPS)


class Inception(nn.Module):
    """Four branches side by side: 1 x 1, two times 1 x 1 then 3 x 3, and pooling then 1 x 1."""

    def __init__(
        self, in_channels: int, one: int, reduced3: int, out3: int, reduced5: int, out5: int, pool: int
    ) -> None:
        self.branch1 = unit(in_channels, one, 1)
        self.branch2 = Chain(unit(in_channels, reduced3, 1), unit(reduced3, out3, 3))
        self.branch3 = Chain(unit(in_channels, reduced5, 1), unit(reduced5, out5, 3))
        self.branch4 = Chain(nn.MaxPool2d(3, stride=1, padding=1), unit(in_channels, pool, 1))

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C] -> [N, H, W, one + out3 + out5 + pool]."""
        return pdl.concat([self.branch1(x), self.branch2(x), self.branch3(x), self.branch4(x)], axis=-1)


class InceptionAux(nn.Module):
    """A classifier on maps in the middle of the net: x [N, H, W, C] -> logits."""

    def __init__(self, in_channels: int, num_classes: int, dropout: float) -> None:
        self.conv = unit(in_channels, 128, 1)
        self.fc1 = nn.Linear(128 * 4 * 4, 1024)
        self.fc2 = nn.Linear(1024, num_classes)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C] -> logits [N, num_classes]."""
        x = flatten_as_torch(self.conv(pdl.adaptive_avg_pool(x, 4)))
        return self.fc2(self.dropout(pdl.relu(self.fc1(x))))  # type: ignore[no-any-return]


class GoogLeNet(nn.Module):
    """x [N, H, W, in_channels] -> logits [N, num_classes].

    `aux_logits` adds two classifiers to the middle of the net, with `dropout_aux` of their own: in training the net
    then returns `Auxiliary`, whose losses the classification task adds with the weight 0.3 of the paper; otherwise they
    are not computed. H and W are at least 15. `pretrained`: a name of the hub or a file; torchvision's weights want
    images normalised by mean 0.5 and standard deviation 0.5.
    """

    head: str | tuple[str, ...] = "fc"
    stem: ClassVar[str] = "conv1.conv"
    least: ClassVar[int] = 15

    def __init__(
        self,
        *,
        aux_logits: bool = False,
        in_channels: Width = 3,
        num_classes: Width = 1000,
        dropout: Annotated[float, Range(0, below=1)] = 0.2,
        dropout_aux: Annotated[float, Range(0, below=1)] = 0.7,
        pretrained: str | None = None,
    ) -> None:
        self.conv1, self.conv2, self.conv3 = unit(in_channels, 64, 7, stride=2), unit(64, 64, 1), unit(64, 192, 3)
        channels = 192
        for name, widths in BLOCKS.items():
            setattr(self, f"inception{name}", Inception(channels, *widths))
            channels = widths[0] + widths[2] + widths[4] + widths[5]
        self.aux1 = InceptionAux(512, num_classes, dropout_aux) if aux_logits else None
        self.aux2 = InceptionAux(528, num_classes, dropout_aux) if aux_logits else None
        if aux_logits:
            self.head = ("fc", "aux1.fc2", "aux2.fc2")
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(channels, num_classes)
        _initialise(self)
        take_pretrained(self, pretrained)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor | Auxiliary:
        """x [N, H, W, C] -> logits [N, num_classes]; in training with `aux_logits` those of all three classifiers."""
        require_size(self, x, self.least)
        x = pdl.max_pool(self.conv1(x), 3, stride=2, ceil_mode=True)
        x = pdl.max_pool(self.conv3(self.conv2.raw(x)), 3, stride=2, ceil_mode=True)
        x = pdl.max_pool(self._blocks(x, "3a", "3b"), 3, stride=2, ceil_mode=True)
        first = self._blocks(x, "4a")
        second = self._blocks(first, "4b", "4c", "4d")
        x = pdl.max_pool(self._blocks(second, "4e"), 2, ceil_mode=True)
        logits = self.fc(self.dropout(pdl.global_avg_pool(self._blocks(x, "5a", "5b"))))
        if self.training and self.aux1 is not None and self.aux2 is not None:
            return Auxiliary(logits, (self.aux1(first), self.aux2(second)), 0.3)
        return logits  # type: ignore[no-any-return]

    def _blocks(self, x: pdl.Tensor, *names: str) -> pdl.Tensor:
        for name in names:
            x = self.get_submodule(f"inception{name}")(x)
        return x


def _initialise(net: GoogLeNet) -> None:
    """Weights N(0, 0.01^2), as torchvision's; biases of linear layers as PyTorch's."""
    for module in net.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.trunc_normal_(module.weight, std=0.01)


TASK = "classification"
VARIANTS: dict[str, dict[str, Any]] = {"googlenet": {"_target_": "pdl_cv.GoogLeNet"}}


def remap(model: GoogLeNet, state: Mapping[str, Any]) -> dict[str, Any]:
    """A torchvision state dict (arrays by name) in pdl's layouts. The names are the same; a net without auxiliary
    classifiers leaves theirs out.
    """
    given = (
        state if model.aux1 is not None else {k: v for k, v in state.items() if not k.startswith(("aux1.", "aux2."))}
    )
    return nn.from_torch(model, given)
