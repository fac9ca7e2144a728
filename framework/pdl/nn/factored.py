"""Layers whose weight is a product of two smaller ones."""

from __future__ import annotations

import math
from typing import Any

from pdl import ops
from pdl.errors import ShapeError
from pdl.nn.conv import Conv1d, Conv2d, Conv3d, Padding
from pdl.nn.linear import Linear
from pdl.nn.module import Module, Parameter
from pdl.tensor import Tensor

KINDS = (Linear, Conv1d, Conv2d, Conv3d)
"""What may be one: no subclass, which may compute something else."""


class Factored(Module):
    """y = second(first(x)), in place of a linear layer or a convolution: `first` maps to `rank` channels by the window
    of the layer, `second` from there to its outputs, one by one (Zhang et al., arXiv 1505.06798).

    layer   whose sizes it takes; its weights are not taken. ShapeError where it has groups, or is no such layer
    """

    def __init__(self, layer: Module, rank: int) -> None:
        if type(layer) not in KINDS or getattr(layer, "groups", 1) != 1:
            raise ShapeError(f"Factored: {layer} is no linear layer and no convolution without groups")
        assert isinstance(layer, Linear | Conv2d)
        bias = layer.bias is not None
        if isinstance(layer, Linear):
            self.first: Linear | Conv2d = Linear(layer.in_features, rank, bias=False)
            self.second: Linear | Conv2d = Linear(rank, layer.out_features, bias=bias)
        else:
            kind = type(layer)
            self.first = kind(layer.in_channels, rank, layer.kernel_size, stride=layer.stride, padding=layer.padding,
                              dilation=layer.dilation, bias=False)  # fmt: skip
            self.second = kind(rank, layer.out_channels, 1, bias=bias)

    @property
    def bias(self) -> Parameter | None:
        """Of the outputs."""
        return self.second.bias

    def forward(self, x: Tensor) -> Tensor:
        """What the layer maps x to."""
        return self.second(self.first(x))  # type: ignore[no-any-return]

    def reduced(self, x: Tensor, padding: Padding | None) -> Tensor:
        """x [N, H, W, C] -> [N, H', W', rank], by this padding in place of its own."""
        first = self.first
        given = {**first._arguments(), **({} if padding is None else {"padding": padding})}  # type: ignore[union-attr]
        return ops.conv2d(x, first.weight, None, **given)


def break_even(layer: Any) -> float:
    """The rank at which two products cost as much as the layer's one."""
    fan_in, out = math.prod(layer.weight.shape[:-1]), int(layer.weight.shape[-1])
    return fan_in * out / (fan_in + out)
