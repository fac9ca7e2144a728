"""From a program with symbolic sizes to one for given shapes: sizes put in, every node inferred again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pdl import dims
from pdl.dims import Dim
from pdl.errors import ShapeError
from pdl.ops.base import Op, Spec
from pdl.program.ir import Node, Program, Value, show_spec
from pdl.program.verify import inferred


def bind(program: Program, shapes: Sequence[tuple[int, ...]]) -> dict[str, int]:
    """The size of every name, from the shapes of all inputs in order; raises ShapeError where they do not fit."""
    if len(shapes) != len(program.inputs):
        raise ShapeError(f"{program.name} takes {len(program.inputs)} inputs, got {len(shapes)}")
    sizes: dict[str, int] = {}
    for value, shape in zip(program.inputs, shapes, strict=True):
        wanted = value.spec.shape
        if len(wanted) != len(shape):
            raise _misfit(program, value, shape, f"it has {len(wanted)} dimensions")
        for want, have in zip(wanted, shape, strict=True):
            if isinstance(want, Dim) and want.text in want.names and sizes.setdefault(want.text, have) != have:
                raise _misfit(program, value, shape, f"{want.text} is {sizes[want.text]} already")
    for value, shape in zip(program.inputs, shapes, strict=True):
        for want, have in zip(value.spec.shape, shape, strict=True):
            if isinstance(want, Dim) and len(want.names - sizes.keys()) == 1:
                _solve(want, have, sizes)
    for value, shape in zip(program.inputs, shapes, strict=True):
        for axis, (want, have) in enumerate(zip(value.spec.shape, shape, strict=True)):
            if isinstance(want, Dim) and want.names - sizes.keys():
                raise _misfit(program, value, shape, f"dimension {axis} must be {want.text}")
            size = want.at(sizes) if isinstance(want, Dim) else want
            if size != have or have < 0:
                raise _misfit(program, value, shape, f"dimension {axis} must be {size}")
    return sizes


def _solve(want: Dim, have: int, sizes: dict[str, int]) -> None:
    """Put in the one name that is not known of a product such as n b, where the size says what it is."""
    (name,) = want.names - sizes.keys()
    if len(want.expression) != 1:
        return
    one, two = (want.at({**sizes, name: n}) for n in (1, 2))
    if two == 2 * one and one > 0 and have % one == 0:
        sizes[name] = have // one


def specialise(program: Program, sizes: Mapping[str, int], *, exact: bool = False) -> Program:
    """The program with plain numbers for these sizes; captured tensors are shared.

    Raises ShapeError, naming the node, where an op does not take the shapes that follow; `exact`, also where a shape is
    not what its expression says, as of a slice that ends beyond a small size: what passes made of it relied on that.
    """
    made = Program(program.name)
    mapping: dict[Value, Value] = {}
    made.inputs = [_value(v, sizes, mapping) for v in program.inputs]
    made.captures = [_value(v, sizes, mapping) for v in program.captures]
    for node in program.nodes:
        made.nodes.append(_node(node, sizes, mapping))
        if exact:
            _require_exact(node, made.nodes[-1], sizes)
    made.outputs = [None if v is None else mapping[v] for v in program.outputs]
    made.effects = [(mapping[a], mapping[b]) for a, b in program.effects]
    return made


def _value(value: Value, sizes: Mapping[str, int], mapping: dict[Value, Value]) -> Value:
    spec = Spec(dims.at(value.spec.shape, sizes), value.spec.dtype)
    made = mapping[value] = Value(spec, tensor=value.tensor)
    made.name = value.name
    return made


def _node(node: Node, sizes: Mapping[str, int], mapping: dict[Value, Value]) -> Node:
    op, inputs = op_at(node.op, sizes), [None if v is None else mapping[v] for v in node.inputs]
    try:
        made = inferred(op, inputs, where=node.where, scope=node.scope, differentiable=node.differentiable)
    except ShapeError as error:
        where = f" ({node.where})" if node.where else ""
        raise ShapeError(f"at {_shown(sizes)}{where}: {error}") from error
    mapping.update(zip(node.outputs, made.outputs, strict=True))
    return made


def _require_exact(node: Node, made: Node, sizes: Mapping[str, int]) -> None:
    for value, found in zip(node.outputs, made.outputs, strict=True):
        shape = value.spec.shape
        if dims.at(shape, sizes) != found.spec.shape:
            raise ShapeError(f"at {_shown(sizes)}: {show_spec(value.spec)} is {found.spec.shape}")


def op_at(op: Op, sizes: Mapping[str, int]) -> Op:
    """The op with numbers in its attributes, and in the programs among them (`pdl.program.block.Block`)."""
    values = [getattr(op, name) for name in op.fields]
    made = [v.at(sizes) if hasattr(v, "at") else dims.at(v, sizes) for v in values]
    return op if all(a is b for a, b in zip(made, values, strict=True)) else type(op)(*made)


def _misfit(program: Program, value: Value, shape: tuple[int, ...], why: str) -> ShapeError:
    return ShapeError(f"{program.name}: input {value.name} is {show_spec(value.spec)}, got shape {shape}: {why}")


def _shown(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={size}" for name, size in sizes.items()) or "fixed sizes"
