"""Operators of TensorFlow Lite that compute: products, windows, arithmetic, reductions. Images lie channels last, as in
pdl; what ONNX has too is computed by its function."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from pdl import ops
from pdl.errors import ShapeError, UsageError
from pdl.onnx.layouts import bias, channels_first, channels_last, padding, permuted
from pdl.onnx.registry import Context, alike, onnx_op, today
from pdl.onnx.table.casts import cast
from pdl.onnx.table.nn import transposed_conv
from pdl.onnx.tflite import DOMAIN
from pdl.onnx.values import dtype_named, in_numpy, shape_array, tensor

_CONV: dict[int, Callable[..., Any]] = {2: ops.conv2d, 3: ops.conv3d}
_ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "NONE": lambda x: x,
    "RELU": ops.relu,
    "RELU_N1_TO_1": lambda x: ops.clip(x, -1.0, 1.0),
    "RELU6": lambda x: ops.clip(x, 0.0, 6.0),
    "TANH": ops.tanh,
}


def tflite_op(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function for an operator of TensorFlow Lite."""
    return onnx_op(name, domain=DOMAIN)


def activated(ctx: Context, x: Any, activation: str) -> Any:
    """x after the activation that an operator ends with."""
    if activation not in _ACTIVATIONS:
        raise UsageError(f"{ctx.node.label()} ends with {activation}, which pdl does not have")
    return x if activation == "NONE" else _ACTIVATIONS[activation](tensor(x))


# -- windows -----------------------------------------------------------------------------------------------------------
_SAME = {"SAME": "SAME_UPPER", "VALID": "VALID"}


def _image(ctx: Context, x: Any, rank: int = 4) -> Any:
    if len(x.shape) != rank:
        raise ShapeError(f"{ctx.node.label()}: x {tuple(x.shape)}; expected {rank} axes, channels last")
    return tensor(x)


def _convolved(
    ctx: Context, x: Any, w: Any, b: Any, pad: str, stride: Any, dilation: Any, activation: str, order: Any, groups: int
) -> Any:
    """x with w, whose axes in this order are [*kernel, C / groups, O]."""
    x, w = _image(ctx, x, len(order)), permuted(ctx, w, order, "tflite")
    kernel = tuple(w.shape[:-2])
    pads = padding(_SAME[pad], None, x.shape[1:-1], kernel, stride, dilation)
    y = _CONV[len(kernel)](x, w, bias(ctx, b), stride=stride, padding=pads, dilation=dilation, groups=groups)
    return activated(ctx, y, activation)


def _require_weight(ctx: Context, w: Any, rank: int) -> None:
    if len(w.shape) != rank or 0 in w.shape:
        raise ShapeError(
            f"{ctx.node.label()}: a weight of shape {tuple(w.shape)}; expected {rank} axes, none of size 0"
        )


@tflite_op("CONV_2D")
def _conv_2d(
    ctx: Context, x: Any, w: Any, b: Any = None, *, padding: str, stride_w: int, stride_h: int, activation: str,
    dilation_w: int, dilation_h: int,
) -> Any:  # fmt: skip
    """w [O, KH, KW, C / groups]."""
    _require_weight(ctx, w, 4)
    stride, dilation = (stride_h, stride_w), (dilation_h, dilation_w)
    groups = int(x.shape[-1]) // w.shape[3]
    return _convolved(ctx, x, w, b, padding, stride, dilation, activation, (1, 2, 3, 0), groups)


@tflite_op("DEPTHWISE_CONV_2D")
def _depthwise_conv_2d(
    ctx: Context, x: Any, w: Any, b: Any = None, *, padding: str, stride_w: int, stride_h: int, activation: str,
    dilation_w: int, dilation_h: int,
) -> Any:  # fmt: skip
    """w [1, KH, KW, C multiplier]."""
    _require_weight(ctx, w, 4)
    stride, dilation = (stride_h, stride_w), (dilation_h, dilation_w)
    return _convolved(ctx, x, w, b, padding, stride, dilation, activation, (1, 2, 0, 3), int(x.shape[-1]))


@tflite_op("CONV_3D")
def _conv_3d(
    ctx: Context, x: Any, w: Any, b: Any = None, *, padding: str, stride_d: int, stride_w: int, stride_h: int,
    activation: str, dilation_d: int, dilation_w: int, dilation_h: int,
) -> Any:  # fmt: skip
    """w [KD, KH, KW, C / groups, O]."""
    _require_weight(ctx, w, 5)
    stride, dilation = (stride_d, stride_h, stride_w), (dilation_d, dilation_h, dilation_w)
    groups = int(x.shape[-1]) // w.shape[3]
    return _convolved(ctx, x, w, b, padding, stride, dilation, activation, (0, 1, 2, 3, 4), groups)


@tflite_op("TRANSPOSE_CONV")
def _transpose_conv(
    ctx: Context, shape: Any, w: Any, x: Any, b: Any = None, *, padding: str, stride_w: int, stride_h: int,
    activation: str,
) -> Any:  # fmt: skip
    """w [O, KH, KW, C]; the result has the given shape, whose own padding says where it begins."""
    _require_weight(ctx, w, 4)
    x, size, stride = _image(ctx, x), ctx.ints(shape, "its shape"), (stride_h, stride_w)
    if len(size) != 4 or min(stride) < 1:
        raise ShapeError(f"{ctx.node.label()}: a result of shape {size}, strides {stride}")
    cut, more = [], []
    for n, want, step, k in zip(x.shape[1:3], size[1:3], stride, w.shape[1:3], strict=True):
        before = max(0, (-(-want // step) - 1) * step + k - want) // 2 if padding == "SAME" else 0
        whole = (n - 1) * step + k - before
        cut.append((before, max(0, whole - want)))
        more.append(max(0, want - whole))
    weight = permuted(ctx, w, (1, 2, 0, 3), "tflite")
    y = transposed_conv(x, weight, bias(ctx, b), stride, tuple(cut), (1, 1), 1, tuple(size[1:3]), tuple(more))
    return activated(ctx, y, activation)


def _pool(function: Callable[..., Any], **how: Any) -> Callable[..., Any]:
    def run(
        ctx: Context, x: Any, *, padding: str, stride_w: int, stride_h: int, filter_width: int, filter_height: int,
        activation: str,
    ) -> Any:  # fmt: skip
        x, kernel, stride = _image(ctx, x), (filter_height, filter_width), (stride_h, stride_w)
        pads = _pads(padding, x, kernel, stride)
        return activated(ctx, function(x, kernel, stride=stride, padding=pads, **how), activation)

    return run


def _pads(kind: str, x: Any, kernel: Any, stride: Any) -> Any:
    if min(*kernel, *stride) < 1:
        raise ShapeError(f"a window of {kernel}, strides {stride}")
    return padding(_SAME[kind], None, x.shape[1:3], kernel, stride, (1, 1))


def _l2_pool(x: Any, kernel: Any, **how: Any) -> Any:
    return ops.sqrt(ops.avg_pool(ops.square(x), kernel, **how))


tflite_op("MAX_POOL_2D")(_pool(ops.max_pool))
tflite_op("AVERAGE_POOL_2D")(_pool(ops.avg_pool, count_include_pad=False))
tflite_op("L2_POOL_2D")(_pool(_l2_pool, count_include_pad=False))


# -- products ----------------------------------------------------------------------------------------------------------
@tflite_op("FULLY_CONNECTED")
def _fully_connected(
    ctx: Context, x: Any, w: Any, b: Any = None, *, activation: str, weights_format: str, keep_num_dims: bool
) -> Any:
    """x [..., C] by w [O, C] + b [O]; without `keep_num_dims` all rows of C numbers make [N, O]."""
    _require_weight(ctx, w, 2)
    if weights_format != "DEFAULT":
        raise UsageError(f"{ctx.node.label()}: weights in the format {weights_format}, which pdl does not read")
    x, (features, channels) = tensor(x), w.shape
    rows = x if x.ndim == 2 and x.shape[1] == channels else ops.reshape(x, (-1, channels))
    y = today("Gemm")(ctx, rows, w, b, transB=1)
    y = ops.reshape(y, (*x.shape[:-1], features)) if keep_num_dims and x.ndim != 2 else y
    return activated(ctx, y, activation)


@tflite_op("BATCH_MATMUL")
def _batch_matmul(ctx: Context, a: Any, b: Any, *, adj_x: bool, adj_y: bool) -> Any:
    a = ops.matrix_transpose(tensor(a)) if adj_x else a
    return today("MatMul")(ctx, a, ops.matrix_transpose(tensor(b)) if adj_y else b)


@tflite_op("EMBEDDING_LOOKUP")
def _embedding_lookup(ctx: Context, ids: Any, table: Any) -> Any:
    return today("Gather")(ctx, table, ids)


# -- element by element ------------------------------------------------------------------------------------------------
#: operators that are ONNX's under another name
_ALIKE = {
    "ABS": "Abs", "NEG": "Neg", "SIGN": "Sign", "FLOOR": "Floor", "CEIL": "Ceil", "ROUND": "Round", "SQRT": "Sqrt",
    "EXP": "Exp", "LOG": "Log", "SIN": "Sin", "COS": "Cos", "TANH": "Tanh", "LOGISTIC": "Sigmoid", "RELU": "Relu",
    "ELU": "Elu", "HARD_SWISH": "HardSwish", "PRELU": "PRelu", "POW": "Pow", "FLOOR_MOD": "Mod", "MAXIMUM": "Max",
    "MINIMUM": "Min", "LESS": "Less", "LESS_EQUAL": "LessOrEqual", "GREATER": "Greater",
    "GREATER_EQUAL": "GreaterOrEqual", "EQUAL": "Equal", "LOGICAL_AND": "And", "LOGICAL_OR": "Or", "LOGICAL_NOT": "Not",
    "SELECT_V2": "Where", "ADD_N": "Sum", "LOG_SOFTMAX": "LogSoftmax",
}  # fmt: skip
_WITH_ACTIVATION = {"ADD": "Add", "SUB": "Sub", "MUL": "Mul", "DIV": "Div"}


def _with_activation(name: str, other: str) -> None:
    @tflite_op(name)
    def _same(ctx: Context, a: Any, b: Any, *, activation: str) -> Any:
        return activated(ctx, today(other)(ctx, a, b), activation)

    _same.__doc__ = f"{other} of ONNX, then an activation."


def _of_one(name: str, function: Callable[[Any], Any]) -> None:
    @tflite_op(name)
    def _one(ctx: Context, x: Any) -> Any:
        return function(tensor(x))


_of_one("RSQRT", ops.rsqrt)
_of_one("SQUARE", ops.square)
_of_one("RELU6", _ACTIVATIONS["RELU6"])
_of_one("RELU_N1_TO_1", _ACTIVATIONS["RELU_N1_TO_1"])
_of_one("RELU_0_TO_1", lambda x: ops.clip(x, 0.0, 1.0))


@tflite_op("NOT_EQUAL")
def _not_equal(ctx: Context, a: Any, b: Any) -> Any:
    return today("Not")(ctx, today("Equal")(ctx, a, b))


@tflite_op("SQUARED_DIFFERENCE")
def _squared_difference(ctx: Context, a: Any, b: Any) -> Any:
    return ops.square(tensor(today("Sub")(ctx, a, b)))


@tflite_op("FLOOR_DIV")
def _floor_div(ctx: Context, a: Any, b: Any) -> Any:
    if in_numpy(a, b):
        return np.floor_divide(a, b)
    return ops.floor_divide(tensor(a), tensor(b))


@tflite_op("ATAN2")
def _atan2(ctx: Context, a: Any, b: Any) -> Any:
    return ops.atan2(tensor(a), tensor(b))


@tflite_op("LEAKY_RELU")
def _leaky_relu(ctx: Context, x: Any, *, alpha: float) -> Any:
    return ops.leaky_relu(tensor(x), negative_slope=alpha)


@tflite_op("GELU")
def _gelu(ctx: Context, x: Any, *, approximate: bool) -> Any:
    return ops.gelu(tensor(x), approximate="tanh" if approximate else "none")


@tflite_op("SELECT")
def _select(ctx: Context, condition: Any, a: Any, b: Any) -> Any:
    """A condition [N] chooses whole rows."""
    rows = len(condition.shape) == 1 < len(a.shape)
    shape = (*condition.shape, *[1] * (len(a.shape) - 1)) if rows else condition.shape
    return today("Where")(ctx, ops.reshape(tensor(condition), shape) if rows else condition, a, b)


@tflite_op("SOFTMAX")
def _softmax(ctx: Context, x: Any, *, beta: float) -> Any:
    x = tensor(x)
    return ops.softmax(x if beta == 1 else x * beta, axis=-1)


@tflite_op("L2_NORMALIZATION")
def _l2_normalization(ctx: Context, x: Any, *, activation: str) -> Any:
    """x / sqrt(sum x^2), a sum of at least 1e-12, over the last axis."""
    x = tensor(x)
    total = ops.sum(ops.square(x), axis=-1, keepdims=True)
    return activated(ctx, x / ops.sqrt(ops.maximum(total, tensor(np.array(1e-12, np.float32)))), activation)


@tflite_op("LOCAL_RESPONSE_NORMALIZATION")
def _lrn(ctx: Context, x: Any, *, radius: int, bias: float, alpha: float, beta: float) -> Any:
    """x / (bias + alpha sum x^2)^beta over `radius` channels on both sides."""
    size = 2 * radius + 1
    if not 1 <= size <= 1 << 16:
        raise UsageError(f"{ctx.node.label()}: a radius of {radius}")
    y = today("LRN")(ctx, channels_first(_image(ctx, x)), size=size, alpha=alpha * size, beta=beta, bias=bias)
    return channels_last(y)


@tflite_op("DENSIFY")
def _densify(ctx: Context, x: Any) -> Any:
    """What is stored sparse has been read as what it stands for."""
    return x


@tflite_op("QUANTIZE")
@tflite_op("DEQUANTIZE")
def _dequantize(ctx: Context, x: Any) -> Any:
    """What a quantised tensor stands for; the graph has rounded it (see `pdl.onnx.tflite`). float16 becomes float32."""
    return x if x.dtype.kind == "f" and x.dtype.itemsize > 2 else ops.astype(tensor(x), "float32")


@tflite_op("CAST")
def _cast(ctx: Context, x: Any, *, to: str) -> Any:
    return cast(ctx, x, dtype_named(to), True, "up")


@tflite_op("FAKE_QUANT")
def _fake_quant(ctx: Context, x: Any, *, low: float, high: float, num_bits: int, narrow_range: bool) -> Any:
    """x rounded to the levels of so many bits over a range that is moved so that 0 is one of them."""
    if not (2 <= num_bits <= 16 and low <= 0 <= high and low < high and math.isfinite(high - low)):
        raise UsageError(f"{ctx.node.label()}: {num_bits} bits from {low} to {high}")
    first, last = int(narrow_range), 2**num_bits - 1
    scale = np.float32((high - low) / (last - first))
    zero = float(np.clip(np.floor(first - low / scale + 0.5), first, last))
    bottom, top = (np.float32((v - zero) * scale) for v in (first, last))
    steps = ops.floor((ops.clip(tensor(x), float(bottom), float(top)) - float(bottom)) / float(scale) + 0.5)
    return steps * float(scale) + float(bottom)


for _name, _other in _ALIKE.items():
    alike(tflite_op(_name), _other)
for _name, _other in _WITH_ACTIVATION.items():
    _with_activation(_name, _other)


# -- along axes --------------------------------------------------------------------------------------------------------
def _reduction(name: str, other: str) -> None:
    @tflite_op(name)
    def _reduced(ctx: Context, x: Any, axes: Any, *, keep_dims: bool) -> Any:
        along = ctx.ints(axes, "axes")
        return today(other)(ctx, x, np.array(along, np.int64), keepdims=int(keep_dims)) if along else x

    _reduced.__doc__ = f"{other} of ONNX, over no axis where none is named."


for _name, _other in {
    "MEAN": "ReduceMean", "SUM": "ReduceSum", "REDUCE_PROD": "ReduceProd", "REDUCE_MAX": "ReduceMax",
    "REDUCE_MIN": "ReduceMin", "REDUCE_ANY": "ReduceMax", "REDUCE_ALL": "ReduceMin",
}.items():  # fmt: skip
    _reduction(_name, _other)


def _arg(name: str, other: str) -> None:
    @tflite_op(name)
    def _place(ctx: Context, x: Any, axis: Any) -> Any:
        (along,) = ctx.ints(axis, "the axis")
        return today(other)(ctx, x, axis=along, keepdims=0)


_arg("ARG_MAX", "ArgMax")
_arg("ARG_MIN", "ArgMin")


@tflite_op("CUMSUM")
def _cumsum(ctx: Context, x: Any, axis: Any, *, exclusive: bool, reverse: bool) -> Any:
    return today("CumSum")(ctx, x, axis, exclusive=int(exclusive), reverse=int(reverse))


@tflite_op("TOPK_V2")
def _topk(ctx: Context, x: Any, count: Any) -> Any:
    return today("TopK")(ctx, x, np.array(ctx.ints(count, "how many"), np.int64))


# -- resizing ----------------------------------------------------------------------------------------------------------
def _resize(name: str, mode: str) -> None:
    @tflite_op(name)
    def _resized(ctx: Context, x: Any, size: Any, *, align_corners: bool, half_pixel_centers: bool) -> Any:
        """Cells of the result stand for places i / scale, (i + 0.5) / scale - 0.5, or stretched over the corners."""
        x, new = _image(ctx, x), ctx.ints(size, "its size")
        if len(new) != 2:
            raise ShapeError(f"{ctx.node.label()}: a size of {new}; expected height and width")
        rule = "align_corners" if align_corners else "half_pixel" if half_pixel_centers else "asymmetric"
        nearest = "floor" if rule == "asymmetric" else "round_prefer_ceil"
        sizes = shape_array((x.shape[0], x.shape[3], *new))
        how = {"coordinate_transformation_mode": rule, "mode": mode, "nearest_mode": nearest}
        return channels_last(today("Resize")(ctx, channels_first(x), None, None, sizes, **how))


_resize("RESIZE_BILINEAR", "linear")
_resize("RESIZE_NEAREST_NEIGHBOR", "nearest")


# -- recurrence --------------------------------------------------------------------------------------------------------
@tflite_op("UNIDIRECTIONAL_SEQUENCE_LSTM")
def _lstm(
    ctx: Context, x: Any, wi: Any, wf: Any, wc: Any, wo: Any, ri: Any, rf: Any, rc: Any, ro: Any, pi: Any, pf: Any,
    po: Any, bi: Any, bf: Any, bc: Any, bo: Any, projection: Any, projection_bias: Any, h: Any, c: Any, *norms: Any,
    activation: str, cell_clip: float, proj_clip: float, time_major: bool,
) -> Any:  # fmt: skip
    """Long short-term memory over x [N, T, C], or [T, N, C], from states of 0; weights [H, C] and [H, H] for each gate.
    A bundle begins every run anew."""
    if any(v is not None for v in (pi, pf, po, projection, *norms)) or wi is None or cell_clip or activation != "TANH":
        raise UsageError(
            f"{ctx.node.label()}: peepholes, projections, coupled gates, normalised or clipped cells, an activation "
            f"{activation}, which pdl does not read"
        )
    x = tensor(x) if time_major else ops.permute_dims(tensor(x), (1, 0, 2))
    gates = [(wi, ri, bi), (wo, ro, bo), (wf, rf, bf), (wc, rc, bc)]  # in ONNX's order
    w, r, b = (today("Concat")(ctx, *(g[i] for g in gates), axis=0) for i in range(3))
    b = today("Concat")(ctx, b, np.zeros(b.shape, np.float32), axis=0)
    w, r, b = (today("Unsqueeze")(ctx, v, np.array([0])) for v in (w, r, b))
    y = today("LSTM")(ctx, x, w, r, b, hidden_size=int(ri.shape[1]))[0]
    y = ops.reshape(tensor(y), (x.shape[0], x.shape[1], ri.shape[1]))
    return y if time_major else ops.permute_dims(y, (1, 0, 2))
