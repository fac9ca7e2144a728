"""What flows through an ONNX graph: NumPy arrays where values are known, pdl tensors where they are not.

A shape is an array of `object` whose entries are ints, or `Dim`s whose size is known only at run time; `pdl.onnx.sizes`
computes with it. float16 is computed in float32 and rounded where the graph ends; dtypes that
pdl's tensors do not have (strings, four-bit integers) stay in NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pdl import ops
from pdl.dims import Dim, maximum
from pdl.dtype import ALL, Array, DType, bfloat16, float32
from pdl.errors import DtypeError, UsageError
from pdl.onnx.sizes import Ratio, Truth, collected, elementwise
from pdl.program.tracing import Symbol
from pdl.tensor import Tensor

#: ONNX's element types by number; float16 is widened (see `WIDENED`)
ELEMENTS: dict[int, str] = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 8: "string", 9: "bool",
    10: "float16", 11: "float64", 12: "uint32", 13: "uint64", 14: "complex64", 15: "complex128", 16: "bfloat16",
    17: "float8_e4m3fn", 18: "float8_e4m3fnuz", 19: "float8_e5m2", 20: "float8_e5m2fnuz", 21: "uint4", 22: "int4",
    23: "float4_e2m1fn", 24: "float8_e8m0fnu", 25: "uint2", 26: "int2",
}  # fmt: skip
NUMBERS = {name: number for number, name in ELEMENTS.items()}
float16 = np.dtype(np.float16)
#: no array that a graph computes may be larger, in bytes: a damaged file must not take the machine's memory
LARGEST = 2**32


def dtype_named(name: str) -> DType:
    """The NumPy dtype of an ONNX element type; strings are Python objects."""
    if name in ALL:
        return ALL[name]
    if name == "string":
        return np.dtype(object)
    import ml_dtypes

    return np.dtype(getattr(ml_dtypes, name) if hasattr(ml_dtypes, name) else name)


def dtype_of(number: int, what: str) -> DType:
    """The dtype of an ONNX element type by number; UsageError for numbers that ONNX has not given out."""
    if number not in ELEMENTS:
        raise UsageError(f"{what}: {number} is no ONNX element type")
    return dtype_named(ELEMENTS[number])


def widened(x: Array) -> Array:
    """float16 as float32: what the graph computes with."""
    return x.astype(np.float32) if x.dtype == float16 else x


def widened_dtype(dtype: DType) -> DType:
    """float32 for float16, else itself."""
    return float32 if dtype == float16 else dtype


def is_known(*xs: Any) -> bool:
    """Whether the values of all are known: none is a symbol of a trace, or holds sizes that a run decides."""
    return not any(isinstance(x, Symbol) or is_shape(x) for x in xs)


def are_arrays(*xs: Any) -> bool:
    """Whether all are values that are known, or sizes."""
    return not any(isinstance(x, Symbol) for x in xs)


def array(x: Any) -> Array:
    """A value that is known, as an array."""
    return x._data if isinstance(x, Tensor) else np.asarray(x)


def in_numpy(*xs: Any) -> bool:
    """Whether to compute in NumPy: all known, and one has a dtype that tensors lack, or all are integers."""
    if not is_known(*xs):
        return False
    arrays = [array(x) for x in xs]
    return any(not is_tensor_dtype(a.dtype) for a in arrays) or all(a.dtype.kind in "iub" for a in arrays)


def is_tensor_dtype(dtype: DType) -> bool:
    """Whether pdl's tensors have this dtype."""
    return dtype == bfloat16 or (dtype.kind != "V" and dtype.name in ALL)


def tensor(x: Any) -> Any:
    """x as a tensor; a shape becomes int64 (or bool, or float), computed from the inputs' sizes where they decide."""
    if isinstance(x, Tensor):
        return x
    if is_shape(x) and any(isinstance(n, Dim | Ratio) for n in x.flat):
        return ops.reshape(ops.stack([_entry(n, _dtype_of_sizes(x)) for n in x.flat]), x.shape)
    if x.dtype == object:
        x = plain(x)
    elif x.dtype == float16:
        x = widened(x)
    if not is_tensor_dtype(x.dtype):
        raise DtypeError(f"{x.dtype.name} is not a dtype that this op computes with")
    return Tensor._wrap(x)


def _dtype_of_sizes(x: Array) -> DType:
    """int64, bool for truth values, that of the floats made of sizes."""
    made = next((v.dtype for v in x.flat if isinstance(v, Ratio)), None)
    return made or np.dtype(bool if any(isinstance(v, Truth) for v in x.flat) else np.int64)


def _entry(size: Any, dtype: DType) -> Tensor:
    """A size, or what is made of it, as a value of a program: []."""
    if isinstance(size, Ratio):
        top = ops.astype(_number(size.top), dtype)
        return top if size.bottom == 1 else top / Tensor._wrap(np.array(size.bottom, dtype))
    if not isinstance(size, Dim):
        return Tensor._wrap(np.array(size, dtype))
    return _number(size) if dtype == np.int64 else ops.astype(_number(size), dtype)


def _number(size: int) -> Tensor:
    """A size as a value of a program, int64 []: as many ones are summed."""
    if not isinstance(size, Dim):
        return Tensor._wrap(np.array(size, np.int64))
    one = Tensor._wrap(np.ones((), np.int64))
    above, below = maximum(size, 0), maximum(-size, 0)
    summed = ops.sum(ops.broadcast_to(one, (above,)))
    return summed - ops.sum(ops.broadcast_to(one, (below,))) if isinstance(below, Dim) else summed


def plain(x: Array) -> Array:
    """A shape as an int64 array: symbolic sizes become the sizes the graph is traced with."""
    if any(isinstance(v, str) for v in x.flat):
        raise DtypeError("strings stand where numbers are expected")
    return np.array([int(v) for v in x.flat], np.int64).reshape(x.shape)


def shape_array(sizes: Sequence[int]) -> Array:
    """Sizes as ONNX's 1-D integer array; of dtype object as long as one of them is symbolic."""
    if all(type(v) is int for v in sizes):
        return np.array(sizes, np.int64).reshape(len(sizes))
    made = np.empty(len(sizes), object)
    made[:] = list(sizes)
    return made


def settled(x: Any) -> Array:
    """A result of NumPy as an array: a lone symbolic size stays one, sizes that are all known become int64."""
    if not isinstance(x, np.ndarray):
        if isinstance(x, int) and not isinstance(x, bool):
            made = np.empty((), object)
            made[()] = x
            x = made
        else:
            return np.asarray(x)
    return collected(x) if x.dtype == object else x


def is_shape(x: Any) -> bool:
    """Whether x holds symbolic sizes."""
    return isinstance(x, np.ndarray) and x.dtype == object and not any(isinstance(v, str) for v in x.flat)


def require_room(what: str, shape: Sequence[int], itemsize: int) -> None:
    """Refuse an array that no model means: one with negative sizes or over `LARGEST` bytes."""
    if any(n < 0 for n in shape) or math.prod(int(n) for n in shape) * itemsize > LARGEST:
        raise UsageError(f"{what} asks for an array of shape {tuple(map(int, shape))}, over {LARGEST / 2**30:.2g} GiB")


def either(op: str, in_ops: Callable[..., Any], in_array: Callable[..., Any]) -> Callable[..., Any]:
    """A function of values: pdl's op; NumPy's where `in_numpy` says so; that of `pdl.onnx.sizes` for shapes."""

    def function(*xs: Any) -> Any:
        made = of_sizes(op, *xs)
        if made is not None:
            return made
        if in_numpy(*xs):
            arrays = [array(x) for x in xs]
            require_room("an array of integers", np.broadcast_shapes(*[x.shape for x in arrays]), 8)
            with np.errstate(all="ignore"):
                return settled(in_array(*arrays))
        return in_ops(*[tensor(x) for x in xs])

    return function


def of_sizes(op: str, *xs: Any) -> Array | None:
    """What an op makes of values of which one is a shape; None where there is none, or the result is none."""
    return elementwise(op, *map(array, xs)) if are_arrays(*xs) and any(map(is_shape, xs)) else None
