"""Calibration: the net runs on samples, every activation that will be rounded is watched, and ranges come of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from pdl.dtype import Array
from pdl.errors import UsageError
from pdl.export.quantise.adaptive import Gain, adapt
from pdl.export.quantise.observe import METHODS, Histogram
from pdl.export.quantise.smooth import readers, smooth
from pdl.ops.quant import QuantizeLinear
from pdl.program.executor import Executable
from pdl.program.ir import Node, Program, Value
from pdl.program.passes import run_passes
from pdl.program.passes.affine import fold_norms
from pdl.program.passes.cleanup import drop_aliases, merge_equal, remove_dead
from pdl.program.passes.fold import fold_constants
from pdl.program.passes.fuse_quantised import fuse_known, fuse_quantised
from pdl.program.passes.lower import lower
from pdl.program.passes.quantise import Points, Range, is_window, points, quantise, split_epilogues
from pdl.program.specialise import bind, specialise
from pdl.program.verify import verify
from pdl.runtime.plan import frozen

#: what makes a program ready: norms folded into weights, nothing in epilogues that products of bytes do not take along
PREPARE = (drop_aliases, remove_dead, fold_constants, merge_equal, lower, fold_norms, fuse_known, remove_dead)
ROUNDINGS = ("nearest", "adaptive")
Batch = Sequence[Array]


class Error(NamedTuple):
    """How far one activation is from the net in floats.

    name     the module and the op that makes it
    noise    mean square of the difference over mean square of the value, in dB: -40 is a hundredth of its size
    """

    name: str
    noise: float


class Calibration(NamedTuple):
    """What calibration made.

    floats     the program in floats, prepared
    pairs      the same with QuantizeLinear and DequantizeLinear
    program    on bytes
    errors     of every rounded activation, in the order of the net
    method     how ranges were chosen
    spared     names of the products that stay in floats because their bytes would cost the outputs most
    gains      of every product whose weights were rounded adaptively
    """

    floats: Program
    pairs: Program
    program: Program
    errors: list[Error]
    method: str
    spared: tuple[str, ...] = ()
    gains: Sequence[Gain] = ()


def calibrate(
    program: Program,
    batches: Sequence[Batch],
    *,
    method: str = "mse",
    keep: str = "",
    spare: int = 0,
    rounding: str = "nearest",
) -> Calibration:
    """The program on bytes, with ranges from batches of its inputs.

    method    one of `METHODS`
    keep      products to leave in floats: "first", "last", "both" or ""
    spare     how many more to leave: those that, alone on bytes, change the outputs most on the first batch
    rounding  of weights, one of `ROUNDINGS`: to the nearest byte, or "adaptive": to that above or below, by what layers
              make of them

    A program that says itself where it is rounded (`Rounded`) keeps its ranges, and weights as they were trained.
    Raises UsageError where there is nothing to quantise, or no sample.
    """
    if method not in METHODS:
        raise UsageError(f"method={method!r} must be one of {', '.join(METHODS)}")
    if rounding not in ROUNDINGS:
        raise UsageError(f"rounding={rounding!r} must be one of {', '.join(ROUNDINGS)}")
    if not batches:
        raise UsageError("calibration needs samples; got none")
    floats = run_passes(frozen(program), PREPARE)
    if any(isinstance(node.op, QuantizeLinear) for node in floats.nodes):
        return Calibration(floats, floats, on_bytes(floats), [], "as trained")
    _smooth(floats, batches)
    at = points(floats, _kept(floats, keep))
    if not at.products:
        raise UsageError(
            f"{program.name} has no convolution or linear layer with constant float32 weights: there is nothing to "
            "quantise"
        )
    histograms = observe(floats, at.values, batches)
    ranges = {v: METHODS[method](h) for v, h in zip(at.values, histograms, strict=True)}
    spared = _costliest(floats, at, ranges, batches[0], spare) if spare else []
    if spared:
        at = points(floats, [*_kept(floats, keep), *spared])
        ranges = {v: ranges[v] for v in at.values}
    pairs, values, nodes = _with_pairs(floats, at, ranges)
    gains = []
    if rounding == "adaptive":
        gains = adapt(floats, pairs, nodes, [(product_name(node), nodes[node]) for node in at.products], batches)
    made = on_bytes(pairs)
    errors = _errors(floats, at.values, pairs, values, batches[0])
    names = tuple(product_name(node) for node in spared)
    return Calibration(floats, run_passes(pairs, (split_epilogues, _drop_unread)), made, errors, method, names, gains)


def on_bytes(pairs: Program) -> Program:
    """The program on bytes of one with pairs of QuantizeLinear and DequantizeLinear."""
    return run_passes(pairs.copy(), (fuse_quantised, merge_equal, remove_dead, _drop_unread))


def _smooth(program: Program, batches: Sequence[Batch]) -> None:
    """`smooth`, by the largest of each channel in all batches."""
    values = list(readers(program))
    if values:
        most = [np.zeros(v.spec.shape[-1], np.float32) for v in values]
        for arrays in tapped(program, values, batches):
            most = [np.maximum(m, np.abs(x).reshape(-1, len(m)).max(axis=0)) for m, x in zip(most, arrays, strict=True)]
        smooth(program, most)
        _drop_unread(program)


def _kept(program: Program, keep: str) -> list[Node]:
    """The first and the last product, where they are to stay in floats."""
    if keep not in ("", "first", "last", "both"):
        raise UsageError(f"keep={keep!r} must be 'first', 'last', 'both' or ''")
    products = points(program).products
    first, last = keep in ("first", "both"), keep in ("last", "both")
    return [*(products[:1] if first else []), *(products[-1:] if last else [])]


def _costliest(floats: Program, at: Points, ranges: dict[Value, Range], batch: Batch, count: int) -> list[Node]:
    """The products that cost the outputs most where they alone are on bytes, worst first."""
    if count >= len(at.products):
        raise UsageError(f"spare={count} would leave none of the {len(at.products)} products on bytes")
    outputs = [v for v in floats.outputs if v is not None]
    wanted = [np.array(y) for y in next(tapped(floats, outputs, [batch]))]
    every, noise = points(floats).products, dict[Node, float]()
    for node in at.products:
        alone = points(floats, [n for n in every if n is not node])
        pairs, *_ = _with_pairs(floats, alone, {v: ranges[v] for v in alone.values})
        found = next(tapped(pairs, [v for v in pairs.outputs if v is not None], [batch]))
        noise[node] = sum(
            float(np.mean(np.square(x - y)) / max(float(np.mean(np.square(x))), 1e-30))
            for x, y in zip(wanted, found, strict=True)
            if x.dtype.kind == "f"
        )
    return sorted(noise, key=lambda node: -noise[node])[:count]


def _with_pairs(
    floats: Program, at: Points, ranges: dict[Value, Range]
) -> tuple[Program, list[Value], dict[Node, Node]]:
    """A copy of the program with pairs, its dequantised values, and its nodes by those of the program."""
    made = floats.copy()
    nodes = dict(zip(floats.nodes, made.nodes, strict=True))
    mapping = dict(zip(floats._values(), made._values(), strict=True))
    there = Points([nodes[n] for n in at.products], [mapping[v] for v in at.values])
    standing = quantise(made, there, {mapping[v]: r for v, r in ranges.items()})
    verify(made, after="quantise")
    return made, [standing[v] for v in there.values], nodes


def _drop_unread(program: Program) -> None:
    """Unused captured tensors do not go into the file."""
    read = program.uses()
    program.captures = [v for v in program.captures if v in read]


# -- running -----------------------------------------------------------------------------------------------------------
def observe(program: Program, values: Sequence[Value], batches: Sequence[Batch]) -> list[Histogram]:
    """Histograms of some values over all batches: one run for the ends, one for the counts."""
    ends = [(0.0, 0.0)] * len(values)
    for arrays in tapped(program, values, batches):
        ends = [(min(a, float(x.min())), max(b, float(x.max()))) for (a, b), x in zip(ends, arrays, strict=True)]
    for value, (low, high) in zip(values, ends, strict=True):
        if not np.isfinite([low, high]).all():
            raise UsageError(f"{show(program, value)} is not finite on the samples: it lies in [{low}, {high}]")
    histograms = [Histogram(*e) for e in ends]
    for arrays in tapped(program, values, batches):
        for histogram, array in zip(histograms, arrays, strict=True):
            histogram.add(array)
    return histograms


def tapped(program: Program, values: Sequence[Value], batches: Sequence[Batch]) -> Iterator[list[Array]]:
    """The arrays of some values, batch by batch; each is overwritten by the next."""
    outputs = program.outputs
    executables: dict[tuple[tuple[int, ...], ...], Executable] = {}
    for batch in batches:
        shapes = tuple(x.shape for x in batch)
        if shapes not in executables:
            program.outputs = list(values)
            executables = {shapes: Executable(specialise(program, bind(program, shapes)))}
            program.outputs = outputs
        yield [y for y in executables[shapes](*batch) if y is not None]


def _errors(
    floats: Program, values: Sequence[Value], pairs: Program, rounded: Sequence[Value], batch: Batch
) -> list[Error]:
    """The noise of every rounded value, all roundings before it included."""
    wanted = [np.array(x) for x in next(tapped(floats, values, [batch]))]
    found = next(tapped(pairs, rounded, [batch]))
    made = []
    for value, x, y in zip(values, wanted, found, strict=True):
        power, noise = float(np.mean(np.square(x))), float(np.mean(np.square(x - y)))
        made.append(Error(show(floats, value), 10 * float(np.log10(max(noise, 1e-30) / max(power, 1e-30)))))
    return made


def product_name(node: Node) -> str:
    """Of a product the module whose weights it has."""
    w = node.inputs[1]
    name = w.name if w is not None and w.name else f"{node.scope or type(node.op).__name__}.weight"
    return name.rstrip("'").removesuffix(".weight")  # a mark: computed of it


def show(program: Program, value: Value) -> str:
    """A name for people: module, op and shape."""
    shape = "x".join(str(int(n)) for n in value.spec.shape[1:])
    if value.node is None:
        return f"input {value.name or ''} {shape}".replace("  ", " ")
    kind = "conv" if is_window(value.node) else type(value.node.op).__name__.removesuffix("Then").lower()
    return " ".join(p for p in (value.node.scope, kind, shape) if p)
