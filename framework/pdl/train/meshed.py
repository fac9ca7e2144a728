"""`MeshedTrainer`: the training loop on a mesh of processes, whose weights are divided over its tensor and its pipeline
axis.

The step of the whole model is traced as ever; the program that runs is what `pdl.distributed.tensor` writes of it for
the place of this process, and of that what `pdl.distributed.pipeline` leaves to its stages. From the first step on
parameters, gradients, averages and the optimiser's state are parts; evaluation and checkpoints see them whole, so these
are those of one process and can be gone on with on any mesh.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from pdl import random
from pdl.autograd.anomaly import begins_trace
from pdl.distributed.group import Group
from pdl.distributed.mesh import Line, Mesh
from pdl.distributed.tensor import Cut, Cutting, cut_array, rewritten, whole_array
from pdl.dtype import Array
from pdl.errors import TraceError, UsageError
from pdl.nn import Module
from pdl.ops.sparse import SparseGrad
from pdl.optim import EMA, Optimizer
from pdl.optim.clip import bound, total_norm
from pdl.program import CompiledStep
from pdl.program.passes import run_passes
from pdl.program.passes.cleanup import remove_dead
from pdl.program.step import StepProgram
from pdl.program.tracing import Recorder, Symbol, as_output, module_names, symbols
from pdl.program.tree import leaves, rebuild
from pdl.tensor import Tensor
from pdl.train.loop import Evaluation, Outcomes, State
from pdl.train.metrics import Mean
from pdl.train.parallel import ParallelTrainer, check_same
from pdl.train.pipelined import Pipeline, micro_rows, pieces_of
from pdl.train.settings import Distributed
from pdl.train.shared_evaluation import SharedOutcomes


class Sharding:
    """The parameters of a model as process `part` of `parts` of a tensor axis has them; `line` are all of them, None in
    a plan.

    cuts    of parameters that are cut, by id; none before they are decided
    whole   patterns of names of parameters that stay whole
    """

    def __init__(self, model: Module, parts: int, part: int, line: Line | None, whole: Sequence[str]) -> None:
        self.parts, self.part, self.line, self.patterns = parts, part, line, whole
        self.named = list(model.named_parameters())
        self.by_name = dict(self.named)
        self.shapes = {id(p): p.shape for _, p in self.named}
        self.numbers = module_names(model)
        self.cuts: dict[int, Cut] = {}
        self._own: list[tuple[Tensor, Array]] = []

    @begins_trace
    def decide(self, function: Callable[[Any], Any], batch: Any) -> str:
        """Find out how the parameters are cut for `function` of such a batch; a line that says it."""
        recorder = Recorder("step", self.numbers)
        with recorder.active():
            result = function(symbols(recorder, batch, "batch"))
        found = self._cutting(recorder, result, None)
        self.cuts = found.cuts
        return found.summary()

    def _cutting(self, traced: Recorder, result: Any, cuts: dict[int, Cut] | None) -> Cutting:
        program = traced.program
        with traced.active():
            program.outputs = [traced.value_of(as_output(x)) for x in leaves(result)]
        run_passes(program, (remove_dead,))
        return Cutting(program, self.parts, self.named, cuts=cuts, whole=self.patterns)

    def cutting(self, traced: Recorder, result: Any) -> Cutting:
        """How a program is cut that was traced with whole parameters."""
        return self._cutting(traced, result, self.cuts)

    def rewrite(self, traced: Recorder, result: Any) -> tuple[Recorder, Any]:
        """This process's program of what was traced with whole parameters."""
        cutting = self.cutting(traced, result)
        self.show(whole=False)
        return self.written(cutting, result, traced.program.name)[:2]

    def written(self, cutting: Cutting, result: Any, name: str) -> tuple[Recorder, Any, list[int]]:
        """The program of this process and its result; and how many nodes were written for each one and those before."""
        recorder, writer = rewritten(cutting, self.part, self.line, name, self.numbers)
        with recorder.active():
            made = rebuild(result, lambda x: writer.whole(x.value) if isinstance(x, Symbol) else x)
        return recorder, made, writer.ends

    def show(self, *, whole: bool) -> None:
        """Let cut parameters have the shapes of whole ones, and no numbers, for a trace; or what they are again."""
        for p, own in self._own:
            p._data = own
        self._own = [(p, p._data) for _, p in self.named if id(p) in self.cuts] if whole else []
        for p, own in self._own:
            p._data = np.broadcast_to(np.zeros((), own.dtype), self.shapes[id(p)])

    def part_of(self, name: str, array: Array) -> Array:
        """This process's part of an array like the parameter `name`."""
        cut = self.cut_of(name)
        return array if cut is None else cut_array(array, cut, self.parts, self.part)

    def whole_of(self, name: str, array: Array) -> Array:
        """All of an array of which each process has its part; all make this call."""
        cut = self.cut_of(name)
        if cut is None or self.line is None:
            return array
        return whole_array(self.line.rows(np.ascontiguousarray(array)), cut)

    def cut_of(self, name: str) -> Cut | None:
        """How the parameter of a name is cut; None for what is whole, or no parameter."""
        p = self.by_name.get(name)
        return None if p is None else self.cuts.get(id(p))

    def told(self) -> str:
        """The cuts as text."""
        return json.dumps({name: cut for name, p in self.named if (cut := self.cuts.get(id(p))) is not None})

    def adopt(self, text: str) -> None:
        """Cut as another process has `told`."""
        self.cuts = {id(self.by_name[name]): Cut(*cut) for name, cut in json.loads(text).items()}


class MeshedStep(CompiledStep):
    """A `CompiledStep` of a process in a mesh; what cannot be traced is an error."""

    def __init__(self, trainer: MeshedTrainer, **settings: Any) -> None:
        super().__init__(trainer.loss, trainer.model, **settings)
        self.trainer = trainer

    def made(self, args: Any) -> StepProgram:
        """The program of this process; all of a tensor axis make the same."""
        sharding = self.trainer.sharding
        sharding.show(whole=True)
        try:
            made = StepProgram(
                self.function, self.module, args, self.name, receiver=self.receiver,
                rewrite=sharding.rewrite, arena=self.arena,
            )  # fmt: skip
        finally:
            sharding.show(whole=False)
        order = " ".join(type(node.op).__name__ for node in made.program.nodes)
        self.trainer.line.group.check_same({"program of the step": f"{zlib.crc32(order.encode()):08x}"})
        return made

    def _untraced(self, error: TraceError) -> None:
        raise uncut(error)

    def _give_up(self, why: str) -> None:
        self.hits = self.misses = 0  # a program for every shape: there is no other way


class PipelinedStep(MeshedStep):
    """The same of a process that has some stages of a model."""

    def made(self, args: Any) -> Any:
        """The stages of this process."""
        pipe = self.trainer.pipe
        assert pipe is not None
        made = pipe.staged(self.function, args, self.name)
        assert pipe.group is not None
        pipe.group.check_same({"stages of the step": f"{made.order:08x}"})
        return made

    @property
    def peak_bytes(self) -> int | None:
        """Memory of all runs of the stages of this process."""
        programs: Any = self.programs.values()
        return sum(made.nbytes for made in programs if made is not None) or None


class MeshedTrainer(ParallelTrainer):
    """A `ParallelTrainer` in a mesh with a tensor or a pipeline axis: `group` are the processes that have the same part
    of the weights, and share batches."""

    is_cut = False  # from the first step on
    is_whole = False  # inside `whole`
    pipe: Pipeline | None = None

    def __init__(self, world: Group, settings: Distributed, *args: Any, **kwargs: Any) -> None:
        settings = replace(settings, data=world.size // settings.model)
        sizes = {"data": settings.data, "pipeline": settings.pipeline, "tensor": settings.tensor}
        self.mesh = Mesh(sizes, group=world)
        self.world, self.line = world, Line(self.mesh.group("tensor"))
        axis = "tensor" if settings.tensor > 1 else "pipeline"
        for name, other in (("zero", settings.zero > 2), ("compress", settings.compress), ("tables", settings.tables)):
            if other:
                raise UsageError(f"distributed.{name}: not beside distributed.{axis} (zero up to 2 is)")
        if settings.local_steps > 1:
            raise UsageError(f"distributed.local_steps: not beside distributed.{axis}")
        data, model = self.mesh.group("data"), args[1]
        self.sharding = Sharding(model, settings.tensor, self.mesh.place["tensor"], self.line, settings.patterns)
        if settings.pipeline > 1:
            place = self.mesh.place["pipeline"]
            self.pipe = Pipeline(model, settings, self.sharding, place, self.mesh.group("pipeline"))
            self.micros, self.rows = micro_rows(args[3]["train"], settings)
        if data.size == 1:
            settings = replace(settings, sync_batch_norm=False, zero=0)
        super().__init__(data, settings, *args, **kwargs)
        if self.settings.accumulate > 1 or data.size == 1 or self.pipe is not None:
            self.receiver = None  # type: ignore[assignment]
        if self.pipe is not None:
            self.weighted = True
        if not self.settings.compile or self.settings.nan_check:
            key = "compile=true" if not self.settings.compile else "nan_check=false"
            number = settings.tensor if axis == "tensor" else settings.pipeline
            raise UsageError(f"distributed.{axis}={number}: only compiled steps can be cut; set train.{key}")
        if settings.tensor > 1:
            check_parts(self.optimizer)
        check_same(_Whole(self))  # type: ignore[arg-type]
        for value in (*self.model.parameters(), *self.model.buffers()):
            world.broadcast(value._data)

    def _compiled(self) -> CompiledStep:
        alone = self.group.size == 1 or self.settings.accumulate > 1 or self.pipe is not None
        kind = MeshedStep if self.pipe is None else PipelinedStep
        return kind(self, notify=lambda line: self.emit("on_message", line), receiver=None if alone else self.receiver)

    @property
    def outcomes(self) -> Outcomes:
        """Every process computes a part of them."""
        return SharedOutcomes(self.world)

    # -- parts of the weights ------------------------------------------------------------------------------------------
    def cut(self, batches: list[Any]) -> None:
        """Before the first step: rank 0, which has a batch, finds how weights are cut; all keep their parts of them and
        of all that is like them."""
        lines = [""] * 5
        if not self.world.rank:
            try:
                first = self.pieces(batches[0])[0] if self.pipe is not None else batches[0]
                if self.sharding.parts > 1:
                    lines[:2] = self.sharding.decide(self.loss, first), self.sharding.told()
                if self.pipe is not None:
                    lines[2:4] = self.pipe.decide(self.loss, first), self.pipe.told()
            except TraceError as error:
                lines[4] = str(uncut(error))
            except UsageError as error:
                lines[4] = str(error)
        summary, told, stages, staged, fault = (self.world.texts(line)[0] for line in lines)
        if fault:
            raise UsageError(fault)
        if told:
            self.sharding.adopt(told)
        for name, p in self.sharding.named:
            if id(p) in self.sharding.cuts:
                p._data, p.grad = self.sharding.part_of(name, p._data), None
        self._each(self.sharding.part_of)
        if self.pipe is not None:
            self.pipe.adopt(staged)
            self._drop()
        if self.sharding.parts > 1 or self.pipe is not None:
            self.reduce([p for p in self.learned if self._has(p)])
        self.is_cut = True
        for line in filter(None, (summary, stages)):
            self.emit("on_message", line)

    def _has(self, p: Tensor) -> bool:
        return self.pipe is None or self.pipe.has(self.pipe.names[id(p)])

    def _drop(self) -> None:
        """Forget what belongs to the stages of others."""
        assert self.pipe is not None
        self.pipe.drop()
        self.optimizer.state = {name: s for name, s in self.optimizer.state.items() if self.pipe.has(name)}
        if self.ema is not None:
            gone = {name for name, _ in self.sharding.named if not self.pipe.has(name)}
            self.fixed, self.ema.fixed = self.ema.fixed, self.ema.fixed | gone
            self.ema.average = {name: a for name, a in self.ema.average.items() if name not in gone}

    def _each(self, change: Callable[[str, Array], Array]) -> None:
        """Change what lies beside the parameters, by name: averages and the optimiser's state."""
        if self.ema is not None:
            self.ema.average = {name: change(name, a) for name, a in self.ema.average.items()}
        for name, state in self.optimizer.state.items():
            state.update(self._changed(name, state, change))

    def _changed(self, name: str, state: dict[str, Any], change: Callable[[str, Array], Array]) -> dict[str, Any]:
        return {k: change(name, v) for k, v in state.items() if isinstance(v, np.ndarray) and v.ndim}

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Inside the block the model and its averages are whole on every process; all of them come here."""
        if self.is_whole or not self.is_cut:
            yield
            return
        self.is_whole = True
        own, ema = [(p, p._data) for _, p in self.sharding.named], self.ema
        kept = None if ema is None else (ema.average, ema.fixed)
        for name, p in self.sharding.named:
            p._data = self._whole_of(name, p._data, self.sharding.shapes[id(p)])
        if self.pipe is not None:
            self.pipe.refresh({name: b._data for name, b in self.model.named_buffers()})
        if ema is not None:
            ema.average = self._whole_averages(ema)
        try:
            yield
        finally:
            self.is_whole = False
            for p, data in own:
                p._data = data
            if ema is not None and kept is not None:
                ema.average, ema.fixed = kept

    def _whole_of(self, name: str, array: Array | None, shape: tuple[int, ...] | None = None) -> Array:
        """All of what belongs to a parameter, from those that have it."""
        own = None if array is None or (self.pipe is not None and not self.pipe.has(name)) else array
        if own is not None:
            own = self.sharding.whole_of(name, own)
        if self.pipe is not None:
            own = self.pipe.whole_of(name, own, shape)
        assert own is not None
        return own

    def _whole_averages(self, ema: EMA) -> dict[str, Array]:
        """The averages of all parameters and buffers, in the order of the model."""
        if self.pipe is None:
            return {name: self.sharding.whole_of(name, a) for name, a in ema.average.items()}
        ema.fixed = self.fixed
        self.pipe.refresh({name: a for name, a in ema.average.items() if name not in self.sharding.by_name})
        names = [name for name, _ in ema._weights()]
        known = self.sharding.by_name
        return {n: self._whole_of(n, ema.average.get(n)) if n in known else ema.average[n] for n in names}

    def fit(self) -> State:
        """As `ParallelTrainer` does; afterwards the model is whole again on every process."""
        state = super().fit()
        with self.whole():
            kept = [(p, p._data) for _, p in self.sharding.named]
            averages = None if self.ema is None else (self.ema.average, self.ema.fixed)
        self.sharding.cuts, self.optimizer.state, self.is_cut = {}, {}, False
        for p, data in kept:
            p._data = data
        if self.ema is not None and averages is not None:
            self.ema.average, self.ema.fixed = averages
        return state

    def validate(self) -> Evaluation:
        """On whole weights."""
        with self.whole():
            return super().validate()

    def evaluate(self, split: str) -> Evaluation:
        """On whole weights."""
        with self.whole():
            return super().evaluate(split)

    def state_dict(self) -> dict[str, Any]:
        """That of one process; all must ask."""
        with self.whole():
            tree = super().state_dict()
        saved = tree["optimizer"]
        state = {
            name: {**state, **self._changed(name, state, self.sharding.whole_of)}
            for name, state in saved["state"].items()
        }
        if self.pipe is not None and self.is_cut:
            state = self.pipe.states(state, [name for group in saved["groups"] for name in group["names"]])
        return {**tree, "optimizer": {**saved, "state": state}}

    # -- steps ---------------------------------------------------------------------------------------------------------
    def gradients(self, batches: list[Any]) -> None:
        """The gradient of the mean loss over the samples of all; of cut weights that of this process's part."""
        if not self.is_cut:
            self.cut(batches)
        if self.group.size > 1:
            super().gradients(batches)
        else:
            random.seed([self.settings.seed, self.state.step, 0])
            loss, parts = self.accumulated(batches)
            self.finite(loss.total / (loss.weight or 1.0), "loss")
            if len(batches) > 1 or self.weighted:
                self.scale_gradients(1.0 / (loss.weight or 1.0))
            self.count(loss, parts)
        self._agreed = self.world.any(self.interruption is not None)

    def pieces(self, batch: Any) -> list[Any]:
        """The micro-batches of a batch."""
        return pieces_of(batch, self.micros, self.rows)

    def accumulated(self, batches: list[Any]) -> tuple[Mean, dict[str, float]]:
        """Through a pipeline in pieces: `grad` is the sum of gradients times weights."""
        if self.pipe is None:
            return super().accumulated(batches)
        self.optimizer.zero_grad()
        self.emit("on_batch")
        pieces = [piece for batch in batches for piece in self.pieces(batch)]
        counts = self.group.rows(np.array([len(pieces)]))[:, 0].tolist()
        self.norms.begin(counts)
        staged: Any = [self.compiled.program_for(piece) for piece in pieces]  # type: ignore[union-attr]
        loss, parts = Mean(), dict[str, Mean]()
        with self.pipe.watched(self.world.spans):
            for one in self.pipe.run(staged, pieces, max(counts), self.norms.meet):
                if not float(one.weight):  # nothing of it counts, and the mean over nothing is NaN
                    continue
                loss.update(float(one.value.item()), float(one.weight))
                for name, part in one.parts.items():
                    parts.setdefault(name, Mean()).update(float(part), float(one.weight))
        return loss, {name: part.compute() for name, part in parts.items()}

    def _meet(self, program: StepProgram | None) -> None:
        if self.pipe is None:
            super()._meet(program)

    def clip_scale(self, most: float) -> tuple[float, float]:
        """Of the whole gradient: parts count once on each process, what is whole counts once, and what several stages
        read on the first."""
        sums = np.zeros(2)  # of parts, of what is whole
        shared = np.zeros(2)  # the same, of what each of `group` has a piece of
        cut = {name for name, p in self.sharding.named if id(p) in self.sharding.cuts}
        for group in self.optimizer.param_groups:
            for name, p in zip(group["names"], group["params"], strict=True):
                if p.grad is not None and (self.pipe is None or self.pipe.holders(name)[0] == self.pipe.rank):
                    pieces = self.zero and not isinstance(p.grad, SparseGrad)
                    (shared if pieces else sums)[int(name not in cut)] += total_norm([p.grad]) ** 2
        sums += self.group.rows(shared).sum(axis=0) if self.zero else shared
        parts = self.line.rows(sums)
        squares = float(parts[:, 0].sum() + parts[0, 1])
        if self.pipe is not None:
            squares = float(self.mesh.group("pipeline").rows(np.array([squares])).sum())
        norm = math.sqrt(squares)
        return norm, bound(norm, most)

    def agreed(self, flag: bool) -> bool:
        """Whether a process says so: all of them are needed for a checkpoint."""
        return self.world.any(flag)


def check_parts(optimizer: Optimizer) -> None:
    """UsageError for a method whose update of a number hangs on other numbers of its parameter."""
    if not optimizer.elementwise or any(group.get("rowwise") for group in optimizer.param_groups):
        raise UsageError(
            f"distributed.tensor: {type(optimizer).__name__} needs all of a parameter to update a part of it; use an "
            "optimiser that treats each number alone (Adam, AdamW, SGD, RMSprop), or tensor=1"
        )


def uncut(error: TraceError) -> UsageError:
    """What is said of code that cannot be traced."""
    return UsageError(
        f"distributed: {error.where} cannot be compiled ({error.reason}), and only a compiled step can be cut; train "
        "with distributed.tensor=1 and pipeline=1"
    )


class _Whole:
    """A trainer as all processes compare it."""

    def __init__(self, trainer: MeshedTrainer) -> None:
        self.model, self.loaders, self.settings, self.group = (
            trainer.model, trainer.loaders, trainer.settings, trainer.world,
        )  # fmt: skip


__all__ = ["MeshedTrainer"]
