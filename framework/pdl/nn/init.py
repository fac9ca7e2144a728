"""Initial values of parameters. Every function fills a tensor in place, from pdl's generator (`pdl.seed`), and returns
it.

Fans follow pdl's layouts: a weight [*kernel, in, out] has fan_in = in * prod(kernel) and fan_out = out * prod(kernel);
[in, out] is the case without a kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import local
from typing import Any, Literal, TypeVar

import numpy as np

from pdl import random
from pdl.dtype import Array
from pdl.errors import ShapeError, UsageError
from pdl.tensor import Tensor

T = TypeVar("T", bound=Tensor)
Mode = Literal["fan_in", "fan_out"]


class _Drawing(local):
    """Whether this thread draws initial values, and those of tables."""

    skipped = tables_skipped = False


_drawing = _Drawing()


@contextmanager
def skipped() -> Iterator[None]:
    """Inside the block this thread draws no initial values: what would be random holds what it was made with (zeros, in
    the layers of `pdl.nn`), whose memory is not even touched; constants (norms, biases) are written as ever.

    For models whose weights are loaded next, or that are only counted: VGG-19 is made in milliseconds. PyTorch's
    `torch.nn.utils.skip_init`, for whole models.
    """
    before, _drawing.skipped = _drawing.skipped, True
    try:
        yield
    finally:
        _drawing.skipped = before


@contextmanager
def tables_skipped() -> Iterator[None]:
    """Inside the block this thread does not draw the values of `nn.Table`s, whose memory is not touched; how they would
    be drawn is kept in `initial`."""
    before, _drawing.tables_skipped = _drawing.tables_skipped, True
    try:
        yield
    finally:
        _drawing.tables_skipped = before


_PIECE = 1 << 16  # numbers drawn at a time: they stay in the cache
_SQRT2 = math.sqrt(2.0)
#: factors by which an activation shrinks the standard deviation, undone (torch.nn.init.calculate_gain; SELU: Klambauer
#: et al. 2017)
GAINS: dict[str, float] = {"linear": 1.0, "conv": 1.0, "sigmoid": 1.0, "tanh": 5.0 / 3.0, "relu": _SQRT2, "selu": 0.75}


def gain(nonlinearity: str, slope: float = 0.01) -> float:
    """The recommended gain before an activation; `slope` is leaky_relu's."""
    if nonlinearity == "leaky_relu":
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity not in GAINS:
        raise UsageError(f"no gain is known for {nonlinearity!r}; there are leaky_relu, {', '.join(GAINS)}")
    return GAINS[nonlinearity]


def fans(shape: tuple[int, ...]) -> tuple[int, int]:
    """(fan_in, fan_out) of a weight [*kernel, in, out]."""
    if len(shape) < 2:
        raise ShapeError(f"a tensor of shape {shape} has no fans; weights have at least the two dimensions [in, out]")
    cells = math.prod(shape[:-2])
    return shape[-2] * cells, shape[-1] * cells


def constant_(x: T, value: float) -> T:
    """Fill with one value."""
    if not _left("constant", x, value, 0.0):
        x._data[...] = value
    return x


def zeros_(x: T) -> T:
    """Fill with 0."""
    return constant_(x, 0.0)


def ones_(x: T) -> T:
    """Fill with 1."""
    return constant_(x, 1.0)


def eye_(x: T) -> T:
    """The identity matrix (ones on the diagonal of a matrix that need not be square)."""
    if x.ndim != 2:
        raise ShapeError(f"eye_: shape {x.shape} is not a matrix")
    x._data[...] = np.eye(x.shape[0], x.shape[1])
    return x


def dirac_(x: T) -> T:
    """A convolution weight [*kernel, in, out] that passes channel i to channel i (odd kernels)."""
    x._data[...] = 0
    centre = tuple(k // 2 for k in x.shape[:-2])
    for i in range(min(x.shape[-2:])):
        x._data[(*centre, i, i)] = 1
    return x


def uniform_(x: T, low: float = 0.0, high: float = 1.0) -> T:
    """U(low, high)."""
    if _left("uniform", x, low, high):
        return x
    return _fill(x, lambda part: random.generator().random(out=part, dtype=np.float32), high - low, low)


def normal_(x: T, mean: float = 0.0, std: float = 1.0) -> T:
    """N(mean, std^2)."""
    if _left("normal", x, mean, std):
        return x
    return _fill(x, lambda part: random.generator().standard_normal(out=part, dtype=np.float32), std, mean)


def trunc_normal_(x: T, mean: float = 0.0, std: float = 1.0, low: float = -2.0, high: float = 2.0) -> T:
    """N(mean, std^2) restricted to [low, high] (absolute bounds, as in PyTorch and timm), by drawing again what falls
    outside.
    """
    if not low < high or mean + 5 * std < low or mean - 5 * std > high:
        raise UsageError(f"trunc_normal_: [{low}, {high}] is hardly ever hit by N({mean}, {std}^2)")

    def draw(shape: tuple[int, ...]) -> Array:
        values = random.generator().standard_normal(shape) * std + mean
        while (outside := (values < low) | (values > high)).any():
            values[outside] = random.generator().standard_normal(int(outside.sum())) * std + mean
        return values

    return _draw(x, draw)


def xavier_uniform_(x: T, gain: float = 1.0) -> T:
    """U(-a, a), a = gain sqrt(6 / (fan_in + fan_out)). Glorot & Bengio, AISTATS 2010."""
    bound = gain * math.sqrt(6.0 / sum(fans(x.shape)))
    return uniform_(x, -bound, bound)


def xavier_normal_(x: T, gain: float = 1.0) -> T:
    """N(0, std^2), std = gain sqrt(2 / (fan_in + fan_out)). Glorot & Bengio, AISTATS 2010."""
    return normal_(x, 0.0, gain * math.sqrt(2.0 / sum(fans(x.shape))))


def kaiming_uniform_(x: T, slope: float = 0.0, *, mode: Mode = "fan_in", nonlinearity: str = "leaky_relu") -> T:
    """U(-a, a), a = gain sqrt(3 / fan). He et al., ICCV 2015 (arXiv 1502.01852)."""
    bound = gain(nonlinearity, slope) * math.sqrt(3.0 / _fan(x.shape, mode))
    return uniform_(x, -bound, bound)


def kaiming_normal_(x: T, slope: float = 0.0, *, mode: Mode = "fan_in", nonlinearity: str = "leaky_relu") -> T:
    """N(0, std^2), std = gain / sqrt(fan). He et al., ICCV 2015 (arXiv 1502.01852)."""
    return normal_(x, 0.0, gain(nonlinearity, slope) / math.sqrt(_fan(x.shape, mode)))


def lecun_normal_(x: T) -> T:
    """N(0, 1 / fan_in). LeCun et al., Efficient BackProp, 1998."""
    return normal_(x, 0.0, 1.0 / math.sqrt(fans(x.shape)[0]))


def orthogonal_(x: T, gain: float = 1.0) -> T:
    """A random (semi-)orthogonal matrix [prod(shape[:-1]), shape[-1]], times `gain`. Saxe et al., ICLR 2014 (arXiv
    1312.6120).
    """
    if x.ndim < 2:
        raise ShapeError(f"orthogonal_: shape {x.shape} has fewer than two dimensions")
    rows, columns = math.prod(x.shape[:-1]), x.shape[-1]

    def draw(shape: tuple[int, ...]) -> Array:
        q, r = np.linalg.qr(random.generator().standard_normal((max(rows, columns), min(rows, columns))))
        q = q * np.where(np.diag(r) < 0, -1.0, 1.0)  # makes the distribution uniform (Mezzadri, arXiv math-ph/0609050)
        made: Array = gain * (q if rows >= columns else q.T).reshape(shape)
        return made

    return _draw(x, draw)


def sparse_(x: T, sparsity: float, std: float = 0.01) -> T:
    """N(0, std^2) with a fraction `sparsity` of the inputs of each output (a column) set to 0. Martens, ICML 2010."""
    rows, columns = x.shape

    def draw(shape: tuple[int, ...]) -> Array:
        values = random.generator().standard_normal(shape, np.float32) * std
        for column in range(columns):
            values[random.generator().permutation(rows)[: math.ceil(sparsity * rows)], column] = 0
        return values

    return _draw(x, draw)


def fan_in_uniform_(x: T, fan_in: int) -> T:
    """U(-a, a), a = 1 / sqrt(fan_in): PyTorch's default for the weights and biases of linear and convolution layers."""
    bound = 1.0 / math.sqrt(fan_in) if fan_in > 0 else 0.0
    return uniform_(x, -bound, bound)


def _fan(shape: tuple[int, ...], mode: Mode) -> int:
    if mode not in ("fan_in", "fan_out"):
        raise UsageError(f"mode {mode!r} is neither 'fan_in' nor 'fan_out'")
    return fans(shape)[mode == "fan_out"]


def _left(kind: str, x: Any, a: float, b: float) -> bool:
    """Tell a table how it is filled; whether it is left as it is."""
    if not hasattr(x, "initial"):
        return False
    x.initial = kind, float(a), float(b)
    return _drawing.tables_skipped


def _fill(x: T, draw: Callable[[Array], object], factor: float, shift: float) -> T:
    """factor u + shift, float32 numbers u drawn in the order of the elements: piece by piece, so that a table needs no
    memory but its own."""
    if _drawing.skipped:
        return x
    target = x._data if x._data.flags.c_contiguous else np.empty(x.shape, x.dtype)
    flat, piece = target.reshape(-1), np.empty(min(x.size, _PIECE), np.float32)
    for begin in range(0, x.size, _PIECE):
        part = piece[: x.size - begin]
        draw(part)
        part *= factor
        part += shift
        flat[begin : begin + _PIECE] = part
    if target is not x._data:
        x._data[...] = target
    return x


def _draw(x: T, values: Callable[[tuple[int, ...]], Array]) -> T:
    if not _drawing.skipped:
        x._data[...] = values(x.shape)
    return x
