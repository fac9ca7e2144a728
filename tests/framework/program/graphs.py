"""Random graphs: views, arithmetic, indexing, reductions, joins and products on small arrays whose sizes are 0 to 4 or
symbolic. The program of each, rewritten for inference, must compute what the code does, at every size.

    python -m tests.framework.program.graphs NUMBER 1 one    the graph of a number, and what its program becomes
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import pdl
from pdl.dims import Dim
from pdl.errors import PdlError
from pdl.program import Program
from pdl.program.passes import INFERENCE_ONCE, run_passes
from pdl.runtime.plan import Plans
from tests.framework.program.rewriting import run, traced
from tests.fuzzing import main, say

EXAMPLES = {"n": 5, "m": 7}  # of symbolic sizes: no other size is equal
SIZES = ({}, {"n": 1}, {"n": 2, "m": 3}, {"m": 1}, {"n": 0})
LARGE, DEEP = 4096, 6  # elements of an array, and dimensions
Step = Callable[..., Any]


class Draws:
    """What random graphs draw."""

    def __init__(self, number: int) -> None:
        self.rng = np.random.default_rng(number)

    def int(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high))

    def pick(self, values: Sequence[Any]) -> Any:
        return values[self.int(0, len(values))]

    def often(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def array(self, *shape: int) -> np.ndarray:
        return self.rng.uniform(-1, 1, shape).astype(np.float32)

    def axes(self, rank: int) -> tuple[int, ...]:
        return tuple(map(int, self.rng.permutation(rank)))

    def some(self, rank: int) -> tuple[int, ...]:
        """Some axes, one at least."""
        return tuple(sorted(self.axes(rank)[: self.int(1, rank + 1)]))


# -- steps: each looks at an array and says what may be done with it ---------------------------------------------------
def elementwise(d: Draws, x: Any) -> Step:
    c = d.pick((0.0, 1.0, 2.0, -0.5))
    return d.pick((
        pdl.relu, pdl.tanh, pdl.sigmoid, pdl.gelu, pdl.silu, pdl.hardswish, pdl.square, pdl.abs, pdl.negative,
        pdl.identity, lambda x: pdl.sqrt(pdl.abs(x) + 0.1), lambda x: 1 / (pdl.abs(x) + 1), lambda x: x + c,
        lambda x: c - x,
        lambda x: x * c, lambda x: pdl.clip(x, -0.5, 0.5), lambda x: x * pdl.sigmoid(x), lambda x: pdl.maximum(x, c),
        lambda x: x * 0.5 * (1 + pdl.erf(x / 2**0.5)), lambda x: (x + 0.25) ** 2,
        lambda x: pdl.where(pdl.greater(x, c), x, x * 0.1), lambda x: pdl.astype(pdl.astype(x, "float64"), "float32"),
    ))  # fmt: skip


def constant(d: Draws, x: Any) -> Step:
    shape = [1 if isinstance(n, Dim) or d.often(0.3) else n for n in x.shape][d.int(0, x.ndim + 1) :]
    c, f = pdl.Tensor(d.array(*shape)), d.pick((pdl.add, pdl.multiply, pdl.subtract, pdl.maximum))
    return (lambda x: f(x, c)) if d.often(0.7) else (lambda x: f(c, x))


def permute(d: Draws, x: Any) -> Step:
    axes = d.axes(x.ndim)
    return lambda x: pdl.permute_dims(x, axes)


def join_axes(d: Draws, x: Any) -> Step:
    i = d.int(0, max(1, x.ndim - 1))
    j = d.int(i + 1, x.ndim + 1)
    return lambda x: x.reshape((*x.shape[:i], _product(x.shape[i:j]), *x.shape[j:]))


def cut_axis(d: Draws, x: Any) -> Step | None:
    places = [i for i, n in enumerate(x.shape) if not isinstance(n, Dim) and n in (4, 6, 8, 12)]
    if not places:
        return None
    i = d.pick(places)
    part = d.pick([p for p in (2, 3, 4) if x.shape[i] % p == 0])
    return lambda x: x.reshape((*x.shape[:i], part, x.shape[i] // part, *x.shape[i + 1 :]))


def ones(d: Draws, x: Any) -> Step:
    i = d.int(0, x.ndim + 1)
    if d.often(0.5) or 1 not in x.shape:
        return lambda x: pdl.expand_dims(x, axis=i)
    places = [i for i, n in enumerate(x.shape) if not isinstance(n, Dim) and n == 1]
    axis = d.pick(places) if places else None
    return lambda x: x if axis is None else pdl.squeeze(x, axis=axis)


def index(d: Draws, x: Any) -> Step:
    def entry(n: int) -> Any:
        first = d.int(0, 3) if isinstance(n, Dim) and d.often(0.3) else 0
        ends = (slice(None), slice(first, None), slice(None, None, d.pick((2, -1, -2))), slice(-1, None), slice(0, 1),
                slice(1, 3), slice(None, -1), None, 0, -1)  # fmt: skip
        return d.pick(ends)

    key = tuple(entry(n) for n in x.shape[: d.int(1, x.ndim + 1)])
    return lambda x: x[key]


def expand(d: Draws, x: Any) -> Step:
    grown = [3 if not isinstance(n, Dim) and n == 1 and d.often(0.6) else None for n in x.shape]
    lead = d.pick(((), (), (2,), (1,)))
    return lambda x: pdl.broadcast_to(x, (*lead, *(g or n for g, n in zip(grown, x.shape, strict=True))))


def reduction(d: Draws, x: Any) -> Step:
    axes, keep, f = d.some(x.ndim), d.often(0.5), d.pick((pdl.sum, pdl.mean, pdl.max, pdl.min, pdl.prod))
    if d.often(0.15):
        return lambda x: pdl.astype(pdl.argmax(x, axis=axes[0], keepdims=keep), "float32")
    return lambda x: f(x, axis=axes, keepdims=keep)


def along(d: Draws, x: Any) -> Step:
    axis, width, places = d.int(0, x.ndim), (d.int(0, 2), d.int(0, 3)), d.pick(([0], [-1, 0], [0, 0, -1]))
    widths = [width if i == axis else (0, 0) for i in range(x.ndim)]
    return d.pick((
        lambda x: pdl.softmax(x, axis=axis), lambda x: pdl.log_softmax(x, axis=axis),
        lambda x: pdl.cumsum(x, axis=axis), lambda x: pdl.flip(x, axis=axis), lambda x: pdl.pad(x, widths),
        lambda x: pdl.roll(x, 1, axis=axis),
        lambda x: pdl.take(x, np.array(places), axis=axis), lambda x: pdl.concat([x, x * 0.5], axis=axis),
        lambda x: pdl.stack([x, pdl.relu(x)], axis=axis), lambda x: pdl.logsumexp(x, axis=axis, keepdims=True),
        lambda x: pdl.concat(pdl.unstack(pdl.expand_dims(x, axis=0), axis=0), axis=axis),
    ))  # fmt: skip


def product(d: Draws, x: Any) -> Step | None:
    c = x.shape[-1]
    if x.ndim < 2 or isinstance(c, Dim):
        return None
    w, b = pdl.Tensor(d.array(c, d.int(1, 5))), pdl.Tensor(d.array(1))
    return (lambda x: pdl.linear(x, w)) if d.often(0.5) else (lambda x: x @ w * 0.5 + b)


def norm(d: Draws, x: Any) -> Step | None:
    c, axis = x.shape[-1], d.int(0, x.ndim)
    if d.often(0.5) and not isinstance(c, Dim):
        a, b = pdl.Tensor(d.array(c)), pdl.Tensor(d.array(c))
        return lambda x: pdl.batch_norm_eval(x, a, pdl.abs(b) + 0.5, b, a) if x.ndim > 1 else x

    def written(x: Any) -> Any:
        centred = x - x.mean(axis=axis, keepdims=True)
        return centred / pdl.sqrt((centred * centred).mean(axis=axis, keepdims=True) + 1e-3)

    return written


def window(d: Draws, x: Any) -> Step | None:
    """A convolution or pooling as importers write them: between two permutations."""
    if x.ndim != 4 or isinstance(x.shape[1], Dim):
        return None
    k, stride, pad, c = d.int(1, 4), d.int(1, 3), d.int(0, 2), x.shape[1]
    w = pdl.Tensor(d.array(k, k, c, d.int(1, 5)))
    f = d.pick((lambda x: pdl.conv2d(x, w, stride=stride, padding=pad), lambda x: pdl.max_pool(x, k, stride=stride),
                lambda x: pdl.avg_pool(x, k, stride=stride)))  # fmt: skip
    return lambda x: pdl.permute_dims(f(pdl.permute_dims(x, (0, 2, 3, 1))), (0, 3, 1, 2))


def attention(d: Draws, x: Any) -> Step | None:
    """Of an array to itself, with heads where its rows can be cut."""
    c = x.shape[-1]
    if x.ndim != 3 or isinstance(c, Dim):
        return None
    weights = [pdl.Tensor(d.array(c, 4)) for _ in range(3)]
    heads, scale, mask = d.pick((1, 2, 4)), d.pick((1.0, 0.5)), d.often(0.3)

    def written(x: Any) -> Any:
        n, length, _ = x.shape
        q, k, v = ((x @ w).reshape((n, length, heads, 4 // heads)).permute_dims((0, 2, 1, 3)) for w in weights)
        scores = q @ pdl.permute_dims(k, (0, 1, 3, 2)) * scale
        p = pdl.softmax(scores + scores.mean(axis=-1, keepdims=True) if mask else scores, axis=-1)
        return (p @ v).permute_dims((0, 2, 1, 3)).reshape((n, length, 4))

    return written


def together(d: Draws, x: Any, y: Any) -> Step | None:
    """Two arrays into one."""
    joins = [i for i in range(x.ndim) if x.ndim == y.ndim and all(_equal(a, b) or i == j for j, (a, b) in enumerate(
        zip(x.shape, y.shape, strict=True)))]  # fmt: skip
    if joins and d.often(0.3):
        axis = d.pick(joins)
        return lambda x, y: pdl.concat([x, y], axis=axis)
    if x.ndim == y.ndim > 1 and _equal(x.shape[-1], y.shape[-1]) and d.often(0.3):
        return lambda x, y: x @ pdl.swapaxes(y, -1, -2)
    return d.pick((pdl.add, pdl.multiply, pdl.subtract, pdl.maximum, lambda x, y: pdl.where(pdl.less(x, y), x, y)))


def _equal(a: int, b: int) -> bool:
    return pdl.dims.same(a, b)


def _product(sizes: Sequence[int]) -> int:
    total = 1
    for n in sizes:
        total = total * n
    return total


STEPS: dict[Any, int] = {
    elementwise: 4, constant: 2, permute: 5, join_axes: 2, cut_axis: 2, ones: 3, index: 3, expand: 1, reduction: 2,
    along: 3, product: 2, norm: 1, window: 2, attention: 1, together: 6,
}  # fmt: skip


# -- a graph -----------------------------------------------------------------------------------------------------------
class Graph:
    """``graph(*arrays)`` computes; `shapes` are those of its inputs, `outputs` the arrays that nothing reads."""

    def __init__(self, number: int) -> None:
        d = Draws(number)
        names = {name: Dim.symbol(name, n) for name, n in EXAMPLES.items()} if d.often(0.6) else {}
        self.shapes = [self._shape(d, list(names.values())) for _ in range(d.int(1, 3))]
        self.steps: list[tuple[str, Step, tuple[int, ...]]] = []
        menu = [kind for kind, times in STEPS.items() for _ in range(times)]
        self.wanted, self.menu = d.int(2, 12), menu
        traced(lambda *xs: self._grow(d, list(xs)), self.shapes)
        read = {place for _, _, places in self.steps for place in places}
        count = len(self.shapes) + len(self.steps)
        self.outputs = [i for i in range(len(self.shapes), count) if i not in read or d.often(0.1)]

    @staticmethod
    def _shape(d: Draws, dims: list[Dim]) -> tuple[int, ...]:
        rank = d.pick((1, 2, 3, 3, 4, 4))
        shape: list[int] = [d.pick((1, 1, 2, 3, 4, 4)) if d.often(0.97) else 0 for _ in range(rank)]
        for dim in dims:
            if d.often(0.7):
                shape[d.int(0, len(shape))] = dim
        return tuple(shape)

    def _grow(self, d: Draws, made: list[Any]) -> Any:
        """Steps that the arrays so far take, found while they are traced; the last array."""
        for _ in range(4 * self.wanted):
            kind = d.pick(self.menu)
            places = tuple(d.int(max(0, len(made) - 4), len(made)) for _ in range(2 if kind is together else 1))
            try:
                step = kind(d, *[made[i] for i in places])
                y = None if step is None else step(*[made[i] for i in places])
            except PdlError:
                continue
            if y is not None and 0 < y.ndim <= DEEP and _product([int(n) for n in y.shape]) <= LARGE:
                self.steps.append((kind.__name__, step, places))
                made.append(y)
            if len(self.steps) == self.wanted:
                break
        return made[-1]

    def __call__(self, *arrays: Any) -> Any:
        made = list(arrays)
        for _, step, places in self.steps:
            made.append(step(*[made[i] for i in places]))
        return tuple(made[i] for i in self.outputs)


def outcome(number: int) -> str:
    """What came of the graph of a number."""
    graph = Graph(number)
    if not graph.outputs:
        return "empty"
    plain = traced(graph, graph.shapes)
    try:
        plans = Plans(plain)
    except Exception as error:
        return f"raw: {type(error).__name__}: {error}"
    tried = 0
    for sizes in SIZES if any(isinstance(n, Dim) for shape in graph.shapes for n in shape) else SIZES[:1]:
        said = _at(graph, plain, plans, {**EXAMPLES, **sizes}, number)
        if said.startswith("raw"):
            return said
        tried += said == "right"
    return "right" if tried else "no size"


def _at(graph: Graph, plain: Program, plans: Plans, sizes: dict[str, int], number: int) -> str:
    """Compare at some sizes; those that the code or the program as it was traced does not take say nothing."""
    rng = np.random.default_rng(number)
    shapes = [pdl.dims.at(shape, sizes) for shape in graph.shapes]
    arrays = [rng.uniform(-1, 1, shape).astype(np.float32) for shape in shapes]
    try:
        with pdl.no_grad(), np.errstate(all="ignore"):
            wanted = [y.numpy() for y in graph(*map(pdl.Tensor, arrays))]
            if differs(run(plain, arrays), wanted):
                return "no size"
    except PdlError:
        return "no size"
    try:
        found = plans(arrays)
    except Exception as error:
        return f"raw: at {sizes}: {type(error).__name__}: {error}"
    apart = differs(found, wanted)
    return f"raw: at {sizes}: {apart}" if apart else "right"


def differs(found: Sequence[Any], wanted: Sequence[Any]) -> str:
    """How far outputs are from what they should be, as parts of the largest number; empty where that is rounding."""
    for y, z in zip(found, wanted, strict=True):
        if y.shape != z.shape or y.dtype != z.dtype:
            return f"{y.dtype} {y.shape}, not {z.dtype} {z.shape}"
        if not np.array_equal(np.isfinite(y), np.isfinite(z)):
            return "what is not finite differs"
        y, z = np.where(np.isfinite(y), y, 0), np.where(np.isfinite(z), z, 0)
        apart = np.abs(y.astype(float) - z).max(initial=0) / max(1.0, np.abs(z).max(initial=0))
        if apart > 2e-4:
            return f"apart by {apart:.2g}"
    return ""


def show(number: int) -> None:
    """The graph as traced and as rewritten, and the outcome."""
    graph = Graph(number)
    say(*[f"{i + len(graph.shapes)}: {name}{places}" for i, (name, _, places) in enumerate(graph.steps)], graph.outputs)
    program = traced(graph, graph.shapes)
    say(program.text(), outcome(number), run_passes(program, INFERENCE_ONCE).text())


if __name__ == "__main__":
    main(outcome, show)
