"""Weights in the order that kernels read them, and the algorithm of every product, chosen by shape.

Runs once the sizes are known. Products whose weights are constants become `PackedConv` and `PackedLinear`; what a plan
packs is kept in a `PackCache`, so plans for other shapes share it.
"""

from __future__ import annotations

import math
from typing import Any

from pdl.dtype import Array, bfloat16, float32, float64
from pdl.kernels import runtime
from pdl.ops.base import Spec
from pdl.ops.conv import Conv
from pdl.ops.inference import ConvThen, LinearThen
from pdl.ops.linalg import Linear
from pdl.ops.packed import PackedConv, PackedLinear, pack
from pdl.program.ir import Node, Program, Value
from pdl.program.passes.log import log
from pdl.program.passes.rewrite import Rewriter, rewrite

#: multiply-adds in the time in which a number comes from memory, and in which a transform takes one (both threads)
FETCH, TRANSFORM = 8, 6
#: a convolution of fewer channels keeps its own kernel: windows of few numbers are dearer to gather than to read twice
FEW = 8


class PackCache:
    """Packed weights by what they were made of; ``cache(program)`` is the pass."""

    def __init__(self) -> None:
        self._packed: dict[tuple[int, str, tuple[int, ...]], tuple[Array, Array]] = {}

    __name__ = "pack_weights"

    def __call__(self, program: Program) -> None:
        """`pack_weights` with this cache."""
        pack_weights(program, self)

    def packed(self, form: str, w: Array) -> Array:
        """The weights in a form; made once as long as the cache lives."""
        key = (id(w), form, w.shape)
        if key not in self._packed:
            self._packed[key] = w, pack(form, w)  # w itself is kept, so that its id is not given to another
        return self._packed[key][1]

    @property
    def nbytes(self) -> int:
        """Memory of all packed weights."""
        return sum(made.nbytes for _, made in self._packed.values())


def choose(x: Spec, w: Spec, y: Spec, stride: tuple[int, ...], dilation: tuple[int, ...]) -> str | None:
    """The form in which weights w [*kernel, C, O] serve x [N, *spatial, C] and y best; None: as they are.

    What a form costs is counted in multiply-adds: those of its products, FETCH for every number of its weights, since
    between two runs of a net they leave the cache, and TRANSFORM for every number that Winograd's transforms make.
    """
    *kernel, c, o = w.shape
    taps = math.prod(kernel)
    if x.dtype not in (float32, bfloat16, float64) or 0 in (*y.shape, *w.shape) or (c < FEW and taps > 1):
        return None
    # Where the CPU multiplies bf16, direct sums take half the time; Winograd's points are float32 anyway.
    half = 2 if x.dtype == bfloat16 and runtime.isa() == "avx512_bf16" else 1
    costs = {"rows": (math.prod(y.shape[:-1]) + FETCH) * taps * c * o / half}
    if x.dtype != float64 and kernel == [3, 3] and {*stride, *dilation} == {1} and c % 16 == o % 16 == 0:
        for m in (4, 2):
            tiles = y.shape[0] * math.prod(-(-n // m) for n in y.shape[1:-1])
            points = (m + 2) ** 2
            costs[f"winograd{m}"] = points * ((tiles + FETCH) * c * o + TRANSFORM * tiles * (c + o))
    return min(costs, key=costs.__getitem__)


def pack_weights(program: Program, cache: PackCache) -> None:
    """Rewrite convolutions and linear layers whose weights are constants into their packed form."""
    before = cache.nbytes

    def packed_weight(form: str, w: Value | None, walk: Rewriter) -> Value:
        array = walk.constant(w)
        assert array is not None
        return walk.capture(cache.packed(form, array), w)

    def pack_conv(node: Node, walk: Rewriter) -> Value | None:
        op: Any = node.op
        if type(op) not in (Conv, ConvThen) or op.groups != 1 or walk.constant(node.inputs[1]) is None:
            return None
        x, w, b, residual = (*node.inputs, None, None)[:4]
        assert x is not None
        assert w is not None
        form = choose(x.spec, w.spec, node.outputs[0].spec, op.stride, op.dilation)
        if form is None:
            return None
        then = (op.activation, op.parameters) if isinstance(op, ConvThen) else ()
        made = PackedConv(op.stride, op.padding, op.dilation, 1, w.spec.shape, form, *then)
        return walk.emit(made, x, packed_weight(form, w, walk), b, residual)

    def pack_linear(node: Node, walk: Rewriter) -> Value | None:
        op: Any = node.op
        if type(op) not in (Linear, LinearThen) or walk.constant(node.inputs[1]) is None:
            return None
        x, w, b, residual = (*node.inputs, None, None)[:4]
        assert x is not None
        assert w is not None
        if x.spec.dtype not in (float32, bfloat16, float64) or 0 in node.outputs[0].spec.shape or 0 in w.spec.shape:
            return None
        then = (op.activation, op.parameters) if isinstance(op, LinearThen) else ()
        c, o = w.spec.shape
        return walk.emit(PackedLinear((c, o), *then), x, packed_weight("rows", w, walk), b, residual)

    if rewrite(program, (pack_conv, pack_linear)):
        log(program, f"packed weights: {cache.nbytes - before} new bytes, {cache.nbytes} in all")
