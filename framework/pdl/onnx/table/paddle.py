"""Operations of Paddle, as PIR has them, that compute: images lie channels first. What ONNX has too is computed by its
function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pdl import ops
from pdl.errors import ShapeError, UsageError
from pdl.onnx.layouts import channels_first, channels_last
from pdl.onnx.paddle import DOMAIN
from pdl.onnx.registry import Context, alike, onnx_op, today
from pdl.onnx.table.casts import cast
from pdl.onnx.table.shape import reshaped
from pdl.onnx.values import dtype_named, in_numpy, is_known, is_shape, shape_array, tensor


def paddle_op(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function for an operation of Paddle."""
    return onnx_op(name, domain=DOMAIN)


def of_dtype(ctx: Context, x: Any, dtype: str) -> Any:
    """x in a dtype by name; as it is where none is named."""
    return x if is_undefined(dtype) else cast(ctx, x, dtype_named(dtype), True, "up")


def is_undefined(dtype: str) -> bool:
    """Whether the name of a dtype says that there is none."""
    return dtype in ("", "-1") or dtype.lower().startswith("undefined")


def require_channels_first(ctx: Context, data_format: str) -> None:
    """UsageError for images that lie channels last."""
    if data_format not in ("NCHW", "NCDHW", "AnyLayout", "NCL"):
        raise UsageError(f"{ctx.node.label()}: images in the order {data_format}, not NCHW, which pdl reads")


# -- windows -----------------------------------------------------------------------------------------------------------
def _pads(ctx: Context, paddings: Sequence[int], algorithm: str, rank: int) -> dict[str, Any]:
    """ONNX's arguments for a padding: one number an axis, or one before and one after each."""
    if algorithm in ("SAME", "VALID"):
        return {"auto_pad": "SAME_UPPER" if algorithm == "SAME" else "VALID"}
    found = list(paddings)
    if len(found) == rank:
        return {"pads": found * 2}
    if len(found) != 2 * rank or algorithm != "EXPLICIT":
        raise ShapeError(f"{ctx.node.label()}: paddings {found}, {algorithm}, for {rank} axes")
    return {"pads": found[::2] + found[1::2]}


def _conv(rank: int) -> Callable[..., Any]:
    def run(
        ctx: Context, x: Any, w: Any, b: Any = None, *, strides: Any, paddings: Any, dilations: Any,
        padding_algorithm: str = "EXPLICIT", groups: int = 1, data_format: str = "NCHW",
    ) -> Any:  # fmt: skip
        """w [O, C / groups, *kernel]; a dilation counts for explicit padding alone."""
        require_channels_first(ctx, data_format)
        dilations = [1] * rank if padding_algorithm == "SAME" else dilations
        how = _pads(ctx, paddings, padding_algorithm, rank)
        return today("Conv")(ctx, x, w, b, strides=strides, dilations=dilations, group=groups, **how)

    return run


paddle_op("conv2d")(_conv(2))
paddle_op("depthwise_conv2d")(_conv(2))
paddle_op("conv3d")(_conv(3))


@paddle_op("conv2d_transpose")
@paddle_op("depthwise_conv2d_transpose")
def _conv_transpose(
    ctx: Context, x: Any, w: Any, size: Any = None, *, strides: Any, paddings: Any, dilations: Any,
    output_padding: Any = (), padding_algorithm: str = "EXPLICIT", groups: int = 1, data_format: str = "NCHW",
) -> Any:  # fmt: skip
    """w [C, O / groups, *kernel]; a size counts the cells behind the last that a product reaches."""
    require_channels_first(ctx, data_format)
    how = _pads(ctx, paddings, padding_algorithm, 2)
    wanted = () if size is None else ctx.ints(size, "its size")
    if wanted:
        pads = how.get("pads", [0] * 4)
        windows = zip(x.shape[2:], strides, dilations, w.shape[2:], strict=True)
        own = [(n - 1) * s + d * (k - 1) + 1 - pads[i] - pads[i + 2] for i, (n, s, d, k) in enumerate(windows)]
        output_padding = [n - m for n, m in zip(wanted, own, strict=True)]
    if any(type(n) is not int or n < 0 for n in output_padding):
        raise ShapeError(f"{ctx.node.label()}: a result of size {wanted}, which x {tuple(x.shape)} does not reach")
    how["output_padding"] = list(output_padding) or None
    return today("ConvTranspose")(ctx, x, w, None, strides=strides, dilations=dilations, group=groups, **how)


@paddle_op("pool2d")
def _pool(
    ctx: Context, x: Any, kernel: Any, *, strides: Any, paddings: Any, pooling_type: str, ceil_mode: bool = False,
    exclusive: bool = True, data_format: str = "NCHW", global_pooling: bool = False, adaptive: bool = False,
    padding_algorithm: str = "EXPLICIT",
) -> Any:  # fmt: skip
    require_channels_first(ctx, data_format)
    size = ctx.ints(kernel, "its window")
    if pooling_type not in ("max", "avg"):
        raise UsageError(f"{ctx.node.label()}: pooling_type {pooling_type!r}; expected max or avg")
    if global_pooling or (adaptive and set(size) == {1}):
        return today("GlobalMaxPool" if pooling_type == "max" else "GlobalAveragePool")(ctx, x)
    if adaptive:
        function = ops.adaptive_max_pool if pooling_type == "max" else ops.adaptive_avg_pool
        return channels_first(function(channels_last(x), size))  # type: ignore[operator]
    how = {"kernel_shape": size, "strides": strides, "ceil_mode": int(ceil_mode),
           **_pads(ctx, paddings, padding_algorithm, 2)}  # fmt: skip
    if pooling_type == "max":
        return today("MaxPool")(ctx, x, **how)
    return today("AveragePool")(ctx, x, count_include_pad=int(not exclusive), **how)


@paddle_op("max_pool2d_with_index")
def _max_pool_with_index(
    ctx: Context, x: Any, *, kernel_size: Any, strides: Any, paddings: Any, global_pooling: bool = False,
    adaptive: bool = False, ceil_mode: bool = False,
) -> Any:  # fmt: skip
    """The largest in each window, and where they lie in their channel."""
    last, size = channels_last(x), tuple(kernel_size)
    if adaptive:
        y, at = ops.adaptive_max_pool(last, size, return_index=True)
    else:
        size, edge = (tuple(x.shape[2:]), (0, 0)) if global_pooling else (size, tuple(paddings))
        y, at = ops.max_pool(
            last, size, stride=tuple(strides), padding=edge, ceil_mode=ceil_mode, return_index=True
        )  # fmt: skip
    return channels_first(y), channels_first(ops.astype(at, "int32"))


# -- products ----------------------------------------------------------------------------------------------------------
@paddle_op("matmul")
def _matmul(
    ctx: Context, a: Any, b: Any, *, transpose_x: bool = False, transpose_y: bool = False, alpha: float = 1.0
) -> Any:
    a = ops.matrix_transpose(tensor(a)) if transpose_x and len(a.shape) > 1 else a
    y = today("MatMul")(ctx, a, ops.matrix_transpose(tensor(b)) if transpose_y and len(b.shape) > 1 else b)
    return y if alpha == 1 else y * alpha


@paddle_op("bmm")
def _bmm(ctx: Context, a: Any, b: Any) -> Any:
    return today("MatMul")(ctx, a, b)


@paddle_op("mul")
def _mul(ctx: Context, a: Any, b: Any, *, x_num_col_dims: int = 1, y_num_col_dims: int = 1) -> Any:
    """The product of both as matrices: the first axes are rows, the others columns."""
    left, right = (today("Flatten")(ctx, v, axis=n) for v, n in ((a, x_num_col_dims), (b, y_num_col_dims)))
    y = today("MatMul")(ctx, left, right)
    return reshaped(y, (*a.shape[:x_num_col_dims], *b.shape[y_num_col_dims:]))


@paddle_op("embedding")
def _embedding(ctx: Context, ids: Any, table: Any, *, padding_idx: int = -1, squeezed: bool = False) -> Any:
    """Rows of a table; those of `padding_idx` are 0. squeezed: ids have a last axis of 1."""
    ids = reshaped(ids, ids.shape[:-1]) if squeezed and len(ids.shape) > 1 and ids.shape[-1] == 1 else ids
    rows = today("Gather")(ctx, table, ids)
    if padding_idx < 0:
        return rows
    padded = ops.equal(ops.reshape(tensor(ids), (*ids.shape, 1)), padding_idx)
    return ops.where(padded, tensor(np.zeros((), table.dtype)), tensor(rows))


# -- normalisation -----------------------------------------------------------------------------------------------------
@paddle_op("batch_norm_")
@paddle_op("batch_norm")
def _batch_norm(
    ctx: Context, x: Any, mean: Any, var: Any, scale: Any = None, shift: Any = None, *, epsilon: float = 1e-5,
    data_format: str = "NCHW",
) -> Any:  # fmt: skip
    if len(x.shape) > 2:
        require_channels_first(ctx, data_format)
    one, zero = np.ones(mean.shape, np.float32), np.zeros(mean.shape, np.float32)
    scale, shift = one if scale is None else scale, zero if shift is None else shift
    return today("BatchNormalization")(ctx, x, scale, shift, mean, var, epsilon=epsilon)


@paddle_op("layer_norm")
def _layer_norm(
    ctx: Context, x: Any, scale: Any = None, shift: Any = None, *, epsilon: float = 1e-5, begin_norm_axis: int = 1
) -> Any:
    """Over the axes from `begin_norm_axis` on; scale and shift lie flat."""
    sizes = tuple(x.shape[begin_norm_axis:])
    scale = np.ones(sizes, np.float32) if scale is None else scale if len(sizes) == 1 else reshaped(scale, sizes)
    shift = shift if shift is None or len(sizes) == 1 else reshaped(shift, sizes)
    return today("LayerNormalization")(ctx, x, scale, shift, axis=begin_norm_axis, epsilon=epsilon)


@paddle_op("instance_norm")
def _instance_norm(ctx: Context, x: Any, scale: Any = None, shift: Any = None, *, epsilon: float = 1e-5) -> Any:
    one, zero = np.ones(int(x.shape[1]), np.float32), np.zeros(int(x.shape[1]), np.float32)
    scale, shift = one if scale is None else scale, zero if shift is None else shift
    return today("InstanceNormalization")(ctx, x, scale, shift, epsilon=epsilon)


@paddle_op("group_norm")
def _group_norm(
    ctx: Context, x: Any, scale: Any = None, shift: Any = None, *, groups: int, epsilon: float = 1e-5,
    data_format: str = "NCHW",
) -> Any:  # fmt: skip
    require_channels_first(ctx, data_format)
    one, zero = np.ones(int(x.shape[1]), np.float32), np.zeros(int(x.shape[1]), np.float32)
    scale, shift = one if scale is None else scale, zero if shift is None else shift
    return today("GroupNormalization")(ctx, x, scale, shift, num_groups=groups, epsilon=epsilon)


@paddle_op("dropout")
def _dropout(
    ctx: Context, x: Any, seed: Any = None, rate: Any = None, *, p: float = 0.5, mode: str = "downgrade_in_infer"
) -> Any:
    """As in use: what training did not scale up is scaled down."""
    if mode == "upscale_in_train":
        return x
    return tensor(x) * (1.0 - float(p if rate is None else ctx.value(rate, "the rate").reshape(())))


@paddle_op("p_norm")
def _p_norm(
    ctx: Context, x: Any, *, porder: float = 2.0, axis: int = -1, epsilon: float = 1e-12, keepdim: bool = False,
    asvector: bool = False,
) -> Any:  # fmt: skip
    if porder not in (1, 2):
        raise UsageError(f"{ctx.node.label()}: a norm of order {porder}; 1 and 2 are supported")
    axes = None if asvector else np.array([axis], np.int64)
    return today("ReduceL1" if porder == 1 else "ReduceL2")(ctx, x, axes, keepdims=int(keepdim))


# -- element by element ------------------------------------------------------------------------------------------------
#: operations of one number that are ONNX's under another name
_ALIKE = {
    "relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh", "exp": "Exp", "log": "Log", "sqrt": "Sqrt", "abs": "Abs",
    "floor": "Floor", "ceil": "Ceil", "round": "Round", "sin": "Sin", "cos": "Cos", "tan": "Tan", "erf": "Erf",
    "sign": "Sign", "reciprocal": "Reciprocal", "softsign": "Softsign", "logical_not": "Not", "isnan": "IsNaN",
    "logical_and": "And", "logical_or": "Or", "logical_xor": "Xor", "where": "Where", "assign": "Identity",
    "share_data": "Identity", "atan": "Atan", "asin": "Asin", "acos": "Acos",
}  # fmt: skip
#: operations of two numbers; in older programs an axis says where the second's axes begin
_BINARY = {
    "add": "Add", "subtract": "Sub", "multiply": "Mul", "divide": "Div", "elementwise_pow": "Pow", "maximum": "Max",
    "minimum": "Min", "remainder": "Mod", "equal": "Equal", "less_than": "Less", "less_equal": "LessOrEqual",
    "greater_than": "Greater", "greater_equal": "GreaterOrEqual",
}  # fmt: skip


def _binary(name: str, other: str) -> None:
    @paddle_op(name)
    def _two(ctx: Context, a: Any, b: Any, *, axis: int = -1) -> Any:
        return today(other)(ctx, a, aligned(a, b, axis))

    _two.__doc__ = f"{other} of ONNX, the axes of b beside those of a from `axis` on."


def aligned(a: Any, b: Any, axis: int) -> Any:
    """b with axes of one cell behind, so that its first is beside axis `axis` of a."""
    behind = len(a.shape) - axis - len(b.shape)
    return b if axis < 0 or behind <= 0 else reshaped(b, (*b.shape, *[1] * behind))


for _name, _other in _ALIKE.items():
    alike(paddle_op(_name), _other)
for _name, _other in _BINARY.items():
    _binary(_name, _other)


@paddle_op("not_equal")
def _not_equal(ctx: Context, a: Any, b: Any, *, axis: int = -1) -> Any:
    return today("Not")(ctx, today("Equal")(ctx, a, aligned(a, b, axis)))


@paddle_op("floor_divide")
def _floor_divide(ctx: Context, a: Any, b: Any, *, axis: int = -1) -> Any:
    if in_numpy(a, b):
        return np.floor_divide(a, aligned(a, b, axis))
    if is_shape(a) or is_shape(b):
        return today("Div")(ctx, a, b)
    return ops.floor_divide(tensor(a), tensor(aligned(a, b, axis)))


@paddle_op("add_n")
def _add_n(ctx: Context, x: Any, *more: Any) -> Any:
    return today("Sum")(ctx, x, *more)


@paddle_op("scale")
def _scale(ctx: Context, x: Any, scale: Any, *, bias: float = 0.0, bias_after_scale: bool = True) -> Any:
    """x scale + bias, or (x + bias) scale; integers by a whole number."""
    if is_shape(x) or x.dtype.kind in "iu":
        by, more = float(ctx.value(scale, "the scale").reshape(())), float(bias)
        if by != int(by) or more != int(more):
            raise UsageError(f"{ctx.node.label()}: integers scaled by {by}, moved by {more}")
        kind = np.dtype(np.int64) if is_shape(x) else x.dtype
        scale, offset = np.array(int(by), kind), np.array(int(more), kind)
    else:
        scale = np.asarray(scale, x.dtype).reshape(()) if is_known(scale) else ops.reshape(tensor(scale), ())
        offset = np.array(bias, x.dtype)
    if not bias_after_scale:
        x = today("Add")(ctx, x, offset)
    y = x if is_known(scale) and scale == 1 else today("Mul")(ctx, x, scale)
    return today("Add")(ctx, y, offset) if bias_after_scale and bias else y


@paddle_op("pow")
def _pow(ctx: Context, x: Any, *, y: float) -> Any:
    return today("Pow")(ctx, x, np.array(y, x.dtype))


@paddle_op("clip")
def _clip(ctx: Context, x: Any, low: Any = None, high: Any = None) -> Any:
    bounds = [v if v is None else np.asarray(v).astype(x.dtype).reshape(()) if is_known(v) else v for v in (low, high)]
    return today("Clip")(ctx, x, *bounds)


_ONE_PARAMETER: dict[str, tuple[str, Any, Callable[..., Any]]] = {
    "leaky_relu": ("negative_slope", 0.02, lambda x, v: ops.leaky_relu(x, negative_slope=v)),
    "elu": ("alpha", 1.0, lambda x, v: ops.elu(x, alpha=v)),
    "gelu": ("approximate", False, lambda x, v: ops.gelu(x, approximate="tanh" if v else "none")),
    "relu6": ("threshold", 6.0, lambda x, v: ops.clip(x, 0.0, v)),
    "swish": ("beta", 1.0, lambda x, v: ops.silu(x) if v == 1 else x * ops.sigmoid(x * v)),
}


def _one_parameter(name: str, parameter: str, default: Any, function: Callable[..., Any]) -> None:
    def run(ctx: Context, x: Any, **given: Any) -> Any:
        if unknown := sorted(given.keys() - {parameter}):
            raise UsageError(f"{ctx.node.label()}: its attribute {', '.join(unknown)} is not supported")
        return function(tensor(x), given.get(parameter, default))

    run.__doc__ = f"With the parameter {parameter}."
    paddle_op(name)(run)


for _name, _how in _ONE_PARAMETER.items():
    _one_parameter(_name, *_how)


def _of_one(name: str, function: Callable[[Any], Any]) -> None:
    @paddle_op(name)
    def _one(ctx: Context, x: Any) -> Any:
        return function(tensor(x))


_of_one("silu", ops.silu)
_of_one("rsqrt", ops.rsqrt)
_of_one("square", ops.square)
_of_one("logsigmoid", lambda x: -ops.softplus(-x))


@paddle_op("mish")
def _mish(ctx: Context, x: Any, **threshold: Any) -> Any:
    return ops.mish(tensor(x))


@paddle_op("hardswish")
def _hardswish(ctx: Context, x: Any, *, threshold: float = 6.0, scale: float = 6.0, offset: float = 3.0) -> Any:
    if (threshold, scale, offset) == (6, 6, 3):
        return ops.hardswish(tensor(x))
    x = tensor(x)
    return x * ops.clip(x + offset, 0.0, threshold) / scale


@paddle_op("hardsigmoid")
def _hardsigmoid(ctx: Context, x: Any, *, slope: float = 0.2, offset: float = 0.5) -> Any:
    """Paddle writes 1 / 6 as 0.1666667 or 0.166667."""
    slope = 1 / 6 if abs(slope * 6 - 1) < 1e-4 else slope
    return today("HardSigmoid")(ctx, x, alpha=slope, beta=offset)


@paddle_op("softplus")
def _softplus(ctx: Context, x: Any, *, beta: float = 1.0, threshold: float = 20.0) -> Any:
    """log(1 + e^(beta x)) / beta; x itself where beta x is over the threshold."""
    x = tensor(x)
    return ops.where(ops.greater(x * beta, threshold), x, ops.softplus(x * beta) / beta)


@paddle_op("prelu")
def _prelu(ctx: Context, x: Any, slope: Any, *, mode: str = "all", data_format: str = "NCHW") -> Any:
    require_channels_first(ctx, data_format)
    shapes = {"all": (1,), "channel": (-1, *[1] * (len(x.shape) - 2)), "element": tuple(x.shape[1:])}
    if mode not in shapes:
        raise UsageError(f"{ctx.node.label()}: mode {mode!r}; expected {', '.join(shapes)}")
    return today("PRelu")(ctx, x, ops.reshape(tensor(slope), shapes[mode]))


@paddle_op("softmax")
def _softmax(ctx: Context, x: Any, *, axis: int = -1) -> Any:
    return today("Softmax")(ctx, x, axis=axis)


@paddle_op("log_softmax")
def _log_softmax(ctx: Context, x: Any, *, axis: int = -1) -> Any:
    return today("LogSoftmax")(ctx, x, axis=axis)


# -- along axes --------------------------------------------------------------------------------------------------------
def _reduction(name: str, other: str) -> None:
    @paddle_op(name)
    def _reduced(
        ctx: Context, x: Any, axes: Any = None, *, keepdim: bool = False, reduce_all: bool = False, dtype: str = ""
    ) -> Any:
        along = () if axes is None or reduce_all else ctx.ints(axes, "axes")
        y = today(other)(ctx, x, np.array(along, np.int64) if along else None, keepdims=int(keepdim))
        return of_dtype(ctx, y, dtype)

    _reduced.__doc__ = f"{other} of ONNX, over all axes where none is named."


for _name, _other in {
    "mean": "ReduceMean", "sum": "ReduceSum", "max": "ReduceMax", "min": "ReduceMin", "prod": "ReduceProd",
    "any": "ReduceMax", "all": "ReduceMin", "amax": "ReduceMax", "amin": "ReduceMin",
}.items():  # fmt: skip
    _reduction(_name, _other)


def _arg(name: str, other: str) -> None:
    @paddle_op(name)
    def _place(
        ctx: Context, x: Any, axis: Any, *, keepdims: bool = False, flatten: bool = False, dtype: str = "int64"
    ) -> Any:
        (along,) = (0,) if flatten else ctx.ints(axis, "the axis")
        x = reshaped(x, (-1,)) if flatten else x
        return of_dtype(ctx, today(other)(ctx, x, axis=along, keepdims=int(keepdims)), dtype)


_arg("argmax", "ArgMax")
_arg("argmin", "ArgMin")


@paddle_op("topk")
def _topk(ctx: Context, x: Any, k: Any, *, axis: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    return today("TopK")(ctx, x, np.array(ctx.ints(k, "k"), np.int64), axis=axis, largest=int(largest))


@paddle_op("cumsum")
def _cumsum(
    ctx: Context, x: Any, axis: Any, *, flatten: bool = False, exclusive: bool = False, reverse: bool = False
) -> Any:
    x, axis = (reshaped(x, (-1,)), np.array(0)) if flatten else (x, axis)
    return today("CumSum")(ctx, x, axis, exclusive=int(exclusive), reverse=int(reverse))


# -- resizing ----------------------------------------------------------------------------------------------------------
def _interp(name: str, mode: str) -> None:
    @paddle_op(name)
    def _resized(
        ctx: Context, x: Any, out_size: Any = None, *more: Any, data_format: str = "NCHW", out_d: int = 0,
        out_h: int = 0, out_w: int = 0, scale: Any = (), interp_method: str = "", align_corners: bool = True,
        align_mode: int = 1,
    ) -> Any:  # fmt: skip
        """Sizes by tensors, else scales, else numbers. align_mode 0: cells of the result stand for places
        (i + 0.5) / scale - 0.5, 1: for i / scale."""
        require_channels_first(ctx, data_format)
        given = [v for v in more if v is not None]
        if len(x.shape) != 4 or len(given) == 1:
            raise UsageError(f"{ctx.node.label()}: x {tuple(x.shape)} resized by a tensor of scales, or no image")
        factors = list(scale) if isinstance(scale, list | tuple) else [scale] if scale and scale > 0 else []
        sizes: Sequence[int] | None = None
        if given or out_size is not None:
            sizes = [n for v in given or [out_size] for n in ctx.ints(v, "its size")]
        elif not factors:
            sizes = [out_h, out_w]
        rule = (
            "align_corners" if align_corners else "half_pixel" if mode == "linear" and not align_mode else "asymmetric"
        )
        how = {"mode": mode, "coordinate_transformation_mode": rule,
               "nearest_mode": "round_prefer_ceil" if align_corners else "floor"}  # fmt: skip
        if sizes is not None:
            return today("Resize")(ctx, x, None, None, shape_array((*x.shape[:2], *sizes)), **how)
        scales = np.array([1, 1, *(factors * 2 if len(factors) == 1 else factors)], np.float32)
        return today("Resize")(ctx, x, None, scales, None, **how)


_interp("nearest_interp", "nearest")
_interp("bilinear_interp", "linear")
