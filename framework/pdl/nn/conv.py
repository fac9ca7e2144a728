"""Convolutions in one, two and three dimensions, channels last."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

from pdl import ops
from pdl.errors import ShapeError
from pdl.hints import Range
from pdl.nn import init
from pdl.nn.module import Module, Parameter
from pdl.tensor import Tensor

Size = Annotated[int, Range(1)]
Sizes = Size | Sequence[Size]
Pad = Annotated[int, Range(0)]
Padding = Literal["same", "valid"] | Pad | Sequence[Any]

#: what the ops take beside the tensors, with the values that are not shown
_USUAL = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1, "output_padding": 0}


class _Conv(Module):
    """What convolutions and their transposes share: sizes, and parameters that start as PyTorch's."""

    rank: ClassVar[int] = 2

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes,
        dilation: Sizes,
        groups: int,
        bias: bool,
    ) -> None:
        if in_channels % groups or out_channels % groups:
            raise ShapeError(
                f"{type(self).__name__}: groups={groups} must divide in_channels={in_channels} and "
                f"out_channels={out_channels}"
            )
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride, self.dilation = (self._sizes(v) for v in (kernel_size, stride, dilation))
        self.weight = Parameter(ops.zeros((*self.kernel_size, *self.weight_channels())))
        self.bias = Parameter(ops.zeros((out_channels,))) if bias else None
        self.reset_parameters()

    def weight_channels(self) -> tuple[int, int]:
        """The last two sizes of the weight."""
        return self.in_channels // self.groups, self.out_channels

    def reset_parameters(self) -> None:
        """Draw new initial values: U(-a, a), a = 1 / sqrt(all sizes of the weight but the last), as PyTorch's."""
        for p in self.parameters():
            init.fan_in_uniform_(p, math.prod(self.weight.shape[:-1]))

    def _sizes(self, value: Any) -> tuple[int, ...]:
        return (value,) * self.rank if isinstance(value, int) else tuple(value)

    def _arguments(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in _USUAL if name in self.__dict__}

    def extra_repr(self) -> str:
        """Channels and kernel, and what differs from the defaults."""
        given = self._arguments().items()
        other = [f"{n}={v}" for n, v in given if v not in (_USUAL[n], (_USUAL[n],) * self.rank)]
        bias = [] if self.bias is not None else ["bias=False"]
        return ", ".join([f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}", *other, *bias])


class Conv2d(_Conv):
    """Cross-correlates x [N, H, W, in_channels] with weight [KH, KW, in_channels / groups, out_channels] -> [N, H', W',
    out_channels].

    `padding`: one number, one a dimension, (before, after) pairs, "valid" or "same". See `pdl.conv2d` for the sizes.
    Initial values U(-a, a), a = 1 / sqrt(KH KW in_channels / groups).
    """

    def __init__(
        self,
        in_channels: Annotated[int, Range(1)],
        out_channels: Annotated[int, Range(1)],
        kernel_size: Sizes,
        *,
        stride: Sizes = 1,
        padding: Padding = 0,
        dilation: Sizes = 1,
        groups: Annotated[int, Range(1)] = 1,
        bias: bool = True,
    ) -> None:
        super().__init__(in_channels, out_channels, kernel_size, stride, dilation, groups, bias)
        self.padding: Any = padding if isinstance(padding, str) else self._pads(padding)

    def _pads(self, value: Any) -> tuple[Any, ...]:
        given = (value,) * self.rank if isinstance(value, int) else value
        return tuple(tuple(v) if isinstance(v, list) else v for v in given)

    def forward(self, x: Tensor) -> Tensor:
        """x [N, H, W, C] -> [N, H', W', O]."""
        return ops.conv2d(x, self.weight, self.bias, **self._arguments())


class Conv1d(Conv2d):
    """Cross-correlates x [N, L, in_channels] with weight [K, in_channels / groups, out_channels]; arguments as
    `Conv2d`'s.
    """

    rank = 1

    def forward(self, x: Tensor) -> Tensor:
        """x [N, L, C] -> [N, L', O]."""
        return ops.conv1d(x, self.weight, self.bias, **self._arguments())


class Conv3d(Conv2d):
    """Cross-correlates x [N, D, H, W, in_channels] with weight [KD, KH, KW, in_channels / groups, out_channels];
    arguments as `Conv2d`'s.
    """

    rank = 3

    def forward(self, x: Tensor) -> Tensor:
        """x [N, D, H, W, C] -> [N, D', H', W', O]."""
        return ops.conv3d(x, self.weight, self.bias, **self._arguments())


class ConvTranspose2d(_Conv):
    """The transpose of the `Conv2d` that maps out_channels to in_channels: weight [KH, KW, out_channels / groups,
    in_channels].

    H' = (H - 1) stride - 2 padding + dilation (KH - 1) + 1 + output_padding. Initial values U(-a, a), a = 1 / sqrt(KH
    KW out_channels / groups).
    """

    def __init__(
        self,
        in_channels: Annotated[int, Range(1)],
        out_channels: Annotated[int, Range(1)],
        kernel_size: Sizes,
        *,
        stride: Sizes = 1,
        padding: Pad | Sequence[Pad] = 0,
        output_padding: Pad | Sequence[Pad] = 0,
        dilation: Sizes = 1,
        groups: Annotated[int, Range(1)] = 1,
        bias: bool = True,
    ) -> None:
        super().__init__(in_channels, out_channels, kernel_size, stride, dilation, groups, bias)
        self.padding, self.output_padding = self._sizes(padding), self._sizes(output_padding)

    def weight_channels(self) -> tuple[int, int]:
        """The last two sizes of the weight."""
        return self.out_channels // self.groups, self.in_channels

    def forward(self, x: Tensor) -> Tensor:
        """x [N, H, W, C] -> [N, H', W', O]."""
        return ops.conv_transpose2d(x, self.weight, self.bias, **self._arguments())


class ConvTranspose1d(ConvTranspose2d):
    """`ConvTranspose2d` for x [N, L, in_channels]."""

    rank = 1

    def forward(self, x: Tensor) -> Tensor:
        """x [N, L, C] -> [N, L', O]."""
        return ops.conv_transpose1d(x, self.weight, self.bias, **self._arguments())


class ConvTranspose3d(ConvTranspose2d):
    """`ConvTranspose2d` for x [N, D, H, W, in_channels]."""

    rank = 3

    def forward(self, x: Tensor) -> Tensor:
        """x [N, D, H, W, C] -> [N, D', H', W', O]."""
        return ops.conv_transpose3d(x, self.weight, self.bias, **self._arguments())
