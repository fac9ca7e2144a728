"""Convolution in one, two and three dimensions, channels last.

The value and its two gradients are three ops that are closed under differentiation: each is linear in both of its
inputs, and each one's vjp is written in the other two. Transposed convolution is the gradient of the input, by
definition.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal, cast

import numpy as np

from pdl.dtype import Array
from pdl.errors import DtypeError, ShapeError
from pdl.kernels import conv as kernels
from pdl.kernels.copies import contiguous
from pdl.ops.attributes import Length, Pad, Step
from pdl.ops.base import Arrays, Op, Spec, apply
from pdl.ops.cast import as_tensors
from pdl.ops.checks import check_floating
from pdl.ops.pad import pad
from pdl.ops.window import Pads, Sizes, each_axis, pad_pairs
from pdl.tensor import Tensor, TensorLike

#: cells of a kernel along an axis, as `pdl.kernels.conv` takes them
MOST_TAPS = 256
Padding = Pads | Literal["same", "valid"]


class _Window(Op, abstract=True):
    """What the three ops share: the window's steps, one entry a dimension; `padding` is (before, after)."""

    stride: tuple[Step, ...]
    padding: tuple[tuple[Pad, Pad], ...]
    dilation: tuple[Step, ...]
    groups: Step
    native_bf16 = native = True

    def check(self) -> None:
        super().check()
        rank = len(self.stride)
        if not 1 <= rank <= 3 or len(self.padding) != rank or len(self.dilation) != rank:
            raise ShapeError(
                f"{self.op_name}: stride {self.stride}, padding {self.padding} and dilation {self.dilation} must have "
                "one entry for each of 1 to 3 spatial axes"
            )

    def call(self, other: type[_Window], *inputs: Tensor, **more: Any) -> Tensor:
        """Another of the three ops, with the same window."""
        window: dict[str, Any] = {
            "stride": self.stride,
            "padding": self.padding,
            "dilation": self.dilation,
            "groups": self.groups,
        }
        return cast(Tensor, apply(other(**window, **more), *inputs))

    def out_sizes(self, size: Sequence[int], kernel: Sequence[int]) -> tuple[int, ...]:
        """floor((size + padding - dilation (kernel - 1) - 1) / stride) + 1, per dimension."""
        out = []
        for axis, (n, k) in enumerate(zip(size, kernel, strict=True)):
            if not 1 <= k <= MOST_TAPS:
                raise ShapeError(f"{self.name()}: a kernel of {k} along spatial axis {axis}; expected 1 to {MOST_TAPS}")
            reach, room = self.dilation[axis] * (k - 1) + 1, n + sum(self.padding[axis])
            if reach > room:
                raise ShapeError(
                    f"{self.name()}: a kernel of {k} with dilation {self.dilation[axis]} reaches over {reach} cells; "
                    f"spatial axis {axis} has {n}, with padding {room}"
                )
            out.append((room - reach) // self.stride[axis] + 1)
        return tuple(out)

    def name(self) -> str:
        """The public function's name, for messages."""
        return f"conv{len(self.stride)}d"

    def check_ranks(self, **specs: Spec) -> None:
        """Raise unless every input has one dimension for each of the window's and two more, and floats."""
        check_floating(self.name(), **specs)
        for label, spec in specs.items():
            if len(spec.shape) != len(self.stride) + 2:
                form = "[*kernel, C/groups, O]" if label == "w" else "[N, *spatial, C]"
                raise ShapeError(
                    f"{self.name()}: {label} {spec.shape} has {len(spec.shape)} dimensions; expected {form}"
                )
        if len({spec.dtype for spec in specs.values()}) > 1:
            raise DtypeError(f"{self.name()}: dtypes differ: {', '.join(f'{k} {s.dtype}' for k, s in specs.items())}")

    def check_rank(self, label: str, sizes: tuple[int, ...]) -> None:
        """Raise unless an attribute has one size for each dimension of the window."""
        if len(sizes) != len(self.stride):
            raise ShapeError(f"{self.name()}: {label} {sizes} has {len(sizes)} entries; expected {len(self.stride)}")

    def check_channels(self, x: tuple[int, ...], w: tuple[int, ...]) -> None:
        """Raise unless weights `w` fit inputs `x` and the groups."""
        if w[-2] * self.groups != x[-1]:
            with_groups = f" with groups={self.groups}" if self.groups != 1 else ""
            raise ShapeError(
                f"{self.name()}: w {w}{with_groups} reads {w[-2] * self.groups} channels, x {x} has {x[-1]}"
            )
        if w[-1] % self.groups:
            raise ShapeError(f"{self.name()}: w {w} makes {w[-1]} channels, which groups={self.groups} does not divide")

    def image(self, x: Array) -> Array:
        """[N, *spatial, C] as [N, D, H, W, C], contiguous."""
        return contiguous(x).reshape(x.shape[:1] + (1,) * (3 - len(self.stride)) + x.shape[1:])

    def weight(self, w: Array) -> Array:
        """[*kernel, C/groups, O] as [KD, KH, KW, C/groups, O], contiguous."""
        return contiguous(w).reshape((1,) * (3 - len(self.stride)) + w.shape)

    def geometry(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], int]:
        """Stride, padding before, dilation in three dimensions, and groups, as the kernels take them."""
        missing = 3 - len(self.stride)
        before = tuple(p[0] for p in self.padding)
        return (1,) * missing + self.stride, (0,) * missing + before, (1,) * missing + self.dilation, self.groups


class Conv(_Window):
    """y[n, j, o] = sum over k, c of x[n, j * stride + k * dilation - before, c] w[k, c, o] (+ b[o]), group by group."""

    def infer(self, x: Spec, w: Spec, b: Spec | None = None) -> Spec:
        self.check_ranks(x=x, w=w)
        self.check_channels(x.shape, w.shape)
        if b is not None and b.shape != w.shape[-1:]:
            raise ShapeError(
                f"{self.name()}: b {b.shape} must be ({w.shape[-1]},), one value for each output of w {w.shape}"
            )
        if b is not None and b.dtype != x.dtype:
            raise DtypeError(f"{self.name()}: b is {b.dtype.name} and x {x.dtype.name}; expected one dtype")
        return Spec((x.shape[0], *self.out_sizes(x.shape[1:-1], w.shape[:-2]), w.shape[-1]), x.dtype)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        x, w, b = ins if len(ins) == 3 else (*ins, None)
        bias = None if b is None else contiguous(b)
        kernels.forward(self.image(outs[0]), self.image(x), self.weight(w), bias, *self.geometry())

    def vjp(self, g: Tensor, y: Tensor, x: Tensor, w: Tensor, b: Tensor | None = None) -> Any:
        return (
            lambda: self.call(ConvDx, g, w, size=x.shape[1:-1]),
            lambda: self.call(ConvDw, x, g, kernel=w.shape[:-2]),
            lambda: g.sum(axis=tuple(range(g.ndim - 1))),
        )[: 2 if b is None else 3]


class ConvDx(_Window):
    """Gradient of `Conv` with respect to x: g [N, *out, O], w [*kernel, C/groups, O] -> [N, *size, C]."""

    size: tuple[Length, ...]

    def infer(self, g: Spec, w: Spec) -> Spec:
        self.check_ranks(g=g, w=w)
        self.check_rank("size", self.size)
        x = (g.shape[0], *self.size, w.shape[-2] * self.groups)
        self.check_channels(x, w.shape)
        if g.shape[-1] != w.shape[-1]:
            raise ShapeError(
                f"{self.name()}_dx: w {w.shape} makes {w.shape[-1]} channels, g {g.shape} has {g.shape[-1]}"
            )
        out = self.out_sizes(self.size, w.shape[:-2])
        if out != g.shape[1:-1]:
            raise ShapeError(
                f"{self.name()}_dx: inputs of sizes {self.size} make outputs of sizes {out}, g has {g.shape[1:-1]}"
            )
        return Spec(x, g.dtype)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        kernels.dx(self.image(outs[0]), self.image(ins[0]), self.weight(ins[1]), *self.geometry())

    def vjp(self, h: Tensor, y: Tensor, g: Tensor, w: Tensor) -> Any:
        return lambda: self.call(Conv, h, w), lambda: self.call(ConvDw, h, g, kernel=w.shape[:-2])


class ConvDw(_Window):
    """Gradient of `Conv` with respect to w: x [N, *spatial, C], g [N, *out, O] -> [*kernel, C/groups, O]."""

    kernel: tuple[Step, ...]

    def infer(self, x: Spec, g: Spec) -> Spec:
        self.check_ranks(x=x, g=g)
        self.check_rank("kernel", self.kernel)
        w = (*self.kernel, x.shape[-1] // self.groups, g.shape[-1])
        self.check_channels(x.shape, w)
        out = self.out_sizes(x.shape[1:-1], self.kernel)
        if (x.shape[0], *out) != g.shape[:-1]:
            raise ShapeError(
                f"{self.name()}_dw: x {x.shape} makes outputs {(x.shape[0], *out)}, g {g.shape} has {g.shape[:-1]}"
            )
        return Spec(w, x.dtype)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        kernels.dw(self.weight(outs[0]), self.image(ins[0]), self.image(ins[1]), *self.geometry())

    def vjp(self, h: Tensor, y: Tensor, x: Tensor, g: Tensor) -> Any:
        return lambda: self.call(ConvDx, g, h, size=x.shape[1:-1]), lambda: self.call(Conv, x, h)


# -- arguments ---------------------------------------------------------------------------------------------------------
def _pads(
    name: str, padding: Padding, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> tuple[tuple[int, int], ...]:
    """(before, after) for each dimension."""
    rank = len(stride)
    if padding == "same":
        if max(stride) > 1:
            raise ShapeError(
                f"{name}: padding='same' keeps sizes only with stride 1, not {tuple(stride)}; give numbers"
            )
        totals = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
        return tuple((t // 2, t - t // 2) for t in totals)
    if isinstance(padding, str):
        if padding != "valid":
            raise ShapeError(f"{name}: padding={padding!r} must be numbers, 'same' or 'valid'")
        padding = 0
    return pad_pairs(name, padding, rank)


def _conv(
    rank: int, x: TensorLike, w: TensorLike, b: TensorLike | None,
    stride: Sizes, padding: Padding, dilation: Sizes, groups: int,
) -> Tensor:  # fmt: skip
    tensors = as_tensors(x, w) if b is None else as_tensors(x, w, b)
    return cast(Tensor, apply(conv_op(rank, tensors[1].shape, stride, padding, dilation, groups), *tensors))


def conv_op(rank: int, w: tuple[int, ...], stride: Sizes, padding: Padding, dilation: Sizes, groups: int) -> Conv:
    """The convolution with weights of the shape w and these arguments."""
    window = (stride, padding, dilation)
    plain = tuple(v if isinstance(v, int | np.integer | str) else tuple(map(_hashable, v)) for v in window)
    return _conv_op(rank, w, *plain, groups)


def _hashable(entry: Any) -> Any:
    return entry if isinstance(entry, int | np.integer) else tuple(entry)


@lru_cache(maxsize=4096)
def _conv_op(rank: int, w: tuple[int, ...], stride: Any, padding: Any, dilation: Any, groups: int) -> Conv:
    """The op for these arguments; a net calls with the same ones at every step."""
    name = f"conv{rank}d"
    if len(w) != rank + 2:
        raise ShapeError(f"{name}: w {w} has {len(w)} dimensions; expected [*kernel, C/groups, O]")
    steps, spread = each_axis(name, "stride", stride, rank), each_axis(name, "dilation", dilation, rank)
    each_axis(name, "groups", groups, 1)
    return Conv(steps, _pads(name, padding, w[:-2], steps, spread), spread, groups)


def _transposed(
    rank: int, x: TensorLike, w: TensorLike, b: TensorLike | None,
    stride: Sizes, padding: Sizes, output_padding: Sizes, dilation: Sizes, groups: int,
) -> Tensor:  # fmt: skip
    name = f"conv_transpose{rank}d"
    x, w = as_tensors(x, w)
    steps, spread = each_axis(name, "stride", stride, rank), each_axis(name, "dilation", dilation, rank)
    pads = each_axis(name, "padding", padding, rank, lowest=0)
    more = each_axis(name, "output_padding", output_padding, rank, lowest=0)
    each_axis(name, "groups", groups, 1)
    if w.ndim != rank + 2 or x.ndim != rank + 2:
        raise ShapeError(f"{name}: x {x.shape} must be [N, *spatial, C] and w {w.shape} [*kernel, O/groups, C]")
    if any(m >= max(s, d) for m, s, d in zip(more, steps, spread, strict=True)):
        raise ShapeError(f"{name}: output_padding={more} must be smaller than stride {steps} or dilation {spread}")
    size = tuple(
        (n - 1) * s - 2 * p + d * (k - 1) + 1 + m
        for n, s, p, d, k, m in zip(x.shape[1:-1], steps, pads, spread, w.shape[:-2], more, strict=True)
    )
    # an output_padding of a stride and more is cells that the padding took, and then cells that no input reaches
    ends = [(p, 0) if m < s else (max(0, p - m), max(0, m - p)) for p, m, s in zip(pads, more, steps, strict=True)]
    reached = tuple(n - beyond for n, (_, beyond) in zip(size, ends, strict=True))
    if any(n < 0 for n in reached):
        raise ShapeError(f"{name}: padding {pads} takes more than the cells that x {x.shape} and w {w.shape} make")
    around = tuple((p, end) for p, (end, _) in zip(pads, ends, strict=True))
    y = apply(ConvDx(steps, around, spread, groups, reached), x, w)
    if reached != size:
        y = pad(y, ((0, 0), *((0, beyond) for _, beyond in ends), (0, 0)))
    return cast(Tensor, y if b is None else y + b)


def conv1d(
    x: TensorLike, w: TensorLike, b: TensorLike | None = None, *,
    stride: Sizes = 1, padding: Padding = 0, dilation: Sizes = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """Cross-correlate x [N, L, C] with w [K, C/groups, O] (+ b [O]) -> [N, L', O]; arguments as in `conv2d`."""
    return _conv(1, x, w, b, stride, padding, dilation, groups)


def conv2d(
    x: TensorLike, w: TensorLike, b: TensorLike | None = None, *,
    stride: Sizes = 1, padding: Padding = 0, dilation: Sizes = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """Cross-correlate x [N, H, W, C] with w [KH, KW, C/groups, O] (+ b [O]) -> [N, H', W', O].

    stride, dilation: one number, or one a dimension. padding: one number, one a dimension, (before, after) pairs,
    'valid' (none) or 'same' (stride 1: output sizes equal input sizes; the odd cell goes to the end). groups: channels
    fall into that many blocks, output block i reads input block i; groups == C is a depthwise convolution. H' =
    floor((H + padding - dilation (KH - 1) - 1) / stride) + 1.
    """
    return _conv(2, x, w, b, stride, padding, dilation, groups)


def conv3d(
    x: TensorLike, w: TensorLike, b: TensorLike | None = None, *,
    stride: Sizes = 1, padding: Padding = 0, dilation: Sizes = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """Cross-correlate x [N, D, H, W, C] with w [KD, KH, KW, C/groups, O] (+ b [O]); arguments as in `conv2d`."""
    return _conv(3, x, w, b, stride, padding, dilation, groups)


def conv_transpose1d(
    x: TensorLike, w: TensorLike, b: TensorLike | None = None, *,
    stride: Sizes = 1, padding: Sizes = 0, output_padding: Sizes = 0, dilation: Sizes = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """Transposed convolution of x [N, L, C] with w [K, O/groups, C] (+ b [O]); arguments as in `conv_transpose2d`."""
    return _transposed(1, x, w, b, stride, padding, output_padding, dilation, groups)


def conv_transpose2d(
    x: TensorLike, w: TensorLike, b: TensorLike | None = None, *,
    stride: Sizes = 1, padding: Sizes = 0, output_padding: Sizes = 0, dilation: Sizes = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """The transpose (adjoint) of the `conv2d` that has the same w: x [N, H, W, C], w [KH, KW, O/groups, C] (+ b [O]) ->
    [N, H', W', O].

    H' = (H - 1) stride - 2 padding + dilation (KH - 1) + 1 + output_padding; output_padding picks among the sizes that
    `conv2d` maps to H.
    """
    return _transposed(2, x, w, b, stride, padding, output_padding, dilation, groups)


def conv_transpose3d(
    x: TensorLike, w: TensorLike, b: TensorLike | None = None, *,
    stride: Sizes = 1, padding: Sizes = 0, output_padding: Sizes = 0, dilation: Sizes = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """Transposed convolution: x [N, D, H, W, C] with w [KD, KH, KW, O/groups, C]; as in `conv_transpose2d`."""
    return _transposed(3, x, w, b, stride, padding, output_padding, dilation, groups)


__all__ = ["conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"]
