"""Sequences without an end, read chunk by chunk: `Session.stream`.

    stream = session.stream(rate=44_100)
    for piece in pieces:                       # of any length
        for event in stream.push(piece): ...
    for event in stream.finish(): ...

Of a net that can be streamed (`pdl.nn.streaming`) program.json holds, beside the program for whole sequences, the step
that reads a chunk, which shares the weights:

    "stream": {"program": {...}, "state": [{"carried": [64], ...}, ...], "framing": {"size": 400, "shift": 160, ...}}

It takes a chunk [1, window, ...] float32, how many of its frames are real int64 [1], and states [1, ...], and gives
steps [1, ...] and the next states, which are bound to memory of the stream. What is answered does not depend on how the
sequence is cut into pieces, and memory does not grow with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, fields
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.decoder_state import Carried, Framing
from pdl.dtype import Array, float32, int64
from pdl.errors import UsageError
from pdl.ops.base import Spec
from pdl.program import Program
from pdl.program.ir import show_spec
from pdl.runtime.decoding.programs import Bound
from pdl.runtime.decoding.stored import MOST_STATES, kind_from_dict, kind_to_dict, like, one_of
from pdl.runtime.plan import Plans
from pdl.runtime.strict import check, check_keys

if TYPE_CHECKING:
    from pdl.runtime.pipeline import Pipeline
    from pdl.runtime.steps.inputs import Feeder
    from pdl.runtime.steps.outputs import Follower

FIRST = 2  # inputs in front of the states
MOST = 1 << 24  # elements of a chunk
_WHERE = "program.json: stream"
_FRAMING: dict[str, type | tuple[type, ...]] = {each.name: int for each in fields(Framing)}
_PARTS: dict[str, type | tuple[type, ...]] = {"program": dict, "state": list, "framing": dict}


class Streams:
    """What reads chunks: the program of a step, the states that it keeps, and how chunks lie in a sequence. Any number
    of streams may read at the same time."""

    def __init__(self, program: Program, kinds: Sequence[Carried], framing: Framing, **choosing: Any) -> None:
        self.kinds, self.framing = tuple(kinds), framing
        self.shape = tuple(program.inputs[0].spec.shape)  # of a chunk
        held = {FIRST + i: True for i in range(len(self.kinds))}
        self.plans = Plans(program, held=held, **choosing)

    def begin(self) -> Bound:
        """The step for a new stream, with states of its own."""
        state = [np.zeros((1, *kind.shape), kind.dtype) for kind in self.kinds]
        shapes = (self.shape, (1,), *(each.shape for each in state))
        return Bound.of(self.plans.plan(shapes), state)


class Stream:
    """One sequence that is being read. Events are plain values, see `PostStep.follower`; of a model without steps for
    its output they are its steps, float32 [steps, ...].

    limits    what holds a run to the limits of its session
    """

    def __init__(
        self,
        streams: Streams,
        pipeline: Pipeline | None = None,
        *,
        limits: Callable[[], AbstractContextManager[Any]] = nullcontext,
        **options: Any,
    ) -> None:
        self.framing = streams.framing
        self._limits = limits
        self._element = streams.shape[2:]
        with limits():
            self._step = streams.begin()
        steps = (None, None) if pipeline is None else pipeline.following(**options)
        self._feed: Feeder | None = steps[0]
        self._follow: Follower | None = steps[1]
        if pipeline is None and options:
            raise UsageError(f"a model without a pipeline takes no {', '.join(options)}: push arrays of its own")
        self._kept: Array = np.zeros((self.framing.before, *self._element), np.float32)
        self._taken = self._frames = 0
        self._ended = False

    def push(self, piece: Any) -> list[Any]:
        """Read the next piece, of any length; the events of what is known now."""
        if self._ended:
            raise UsageError("this stream has ended: begin another one with session.stream()")
        return self._read(np.asarray(piece) if self._feed is None else self._feed.feed(piece))

    def finish(self) -> list[Any]:
        """The events of the end, at which the stream is closed."""
        found = self.push(np.zeros((0, *self._element), np.float32)) if self._feed is None else (
            [] if self._ended else self._read(self._feed.flush())
        )  # fmt: skip
        self._ended = True
        framing = self.framing
        rest = framing.frames(self._taken) - self._frames
        while rest > 0:
            there = self._kept[: framing.window]
            chunk = np.zeros((framing.window, *self._element), np.float32)
            chunk[: len(there)] = there
            found += self._run(chunk, min(rest, framing.chunk))
            self._kept = self._kept[framing.chunk * framing.shift :]
            rest -= framing.chunk
        return found + ([] if self._follow is None else self._follow.finish(self._taken))

    def _read(self, array: Array) -> list[Any]:
        if array.ndim != 1 + len(self._element) or array.shape[1:] != self._element:
            raise UsageError(f"a stream of this model takes pieces {['T', *self._element]}, got {array.shape}")
        self._taken += len(array)
        self._kept = np.concatenate([self._kept, array.astype(np.float32, copy=False)])
        found: list[Any] = []
        window, step, at = self.framing.window, self.framing.chunk * self.framing.shift, 0
        while len(self._kept) - at >= window:
            found += self._run(self._kept[at : at + window], self.framing.chunk)
            at += step
        self._kept = self._kept[at:].copy() if at else self._kept
        return found

    def _run(self, chunk: Array, frames: int) -> list[Any]:
        """The events of a chunk, of which so many frames are real."""
        with self._limits():
            made = self._step(np.ascontiguousarray(chunk)[None], np.array([frames]))
        self._frames += frames
        steps = np.array(made[0, : self.framing.steps(frames)])
        return [steps] if self._follow is None else self._follow.feed(steps)


# -- in bundles --------------------------------------------------------------------------------------------------------
def to_dict(program: Mapping[str, Any], kinds: Sequence[Carried], framing: Framing) -> dict[str, Any]:
    """What program.json says of a stream whose step is this program as plain values."""
    return {"program": dict(program), "state": [kind_to_dict(kind) for kind in kinds], "framing": asdict(framing)}


def read(stored: Any, weights: Mapping[str, Array], source: str) -> tuple[Program, tuple[Carried, ...], Framing]:
    """The step, what it keeps and how it reads, verified and held to each other; DataError where anything is wrong."""
    check_keys(stored, _PARTS, source, _WHERE)
    check_keys(stored["framing"], _FRAMING, source, f"{_WHERE}: framing")
    framing = Framing(**stored["framing"])
    sizes = (framing.size, framing.shift, framing.chunk, framing.stride)
    good = all(1 <= n <= MOST for n in sizes) and framing.window <= MOST and framing.chunk % framing.stride == 0
    good = good and 0 <= framing.before <= MOST and 0 <= framing.after <= MOST
    check(good, source, f"{_WHERE}: framing", f"{framing}")
    check(len(stored["state"]) <= MOST_STATES, source, _WHERE, f"{len(stored['state'])} states, limit {MOST_STATES}")
    kinds = []
    for each in stored["state"]:
        kind = kind_from_dict(each, source)
        check(isinstance(kind, Carried) and kind.memory is None, source, _WHERE, "a state that does not begin with 0")
        kinds.append(kind)
    program = one_of(stored["program"], weights, source)
    given = [v.spec for v in program.inputs]
    made = [v.spec for v in program.outputs if v is not None]
    states = [Spec((1, *kind.shape), kind.dtype) for kind in kinds]  # type: ignore[union-attr]
    check(len(given) == FIRST + len(states) and len(made) == 1 + len(states), source, _WHERE, f"{len(given)} inputs")
    element = given[0].shape[2:]
    good = all(type(n) is int for n in element) and prod(element) * max(framing.window, framing.before) <= MOST
    check(good, source, f"{_WHERE}: framing", f"chunks of more than {MOST:,} numbers: {framing} of elements {element}")
    wanted = [Spec((1, framing.window, *element), float32), Spec((1,), int64), *states]
    for spec, expected in zip([*given, *made[1:]], [*wanted, *states], strict=True):
        check(like(spec, expected), source, _WHERE, f"has {show_spec(spec)}, expected {show_spec(expected)}")
    steps = (1, framing.steps(framing.chunk))
    check(made[0].shape[:2] == steps and made[0].dtype == float32, source, _WHERE, f"gives {show_spec(made[0])}")
    return program, tuple(kinds), framing  # type: ignore[arg-type]


def run_whole(stream: Stream, item: Array, pieces: Sequence[int]) -> list[Any]:
    """All events of a sequence, cut in pieces of these lengths, again and again."""
    found, at, turn = list[Any](), 0, 0
    while at < len(item):
        size = max(1, pieces[turn % len(pieces)])
        found += stream.push(item[at : at + size])
        at, turn = at + size, turn + 1
    return found + stream.finish()
