"""A training step as a program: forward, loss and gradients, traced once for every shape of batch."""

from __future__ import annotations

import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from functools import cached_property, partial
from typing import Any, Protocol, TypeAlias

import numpy as np

from pdl.autograd.anomaly import begins_trace
from pdl.dtype import Array
from pdl.errors import GradientError, TraceError
from pdl.ops.sparse import SparseGrad
from pdl.program.arena import Arena
from pdl.program.executor import Executable, Tap
from pdl.program.feeding import Feed
from pdl.program.ir import Program, Value
from pdl.program.passes import FINAL, FORWARD, run_passes
from pdl.program.tracing import Recorder, Symbol, as_output, module_names, symbols
from pdl.program.tree import leaves, rebuild, structure
from pdl.program.verify import verify
from pdl.tensor import Tensor, as_tensor, no_grad

_SPARSE = 2  # arrays of a sparse gradient
_PATIENCE = 3  # traces that fail before all steps are eager


class Receiver(Protocol):
    """Takes the gradients of compiled steps as each is computed, in place of the parameters' `grad`."""

    def begin(self, result: Any, parameters: list[Tensor]) -> None:
        """The forward part has given `result`; gradients of these parameters follow."""

    def take(self, parameter: Tensor, gradient: Tensor) -> None:
        """The gradient of one of them; dense ones come in the order of the backward part, and are windows on memory
        that is soon overwritten."""


class Feeder(Protocol):
    """Gives programs the weights that are not there between their uses."""

    def prepare(self, program: Program) -> None:
        """Change ops of a forward part, before gradients are taken."""

    def feeds(self, program: Program) -> dict[Value, Feed]:
        """Make inputs of captured weights; what writes each of them, see `Executable`."""


#: what was traced, and what it returned -> the same of a program that is run in its place
Rewrite: TypeAlias = "Callable[[Recorder, Any], tuple[Recorder, Any]]"


class CompiledStep:
    """``step(*args)`` is ``function(*args)`` followed by `backward()` of its loss: same result, same numbers, same
    gradients in the parameters' `grad`, from a program that is planned once per shape and then allocates nothing.

    function   returns a scalar tensor, or an object whose `value` is one (`pdl.train.Loss`); its arguments are trees of
               arrays, tensors and plain values
    module     whose parameters get gradients; a change of its `training` flags, or of their `requires_grad` or dtype,
               compiles anew
    capacity   programs kept, the latest used, all in one block of memory; where more were made and most calls needed a
               new one, it gives up and stays in eager mode
    notify     called with one line where it does, or where code cannot be traced: such steps run in eager mode
    receiver   gets the gradients of compiled steps while they run
    feeder     gives them weights while they run

    Tensors in the result and gradients are windows on the program's memory: the next call overwrites them.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        module: Any,
        *,
        capacity: int = 32,
        notify: Callable[[str], None] | None = None,
        name: str = "step",
        receiver: Receiver | None = None,
        feeder: Feeder | None = None,
    ) -> None:
        self.function, self.module, self.capacity, self.notify, self.name = function, module, capacity, notify, name
        self.receiver, self.feeder = receiver, feeder
        self.programs: OrderedDict[Any, StepProgram | None] = OrderedDict()
        self.arena = Arena()
        self.stopped: TraceError | None = None  # why the latest batch could not be traced
        self.hits = self.misses = self.failures = 0
        self._modules = list(module.modules())
        self._parameters = list(module.parameters())

    def __call__(self, *args: Any) -> Any:
        """The result of the step, with gradients stored in the parameters."""
        made = self.program_for(*args)
        return self.eager(*args) if made is None else made(*args)

    def eager(self, *args: Any) -> Any:
        """The step without a program."""
        for parameter in self._parameters:
            parameter.grad = None
        result = self.function(*args)
        loss_of(result).backward()
        return result

    def program_for(self, *args: Any) -> StepProgram | None:
        """The compiled program for such arguments; None where their code cannot be traced."""
        if self.failures >= _PATIENCE:
            return None
        state = [m.training for m in self._modules]
        for p in self._parameters:
            state += [p._requires_grad, p._data.dtype]
        key = (structure(args), *state)
        if key in self.programs:
            self.hits += 1
            self.programs.move_to_end(key)
            return self.programs[key]
        self.misses += 1
        if self.misses > self.capacity and self.hits < self.misses:
            self._give_up(f"{self.misses} shapes of batches so far, too many to compile a program for each")
            return None
        made: StepProgram | None = None
        try:
            made = self.made(args)
        except TraceError as error:
            self._untraced(error)
        self.programs[key] = made
        while len(self.programs) > self.capacity:
            self.programs.popitem(last=False)
        return made

    def made(self, args: Any) -> StepProgram:
        """The program for such arguments, planned."""
        return StepProgram(
            self.function, self.module, args, self.name, receiver=self.receiver, feeder=self.feeder, arena=self.arena
        )

    def _untraced(self, error: TraceError) -> None:
        """Say once for each place why it is eager; after a few failures stop trying."""
        if self.notify is not None and (self.stopped is None or self.stopped.where != error.where):
            self.notify(f"running in eager mode, {error.where} cannot be compiled: {error.reason}")
        self.stopped = error
        self.failures += 1

    def _give_up(self, why: str) -> None:
        self.failures = _PATIENCE
        self.programs.clear()
        if self.notify is not None:
            self.notify(f"running in eager mode: {why}")

    @property
    def peak_bytes(self) -> int | None:
        """Planned memory of the largest program: its block and the tensors it reads; None before the first one."""
        return max((p.executable.peak_bytes for p in self.programs.values() if p is not None), default=None)


class CompiledForward(CompiledStep):
    """``forward(*args)`` is ``function(*args)`` without gradients, from a program as `CompiledStep` makes it: for
    functions that are evaluated again and again while the parameters of `module` change."""

    def eager(self, *args: Any) -> Any:
        """The function without a program."""
        with no_grad():
            return self.function(*args)

    def made(self, args: Any) -> StepProgram:
        """The program for such arguments, planned."""
        return StepProgram(self.function, self.module, args, self.name, gradients=False, arena=self.arena)


class StepProgram:
    """One traced and planned step; see `CompiledStep`. Without `gradients` it leaves those of the parameters alone.
    `rewrite` makes another program and result of what was traced, before gradients are taken. Programs in the same
    `arena` overwrite each other's results."""

    @begins_trace
    def __init__(
        self,
        function: Callable[..., Any],
        module: Any,
        args: Any,
        name: str,
        *,
        gradients: bool = True,
        receiver: Receiver | None = None,
        feeder: Feeder | None = None,
        rewrite: Rewrite | None = None,
        arena: Arena | None = None,
    ) -> None:
        recorder = Recorder(name, module_names(module))
        self.learned: list[tuple[Tensor, int]] = []
        with recorder.active(), nullcontext() if gradients else no_grad():
            inputs = symbols(recorder, args, "batch")
            self.result = function(*inputs)
        if rewrite is not None:
            recorder, self.result = rewrite(recorder, self.result)
        if feeder is not None:
            feeder.prepare(recorder.program)
        with recorder.active(), nullcontext() if gradients else no_grad():
            found = [as_output(x) for x in leaves(self.result)]
            if gradients:
                self.learned, program = append_gradients(recorder, loss_of(self.result), found, module.parameters())
            else:
                program = recorder.program
                program.outputs = [recorder.value_of(x) for x in found]
                run_passes(verify(program), FORWARD)
        self.frozen = [p for p in module.parameters() if gradients and not p.requires_grad]
        self.program = run_passes(program, FINAL)
        self.receiver, self.results, self._begun = receiver, len(found), False
        feeds = feeder.feeds(self.program) if feeder is not None else {}
        taps = self._tapped() if receiver is not None else {}
        self.executable = Executable(self.program, taps=taps, feeds=feeds, arena=arena)

    def __call__(self, *args: Any) -> Any:
        """The result of the step, with gradients stored in the parameters, or received."""
        self._begun = False
        outs = self.executable(*[as_tensor(x)._data for x in leaves(args)])
        for parameter in self.frozen:
            parameter.grad = None
        values = iter(outs[self.results :])
        for parameter, form in self.learned:
            parts = [Tensor._wrap(next(values)) for _ in range(form)]  # type: ignore[arg-type]
            gradient = SparseGrad(parameter.shape, *parts) if form == _SPARSE else parts[0] if parts else None
            if self.receiver is None:
                parameter.grad = gradient
            elif gradient is not None:
                self._receive(parameter, gradient)
        return self._result()

    @cached_property
    def order(self) -> int:
        """The same number, not 0, for programs whose ops come in the same order."""
        return zlib.crc32(" ".join(type(node.op).__name__ for node in self.program.nodes).encode()) or 1

    def _result(self) -> Any:
        """What the function returned, with the numbers of this run."""
        values = iter(self.executable.outputs)
        return rebuild(self.result, lambda _: Tensor._wrap(next(values)))  # type: ignore[arg-type]

    def _tapped(self) -> dict[Value, Tap]:
        """Hand the dense gradients over from inside the program: they are outputs of it no more, and what is left in
        `learned` is received after it."""
        outputs, self.program.outputs = self.program.outputs, self.program.outputs[: self.results]
        self.receives = [parameter for parameter, form in self.learned if form]
        targets: dict[Value, list[Tensor]] = {}
        left, values = [], iter(outputs[self.results :])
        for parameter, form in self.learned:
            parts = [next(values) for _ in range(form)]
            if form == 1 and parts[0] is not None and parts[0].node is not None:
                targets.setdefault(parts[0], []).append(parameter)
            elif parts:
                left.append((parameter, form))
                self.program.outputs += parts
        self.learned = left
        return {value: partial(self._tap, parameters) for value, parameters in targets.items()}

    def _tap(self, parameters: list[Tensor], array: Array) -> None:
        for parameter in parameters:
            self._receive(parameter, Tensor._wrap(array))

    def _receive(self, parameter: Tensor, gradient: Tensor) -> None:
        assert self.receiver is not None
        if not self._begun:
            self._begun = True
            self.receiver.begin(self._result(), self.receives)
        self.receiver.take(parameter, gradient)


def append_gradients(
    recorder: Recorder, loss: Tensor, results: list[Tensor], parameters: Iterable[Tensor]
) -> tuple[list[tuple[Tensor, int]], Program]:
    """Fuse the forward part, append the gradient of the loss.

    The outputs become the results, then the gradients of the returned parameters, each in so many arrays: none, one, or
    the rows and values of a sparse one.
    """
    program = recorder.program
    if not isinstance(loss, Symbol) or not loss.requires_grad:
        raise GradientError("the loss depends on no parameter that requires a gradient")
    at = next(i for i, x in enumerate(results) if x is loss)
    program.outputs = [recorder.value_of(x) for x in results]
    run_passes(verify(program), FORWARD)
    left = set(program.captures)  # a constant that went with a dead node is captured anew where a gradient needs it
    recorder.captured = {key: value for key, value in recorder.captured.items() if value in left}
    out = program.outputs[at]
    assert out is not None
    wanted = [p for p in parameters if p.requires_grad]
    seed = Tensor._wrap(np.ones(out.spec.shape, out.spec.dtype))
    learned = []
    for parameter, g in zip(wanted, recorder.gradient([(Symbol(out, True), seed)], wanted), strict=True):
        parts = [] if g is None else [g.rows, g.values] if isinstance(g, SparseGrad) else [g]
        program.outputs += [recorder.value_of(part) for part in parts]
        learned.append((parameter, len(parts)))
    return learned, program


def loss_of(result: Any) -> Tensor:
    """The scalar that a step's result stands for."""
    loss = result if isinstance(result, Tensor) else getattr(result, "value", None)
    if not isinstance(loss, Tensor):
        raise GradientError(f"a training step must return a loss tensor, or an object with one as `value`: {result!r}")
    return loss
