"""Tensors made from nothing, and masks of triangles and classes. The default float dtype is float32."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, cast

import numpy as np

from pdl import random
from pdl.dtype import DType, as_dtype, bfloat16, float32, is_floating, of_scalar
from pdl.errors import DtypeError, ShapeError
from pdl.kernels import attention as kernels
from pdl.ops.attributes import Length, Offset, Probability
from pdl.ops.base import Arrays, Op, Spec, apply, not_differentiable
from pdl.ops.broadcast import broadcast_to
from pdl.ops.cast import as_tensors
from pdl.ops.checks import check_floating
from pdl.ops.shape import reshape
from pdl.tensor import Scalar, Tensor, TensorLike, as_tensor

Shape: TypeAlias = "int | Sequence[int]"


def _made(array: Any, dtype: Any = None, *, requires_grad: bool = False) -> Tensor:
    return Tensor(array, dtype=dtype, requires_grad=requires_grad)


def _sizes(name: str, given: tuple[Shape, ...]) -> Any:
    """A shape given as one tuple, or as sizes."""
    if len(given) == 1:
        return given[0]
    if not given or not all(isinstance(size, int | np.integer) for size in given):
        raise ShapeError(f"{name}: a shape is a tuple, or sizes one by one, got {given}; dtypes are given as dtype=...")
    return given


def zeros(*shape: Shape, dtype: Any = float32, requires_grad: bool = False) -> Tensor:
    """All 0. The shape is a tuple, or its sizes one by one: zeros((2, 3)) is zeros(2, 3)."""
    return _made(np.zeros(_sizes("zeros", shape), as_dtype(dtype)), requires_grad=requires_grad)


def ones(*shape: Shape, dtype: Any = float32, requires_grad: bool = False) -> Tensor:
    """All 1; the shape as in `zeros`."""
    return _made(np.ones(_sizes("ones", shape), as_dtype(dtype)), requires_grad=requires_grad)


def full(shape: Shape, value: Scalar, *, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """All `value`, in `dtype` or the value's own (bool, int64, float32, complex64)."""
    return _made(
        np.full(shape, value, of_scalar(value) if dtype is None else as_dtype(dtype)), requires_grad=requires_grad
    )


def zeros_like(x: TensorLike, *, dtype: Any = None) -> Tensor:
    """0 in the shape of `x`, and its dtype unless another is given."""
    x = as_tensor(x)
    return zeros(x.shape, dtype=x.dtype if dtype is None else dtype)


def ones_like(x: TensorLike, *, dtype: Any = None) -> Tensor:
    """1 in the shape of `x`, and its dtype unless another is given."""
    x = as_tensor(x)
    return ones(x.shape, dtype=x.dtype if dtype is None else dtype)


def full_like(x: TensorLike, value: Scalar, *, dtype: Any = None) -> Tensor:
    """`value` in the shape of `x`, and its dtype unless another is given."""
    x = as_tensor(x)
    return full(x.shape, value, dtype=x.dtype if dtype is None else dtype)


def arange(start: float, stop: float | None = None, step: float = 1, *, dtype: Any = None) -> Tensor:
    """start, start + step, ... up to but without `stop` (one argument: from 0); int64 if all are ints, else float32."""
    first, last = (0, start) if stop is None else (start, stop)
    if step == 0:
        raise ShapeError(f"arange: from {first} to {last} in steps of 0 never ends")
    ints = all(isinstance(v, int | np.integer) for v in (first, last, step))
    return _made(np.arange(first, last, step), dtype if dtype is not None else np.int64 if ints else float32)


def linspace(start: float, stop: float, num: int, *, endpoint: bool = True, dtype: Any = float32) -> Tensor:
    """`num` values at equal distances from `start` to `stop`, which is the last one if `endpoint`."""
    return _made(np.linspace(start, stop, num, endpoint=endpoint), dtype)


def eye(rows: int, columns: int | None = None, *, k: int = 0, dtype: Any = float32) -> Tensor:
    """1 on diagonal `k` (0: the main one, above it positive), 0 elsewhere; [rows, columns or rows]."""
    return _made(np.eye(rows, columns, k, dtype=as_dtype(dtype)))


def meshgrid(*xs: TensorLike, indexing: str = "xy") -> tuple[Tensor, ...]:
    """Coordinate grids of 1-D tensors: with "ij" shape [n0, n1, ...], with "xy" [n1, n0, ...]."""
    if indexing not in ("xy", "ij"):
        raise ShapeError(f"meshgrid: indexing {indexing!r} is neither 'xy' nor 'ij'")
    tensors = as_tensors(*xs)
    places = list(range(len(tensors)))
    if indexing == "xy" and len(tensors) > 1:
        places[:2] = [1, 0]
    shape = [0] * len(tensors)
    for place, t in zip(places, tensors, strict=True):
        if t.ndim != 1:
            raise ShapeError(f"meshgrid: an input has shape {t.shape}; all must be 1-D")
        shape[place] = t.size
    grids = (
        reshape(t, [-1 if i == place else 1 for i in range(len(shape))])
        for place, t in zip(places, tensors, strict=True)
    )
    return tuple(broadcast_to(g, shape) for g in grids)


# -- random ------------------------------------------------------------------------------------------------------------
def rand(*shape: Shape, dtype: Any = float32, requires_grad: bool = False) -> Tensor:
    """Uniform in [0, 1), from pdl's generator (`pdl.seed`); the shape as in `zeros`."""
    wanted = as_dtype(dtype)
    return _made(
        random.generator().random(_sizes("rand", shape), _sampling_dtype(wanted)), wanted, requires_grad=requires_grad
    )


def randn(*shape: Shape, dtype: Any = float32, requires_grad: bool = False) -> Tensor:
    """Normal with mean 0 and variance 1, from pdl's generator (`pdl.seed`); the shape as in `zeros`."""
    wanted = as_dtype(dtype)
    return _made(
        random.generator().standard_normal(_sizes("randn", shape), _sampling_dtype(wanted)),
        wanted,
        requires_grad=requires_grad,
    )


def randint(low: int, high: int, shape: Shape, *, dtype: Any = "int64") -> Tensor:
    """Integers in [low, high), all equally likely, from pdl's generator (`pdl.seed`)."""
    return _made(random.generator().integers(low, high, shape), dtype)


def randperm(n: int) -> Tensor:
    """0 ... n-1 in random order, int64, from pdl's generator (`pdl.seed`)."""
    return _made(random.generator().permutation(n))


def _sampling_dtype(dtype: DType) -> Any:
    if not is_floating(dtype):
        raise DtypeError(f"random floats come in float32, float64 or bfloat16, not {dtype.name}")
    return np.float32 if dtype == bfloat16 else dtype


class DropoutMask(Op):
    """0 with probability `rate`, else 1 / (1 - rate), drawn from pdl's generator at every run."""

    shape: tuple[Length, ...]
    rate: Probability
    dtype: DType
    stateful = True
    native_bf16 = True
    vjp = not_differentiable("random numbers depend on no input")

    def infer(self) -> Spec:
        check_floating("dropout_mask", mask=Spec(self.shape, self.dtype))
        return Spec(self.shape, self.dtype)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        outs[0].fill(1)
        kernels.dropout(outs[0], outs[0], self.rate, int(random.generator().bit_generator.random_raw()) >> 1)  # type: ignore[attr-defined]


def dropout_mask(shape: Shape, *, rate: float, dtype: Any = float32) -> Tensor:
    """0 with probability `rate`, else 1 / (1 - rate), so that its mean is 1; from pdl's generator."""
    if not 0 <= rate < 1:
        raise ShapeError(f"dropout: rate {rate} is outside [0, 1)")
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    return cast(Tensor, apply(DropoutMask(sizes, float(rate), as_dtype(dtype))))


class Noise(Op):
    """Normal with mean 0 and variance 1, drawn from pdl's generator at every run."""

    shape: tuple[Length, ...]
    stateful = True
    vjp = not_differentiable("random numbers depend on no input")

    def infer(self) -> Spec:
        return Spec(self.shape, float32)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        outs[0][...] = random.generator().standard_normal(self.shape, np.float32)


def noise(shape: Shape) -> Tensor:
    """Normal with mean 0 and variance 1, float32: as `randn`, and in a program new numbers at every run."""
    return cast(Tensor, apply(Noise((shape,) if isinstance(shape, int) else tuple(shape))))


# -- triangles and classes ---------------------------------------------------------------------------------------------
class Tril(Op):
    """x on and below diagonal k of the last two dimensions, 0 above."""

    k: Offset = 0
    native_bf16 = True

    def infer(self, x: Spec) -> Spec:
        if len(x.shape) < 2:
            raise ShapeError(f"tril, triu: {x.shape} has {len(x.shape)} dimensions, at least 2 are needed")
        return x

    def cpu(self, outs: Arrays, ins: Arrays) -> None:
        rows, columns = ins[0].shape[-2:]
        self.keep(outs[0], ins[0], np.tri(rows, columns, self.k, dtype=bool))

    def keep(self, y: Any, x: Any, lower: Any) -> None:
        """y = x in the triangle, else 0."""
        y.fill(0)
        np.copyto(y, x, where=lower)

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> Tensor:
        return tril(g, k=self.k)


class Triu(Tril):
    """x on and above diagonal k of the last two dimensions, 0 below."""

    def cpu(self, outs: Arrays, ins: Arrays) -> None:
        rows, columns = ins[0].shape[-2:]
        self.keep(outs[0], ins[0], ~np.tri(rows, columns, self.k - 1, dtype=bool))

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> Tensor:
        return triu(g, k=self.k)


class OneHot(Op):
    """y[..., c] = 1 where x = c, else 0."""

    num_classes: Length
    dtype: DType = float32
    native_bf16 = True
    vjp = not_differentiable("its input are integers")

    def infer(self, x: Spec) -> Spec:
        if x.dtype.kind not in "iu":
            raise DtypeError(f"one_hot: indices are {x.dtype.name}, not integers")
        return Spec((*x.shape, self.num_classes), self.dtype)

    def cpu(self, outs: Arrays, ins: Arrays) -> None:
        x, n = ins[0], self.num_classes
        if x.size and (x.min() < 0 or x.max() >= n):
            raise ShapeError(f"one_hot: indices from {x.min()} to {x.max()}, classes are 0 to {n - 1}")
        outs[0][...] = x[..., None] == np.arange(n)


def tril(x: TensorLike, *, k: int = 0) -> Tensor:
    """`x` on and below diagonal `k` of the last two dimensions, 0 above."""
    return cast(Tensor, apply(Tril(k), as_tensor(x)))


def triu(x: TensorLike, *, k: int = 0) -> Tensor:
    """`x` on and above diagonal `k` of the last two dimensions, 0 below."""
    return cast(Tensor, apply(Triu(k), as_tensor(x)))


def one_hot(indices: TensorLike, num_classes: int, *, dtype: Any = float32) -> Tensor:
    """A new last dimension of size `num_classes`, 1 at the index and 0 elsewhere; indices are in [0, num_classes)."""
    return cast(Tensor, apply(OneHot(num_classes, as_dtype(dtype)), as_tensor(indices)))


__all__ = [
    "arange", "dropout_mask", "eye", "full", "full_like", "linspace", "meshgrid", "noise", "one_hot", "ones",
    "ones_like", "rand", "randint", "randn", "randperm", "tril", "triu", "zeros", "zeros_like",
]  # fmt: skip
