"""A decoder as two programs, `encode` and `step`, whose state stays where it is: the caches of keys and values, and
what was computed of the sources, are bound to the programs, so a step copies a few numbers in and out. What is bound is
kept for later searches of the same sizes: to bind a program takes as long as several of its steps."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from pdl.decoder_state import Kept, KeyValues
from pdl.dtype import Array
from pdl.program import Program
from pdl.program.executor import Executable
from pdl.runtime.decoding.running import Running
from pdl.runtime.plan import Plan, Plans

FIRST = 3
"""Inputs of `step` in front of its state: tokens int64 [rows, T], counts and lengths int64 [rows]. Behind the state it
takes what `encode` made."""
IDLE, IDLE_BYTES = 32, 64 << 20
"""Places that are kept for later searches, and the bytes that they may have."""


class Bound(NamedTuple):
    """A step whose states stay in memory of the caller's: what runs it, and where its new states are and belong.

    mixed   some of them lie where others belong
    """

    run: Executable
    moves: list[tuple[Array, Array]]
    mixed: bool

    @classmethod
    def of(cls, plan: Plan, state: Sequence[Array], others: Sequence[Array] = ()) -> Bound:
        """That of a plan which holds `state` and behind it `others`, and whose outputs are one, and the new states."""
        made = plan.bound([*state, *others])
        moves = [(to, y) for to, y in zip(state, made.outputs[1:], strict=True) if y is not None and y is not to]
        return cls(made, moves, any(np.may_share_memory(y, each) for _, y in moves for each in state))

    def __call__(self, *arrays: Array) -> Array:
        """The first output for the inputs that are not held, valid until the next call. The states are replaced."""
        outputs = self.run(*arrays)
        for target, made in [(to, np.array(y)) for to, y in self.moves] if self.mixed else self.moves:
            np.copyto(target, made)
        return outputs[0]  # type: ignore[return-value]


@dataclass
class _Place:
    """Memory of a search, states and what was made of the sources, and the steps that are bound to it, by tokens at
    once."""

    arrays: list[Array]
    steps: dict[int, Bound] = field(default_factory=dict)

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        return tuple([each.shape for each in self.arrays])

    @property
    def nbytes(self) -> int:
        return sum(each.nbytes for each in self.arrays) + sum(s.run.plan.arena_bytes for s in self.steps.values())


class _Lease:
    """A place while a search uses it; with the last reference to this it is free for another one."""

    def __init__(self, programs: Programs, place: _Place) -> None:
        self.programs, self.place = programs, place

    def __del__(self) -> None:
        self.programs._leave(self.place)


class Programs:
    """A `Decoding` of programs. Any number of threads may search with it.

    encode   (inputs) -> memory, or None where there are no sources
    step     (tokens, counts, lengths, *state, *memory) -> (scores, *state)
    kinds    of its state
    """

    def __init__(self, encode: Program | None, step: Program, kinds: Sequence[Kept], **choosing: Any) -> None:
        self.kinds = tuple(kinds)
        self.encoding = None if encode is None else Plans(encode, **choosing)
        end = FIRST + len(self.kinds)
        held = {i: i < end for i in range(FIRST, len(step.inputs))}
        self.stepping = Plans(step, held=held, **choosing)
        self._idle: list[_Place] = []  # the one used last at the end
        self._lock = threading.RLock()  # a collection of garbage, where leases end, may come while it is held

    def encode(self, inputs: Sequence[Array]) -> tuple[Array, ...]:
        """What is computed once for the sources."""
        return () if self.encoding is None else tuple(self.encoding(inputs))

    def step(self, run: Running, tokens: Array, counts: Array) -> Array:
        """Scores of what follows; valid until the next step. The state of `run` is changed in place."""
        if run.moved:
            run.lease, run.moved = self._take(run), False  # the lease of before ends when its arrays are copied
        place: _Place = run.lease.place
        found = place.steps.get(tokens.shape[1])
        if found is None:
            found = place.steps[tokens.shape[1]] = self._bind(run, tokens)
        return found(tokens, counts, run.lengths)

    def _bind(self, run: Running, tokens: Array) -> Bound:
        held = (*run.state, *run.memory)
        shapes = (tokens.shape, run.lengths.shape, run.lengths.shape, *(each.shape for each in held))
        return Bound.of(self.stepping.plan(shapes), run.state, run.memory)

    # -- places --------------------------------------------------------------------------------------------------------
    def _take(self, run: Running) -> _Lease:
        """A place for a search, to which its state and memory move: one of these sizes that is free, or a new one."""
        given = [*run.state, *run.memory]
        shapes = tuple([each.shape for each in given])
        with self._lock:
            at = next((i for i in reversed(range(len(self._idle))) if self._idle[i].shapes == shapes), None)
            place = None if at is None else self._idle.pop(at)
        if place is None:
            place = _Place([*run.state, *map(np.array, run.memory)])
        else:
            used = int(run.lengths.max(initial=0))
            for i, (own, array) in enumerate(zip(place.arrays, given, strict=True)):
                cache = i < len(self.kinds) and isinstance(self.kinds[i], KeyValues)
                np.copyto(own[:, :used] if cache else own, array[:, :used] if cache else array)
        run.state, run.memory = place.arrays[: len(run.state)], tuple(place.arrays[len(run.state) :])
        return _Lease(self, place)

    def _leave(self, place: _Place) -> None:
        with self._lock:
            self._idle.append(place)
            while len(self._idle) > IDLE or (sum(each.nbytes for each in self._idle) > IDLE_BYTES):
                self._idle.pop(0)
