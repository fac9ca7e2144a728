"""What an op costs: multiply-adds and bytes, from the shapes of what goes in and comes out.

Model summaries, the profiler and the benchmarks count with it. Multiply-adds are those of products (convolutions,
matrices, recurrent layers, attention), as papers count them; everything else has none. An algorithm that needs fewer
(Winograd) or computes something twice (attention's gradient) counts like the plain formula.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from pdl.ops.base import Op

#: arrays, tensors or specs (whatever has `shape` and `dtype`); None for an absent input
Values: TypeAlias = "Sequence[Any]"


def _size(value: Any) -> int:
    return math.prod(value.shape)


def _attention(op: Any, q: Any, k: Any, y: Any) -> int:
    """Scores and their product with v: L S columns each, in every head. A causal mask does not count less."""
    keys = q.shape[-2] if k is None else k.shape[-2]
    width = _size(q) // 3 if k is None else _size(q)
    return keys * (width + _size(y))


#: of pdl's own products, by name: (op, inputs, outputs) -> multiply-adds
MULTIPLY_ADDS: dict[str, Callable[[Any, Values, Values], int]] = {
    "Conv": lambda op, ins, outs: _size(outs[0]) * math.prod(ins[1].shape[:-1]),
    "ConvDx": lambda op, ins, outs: _size(ins[0]) * math.prod(ins[1].shape[:-1]),
    "ConvDw": lambda op, ins, outs: _size(ins[1]) * math.prod(outs[0].shape[:-1]),
    "ConvStats": lambda op, ins, outs: _size(outs[0]) * math.prod(ins[1].shape[:-1]),
    "ConvAct": lambda op, ins, outs: _size(outs[0]) * math.prod(ins[1].shape[:-1]),
    "ConvThen": lambda op, ins, outs: _size(outs[0]) * math.prod(ins[1].shape[:-1]),
    "PackedConv": lambda op, ins, outs: _size(outs[0]) * math.prod(op.kernel[:-1]),
    "ExpandDepthwise": lambda op, ins, outs: _size(ins[0]) * ins[3].shape[-1]
    + _size(outs[0]) * math.prod(ins[3].shape[:-1]),
    "PackedLinear": lambda op, ins, outs: _size(outs[0]) * op.features[0],
    "LinearNBits": lambda op, ins, outs: _size(outs[0]) * op.features[0],
    "QConv": lambda op, ins, outs: _size(outs[0]) * math.prod(ins[1].shape[:-1]),
    "QConvPacked": lambda op, ins, outs: _size(outs[0]) * math.prod(op.kernel) * ins[0].shape[-1] // op.groups,
    "QLinear": lambda op, ins, outs: _size(outs[0]) * ins[0].shape[-1],
    "QLinearPacked": lambda op, ins, outs: _size(outs[0]) * ins[0].shape[-1],
    "LinearThen": lambda op, ins, outs: _size(outs[0]) * ins[0].shape[-1],
    "LinearAct": lambda op, ins, outs: _size(outs[0]) * ins[0].shape[-1],
    "NormConv": lambda op, ins, outs: _size(outs[0]) * math.prod(ins[5].shape[:-1]),
    "NormConvGrad": lambda op, ins, outs: 2 * _size(ins[0]) * math.prod(ins[10].shape[:-1]),
    "LinearCrossEntropy": lambda op, ins, outs: ins[0].shape[0] * _size(ins[1]),
    "LinearCrossEntropyGrad": lambda op, ins, outs: 2 * ins[1].shape[0] * _size(ins[2]),
    "MelSpectrogram": lambda op, ins, outs: _size(outs[0]) * ins[2].shape[0],
    "MatMul": lambda op, ins, outs: _size(outs[0]) * ins[0].shape[-1],
    "Linear": lambda op, ins, outs: _size(outs[0]) * ins[0].shape[-1],
    "Recurrent": lambda op, ins, outs: _size(ins[0]) * ins[3].shape[0],
    "RecurrentGrad": lambda op, ins, outs: 2 * _size(ins[3]) * ins[6].shape[0],
    "CachedAttention": lambda op, ins, outs: ins[3].shape[1] * (_size(ins[0]) + _size(outs[0])),
    "ScaledDotProductAttention": lambda op, ins, outs: _attention(op, ins[0], ins[1], outs[0]),
    "ScaledDotProductAttentionGrad": lambda op, ins, outs: 2 * _attention(op, ins[3], ins[4], ins[1]),
    "RelativeAttention": lambda op, ins, outs: _attention(op, ins[0], ins[2], outs[0])
    + _size(ins[1]) * ins[4].shape[0],
    "RelativeAttentionGrad": lambda op, ins, outs: 2 * _attention(op, ins[3], ins[5], ins[1])
    + 2 * _size(ins[4]) * ins[7].shape[0],
}
#: ops that read as much of their first input as they write
SELECTING = ("Embedding", "ServedEmbedding", "Gather", "GetAt")


def multiply_adds(op: Op, ins: Values, outs: Values) -> int:
    """Multiply-adds of one call; 0 for ops that are no products."""
    count = MULTIPLY_ADDS.get(op.op_name)
    return op.multiply_adds(ins, outs) if count is None else count(op, ins, outs)


def traffic(op: Op, ins: Values, outs: Values) -> int:
    """Bytes of one call that computes: every input is read and every output written once."""
    sizes = [0 if x is None else _size(x) * x.dtype.itemsize for x in (*ins, *outs)]
    if op.op_name in SELECTING:
        sizes[0] = sizes[len(ins)]
    return sum(sizes)
