"""How elementwise ops are made: one call of `unary` or `binary` defines the op class and its public function.

Two tensors of one dtype go straight to the op; other pairs are first brought to their common dtype
(`pdl.dtype.promote`), and a Python scalar becomes one element of the tensor's dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeAlias

import numpy as np

from pdl.dtype import DType, bfloat16, bool_, float32, is_differentiable, of_scalar
from pdl.errors import DtypeError
from pdl.kernels.copies import contiguous
from pdl.kernels.launch import now, recording
from pdl.kernels.pointwise import BINARY, UNARY, fits
from pdl.kernels.pointwise import binary as binary_kernel
from pdl.kernels.pointwise import unary as unary_kernel
from pdl.ops.base import Arrays, Op, Spec, apply, not_differentiable
from pdl.ops.broadcast import unbroadcast
from pdl.ops.cast import as_tensors, astype
from pdl.ops.checks import broadcast_shapes, check_kind
from pdl.tensor import Scalar, Tensor, TensorLike, _Autocast, as_tensor

Unary: TypeAlias = Callable[[TensorLike], Tensor]
Binary: TypeAlias = Callable[[TensorLike, TensorLike], Tensor]
Partial: TypeAlias = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
SCALARS = (bool, int, float, complex)


def same(dtype: DType) -> DType:
    """The result has the dtype of the operand."""
    return dtype


def to_bool(_dtype: DType) -> DType:
    """The result is bool, as of comparisons."""
    return bool_


class UnaryOp(Op, abstract=True):
    """y = f(x) element by element. `kinds`: what f takes; `body`: f with `out`; `result`: the dtype it makes of x's.

    bfloat16 and contiguous float32 and float64 go to pdl's kernel where it has one of this name; the rest to NumPy.
    """

    label: ClassVar[str]
    kinds: ClassVar[str]
    body: ClassVar[Any]
    result: ClassVar[Any]

    def infer(self, x: Spec) -> Spec:
        check_kind(self.label, self.kinds, x.dtype)
        return Spec(x.shape, self.result(x.dtype))

    def cpu(self, outs: Arrays, ins: Arrays) -> None:
        x = ins[0]
        if self.label in UNARY and (x.dtype.kind == "f" or x.dtype == bfloat16):
            return unary_kernel(self.label, outs[0], contiguous(x))
        if recording():
            now(f"{self.label} of {x.dtype} is left to NumPy")
        self.body(x, outs[0])


def unary(
    name: str,
    body: Callable[..., Any],
    doc: str,
    gradient: Callable[[Tensor, Tensor, Tensor], Tensor] | not_differentiable,
    kinds: str = "fc",
    result: Callable[[DType], DType] = same,
) -> Unary:
    """Define the op and its public function; ints become float32 where `kinds` has no "i" but "f"."""
    vjp = gradient if isinstance(gradient, not_differentiable) else lambda _self, g, y, x: gradient(g, y, x)
    parts = {"body": staticmethod(body), "kinds": kinds, "result": staticmethod(result)}
    parts |= {"native_bf16": name in UNARY, "native": name in UNARY}
    op = _define(UnaryOp, name, doc, {**parts, "vjp": vjp})
    to_float = "i" not in kinds and "f" in kinds

    def function(x: TensorLike) -> Tensor:
        x = x if isinstance(x, Tensor) else as_tensor(x)
        if to_float and not is_differentiable(x.dtype):
            x = astype(x, float32)
        return apply(op, x)  # type: ignore[no-any-return]

    return _named(function, name, doc)


def _define(base: type[Op], name: str, doc: str, parts: dict[str, Any]) -> Op:
    """An instance of the op class `name` (in CamelCase) with these parts."""
    members = {"__doc__": doc, "__module__": __name__, "label": name, **parts}
    made: type[Op] = type(name.title().replace("_", ""), (base,), members)
    return made()


def _named(function: Any, name: str, doc: str) -> Any:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


class BinaryOp(Op, abstract=True):
    """y = f(a, b) element by element, broadcast; a and b have one dtype. The parts are those of `UnaryOp`."""

    label: ClassVar[str]
    kinds: ClassVar[str]
    body: ClassVar[Any]
    result: ClassVar[Any]

    def infer(self, a: Spec, b: Spec) -> Spec:
        name = self.label
        if a.dtype != b.dtype:
            raise DtypeError(f"{name}: {a.dtype.name} meets {b.dtype.name}; astype one of them")
        check_kind(name, self.kinds, a.dtype)
        shape = a.shape if a.shape == b.shape else broadcast_shapes(name, a.shape, b.shape)
        return Spec(shape, self.result(a.dtype))

    def cpu(self, outs: Arrays, ins: Arrays) -> None:
        (a, b), y = ins, outs[0]
        known = self.label in BINARY
        native = known and (a.dtype == bfloat16 or (recording() and a.dtype.kind == "f"))
        if native and not y.size:
            return
        if known and (native or y.size > 512) and fits(y, a, b):
            binary_kernel(self.label, y, a, b)
        elif native:
            binary_kernel(self.label, y, *(contiguous(np.broadcast_to(v, y.shape)) for v in (a, b)))
        else:
            if recording():  # the names of dtypes take NumPy as long as a small op
                now(f"{self.label} of {a.dtype} is left to NumPy")
            self.body(a, b, out=y)


def binary(
    name: str,
    body: Callable[..., Any],
    doc: str,
    gradient: tuple[Partial, Partial] | not_differentiable,
    kinds: str = "ifc",
    result: Callable[[DType], DType] = same,
    *,
    native_bf16: bool = False,
) -> Binary:
    """Define the op and its public function; ints become float32 where `kinds` has no "i" but "f". `native_bf16`: the
    body takes bfloat16."""
    vjp = _binary_vjp(gradient)
    parts = {"body": staticmethod(body), "kinds": kinds, "result": staticmethod(result)}
    parts |= {"native_bf16": native_bf16 or name in BINARY, "native": name in BINARY}
    op = _define(BinaryOp, name, doc, {**parts, "vjp": vjp})
    to_float = "i" not in kinds and "f" in kinds

    def function(a: TensorLike, b: TensorLike) -> Tensor:
        if type(a) is not Tensor or type(b) is not Tensor or a._data.dtype != b._data.dtype:
            if _Autocast.active is not None and isinstance(a, Tensor) and isinstance(b, Tensor):
                a, b = _Autocast.active.inputs(op, (a, b))
            a, b = pair(a, b)
        if to_float and not is_differentiable(a.dtype):
            a, b = astype(a, float32), astype(b, float32)
        return apply(op, a, b)  # type: ignore[no-any-return]

    return _named(function, name, doc)  # type: ignore[no-any-return]


def _binary_vjp(gradient: tuple[Partial, Partial] | not_differentiable) -> Any:
    if isinstance(gradient, not_differentiable):
        return gradient
    da, db = gradient

    def vjp(_self: Op, g: Tensor, y: Tensor, a: Tensor, b: Tensor) -> Any:
        return lambda: unbroadcast(da(g, y, a, b), a.shape), lambda: unbroadcast(db(g, y, a, b), b.shape)

    return vjp


def pair(a: TensorLike, b: TensorLike) -> tuple[Tensor, Tensor]:
    """Both as tensors of one dtype; a Python scalar takes the other's dtype and stays one element."""
    if isinstance(a, Tensor) and isinstance(b, SCALARS):
        return beside(a, b)
    if isinstance(b, Tensor) and isinstance(a, SCALARS):
        b, a = beside(b, a)
        return a, b
    a, b = as_tensors(a, b)
    return a, b


def beside(x: Tensor, scalar: Scalar) -> tuple[Tensor, Tensor]:
    """A tensor and a Python scalar as two tensors of one dtype; DtypeError where the scalar does not fit it."""
    dtype = of_scalar(scalar, x.dtype)
    try:
        other = Tensor._wrap(np.array(scalar, dtype))
    except OverflowError:
        info = np.iinfo(dtype)
        raise DtypeError(
            f"the scalar {scalar} does not fit {dtype.name} [{info.min}, {info.max}]; astype first"
        ) from None
    return (x if x.dtype == dtype else astype(x, dtype)), other
