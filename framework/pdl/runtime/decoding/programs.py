"""A decoder as two programs, `encode` and `step`, whose state stays where it is: the caches of keys and values, and
what was computed of the sources, are bound to the programs, so a step copies a few numbers in and out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pdl.decoder_state import Kept
from pdl.dtype import Array
from pdl.program import Program
from pdl.program.executor import Executable
from pdl.runtime.decoding.running import Running
from pdl.runtime.plan import Plans

FIRST = 3
"""Inputs of `step` in front of its state: tokens int64 [rows, T], counts and lengths int64 [rows]. Behind the state it
takes what `encode` made."""


class _Bound(NamedTuple):
    """A step on the memory of one search: what runs it, and where its new states are and belong.

    mixed   some of them lie where others belong
    """

    run: Executable
    moves: list[tuple[Array, Array]]
    mixed: bool


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

    def encode(self, inputs: Sequence[Array]) -> tuple[Array, ...]:
        """What is computed once for the sources."""
        return () if self.encoding is None else tuple(self.encoding(inputs))

    def step(self, run: Running, tokens: Array, counts: Array) -> Array:
        """Scores of what follows; valid until the next step. The state of `run` is changed in place."""
        found = run.bound.get(tokens.shape[1])
        if found is None:
            found = run.bound[tokens.shape[1]] = self._bind(run, tokens)
        outputs = found.run(tokens, counts, run.lengths)
        for target, made in [(to, np.array(y)) for to, y in found.moves] if found.mixed else found.moves:
            np.copyto(target, made)
        return outputs[0]  # type: ignore[return-value]

    def _bind(self, run: Running, tokens: Array) -> _Bound:
        held = [*run.state, *run.memory]
        shapes = (tokens.shape, run.lengths.shape, run.lengths.shape, *(each.shape for each in held))
        made = self.stepping.plan(shapes).bound(held)
        pairs = zip(run.state, made.outputs[1:], strict=True)
        moves = [(state, y) for state, y in pairs if y is not None and y is not state]
        return _Bound(made, moves, any(np.may_share_memory(y, each) for _, y in moves for each in run.state))
