"""Plans: a program made ready for given input shapes, kept while memory allows, run by any number of threads.

Once per model the program is rewritten (`passes.INFERENCE_ONCE`). Once per tuple of input shapes it is specialised,
its weights are packed as the kernels want them at that size, and its memory is planned. Each thread that runs a plan
at the same time as another has a block of memory of its own; weights are shared by all.
"""

from __future__ import annotations

import mmap
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import numpy as np

from pdl.dtype import Array
from pdl.errors import MemoryLimitError, ShapeError
from pdl.kernels.copies import copy
from pdl.kernels.memory import empty
from pdl.limits import uncollected
from pdl.ops.packed import HUGE
from pdl.program.executor import Executable
from pdl.program.ir import Node, Program
from pdl.program.memory import plan_memory
from pdl.program.passes import INFERENCE_ONCE, PER_SHAPE, log, run_passes
from pdl.program.passes.pack import PackCache
from pdl.program.passes.taps import TapCache
from pdl.program.specialise import bind, specialise
from pdl.tensor import Tensor

Shapes: TypeAlias = "tuple[tuple[int, ...], ...]"
Timer: TypeAlias = "Callable[[Node, float, float], None]"

#: memory that plans of one model may keep between runs, beside its weights
MEMORY = 256 << 20
#: bytes below which a plan's block comes from pdl's allocator: less than a page a piece would be waste
SMALL = 16 << 10
#: bytes above which an output comes from the system and goes back to it
LARGE = 4 << 20


class Plan:
    """A program for fixed shapes; `Plans` makes as many executables of it as threads run it at the same time.

    held   numbers of the inputs that stay in memory of the caller's -> whether they may be overwritten
    free   executables that no thread is running
    made   of those that there are
    """

    def __init__(self, program: Program, held: Mapping[int, bool] | None = None) -> None:
        self.program = program
        self.held = {program.inputs[i]: may for i, may in (held or {}).items()}
        self.memory = plan_memory(program, self.held)
        self.free: list[Executable] = []
        self.made = 0

    @property
    def nbytes(self) -> int:
        """Memory of all its executables (of one, before it has run), without weights."""
        return max(1, self.made) * self.memory.arena_bytes

    def executable(self) -> Executable:
        """A new one, with memory of its own."""
        return self.bound(())

    def bound(self, held: Sequence[Array]) -> Executable:
        """A new one on this memory for the inputs that are held, in their order."""
        places = dict(zip(self.held, held, strict=True))
        return Executable(self.program, self.memory, frozen=True, arena=pages(self.memory.arena_bytes), held=places)


def pages(nbytes: int) -> Array:
    """Memory straight from the operating system, uint8 [nbytes], which gets it back when the array goes.

    Blocks of plans have any size; in an allocator's free list those of forgotten plans would pile up.
    """
    if nbytes < SMALL:
        return empty((nbytes,), np.dtype(np.uint8))
    try:
        if nbytes < HUGE or not hasattr(mmap, "MADV_HUGEPAGE"):
            return np.frombuffer(mmap.mmap(-1, nbytes), np.uint8)
        room = -(-nbytes // HUGE) * HUGE + HUGE  # whole pages, wherever the first one begins
        taken = mmap.mmap(-1, room, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)  # shared memory has small pages alone
        with suppress(OSError):  # a kernel without huge pages
            taken.madvise(mmap.MADV_HUGEPAGE)
        found = np.frombuffer(taken, np.uint8)
        begin = -found.ctypes.data % HUGE
        return found[begin : begin + nbytes]
    except (OSError, ValueError, OverflowError) as error:
        raise MemoryLimitError(
            f"a run needs {nbytes / 2**30:.3g} GiB, which this machine does not give ({error}); "
            "give it fewer or smaller inputs"
        ) from None


def _own(y: Array) -> Array:
    """A copy for the caller; up to some size in memory that is used again, where fresh pages would cost more than the
    copy.
    """
    if y.nbytes > LARGE:
        return np.array(y)
    made = empty(y.shape, y.dtype)
    copy(made, y)
    return made


class Plans:
    """``plans(*arrays)`` runs a model on arrays of any shapes that its symbolic sizes allow. Any number of threads may;
    one that needs a new plan makes it while the others go on.

    traced    the program of the model; its captured tensors are constants from now on
    program   what it is rewritten to
    memory    bytes that plans may keep between runs: those of the least recently used go first, and what several
              threads needed at once goes when they have left
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
        self.nbytes = 0  # of all plans that are kept
        self.choosing = choosing
        self.drop_taps, self.pack_weights = TapCache(), PackCache(**choosing)
        self._plans: OrderedDict[Any, Plan] = OrderedDict()
        self._lock = threading.Lock()  # held for moments: what is kept, what is free
        self._making = threading.Lock()  # held while a plan is made

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
        executable = self._take(plan)
        try:
            executable.profile = timer
            return [_own(y) for y in executable(*arrays) if y is not None]
        finally:
            executable.profile = None
            with self._lock:
                plan.free.append(executable)
                if plan.made > 1:
                    self._evict()

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

    def _take(self, plan: Plan) -> Executable:
        with self._lock:
            if plan.free:
                return plan.free.pop()
            plan.made += 1
        try:
            return plan.executable()
        except BaseException:
            with self._lock:
                plan.made -= 1
            raise

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
        """Until the rest fits, let go what only threads side by side needed, then the plans used longest ago; of the
        newest one executable stays, whatever its size."""
        self.nbytes = sum(plan.nbytes for plan in self._plans.values())
        for plan in self._plans.values():
            while self.nbytes > self.memory and plan.made > 1 and plan.free:
                plan.free.pop()
                plan.made -= 1
                self.nbytes -= plan.memory.arena_bytes
        while self.nbytes > self.memory and len(self._plans) > 1:
            _, gone = self._plans.popitem(last=False)
            self.nbytes -= gone.nbytes


def frozen(program: Program) -> Program:
    """The program with every captured tensor, parameters too, a constant that shares the tensor's memory."""
    made = program.copy()
    for value in made.captures:
        assert value.tensor is not None
        value.tensor = Tensor._wrap(value.tensor._data)
    return made
