"""Running a program: memory planned once, every op bound to its arrays once, then a list of calls.

What ops do by kernel calls alone (`Op.native`) is written on a tape; a run of such nodes is replayed in one call,
without Python and without the GIL.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from pdl import threads
from pdl.dtype import Array, bfloat16, float32
from pdl.errors import ShapeError
from pdl.kernels.copies import convert, copy
from pdl.kernels.launch import Tape
from pdl.kernels.memory import empty
from pdl.limits import check_time, timed
from pdl.ops.base import Arrays, Op, _quiet, cast_array
from pdl.ops.conv import Conv
from pdl.ops.cost import multiply_adds, traffic
from pdl.ops.inference import ConvThen
from pdl.ops.packed import PackedConv
from pdl.ops.shape import PermuteDims
from pdl.program.arena import Arena
from pdl.program.feeding import Feed
from pdl.program.ir import Node, Program, Value
from pdl.program.memory import Plan, plan_memory
from pdl.tensor import Tensor

Profile: TypeAlias = "Callable[[Node, float, float], None]"
Calls: TypeAlias = "list[Callable[[], object]]"
Tap: TypeAlias = "Callable[[Array], None]"
_CONVOLUTIONS = (Conv, ConvThen, PackedConv)

#: multiply-adds and bytes after which a replay ends (tens of milliseconds), so that Ctrl-C and deadlines are seen
SEGMENT = 1 << 30


class _Step(NamedTuple):
    """A node's call from Python, and where on the tape the same lies, if it does."""

    node: Node
    call: Callable[[], object]
    place: tuple[int, int] | None


class Executable:
    """``executable(*arrays)`` runs a program and returns its outputs as arrays (None where the program has none).

    All arrays of the program are in one block that is kept, so a run allocates nothing; outputs are views of that
    block and are overwritten by the next run. One thread at a time may run it; others wait.

    native    tape or not: False makes every call from Python
    frozen    captured tensors keep their arrays for good, which is then not looked after
    arena     the block, uint8 [arena_bytes] and aligned to 64 bytes, or an `Arena` that others run in, too; by default
              one of its own
    held      memory of the inputs that the plan leaves to the caller, which a run does not take; what overwrites one of
              them is an output that lies there
    profile   called as ``profile(node, begin, end)`` (seconds of `time.perf_counter`) for every node, while it is set
    taps      functions that are called with the array of a value as soon as it is computed, in every run; they may read
              it, but not keep it: what comes after it may lie in its place
    feeds     functions that write inputs, each just before the first node that reads it, in every run; a call is not
              given these
    """

    def __init__(
        self,
        program: Program,
        plan: Plan | None = None,
        *,
        native: bool = True,
        frozen: bool = False,
        arena: Array | Arena | None = None,
        held: Mapping[Value, Array] | None = None,
        taps: Mapping[Value, Tap] | None = None,
        feeds: Mapping[Value, Feed] | None = None,
    ) -> None:
        threads.check_environment()
        self._held, self._taps, self._feeds = dict(held or {}), dict(taps or {}), dict(feeds or {})
        self.program = program
        fed = _first_reads(program, self._feeds)
        self.plan = plan or plan_memory(program, late={value: at for at, values in fed.items() for value in values})
        self._fed = {program.nodes[at]: values for at, values in fed.items()}
        self.profile: Profile | None = None
        self.native, self.frozen = native, frozen
        self._arena: Array | None = None
        if isinstance(arena, Arena):
            self._shared = arena
            arena.take(self, self.plan.arena_bytes)
        else:
            self._shared = Arena(empty((self.plan.arena_bytes,), np.dtype(np.uint8)) if arena is None else arena)
        self._lock = self._shared.lock
        self._bind()

    def __call__(self, *arrays: Array) -> list[Array | None]:
        """One run on these inputs, in the order of the program's."""
        with self._lock:
            self._rebind_where_moved()
            self._load(arrays)
            if self.profile is not None:
                _quiet.run(self._run_profiled, self.profile)
            elif self._python:
                _quiet.run(self._run)
            else:
                self._run()
            for target, value in self._effects:
                np.copyto(target, value)
            return self._outputs

    def run_inside(self, outs: Arrays, arrays: tuple[Array, ...]) -> None:
        """One run as the body of an op: results are copied into `outs`; the program has no effects on buffers."""
        with self._lock:
            self._rebind_where_moved()
            self._load(arrays)
            self._run()
            _copy_all(outs, self._outputs)

    @property
    def outputs(self) -> list[Array | None]:
        """Where the outputs of every run lie."""
        return self._outputs

    @property
    def peak_bytes(self) -> int:
        """Memory of a run: the block, and the captured tensors."""
        return self.plan.arena_bytes + sum(v.nbytes for v in self.program.captures)

    @property
    def python_nodes(self) -> list[Node]:
        """The nodes that are called from Python, one by one: what keeps a run from being one replay."""
        self._rebind_where_moved()
        return [step.node for step in self._steps if step.place is None]

    # -- binding -------------------------------------------------------------------------------------------------------
    def _bind(self) -> None:
        """Make the array of every value, and the call of every node."""
        self._arena = self._shared.block
        arrays: dict[Value, Array] = {}
        self._bound: list[tuple[Tensor, Array]] = []
        for value in self.program.captures:
            assert value.tensor is not None
            arrays[value] = value.tensor._data
            self._bound.append((value.tensor, value.tensor._data))
        self._taken = [v for v in self.program.inputs if v not in self.plan.held and v not in self._feeds]
        turned = _turned(self.program)
        for value in self.program.inputs:
            arrays[value] = self._window(value, None if value in self.plan.held else turned.get(value))
        self._tape = Tape()
        self._steps: list[_Step] = []
        for node in self.program.nodes:
            for value in self._fed.get(node, ()):
                self._steps.append(_Step(node, partial(self._feeds[value], arrays[value]), None))
            step = self._bind_node(node, arrays)
            if step is not None:
                self._steps.append(step)
            for value in node.outputs:
                if value in self._taps:
                    self._steps.append(_Step(node, partial(self._taps[value], arrays[value]), None))
        self._python = any(step.place is None for step in self._steps)
        self._calls = self._joined(self._steps)
        self._inputs = [arrays[v] for v in self._taken]
        self._outputs = [None if v is None else arrays[v] for v in self.program.outputs]
        self._effects = [(arrays[buffer], arrays[value]) for buffer, value in self.program.effects]

    def release(self) -> None:
        """Let go of the block; the next run binds everything anew."""
        if self._arena is not None:
            self._arena, self._tape = None, Tape()
            self._steps, self._calls, self._inputs, self._outputs, self._effects = [], [], [], [], []

    def _bind_node(self, node: Node, arrays: dict[Value, Array]) -> _Step | None:
        ins = tuple(None if v is None else arrays[v] for v in node.inputs)
        if node.outputs[0] in self.plan.views:
            assert node.op.view is not None
            arrays[node.outputs[0]] = node.op.view(ins[0])
            return None
        for value in node.outputs:
            arrays[value] = self._window(value)
        outs = tuple(arrays[v] for v in node.outputs)
        call = bound(node.op, outs, ins)
        place = self._tape.record(call, (*outs, *ins)) if self.native and node.op.native else None
        return _Step(node, call, place)

    def _joined(self, steps: list[_Step]) -> Calls:
        """The calls that make these steps, neighbours on the tape as one, but no more of them than `SEGMENT`."""
        calls: Calls = []
        for on_tape, group in itertools.groupby(steps, lambda step: step.place is not None):
            if on_tape:
                calls += [partial(_replay, self._tape, members) for members in _segments(group)]
            else:
                calls += [step.call for step in group]
        return calls

    def _rebind_where_moved(self) -> None:
        """Bind again where the block, or a captured tensor's array, is another than before."""
        moved = self._arena is not self._shared.block
        if moved or (not self.frozen and any(tensor._data is not array for tensor, array in self._bound)):
            self._bind()

    def _window(self, value: Value, axes: tuple[int, ...] | None = None) -> Array:
        """The value's bytes in the block, or in memory of the caller's; in the order of these axes, if they are
        given."""
        if value in self.plan.held:
            return self._held[self.plan.held[value]]
        at, spec = self.plan.owner[value].offset, value.spec
        assert self._arena is not None
        found = self._arena[at : at + value.nbytes].view(spec.dtype)
        if axes is None:
            return found.reshape(spec.shape)
        return found.reshape([spec.shape[a] for a in axes]).transpose(np.argsort(axes))

    # -- running -------------------------------------------------------------------------------------------------------
    def _load(self, arrays: tuple[Array, ...]) -> None:
        if len(arrays) != len(self._inputs):
            raise ShapeError(f"program {self.program.name!r} takes {len(self._inputs)} inputs, got {len(arrays)}")
        for target, array, value in zip(self._inputs, arrays, self._taken, strict=True):
            if array.shape != target.shape or array.dtype != target.dtype:
                raise ShapeError(
                    f"program {self.program.name!r}: input {value.name} is {array.dtype} {array.shape}; "
                    f"it was compiled for {target.dtype} {target.shape}"
                )
            if target.flags.c_contiguous and array.flags.c_contiguous:
                np.copyto(target, array)
            else:
                copy(target, array)

    def _run(self) -> None:
        if timed():
            _make(self._calls)
        else:  # `_make` without the tenth of a microsecond that a call takes
            for call in self._calls:
                call()

    def _run_profiled(self, profile: Profile) -> None:
        clock = time.perf_counter
        for step in self._steps:
            check_time()
            begin = clock()
            step.call() if step.place is None else _replay(self._tape, [step])
            profile(step.node, begin, clock())


class TwoPart(Executable):
    """A program that runs in two parts: what needs the first `first` inputs only, then, any time later, the rest.

    The `early` first outputs are known after the first part. What the second part reads stays in place meanwhile.
    """

    def __init__(self, program: Program, first: int, early: int, *, taps: Mapping[Value, Tap] | None = None) -> None:
        self.first, self.early = first, early
        late: set[Value] = set(program.inputs[first:])
        nodes: tuple[list[Node], list[Node]] = ([], [])
        for node in program.nodes:
            waits = any(v in late for v in node.inputs if v is not None)
            nodes[waits].append(node)
            late.update(node.outputs if waits else ())
        program.nodes = nodes[0] + nodes[1]
        self._later = set(nodes[1])
        plan = plan_memory(program, late=dict.fromkeys(program.inputs[first:], len(nodes[0])))
        super().__init__(program, plan, taps=taps)

    def _bind(self) -> None:
        super()._bind()
        self._first: Calls = self._joined([step for step in self._steps if step.node not in self._later])
        self._second: Calls = self._joined([step for step in self._steps if step.node in self._later])

    def run_first(self, outs: Arrays, arrays: tuple[Array, ...]) -> None:
        """The first part: its inputs, and where its outputs go."""
        self._rebind_where_moved()
        for target, array in zip(self._inputs, arrays, strict=False):
            np.copyto(target, array)
        _make(self._first)
        _copy_all(outs, self._outputs[: self.early])

    def run_second(self, outs: Arrays, arrays: tuple[Array, ...]) -> None:
        """The second part."""
        for target, array in zip(self._inputs[self.first :], arrays, strict=True):
            np.copyto(target, array)
        _make(self._second)
        _copy_all(outs, self._outputs[self.early :])


def _first_reads(program: Program, values: Iterable[Value]) -> dict[int, list[Value]]:
    """By the number of a node: those of the values that it is the first to read."""
    wanted, found = set(values), dict[int, list[Value]]()
    for at, node in enumerate(program.nodes if wanted else ()):
        for value in dict.fromkeys(node.inputs):
            if value in wanted:
                wanted.discard(value)
                found.setdefault(at, []).append(value)
    return found


def _turned(program: Program) -> dict[Value, tuple[int, ...]]:
    """Inputs of which convolutions read a permutation, and nothing else reads anything, with its axes. These want their
    input as it lies and would make a copy of it, with memory of its own: instead the copy that takes the input puts it
    in that order. (Products read any order, with sums in another one: theirs stays, so that they have the same bits.)
    """
    readers: dict[Value, list[Node]] = {}
    for node in program.nodes:
        for value in node.inputs:
            if value is not None:
                readers.setdefault(value, []).append(node)
    found = {}
    for value in program.inputs:
        reader = readers.get(value, [])
        if len(reader) != 1 or not isinstance(op := reader[0].op, PermuteDims) or value in program.outputs:
            continue
        (made,) = reader[0].outputs
        if made not in program.outputs and all(isinstance(node.op, _CONVOLUTIONS) for node in readers.get(made, [])):
            found[value] = tuple(a % len(op.axes) for a in op.axes)
    return found


def _replay(tape: Tape, steps: list[_Step]) -> None:
    """Neighbouring steps on a tape. One that stops at its values is called from Python, which says why.

    No method: an executable that is among its own calls would keep its block until a collection of garbage.
    """
    first, last = steps[0].place, steps[-1].place
    assert first is not None
    assert last is not None
    failed = tape.run(first[0], last[1])
    if failed < 0:
        return
    step = next(s for s in steps if s.place is not None and s.place[0] <= failed < s.place[1])
    step.call()
    raise RuntimeError(f"{step.node.op} stopped on the tape and not from Python")


def _segments(steps: Iterable[_Step]) -> Iterator[list[_Step]]:
    """The steps in runs of about `SEGMENT`."""
    members: list[_Step] = []
    work = 0
    for step in steps:
        members.append(step)
        ins, outs = [None if v is None else v.spec for v in step.node.inputs], [v.spec for v in step.node.outputs]
        work += multiply_adds(step.node.op, ins, outs) + traffic(step.node.op, ins, outs)
        if work > SEGMENT:
            yield members
            members, work = [], 0
    if members:
        yield members


def _make(calls: Calls) -> None:
    """Make the calls; in a thread with a deadline none is begun after it."""
    for call in calls:
        check_time()
        call()


def _copy_all(targets: Arrays, arrays: list[Array | None]) -> None:
    for target, made in zip(targets, arrays, strict=True):
        assert made is not None
        np.copyto(target, made)


def bound(op: Op, outs: Arrays, ins: tuple[Any, ...]) -> Callable[[], object]:
    """A call without arguments that computes `outs` from `ins`."""
    if not op.native_bf16 and any(x is not None and x.dtype == bfloat16 for x in (*ins, *outs)):
        return partial(_through_float32, op, outs, ins)
    if type(op).cpu is Op.cpu and op.view is None:
        return partial(_through_run, op, outs, ins)
    return partial(op.cpu, outs, ins)


def _through_run(op: Op, outs: Arrays, ins: tuple[Any, ...]) -> None:
    """An op that makes its own arrays."""
    for target, made in zip(outs, op.run(ins), strict=True):
        np.copyto(target, made)


def _through_float32(op: Op, outs: Arrays, ins: tuple[Any, ...]) -> None:
    """bfloat16 through a float32 body, as in eager mode: one rounding, at the end."""
    wide = tuple(cast_array(x, float32) if x is not None and x.dtype == bfloat16 else x for x in ins)
    targets = tuple(empty(y.shape, float32) if y.dtype == bfloat16 else y for y in outs)
    op.cpu(targets, wide)
    for y, target in zip(outs, targets, strict=True):
        if y is not target:
            convert(y, target)
