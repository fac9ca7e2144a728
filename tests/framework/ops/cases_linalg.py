"""Linear algebra against NumPy. Symmetric inputs are made inside the case, so that differences move both halves."""

from __future__ import annotations

import numpy as np

import pdl

from .case import Case, Draws

draw = Draws(15)
f, c, i = draw.f, draw.c, draw.i


def good(*shape: int) -> np.ndarray:
    """Matrices far from singular, with distinct singular values."""
    return f(*shape) * 0.3 + np.eye(*shape[-2:]) * np.arange(1.0, shape[-1] + 1)


def einsum(equation, name=None):
    def contract(*operands):
        return pdl.einsum(equation, *operands)

    contract.__name__ = f"einsum[{equation}]"
    return contract


def einsum_case(equation, *inputs):
    return Case(einsum(equation), list(inputs), lambda *xs: np.einsum(equation, *xs))


def hermitian(x):
    return (x @ np.conj(np.swapaxes(x, -1, -2)) + np.eye(x.shape[-1])) if isinstance(x, np.ndarray) else (
        x @ x.conj().mT + pdl.eye(x.shape[-1], dtype=x.dtype))  # fmt: skip


def cholesky_of_square(x):
    return pdl.cholesky(hermitian(x))


def eigenvalues(x):
    return pdl.eigh(x + x.mT)[0]


def eigenvectors(x):
    return pdl.square(pdl.eigh(x + x.mT)[1])


def singular_values(x):
    return pdl.svd(x, full_matrices=False)[1]


def singular_vectors(x):
    u, _, vh = pdl.svd(x, full_matrices=False)
    return pdl.square(u), pdl.square(vh)


def low_rank(x):
    u, s, vh = pdl.svd(x, full_matrices=False)
    return (u * s[..., None, :])[..., :2] @ vh[..., :2, :]


def np_low_rank(x):
    u, s, vh = np.linalg.svd(x, full_matrices=False)
    return (u * s[..., None, :])[..., :2] @ vh[..., :2, :]


def np_singular_vectors(x):
    u, _, vh = np.linalg.svd(x, full_matrices=False)
    return u**2, vh**2


def log_volume(x):
    return pdl.slogdet(x)[1]


def q_only(x):
    return pdl.qr(x)[0]


def np_qr(x):
    return tuple(np.linalg.qr(x))


LOOSE = {"bf16": None, "why": "inverting a matrix rounded to 8 bits"}

CASES = [
    Case(pdl.matmul, [f(3, 4), f(4, 2)], np.matmul, bf16=8e-2),
    Case(pdl.matmul, [f(5, 3, 4), f(4, 2)], np.matmul, bf16=8e-2),
    Case(pdl.matmul, [f(2, 3, 0), f(0, 2)], np.matmul),
    Case(pdl.matmul, [f(3, 4), f(2, 4, 2)], np.matmul, bf16=8e-2),
    Case(pdl.matmul, [f(2, 1, 3, 4), f(3, 4, 2)], np.matmul, bf16=8e-2),
    Case(pdl.matmul, [f(4), f(4, 2)], np.matmul, bf16=8e-2),
    Case(pdl.matmul, [f(2, 3, 4), f(4)], np.matmul, bf16=8e-2),
    Case(pdl.matmul, [f(4), f(4)], np.matmul, bf16=8e-2),
    Case(pdl.matmul, [c(2, 3, 4), c(4, 2)], np.matmul),
    Case(pdl.matmul, [i(3, 4), i(4, 2)], np.matmul),
    Case(pdl.matmul, [f(3, 0), f(0, 2)], np.matmul),
    Case(pdl.linear, [f(3, 4), f(4, 2), f(2)], lambda x, w, b: x @ w + b, bf16=8e-2),
    Case(pdl.linear, [f(2, 3, 4), f(4, 2), None], lambda x, w, b: x @ w, bf16=8e-2),
    Case(pdl.linear, [f(4), f(4, 2), f(2)], lambda x, w, b: x @ w + b, bf16=8e-2),
    Case(pdl.linear, [c(3, 4), c(4, 2), c(2)], lambda x, w, b: x @ w + b),
    Case(pdl.outer, [f(3), f(4)], np.outer),
    Case(pdl.vecdot, [f(2, 3), f(3)], lambda a, b: (a * b).sum(-1)),
    Case(pdl.vecdot, [c(2, 3), c(3)], np.vecdot),
    Case(pdl.tensordot, [f(2, 3, 4), f(3, 4, 2)], np.tensordot, bf16=8e-2),
    Case(pdl.tensordot, [f(2, 3, 4), f(4, 2)], np.tensordot, {"axes": ((2, 0), (0, 1))}, bf16=8e-2),
    Case(pdl.kron, [f(2, 3), f(3, 2)], np.kron),
    einsum_case("bij,bjk->bik", f(2, 3, 4), f(2, 4, 2)),
    einsum_case("ij,kj", f(3, 4), f(2, 4)),
    einsum_case("i,j->ji", f(3), f(4)),
    einsum_case("bhqd,bkhd->bhqk", f(2, 2, 3, 2), f(2, 4, 2, 2)),
    einsum_case("ii->i", f(3, 3)),
    einsum_case("iij->j", f(3, 3, 2)),
    einsum_case("ijk->ki", f(2, 3, 4)),
    einsum_case("ij,j,jk->ik", f(2, 3), f(3), f(3, 2)),
    einsum_case("...ij,jk->...ik", f(2, 3, 4), f(4, 2)),
    einsum_case("...i,...i->...", f(2, 1, 4), f(3, 4)),
    einsum_case("ij,ij->", c(2, 3), c(2, 3)),
    Case(pdl.diagonal, [f(2, 3, 4)], lambda x, offset: np.diagonal(x, offset, -2, -1), {"offset": 1}),
    Case(pdl.diagonal, [f(3, 4)], lambda x, offset: np.diagonal(x, offset), {"offset": -1}),
    Case(pdl.diag, [f(3)], lambda x, offset: np.diag(x, offset), {"offset": -1}),
    Case(pdl.diag, [f(3)], np.diag),
    Case(pdl.trace, [f(2, 3, 3)], lambda x: np.trace(x, axis1=1, axis2=2)),
    Case(pdl.inv, [good(2, 3, 3)], np.linalg.inv, **LOOSE),
    Case(pdl.inv, [good(3, 3) + 0.2j * f(3, 3)], np.linalg.inv),
    Case(pdl.det, [good(2, 3, 3)], np.linalg.det, **LOOSE),
    Case(pdl.det, [c(2, 3, 3)], np.linalg.det),
    Case(pdl.slogdet, [good(2, 3, 3)], lambda x: tuple(np.linalg.slogdet(x)), **LOOSE),
    Case(log_volume, [good(3, 3)], lambda x: np.linalg.slogdet(x)[1], **LOOSE),
    Case(pdl.solve, [good(3, 3), f(3, 2)], np.linalg.solve, **LOOSE),
    Case(pdl.solve, [good(2, 3, 3), f(3, 2)], np.linalg.solve, **LOOSE),
    Case(pdl.solve, [good(3, 3), f(3)], np.linalg.solve, **LOOSE),
    Case(pdl.solve, [good(3, 3) + 0.2j * f(3, 3), c(3, 2)], np.linalg.solve),
    Case(cholesky_of_square, [f(2, 3, 3)], lambda x: np.linalg.cholesky(hermitian(x)), bf16=0.1),
    Case(cholesky_of_square, [c(3, 3)], lambda x: np.linalg.cholesky(hermitian(x))),
    Case(pdl.qr, [f(2, 4, 3)], np_qr, **LOOSE),
    Case(q_only, [good(3, 3)], lambda x: np.linalg.qr(x)[0], **LOOSE),
    Case(pdl.qr, [good(3, 5)], np_qr, **LOOSE),
    Case(eigenvalues, [good(2, 3, 3)], lambda x: np.linalg.eigvalsh(x + np.swapaxes(x, -1, -2)), bf16=0.1),
    Case(eigenvectors, [good(3, 3)], lambda x: np.linalg.eigh(x + x.T)[1] ** 2, **LOOSE),
    Case(singular_values, [good(2, 4, 3)], lambda x: np.linalg.svd(x, compute_uv=False), bf16=0.1),
    *[Case(singular_vectors, [good(*s)], np_singular_vectors, **LOOSE) for s in ((3, 3), (4, 3), (3, 5))],
    Case(low_rank, [good(2, 4, 3)], np_low_rank, **LOOSE),
]
