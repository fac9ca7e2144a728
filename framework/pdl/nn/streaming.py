"""Nets that read a sequence chunk by chunk, without an end, and give what they give for the whole of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from pdl import ops
from pdl.decoder_state import Carried, Framing
from pdl.dtype import DType, float32, int64
from pdl.errors import UsageError
from pdl.nn.module import Module
from pdl.tensor import Tensor

Run: TypeAlias = "Callable[..., tuple[Tensor, ...]]"


class Past:
    """What a net has read before x [N, T, ...], which here is a whole sequence: nothing, so zeros. Layers that look
    back ask for it; so one definition of a net serves whole sequences and chunks (`Carry`)."""

    def extended(self, x: Tensor, steps: int) -> Tensor:
        """x behind its last `steps` steps: [N, steps + T, ...]."""
        return x if not steps else ops.pad(x, ((0, 0), (steps, 0), *((0, 0),) * (x.ndim - 2)))

    def recurrent(self, rows: int, shapes: Sequence[tuple[int, ...]], run: Run) -> Tensor:
        """y of run(*state) = (y, *state), of states [rows, *shape]; each is None in front of a whole sequence."""
        return run(*(None for _ in shapes))[0]

    def queries(self, x: Tensor, size: int) -> Tensor:
        """x as blocks [N blocks, size, ...] of `size` steps each, the last one filled up with zeros."""
        n, steps = x.shape[:2]
        count = (steps + size - 1) // size
        y = ops.pad(x, ((0, 0), (0, count * size - steps), *((0, 0),) * (x.ndim - 2)))
        return y.reshape(n * count, size, *x.shape[2:])

    def blocks(self, x: Tensor, size: int, left: int) -> Tensor:
        """The same, each behind the `left` blocks in front of it: [N blocks, (left + 1) size, ...]."""
        n, steps = x.shape[:2]
        count = (steps + size - 1) // size
        y = ops.pad(x, ((0, 0), (left * size, count * size - steps), *((0, 0),) * (x.ndim - 2)))
        shape = (n, count, size, *x.shape[2:])
        parts = [y[:, i * size : (i + count) * size].reshape(*shape) for i in range(left + 1)]
        return ops.concat(parts, axis=2).reshape(n * count, (left + 1) * size, *x.shape[2:])

    def joined(self, y: Tensor, like: Tensor) -> Tensor:
        """Blocks y [N blocks, size, ...] as one sequence as long as `like` [N, T, ...]."""
        n, steps = like.shape[:2]
        size = y.shape[1]
        return y.reshape(n, (steps + size - 1) // size * size, *y.shape[2:])[:, :steps]


class Carry(Past):
    """What a net carries from chunk to chunk. Its states are asked for in the same order in every chunk, and begin with
    zeros.

    kinds   of the states that were asked for, in this order
    made    the states for the next chunk
    """

    def __init__(self, given: Sequence[Tensor] | None = None) -> None:
        self._given = given
        self.kinds: list[Carried] = []
        self.made: list[Tensor] = []

    def _next(self, rows: int, shape: tuple[int, ...], dtype: DType) -> Tensor:
        self.kinds.append(Carried(shape, dtype))
        number = len(self.kinds) - 1
        return ops.zeros((rows, *shape), dtype=dtype) if self._given is None else self._given[number]

    def extended(self, x: Tensor, steps: int) -> Tensor:
        if not steps:
            return x
        y = ops.concat([self._next(x.shape[0], (steps, *x.shape[2:]), x.dtype), x], axis=1)
        self.made.append(y[:, x.shape[1] :])
        return y

    def recurrent(self, rows: int, shapes: Sequence[tuple[int, ...]], run: Run) -> Tensor:
        y, *states = run(*[self._next(rows, shape, float32) for shape in shapes])
        self.made += states
        return y

    def queries(self, x: Tensor, size: int) -> Tensor:
        """x itself: chunks are whole blocks."""
        return x.reshape(x.shape[0] * (x.shape[1] // size), size, *x.shape[2:])

    def blocks(self, x: Tensor, size: int, left: int) -> Tensor:
        if x.shape[1] == size:
            return self.extended(x, left * size)
        y, count = self.extended(x, left * size), x.shape[1] // size
        parts = [ops.expand_dims(y[:, i * size : (i + left + 1) * size], axis=1) for i in range(count)]
        return ops.concat(parts, axis=1).reshape(x.shape[0] * count, (left + 1) * size, *x.shape[2:])


WHOLE = Past()
"""Of sequences that are whole."""


class Streaming(Module):
    """A net that can be streamed: `forward` reads whole sequences; of a stream one calls, chunk by chunk, `step`.
    `Deployment.stream` takes one, a bundle holds its step as a program with its states, and `Session.stream` runs it.
    """

    @property
    def framing(self) -> Framing:
        """How sequences are cut into chunks."""
        raise UsageError(f"{type(self).__name__} is Streaming and must say by `framing` how it reads a sequence")

    @property
    def element(self) -> tuple[int, ...]:
        """The shape of an element: () of samples."""
        return ()

    def step(self, x: Tensor, counts: Tensor, past: Past) -> Tensor:
        """x [N, window, *element] float32, of whose frames counts [N], int64, are real (less than all in the last chunk
        alone) -> [N, steps, ...], of which as many are real. What it needs of chunks before, it asks of `past`."""
        raise UsageError(f"{type(self).__name__} is Streaming and must define step()")

    def kinds(self) -> tuple[Carried, ...]:
        """What a stream keeps, found by a chunk of zeros."""
        past, framing = Carry(), self.framing
        self.step(ops.zeros((1, framing.window, *self.element)), ops.zeros((1,), dtype=int64), past)
        return tuple(past.kinds)
