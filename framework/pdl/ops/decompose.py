"""Inverses, determinants and decompositions of the matrices in the last two dimensions, by LAPACK through NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np

from pdl.dtype import Array, is_complex, is_differentiable, real_of
from pdl.errors import DtypeError, GradientError, NumericalError, ShapeError, UsageError
from pdl.ops.base import Arrays, Op, Spec, apply, compose_vjp
from pdl.ops.broadcast import unbroadcast
from pdl.ops.cast import as_tensors, conj, imag, real
from pdl.ops.checks import broadcast_shapes
from pdl.ops.create import tril
from pdl.ops.elementwise import where
from pdl.ops.linalg import adjoint, diag, diagonal
from pdl.ops.shape import concat, expand_dims, squeeze
from pdl.tensor import Tensor, TensorLike, as_tensor


class SlogdetResult(NamedTuple):
    """What `slogdet` finds."""

    sign: Tensor
    logabsdet: Tensor


class QRResult(NamedTuple):
    """What `qr` finds."""

    Q: Tensor
    R: Tensor


class EighResult(NamedTuple):
    """What `eigh` finds."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class SVDResult(NamedTuple):
    """What `svd` finds."""

    U: Tensor
    S: Tensor
    Vh: Tensor


class Lapack(Op, abstract=True):
    """A function of the matrices in the last two dimensions; `square`: they must be. `label`: its name in errors."""

    label: ClassVar[str]
    square: ClassVar[bool] = True

    def check_matrices(self, x: Spec) -> None:
        """Raise unless x holds such matrices."""
        if len(x.shape) < 2 or (self.square and x.shape[-1] != x.shape[-2]):
            raise ShapeError(
                f"{self.label}: x is {x.shape}; expected {'square ' * self.square}matrices in the last two dimensions"
            )
        if not is_differentiable(x.dtype):
            raise DtypeError(f"{self.label}: takes floating and complex dtypes, not {x.dtype.name}")


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

    label = "inv"

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

    label = "det"

    def infer(self, x: Spec) -> Spec:
        self.check_matrices(x)
        return Spec(x.shape[:-2], x.dtype)

    def cpu(self, outs: Arrays, ins: Arrays) -> None:
        outs[0][...] = np.linalg.det(ins[0])

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> Tensor:
        return expand_dims(g * conj(y), axis=(-2, -1)) * adjoint(inv(x))


class LogAbsDet(Lapack):
    """Sign (of modulus 1, or 0), and logarithm of the modulus, of the determinant of square matrices."""

    label = "slogdet"

    def infer(self, x: Spec) -> tuple[Spec, Spec]:
        self.check_matrices(x)
        return Spec(x.shape[:-2], x.dtype), Spec(x.shape[:-2], real_of(x.dtype))

    def cpu(self, outs: Arrays, ins: Arrays) -> None:
        outs[0][...], outs[1][...] = np.linalg.slogdet(ins[0])

    def vjp(self, g: Any, y: Any, x: Tensor) -> Any:
        """log det = log |det| + i angle: the sign turns with the angle, where it can."""
        found = g[1]
        if g[0] is not None and is_complex(x.dtype):
            turned = imag(g[0] * conj(y[0])) * 1j
            found = turned if found is None else found + turned
        return None if found is None else expand_dims(found, axis=(-2, -1)) * adjoint(inv(x))


class Solve(Lapack):
    """The y [..., N, K] with a [..., N, N] @ y = b [..., N, K]; the leading dimensions broadcast."""

    label = "solve"

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

    label = "cholesky"

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
    """Thin q [..., M, N] (orthonormal columns) and upper-triangular r [..., N, N]: q @ r = x, for M >= N."""

    label, square = "qr", False

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
        inner = _plus(None if gr is None else r @ adjoint(gr), None if gq is None else -(adjoint(gq) @ q))
        lower = tril(inner, k=-1)
        right = _plus(gq, q @ (lower + adjoint(lower) + diag(real(diagonal(inner)))))
        return adjoint(cast(Tensor, apply(Solve(), r, adjoint(right))))


class FullQR(Lapack):
    """Square q [..., M, M] (orthonormal columns) and r [..., M, N], upper-triangular or wider: q @ r = x."""

    label, square = "qr", False

    def infer(self, x: Spec) -> tuple[Spec, Spec]:
        self.check_matrices(x)
        return Spec((*x.shape[:-1], x.shape[-2]), x.dtype), x

    def cpu(self, outs: Arrays, ins: Arrays) -> None:
        outs[0][...], outs[1][...] = _lapack("qr", np.linalg.qr, ins[0], mode="complete")

    def vjp(self, g: Any, y: Any, x: Tensor) -> Any:
        if g[0] is not None:
            raise GradientError("qr: columns of Q beyond those of x are any basis; mode='reduced' has Q's gradient")
        return compose_vjp(lambda v: apply(QR(), v)[1], g[1][..., : x.shape[-1], :], (x,))[0]


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
    """Eigenvalues w (ascending) and eigenvectors v (columns) of Hermitian x (its lower triangle is read)."""

    label = "eigh"

    def infer(self, x: Spec) -> tuple[Spec, Spec]:
        self.check_matrices(x)
        return Spec(x.shape[:-1], real_of(x.dtype)), x

    def cpu(self, outs: Arrays, ins: Arrays) -> None:
        outs[0][...], outs[1][...] = _lapack("eigh", np.linalg.eigh, ins[0])

    def vjp(self, g: Any, y: Any, x: Tensor) -> Tensor:
        """M. Giles, An extended collection of matrix derivative results (2008); Hermitian, as x is."""
        (gw, gv), (w, v) = g, y
        inner = _plus(None if gw is None else diag(gw), None if gv is None else _gaps(w) * (adjoint(v) @ gv))
        made = v @ inner @ adjoint(v)
        return (made + adjoint(made)) * 0.5


class SVD(Lapack):
    """Thin u, s (descending) and vh with u @ diag(s) @ vh = x; gradients of u and vh need distinct nonzero s."""

    label, square = "svd", False

    def infer(self, x: Spec) -> tuple[Spec, Spec, Spec]:
        self.check_matrices(x)
        *batch, rows, columns = x.shape
        k = min(rows, columns)
        s = Spec((*batch, k), real_of(x.dtype))
        return Spec((*batch, rows, k), x.dtype), s, Spec((*batch, k, columns), x.dtype)

    def cpu(self, outs: Arrays, ins: Arrays) -> None:
        made = _lapack("svd", np.linalg.svd, ins[0], full_matrices=False)
        for y, value in zip(outs, made, strict=True):
            y[...] = value

    def vjp(self, g: Any, y: Any, x: Tensor) -> Tensor:
        """J. Townsend, Differentiating the singular value decomposition (2016). A pair of complex vectors may turn
        together, which no function of x sees."""
        (gu, gs, gvh), (u, s, vh) = g, y
        k, rows, columns = s.shape[-1], x.shape[-2], x.shape[-1]
        row, column = expand_dims(s, axis=-2), expand_dims(s, axis=-1)
        gaps, inner, outside = _gaps(s * s), None if gs is None else diag(gs), None
        if gu is not None:
            turn = adjoint(u) @ gu
            inner = _plus(inner, gaps * (turn - adjoint(turn)) * row)
            if is_complex(x.dtype):
                inner = inner + diag(imag(diagonal(turn)) / s) * 1j
            if rows > k:
                outside = ((gu - u @ turn) / row) @ vh
        if gvh is not None:
            turn = vh @ adjoint(gvh)
            inner = _plus(inner, column * (gaps * (turn - adjoint(turn))))
            if columns > k:
                outside = _plus(outside, u @ ((gvh - adjoint(turn) @ vh) / column))
        made = u @ cast(Tensor, inner) @ vh
        return made if outside is None else made + outside


class FullSVD(Lapack):
    """Square u [..., M, M] and vh [..., N, N], s [..., min(M, N)] (descending), with the thin ones in front."""

    label, square = "svd", False

    def infer(self, x: Spec) -> tuple[Spec, Spec, Spec]:
        self.check_matrices(x)
        *batch, rows, columns = x.shape
        s = Spec((*batch, min(rows, columns)), real_of(x.dtype))
        return Spec((*batch, rows, rows), x.dtype), s, Spec((*batch, columns, columns), x.dtype)

    def cpu(self, outs: Arrays, ins: Arrays) -> None:
        made = _lapack("svd", np.linalg.svd, ins[0])
        for y, value in zip(outs, made, strict=True):
            y[...] = value

    def vjp(self, g: Any, y: Any, x: Tensor) -> Any:
        if g[0] is not None or g[2] is not None:
            raise GradientError(
                "svd: vectors beyond the singular values are any basis; full_matrices=False has gradients of U and Vh"
            )
        return compose_vjp(lambda v: apply(SVD(), v)[1], g[1], (x,))[0]


class Pinv(Lapack):
    """The pseudo-inverse y [..., N, M] of x [..., M, N]; singular values up to rtol [...] times the largest count as 0.

    Its gradient needs a rank that does not change.
    """

    label, square = "pinv", False

    def infer(self, x: Spec, rtol: Spec) -> Spec:
        self.check_matrices(x)
        if broadcast_shapes("pinv", x.shape[:-2], rtol.shape) != x.shape[:-2] or rtol.dtype != real_of(x.dtype):
            raise ShapeError(
                f"pinv: rtol {rtol.shape} {rtol.dtype.name} for x {x.shape}; expected one for each matrix, of x's "
                "real dtype"
            )
        return Spec((*x.shape[:-2], x.shape[-1], x.shape[-2]), x.dtype)

    def cpu(self, outs: Arrays, ins: Arrays) -> None:
        u, s, vh = _lapack("pinv", np.linalg.svd, ins[0], full_matrices=False)
        kept = s > np.max(s, axis=-1, keepdims=True, initial=0) * ins[1][..., None]
        inverse = np.divide(1, s, out=np.zeros_like(s), where=kept)
        np.matmul(vh.conj().swapaxes(-1, -2) * inverse[..., None, :], u.conj().swapaxes(-1, -2), outs[0])

    def vjp(self, g: Tensor, y: Tensor, x: Tensor, rtol: Tensor) -> Any:
        """G. Golub, V. Pereyra, The differentiation of pseudo-inverses (1973)."""
        back, turned = adjoint(y), adjoint(g)
        made = -(back @ g @ back)
        right, left = turned @ y @ back, back @ y @ turned
        return lambda: made + (right - x @ (y @ right)) + (left - (left @ y) @ x), None


def inv(x: TensorLike) -> Tensor:
    """Inverse of the square matrices in the last two dimensions; a singular one raises `NumericalError`."""
    return cast(Tensor, apply(Inv(), as_tensor(x)))


def det(x: TensorLike) -> Tensor:
    """Determinant of the square matrices in the last two dimensions; its gradient needs them invertible."""
    return cast(Tensor, apply(Det(), as_tensor(x)))


def slogdet(x: TensorLike) -> SlogdetResult:
    """`sign` (of modulus 1, or 0) of the determinant of square matrices, and `logabsdet`, the logarithm of its
    modulus."""
    return SlogdetResult(*apply(LogAbsDet(), as_tensor(x)))


def solve(a: TensorLike, b: TensorLike) -> Tensor:
    """The y with a [..., N, N] @ y = b, where b is [..., N, K], or [N] for one right-hand side."""
    a, b = as_tensors(a, b)
    y = apply(Solve(), a, expand_dims(b, axis=1) if b.ndim == 1 else b)
    return squeeze(y, axis=-1) if b.ndim == 1 else cast(Tensor, y)


def cholesky(x: TensorLike, *, upper: bool = False) -> Tensor:
    """Lower-triangular l with l @ l^H = x, for Hermitian positive-definite x, or its adjoint if `upper`; the gradient
    is Hermitian, as x is."""
    y = cast(Tensor, apply(Cholesky(), as_tensor(x)))
    return adjoint(y) if upper else y


def qr(x: TensorLike, *, mode: str = "reduced") -> QRResult:
    """`Q` (orthonormal columns) and upper-triangular `R` with Q @ R = x [..., M, N].

    "reduced": Q [..., M, K], R [..., K, N], K = min(M, N). "complete": Q [..., M, M], R [..., M, N]; for M > N, Q has
    no gradient.
    """
    if mode not in ("reduced", "complete"):
        raise UsageError(f"qr: mode is {mode!r}; expected 'reduced' or 'complete'")
    x = as_tensor(x)
    rows, columns = x.shape[-2:] if x.ndim > 1 else (0, 0)
    if rows > columns and mode == "complete":
        return QRResult(*apply(FullQR(), x))
    if rows >= columns:
        return QRResult(*apply(QR(), x))
    q, r = apply(QR(), x[..., :rows])
    return QRResult(q, concat([r, adjoint(q) @ x[..., rows:]], axis=-1))


def eigh(x: TensorLike) -> EighResult:
    """`eigenvalues` (ascending) and `eigenvectors` (columns) of Hermitian x; gradients of vectors need distinct
    values."""
    return EighResult(*apply(EigH(), as_tensor(x)))


def svd(x: TensorLike, *, full_matrices: bool = True) -> SVDResult:
    """`U`, `S` (descending) and `Vh` with U @ diag(S) @ Vh = x [..., M, N].

    U is [..., M, M] and Vh [..., N, N], without gradients unless M = N; or, thin, [..., M, K] and [..., K, N] with
    K = min(M, N), whose gradients need singular values that are distinct and not 0. S has a gradient in either form.
    """
    x = as_tensor(x)
    full = full_matrices and x.ndim > 1 and x.shape[-1] != x.shape[-2]
    return SVDResult(*apply(FullSVD() if full else SVD(), x))


__all__ = ["cholesky", "det", "eigh", "inv", "qr", "slogdet", "solve", "svd"]
