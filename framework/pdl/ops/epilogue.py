"""Products with something done to every tile while it is near: what programs fuse products and convolutions into.

Each op is the product's own kernel with an epilogue; its gradient is that of the parts.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from pdl.dtype import bfloat16, float32
from pdl.errors import ShapeError
from pdl.kernels import conv as kernels
from pdl.kernels.copies import contiguous as _c
from pdl.kernels.gemm import matmul as gemm
from pdl.kernels.pointwise import GRADIENT_OF
from pdl.ops.activation import _activation_of, _gradient_of, activation_class
from pdl.ops.base import Arrays, Fused, Spec, apply
from pdl.ops.cast import astype
from pdl.ops.checks import check_floating
from pdl.ops.conv import Conv, _conv_op, _Window
from pdl.ops.elementwise import square
from pdl.ops.linalg import Linear, as_matrix, linear
from pdl.ops.reduce import mean as mean_of
from pdl.tensor import Tensor, TensorLike, as_tensor


def keeps_input(activation: str) -> bool:
    """Whether the gradient of the activation class wants what it was applied to; the others do with their value."""
    return GRADIENT_OF[activation_class(activation).kernel] == "x"


class LinearAct(Fused):
    """y = f(z), z = x [..., C] @ w [C, O] + b [O] (b may be absent); f is the op class `activation` made of `values`.

    Outputs y and, where f's gradient is a function of z (`keeps_input`), z.
    """

    activation: str
    values: tuple[float, ...] = ()
    native_bf16 = native = True

    def infer(self, x: Spec, w: Spec, b: Spec | None) -> Spec | tuple[Spec, ...]:
        made = _linear.infer(x, w, b)
        check_floating("linear_act", x=x)
        _activation_of(self.activation, self.values)
        return (made, made) if keeps_input(self.activation) else made

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        x, w, b = ins
        f = _activation_of(self.activation, self.values)
        y, *before = map(as_matrix, outs)
        gemm(y, as_matrix(_c(x)), w, None if b is None else _c(b), f.kernel, f.parameters(), *before)

    def compose(self, x: Tensor, w: Tensor, b: Tensor | None) -> Tensor | tuple[Tensor, ...]:
        z = linear(x, w, b)
        y = cast(Tensor, apply(_activation_of(self.activation, self.values), z))
        return (y, z) if keeps_input(self.activation) else y

    def vjp(self, g: Any, y: Any, x: Tensor, w: Tensor, b: Tensor | None) -> Any:
        (gy, gz), ref = (g, y[1]) if keeps_input(self.activation) else ((g, None), y)
        if gy is not None:
            through = apply(_gradient_of(self.activation, self.values), gy, ref)
            gz = through if gz is None else gz + through
        return _linear.vjp(cast(Tensor, gz), ref, x, w, b)


class _ConvPlus(_Window, Fused, abstract=True):
    """A convolution with an epilogue."""

    def conv(self) -> Conv:
        """The convolution alone."""
        return Conv(self.stride, self.padding, self.dilation, self.groups)

    def forward(self, y: np.ndarray, x: np.ndarray, w: np.ndarray, b: np.ndarray | None, **more: Any) -> None:
        """The kernel, with arguments for the epilogue."""
        bias = None if b is None else _c(b)
        kernels.forward_then(self.image(y), self.image(x), self.weight(w), bias, *self.geometry(), **more)


class ConvStats(_ConvPlus):
    """y = conv(x, w) (+ b) and the mean [O] and biased variance [O] of its channels: what batch norm begins with.

    The sums are taken tile by tile about a value near the mean and merged in float64. Statistics of bfloat16 are
    float32.
    """

    native_bf16 = native = True

    def infer(self, x: Spec, w: Spec, b: Spec | None) -> tuple[Spec, ...]:
        y = self.conv().infer(x, w, b)
        if 0 in y.shape:
            raise ShapeError(f"{self.name()}_stats: y {y.shape} has no values to take statistics of")
        stats = Spec(y.shape[-1:], float32 if y.dtype == bfloat16 else y.dtype)
        return y, stats, stats

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        y, mean, var = outs
        self.forward(y, *ins, mean=mean, var=var)

    def compose(self, x: Tensor, w: Tensor, b: Tensor | None) -> tuple[Tensor, ...]:
        y = cast(Tensor, apply(self.conv(), x, w) if b is None else apply(self.conv(), x, w, b))
        axes = tuple(range(y.ndim - 1))
        wide = astype(y, float32) if y.dtype == bfloat16 else y
        mean = mean_of(wide, axis=axes)
        return y, mean, mean_of(square(wide - mean), axis=axes)

    def vjp(self, g: Any, y: Any, x: Tensor, w: Tensor, b: Tensor | None) -> Any:
        (total, g_mean, g_var), (out, mean, _) = g, y
        count = out.size / out.shape[-1]
        share = None if g_mean is None else g_mean / count
        if g_var is not None:
            slope = (out - mean) * (g_var * (2 / count))
            share = slope if share is None else slope + share
        if share is not None:
            share = astype(share, out.dtype)
            total = share + out * 0 if total is None else total + share
        found = self.conv().vjp(total, out, x, w, b)
        return (*found, None) if b is None else found


class ConvAct(_ConvPlus):
    """y = f(conv(x, w) (+ b) (+ residual)), f the op class `activation` made of `values`, or the identity where it is
    empty."""

    activation: str = ""
    values: tuple[float, ...] = ()
    native_bf16 = native = True

    def infer(self, x: Spec, w: Spec, b: Spec | None, residual: Spec | None) -> Spec:
        y = self.conv().infer(x, w, b)
        if self.activation:
            _activation_of(self.activation, self.values)
        if residual is not None and residual != y:
            raise ShapeError(
                f"{self.name()}: residual {residual.shape} {residual.dtype.name} is not like y {y.shape} {y.dtype.name}"
            )
        return y

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        x, w, b, residual = ins
        how: dict[str, Any] = {"residual": None if residual is None else _c(residual)}
        if self.activation:
            f = _activation_of(self.activation, self.values)
            how |= {"activation": f.kernel, "parameters": f.parameters()}
        self.forward(outs[0], x, w, b, **how)

    def compose(self, x: Tensor, w: Tensor, b: Tensor | None, residual: Tensor | None) -> Tensor:
        y = apply(self.conv(), x, w) if b is None else apply(self.conv(), x, w, b)
        y = y if residual is None else y + residual
        return cast(Tensor, apply(_activation_of(self.activation, self.values), y) if self.activation else y)

    def vjp(self, g: Tensor, y: Tensor, x: Tensor, w: Tensor, b: Tensor | None, residual: Tensor | None) -> Any:
        if self.activation and keeps_input(self.activation):
            return super().vjp(g, y, x, w, b, residual)
        gz = cast(Tensor, apply(_gradient_of(self.activation, self.values), g, y)) if self.activation else g
        dx, dw, *db = self.conv().vjp(gz, y, x, w, b)
        return dx, dw, db[0] if db else None, None if residual is None else gz


_linear = Linear()


# -- functions ---------------------------------------------------------------------------------------------------------
def linear_act(
    x: TensorLike, w: TensorLike, b: TensorLike | None = None, *, activation: str, values: Any = ()
) -> Tensor:
    """f(x [..., C] @ w [C, O] + b [O]), f the op class `activation`."""
    y = apply(LinearAct(activation, tuple(values)), as_tensor(x), as_tensor(w), None if b is None else as_tensor(b))
    return cast(Tensor, y[0] if isinstance(y, tuple) else y)


def conv2d_stats(x: TensorLike, w: TensorLike, b: TensorLike | None = None, **window: Any) -> tuple[Tensor, ...]:
    """`conv2d` and the mean [O] and biased variance [O] of its channels."""
    return cast("tuple[Tensor, ...]", apply(_plus(ConvStats, w, window), *_optional(x, w, b)))


def conv2d_act(x: TensorLike, w: TensorLike, b: TensorLike | None = None, residual: TensorLike | None = None, *,
               activation: str = "", values: Any = (), **window: Any) -> Tensor:  # fmt: skip
    """f(conv2d(x, w, b) + residual), f the op class `activation` or the identity."""
    op = _plus(ConvAct, w, window, activation=activation, values=tuple(values))
    return cast(Tensor, apply(op, *_optional(x, w, b, residual)))


def _optional(*values: TensorLike | None) -> list[Tensor | None]:
    return [None if v is None else as_tensor(v) for v in values]


def _plus(kind: type[_ConvPlus], w: TensorLike, window: dict[str, Any], **more: Any) -> _ConvPlus:
    how = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1} | window
    op = _conv_op(2, as_tensor(w).shape, how["stride"], how["padding"], how["dilation"], how["groups"])
    return kind(stride=op.stride, padding=op.padding, dilation=op.dilation, groups=op.groups, **more)
