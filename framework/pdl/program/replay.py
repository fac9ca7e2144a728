"""A program as a function of tensors: its ops are called one by one, eagerly or in another trace, with gradients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pdl.ops.base import apply
from pdl.program.ir import Program, Value
from pdl.tensor import Tensor


def replay(program: Program, *inputs: Tensor, given: Mapping[Value, Tensor] | None = None) -> list[Tensor]:
    """The outputs of a program of plain sizes for these inputs; `given`: tensors in place of captured ones."""
    values: dict[Value, Any] = dict(zip(program.inputs, inputs, strict=True))
    values.update({v: v.tensor for v in program.captures})
    values.update(given or {})
    for node in program.nodes:
        made = apply(node.op, *[None if v is None else values[v] for v in node.inputs])
        values.update(zip(node.outputs, made if isinstance(made, tuple) else (made,), strict=True))
    return [values[v] for v in program.outputs if v is not None]
