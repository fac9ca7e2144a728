"""A case for every operator of TensorFlow Lite that pdl reads: inputs, options, and the numbers by NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .flat import Lite

R = np.random.default_rng(0)


class Case(NamedTuple):
    """An operator: its inputs, of which floats are the model's and all else constants unless `fed` names them by place;
    its options; what it makes, one array or several."""

    op: str
    inputs: tuple[Any, ...]
    want: Any
    options: dict[str, Any]
    fed: tuple[int, ...]


def f(*shape: int, low: float = -2, high: float = 2) -> np.ndarray:
    return R.uniform(low, high, shape).astype(np.float32)


def ints(*values: Any) -> np.ndarray:
    return np.array(values[0] if len(values) == 1 else values, np.int32)


def case(op: str, inputs: Any, want: Any, fed: tuple[int, ...] = (), **options: Any) -> Case:
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    made = want(*inputs) if callable(want) else want
    return Case(op, inputs, made, options, fed)


def conv(
    x: Any, w: Any, b: Any = None, stride: Any = (1, 1), dilation: Any = (1, 1), same: bool = True, groups: int = 1
) -> np.ndarray:
    """x [N, H, W, C] with w [O, KH, KW, C / groups], window by window."""
    n, h, width, _ = x.shape
    o, kh, kw, c = w.shape
    sizes = []
    for size, k, s, d in ((h, kh, stride[0], dilation[0]), (width, kw, stride[1], dilation[1])):
        reach = d * (k - 1) + 1
        out = -(-size // s) if same else (size - reach) // s + 1
        total = max(0, (out - 1) * s + reach - size) if same else 0
        sizes.append((out, total // 2, total - total // 2))
    (oh, top, bottom), (ow, left, right) = sizes
    x = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)))
    y = np.zeros((n, oh, ow, o))
    per = o // groups
    for i in range(oh):
        for j in range(ow):
            rows = slice(i * stride[0], i * stride[0] + dilation[0] * (kh - 1) + 1, dilation[0])
            columns = slice(j * stride[1], j * stride[1] + dilation[1] * (kw - 1) + 1, dilation[1])
            for g in range(groups):
                cells = x[:, rows, columns, g * c : (g + 1) * c]
                y[:, i, j, g * per : (g + 1) * per] = np.einsum("nhwc,ohwc->no", cells, w[g * per : (g + 1) * per])
    return y if b is None else y + b


def depthwise(x: Any, w: Any, b: Any, **how: Any) -> np.ndarray:
    """w [1, KH, KW, C multiplier]."""
    return conv(x, np.transpose(w, (3, 1, 2, 0)), b, groups=x.shape[-1], **how)


def transposed(shape: Any, w: Any, x: Any, b: Any, stride: int, same: bool) -> np.ndarray:
    """The gradient of a convolution: every x adds w to the cells that it was made of."""
    n, h, width, _ = x.shape
    o, kh, kw, _ = w.shape
    edge = [max(0, (-(-size // stride) - 1) * stride + k - size) // 2 if same else 0
            for size, k in ((shape[1], kh), (shape[2], kw))]  # fmt: skip
    y = np.zeros((n, h * stride + kh + shape[1], width * stride + kw + shape[2], o))
    for i in range(h):
        for j in range(width):
            y[:, i * stride : i * stride + kh, j * stride : j * stride + kw] += np.einsum(
                "nc,ohwc->nhwo", x[:, i, j], w)  # fmt: skip
    return y[:, edge[0] : edge[0] + shape[1], edge[1] : edge[1] + shape[2]] + b


def pooled(x: Any, reduce: Callable[..., Any], same: bool = False) -> np.ndarray:
    """Windows of 2 x 2, steps of 2; cells outside do not count."""
    x = np.pad(x.astype(float), ((0, 0), *((0, n % 2 if same else 0) for n in x.shape[1:3]), (0, 0)),
               constant_values=np.nan)  # fmt: skip
    n, h, w, c = x.shape
    x = x[:, : h // 2 * 2, : w // 2 * 2]
    return reduce(x.reshape(n, h // 2, 2, w // 2, 2, c), axis=(2, 4))


def resized(x: Any, size: Any, kind: str, rule: str) -> np.ndarray:
    """Along height, then width."""
    for axis, new in ((1, size[0]), (2, size[1])):
        old = x.shape[axis]
        i = np.arange(new)
        corners = i * (old - 1) / max(new - 1, 1)
        at = {"corners": corners, "half": (i + 0.5) * old / new - 0.5, "plain": i * old / new}[rule]
        if kind == "nearest":
            cells = np.floor(at) if rule == "plain" else np.floor(at + 0.5)
            x = np.take(x, np.clip(cells, 0, old - 1).astype(int), axis)
            continue
        at = np.maximum(at, 0)
        below = np.minimum(np.floor(at), old - 1).astype(int)
        part = (at - below).reshape([-1 if a == axis else 1 for a in range(4)])
        x = np.take(x, below, axis) * (1 - part) + np.take(x, np.minimum(below + 1, old - 1), axis) * part
    return x


def softmax(x: Any) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def sigmoid(x: Any) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def blocks_to_depth(x: Any, b: int) -> np.ndarray:
    n, h, w, c = x.shape
    return x.reshape(n, h // b, b, w // b, b, c).transpose(0, 1, 3, 2, 4, 5).reshape(n, h // b, w // b, -1)


def lrn(x: Any, radius: int, bias: float, alpha: float, beta: float) -> np.ndarray:
    c = x.shape[-1]
    sums = np.stack([np.square(x[..., max(0, i - radius) : i + radius + 1]).sum(-1) for i in range(c)], -1)
    return x / (bias + alpha * sums) ** beta


_erf = np.vectorize(math.erf)
IMAGE, ODD = f(2, 5, 6, 3), f(1, 5, 7, 2)
NET: dict[str, Any] = {"stride_w": 1, "stride_h": 1, "dilation_w": 1, "dilation_h": 1, "activation": "NONE"}
POOL: dict[str, Any] = {"stride_w": 2, "stride_h": 2, "filter_width": 2, "filter_height": 2, "activation": "NONE"}
FC: dict[str, Any] = {"activation": "NONE", "weights_format": "DEFAULT"}
ROWS = f(3, 4)
W, B = f(4, 3, 2, 3), f(4)
DW, DB = f(1, 3, 3, 6), f(6)
TW, TB = f(4, 3, 2, 3), f(4)
MASK = np.array([[True, False, True, False]] * 3)
STEP = np.float32(2.3 / 255)
_SLICED: dict[str, Any] = dict.fromkeys(
    ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"), 0
)

CASES: list[Case] = [
    case("CONV_2D", (IMAGE, W, B), lambda x, w, b: conv(x, w, b, (2, 1)), **{**NET, "stride_h": 2, "padding": "SAME"}),
    case("CONV_2D", (IMAGE, W, B), lambda x, w, b: np.maximum(conv(x, w, b, (1, 1), (2, 1), same=False), 0),
         **{**NET, "dilation_h": 2, "padding": "VALID", "activation": "RELU"}),
    case("DEPTHWISE_CONV_2D", (IMAGE, DW, DB), lambda x, w, b: np.clip(depthwise(x, w, b, stride=(2, 2)), 0, 6),
         **{**NET, "stride_h": 2, "stride_w": 2, "padding": "SAME", "activation": "RELU6"}),
    case("CONV_3D", (f(1, 4, 5, 3, 2), f(1, 3, 1, 2, 3)),
         lambda x, w: np.stack([conv(x[:, i], w[0].transpose(3, 0, 1, 2)) for i in range(4)], 1), padding="SAME",
         stride_d=1, stride_h=1, stride_w=1, dilation_d=1, dilation_h=1, dilation_w=1, activation="NONE"),
    case("TRANSPOSE_CONV", (ints(2, 9, 12, 4), TW, IMAGE, TB), lambda s, w, x, b: transposed(s, w, x, b, 2, True),
         padding="SAME", stride_h=2, stride_w=2, activation="NONE"),
    case("TRANSPOSE_CONV", (ints(2, 11, 12, 4), TW, IMAGE, TB), lambda s, w, x, b: transposed(s, w, x, b, 2, False),
         padding="VALID", stride_h=2, stride_w=2, activation="NONE"),
    case("MAX_POOL_2D", ODD, lambda x: pooled(x, np.nanmax, same=True), padding="SAME", **POOL),
    case("AVERAGE_POOL_2D", ODD, lambda x: pooled(x, np.nanmean, same=True), padding="SAME", **POOL),
    case("L2_POOL_2D", ODD, lambda x: np.sqrt(pooled(np.square(x), np.nanmean)), padding="VALID", **POOL),
    case("FULLY_CONNECTED", (f(2, 3, 4), f(5, 4), f(5)), lambda x, w, b: x @ w.T + b, keep_num_dims=True, **FC),
    case("FULLY_CONNECTED", (f(2, 2, 2), f(5, 4), f(5)), lambda x, w, b: x.reshape(2, 4) @ w.T + b,
         keep_num_dims=False, **FC),
    case("BATCH_MATMUL", (f(2, 3, 4), f(2, 5, 3)), lambda a, b: a.transpose(0, 2, 1) @ b.transpose(0, 2, 1), adj_x=True,
         adj_y=True),
    case("EMBEDDING_LOOKUP", (ints(2, 0, 1), f(4, 3)), lambda i, t: t[i], fed=(0,)),
    # element by element
    case("ADD", (ROWS, f(4)), lambda a, b: np.clip(a + b, -1, 1), activation="RELU_N1_TO_1"),
    case("SUB", (ROWS, f(3, 4)), lambda a, b: a - b, activation="NONE"),
    case("MUL", (ROWS, f(3, 1)), lambda a, b: np.clip(a * b, 0, 6), activation="RELU6"),
    case("DIV", (ROWS, f(3, 4, low=1)), lambda a, b: a / b, activation="NONE"),
    case("POW", (f(3, 4, low=0.5), f(4)), lambda a, b: a**b),
    case("MAXIMUM", (ROWS, f(3, 4)), np.maximum),
    case("MINIMUM", (ROWS, f(3, 4)), np.minimum),
    case("SQUARED_DIFFERENCE", (ROWS, f(3, 4)), lambda a, b: (a - b) ** 2),
    case("FLOOR_DIV", (ROWS, f(3, 4, low=1)), np.floor_divide),
    case("FLOOR_DIV", (ints(-7, 7, 9), ints(2, -2, 3)), np.floor_divide, fed=(0, 1)),
    case("FLOOR_MOD", (ints(-7, 7, 9), ints(2, -2, 4)), np.mod, fed=(0, 1)),
    case("ATAN2", (ROWS, f(3, 4)), np.arctan2),
    case("ADD_N", (ROWS, f(3, 4), f(3, 4)), lambda a, b, c: a + b + c),
    case("LESS", (ROWS, f(3, 4)), np.less),
    case("LESS_EQUAL", (ROWS, ROWS), np.less_equal),
    case("GREATER", (ROWS, f(3, 4)), np.greater),
    case("GREATER_EQUAL", (ROWS, ROWS), np.greater_equal),
    case("EQUAL", (ROWS, ROWS), np.equal),
    case("NOT_EQUAL", (ROWS, f(3, 4)), np.not_equal),
    case("LOGICAL_AND", (MASK, ~MASK), np.logical_and, fed=(0, 1)),
    case("LOGICAL_OR", (MASK, ~MASK), np.logical_or, fed=(0, 1)),
    case("LOGICAL_NOT", MASK, np.logical_not, fed=(0,)),
    case("SELECT", (np.array([True, False, True]), ROWS, f(3, 4)), lambda c, a, b: np.where(c[:, None], a, b),
         fed=(0,)),
    case("SELECT_V2", (MASK, ROWS, f(4)), np.where, fed=(0,)),
    *(case(name, ROWS, want) for name, want in {
        "ABS": np.abs, "NEG": np.negative, "SIGN": np.sign, "FLOOR": np.floor, "CEIL": np.ceil, "ROUND": np.rint,
        "EXP": np.exp, "SIN": np.sin, "COS": np.cos, "SQUARE": np.square, "TANH": np.tanh, "LOGISTIC": sigmoid,
        "RELU": lambda x: np.maximum(x, 0), "RELU6": lambda x: np.clip(x * 1, 0, 6),
        "RELU_N1_TO_1": lambda x: np.clip(x, -1, 1), "RELU_0_TO_1": lambda x: np.clip(x, 0, 1),
        "ELU": lambda x: np.where(x > 0, x, np.expm1(x)), "HARD_SWISH": lambda x: x * np.clip(x + 3, 0, 6) / 6,
        "LOG_SOFTMAX": lambda x: np.log(softmax(x)), "ZEROS_LIKE": np.zeros_like,
    }.items()),
    case("SQRT", f(3, 4, low=0.1), np.sqrt),
    case("RSQRT", f(3, 4, low=0.1), lambda x: 1 / np.sqrt(x)),
    case("LOG", f(3, 4, low=0.1), np.log),
    case("LEAKY_RELU", ROWS, lambda x: np.where(x > 0, x, 0.1 * x), alpha=0.1),
    case("PRELU", (IMAGE, f(1, 1, 3)), lambda x, a: np.where(x > 0, x, a * x)),
    case("GELU", ROWS, lambda x: x * (1 + _erf(x / math.sqrt(2))) / 2, approximate=False),
    case("GELU", ROWS, lambda x: x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2,
         approximate=True),
    case("SOFTMAX", ROWS, lambda x: softmax(2 * x), beta=2.0),
    case("L2_NORMALIZATION", ROWS, lambda x: x / np.sqrt((x * x).sum(-1, keepdims=True)), activation="NONE"),
    case("LOCAL_RESPONSE_NORMALIZATION", f(1, 2, 2, 6), lambda x: lrn(x, 2, 1.5, 0.2, 0.5), radius=2, bias=1.5,
         alpha=0.2, beta=0.5),
    case("CAST", ROWS * 3, lambda x: x.astype(np.int32)),
    case("QUANTIZE", ROWS, lambda x: x),
    case("DEQUANTIZE", np.array([[0.5, -2]], np.float16), lambda x: x.astype(np.float32)),
    case("FAKE_QUANT", ROWS, lambda x: np.clip(np.floor(x / STEP + 0.5), -111, 144) * STEP, low=-1.0, high=1.3,
         num_bits=8, narrow_range=False),
    # along axes
    case("MEAN", (IMAGE, ints([1, 2])), lambda x, a: x.mean((1, 2)), keep_dims=False),
    case("SUM", (IMAGE, ints(-1)), lambda x, a: x.sum(-1, keepdims=True), keep_dims=True),
    case("REDUCE_PROD", (ROWS, ints([0])), lambda x, a: x.prod(0), keep_dims=False),
    case("REDUCE_MAX", (IMAGE, ints([1, 3])), lambda x, a: x.max((1, 3)), keep_dims=False),
    case("REDUCE_MIN", (IMAGE, ints([2])), lambda x, a: x.min(2), keep_dims=False),
    case("REDUCE_ANY", (MASK, ints([1])), lambda x, a: x.any(1), keep_dims=False, fed=(0,)),
    case("REDUCE_ALL", (MASK, ints([0])), lambda x, a: x.all(0), keep_dims=False, fed=(0,)),
    case("ARG_MAX", (ROWS, ints(-1)), lambda x, a: x.argmax(-1).astype(np.int32)),
    case("ARG_MIN", (ROWS, ints(0)), lambda x, a: x.argmin(0).astype(np.int32)),
    case("CUMSUM", (ROWS, ints(1)), lambda x, a: np.cumsum(x[:, ::-1], 1)[:, ::-1] - x, exclusive=True, reverse=True),
    case("TOPK_V2", (ROWS, ints(2)),
         lambda x, k: [np.sort(x)[:, ::-1][:, :2], np.argsort(-x)[:, :2].astype(np.int32)]),
    *(case(f"RESIZE_{name}", (IMAGE, ints([7, 3])), lambda x, s, k=kind, r=rule: resized(x, s, k, r),
           align_corners=rule == "corners", half_pixel_centers=rule == "half")
      for name, kind in (("BILINEAR", "linear"), ("NEAREST_NEIGHBOR", "nearest"))
      for rule in ("corners", "half", "plain")),
    # moves
    case("RESHAPE", (ROWS, ints([2, -1])), lambda x, s: x.reshape(2, 6), new_shape=[2, -1]),
    case("SQUEEZE", f(1, 3, 1, 4), lambda x: x[0], squeeze_dims=[0]),
    case("EXPAND_DIMS", (ROWS, ints(1)), lambda x, a: x[:, None]),
    case("TRANSPOSE", (IMAGE, ints([0, 3, 1, 2])), lambda x, p: x.transpose(0, 3, 1, 2)),
    case("BROADCAST_TO", (f(1, 4), ints([3, 4])), lambda x, s: np.broadcast_to(x, (3, 4)), version=2),
    case("BROADCAST_ARGS", (ints([1, 4]), ints([3, 1])), ints([3, 4])),
    case("FILL", (ints([2, 3]), f(1)[0]), lambda s, v: np.full((2, 3), v)),
    case("TILE", (ROWS, ints([2, 1])), lambda x, r: np.tile(x, (2, 1))),
    case("SHAPE", ROWS, ints([3, 4])),
    case("RANK", ROWS, ints(2)),
    case("RANGE", (ints(2), ints(9), ints(3)), ints([2, 5, 8])),
    case("CONCATENATION", (ROWS, f(2, 4)), lambda a, b: np.concatenate([a, b]), axis=0, activation="NONE"),
    case("PACK", (ROWS, f(3, 4)), lambda a, b: np.stack([a, b], 1), axis=1),
    case("UNPACK", ROWS, lambda x: list(x.T), num=4, axis=1),
    case("SPLIT", (ints(1), ROWS), lambda a, x: np.split(x, 2, 1), num_splits=2),
    case("SPLIT_V", (ROWS, ints([1, -1]), ints(1)), lambda x, s, a: [x[:, :1], x[:, 1:]], num_splits=2),
    case("SLICE", (IMAGE, ints([0, 1, 2, 0]), ints([-1, 3, -1, 2])), lambda x, b, s: x[:, 1:4, 2:, :2]),
    case("STRIDED_SLICE", (IMAGE, ints([0, -1, 5, 1]), ints([0, 0, -7, 3]), ints([1, 1, -2, 1])),
         lambda x, b, e, s: x[:, -1, ::-2, 1:3],
         **{**_SLICED, "begin_mask": 1, "end_mask": 1, "shrink_axis_mask": 2}),
    case("STRIDED_SLICE", (IMAGE, ints([1, 0, 0, 1]), ints([2, 0, 0, 3]), ints([1, 1, 1, 1])),
         lambda x, b, e, s: x[1:2, ..., None, 1:3],
         **{**_SLICED, "ellipsis_mask": 2, "new_axis_mask": 4}),
    case("REVERSE_V2", (ROWS, ints([1])), lambda x, a: x[:, ::-1]),
    case("PAD", (ROWS, ints([[1, 0], [2, 1]])), lambda x, p: np.pad(x, p)),
    case("PADV2", (ROWS, ints([[1, 0], [2, 1]]), np.float32(7)), lambda x, p, v: np.pad(x, p, constant_values=7)),
    case("MIRROR_PAD", (ROWS, ints([[1, 0], [2, 1]])), lambda x, p: np.pad(x, p, "reflect"), mode="REFLECT"),
    case("MIRROR_PAD", (ROWS, ints([[1, 0], [2, 4]])), lambda x, p: np.pad(x, p, "symmetric"), mode="SYMMETRIC"),
    case("GATHER", (ROWS, ints([[3, 0]])), lambda x, i: np.take(x, i, 1), axis=1, batch_dims=0, fed=(1,)),
    case("GATHER", (f(2, 3, 4), ints([[2, 0], [1, 1]])), lambda x, i: np.take_along_axis(x, i[..., None], 1), axis=1,
         batch_dims=1, fed=(1,)),
    case("GATHER_ND", (ROWS, ints([[2, 0], [0, 3]])), lambda x, i: x[i[:, 0], i[:, 1]]),
    case("SCATTER_ND", (ints([[2], [0], [2]]), f(3, 2), ints([4, 2])),
         lambda i, u, s: np.stack([u[1], 0 * u[0], u[0] + u[2], 0 * u[0]])),
    case("ONE_HOT", (ints(2, 0, 5), ints(4), np.float32(3), np.float32(-1)),
         lambda i, d, a, b: np.where(i[:, None] == np.arange(4), np.float32(3), np.float32(-1)), axis=-1, fed=(0,)),
    case("WHERE", np.array([True, False, True]), lambda c: np.argwhere(c), fed=(0,)),
    case("DEPTH_TO_SPACE", blocks_to_depth(f(1, 4, 6, 2), 2), lambda x: x.reshape(1, 2, 3, 2, 2, 2)
         .transpose(0, 1, 3, 2, 4, 5).reshape(1, 4, 6, 2), block_size=2),
    case("SPACE_TO_DEPTH", f(1, 4, 6, 2), lambda x: blocks_to_depth(x, 2), block_size=2),
    case("SPACE_TO_BATCH_ND", (f(1, 3, 4, 2), ints([2, 2]), ints([[1, 0], [0, 0]])),
         lambda x, b, p: np.concatenate([np.pad(x, ((0, 0), (1, 0), (0, 0), (0, 0)))[:, i::2, j::2]
                                         for i in range(2) for j in range(2)])),
    case("BATCH_TO_SPACE_ND", (f(4, 2, 2, 1), ints([2, 2]), ints([[0, 1], [1, 0]])),
         lambda x, b, c: x.reshape(2, 2, 2, 2).transpose(2, 0, 3, 1).reshape(1, 4, 4, 1)[:, :3, 1:]),
]  # fmt: skip


def built(each: Case) -> tuple[bytes, dict[str, np.ndarray], list[np.ndarray]]:
    """The model of a case, what is fed to it, and what it makes."""
    lite, places, feeds = Lite(), [], {}
    for i, x in enumerate(each.inputs):
        x = np.asarray(x)
        given = i in each.fed or (x.dtype == np.float32 and x.ndim > 0)
        name = f"in{i}"
        places.append(lite.tensor(name, x.shape, x.dtype.name) if given else lite.constant(name, x))
        if given:
            feeds[name] = x
    wants = [np.asarray(w) for w in (each.want if isinstance(each.want, list) else [each.want])]
    kinds = [w.astype(np.float32) if w.dtype == np.float64 else w for w in wants]
    ends = [lite.tensor(f"out{i}", w.shape, w.dtype.name) for i, w in enumerate(kinds)]
    lite.op(each.op, places, ends, **dict(each.options))
    begins = [p for i, p in enumerate(places) if f"in{i}" in feeds]
    return lite.file(begins, ends), feeds, kinds
