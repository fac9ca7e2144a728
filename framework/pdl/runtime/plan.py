"""Plans: a program made ready for given input shapes, kept while memory allows, run by any number of threads.

Once per model the program is rewritten (`passes.INFERENCE_ONCE`). Once per tuple of input shapes it is specialised,
its weights are packed as the kernels want them at that size, and its memory is planned. All plans of a model, and of
models that run one after the other (`session.in_turns`), run in one block of memory; each thread that runs one at the
same time as another has a block of its own. Weights are shared.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary, WeakSet

import numpy as np

from pdl.dtype import Array
from pdl.errors import ShapeError
from pdl.kernels.copies import copy
from pdl.kernels.memory import empty
from pdl.limits import uncollected
from pdl.program.arena import pages
from pdl.program.executor import Executable
from pdl.program.ir import Node, Program
from pdl.program.memory import plan_memory
from pdl.program.passes import INFERENCE_ONCE, PER_SHAPE, log, run_passes
from pdl.program.passes.pack import PackCache
from pdl.program.passes.taps import TapCache
from pdl.program.specialise import bind, specialise
from pdl.tensor import Tensor

_NOTHING = np.empty(0, np.uint8)
Shapes: TypeAlias = "tuple[tuple[int, ...], ...]"
Timer: TypeAlias = "Callable[[Node, float, float], None]"

#: memory that plans of one model may keep between runs, beside its weights
MEMORY = 256 << 20
#: plans of one model that are kept: of nets for pictures of any size, more would hold more memory than they save time
PLANS = 128
#: bytes of memory for a node of a plan: the objects that stand for it and for its call (tracemalloc, CPython 3.11)
NODE = 2300
#: bytes above which an output comes from the system and goes back to it
LARGE = 4 << 20


class Plan:
    """A program for fixed shapes; `Plans` makes as many executables of it as threads run it at the same time.

    held   numbers of the inputs that stay in memory of the caller's -> whether they may be overwritten
    """

    def __init__(self, program: Program, held: Mapping[int, bool] | None = None) -> None:
        self.program = program
        self.held = {program.inputs[i]: may for i, may in (held or {}).items()}
        self.memory = plan_memory(program, self.held)

    @property
    def nbytes(self) -> int:
        """About the memory that it takes itself: without weights, and without the block that it runs in."""
        return NODE * len(self.program.nodes)

    def bound(self, held: Sequence[Array], block: Array | None = None) -> Executable:
        """An executable on this memory for the inputs that are held, in their order, and in this block, by default one
        of its own."""
        places = dict(zip(self.held, held, strict=True))
        size = self.memory.arena_bytes
        arena = pages(size) if block is None else block[:size]
        return Executable(self.program, self.memory, frozen=True, arena=arena, held=places)


class Lane:
    """Memory of one run at a time, and the executables that are bound to it. As only one of them runs, plans for all
    shapes lie in one block, which is as large as the largest of them needs."""

    def __init__(self) -> None:
        self.block = _NOTHING
        self.bound: WeakKeyDictionary[Plan, Executable] = WeakKeyDictionary()  # of plans that are kept, or run

    def executable(self, plan: Plan) -> Executable:
        """That of a plan; the block grows where it needs more."""
        found = self.bound.get(plan)
        if found is None:
            if plan.memory.arena_bytes > self.block.nbytes:
                self.release()
                self.block = pages(plan.memory.arena_bytes)
            found = self.bound[plan] = plan.bound((), self.block)
        return found

    def release(self) -> None:
        """Let the block go, and what is bound to it."""
        self.bound.clear()
        self.block = _NOTHING


class Lanes:
    """The lanes of one or several models, the tenants: as many as threads ran any of them at the same time."""

    def __init__(self) -> None:
        self._tenants: WeakSet[Plans] = WeakSet()
        self._largest = self._room = 0  # bytes of the block that plans need which are kept, and of all blocks
        self._all: list[Lane] = []
        self._idle: list[Lane] = []  # those that no thread is using, the one used last at the end
        self._lock = threading.Lock()  # held for moments

    def settle(self, tenant: Plans, *, stays: bool = True) -> None:
        """A model is here, has other plans than before, or leaves."""
        with self._lock:
            (self._tenants.add if stays else self._tenants.discard)(tenant)
            self._largest = max((each.largest for each in self._tenants), default=0)
            self._room = sum(each.memory - each.own_bytes for each in self._tenants)
            self._spare()

    @property
    def nbytes(self) -> int:
        """Bytes of all blocks."""
        with self._lock:
            return self._bytes()

    def enter(self) -> Lane:
        """A lane for one run, until `leave`."""
        with self._lock:
            if self._idle:
                return self._idle.pop()
            self._all.append(Lane())
            return self._all[-1]

    def leave(self, lane: Lane) -> None:
        """The run is over."""
        with self._lock:
            self._idle.append(lane)
            self._spare()

    def _spare(self) -> None:
        """Let go blocks that are larger than plans need which are kept, and, until the rest fits, those that only
        threads side by side needed."""
        for lane in self._idle:
            if lane.block.nbytes > self._largest:
                lane.release()
        while len(self._all) > 1 and self._idle and self._bytes() > self._room:
            self._all.remove(self._idle.pop(0))

    def _bytes(self) -> int:
        return sum(lane.block.nbytes for lane in self._all)


def _own(y: Array) -> Array:
    """A copy for the caller; up to some size in memory that is used again, where fresh pages would cost more than the
    copy. Larger ones are not asked of malloc: once it has got back some, it keeps them in its heap, where they leave
    holes.
    """
    made = pages(y.nbytes).view(y.dtype).reshape(y.shape) if y.nbytes > LARGE else empty(y.shape, y.dtype)
    copy(made, y)
    return made


class Plans:
    """``plans(*arrays)`` runs a model on arrays of any shapes that its symbolic sizes allow. Any number of threads may;
    one that needs a new plan makes it while the others go on.

    traced    the program of the model; its captured tensors are constants from now on
    program   what it is rewritten to
    memory    bytes that plans may keep between runs: what several threads needed at once goes when they have left, then
              go the plans used longest ago, and the block shrinks to what the others need. There are never more than
              `PLANS`; the newest stays, whatever its size
    held      numbers of inputs that stay in memory of the caller's, as `Plan` has them; such plans are `bound`, not run
    choosing  how forms of products are chosen: arguments of `PackCache`
    """

    def __init__(
        self, program: Program, *, memory: int = MEMORY, held: Mapping[int, bool] | None = None, **choosing: Any
    ) -> None:
        self.held = held
        self.traced = frozen(program)
        self.program = run_passes(self.traced.copy(), INFERENCE_ONCE)
        self.memory = memory
        self.choosing = choosing
        self.drop_taps, self.pack_weights = TapCache(), PackCache(**choosing)
        self._plans: OrderedDict[Any, Plan] = OrderedDict()
        self.own_bytes = self.largest = 0  # of the plans that are kept: what they take, and the block that they need
        self._lock = threading.Lock()  # held for moments: what is kept
        self._making = threading.Lock()  # held while a plan is made
        self.lanes = Lanes()

    def run_in(self, lanes: Lanes) -> None:
        """Run in these lanes from now on."""
        if lanes is not self.lanes:
            self.lanes.settle(self, stays=False)
            self.lanes = lanes
            lanes.settle(self)

    def __call__(self, arrays: Sequence[Array], timer: Timer | None = None) -> list[Array]:
        """The outputs for these inputs, in the program's order."""
        return self.run(self.plan(tuple([a.shape for a in arrays])), arrays, timer)

    def plan(self, shapes: Shapes) -> Plan:
        """The plan for inputs of these shapes; raises ShapeError where the model does not take them."""
        found = self._kept(shapes)
        if found is not None:
            return found
        with self._making, uncollected():
            return self._kept(shapes) or self._keep(shapes, self._make(shapes))

    def run(self, plan: Plan, arrays: Sequence[Array], timer: Timer | None = None) -> list[Array]:
        """The outputs of a plan for these inputs, as arrays of their own."""
        lanes = self.lanes
        lane = lanes.enter()
        try:
            executable = lane.executable(plan)
            executable.profile = timer
            try:
                return [_own(y) for y in executable(*arrays) if y is not None]
            finally:
                executable.profile = None
        finally:
            lanes.leave(lane)

    @property
    def nbytes(self) -> int:
        """Memory that plans take, without weights, with all of the blocks that they run in."""
        return self.own_bytes + self.lanes.nbytes

    def _kept(self, key: Any) -> Plan | None:
        with self._lock:
            found = self._plans.get(key)
            if found is not None:
                self._plans.move_to_end(key)
            return found

    def _keep(self, key: Any, plan: Plan) -> Plan:
        with self._lock:
            self._plans[key] = plan
            self._evict()
        return plan

    def _make(self, shapes: Shapes) -> Plan:
        sizes = bind(self.program, shapes)
        try:
            program = specialise(self.program, sizes, exact=True)
        except ShapeError:  # what was made of it for most sizes does not hold at these
            program = run_passes(specialise(self.traced, sizes), INFERENCE_ONCE)
        made = Plan(run_passes(program, (*PER_SHAPE, self.drop_taps, self.pack_weights)), self.held)
        log(program, f"{shapes}: {len(program.nodes)} nodes, {made.nbytes} bytes of memory")
        return made

    def _evict(self) -> None:
        """Let go the plans used longest ago until the rest fits, with a block for it; the newest stays."""
        while True:
            self.own_bytes = sum(plan.nbytes for plan in self._plans.values())
            self.largest = max((plan.memory.arena_bytes for plan in self._plans.values()), default=0)
            fits = len(self._plans) <= PLANS and self.own_bytes + self.largest <= self.memory
            if fits or len(self._plans) < 2:
                break
            self._plans.popitem(last=False)
        self.lanes.settle(self)


def frozen(program: Program) -> Program:
    """The program with every captured tensor, parameters too, a constant that shares the tensor's memory."""
    made = program.copy()
    for value in made.captures:
        assert value.tensor is not None
        value.tensor = Tensor._wrap(value.tensor._data)
    return made
