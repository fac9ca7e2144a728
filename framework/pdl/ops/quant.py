"""Quantised nets: activations in uint8, weights in int8, sums in int32.

A byte q stands for the number scale (q - zero). `QuantizeLinear` and `DequantizeLinear` go between floats and bytes, as
ONNX defines them; around any op they say what its quantised form has to compute. The other ops are those forms, which
`pdl.program.passes.fuse_quantised` makes of such programs: bytes in, bytes out, rounded once. Their results have the
same bits on every instruction set.

None of them has a gradient: rounding is piecewise constant.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, cast

import numpy as np

from pdl import dims
from pdl.dtype import Array, float32, int8, int32, uint8
from pdl.errors import DtypeError, ShapeError, UsageError
from pdl.kernels import int8 as kernels
from pdl.kernels.copies import contiguous
from pdl.kernels.launch import now
from pdl.ops.attributes import Axis, Byte, Length, Step
from pdl.ops.base import Arrays, Op, Spec, apply, not_differentiable
from pdl.ops.checks import normalize_axis
from pdl.ops.conv import _Window
from pdl.ops.pool import _Counted, _Dilated, _five, _windows
from pdl.tensor import Tensor, TensorLike, as_tensor

ROUNDED = not_differentiable("rounding is piecewise constant")
#: products of more inputs could leave int32: 255 * 128 * 65793 is 2^31
MOST_INPUTS = 65_000
#: the forms of a convolution, and the tiles of the kernel for each: direct summation, or Winograd's filters
TILES = {"rows": 0, "winograd2": 2, "winograd4": 4}
#: what the kernel multiplies sums with on the way: they must still be int32 (kernels/src/int8_winograd.h)
_FACTORS = {"rows": 1, "winograd2": 4, "winograd4": 64}


# -- between floats and bytes ------------------------------------------------------------------------------------------
class _Linear(Op, abstract=True):
    """Scale and zero point of one array, or of every slice along `axis` where they are vectors."""

    axis: Axis = 1
    native = True
    vjp: ClassVar[Any] = ROUNDED

    def check_points(self, x: Spec, scale: Spec, zero: Spec) -> None:
        """Raise unless scale and zero point fit x."""
        name = type(self).__name__
        if scale.dtype != float32:
            raise DtypeError(f"{name}: scale is {scale.dtype.name}, expected float32")
        if zero.shape != scale.shape:
            raise ShapeError(f"{name}: zero point {zero.shape} and scale {scale.shape} must have one shape")
        if scale.shape == ():
            return
        axis = normalize_axis(name, self.axis, len(x.shape))
        if len(scale.shape) != 1 or not dims.same(scale.shape[0], x.shape[axis]):
            raise ShapeError(
                f"{name}: scale {scale.shape} must be () or ({x.shape[axis]},), axis {axis} of x {x.shape}"
            )

    def numbers(self, x: Array, scale: Array, zero: Array) -> tuple[Array, Array, int]:
        """Scales, zero points and the axis, as kernels take them."""
        return contiguous(scale).reshape(-1), contiguous(zero).reshape(-1), self.axis % x.ndim if scale.ndim else -1


class QuantizeLinear(_Linear):
    """q = saturate(round(x / scale) + zero), halves to even: float32 to the dtype of `zero`, uint8 or int8.

    scale, zero: scalars, or vectors along `axis`. As in ONNX; NaN becomes the least number.
    """

    def infer(self, x: Spec, scale: Spec, zero: Spec) -> Spec:
        if x.dtype.name not in ("float32", "bfloat16"):
            raise DtypeError(f"QuantizeLinear: x is {x.dtype.name}, expected float32")
        if zero.dtype not in (uint8, int8):
            raise DtypeError(f"QuantizeLinear: the zero point is {zero.dtype.name}, expected uint8 or int8")
        self.check_points(x, scale, zero)
        return Spec(x.shape, zero.dtype)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        x, scale, zero = ins
        bounds = np.iinfo(zero.dtype)
        kernels.quantise(outs[0], contiguous(x), *self.numbers(x, scale, zero), int(bounds.min), int(bounds.max))


class DequantizeLinear(_Linear):
    """x = (q - zero) scale: uint8, int8 or int32 to float32; scale and zero as in `QuantizeLinear`."""

    recorded = True  # stored weights stay bytes

    def infer(self, q: Spec, scale: Spec, zero: Spec) -> Spec:
        if q.dtype not in (uint8, int8, int32) or zero.dtype != q.dtype:
            raise DtypeError(
                f"DequantizeLinear: q is {q.dtype.name} and the zero point {zero.dtype.name}; "
                "expected one dtype of uint8, int8 and int32"
            )
        self.check_points(q, scale, zero)
        return Spec(q.shape, float32)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        q, scale, zero = ins
        if q.dtype != int32:
            return kernels.dequantise(outs[0], contiguous(q), *self.numbers(q, scale, zero))
        now("int32 is computed by NumPy")
        form = [-1 if scale.ndim and axis == self.axis % q.ndim else 1 for axis in range(q.ndim)]
        centred = (q.astype(np.int64) - zero.reshape(form)).astype(np.float32)
        return np.multiply(centred, scale.reshape(form), out=outs[0])


# -- what follows a sum ------------------------------------------------------------------------------------------------
class _Bytes(Op, abstract=True):
    """y = f(...) as bytes of `y_scale` and `y_zero`; as float32 where `y_scale` is None.

    activation   "" (none), "relu", "clip" (between the two `parameters`) or "hardswish"
    """

    y_scale: float | None = None
    y_zero: Byte = 0
    activation: str = ""
    parameters: tuple[float, ...] = ()
    native = True
    vjp: ClassVar[Any] = ROUNDED

    def out(self, shape: tuple[int, ...]) -> Spec:
        """The output; raises where scale, zero point or activation make no sense."""
        check_scale(type(self).__name__, "y", 1.0 if self.y_scale is None else self.y_scale, self.y_zero)
        count = {"": 0, "relu": 0, "hardswish": 0, "clip": 2}.get(self.activation)
        if count is None or len(self.parameters) != count or any(math.isnan(p) for p in self.parameters):
            raise UsageError(
                f"{type(self).__name__}: activation {self.activation!r} with parameters {self.parameters}; "
                "expected '', relu, hardswish, or clip with its bounds"
            )
        return Spec(shape, float32 if self.y_scale is None else uint8)

    def bounds(self) -> tuple[float, float]:
        """Between which numbers the value lies before it is rounded, in units of `y_scale`: activation and bytes."""
        low, high = -math.inf, math.inf
        if self.activation == "relu":
            low = 0.0
        elif self.activation == "clip":
            low, high = self.parameters
        if self.y_scale is None:
            return low, high
        least, most = float(-self.y_zero), float(255 - self.y_zero)
        high = max(least, min(most, high / self.y_scale))
        return min(high, max(least, low / self.y_scale)), high

    def after(self) -> float | None:
        """The factor behind hardswish, which is done to real numbers."""
        return None if self.activation != "hardswish" else 1.0 if self.y_scale is None else 1.0 / self.y_scale

    def unit(self) -> float:
        """What sums are divided by before they are clamped."""
        return 1.0 if self.y_scale is None or self.activation == "hardswish" else self.y_scale


def check_scale(name: str, label: str, scale: float, zero: int) -> None:
    """Raise unless the scale is a positive number and the zero point a byte."""
    if not (0 < scale < math.inf) or not 0 <= zero <= 255:
        raise UsageError(f"{name}: {label} has scale {scale} and zero point {zero}; expected a positive one and a byte")


def check_bytes(name: str, **specs: Spec) -> None:
    """Raise unless all are uint8."""
    for label, spec in specs.items():
        if spec.dtype != uint8:
            raise DtypeError(f"{name}: {label} is {spec.dtype.name}, expected uint8")


class _Product(_Bytes, abstract=True):
    """Products of x with weights, scaled, then perhaps + residual, then the activation."""

    x_scale: float = 1.0
    x_zero: Byte = 0
    residual_scale: float = 0.0
    residual_zero: Byte = 0

    def finish(self, x: Spec, shape: tuple[int, ...], residual: Spec | None) -> Spec:
        """The output; raises where inputs or attributes do not fit."""
        name = type(self).__name__
        check_bytes(name, x=x)
        check_scale(name, "x", self.x_scale, self.x_zero)
        if residual is not None:
            check_bytes(name, residual=residual)
            check_scale(name, "the residual", self.residual_scale, self.residual_zero)
            if residual.shape != shape:
                raise ShapeError(f"{name}: residual {residual.shape} is not like y {shape}")
        return self.out(shape)

    def weights(self, w: Spec, scale: Spec, b: Spec | None) -> None:
        """Raise unless weights, their scales and the bias are as they must be."""
        name, outputs = type(self).__name__, w.shape[-1:]
        if w.dtype != int8 or scale != (outputs, float32) or (b is not None and b != (outputs, int32)):
            raise DtypeError(
                f"{name}: w is {w.dtype.name} {w.shape}, its scale {scale.dtype.name} {scale.shape}, "
                f"b {'none' if b is None else f'{b.dtype.name} {b.shape}'}; "
                f"expected int8, and float32 and int32 of {outputs}"
            )
        check_inputs(name, math.prod(w.shape[:-1]))

    def pack(
        self, w: Array, scale: Array, b: Array | None, dilation: tuple[int, ...], groups: int, form: str = "rows"
    ) -> Array:
        """Weights [KD, KH, KW, C/groups, O], bias and multipliers as the kernel of this CPU reads them."""
        kernel, channels, tile = w.shape[:3], w.shape[3] * groups, TILES[form]
        if not sums_fit(w, form):
            raise ShapeError(f"{type(self).__name__}: weights of such sums cannot have the form {form}")
        packed = np.empty(kernels.packed_bytes(kernel, channels, w.shape[4], dilation, groups, tile), np.int8)
        multiplier = (scale.astype(np.float64) * (self.x_scale / self.unit())).astype(np.float32)
        bias = None if b is None else contiguous(b)
        kernels.pack(packed, contiguous(w), bias, multiplier, self.x_zero, dilation, groups, tile)
        return packed

    def convolve(self, y: Array, x: Array, packed: Array, residual: Array | None, *window: Any, tile: int = 0) -> None:
        """The kernel; `window` as it takes it: kernel, stride, padding before, dilation, groups."""
        more: dict[str, Any] = {"after": self.after(), "tile": tile}
        if residual is not None:
            scale = self.residual_scale / self.unit()
            more |= {"residual": contiguous(residual), "residual_scale": scale}
            more |= {"residual_zero": self.residual_zero}
        zero = 0 if self.y_scale is None else self.y_zero
        kernels.convolution(y, contiguous(x), packed, *window, self.x_zero, zero, *self.bounds(), **more)


def sums_fit(w: Array, form: str) -> bool:
    """Whether a form is exact for weights w [..., O]: no sum of products with bytes leaves the int32 that it has."""
    if form == "rows":
        return True
    of_each = tuple(range(w.ndim - 1))
    sums = [np.sum(part, axis=of_each, dtype=np.int64) for part in (np.maximum(w, 0), np.minimum(w, 0))]
    return int(max(sums[0].max(), -sums[1].min())) * 255 * _FACTORS[form] < 2**31


def check_inputs(name: str, inputs: int) -> None:
    """Raise where a sum of so many products could leave int32."""
    if inputs > MOST_INPUTS:
        raise ShapeError(f"{name}: an output sums {inputs} products; more than {MOST_INPUTS} may overflow int32")


# -- products ----------------------------------------------------------------------------------------------------------
class _QWindow(_Window, _Product, abstract=True):  # type: ignore[misc]
    """The window of a quantised convolution."""

    vjp: ClassVar[Any] = ROUNDED

    def name(self) -> str:
        return type(self).__name__

    def shape(self, x: Spec, kernel: tuple[int, ...], inputs: int, outputs: int) -> tuple[int, ...]:
        """Of the output; raises where x does not fit."""
        if len(x.shape) != len(self.stride) + 2 or len(kernel) != len(self.stride):
            raise ShapeError(
                f"{self.name()}: x {x.shape} and a kernel {kernel}; expected [N, *spatial, C] and as many sizes"
            )
        self.check_channels(x.shape, (inputs, outputs))
        return (x.shape[0], *self.out_sizes(x.shape[1:-1], kernel), outputs)


class QConv(_QWindow):  # type: ignore[misc]
    """y = f(x_scale w_scale (conv(x - x_zero, w) + b) (+ residual)): x uint8, w int8 [*kernel, C/groups, O], w_scale
    float32 [O], b int32 [O] or None in units of x_scale w_scale, residual uint8 like y or None.
    """

    native = False  # multipliers and packed weights are made anew

    def infer(self, x: Spec, w: Spec, w_scale: Spec, b: Spec | None, residual: Spec | None) -> Spec:
        self.weights(w, w_scale, b)
        return self.finish(x, self.shape(x, w.shape[:-2], *w.shape[-2:]), residual)

    def packed(self, w: Array, w_scale: Array, b: Array | None, form: str = "rows") -> Array:
        """What `QConvPacked` takes in place of weights."""
        return self.pack(self.weight(w), w_scale, b, *self.geometry()[2:], form)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        x, w, w_scale, b, residual = ins
        kernel = (1,) * (3 - len(self.stride)) + w.shape[:-2]
        self.convolve(
            self.image(outs[0]), self.image(x), self.packed(w, w_scale, b), residual, kernel, *self.geometry()
        )


class QConvPacked(_QWindow):  # type: ignore[misc]
    """`QConv` with weights packed for this CPU (sizes `kernel` and `outputs`): x, packed int8 [n], residual or None.

    form   "rows" (direct summation), "winograd2" or "winograd4": all give the same bytes
    """

    kernel: tuple[Step, ...] = ()
    outputs: Length = 0
    form: str = "rows"

    def infer(self, x: Spec, packed: Spec, residual: Spec | None) -> Spec:
        shape = self.shape(x, self.kernel, x.shape[-1] // self.groups, self.outputs)
        if self.form not in TILES:
            raise UsageError(f"QConvPacked: form {self.form!r}; expected one of {', '.join(TILES)}")
        _check_packed(self, packed, self._kernel(), int(x.shape[-1]), self.geometry()[2], self.groups, TILES[self.form])
        return self.finish(x, shape, residual)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        x, packed, residual = ins
        window = self._kernel(), *self.geometry()
        self.convolve(self.image(outs[0]), self.image(x), packed, residual, *window, tile=TILES[self.form])

    def _kernel(self) -> tuple[int, ...]:
        return (1,) * (3 - len(self.stride)) + self.kernel


class QLinear(_Product):
    """y = f(x_scale w_scale ((x - x_zero) @ w + b) (+ residual)) for x [..., C] and w [C, O]; dtypes as in `QConv`."""

    native = False

    def infer(self, x: Spec, w: Spec, w_scale: Spec, b: Spec | None, residual: Spec | None) -> Spec:
        self.weights(w, w_scale, b)
        if len(w.shape) != 2 or not x.shape or x.shape[-1] != w.shape[0]:
            raise ShapeError(f"QLinear: x {x.shape} and w {w.shape}; expected [..., C] and [C, O]")
        return self.finish(x, (*x.shape[:-1], w.shape[-1]), residual)

    def packed(self, w: Array, w_scale: Array, b: Array | None) -> Array:
        """What `QLinearPacked` takes in place of weights."""
        return self.pack(w.reshape(1, 1, 1, *w.shape), w_scale, b, (1, 1, 1), 1)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        x, w, w_scale, b, residual = ins
        _multiply(self, outs[0], x, self.packed(w, w_scale, b), residual)


class QLinearPacked(_Product):
    """`QLinear` with weights packed for this CPU: x [..., C], packed int8 [n], residual or None -> [..., outputs]."""

    outputs: Length = 0

    def infer(self, x: Spec, packed: Spec, residual: Spec | None) -> Spec:
        _check_packed(self, packed, (1, 1, 1), int(x.shape[-1]), (1, 1, 1), 1)
        return self.finish(x, (*x.shape[:-1], self.outputs), residual)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        _multiply(self, outs[0], *ins)


def _multiply(op: _Product, y: Array, x: Array, packed: Array, residual: Array | None) -> None:
    """A linear layer as a convolution of single pixels."""
    one = (1, 1, 1)
    rows, out = contiguous(x).reshape(-1, *one, x.shape[-1]), y.reshape(-1, *one, y.shape[-1])
    op.convolve(out, rows, packed, residual, one, one, (0, 0, 0), one, 1)


def _check_packed(op: Any, packed: Spec, kernel: Any, channels: int, dilation: Any, groups: int, tile: int = 0) -> None:
    wanted = Spec((kernels.packed_bytes(kernel, channels, op.outputs, dilation, groups, tile),), int8)
    if packed != wanted:
        raise ShapeError(f"{type(op).__name__}: packed weights are {packed}; this CPU packs them as {wanted}")


# -- sums, pooling, functions ------------------------------------------------------------------------------------------
class QAdd(_Bytes):
    """y = f(a_scale (a - a_zero) + b_scale (b - b_zero)) for uint8 a and b of one shape; f is "", "relu" or "clip"."""

    a_scale: float = 1.0
    a_zero: Byte = 0
    b_scale: float = 1.0
    b_zero: Byte = 0

    def infer(self, a: Spec, b: Spec) -> Spec:
        check_bytes("QAdd", a=a, b=b)
        check_scale("QAdd", "a", self.a_scale, self.a_zero)
        check_scale("QAdd", "b", self.b_scale, self.b_zero)
        if a.shape != b.shape or self.y_scale is None or self.activation == "hardswish":
            raise ShapeError(f"QAdd: a {a.shape} and b {b.shape} must have one shape, y a scale, and no hardswish")
        return self.out(a.shape)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        a, b = map(contiguous, ins)
        sa, sb = self.a_scale / self.unit(), self.b_scale / self.unit()
        kernels.add(outs[0], a, b, self.a_zero, sa, self.b_zero, sb, self.y_zero, *self.bounds())


class QMap(Op):
    """y = table[x]: any function of one byte; x uint8, table uint8 [256]."""

    native = True
    vjp: ClassVar[Any] = ROUNDED

    def infer(self, x: Spec, table: Spec) -> Spec:
        check_bytes("QMap", x=x, table=table)
        if table.shape != (256,):
            raise ShapeError(f"QMap: table {table.shape} must be (256,)")
        return x

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        kernels.look_up(outs[0], contiguous(ins[0]), contiguous(ins[1]))


class QMaxPool(_Dilated):
    """Maximum of each window of x [N, *spatial, C] uint8; scale and zero point stay."""

    native = True
    vjp: ClassVar[Any] = ROUNDED

    def infer(self, x: Spec) -> Spec:
        check_bytes("QMaxPool", x=x)
        return Spec(self.pooled(Spec(x.shape, float32)), uint8)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        w = _windows(self, ins[0].shape[1:-1])
        kernels.max_pool(_five(outs[0]), _five(ins[0]), w.lo, w.hi, w.step)


class _QMean(_Bytes, abstract=True):
    """Means of bytes."""

    x_scale: float = 1.0
    x_zero: Byte = 0

    def mean_of(self, x: Spec, shape: tuple[int, ...]) -> Spec:
        """The output; raises where inputs or attributes do not fit."""
        check_bytes(type(self).__name__, x=x)
        check_scale(type(self).__name__, "x", self.x_scale, self.x_zero)
        if self.activation == "hardswish":
            raise UsageError(f"{type(self).__name__}: hardswish does not follow a mean")
        return self.out(shape)

    def average(self, y: Array, x: Array, lo: Array, hi: Array, scale: Array) -> None:
        """The kernel, with its tables of windows."""
        factor, zero = self.x_scale / self.unit(), 0 if self.y_scale is None else self.y_zero
        kernels.avg_pool(y, x, lo, hi, scale, factor, self.x_zero, zero, *self.bounds())


class QAvgPool(_Counted, _QMean):  # type: ignore[misc]
    """Mean of each window of x [N, *spatial, C] uint8. Cells of padding that count are zeros."""

    vjp: ClassVar[Any] = ROUNDED

    def infer(self, x: Spec) -> Spec:
        return self.mean_of(x, self.pooled(Spec(x.shape, float32)))

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        w = _windows(self, ins[0].shape[1:-1])
        self.average(_five(outs[0]), _five(ins[0]), w.lo, w.hi, w.scale)


class QGlobalMean(_QMean):
    """Mean over all spatial axes of x [N, *spatial, C] uint8 -> [N, C], or [N, 1..., C] with `keepdims`."""

    keepdims: bool = False

    def infer(self, x: Spec) -> Spec:
        if not 3 <= len(x.shape) <= 5:
            raise ShapeError(f"QGlobalMean: x {x.shape} must be [N, *spatial, C] of one to three spatial axes")
        middle = (1,) * (len(x.shape) - 2) if self.keepdims else ()
        return self.mean_of(x, (x.shape[0], *middle, x.shape[-1]))

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        x = ins[0]
        cells = np.array((1, 1, 1, *x.shape[1:-1])[-3:], np.int32)
        y = outs[0].reshape(x.shape[0], 1, 1, 1, x.shape[-1])
        self.average(y, _five(x), np.zeros(3, np.int32), cells, 1.0 / cells)


# -- the public functions ----------------------------------------------------------------------------------------------
def quantize_linear(x: TensorLike, scale: TensorLike, zero_point: TensorLike, *, axis: int = 1) -> Tensor:
    """round(x / scale) + zero_point, halves to even, saturated to the dtype of `zero_point` (uint8 or int8).

    x float32; scale float32 and zero_point: scalars, or vectors along `axis`. As ONNX's QuantizeLinear.
    """
    return cast(Tensor, apply(QuantizeLinear(axis), as_tensor(x), as_tensor(scale), as_tensor(zero_point)))


def dequantize_linear(q: TensorLike, scale: TensorLike, zero_point: TensorLike, *, axis: int = 1) -> Tensor:
    """(q - zero_point) scale in float32, for q in uint8, int8 or int32; arguments as in `quantize_linear`."""
    return cast(Tensor, apply(DequantizeLinear(axis), as_tensor(q), as_tensor(scale), as_tensor(zero_point)))


__all__ = ["dequantize_linear", "quantize_linear"]
