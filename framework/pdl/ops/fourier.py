"""Discrete Fourier transforms, by NumPy's pocketfft. The functions are in `pdl.fft`.

Of each pair one is the adjoint of the other but for a factor, so their gradients are transforms, too.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias, cast

import numpy as np

from pdl.dtype import complex_of, real_of
from pdl.errors import ShapeError
from pdl.hints import Choice
from pdl.ops.attributes import Axis, Length
from pdl.ops.base import Arrays, Op, Spec, apply
from pdl.ops.cast import astype
from pdl.ops.checks import check_kind, normalize_axes, normalize_axis
from pdl.ops.elementwise import multiply
from pdl.tensor import Tensor

#: where the factor 1/n goes: "backward" to inverse transforms, "forward" to the others, "ortho" 1/sqrt(n) to both
Norm: TypeAlias = Annotated[str, Choice(("backward", "ortho", "forward"))]
#: the norm with which the inverse of a transform is its adjoint
SWAPPED = {"backward": "forward", "ortho": "ortho", "forward": "backward"}


def _check_sizes(name: str, x: Spec, axes: tuple[int, ...]) -> None:
    if any(not x.shape[axis] for axis in axes):
        raise ShapeError(f"{name}: {x.shape} has no elements along {axes}; a transform has at least 1 point")


class FFT(Op):
    """y_k = sum_j x_j e^(-2 pi i jk / n) of complex x along each of `axes`; with + if `inverse`."""

    axes: tuple[Axis, ...]
    inverse: bool
    norm: Norm

    def infer(self, x: Spec) -> Spec:
        check_kind("fft", "c", x.dtype)
        _check_sizes("fft", x, normalize_axes("fft", self.axes, len(x.shape)))
        return x

    def cpu(self, outs: Arrays, ins: Arrays) -> None:
        transform = np.fft.ifftn if self.inverse else np.fft.fftn
        outs[0][...] = transform(ins[0], axes=self.axes, norm=cast(Any, self.norm))

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> Tensor:
        return cast(Tensor, apply(FFT(self.axes, not self.inverse, SWAPPED[self.norm]), g))


class RealFFT(Op):
    """y_k = sum_j x_j e^(-2 pi i jk / n) of real x along `axis`, for k from 0 to n // 2: the others are conjugates."""

    axis: Axis
    norm: Norm

    def infer(self, x: Spec) -> Spec:
        check_kind("rfft", "f", x.dtype)
        axis = normalize_axis("rfft", self.axis, len(x.shape))
        _check_sizes("rfft", x, (axis,))
        return Spec((*x.shape[:axis], x.shape[axis] // 2 + 1, *x.shape[axis + 1 :]), complex_of(x.dtype))

    def cpu(self, outs: Arrays, ins: Arrays) -> None:
        outs[0][...] = np.fft.rfft(ins[0], axis=self.axis, norm=cast(Any, self.norm))

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> Tensor:
        n = x.shape[self.axis]
        halved = multiply(g, _twice(n, self.axis, g, 0.5))
        return astype(cast(Tensor, apply(InverseRealFFT(n, self.axis, SWAPPED[self.norm]), halved)), x.dtype)


class InverseRealFFT(Op):
    """The real x of length n along `axis` whose `RealFFT` is y, of which n // 2 + 1 elements are read."""

    n: Length
    axis: Axis
    norm: Norm

    def infer(self, x: Spec) -> Spec:
        check_kind("irfft", "c", x.dtype)
        axis = normalize_axis("irfft", self.axis, len(x.shape))
        if self.n < 1 or x.shape[axis] != self.n // 2 + 1:
            raise ShapeError(
                f"irfft: axis {axis} of {x.shape} has {x.shape[axis]} elements; n = {self.n} needs {self.n // 2 + 1}, "
                "and is at least 1"
            )
        return Spec((*x.shape[:axis], self.n, *x.shape[axis + 1 :]), real_of(x.dtype))

    def cpu(self, outs: Arrays, ins: Arrays) -> None:
        outs[0][...] = np.fft.irfft(ins[0], self.n, axis=self.axis, norm=cast(Any, self.norm))

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> Tensor:
        made = cast(Tensor, apply(RealFFT(self.axis, SWAPPED[self.norm]), g))
        return multiply(made, _twice(self.n, self.axis, made, 2.0))


def _twice(n: int, axis: int, y: Tensor, factor: float) -> Tensor:
    """`factor` for the elements of half a spectrum that stand for a pair, 1 for the others."""
    weights = np.full(n // 2 + 1, factor, real_of(y.dtype))
    weights[0] = 1
    if n % 2 == 0:
        weights[-1] = 1
    return Tensor(weights.reshape([-1 if i == axis % y.ndim else 1 for i in range(y.ndim)]))
