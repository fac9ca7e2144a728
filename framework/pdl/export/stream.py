"""Nets that are read chunk by chunk, traced into the program of a step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pdl.decoder_state import Carried, Framing
from pdl.dtype import float32, int64
from pdl.errors import UsageError
from pdl.export.symbolic import trace_symbolic
from pdl.nn.module import Module, evaluating
from pdl.nn.streaming import Carry, Streaming
from pdl.ops.base import Spec
from pdl.program import Program
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
