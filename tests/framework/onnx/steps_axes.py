"""Steps of random ONNX graphs: along axes, products, windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.framework.onnx.drawing import Drawing, Unfit, Value
from tests.framework.onnx.steps import I64, axes_of, axis_of
from tests.framework.program.graphs import Draws

# -- along axes --------------------------------------------------------------------------------------------------------
REDUCTIONS = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
              "ReduceSumSquare", "ReduceLogSumExp", "ReduceSum", "ReduceMean", "ReduceMax")  # fmt: skip


def reduction(d: Draws, b: Drawing) -> None:
    op = d.pick(REDUCTIONS)
    x = b.ints() if d.often(0.2) and op in ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd") else b.floats()
    axes = axes_of(d, x.ndim) if x.ndim and d.often(0.8) else None
    keep = d.pick((None, 0, 1))
    if b.case.opset >= (13 if op == "ReduceSum" else 18):
        noop = 1 if axes is None and d.often(0.3) else None
        given = [] if axes is None and d.often(0.5) else [b.hold(axes or [], I64)]
        b.add(op, x, *given, keepdims=keep, noop_with_empty_axes=noop)
    else:
        b.add(op, x, axes=axes, keepdims=keep)


def place(d: Draws, b: Drawing) -> None:
    x = b.floats(exact=True)
    last = d.int(0, 2)
    b.add(d.pick(("ArgMax", "ArgMin")), x, axis=axis_of(d, x.ndim), keepdims=d.int(0, 2), select_last_index=last)


def best(d: Draws, b: Drawing) -> None:
    x = b.floats(lambda v: v.ndim > 0, exact=True)
    axis, k = axis_of(d, x.ndim), b.hold([d.int(1, 3)], I64)
    b.add("TopK", x, k, axis=axis, largest=d.int(0, 2), outputs=2)


def cumulative(d: Draws, b: Drawing) -> None:
    x = b.floats(lambda v: v.ndim > 0)
    axis = b.hold(axis_of(d, x.ndim), d.pick((np.int32, np.int64)))
    b.add("CumSum", x, axis, exclusive=d.int(0, 2), reverse=d.int(0, 2))


def softmax(d: Draws, b: Drawing) -> None:
    x = b.floats(lambda v: v.ndim > 0)
    b.add(d.pick(("Softmax", "Softmax", "LogSoftmax")), x, axis=axis_of(d, x.ndim) if d.often(0.8) else None)


def hardmax(d: Draws, b: Drawing) -> None:
    x = b.floats(lambda v: v.ndim > 0 and v.dtype == np.float32, exact=True)
    b.add("Hardmax", x, axis=axis_of(d, x.ndim))


def norm(d: Draws, b: Drawing) -> None:
    x = b.floats(lambda v: v.ndim > 1)
    c = x.dims[1]
    op = d.pick(("BatchNormalization", "BatchNormalization", "LayerNormalization", "InstanceNormalization",
                 "LpNormalization", "LRN", "MeanVarianceNormalization", "GroupNormalization"))  # fmt: skip
    if op == "LpNormalization":
        b.add(op, b.add("Add", x, b.hold(4, x.dtype), show=False), axis=axis_of(d, x.ndim), p=d.int(1, 3))
    elif op == "LRN":
        b.add(op, x, size=3, alpha=0.1)
    elif op == "MeanVarianceNormalization":
        b.add(op, x, axes=[0, *range(2, x.ndim)])
    elif op == "LayerNormalization":
        axis = d.int(1, x.ndim)
        if None in x.dims[axis:] or b.case.opset < 17:
            raise Unfit
        shape = [int(n or 0) for n in x.dims[axis:]]
        more = [b.numbers(shape, x.dtype) for _ in range(d.int(1, 3))]
        b.add(op, x, *more, axis=axis - x.ndim if d.often(0.5) else axis, epsilon=1e-2)
    elif c is None or (op == "GroupNormalization" and (b.case.opset < 21 or c % 2)):
        raise Unfit
    else:
        a, s = b.numbers([c], x.dtype), b.numbers([c], x.dtype)
        var = b.hold(np.abs(a.some) + 0.5, x.dtype)
        how = {"num_groups": 2} if op == "GroupNormalization" else {}
        b.add(op, x, a, s, *((s, var) if op == "BatchNormalization" else ()), epsilon=1e-2, **how)


def written_norm(d: Draws, b: Drawing) -> None:
    """A layer norm as exporters wrote it before it was an op."""
    x = b.floats(lambda v: v.ndim > 0)
    axes = b.hold([d.pick((-1, 0))], I64)
    new = b.case.opset >= 18
    mean = lambda v: b.add("ReduceMean", v, axes) if new else b.add("ReduceMean", v, axes=axes.some.tolist())  # noqa: E731
    centred = b.add("Sub", x, mean(x))
    variance = mean(b.add("Pow", centred, b.hold(2, x.dtype)))
    b.add("Div", centred, b.add("Sqrt", b.add("Add", variance, b.hold(0.01, x.dtype))))


# -- products and windows ----------------------------------------------------------------------------------------------
def product(d: Draws, b: Drawing) -> None:
    x = b.floats(lambda v: v.ndim > 0)
    if d.often(0.5) and x.dims[-1] is not None:
        lead = d.pick(((), (), (), (1,), (2,)))
        y = b.numbers((*lead, x.dims[-1], d.int(1, 5)) if d.often(0.9) else (x.dims[-1],), x.dtype)
    elif d.often(0.5) and x.ndim > 1:
        axes = [*range(x.ndim - 2), x.ndim - 1, x.ndim - 2]
        y = b.add("Transpose", b.floats(lambda v: v.ndim == x.ndim and v.dtype == x.dtype), perm=axes)
    else:
        y = b.floats(lambda v: v.ndim > 0 and v.dtype == x.dtype)
    b.add("MatMul", x, y)


def gemm(d: Draws, b: Drawing) -> None:
    x = b.floats(lambda v: v.ndim == 2)
    ta, tb, width = d.int(0, 2), d.int(0, 2), d.int(1, 5)
    inner = x.dims[0 if ta else 1]
    if inner is None:
        raise Unfit
    rows = x.dims[1 if ta else 0]
    w = b.numbers((width, inner) if tb else (inner, width), x.dtype)
    c = d.pick(((), (width,), (1, width), (rows or 1, 1), (1,)))
    more = [b.numbers(c, x.dtype)] if d.often(0.7) else []
    b.add("Gemm", x, w, *more, transA=ta, transB=tb, alpha=d.pick((None, 0.5)), beta=d.pick((None, 0.5)))


def einsum(d: Draws, b: Drawing) -> None:
    x = b.floats(lambda v: v.ndim in (2, 3))
    y = b.floats(lambda v: v.ndim == x.ndim and v.dtype == x.dtype)
    two = ("ij,kj->ik", "ij,jk->ki", "ij,ij->i", "ij,ij->j", "ij,kl->ijkl", "...j,...j->...")
    three = ("bij,bkj->bik", "bij,bij->b", "bij,bik->bjk", "bij,bij->ji", "...ij,...kj->...ik")
    one = ("ij->ji", "ij->j", "ij->") if x.ndim == 2 else ("bij->bji", "bij->ib", "...j->...")
    if d.often(0.3):
        b.add("Einsum", x, equation=d.pick(one))
    else:
        b.add("Einsum", x, y, equation=d.pick(two if x.ndim == 2 else three))


def _window(d: Draws, b: Drawing) -> tuple[Value, int, int, dict[str, Any]]:
    """An image, its channels and axes, and the attributes of windows over it."""
    x = b.floats(lambda v: v.ndim in (3, 4, 4, 5) and v.dims[1] not in (None, 0) and v.dtype == np.float32)
    n = x.ndim - 2
    how: dict[str, Any] = {"strides": [d.pick((1, 1, 2)) for _ in range(n)] if d.often(0.6) else None}
    if d.often(0.2):
        how["auto_pad"] = d.pick(("SAME_UPPER", "SAME_LOWER", "VALID"))
    elif d.often(0.7):
        how["pads"] = [d.pick((0, 1, 1)) for _ in range(2 * n)]
    return x, int(x.dims[1] or 0), n, how


def conv(d: Draws, b: Drawing) -> None:
    x, c, n, how = _window(d, b)
    group = d.pick([g for g in (1, 1, 1, 2, c) if c % g == 0])
    k = [d.pick((1, 2, 3, 3)) for _ in range(n)]
    out = group * d.int(1, 3)
    bias = [b.numbers([out])] if d.often(0.5) else []
    how["dilations"] = [d.pick((1, 1, 2)) for _ in range(n)] if d.often(0.3) else None
    shape = d.pick((k, k, None))
    b.add("Conv", x, b.numbers((out, c // group, *k)), *bias, group=group, kernel_shape=shape, **how)


def conv_transpose(d: Draws, b: Drawing) -> None:
    x, c, n, how = _window(d, b)
    group = d.pick([g for g in (1, 1, 2, c) if c % g == 0])
    k = [d.pick((1, 2, 3)) for _ in range(n)]
    out = d.int(1, 3)
    bias = [b.numbers([out * group])] if d.often(0.5) else []
    if how["strides"] and d.often(0.3):
        how["output_padding"] = [d.int(0, s) for s in how["strides"]]
    b.add("ConvTranspose", x, b.numbers((c, out, *k)), *bias, group=group, kernel_shape=k, **how)


def pool(d: Draws, b: Drawing) -> None:
    x, _, n, how = _window(d, b)
    op = d.pick(("MaxPool", "MaxPool", "AveragePool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "LpPool"))
    if op.startswith("Global"):
        b.add(op, x)
        return
    if how.get("auto_pad") == "VALID":  # a window larger than x: engines differ
        raise Unfit
    how["kernel_shape"] = [d.pick((2, 2, 3)) for _ in range(n)]
    if op != "LpPool":
        how["ceil_mode"] = d.pick((None, None, 1))
    if op == "AveragePool":
        how["count_include_pad"] = d.pick((None, 1))
    if op == "MaxPool" and "auto_pad" not in how and d.often(0.2):  # engines differ where windows are padded for both
        how["dilations"] = [d.pick((1, 2)) for _ in range(n)]
    b.add(op, x, **how)


def resize(d: Draws, b: Drawing) -> None:
    x = b.floats(lambda v: 3 <= v.ndim <= 4 and v.dtype == np.float32)
    mode = d.pick(("nearest", "linear", "cubic")) if x.ndim == 4 else d.pick(("nearest", "linear"))
    scales = b.hold([1, 1] + [d.pick((1, 2, 2, 0.5, 3)) for _ in range(x.ndim - 2)], np.float32)
    b.add("Resize", x, None, scales, **interpolation(d, mode))


def interpolation(d: Draws, mode: str) -> dict[str, Any]:
    where = d.pick(("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"))
    near = {"nearest_mode": d.pick(("floor", "round_prefer_floor"))} if mode == "nearest" else {}
    return {"mode": mode, "coordinate_transformation_mode": where, **near}


STEPS: dict[Callable[[Draws, Drawing], None], int] = {
    reduction: 4, place: 1, best: 1, cumulative: 1, softmax: 2, hardmax: 1, norm: 3, written_norm: 1, product: 3,
    gemm: 2, einsum: 1, conv: 3, conv_transpose: 1, pool: 2, resize: 1,
}  # fmt: skip
