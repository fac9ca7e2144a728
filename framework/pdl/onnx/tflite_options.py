"""The operators of TensorFlow Lite by their numbers, and the fields of their options (schema.fbs, version 3)."""

from __future__ import annotations

from typing import Any, NamedTuple


class Option(NamedTuple):
    """A field of an options table: its number, the attribute that it becomes, and how it is stored.

    kind    a format of `struct`, or "ints" for a vector of int32
    names   of an enumeration's values
    """

    field: int
    name: str
    kind: str = "i"
    default: Any = 0
    names: tuple[str, ...] | None = None


class Options(NamedTuple):
    """Of one operator: its number in the union of all options, and its fields."""

    number: int
    options: tuple[Option, ...]


ACTIVATIONS = ("NONE", "RELU", "RELU_N1_TO_1", "RELU6", "TANH", "SIGN_BIT")
PADDINGS = ("SAME", "VALID")


def _activation(field: int) -> Option:
    return Option(field, "activation", "b", 0, ACTIVATIONS)


def _numbered(first: int, *names: str, default: int = 0) -> tuple[Option, ...]:
    return tuple(Option(first + i, name, "i", default) for i, name in enumerate(names))


def _flags(first: int, *names: str) -> tuple[Option, ...]:
    return tuple(Option(first + i, name, "?", False) for i, name in enumerate(names))


_PADDING = Option(0, "padding", "b", 0, PADDINGS)
_STRIDES = _numbered(1, "stride_w", "stride_h")
_POOL = Options(5, (_PADDING, *_STRIDES, *_numbered(3, "filter_width", "filter_height"), _activation(5)))
_REDUCER = Options(27, _flags(0, "keep_dims"))
_STRIDES_3D = _numbered(1, "stride_d", "stride_w", "stride_h")
_DILATIONS = ("dilation_w", "dilation_h")
_CLIPS = (Option(1, "cell_clip", "f", 0.0), Option(2, "proj_clip", "f", 0.0))

#: operators whose options matter; those of others are empty, or say what only speed depends on
OPTIONS: dict[str, Options] = {
    "CONV_2D": Options(1, (_PADDING, *_STRIDES, _activation(3), *_numbered(4, *_DILATIONS, default=1))),
    "DEPTHWISE_CONV_2D": Options(2, (_PADDING, *_STRIDES, _activation(4), *_numbered(5, *_DILATIONS, default=1))),
    "CONV_3D": Options(
        106, (_PADDING, *_STRIDES_3D, _activation(4), *_numbered(5, "dilation_d", *_DILATIONS, default=1))
    ),
    "TRANSPOSE_CONV": Options(49, (_PADDING, *_STRIDES, _activation(3))),
    "AVERAGE_POOL_2D": _POOL,
    "MAX_POOL_2D": _POOL,
    "L2_POOL_2D": _POOL,
    "FULLY_CONNECTED": Options(
        8,
        (
            _activation(0),
            Option(1, "weights_format", "b", 0, ("DEFAULT", "SHUFFLED4x16INT8")),
            *_flags(2, "keep_num_dims"),
        ),
    ),
    "SOFTMAX": Options(9, (Option(0, "beta", "f", 0.0),)),
    "CONCATENATION": Options(10, (*_numbered(0, "axis"), _activation(1))),
    "ADD": Options(11, (_activation(0),)),
    "SUB": Options(28, (_activation(0),)),
    "MUL": Options(21, (_activation(0),)),
    "DIV": Options(29, (_activation(0),)),
    "L2_NORMALIZATION": Options(12, (_activation(0),)),
    "LOCAL_RESPONSE_NORMALIZATION": Options(
        13,
        (*_numbered(0, "radius"), *(Option(i, name, "f", 0.0) for i, name in enumerate(("bias", "alpha", "beta"), 1))),
    ),
    "RESIZE_BILINEAR": Options(15, _flags(2, "align_corners", "half_pixel_centers")),
    "RESIZE_NEAREST_NEIGHBOR": Options(74, _flags(0, "align_corners", "half_pixel_centers")),
    "RESHAPE": Options(17, (Option(0, "new_shape", "ints"),)),
    "SPACE_TO_DEPTH": Options(19, _numbered(0, "block_size")),
    "DEPTH_TO_SPACE": Options(94, _numbered(0, "block_size")),
    "GATHER": Options(23, _numbered(0, "axis", "batch_dims")),
    "MEAN": _REDUCER,
    "SUM": _REDUCER,
    "REDUCE_PROD": _REDUCER,
    "REDUCE_MAX": _REDUCER,
    "REDUCE_MIN": _REDUCER,
    "REDUCE_ANY": _REDUCER,
    "REDUCE_ALL": _REDUCER,
    "SQUEEZE": Options(30, (Option(0, "squeeze_dims", "ints"),)),
    "SPLIT": Options(35, _numbered(0, "num_splits")),
    "SPLIT_V": Options(79, _numbered(0, "num_splits")),
    "STRIDED_SLICE": Options(
        32,
        (
            *_numbered(0, "begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"),
            *_flags(5, "offset"),
        ),
    ),
    "ONE_HOT": Options(61, _numbered(0, "axis")),
    "PACK": Options(59, _numbered(1, "axis")),
    "UNPACK": Options(64, _numbered(0, "num", "axis")),
    "LEAKY_RELU": Options(75, (Option(0, "alpha", "f", 0.0),)),
    "MIRROR_PAD": Options(77, (Option(0, "mode", "b", 0, ("REFLECT", "SYMMETRIC")),)),
    "BATCH_MATMUL": Options(101, _flags(0, "adj_x", "adj_y")),
    "CUMSUM": Options(102, _flags(0, "exclusive", "reverse")),
    "GELU": Options(116, _flags(0, "approximate")),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": Options(71, (_activation(0), *_CLIPS, *_flags(3, "time_major"))),
    "FAKE_QUANT": Options(
        58,
        (
            Option(0, "low", "f", 0.0),
            Option(1, "high", "f", 0.0),
            *_numbered(2, "num_bits"),
            *_flags(3, "narrow_range"),
        ),
    ),
}

OPERATORS: tuple[str, ...] = tuple(
    """
    ADD AVERAGE_POOL_2D CONCATENATION CONV_2D DEPTHWISE_CONV_2D DEPTH_TO_SPACE DEQUANTIZE EMBEDDING_LOOKUP FLOOR
    FULLY_CONNECTED HASHTABLE_LOOKUP L2_NORMALIZATION L2_POOL_2D LOCAL_RESPONSE_NORMALIZATION LOGISTIC LSH_PROJECTION
    LSTM MAX_POOL_2D MUL RELU RELU_N1_TO_1 RELU6 RESHAPE RESIZE_BILINEAR RNN SOFTMAX SPACE_TO_DEPTH SVDF TANH
    CONCAT_EMBEDDINGS SKIP_GRAM CALL CUSTOM EMBEDDING_LOOKUP_SPARSE PAD UNIDIRECTIONAL_SEQUENCE_RNN GATHER
    BATCH_TO_SPACE_ND SPACE_TO_BATCH_ND TRANSPOSE MEAN SUB DIV SQUEEZE UNIDIRECTIONAL_SEQUENCE_LSTM STRIDED_SLICE
    BIDIRECTIONAL_SEQUENCE_RNN EXP TOPK_V2 SPLIT LOG_SOFTMAX DELEGATE BIDIRECTIONAL_SEQUENCE_LSTM CAST PRELU MAXIMUM
    ARG_MAX MINIMUM LESS NEG PADV2 GREATER GREATER_EQUAL LESS_EQUAL SELECT SLICE SIN TRANSPOSE_CONV SPARSE_TO_DENSE
    TILE EXPAND_DIMS EQUAL NOT_EQUAL LOG SUM SQRT RSQRT SHAPE POW ARG_MIN FAKE_QUANT REDUCE_PROD REDUCE_MAX PACK
    LOGICAL_OR ONE_HOT LOGICAL_AND LOGICAL_NOT UNPACK REDUCE_MIN FLOOR_DIV REDUCE_ANY SQUARE ZEROS_LIKE FILL
    FLOOR_MOD RANGE RESIZE_NEAREST_NEIGHBOR LEAKY_RELU SQUARED_DIFFERENCE MIRROR_PAD ABS SPLIT_V UNIQUE CEIL
    REVERSE_V2 ADD_N GATHER_ND COS WHERE RANK ELU REVERSE_SEQUENCE MATRIX_DIAG QUANTIZE MATRIX_SET_DIAG ROUND
    HARD_SWISH IF WHILE NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5 SCATTER_ND SELECT_V2 DENSIFY SEGMENT_SUM
    BATCH_MATMUL PLACEHOLDER_FOR_GREATER_OP_CODES CUMSUM CALL_ONCE BROADCAST_TO RFFT2D CONV_3D IMAG REAL COMPLEX_ABS
    HASHTABLE HASHTABLE_FIND HASHTABLE_IMPORT HASHTABLE_SIZE REDUCE_ALL CONV_3D_TRANSPOSE VAR_HANDLE READ_VARIABLE
    ASSIGN_VARIABLE BROADCAST_ARGS RANDOM_STANDARD_NORMAL BUCKETIZE RANDOM_UNIFORM MULTINOMIAL GELU
    DYNAMIC_UPDATE_SLICE RELU_0_TO_1 UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_SUM ATAN2
    UNSORTED_SEGMENT_MIN SIGN BITCAST BITWISE_XOR RIGHT_SHIFT
""".split()  # noqa: SIM905 - 160 names
)
