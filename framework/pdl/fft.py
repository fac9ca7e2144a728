"""Discrete Fourier transforms: the extension `fft` of the array API standard, 2024.12. All carry gradients.

With y = fft(x), y_k = sum_j x_j e^(-2 pi i jk / n), and x = ifft(y). `norm` says where the factor 1/n goes: "backward"
to the inverse, "forward" to the other, "ortho" as 1/sqrt(n) to both. `n` and `s` are lengths along the transformed
axes, to which the input is cut, or filled up with zeros. float32 and bfloat16 make complex64, float64 complex128.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from pdl.dtype import as_dtype, complex_of, float32, is_complex, is_floating
from pdl.errors import DtypeError, ShapeError, UsageError
from pdl.exchange import as_device
from pdl.habits import missing_from
from pdl.ops.base import apply
from pdl.ops.cast import astype, conj
from pdl.ops.checks import normalize_axes, normalize_axis
from pdl.ops.fourier import FFT, SWAPPED, InverseRealFFT, RealFFT
from pdl.ops.shape import concat, roll
from pdl.ops.words import explained
from pdl.tensor import Tensor, TensorLike, as_tensor

Sizes = Sequence[int] | None


def fft(x: TensorLike, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The transform of complex (or real) `x` along `axis`."""
    return _complex("fft", x, None if n is None else (n,), (axis,), norm, inverse=False)


def ifft(x: TensorLike, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The inverse of `fft` along `axis`."""
    return _complex("ifft", x, None if n is None else (n,), (axis,), norm, inverse=True)


def fftn(x: TensorLike, /, *, s: Sizes = None, axes: Sizes = None, norm: str = "backward") -> Tensor:
    """The transform of complex (or real) `x` along several `axes` (None: the last ones, as many as `s` has, or all)."""
    return _complex("fftn", x, s, axes, norm, inverse=False)


def ifftn(x: TensorLike, /, *, s: Sizes = None, axes: Sizes = None, norm: str = "backward") -> Tensor:
    """The inverse of `fftn`."""
    return _complex("ifftn", x, s, axes, norm, inverse=True)


def rfft(x: TensorLike, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The transform of real `x` along `axis`: the elements 0 to n // 2, of which the others are conjugates."""
    return rfftn(x, s=None if n is None else (n,), axes=(axis,), norm=norm)


def irfft(x: TensorLike, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The inverse of `rfft`: real, of length `n` along `axis` (None: 2 (m - 1) for m elements)."""
    return irfftn(x, s=None if n is None else (n,), axes=(axis,), norm=norm)


def rfftn(x: TensorLike, /, *, s: Sizes = None, axes: Sizes = None, norm: str = "backward") -> Tensor:
    """The transform of real `x` along several `axes`, half of it along the last of them, as `rfft`."""
    x = as_tensor(x)
    if is_complex(x.dtype):
        raise DtypeError(f"rfft: x is {x.dtype.name}; expected real numbers, or use fft")
    x = x if is_floating(x.dtype) else astype(x, float32)
    sizes, places = _lengths("rfft", x, s, axes)
    _check_norm("rfft", norm)
    y = cast(Tensor, apply(RealFFT(places[-1], norm), _resized("rfft", x, sizes, places)))
    return cast(Tensor, apply(FFT(places[:-1], False, norm), y)) if len(places) > 1 else y


def irfftn(x: TensorLike, /, *, s: Sizes = None, axes: Sizes = None, norm: str = "backward") -> Tensor:
    """The inverse of `rfftn`: real, of length s[-1] along the last of `axes` (None: 2 (m - 1) for m elements)."""
    x = as_tensor(x)
    x = x if is_complex(x.dtype) else astype(x, complex_of(x.dtype))
    sizes, places = _lengths("irfft", x, s, axes)
    _check_norm("irfft", norm)
    n = 2 * (x.shape[places[-1]] - 1) if s is None or s[-1] == -1 else s[-1]
    x = _resized("irfft", x, (*sizes[:-1], n // 2 + 1), places)
    y = cast(Tensor, apply(FFT(places[:-1], True, norm), x)) if len(places) > 1 else x
    return cast(Tensor, apply(InverseRealFFT(n, places[-1], norm), y))


def hfft(x: TensorLike, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The real transform, of length `n` along `axis` (None: 2 (m - 1)), of `x`, the half of a signal whose other half
    is the conjugate."""
    _check_norm("hfft", norm)
    return irfft(conj(x), n=n, axis=axis, norm=SWAPPED[norm])


def ihfft(x: TensorLike, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The inverse of `hfft`: the elements 0 to n // 2."""
    _check_norm("ihfft", norm)
    return conj(rfft(x, n=n, axis=axis, norm=SWAPPED[norm]))


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """The frequencies of the `n` elements of `fft`, in cycles per unit of the spacing `d` of samples: [0, 1, ...,
    (n-1)//2, -(n//2), ..., -1] / (d n), in float32 or `dtype`."""
    return _frequencies(
        "fftfreq", np.concatenate([np.arange((n + 1) // 2), np.arange(-(n // 2), 0)]), n, d, dtype, device
    )


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """The frequencies of the n // 2 + 1 elements of `rfft`: [0, 1, ..., n // 2] / (d n), in float32 or `dtype`."""
    return _frequencies("rfftfreq", np.arange(n // 2 + 1), n, d, dtype, device)


def fftshift(x: TensorLike, /, *, axes: int | Sizes = None) -> Tensor:
    """`x` with the element of frequency 0 moved to the middle of `axes` (None: of all)."""
    x = as_tensor(x)
    places = normalize_axes("fftshift", _tuple(axes), x.ndim)
    return roll(x, [x.shape[a] // 2 for a in places], axis=places) if places else x


def ifftshift(x: TensorLike, /, *, axes: int | Sizes = None) -> Tensor:
    """The inverse of `fftshift`."""
    x = as_tensor(x)
    places = normalize_axes("ifftshift", _tuple(axes), x.ndim)
    return roll(x, [-(x.shape[a] // 2) for a in places], axis=places) if places else x


def _tuple(axes: int | Sizes) -> Any:
    return tuple(axes) if isinstance(axes, Sequence) else axes


def _frequencies(name: str, steps: Any, n: int, d: float, dtype: Any, device: Any) -> Tensor:
    as_device(name, device)
    made = as_dtype(dtype, float32)
    if not is_floating(made):
        raise DtypeError(f"{name}: dtype is {made.name}; expected float32, float64 or bfloat16")
    return Tensor((steps / (n * d)).astype(made))


def _complex(name: str, x: TensorLike, s: Sizes, axes: Sizes, norm: str, *, inverse: bool) -> Tensor:
    x = as_tensor(x)
    x = x if is_complex(x.dtype) else astype(x, complex_of(x.dtype))
    sizes, places = _lengths(name, x, s, axes)
    _check_norm(name, norm)
    return cast(Tensor, apply(FFT(places, inverse, norm), _resized(name, x, sizes, places)))


def _check_norm(name: str, norm: str) -> None:
    if norm not in SWAPPED:
        raise UsageError(f"{name}: norm is {norm!r}; expected 'backward', 'ortho' or 'forward'")


def _lengths(name: str, x: Tensor, s: Sizes, axes: Sizes) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The lengths to transform, and the axes that have them, in the order given."""
    if axes is None:
        axes = range(x.ndim) if s is None else range(-len(s), 0)
    places = tuple(normalize_axis(name, a, x.ndim) for a in axes)
    if not places or len({*places}) != len(places) or (s is not None and len(s) != len(places)):
        raise ShapeError(
            f"{name}: axes {tuple(axes)} and s {s} of x {x.shape}; expected one length for each axis, once"
        )
    given = s or [-1] * len(places)
    return tuple(x.shape[a] if n == -1 else n for a, n in zip(places, given, strict=True)), places


def _resized(name: str, x: Tensor, sizes: tuple[int, ...], axes: tuple[int, ...]) -> Tensor:
    """`x` cut, or filled up with zeros, to `sizes` along `axes`."""
    for n, axis in zip(sizes, axes, strict=True):
        if n < 1:
            raise ShapeError(f"{name}: length {n} along axis {axis} of x {x.shape}; a transform has at least 1 point")
        have = x.shape[axis]
        if n < have:
            x = x[(*(slice(None),) * axis, slice(n))]
        elif n > have:
            missing = Tensor(np.zeros((*x.shape[:axis], n - have, *x.shape[axis + 1 :]), x.dtype))
            x = concat([x, missing], axis=axis)
    return x


__all__ = [
    "fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft", "irfft", "irfftn", "rfft",
    "rfftfreq", "rfftn",
]  # fmt: skip
if not TYPE_CHECKING:
    globals().update({_name: explained(globals()[_name]) for _name in __all__})
    __getattr__ = missing_from(__name__)
