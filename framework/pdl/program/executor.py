"""Running a program: memory planned once, every op bound to its arrays once, then a list of calls."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from pdl import threads
from pdl.dtype import bfloat16, float32
from pdl.errors import ShapeError
from pdl.kernels.memory import empty
from pdl.ops.base import Arrays, Op, _quiet, cast_array
from pdl.program.ir import Node, Program, Value
from pdl.program.memory import Plan, plan_memory
from pdl.tensor import Array, Tensor

Profile: TypeAlias = "Callable[[Node, float, float], None]"


class Executable:
    """``executable(*arrays)`` runs a program and returns its outputs as arrays (None where the program has none).

    All arrays of the program lie in one block that is kept, so a run allocates nothing; outputs are windows on that
    block and are overwritten by the next run. One thread at a time may run it; others wait.

    profile   called as ``profile(node, begin, end)`` (seconds of `time.perf_counter`) for every node, while it is set
    """

    def __init__(self, program: Program, plan: Plan | None = None) -> None:
        threads.demand_environment()
        self.program = program
        self.plan = plan or plan_memory(program)
        self.profile: Profile | None = None
        self._lock = threading.RLock()
        self._arena = empty((self.plan.arena_bytes,), np.dtype(np.uint8))
        self._bind()

    def __call__(self, *arrays: Array) -> list[Array | None]:
        """One run on these inputs, in the order of the program's."""
        with self._lock:
            self._load(arrays)
            if any(tensor._data is not array for tensor, array in self._bound):
                self._bind()
                self._load(arrays)
            _quiet.run(self._run if self.profile is None else self._run_profiled)
            for target, value in self._effects:
                np.copyto(target, value)
            return self._outputs

    def run_inside(self, outs: Arrays, arrays: tuple[Array, ...]) -> None:
        """One run as the body of an op: results are copied into `outs`; the program has no effects on buffers."""
        with self._lock:
            self._load(arrays)
            if any(tensor._data is not array for tensor, array in self._bound):
                self._bind()
                self._load(arrays)
            self._run()
            _copy_all(outs, self._outputs)

    @property
    def peak_bytes(self) -> int:
        """Memory of a run: the block, and the captured tensors."""
        return self.plan.arena_bytes + sum(v.nbytes for v in self.program.captures)

    # -- binding -------------------------------------------------------------------------------------------------------
    def _bind(self) -> None:
        """Make the array of every value, and the call of every node."""
        arrays: dict[Value, Array] = {}
        self._bound: list[tuple[Tensor, Array]] = []
        for value in self.program.captures:
            assert value.tensor is not None
            arrays[value] = value.tensor._data
            self._bound.append((value.tensor, value.tensor._data))
        for value in self.program.inputs:
            arrays[value] = self._window(value)
        self._calls: list[Callable[[], object]] = []
        self._steps: list[tuple[Node, Callable[[], object]]] = []
        for node in self.program.nodes:
            call = self._bind_node(node, arrays)
            if call is not None:
                self._calls.append(call)
                self._steps.append((node, call))
        self._inputs = [arrays[v] for v in self.program.inputs]
        self._outputs = [None if v is None else arrays[v] for v in self.program.outputs]
        self._effects = [(arrays[buffer], arrays[value]) for buffer, value in self.program.effects]

    def _bind_node(self, node: Node, arrays: dict[Value, Array]) -> Callable[[], object] | None:
        ins = tuple(None if v is None else arrays[v] for v in node.inputs)
        if node.outputs[0] in self.plan.views:
            assert node.op.view is not None
            arrays[node.outputs[0]] = node.op.view(ins[0])
            return None
        for value in node.outputs:
            arrays[value] = self._window(value)
        return bound(node.op, tuple(arrays[v] for v in node.outputs), ins)

    def _window(self, value: Value) -> Array:
        """The value's bytes in the block."""
        at, spec = self.plan.owner[value].offset, value.spec
        return self._arena[at : at + value.nbytes].view(spec.dtype).reshape(spec.shape)

    # -- running -------------------------------------------------------------------------------------------------------
    def _load(self, arrays: tuple[Array, ...]) -> None:
        if len(arrays) != len(self._inputs):
            raise ShapeError(f"program {self.program.name!r} takes {len(self._inputs)} inputs, got {len(arrays)}")
        for target, array, value in zip(self._inputs, arrays, self.program.inputs, strict=True):
            if array.shape != target.shape or array.dtype != target.dtype:
                raise ShapeError(
                    f"program {self.program.name!r}: input {value.name} is {array.dtype} {array.shape}; "
                    f"it was compiled for {target.dtype} {target.shape}"
                )
            np.copyto(target, array)

    def _run(self) -> None:
        for call in self._calls:
            call()

    def _run_profiled(self) -> None:
        clock, profile = time.perf_counter, self.profile
        assert profile is not None
        for node, call in self._steps:
            begin = clock()
            call()
            profile(node, begin, clock())


class TwoPart(Executable):
    """A program that runs in two parts: what needs the first `first` inputs only, then, any time later, the rest.

    The `early` first outputs are known after the first part. What the second part reads stays in place meanwhile.
    """

    def __init__(self, program: Program, first: int, early: int) -> None:
        self.first, self.early = first, early
        late: set[Value] = set(program.inputs[first:])
        nodes: tuple[list[Node], list[Node]] = ([], [])
        for node in program.nodes:
            waits = any(v in late for v in node.inputs if v is not None)
            nodes[waits].append(node)
            late.update(node.outputs if waits else ())
        program.nodes = nodes[0] + nodes[1]
        self._later = set(nodes[1])
        super().__init__(program)

    def _bind(self) -> None:
        super()._bind()
        self._cut = sum(node not in self._later for node, _ in self._steps)

    def run_first(self, outs: Arrays, arrays: tuple[Array, ...]) -> None:
        """The first part: its inputs, and where its outputs go."""
        if any(tensor._data is not array for tensor, array in self._bound):
            self._bind()
        for target, array in zip(self._inputs, arrays, strict=False):
            np.copyto(target, array)
        for call in self._calls[: self._cut]:
            call()
        _copy_all(outs, self._outputs[: self.early])

    def run_second(self, outs: Arrays, arrays: tuple[Array, ...]) -> None:
        """The second part."""
        for target, array in zip(self._inputs[self.first :], arrays, strict=True):
            np.copyto(target, array)
        for call in self._calls[self._cut :]:
            call()
        _copy_all(outs, self._outputs[self.early :])


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
            np.copyto(y, cast_array(target, bfloat16))
