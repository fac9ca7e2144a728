"""Steps of random ONNX graphs: each draws a node, or the few that exporters write for one thing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.framework.onnx.drawing import Drawing, Unfit, Value
from tests.framework.program.graphs import Draws

I64 = np.int64
ENDS = (0, 1, 2, 3, -1, -2, 9, 2**31 - 1, 2**63 - 1, -(2**31), -(2**63))


def axis_of(d: Draws, rank: int) -> int:
    if rank == 0:
        raise Unfit
    return d.int(-rank, rank)


def axes_of(d: Draws, rank: int, *, none: bool = True) -> list[int]:
    """Some axes, as they are or from the end, in any order."""
    if rank == 0:
        raise Unfit
    found = [a - rank if d.often(0.3) else a for a in d.some(rank)]
    return found[::-1] if d.often(0.2) else found


# -- views -------------------------------------------------------------------------------------------------------------
def transpose(d: Draws, b: Drawing) -> None:
    x = b.pick()
    b.add("Transpose", x, perm=None if d.often(0.2) else list(d.axes(x.ndim)))


def reshape(d: Draws, b: Drawing) -> None:
    """To sizes that are joined, cut, copied (0) or left over (-1)."""
    x = b.pick()
    dims = x.dims
    shape = [0 if n is None or d.often(0.3) else n for n in dims]
    how = d.int(0, 4)
    if how == 0:
        shape = [-1]
    elif how == 1 and dims:
        i = d.int(0, len(dims))
        j = d.int(i, len(dims)) + 1
        rest = [-2 if n is None else n for n in dims[j:]]
        shape = [*shape[:i], -1, *rest]
    elif how == 2 and (places := [i for i, n in enumerate(dims) if n in (2, 4, 6, 8, 12)]):
        i = d.pick(places)
        shape = [*shape[:i], 2, -1, *[-2 if n is None else n for n in dims[i + 1 :]]]
    elif how == 3:
        i = d.int(0, len(dims) + 1)
        shape = [*shape[:i], 1, *[-1 if n is None else n for n in dims[i:]]]
    b.add("Reshape", x, b.hold(shape, I64), allowzero=1 if b.case.opset >= 14 and 0 not in shape else None)


def flatten(d: Draws, b: Drawing) -> None:
    x = b.pick()
    b.add("Flatten", x, axis=d.int(-x.ndim, x.ndim + 1))


def squeeze(d: Draws, b: Drawing) -> None:
    x = b.pick(lambda v: 1 in v.dims)
    axes = [i - x.ndim if d.often(0.3) else i for i, n in enumerate(x.dims) if n == 1 and d.often(0.8)]
    b.add("Squeeze", x, *([b.hold(axes, I64)] if axes else []))


def unsqueeze(d: Draws, b: Drawing) -> None:
    x = b.pick()
    b.add("Unsqueeze", x, b.hold(axes_of(d, x.ndim + d.int(1, 3))[:2], I64))


def expand(d: Draws, b: Drawing) -> None:
    x = b.pick()
    grown = [3 if n == 1 and d.often(0.6) else 1 for n in x.dims][d.int(0, x.ndim + 1) :]
    b.add("Expand", x, b.hold([*d.pick(((), (), (2,), (1,))), *grown] if d.often(0.7) else grown, I64))


def cut(d: Draws, b: Drawing) -> None:
    x = b.pick()
    axes = axes_of(d, x.ndim)
    kind = d.pick((np.int64, np.int32))
    clip = (lambda v: v) if kind == np.int64 else (lambda v: max(-(2**31), min(v, 2**31 - 1)))
    steps = [d.pick((1, 1, 1, 2, -1, -2, 3)) for _ in axes]
    starts = [clip(d.pick(ENDS if s < 0 else (0, 0, *ENDS))) for s in steps]
    ends = [clip(d.pick([e for e in ENDS if s > 0 or e < 2**31 - 1])) for s in steps]  # beyond, engines differ
    more = [b.hold(v, kind) for v in (starts, ends, axes, steps)]
    b.add("Slice", x, *(more if d.often(0.8) or len(axes) < x.ndim else more[:2]))


def concat(d: Draws, b: Drawing) -> None:
    x = b.pick(lambda v: v.ndim > 0)
    parts = [x] + [b.pick(lambda v: v.ndim == x.ndim and v.dtype == x.dtype) for _ in range(d.int(0, 3))]
    axis = axis_of(d, x.ndim)
    if any(n != m for p in parts for i, (n, m) in enumerate(zip(p.dims, x.dims, strict=True)) if i != axis % x.ndim):
        raise Unfit  # ONNX Runtime takes empty arrays of any shape
    b.add("Concat", *parts, axis=axis)


def split(d: Draws, b: Drawing) -> None:
    x = b.pick(lambda v: any(n is not None for n in v.dims))
    axis = d.pick([i for i, n in enumerate(x.dims) if n is not None])
    size, count = x.dims[axis] or 0, d.int(1, 4)
    place = axis - x.ndim if d.often(0.3) else axis
    if d.often(0.5):
        ends = sorted(d.int(0, size + 1) for _ in range(count - 1))
        sizes = np.diff([0, *ends, size])
        b.add("Split", x, b.hold(sizes, I64), axis=place, outputs=count)
    else:
        b.add("Split", x, axis=place, outputs=count, num_outputs=count if b.case.opset >= 18 else None)


def gather(d: Draws, b: Drawing) -> None:
    x = b.pick(lambda v: v.ndim > 0)
    index = d.pick((0, -1, [0], [-1, 0], [0, 0, -1], [[0], [-1]], []))
    b.add("Gather", x, b.hold(index, d.pick((np.int64, np.int32))), axis=axis_of(d, x.ndim))


def gather_elements(d: Draws, b: Drawing) -> None:
    x = b.pick(lambda v: v.ndim > 0)
    axis = axis_of(d, x.ndim)
    shape = [n if n is not None else 1 for n in x.dims]
    shape[axis] = d.int(1, 4)
    b.add("GatherElements", x, b.hold(d.rng.integers(-1, 1, shape), I64), axis=axis)


def gather_nd(d: Draws, b: Drawing) -> None:
    x = b.pick(lambda v: v.ndim > 0)
    shared = d.int(0, 2) if x.dims[0] is not None else 0
    depth = d.int(1, x.ndim - shared + 1) if x.ndim > shared else 1
    lead = [x.dims[0]] if shared else []
    index = d.rng.integers(-1, 1, [*lead, *d.pick(((), (2,), (1, 3))), depth])
    b.add("GatherND", x, b.hold(index, I64), batch_dims=shared or None)


def scatter_nd(d: Draws, b: Drawing) -> None:
    x = b.pick(lambda v: v.ndim > 0 and v.dtype != np.bool_)
    depth = d.int(1, x.ndim + 1)
    if None in x.dims[depth:]:
        raise Unfit
    index = np.array([[0] * depth, [-1] * depth][: d.int(1, 3)])
    updates = b.numbers((len(index), *x.dims[depth:]), x.dtype)  # type: ignore[arg-type]
    how = d.pick((None, "add")) if b.case.opset >= 16 else None
    b.add("ScatterND", x, b.hold(index, I64), updates, reduction=how)


def scatter_elements(d: Draws, b: Drawing) -> None:
    x = b.pick(lambda v: v.ndim > 0 and v.dtype != np.bool_)
    axis = axis_of(d, x.ndim)
    shape = [1 if n is None else d.int(1, n + 1) if n else 0 for n in x.dims]
    shape[axis] = 1
    index = b.hold(d.rng.integers(-1, 1, shape), I64)
    how = d.pick((None, "add")) if b.case.opset >= 16 else None
    b.add("ScatterElements", x, index, b.numbers(shape, x.dtype), axis=axis, reduction=how)


def pad(d: Draws, b: Drawing) -> None:
    x = b.floats(lambda v: v.ndim > 0)
    modes = ("constant", "constant", "reflect", "edge", *(("wrap",) if b.case.opset >= 19 else ()))
    mode = d.pick(modes)
    widths = [d.pick((0, 0, 1, 2, -1)) if mode == "constant" else d.pick((0, 0, 1)) for _ in range(2 * x.ndim)]
    if mode == "reflect":  # of an axis of one cell, engines differ
        widths = [w if (x.dims[i % x.ndim] or 1) > 1 else 0 for i, w in enumerate(widths)]
    fill = [b.hold(d.pick((0, 1.5, -1)), x.dtype)] if mode == "constant" and d.often(0.5) else []
    b.add("Pad", x, b.hold(widths, I64), *fill, mode=mode)


def tile(d: Draws, b: Drawing) -> None:
    x = b.pick(lambda v: v.ndim > 0)
    b.add("Tile", x, b.hold([d.pick((1, 1, 2, 3)) for _ in range(x.ndim)], I64))


def trilu(d: Draws, b: Drawing) -> None:
    x = b.pick(lambda v: v.ndim >= 2 and v.dtype != np.int32)
    b.add("Trilu", x, *([b.hold(d.int(-2, 3), I64)] if d.often(0.6) else []), upper=d.int(0, 2))


def blocks(d: Draws, b: Drawing) -> None:
    x = b.floats(lambda v: v.ndim == 4)
    if d.often(0.5):
        b.add("DepthToSpace", x, blocksize=2, mode=d.pick(("DCR", "CRD")))
    else:
        b.add("SpaceToDepth", x, blocksize=2)


def one_hot(d: Draws, b: Drawing) -> None:
    x = b.ints(lambda v: v.ndim < 4)
    index = x if d.often(0.7) else b.hold(d.rng.integers(-3, 4, 3), I64)
    axis = d.int(-index.ndim - 1, index.ndim + 1)
    b.add("OneHot", index, b.hold(d.pick((3, [4])), I64), b.hold([0, 1], d.pick((np.float32, np.int64))), axis=axis)


def reverse(d: Draws, b: Drawing) -> None:
    x = b.pick(lambda v: v.ndim >= 2 and None not in v.dims[:2] and 0 not in v.dims[:2])
    time = d.int(0, 2)
    lengths = [d.int(1, int(x.dims[time] or 1) + 1) for _ in range(int(x.dims[1 - time] or 0))]
    b.add("ReverseSequence", x, b.hold(lengths, I64), time_axis=time, batch_axis=1 - time)


# -- element by element ------------------------------------------------------------------------------------------------
PLAIN = ("Abs", "Neg", "Relu", "Identity", "Sigmoid", "Tanh", "Erf", "Softplus", "Softsign", "Sin", "Cos", "Atan",
         "Exp", "Elu", "Selu", "LeakyRelu", "HardSigmoid", "Celu", "ThresholdedRelu", "Sqrt", "Log", "Reciprocal",
         "Asinh", "Sinh", "Cosh", "Shrink")  # fmt: skip
LATER = (("HardSwish", 14), ("Mish", 18), ("Gelu", 20))


def unary(d: Draws, b: Drawing) -> None:
    x = b.floats()
    op = d.pick((*PLAIN, *[name for name, since in LATER if b.case.opset >= since]))
    alpha = {"alpha": d.pick((0.1, 0.5, 1.0))} if op in ("Elu", "LeakyRelu", "Celu", "HardSigmoid") else {}
    if op in ("Sqrt", "Log", "Reciprocal"):
        x = b.add("Add", b.add("Abs", x, show=False), b.hold(0.5, x.dtype), show=False)
    b.add(op, x, **alpha)


def rounding(d: Draws, b: Drawing) -> None:
    b.add(d.pick(("Floor", "Ceil", "Round", "Sign", "IsNaN", "IsInf", "Not")), b.floats(exact=True))


def whole(d: Draws, b: Drawing) -> None:
    """On integers and truth values."""
    if d.often(0.2):
        x = b.bools()
        b.add(d.pick(("And", "Or", "Xor")), x, b.bools()) if d.often(0.7) else b.add("Not", x)
    elif d.often(0.3):
        b.add(d.pick(("Abs", "Neg", "Sign")), b.ints())
    else:
        x = b.ints()
        op = d.pick(("Div", "Mod", "Mul", "Add", "Sub", "Pow", "Max", "Min"))
        b.add(op, x, b.hold(d.pick((1, 2, 3) if op == "Pow" else (1, 2, 3, -2)), x.dtype))


def binary(d: Draws, b: Drawing) -> None:
    x = b.floats() if d.often(0.8) else b.ints()
    op = d.pick(("Add", "Sub", "Mul", "Max", "Min", "Sum", "Mul", "Add"))
    y = b.pick(lambda v: v.dtype == x.dtype) if d.often(0.5) else _beside(d, b, x)
    b.add(op, *((x, y) if d.often(0.7) else (y, x)))


def _beside(d: Draws, b: Drawing, x: Value) -> Value:
    """A constant that broadcasts with x."""
    shape = [1 if n is None or d.often(0.3) else n for n in x.dims][d.int(0, x.ndim + 1) :]
    return b.numbers(([1] * d.int(1, 3) if d.often(0.1) else []) + shape, x.dtype)


def divide(d: Draws, b: Drawing) -> None:
    x = b.floats()
    if d.often(0.5):
        c = b.hold(np.abs(_beside(d, b, x).some) + 0.5, x.dtype)
        b.add("Div", x, c)
    else:
        y = b.floats(lambda v: v.dtype == x.dtype)
        b.add("Div", x, b.add("Add", b.add("Abs", y, show=False), b.hold([1], x.dtype), show=False))


def power(d: Draws, b: Drawing) -> None:
    x = b.floats()
    kind = d.pick((x.dtype, x.dtype, np.int64))
    b.add("Pow", x, b.hold(d.pick((2, 3, 1, 0, [2], [[2]])), kind))


def remainder(d: Draws, b: Drawing) -> None:
    b.add("Mod", b.floats(exact=True), b.hold(d.pick((1.5, -2, 0.75)), np.float32), fmod=1)


def several(d: Draws, b: Drawing) -> None:
    x = b.floats()
    more = [b.floats(lambda v: v.dtype == x.dtype) for _ in range(d.int(0, 3))]
    b.add(d.pick(("Max", "Min", "Sum", "Mean")), x, *more)


def clip(d: Draws, b: Drawing) -> None:
    x = b.floats() if d.often(0.7) else b.ints()
    low, high = b.hold(d.pick((-1, 0)), x.dtype), b.hold(d.pick((1, 6, -2)), x.dtype)
    b.add("Clip", x, *d.pick(((low, high), (low,), (None, high), ())))


def compare(d: Draws, b: Drawing) -> None:
    x = b.floats(exact=True) if d.often(0.6) else b.ints()
    y = b.pick(lambda v: v.dtype == x.dtype and v.exact) if d.often(0.5) else _beside(d, b, x)
    b.add(d.pick(("Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual")), x, y)


def where(d: Draws, b: Drawing) -> None:
    x = b.pick(lambda v: v.dtype != np.bool_)
    y = b.pick(lambda v: v.dtype == x.dtype) if d.often(0.5) else _beside(d, b, x)
    b.add("Where", b.bools(), *((x, y) if d.often(0.5) else (y, x)))


def choose(d: Draws, b: Drawing) -> None:
    """One of two by a comparison, as exporters write masks."""
    x = b.floats(exact=True)
    hit = b.add("Greater", x, b.hold(d.pick((0, 0.5)), x.dtype))
    b.add("Where", hit, x, b.hold(d.pick((0, -1)), x.dtype))


def cast(d: Draws, b: Drawing) -> None:
    x = b.pick(lambda v: v.exact)
    kind = d.pick((np.float32, np.float32, np.float64, np.int64, np.int32, np.bool_, np.uint8, np.int8))
    if np.dtype(kind).kind == "u" and any((v < 0).any() for v in x.at if v is not None):
        raise Unfit
    b.add("Cast", x, to=_element(kind))


def _element(kind: Any) -> int:
    from onnx import helper

    return int(helper.np_dtype_to_tensor_dtype(np.dtype(kind)))


def slope(d: Draws, b: Drawing) -> None:
    x = b.floats()
    b.add("PRelu", x, _beside(d, b, x))


STEPS: dict[Callable[[Draws, Drawing], None], int] = {
    transpose: 4, reshape: 4, flatten: 1, squeeze: 2, unsqueeze: 2, expand: 2, cut: 4, concat: 3, split: 2, gather: 3,
    gather_elements: 1, gather_nd: 1, scatter_nd: 1, scatter_elements: 1, pad: 2, tile: 1, trilu: 1, blocks: 1,
    one_hot: 1, reverse: 1, unary: 6, rounding: 1, whole: 3, binary: 6, divide: 2, power: 1, remainder: 1, several: 1,
    clip: 2, compare: 2, where: 2, choose: 1, cast: 3, slope: 1,
}  # fmt: skip
