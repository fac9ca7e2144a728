"""`Pipeline`: the layers of a model on the processes of a pipeline axis, and a batch that goes through in pieces.

A piece (micro-batch) is what `train.accumulate` calls a batch: its loss is a mean over so many samples, tokens or
pixels, and the gradient of a step is the mean over those of all pieces; batch norms take the statistics of a piece, and
their running averages see one piece after the other. So the weights are those of one process that accumulates the same
pieces, and, but for what such norms do, those of one that takes the batch whole.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from pdl.autograd.anomaly import begins_trace
from pdl.distributed.group import Group
from pdl.distributed.mesh import Line
from pdl.distributed.pipeline import (
    Cutter,
    Layout,
    Runner,
    Stage,
    Staged,
    add_gradient,
    draw,
    homes,
    layout,
    programs_alike,
)
from pdl.distributed.schedule import Action, orders
from pdl.dtype import Array, as_dtype
from pdl.errors import GradientError, UsageError
from pdl.nn import Module
from pdl.ops.sparse import SparseGrad
from pdl.program.ir import Program, Value
from pdl.program.passes import run_passes
from pdl.program.passes.cleanup import remove_dead
from pdl.program.step import loss_of
from pdl.program.tracing import Recorder, Symbol, as_output, module_names, symbols
from pdl.program.tree import leaves, rebuild
from pdl.tensor import Tensor, as_tensor
from pdl.train.settings import Distributed
from pdl.train.task import Loss

_MANY = 4  # micro-batches for each process, at most, where nothing is said


class Pipeline:
    """The stages of a model on process `rank` of a pipeline axis; `group` are all of them, None in a plan.

    sharding   how weights are cut over the tensor axis (`pdl.train.meshed.Sharding`)
    owners     the stages that read each parameter and buffer, by name; none before they are decided
    """

    def __init__(self, model: Module, settings: Distributed, sharding: Any, rank: int, group: Group | None) -> None:
        self.ranks, self.chunks, self.rank, self.group = settings.pipeline, settings.virtual_stages, rank, group
        self.stages, self.sharding = self.ranks * self.chunks, sharding
        self.named: dict[str, Tensor] = {**dict(model.named_parameters()), **dict(model.named_buffers())}
        self.parameters = list(model.parameters())
        self.numbers = module_names(model)
        self.names = {id(x): name for name, x in self.named.items()}
        self.starts: list[int] = []
        self.begins: list[str] = []  # modules and ops that the stages but the first begin with
        self.alike = 0
        self.owners: dict[str, list[int]] = {}
        self.runner = Runner(group)
        self._lines: dict[tuple[int, ...], Line] = {}
        self._own: list[tuple[Tensor, Array]] = []
        self._orders: dict[int, list[Action]] = {}

    # -- cutting -------------------------------------------------------------------------------------------------------
    @begins_trace
    def _traced(self, function: Callable[[Any], Any], args: Any, name: str) -> tuple[Recorder, Any, Value]:
        """The forward part with whole weights, what it returns, and the loss."""
        recorder = Recorder(name, self.numbers)
        with recorder.active():
            result = function(*symbols(recorder, args, "batch"))
            if isinstance(result, Loss):
                result = replace(result, outputs=())
            loss = loss_of(result)
            if not isinstance(loss, Symbol) or not loss.requires_grad:
                raise GradientError("the loss depends on no parameter that requires a gradient")
            recorder.program.outputs = [recorder.value_of(as_output(x)) for x in leaves(result)]
        run_passes(recorder.program, (remove_dead,))
        return recorder, result, loss.value

    def decide(self, function: Callable[[Any], Any], piece: Any) -> str:
        """Find where the model is cut, for `function` of such pieces; a line that says it."""
        self.sharding.show(whole=True)
        try:
            recorder, _, loss = self._traced(function, (piece,), "step")
        finally:
            self.sharding.show(whole=False)
        program = recorder.program
        cutter = Cutter(program, loss)
        self.starts, self.alike = cutter.starts(self.stages), _alike(program)
        self.owners = layout(program, homes(program, self.starts), self.stages).owners(self.names)
        return self._summary(cutter)

    def _summary(self, cutter: Cutter) -> str:
        """One line: what each process has, and what crosses."""
        shares = cutter.shares(self.starts)
        work = [sum(shares[rank :: self.ranks]) for rank in range(self.ranks)]
        sizes = {name: self.named[name].size for name in self.owners}
        weights = [sum(n for name, n in sizes.items() if rank in self.holders(name)) for rank in range(self.ranks)]
        self.begins = [f"{n.scope} ({n.op.op_name})" for n in (cutter.program.nodes[j] for j in self.starts)]
        crossing = sum(cutter.bytes[j] for j in self.starts)
        return (
            f"pipeline={self.ranks}: {self.stages} stages, from {', '.join(self.begins)} on; of the work "
            f"{', '.join(f'{w:.0%}' for w in work)}; of the weights "
            f"{', '.join(f'{n / (sum(sizes.values()) or 1):.0%}' for n in weights)}; {crossing / 1e3:,.1f} kB of a "
            "micro-batch cross"
        )

    def told(self) -> str:
        """The cuts as text."""
        return json.dumps([self.starts, self.alike, self.owners])

    def adopt(self, text: str) -> None:
        """Cut as another process has `told`."""
        self.starts, self.alike, self.owners = json.loads(text)

    def holders(self, name: str) -> list[int]:
        """The processes that have a parameter or buffer; all, where no stage reads it."""
        found = sorted({stage % self.ranks for stage in self.owners.get(name, ())})
        return found or list(range(self.ranks))

    def has(self, name: str) -> bool:
        """Whether this process has it."""
        return self.rank in self.holders(name)

    def staged(self, function: Callable[..., Any], args: Any, name: str, mine: Iterable[int] | None = None) -> Staged:
        """The stages of this process, or those that are named, for such pieces."""
        laid, result, loss = self._laid(function, args, name)
        if any(set(stages) - set(self.owners.get(name, ())) for name, stages in laid.owners(self.names).items()):
            raise UsageError(
                "distributed.pipeline: a batch of another shape reads weights in another stage than the first one did; "
                "train with pipeline=1"
            )
        mine = range(self.rank, self.stages, self.ranks) if mine is None else mine
        made = {s: Stage(laid, s, loss, self.parameters, self.numbers, add_gradient) for s in mine}
        return Staged(made, laid.draws, result, programs_alike(laid))

    def _laid(self, function: Callable[..., Any], args: Any, name: str) -> tuple[Layout, Any, Value]:
        sharding = self.sharding
        sharding.show(whole=True)
        try:
            recorder, result, loss = self._traced(function, args, name)
            cutting = sharding.cutting(recorder, result) if sharding.cuts else None
        finally:
            sharding.show(whole=False)
        program, starts = recorder.program, self.starts
        if _alike(program) != self.alike:
            known = {id(self.named[name]): stages for name, stages in self.owners.items()}
            starts = Cutter(program, loss).starts_by(known, self.stages)
        if cutting is None:
            return layout(program, homes(program, starts), self.stages), result, loss
        at = program.outputs.index(loss)
        recorder, result, ends = sharding.written(cutting, result, name)
        program = recorder.program
        with recorder.active():
            program.outputs = [recorder.value_of(as_output(x)) for x in leaves(result)]
        found = program.outputs[at]
        assert found is not None
        return layout(program, homes(program, starts, ends), self.stages), result, found

    # -- weights -------------------------------------------------------------------------------------------------------
    def drop(self) -> None:
        """Forget the parameters that other processes have: they keep their shapes, and read as NaN."""
        for name, p in self.named.items():
            if not self.has(name) and id(p) in self.sharding.shapes:
                p._data = np.broadcast_to(np.array(np.nan, p.dtype), p.shape)
                p.grad = None

    def whole_of(self, name: str, array: Array | None, shape: tuple[int, ...] | None = None) -> Array:
        """The array that belongs to a name, from a process that has it; all make this call. Of a parameter itself the
        whole `shape` is known."""
        holders = self.holders(name)
        if self.group is None or len(holders) == self.ranks:
            assert array is not None
            return array
        mine = np.asarray(array, order="C") if self.rank in holders else None
        dtype: Any = self.named[name].dtype
        if shape is None:
            header = [] if mine is None else [mine.dtype.name, list(mine.shape)]
            dtype, shape = json.loads(self.group.texts(json.dumps(header))[holders[0]])
        found = np.empty(shape, as_dtype(dtype)) if mine is None else mine
        self.group.broadcast(found, holders[0])
        return found

    def refresh(self, arrays: Mapping[str, Array]) -> None:
        """Put the numbers of those that have them into arrays that all have: buffers, and their averages."""
        for name, array in arrays.items():
            if self.group is not None and len(holders := self.holders(name)) < self.ranks and array.size:
                own = np.asarray(array, order="C")
                self.group.broadcast(own, holders[0])
                array[...] = own

    def states(self, state: dict[str, dict[str, Any]], names: list[str]) -> dict[str, dict[str, Any]]:
        """An optimiser's state of all of these parameters, from those that have them."""
        assert self.group is not None
        mine = {name: {k: None if isinstance(v, np.ndarray) else v for k, v in each.items()}
                for name, each in state.items() if self.has(name)}  # fmt: skip
        told = [json.loads(text) for text in self.group.texts(json.dumps(mine))]
        found: dict[str, dict[str, Any]] = {}
        for name in names:
            known = next((t[name] for t in told if name in t), None)
            if known is not None:
                own = state.get(name, {}) if self.has(name) else {}
                found[name] = {k: self.whole_of(name, own.get(k)) if v is None else v for k, v in known.items()}
        return found

    # -- steps ---------------------------------------------------------------------------------------------------------
    def run(self, staged: list[Staged], pieces: list[Any], most: int, before: Callable[[int], object]) -> Iterator[Any]:
        """Forward and backward of all pieces; what the step returned of each, on every process. `most` are the pieces
        of those processes that have most; `before` is called with the number of the piece that is next."""
        if most not in self._orders:
            self._orders[most] = orders(self.ranks, self.chunks, most)[self.rank]
        order = [action for action in self._orders[most] if action.micro < len(pieces)]
        arrays = [[as_tensor(x)._data for x in leaves(piece)] for piece in pieces]
        draws = [draw(each.draws) for each in staged]
        results = self.runner.run(staged, arrays, draws, order, lambda action: before(action.micro))
        if pieces:
            self._sum_shared()
        for each, values in zip(staged, self._told(staged, results), strict=True):
            yield rebuild(each.result, partial(_number, iter(values)))

    def _told(self, staged: list[Staged], results: list[list[Array]]) -> list[list[float]]:
        """The numbers that the last stage returned, one for each part of a result."""
        counts = [sum(1 for _ in leaves(each.result)) for each in staged]
        table = np.array([float(x.reshape(-1)[0]) for values in results for x in values] or [0.0] * sum(counts))
        if self.group is not None and len(table):
            self.group.broadcast(table, self.ranks - 1)
        numbers = iter(table.tolist())
        return [[next(numbers) for _ in range(n)] for n in counts]

    def _sum_shared(self) -> None:
        """Gradients of parameters that stages of several processes read are summed."""
        for name in self.owners:
            holders, p = tuple(self.holders(name)), self.named[name]
            if len(holders) == 1 or not self.has(name) or not p.requires_grad or self.group is None:
                continue
            if holders not in self._lines:
                self._lines[holders] = Line(self.group.part(holders))
            g = p.grad.to_dense() if isinstance(p.grad, SparseGrad) else p.grad
            own = np.zeros(p.shape, p.dtype) if g is None else np.asarray(g._data, order="C")
            p.grad = Tensor._wrap(self._lines[holders].total(own))

    @contextmanager
    def watched(self, spans: Any) -> Iterator[None]:
        """Inside the block messages are told to `spans`."""
        if self.group is not None:
            self.group.spans = spans
        try:
            yield
        finally:
            if self.group is not None:
                self.group.spans = None


def micro_rows(loader: Any, settings: Distributed) -> tuple[int, int | None]:
    """How many pieces a batch has, and samples of each, None where batches are of no one size; UsageError where a batch
    has no such pieces."""
    size, given = getattr(loader, "batch_size", None), settings.micro_batches
    if not isinstance(size, int):
        return given or _MANY * settings.pipeline, None
    own, left = divmod(size, settings.data)
    if given is None:
        given = max(m for m in range(1, _MANY * settings.pipeline + 1) if m == 1 or not (left or own % m))
        return given, own // given if not left else None
    if left or own % given:
        where = f"data={settings.data} x micro_batches={given}" if settings.data > 1 else f"micro_batches={given}"
        raise UsageError(
            f"distributed.micro_batches: data.batch_size={size} cannot be divided by {where}; make it a multiple of "
            f"{settings.data * given}, or use other micro_batches"
        )
    return given, own // given


def pieces_of(batch: Any, micros: int, rows: int | None) -> list[Any]:
    """A batch in pieces of `rows` samples, the last maybe less; without `rows` in `micros` pieces."""
    if micros == 1:
        return [batch]
    sizes = {x.shape[0] if x.shape else None for x in leaves(batch)}
    if len(sizes) != 1 or None in sizes:
        shapes = ", ".join(str(tuple(x.shape)) for x in leaves(batch))
        raise UsageError(
            f"distributed.micro_batches: the arrays of a batch ({shapes}) do not have one number of samples as their "
            "first size, so it cannot be divided; use micro_batches=1, and train.accumulate for several batches a step"
        )
    (count,) = sizes
    assert count is not None
    step = rows or max(1, -(-count // micros))

    def cut(begin: int) -> Any:
        part = slice(begin, begin + step)
        return rebuild(
            batch, lambda x: x[part], lambda x: x[part] if isinstance(x, list | tuple) and len(x) == count else x
        )

    return [cut(begin) for begin in range(0, count, step)]


def _number(values: Iterator[float], x: Any) -> Tensor:
    return Tensor(np.array(next(values), as_output(x).dtype))


def _alike(program: Program) -> int:
    return programs_alike(Layout(program, [program.nodes], [], [], []))
