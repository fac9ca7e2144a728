"""A program in bfloat16: every node under the rules of `pdl.ops.precision`, weights cast once."""

from __future__ import annotations

from typing import Any

from pdl.dtype import DType
from pdl.ops.base import apply
from pdl.ops.cast import astype
from pdl.ops.precision import POLICY, Casting
from pdl.program.ir import Node, Program, Value
from pdl.program.passes import INFERENCE_ONCE, log, run_passes
from pdl.program.passes.cleanup import merge_equal, remove_dead
from pdl.program.tracing import Recorder, Symbol
from pdl.program.verify import verify
from pdl.tensor import Tensor, casting, no_grad

_NAMED = frozenset(" ".join(POLICY.values()).split())


class _Constants(Casting):
    """An autocast block in which every constant is cast once, however often it is used."""

    def to(self, x: Tensor, dtype: DType) -> Tensor:
        if isinstance(x, Symbol) or x.dtype == dtype:
            return super().to(x, dtype)
        key: Any = (id(x), dtype)
        if key not in self.cache:
            self.cache[key] = x, astype(x, dtype)
        return self.cache[key][1]


def to_bf16(program: Program) -> Program:
    """The program of a model for inference, with products and what is between them in bfloat16.

    Norms are folded and products fused before, in float32, so weights are rounded once. The nodes are then written
    again under the rules of `pdl.autocast`, as if the model had been traced inside the block; inputs and outputs keep
    their dtypes. Ops that the policy does not name (branches, loops) get what they were inferred for.
    """
    whole = run_passes(program.copy(), INFERENCE_ONCE)
    recorder, block = Recorder(whole.name), _Constants()
    recorder.names = {id(v.tensor): v.name for v in whole.captures if v.name is not None}
    with recorder.active(), no_grad():
        tensors: dict[Value, Tensor] = {v: recorder.input(v.spec, v.name or "x") for v in whole.inputs}
        tensors.update({v: v.tensor for v in whole.captures if v.tensor is not None})
        for node in whole.nodes:
            recorder._where = node.where
            tensors.update(zip(node.outputs, _again(node, tensors, block), strict=True))
        outputs = [None if v is None else _like(tensors[v], v, block) for v in whole.outputs]
        recorder.program.outputs = [None if y is None else recorder.value_of(y) for y in outputs]
    made = verify(run_passes(recorder.program, (merge_equal, remove_dead)), after="to_bf16")
    count = sum(v.spec.dtype.name == "bfloat16" for n in made.nodes for v in n.outputs)
    log(made, f"bfloat16: {count} of {len(made.nodes)} nodes")
    return made


def _again(node: Node, tensors: dict[Value, Tensor], block: _Constants) -> tuple[Tensor, ...]:
    """The outputs of a node, written once more."""
    if node.op.op_name in _NAMED or "." in node.op.op_name:
        with casting(block):
            made = apply(node.op, *(None if v is None else tensors[v] for v in node.inputs))
    else:
        made = apply(node.op, *(None if v is None else _like(tensors[v], v, block) for v in node.inputs))
    return made if isinstance(made, tuple) else (made,)


def _like(x: Tensor, value: Value, block: _Constants) -> Tensor:
    """The tensor in the dtype that the value had."""
    return block.to(x, value.spec.dtype)
