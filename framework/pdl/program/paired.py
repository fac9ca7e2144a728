"""A block and its gradient as one program in two parts, for calls from eager code."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence

from pdl.dtype import Array, is_differentiable
from pdl.errors import GradientError
from pdl.kernels.memory import empty
from pdl.ops.base import Arrays
from pdl.program.block import Block
from pdl.program.executor import TwoPart
from pdl.program.passes import FINAL, run_passes
from pdl.tensor import Tensor

_KEPT = 2  # executables of a compiled function that wait for the next call


def paired(block: Block, wanted: tuple[bool, ...], copied: int) -> Paired:
    """The block and its gradient with respect to the `wanted` inputs; `copied` as in `Block.run`."""
    key = (wanted, copied)
    if key not in block.pairs:
        block.pairs[key] = Paired(block, wanted, copied)
    return block.pairs[key]  # type: ignore[no-any-return]


class Paired:
    """A block and its gradient in one program: the gradient finds what it needs where the block left it.

    Every call in flight (its gradient not yet taken, its graph alive) holds one executable with memory of its own.
    """

    def __init__(self, block: Block, wanted: tuple[bool, ...], copied: int) -> None:
        self.block, self.copied = block, copied
        self.given = tuple(is_differentiable(s.dtype) for s in block.specs)
        recorder, xs, gs, _, found = block.differentiated(self.given, wanted)
        program = recorder.program
        program.inputs = [s.value for s in (*gs, *xs)]
        program.outputs = [*program.outputs, *found]
        self.specs = tuple(v.spec for v in found if v is not None)
        self._program, self._gradients = program, len(gs)
        self._lock = threading.RLock()  # a collection inside may drop a call of this very thread
        self._free: list[tuple[TwoPart, list[Tensor]]] = []
        self._running: dict[int, tuple[TwoPart, list[Tensor]]] = {}
        self._count = 0

    def forward(self, outs: Arrays, ins: Sequence[Array]) -> None:
        """The block's outputs; the last of `outs` becomes the number of the call, which lasts as long as that array."""
        executable = self._take(ins)
        executable[0].run_first(outs[:-1], tuple(ins[: self.copied]))
        with self._lock:
            self._count += 1
            number = self._count
            self._running[number] = executable
        outs[-1][...] = number
        weakref.finalize(outs[-1], self._drop, number).atexit = False

    def backward(self, number: int, gs: Sequence[Array], ins: Sequence[Array]) -> Arrays:
        """Gradients of the wanted inputs. A second time for the same call the block runs again."""
        with self._lock:
            executable = self._running.pop(number, None)
        if executable is None:
            if self.block.stateful and any(n.op.stateful and not n.op.effect for n in self.block.program.nodes):
                raise GradientError(
                    "a compiled function that draws random numbers has one gradient per call; call it again"
                )
            executable = self._take(ins)
            outs = tuple(empty(s.shape, s.dtype) for s in self.block.specs)
            executable[0].run_first(outs, tuple(ins[: self.copied]))
        found = tuple(empty(s.shape, s.dtype) for s in self.specs)
        executable[0].run_second(found, tuple(gs))
        self._give_back(executable)
        return found

    def _take(self, ins: Sequence[Array]) -> tuple[TwoPart, list[Tensor]]:
        with self._lock:
            found = self._free.pop() if self._free else None
        if found is None:
            found = self._made(ins)
        for tensor, array in zip(found[1], ins[self.copied :], strict=True):
            tensor._data = array
        return found

    def _made(self, ins: Sequence[Array]) -> tuple[TwoPart, list[Tensor]]:
        program = run_passes(self._program.copy(), FINAL)
        gs, xs = program.inputs[: self._gradients], program.inputs[self._gradients :]
        tensors = [Tensor._wrap(array) for array in ins[self.copied :]]
        program.inputs = [*xs[: self.copied], *gs]
        for value, tensor in zip(xs[self.copied :], tensors, strict=True):
            value.tensor = tensor
            program.captures.append(value)
        return TwoPart(program, self.copied, len(self.block.specs)), tensors

    def _drop(self, number: int) -> None:
        """The graph of a call was freed: its gradient can no longer be requested."""
        with self._lock:
            executable = self._running.pop(number, None)
        if executable is not None:
            self._give_back(executable)

    def _give_back(self, executable: tuple[TwoPart, list[Tensor]]) -> None:
        with self._lock:
            if len(self._free) < _KEPT:
                self._free.append(executable)
