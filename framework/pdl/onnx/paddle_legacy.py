"""Operations of Paddle's programs before PIR: how each is written as one of PIR's (`pdl.onnx.paddle`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pdl.onnx.paddle_params import TYPES
from pdl.onnx.protobuf import Message

#: attributes that another library's optimiser sets, and that change what an operation computes
FUSED = ("fuse_relu", "fuse_brelu", "fuse_residual_connection", "fuse_activation", "fuse_relu_before_depthwise_conv")
#: how a dtype is told
_DTYPE = ("dtype", "out_dtype")


@dataclass(frozen=True)
class Given:
    """An input of PIR that is an attribute here, unless one of `tensors` has it, or one of `lists` its numbers."""

    attribute: str
    tensors: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()
    default: Any = None
    dtype: Any = np.int64


@dataclass(frozen=True)
class Legacy:
    """An operation: PIR's name, where its inputs are ("X*": a list of them), its outputs, the names of attributes, and
    attributes that PIR has besides."""

    op: str
    inputs: tuple[str | Given, ...] = ("X",)
    outputs: tuple[str, ...] = ("Out",)
    attributes: Mapping[str, str] = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)


def _op(name: str, *inputs: str | Given, to: str = "Out", has: str = "", **fixed: Any) -> Legacy:
    """`has` names attributes, those with another name in PIR as "old:new"."""
    pairs = (word.partition(":") for word in has.split())
    return Legacy(name, inputs or ("X",), tuple(to.split()), {old: new or old for old, _, new in pairs}, fixed)


_WINDOW = "strides paddings padding_algorithm dilations groups data_format"
_POOL = "strides paddings ceil_mode exclusive data_format pooling_type global_pooling adaptive padding_algorithm"
_INTERP = "data_layout:data_format out_d out_h out_w interp_method align_corners align_mode scale"
_CONV_T = (*("Input", "Filter"), Given("output_size", ("OutputSizeTensor",), ("OutputSizeTensorList",)))
_SHAPE, _SIZES = Given("shape", ("Shape",), ("ShapeTensor",)), Given("shape", ("ShapeTensor",), ("ShapeTensorList",))
_AXES = Given("axes", ("AxesTensor",), ("AxesTensorList",))
_AXIS = Given("axis", ("AxisTensor",), default=0)
_ENDS = (Given("starts", ("StartsTensor",), ("StartsTensorList",)), Given("ends", ("EndsTensor",), ("EndsTensorList",)))
_REDUCED = ("X", Given("dim", default=()))

LEGACY: dict[str, Legacy] = {
    # products and windows
    "conv2d": _op("conv2d", "Input", "Filter", "Bias", to="Output", has=_WINDOW),
    "depthwise_conv2d": _op("depthwise_conv2d", "Input", "Filter", "Bias", to="Output", has=_WINDOW),
    "conv3d": _op("conv3d", "Input", "Filter", to="Output", has=_WINDOW),
    "conv2d_transpose": _op("conv2d_transpose", *_CONV_T, to="Output", has=f"{_WINDOW} output_padding"),
    "depthwise_conv2d_transpose": _op(
        "depthwise_conv2d_transpose", *_CONV_T, to="Output", has=f"{_WINDOW} output_padding"
    ),
    "pool2d": _op("pool2d", "X", Given("ksize"), has=_POOL),
    "max_pool2d_with_index": _op(
        "max_pool2d_with_index",
        to="Out Mask",
        has="ksize:kernel_size strides paddings global_pooling adaptive ceil_mode",
    ),
    "mul": _op("mul", "X", "Y", has="x_num_col_dims y_num_col_dims"),
    "matmul": _op("matmul", "X", "Y", has="transpose_X:transpose_x transpose_Y:transpose_y alpha"),
    "matmul_v2": _op("matmul", "X", "Y", has="trans_x:transpose_x trans_y:transpose_y"),
    "bmm": _op("bmm", "X", "Y"),
    "lookup_table": _op("embedding", "Ids", "W", has="padding_idx", squeezed=True),
    "lookup_table_v2": _op("embedding", "Ids", "W", has="padding_idx"),
    # normalisation
    "batch_norm": _op(
        "batch_norm_", "X", "Mean", "Variance", "Scale", "Bias", to="Y", has="epsilon data_layout:data_format"
    ),
    "layer_norm": _op("layer_norm", "X", "Scale", "Bias", to="Y", has="epsilon begin_norm_axis"),
    "instance_norm": _op("instance_norm", "X", "Scale", "Bias", to="Y", has="epsilon"),
    "group_norm": _op("group_norm", "X", "Scale", "Bias", to="Y", has="epsilon groups data_layout:data_format"),
    "dropout": _op("dropout", "X", "", has="dropout_prob:p dropout_implementation:mode"),
    "p_norm": _op("p_norm", has="porder axis epsilon keepdim asvector"),
    # arithmetic
    "scale": _op(
        "scale", "X", Given("scale", ("ScaleTensor",), default=1.0, dtype=np.float32), has="bias bias_after_scale"
    ),
    "pow": _op("pow", "X", has="factor:y"),
    "clip": _op("clip", "X", Given("min", ("Min",), dtype=np.float32), Given("max", ("Max",), dtype=np.float32)),
    "sum": _op("add_n", "X*"),
    "mean": _op("mean", "X", Given("", default=())),
    "hard_swish": _op("hardswish", has="threshold scale offset"),
    "hard_sigmoid": _op("hardsigmoid", has="slope offset"),
    "swish": _op("swish", has="beta"),
    "leaky_relu": _op("leaky_relu", has="alpha:negative_slope"),
    "elu": _op("elu", has="alpha"),
    "gelu": _op("gelu", has="approximate"),
    "relu6": _op("relu6", has="threshold"),
    "softplus": _op("softplus", has="beta threshold"),
    "mish": _op("mish", has="threshold:lambda"),
    "prelu": _op("prelu", "X", "Alpha", has="data_format mode"),
    "softmax": _op("softmax", has="axis"),
    "log_softmax": _op("log_softmax", has="axis"),
    # shapes
    "shape": _op("shape", "Input"),
    "reshape": _op("reshape", "X", _SHAPE),
    "reshape2": _op("reshape", "X", _SHAPE),
    "transpose": _op("transpose", has="axis:perm"),
    "transpose2": _op("transpose", has="axis:perm"),
    "flatten_contiguous_range": _op("flatten", has="start_axis stop_axis"),
    "flatten": _op("flatten2", has="axis"),
    "flatten2": _op("flatten2", has="axis"),
    "squeeze2": _op("squeeze", "X", _AXES),
    "unsqueeze2": _op("unsqueeze", "X", _AXES),
    "concat": _op("concat", "X*", _AXIS),
    "stack": _op("stack", "X*", to="Y", has="axis"),
    "unstack": _op("unstack", to="Y", has="axis num"),
    "split": _op("split_legacy", "X", Given("sections", (), ("SectionsTensorList",)), _AXIS, has="num"),
    "slice": _op("slice", "Input", *_ENDS, has="axes decrease_axis"),
    "strided_slice": _op(
        "strided_slice",
        "Input",
        *_ENDS,
        Given("strides", ("StridesTensor",), ("StridesTensorList",)),
        has="axes decrease_axis",
    ),
    "expand_v2": _op("expand", "X", Given("shape", ("Shape",), ("expand_shapes_tensor",))),
    "expand_as_v2": _op("expand_as", "X", "Y", has="target_shape"),
    "tile": _op("tile", "X", Given("repeat_times", ("RepeatTimes",), ("repeat_times_tensor",))),
    "pad3d": _op("pad3d", "X", Given("paddings", ("Paddings",)), has="mode value:pad_value data_format"),
    "pad2d": _op("pad2d", "X", Given("paddings", ("Paddings",)), has="mode pad_value data_format"),
    "pixel_shuffle": _op("pixel_shuffle", has="upscale_factor data_format"),
    "nearest_interp": _op("nearest_interp", "X", "OutSize", "SizeTensor*", has=_INTERP),
    "nearest_interp_v2": _op("nearest_interp", "X", "OutSize", "SizeTensor*", has=_INTERP),
    "bilinear_interp": _op("bilinear_interp", "X", "OutSize", "SizeTensor*", has=_INTERP),
    "bilinear_interp_v2": _op("bilinear_interp", "X", "OutSize", "SizeTensor*", has=_INTERP),
    # choosing
    "gather": _op("gather", "X", "Index", Given("axis", ("Axis",), default=0)),
    "gather_nd": _op("gather_nd", "X", "Index"),
    "index_select": _op("index_select", "X", "Index", has="dim:axis"),
    "where": _op("where", "Condition", "X", "Y"),
    "arg_max": _op("argmax", "X", Given("axis"), has="keepdims flatten dtype"),
    "arg_min": _op("argmin", "X", Given("axis"), has="keepdims flatten dtype"),
    "top_k": _op("topk", "X", Given("k", ("K",)), to="Out Indices"),
    "top_k_v2": _op("topk", "X", Given("k", ("K",)), to="Out Indices", has="axis largest sorted"),
    "cumsum": _op("cumsum", "X", Given("axis", default=-1), has="flatten exclusive reverse"),
    "one_hot_v2": _op("one_hot", "X", Given("depth", ("depth_tensor",))),
    # numbers
    "cast": _op("cast", has="out_dtype:dtype"),
    "assign": _op("assign"),
    "fill_constant": _op("full_legacy", _SIZES, "ValueTensor", has="value str_value dtype"),
    "fill_constant_batch_size_like": _op(
        "full_batch_size_like", "Input", has="shape value dtype input_dim_idx output_dim_idx"
    ),
    "fill_any_like": _op("full_like", "X", Given("value", default=0.0, dtype=np.float32), has="dtype"),
    "assign_value": _op("assign_value", "", has="shape dtype values fp32_values int32_values int64_values bool_values"),
    "range": _op("arange", "Start", "End", "Step"),
}
for _name, _new in {
    "elementwise_add": "add", "elementwise_sub": "subtract", "elementwise_mul": "multiply",
    "elementwise_div": "divide", "elementwise_pow": "elementwise_pow", "elementwise_max": "maximum",
    "elementwise_min": "minimum", "elementwise_mod": "remainder", "elementwise_floordiv": "floor_divide",
    "equal": "equal", "not_equal": "not_equal", "less_than": "less_than", "less_equal": "less_equal",
    "greater_than": "greater_than", "greater_equal": "greater_equal",
}.items():  # fmt: skip
    LEGACY[_name] = _op(_new, "X", "Y", has="axis")
for _name in ("logical_and", "logical_or", "logical_xor"):
    LEGACY[_name] = _op(_name, "X", "Y")
for _name in (
    "relu", "sigmoid", "tanh", "silu", "exp", "log", "sqrt", "rsqrt", "abs", "floor", "ceil", "round", "square", "sin",
    "cos", "erf", "sign", "reciprocal", "softsign", "logsigmoid", "logical_not",
):  # fmt: skip
    LEGACY[_name] = _op(_name)
for _name in ("mean", "sum", "max", "min", "prod", "any", "all"):
    LEGACY[f"reduce_{_name}"] = _op(_name, *_REDUCED, has="keep_dim:keepdim reduce_all")

#: the field of a value by an attribute's kind, and how it is read
_KINDS: dict[int, Any] = {
    0: lambda a: _signed(a.integer(3)), 1: lambda a: (a.floats(4) or [0.0])[-1], 2: lambda a: a.text(5),
    3: lambda a: [_signed(v) for v in a.integers(6)], 4: lambda a: a.floats(7), 5: lambda a: a.texts(8),
    6: lambda a: bool(a.integer(10)), 7: lambda a: [bool(v) for v in a.integers(11)], 9: lambda a: a.integer(13),
    11: lambda a: a.integers(15), 12: lambda a: a.floats(16, "d"), 15: lambda a: (a.floats(19, "d") or [0.0])[-1],
    16: lambda a: _scalar(next(a.messages(20))), 17: lambda a: [_scalar(s) for s in a.messages(21)],
}  # fmt: skip


def attribute(message: Message) -> Any:
    """The value of an attribute; None for blocks and variables, which no operation here has. dtypes by their names."""
    read = _KINDS.get(message.integer(2))
    value = None if read is None else read(message)
    if message.text(1) in _DTYPE and type(value) is int:
        return TYPES[value].name if value in TYPES else str(value)
    return value


def _signed(value: int) -> int:
    """An int32: protobuf writes negative ones with 64 bits."""
    return value - (1 << 32) if 1 << 31 <= value < 1 << 32 else value


def _scalar(message: Message) -> Any:
    """A number of its own kind: bool, integer, float."""
    kind = message.integer(1)
    if kind == 1:
        return bool(message.integer(2))
    return message.integer(3) if kind == 2 else (message.floats(4, "d") or [0.0])[-1]
