"""Linear algebra on the matrices in the last two dimensions: the extension `linalg` of the array API standard, 2024.12.

Leading dimensions are a batch. Matrices are real or complex; infinities and NaN among the numbers that LAPACK gets
raise `NumericalError`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import ml_dtypes

from pdl.dtype import DType, int64, is_differentiable, real_of
from pdl.errors import DtypeError, ShapeError, UsageError
from pdl.habits import missing_from
from pdl.ops import elementwise, reduce
from pdl.ops.base import apply
from pdl.ops.broadcast import broadcast_arrays, broadcast_to
from pdl.ops.cast import as_tensors, astype
from pdl.ops.create import eye
from pdl.ops.decompose import Pinv, cholesky, det, eigh, inv, qr, slogdet, solve, svd
from pdl.ops.linalg import diagonal, matmul, outer, shared_axis, tensordot, trace, vecdot
from pdl.ops.shape import expand_dims, matrix_transpose, stack
from pdl.ops.words import explained
from pdl.tensor import Tensor, TensorLike, as_tensor


def cross(x1: TensorLike, x2: TensorLike, /, *, axis: int = -1) -> Tensor:
    """The cross product of the vectors of 3 elements along `axis`; the other dimensions broadcast."""
    a, b = as_tensors(x1, x2)
    axis = shared_axis("cross", axis, a, b)
    if a.shape[axis] != 3:
        raise ShapeError(f"cross: axis {axis} of {a.shape} has {a.shape[axis]} elements; vectors have 3")
    a, b = broadcast_arrays(a, b)
    part = (slice(None),) * (a.ndim + axis)
    (a0, a1, a2), (b0, b1, b2) = ([v[(*part, i)] for i in range(3)] for v in (a, b))
    return stack([a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0], axis=a.ndim + axis)


def eigvalsh(x: TensorLike, /) -> Tensor:
    """The eigenvalues, ascending, of Hermitian matrices."""
    return eigh(x).eigenvalues


def svdvals(x: TensorLike, /) -> Tensor:
    """The singular values, descending."""
    return svd(x, full_matrices=False).S


def matrix_norm(x: TensorLike, /, *, keepdims: bool = False, ord: float | str | None = "fro") -> Tensor:
    """A norm of matrices: "fro" (Frobenius), "nuc" (sum of the singular values), 2 and -2 (the largest and smallest of
    them), 1 and -1 (the largest and smallest sum of moduli of a column), inf and -inf (of a row)."""
    x = _matrices("matrix_norm", x)
    if ord in ("fro", None):
        return vector_norm(x, axis=(-2, -1), keepdims=keepdims)
    if ord == "nuc":
        made = reduce.sum(svdvals(x), axis=-1)
    elif ord in (2, -2):
        made = (reduce.max if ord == 2 else reduce.min)(svdvals(x), axis=-1)
    elif ord in (1, -1, math.inf, -math.inf):
        sums = reduce.sum(elementwise.abs(x), axis=-2 if ord in (1, -1) else -1)
        made = (reduce.max if ord > 0 else reduce.min)(sums, axis=-1)
    else:
        raise UsageError(f"matrix_norm: ord is {ord!r}; expected 'fro', 'nuc', 1, -1, 2, -2, inf or -inf")
    return expand_dims(made, axis=(-2, -1)) if keepdims else made


def matrix_power(x: TensorLike, n: int, /) -> Tensor:
    """The n-th power of square matrices: 0 is the identity, below 0 are powers of the inverse."""
    x = _matrices("matrix_power", x, square=True)
    if not n:
        return broadcast_to(eye(x.shape[-1], dtype=x.dtype), x.shape)
    power, left = (inv(x), -n) if n < 0 else (x, n)
    made = None
    while True:
        if left % 2:
            made = power if made is None else made @ power
        left //= 2
        if not left:
            return cast(Tensor, made)
        power = power @ power


def matrix_rank(x: TensorLike, /, *, rtol: float | TensorLike | None = None) -> Tensor:
    """How many singular values (int64) are above `rtol` (one number, or one for each matrix; None: max(M, N) times the
    dtype's epsilon) times the largest."""
    x = _matrices("matrix_rank", x)
    s = svdvals(x)
    if not s.shape[-1]:
        return astype(reduce.sum(s, axis=-1), int64)
    least = reduce.max(s, axis=-1) * _tolerance(x, rtol)
    return reduce.sum(astype(elementwise.greater(s, expand_dims(least, axis=-1)), int64), axis=-1)


def pinv(x: TensorLike, /, *, rtol: float | TensorLike | None = None) -> Tensor:
    """The Moore-Penrose pseudo-inverse; singular values up to `rtol` (as in `matrix_rank`) times the largest count as
    0. Its gradient needs a rank that does not change."""
    x = _matrices("pinv", x)
    return cast(Tensor, apply(Pinv(), x, _tolerance(x, rtol)))


def vector_norm(
    x: TensorLike, /, *, axis: int | Sequence[int] | None = None, keepdims: bool = False, ord: float = 2
) -> Tensor:
    """(sum of |x|^ord)^(1/ord) over `axis` (None: all); ord 0 counts what is not 0, inf and -inf are the largest and
    smallest modulus. The gradient is 0 where the norm is."""
    x = as_tensor(x)
    _check_floating("vector_norm", x)
    if ord == 0:
        return reduce.sum(astype(elementwise.not_equal(x, 0), real_of(x.dtype)), axis=axis, keepdims=keepdims)
    if ord < 0 and not math.isinf(ord):
        return reduce.sum(elementwise.abs(x) ** ord, axis=axis, keepdims=keepdims) ** (1 / ord)
    return reduce.norm(x, axis=axis, ord=ord, keepdims=keepdims)


def _matrices(name: str, x: TensorLike, *, square: bool = False) -> Tensor:
    x = as_tensor(x)
    if x.ndim < 2 or (square and x.shape[-1] != x.shape[-2]):
        raise ShapeError(f"{name}: x is {x.shape}; expected {'square ' * square}matrices in the last two dimensions")
    _check_floating(name, x)
    return x


def _check_floating(name: str, x: Tensor) -> None:
    if not is_differentiable(x.dtype):
        raise DtypeError(f"{name}: takes floating and complex dtypes, not {x.dtype.name}")


def _epsilon(dtype: DType) -> float:
    return float(ml_dtypes.finfo(real_of(dtype)).eps)


def _tolerance(x: Tensor, rtol: float | TensorLike | None) -> Tensor:
    """`rtol`, or its default, in x's real dtype."""
    value: Any = max(x.shape[-2:]) * _epsilon(x.dtype) if rtol is None else rtol
    return astype(as_tensor(value, beside=real_of(x.dtype)), real_of(x.dtype))


__all__ = [
    "cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul", "matrix_norm", "matrix_power",
    "matrix_rank", "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve", "svd", "svdvals", "tensordot",
    "trace", "vecdot", "vector_norm",
]  # fmt: skip
if not TYPE_CHECKING:
    globals().update({_name: explained(globals()[_name]) for _name in __all__})
    __getattr__ = missing_from(__name__)
