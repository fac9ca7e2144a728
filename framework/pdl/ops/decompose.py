"""Inverses, determinants and decompositions of the matrices in the last two dimensions, by LAPACK through NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, cast

import numpy as np

from pdl.dtype import Array, kind
from pdl.errors import DtypeError, NumericalError, ShapeError
from pdl.ops.base import Arrays, Op, Spec, apply
from pdl.ops.broadcast import unbroadcast
from pdl.ops.cast import as_tensors, conj
from pdl.ops.checks import broadcast_shapes
from pdl.ops.create import tril
from pdl.ops.elementwise import where
from pdl.ops.linalg import adjoint, diag, diagonal
from pdl.ops.shape import concat, expand_dims, matrix_transpose, squeeze
from pdl.tensor import Tensor, TensorLike, as_tensor


class Lapack(Op, abstract=True):
    """A function of the matrices in the last two dimensions. `square`: they must be; `kinds`: the dtypes taken."""

    kinds: ClassVar[str] = "fc"
    square: ClassVar[bool] = True

    def check_matrices(self, x: Spec) -> None:
        """Raise unless x holds such matrices."""
        name = type(self).__name__.lower()
        if len(x.shape) < 2 or (self.square and x.shape[-1] != x.shape[-2]):
            raise ShapeError(
                f"{name}: x is {x.shape}; expected {'square ' * self.square}matrices in the last two dimensions"
            )
        if kind(x.dtype) not in self.kinds:
            raise DtypeError(f"{name}: takes {'real ' * (self.kinds == 'f')}floating dtypes, not {x.dtype.name}")


def _lapack(name: str, function: Callable[..., Any], *args: Array, **kwargs: Any) -> Any:
    """What `function` makes of matrices; some of LAPACK's loops never end on infinities."""
    for x in args:
        if not np.isfinite(x).all():
            raise NumericalError(f"{name}: a matrix of shape {x.shape[-2:]} holds infinity or NaN")
    try:
        return function(*args, **kwargs)
    except np.linalg.LinAlgError as error:
        raise NumericalError(f"{name}: {str(error).lower()} (matrices of shape {args[0].shape})") from None


class Inv(Lapack):
    """The inverse of square matrices."""

    def infer(self, x: Spec) -> Spec:
        self.check_matrices(x)
        return x

    def cpu(self, outs: Arrays, ins: Arrays) -> None:
        outs[0][...] = _lapack("inv", np.linalg.inv, ins[0])

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> Tensor:
        back = adjoint(y)
        return -(back @ g @ back)


class Det(Lapack):
    """The determinant of square matrices; its gradient needs them invertible."""

    def infer(self, x: Spec) -> Spec:
        self.check_matrices(x)
        return Spec(x.shape[:-2], x.dtype)

    def cpu(self, outs: Arrays, ins: Arrays) -> None:
        outs[0][...] = np.linalg.det(ins[0])

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> Tensor:
        return expand_dims(expand_dims(g * conj(y), axis=-1), axis=-1) * adjoint(inv(x))


class LogAbsDet(Lapack):
    """Sign, and logarithm of the modulus, of the determinant of real square matrices."""

    kinds = "f"

    def infer(self, x: Spec) -> tuple[Spec, Spec]:
        self.check_matrices(x)
        return Spec(x.shape[:-2], x.dtype), Spec(x.shape[:-2], x.dtype)

    def cpu(self, outs: Arrays, ins: Arrays) -> None:
        outs[0][...], outs[1][...] = np.linalg.slogdet(ins[0])

    def vjp(self, g: Any, y: Any, x: Tensor) -> Any:
        return None if g[1] is None else expand_dims(expand_dims(g[1], axis=-1), axis=-1) * matrix_transpose(inv(x))


class Solve(Lapack):
    """The y [..., N, K] with a [..., N, N] @ y = b [..., N, K]; the leading dimensions broadcast."""

    def infer(self, a: Spec, b: Spec) -> Spec:
        self.check_matrices(a)
        if len(b.shape) < 2 or b.shape[-2] != a.shape[-1] or a.dtype != b.dtype:
            raise ShapeError(
                f"solve: a {a.shape} {a.dtype.name}, b {b.shape} {b.dtype.name}; b needs {a.shape[-1]} rows, one dtype"
            )
        return Spec((*broadcast_shapes("solve", a.shape[:-2], b.shape[:-2]), *b.shape[-2:]), a.dtype)

    def cpu(self, outs: Arrays, ins: Arrays) -> None:
        outs[0][...] = _lapack("solve", np.linalg.solve, *ins)

    def vjp(self, g: Tensor, y: Tensor, a: Tensor, b: Tensor) -> Any:
        back = cast(Tensor, apply(Solve(), adjoint(a), g))
        return lambda: unbroadcast(-(back @ adjoint(y)), a.shape), lambda: unbroadcast(back, b.shape)


class Cholesky(Lapack):
    """Lower-triangular l with l @ l^H = x, for Hermitian positive-definite x (the lower triangle is read)."""

    def infer(self, x: Spec) -> Spec:
        self.check_matrices(x)
        return x

    def cpu(self, outs: Arrays, ins: Arrays) -> None:
        outs[0][...] = _lapack("cholesky", np.linalg.cholesky, ins[0])

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> Tensor:
        """I. Murray, Differentiation of the Cholesky decomposition (2016); symmetric, as x is."""
        inner = tril(adjoint(y) @ g)
        inner = inner - diag(diagonal(inner)) * 0.5
        back = inv(y)
        made = adjoint(back) @ inner @ back
        return (made + adjoint(made)) * 0.5


class QR(Lapack):
    """Thin q [..., M, N] (orthonormal columns) and upper-triangular r [..., N, N]: q @ r = x, for real x, M >= N."""

    square, kinds = False, "f"

    def infer(self, x: Spec) -> tuple[Spec, Spec]:
        self.check_matrices(x)
        rows, columns = x.shape[-2:]
        if rows < columns:
            raise ShapeError(f"qr: {x.shape} has fewer rows ({rows}) than columns ({columns})")
        return x, Spec((*x.shape[:-2], columns, columns), x.dtype)

    def cpu(self, outs: Arrays, ins: Arrays) -> None:
        outs[0][...], outs[1][...] = _lapack("qr", np.linalg.qr, ins[0])

    def vjp(self, g: Any, y: Any, x: Tensor) -> Tensor:
        """S. Walter, L. Lehmann, Algorithmic differentiation of linear algebra functions (2010)."""
        (gq, gr), (q, r) = g, y
        inner = _plus(None if gr is None else r @ gr.mT, None if gq is None else -(gq.mT @ q))
        lower = tril(inner, k=-1)
        right = _plus(gq, q @ (lower + lower.mT + diag(diagonal(inner))))
        return cast(Tensor, apply(Solve(), r, right.mT)).mT


def _plus(a: Tensor | None, b: Tensor | None) -> Tensor:
    if a is None or b is None:
        return cast(Tensor, b if a is None else a)
    return a + b


def _gaps(s: Tensor) -> Tensor:
    """1 / (s_j - s_i) off the diagonal, 0 on it and where values coincide."""
    gap = expand_dims(s, axis=-2) - expand_dims(s, axis=-1)
    same = gap.detach() == 0
    return where(same, 0, 1 / where(same, 1, gap))


class EigH(Lapack):
    """Eigenvalues w (ascending) and eigenvectors v (columns) of real symmetric x (its lower triangle is read)."""

    kinds = "f"

    def infer(self, x: Spec) -> tuple[Spec, Spec]:
        self.check_matrices(x)
        return Spec(x.shape[:-1], x.dtype), x

    def cpu(self, outs: Arrays, ins: Arrays) -> None:
        outs[0][...], outs[1][...] = _lapack("eigh", np.linalg.eigh, ins[0])

    def vjp(self, g: Any, y: Any, x: Tensor) -> Tensor:
        """M. Giles, An extended collection of matrix derivative results (2008); symmetric, as x is."""
        (gw, gv), (w, v) = g, y
        inner = _plus(None if gw is None else diag(gw), None if gv is None else _gaps(w) * (v.mT @ gv))
        made = v @ inner @ v.mT
        return (made + made.mT) * 0.5


class SVD(Lapack):
    """Thin u, s (descending) and vh with u @ diag(s) @ vh = x, for real x; gradients need distinct nonzero s."""

    square, kinds = False, "f"

    def infer(self, x: Spec) -> tuple[Spec, Spec, Spec]:
        self.check_matrices(x)
        *batch, rows, columns = x.shape
        k = min(rows, columns)
        return Spec((*batch, rows, k), x.dtype), Spec((*batch, k), x.dtype), Spec((*batch, k, columns), x.dtype)

    def cpu(self, outs: Arrays, ins: Arrays) -> None:
        made = _lapack("svd", np.linalg.svd, ins[0], full_matrices=False)
        for y, value in zip(outs, made, strict=True):
            y[...] = value

    def vjp(self, g: Any, y: Any, x: Tensor) -> Tensor:
        """J. Townsend, Differentiating the singular value decomposition (2016)."""
        (gu, gs, gvh), (u, s, vh) = g, y
        k, rows, columns = s.shape[-1], x.shape[-2], x.shape[-1]
        row, column = expand_dims(s, axis=-2), expand_dims(s, axis=-1)
        gaps, inner, outside = _gaps(s * s), None if gs is None else diag(gs), None
        if gu is not None:
            turn = u.mT @ gu
            inner = _plus(inner, gaps * (turn - turn.mT) * row)
            if rows > k:
                outside = ((gu - u @ turn) / row) @ vh
        if gvh is not None:
            turn = vh @ gvh.mT
            inner = _plus(inner, column * (gaps * (turn - turn.mT)))
            if columns > k:
                outside = _plus(outside, u @ ((gvh - turn.mT @ vh) / column))
        made = u @ cast(Tensor, inner) @ vh
        return made if outside is None else made + outside


def inv(x: TensorLike) -> Tensor:
    """Inverse of the square matrices in the last two dimensions; a singular one raises `NumericalError`."""
    return cast(Tensor, apply(Inv(), as_tensor(x)))


def det(x: TensorLike) -> Tensor:
    """Determinant of the square matrices in the last two dimensions; its gradient needs them invertible."""
    return cast(Tensor, apply(Det(), as_tensor(x)))


def slogdet(x: TensorLike) -> tuple[Tensor, Tensor]:
    """Sign, and logarithm of the modulus, of the determinant of real matrices."""
    return cast("tuple[Tensor, Tensor]", apply(LogAbsDet(), as_tensor(x)))


def solve(a: TensorLike, b: TensorLike) -> Tensor:
    """The y with a [..., N, N] @ y = b, where b is [..., N, K], or [N] for one right-hand side."""
    a, b = as_tensors(a, b)
    y = apply(Solve(), a, expand_dims(b, axis=1) if b.ndim == 1 else b)
    return squeeze(y, axis=-1) if b.ndim == 1 else cast(Tensor, y)


def cholesky(x: TensorLike) -> Tensor:
    """Lower-triangular l with l @ l^H = x, for Hermitian positive-definite x; the gradient is symmetric."""
    return cast(Tensor, apply(Cholesky(), as_tensor(x)))


def qr(x: TensorLike) -> tuple[Tensor, Tensor]:
    """Thin q [..., M, K] (orthonormal columns) and upper-triangular r [..., K, N]: q @ r = x; K = min(M, N), x real."""
    x = as_tensor(x)
    rows, columns = x.shape[-2:] if x.ndim > 1 else (0, 0)
    if rows >= columns:
        return cast("tuple[Tensor, Tensor]", apply(QR(), x))
    q, r = apply(QR(), x[..., :rows])
    return q, concat([r, q.mT @ x[..., rows:]], axis=-1)


def eigh(x: TensorLike) -> tuple[Tensor, Tensor]:
    """Eigenvalues (ascending) and eigenvectors (columns) of real symmetric x; gradients need distinct values."""
    return cast("tuple[Tensor, Tensor]", apply(EigH(), as_tensor(x)))


def svd(x: TensorLike) -> tuple[Tensor, Tensor, Tensor]:
    """Thin u [..., M, K], s [..., K] (descending) and vh [..., K, N] with u @ diag(s) @ vh = x; K = min(M, N), x real.

    Gradients of u and vh need singular values that are distinct and not 0.
    """
    return cast("tuple[Tensor, Tensor, Tensor]", apply(SVD(), as_tensor(x)))


__all__ = ["cholesky", "det", "eigh", "inv", "qr", "slogdet", "solve", "svd"]
