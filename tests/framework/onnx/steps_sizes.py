"""Steps of random ONNX graphs: arithmetic of sizes that decides shapes, as exporters write it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.framework.onnx.drawing import Drawing, Value
from tests.framework.onnx.steps import I64
from tests.framework.onnx.steps_axes import interpolation
from tests.framework.program.graphs import Draws


# -- arithmetic of sizes -----------------------------------------------------------------------------------------------
def size(d: Draws, b: Drawing, x: Value, axis: int, *, scalar: bool | None = None) -> Value:
    """A size of x as a graph computes it, [] or [1]."""
    scalar = d.often(0.5) if scalar is None else scalar
    shape = b.add("Shape", x, show=d.often(0.2))
    if scalar or d.often(0.5):
        return b.add("Gather", shape, b.hold(axis if scalar else [axis], I64), axis=0, show=False)
    return b.add("Slice", shape, b.hold([axis], I64), b.hold([axis + 1], I64), b.hold([0], I64), show=False)


def reckoned(d: Draws, b: Drawing, n: Value) -> Value:
    """Arithmetic on a size."""
    for _ in range(d.int(0, 3)):
        n = d.pick((_by_number, _by_number, _bounded, _by_float, _chosen, _by_number))(d, b, n)
    return n


def _by_number(d: Draws, b: Drawing, n: Value) -> Value:
    op, c = d.pick((("Add", 1), ("Add", 3), ("Sub", 1), ("Mul", 2), ("Div", 2), ("Mod", 3), ("Div", 3), ("Mod", 2)))
    if d.often(0.2) and op in ("Add", "Mul"):
        return b.add(op, b.hold(c, I64), n, show=False)
    return b.add(op, n, b.hold(c, I64), show=False)


def _bounded(d: Draws, b: Drawing, n: Value) -> Value:
    op, c = d.pick(("Max", "Min", "Clip")), d.int(1, 5)
    if op == "Clip":
        return b.add("Clip", n, b.hold(1, I64), *([b.hold(c, I64)] if d.often(0.7) else []), show=False)
    return b.add(op, *((n, b.hold(c, I64)) if d.often(0.5) else (b.hold(c, I64), n)), show=False)


def _by_float(d: Draws, b: Drawing, n: Value) -> Value:
    """Floor(n * scale), as exporters write it for Resize."""
    x = b.add("Cast", n, to=1, show=False)
    x = b.add(d.pick(("Mul", "Div")), x, b.hold(d.pick((2, 0.5, 4, 0.25, 1.5)), np.float32), show=False)
    x = b.add(d.pick(("Floor", "Ceil", "Round")), x, show=False) if d.often(0.8) else x
    return b.add("Cast", x, to=7, show=False)


def _chosen(d: Draws, b: Drawing, n: Value) -> Value:
    """The size, or a number in its place, by a comparison."""
    hit = b.add(d.pick(("Greater", "Equal", "Less")), n, b.hold(d.int(0, 5), I64), show=False)
    both = (n, b.hold(d.int(1, 4), I64))
    return b.add("Where", hit, *(both if d.often(0.5) else both[::-1]), show=False)


def _line(b: Drawing, n: Value) -> Value:
    """A size as [1]."""
    return n if n.ndim else b.add("Unsqueeze", n, b.hold([0], I64), show=False)


def _point(b: Drawing, n: Value) -> Value:
    return b.add("Squeeze", n, b.hold([0], I64), show=False) if n.ndim else n


def reshape_by_sizes(d: Draws, b: Drawing) -> None:
    """Sizes gathered, some joined, into a shape."""
    x = b.pick(lambda v: 0 < v.ndim <= 5)
    i = d.int(0, x.ndim)
    j = d.int(i + 1, x.ndim + 1)
    parts = [_line(b, size(d, b, x, a)) if d.often(0.7) or x.dims[a] is None else b.hold([x.dims[a]], I64)
             for a in range(x.ndim) if not i <= a < j]  # fmt: skip
    if d.often(0.5):
        joined = b.hold([-1], I64)
    else:
        joined = size(d, b, x, i, scalar=True)
        for a in range(i + 1, j):
            joined = b.add("Mul", joined, size(d, b, x, a, scalar=True), show=False)
        joined = _line(b, joined)
    parts.insert(i, joined)
    b.add("Reshape", x, b.add("Concat", *parts, axis=0, show=False))


def split_by_sizes(d: Draws, b: Drawing) -> None:
    """The last axis cut into heads, the others by their sizes."""
    x = b.pick(lambda v: v.ndim in (2, 3) and v.dims[-1] in (2, 4, 6, 8, 12))
    lead = [_line(b, size(d, b, x, a)) for a in range(x.ndim - 1)]
    b.add("Reshape", x, b.add("Concat", *lead, b.hold([2, -1], I64), axis=0, show=False))


def expand_by_sizes(d: Draws, b: Drawing) -> None:
    x, y = b.pick(lambda v: v.ndim > 0), b.pick(lambda v: v.ndim > 0)
    shape = b.add("Shape", y, show=False)
    if d.often(0.5):
        shape = b.add("Concat", b.hold([d.int(1, 3)], I64), shape, axis=0, show=False)
    if d.often(0.5):
        x = b.add("Unsqueeze", x, b.hold([0], I64), show=False)
    b.add("Expand", x, shape)


def slice_by_sizes(d: Draws, b: Drawing) -> None:
    x = b.pick(lambda v: v.ndim > 0)
    axis = d.int(0, x.ndim)
    n = _line(b, reckoned(d, b, size(d, b, x, axis)))
    zero, far = b.hold([0], I64), b.hold([d.pick((2**31 - 1, 2**63 - 1))], I64)
    if d.often(0.15):
        b.add("Slice", x, n, b.hold([-(2**63)], I64), b.hold([axis], I64), b.hold([-1], I64))
    else:
        ends = d.pick(((zero, n), (n, far), (b.add("Neg", n, show=False), far)))
        b.add("Slice", x, *ends, b.hold([axis], I64), b.hold([d.pick((1, 1, 1, 2))], I64))


def range_of_size(d: Draws, b: Drawing) -> None:
    x = b.pick(lambda v: v.ndim > 0)
    axis = d.int(0, x.ndim)
    n = _point(b, reckoned(d, b, size(d, b, x, axis)))
    first, step = b.hold(d.pick((0, 0, 1, -2)), I64), b.hold(d.pick((1, 1, 2)), I64)
    if d.often(0.2):
        made = b.add("Range", n, first, b.hold(-1, I64))
    elif d.often(0.2):
        made = b.add("Range", b.hold(0, np.float32), b.add("Cast", n, to=1), b.hold(d.pick((1, 0.5)), np.float32))
    else:
        made = b.add("Range", first, n, step)
    if d.often(0.5) and x.dtype == np.float32:
        line = b.add("Cast", made, to=1)
        b.add("Add", x, line if axis == x.ndim - 1 else b.add("Unsqueeze", line, b.hold([1], I64)))


def filled(d: Draws, b: Drawing) -> None:
    x = b.pick(lambda v: v.ndim > 0)
    n = _line(b, reckoned(d, b, size(d, b, x, d.int(0, x.ndim))))
    shape = d.pick((n, b.add("Concat", b.hold([2], I64), n, axis=0, show=False)))
    from onnx import numpy_helper

    fill = numpy_helper.from_array(np.array([d.int(0, 3)], d.pick((np.float32, np.int64, np.float32, np.bool_))))
    b.add("ConstantOfShape", shape, value=fill if d.often(0.8) else None)


def tile_by_sizes(d: Draws, b: Drawing) -> None:
    x, y = b.pick(lambda v: v.ndim == 1 or (v.ndim == 2 and v.dims[0] == 1)), b.pick(lambda v: v.ndim > 0)
    n = _line(b, reckoned(d, b, size(d, b, y, d.int(0, y.ndim))))
    times = n if x.ndim == 1 else b.add("Concat", n, b.hold([1], I64), axis=0, show=False)
    b.add("Tile", x, times)


def pad_by_sizes(d: Draws, b: Drawing) -> None:
    x = b.floats(lambda v: v.ndim > 0)
    axis = d.int(0, x.ndim)
    n = _line(b, size(d, b, x, axis))
    to = d.pick((8, 9))
    missing = b.add("Sub", b.hold([to], I64), n, show=False)
    if d.often(0.5):
        missing = b.add("Mod", missing, b.hold([4], I64), show=False)
    zeros = b.hold([0] * (x.ndim + axis), I64)
    rest = b.hold([0] * (x.ndim - 1 - axis), I64)
    b.add("Pad", x, b.add("Concat", zeros, missing, rest, axis=0, show=False))


def resize_by_sizes(d: Draws, b: Drawing) -> None:
    """As exporters write an upsampling by a factor, or to the size of another image."""
    x = b.floats(lambda v: v.ndim == 4 and v.dtype == np.float32)
    lead = b.add("Slice", b.add("Shape", x, show=False), b.hold([0], I64), b.hold([2], I64), show=False)
    y = x if d.often(0.6) else b.pick(lambda v: v.ndim == 4)
    tail = [_line(b, reckoned(d, b, size(d, b, y, a)) if y is x else size(d, b, y, a)) for a in (2, 3)]
    sizes = b.add("Concat", lead, *tail, axis=0, show=False)
    b.add("Resize", x, None, None, sizes, **interpolation(d, d.pick(("nearest", "linear"))))


def best_of_size(d: Draws, b: Drawing) -> None:
    """TopK of at most a number."""
    x = b.floats(lambda v: v.ndim > 0, exact=True)
    axis = d.int(0, x.ndim)
    n = _line(b, size(d, b, x, axis))
    k = b.add("Min", n, b.hold([d.int(1, 5)], I64), show=False)
    b.add("TopK", x, k, axis=axis, outputs=2)


def last(d: Draws, b: Drawing) -> None:
    """The entry at a place that is computed from the size."""
    x = b.pick(lambda v: v.ndim > 0)
    axis = d.int(0, x.ndim)
    n = b.add("Sub", size(d, b, x, axis), b.hold(1, I64), show=False)
    b.add("Gather", x, n, axis=axis)


def size_as_value(d: Draws, b: Drawing) -> None:
    x = b.pick(lambda v: v.ndim > 0)
    if d.often(0.3):
        n = b.add("Size", x, show=False)
    elif d.often(0.3):
        op = d.pick(("ReduceProd", "ReduceMax", "ReduceMin"))
        n = b.add(op, b.add("Shape", x, show=False), keepdims=0, show=False)
    else:
        n = size(d, b, x, d.int(0, x.ndim))
    n = reckoned(d, b, n)
    y = b.add("Cast", n, to=1) if d.often(0.6) else b.add("Identity", n)
    if d.often(0.5) and y.dtype == np.float32:
        b.add("Mul", b.floats(lambda v: v.dtype == np.float32), b.add("Reciprocal", b.add(
            "Add", y, b.hold(9, np.float32))))  # fmt: skip


def mask(d: Draws, b: Drawing) -> None:
    """Places compared with each other: a causal mask, added to scores."""
    x = b.floats(lambda v: v.ndim >= 2 and v.dtype == np.float32)
    zero, one = b.hold(0, I64), b.hold(1, I64)
    rows, columns = (b.add("Range", zero, size(d, b, x, x.ndim - a, scalar=True), one, show=False) for a in (2, 1))
    rows = b.add("Unsqueeze", rows, b.hold([1], I64), show=False)
    hit = b.add("Less", rows, columns)
    b.add("Where", hit, b.hold(-9, np.float32), x)


STEPS: dict[Callable[[Draws, Drawing], None], int] = {
    reshape_by_sizes: 3, split_by_sizes: 2, expand_by_sizes: 2, slice_by_sizes: 3, range_of_size: 2, filled: 2,
    tile_by_sizes: 1, pad_by_sizes: 1, resize_by_sizes: 2, best_of_size: 1, last: 1, size_as_value: 2, mask: 1,
}  # fmt: skip
