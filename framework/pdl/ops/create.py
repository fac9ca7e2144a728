"""Tensors made from nothing, and masks of triangles and classes. The default float dtype is float32."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, cast

import numpy as np

from pdl import random
from pdl.dtype import Array, DType, as_dtype, bfloat16, complex64, float32, int64, is_floating
from pdl.errors import DtypeError, ShapeError, SharingError
from pdl.exchange import as_device, imported
from pdl.kernels import attention as kernels
from pdl.ops.attributes import Length, Offset, Probability
from pdl.ops.base import Arrays, Op, Spec, apply, not_differentiable
from pdl.ops.broadcast import broadcast_to
from pdl.ops.cast import as_tensors, astype
from pdl.ops.checks import check_floating
from pdl.ops.shape import clone, reshape
from pdl.tensor import Scalar, Tensor, TensorLike, as_tensor

Shape: TypeAlias = "int | Sequence[int]"


def _made(array: Any, dtype: Any = None, *, requires_grad: bool = False) -> Tensor:
    return Tensor(array, dtype=dtype, requires_grad=requires_grad)


def _sizes(name: str, shape: Shape, more: tuple[int, ...]) -> Any:
    """A shape given as one tuple, or as sizes."""
    if not more:
        return shape
    given = (shape, *more)
    if not all(isinstance(size, int | np.integer) for size in given):
        raise ShapeError(f"{name}: a shape is a tuple, or sizes one by one, got {given}; dtypes are given as dtype=...")
    return given


# -- from what is there ------------------------------------------------------------------------------------------------
def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor of a tensor, an array, anything with `__dlpack__` or a buffer, a scalar or nested lists.

    Memory is shared where that can be; `copy` True always copies, False raises SharingError (a ValueError) where only a
    copy would do. Python's numbers become bool, int64, float32 or complex64 unless a dtype is given.
    """
    as_device("asarray", device)
    wanted = None if dtype is None else as_dtype(dtype)
    if isinstance(obj, Tensor):
        made = obj if wanted is None else astype(obj, wanted)
        shared = made is obj
    else:
        held = _held(obj)
        made = Tensor(obj if held is None else held, dtype=wanted)
        shared = held is not None and made.dtype == held.dtype
    if copy is False and not shared:
        raise SharingError(
            f"asarray: a {type(obj).__name__} is copied to become {made.dtype.name}; leave out copy=False"
        )
    return clone(made) if copy and shared else made


def _held(obj: Any) -> Array | None:
    """The array in an object that has one; None for scalars and lists."""
    if isinstance(obj, bool | int | float | complex | list | tuple | np.generic):
        return None
    if hasattr(obj, "__dlpack__") and not isinstance(obj, np.ndarray):
        return imported(obj)
    return np.asarray(memoryview(obj) if isinstance(obj, bytes) else obj)


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """The memory of anything with `__dlpack__` (NumPy, PyTorch, JAX, ...) as a tensor, without a copy unless `copy`; it
    may be written where the other library says so."""
    as_device("from_dlpack", device)
    return Tensor._wrap(imported(x, copy))


# -- of one value ------------------------------------------------------------------------------------------------------
def empty(shape: Shape, *sizes: int, dtype: Any = None, device: Any = None) -> Tensor:
    """Of any values whatever; the shape as in `zeros`."""
    as_device("empty", device)
    return Tensor._wrap(np.empty(_sizes("empty", shape, sizes), as_dtype(dtype, float32)))


def zeros(shape: Shape, *sizes: int, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """All 0, float32 unless another dtype is given. The shape is a tuple, or its sizes one by one: zeros((2, 3)) is
    zeros(2, 3)."""
    as_device("zeros", device)
    return _made(np.zeros(_sizes("zeros", shape, sizes), as_dtype(dtype, float32)), requires_grad=requires_grad)


def ones(shape: Shape, *sizes: int, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """All 1; shape and dtype as in `zeros`."""
    as_device("ones", device)
    return _made(np.ones(_sizes("ones", shape, sizes), as_dtype(dtype, float32)), requires_grad=requires_grad)


def full(
    shape: Shape, fill_value: Scalar | Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """All `fill_value`, in `dtype` or the value's own (bool, int64, float32, complex64)."""
    as_device("full", device)
    value = Tensor(fill_value, dtype=dtype).data
    if value.ndim:
        raise ShapeError(f"full: fill_value has the shape {value.shape}, not that of one number")
    return _made(np.full(shape, value, value.dtype), requires_grad=requires_grad)


def empty_like(x: TensorLike, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Any values whatever in the shape of `x`, and its dtype unless another is given."""
    x = as_tensor(x)
    return empty(x.shape, dtype=as_dtype(dtype, x.dtype), device=device)


def zeros_like(x: TensorLike, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """0 in the shape of `x`, and its dtype unless another is given."""
    x = as_tensor(x)
    return zeros(x.shape, dtype=as_dtype(dtype, x.dtype), device=device)


def ones_like(x: TensorLike, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """1 in the shape of `x`, and its dtype unless another is given."""
    x = as_tensor(x)
    return ones(x.shape, dtype=as_dtype(dtype, x.dtype), device=device)


def full_like(x: TensorLike, /, fill_value: Scalar | Tensor, *, dtype: Any = None, device: Any = None) -> Tensor:
    """`fill_value` in the shape of `x`, and its dtype unless another is given."""
    x = as_tensor(x)
    return full(x.shape, fill_value, dtype=as_dtype(dtype, x.dtype), device=device)


# -- ranges ------------------------------------------------------------------------------------------------------------
def arange(
    start: float, /, stop: float | None = None, step: float = 1, *, dtype: Any = None, device: Any = None
) -> Tensor:
    """start, start + step, ... up to but without `stop` (one argument: from 0); int64 if all are ints, else float32."""
    as_device("arange", device)
    first, last = (0, start) if stop is None else (start, stop)
    if step == 0:
        raise ShapeError(f"arange: from {first} to {last} in steps of 0 never ends")
    ints = all(isinstance(v, int | np.integer) for v in (first, last, step))
    wanted = as_dtype(dtype, int64 if ints else float32)
    if not ints:
        return _made(np.arange(first, last, step), wanted)
    numbers = range(int(first), int(last), int(step))  # NumPy would count long ranges in float64
    if all(-(2**63) <= v < 2**63 for v in (numbers.start, numbers.stop, numbers.step)):
        return _made(np.arange(len(numbers)) * numbers.step + numbers.start, wanted)
    return _made(list(numbers), wanted)


def linspace(
    start: complex, stop: complex, /, num: int, *, dtype: Any = None, device: Any = None, endpoint: bool = True
) -> Tensor:
    """`num` values at equal distances from `start` to `stop`, which is the last one if `endpoint`; without a dtype
    float32, or complex64 if one is complex."""
    as_device("linspace", device)
    default = complex64 if isinstance(start, complex) or isinstance(stop, complex) else float32
    return _made(np.linspace(start, stop, num, endpoint=endpoint), as_dtype(dtype, default))


def eye(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None) -> Tensor:
    """1 on diagonal `k` (0: the main one, above it positive), 0 elsewhere; [n_rows, n_cols or n_rows]."""
    as_device("eye", device)
    return _made(np.eye(n_rows, n_cols, k, dtype=as_dtype(dtype, float32)))


def meshgrid(*arrays: TensorLike, indexing: str = "xy") -> tuple[Tensor, ...]:
    """Coordinate grids of 1-D tensors: with "ij" shape [n0, n1, ...], with "xy" [n1, n0, ...]."""
    if indexing not in ("xy", "ij"):
        raise ShapeError(f"meshgrid: indexing {indexing!r} is neither 'xy' nor 'ij'")
    tensors = as_tensors(*arrays)
    places = list(range(len(tensors)))
    if indexing == "xy" and len(tensors) > 1:
        places[:2] = [1, 0]
    shape = [0] * len(tensors)
    for place, t in zip(places, tensors, strict=True):
        if t.ndim != 1:
            raise ShapeError(f"meshgrid: an input has shape {t.shape}; all must be 1-D")
        shape[place] = t.size
    grids = (
        reshape(t, [t.size if i == place else 1 for i in range(len(shape))])
        for place, t in zip(places, tensors, strict=True)
    )
    return tuple(broadcast_to(g, shape) for g in grids)


# -- random ------------------------------------------------------------------------------------------------------------
def rand(shape: Shape, *sizes: int, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """Uniform in [0, 1), from pdl's generator (`pdl.seed`); the shape as in `zeros`."""
    wanted = as_dtype(dtype, float32)
    drawn = random.generator().random(_sizes("rand", shape, sizes), _sampling_dtype(wanted))
    return _made(drawn, wanted, requires_grad=requires_grad)


def randn(shape: Shape, *sizes: int, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """Normal with mean 0 and variance 1, from pdl's generator (`pdl.seed`); the shape as in `zeros`."""
    wanted = as_dtype(dtype, float32)
    drawn = random.generator().standard_normal(_sizes("randn", shape, sizes), _sampling_dtype(wanted))
    return _made(drawn, wanted, requires_grad=requires_grad)


def randint(low: int, high: int, shape: Shape, *, dtype: Any = None) -> Tensor:
    """Integers (int64) in [low, high), all equally likely, from pdl's generator (`pdl.seed`)."""
    return _made(random.generator().integers(low, high, shape), as_dtype(dtype, int64))


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


def dropout_mask(shape: Shape, *, rate: float, dtype: Any = None) -> Tensor:
    """0 with probability `rate`, else 1 / (1 - rate), so that its mean is 1; from pdl's generator."""
    if not 0 <= rate < 1:
        raise ShapeError(f"dropout: rate {rate} is outside [0, 1)")
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    return cast(Tensor, apply(DropoutMask(sizes, float(rate), as_dtype(dtype, float32))))


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


def tril(x: TensorLike, /, *, k: int = 0) -> Tensor:
    """`x` on and below diagonal `k` of the last two dimensions, 0 above."""
    return cast(Tensor, apply(Tril(k), as_tensor(x)))


def triu(x: TensorLike, /, *, k: int = 0) -> Tensor:
    """`x` on and above diagonal `k` of the last two dimensions, 0 below."""
    return cast(Tensor, apply(Triu(k), as_tensor(x)))


def one_hot(indices: TensorLike, num_classes: int, *, dtype: Any = None) -> Tensor:
    """A new last dimension of size `num_classes`, 1 at the index and 0 elsewhere; indices are in [0, num_classes)."""
    return cast(Tensor, apply(OneHot(num_classes, as_dtype(dtype, float32)), as_tensor(indices)))


__all__ = [
    "arange", "asarray", "dropout_mask", "empty", "empty_like", "eye", "from_dlpack", "full", "full_like",
    "linspace", "meshgrid", "noise", "one_hot", "ones", "ones_like", "rand", "randint", "randn", "randperm", "tril",
    "triu", "zeros", "zeros_like",
]  # fmt: skip
