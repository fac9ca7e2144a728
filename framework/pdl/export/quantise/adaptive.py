"""Weights rounded up or down by what the layer makes of them, not each to its nearest byte (AdaRound, Nagel et al.,
arXiv 2004.10568).

Of a product y = x W + b, with the inputs x of the net in floats and x' of the net on bytes, the weights s Q are wanted
whose outputs come nearest in the mean of squares,

    E ||x W + b - x' s Q - b'||^2 + damping ||W - s Q||^2,    Q in {floor(W / s), ceil(W / s)}

a quadratic binary problem for each output. Coordinate descent from the nearest bytes solves it well enough (as in Nair
and Suggala, arXiv 2406.17542): a weight goes to its other byte where that makes the sum less, until none does. The bias
b' takes the mean of what is left. Layers follow one another, so that each makes good what those before it have left.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from pdl.dtype import Array
from pdl.ops.base import apply
from pdl.ops.conv import Conv
from pdl.ops.inference import ConvThen
from pdl.ops.linalg import Linear, matmul
from pdl.program.ir import Node, Program, Value
from pdl.program.specialise import bind, specialise
from pdl.tensor import Tensor, no_grad

SAMPLES, BYTES = 512, 1 << 30  # at most: of the samples, and what both nets hold of them at a time
WORDS = 8  # as many floats of the largest activation
ROWS = 4096  # of inputs that a layer is fitted to, or twice as many as it has weights for an output
LEAST = 4  # held rows, or nothing changes
HELD = 4  # each so many-th row says whether the new weights are better
DAMPING = 0.01  # of the mean square of an input
SWEEPS, BLOCK = 16, 64


class Gain(NamedTuple):
    """What a layer's outputs are off by, in the mean of squares on rows that it was not fitted to: with every weight at
    its nearest byte, and now."""

    name: str
    nearest: float
    adapted: float


def adapt(
    floats: Program, pairs: Program, twins: Mapping[Node, Node], products: Sequence[tuple[str, Node]], data: Any
) -> list[Gain]:
    """Round the weights of some products anew, in place.

    floats     the program in floats
    pairs      with QuantizeLinear and DequantizeLinear; its int8 weights and biases change
    twins      nodes of `pairs`, by those of `floats`
    products   of `pairs`, with names
    data       batches of inputs
    """
    names = {node: name for name, node in products}
    for node in names:
        _own_bias(pairs, node)
    places = {twins[node]: n for n, node in enumerate(floats.nodes)}
    later = {node.inputs[1].node for node in names if node.inputs[1] is not None}
    numbers = {node: n for n, node in enumerate(pairs.nodes)}
    found: list[Gain] = []
    with no_grad():
        lives = [(_Live(floats, batch), _Live(pairs, batch)) for batch in _spread(floats, data)]
        for n, node in enumerate(pairs.nodes):
            if node in later:  # the weights of a product, which are about to change
                continue
            at = places.get(node)
            if node in names:
                assert at is not None
                given = [(one.inputs(at)[0]._data, two.inputs(n)[0]._data) for one, two in lives]
                found.append(Gain(names[node], *_round(floats.nodes[at], node, given)))
                for _, two in lives:
                    two.run(numbers[node.inputs[1].node])  # type: ignore[union-attr,index]
            for one, two in lives:
                if at is not None:
                    one.run(at)
                two.run(n)
    return found


class _Live:
    """A program that runs node by node; what nobody reads any more is forgotten."""

    def __init__(self, program: Program, batch: Sequence[Array]) -> None:
        plain = specialise(program, bind(program, [x.shape for x in batch]))
        self.nodes = plain.nodes
        self.values: dict[Value, Any] = {v: v.tensor for v in plain.captures}
        self.values |= dict(zip(plain.inputs, map(Tensor._wrap, batch), strict=True))
        self.last = {v: n for n, node in enumerate(plain.nodes) for v in node.inputs if v is not None}
        for value in plain.captures:
            self.last.pop(value, None)

    def inputs(self, n: int) -> list[Any]:
        return [None if v is None else self.values.get(v) for v in self.nodes[n].inputs]

    def run(self, n: int) -> None:
        node, given = self.nodes[n], self.inputs(n)
        while given and given[-1] is None and isinstance(node.op, Conv | Linear):
            given.pop()
        made = apply(node.op, *given)
        for value, y in zip(node.outputs, made if isinstance(made, tuple) else (made,), strict=True):
            if value in self.last:
                self.values[value] = y
        for read in node.inputs:
            if read is not None and self.last.get(read) == n:
                self.values.pop(read, None)


def _spread(program: Program, batches: Sequence[Sequence[Array]]) -> Iterator[list[Array]]:
    """Samples from all over the batches, as many as memory is meant for."""
    first = specialise(program, bind(program, [x.shape for x in batches[0]]))
    largest = max(math.prod(y.spec.shape) for node in first.nodes for y in node.outputs) / len(batches[0][0])
    total = sum(len(batch[0]) for batch in batches)
    count = int(min(SAMPLES, total, max(8, BYTES / (WORDS * 4 * largest))))
    chosen, begin = np.unique(np.linspace(0, total - 1, count).astype(int)), 0
    for batch in batches:
        end = begin + len(batch[0])
        own = chosen[(chosen >= begin) & (chosen < end)] - begin
        if len(own):
            of_each = [x.shape[:1] == (len(batch[0]),) for x in batch]  # others are of all samples
            yield [np.ascontiguousarray(x[own]) if each else x for x, each in zip(batch, of_each, strict=True)]
        begin = end


def _own_bias(program: Program, node: Node) -> None:
    """A bias that no other product, and no other program, reads."""
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    if bias is not None and bias.tensor is not None:
        made = Value(bias.spec, tensor=Tensor._wrap(np.array(bias.tensor._data)))
        made.name = bias.name
        program.captures.append(made)
        node.inputs = (*node.inputs[:2], made, *node.inputs[3:])


# -- one product -------------------------------------------------------------------------------------------------------
def _round(floats: Node, pairs: Node, given: Sequence[tuple[Array, Array]]) -> tuple[float, float]:
    """Write the int8 weights, and the bias, of one product; its error before and after, on held rows."""
    w = floats.inputs[1].tensor._data  # type: ignore[union-attr]
    stored, scales = (v.tensor._data for v in pairs.inputs[1].node.inputs[:2])  # type: ignore[union-attr]
    bias = pairs.inputs[2] if len(pairs.inputs) > 2 else None
    groups = int(getattr(pairs.op, "groups", 1))

    def split(array: Array) -> Array:
        """[..., C / groups, O] as [groups, K, O / groups], float32."""
        rows = array.reshape(-1, groups, array.shape[-1] // groups)
        return np.ascontiguousarray(np.moveaxis(rows, 1, 0), dtype=np.float32)

    whole, near = split(w), split(stored)
    scale = split(scales[None])
    most = max(ROWS, 2 * whole.shape[1])
    taken = [_rows(pairs, one, two, -(-most // len(given)), w.shape) for one, two in given]
    x, y = (np.concatenate(each, axis=1) for each in zip(*taken, strict=True))  # [groups, rows, K]
    held = np.arange(x.shape[1]) % HELD == HELD - 1
    if held.sum() < LEAST:
        return math.nan, math.nan
    fit, fit_y, mean, mean_y = _centred(x[:, ~held], y[:, ~held], bias is not None)
    made = descend(fit, fit_y, whole, near, scale)
    shift = _product(mean, whole) - _product(mean_y, made * scale)  # [groups, 1, O / groups]
    wanted, there = _product(x[:, held], whole), y[:, held]
    before = float(np.mean(np.square(wanted - _product(there, near * scale))))
    after = float(np.mean(np.square(wanted - _product(there, made * scale) - shift)))
    if not after < before:
        return before, before
    stored[...] = np.moveaxis(made, 0, 1).reshape(stored.shape)
    if bias is not None and bias.tensor is not None:
        bias.tensor._data[...] += shift.reshape(-1)
    return before, after


def descend(x: Array, y: Array, w: Array, near: Array, scale: Array) -> Array:
    """Bytes Q with ||x w - y s Q||^2 / R + damping ||w - s Q||^2 as small as coordinate descent from `near` makes it:
    ||x w - y s Q|| is never more than with `near`.

    x, y    inputs of the product in floats and on bytes, float32 [G, R, K]: groups, rows, inputs
    w       weights float32 [G, K, O]
    near    their nearest bytes float32 [G, K, O]; scale: s float32 [G, 1, O]
    """
    own, cross = (_product(np.swapaxes(y, 1, 2), z) / y.shape[1] for z in (y, x))
    size = np.arange(own.shape[1])
    damping = DAMPING * own[:, size, size].mean(axis=1)[:, None] + 1e-12
    own[:, size, size] += damping
    cross[:, size, size] += damping
    squares = own[:, size, size]  # [G, K]
    slope = _product(own, near * scale) - _product(cross, w)  # half the gradient
    exact = w / scale
    low, high = np.clip(np.floor(exact), -127, 127), np.clip(np.ceil(exact), -127, 127)
    both, q = low + high, near.copy()
    for _ in range(SWEEPS):
        changed = False
        for begin in range(0, len(size), BLOCK):
            part = slice(begin, begin + BLOCK)
            inside, there, before = own[:, part, part], slope[:, part].copy(), q[:, part].copy()
            for k in range(there.shape[1]):
                n = begin + k
                step = (both[:, n] - 2 * q[:, n]) * scale[:, 0]
                step = np.where(step * (2 * there[:, k] + step * squares[:, n, None]) < 0, step, 0)
                if step.any():
                    changed = True
                    q[:, n] = np.where(step != 0, both[:, n] - q[:, n], q[:, n])
                    there += inside[:, :, k, None] * step[:, None]
            slope += _product(own[:, :, part], (q[:, part] - before) * scale)
        if not changed:
            break
    return q


def _product(a: Array, b: Array) -> Array:
    """a @ b, on as many threads as all else."""
    made: Array = matmul(Tensor._wrap(np.ascontiguousarray(a)), Tensor._wrap(np.ascontiguousarray(b)))._data
    return np.array(made)


def _centred(x: Array, y: Array, centre: bool) -> tuple[Array, Array, Array, Array]:
    """Inputs without their means, which a bias takes on; and the means [G, 1, K]."""
    if not centre:
        none = np.zeros_like(x[:, :1])
        return x, y, none, none
    means = x.mean(axis=1, keepdims=True), y.mean(axis=1, keepdims=True)
    return x - means[0], y - means[1], *means


def _rows(node: Node, x: Array, y: Array, most: int, w: tuple[int, ...]) -> tuple[Array, Array]:
    """What some outputs of a product are made of [groups, rows, K], in both nets, at the same places."""
    op: Any = node.op
    if not isinstance(op, Conv | ConvThen):
        flat = [z.reshape(-1, z.shape[-1]) for z in (x, y)]
        chosen = np.unique(np.linspace(0, len(flat[0]) - 1, most).astype(int))
        return flat[0][chosen][None], flat[1][chosen][None]
    pad = ((0, 0), *op.padding, (0, 0))
    spans = [d * (k - 1) + 1 for d, k in zip(op.dilation, w, strict=False)]
    out = [
        (n + sum(p) - span) // s + 1 for n, p, span, s in zip(x.shape[1:], op.padding, spans, op.stride, strict=False)
    ]
    total = len(x) * int(np.prod(out))
    chosen = np.arange(total) if total <= most else np.sort(np.random.default_rng(0).choice(total, most, replace=False))
    sample, *places = np.unravel_index(chosen, (len(x), *out))
    rank = len(out)
    at = [sample.reshape(-1, *[1] * rank)]
    for axis, place in enumerate(places):
        taps = place[:, None] * op.stride[axis] + np.arange(w[axis]) * op.dilation[axis]
        at.append(taps.reshape(len(chosen), *(w[axis] if a == axis else 1 for a in range(rank))))
    found = []
    for z in (x, y):
        cells = np.pad(z, pad)[tuple(at)].reshape(len(chosen), -1, op.groups, w[-2])
        found.append(np.moveaxis(cells, 2, 0).reshape(op.groups, len(chosen), -1))
    return found[0], found[1]
