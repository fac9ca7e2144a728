"""Operators and methods of `Tensor`: each is the public function of the same meaning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pdl.errors import UsageError
from pdl.ops import broadcast, cast, dtypes, elementwise, index, linalg, logic, reduce, running, shape
from pdl.ops.words import explained
from pdl.tensor import Tensor

_OPERANDS = (Tensor, bool, int, float, complex, np.ndarray, np.generic, list, tuple)

_BINARY = {
    "add": elementwise.add, "sub": elementwise.subtract, "mul": elementwise.multiply, "truediv": elementwise.divide,
    "floordiv": elementwise.floor_divide, "mod": elementwise.remainder, "pow": elementwise.pow, "matmul": linalg.matmul,
    "and": logic.bitwise_and, "or": logic.bitwise_or, "xor": logic.bitwise_xor,
    "lshift": logic.bitwise_left_shift, "rshift": logic.bitwise_right_shift,
}  # fmt: skip
_COMPARE = {
    "eq": logic.equal, "ne": logic.not_equal, "lt": logic.less, "le": logic.less_equal,
    "gt": logic.greater, "ge": logic.greater_equal,
}  # fmt: skip
_UNARY = {
    "pos": elementwise.positive, "neg": elementwise.negative, "abs": elementwise.abs, "invert": logic.bitwise_invert,
}  # fmt: skip
_METHODS = {
    cast: ("conj", "imag", "real"),
    dtypes: ("astype",),
    elementwise: ("abs", "ceil", "clip", "cos", "erf", "exp", "floor", "log", "log1p", "pow", "reciprocal", "round",
                  "rsqrt", "sign", "sin", "sqrt", "square", "tanh", "trunc"),
    logic: ("isfinite", "isinf", "isnan"),
    reduce: ("all", "any", "argmax", "argmin", "logsumexp", "max", "mean", "min", "norm", "prod",
             "std", "sum", "var"),
    running: ("cumprod", "cumsum"),
    broadcast: ("broadcast_to",),
    shape: ("chunk", "clone", "expand_dims", "flatten", "flip", "moveaxis", "repeat", "roll", "split", "squeeze",
            "swapaxes", "tile", "unstack"),
    index: ("gather", "scatter", "scatter_add", "take"),
    linalg: ("diagonal", "matmul", "trace"),
}  # fmt: skip


def _operator(function: Callable[[Any, Any], Tensor], *, swapped: bool = False) -> Any:
    if swapped:
        return lambda self, other: function(other, self) if isinstance(other, _OPERANDS) else NotImplemented
    return lambda self, other: function(self, other) if isinstance(other, _OPERANDS) else NotImplemented


def _sizes(sizes: tuple[Any, ...]) -> Any:
    return sizes[0] if len(sizes) == 1 and isinstance(sizes[0], tuple | list) else sizes


def _reshape(self: Tensor, *sizes: Any) -> Tensor:
    """The elements in row-major order with another shape, given as one tuple or as separate sizes."""
    return shape.reshape(self, _sizes(sizes))


def _permute_dims(self: Tensor, *axes: Any) -> Tensor:
    """Dimensions in another order, given as one tuple or as separate axes."""
    return shape.permute_dims(self, _sizes(axes))


def _to(self: Tensor, dtype: Any) -> Tensor:
    """In another dtype: `astype`. "cpu", where all tensors are, is taken as PyTorch takes it."""
    if isinstance(dtype, str) and dtype.partition(":")[0] in ("cuda", "mps", "gpu", "xpu"):
        raise UsageError(f"to({dtype!r}): pdl computes on the CPU; leave it out")
    return self if isinstance(dtype, str) and dtype == "cpu" else cast.astype(self, dtype)


def _transpose(self: Tensor) -> Tensor:
    """All dimensions in reverse order."""
    return shape.permute_dims(self, tuple(reversed(range(self.ndim))))


def bind() -> None:
    """Give `Tensor` its operators and methods."""
    for name, function in _BINARY.items():
        setattr(Tensor, f"__{name}__", _operator(function))
        setattr(Tensor, f"__r{name}__", _operator(function, swapped=True))
    for name, function in _COMPARE.items():
        setattr(Tensor, f"__{name}__", _operator(function))
    for name, one in _UNARY.items():
        setattr(Tensor, f"__{name}__", one)
    for module, names in _METHODS.items():
        for name in names:
            setattr(Tensor, name, explained(getattr(module, name)))
    others = {
        "__getitem__": index.getitem, "reshape": _reshape, "permute_dims": _permute_dims, "to": _to,
        "T": property(_transpose), "mT": property(shape.matrix_transpose),
    }  # fmt: skip
    for name, value in others.items():
        setattr(Tensor, name, value)


bind()
