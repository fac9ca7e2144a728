"""Paddle's inference models: every operation of a table by NumPy, in both forms of a program; a net; damaged pairs."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdl.runtime
from pdl.cli import main
from pdl.errors import UsageError
from pdl.hub.paddle import read_paddle
from pdl.onnx import load_model
from pdl.onnx.paddle_legacy import LEGACY
from pdl.onnx.registry import TABLE, load_table

from .lite_cases import conv, f, pooled, resized, sigmoid, softmax, transposed
from .paddled import Paddled

ROWS, IMAGE = f(3, 4), f(2, 3, 6, 5)
W, DW, TW = f(4, 3, 3, 3), f(3, 1, 3, 3), f(3, 4, 2, 2)
C = f(3, low=0.5)
MASK = np.array([[True, False, True, False]] * 3)


def last(x: Any) -> Any:
    return np.moveaxis(x, 1, -1)


def first(x: Any) -> Any:
    return np.moveaxis(x, -1, 1)


def window(x: Any, w: Any, pad: int, **how: Any) -> Any:
    x = np.pad(last(x), ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    return first(conv(x, np.moveaxis(w, 1, -1), same=False, **how))


NET: dict[str, Any] = {"strides": [2, 1], "paddings": [1, 1], "dilations": [1, 1], "groups": 1, "data_format": "NCHW",
                       "padding_algorithm": "EXPLICIT"}  # fmt: skip
POOL: dict[str, Any] = {
    "strides": [2, 2], "paddings": [0, 0], "ceil_mode": False, "exclusive": True, "data_format": "NCHW",
    "global_pooling": False, "adaptive": False, "padding_algorithm": "EXPLICIT",
}  # fmt: skip
INTERP: dict[str, Any] = {"data_layout": "NCHW", "out_d": -1, "out_h": 9, "out_w": 4, "scale": []}

#: operation of a ProgramDesc, inputs by parameter (arrays are fed, {"w": array} are weights), attributes, what it makes
OLD: list[tuple[str, dict[str, Any], dict[str, Any], Any]] = [
    ("conv2d", {"Input": IMAGE, "Filter": {"w": W}}, NET, window(IMAGE, W, 1, stride=(2, 1))),
    ("conv2d", {"Input": IMAGE, "Filter": {"w": W}}, {**NET, "padding_algorithm": "SAME"},
     first(conv(last(IMAGE), np.moveaxis(W, 1, -1), stride=(2, 1)))),
    ("depthwise_conv2d", {"Input": IMAGE, "Filter": {"w": DW}}, {**NET, "groups": 3},
     window(IMAGE, DW, 1, stride=(2, 1), groups=3)),
    ("conv2d_transpose", {"Input": IMAGE, "Filter": {"w": TW}}, {**NET, "strides": [2, 2], "paddings": [0, 0]},
     first(transposed((2, 12, 10, 4), np.transpose(TW, (1, 2, 3, 0)), last(IMAGE), 0, 2, False))),
    ("conv2d_transpose", {"Input": IMAGE, "Filter": {"w": TW}},
     {**NET, "strides": [2, 2], "paddings": [0, 0], "output_size": [13, 11]},
     first(transposed((2, 13, 11, 4), np.transpose(TW, (1, 2, 3, 0)), last(IMAGE), 0, 2, False))),
    ("pool2d", {"X": IMAGE}, {**POOL, "ksize": [2, 2], "pooling_type": "max"}, first(pooled(last(IMAGE), np.nanmax))),
    ("pool2d", {"X": IMAGE}, {**POOL, "ksize": [2, 2], "pooling_type": "avg", "ceil_mode": True},
     first(pooled(last(IMAGE), np.nanmean, same=True))),
    ("pool2d", {"X": IMAGE}, {**POOL, "ksize": [1, 1], "pooling_type": "avg", "adaptive": True},
     IMAGE.mean((2, 3), keepdims=True)),
    ("pool2d", {"X": f(1, 2, 4, 6)}, {**POOL, "ksize": [2, 3], "pooling_type": "max", "adaptive": True},
     lambda x: x.reshape(1, 2, 2, 2, 3, 2).max((3, 5))),
    ("pool2d", {"X": IMAGE}, {**POOL, "ksize": [2, 2], "pooling_type": "max", "global_pooling": True},
     IMAGE.max((2, 3), keepdims=True)),
    ("batch_norm", {"X": IMAGE, "Mean": {"m": C}, "Variance": {"v": C + 1}, "Scale": {"s": C * 2}, "Bias": {"b": C}},
     {"epsilon": 0.1, "data_layout": "NCHW"},
     first((last(IMAGE) - C) / np.sqrt(C + 1.1) * (C * 2) + C)),
    ("layer_norm", {"X": f(2, 3, 4), "Scale": {"s": f(12)}, "Bias": {"b": np.zeros(12, np.float32)}},
     {"epsilon": 0.1, "begin_norm_axis": 1},
     lambda x, s, b: s.reshape(3, 4) * (x - x.mean((1, 2), keepdims=True))
     / np.sqrt(x.var((1, 2), keepdims=True) + 0.1)),
    ("instance_norm", {"X": IMAGE, "Scale": {"s": C}, "Bias": {"b": C}}, {"epsilon": 0.1},
     first((last(IMAGE) - IMAGE.mean((2, 3))[:, None, None])
           / np.sqrt(IMAGE.var((2, 3)) + 0.1)[:, None, None] * C + C)),
    ("group_norm", {"X": f(2, 4, 3, 3)}, {"epsilon": 0.1, "groups": 2, "data_layout": "NCHW"},
     lambda x: ((g := x.reshape(2, 2, -1)) - g.mean(-1, keepdims=True)).reshape(x.shape)
     / np.sqrt(np.repeat(g.var(-1), 2, 1) + 0.1)[..., None, None]),
    ("mul", {"X": f(2, 3, 4), "Y": {"w": f(4, 5)}}, {"x_num_col_dims": 2, "y_num_col_dims": 1}, lambda x, w: x @ w),
    ("matmul", {"X": ROWS, "Y": f(3, 5)}, {"transpose_X": True, "transpose_Y": False, "alpha": 0.5},
     lambda a, b: a.T @ b / 2),
    ("matmul_v2", {"X": ROWS, "Y": f(5, 4)}, {"trans_x": False, "trans_y": True}, lambda a, b: a @ b.T),
    ("bmm", {"X": f(2, 3, 4), "Y": f(2, 4, 5)}, {}, np.matmul),
    ("lookup_table_v2", {"Ids": np.array([[2, 0, 1]]), "W": {"t": f(4, 3)}}, {"padding_idx": {"long": 0}},
     lambda i, t: np.where(i[..., None] == 0, 0, t[i])),
    ("lookup_table", {"Ids": np.array([[2], [1]]), "W": {"t": f(4, 3)}}, {"padding_idx": {"long": -1}},
     lambda i, t: t[i[:, 0]]),
    ("elementwise_add", {"X": IMAGE, "Y": {"b": C}}, {"axis": 1}, lambda x, b: x + b[:, None, None]),
    ("elementwise_mul", {"X": IMAGE, "Y": f(2, 3)}, {"axis": 0}, lambda x, y: x * y[..., None, None]),
    ("elementwise_sub", {"X": ROWS, "Y": f(4)}, {"axis": -1}, np.subtract),
    ("elementwise_div", {"X": ROWS, "Y": f(4, low=1)}, {"axis": -1}, np.divide),
    ("elementwise_max", {"X": ROWS, "Y": f(4)}, {"axis": -1}, np.maximum),
    ("elementwise_min", {"X": ROWS, "Y": f(4)}, {"axis": -1}, np.minimum),
    ("elementwise_pow", {"X": f(3, 4, low=0.5), "Y": f(4)}, {"axis": -1}, np.power),
    ("elementwise_mod", {"X": np.array([7, -7]), "Y": np.array([4, 4])}, {"axis": -1}, np.mod),
    ("elementwise_floordiv", {"X": np.array([7, 9]), "Y": np.array([4, 4])}, {"axis": -1}, np.floor_divide),
    *((name, {"X": ROWS, "Y": ROWS[::-1].copy()}, {"axis": -1}, want) for name, want in {
        "equal": np.equal, "not_equal": np.not_equal, "less_than": np.less, "less_equal": np.less_equal,
        "greater_than": np.greater, "greater_equal": np.greater_equal}.items()),
    *((name, {"X": MASK, "Y": ~MASK[:, ::-1]}, {}, want) for name, want in {
        "logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor}.items()),
    ("logical_not", {"X": MASK}, {}, np.logical_not),
    *((name, {"X": f(3, 4, low=0.1)}, {}, want) for name, want in {
        "relu": lambda x: np.maximum(x, 0), "sigmoid": sigmoid, "tanh": np.tanh, "silu": lambda x: x * sigmoid(x),
        "exp": np.exp, "log": np.log, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "abs": np.abs,
        "floor": np.floor, "ceil": np.ceil, "round": np.rint, "square": np.square, "sin": np.sin, "cos": np.cos,
        "erf": np.vectorize(math.erf), "sign": np.sign, "reciprocal": np.reciprocal, "softsign": lambda x: x / (1 + x),
        "logsigmoid": lambda x: np.log(sigmoid(x)), "assign": np.copy}.items()),
    ("hard_swish", {"X": ROWS}, {"threshold": 6.0, "scale": 6.0, "offset": 3.0},
     lambda x: x * np.clip(x + 3, 0, 6) / 6),
    ("hard_swish", {"X": ROWS}, {"threshold": 2.0, "scale": 2.0, "offset": 1.0},
     lambda x: x * np.clip(x + 1, 0, 2) / 2),
    ("hard_sigmoid", {"X": ROWS}, {"slope": 0.25, "offset": 0.5}, lambda x: np.clip(x / 4 + 0.5, 0, 1)),
    ("swish", {"X": ROWS}, {"beta": 1.5}, lambda x: x * sigmoid(1.5 * x)),
    ("mish", {"X": ROWS}, {"threshold": 20.0}, lambda x: x * np.tanh(np.log1p(np.exp(x)))),
    ("leaky_relu", {"X": ROWS}, {"alpha": 0.25}, lambda x: np.where(x > 0, x, x / 4)),
    ("elu", {"X": ROWS}, {"alpha": 2.0}, lambda x: np.where(x > 0, x, 2 * np.expm1(x))),
    ("gelu", {"X": ROWS}, {"approximate": False}, lambda x: x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2),
    ("relu6", {"X": ROWS * 5}, {"threshold": 6.0}, lambda x: np.clip(x, 0, 6)),
    ("softplus", {"X": ROWS}, {"beta": 2.0, "threshold": 20.0}, lambda x: np.log1p(np.exp(2 * x)) / 2),
    ("prelu", {"X": IMAGE, "Alpha": {"a": C}}, {"mode": "channel", "data_format": "NCHW"},
     lambda x, a: np.where(x > 0, x, x * a[:, None, None])),
    ("softmax", {"X": ROWS}, {"axis": 0}, lambda x: softmax(x.T).T),
    ("log_softmax", {"X": ROWS}, {"axis": -1}, lambda x: np.log(softmax(x))),
    ("pow", {"X": ROWS}, {"factor": 3.0}, lambda x: x**3),
    ("clip", {"X": ROWS}, {"min": -1.0, "max": 0.5}, lambda x: np.clip(x, -1, 0.5)),
    ("scale", {"X": ROWS}, {"scale": 2.0, "bias": 1.0, "bias_after_scale": False}, lambda x: (x + 1) * 2),
    ("scale", {"X": np.array([3, 4])}, {"scale": 2.0, "bias": 1.0, "bias_after_scale": True}, lambda x: x * 2 + 1),
    ("sum", {"X": [ROWS, f(3, 4)]}, {}, lambda a, b: a + b),
    ("mean", {"X": ROWS}, {}, np.mean),
    ("dropout", {"X": ROWS}, {"dropout_prob": 0.25, "dropout_implementation": "downgrade_in_infer"},
     lambda x: x * 0.75),
    ("dropout", {"X": ROWS}, {"dropout_prob": 0.25, "dropout_implementation": "upscale_in_train"}, np.copy),
    ("p_norm", {"X": ROWS}, {"porder": 2.0, "axis": 1, "epsilon": 1e-12, "keepdim": True, "asvector": False},
     lambda x: np.sqrt((x * x).sum(1, keepdims=True))),
    *((f"reduce_{name}", {"X": IMAGE}, {"dim": [1, -1], "keep_dim": False, "reduce_all": False}, want)
      for name, want in {"mean": lambda x: x.mean((1, 3)), "sum": lambda x: x.sum((1, 3)),
                         "max": lambda x: x.max((1, 3)), "min": lambda x: x.min((1, 3)),
                         "prod": lambda x: x.prod((1, 3))}.items()),
    ("reduce_any", {"X": MASK}, {"dim": [0], "keep_dim": True, "reduce_all": True}, lambda x: x.any(keepdims=True)),
    ("reduce_all", {"X": MASK}, {"dim": [0], "keep_dim": False, "reduce_all": False}, lambda x: x.all(0)),
    ("arg_max", {"X": ROWS}, {"axis": {"long": 1}, "keepdims": False, "flatten": False, "dtype": {"dtype": "int32"}},
     lambda x: x.argmax(1).astype(np.int32)),
    ("arg_min", {"X": ROWS}, {"axis": {"long": 0}, "keepdims": True, "flatten": False, "dtype": {"dtype": "int64"}},
     lambda x: x.argmin(0)[None]),
    ("cumsum", {"X": ROWS}, {"axis": 1, "exclusive": False, "reverse": False, "flatten": False}, lambda x: x.cumsum(1)),
    # shapes
    ("shape", {"Input": ROWS}, {}, np.array([3, 4])),
    ("reshape2", {"X": IMAGE}, {"shape": [0, -1, 5]}, lambda x: x.reshape(2, 18, 5)),
    ("reshape2", {"X": IMAGE, "ShapeTensor": [{"a": np.array([-1])}, {"b": np.array([15])}]}, {"shape": [-1, 3]},
     lambda x, *_: x.reshape(-1, 15)),
    ("transpose2", {"X": IMAGE}, {"axis": [0, 2, 3, 1]}, last),
    ("flatten_contiguous_range", {"X": IMAGE}, {"start_axis": 1, "stop_axis": 2}, lambda x: x.reshape(2, 18, 5)),
    ("flatten2", {"X": IMAGE}, {"axis": 2}, lambda x: x.reshape(6, 30)),
    ("squeeze2", {"X": f(1, 3, 1, 2)}, {"axes": [0, 1]}, lambda x: x[0]),
    ("unsqueeze2", {"X": ROWS}, {"axes": [1, -1]}, lambda x: x[:, None, :, None]),
    ("concat", {"X": [ROWS, f(2, 4)]}, {"axis": 0}, lambda a, b: np.concatenate([a, b])),
    ("stack", {"X": [ROWS, f(3, 4)]}, {"axis": 1}, lambda a, b: np.stack([a, b], 1)),
    ("unstack", {"X": ROWS}, {"axis": 0, "num": 3}, lambda x: list(x)),
    ("split", {"X": ROWS}, {"num": 2, "sections": [], "axis": 1}, lambda x: np.split(x, 2, 1)),
    ("split", {"X": ROWS}, {"num": 0, "sections": [1, -1], "axis": 1}, lambda x: [x[:, :1], x[:, 1:]]),
    ("slice", {"Input": IMAGE}, {"axes": [1, 2], "starts": [1, -3], "ends": [2, 100], "decrease_axis": [1]},
     lambda x: x[:, 1, -3:]),
    ("strided_slice", {"Input": IMAGE}, {"axes": [2], "starts": [5], "ends": [-7], "strides": [-2]},
     lambda x: x[:, :, ::-2]),
    ("expand_v2", {"X": f(1, 4)}, {"shape": [3, -1]}, lambda x: np.broadcast_to(x, (3, 4))),
    ("expand_as_v2", {"X": f(1, 4), "Y": ROWS}, {"target_shape": [3, 4]}, lambda x, y: np.broadcast_to(x, (3, 4))),
    ("tile", {"X": ROWS}, {"repeat_times": [2, 1, 2]}, lambda x: np.tile(x, (2, 1, 2))),
    ("pad3d", {"X": f(1, 2, 3, 4, 2)}, {"paddings": [1, 0, 2, 1, 0, 1], "mode": "constant", "value": 3.0,
                                         "data_format": "NCDHW"},
     lambda x: np.pad(x, ((0, 0), (0, 0), (0, 1), (2, 1), (1, 0)), constant_values=3)),
    ("pad2d", {"X": IMAGE}, {"paddings": [1, 0, 2, 1], "mode": "reflect", "pad_value": 0.0, "data_format": "NCHW"},
     lambda x: np.pad(x, ((0, 0), (0, 0), (1, 0), (2, 1)), "reflect")),
    ("pixel_shuffle", {"X": f(1, 8, 2, 3)}, {"upscale_factor": 2, "data_format": "NCHW"},
     lambda x: x.reshape(1, 2, 2, 2, 2, 3).transpose(0, 1, 4, 2, 5, 3).reshape(1, 2, 4, 6)),
    *((f"{name}_interp_v2", {"X": IMAGE},
       {**INTERP, "interp_method": name, "align_corners": corners, "align_mode": mode},
       first(resized(last(IMAGE), (9, 4), "nearest" if name == "nearest" else "linear", rule)))
      for name, corners, mode, rule in (("nearest", False, 1, "plain"), ("nearest", True, 1, "corners"),
                                        ("bilinear", False, 0, "half"), ("bilinear", False, 1, "plain"),
                                        ("bilinear", True, 0, "corners"))),
    ("nearest_interp_v2", {"X": IMAGE},
     {**INTERP, "scale": [2.0, 2.0], "align_corners": False, "interp_method": "nearest"},
     lambda x: x.repeat(2, 2).repeat(2, 3)),
    # choosing, numbers
    ("gather", {"X": ROWS, "Index": np.array([2, 0])}, {}, lambda x, i: x[i]),
    ("gather_nd", {"X": ROWS, "Index": np.array([[2, 1], [0, 3]])}, {}, lambda x, i: x[i[:, 0], i[:, 1]]),
    ("index_select", {"X": ROWS, "Index": np.array([2, 0])}, {"dim": 1}, lambda x, i: x[:, i]),
    ("where", {"Condition": MASK, "X": ROWS, "Y": f(3, 4)}, {}, np.where),
    ("top_k_v2", {"X": ROWS}, {"k": 2, "axis": -1, "largest": True, "sorted": True},
     lambda x: [np.sort(x)[:, ::-1][:, :2], np.argsort(-x)[:, :2]]),
    ("one_hot_v2", {"X": np.array([2, 0])}, {"depth": 3}, lambda x: np.eye(3, dtype=np.float32)[x]),
    ("cast", {"X": ROWS}, {"in_dtype": {"dtype": "float32"}, "out_dtype": {"dtype": "int64"}},
     lambda x: x.astype(np.int64)),
    ("fill_constant", {}, {"shape": [2, 3], "value": 1.5, "str_value": "2.5", "dtype": {"dtype": "float32"}},
     np.full((2, 3), 2.5, np.float32)),
    ("fill_any_like", {"X": ROWS}, {"value": 3.0, "dtype": {"dtype": "int64"}}, np.full((3, 4), 3)),
    ("fill_constant_batch_size_like", {"Input": ROWS},
     {"shape": [-1, 2], "value": 1.0, "dtype": {"dtype": "float32"}, "input_dim_idx": 0, "output_dim_idx": 0},
     np.ones((3, 2), np.float32)),
    ("assign_value", {}, {"shape": [2], "dtype": {"dtype": "float32"}, "fp32_values": [1.5, 2.0]},
     np.array([1.5, 2], np.float32)),
    ("range", {"Start": {"a": np.array(1)}, "End": {"b": np.array(8)}, "Step": {"c": np.array(3)}}, {},
     np.array([1, 4, 7])),
]  # fmt: skip


def built(op: str, inputs: dict[str, Any], attributes: dict[str, Any], want: Any) -> Any:
    """The model of a case, what is fed, what it makes."""
    model = Paddled()
    given, feeds, names = list[Any](), dict[str, Any](), dict[str, list[str]]()
    for parameter, values in inputs.items():
        names[parameter] = []
        for x in values if isinstance(values, list) else [values]:
            if isinstance(x, dict):
                ((name, x),) = x.items()
                model.weight(name, x)
            else:
                name = f"x{len(feeds)}"
                feeds[model.feed(name, x.shape, x.dtype.name)] = x
            given.append(x)
            names[parameter].append(name)
    wanted = want(*given) if callable(want) else want
    wanted = [np.asarray(w) for w in (wanted if isinstance(wanted, list) else [wanted])]
    rule, outputs = LEGACY[op], [f"y{i}" for i in range(len(wanted))]
    several = len(rule.outputs) == 1
    model.op(op, names, {rule.outputs[0]: outputs} if several else dict(zip(rule.outputs, outputs, strict=False)),
             **attributes, op_callstack="ignored", use_mkldnn=False)  # fmt: skip
    return model, model.program(outputs), feeds, wanted


@pytest.mark.parametrize("case", OLD, ids=[f"{i}-{case[0]}" for i, case in enumerate(OLD)])
def test_operations_of_a_program_desc(case: Any, tmp_path: Path) -> None:
    model, program, feeds, wants = built(*case)
    made = load_model(model.save(tmp_path, program))
    for y, want in zip(made.graph.run(feeds).values(), wants, strict=True):
        assert y.shape == want.shape
        assert y.dtype == (np.float32 if want.dtype == np.float64 else want.dtype)
        np.testing.assert_allclose(y.astype(float), want.astype(float), rtol=2e-5, atol=2e-5)


def test_every_operation_has_a_case() -> None:
    """Those of older programs, whose rules lead to functions that exist; PIR's own forms are in the net below."""
    load_table()
    assert {rule.op for rule in LEGACY.values()} <= {name for domain, name in TABLE if domain == "paddle"}
    alike = {"reshape", "transpose", "flatten", "top_k", "nearest_interp", "bilinear_interp", "pad", "conv3d",
             "depthwise_conv2d_transpose", "max_pool2d_with_index"}  # fmt: skip
    assert {case[0] for case in OLD} == LEGACY.keys() - alike


# -- PIR ---------------------------------------------------------------------------------------------------------------
HEAD = f(8, 5)


def pir_net() -> tuple[Paddled, bytes]:
    """A convolution with its norm, two halves that meet again, a pooled row of scores, the best of them."""
    m = Paddled()
    x, t = m.feed("image", [-1, 3, -1, -1]), m.weight("a", HEAD)
    w = m.weight("conv2d_0.w_0", np.concatenate([W, W[:, ::-1]]))
    stats = [m.weight(f"bn.{i}", v) for i, v in enumerate((f(8), f(8, low=0.5), f(8), f(8)))]
    m.op("conv2d", [x, w], ["c"], **{**NET, "strides": [1, 1]})
    m.op("batch_norm_", ["c", *stats], ["n", "", "", "", "", ""], is_test=True, momentum=0.9, epsilon=0.1,
         data_format="NCHW", use_global_stats=True)  # fmt: skip
    m.op("full", [], ["one"], shape=[1], value=1.0, dtype={"dtype": "int32"})
    m.op("split_with_num", ["n", "one"], [["l", "r"]], num=2)
    m.op("hardswish", ["l"], ["h"])
    m.op("concat", [["h", "r"], "one"], ["j"])
    m.op("full_int_array", [], ["two"], value=[2, 3], dtype={"dtype": "int64"})
    m.op("full", [], ["rate"], shape=[1], value=0.5, dtype={"dtype": "float32"})
    m.op("dropout", ["j", "", "rate"], ["k", ""], is_test=True, mode="upscale_in_train", seed=0, fix_seed=False)
    m.op("mean", ["k", "two"], ["q"], keepdim=False)
    m.op("full_int_array", [], ["none"], value=[0], dtype={"dtype": "int64"})
    m.op("unsqueeze", ["q", "none"], ["u"])
    m.op("sum", ["u", "none"], ["p"], keepdim=False, dtype={"dtype": "Undefined(ALL_DTYPE)"})
    m.op("matmul", ["p", t], ["s"], transpose_x=False, transpose_y=False)
    m.op("softmax", ["s"], ["scores"], axis=-1)
    m.op("full", [], ["last"], shape=[1], value=-1.0, dtype={"dtype": "int64"})
    m.op("argmax", ["s", "last"], ["best"], keepdims=False, flatten=False, dtype={"dtype": "int64"})
    return m, m.pir(["scores", "best"], {"scores": ("float32", [-1, 5]), "best": ("int64", [-1])})


def test_a_net_in_the_json_of_paddle_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By its folder; sizes stay open; the weights have their names for others, too."""
    m, program = pir_net()
    (tmp_path / "net").mkdir()
    path = m.save(tmp_path / "net", program)
    assert main(["import", str(tmp_path / "net"), "--no-check", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["kind"] == "program"
    assert facts["inputs"] == ["image float32[n, 3, h, w]"]
    assert facts["outputs"] == ["scores float32[n, 5]", "best int64[n]"]
    x = f(2, 3, 7, 6)
    got = pdl.runtime.load(tmp_path / "net.pdl").run({"image": x})
    mean, var, scale, shift = (m.weights[f"bn.{i}"][:, None, None] for i in range(4))
    y = (window(x, m.weights["conv2d_0.w_0"], 1) - mean) / np.sqrt(var + np.float32(0.1)) * scale + shift
    y[:, :4] *= np.clip(y[:, :4] + 3, 0, 6) / 6
    scores = y.mean((2, 3)) @ HEAD
    np.testing.assert_allclose(got["scores"], softmax(scores), rtol=1e-4, atol=1e-5)
    assert got["best"].tolist() == scores.argmax(-1).tolist()
    assert read_paddle(path.with_suffix(".pdiparams")).keys() == m.weights.keys()
    assert load_model(path.with_suffix(".pdiparams")).opsets == {"paddle": 1}


# -- what is refused ---------------------------------------------------------------------------------------------------
def test_refusals(tmp_path: Path) -> None:
    m, program = pir_net()
    path = m.save(tmp_path, program)
    with pytest.raises(UsageError, match="whose weights lie in another file"):
        load_model(program)
    m.ops[0] = ("multiclass_nms3", *m.ops[0][1:])
    m.save(tmp_path, m.pir(["scores"]))
    with pytest.raises(UsageError, match=r"paddle.multiclass_nms3 '%\d+': pdl does not have this op"):
        load_model(path)
    m.ops[0] = ("conv2d", *m.ops[0][1:3], {**NET, "strange": 1})
    m.save(tmp_path, m.pir(["scores"]))
    with pytest.raises(UsageError, match="its attribute strange is not supported"):
        load_model(path)
    path.write_bytes(program)
    path.with_suffix(".pdiparams").write_bytes(m.params()[:-7])
    with pytest.raises(UsageError, match=r"no record of conv2d_0\.w_0"):
        load_model(path)
    m.weights["a"] = np.ones((5, 8), np.float32)
    path.with_suffix(".pdiparams").write_bytes(m.params())
    with pytest.raises(UsageError, match=r"a is float32 \(8, 5\) in the program; its weights are float32 \(5, 8\)"):
        load_model(path)
    path.with_suffix(".pdiparams").unlink()
    with pytest.raises(UsageError, match=r"its weights, inference\.pdiparams, cannot be read"):
        load_model(path)
    with pytest.raises(UsageError, match="is a folder without a model of Paddle"):
        load_model(tmp_path.parent)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"{}", "no program of Paddle, or a damaged one"),
        (b"{" + b"[" * 100_000, "over 64 deep"),
        (b'{"base_code": {"magic": "other"}, "program": {"regions": [{"blocks": [{"ops": []}]}]}}', "not pir"),
        (b"\x0a\x00", "it has no outputs"),
        (b"\x0a\xff\xff\xff\xff\x0f", "no program of Paddle, or a damaged one"),
    ],
)
def test_files_that_are_no_program(content: bytes, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        load_model(content)


def test_a_machines_optimiser_is_named(tmp_path: Path) -> None:
    model, _, _, _ = built("conv2d", {"Input": IMAGE, "Filter": {"w": W}}, {**NET, "fuse_relu": True}, IMAGE)
    with pytest.raises(UsageError, match="conv2d has fuse_relu: the model was optimised"):
        load_model(model.save(tmp_path, model.program(["y0"])))
