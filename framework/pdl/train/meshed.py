"""`MeshedTrainer`: the training loop on a mesh of processes, whose weights are cut over its tensor axis.

The step of the whole model is traced as ever; the program that runs is what `pdl.distributed.tensor` writes of it for
the place of this process. From the first step on parameters, gradients, averages and the optimiser's state are parts;
evaluation and checkpoints see them whole, so these are those of one process and can be gone on with on any mesh.
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
from pdl.optim import Optimizer
from pdl.optim.clip import bound, total_norm
from pdl.program import CompiledStep
from pdl.program.passes import run_passes
from pdl.program.passes.cleanup import remove_dead
from pdl.program.step import StepProgram
from pdl.program.tracing import Recorder, Symbol, as_output, module_names, symbols
from pdl.program.tree import leaves, rebuild
from pdl.tensor import Tensor
from pdl.train.loop import Evaluation, State
from pdl.train.parallel import ParallelTrainer, check_same
from pdl.train.settings import Distributed


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

    def rewrite(self, traced: Recorder, result: Any) -> tuple[Recorder, Any]:
        """This process's program of what was traced with whole parameters."""
        cutting = self._cutting(traced, result, self.cuts)
        self.show(whole=False)
        recorder, writer = rewritten(cutting, self.part, self.line, traced.program.name, self.numbers)
        with recorder.active():
            made = rebuild(result, lambda x: writer.whole(x.value) if isinstance(x, Symbol) else x)
        return recorder, made

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
                rewrite=sharding.rewrite,
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


class MeshedTrainer(ParallelTrainer):
    """A `ParallelTrainer` in a mesh with a tensor axis: `group` are the processes that have the same part of the
    weights, and share batches."""

    is_cut = False  # from the first step on
    is_whole = False  # inside `whole`

    def __init__(self, world: Group, settings: Distributed, *args: Any, **kwargs: Any) -> None:
        settings = replace(settings, data=world.size // settings.model)
        self.mesh = Mesh({"data": settings.data, "tensor": settings.tensor}, group=world)
        self.world, self.line = world, Line(self.mesh.group("tensor"))
        for name, other in (("zero", settings.zero > 2), ("compress", settings.compress), ("tables", settings.tables)):
            if other:
                raise UsageError(f"distributed.{name}: not beside distributed.tensor (zero up to 2 is)")
        if settings.local_steps > 1:
            raise UsageError("distributed.local_steps: not beside distributed.tensor")
        data, model = self.mesh.group("data"), args[1]
        self.sharding = Sharding(model, settings.tensor, self.mesh.place["tensor"], self.line, settings.patterns)
        if data.size == 1:
            settings = replace(settings, sync_batch_norm=False, zero=0)
        super().__init__(data, settings, *args, **kwargs)
        if self.settings.accumulate > 1 or data.size == 1:
            self.receiver = None  # type: ignore[assignment]
        if not self.settings.compile or self.settings.nan_check:
            key = "compile=true" if not self.settings.compile else "nan_check=false"
            raise UsageError(f"distributed.tensor={settings.tensor}: only compiled steps can be cut; set train.{key}")
        check_parts(self.optimizer)
        check_same(_Whole(self))  # type: ignore[arg-type]
        for value in (*self.model.parameters(), *self.model.buffers()):
            world.broadcast(value._data)

    def _compiled(self) -> CompiledStep:
        alone = self.group.size == 1 or self.settings.accumulate > 1
        return MeshedStep(
            self, notify=lambda line: self.emit("on_message", line), receiver=None if alone else self.receiver
        )

    # -- parts of the weights ------------------------------------------------------------------------------------------
    def cut(self, batches: list[Any]) -> None:
        """Before the first step: rank 0, which has a batch, finds how weights are cut; all keep their parts of them and
        of all that is like them."""
        lines = ["", "", ""]
        if not self.world.rank:
            try:
                lines = [self.sharding.decide(self.loss, batches[0]), self.sharding.told(), ""]
            except TraceError as error:
                lines[2] = str(uncut(error))
        summary, told, fault = (self.world.texts(line)[0] for line in lines)
        if fault:
            raise UsageError(fault)
        self.sharding.adopt(told)
        for name, p in self.sharding.named:
            if id(p) in self.sharding.cuts:
                p._data, p.grad = self.sharding.part_of(name, p._data), None
        self._each(self.sharding.part_of)
        self.is_cut = True
        self.emit("on_message", summary)

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
        if self.is_whole or not self.sharding.cuts:
            yield
            return
        self.is_whole = True
        own = [(p, p._data) for _, p in self.sharding.named]
        averages = None if self.ema is None else self.ema.average
        for name, p in self.sharding.named:
            p._data = self.sharding.whole_of(name, p._data)
        if self.ema is not None and averages is not None:
            self.ema.average = {name: self.sharding.whole_of(name, a) for name, a in averages.items()}
        try:
            yield
        finally:
            self.is_whole = False
            for p, data in own:
                p._data = data
            if self.ema is not None and averages is not None:
                self.ema.average = averages

    def fit(self) -> State:
        """As `ParallelTrainer` does; afterwards the model is whole again on every process."""
        state = super().fit()
        with self.whole():
            kept = [(p, p._data) for _, p in self.sharding.named]
            averages = None if self.ema is None else self.ema.average
        self.sharding.cuts, self.optimizer.state = {}, {}
        for p, data in kept:
            p._data = data
        if self.ema is not None and averages is not None:
            self.ema.average = averages
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
            if len(batches) > 1:
                self.scale_gradients(1.0 / loss.weight)
            self.count(loss, parts)
        self._agreed = self.world.any(self.interruption is not None)

    def clip_scale(self, most: float) -> tuple[float, float]:
        """Of the whole gradient: parts count once on each process, what is whole counts once."""
        sums = np.zeros(2)  # of parts, of what is whole
        shared = np.zeros(2)  # the same, of what each of `group` has a piece of
        cut = {name for name, p in self.sharding.named if id(p) in self.sharding.cuts}
        for group in self.optimizer.param_groups:
            for name, p in zip(group["names"], group["params"], strict=True):
                if p.grad is not None:
                    pieces = self.zero and not isinstance(p.grad, SparseGrad)
                    (shared if pieces else sums)[int(name not in cut)] += total_norm([p.grad]) ** 2
        sums += self.group.rows(shared).sum(axis=0) if self.zero else shared
        parts = self.line.rows(sums)
        norm = math.sqrt(float(parts[:, 0].sum() + parts[0, 1]))
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
        f"distributed.tensor: {error.where} cannot be compiled ({error.reason}), and only a compiled step can be cut; "
        "train with distributed.tensor=1"
    )


class _Whole:
    """A trainer as all processes compare it."""

    def __init__(self, trainer: MeshedTrainer) -> None:
        self.model, self.loaders, self.settings, self.group = (
            trainer.model, trainer.loaders, trainer.settings, trainer.world,
        )  # fmt: skip


__all__ = ["MeshedTrainer"]
