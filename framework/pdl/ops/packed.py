"""Products with weights packed for inference: the order that the kernels read, made once when shapes are known.

The pass `pdl.program.passes.pack` makes these ops; `form` names the algorithm (`pdl.kernels.packed.FORMS`): "rows" sums
products directly, "winograd4" and "winograd2" are F(4x4, 3x3) and F(2x2, 3x3) of Lavin and Gray (arXiv 1509.09308),
"taps" multiplies by all taps first and adds up what each window reaches (kn2row of Vasudevan, Anderson and Gregg, arXiv
1704.04428), "blocks" leaves out zeros side by side. A packed array holds for this CPU only and is never stored.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from pdl import dims
from pdl.dtype import Array, DType
from pdl.errors import DtypeError, ShapeError, UsageError
from pdl.kernels import packed as kernels
from pdl.kernels.copies import contiguous
from pdl.ops.attributes import Length, Step
from pdl.ops.base import Arrays, Op, Spec, not_differentiable
from pdl.ops.conv import Conv, _Window
from pdl.ops.inference import _optional, _then, check_then
from pdl.ops.linalg import Linear

_ONES, _ZEROS = (1, 1, 1), (0, 0, 0)
_linear = Linear()
NO_GRADIENT = not_differentiable("weights are packed for inference only")


def pack(form: str, w: Array) -> Array:
    """Weights [*kernel, C, O] (up to three kernel dimensions, or none) in a form, as one row of numbers."""
    kept = int(np.count_nonzero(kernels.blocks(w))) if form == "blocks" else 0
    made = aligned(packed_size(form, w.shape, w.dtype, kept), w.dtype)
    pack_into(form, made, w)
    return made


def pack_into(form: str, made: Array, w: Array) -> None:
    """`pack` into memory that there is; while the kernel runs, other threads do."""
    kernels.pack(form, made, np.ascontiguousarray(w).reshape(deep(w.shape)))


def kept_blocks(w: Array) -> int:
    """How many blocks of weights [*kernel, C, O], of one input and `kernels.WIDE` outputs each, hold a number other
    than 0; 0 where zeros are less than a quarter of a few thousand weights, which are looked at first."""
    flat = w.reshape(-1)
    few = flat[:: max(1, flat.size // LOOK)]
    return int(np.count_nonzero(kernels.blocks(w))) if 4 * np.count_nonzero(few) <= 3 * few.size else 0


#: weights that are looked at before all are
LOOK = 4096
#: bytes of a cache line, and of a huge page, which takes one walk through page tables where small ones take 512
LINE, HUGE = 64, 2 << 20


def aligned(size: int, dtype: DType) -> Array:
    """Memory that begins with a cache line, or where it is large with a huge page, which NumPy asks the system for; and
    it is not kept for others as a block of `pdl.kernels.memory` would be."""
    nbytes = size * dtype.itemsize
    line = HUGE if nbytes >= 2 * HUGE else LINE
    raw = np.empty(nbytes + line, np.uint8)
    at = -raw.ctypes.data % line
    return raw[at : at + nbytes].view(dtype)


def deep(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of weights with three kernel dimensions."""
    return (1,) * (5 - len(shape)) + tuple(shape)


def check_packed(name: str, form: str, shape: tuple[int, ...], x: Spec, packed: Spec, kept: int = 0) -> None:
    """Raise unless `packed` may be weights of this shape for x."""
    if form not in kernels.FORMS:
        raise UsageError(f"{name}: form is {form!r}; expected one of {', '.join(kernels.FORMS)}")
    if packed.dtype != x.dtype:
        raise DtypeError(f"{name}: packed weights are {packed.dtype.name}, x is {x.dtype.name}")
    size = packed_size(form, shape, x.dtype, kept)
    if packed.shape != (size,):
        raise ShapeError(f"{name}: packed weights {packed.shape} must be ({size},): {form} of {shape}")


def packed_size(form: str, shape: tuple[int, ...], dtype: DType, kept: int = 0) -> int:
    """Numbers that weights of a shape take in a form; `kept`: of so many "blocks"."""
    try:
        return kernels.size(form, deep(shape), dtype, kept)
    except (ValueError, TypeError) as error:
        raise UsageError(str(error)) from error


def filters(stride: tuple[int, ...], padding: tuple[tuple[int, int], ...], dilation: tuple[int, ...]) -> bool:
    """Whether Winograd's forms know such a window: a dilation makes as many images of one, whose borders must meet."""
    return set(stride) <= {1} and all(before % step == 0 for (before, _), step in zip(padding, dilation, strict=True))


class PackedConv(_Window):
    """y = f(conv(x, w) (+ b) (+ residual)), w of shape `kernel` [*kernel, C, O] packed in `form`, f the function
    `activation` of `UNARY`; the window is that of `Conv`, with one group. `kept`: how many "blocks" there are."""

    kernel: tuple[Step, ...]
    form: str
    activation: str = ""
    parameters: tuple[float, ...] = ()
    kept: Length = 0
    vjp: ClassVar[Any] = NO_GRADIENT

    def infer(self, x: Spec, packed: Spec, b: Spec | None, residual: Spec | None) -> Spec:
        name = f"{self.name()}_packed"
        if self.groups != 1:
            raise UsageError(f"{name}: groups={self.groups}; weights are packed for one group")
        conv = Conv(self.stride, self.padding, self.dilation, 1)
        y = conv.infer(x, Spec(self.kernel, x.dtype), b)
        check_packed(name, self.form, self.kernel, x, packed, self.kept)
        if self.form.startswith("winograd") and not filters(self.stride, self.padding, self.dilation):
            raise UsageError(
                f"{name}: {self.form} takes a stride of 1 and a padding in multiples of the dilation, not stride "
                f"{self.stride}, padding {self.padding} and dilation {self.dilation}"
            )
        return check_then(name, self.activation, y, residual)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        x, packed, b, residual = ins
        stride, before, dilation, _ = self.geometry()
        y, how = self.image(outs[0]), _then(self.activation, self.parameters, residual)
        shape, how["kept"] = deep(self.kernel), self.kept
        kernels.forward(self.form, y, self.image(x), packed, shape, _optional(b), stride, before, dilation, **how)


class ExpandDepthwise(_Window):
    """y = f(conv(h(x @ p (+ a)), w) (+ b)): p [I, C] packed as "rows", w [*kernel, 1, C] a window for each channel,
    h and f the functions `inner` and `activation` of `UNARY`. h(x @ p) is never whole in memory, and not rounded."""

    inner: str = ""
    inner_parameters: tuple[float, ...] = ()
    activation: str = ""
    parameters: tuple[float, ...] = ()
    vjp: ClassVar[Any] = NO_GRADIENT

    def infer(self, x: Spec, packed: Spec, a: Spec | None, w: Spec, b: Spec | None) -> Spec:
        name = f"{self.name()}_expand_depthwise"
        wide = Spec((*x.shape[:-1], w.shape[-1]), x.dtype)
        y = Conv(self.stride, self.padding, self.dilation, self.groups).infer(wide, w, b)
        if self.groups != w.shape[-1] or (a is not None and a != Spec(w.shape[-1:], x.dtype)):
            raise UsageError(
                f"{name}: w {w.shape} takes groups={w.shape[-1]} and a bias of as many, not {self.groups}, {a}"
            )
        if not dims.symbolic(x.shape) and not self.serves(x, w):
            raise UsageError(f"{name}: no kernel takes x {x.shape} in {x.dtype.name} and a window {w.shape}")
        check_packed(name, "rows", (x.shape[-1], w.shape[-1]), x, packed)
        check_then(name, self.inner, wide, None)
        return check_then(name, self.activation, y, None)

    def serves(self, x: Spec, w: Spec) -> bool:
        """Whether the kernel has a form for these inputs of known sizes."""
        wide = Spec((*x.shape[:-1], w.shape[-1]), x.dtype)
        y = Conv(self.stride, self.padding, self.dilation, self.groups).infer(wide, w, None)
        ones, (stride, before, dilation, _) = (1,) * (5 - len(x.shape)), self.geometry()
        image, made = ((shape[0], *ones, *shape[1:]) for shape in (x.shape, y.shape))
        return kernels.expands(image, made, deep(w.shape), stride, before, dilation, x.dtype)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        x, packed, a, w, b = ins
        stride, before, dilation, _ = self.geometry()
        kernels.expand_depthwise(
            self.image(outs[0]), self.image(x), packed, _optional(a), self.weight(w), _optional(b),
            stride, before, dilation, inner=self.inner or None, inner_parameters=self.inner_parameters,
            activation=self.activation or None, parameters=self.parameters,
        )  # fmt: skip


class PackedLinear(Op):
    """y = f(x [..., C] @ w (+ b [O]) (+ residual)), w of shape `features` (C, O) packed as "rows", or, where some are
    `kept`, as that many "blocks"; f the function `activation` of `UNARY`."""

    features: tuple[Length, Length]
    activation: str = ""
    parameters: tuple[float, ...] = ()
    kept: Length = 0
    native_bf16 = native = True
    vjp: ClassVar[Any] = NO_GRADIENT

    def infer(self, x: Spec, packed: Spec, b: Spec | None, residual: Spec | None) -> Spec:
        y = _linear.infer(x, Spec(self.features, x.dtype), b)
        check_packed("linear_packed", self.form, self.features, x, packed, self.kept)
        return check_then("linear_packed", self.activation, y, residual)

    @property
    def form(self) -> str:
        """Of the weights."""
        return "blocks" if self.kept else "rows"

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        x, packed, b, residual = ins
        c, o = self.features
        y, rows = outs[0].reshape(-1, 1, 1, 1, o), contiguous(x).reshape(-1, 1, 1, 1, c)
        how = {**_then(self.activation, self.parameters, residual), "kept": self.kept}
        kernels.forward(self.form, y, rows, packed, deep(self.features), _optional(b), _ONES, _ZEROS, _ONES, **how)
