"""Blocks of convolutional nets that the families of several suites are built of: convolution with norm, squeeze and
excitation, chains of them, and how they begin."""

from __future__ import annotations

from collections.abc import Iterable
from types import NoneType
from typing import Any

from pdl import ops
from pdl.errors import ShapeError
from pdl.nn import init
from pdl.nn.activation import Hardsigmoid, Hardswish, ReLU, ReLU6, SiLU
from pdl.nn.container import Sequential
from pdl.nn.conv import Conv2d
from pdl.nn.fused import Raw, conv_norm, finish
from pdl.nn.linear import Linear
from pdl.nn.module import Module
from pdl.nn.norm import Activation, BatchNorm2d
from pdl.tensor import Tensor

#: activations that batch norm applies in the same pass over memory, by layer class
FUSED: dict[type, Activation | None] = {
    NoneType: None, ReLU: "relu", ReLU6: "relu6", Hardswish: "hardswish", SiLU: "silu",
}  # fmt: skip


class ConvNorm(Sequential):
    """Convolution without bias that keeps the size at stride 1, batch norm, and an activation (or none); torchvision's
    Conv2dNormActivation.
    """

    def __init__(
        self,
        in_channels: int,
        channels: int,
        kernel: int | tuple[int, int] = 3,
        *,
        stride: int | tuple[int, int] = 1,
        groups: int = 1,
        activation: type[Module] | None = ReLU,
        **norm: Any,
    ) -> None:
        half = kernel // 2 if isinstance(kernel, int) else (kernel[0] // 2, kernel[1] // 2)
        conv = Conv2d(in_channels, channels, kernel, stride=stride, padding=half, groups=groups, bias=False)
        super().__init__(conv, BatchNorm2d(channels, **norm), *([activation()] if activation is not None else []))

    def raw(self, x: Tensor | Raw) -> Raw:
        """x [N, H, W, C] -> [N, H / stride, W / stride, channels], norm and activation left to the next layer."""
        conv, norm, *rest = self
        assert isinstance(conv, Conv2d)
        assert isinstance(norm, BatchNorm2d)
        return conv_norm(x, conv, norm, FUSED[type(rest[0] if rest else None)])

    def forward(self, x: Tensor | Raw) -> Tensor:
        """x [N, H, W, C] -> [N, H / stride, W / stride, channels]."""
        return finish(self.raw(x))


class NamedConvNorm(Module):
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
        self.conv = Conv2d(in_channels, channels, kernel, stride=stride, padding=padding, groups=groups, bias=False)
        self.bn = BatchNorm2d(channels, **norm)
        self.activation = activation

    def raw(self, x: Tensor | Raw) -> Raw:
        """x [N, H, W, C] -> [N, H', W', channels], norm and activation left to the next layer."""
        return conv_norm(x, self.conv, self.bn, self.activation)

    def forward(self, x: Tensor | Raw) -> Tensor:
        """x [N, H, W, C] -> [N, H', W', channels]."""
        return finish(self.raw(x))


class SqueezeExcite(Module):
    """x times gate(fc2(activation(fc1(mean of x over space)))), per channel. Hu et al., arXiv 1709.01507."""

    def __init__(
        self,
        channels: int,
        squeezed: int,
        *,
        activation: type[Module] = ReLU,
        gate: type[Module] = Hardsigmoid,
    ) -> None:
        self.fc1, self.fc2 = Conv2d(channels, squeezed, 1), Conv2d(squeezed, channels, 1)
        self.activation, self.gate = activation(), gate()

    def forward(self, x: Tensor) -> Tensor:
        """x [N, H, W, channels] -> the same shape."""
        scale = ops.global_avg_pool(x, keepdims=True)
        return x * self.gate(self.fc2(self.activation(self.fc1(scale))))  # type: ignore[no-any-return]


def chain(layers: Iterable[Module], x: Tensor | Raw, *, residual: Tensor | None = None) -> Tensor:
    """The layers in turn, plus `residual`; norm and activation of one that has `raw` are left to the one behind it."""
    for layer in layers:
        if hasattr(layer, "raw"):
            x = layer.raw(x)
        else:
            x = layer(finish(x) if isinstance(x, Raw) else x)
    if isinstance(x, Raw):
        return finish(x, residual=residual)
    return x if residual is None else x + residual


class Chain(Sequential):
    """Layers one after the other; the norm and activation of a convolution are left to the convolution behind it."""

    def forward(self, x: Tensor | Raw) -> Tensor:
        """x through all layers."""
        return chain(self, x)


def require_size(net: Module, x: Tensor, least: int) -> None:
    """Raise where images x [N, H, W, C] are too small for a net."""
    if x.ndim != 4:
        raise ShapeError(f"{type(net).__name__}: x {x.shape} has {x.ndim} dimensions, expected 4: [N, H, W, C]")
    height, width = x.shape[1:3]
    if height < least or width < least:
        raise ShapeError(
            f"{type(net).__name__}: images of {height} x {width} vanish inside the net, which takes {least} x {least}"
            " at least: enlarge them (pdl.data.transforms.Resize), or take a net for small images"
        )


def divisible(channels: float, by: int = 8) -> int:
    """The nearest multiple of `by`, at least `by`, and never more than 10 % below (the rule of the MobileNet authors'
    code).
    """
    rounded = max(by, int(channels + by / 2) // by * by)
    return rounded + by if rounded < 0.9 * channels else rounded


def initialise(net: Module) -> None:
    """Convolutions: He et al., ICCV 2015, by fan out; linear layers: N(0, 0.01^2); biases 0. Norms start as the
    identity.
    """
    for module in net.modules():
        if isinstance(module, Conv2d):
            init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        elif isinstance(module, Linear):
            init.normal_(module.weight, std=0.01)
        if isinstance(module, Conv2d | Linear) and module.bias is not None:
            init.zeros_(module.bias)
