"""What the array API standard adds, against NumPy: bits of floats, running sums, sets, decompositions, transforms."""

from __future__ import annotations

import numpy as np

import pdl

from .case import Case, draws, forward

f, i = draws(24)


def c(*shape):
    return f(*shape) + 1j * f(*shape)


def away(*shape):
    return np.copysign(np.abs(f(*shape)) + 0.3, f(*shape))


def good(*shape, imag=0.0):
    """Matrices far from singular, with distinct singular values."""
    x = f(*shape) * 0.3 + np.eye(*shape[-2:]) * np.arange(1.0, shape[-1] + 1)
    return x + imag * 1j * f(*shape) if imag else x


def named(function, name):
    function.__name__ = name
    return function


def adjoint(x):
    return np.conj(np.swapaxes(x, -1, -2))


def hermitian(x):
    return x + (adjoint(x) if isinstance(x, np.ndarray) else x.conj().mT)


def eigenvalues(x):
    return pdl.linalg.eigvalsh(hermitian(x))


def weights(x):
    """Squared moduli of eigenvectors, which do not see their phase."""
    return pdl.square(pdl.abs(pdl.linalg.eigh(hermitian(x)).eigenvectors))


def singular_weights(x):
    u, _, vh = pdl.linalg.svd(x, full_matrices=False)
    return pdl.square(pdl.abs(u)), pdl.square(pdl.abs(vh))


def np_singular_weights(x):
    u, _, vh = np.linalg.svd(x, full_matrices=False)
    return np.abs(u) ** 2, np.abs(vh) ** 2


def half(x):
    """The part of x with the larger singular values."""
    u, s, vh = pdl.linalg.svd(x, full_matrices=False)
    return (u[..., :1] * s[..., None, :1]) @ vh[..., :1, :]


def np_half(x):
    u, s, vh = np.linalg.svd(x, full_matrices=False)
    return (u[..., :1] * s[..., None, :1]) @ vh[..., :1, :]


def full_svd(x):
    u, s, vh = pdl.linalg.svd(x.detach())
    k = s.shape[-1]
    return (u[..., :k] * s[..., None, :]) @ vh[..., :k, :], u @ u.conj().mT, vh @ vh.conj().mT


def np_full_svd(x):
    return x, *(np.broadcast_to(np.eye(n), (*x.shape[:-2], n, n)) for n in x.shape[-2:])


def singular_values_of_full(x):
    return pdl.linalg.svd(x).S


def r_of_full(x):
    return pdl.linalg.qr(x, mode="complete").R


def full_qr(x):
    q, r = pdl.linalg.qr(x.detach(), mode="complete")
    return q @ r, q @ q.conj().mT, pdl.tril(r, k=-1)


def np_full_qr(x):
    return x, np.broadcast_to(np.eye(x.shape[-2]), (*x.shape[:-1], x.shape[-2])), np.zeros_like(x)


def np_qr(x):
    return tuple(np.linalg.qr(x))


def upper_cholesky(x):
    return pdl.linalg.cholesky(x @ x.conj().mT + pdl.eye(x.shape[-1], dtype=x.dtype), upper=True)


def np_upper_cholesky(x):
    return adjoint(np.linalg.cholesky(x @ adjoint(x) + np.eye(x.shape[-1])))


def np_vector_norm(x, axis=None, ord=2, keepdims=False):
    return np.linalg.norm(x if axis is not None else x.reshape(-1), ord=ord, axis=axis, keepdims=keepdims)


def np_matrix_norm(x, ord="fro", keepdims=False):
    return np.linalg.norm(x, ord=ord, axis=(-2, -1), keepdims=keepdims)


def sign_of_determinant(x):
    """A complex determinant's sign."""
    return pdl.linalg.slogdet(x).sign


def running(function, identity, name):
    def reference(x, axis=-1, include_initial=False):
        made = function(x, axis=axis)
        first = np.full_like(np.take(made, [0], axis), identity)
        return np.concatenate([first, made], axis) if include_initial else made

    return named(reference, name)


cumulative_sum = running(np.cumsum, 0, "cumulative_sum")
cumulative_prod = running(np.cumprod, 1, "cumulative_prod")


def rfftn(x, s=None, axes=None, norm="backward"):
    return np.fft.rfftn(x, s, axes if axes or s is None else range(-len(s), 0), norm)


def irfftn(x, s=None, axes=None, norm="backward"):
    return np.fft.irfftn(x, s, axes if axes or s is None else range(-len(s), 0), norm)


BY_VALUES = "the shape of the result of"
LOOSE = {"bf16": None, "why": "inverting a matrix rounded to 8 bits"}
NORMS = ("backward", "ortho", "forward")

ELEMENTS = [
    Case(pdl.copysign, [away(3, 4), away(4)], np.copysign),
    forward(pdl.nextafter, [f(3, 4), f(4)], np.nextafter, float32=None, bf16=None, why="numbers of each dtype"),
    forward(pdl.signbit, [np.array([0.0, -0.0, -2.0, 3.0, -np.inf])], np.signbit),
    Case(pdl.positive, [f(3, 4)], np.positive),
    Case(pdl.positive, [c(3)], np.positive),
    *[Case(pdl.tanh, [c(3)], np.tanh), Case(pdl.tan, [c(3)], np.tan), Case(pdl.expm1, [c(3)], np.expm1)],
    Case(pdl.cumulative_sum, [f(3, 4)], cumulative_sum, {"axis": 1}),
    Case(pdl.cumulative_sum, [f(4)], cumulative_sum, {"include_initial": True}),
    Case(pdl.cumulative_sum, [i(3, 4)], cumulative_sum, {"axis": 0, "include_initial": True}),
    Case(pdl.cumulative_prod, [away(3, 4)], cumulative_prod, {"axis": 0, "include_initial": True}),
    Case(pdl.diff, [f(3, 5)], lambda x, n: np.diff(x, n), {"n": 2}),
    Case(pdl.diff, [f(3, 5)], lambda x, axis: np.diff(x, axis=axis), {"axis": 0}),
    forward(pdl.unique_counts, [i(3, 9)], lambda x: tuple(np.unique_counts(x)), untraceable=BY_VALUES),
    forward(pdl.unique_inverse, [i(3, 9)], lambda x: tuple(np.unique_inverse(x)), untraceable=BY_VALUES),
    forward(pdl.unique_values, [i(3, 9)], np.unique, untraceable=BY_VALUES),
    Case(pdl.repeat, [f(3, 4)], np.repeat, {"repeats": [2, 0, 1], "axis": 0}),
    Case(pdl.expand_dims, [f(3, 4)], np.expand_dims, {"axis": (0, -1)}),
    Case(pdl.sum, [i(3, 4).astype(np.uint8)], np.sum, {"axis": 0}),
    Case(pdl.prod, [i(3, 4).astype(np.uint32)], np.prod, {"axis": 1}),
    Case(pdl.cumsum, [i(3, 4).astype(np.uint16)], np.cumsum, {"axis": 1}),
    Case(pdl.cumprod, [i(3, 4).astype(np.uint8)], np.cumprod, {"axis": 0}),
    Case(pdl.prod, [f(3, 0)], np.prod, {"axis": 1}),
    Case(pdl.cumprod, [f(3, 0)], np.cumprod, {"axis": 1}),
    Case(pdl.matmul, [f(2, 3, 0), f(0, 2)], np.matmul),
    Case(pdl.linear, [f(2, 3, 0), f(0, 2), f(2)], lambda x, w, b: x @ w + b),
    Case(pdl.logsumexp, [f()], lambda x: x),
    Case(pdl.atan2, [np.zeros(2), np.array([0.0, 2.0])], np.arctan2, grad=[]),
]  # fmt: skip
MATRICES = [
    Case(pdl.linalg.cross, [f(2, 1, 3), f(4, 3)], np.linalg.cross),
    Case(pdl.linalg.cross, [c(3, 2), c(3, 2)], np.linalg.cross, {"axis": 0}),
    Case(upper_cholesky, [c(3, 3)], np_upper_cholesky),
    Case(upper_cholesky, [f(2, 3, 3)], np_upper_cholesky, bf16=0.1),
    Case(eigenvalues, [good(2, 3, 3, imag=0.4)], lambda x: np.linalg.eigvalsh(hermitian(x))),
    Case(weights, [good(3, 3, imag=0.4)], lambda x: np.abs(np.linalg.eigh(hermitian(x))[1]) ** 2),
    Case(pdl.linalg.svdvals, [good(2, 4, 3, imag=0.4)], lambda x: np.linalg.svd(x, compute_uv=False)),
    *[Case(singular_weights, [good(*s, imag=0.4)], np_singular_weights) for s in ((3, 3), (4, 3), (3, 5))],
    *[Case(half, [good(*s, imag=0.4)], np_half) for s in ((3, 3), (2, 4, 3), (3, 4))],
    *[forward(full_svd, [x], np_full_svd, **LOOSE) for x in (f(2, 4, 3), f(3, 4), c(4, 2))],
    *[forward(full_qr, [x], np_full_qr, **LOOSE) for x in (f(2, 4, 3), c(4, 2))],
    Case(singular_values_of_full, [good(2, 4, 3)], lambda x: np.linalg.svd(x, compute_uv=False), bf16=0.1),
    Case(r_of_full, [good(2, 4, 3)], lambda x: np.linalg.qr(x, mode="complete")[1], **LOOSE),
    *[Case(pdl.linalg.qr, [good(*s, imag=0.4)], np_qr) for s in ((2, 3, 3), (4, 3), (3, 5))],
    Case(pdl.linalg.slogdet, [good(2, 3, 3, imag=0.4)], lambda x: tuple(np.linalg.slogdet(x))),
    Case(sign_of_determinant, [good(2, 3, 3, imag=0.4)], lambda x: np.linalg.slogdet(x)[0]),
    *[Case(pdl.linalg.pinv, [x], np.linalg.pinv, **LOOSE) for x in (good(2, 4, 3), good(3, 4), good(3, 3))],
    Case(pdl.linalg.pinv, [good(4, 3, imag=0.4)], np.linalg.pinv),
    Case(pdl.linalg.pinv, [f(4, 2) @ f(2, 3)], np.linalg.pinv, {"rtol": 1e-3}, grad=[], **LOOSE),
    forward(pdl.linalg.matrix_rank, [f(2, 4, 2) @ f(2, 2, 3)], np.linalg.matrix_rank, **LOOSE, float32=None),
    *[Case(pdl.linalg.matrix_norm, [good(2, 3, 4)], np_matrix_norm, {"ord": o, "keepdims": o == 1}, **LOOSE)
      for o in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)],
    Case(pdl.linalg.matrix_norm, [good(2, 3, 4, imag=0.4)], np_matrix_norm, {"ord": "nuc"}),
    *[Case(pdl.linalg.vector_norm, [away(3, 4)], np_vector_norm, {"ord": o, "axis": 1}, bf16=8e-2)
      for o in (1, 2, 3, -1, 0.5, np.inf, -np.inf)],
    Case(pdl.linalg.vector_norm, [c(3, 4)], np_vector_norm),
]  # fmt: skip


def third_power(x):
    return pdl.linalg.matrix_power(x, 3)


def power_below_0(x):
    return pdl.linalg.matrix_power(x, -2)


MATRICES += [
    Case(third_power, [good(2, 3, 3)], lambda x: np.linalg.matrix_power(x, 3), bf16=0.2),
    Case(power_below_0, [good(3, 3)], lambda x: np.linalg.matrix_power(x, -2), **LOOSE),
]
WAVES = [
    *[Case(pdl.fft.fft, [c(2, 5)], np.fft.fft, {"norm": n}) for n in NORMS],
    *[Case(pdl.fft.ifft, [c(6, 2)], np.fft.ifft, {"norm": n, "axis": 0}) for n in NORMS],
    *[Case(pdl.fft.rfft, [f(2, n)], np.fft.rfft, {"norm": m}, bf16=8e-2)
      for n, m in ((6, "backward"), (5, "ortho"), (1, "forward"))],
    *[Case(pdl.fft.irfft, [c(4, 2)], np.fft.irfft, {"n": n, "axis": 0, "norm": m})
      for n, m in ((6, "backward"), (5, "ortho"), (7, "forward"))],
    Case(pdl.fft.hfft, [c(2, 4)], np.fft.hfft, {"norm": "ortho"}),
    Case(pdl.fft.ihfft, [f(2, 6)], np.fft.ihfft, {"n": 8, "norm": "forward"}, bf16=8e-2),
    Case(pdl.fft.fft, [f(2, 5)], np.fft.fft, {"n": 7}, bf16=8e-2),
    Case(pdl.fft.fftn, [c(2, 3, 4)], np.fft.fftn),
    Case(pdl.fft.ifftn, [c(2, 3, 4)], np.fft.ifftn, {"axes": (0, 2), "s": (3, 2)}),
    Case(pdl.fft.rfftn, [f(3, 4, 2)], rfftn, {"axes": (2, 0)}, bf16=8e-2),
    Case(pdl.fft.rfftn, [f(3, 4)], rfftn, {"s": (2, 5)}, bf16=8e-2),
    Case(pdl.fft.irfftn, [c(3, 4)], irfftn, {"norm": "ortho"}),
    Case(pdl.fft.irfftn, [c(2, 3, 4)], irfftn, {"s": (4, 5)}),
    Case(pdl.fft.fftshift, [f(3, 4)], np.fft.fftshift),
    Case(pdl.fft.ifftshift, [f(3, 5)], np.fft.ifftshift, {"axes": 1}),
]  # fmt: skip
CASES = [*ELEMENTS, *MATRICES, *WAVES]
