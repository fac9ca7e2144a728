"""Products with everything that follows them: what inference passes make of a convolution or a linear layer.

y = f(product + b (+ residual)), f any function of `pdl.kernels.pointwise.UNARY`, done to every tile while it is in
registers. Unlike `pdl.ops.epilogue` there is one output and no gradient: the passes run on programs that learn no more.
"""

from __future__ import annotations

from typing import Any, ClassVar, cast

from pdl.dtype import Array
from pdl.errors import ShapeError, UsageError
from pdl.kernels import conv as kernels
from pdl.kernels.copies import contiguous
from pdl.kernels.gemm import matmul as gemm
from pdl.kernels.pointwise import UNARY
from pdl.ops.base import Arrays, Op, Spec, not_differentiable
from pdl.ops.conv import Conv, _Window
from pdl.ops.linalg import Linear, as_matrix

_linear = Linear()
NO_GRADIENT = not_differentiable("made by inference passes, after gradients")


def check_then(name: str, activation: str, y: Spec, residual: Spec | None) -> Spec:
    """`y`; raises unless the kernels know the activation and the residual is like y."""
    if activation and activation not in UNARY:
        raise UsageError(f"{name}: activation is {activation!r}; expected '' or one of {', '.join(UNARY)}")
    if residual is not None and residual != y:
        raise ShapeError(
            f"{name}: residual {residual.shape} {residual.dtype.name} is not like y {y.shape} {y.dtype.name}"
        )
    return y


def _then(activation: str, parameters: tuple[float, ...], residual: Array | None) -> dict[str, Any]:
    """The epilogue as keyword arguments of the kernels."""
    return {"activation": activation or None, "parameters": parameters, "residual": _optional(residual)}


def _optional(x: Array | None) -> Array | None:
    return cast("Array | None", contiguous(x))


class ConvThen(_Window):
    """y = f(conv(x, w) (+ b) (+ residual)), f the function `activation` of `UNARY`; the window is that of `Conv`."""

    activation: str = ""
    parameters: tuple[float, ...] = ()
    vjp: ClassVar[Any] = NO_GRADIENT

    def infer(self, x: Spec, w: Spec, b: Spec | None, residual: Spec | None) -> Spec:
        y = Conv(self.stride, self.padding, self.dilation, self.groups).infer(x, w, b)
        return check_then(f"{self.name()}_then", self.activation, y, residual)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        x, w, b, residual = ins
        bias, how = _optional(b), _then(self.activation, self.parameters, residual)
        kernels.forward_then(self.image(outs[0]), self.image(x), self.weight(w), bias, *self.geometry(), **how)


class LinearThen(Op):
    """y = f(x [..., C] @ w [C, O] (+ b [O]) (+ residual)), f the function `activation` of `UNARY`."""

    activation: str = ""
    parameters: tuple[float, ...] = ()
    native_bf16 = native = True
    vjp: ClassVar[Any] = NO_GRADIENT

    def infer(self, x: Spec, w: Spec, b: Spec | None, residual: Spec | None) -> Spec:
        return check_then("linear_then", self.activation, _linear.infer(x, w, b), residual)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        x, w, b, residual = ins
        y = as_matrix(outs[0])
        rows, how = as_matrix(contiguous(x)), _then(self.activation, self.parameters, residual)
        gemm(y, rows, w, _optional(b), **how)
