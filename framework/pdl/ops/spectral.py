"""Short-time Fourier transforms, spectrograms and mel spectrograms of signals, frames before bins.

Frame f of a signal is its samples from f hop - before on, as many as the window has, filled up with zeros to n_fft.
In other ops it is a convolution with the columns of the windowed DFT, as which spectrograms are written to ONNX.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Annotated, Any, Literal, TypeAlias, cast, get_args

import numpy as np

from pdl import dims
from pdl.dtype import Array, DType, complex_of, float32, float64, is_complex, real_of
from pdl.errors import DtypeError, ShapeError, UsageError
from pdl.hints import Choice, Range
from pdl.kernels import fft as kernels
from pdl.kernels.copies import contiguous
from pdl.ops.attributes import Length, Pad, Step
from pdl.ops.base import Arrays, Fused, Op, Spec, apply, compose_vjp
from pdl.ops.broadcast import broadcast_to
from pdl.ops.cast import Complex, astype
from pdl.ops.checks import check_floating, check_kind
from pdl.ops.conv import conv1d
from pdl.ops.elementwise import log, maximum, sqrt, square, where
from pdl.ops.fourier import RealFFT
from pdl.ops.linalg import matmul
from pdl.ops.logic import greater
from pdl.ops.pad import pad
from pdl.ops.shape import concat, expand_dims, flip, reshape
from pdl.tensor import Tensor, TensorLike, as_tensor

PadMode = Literal["constant", "reflect", "symmetric", "edge"]
PadName: TypeAlias = Annotated[str, Choice(get_args(PadMode))]
#: 1: the modulus of a spectrum, 2: its square
Power: TypeAlias = Annotated[int, Range(1, 2)]
Share: TypeAlias = Annotated[float, Range(0, 1)]
#: what smaller numbers count as in front of a logarithm, no subnormal one; 0: there is no logarithm
Floor: TypeAlias = Annotated[float, Range(0)]


def _wide(dtype: DType) -> DType:
    """The dtype of windows and filter banks for signals of `dtype`."""
    return float64 if dtype == float64 else float32


class _Framed(Op, abstract=True):
    """How frames lie in signals, and what is done to them before the window: `remove_dc` subtracts their means,
    `preemphasis` c makes x_j - c x_(j-1) of x_j (and x_0 - c x_0 of the first)."""

    n_fft: Step
    hop: Step
    padding: tuple[Pad, Pad]
    mode: PadName
    remove_dc: bool
    preemphasis: Share
    native = True

    def rows(self, x: Spec, window: Spec) -> tuple[int, ...]:
        """[..., frames] of signals [..., samples]; raises where they do not fit."""
        name = self.op_name.lower()
        check_floating(name, x=x, window=window)
        if window.dtype != _wide(x.dtype):
            raise DtypeError(f"{name}: the window is {window.dtype.name}; expected {_wide(x.dtype).name}")
        if not x.shape or len(window.shape) != 1 or not 1 <= window.shape[0] <= self.n_fft:
            raise ShapeError(
                f"{name}: x {x.shape} must be [..., samples] and the window {window.shape} have 1 to n_fft = "
                f"{self.n_fft} numbers"
            )
        samples, longest = x.shape[-1], max(self.padding)
        if longest and samples <= (longest if self.mode == "reflect" else longest - 1) and self.mode != "constant":
            raise ShapeError(f"{name}: {self.mode} by {self.padding} needs more than {samples} samples")
        whole = samples + sum(self.padding)
        if samples < 1 or whole < window.shape[0]:
            raise ShapeError(
                f"{name}: {samples} samples, padded by {self.padding}, are less than a frame of {window.shape[0]}"
            )
        return (*x.shape[:-1], (whole - window.shape[0]) // self.hop + 1)

    @property
    def bins(self) -> int:
        """How many frequencies there are."""
        return self.n_fft // 2 + 1

    def same(self, other: type[_Framed], *inputs: Tensor, **more: Any) -> Tensor:
        """Another op on the same frames."""
        own = {name: getattr(self, name) for name in _Framed.fields}
        return cast(Tensor, apply(other(**own, **more), *inputs))

    def run_kernel(self, made: str, y: Array, x: Array, window: Array, bank: Array | None = None, *log: float) -> None:
        """The kernel for y [..., frames, columns]."""
        x = contiguous(x).reshape(-1, x.shape[-1])
        where_frames_lie = self.n_fft, self.hop, self.padding[0], self.mode, self.remove_dc, self.preemphasis
        kernels.forward(y.reshape(len(x), *y.shape[-2:]), x, window, bank, made, *where_frames_lie, *log)

    def parts(self, x: Tensor, window: Tensor) -> tuple[Tensor, Tensor]:
        """Real and imaginary part of the spectrum: a convolution of blocks of `hop` samples with the DFT."""
        size, hop = window.shape[0], self.hop
        rows = self.rows(Spec(x.shape, x.dtype), Spec(window.shape, window.dtype))
        x = x if x.ndim == 2 else reshape(x, (prod(x.shape[:-1]), x.shape[-1]))
        taps = -(-size // hop)
        blocks = rows[-1] - 1 + taps
        x = pad(_padded(x, self.padding, self.mode), ((0, 0), (0, taps * hop - size)))[:, : blocks * hop]
        filters = expand_dims(window, axis=1) * Tensor(_dft(self.n_fft, size, window.dtype))
        if self.remove_dc or self.preemphasis:
            filters = matmul(Tensor(_shaping(size, self.remove_dc, self.preemphasis, window.dtype)), filters)
        filters = astype(pad(filters, ((0, taps * hop - size), (0, 0))), x.dtype)
        filters = reshape(filters, (taps, hop, 2 * self.bins))
        y = reshape(conv1d(reshape(x, (x.shape[0], blocks, hop)), filters), (*rows, 2 * self.bins))
        return y[..., : self.bins], y[..., self.bins :]

    def spectrum(self, x: Tensor, window: Tensor) -> Tensor:
        """The spectrum by `parts`."""
        return cast(Tensor, apply(Complex(), *self.parts(x, window)))

    def through(self, g: Tensor, x: Tensor, window: Tensor) -> Any:
        """dx and dwindow from the gradient of the spectrum."""
        return (
            lambda: astype(self.same(OverlapAdd, g, window, samples=x.shape[-1]), x.dtype),
            lambda: compose_vjp(lambda w: self.spectrum(x, w), g, (window,))[0],
        )


@lru_cache(32)
def _dft(n: int, size: int, dtype: DType) -> Array:
    """cos and -sin of 2 pi jk / n, [size, 2 bins]."""
    angles = 2 * np.pi / n * (np.arange(size)[:, None] * np.arange(n // 2 + 1) % n)
    return np.concatenate([np.cos(angles), -np.sin(angles)], axis=1).astype(dtype)


@lru_cache(32)
def _shaping(size: int, remove_dc: bool, preemphasis: float, dtype: DType) -> Array:
    """The transposed matrix of what is done to a frame before its window."""
    made = np.eye(size) - np.eye(size, k=-1) * preemphasis
    made[0, 0] -= preemphasis
    return (made - (made.mean(axis=1, keepdims=True) if remove_dc else 0)).T.astype(dtype)


def _padded(x: Tensor, padding: tuple[int, int], mode: str) -> Tensor:
    """x [N, samples], whatever the number of samples, with `padding` at both ends."""
    before, after = padding
    if mode == "constant":
        return pad(x, ((0, 0), padding))
    skip = int(mode == "reflect")
    if mode == "edge":
        left, right = broadcast_to(x[:, :1], (x.shape[0], before)), broadcast_to(x[:, -1:], (x.shape[0], after))
    else:
        left = flip(x[:, skip : before + skip], axis=1)
        right = flip(x[:, -after - skip : -skip or None], axis=1) if after else x[:, :0]
    return concat([part for part, n in ((left, before), (x, 1), (right, after)) if n], axis=1)


class STFT(_Framed, Fused):
    """X [..., frames, n_fft // 2 + 1], complex, of x [..., samples]: the transform of every frame times window [size],
    filled up with zeros to `n_fft`."""

    def infer(self, x: Spec, window: Spec) -> Spec:
        return Spec((*self.rows(x, window), self.bins), complex_of(x.dtype))

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        self.run_kernel("spectrum", outs[0], ins[0], contiguous(ins[1]))

    def compose(self, x: Tensor, window: Tensor) -> Tensor:
        return self.spectrum(x, window)

    def vjp(self, g: Tensor, y: Tensor, x: Tensor, window: Tensor) -> Any:
        return self.through(g, x, window)


class OverlapAdd(_Framed):
    """The adjoint of `STFT`: x [..., samples], each the sum over the frames that hold it of window_j sum_k Re(X_k e^(2
    pi i jk / n_fft)), k from 0 to n_fft // 2."""

    samples: Length

    def infer(self, x: Spec, window: Spec) -> Spec:
        check_kind("overlapadd", "c", x.dtype)
        made = Spec((*x.shape[:-2], self.samples), real_of(x.dtype))
        expected = (*self.rows(made, window), self.bins)
        if x.shape != expected:
            raise ShapeError(f"overlapadd: X {x.shape} for {self.samples} samples must be {expected}")
        return made

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        x, y = contiguous(ins[0]), outs[0]
        where_frames_lie = self.n_fft, self.hop, self.padding[0], self.mode, self.remove_dc, self.preemphasis
        flat = x.reshape(-1, *x.shape[-2:])
        kernels.overlap_add(y.reshape(-1, self.samples), flat, contiguous(ins[1]), *where_frames_lie)

    def vjp(self, g: Tensor, y: Tensor, x: Tensor, window: Tensor) -> Any:
        return lambda: self.same(STFT, g, window), self.through(x, g, window)[1]


class Spectrogram(_Framed, Fused):
    """|X|^power [..., frames, n_fft // 2 + 1], X that of `STFT`; the gradient of |0| is taken for 0."""

    power: Power

    def infer(self, x: Spec, window: Spec) -> Spec:
        return Spec((*self.rows(x, window), self.bins), x.dtype)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        self.run_kernel("power" if self.power == 2 else "magnitude", outs[0], ins[0], contiguous(ins[1]))

    def compose(self, x: Tensor, window: Tensor) -> Tensor:
        real, imag = self.parts(x, window)
        power = square(real) + square(imag)
        return power if self.power == 2 else sqrt(power)

    def vjp(self, g: Tensor, y: Tensor, x: Tensor, window: Tensor) -> Any:
        def spectrum() -> Tensor:
            scale = g * 2.0 if self.power == 2 else where(greater(y, 0.0), g / where(greater(y, 0.0), y, 1.0), 0.0)
            return self.same(STFT, x, window) * scale

        return lambda: self.through(spectrum(), x, window)[0](), lambda: self.through(spectrum(), x, window)[1]()


class MelSpectrogram(_Framed, Fused):
    """y = |X|^power bank [..., frames, bands]: `Spectrogram` times a filter bank [n_fft // 2 + 1, bands], of which each
    column is read from its first to its last number that is not 0; where `floor` is above 0, `scale` log(max(y,
    floor))."""

    power: Power
    floor: Floor
    scale: float

    def infer(self, x: Spec, window: Spec, bank: Spec) -> Spec:
        rows = self.rows(x, window)
        if len(bank.shape) != 2 or bank.shape[0] != self.bins or bank.dtype != _wide(x.dtype):
            raise ShapeError(
                f"mel_spectrogram: the filter bank {bank.shape} {bank.dtype.name} must be ({self.bins}, bands) "
                f"{_wide(x.dtype).name} for n_fft = {self.n_fft}"
            )
        return Spec((*rows, bank.shape[1]), x.dtype)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        x, window, bank = ins
        made = "power" if self.power == 2 else "magnitude"
        self.run_kernel(made, outs[0], x, contiguous(window), contiguous(bank), self.floor, self.scale)

    def compose(self, x: Tensor, window: Tensor, bank: Tensor) -> Tensor:
        y = matmul(self.same(Spectrogram, x, window, power=self.power), astype(bank, x.dtype))
        return log(maximum(y, self.floor)) * self.scale if self.floor > 0 else y


# -- functions ---------------------------------------------------------------------------------------------------------
def _framed(
    name: str,
    x: TensorLike,
    n_fft: int,
    hop_length: int | None,
    win_length: int | None,
    window: TensorLike | None,
    center: bool,
    pad_mode: str,
    padding: tuple[int, int] | None,
) -> tuple[Tensor, Tensor, dict[str, Any]]:
    """The signals, the window as frames have it, and the attributes of `_Framed` but for shaping."""
    x = as_tensor(x)
    size = n_fft if win_length is None else win_length
    hop = size // 4 if hop_length is None else hop_length
    if not 1 <= size <= n_fft or hop < 1:
        raise UsageError(
            f"{name}: win_length = {size} and hop_length = {hop} with n_fft = {n_fft}; a window has 1 to "
            "n_fft numbers, and a hop is at least 1"
        )
    if pad_mode not in get_args(PadMode):
        raise UsageError(f"{name}: pad_mode is {pad_mode!r}; expected {', '.join(get_args(PadMode))}")
    made = Tensor(hann(size)) if window is None else as_tensor(window)
    if made.shape != (size,):
        raise ShapeError(f"{name}: the window {made.shape} must have win_length = {size} numbers")
    made = astype(made, _wide(real_of(x.dtype) if is_complex(x.dtype) else x.dtype))
    if padding is None:
        made = pad(made, (((n_fft - size) // 2, n_fft - size - (n_fft - size) // 2),)) if size < n_fft else made
        padding = (n_fft // 2, n_fft // 2) if center else (0, 0)
    return x, made, {"n_fft": n_fft, "hop": hop, "padding": tuple(padding), "mode": pad_mode}


def hann(size: int) -> Array:
    """The periodic Hann window sin^2(pi j / size), float64 [size]."""
    return cast(Array, np.sin(np.pi / size * np.arange(size)) ** 2)


def stft(
    x: TensorLike,
    n_fft: int,
    *,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: TensorLike | None = None,
    center: bool = True,
    pad_mode: PadMode = "reflect",
    padding: tuple[int, int] | None = None,
    remove_dc: bool = False,
    preemphasis: float = 0.0,
) -> Tensor:
    """Short-time Fourier transform.    x [..., samples] -> complex [..., frames, n_fft // 2 + 1]

    n_fft        points of a transform, any number; powers of 2, 3 and 5 are fast
    hop_length   samples from one frame to the next; a quarter of the window by default
    win_length   numbers of the window, which stands in the middle of n_fft points; n_fft by default
    window       [win_length]; the periodic Hann window by default
    center       frame f has sample f hop_length in its middle: signals are padded by n_fft // 2 at both ends
    pad_mode     constant (zeros), reflect, symmetric or edge, as in `pad`
    padding      (before, after) in place of `center`; frames then are win_length samples, zeros behind them, as in
                 Kaldi and TensorFlow
    remove_dc    subtract its mean from each frame
    preemphasis  c of x_j - c x_(j-1) within each frame, 0 to 1

    librosa and PyTorch have the same arguments, and bins before frames.
    """
    x, window, frames = _framed("stft", x, n_fft, hop_length, win_length, window, center, pad_mode, padding)
    return cast(Tensor, apply(STFT(**frames, remove_dc=remove_dc, preemphasis=preemphasis), x, window))


def istft(
    x: TensorLike,
    n_fft: int,
    *,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: TensorLike | None = None,
    center: bool = True,
    length: int | None = None,
) -> Tensor:
    """The signal of least squared error whose `stft` is x.    x complex [..., frames, n_fft // 2 + 1] -> [..., samples]

    Griffin and Lim, IEEE ASSP 32(2), 1984: windowed inverse transforms are added up and divided by the sum of squares
    of the windows; samples where that is below 1e-6 are 0. `length`: how many samples, by default those from the first
    to the last frame. Other arguments are those of `stft`.
    """
    x = as_tensor(x)
    check_kind("istft", "c", x.dtype)
    if x.ndim < 2 or x.shape[-1] != n_fft // 2 + 1 or x.shape[-2] < 1:
        raise ShapeError(f"istft: x {x.shape} must be [..., frames, {n_fft // 2 + 1}] for n_fft = {n_fft}")
    _, window, frames = _framed("istft", x, n_fft, hop_length, win_length, window, center, "constant", None)
    before, count = frames["padding"][0], x.shape[-2]
    covered = (count - 1) * frames["hop"] + n_fft - before
    samples = covered - before if length is None else length
    if samples < 1 or (length is not None and length > covered):
        raise ShapeError(f"istft: {count} frames cover {covered} samples, not {samples}")
    frames["padding"] = (before, before if length is None else dims.maximum(covered - samples, 0))
    op = OverlapAdd(**frames, remove_dc=False, preemphasis=0.0, samples=samples)
    weights = np.full(n_fft // 2 + 1, 2.0 / n_fft)
    weights[[0, -1] if n_fft % 2 == 0 else [0]] = 1.0 / n_fft
    scale = Tensor(weights.astype(window.dtype))
    own = pad(window, ((0, n_fft - window.shape[0]),)) if window.shape[0] < n_fft else window
    own = broadcast_to(apply(RealFFT(-1, "backward"), own) * scale, (count, n_fft // 2 + 1))
    envelope = apply(op, own, window)
    inside = greater(envelope, 1e-6)
    return where(inside, apply(op, x * scale, window) / where(inside, envelope, 1.0), 0.0)


def spectrogram(
    x: TensorLike,
    n_fft: int,
    *,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: TensorLike | None = None,
    center: bool = True,
    pad_mode: PadMode = "reflect",
    padding: tuple[int, int] | None = None,
    remove_dc: bool = False,
    preemphasis: float = 0.0,
    power: int = 2,
) -> Tensor:
    """|`stft`|^power, `power` 1 or 2, in one pass.    x [..., samples] -> [..., frames, n_fft // 2 + 1]

    Other arguments are those of `stft`.
    """
    x, window, frames = _framed("spectrogram", x, n_fft, hop_length, win_length, window, center, pad_mode, padding)
    op = Spectrogram(**frames, remove_dc=remove_dc, preemphasis=preemphasis, power=power)
    return cast(Tensor, apply(op, x, window))


def mel_spectrogram(
    x: TensorLike,
    filters: TensorLike,
    n_fft: int,
    *,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: TensorLike | None = None,
    center: bool = True,
    pad_mode: PadMode = "reflect",
    padding: tuple[int, int] | None = None,
    remove_dc: bool = False,
    preemphasis: float = 0.0,
    power: int = 2,
    log_floor: float = 0.0,
    log_scale: float = 1.0,
) -> Tensor:
    """`spectrogram` times `filters`, in one pass.    x [..., samples], filters [n_fft // 2 + 1, bands] -> [..., frames,
    bands]

    log_floor  above 0: the natural logarithm of what is at least so much
    log_scale  what logarithms are multiplied by

    Costs grow with the numbers of `filters` that are not 0. Other arguments are those of `stft` and `spectrogram`.
    """
    name = "mel_spectrogram"
    x, window, frames = _framed(name, x, n_fft, hop_length, win_length, window, center, pad_mode, padding)
    own: dict[str, Any] = {"power": power, "floor": log_floor, "scale": log_scale}
    op = MelSpectrogram(**frames, remove_dc=remove_dc, preemphasis=preemphasis, **own)
    return cast(Tensor, apply(op, x, window, astype(as_tensor(filters), window.dtype)))


__all__ = ["istft", "mel_spectrogram", "spectrogram", "stft"]
