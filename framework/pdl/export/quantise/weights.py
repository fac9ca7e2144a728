"""Weights of few bits in a program: the products of its large constant matrices read 8 or 4 bits a weight."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pdl.dtype import Array, float32
from pdl.ops.base import Spec
from pdl.ops.linalg import Linear, MatMul
from pdl.ops.nbits import LinearNBits, dequantise, quantise
from pdl.ops.shape import PermuteDims
from pdl.program import Program
from pdl.program.ir import Node, Value
from pdl.program.passes.cleanup import remove_dead
from pdl.program.verify import inferred
from pdl.tensor import Tensor

FEWEST = 1024
"""Weights of a matrix that is worth it."""


@dataclass(frozen=True)
class Narrowed:
    """A program whose matrices have few bits.

    matrices   how many do, and how many products there are
    rounded    the tensors that it was made of, with the array that each now stands for
    """

    program: Program
    matrices: tuple[int, int]
    rounded: list[tuple[Tensor, Array]]


def narrow_weights(program: Program, bits: int, group: int, keep: str = "") -> Narrowed:
    """A copy in which `LinearNBits` takes the place of linear layers, and of products with a constant matrix or its
    transpose, in float32 with inputs in multiples of 8. `keep` leaves the "first" product, the "last" or "both" as they
    are."""
    program = program.copy()
    found = [(node, parts) for node in program.nodes if (parts := _matrix(node)) is not None]
    left = {"first": found[:1], "last": found[-1:], "both": [*found[:1], *found[-1:]]}.get(keep, [])
    out = {node for node, _ in left}
    mapping: dict[Value, Value] = {}
    replaced: dict[Node, Node] = {}
    rounded: list[tuple[Tensor, Array]] = []
    packed: dict[tuple[int, bool], tuple[Value, Value]] = {}
    for node, (tensor, turned) in found:
        if node in out:
            continue
        w = tensor._data.T if turned else tensor._data
        key = id(tensor), turned
        if key not in packed:
            made = quantise(w, bits, group)
            name = next((v.name for v in program.captures if v.tensor is tensor), None) or f"weight{len(packed)}"
            packed[key] = (_captured(program, made[0], f"{name}.packed"), _captured(program, made[1], f"{name}.levels"))
            back = dequantise(*made, w.shape, bits, group)
            rounded.append((tensor, np.ascontiguousarray(back.T) if turned else back))
        bias = node.inputs[2] if isinstance(node.op, Linear) else None
        features = (int(w.shape[0]), int(w.shape[1]))
        new = inferred(
            LinearNBits(features, bits, group), (node.inputs[0], *packed[key], bias), where=node.where, scope=node.scope
        )
        replaced[node] = new
        mapping[node.outputs[0]] = new.outputs[0]
    program.nodes = [replaced.get(node, node) for node in program.nodes]
    program.replace(mapping)
    remove_dead(program)
    return Narrowed(program, (len(replaced), _products(program)), rounded)


def _matrix(node: Node) -> tuple[Tensor, bool] | None:
    """The constant matrix that a node multiplies with, and whether by its transpose."""
    if type(node.op) not in (Linear, MatMul):
        return None
    w, turned = node.inputs[1], False
    maker = None if w is None else w.node
    if maker is not None and isinstance(maker.op, PermuteDims) and len(maker.op.axes) == 2:
        w, turned = maker.inputs[0], tuple(a % 2 for a in maker.op.axes) == (1, 0)
    if w is None or w.tensor is None or w.spec.dtype != float32 or len(w.spec.shape) != 2:
        return None
    shape = w.spec.shape[::-1] if turned else w.spec.shape
    return (w.tensor, turned) if shape[0] % 8 == 0 and int(np.prod(shape)) >= FEWEST else None


def _captured(program: Program, array: Array, name: str) -> Value:
    tensor = Tensor._wrap(array)
    value = Value(Spec(tensor.shape, tensor.dtype), tensor=tensor)
    value.name = name
    program.captures.append(value)
    return value


def _products(program: Program) -> int:
    return sum(type(node.op) in (Linear, MatMul, LinearNBits) for node in program.nodes)
