"""Chains of elementwise functions in one op: memory is read once and written once, however many steps there are."""

from __future__ import annotations

import math
from typing import Any, ClassVar, TypeAlias

from pdl.errors import ShapeError, UsageError
from pdl.kernels import chain as kernels
from pdl.kernels.copies import contiguous
from pdl.kernels.pointwise import BINARY, UNARY
from pdl.ops.base import Arrays, Op, Spec
from pdl.ops.checks import check_floating
from pdl.ops.inference import NO_GRADIENT

Step: TypeAlias = "tuple[str | float | bool, ...]"
Shape = tuple[int, ...]


class Chain(Op):
    """y = the first input through `steps`; bfloat16 is rounded once, at the end.

    A step is a function of `UNARY` with its parameters, such as ``("clip", 0.0, 6.0)``, or one of `BINARY` with the
    number of the input that is the other operand and whether that comes first: ``("subtract", 1, True)`` is
    input 1 - value. Operands lie beside the first input as `layout` says.
    """

    steps: tuple[Step, ...]
    native_bf16 = native = inplace = True
    vjp: ClassVar[Any] = NO_GRADIENT

    def infer(self, x: Spec, *operands: Spec) -> Spec:
        check_floating("chain", x=x)
        if layout(x.shape, [s.shape for s in operands]) is None:
            shown = ", ".join(str(s.shape) for s in operands)
            raise ShapeError(
                f"chain: operands {shown} beside x {x.shape}: neither like it, nor rows, columns or values"
            )
        if any(s.dtype != x.dtype for s in operands):
            raise ShapeError(f"chain: operands are {x.dtype.name} as x is, got {[s.dtype.name for s in operands]}")
        for step in self.steps:
            check_step(step, len(operands) + 1)
        return x

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        found = layout(ins[0].shape, [x.shape for x in ins[1:]])
        assert found is not None
        sizes, beside = found
        kernels.chain(outs[0], tuple(map(contiguous, ins)), ("same", *beside), sizes, self.steps)


def check_step(step: Step, inputs: int) -> None:
    """Raise unless a step names a function and, of two operands, one of the inputs."""
    name, *values = step or ("",)
    if name in UNARY and len(values) <= 3 and not any(isinstance(v, str) for v in values):
        return
    number = values[0] if values and type(values[0]) is int else -1
    if name not in BINARY or len(values) > 2 or not 0 <= number < inputs:
        raise UsageError(f"chain: step {step} is no function of UNARY or BINARY with one of the {inputs} inputs")


def layout(shape: Shape, operands: list[Shape]) -> tuple[tuple[int, int, int], list[str]] | None:
    """[outer, rows, columns] that an array of this shape is seen as, and how each operand lies beside it.

    "same", "one" value, a "row" [columns], an "outer_row" [outer, 1.., columns], a "column" [..., 1]; None where an
    operand is neither, or two want other cuts.
    """
    columns = shape[-1] if shape else 1
    cut: int | None = None  # how many leading dimensions are `outer`
    found: list[str] = []
    for operand in operands:
        if len(operand) > len(shape):
            return None
        whole = (*[1] * (len(shape) - len(operand)), *operand)
        kind, at = _beside(shape, whole)
        if kind is None or (at is not None and cut not in (None, at)):
            return None
        cut = at if at is not None else cut
        found.append(kind)
    if cut is not None:
        return (math.prod(shape[:cut]), math.prod(shape[cut:-1]), columns), found
    if all(kind in ("same", "one") for kind in found):
        return (1, 1, math.prod(shape)), found
    return (1, math.prod(shape[:-1]), columns), found


def _beside(shape: Shape, operand: Shape) -> tuple[str | None, int | None]:
    """How an operand of as many dimensions lies, and where it cuts the shape."""
    if all(n == 1 for n in operand):
        return "one", None
    if operand == shape:
        return "same", None
    if operand[-1] == shape[-1]:
        ahead = len(shape) - 1
        cut = next((i for i in range(ahead) if operand[i] != shape[i]), ahead)
        if any(n != 1 for n in operand[cut:ahead]):
            return None, None
        return ("row", None) if all(n == 1 for n in operand[:ahead]) else ("outer_row", cut)
    return ("column", None) if operand[-1] == 1 and operand[:-1] == shape[:-1] else (None, None)
