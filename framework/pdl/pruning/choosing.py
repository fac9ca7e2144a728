"""How many units go from each group, and which: what a unit matters (`importance`), what a net costs (`Costs`), and how
far each group shrinks until the net costs as little as is wanted (`uniform`, `by_damage`)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from pdl.dtype import Array, float32
from pdl.errors import UsageError
from pdl.nn.module import Module, Parameter
from pdl.nn.norm import _BatchNorm
from pdl.ops.base import Spec, apply
from pdl.ops.conv import Conv
from pdl.ops.linalg import Linear
from pdl.ops.norm_conv import NormConv
from pdl.program.executor import Executable
from pdl.program.tracing import trace
from pdl.pruning.coupling import Coupling, Group, Place, Product
from pdl.tensor import Tensor, no_grad

Criterion = Literal["l1", "fpgm", "norm", "taylor"]
Measure = Literal["macs", "parameters", "latency"]
Counts = Sequence[int]


class Unreachable(UsageError):
    """A share of the cost that is left even with a channel in every group."""


# -- what a unit matters -----------------------------------------------------------------------------------------------
def importance(coupling: Coupling, model: Module, criterion: Criterion, gradients: Iterable[None] = ()) -> list[Array]:
    """A number for each unit of each group; those with the least go first.

    l1      sum of the magnitudes of the weights that make the channel (Li et al., arXiv 1608.08710)
    fpgm    sum of the distances to the others of its group: near the geometric median it is replaceable (He et al.,
            arXiv 1811.00250)
    norm    magnitude of its batch norm's scale (Liu et al., arXiv 1708.06519); l1 in groups without one
    taylor  mean over batches of (sum of gradient times weight)^2: how much the loss changes without it, to first order
            (Molchanov et al., arXiv 1906.10771)

    gradients   of "taylor": at each step `grad` of the parameters is that of one more batch
    """
    if criterion == "taylor":
        return _taylor(coupling, gradients)
    scales = {name for name, _ in model.named_parameters() if _is_scale(model, name)}
    found = []
    for group in coupling.groups:
        if criterion == "norm" and any(name in scales for name, _ in group.axes):
            rows = [_taken(coupling.tensors, group, n) for n, (name, _) in enumerate(group.axes) if name in scales]
            found.append(sum(np.abs(each).sum(axis=1) for each in rows))
            continue
        rows = [_taken(coupling.tensors, group, n) for n in _makers(coupling, group)]
        if criterion == "fpgm":
            found.append(sum(_distances(each) for each in rows))
        else:
            found.append(sum(np.abs(each).sum(axis=1) for each in rows))
    return [np.asarray(each, np.float64) for each in found]


def _taylor(coupling: Coupling, gradients: Iterable[None]) -> list[Array]:
    sums, count = [np.zeros(len(group.units)) for group in coupling.groups], 0
    for _ in gradients:
        count += 1
        products = {
            name: Tensor._wrap(tensor._data * tensor.grad._data)
            for name, tensor in coupling.tensors.items()
            if isinstance(tensor, Parameter) and tensor.grad is not None and tensor._data.shape == tensor.grad.shape
        }
        for total, group in zip(sums, coupling.groups, strict=True):
            made = [n for n in _makers(coupling, group) if group.axes[n][0] in products]
            change = sum(_taken(products, group, n).sum(axis=1) for n in made)
            total += np.square(np.asarray(change, np.float64))
    if not count:
        raise UsageError("criterion taylor: it needs at least one batch of training data")
    return [total / count for total in sums]


def _is_scale(model: Module, name: str) -> bool:
    owner, _, last = name.rpartition(".")
    return last == "weight" and isinstance(model.get_submodule(owner), _BatchNorm)


def _makers(coupling: Coupling, group: Group) -> list[int]:
    """Which places of the group's units are in weights that make the channels: their last axis."""
    own = [n for n, (name, axis) in enumerate(group.axes) if 1 < coupling.tensors[name].ndim == axis + 1]
    return own or list(range(len(group.axes)))


def _taken(tensors: Mapping[str, Any], group: Group, place: int) -> Array:
    """The weights of each unit at one of its places [units, numbers], float64."""
    name, axis = group.axes[place]
    rows = np.moveaxis(tensors[name]._data, axis, 0)
    return np.stack([rows[list(unit[place].indices)].reshape(-1) for unit in group.units]).astype(np.float64)


def _distances(rows: Array) -> Array:
    squares = np.square(rows).sum(axis=1)
    apart = squares[:, None] + squares[None, :] - 2 * rows @ rows.T
    made: Array = np.sqrt(np.maximum(apart, 0)).sum(axis=1)
    return made


def least(coupling: Coupling, worth: Sequence[Array], counts: Counts) -> list[Sequence[Place]]:
    """The `counts` units of each group that matter least."""
    return [
        group.units[index]
        for group, each, count in zip(coupling.groups, worth, counts, strict=True)
        for index in np.argsort(each, kind="stable")[:count]
    ]


# -- what a net costs --------------------------------------------------------------------------------------------------
class Costs:
    """What a net costs without some units, from `counts` of them by group.

    macs        multiply-adds of one input
    parameters  learned numbers
    latency     milliseconds of one input here, on one thread: convolutions and linear layers from a table (`Table`)
    """

    def __init__(self, coupling: Coupling, measure: Measure) -> None:
        self.coupling, self.measure = coupling, measure
        self.table = Table(coupling.products) if measure == "latency" else None
        self.sizes = {name: tensor.shape for name, tensor in coupling.tensors.items()}
        self.learned = [name for name, tensor in coupling.tensors.items() if isinstance(tensor, Parameter)]
        self.each = [[(p.name, p.axis, len(p.indices)) for p in group.units[0]] for group in coupling.groups]

    def __call__(self, counts: Counts) -> float:
        """In the unit of the measure."""
        sizes = {name: list(shape) for name, shape in self.sizes.items()}
        for count, places in zip(counts, self.each, strict=True):
            for name, axis, indices in places:
                sizes[name][axis] -= count * indices
        if self.measure == "parameters":
            return float(sum(math.prod(sizes[name]) for name in self.learned))
        if self.table is not None:
            return sum(self.table(product, sizes[product.name]) for product in self.coupling.products)
        return sum(p.adds * math.prod(sizes[p.name]) / math.prod(self.sizes[p.name]) for p in self.coupling.products)


class Table:
    """Milliseconds of products on this machine, by geometry and channels, measured where asked for on a grid of
    eighths of input and output channels; linear between them. Of convolutions and linear layers alone."""

    STEPS = 8
    SECONDS = 0.004

    def __init__(self, products: Sequence[Product]) -> None:
        self.products = products
        self.known: dict[Any, float] = {}

    def __call__(self, product: Product, sizes: Sequence[int]) -> float:
        """Of a product whose weight has these sizes."""
        whole = product.weight
        if len(whole) < 2:
            return 0.0
        axes = [len(whole) - 2, len(whole) - 1]
        grid = [_around(sizes[a], whole[a], self.STEPS) for a in axes]
        found = 0.0
        for fan_in, p in grid[0]:
            for out, q in grid[1]:
                if p * q:
                    found += p * q * self._measured(product, fan_in, out)
        return found

    def _measured(self, product: Product, fan_in: int, out: int) -> float:
        node, whole = product.node, product.weight
        op: Any = node.op
        if not isinstance(op, Conv | NormConv | Linear):
            return 0.0
        groups = 1 if isinstance(op, Linear) else int(op.groups)
        if groups > 1 and whole[-2] == 1:
            groups = out // (whole[-1] // groups)
        out = max(groups, out // groups * groups)
        before = node.inputs[0]
        assert before is not None
        x_shape = (1, *(int(n) for n in before.spec.shape[1:-1]), fan_in * groups)
        w_shape = (*whole[:-2], fan_in, out)
        made = op
        if not isinstance(op, Linear):
            made = Conv(op.stride, op.padding, getattr(op, "dilation", (1,) * len(op.stride)), groups)
        key = (made, x_shape, w_shape)
        if key not in self.known:
            self.known[key] = _timed(made, x_shape, w_shape, self.SECONDS)
        return self.known[key]


def _around(size: int, whole: int, steps: int) -> list[tuple[int, float]]:
    """The sizes of the grid below and above, with their shares."""
    grid = sorted({max(1, round(whole * k / steps)) for k in range(1, steps + 1)})
    size = max(size, grid[0])
    above = next(n for n in grid if n >= size)
    below = max((n for n in grid if n <= size), default=above)
    share = 1.0 if above == below else (size - below) / (above - below)
    return [(below, 1.0 - share), (above, share)] if above != below else [(above, 1.0)]


def _timed(op: Any, x_shape: tuple[int, ...], w_shape: tuple[int, ...], seconds: float) -> float:
    """The least of some runs, in milliseconds."""
    draws = np.random.default_rng(0)
    w = Tensor._wrap(draws.standard_normal(w_shape).astype(np.float32))
    x = draws.standard_normal(x_shape).astype(np.float32)
    with no_grad():
        run = Executable(trace(lambda x: apply(op, x, w, None), Spec(x_shape, np.dtype(float32))))
    run(x)
    taken, begun = list[float](), time.perf_counter()
    while len(taken) < 3 or time.perf_counter() - begun < seconds:
        before = time.perf_counter()
        run(x)
        taken.append(time.perf_counter() - before)
    return min(taken) * 1e3


# -- how far groups shrink ---------------------------------------------------------------------------------------------
def most(group: Group, share: float, align: int) -> int:
    """How many units go where this share is wanted: what is left is at least one, and in groups of more than `align` a
    multiple of it."""
    n = len(group.units)
    left = max(1, round(n * (1 - share)))
    if align > 1 and n > align:
        left = min(n, max(align, round(left / align) * align))
    return n - left


def uniform(coupling: Coupling, cost: Callable[[Counts], float], keep: float, align: int = 1) -> list[int]:
    """The same share of every group, such that the cost is at most `keep` of what it was."""
    return _bisected(lambda share: [most(group, share, align) for group in coupling.groups], cost, keep)


def _bisected(counts_at: Callable[[float], list[int]], cost: Callable[[Counts], float], keep: float) -> list[int]:
    wanted, low, high = keep * cost(counts_at(0.0)), 0.0, 1.0
    if cost(counts_at(1.0)) > wanted:
        raise unreachable(cost(counts_at(1.0)) / cost(counts_at(0.0)), keep)
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (low, middle) if cost(counts_at(middle)) <= wanted else (middle, high)
    return counts_at(high)


def unreachable(
    least: float, keep: float, what: str = "prune", at: str = "with a channel in every group"
) -> Unreachable:
    """The error of a section `what`, where `least` of the cost is left at the end of the way (`at`)."""
    return Unreachable(
        f"{what}: {keep:g} of the cost cannot be reached: {at} {least:.3g} of it is left; ask for more, or choose "
        "another measure"
    )


def by_damage(
    coupling: Coupling,
    cost: Callable[[Counts], float],
    keep: float,
    damage: Callable[[int, float], float],
    align: int = 1,
    steps: int = 8,
) -> list[int]:
    """The step that costs least accuracy for what it saves, again and again, until the cost is at most `keep` of its
    first value (NetAdapt, Yang et al., arXiv 1804.03230, with the damage of each group measured once and alone).

    damage   of a group's number and the share of it that goes: how much worse the net is; asked at quarters
    """
    groups = coupling.groups
    curves, measured = [], [k / 4 for k in range(1, 4)]
    for number, group in enumerate(groups):
        known = np.maximum.accumulate([0.0, *(max(0.0, damage(number, share)) for share in measured)])
        shares = [k / steps for k in range(steps)]
        each = np.interp(shares, [0.0, *measured], known)
        curves.append([(most(group, s, align), float(d) + 1e-4 * s) for s, d in zip(shares, each, strict=True)])
    return stepwise(curves, cost, keep)


def stepwise(curves: Sequence[Sequence[tuple[int, float]]], cost: Callable[[Counts], float], keep: float) -> list[int]:
    """Of the curve of each part, (count, damage) from none on, the steps that cost least for what they save, until the
    cost of the counts is at most `keep` of its first value."""
    at, counts = [0] * len(curves), [0] * len(curves)
    now = first = cost(counts)
    while now > keep * first:
        best: tuple[float, int, int, float] | None = None
        for number, curve in enumerate(curves):
            for step in range(at[number] + 1, len(curve)):
                if curve[step][0] == counts[number]:
                    continue
                tried = [*counts[:number], curve[step][0], *counts[number + 1 :]]
                after = cost(tried)
                if after < now:
                    found = ((curve[step][1] - curve[at[number]][1]) / (now - after), number, step, after)
                    best = found if best is None else min(best, found)
                    break
        if best is None:
            raise unreachable(now / first, keep)
        _, number, step, now = best
        at[number], counts[number] = step, curves[number][step][0]
    return counts
