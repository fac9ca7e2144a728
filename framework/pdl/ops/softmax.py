"""Softmax and its logarithm along an axis."""

from __future__ import annotations

from typing import ClassVar, cast

import numpy as np

from pdl.dtype import Array
from pdl.errors import ShapeError
from pdl.kernels import softmax as kernels
from pdl.kernels.copies import contiguous, copy
from pdl.kernels.memory import empty
from pdl.ops.attributes import Axis
from pdl.ops.base import Arrays, Fused, Op, Spec, apply
from pdl.ops.checks import check_floating, normalize_axis
from pdl.ops.elementwise import exp
from pdl.ops.reduce import sum
from pdl.tensor import Tensor, TensorLike, as_tensor


def _rows(axis: int, *arrays: Array) -> list[Array]:
    """The arrays with `axis` last, contiguous."""
    return [contiguous(np.moveaxis(a, axis, -1)) for a in arrays]


class Softmax(Op):
    """y_i = e^x_i / sum_j e^x_j along `axis`."""

    axis: Axis = -1
    logarithm: ClassVar[bool] = False
    native_bf16 = native = True

    def infer(self, x: Spec) -> Spec:
        name = "log_softmax" if self.logarithm else "softmax"
        check_floating(name, x=x)
        normalize_axis(name, self.axis, len(x.shape))
        return x

    def cpu(self, outs: Arrays, ins: Arrays) -> None:
        kernel = kernels.log_softmax if self.logarithm else kernels.softmax
        (x,) = _rows(self.axis, ins[0])
        if self.axis in (-1, x.ndim - 1):
            kernel(outs[0], x)
        else:
            made = empty(x.shape, x.dtype)
            kernel(made, x)
            copy(outs[0], np.moveaxis(made, -1, self.axis))

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> Tensor:
        return cast(Tensor, apply(SoftmaxGrad(self.axis, self.logarithm), g, y))


class LogSoftmax(Softmax):
    """y_i = x_i - log sum_j e^x_j along `axis`."""

    logarithm = True


class SoftmaxGrad(Fused):
    """dx = y (g - sum g y) along `axis`, y the softmax; or for its logarithm y: dx = g - e^y sum g."""

    axis: Axis = -1
    logarithm: bool = False
    native_bf16 = native = True

    def infer(self, g: Spec, y: Spec) -> Spec:
        if g.shape != y.shape:
            raise ShapeError(f"gradient of softmax: g {g.shape} and y {y.shape} differ")
        normalize_axis("gradient of softmax", self.axis, len(y.shape))
        return y

    def cpu(self, outs: Arrays, ins: Arrays) -> None:
        kernel = kernels.log_softmax_grad if self.logarithm else kernels.softmax_grad
        g, y = _rows(self.axis, *ins)
        if self.axis in (-1, y.ndim - 1):
            kernel(outs[0], g, y)
        else:
            made = empty(y.shape, y.dtype)
            kernel(made, g, y)
            copy(outs[0], np.moveaxis(made, -1, self.axis))

    def compose(self, g: Tensor, y: Tensor) -> Tensor:
        if self.logarithm:
            return g - exp(y) * sum(g, axis=self.axis, keepdims=True)
        return y * (g - sum(g * y, axis=self.axis, keepdims=True))


def softmax(x: TensorLike, axis: int = -1) -> Tensor:
    """e^x / sum e^x along `axis`, without overflow; a row of -inf gives NaN."""
    return cast(Tensor, apply(Softmax(axis), as_tensor(x)))


def log_softmax(x: TensorLike, axis: int = -1) -> Tensor:
    """x - log(sum e^x) along `axis`, without overflow."""
    return cast(Tensor, apply(LogSoftmax(axis), as_tensor(x)))


__all__ = ["log_softmax", "softmax"]
