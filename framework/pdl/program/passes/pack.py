"""Weights in the order that kernels read them, and the algorithm of every product: the one that takes least time.

Runs once the sizes are known. Products whose weights are constants become `PackedConv` and `PackedLinear`, those of
bytes `QConvPacked` and `QLinearPacked`; what a plan packs is kept in a `PackCache`, so plans for other shapes share it.
How long the forms of a product take is estimated from the figures of the machine (`costs`, `costs_quantised`), or was
timed (`tuning`). A pointwise convolution to so many channels that its output would leave the cache of a core is
computed row by row inside of the depthwise one that reads it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from pdl import machine
from pdl.dtype import Array, DType, bfloat16, float32, float64, uint8
from pdl.kernels import runtime
from pdl.ops.base import Op
from pdl.ops.conv import Conv
from pdl.ops.inference import ConvThen, LinearThen
from pdl.ops.linalg import Linear
from pdl.ops.nbits import LinearNBits
from pdl.ops.packed import LINE, ExpandDepthwise, PackedConv, PackedLinear, aligned, kept_blocks, pack_into, packed_size
from pdl.program.ir import Node, Program, Value
from pdl.program.passes.costs import PLAIN, Product, estimates, forms
from pdl.program.passes.log import log, wanted
from pdl.program.passes.pack_quantised import pack_quantised
from pdl.program.passes.rewrite import Rewriter, rewrite
from pdl.program.passes.tuning import time_products, timed
from pdl.threads import together

#: bytes of memory from which small packed weights are cut, at whole cache lines
BLOCK = 8 << 20
Key: TypeAlias = "tuple[Any, ...]"


class PackCache:
    """Packed weights by what they were made of; ``cache(program)`` is the pass.

    measuring   whether the machine may be measured where it has not been
    tune        True: products are timed that have not been; None: what was timed counts; False: estimates alone
    """

    def __init__(self, *, measuring: bool = False, tune: bool | None = None) -> None:
        self.measuring, self.tune = measuring or tune is True, tune
        self._packed: dict[Key, tuple[Any, Array]] = {}
        self._open: dict[Key, Callable[[], None]] = {}  # to be filled
        self._moved: dict[int, tuple[Array, Array]] = {}  # weights and their copies, by the id of either
        self._block: Array = aligned(0, uint8)  # what is left of it

    __name__ = "pack_weights"

    def __call__(self, program: Program) -> None:
        """`pack_weights`, `pack_quantised` and `move_narrow` with this cache."""
        pack_weights(program, self)
        pack_quantised(program, self.packed_bytes)
        move_narrow(program, self)

    def packed(self, form: str, w: Array, kept: int = 0) -> Array:
        """The weights in a form, once `fill` has been called; made once as long as the cache lives. `kept`: of so many
        "blocks"."""
        key = (id(w), form, w.shape)
        if key not in self._packed:
            made = self._piece(packed_size(form, w.shape, w.dtype, kept), w.dtype)
            self._open[key] = partial(pack_into, form, made, w)
            self._packed[key] = w, made  # w itself is kept, so that its id is not given to another
        return self._packed[key][1]

    def packed_bytes(self, op: Any, form: str, arrays: list[Any]) -> Array:
        """The same of a product of bytes: weights, scales and bias for its scales and its window."""
        window = getattr(op, "dilation", ()), getattr(op, "groups", 1)
        key = (*map(id, arrays), form, op.x_scale, op.x_zero, op.unit(), window)
        if key not in self._packed:
            made = op.packed(*arrays, form) if window[0] else op.packed(*arrays)
            self._packed[key] = arrays, made
        return self._packed[key][1]

    def moved(self, array: Array) -> Array:
        """A copy of weights that are packed already, in memory with huge pages."""
        found = self._moved.get(id(array))
        if found is None:
            made = self._piece(array.size, array.dtype).reshape(array.shape)
            made[...] = array
            found = self._moved[id(array)] = array, made
            self._moved[id(made)] = made, made
        return found[1]

    def fill(self) -> None:
        """Pack what `packed` has promised, on all threads."""
        promised, self._open = self._open, {}
        try:
            together(promised.values())
        except BaseException:
            for key in promised:
                del self._packed[key]
            raise

    def _piece(self, size: int, dtype: DType) -> Array:
        """Memory for so many numbers, of a block that is large enough for huge pages: fresh small ones cost as much as
        packing does."""
        nbytes = size * dtype.itemsize
        if nbytes > BLOCK // 2:
            return aligned(size, dtype)
        if nbytes > self._block.size:
            self._block = aligned(BLOCK, uint8)
        piece, self._block = self._block[:nbytes], self._block[-(-nbytes // LINE) * LINE :]
        return piece.view(dtype)

    @property
    def nbytes(self) -> int:
        """Memory of all packed weights."""
        moved = sum(made.nbytes for own, made in self._moved.values() if own is not made)
        return sum(made.nbytes for _, made in self._packed.values()) + moved


def move_narrow(program: Program, cache: PackCache) -> None:
    """Move weights of 8 and 4 bits, which steps read in whole for every token, into memory with huge pages: those of a
    file are mapped in small ones, and to find these takes longer than to read them."""

    def move(node: Node, walk: Rewriter) -> Value | None:
        if type(node.op) is not LinearNBits:
            return None
        x, *weights, b = node.inputs
        arrays = [array for v in weights if v is not None and (array := walk.constant(v)) is not None]
        moved = [cache.moved(array) for array in arrays]
        if len(moved) < len(weights) or moved[0] is arrays[0]:
            return None
        return walk.emit(node.op, x, *(walk.capture(array, v) for array, v in zip(moved, weights, strict=True)), b)

    rewrite(program, (move,))


def choose(program: Program, *, measuring: bool = False, tune: bool | None = None) -> dict[Product, str]:
    """The form of every product of a program that takes least time; the arguments are those of `PackCache`."""
    walk = Rewriter(program)
    found = {node: product_of(node, walk) for node in program.nodes}
    products = list(dict.fromkeys(product for product in found.values() if product is not None))
    if not products:
        return {}
    open_ = [product for product in products if len(forms(product)) > 1]
    figures = machine.current(measuring and bool(open_))
    threads, held = runtime.num_threads(), sum(value.nbytes for value in program.captures)
    if tune and machine.calibrated():
        time_products(open_, figures, threads, held)
    choice, times = {}, {} if tune is False else timed(open_, threads, held)
    for product in products:
        if len(forms(product)) == 1 and not wanted():
            choice[product] = forms(product)[0]
            continue
        seconds = times.get(product) or estimates(product, figures, threads, held)
        choice[product] = min(seconds, key=seconds.__getitem__)
        if wanted():
            each = ", ".join(f"{form} {1e6 * took:.1f}" for form, took in seconds.items())
            how = "timed" if times.get(product) else "estimated"
            log(program, f"{product}: {choice[product]}; {how} on {threads} threads, microseconds: {each}")
    return choice


def product_of(node: Node, walk: Rewriter) -> Product | None:
    """The product that a node computes with constant weights, if it may be packed."""
    op: Any = node.op
    if type(op) not in (Conv, ConvThen, Linear, LinearThen) or walk.constant(node.inputs[1]) is None:
        return None
    x, w, y = node.inputs[0], node.inputs[1], node.outputs[0].spec
    assert x is not None
    assert w is not None
    if x.spec.dtype not in (float32, bfloat16, float64) or 0 in (*y.shape, *w.spec.shape):
        return None
    if not isinstance(op, Linear | LinearThen) and op.groups != 1:
        return None
    array = walk.constant(w)
    kept = kept_blocks(array) if array is not None and x.spec.dtype == float32 else 0
    if isinstance(op, Linear | LinearThen):
        rows = math.prod(y.shape[:-1])
        return Product(y.dtype, (rows, w.spec.shape[0]), w.spec.shape, (rows, w.spec.shape[1]), kept=kept)
    return Product(y.dtype, x.spec.shape, w.spec.shape, y.shape, op.stride, op.padding, op.dilation, kept)


def expand_depthwise(node: Node, walk: Rewriter) -> Value | None:
    """The rule that joins a packed pointwise convolution and the depthwise one that alone reads it, where what lies
    between would leave the cache of a core and the weights stay in it."""
    op, expand = node.op, walk.single(node.inputs[0], PackedConv)
    if not isinstance(op, Conv | ConvThen) or op.groups == 1 or expand is None:
        return None
    first: Any = expand.op
    if first.form != "rows":
        return None
    x, weights, a, residual = expand.inputs
    w, b, added = (*node.inputs[1:], None, None)[:3]
    assert x is not None
    assert w is not None
    if residual is not None or added is not None or op.groups != w.spec.shape[-1] or not _pointwise(first):
        return None
    near = machine.current(False).sizes["L2"]
    if expand.outputs[0].nbytes < near / 2 or math.prod(first.kernel) * x.spec.dtype.itemsize > near / 4:
        return None
    then = (op.activation, op.parameters) if isinstance(op, ConvThen) else ()
    window = (op.stride, op.padding, op.dilation, op.groups)
    made = ExpandDepthwise(*window, first.activation, first.parameters, *then)
    return walk.emit(made, x, weights, a, w, b) if made.serves(x.spec, w.spec) else None


def _pointwise(op: PackedConv) -> bool:
    """Whether an output pixel depends on one input pixel, the one at its place."""
    return math.prod(op.kernel[:-2]) == 1 and not any(map(any, op.padding)) and set(op.stride) == {1}


def pack_weights(program: Program, cache: PackCache) -> None:
    """Rewrite convolutions and linear layers whose weights are constants into their packed form."""
    before = cache.nbytes
    choice = choose(program, measuring=cache.measuring, tune=cache.tune)

    def packed_weight(form: str, w: Value, walk: Rewriter, kept: int) -> Value:
        array = walk.constant(w)
        assert array is not None
        return walk.capture(cache.packed(form, array, kept), w)

    def pack_product(node: Node, walk: Rewriter) -> Value | None:
        product, op = product_of(node, walk), node.op
        form = PLAIN if product is None else choice[product]
        if product is None or form == PLAIN:
            return None
        kept = product.kept if form == "blocks" else 0
        x, w, b, residual = (*node.inputs, None, None)[:4]
        assert w is not None
        then = (op.activation, op.parameters) if isinstance(op, ConvThen | LinearThen) else ("", ())
        if isinstance(op, Conv | ConvThen):
            made: Op = PackedConv(op.stride, op.padding, op.dilation, 1, w.spec.shape, form, *then, kept)
        else:
            made = PackedLinear((w.spec.shape[0], w.spec.shape[1]), *then, kept)
        return walk.emit(made, x, packed_weight(form, w, walk, kept), b, residual)

    try:
        made = rewrite(program, (pack_product, expand_depthwise))
    finally:
        cache.fill()
    if made:
        log(program, f"packed weights: {cache.nbytes - before} new bytes, {cache.nbytes} in all")
