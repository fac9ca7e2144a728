"""What the families share."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import NoneType
from typing import Any, NamedTuple, cast

import numpy as np

import pdl
from pdl import nn
from pdl.dtype import Array
from pdl.errors import ShapeError
from pdl.nn.fused import Raw, conv_norm, finish
from pdl.nn.norm import Activation

#: activations that batch norm applies in the same pass over memory, by layer class
FUSED: dict[type, Activation | None] = {
    NoneType: None, nn.ReLU: "relu", nn.ReLU6: "relu6", nn.Hardswish: "hardswish", nn.SiLU: "silu",
}  # fmt: skip


class ConvNorm(nn.Sequential):
    """Convolution without bias that keeps the size at stride 1, batch norm, and an activation (or none); torchvision's
    Conv2dNormActivation.
    """

    def __init__(
        self,
        in_channels: int,
        channels: int,
        kernel: int = 3,
        *,
        stride: int = 1,
        groups: int = 1,
        activation: type[nn.Module] | None = nn.ReLU,
        **norm: Any,
    ) -> None:
        conv = nn.Conv2d(in_channels, channels, kernel, stride=stride, padding=kernel // 2, groups=groups, bias=False)
        super().__init__(conv, nn.BatchNorm2d(channels, **norm), *([activation()] if activation is not None else []))

    def raw(self, x: pdl.Tensor | Raw) -> Raw:
        """x [N, H, W, C] -> [N, H / stride, W / stride, channels], norm and activation left to the next layer."""
        conv, norm, *rest = self
        assert isinstance(conv, nn.Conv2d)
        assert isinstance(norm, nn.BatchNorm2d)
        return conv_norm(x, conv, norm, FUSED[type(rest[0] if rest else None)])

    def forward(self, x: pdl.Tensor | Raw) -> pdl.Tensor:
        """x [N, H, W, C] -> [N, H / stride, W / stride, channels]."""
        return finish(self.raw(x))


class NamedConvNorm(nn.Module):
    """Convolution without bias, batch norm and an activation (or none) under the names `conv` and `bn`: a unit of
    Inception nets and of YOLO's.
    """

    def __init__(
        self,
        in_channels: int,
        channels: int,
        kernel: int | tuple[int, int],
        *,
        stride: int = 1,
        padding: int | tuple[int, int] = 0,
        groups: int = 1,
        activation: Activation | None = "relu",
        **norm: Any,
    ) -> None:
        self.conv = nn.Conv2d(in_channels, channels, kernel, stride=stride, padding=padding, groups=groups, bias=False)
        self.bn = nn.BatchNorm2d(channels, **norm)
        self.activation = activation

    def raw(self, x: pdl.Tensor | Raw) -> Raw:
        """x [N, H, W, C] -> [N, H', W', channels], norm and activation left to the next layer."""
        return conv_norm(x, self.conv, self.bn, self.activation)

    def forward(self, x: pdl.Tensor | Raw) -> pdl.Tensor:
        """x [N, H, W, C] -> [N, H', W', channels]."""
        return finish(self.raw(x))


class SqueezeExcite(nn.Module):
    """x times gate(fc2(activation(fc1(mean of x over space)))), per channel. Hu et al., arXiv 1709.01507."""

    def __init__(
        self,
        channels: int,
        squeezed: int,
        *,
        activation: type[nn.Module] = nn.ReLU,
        gate: type[nn.Module] = nn.Hardsigmoid,
    ) -> None:
        self.fc1, self.fc2 = nn.Conv2d(channels, squeezed, 1), nn.Conv2d(squeezed, channels, 1)
        self.activation, self.gate = activation(), gate()

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, channels] -> the same shape."""
        scale = pdl.global_avg_pool(x, keepdims=True)
        return x * self.gate(self.fc2(self.activation(self.fc1(scale))))  # type: ignore[no-any-return]


def maxima(x: pdl.Tensor) -> pdl.Tensor:
    """x [N, H, W, C] with its maxima over windows of 5, 9 and 13 cells, each the maximum over 5 of the one before:
    [N, H, W, 4 C]."""
    found = [x]
    for _ in range(3):
        found.append(pdl.max_pool(found[-1], 5, stride=1, padding=2))
    return pdl.concat(found, axis=3)


def chain(layers: Iterable[nn.Module], x: pdl.Tensor | Raw, *, residual: pdl.Tensor | None = None) -> pdl.Tensor:
    """The layers in turn, plus `residual`; norm and activation of one that has `raw` are left to the one behind it."""
    for layer in layers:
        if hasattr(layer, "raw"):
            x = layer.raw(x)
        else:
            x = layer(finish(x) if isinstance(x, Raw) else x)
    if isinstance(x, Raw):
        return finish(x, residual=residual)
    return x if residual is None else x + residual


class Chain(nn.Sequential):
    """Layers one after the other; the norm and activation of a convolution are left to the convolution behind it."""

    def forward(self, x: pdl.Tensor | Raw) -> pdl.Tensor:
        """x through all layers."""
        return chain(self, x)


class Auxiliary(NamedTuple):
    """What a net with auxiliary classifiers returns in training: the loss is that of `logits`, plus `weight` times the
    sum of the losses of `others`.
    """

    logits: pdl.Tensor
    others: tuple[pdl.Tensor, ...]
    weight: float


def require_size(net: nn.Module, x: pdl.Tensor, least: int) -> None:
    """Raise where images x [N, H, W, C] are too small for a net."""
    if x.ndim != 4:
        raise ShapeError(f"{type(net).__name__}: x {x.shape} has {x.ndim} dimensions, expected 4: [N, H, W, C]")
    height, width = x.shape[1:3]
    if height < least or width < least:
        raise ShapeError(
            f"{type(net).__name__}: images of {height} x {width} vanish inside the net, which takes {least} x {least}"
            " at least: enlarge them (pdl.data.transforms.Resize), or take a net for small images"
        )


def flatten_as_torch(x: pdl.Tensor) -> pdl.Tensor:
    """x [N, H, W, C] -> [N, C H W], in the order that linear layers of PyTorch checkpoints expect."""
    return pdl.flatten(pdl.permute_dims(x, (0, 3, 1, 2)), start=1)


def divisible(channels: float, by: int = 8) -> int:
    """The nearest multiple of `by`, at least `by`, and never more than 10 % below (the rule of the MobileNet authors'
    code).
    """
    rounded = max(by, int(channels + by / 2) // by * by)
    return rounded + by if rounded < 0.9 * channels else rounded


def initialise(net: nn.Module) -> None:
    """Convolutions: He et al., ICCV 2015, by fan out; linear layers: N(0, 0.01^2); biases 0. Norms start as the
    identity.
    """
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        elif isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=0.01)
        if isinstance(module, nn.Conv2d | nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)


def merged(weight: Array, norm: nn.BatchNorm2d) -> tuple[Array, Array]:
    """The weight [..., channels] of a convolution with the scale of the norm behind it, and the bias that is left of
    its shift, in float64.
    """
    tensors = (norm.running_mean, norm.running_var, norm.weight, norm.bias)
    mean, var, scale, shift = (cast(pdl.Tensor, each).data.astype(np.float64) for each in tensors)
    factor = scale / np.sqrt(var + norm.eps)
    return weight.astype(np.float64) * factor, shift - mean * factor


def substituted(state: Mapping[str, Any], names: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """The state with other names: each pattern, and what `re.sub` puts in its place, in turn."""
    found = {}
    for name, value in state.items():
        for theirs, ours in names:
            name = re.sub(theirs, ours, name)
        found[name] = value
    return found


#: statistics of batch norms, as Paddle calls them
_STATISTICS = {"_mean": "running_mean", "_variance": "running_var"}


def from_paddle(state: Mapping[str, Any]) -> dict[str, Any]:
    """The state of a convolutional net of Paddle's in PyTorch's names; the layouts are the same."""
    found = {}
    for name, value in state.items():
        owner, _, kind = name.rpartition(".")
        found[f"{owner}.{_STATISTICS.get(kind, kind)}"] = value
    return found


def take_pretrained(model: nn.Module, pretrained: str | None) -> None:
    """Give a fresh model the weights behind `pretrained` (a name of the hub, a file or a run); None leaves it alone."""
    if pretrained is not None:
        from pdl.hub import load_pretrained

        load_pretrained(model, pretrained)
