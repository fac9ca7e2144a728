"""Pooling layers on channels-last tensors; the arithmetic and the size rules are in `pdl.ops.pool`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

from pdl import ops
from pdl.errors import ShapeError
from pdl.hints import Range
from pdl.nn.module import Module
from pdl.tensor import Tensor

Size = Annotated[int, Range(1)]
Sizes = Size | Sequence[Size]
Padding = Annotated[int, Range(0)] | Sequence[Any]


class _Pool(Module):
    """What all share: the number of spatial dimensions, checked."""

    spatial: ClassVar[int] = 2

    def check(self, x: Tensor) -> None:
        """Raise unless x is [N, *spatial, C]."""
        if x.ndim != self.spatial + 2:
            raise ShapeError(
                f"{type(self).__name__}: x {x.shape} has {x.ndim} dimensions, expected {self.spatial + 2}: "
                "[N, *spatial, C]"
            )

    def arguments(self) -> dict[str, Any]:
        """What the op takes beside x and the kernel: all else that the layer shows of itself."""
        return {name: getattr(self, name) for name in self.shown if name != "kernel_size"}


class MaxPool2d(_Pool):
    """Maximum over windows of x [N, H, W, C]; `stride` defaults to the kernel."""

    shown = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")

    def __init__(
        self,
        kernel_size: Sizes,
        *,
        stride: Sizes | None = None,
        padding: Padding = 0,
        dilation: Sizes = 1,
        ceil_mode: bool = False,
        return_index: bool = False,
    ) -> None:
        self.kernel_size, self.stride = _fixed(kernel_size), _fixed(stride)
        self.padding, self.dilation = _fixed(padding), _fixed(dilation)
        self.ceil_mode, self.return_index = ceil_mode, return_index

    def forward(self, x: Tensor) -> Any:
        """The pooled tensor; with `return_index` also the winners' positions, for MaxUnpool."""
        self.check(x)
        return ops.max_pool(x, self.kernel_size, return_index=self.return_index, **self.arguments())


class MaxPool1d(MaxPool2d):
    """Maximum over windows of x [N, L, C]; `stride` defaults to the kernel."""

    spatial = 1


class MaxPool3d(MaxPool2d):
    """Maximum over windows of x [N, D, H, W, C]; `stride` defaults to the kernel."""

    spatial = 3


class AvgPool2d(_Pool):
    """Mean over windows of x [N, H, W, C]; `stride` defaults to the kernel, padding counts as zeros unless
    `count_include_pad` is off.
    """

    shown = ("kernel_size", "stride", "padding", "ceil_mode", "count_include_pad")

    def __init__(
        self,
        kernel_size: Sizes,
        *,
        stride: Sizes | None = None,
        padding: Padding = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        self.kernel_size, self.stride, self.padding = _fixed(kernel_size), _fixed(stride), _fixed(padding)
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad

    def forward(self, x: Tensor) -> Tensor:
        """The pooled tensor."""
        self.check(x)
        return ops.avg_pool(x, self.kernel_size, **self.arguments())


class AvgPool1d(AvgPool2d):
    """Mean over windows of x [N, L, C]."""

    spatial = 1


class AvgPool3d(AvgPool2d):
    """Mean over windows of x [N, D, H, W, C]."""

    spatial = 3


class LPPool2d(_Pool):
    """(sum over the window of |x|^p)^(1/p) for x [N, H, W, C].

    p  of the norm: 1 is a sum, 2 the Euclidean norm
    """

    shown = ("p", "kernel_size", "stride", "ceil_mode")

    def __init__(
        self, p: Annotated[float, Range(1)], kernel_size: Sizes, *, stride: Sizes | None = None, ceil_mode: bool = False
    ) -> None:
        self.p, self.kernel_size, self.stride, self.ceil_mode = p, _fixed(kernel_size), _fixed(stride), ceil_mode

    def forward(self, x: Tensor) -> Tensor:
        """The pooled tensor."""
        self.check(x)
        return ops.lp_pool(x, self.kernel_size, **self.arguments())


class LPPool1d(LPPool2d):
    """(sum over the window of |x|^p)^(1/p) for x [N, L, C]."""

    spatial = 1


class AdaptiveAvgPool2d(_Pool):
    """Mean over `output_size` even windows per axis of x [N, H, W, C]."""

    shown = ("output_size",)

    def __init__(self, output_size: Sizes) -> None:
        self.output_size = _fixed(output_size)

    def forward(self, x: Tensor) -> Tensor:
        """The pooled tensor."""
        self.check(x)
        return ops.adaptive_avg_pool(x, self.output_size)


class AdaptiveAvgPool1d(AdaptiveAvgPool2d):
    """Mean over `output_size` even windows of x [N, L, C]."""

    spatial = 1


class AdaptiveAvgPool3d(AdaptiveAvgPool2d):
    """Mean over `output_size` even windows per axis of x [N, D, H, W, C]."""

    spatial = 3


class AdaptiveMaxPool2d(AdaptiveAvgPool2d):
    """Maximum over `output_size` even windows per axis of x [N, H, W, C]."""

    def forward(self, x: Tensor) -> Tensor:
        """The pooled tensor."""
        self.check(x)
        return ops.adaptive_max_pool(x, self.output_size)  # type: ignore[no-any-return]


class AdaptiveMaxPool1d(AdaptiveMaxPool2d):
    """Maximum over `output_size` even windows of x [N, L, C]."""

    spatial = 1


class AdaptiveMaxPool3d(AdaptiveMaxPool2d):
    """Maximum over `output_size` even windows per axis of x [N, D, H, W, C]."""

    spatial = 3


class GlobalAvgPool(Module):
    """Mean over all spatial dimensions: [N, *spatial, C] -> [N, C] (or [N, 1, ..., C] with `keepdims`)."""

    shown = ("keepdims",)

    def __init__(self, *, keepdims: bool = False) -> None:
        self.keepdims = keepdims

    def forward(self, x: Tensor) -> Tensor:
        """The pooled tensor."""
        return ops.global_avg_pool(x, keepdims=self.keepdims)


class GlobalMaxPool(GlobalAvgPool):
    """Maximum over all spatial dimensions: [N, *spatial, C] -> [N, C] (or [N, 1, ..., C] with `keepdims`)."""

    def forward(self, x: Tensor) -> Tensor:
        """The pooled tensor."""
        return ops.global_max_pool(x, keepdims=self.keepdims)


class MaxUnpool(Module):
    """Puts pooled values back where a max pool (``return_index=True``) found them, zeros elsewhere: -> [N,
    *output_size, C].
    """

    shown = ("output_size",)

    def __init__(self, output_size: Sizes) -> None:
        self.output_size = _fixed(output_size)

    def forward(self, x: Tensor, index: Tensor) -> Tensor:
        """x [N, *pooled, C] and index, of the same shape -> [N, *output_size, C]."""
        return ops.max_unpool(x, index, self.output_size)


def _fixed(value: Any) -> Any:
    """Lists (as a recipe brings them) as tuples."""
    return tuple(_fixed(v) for v in value) if isinstance(value, list | tuple) else value
