"""Matrix products and diagonals, on the last two dimensions; leading ones are a batch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from pdl.dtype import Array, bfloat16, is_differentiable
from pdl.errors import DtypeError, ShapeError
from pdl.kernels.copies import contiguous
from pdl.kernels.gemm import matmul as gemm
from pdl.kernels.launch import now
from pdl.ops.attributes import Length, Offset
from pdl.ops.base import Arrays, Op, Spec, apply
from pdl.ops.broadcast import unbroadcast
from pdl.ops.cast import as_tensors, conj
from pdl.ops.checks import broadcast_shapes, normalize_axis
from pdl.ops.elementwise import multiply
from pdl.ops.reduce import sum
from pdl.ops.shape import expand_dims, matrix_transpose, permute_dims, reshape, squeeze
from pdl.tensor import Tensor, TensorLike, as_tensor


# -- products ----------------------------------------------------------------------------------------------------------
class MatMul(Op):
    """y [..., M, N] = a [..., M, K] @ b [..., K, N]; the leading dimensions broadcast."""

    native_bf16 = native = True

    def infer(self, a: Spec, b: Spec) -> Spec:
        if len(a.shape) < 2 or len(b.shape) < 2 or a.shape[-1] != b.shape[-2]:
            raise ShapeError(f"matmul: a {a.shape} has {a.shape[-1:]} columns, b {b.shape} has {b.shape[-2:-1]} rows")
        if a.dtype != b.dtype:
            raise DtypeError(f"matmul: {a.dtype.name} meets {b.dtype.name}; astype one of them")
        batch = a.shape[:-2] if a.shape[:-2] == b.shape[:-2] else broadcast_shapes("matmul", a.shape[:-2], b.shape[:-2])
        return Spec((*batch, a.shape[-2], b.shape[-1]), a.dtype)

    def cpu(self, outs: Arrays, ins: Arrays) -> None:
        (a, b), y = ins, outs[0]
        if a.dtype.kind != "f" and a.dtype != bfloat16:
            now("matmul: integers and complex numbers are left to NumPy")
            np.matmul(a, b, y)
        elif b.ndim == 2 and a.ndim > 2 and a.flags.c_contiguous:  # one product instead of a batch
            gemm(as_matrix(y), as_matrix(a), b)
        else:
            gemm(y, a, b)

    def vjp(self, g: Tensor, y: Tensor, a: Tensor, b: Tensor) -> Any:
        def to_b() -> Tensor:
            if b.ndim == 2 and a.ndim > 2:
                return matmul(adjoint(_rows(a)), _rows(g))
            return unbroadcast(matmul(adjoint(a), g), b.shape)

        return lambda: unbroadcast(matmul(g, adjoint(b)), a.shape), to_b


class Linear(Op):
    """y [..., O] = x [..., C] @ w [C, O] + b [O] (b may be absent)."""

    native_bf16 = native = True

    def infer(self, x: Spec, w: Spec, b: Spec | None) -> Spec:
        if len(w.shape) != 2 or not x.shape or x.shape[-1] != w.shape[0]:
            raise ShapeError(f"linear: x {x.shape} ends in {x.shape[-1:]} features, w {w.shape} reads {w.shape[:1]}")
        if b is not None and b.shape != w.shape[1:]:
            raise ShapeError(f"linear: b {b.shape} does not fit the {w.shape[1]} features that w {w.shape} makes")
        if any(s is not None and s.dtype != x.dtype for s in (w, b)) or not is_differentiable(x.dtype):
            shown = ", ".join(s.dtype.name for s in (x, w, b) if s is not None)
            raise DtypeError(f"linear: dtypes {shown}; expected one floating dtype")
        return Spec((*x.shape[:-1], w.shape[1]), x.dtype)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        (x, w, b), y = ins, as_matrix(outs[0])
        rows = x if x.ndim == 2 else as_matrix(contiguous(x))
        if x.dtype.kind == "f" or x.dtype == bfloat16:
            gemm(y, rows, w, None if b is None else contiguous(b))
        else:
            now("linear: complex numbers are left to NumPy")
            np.add(rows @ w, 0 if b is None else b, y)

    def vjp(self, g: Tensor, y: Tensor, x: Tensor, w: Tensor, b: Tensor | None) -> Any:
        rows, seen = _rows(g), _rows(x)
        to_x = lambda: reshape(matmul(rows, adjoint(w)), x.shape)  # noqa: E731
        return to_x, lambda: matmul(adjoint(seen), rows), lambda: sum(rows, axis=0)


def as_matrix(x: Array) -> Array:
    """[..., C] as [rows, C]; C may be 0."""
    return x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


def _rows(x: Tensor) -> Tensor:
    """[..., C] as [rows, C]; C may be 0."""
    return x if x.ndim == 2 else reshape(x, (math.prod(x.shape[:-1]), x.shape[-1]))


def adjoint(x: Tensor) -> Tensor:
    """Conjugate transpose."""
    return matrix_transpose(conj(x))


_matmul, _linear = MatMul(), Linear()


def matmul(a: TensorLike, b: TensorLike) -> Tensor:
    """[..., M, K] @ [..., K, N]; leading dimensions broadcast, a 1-D `a` is a row, a 1-D `b` a column."""
    if type(a) is not Tensor or type(b) is not Tensor or a.dtype != b.dtype:
        a, b = as_tensors(a, b)
    if a.ndim > 1 and b.ndim > 1:
        return cast(Tensor, apply(_matmul, a, b))
    if not a.ndim or not b.ndim:
        raise ShapeError(f"matmul: shapes {a.shape} and {b.shape}; scalars are multiplied with *")
    row, column = a.ndim == 1, b.ndim == 1
    y = apply(_matmul, expand_dims(a, axis=0) if row else a, expand_dims(b, axis=1) if column else b)
    return squeeze(y, axis=tuple(axis for axis, gone in ((-2, row), (-1, column)) if gone))


def linear(x: TensorLike, w: TensorLike, b: TensorLike | None = None) -> Tensor:
    """x [..., C] @ w [C, O] + b [O]."""
    x, w = as_tensor(x), as_tensor(w)
    return cast(Tensor, apply(_linear, x, w, None if b is None else as_tensor(b)))


def outer(a: TensorLike, b: TensorLike) -> Tensor:
    """y[i, j] = a[i] b[j]; inputs are flattened."""
    a, b = as_tensors(a, b)
    return multiply(reshape(a, (-1, 1)), reshape(b, (1, -1)))


def vecdot(a: TensorLike, b: TensorLike, *, axis: int = -1) -> Tensor:
    """Sum of conj(a) b along `axis` (counted from the last where the ranks differ), in their common dtype; the other
    dimensions broadcast."""
    a, b = as_tensors(a, b)
    return sum(multiply(conj(a), b), axis=shared_axis("vecdot", axis, a, b), dtype=a.dtype)


def shared_axis(name: str, axis: int, a: Tensor, b: Tensor) -> int:
    """`axis` of both, counted from the last; raises where one lacks it, or where the sizes differ."""
    n = min(a.ndim, b.ndim)
    axis = axis - n if axis >= 0 and a.ndim == b.ndim else axis
    if not -n <= axis < 0:
        raise ShapeError(f"{name}: a {a.shape} and b {b.shape} share no axis {axis}; count it from the last, -1")
    if a.shape[axis] != b.shape[axis]:
        raise ShapeError(f"{name}: axis {axis} of a {a.shape} has {a.shape[axis]}, of b {b.shape} {b.shape[axis]}")
    return axis


def tensordot(a: TensorLike, b: TensorLike, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Tensor:
    """Sum of products over pairs of dimensions: the last of `a` with the first of `b` (their number), or as listed."""
    a, b = as_tensors(a, b)
    ones, twos = (range(a.ndim - axes, a.ndim), range(axes)) if isinstance(axes, int) else axes
    pairs = [
        (normalize_axis("tensordot", i, a.ndim), normalize_axis("tensordot", j, b.ndim))
        for i, j in zip(ones, twos, strict=True)
    ]
    for i, j in pairs:
        if a.shape[i] != b.shape[j]:
            raise ShapeError(
                f"tensordot: axis {i} of a {a.shape} has {a.shape[i]}, axis {j} of b {b.shape} has {b.shape[j]}"
            )
    ia, ib = [i for i, _ in pairs], [j for _, j in pairs]
    fa, fb = [i for i in range(a.ndim) if i not in ia], [j for j in range(b.ndim) if j not in ib]
    depth = math.prod(a.shape[i] for i in ia)
    left = reshape(permute_dims(a, fa + ia), (math.prod(a.shape[i] for i in fa), depth))
    right = reshape(permute_dims(b, ib + fb), (depth, math.prod(b.shape[j] for j in fb)))
    return reshape(matmul(left, right), [a.shape[i] for i in fa] + [b.shape[j] for j in fb])


def kron(a: TensorLike, b: TensorLike) -> Tensor:
    """Kronecker product of two matrices: each element of `a` times the whole of `b`."""
    a, b = as_tensors(a, b)
    if a.ndim != 2 or b.ndim != 2:
        raise ShapeError(f"kron: shapes {a.shape} and {b.shape}; both must be matrices")
    (m, n), (p, q) = a.shape, b.shape
    return reshape(multiply(reshape(a, (m, 1, n, 1)), reshape(b, (1, p, 1, q))), (m * p, n * q))


# -- diagonals ---------------------------------------------------------------------------------------------------------
class Diagonal(Op):
    """Diagonal `offset` of the last two dimensions, as the new last one (a view)."""

    offset: Offset = 0

    def infer(self, x: Spec) -> Spec:
        if len(x.shape) < 2:
            raise ShapeError(f"diagonal: {x.shape} has {len(x.shape)} dimensions, at least 2 are needed")
        return Spec((*x.shape[:-2], _length(x.shape[-2:], self.offset)), x.dtype)

    def view(self, x: Array) -> Array:
        rows, columns = x.shape[-2:]
        return np.diagonal(x, max(-rows, min(columns, self.offset)), -2, -1)  # NumPy's offset is a C int

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> Tensor:
        return cast(Tensor, apply(DiagEmbed(self.offset, (x.shape[-2], x.shape[-1])), g))


def _length(size: tuple[int, ...], offset: int) -> int:
    """Elements on a diagonal of matrices of this size."""
    rows, columns = size
    return max(0, min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns))


class DiagEmbed(Op):
    """Matrices of `size` with x on diagonal `offset` and 0 elsewhere."""

    offset: Offset
    size: tuple[Length, Length]
    native_bf16 = True

    def infer(self, x: Spec) -> Spec:
        if x.shape[-1:] != (_length(self.size, self.offset),):
            raise ShapeError(f"diag: x {x.shape} is not diagonal {self.offset} of matrices {self.size}")
        return Spec((*x.shape[:-1], *self.size), x.dtype)

    def cpu(self, outs: Arrays, ins: Arrays) -> None:
        outs[0].fill(0)
        i = np.arange(ins[0].shape[-1])
        outs[0][..., i + max(0, -self.offset), i + max(0, self.offset)] = ins[0]

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> Tensor:
        return diagonal(g, offset=self.offset)


def diagonal(x: TensorLike, *, offset: int = 0) -> Tensor:
    """Diagonal `offset` (0: the main one, above it positive) of the last two dimensions, as the new last one."""
    return cast(Tensor, apply(Diagonal(offset), as_tensor(x)))


def diag(x: TensorLike, *, offset: int = 0) -> Tensor:
    """Square matrices with the last dimension of `x` on diagonal `offset`, 0 elsewhere."""
    x = as_tensor(x)
    n = x.shape[-1] + (offset if offset > 0 else -offset)
    return cast(Tensor, apply(DiagEmbed(offset, (n, n)), x))


def trace(x: TensorLike, *, offset: int = 0, dtype: Any = None) -> Tensor:
    """Sum of diagonal `offset` of the last two dimensions, in the dtype of `sum` or `dtype`."""
    return sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


__all__ = ["diag", "diagonal", "kron", "linear", "matmul", "outer", "tensordot", "trace", "vecdot"]
