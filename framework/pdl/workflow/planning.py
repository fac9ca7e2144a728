"""What a training on a mesh of processes will take, memory and time of each, before any is started: `pdl plan`.

The program of one process is made as the training makes it, and run a few times on this machine with exchanges that
answer at once; messages are counted there and take what bandwidth and latency say.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from pdl import random
from pdl.config import Config
from pdl.distributed.links import Link, measured
from pdl.distributed.mesh import AXES, Mesh
from pdl.distributed.pipeline import Runner, draw, flows
from pdl.distributed.schedule import Action, makespan, most_under_way, orders
from pdl.dtype import Array
from pdl.errors import DataError, TraceError, UsageError
from pdl.hub.pretrained import deferred
from pdl.nn.norm import _BatchNorm
from pdl.ops.precision import autocast
from pdl.ops.sparse import SparseGrad
from pdl.optim import EMA, clip_scale
from pdl.program.step import StepProgram
from pdl.program.tree import leaves, rebuild, structure
from pdl.tensor import Tensor, as_tensor, no_grad
from pdl.train.assembly import assemble
from pdl.train.freeze import Frozen
from pdl.train.meshed import Sharding, check_parts
from pdl.train.parallel import share, tables_of
from pdl.train.pipelined import Pipeline, micro_rows, pieces_of
from pdl.train.players import refuse_players
from pdl.train.recipe import Recipe
from pdl.train.task import Loss, Task

_SECONDS, _RUNS = 0.5, 20  # for the runs of a program, and the most of them
_OPS = 5  # those that take longest
_BATCHES, _KEPT = 32, 8  # that are looked at; programs that a compiled step keeps


class Echo:
    """Stands for the processes of an axis, all of which say what this one does: `sent` bytes in `messages`."""

    def __init__(self, parts: int) -> None:
        self.parts, self.sent, self.messages = parts, 0, 0

    def rows(self, mine: Array) -> Array:
        """`mine` of all."""
        self.sent += (self.parts - 1) * mine.nbytes
        self.messages += 1
        return np.broadcast_to(mine, (self.parts, *mine.shape))

    def total(self, mine: Array) -> Array:
        """As `pdl.distributed.mesh.Line` sends it."""
        large = self.parts > 2 and mine.size >= self.parts * 64
        self.sent += 2 * (self.parts - 1) * mine.nbytes // self.parts if large else (self.parts - 1) * mine.nbytes
        self.messages += 2 if large else 1
        return mine


@dataclass
class Plan:
    """What one process of a mesh takes.

    memory    bytes by kind; of a step's gradients and activations those of its one planned block
    sent      bytes that the process sends in a step, by kind
    messages  exchanges in a step, by kind
    seconds   of a step by kind: compute, update, averages, summing, and the kinds of `sent`
    ops       what takes longest of the computing: (op, share)
    cut       what is said of the weights
    stages    of a pipeline: each with its process, what it begins with, bytes of its weights, of a micro-batch's memory
              and of what it sends for one, how many are under way at most, seconds forward and backward, and of
              "sending", backward and forward, in which its process does nothing else, and "between" two of these.
              Memory is that of the process that needs most, "compute" that of the one that has most to do, and "bubble"
              the time that it waits: (P - 1) / (v m) of it where all stages take equally long
    """

    mesh: dict[str, int]
    samples: int
    memory: dict[str, int] = field(default_factory=dict)
    sent: dict[str, int] = field(default_factory=dict)
    messages: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    ops: list[tuple[str, float]] = field(default_factory=list)
    cut: str = ""
    stages: list[dict[str, Any]] = field(default_factory=list)

    @property
    def bytes(self) -> int:
        """All memory."""
        return sum(self.memory.values())

    @property
    def step(self) -> float:
        """Seconds of a step."""
        return sum(self.seconds.values())

    @property
    def bottleneck(self) -> str:
        """What takes longest."""
        return max(self.seconds, key=lambda kind: self.seconds[kind])

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        more = {"bytes": self.bytes, "step_seconds": self.step, "bottleneck": self.bottleneck}
        return {**asdict(self), **more}


class Planner:
    """Plans trainings of one recipe.

    link   what messages take; by default `pdl.distributed.links.measured`
    """

    def __init__(self, recipe: Recipe | Config | dict[str, Any], link: Link | None = None) -> None:
        self.recipe = recipe if isinstance(recipe, Recipe) else Recipe(recipe)
        self.settings, self.distributed = self.recipe.settings, self.recipe.distributed
        self.link = link or measured()
        task: Task = self.recipe.task.build()
        with random.fork_seed(self.settings.seed), deferred():
            parts = assemble(task, self.recipe, seed=self.settings.seed, splits=("train",))
        self.task, self.model = task, parts.model
        self.loader: Any = parts.loaders["train"]
        self.frozen = Frozen(self.model, self.settings.freeze)
        refuse_players(task, parts.model, "plan")
        self.optimizer = self.recipe.optim.build(params=self.model)

    def plan(self, sizes: dict[str, int]) -> Plan:
        """What a process of this mesh takes; UsageError for one that cannot be trained on."""
        mesh = Mesh(sizes)
        if mesh.sizes["tensor"] > 1:
            check_parts(self.optimizer)
        data = mesh.sizes["data"]
        batch, others = self._batch(data)
        self.frozen.train()
        own = [(p, p._data) for p in self.model.parameters()]
        try:
            with self._norms(data) as norms, random.fork_seed(self.settings.seed):
                planned = self._pipelined if mesh.sizes["pipeline"] > 1 else self._planned
                return planned(mesh, batch, others, norms)
        finally:
            for p, array in own:
                p._data, p.grad = array, None

    def meshes(self, workers: int) -> tuple[list[Plan], list[str]]:
        """Plans of all meshes of so many processes, the quickest first, and of those that cannot be why not."""
        found, left = [], []
        pairs = [(p, t) for t in range(1, workers + 1) for p in range(1, workers + 1) if workers % (p * t) == 0]
        for pipeline, tensor in pairs:
            sizes = {"data": workers // (pipeline * tensor), "pipeline": pipeline, "tensor": tensor}
            try:
                plan = self.plan(sizes)
            except UsageError as error:
                left.append(str(error))
                continue
            if tensor > 1 and not plan.memory["cut weights"]:
                left.append(f"{Mesh(sizes)}: {plan.cut}")
            else:
                found.append(plan)
        return sorted(found, key=lambda plan: plan.step), left

    # -- its parts -----------------------------------------------------------------------------------------------------
    def _batch(self, data: int) -> tuple[Any, float]:
        """The largest of the first batches of the first of `data` processes; and how large the others of other shapes
        are together, in its size: each has a program of its own."""
        if data > 1:
            share(self.loader, _Rank(data))  # type: ignore[arg-type]
        try:
            if hasattr(self.loader, "set_epoch"):
                self.loader.set_epoch(0)
            with random.fork_seed(self.settings.seed):
                batches = list(islice(self.loader, _BATCHES))
        finally:
            if data > 1:
                self.loader.share(0, 1)
        if not batches:
            raise DataError("data.train: there is no batch, so there is no shape to make a program for")
        sizes = [sum(int(as_tensor(x)._data.nbytes) for x in leaves(batch)) for batch in batches]
        shapes = {structure(batch): size for batch, size in zip(batches, sizes, strict=True)}
        largest = max(sizes)
        kept = sorted(shapes.values())[-_KEPT:]
        return batches[sizes.index(largest)], sum(kept) / largest - 1

    def loss(self, batch: Any) -> Loss:
        """The training loss, in the recipe's precision."""
        with autocast() if self.settings.precision == "bf16" else nullcontext():
            return self.task.step(self.model, batch)

    @contextmanager
    def _norms(self, data: int) -> Iterator[Echo]:
        """Batch norms over all processes of the data axis, as the training has them."""
        echo = Echo(data)
        joined = [m for m in self.model.modules() if isinstance(m, _BatchNorm)]
        wanted = joined if data > 1 and self.distributed.sync_batch_norm else []
        try:
            for norm in wanted:
                norm.across = echo
            yield echo
        finally:
            for norm in wanted:
                norm.__dict__.pop("across", None)

    def _planned(self, mesh: Mesh, batch: Any, others: float, norms: Echo) -> Plan:
        data, tensor = mesh.sizes["data"], mesh.sizes["tensor"]
        line = Echo(tensor)
        sharding = Sharding(self.model, tensor, 0, line, self.distributed.patterns)  # type: ignore[arg-type]
        name = type(self.model).__name__
        with self._explained(mesh):
            cut = self._divided(sharding, batch)
            sharding.show(whole=True)
            try:
                rewrite = sharding.rewrite if tensor > 1 else None
                receiver = _Kept() if data > 1 and self.settings.accumulate == 1 else None
                program = StepProgram(self.loss, self.model, (batch,), name, rewrite=rewrite, receiver=receiver)
            finally:
                sharding.show(whole=False)
        result = program(batch)
        plan = Plan(dict(mesh.sizes), round(float(result.weight)), cut=cut)
        each = self.settings.accumulate
        counts = [(each * echo.sent, each * echo.messages) for echo in (line, norms)]
        self._messages(plan, mesh, counts, self._learned())
        self._state()
        block = program.executable.plan.arena_bytes
        gradients = _dense(self._learned())
        inside = 0 if program.receiver is not None else gradients  # of the block; otherwise they leave it as they come
        self._memory(plan, mesh, sharding, {name for name, _ in sharding.named})
        plan.memory["gradients"] = inside
        plan.memory["activations"] = block - inside
        if others:
            plan.memory["other shapes"] = round(others * block)
        if each > 1:
            plan.memory["accumulated"] = 2 * gradients  # the sum, and the next addend
        plan.seconds["compute"] = each * _least(lambda: program(batch))
        self._finished(plan, mesh)
        plan.ops = _longest(program, batch)
        return plan

    def _pipelined(self, mesh: Mesh, batch: Any, others: float, norms: Echo) -> Plan:
        sizes = mesh.sizes
        ranks, line = sizes["pipeline"], Echo(sizes["tensor"])
        settings = replace(self.distributed, data=sizes["data"], pipeline=sizes["pipeline"], tensor=sizes["tensor"])
        micros, rows = micro_rows(self.loader, settings)
        piece = pieces_of(batch, micros, rows)[0]
        sharding = Sharding(self.model, sizes["tensor"], 0, line, self.distributed.patterns)  # type: ignore[arg-type]
        pipe = Pipeline(self.model, settings, sharding, 0, None)
        name = type(self.model).__name__
        with self._explained(mesh):
            cut = self._divided(sharding, piece)
            cut = "; ".join(filter(None, [pipe.decide(self.loss, piece), cut]))
            staged = pipe.staged(self.loss, (piece,), name, range(pipe.stages))
        runner, arrays = Runner(), [as_tensor(x)._data for x in leaves(piece)]
        order, counts = orders(1, pipe.stages, 1)[0], np.zeros((pipe.stages + 1, 4), np.int64)
        mark = [pipe.stages]

        def before(action: Action | None) -> None:
            """Messages between processes of the other axes belong to the stage that has sent them."""
            now = np.array([line.sent, line.messages, norms.sent, norms.messages])
            counts[mark[0]] += now - counts.sum(axis=0)
            mark[0] = pipe.stages if action is None else action.stage

        def once() -> list[list[Array]]:
            self.optimizer.zero_grad()
            return runner.run([staged], [arrays], [draw(staged.draws)], order, before)

        values = iter(once()[0])
        before(None)
        first = counts[:-1].copy()
        result = rebuild(staged.result, lambda x: Tensor(next(values)))
        runner.seconds = {}
        whole = _least(once)
        seconds = {key: min(times) for key, times in runner.seconds.items()}
        between = max(0.0, whole - sum(seconds[action[:2]] for action in order)) / len(order)
        total = micros * self.settings.accumulate
        made = orders(ranks, pipe.chunks, total)
        plan = Plan(dict(sizes), round(float(result.weight)) * micros, cut=cut)
        stages = [staged.stages[s] for s in range(pipe.stages)]
        for stage in stages:
            away = [c for c in stage.leaves if c.target % ranks != stage.number % ranks]
            back = [c for c in stage.arrives if flows(c.value) and c.source % ranks != stage.number % ranks]
            owned = [n for n, numbers in pipe.owners.items() if stage.number in numbers]
            plan.stages.append({
                "process": stage.number % ranks, "begins": (["", *pipe.begins])[stage.number],
                "weights": sum(pipe.named[n]._data.nbytes for n in owned), "micro_batch": stage.nbytes,
                "under_way": most_under_way(made[stage.number % ranks])[stage.number],
                "sent": sum(c.value.nbytes for c in (*away, *back)), "messages": len(away) + len(back),
                "sending": [self.link.seconds(sum(c.value.nbytes for c in some), len(some)) for some in (back, away)],
                "forward": seconds[True, stage.number], "backward": seconds[False, stage.number],
                "between": between,
            })  # fmt: skip

        def of(rank: int, value: Callable[[dict[str, Any]], float]) -> float:
            return sum(value(each) for each in plan.stages if each["process"] == rank)

        def by_stage(column: int) -> list[int]:
            return [total * int(first[rank::ranks, column].sum()) for rank in range(ranks)]

        self._state()
        learned = {id(p): n for n, p in sharding.named if p.requires_grad and p.grad is not None}
        memories, kept = [], dict(plan.memory)
        for rank in range(ranks):
            plan.memory = dict(kept)
            self._memory(plan, mesh, sharding, {n for n, _ in sharding.named if rank in pipe.holders(n)})
            mine = [p for p in self._learned() if rank in pipe.holders(learned[id(p)])]
            plan.memory["gradients"] = _dense(mine)
            plan.memory["activations"] = round(of(rank, lambda each: each["under_way"] * each["micro_batch"]))
            memories.append(plan.memory)
        plan.memory = max(memories, key=lambda memory: sum(memory.values()))
        busiest = max(range(ranks), key=lambda rank: of(rank, lambda each: each["forward"] + each["backward"]))
        holds = [p for p in self._learned() if busiest in pipe.holders(learned[id(p)])]
        self._messages(plan, mesh, [(max(by_stage(i)), max(by_stage(i + 1))) for i in (0, 2)], holds)
        plan.sent["pipeline"] = total * max(round(of(rank, lambda each: each["sent"])) for rank in range(ranks))
        plan.messages["pipeline"] = total * max(round(of(r, lambda each: each["messages"])) for r in range(ranks))

        def took(action: Action) -> float:
            return seconds[action[:2]] + between

        def with_messages(action: Action) -> float:
            return took(action) + float(plan.stages[action.stage]["sending"][action.forward])

        compute = total * of(busiest, lambda each: each["forward"] + each["backward"] + 2 * between)
        alone, spread = makespan(made, took) or 0.0, makespan(made, with_messages, self.link.latency) or 0.0
        for p in self._learned():
            p.grad = p.grad if busiest in pipe.holders(learned[id(p)]) else None
        plan.seconds = {"compute": compute, "bubble": alone - compute}
        self._finished(plan, mesh)
        plan.seconds["pipeline"] = spread - alone
        taken: dict[str, float] = {}
        for stage in stages:
            stage.profile = lambda later, *seen: _add(taken, *seen)
        once()
        plan.ops = _shares(taken)
        return plan

    @contextmanager
    def _explained(self, mesh: Mesh) -> Iterator[None]:
        """What cannot be traced cannot be planned."""
        try:
            yield
        except TraceError as error:
            raise UsageError(
                f"mesh {mesh}: {error.where} cannot be compiled, so nothing can be planned: {error.reason}"
            ) from error

    def _divided(self, sharding: Sharding, batch: Any) -> str:
        """Give the parameters the parts that a process of the tensor axis has; what is said of it."""
        cut = sharding.decide(self.loss, batch) if sharding.parts > 1 else ""
        for each, p in sharding.named:
            p._data = sharding.part_of(each, p._data) if id(p) in sharding.cuts else p._data.copy()
        return cut

    def _state(self) -> None:
        """Let the optimiser make its state."""
        self.optimizer.state = {}
        self.optimizer.step(scale=0.0)

    def _finished(self, plan: Plan, mesh: Mesh) -> None:
        """Seconds of what follows the gradients, and of messages."""
        zero, data = self.distributed.zero, mesh.sizes["data"]
        plan.seconds["update"] = _least(self._clipped) / (data if zero else 1)
        if self.settings.ema is not None:
            others = {name for name, p in self.model.named_parameters() if p.grad is None}
            ema = EMA(self.model, self.settings.ema, fixed={*self.frozen.fixed, *others})
            plan.seconds["averages"] = _least(ema.update) / (data if zero == 3 else 1)
        if mesh.sizes["data"] > 1:
            plan.seconds["summing"] = self._summing()
        for kind, sent in plan.sent.items():
            plan.seconds[kind] = self.link.seconds(sent, plan.messages[kind])

    def _clipped(self) -> None:
        """An update by nothing, with the norm of the gradient where the recipe bounds it."""
        if self.settings.clip_norm is not None:
            clip_scale(self._learned(), self.settings.clip_norm)
        self.optimizer.step(scale=0.0)

    def _messages(self, plan: Plan, mesh: Mesh, counts: Sequence[tuple[int, int]], learned: Sequence[Any]) -> None:
        """Bytes and messages of a step; gradients as `pdl.distributed.reduction` sends them."""
        (tensor, tensor_messages), (norms, norm_messages) = counts
        data = mesh.sizes["data"]
        if mesh.sizes["tensor"] > 1:
            plan.sent["tensor"], plan.messages["tensor"] = tensor, tensor_messages
        if data == 1:
            return
        if norm_messages:
            plan.sent["batch norms"], plan.messages["batch norms"] = norms, norm_messages
        dense = _dense(learned)
        rows = sum(
            p.grad.values._data.nbytes + p.grad.rows._data.nbytes for p in learned if isinstance(p.grad, SparseGrad)
        )
        wire = 2 if self.distributed.wire == "bf16" else 1
        ways = 1 if self.distributed.zero else 2
        buckets = max(1, round(dense / (self.distributed.bucket_megabytes * 2**20)))
        plan.sent["gradients"] = ways * (data - 1) * dense // (data * wire) + (data - 1) * rows
        plan.messages["gradients"] = ways * buckets + 1
        if self.distributed.zero:
            plan.sent["weights"], plan.messages["weights"] = (data - 1) * dense // data, buckets

    def _memory(self, plan: Plan, mesh: Mesh, sharding: Sharding, names: set[str]) -> None:
        """Bytes by kind of what stays, of a process that has these parameters."""
        data, zero = mesh.sizes["data"], self.distributed.zero
        own = [p for name, p in sharding.named if name in names]
        gradients = _dense(p for p in own if p.requires_grad)
        states = [state for name, state in self.optimizer.state.items() if name in names]
        state = sum(v.nbytes for s in states for v in s.values() if isinstance(v, np.ndarray))
        cut = sum(p._data.nbytes for p in own if id(p) in sharding.cuts)
        plan.memory["cut weights"] = cut
        plan.memory["whole weights"] = sum(p._data.nbytes for p in own) - cut
        if zero == 3 and data > 1:
            shared = [p for p in own if p.requires_grad and p.grad is not None and not isinstance(p.grad, SparseGrad)]
            plan.memory["whole weights"] -= gradients - gradients // data
            bucket, tables = int(self.distributed.bucket_megabytes * 2**20), tables_of(self.model, shared, sparse=False)
            largest = max((p._data.nbytes for i, p in enumerate(shared) if i not in tables), default=0)
            plan.memory["gathered"] = 2 * min(max(bucket, largest), gradients)
        plan.memory["buffers"] = sum(b._data.nbytes for b in self.model.buffers())
        plan.memory["gradients"] = plan.memory["activations"] = 0
        plan.memory["optimizer"] = state // (data if zero else 1)
        if self.settings.ema is not None:
            plan.memory["averages"] = plan.memory["cut weights"] + plan.memory["whole weights"] + plan.memory["buffers"]
        if data > 1:
            plan.memory["exchange"] = 2 * gradients if zero < 2 else gradients // data

    def _learned(self) -> list[Any]:
        return [p for p in self.model.parameters() if p.requires_grad and p.grad is not None]

    def _summing(self) -> float:
        """Seconds of copying gradients into buckets, and of adding up this process's share."""
        arrays = [np.array(p.grad._data) for p in self._learned() if not isinstance(p.grad, SparseGrad)]

        def once() -> None:
            for array in arrays:
                np.multiply(array, array.dtype.type(1), out=array)

        return 2 * _least(once) if arrays else 0.0


class _Kept:
    """Takes gradients as a training on several processes does."""

    def begin(self, result: Any, parameters: list[Tensor]) -> None:
        """Nothing is sent."""

    def take(self, parameter: Tensor, gradient: Any) -> None:
        """A copy: the block is overwritten."""
        parameter.grad = gradient if isinstance(gradient, SparseGrad) else Tensor._wrap(gradient._data.copy())


class _Rank:
    """The first of so many."""

    rank = 0

    def __init__(self, size: int) -> None:
        self.size = size


def _dense(parameters: Iterable[Any]) -> int:
    """Bytes of the gradients that do not come as rows."""
    return sum(p.grad._data.nbytes for p in parameters if p.grad is not None and not isinstance(p.grad, SparseGrad))


def _least(function: Callable[[], Any]) -> float:
    """Seconds of the quickest of some runs."""
    times: list[float] = []
    with no_grad():
        end = time.perf_counter() + _SECONDS
        while not times or (time.perf_counter() < end and len(times) < _RUNS):
            begin = time.perf_counter()
            function()
            times.append(time.perf_counter() - begin)
    return min(times)


def _longest(program: StepProgram, batch: Any) -> list[tuple[str, float]]:
    """The ops that take longest, with their shares of the time of all."""
    taken: dict[str, float] = {}
    program.executable.profile = partial(_add, taken)
    try:
        program(batch)
    finally:
        program.executable.profile = None
    return _shares(taken)


def _add(taken: dict[str, float], node: Any, begin: float, end: float) -> None:
    taken[node.op.op_name] = taken.get(node.op.op_name, 0.0) + end - begin


def _shares(taken: dict[str, float]) -> list[tuple[str, float]]:
    total = sum(taken.values()) or 1.0
    return [(op, taken[op] / total) for op in sorted(taken, key=lambda op: -taken[op])[:_OPS]]


def plan(
    recipe: Recipe | Config | dict[str, Any],
    *,
    mesh: str | dict[str, int] | None = None,
    workers: int | None = None,
    bandwidth: float | None = None,
    latency: float | None = None,
) -> tuple[list[Plan], list[str], Link]:
    """What training a recipe takes on each process: of one `mesh` (by default that of the recipe's `distributed`), or
    of all meshes of so many `workers`, the quickest first. Also which cannot be, and the link that was reckoned with.

    bandwidth   bytes a second between processes, and `latency` seconds of a message; both by default measured between
                two processes of this machine
    """
    checked = recipe if isinstance(recipe, Recipe) else Recipe(recipe)
    if workers is not None and mesh is not None:
        raise UsageError("plan: mesh and workers: choose one")
    if bandwidth is not None and latency is not None:
        link = Link(bandwidth, latency, "as given")
    else:
        found = measured()
        how = found.how if bandwidth is None and latency is None else f"partly given, else {found.how}"
        link = Link(bandwidth or found.bandwidth, found.latency if latency is None else latency, how)
    planner = Planner(checked, link)
    if workers is not None:
        return *planner.meshes(workers), link
    sizes = Mesh.parse(mesh).sizes if isinstance(mesh, str) else mesh
    settings = checked.distributed
    return [planner.plan(sizes or {axis: getattr(settings, axis) for axis in AXES})], [], link
