"""Nets that write token by token, as a search takes them: run eagerly, or traced into the two programs of a bundle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pdl.decoder_state import Kept, KeyValues
from pdl.dims import Dim
from pdl.dtype import Array, int64
from pdl.errors import UsageError
from pdl.export.symbolic import trace_symbolic
from pdl.nn.decoder import Decoder
from pdl.nn.module import Module, evaluating
from pdl.ops.base import Spec
from pdl.ops.cached import overwriting_caches
from pdl.program import Program
from pdl.runtime.decoding.programs import Programs
from pdl.runtime.decoding.running import Running
from pdl.tensor import Tensor, as_tensor, no_grad

#: names of sizes of `step`: hypotheses of a source, tokens at once, positions that there is room for
BEAMS, STEPS, ROOM = "beams", "steps", "room"


class Eager:
    """A `pdl.runtime.decoding.Decoding` of a net, run op by op in evaluation mode."""

    def __init__(self, net: Decoder) -> None:
        self.net = net
        self.kinds: tuple[Kept, ...] = net.kinds()

    def encode(self, inputs: Sequence[Array]) -> tuple[Array, ...]:
        """What is computed once for the sources."""
        with evaluating(self.net), no_grad():
            return tuple(y.numpy() for y in self.net.encode(*map(as_tensor, inputs)))

    def step(self, run: Running, tokens: Array, counts: Array) -> Array:
        """Scores of what follows; the state of `run` is replaced, its caches are written into."""
        with evaluating(self.net), no_grad(), overwriting_caches():
            given = (Tensor(np.array(x)) for x in (tokens, counts, run.lengths))
            arguments = (*given, tuple(map(Tensor, run.state)), *map(Tensor, run.memory))
            scores, made = self.net.step(*arguments)  # type: ignore[arg-type]
        run.state = [y.numpy() for y in made]
        return scores.numpy()


class _Encode(Module):
    """`encode` as a module to trace."""

    def __init__(self, net: Decoder) -> None:
        self.net = net

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        return tuple(self.net.encode(*inputs))


class _Step(Module):
    """`step` as a module to trace, its state in a row with the other arguments."""

    def __init__(self, net: Decoder) -> None:
        self.net, self.states = net, len(net.kinds())

    def forward(self, tokens: Tensor, counts: Tensor, lengths: Tensor, *others: Tensor) -> tuple[Tensor, ...]:
        scores, state = self.net.step(tokens, counts, lengths, others[: self.states], *others[self.states :])
        return (scores, *state)


@dataclass(frozen=True)
class Traced:
    """The programs of a decoder; `notes` as `trace_symbolic` gives them."""

    encode: Program | None
    step: Program
    kinds: tuple[Kept, ...]
    notes: list[str] = field(default_factory=list)

    def decoding(self, **choosing: Any) -> Programs:
        """What a search takes."""
        return Programs(self.encode, self.step, self.kinds, **choosing)


def trace_decoder(net: Decoder, inputs: Mapping[str, Spec]) -> Traced:
    """The programs of a net whose `encode` takes these inputs; their sizes that are `Dim` symbols stay symbolic, and so
    do rows, steps and room.

    Inputs have sources along axis 0. `step` has a row for each hypothesis of each source, for any number of both.
    UsageError where its code takes a fixed number of rows, of tokens at once or of positions alone.
    """
    kinds = net.kinds()
    encode: Program | None = None
    notes: list[str] = []
    memory: list[Spec] = []
    if inputs:
        encode, notes = trace_symbolic(_Encode(net), inputs)
        memory = [v.spec for v in encode.outputs if v is not None]
    step, more = trace_symbolic(_Step(net), step_inputs(kinds, memory))
    for note in more:
        name = note.split()[1]
        if name in (BEAMS, STEPS, ROOM) or (name == "n" and not memory):
            hint = "; positions are pdl.nn.decoder.positions(tokens, lengths)" if name == STEPS else ""
            raise UsageError(f"{type(net).__name__}.step must take any number of {name}, but {note}{hint}")
    return Traced(encode, step, kinds, notes + more)


def step_inputs(kinds: Sequence[Kept], memory: Sequence[Spec]) -> dict[str, Spec]:
    """The inputs of `step` by name, with symbolic sizes."""
    rows = memory[0].shape[0] * Dim.symbol(BEAMS, 2) if memory else Dim.symbol("n", 4)
    steps, room = Dim.symbol(STEPS, 3), Dim.symbol(ROOM, 8)
    found = {"tokens": Spec((rows, steps), int64), "counts": Spec((rows,), int64), "lengths": Spec((rows,), int64)}
    for i, kind in enumerate(kinds):
        if isinstance(kind, KeyValues):
            spec = Spec((rows, room, kind.width), kind.dtype)
        elif kind.memory is None:
            spec = Spec((rows, *kind.shape), kind.dtype)
        else:
            first = memory[kind.memory]
            spec = Spec((rows, *first.shape[1:]), first.dtype)
        found[f"state.{i}"] = spec
    return found | {f"memory.{i}": spec for i, spec in enumerate(memory)}
