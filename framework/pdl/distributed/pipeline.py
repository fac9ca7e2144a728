"""Pipeline parallel: a traced program in stages, each the program of one process.

`Cutter` finds where the forward part is cut, so that stages take equally long and little crosses; `layout` says what of
a program belongs to each stage and what crosses between them; a `Stage` is the program of one, with its gradient, which
is run forward and backward for each micro-batch; a `Runner` does so in the order of a schedule, and sends and receives
what crosses (GPipe, Huang et al., arXiv 1811.06965; PipeDream, Narayanan et al., arXiv 1806.03377).

What hangs on weights alone, such as a table that is read transposed, or on the batch alone, such as a mask, is computed
by each stage that reads it. Random numbers are drawn by all processes, in the order of one that trains all, so they do
not hang on how many stages there are.
"""

from __future__ import annotations

import time
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from pdl.distributed.group import Group, Pending
from pdl.distributed.schedule import Action
from pdl.dtype import Array
from pdl.errors import TraceError, UsageError
from pdl.kernels.memory import empty
from pdl.ops.base import _quiet, apply
from pdl.ops.cost import multiply_adds, traffic
from pdl.ops.sparse import SparseGrad
from pdl.program.executor import TwoPart
from pdl.program.ir import Node, Program, Value, is_state
from pdl.program.passes import FINAL, FORWARD, run_passes
from pdl.program.tracing import Recorder, Symbol
from pdl.program.verify import verify
from pdl.tensor import Tensor, casting, no_grad, set_grad_enabled

#: of a core and a link, for the balance of stages: multiply-adds and bytes a second
_WORK, _MOVES, _LINK = 2e10, 8e9, 2e9
_SLACK = 1.05  # of the slowest stage, for which fewer bytes may cross
_TAG = 128  # of the first message
_SPARSE = 2  # arrays of a sparse gradient

Homes: TypeAlias = "dict[Node, int]"


# -- what is computed where ------------------------------------------------------------------------------------------
class _Program:
    """A forward part: what of it is free, and what draws random numbers."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.draws = [n for n in program.nodes if n.op.stateful and not n.op.effect]
        if wrong := next((n for n in self.draws if n.inputs or len(n.outputs) > 1), None):
            raise TraceError(f"{wrong.op.op_name} draws random numbers by what a stage computes", wrong.where)
        written = {buffer for buffer, _ in program.effects}
        kinds: dict[Value, int] = dict.fromkeys(program.inputs, 1)  # 1: from the batch, 2: from weights
        for read in program.captures:
            kinds[read] = 4 if read in written else 2 if read.tensor is not None and is_state(read.tensor) else 0
        kinds.update({n.outputs[0]: 1 for n in self.draws})
        self.free: set[Node] = set(self.draws)
        for node in program.nodes:
            if node in self.free:
                continue
            kind = 0
            for value in node.inputs:
                kind |= 0 if value is None else kinds[value]
            ins, outs = _specs(node)
            if kind < 3 and not node.op.effect and not multiply_adds(node.op, ins, outs):
                self.free.add(node)
            else:
                kind = 4
            kinds.update(dict.fromkeys(node.outputs, kind))

    def placed(self, value: Value | None) -> Node | None:
        """The node of a value that belongs to one stage; None for what is everywhere."""
        return None if value is None or value.node is None or value.node in self.free else value.node


def flows(value: Value) -> bool:
    """Whether a gradient comes back to what a node makes."""
    return value.node is not None and value.node.differentiable and value.spec.dtype.kind not in "iub"


def _specs(node: Node) -> tuple[list[Any], list[Any]]:
    return [None if v is None else v.spec for v in node.inputs], [v.spec for v in node.outputs]


def _seconds(node: Node) -> float:
    """About so long a node takes, forward and backward."""
    ins, outs = _specs(node)
    moved = 0 if node.op.view is not None else traffic(node.op, ins, outs)
    return (3 if node.differentiable else 1) * (multiply_adds(node.op, ins, outs) / _WORK + moved / _MOVES)


class Cutter:
    """Where a forward part can be cut; `loss` is known in the last stage.

    work     [nodes + 1]: seconds that the nodes before each take, about
    bytes    [nodes + 1]: that cross there, forward and backward
    places   numbers of nodes that a stage may begin with
    """

    def __init__(self, program: Program, loss: Value) -> None:
        self.program, self.known = program, _Program(program)
        nodes, known = program.nodes, self.known
        number, count = {node: i for i, node in enumerate(nodes)}, len(nodes)
        self.work = np.array([0.0, *(0.0 if n in known.free else _seconds(n) for n in nodes)]).cumsum()
        crossing, closed = np.zeros(count + 2), np.zeros(count + 2)
        last = {v: number[n] for n in nodes if n not in known.free for v in n.inputs if v is not None}
        last.update(dict.fromkeys((v for v in program.outputs if v is not None), count))
        for value, end in last.items():
            if (node := known.placed(value)) is not None:
                size = value.nbytes * (2 if flows(value) else 1)
                crossing[number[node] + 1] += size
                crossing[end + 1] -= size
        readers = program.readers()
        for buffer, value in program.effects:  # what reads a buffer and what writes it are together
            at = [number[n] for n in (*readers.get(buffer, ()), *filter(None, [value.node]))]
            closed[min(at, default=0) + 1] += 1
            closed[max(at, default=0) + 1] -= 1
        self.bytes, shut = crossing.cumsum()[: count + 1], closed.cumsum()
        final = count if loss.node is None else number[loss.node]
        best: dict[float, int] = {}  # of places with the same work before them the one at which least crosses
        for j in range(1, final + 1):
            if not shut[j] and 0 < self.work[j] < self.work[-1]:
                k = best.setdefault(self.work[j], j)
                best[self.work[j]] = j if self.bytes[j] < self.bytes[k] else k
        self.places = sorted(best.values())

    def starts(self, stages: int) -> list[int]:
        """The first nodes of all stages but the first. The slowest stage is as quick as can be, what it sends counted;
        of all cuts of which no stage is much slower those are taken that send least. UsageError where there are too few
        places."""
        if len(self.places) < stages - 1:
            raise UsageError(
                f"distributed.pipeline: the model has {len(self.places) + 1} pieces that can be apart, and there are "
                f"to be {stages} stages (pipeline times virtual_stages); use fewer"
            )
        at = np.array([0, *self.places, len(self.work) - 1])
        work, sent = self.work[at], self.bytes[at] / _LINK
        sent[[0, -1]] = 0.0
        cost = work[None, :] - work[:, None] + sent[None, :] + sent[:, None]  # of a stage from place i to j
        cost[np.tril_indices(len(at))] = np.inf
        slowest = cost[0]
        for _ in range(stages - 1):
            slowest = np.maximum(slowest[:, None], cost).min(axis=0)
        allowed = cost <= _SLACK * slowest[-1]
        total, ways = np.where(allowed[0], 0.0, np.inf), []
        for _ in range(stages - 1):
            table = np.where(allowed, (total + sent)[:, None], np.inf)
            ways.append(table.argmin(axis=0))
            total = table.min(axis=0)
        place, found = len(at) - 1, []
        for way in reversed(ways):
            place = int(way[place])
            found.append(int(at[place]))
        return found[::-1]

    def starts_by(self, stage_of: Mapping[int, Sequence[int]], stages: int) -> list[int]:
        """The same where the stages of weights, by the ids of tensors, are known: the cuts between them at which least
        crosses. UsageError where there is none."""
        reads: dict[Value, list[Sequence[int]]] = {
            v: [stage_of[id(v.tensor)]] for v in self.program.captures if id(v.tensor) in stage_of
        }
        first, last = [len(self.program.nodes)] * stages, [-1] * stages
        for i, node in enumerate(self.program.nodes):
            found = [each for v in node.inputs if v is not None for each in reads.get(v, ())]
            if node in self.known.free:
                reads[node.outputs[0]] = found
                continue
            for owners in found:
                if len(owners) == 1:
                    first[owners[0]], last[owners[0]] = min(first[owners[0]], i), i
        made: list[int] = []
        for stage in range(1, stages):
            low, high = max(last[:stage]), min(first[stage:])
            between = [j for j in self.places if max([low, *made[-1:]]) < j <= high]
            if not between:
                raise UsageError(
                    f"distributed.pipeline: a batch of another shape takes another way through the model, which cannot "
                    f"be cut before stage {stage} as the first one was; train with pipeline=1"
                )
            made.append(min(between, key=lambda j: (self.bytes[j], j)))
        return made

    def shares(self, starts: Sequence[int]) -> list[float]:
        """The part of the work of each stage."""
        bounds = self.work[[0, *starts, len(self.work) - 1]]
        return [float(b - a) / float(self.work[-1]) for a, b in pairwise(bounds)]


@dataclass
class Crossing:
    """A value that a stage makes and another reads; `number` is that of its messages."""

    number: int
    value: Value
    source: int
    target: int


@dataclass
class Layout:
    """A forward part in stages.

    nodes       of each, in order
    crossings   in the order of the program, and of the stages that read them
    effects     on buffers, of each stage
    draws       nodes that draw random numbers
    """

    program: Program
    nodes: list[list[Node]]
    crossings: list[Crossing]
    effects: list[list[tuple[Value, Value]]]
    draws: list[Node]

    def owners(self, names: Mapping[int, str]) -> dict[str, list[int]]:
        """The stages that read parameters and buffers, by name."""
        found: dict[str, set[int]] = {}
        for stage, nodes in enumerate(self.nodes):
            read = [v for n in nodes for v in n.inputs] + [buffer for buffer, _ in self.effects[stage]]
            for value in read:
                if value is not None and id(value.tensor) in names and is_state(value.tensor):  # type: ignore[arg-type]
                    found.setdefault(names[id(value.tensor)], set()).add(stage)
        return {name: sorted(stages) for name, stages in found.items()}


def homes(program: Program, starts: Sequence[int], ends: Sequence[int] | None = None) -> Homes:
    """The stage of each node of a program that begins at these nodes; or of a program written of that, where `ends` are
    the numbers of nodes that were written when each of its own was: what was written later belongs to its inputs."""
    stages = range(len(starts) + 1)
    if ends is None:
        return {node: bisect_right(starts, i) for i, node in enumerate(program.nodes)}
    bounds = [ends[j - 1] for j in starts]
    found: Homes = {}
    for i, node in enumerate(program.nodes):
        late = i >= ends[-1]
        before = [found[v.node] for v in node.inputs if v is not None and v.node is not None]
        found[node] = max(before, default=stages[0]) if late else bisect_right(bounds, i)
    return found


def layout(program: Program, home: Homes, stages: int) -> Layout:
    """What belongs to each stage; the outputs of the program are wanted in the last."""
    known = _Program(program)
    wanted: list[set[Value]] = [set() for _ in range(stages)]
    readers: dict[Value, set[int]] = {}

    def want(value: Value | None, stage: int) -> None:
        if value is None:
            return
        node = known.placed(value)
        if node is not None and home[node] != stage:
            readers.setdefault(value, set()).add(stage)
            stage = home[node]
        wanted[stage].add(value)

    made: Value | None
    effects: list[list[tuple[Value, Value]]] = [[] for _ in range(stages)]
    for buffer, value in program.effects:
        node = known.placed(value)
        stage = 0 if node is None else home[node]
        effects[stage].append((buffer, value))
        want(value, stage)
    for made in program.outputs:
        want(made, stages - 1)
    nodes: list[list[Node]] = [[] for _ in range(stages)]
    draws = set(known.draws)
    for node in reversed(program.nodes):
        if node in draws:
            continue
        at = range(stages) if node in known.free else [home[node]]
        for stage in at:
            if node.op.effect or not wanted[stage].isdisjoint(node.outputs):
                nodes[stage].append(node)
                for made in node.inputs:
                    want(made, stage)
    ordered = [v for node in program.nodes for v in node.outputs if v in readers]
    crossings = [(v, home[v.node], target) for v in ordered if v.node for target in sorted(readers[v])]
    numbered = [Crossing(number, *each) for number, each in enumerate(crossings)]
    if back := next((c for c in numbered if c.target < c.source), None):
        assert back.value.node is not None
        raise TraceError("a stage reads what a later one makes", back.value.node.where)
    return Layout(program, [each[::-1] for each in nodes], numbered, effects, known.draws)


# -- the program of a stage --------------------------------------------------------------------------------------------
class Run(TwoPart):
    """The program of a stage with memory for one micro-batch."""

    profile: Any

    def __init__(self, stage: Stage) -> None:
        self.sent: list[Pending] = []  # of what lies in its memory
        super().__init__(stage.program, stage.first, stage.early, taps=stage.taps)

    def forward(self, arrays: Sequence[Array], tick: Callable[[], object]) -> list[Any]:
        """The first part; what it makes."""
        self._rebind_where_moved()
        self._take(self._inputs[: self.first], arrays)
        _quiet.run(self._go, self._first, False, tick)
        for target, value in self._effects:
            np.copyto(target, value)
        return self._outputs[: self.early]

    def backward(self, gradients: Sequence[Array], tick: Callable[[], object]) -> list[Any]:
        """The second part; what it makes."""
        self._take(self._inputs[self.first :], gradients)
        _quiet.run(self._go, self._second, True, tick)
        return self._outputs[self.early :]

    def _take(self, targets: Sequence[Array], arrays: Sequence[Array]) -> None:
        for target, array in zip(targets, arrays, strict=True):
            np.copyto(target, array)

    def _go(self, calls: Iterable[Callable[[], object]], later: bool, tick: Callable[[], object]) -> None:
        if self.profile is None:
            for call in calls:
                call()
                tick()
            return
        for step in self._steps:
            if (step.node in self._later) == later:
                begin = time.perf_counter()
                step.call()
                self.profile(later, step.node, begin, time.perf_counter())
        tick()


class Stage:
    """The program of one stage of a layout, and its gradient; `take` gets the gradients of parameters.

    inputs      of the program that was laid out, by number, and random draws, that it takes
    arrives     crossings that it reads, `leaves` those that it makes
    profile     called as ``profile(later, node, begin, end)`` for every node, `later` of the backward part, while it is
                set
    """

    def __init__(
        self, laid: Layout, number: int, loss: Value, parameters: Iterable[Tensor], names: dict[int, str], take: Take
    ) -> None:
        self.number, self.take, last = number, take, number == len(laid.nodes) - 1
        program, own = laid.program, set(laid.nodes[number])
        self.arrives = [c for c in laid.crossings if c.target == number]
        self.leaves = [c for c in laid.crossings if c.source == number]
        results = program.outputs if last else []
        read = {v for node in own for v in node.inputs} | {*results, *(v for _, v in laid.effects[number])}
        self.inputs = [i for i, v in enumerate(program.inputs) if v in read]
        self.draws = [i for i, node in enumerate(laid.draws) if node.outputs[0] in read]
        recorder = Recorder(f"{program.name}, stage {number}", names)
        env: dict[Value, Any] = {v: v.tensor for v in program.captures}
        with recorder.active(), casting(None):
            for i in self.inputs:
                env[program.inputs[i]] = recorder.input(program.inputs[i].spec, program.inputs[i].name or "batch")
            for i in self.draws:
                value = laid.draws[i].outputs[0]
                env[value] = recorder.input(value.spec, "draw")
            received = [recorder.input(c.value.spec, "received", flows(c.value)) for c in self.arrives]
            env.update({c.value: x for c, x in zip(self.arrives, received, strict=True)})
            for node in laid.nodes[number]:
                self._write(recorder, node, env)
            for buffer, value in laid.effects[number]:
                assert buffer.tensor is not None
                recorder.assign(buffer.tensor, env[value])
            left = list(dict.fromkeys(c.value for c in self.leaves))
            made = recorder.program
            made.outputs = [recorder.value_of(env[v]) for v in (*left, *results)]  # type: ignore[index]
            run_passes(verify(made), FORWARD)
            kept = set(made.captures)
            recorder.captured = {key: value for key, value in recorder.captured.items() if value in kept}
            self.first, self.early = len(made.inputs), len(made.outputs)
            self.place = {v: i for i, v in enumerate(left)}  # of what leaves, among the outputs
            self.results = slice(len(left), self.early)
            outs = dict(zip(left, made.outputs, strict=False))
            self.asks = [c for c in self.leaves if flows(c.value)]  # whose gradients come back
            pairs = [(Symbol(outs[c.value], True), recorder.input(c.value.spec, "g")) for c in self.asks]  # type: ignore[arg-type]
            if last:
                at = made.outputs[len(left) + results.index(loss)]
                assert at is not None
                pairs.append((Symbol(at, True), recorder.input(at.spec, "g")))
            here = {id(v.tensor) for v in made.captures}
            learned = [p for p in parameters if p.requires_grad and id(p) in here]
            self.gives = [i for i, c in enumerate(self.arrives) if flows(c.value)]
            found = recorder.gradient(pairs, [*(received[i] for i in self.gives), *learned])
            backs, grads = found[: len(self.gives)], found[len(self.gives) :]
            dense = [g.to_dense() if isinstance(g, SparseGrad) else g for g in backs]
            self.there = [g is not None for g in dense]
            made.outputs += [recorder.value_of(g) for g in dense if g is not None]
            parts = [[] if g is None else [g.rows, g.values] if isinstance(g, SparseGrad) else [g] for g in grads]
            made.outputs += [recorder.value_of(x) for part in parts for x in part]
        self.program = run_passes(made, FINAL)
        self.taps, self.later = self._tapped([(p, len(part)) for p, part in zip(learned, parts, strict=True)])
        self.idle: list[Run] = []
        self.running: dict[int, Run] = {}
        self.profile: Any = None

    def _write(self, recorder: Recorder, node: Node, env: dict[Value, Any]) -> None:
        recorder._where = node.where
        recorder._scopes.append(node.scope)
        with set_grad_enabled(node.differentiable):
            made = apply(node.op, *[None if v is None else env[v] for v in node.inputs])
        recorder._scopes.pop()
        recorder._where = None
        env.update(zip(node.outputs, made if isinstance(made, tuple) else (made,), strict=True))

    def _tapped(self, learned: list[tuple[Tensor, int]]) -> tuple[dict[Value, Any], list[tuple[Tensor, int]]]:
        """Dense gradients are taken as they are made; what is left are outputs of the second part."""
        begin = self.early + sum(self.there)
        values = iter(self.program.outputs[begin:])
        self.program.outputs = self.program.outputs[:begin]
        targets: dict[Value, list[Tensor]] = {}
        left = []
        for parameter, form in learned:
            parts = [next(values) for _ in range(form)]
            if form == 1 and parts[0] is not None and parts[0].node is not None:
                targets.setdefault(parts[0], []).append(parameter)
            elif parts:
                left.append((parameter, form))
                self.program.outputs += parts
        return {value: partial(self._tap, found) for value, found in targets.items()}, left

    def _tap(self, parameters: list[Tensor], array: Array) -> None:
        for parameter in parameters:
            self.take(parameter, Tensor._wrap(array))

    def forward(self, micro: int, arrays: Sequence[Array], tick: Callable[[], object]) -> list[Any]:
        """What a micro-batch makes: values that leave, by `place`, then `results`; windows on the memory of its run."""
        run = self._idle() or Run(self)
        run.profile = self.profile
        self.running[micro] = run
        return run.forward(arrays, tick)

    def backward(self, micro: int, gradients: Sequence[Array], tick: Callable[[], object]) -> list[Array | None]:
        """The gradients of what came (`gives`), None for 0."""
        run = self.running.pop(micro)
        values = iter(run.backward(gradients, tick))
        backs = [next(values) if there else None for there in self.there]
        for parameter, form in self.later:
            parts = [Tensor._wrap(next(values)) for _ in range(form)]
            self.take(parameter, SparseGrad(parameter.shape, *parts) if form == _SPARSE else parts[0])
        self.idle.append(run)
        return backs

    def _idle(self) -> Run | None:
        """One whose memory nobody reads."""
        for at, run in enumerate(self.idle):
            run.sent = [pending for pending in run.sent if not pending.done()]
            if not run.sent:
                return self.idle.pop(at)
        return None

    @property
    def nbytes(self) -> int:
        """Memory of one run."""
        return next(iter([*self.idle, *self.running.values()])).plan.arena_bytes


Take: TypeAlias = "Callable[[Tensor, Any], None]"


def add_gradient(parameter: Tensor, gradient: Any) -> None:
    """Add to a parameter's `grad`; a gradient that is new is copied."""
    known = parameter.grad
    if isinstance(gradient, SparseGrad) or isinstance(known, SparseGrad):
        if isinstance(gradient, SparseGrad):
            rows, values = (Tensor._wrap(x._data.copy()) for x in (gradient.rows, gradient.values))
            gradient = SparseGrad(gradient.shape, rows, values)
        with no_grad():
            parameter.grad = gradient if known is None else known + gradient
    elif known is None:
        own = empty(gradient.shape, gradient.dtype)
        np.copyto(own, gradient._data)
        parameter.grad = Tensor._wrap(own)
    else:
        known._data += gradient._data


# -- running -----------------------------------------------------------------------------------------------------------
@dataclass
class Staged:
    """A step for one shape of micro-batch: the stages of this process by number, and what the last one returns.

    draws    nodes of random numbers, of all stages
    result   the tree of what the step returns, with the outputs of the last stage in order
    order    of all ops and where they are, as a number that is the same on all processes
    """

    stages: dict[int, Stage]
    draws: list[Node]
    result: Any
    order: int

    @property
    def nbytes(self) -> int:
        """Memory of all runs of its stages."""
        return sum(stage.nbytes * len([*stage.idle, *stage.running]) for stage in self.stages.values())


class Key(NamedTuple):
    """A message: of a micro-batch, forward or backward, by the number of the crossing."""

    micro: int
    forward: bool
    number: int


class Runner:
    """Runs the stages of this process: stage s is on process s modulo `ranks` of `group` (None: all are here).

    seconds   of the actions, by (forward, stage), where it is a dict
    """

    def __init__(self, group: Group | None = None) -> None:
        self.group = group
        self.rank, self.ranks = (0, 1) if group is None else (group.rank, group.size)
        self.seconds: dict[tuple[bool, int], list[float]] | None = None
        self.sent = self.messages = 0

    def run(
        self,
        staged: Sequence[Staged],
        batches: Sequence[Sequence[Array]],
        draws: Sequence[Sequence[Array]],
        order: Sequence[Action],
        before: Callable[[Action], object] = lambda action: None,
    ) -> list[list[Array]]:
        """Forward and backward of all micro-batches; of each what the last stage returned, where it is here. `before`
        is called with each action."""
        self.here: dict[Key, Array] = {}  # from stages of this process
        self.coming: dict[Key, tuple[Array, Pending]] = {}
        self.going: list[Pending] = []
        results: list[list[Array]] = [[] for _ in staged]
        for at, action in enumerate(order):
            for each in order[at : at + 2]:  # what the next one needs may come meanwhile
                self._expect(each, staged[each.micro])
            before(action)
            stage = staged[action.micro].stages[action.stage]
            given = self._given(action, stage)
            begin = time.perf_counter()
            if action.forward:
                own = [batches[action.micro][i] for i in stage.inputs] + [draws[action.micro][i] for i in stage.draws]
                outs = stage.forward(action.micro, [*own, *given], self._tick)
                results[action.micro] = [np.array(x) for x in outs[stage.results]]
            else:
                backs = stage.backward(action.micro, given, self._tick)
            if self.seconds is not None:
                self.seconds.setdefault(action[:2], []).append(time.perf_counter() - begin)
            if action.forward:
                for crossing in stage.leaves:
                    self._send(action, crossing, outs[stage.place[crossing.value]], stage.running[action.micro])
            else:
                for i, back in zip(stage.gives, backs, strict=True):
                    crossing = stage.arrives[i]
                    spec = crossing.value.spec
                    self._send(action, crossing, np.zeros(spec.shape, spec.dtype) if back is None else np.array(back))
        while self.going:
            self.going.pop().wait()
        return results

    def _needs(self, action: Action, stage: Stage) -> list[Crossing]:
        return stage.arrives if action.forward else stage.asks

    def _expect(self, action: Action, staged: Staged) -> None:
        """Ask for the messages that an action needs."""
        for crossing in self._needs(action, staged.stages[action.stage]):
            source = (crossing.source if action.forward else crossing.target) % self.ranks
            key = Key(action.micro, action.forward, crossing.number)
            if source == self.rank or key in self.coming:
                continue
            assert self.group is not None
            array = empty(crossing.value.spec.shape, crossing.value.spec.dtype)
            self.coming[key] = array, self.group.receive(array, source, _tag(key), _named(action, "from", source))

    def _given(self, action: Action, stage: Stage) -> list[Array]:
        """What an action needs of others, when it is here."""
        found = []
        for crossing in self._needs(action, stage):
            key = Key(action.micro, action.forward, crossing.number)
            if key in self.here:
                found.append(self.here.pop(key))
                continue
            array, pending = self.coming.pop(key)
            pending.wait()
            found.append(array)
        if not action.forward and stage.results.stop > stage.results.start:  # the gradient of the loss
            shape, dtype = stage.program.inputs[-1].spec
            found.append(np.ones(shape, dtype))
        return found

    def _send(self, action: Action, crossing: Crossing, array: Array, run: Run | None = None) -> None:
        target = (crossing.target if action.forward else crossing.source) % self.ranks
        key = Key(action.micro, action.forward, crossing.number)
        if target == self.rank:
            self.here[key] = np.array(array)
            return
        assert self.group is not None
        whole = np.ascontiguousarray(array)
        pending = self.group.send(whole, target, _tag(key), _named(action, "to", target))
        self.going.append(pending)
        self.sent, self.messages = self.sent + whole.nbytes, self.messages + 1
        if run is not None and whole is array:
            run.sent.append(pending)

    def _tick(self) -> None:
        """Let messages go on."""
        if self.going and self.going[0].done():
            self.going.pop(0)


def _tag(key: Key) -> int:
    return _TAG + 2 * key.number + key.forward


def _named(action: Action, way: str, rank: int) -> str:
    what = "activations" if action.forward else "gradients"
    return f"{what} of micro-batch {action.micro}, stage {action.stage}, {way} process {rank}"


def programs_alike(laid: Layout) -> int:
    """A number that is the same for programs with the same ops in the same stages."""
    stages = ["".join(f" {type(node.op).__name__}" for node in nodes) for nodes in laid.nodes]
    return zlib.crc32(",".join(stages).encode())


def draw(nodes: Sequence[Node]) -> list[Array]:
    """The next random numbers of a micro-batch."""
    return [node.op.run(())[0] for node in nodes]


__all__ = ["Cutter", "Layout", "Runner", "Stage", "Staged", "draw", "homes", "layout"]
