"""Programs inside programs: the branches of a conditional, the body of a loop, a whole traced function.

A `BranchRecorder` writes a program whose inputs are all that it reads from outside: symbols of the program around it,
parameters and buffers. So gradients reach them, and the program is closed. A `Block` is such a program as an attribute
of an op: immutable, compared by content, with its executables and its gradient.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from pdl import dims
from pdl.dtype import Array, as_dtype, is_differentiable
from pdl.errors import ShapeError, TraceError
from pdl.ops.attributes import JSON_KINDS
from pdl.ops.base import Arrays, Op, Spec, apply
from pdl.ops.sparse import SparseGrad
from pdl.program.executor import Executable
from pdl.program.ir import Program, Value, is_state
from pdl.program.passes import FINAL, FORWARD, run_passes
from pdl.program.specialise import specialise
from pdl.program.tracing import Recorder, Symbol
from pdl.program.verify import verify
from pdl.tensor import Tensor, _Autocast, _Tracing, casting, set_grad_enabled


class BranchRecorder(Recorder):
    """Records a closed program; `sources` are the tensors outside that its inputs stand for, in order.

    outer   the recorder of the program around it; None for a whole function
    loop    the code runs any number of times
    """

    def __init__(self, name: str, outer: Recorder | None = None, *, loop: bool = False) -> None:
        super().__init__(name, outer.names if outer is not None else None)
        self.outer, self.loop = outer, loop
        self.depth: int = getattr(outer, "depth", 0) + 1
        self.sources: list[Tensor] = []
        self.assigned: dict[int, Tensor] = {}  # buffers that are given new values, by id
        self.modules: dict[int, tuple[Any, bool]] = {}  # modules called, with their training flag
        self._entered: dict[Any, Symbol] = {}
        self._own: set[Value] = set()
        if outer is not None:
            self._scopes = list(outer._scopes)
            self.modules = getattr(outer, "modules", self.modules)

    @contextmanager
    def active(self) -> Iterator[BranchRecorder]:
        """Record here; weights that `autocast` has cast outside are cast again: those values are of another program."""
        mode = _Autocast.active
        with super().active(), casting(None if mode is None else type(mode)()):
            yield self

    def scope(self, module: Any) -> Any:
        """Nodes written inside belong to this module."""
        self.modules[id(module)] = (module, module.training)
        return super().scope(module)

    def record(self, op: Op, inputs: tuple[Tensor | None, ...]) -> Any:
        """The outputs of an op as symbols of this program."""
        if op.stateful and not op.effect and self.outer is not None:
            return self._random(op, inputs)
        inside = tuple(None if x is None else self.inside(x) for x in inputs)
        made = super().record(op, inside)
        if made is not None:
            self._own.update(self.program.nodes[-1].outputs)
        return made

    def _random(self, op: Op, inputs: tuple[Tensor | None, ...]) -> Any:
        """Random numbers are drawn before a branch, whichever is taken: its gradient, which runs it again, sees the
        same ones.
        """
        if self.loop or inputs:
            name = type(op).__name__
            raise TraceError(f"{name} draws random numbers inside a loop over tensors; draw them before", self.where())
        assert self.outer is not None
        return self.inside(self.outer.record(op, inputs))

    def inside(self, x: Tensor) -> Tensor:
        """x as a tensor of this program."""
        if isinstance(x, Symbol):
            return x if x.value in self._own else self._enter(x.value, x)
        now = self.now.get(id(x))
        if now is not None:
            return Symbol(now, False)
        return self._enter(id(x), x) if is_state(x) else x

    def _enter(self, key: Any, x: Tensor) -> Symbol:
        found = self._entered.get(key)
        if found is None:
            name = x.value.name if isinstance(x, Symbol) else self.names.get(id(x))
            found = self._entered[key] = self.input(Spec(x.shape, x.dtype), name or f"v{len(self.sources)}")
            self.sources.append(x)
        return found

    def input(self, spec: Spec, name: str, requires_grad: bool = False) -> Symbol:
        """A new input; it may need a gradient if its dtype can have one, because only the caller knows which do."""
        made = super().input(spec, name, is_differentiable(spec.dtype))
        self._own.add(made.value)
        return made

    def value_of(self, x: Tensor) -> Value:
        """The value that stands for a tensor here."""
        here = self.inside(x)
        return here.value if isinstance(here, Symbol) else self.capture(here)

    def assign(self, target: Tensor, value: Tensor) -> None:
        """Remember what a buffer will hold: the caller makes it an output."""
        if self.loop:
            raise TraceError("a buffer is updated inside a loop over tensors", self.where())
        if isinstance(target, Symbol):
            return super().assign(target, value)
        new = self.value_of(value)
        if new.spec != (target.shape, target.dtype):
            raise TraceError(f"assignment of {new.spec} to a buffer {target.shape} {target.dtype}", self.where())
        self.now[id(target)], self.assigned[id(target)] = new, target

    def finish(self, outputs: Iterable[Tensor]) -> Program:
        """The program with these outputs."""
        with self.active():
            self.program.outputs = [self.value_of(x) for x in outputs]
        return self.program


def align(recorders: Sequence[BranchRecorder]) -> list[Tensor]:
    """Give several recorders the same inputs, in the same order; returns the tensors that they stand for."""
    sources: dict[Any, Tensor] = {}
    for recorder in recorders:
        for x in recorder.sources:
            sources.setdefault(x.value if isinstance(x, Symbol) else id(x), x)
    for recorder in recorders:
        given = recorder.program.inputs[: len(recorder.program.inputs) - len(recorder.sources)]
        entered = [recorder._enter(key, x).value for key, x in sources.items()]
        recorder.program.inputs = [*given, *entered]
    return list(sources.values())


class Block:
    """A closed program, cleaned and verified; it keeps the aliases that stop gradients."""

    def __init__(self, program: Program) -> None:
        self.program = run_passes(verify(program), FORWARD)
        self.specs: tuple[Spec, ...] = tuple(v.spec for v in self.program.outputs if v is not None)
        self.stateful = any(n.op.stateful for n in self.program.nodes)
        self.effect = any(n.op.effect for n in self.program.nodes)
        self._executables: dict[int, tuple[Executable, list[Tensor]]] = {}
        self._gradients: dict[Any, Block] = {}
        self.pairs: dict[Any, Any] = {}  # see pdl.program.paired
        self._silent: Block | None = None
        self._at: dict[tuple[int, ...], Block] = {}
        self._sizes = sorted({name for n in _lengths(self.program) for name in n.names})
        self._hash = hash((self.specs, tuple(type(n.op) for n in self.program.nodes)))
        self._json: Any = None

    def check_inputs(self, name: str, ins: Sequence[Spec | None]) -> None:
        """Raise ShapeError unless the inputs are those of the program; `name` is the op's, for the message."""
        takes = tuple(v.spec for v in self.program.inputs)
        if takes != tuple(ins):
            raise ShapeError(f"{name}: {self.program.name} takes {takes}, got {tuple(ins)}")

    # -- running -------------------------------------------------------------------------------------------------------
    def run(self, outs: Arrays, ins: Sequence[Array], *, copied: int) -> None:
        """Compute `outs`. The first `copied` inputs are copied into the program's own memory; the others are read in
        place, which binds the program again whenever their memory is another.
        """
        found = self._executables.get(copied)
        if found is None:
            program, tensors = _with_captures(self.program, copied, ins[copied:])
            found = self._executables[copied] = (Executable(program), tensors)
        executable, bound = found
        with executable._lock:
            for tensor, array in zip(bound, ins[copied:], strict=True):
                tensor._data = array
            executable.run_inside(outs, tuple(ins[:copied]))

    def inline(self, xs: Sequence[Any]) -> list[Tensor]:
        """The outputs for tensors, op by op: eagerly, or into the trace under way."""
        values: dict[Value, Tensor] = dict(zip(self.program.inputs, xs, strict=True))
        values |= {v: v.tensor for v in self.program.captures if v.tensor is not None}
        recorder = _Tracing.recorder
        for node in self.program.nodes:
            with set_grad_enabled(node.differentiable):
                if recorder is not None:
                    recorder._where, outer = node.where, recorder._where
                made = apply(node.op, *[None if v is None else values[v] for v in node.inputs])
                if recorder is not None:
                    recorder._where = outer
            values.update(zip(node.outputs, made if isinstance(made, tuple) else (made,), strict=True))
        return [values[v] for v in self.program.outputs if v is not None]

    def at(self, sizes: Mapping[str, int]) -> Block:
        """The block with numbers for symbolic sizes; itself where it has none."""
        if not self._sizes:
            return self
        key = tuple(sizes.get(name, -1) for name in self._sizes)
        if key not in self._at:
            self._at[key] = Block(specialise(self.program, sizes))
        return self._at[key]

    @property
    def silent(self) -> Block:
        """The same without prints and assertions, for running it again."""
        if not self.effect:
            return self
        if self._silent is None:
            program = self.program.copy()
            for node in program.nodes:
                node.op = node.op.silent()
            program.nodes = [n for n in program.nodes if not n.op.effect]
            self._silent = Block(program)
        return self._silent

    # -- gradients -----------------------------------------------------------------------------------------------------
    def gradient(self, given: tuple[bool, ...], wanted: tuple[bool, ...]) -> Block:
        """(gradients of the `given` outputs..., inputs...) -> gradients of the `wanted` inputs, 0 where none flows.

        It computes the block again.
        """
        key = (given, wanted)
        if key not in self._gradients:
            recorder, xs, gs, _, found = self.silent.differentiated(given, wanted)
            recorder.program.inputs = [s.value for s in (*gs, *xs)]
            recorder.program.outputs = found
            self._gradients[key] = Block(recorder.program)
        return self._gradients[key]

    def differentiated(
        self, given: tuple[bool, ...], wanted: tuple[bool, ...]
    ) -> tuple[Recorder, list[Symbol], list[Symbol], int, list[Value | None]]:
        """A recorder with the block and its gradient: inputs, gradients of outputs, nodes before, gradients found."""
        recorder = Recorder(f"{self.program.name}.gradient")
        with recorder.active(), set_grad_enabled(True), casting(None):
            xs = [
                recorder.input(v.spec, v.name or "x", w and is_differentiable(v.spec.dtype))
                for v, w in zip(self.program.inputs, wanted, strict=True)
            ]
            ys = self.inline(xs)
            recorder.program.outputs = [recorder.value_of(y) for y in ys]
            run_passes(recorder.program, FORWARD)
            cut = len(recorder.program.nodes)
            outs = [Symbol(v, y.requires_grad) for v, y in zip(recorder.program.outputs, ys, strict=True) if v]
            gs = [recorder.input(y.spec, f"g{i}") for i, y in enumerate(recorder.program.outputs) if y and given[i]]
            seeds = iter(gs)
            pairs = [(y, next(seeds)) for y, g in zip(outs, given, strict=True) if g]
            found = recorder.gradient([(y, g) for y, g in pairs if y.requires_grad], [x for x in xs if x.requires_grad])
            learned = [x for x in xs if x.requires_grad]
            grads = [
                _zeros(x) if g is None else g.to_dense() if isinstance(g, SparseGrad) else g
                for g, x in zip(found, learned, strict=True)
            ]
            for node in recorder.program.nodes[cut:]:
                node.differentiable = node.op.differentiable  # a gradient may be differentiated again
            return recorder, xs, gs, cut, [recorder.value_of(g) for g in grads]

    # -- being an attribute --------------------------------------------------------------------------------------------
    def to_json(self) -> dict[str, Any]:
        """The program and its constants, in plain values."""
        if self._json is None:
            for i, value in enumerate(self.program.captures):
                value.name = f"constant{i}"
            constants = {
                v.name: {"dtype": v.spec.dtype.name, "shape": list(v.spec.shape), "values": v.tensor._data.tolist()}
                for v in self.program.captures
                if v.tensor is not None
            }
            self._json = {"program": {**self.program.to_dict(), "constants": constants}}
        return dict(self._json)

    @staticmethod
    def from_json(data: dict[str, Any]) -> Block:
        """The block that `to_json` wrote."""
        constants = {
            name: Tensor(np.asarray(c["values"], as_dtype(c["dtype"])).reshape(c["shape"]))
            for name, c in data["constants"].items()
        }
        return Block(Program.from_dict(data, constants.__getitem__))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Block) and self.to_json() == other.to_json())

    def __repr__(self) -> str:
        return self.program.name


JSON_KINDS["program"] = Block.from_json


def _lengths(program: Program) -> Iterator[dims.Dim]:
    """The symbolic sizes in a program."""
    values = (*program.inputs, *program.captures, *(v for node in program.nodes for v in node.outputs))
    return (n for value in values for n in value.spec.shape if isinstance(n, dims.Dim))


def _zeros(x: Tensor) -> Tensor:
    return Tensor._wrap(np.zeros(x.shape, x.dtype))


def _with_captures(program: Program, copied: int, arrays: Sequence[Array]) -> tuple[Program, list[Tensor]]:
    """The program with all but the first `copied` inputs captured, in tensors whose arrays are set before each run."""
    copy = run_passes(program.copy(), FINAL)
    tensors = [Tensor._wrap(array) for array in arrays]
    for value, tensor in zip(copy.inputs[copied:], tensors, strict=True):
        value.tensor = tensor
    copy.captures = [*copy.captures, *copy.inputs[copied:]]
    copy.inputs = copy.inputs[:copied]
    return copy, tensors
