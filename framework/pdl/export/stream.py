"""Nets that are read chunk by chunk, traced into the program of a step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pdl.decoder_state import Carried, Framing
from pdl.dtype import Array, float32, int64
from pdl.errors import UsageError
from pdl.export.symbolic import trace_symbolic
from pdl.nn.module import Module, evaluating
from pdl.nn.streaming import Carry, Streaming
from pdl.ops.base import Spec
from pdl.program import Program
from pdl.program.executor import Executable
from pdl.runtime.streams import Streams
from pdl.tensor import Tensor, no_grad


@dataclass(frozen=True)
class TracedStream:
    """The program of a step, what it keeps, and how it reads; see `pdl.runtime.streams`."""

    step: Program
    kinds: tuple[Carried, ...]
    framing: Framing

    def streams(self, **choosing: Any) -> Streams:
        """What reads chunks."""
        return Streams(self.step, self.kinds, self.framing, **choosing)

    def inputs(self, sequence: Array, most: int | None = None) -> list[list[Array]]:
        """What the step is given for the chunks of a sequence [T, ...], or for as many: a chunk, how many of its frames
        are real, and the states that those before have left."""
        framing = self.framing
        frames = framing.frames(len(sequence))
        end = frames if most is None else min(frames, most * framing.chunk)
        edges = ((framing.before, framing.window), *((0, 0),) * (sequence.ndim - 1))
        there, run = np.pad(np.asarray(sequence, np.float32), edges), Executable(self.step)
        states, made = [np.zeros((1, *kind.shape), kind.dtype) for kind in self.kinds], list[list[Array]]()
        for begin in range(0, end, framing.chunk):
            chunk = np.ascontiguousarray(there[begin * framing.shift :][: framing.window])[None]
            made.append([chunk, np.array([min(framing.chunk, frames - begin)]), *states])
            states = [np.array(y) for y in run(*made[-1])[1:]]
        return made


class _Step(Module):
    """`step` as a module to trace, its states in a row with the other arguments."""

    def __init__(self, net: Streaming) -> None:
        self.net = net

    def forward(self, x: Tensor, counts: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        past = Carry(state)
        y = self.net.step(x, counts, past)
        return (y, *past.made)


def trace_stream(net: Streaming) -> TracedStream:
    """The step of a net for one sequence. UsageError where its states are not those that it began with."""
    with evaluating(net), no_grad():
        kinds, framing = net.kinds(), net.framing
    inputs = {
        "x": Spec((1, framing.window, *net.element), float32),
        "counts": Spec((1,), int64),
        **{f"state.{i}": Spec((1, *kind.shape), kind.dtype) for i, kind in enumerate(kinds)},
    }
    step, _ = trace_symbolic(_Step(net), inputs)
    made = [value.spec for value in step.outputs[1:] if value is not None]
    if made != list(inputs.values())[2:]:
        raise UsageError(f"{type(net).__name__}.step must give a state of the same shape for each that it asks for")
    return TracedStream(step, kinds, framing)
