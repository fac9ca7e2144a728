"""Dtypes and the parts of complex numbers. These ops are gradients of one another, and most others build on them."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from pdl.dtype import Array, DType, as_dtype, complex_of, is_complex, promote, real_of
from pdl.errors import ShapeError
from pdl.kernels.copies import contiguous, convert, copy
from pdl.ops.base import Arrays, Op, Spec, apply
from pdl.ops.checks import check_kind
from pdl.tensor import Tensor, TensorLike, _Autocast, as_tensor


class AsType(Op):
    """x with another dtype; to a real dtype a complex x gives its real part."""

    native_bf16 = native = True
    dtype: DType

    def infer(self, x: Spec) -> Spec:
        return Spec(x.shape, self.dtype)

    def cpu(self, outs: Arrays, ins: Arrays) -> None:
        x = ins[0].real if is_complex(ins[0].dtype) and not is_complex(self.dtype) else ins[0]
        if x.dtype == self.dtype:
            copy(outs[0], x)
        else:
            convert(outs[0], contiguous(x))

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> Tensor:
        return astype(g, x.dtype)


class Complex(Op):
    """y = real + i imag."""

    def infer(self, real: Spec, imag: Spec) -> Spec:
        check_kind("complex", "f", real.dtype)
        if real != imag:
            raise ShapeError(
                f"complex: real part {real.shape} {real.dtype.name}, imaginary {imag.shape} {imag.dtype.name}"
            )
        return Spec(real.shape, complex_of(real.dtype))

    def cpu(self, outs: Arrays, ins: Arrays) -> None:
        outs[0].real, outs[0].imag = ins

    def vjp(self, g: Tensor, y: Tensor, real_part: Tensor, imag_part: Tensor) -> Any:
        return lambda: astype(real(g), real_part.dtype), lambda: astype(imag(g), imag_part.dtype)


class Conj(Op):
    """Complex conjugate."""

    def infer(self, x: Spec) -> Spec:
        check_kind("conj", "c", x.dtype)
        return x

    def cpu(self, outs: Arrays, ins: Arrays) -> None:
        np.conjugate(ins[0], outs[0])

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> Tensor:
        return conj(g)


class Real(Op):
    """Real part (a view) of a complex tensor."""

    def infer(self, x: Spec) -> Spec:
        check_kind("real", "c", x.dtype)
        return Spec(x.shape, real_of(x.dtype))

    def view(self, x: Array) -> Array:
        return x.real

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> Tensor:
        return astype(g, x.dtype)


class Imag(Op):
    """Imaginary part (a view) of a complex tensor."""

    def infer(self, x: Spec) -> Spec:
        check_kind("imag", "c", x.dtype)
        return Spec(x.shape, real_of(x.dtype))

    def view(self, x: Array) -> Array:
        return x.imag

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> Tensor:
        return g * 1j


_conj, _real, _imag, _complex = Conj(), Real(), Imag(), Complex()


def astype(x: TensorLike, dtype: Any) -> Tensor:
    """`x` with the dtype named, `x` itself if it has it: what ops write; `pdl.astype` may copy."""
    x, dtype = as_tensor(x), as_dtype(dtype)
    return x if x.dtype == dtype else apply(AsType(dtype), x)


def as_tensors(*values: TensorLike) -> tuple[Tensor, ...]:
    """Tensors of one common dtype; Python scalars take that of the tensors."""
    common: DType | None = None
    for v in values:
        if not isinstance(v, bool | int | float | complex):
            dtype = as_tensor(v).dtype
            common = dtype if common is None else promote(common, dtype)
    # numbers in lists are read in the common dtype, not by way of float32
    tensors = tuple(Tensor(v, dtype=common) if isinstance(v, list) else as_tensor(v, beside=common) for v in values)
    if _Autocast.active is not None:
        tensors, common = _Autocast.active.meet(tensors), None
    for t in tensors:
        common = t.dtype if common is None else promote(common, t.dtype)
    return tuple(t if t.dtype == common else astype(t, common) for t in tensors)


def make_complex(real: TensorLike, imag: TensorLike) -> Tensor:
    """real + i imag, from two float tensors of one shape and dtype; complex64 from float32 and bfloat16."""
    return cast(Tensor, apply(_complex, *as_tensors(real, imag)))


def conj(x: TensorLike) -> Tensor:
    """Complex conjugate; `x` itself where it is real."""
    x = as_tensor(x)
    return apply(_conj, x) if is_complex(x.dtype) else x


def real(x: TensorLike) -> Tensor:
    """Real part; `x` itself where it is real."""
    x = as_tensor(x)
    return apply(_real, x) if is_complex(x.dtype) else x


def imag(x: TensorLike) -> Tensor:
    """Imaginary part; zeros where `x` is real."""
    x = as_tensor(x)
    return apply(_imag, x) if is_complex(x.dtype) else Tensor(np.zeros_like(x.data))


__all__ = ["conj", "imag", "make_complex", "real"]
