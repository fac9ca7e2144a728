"""Fully connected layers, and those that only change shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pdl import ops
from pdl.hints import Range
from pdl.nn import init
from pdl.nn.module import Module, Parameter
from pdl.ops import zeros
from pdl.tensor import Tensor


class Identity(Module):
    """y = x."""

    def forward(self, x: Tensor) -> Tensor:
        """The input itself."""
        return x


class Linear(Module):
    """y [..., out_features] = x [..., in_features] @ weight [in, out] + bias [out].

    Initial values U(-a, a), a = 1 / sqrt(in_features), as PyTorch's.
    """

    def __init__(
        self, in_features: Annotated[int, Range(1)], out_features: Annotated[int, Range(1)], *, bias: bool = True
    ) -> None:
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter(zeros((in_features, out_features)))
        self.bias = Parameter(zeros((out_features,))) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        for p in self.parameters():
            init.fan_in_uniform_(p, self.in_features)

    def forward(self, x: Tensor) -> Tensor:
        """x [..., in_features] -> [..., out_features]."""
        return ops.linear(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Sizes, and whether there is a bias."""
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class Bilinear(Module):
    """y[..., o] = sum_ij a[..., i] weight[i, j, o] b[..., j] + bias[o]. Initial values U(-k, k), k = 1 /
    sqrt(in1_features).
    """

    shown = ("in1_features", "in2_features", "out_features")

    def __init__(
        self,
        in1_features: Annotated[int, Range(1)],
        in2_features: Annotated[int, Range(1)],
        out_features: Annotated[int, Range(1)],
        *,
        bias: bool = True,
    ) -> None:
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        self.weight = Parameter(zeros((in1_features, in2_features, out_features)))
        self.bias = Parameter(zeros((out_features,))) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        for p in self.parameters():
            init.fan_in_uniform_(p, self.in1_features)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        """a [..., in1_features], b [..., in2_features] -> [..., out_features]."""
        y = ops.einsum("...i,ijo,...j->...o", a, self.weight, b)
        return y if self.bias is None else y + self.bias


class Flatten(Module):
    """Dimensions `start` to `end` as one: [N, H, W, C] -> [N, H W C]."""

    shown = ("start", "end")

    def __init__(self, start: int = 1, end: int = -1) -> None:
        self.start, self.end = start, end

    def forward(self, x: Tensor) -> Tensor:
        return ops.flatten(x, start=self.start, end=self.end)


class Unflatten(Module):
    """Dimension `axis` as several of the given sizes.

    sizes  of the new dimensions
    """

    shown = ("axis", "sizes")

    def __init__(self, axis: int, sizes: Sequence[int]) -> None:
        self.axis, self.sizes = axis, tuple(sizes)

    def forward(self, x: Tensor) -> Tensor:
        axis = self.axis % x.ndim
        return ops.reshape(x, (*x.shape[:axis], *self.sizes, *x.shape[axis + 1 :]))
